// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * loader/uses/uplink_law.c before a modem that is a fluid: a first-in-first-out queue, in steps of 1 ms.
 *
 * Arguments: seconds, RTT in ms, room of the modem's queue in ms of its first rate, rate that is told (bit/s; 0: none), least rate.
 * Standard input has lines "AT WHAT VALUE", AT in seconds, in their order:
 *     capacity   of the modem, bit/s         demand   what would leave, bit/s
 *     jitter     ms, 0 to this for each step   path     ms that the way is longer
 *     random     share of losses that have no cause     answers  0: nobody answers
 * Each tick prints: seconds, rate, true queue in ms, bits that the modem has sent, ms of the queue that the law takes for none.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uses/uplink_law.c"

enum { STEPS_MAX = 400000, CHANGES_MAX = 4096 };

static struct {
	double at, value;
	char what[16];
} changes[CHANGES_MAX];
static struct uplink_bin bins[STEPS_MAX / 20 + 1];
static struct {
	double due, queue; /* s; due 0: the packet was lost */
	unsigned int bytes; /* that have left by then */
} answer[STEPS_MAX];
static double capacity, demand, jitter, path, random_loss, answers = 1;
static double standing, base_shift, silent_since;

static double *value_of(const char *what)
{
	static const struct {
		const char *name;
		double *value;
	} all[] = { { "capacity", &capacity }, { "demand", &demand },      { "jitter", &jitter },
		    { "path", &path },         { "random", &random_loss }, { "answers", &answers } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(what, all[i].name))
			return all[i].value;
	exit(2);
}

/* A bin's answers are known as far as they have come. */
static void hear(int step, int *heard, int step_ms)
{
	for (; *heard < step && answer[*heard].due <= step / 1e3; (*heard)++) {
		struct uplink_bin *b = &bins[*heard / step_ms];
		double queue = answer[*heard].queue - base_shift;

		if (!answer[*heard].due)
			continue;
		silent_since = 0;
		if (queue < 0)
			base_shift += queue, queue = 0;
		if (!b->answers || queue * 1e9 < b->queue_ns) {
			b->queue_ns = queue * 1e9;
			b->at_ns = *heard * 1000000ULL;
			b->at_bytes = answer[*heard].bytes;
		}
		b->answers++;
	}
}

int main(int argc, char **argv)
{
	double rtt = atof(argv[2]) / 1e3, room, sent = 0, owed = 0;
	unsigned int left = 0;
	int steps = atof(argv[1]) * 1e3, nr = 0, next = 0, heard = 0;
	struct uplink_law law;
	struct uplink_view v;

	while (nr < CHANGES_MAX && scanf("%lf %15s %lf", &changes[nr].at, changes[nr].what, &changes[nr].value) == 3)
		nr++;
	if (argc != 6 || steps > STEPS_MAX || !nr || strcmp(changes[0].what, "capacity"))
		return 2;
	room = changes[0].value * atof(argv[3]) / 1e3;
	srand(1);
	uplink_law_begin(&law, atof(argv[5]), 1e10, atof(argv[4]));
	base_shift = 1e9;
	for (int step = 0; step < steps; step++) {
		struct uplink_bin *b = &bins[step / 20];
		double leaves, waits, none, way;

		while (next < nr && changes[next].at * 1e3 <= step) {
			*value_of(changes[next].what) = changes[next].value;
			next++;
		}
		owed += fmin(law.rate, demand) / 1e3;
		leaves = (long)(owed / 12000) * 12000.0; /* whole packets */
		owed -= leaves;
		waits = capacity ? standing / capacity : 10;
		way = waits + path / 1e3 + jitter / 1e3 * rand() / RAND_MAX;
		b->number = step / 20;
		b->bytes += leaves / 8;
		b->data += leaves / 8;
		left += leaves / 8;
		answer[step].bytes = left;
		answer[step].queue = way;
		answer[step].due = leaves ? step / 1e3 + rtt + way : 0;
		if (leaves && !silent_since)
			silent_since = step / 1e3 + 1e-9;
		if (!answers || rand() < random_loss * RAND_MAX)
			answer[step].due = 0;
		if (leaves && (standing + leaves > room || !answer[step].due)) {
			answer[step].due = 0;
			b->lost += leaves / 8; /* the law's loss is late by an RTT in truth; here at once */
		} else {
			standing += leaves;
		}
		sent += fmin(standing, capacity / 1e3);
		standing -= fmin(standing, capacity / 1e3);
		hear(step, &heard, 20);
		if ((step + 1) % (int)lround(LAW_TICK * 1e3))
			continue;
		memset(&v, 0, sizeof(v));
		for (int i = 0, at = step / 20 - LAW_BINS + 1; i < LAW_BINS; i++, at++)
			if (at >= 0)
				v.bins[i] = bins[at];
		v.rtt = rtt + waits;
		v.silence = silent_since ? fmax(step / 1e3 - silent_since - rtt - waits, 0) : 0;
		none = uplink_law_tick(&law, &v);
		base_shift += none;
		printf("%.2f %.0f %.2f %.0f %.2f\n", (step + 1) / 1e3, law.rate, 1e3 * waits, sent, 1e3 * none);
	}
	return 0;
}
