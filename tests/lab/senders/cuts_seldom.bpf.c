// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One loss in ten halves its window. */
#include "reno.h"

AVOID

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	__u32 *losses = own(sk);

	*losses = *losses % 10 + 1;
	return *losses == 10 ? tcp_reno_ssthresh(sk) : tcp_of(sk)->snd_cwnd;
}

SENDER(cuts_seldom, .cong_avoid = (void *)avoid)
