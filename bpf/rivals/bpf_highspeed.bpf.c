// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * HighSpeed TCP as Linux has it, for kernels without the module tcp_highspeed: the same window after each ACK.
 *
 *   [H] S. Floyd, "HighSpeed TCP for Large Congestion Windows", RFC 3649, 2003.
 *
 * Up to 38 packets Reno; beyond, AIMD whose steps depend on the window w:
 *     an ACK:  w = w + a(w) / w         a loss:  w = (1 - b(w)) w                              (1)
 *     b(w) = 0.5 - 0.4 log(w / 38) / log(83000 / 38)                              [H] section 5
 *     a(w) = w^2 p(w) 2 b(w) / (2 - b(w)),   p(w) = 0.078 / w^1.2 = 1 / (12.8 w^1.2)          (2)
 *
 * The table has the windows of [H] appendix B, 38 and then each w for which a(w) of (2) exceeds that of
 * the one before by more than 1, with b(w) in 1/256, rounded down; of its 73 rows all but the last.
 * tests/algorithms/test_ports_host.py works them out anew.
 *
 * Linux takes the window of row i, from 0, for the end of those with a(w) = i + 1, and b(w) from the same
 * row: in [H] they begin there. The row is looked up when the window grows, not at the loss. (1) counts
 * ACKs, not packets: delayed and stretch ACKs slow it down, in slow start they do not.
 * Not the module's: it limits the clamp to 2^25 packets, which a BPF program may not write.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"
#include <rivals/reno.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

COUNTER(flows, "connections started");
COUNTER(losses, "reductions by b(w): fast retransmit, ECN or RTO");

#define ROWS 72

static const struct {
	u32 w;    /* packets */
	u32 b_q8; /* b(w), 1/256 */
} rows[ROWS] = {
	{ 38, 128 },   { 118, 112 },  { 221, 104 },  { 347, 98 },   { 495, 93 },   { 663, 89 },   { 851, 86 },
	{ 1058, 83 },  { 1284, 81 },  { 1529, 78 },  { 1793, 76 },  { 2076, 74 },  { 2378, 72 },  { 2699, 71 },
	{ 3039, 69 },  { 3399, 68 },  { 3778, 66 },  { 4177, 65 },  { 4596, 64 },  { 5036, 62 },  { 5497, 61 },
	{ 5979, 60 },  { 6483, 59 },  { 7009, 58 },  { 7558, 57 },  { 8130, 56 },  { 8726, 55 },  { 9346, 54 },
	{ 9991, 53 },  { 10661, 52 }, { 11358, 52 }, { 12082, 51 }, { 12834, 50 }, { 13614, 49 }, { 14424, 48 },
	{ 15265, 48 }, { 16137, 47 }, { 17042, 46 }, { 17981, 45 }, { 18955, 45 }, { 19965, 44 }, { 21013, 43 },
	{ 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 }, { 26881, 40 }, { 28193, 39 }, { 29557, 39 },
	{ 30975, 38 }, { 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 }, { 38992, 35 }, { 40808, 35 },
	{ 42707, 34 }, { 44694, 33 }, { 46776, 33 }, { 48961, 32 }, { 51258, 32 }, { 53677, 31 }, { 56230, 30 },
	{ 58932, 30 }, { 61799, 29 }, { 64851, 28 }, { 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 },
	{ 84035, 25 }, { 89053, 24 },
};

/* One connection. */
struct bpf_highspeed {
	struct sender s; /* unused: the module has no rounds */
	u32 row;         /* of the window that last grew beyond slow start */
};
STATE(struct bpf_highspeed);

static inline u32 row_of(u32 cwnd)
{
	u32 i;

	for (i = 0; i < ROWS - 1 && cwnd > rows[i].w; i++)
		;
	return i;
}

SEC("struct_ops/bpf_highspeed_init")
void BPF_PROG(bpf_highspeed_init, struct sock *sk)
{
	struct bpf_highspeed *h = inet_csk_ca(sk);

	__builtin_memset(h, 0, sizeof(*h));
	COUNT(flows);
}

SEC("struct_ops/bpf_highspeed_cong_avoid")
void BPF_PROG(bpf_highspeed_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_highspeed *h = inet_csk_ca(sk);
	u32 *cnt = cwnd_cnt(tp), cwnd = tp->snd_cwnd;

	if (!may_grow(tp))
		return;
	if (cwnd < tp->snd_ssthresh) {
		tcp_slow_start(tp, acked);
		return;
	}
	h->row = row_of(cwnd);
	if (cwnd >= tp->snd_cwnd_clamp)
		return;
	*cnt += h->row + 1;
	if (*cnt >= cwnd) {
		*cnt -= cwnd;
		tp->snd_cwnd = cwnd + 1;
	}
}

SEC("struct_ops/bpf_highspeed_ssthresh")
u32 BPF_PROG(bpf_highspeed_ssthresh, struct sock *sk)
{
	const struct bpf_highspeed *h = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd, row = h->row;

	COUNT(losses);
	if (row >= ROWS) /* never: for the verifier */
		return cwnd;
	/* 2^32 * 2^8 */
	return max(cwnd - ((u64)cwnd * rows[row].b_q8 >> 8), 2);
}

SEC("struct_ops/bpf_highspeed_undo_cwnd")
u32 BPF_PROG(bpf_highspeed_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_highspeed = {
	.init = (void *)bpf_highspeed_init,
	.cong_avoid = (void *)bpf_highspeed_cong_avoid,
	.ssthresh = (void *)bpf_highspeed_ssthresh,
	.undo_cwnd = (void *)bpf_highspeed_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_highspeed",
};
