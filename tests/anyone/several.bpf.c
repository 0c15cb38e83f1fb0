// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Three controllers in two sections, one of which has no name of its own. */
#include "fixed.h"

FIXED(few, ".struct_ops.link", 5)
FIXED(many, ".struct_ops", 20)

SEC(".struct_ops.link")
struct tcp_congestion_ops nameless = {
	.ssthresh = (void *)few_ssthresh,
	.undo_cwnd = (void *)few_undo,
	.cong_control = (void *)few_main,
};
