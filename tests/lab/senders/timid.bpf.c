// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno, but one ACK in fifty alone lets it grow. */
#include "reno.h"

HALVES

SEC("struct_ops/avoid")
void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	__u32 *acks = own(sk);

	*acks = *acks % 50 + 1;
	if (*acks == 50)
		tcp_reno_cong_avoid(sk, ack, acked);
}

SENDER(timid, .cong_avoid = (void *)avoid)
