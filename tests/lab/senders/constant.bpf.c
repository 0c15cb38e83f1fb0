// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A window of a hundred packets, whatever happens. */
#include "reno.h"

HALVES

SEC("struct_ops/control")
void BPF_PROG(control, struct sock *sk, const struct rate_sample *rs)
{
	tcp_of(sk)->snd_cwnd = 100;
}

SENDER(constant, .cong_control = (void *)control)
