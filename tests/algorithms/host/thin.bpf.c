// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc thin` on the model: under a controller that does nothing, so that the driver has one. The driver takes a source that
 * has SEC("sockops") somewhere for one with programs on packets.
 */
#define flows wires
#include <tools/thin.bpf.c>
#undef flows

#include <bpf/bpf_endian.h>
#include "sender.bpf.h"

/* The driver makes its streams of options of these. */
enum { OPTION_KIND = 253 };
#define HELLO_EXID bpf_htons(1)
#define DATA_EXID HELLO_EXID

struct thin {
	struct sender s;
};
STATE(struct thin);

static u32 keeps_ssthresh(struct sock *of)
{
	return tcp_sk(of)->snd_ssthresh;
}

static u32 keeps_cwnd(struct sock *of)
{
	return tcp_sk(of)->snd_cwnd;
}

static void keeps(struct sock *of, u32 ack, u32 acked)
{
}

int thin_sockops(struct bpf_sock_ops *ops)
{
	return 1;
}

struct tcp_congestion_ops thin = {
	.ssthresh = keeps_ssthresh,
	.cong_avoid = keeps,
	.undo_cwnd = keeps_cwnd,
	.name = "thin",
};
