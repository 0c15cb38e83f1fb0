// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <math.h>
#include <string.h>

#include "uses/uplink_law.h"

#define BIN (UPLINK_BIN_NS / 1e9)

#define NEAR 5 /* bins, in which waits tell of noise; and of more of them the queue is not the least */
#define NOISE_OF_BIN 0.001 /* s: so much of it takes one bin more */
#define RECENT 0.1 /* s, or ten packets, or half an RTT, which has six answers of a connection: of these the capacity */
#define SHORTEST 0.05 /* s, at the modem: less tells no capacity */
#define BEYOND 1.25 /* of what is sent: by more no rate is beyond use */
#define GROWN 0.01 /* s: the queue that growth makes before it shows */
#define STEP 0.005 /* of the rate: with it twice the rate is found in 2 s */
#define STEP_MOST 0.05
#define MARGIN_STEP 0.08 /* of the margin: a capacity that moves rises as well */
#define DEEP 3 /* targets: a queue that counts for the margin */
#define DEEP_SHARE 0.03 /* of the busy ticks: if more of them are late the margin grows */
#define FALLEN 0.95 /* of the last capacity */
#define MARGIN_GAIN 0.012 /* so it is found in some 10 s, and lost in 45 */
#define MARGIN_MOST 0.4
#define NOISE_LEAST 0.00025
#define NOISE_MOST 0.01
#define LOST 0.03 /* share of the data: that many are lost where a queue overflows */
#define LOUD \
	1e6 /* bit/s: more is loud. In a search losses of less tell nothing: a queue of that rate is long, and shows */
#define FORGET 0.9992 /* of the losses without a cause, each tick: half in 35 s */
#define USED 0.9 /* of the rate: it is in use. Bursts wait at any rate */
#define SUSPECT 25 /* ticks: a queue that stands so long while the rate falls is looked at ... */
#define SUSPECT_FALL 0.85 /* ... to this part of it */
#define SETTLES 75 /* ticks after a search, or losses: before, the capacity is not known well */
#define RESTS 1 /* s: losses that are seen so much later are of the rate before */
#define DRAIN_AFTER 10 /* s of a queue: is its base right? */
#define DRAIN 0.4 /* s: a queue of 60 ms is gone in half of it, and one of 120 ms, as slow modems have, at its end */
#define LEAST_DRAIN 0.7 /* of the capacity */
#define SILENCE 0.04 /* s */
#define SLACK 0.06 /* s, beyond the RTT: receivers wait with ACKs */

void uplink_law_view(struct uplink_view *v, const struct uplink_seen *seen, unsigned long long now)
{
	unsigned long long number = now / UPLINK_BIN_NS - LAW_BINS;
	double rtt = seen->rtt_ns / 1e9;

	for (int i = 0; i < LAW_BINS; i++, number++) {
		const struct uplink_bin *b = &seen->bins[number % UPLINK_BINS];

		v->bins[i] = b->number == number ? *b : (struct uplink_bin){ .number = number };
	}
	v->rtt = rtt;
	v->silence = seen->waits_ns && seen->waits_ns < now ? fmax((now - seen->waits_ns) / 1e9 - rtt - SLACK, 0) : 0;
}

void uplink_law_begin(struct uplink_law *l, double least, double most, double rate)
{
	memset(l, 0, sizeof(*l));
	l->least = least;
	l->most = most;
	l->rate = rate ? rate : most;
	l->mark = rate;
	l->step = STEP;
	l->noise = 0.0005;
	l->searches = !rate;
}

static double packet_time(const struct uplink_law *l)
{
	return 8.0 * LAW_PACKET / l->rate;
}

static double noise_of(const struct uplink_law *l)
{
	return l->noise * (1 - 2 * l->margin);
}

static double threshold(const struct uplink_law *l)
{
	return 0.0015 + 2.5 * noise_of(l) + packet_time(l);
}

static double target(const struct uplink_law *l)
{
	return 0.005 + 3 * noise_of(l) + packet_time(l);
}

static double wait_of(const struct uplink_bin *b)
{
	return b->queue_ns / 1e9;
}

/* --- what the bins tell ----------------------------------------------------------------------------------------- */

/* The last bin before `end` with an answer; -1: there is none. */
static int last_heard(const struct uplink_view *v, int end)
{
	while (--end >= 0 && !v->bins[end].answers)
		;
	return end;
}

/* Has a packet that left in the last `s` seconds been answered? */
static bool answered_within(const struct uplink_view *v, double s)
{
	int heard = last_heard(v, LAW_BINS);

	return heard >= 0 && (LAW_BINS - 1 - heard) * BIN <= s;
}

