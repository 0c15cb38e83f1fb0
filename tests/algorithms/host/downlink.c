// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * loader/uses/uplink_law.c behind a modem whose far end has a queue, a fluid in steps of 1 ms. Senders put into that queue what the shaper
 * let pass an RTT before: twice as much till the first loss, then a packet more in each RTT. The shaper's queue lets one of them lower its
 * window by 0.3, and an overflow all.
 *
 * Arguments: seconds, RTT in ms, room of the queue in ms of the first capacity, senders. Standard input has lines "AT CAPACITY", in s and
 * bit/s. Each tick prints: seconds, rate, queue of the modem's far end in ms, bits that have passed the shaper, the shaper's queue in ms.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uses/uplink_law.c"

enum { STEPS_MAX = 200000, PACKET_BITS = 12000 };
#define BACK 0.3 /* of a window, after a loss */

static struct uplink_bin bins[STEPS_MAX / 20 + 1];
static double sent[STEPS_MAX]; /* bits that have entered the modem's queue by then */
static double passed[STEPS_MAX];

int main(int argc, char **argv)
{
	double capacity = 0, at = 0, next = 0, arrived = 0, inside = 0, shaped = 0, debt = 0, window, room,
	       senders = atof(argv[4]);
	int steps = atof(argv[1]) * 1e3, rtt = atoi(argv[2]), entry = 0, rest = 0;
	bool begins = true, more = argc == 5 && scanf("%lf %lf", &at, &next) == 2;
	struct uplink_law law;
	struct uplink_view v;

	room = next * atof(argv[3]) / 1e3;
	window = senders * 10 * PACKET_BITS;
	debt = -window;
	uplink_law_begin(&law, 1e5, 1e10, 0);
	for (int step = 0; step < steps && step < STEPS_MAX; step++) {
		struct uplink_bin *b = &bins[step / 20];
		double comes, enters, leaves, standing;

		if (more && at * 1e3 <= step) {
			capacity = next;
			more = scanf("%lf %lf", &at, &next) == 2;
		}
		enters = (step >= rtt ? passed[step - rtt] : 0) * (begins ? 2 : 1);
		enters += senders * PACKET_BITS / (rtt + 1e3 * inside / capacity);
		leaves =
			fmin(fmax(debt, -0.1 * window), enters); /* a window that is smaller sends less for some time */
		debt -= leaves;
		enters -= leaves;
		standing = (step ? sent[step - 1] : 0) - arrived;
		rest -= rest > 0;
		if (standing + enters > room) {
			enters = fmax(room - standing, 0);
			debt += rest ? 0 : BACK * fmax(window - debt, 0);
			begins = false;
			rest = rest ? rest : rtt;
		}
		sent[step] = arrived + standing + enters;
		comes = fmin(standing + enters, capacity / 1e3);
		arrived += comes;
		while (entry < step && sent[entry] < arrived)
			entry++;
		inside += comes;
		passed[step] = fmin(inside, law.rate / 1e3);
		inside -= passed[step];
		shaped += passed[step];
		window = standing + inside + capacity * rtt / 1e3;
		if (inside > law.rate * fmax(rtt, 20) / 4e3 && !rest) {
			debt += BACK / (begins ? 1 : senders) * fmax(window - debt, 0);
			begins = false;
			rest = rtt;
		}
		b->number = step / 20;
		b->bytes += comes / 8;
		if (comes && (!b->answers || (step - entry) * 1000000ULL < b->queue_ns)) {
			b->queue_ns = (step - entry) * 1000000ULL;
			b->at_ns = entry * 1000000ULL;
			b->at_bytes = arrived / 8;
			b->answers++;
		}
		if ((step + 1) % (int)lround(LAW_TICK * 1e3))
			continue;
		memset(&v, 0, sizeof(v));
		for (int i = 0, bin = step / 20 - LAW_BINS + 1; i < LAW_BINS; i++, bin++)
			if (bin >= 0)
				v.bins[i] = bins[bin];
		v.rtt = (rtt + step - entry) / 1e3;
		uplink_law_tick(&law, &v);
		printf("%.2f %.0f %.2f %.0f %.2f\n", (step + 1) / 1e3, law.rate, (double)(step - entry), shaped,
		       1e3 * inside / law.rate);
	}
	return 0;
}
