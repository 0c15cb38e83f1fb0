// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <time.h>

#include "kernel/clock.h"

static __u64 read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

__u64 now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

__u64 boot_ns(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

time_t epoch_of(__u64 boot)
{
	return (read_clock(CLOCK_REALTIME) - boot_ns() + boot) / NS_PER_S;
}

__u64 ns_after(long seconds)
{
	return seconds < 0 ? NEVER : now_ns() + seconds * NS_PER_S;
}

int wait_till(__u64 end, const sigset_t *set)
{
	__u64 now = now_ns(), ns = now < end ? end - now : 0;
	struct timespec ts = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	return sigtimedwait(set, NULL, &ts);
}
