// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf_westwood, told that ACKs take the slow path, as the model's never do: that of dupACKs and of SACK blocks. */
#define bpf_westwood slow_westwood
#include <rivals/bpf_westwood.bpf.c>

PARAM(u32, slow_path, 1, 0, 1, "-", "1: it takes the slow path");

#ifndef __bpf__ /* which is compiled for its types alone */
static void slow_ack_event(struct sock *of, u32 flags)
{
	bpf_westwood_in_ack_event(of, flags | (slow_path ? SLOW_PATH : 0));
}

static void __attribute__((constructor)) take_its_place(void)
{
	slow_westwood.in_ack_event = slow_ack_event;
}
#endif
