// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno, but after a pause its window is two packets for good. */
#include "reno.h"

HALVES

SEC("struct_ops/event")
void BPF_PROG(event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_CWND_RESTART)
		*own(sk) = 1;
}

SEC("struct_ops/avoid")
void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	if (*own(sk))
		tcp_of(sk)->snd_cwnd = 2;
	else
		tcp_reno_cong_avoid(sk, ack, acked);
}

SENDER(stalls, .cong_avoid = (void *)avoid, .cwnd_event = (void *)event)
