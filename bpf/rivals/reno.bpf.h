/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For ports of Linux's own laws: the Reno that the modules are built of, and the tick that they
 * count time in. The kernel's functions, not copies: what a newer kernel's Reno does otherwise, a
 * port does too. On the host tests/algorithms/host/fake/rivals has a model of them instead.
 */
#ifndef RENO_BPF_H
#define RENO_BPF_H

struct sock { /* whole: libbpf holds a pointer to a mere declaration for another type than the kernel's */
	unsigned long sk_pacing_rate;
} __attribute__((preserve_access_index));

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym; /* returns what ssthresh left over */
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

struct tcp_sock___reno {
	u32 snd_cwnd_cnt; /* packets acknowledged toward the next step of cwnd */
} __attribute__((preserve_access_index));

struct inet_connection_sock___ticks {
	u32 icsk_delack_max; /* HZ / 5, in ticks */
} __attribute__((preserve_access_index));

static __always_inline u32 *cwnd_cnt(struct tcp_sock *tp)
{
	return &((struct tcp_sock___reno *)tp)->snd_cwnd_cnt;
}

/* HZ, which no BPF program is told. */
static __always_inline u32 ticks_a_second(const struct sock *sk)
{
	return 5 * ((const struct inet_connection_sock___ticks *)sk)->icsk_delack_max;
}

static __always_inline u32 ticks_now(void)
{
	return bpf_jiffies64();
}

#endif
