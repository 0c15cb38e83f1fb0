/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Times of CLOCK_MONOTONIC; boot_ns() counts the time that the machine was suspended, too. */
#ifndef CLOCK_H
#define CLOCK_H

#include <signal.h>
#include <time.h>

#include <linux/types.h>

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL
#define NEVER ~0ULL

__u64 now_ns(void);
__u64 boot_ns(void);
/* The seconds of the epoch for a time by boot_ns(). */
time_t epoch_of(__u64 boot);
/* The time that many seconds from now; below 0: NEVER. */
__u64 ns_after(long seconds);
/* Sleep till then, or till one of these signals, which are blocked; returns that, or -1. */
int wait_till(__u64 end, const sigset_t *set);

#endif
