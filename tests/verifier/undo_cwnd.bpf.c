// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An argument that there is not. refused: doesn't have .*argument|invalid bpf_context access */
#define OWN_undo_cwnd
#include "refused.h"

SEC("struct_ops/refused_undo_cwnd") u32 refused_undo_cwnd(u64 *ctx) { return ctx[3]; }
OPS();