/* While nobody answers it grows by what is sent, and falls by what the modem sends. */
static double queue_now(const struct uplink_law *l, const struct uplink_view *v)
{
	double least = INFINITY, bits = 0;
	int i = LAW_BINS, newest = fmin(1 + noise_of(l) / NOISE_OF_BIN, NEAR);

	for (int n = 0; n < newest && (i = last_heard(v, i)) >= 0; n++)
		least = fmin(least, wait_of(&v->bins[i]));
	if (!isinf(least))
		return least;
	for (i = LAW_BINS - LAW_TICK / BIN; i < LAW_BINS; i++)
		bits += 8.0 * v->bins[i].bytes;
	return l->capacity ? fmax(l->queue + bits / l->capacity - LAW_TICK, 0) : 0;
}

/*
 * A bin counts once a later one has an answer, as it has all of its own then. The median of |x1 - 2 x2 + x3| is 1.65 s for noise of the
 * deviation s: the estimate grows or falls by 3 % as it is above or below, so that no single jump counts for much.
 */
static void learn_noise(struct uplink_law *l, const struct uplink_view *v)
{
	int end = last_heard(v, LAW_BINS);

	for (int i = 0; i < end; i++) {
		const struct uplink_bin *b = &v->bins[i];
		double curve = fabs(l->waits[0] - 2 * l->waits[1] + wait_of(b));

		if (!b->answers || b->number <= l->heard)
			continue;
		if (b->number - l->heard < NEAR)
			l->noise *= curve > 1.65 * l->noise ? 1.03 : 1 / 1.03;
		l->heard = b->number;
		l->waits[0] = l->waits[1];
		l->waits[1] = wait_of(b);
	}
	l->noise = fmin(fmax(l->noise, NOISE_LEAST), NOISE_MOST);
}

/* Share of the last second's data that had to leave again, chance aside. Losses from before a rate was lowered for them count no more. */
static double lost_share(const struct uplink_law *l, const struct uplink_view *v)
{
	unsigned long long data = 0, lost = 0;

	for (int i = LAW_BINS / 2; i < LAW_BINS; i++) {
		if (v->bins[i].number <= l->forgiven)
			continue;
		data += v->bins[i].data;
		lost += v->bins[i].lost;
	}
	return data ? fmin(fmax(lost - 2.5 * sqrt(LOST * data * LAW_PACKET), 0) / data, 0.9) : 0;
}

/* Bits that left between two bins' packets, a second of those at the modem. In a short time they are as wrong as two waits are. */
static double rate_between(const struct uplink_view *v, int a, int b, double lost)
{
	const struct uplink_bin *first = &v->bins[a], *last = &v->bins[b];
	double time = (long long)(last->at_ns - first->at_ns) / 1e9 + wait_of(last) - wait_of(first);

	return time < SHORTEST ? 0 : 8.0 * (last->at_bytes - first->at_bytes) * (1 - lost) / time;
}

/*
 * The capacity by the newest answers. If each packet of the last time found a queue, it is that. If the last found none, it is not less:
 * the modem has carried all. Else the packets tell nothing. In a deep queue the last four answers do, however old: few come where a flood
 * fills the modem. But a line that is not loud has its few packets wait by chance, and they tell nothing below `least`.
 */
static void learn_capacity(struct uplink_law *l, const struct uplink_view *v, double queue, double lost, bool loud)
{
	int last = last_heard(v, LAW_BINS), first = last, nr = 0;
	double recent = (l->searches ? 2 : 1) * RECENT + 10 * noise_of(l);
	double span = fmax(fmax(recent, 10 * packet_time(l)), v->rtt / 2), least = INFINITY, now;

	if (last < 0 || v->bins[last].number <= l->learned) /* losses since then are of other packets */
		return;
	l->learned = v->bins[last].number;
	for (int i = last; i >= 0 && ((last - i) * BIN < span || (loud && nr < 4 && least > DEEP * target(l))); i--) {
		if (!v->bins[i].answers)
			continue;
		least = fmin(least, wait_of(&v->bins[i]));
		first = i;
		nr++;
	}
	now = nr < 4 ? 0 : rate_between(v, first, last, lost);
	if (!now || (now < l->least && !loud))
		return;
	if (least > threshold(l))
		l->capacity = now < 0.8 * l->capacity || !l->capacity ? now : (l->capacity + now) / 2;
	else if (queue <= threshold(l) && l->capacity && !lost) /* two packets more or less are chance, as noise is */
		l->capacity = fmax(l->capacity, now * (1 - 2 * (packet_time(l) + noise_of(l)) / span));
}

