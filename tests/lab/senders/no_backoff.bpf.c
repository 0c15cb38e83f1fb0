// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno, but a timeout leaves it its whole window. */
#include "reno.h"

AVOID

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/state")
void BPF_PROG(state, struct sock *sk, __u8 new_state)
{
	if (new_state != TCP_CA_Loss)
		return;
	tcp_of(sk)->snd_cwnd = tcp_of(sk)->prior_cwnd;
	tcp_of(sk)->snd_ssthresh = tcp_of(sk)->prior_cwnd;
}

SENDER(no_backoff, .cong_avoid = (void *)avoid, .set_state = (void *)state)
