// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Two maps: what all connections share, and what each has for itself. */
#include "fixed.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} acks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} own SEC(".maps");

static __always_inline __u32 counted(struct sock *sk)
{
	__u64 *all = bpf_map_lookup_elem(&acks, &(__u32){ 0 });
	__u64 *mine = bpf_sk_storage_get(&own, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!all || !mine)
		return 2;
	__sync_fetch_and_add(all, 1);
	++*mine;
	return *all >= *mine ? 10 : 2;
}

FIXED(by_map, ".struct_ops", counted(sk))
