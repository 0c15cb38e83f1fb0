// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * NewReno as the papers' simulator had it: the window counts ACKs, not what they acknowledge.
 *
 *   [N] ns-2's TCP agent: TcpAgent::opencwnd() with windowOption_ 1, slowdown(); NewReno, RFC 2582.
 *
 * Per ACK:    cwnd < ssthresh: cwnd += 1,  else  cwnd += 1/cwnd                            (1)
 * On loss:    ssthresh = cwnd = max(cwnd/2, 2);  after a timeout cwnd = 1                   (2)
 * First window: 1
 *
 * Linux' reno grows by the packets that an ACK covers. This one grows by the ACKs that arrive: half
 * as fast under delayed ACKs, and hardly where most ACKs are lost or thinned out. Papers of that time
 * describe Reno on asymmetric paths by this law; use Linux' own for anything else.
 *
 * Differences from ns-2:
 *  - Recovery is the stack's: with the lab's profile "newreno" RFC 6582's, with PRR for the inflated
 *    window. No ACK grows the window in it, as there.
 *  - ns-2 begins with 1 up to May 2001, as here, and with 2 since (windowInit_; init_cwnd).
 *  - Half a window is whole packets, as in ns-2 up to January 2006 (precisionReduce_).
 *  - ns-2's senders always have data. Without, the window does not grow.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, init_cwnd, 1, 0, 1024, "packets", "first window; 0: leave the stack's");

COUNTER(flows, "connections started");
COUNTER(exponential_acks, "ACKs below ssthresh: cwnd += 1");
COUNTER(linear_acks, "ACKs beyond: cwnd += 1/cwnd");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions by (2): fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

/* One connection. */
struct nreno {
	struct sender s;
	u64 w_q20; /* the window, packets << 20, at most 2^40; snd_cwnd is its integer part */
};
STATE(struct nreno);

static inline void reload(struct nreno *r, const struct tcp_sock *tp)
{
	r->w_q20 = stack_window(tp) << Q20;
}

SEC("struct_ops/nreno_init")
void BPF_PROG(nreno_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nreno *r = inet_csk_ca(sk);

	__builtin_memset(r, 0, sizeof(*r));
	first_window(tp, init_cwnd);
	reload(r, tp);
	r->s.cwnd = tp->snd_cwnd;
	COUNT(flows);
}

SEC("struct_ops/nreno_cong_avoid")
void BPF_PROG(nreno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nreno *r = inet_csk_ca(sk);

	if (cwnd_changed(&r->s, tp)) {
		COUNT(reloads);
		reload(r, tp);
	}
	if (!may_grow(tp)) {
		COUNT(limited_acks);
	} else if (r->w_q20 >> Q20 < tp->snd_ssthresh) {
		COUNT(exponential_acks);
		r->w_q20 += 1u << Q20;
	} else {
		COUNT(linear_acks);
		r->w_q20 += mul_div(
			1u << Q20, 1u << Q20, r->w_q20); /* in parts, as ns-2's real number: w + 1/2 ACKs a packet */
	}
	r->w_q20 = min(r->w_q20, (u64)window_limit(tp) << Q20);
	cwnd_write(&r->s, tp, r->w_q20 >> Q20);
}

/* (2). The same after a timeout, but for the window of one packet that the stack sets. */
SEC("struct_ops/nreno_ssthresh")
u32 BPF_PROG(nreno_ssthresh, struct sock *sk)
{
	struct nreno *r = inet_csk_ca(sk);

	COUNT(losses);
	look_anew(&r->s);
	return half_window(tcp_sk(sk));
}

SEC("struct_ops/nreno_undo_cwnd")
u32 BPF_PROG(nreno_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nreno *r = inet_csk_ca(sk);

	COUNT(undos);
	look_anew(&r->s);
	return undone_window(tp);
}

SEC("struct_ops/nreno_cwnd_event")
void BPF_PROG(nreno_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_LOSS)
		COUNT(timeouts);
}

SEC(".struct_ops")
struct tcp_congestion_ops nreno = {
	.init = (void *)nreno_init,
	.cong_avoid = (void *)nreno_cong_avoid,
	.ssthresh = (void *)nreno_ssthresh,
	.undo_cwnd = (void *)nreno_undo_cwnd,
	.cwnd_event = (void *)nreno_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "nreno",
};
