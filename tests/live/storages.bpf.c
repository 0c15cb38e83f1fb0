// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A line for each storage map of sockets: its id, and how many sockets have an entry in it.
 * `bpftool iter pin storages.bpf.o PATH`. It walks the map's own lists: some kernels refuse to load
 * an iterator over a map's entries (6.18.44-fc-v782 does, with EPERM).
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MOST (1 << 20) /* buckets of a map, entries of a bucket: far more than a test makes */

struct seq_file;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_map {
	enum bpf_map_type map_type;
	u32 id;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct bpf_local_storage_map_bucket {
	struct hlist_head list;
};

struct bpf_local_storage_map {
	struct bpf_local_storage_map_bucket *buckets;
	u32 bucket_log;
};

struct bpf_local_storage {
	void *owner;
};

struct bpf_local_storage_elem {
	struct hlist_node map_node;
	struct bpf_local_storage *local_storage;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};

#pragma clang attribute pop

struct walk {
	void *buckets;
	struct hlist_node *next;
	u32 sockets;
};

static long entry(u32 i, struct walk *w)
{
	struct bpf_local_storage_elem *e;

	if (!w->next)
		return 1;
	e = (void *)w->next - bpf_core_field_offset(e->map_node);
	w->sockets += BPF_CORE_READ(e, local_storage, owner) != NULL;
	w->next = BPF_CORE_READ(e, map_node.next);
	return 0;
}

static long bucket(u32 i, struct walk *w)
{
	struct bpf_local_storage_map_bucket *b = w->buckets + i * bpf_core_type_size(*b);

	w->next = BPF_CORE_READ(b, list.first);
	bpf_loop(MOST, entry, w, 0);
	return 0;
}

SEC("iter/bpf_map")
int sockets(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;
	struct bpf_local_storage_map *storage = (void *)map;
	struct walk w = {};

	if (!map || map->map_type != BPF_MAP_TYPE_SK_STORAGE)
		return 0;
	w.buckets = BPF_CORE_READ(storage, buckets);
	bpf_loop(1 << (BPF_CORE_READ(storage, bucket_log) & 31), bucket, &w, 0);
	BPF_SEQ_PRINTF(ctx->meta->seq, "%u %u\n", map->id, w.sockets);
	return 0;
}
