// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One line for each socket that has an entry in a storage map: `bpftool iter pin storages.bpf.o PATH map MAP`. */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

SEC("iter/bpf_sk_storage_map")
int entry(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	static const char line[] = "socket\n";

	if (ctx->sk)
		bpf_seq_write(ctx->meta->seq, line, sizeof(line) - 1);
	return 0;
}
