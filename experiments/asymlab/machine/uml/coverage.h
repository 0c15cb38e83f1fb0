/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ASYMLAB_COVERAGE_H
#define ASYMLAB_COVERAGE_H

#include <linux/sizes.h>
#include <linux/types.h>

#define COVERAGE_BITS 20
#define COVERAGE_AT (511ULL * SZ_1M) /* in the host's file `shared`, behind any results */

unsigned char *um_coverage_of(u64 tag, u32 instruction);
void um_coverage_hand_out(int host);

#endif
