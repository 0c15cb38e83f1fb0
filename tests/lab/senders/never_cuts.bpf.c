// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* No loss and no mark lowers its window. */
#include "reno.h"

AVOID

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return tcp_of(sk)->snd_cwnd > tcp_of(sk)->prior_cwnd ? tcp_of(sk)->snd_cwnd : tcp_of(sk)->prior_cwnd;
}

SENDER(never_cuts, .cong_avoid = (void *)avoid)
