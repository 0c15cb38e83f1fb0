/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The traffic of the connections of some places in a time: of those that were open when it began, and that began in it. */
#ifndef MEASUREMENT_H
#define MEASUREMENT_H

#include <signal.h>

#include "kernel/sockets.h"
#include "uses/uses.h"

enum { EXISTED, BEGAN, NR_AGES };

struct sums {
	size_t nr; /* connections */
	double acked, segments, resent; /* bytes acknowledged; data segments sent, and sent again */
	double rtt; /* sum of smoothed RTTs, s, of all looks */
	size_t rtts;
};

struct measurement {
	double seconds;
	struct sums of[NR_AGES];
};

/*
 * Looks once a second, for `seconds`, or till one of the signals comes, which is returned (else 0). Connections of this
 * network namespace to the routes of `u`, in its cgroups, or with its --default all. -1 with a message.
 */
int measurement_take(struct measurement *p, const struct uses *u, long seconds, const sigset_t *signals);

/* NAN: not known. */
double measurement_goodput(const struct measurement *p, int age); /* bit/s */
double measurement_rtt(const struct measurement *p, int age); /* s */
double measurement_resent(const struct measurement *p, int age); /* of the segments */

#endif
