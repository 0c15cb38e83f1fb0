// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A record that is taken of the ring and never given. refused: Unreleased reference|reference leak */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(refused_dequeue)
{
	u64 *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (record)
		*record = 1;
	return 0;
}
