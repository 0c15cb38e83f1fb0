// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno, but a mark without a loss lowers no window. */
#include "reno.h"

AVOID

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return tcp_of(sk)->lost_out ? tcp_reno_ssthresh(sk) : tcp_of(sk)->snd_cwnd;
}

SENDER(ignores_marks, .cong_avoid = (void *)avoid)
