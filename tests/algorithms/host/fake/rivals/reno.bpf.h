/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A model of what bpf/rivals/reno.bpf.h takes from the kernel, one of 250 ticks a second. */
#ifndef FAKE_RENO_BPF_H
#define FAKE_RENO_BPF_H

#define FAKE static __attribute__((unused))

/* In a member of the model that no sender reads: cleared with the socket. */
FAKE u32 *cwnd_cnt(struct tcp_sock *tp)
{
	return &tp->rx_opt.rcv_tsval;
}

FAKE u32 ticks_a_second(const struct sock *sk)
{
	return 250;
}

FAKE u32 ticks_now(void)
{
	return bpf_ktime_get_ns() / 4000000;
}

FAKE u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = min((u64)tp->snd_cwnd + acked, tp->snd_ssthresh), left = acked - (cwnd - tp->snd_cwnd);

	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return left;
}

FAKE void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	u32 *cnt = cwnd_cnt(tp), steps = 0;

	if (*cnt >= w) {
		*cnt = 0;
		steps = 1;
	}
	*cnt += acked;
	steps += *cnt / w;
	*cnt %= w;
	tp->snd_cwnd = min((u64)tp->snd_cwnd + steps, tp->snd_cwnd_clamp);
}

FAKE void tcp_reno_cong_avoid(struct sock *of, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(of);

	if (!may_grow(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

FAKE u32 tcp_reno_ssthresh(struct sock *of)
{
	return max(tcp_sk(of)->snd_cwnd >> 1, 2);
}

FAKE u32 tcp_reno_undo_cwnd(struct sock *of)
{
	return max(tcp_sk(of)->snd_cwnd, tcp_sk(of)->prior_cwnd);
}

#endif
