// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Parameters of all widths, without a word on them. */
#include "fixed.h"

const volatile __u32 window = 10;
const volatile __s16 less = 0;
const volatile bool twice = false;
const volatile __u64 beyond = 1ull << 40;
const volatile __u8 table[4] = { 1, 2, 3, 4 };

FIXED(by_value, ".struct_ops", (window - less) * (twice ? 2 : 1) + (__u32)(beyond >> 41) + table[window & 3] / 5)
