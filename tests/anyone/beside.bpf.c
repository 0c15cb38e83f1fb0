// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs of other kinds beside the controller, which other loaders attach. */
#include "fixed.h"

SEC("sockops")
int beside_sockops(struct bpf_sock_ops *ops)
{
	return 1;
}

SEC("kprobe/tcp_there_is_no_such_function")
int beside_kprobe(void *ctx)
{
	return 0;
}

SEC("struct_ops/beside_unnamed")
void BPF_PROG(beside_unnamed, struct sock *sk)
{
}

FIXED(beside, ".struct_ops", 10)
