// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A packet's bytes beyond what is known of its length. refused: invalid access to packet */
#include "refused.h"

SEC("cgroup_skb/ingress") int refused_ingress(struct __sk_buff *skb) { return *(u8 *)(long)skb->data & 1; }
OPS();