/* A queue is seen an RTT late, and has changed since by what the shaper has sent and the modem has not. */
static double predicted(const struct uplink_law *l, const struct uplink_view *v, double queue)
{
	int heard = last_heard(v, LAW_BINS);
	double bits = 0;

	if (heard < 0) /* queue_now() has done so */
		return queue;
	for (int i = heard + 1; i < LAW_BINS; i++)
		bits += 8.0 * v->bins[i].bytes;
	return fmax(queue + bits / l->capacity - (LAW_BINS - 1 - heard) * BIN, 0);
}

static double throughput(const struct uplink_view *v)
{
	unsigned long long bytes = 0;

	for (int i = LAW_BINS - 10; i < LAW_BINS; i++)
		bytes += v->bins[i].bytes;
	return 8 * bytes / (10 * BIN);
}

/* --- the rate --------------------------------------------------------------------------------------------------- */

static double most_of(const double ticks[LAW_PEAKS])
{
	double most = 0;

	for (int i = 0; i < LAW_PEAKS; i++)
		most = fmax(most, ticks[i]);
	return most;
}

static void grow(struct uplink_law *l, double rtt)
{
	double share = l->mark ? l->rate / ((1 - l->margin) * l->mark) : 1, late = rtt + 2 * LAW_TICK;
	double most = fmin(2 * LAW_TICK * GROWN / (late * late), STEP_MOST);
	double step = share < 0.8 ? 0.12 : share < 0.97 ? 0.03 : fmin(l->step, most);

	if (share >= 0.97)
		l->step = fmin(1.1 * l->step, most);
	l->rate = fmax(l->rate, fmin(l->rate * (1 + step), BEYOND * most_of(l->sent)));
}

static void follow(struct uplink_law *l, const struct uplink_view *v, double queue, bool busy)
{
	bool deep = queue > DEEP * target(l);
	double known = (LAW_BINS - 1 - last_heard(v, LAW_BINS)) * BIN; /* s, of which predicted() knows */
	double window = 0.06 + 20 * noise_of(l) + fmax(v->rtt - known, 0);
	double share = 1 + (target(l) - predicted(l, v, queue)) / window;

	l->searches = false;
	l->step = STEP + MARGIN_STEP * l->margin;
	if (!busy && !deep) {
		l->rate = fmin(l->rate, BEYOND * l->capacity);
		return;
	}
	l->mark = fmax(l->capacity, 0.9 * l->mark + 0.1 * l->capacity);
	l->rate = (1 - l->margin) * l->capacity * fmin(fmax(share, 0.5), 1.05);
}

/* A deep queue of a capacity that has not fallen is of the rate's own growth, for which no margin helps. */
static void keep_margin(struct uplink_law *l)
{
	bool late = l->queue > DEEP * target(l) && l->capacity < FALLEN * l->mark;

	l->margin = fmin(fmax(l->margin + MARGIN_GAIN * (late - DEEP_SHARE), 0), MARGIN_MOST);
}

/* Nobody answers: the modem sends nothing. Later what stands in it goes first. */
static bool endure(struct uplink_law *l, double queue, double silence, bool busy)
{
	if (silence > SILENCE && silence > 1.5 * queue && (busy || l->silent)) {
		if (!l->silent)
			l->before = l->mark ? l->mark : l->rate;
		l->silent = true;
		l->rate *= 0.7;
	} else if (l->silent && queue < DEEP * target(l)) {
		l->silent = false;
		l->rate = fmax(l->rate, l->before / 2);
		l->capacity = 0;
	}
	return l->silent;
}

/* Losses end when the rate is lowered for them. Those that do not are of a radio, or of a stranger, and more than that counts. */
static bool overflows(struct uplink_law *l, double lost, double sent)
{
	bool tried = l->rests > 0 && l->rests <= LAW_TICK;

	l->rests = fmax(l->rests - LAW_TICK, 0);
	l->usual *= FORGET;
	if (tried && lost > l->lost / 2)
		l->usual = fmax(l->usual, lost);
	if (l->rests || lost <= LOST + 1.5 * l->usual)
		return false;
	l->searches = false;
	l->lost = lost;
	l->rests = 2 * RESTS;
	l->capacity = l->mark = sent * (1 - lost);
	l->rate = l->limit = fmin(l->rate, 0.95 * l->capacity);
	return true;
}

static bool is_near(double a, double b)
{
	return a > 0.7 * b && b > 0.7 * a;
}

/*
 * A longer path looks like a queue that stays the same however low the rate: what the modem carries falls with it, as it has no queue. The
 * newest answers are to packets that left `late` ticks ago: rates of since then do not show yet.
 */
