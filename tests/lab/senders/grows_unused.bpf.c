// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno, but its window grows by each ACK, also where the program leaves it unused. */
#include "reno.h"

HALVES

SEC("struct_ops/avoid")
void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_of(sk)->snd_cwnd++;
}

SENDER(grows_unused, .cong_avoid = (void *)avoid)
