// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A storage that may not be there. refused: invalid mem access 'map_value_or_null' */
#include "refused.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

HOOK(cwnd_event, enum tcp_ca_event ev)
{
	u64 *value = bpf_sk_storage_get(&storage, sk, 0, 0);

	*value = ev;
}
OPS(.cwnd_event = (void *)refused_cwnd_event,);
