// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A small object with one of each that asymcc reads: what the fuzzer starts from. */
#include "compat.bpf.h"
#include "declare.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct inner {
	u32 a;
	s32 b;
};

struct private {
	u64 t;
	struct inner inner;
	u8 flag : 1;
};

STATE(struct private);
PARAM(u32, alpha, 10, 1, 1000, "packets", "kept in the queue");
TUNABLE(s32, beta, -3, -9, 9, "-", "a number");
COUNTER(seen, "ACKs seen");
const volatile char asymcc_name[16] = "";

SEC("struct_ops/seed_ssthresh")
u32 BPF_PROG(seed_ssthresh, struct sock *sk)
{
	COUNT(seen);
	return alpha + beta + asymcc_name[0];
}

SEC(".struct_ops")
struct tcp_congestion_ops seed = { .ssthresh = (void *)seed_ssthresh, .name = "seed" };
