/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rate of a shaper ahead of a modem: found from what the modem's queue does. No input or output: uplink.c has these.
 *
 * Two packets that both found a queue left the shaper at t1 < t2 and waited q1 and q2. Between t1 + q1 and t2 + q2 the modem was never
 * idle, so in that time it sent what the shaper sent between t1 and t2, B bits:
 *
 *     C = B (1 - p) / (t2 + q2 - t1 - q1)     capacity, bit/s; p: the share of the data that a queue behind the shaper lost
 *     R = C (1 - m) (1 + (target - q) / window)    rate of the shaper, the last bracket from 0.5 to 1.05; from `least` to `most`
 *
 * Packets that found no queue tell a least of C: their bits over the time from the first to the last.
 *
 * With m = 0 the queue follows dq/dt = R/C - 1 = (target - q) / window: by itself it settles with the time constant `window`. q is that of the
 * newest answer's packet, less by what has left the modem since that packet left, F ago. The loop has a delay D: a tick, the bins of which q is
 * the least, and what of the RTT is beyond F. It is stable for D < window pi / 2, which holds for an RTT of any length, as `window` has it, too.
 *
 * The least wait of 20 ms is measured with noise: jitter, grants, the clock's ticks. Its deviation is estimated from second differences,
 * which a queue that grows or falls evenly does not have. A capacity that moves looks like noise: s is the deviation times 1 - 2 m. The
 * threshold grows with it, and with the time of one packet, P; q is the least of one bin more for each ms of s, five at most:
 *
 *     threshold = 1.5 ms + 2.5 s + P    target = 5 ms + 3 s + P    window = 60 ms + 20 s + RTT - F
 *
 * A capacity that moves, as of a radio, has fallen below R before that is known. The margin m is such that in 3 % of the ticks that fill the
 * line a queue is deep, beyond three targets, as the capacity has fallen by 5 %: each of those adds 1.16 % to m, and each other one takes
 * 0.036 %. m is 0.4 at most. A line that has become steady has all its rate again after 45 s.
 *
 * It serves the way down as well. There the queue is before the shaper, and t is when a packet begins to wait: C is what arrives, B, over the
 * time between two arrivals. Senders put into the queue what the shaper let pass an RTT before, and F is 0.
 *
 * Without a queue, a rate that is in use grows: by 12 % a tick below 0.8 of (1 - m) times the last capacity, by 3 % below 0.97, then by a step
 * that begins at 0.5 % + 0.08 m and grows by 10 % of it each tick; never beyond 1.25 of what was sent in a tick of the last 2 s. A queue that
 * steps S make shows after L, the RTT and two ticks, and is S L^2 / (2 ticks) long by then: S is 5 % at most, and makes 10 ms at most.
 */
#ifndef UPLINK_LAW_H
#define UPLINK_LAW_H

#include <stdbool.h>

#include "tools/uplink.h"

#define LAW_TICK 0.04      /* s from one tick to the next */
#define LAW_BINS 100       /* 2 s of them */
#define LAW_PEAKS 50       /* ticks of 2 s */
#define LAW_PACKET 1514    /* bytes */
#define LAW_STANDS 13 /* ticks: a queue that does not fall so long, however low the rate, is none */

struct uplink_law {
	double least, most; /* bit/s, as the user bounds it */
	double rate; /* R, bit/s */
	double capacity; /* C, smoothed; 0: not known */
	double mark; /* the capacity of the last time that there was a queue; it forgets slowly what was less */
	double margin; /* m */
	double step; /* share by which the rate grows beyond `mark` */
	double queue; /* s, by the newest answers */
	double noise; /* s, deviation of a bin's least wait */
	double waits[2]; /* s, of the last two bins that count for the noise */
	double sent[LAW_PEAKS], queues[LAW_PEAKS], carried[LAW_PEAKS]; /* of the last ticks */
	double before; /* the rate before the silence */
	double drains; /* s of a drain that are left; 0: none is under way */
	double drained; /* bit/s meanwhile */
	double stands; /* s for which there has been a queue */
	double lost, usual; /* share of losses: for which the rate was lowered last, and that no lower rate ends */
	double limit;            /* bit/s, till the effect of that is known ... */
	double rests; /* ... in so many s */
	unsigned long long heard; /* the last bin that counted for the noise */
	unsigned long long learned; /* the newest one that told the capacity */
	unsigned long long forgiven; /* the last bin of which losses do not count */
	unsigned int ticks, begun; /* in all, and when the last search, or the last losses, were over */
	enum uplink_cause cause; /* of the rate */
	bool searches; /* no queue has been seen yet: the rate is `most` */
	bool silent; /* nobody answers */
};

/* The input of a tick. */
struct uplink_view {
	struct uplink_bin bins[LAW_BINS]; /* one after the other; the last one is over */
	double rtt;     /* s, of the last answers */
	double silence; /* s beyond the RTT, for which nothing of what left was answered */
};

/* The bins till `now`, by CLOCK_MONOTONIC. */
void uplink_law_view(struct uplink_view *v, const struct uplink_seen *seen, unsigned long long now);
/* `rate` 0: not known. */
void uplink_law_begin(struct uplink_law *l, double least, double most, double rate);
/* Sets the rate anew. Returns how much of the queue that is measured is none, s: the bases are too low by that; 0: nothing is known of it. */
double uplink_law_tick(struct uplink_law *l, const struct uplink_view *v);

#endif
