// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/clock.h"
#include "kernel/registry.h"
#include "view/text.h"
#include "uses/share.h"

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

/* Of rounded logarithms: their mean, and the square of its standard error; rounding has a variance of 1/12. */
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

static void print_ratio(FILE *out, const char *name, const struct interval *v)
{
	fprintf(out, "%s ", name);
	if (isnan(v->value))
		fprintf(out, "not known");
	else if (isnan(v->low))
		fprintf(out, "%+.1f%%", 100 * (v->value - 1));
	else
		fprintf(out, "%+.1f%% (%+.1f to %+.1f)", 100 * (v->value - 1), 100 * (v->low - 1), 100 * (v->high - 1));
}

void share_print(FILE *out, const struct share *s, const char *indent)
{
	char when[40];

	fprintf(out, "%s%s is given to %g%% of new connections in ", indent, s->cc, s->percent);
	print_name(out, s->cgroup);
	fprintf(out, "; ended: %llu with it, %llu without\n", s->connections[1], s->connections[0]);
	fprintf(out, "%s  with it, 95%% intervals: ", indent);
	print_ratio(out, "goodput", &s->goodput_ratio);
	print_ratio(out, ", RTT", &s->rtt_ratio);
	fprintf(out, ", retransmitted ");
	if (isnan(s->resent_difference.value))
		fprintf(out, "not known\n");
	else
		fprintf(out, "%.3f%%, not %.3f%% (%+.3f to %+.3f)\n", 100 * s->resent[1], 100 * s->resent[0],
			100 * s->resent_difference.low, 100 * s->resent_difference.high);
	if (s->stopped) {
		strftime(when, sizeof(when), "%F %T", localtime(&s->stopped));
		fprintf(out,
			"%s  stopped by itself at %s: goodput was worse by more than %.0f%%; new connections do not take it\n",
			indent, when, s->worse);
	} else if (s->worse > 0) {
		fprintf(out,
			"%s  it stops by itself if goodput is worse by more than %.0f%%, after %u connections of each\n",
			indent, s->worse, s->least);
	}
}

static void json_number(const char *name, double v)
{
	printf(", \"%s\": ", name);
	if (isnan(v) || isinf(v))
		printf("null");
	else
		printf("%.9g", v);
}

static void json_interval(const char *name, const struct interval *v)
{
	char part[40];

	json_number(name, v->value);
	snprintf(part, sizeof(part), "%s_low", name);
	json_number(part, v->low);
	snprintf(part, sizeof(part), "%s_high", name);
	json_number(part, v->high);
}

void share_json(const struct share *s)
{
	static const char *const groups[2] = { "rest", "given" };

	printf("{\"name\": %s, \"cgroup\": %s, \"percent\": %g, \"stopped\": %s", json_text(s->cc),
	       json_text(s->cgroup), s->percent, s->stopped ? "true" : "false");
	for (int k = 0; k < 2; k++) {
		printf(", \"%s\": {\"connections\": %llu", groups[k], s->connections[k]);
		json_number("goodput_bps", s->goodput[k]);
		json_number("srtt_s", s->rtt[k]);
		json_number("retransmitted_share", s->resent[k]);
		putchar('}');
	}
	json_interval("goodput_ratio", &s->goodput_ratio);
	json_interval("srtt_ratio", &s->rtt_ratio);
	json_interval("retransmitted_difference", &s->resent_difference);
	json_number("stop_if_worse_percent", s->worse);
	printf(", \"least\": %u}", s->least);
}