static bool is_path(const struct uplink_law *l, const struct uplink_view *v, double queue)
{
	unsigned int late = ceil((LAW_BINS - 1 - last_heard(v, LAW_BINS)) * BIN / LAW_TICK), t = l->ticks;
	double then = l->queues[(t - LAW_STANDS) % LAW_PEAKS], between = l->queues[(t - LAW_STANDS / 2) % LAW_PEAKS];

	return !l->silent && late <= LAW_PEAKS - LAW_STANDS && t > l->begun + SETTLES && queue > 2 * target(l) &&
	       is_near(then, queue) && is_near(between, queue) &&
	       l->capacity < 0.6 * l->carried[(t - late - LAW_STANDS) % LAW_PEAKS];
}

/* A path that is little longer lowers the rate slowly, as a capacity does that falls: a drain tells which. */
static bool is_suspect(const struct uplink_law *l, double queue)
{
	unsigned int t = l->ticks;

	return queue > threshold(l) && is_near(l->queues[(t - SUSPECT) % LAW_PEAKS], queue) &&
	       is_near(l->queues[(t - SUSPECT / 2) % LAW_PEAKS], queue) &&
	       l->carried[(t - 1) % LAW_PEAKS] < SUSPECT_FALL * l->carried[(t - SUSPECT) % LAW_PEAKS];
}

/*
 * A base that is too high hides a queue, and one that is too low makes one: both are set right by what is left after a drain. Only answers
 * to what left in its second half tell that.
 */
static double check_base(struct uplink_law *l, const struct uplink_view *v, double queue)
{
	bool ends = l->drains > 0 && l->drains <= LAW_TICK && !l->silent;

	if (is_path(l, v, queue)) {
		l->rate = fmax(l->rate, 0.7 * l->carried[(l->ticks - LAW_STANDS) % LAW_PEAKS]);
		memset(l->queues, 0, sizeof(l->queues));
		return queue;
	}
	l->stands = queue > threshold(l) / 2 && !ends ? l->stands + LAW_TICK : 0;
	l->drains = fmax(l->drains - LAW_TICK, 0);
	if (l->drains <= 0 && l->capacity && (l->stands > DRAIN_AFTER || is_suspect(l, queue))) {
		l->stands = 0;
		l->drains = DRAIN + v->rtt; /* answers of then have come by its end */
		l->drained = l->capacity * fmax(1 - 2 * queue / DRAIN, LEAST_DRAIN);
	}
	if (ends)
		l->rate = fmax(l->rate, l->capacity);
	if (!ends || queue <= threshold(l) / 2 || !answered_within(v, DRAIN / 2 + v->rtt))
		return 0;
	l->mark = fmax(l->mark, most_of(l->carried));
	l->rate = fmax(l->rate, 0.7 * l->mark);
	return queue;
}

double uplink_law_tick(struct uplink_law *l, const struct uplink_view *v)
{
	double queue = queue_now(l, v), sent = throughput(v), lost = lost_share(l, v), none;
	bool busy = sent > USED * l->rate, loud = busy || sent > LOUD;

	learn_noise(l, v);
	learn_capacity(l, v, queue, fmax(lost - l->usual, 0),
		       loud); /* those of a radio have passed the modem's queue */
	l->sent[l->ticks % LAW_PEAKS] = sent;
	none = check_base(l, v, queue);
	l->queues[l->ticks % LAW_PEAKS] = none ? 0 : queue;
	l->carried[l->ticks % LAW_PEAKS] = l->capacity ? fmin(l->rate, l->capacity) : l->rate;
	if (l->searches || l->rests > 0)
		l->begun = l->ticks;
	l->queue = queue - none;
	l->ticks++;
	if (busy && l->ticks > l->begun + SETTLES)
		keep_margin(l);
	if (none) {
		l->cause = UPLINK_PATH;
	} else if (endure(l, queue, v->silence, busy)) {
		l->cause = UPLINK_SILENCE;
	} else if ((l->searches ? loud : busy) && overflows(l, lost, sent)) {
		l->cause = UPLINK_LOSS;
		l->forgiven = v->bins[LAW_BINS - 1].number + lround(RESTS / BIN);
	} else if (queue > threshold(l) && l->capacity) {
		l->cause = l->drains > 0 ? UPLINK_DRAIN : UPLINK_QUEUE;
		follow(l, v, queue, busy);
		if (l->drains > 0)
			l->rate = fmin(l->rate, l->drained);
	} else if (busy && !l->searches && lost <= LOST + 1.5 * l->usual && l->drains <= 0) {
		l->cause = UPLINK_GROWTH;
		grow(l, v->rtt);
	} else {
		l->cause = l->searches     ? UPLINK_SEARCH
			   : l->drains > 0 ? UPLINK_DRAIN
			   : busy          ? UPLINK_LOSS
					   : UPLINK_IDLE;
	}
	if (l->rests > 0) /* nothing is learned of a rate that grows meanwhile */
		l->rate = fmin(l->rate, l->limit);
	l->rate = fmin(fmax(l->rate, l->least), l->most);
	return none;
}
