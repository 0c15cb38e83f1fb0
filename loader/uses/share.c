// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/clock.h"
#include "kernel/registry.h"
#include "view/text.h"
#include "uses/share.h"
#include "view/output.h"

#define Z 1.96 /* of the normal distribution, for 95 % */

int percent_parse(long *hundredths, const char *option, const char *text)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%")) || !strchr("0123456789.", *text) || !(v >= 0.01 && v <= 99.99))
		return fail("%s %s: expected a percentage from 0.01%% to 99.99%%", option, text);
	*hundredths = lround(100 * v);
	return 0;
}

unsigned int share_bound(long hundredths)
{
	return lround(-65536 * log2(1 - hundredths / (double)SHARE_FULL));
}

/* The mean of rounded logarithms, and the square of its standard error; rounding has a variance of 1/12. */
static double mean_of(unsigned long long sum, unsigned long long squares, unsigned long long n, double *error)
{
	double mean = n ? (double)sum / n : NAN;

	*error = n > 1 ? fmax(0, (double)squares / n - mean * mean) / (n - 1) + 1.0 / 12 / n : NAN;
	return mean;
}

static struct interval ratio_of(double mine, double my_error, double other, double other_error)
{
	double half = Z * sqrt(my_error + other_error), d = mine - other;

	return (struct interval){ exp2(d / 256), exp2((d - half) / 256), exp2((d + half) / 256) };
}

/* All that were sent again, of all; the square of its standard error is that of a ratio of sums. */
static double resent_of(const struct share_group *g, double *error)
{
	double n = g->connections, sum = g->segments, r = sum ? g->resent / sum : NAN;

	*error = n > 1 && sum ? fmax(0, g->resent_square - 2 * r * g->product + r * r * g->segments_square) /
					(sum * sum) * n / (n - 1)
			      : NAN;
	return r;
}

static void compare(struct share *s, const struct shares *c)
{
	double goodput[2], rtt[2], error[3][2], half;

	for (int k = 0; k < 2; k++) {
		const struct share_group *g = &c->group[k];

		s->connections[k] = g->connections;
		goodput[k] = mean_of(g->goodput, g->goodput_square, g->goodputs, &error[0][k]);
		rtt[k] = mean_of(g->rtt, g->rtt_square, g->rtts, &error[1][k]);
		s->resent[k] = resent_of(g, &error[2][k]);
		s->goodput[k] = exp2(goodput[k] / 256 - SHARE_OCTAVES) * 8 * NS_PER_S;
		s->rtt[k] = exp2(rtt[k] / 256) / 1e6;
	}
	s->goodput_ratio = ratio_of(goodput[1], error[0][1], goodput[0], error[0][0]);
	s->rtt_ratio = ratio_of(rtt[1], error[1][1], rtt[0], error[1][0]);
	half = Z * sqrt(error[2][1] + error[2][0]);
	s->resent_difference.value = s->resent[1] - s->resent[0];
	s->resent_difference.low = s->resent_difference.value - half;
	s->resent_difference.high = s->resent_difference.value + half;
}

static long long value_of(const struct section *s, const char *name, long long missing)
{
	for (int i = 0; i < s->vars.nr; i++)
		if (!strcmp(s->vars.var[i].name, name))
			return var_get(&s->vars.var[i], s->bytes);
	return missing;
}

/* 0: all connections are given it. */
static int read_share(struct share *s, const struct attached *a)
{
	struct section rodata = {}, bss = {};
	struct shares counts;
	long long share;
	int err = section_read(&rodata, a->btf_id, ".rodata"), found = 0;

	share = err ? SHARE_FULL : value_of(&rodata, "share", SHARE_FULL);
	if (!err && share < SHARE_FULL)
		err = section_read(&bss, a->btf_id, ".bss");
	if (!err && bss.bytes) {
		memcpy(&counts, bss.bytes, sizeof(counts)); /* nothing else is in the section */
		*s = (struct share){
			.cc = a->used,
			.cgroup = a->cgroup,
			.percent = share / 100.0,
			.worse = 100 * (1 - exp2(-(double)value_of(&rodata, "worse", 0) / 65536)),
			.least = value_of(&rodata, "least", 0),
			.stopped = counts.stopped ? epoch_of(counts.stopped) : 0,
		};
		compare(s, &counts);
		found = 1;
	}
	section_free(&rodata);
	section_free(&bss);
	return err ? -1 : found;
}

int share_next(const struct attachments *all, int *i, struct share *s)
{
	int found = 0;

	while (!found && *i < all->nr) {
		const struct attached *a = &all->at[(*i)++];

		if (*a->used)
			found = read_share(s, a);
	}
	return found;
}

static void print_ratio(const char *name, const struct interval *v)
{
	if (isnan(v->value))
		print("%s not known", name);
	else if (isnan(v->low))
		print("%s %+.1f%%", name, 100 * (v->value - 1));
	else
		print("%s %+.1f%% (%+.1f to %+.1f)", name, 100 * (v->value - 1), 100 * (v->low - 1),
		      100 * (v->high - 1));
}

static void member_interval(const char *name, const struct interval *v)
{
	char part[40];

	members(real_of(name, "%.9g", v->value));
	snprintf(part, sizeof(part), "%s_low", name);
	members(real_of(part, "%.9g", v->low));
	snprintf(part, sizeof(part), "%s_high", name);
	members(real_of(part, "%.9g", v->high));
}

static void print_members(const struct share *s)
{
	static const char *const groups[2] = { "rest", "given" };

	object_begin(NULL, "", "");
	members(text_of("name", s->cc), text_of("cgroup", s->cgroup), real_of("percent", "%g", s->percent),
		flag_of("stopped", s->stopped));
	for (int k = 0; k < 2; k++) {
		object_begin(groups[k], "", "");
		members(integer_of("connections", s->connections[k]), real_of("goodput_bps", "%.9g", s->goodput[k]),
			real_of("srtt_s", "%.9g", s->rtt[k]), real_of("retransmitted_share", "%.9g", s->resent[k]));
		level_end();
	}
	member_interval("goodput_ratio", &s->goodput_ratio);
	member_interval("srtt_ratio", &s->rtt_ratio);
	member_interval("retransmitted_difference", &s->resent_difference);
	members(real_of("stop_if_worse_percent", "%.9g", s->worse), integer_of("least", s->least));
	level_end();
}

void share_print(const struct share *s, const char *indent)
{
	char when[40];

	print_members(s);
	print("%s is given to %g%% of new connections in %s; ended: %llu with it, %llu without\n", s->cc, s->percent,
	      printable(s->cgroup), s->connections[1], s->connections[0]);
	print("%s  with it, 95%% intervals: ", indent);
	print_ratio("goodput", &s->goodput_ratio);
	print_ratio(", RTT", &s->rtt_ratio);
	if (isnan(s->resent_difference.value))
		print(", retransmitted not known\n");
	else
		print(", retransmitted %.3f%%, not %.3f%% (%+.3f to %+.3f)\n", 100 * s->resent[1], 100 * s->resent[0],
		      100 * s->resent_difference.low, 100 * s->resent_difference.high);
	strftime(when, sizeof(when), "%F %T", localtime(&s->stopped));
	if (s->stopped)
		print("%s  stopped by itself at %s: goodput was worse by more than %.0f%%; new connections do not take it\n",
		      indent, when, s->worse);
	else if (s->worse > 0)
		print("%s  it stops by itself if goodput is worse by more than %.0f%%, after %u connections of each\n",
		      indent, s->worse, s->least);
}
