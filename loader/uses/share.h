/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --share`: a part of the new connections of a cgroup, and how it fares beside the rest. */
#ifndef SHARE_USE_H
#define SHARE_USE_H

#include <stdio.h>
#include <time.h>

#include "kernel/attachments.h"
#include "tools/share.h"

/* The part of a cgroup's new connections, and when it ends itself: in hundredths of a percent; 0: all, never. */
struct share_rule {
	long share, worse, least;
};

/* A value and its 95 % interval; NAN: not known. */
struct interval {
	double value, low, high;
};

struct share {
	const char *cc, *cgroup;       /* owned by the attachments */
	double percent, worse;         /* worse: the bound in percent; 0: none */
	unsigned int least;            /* connections of each group that it takes to stop */
	time_t stopped;                /* 0: it is still given */
	unsigned long long connections[2]; /* that have ended; [1]: of those that were given it */
	double goodput[2], rtt[2], resent[2]; /* geometric means in bit/s and s; of all segments */
	/* of the given to the rest: ratio of the means, ratio, difference */
	struct interval goodput_ratio, rtt_ratio, resent_difference;
};

/* "10%", "0.5": in hundredths of a percent, from 1 to SHARE_FULL - 1. -1 with a message. */
int percent_parse(long *hundredths, const char *option, const char *text);
/* The bound as use.bpf.c has it, from hundredths of a percent. */
unsigned int share_bound(long hundredths);

/* The next one; *i is 0 at first. 1: there is one, 0: at the end, -1 with a message. */
int share_next(const struct attachments *all, int *i, struct share *s);
/* An object; as text some lines, each but the first behind `indent`. */
void share_print(const struct share *s, const char *indent);

#endif
