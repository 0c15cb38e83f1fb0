// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A lone constant: clang gives it a section of its own, .rodata.cst32, and the object's types know .rodata alone. */
#include "fixed.h"

static const __u32 windows[8] = { 10, 9, 11, 10, 10, 9, 11, 10 };

FIXED(by_table, ".struct_ops", windows[((struct tcp_sock *)sk)->snd_una & 7])
