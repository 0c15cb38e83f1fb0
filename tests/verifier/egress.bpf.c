// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* No verdict of this number. refused: R0 .*should have been in */
#include "refused.h"

SEC("cgroup_skb/egress") int refused_egress(struct __sk_buff *skb) { return 4; }
OPS();
