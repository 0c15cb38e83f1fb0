// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The controllers' flows and the counters of loaded programs as OpenMetrics text. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel/attachments.h"
#include "command.h"
#include "kernel/sockets.h"
#include "uses/users.h"
#include "kernel/registry.h"
#include "kernel/device.h"
#include "uses/share.h"
#include "uses/thinning.h"
#include "uses/uplinks.h"
#include "view/output.h"

static struct {
	long interval;
} args = { .interval = 1 };

/* The families are made of this. */
struct world {
	struct sockets sockets;
	struct users users;
	struct attachments all;
	struct registry registry;
};

/* --- flows: gauges of what is open now, as their sum falls when a flow ends ----------------------------------------- */

struct sums {
	double flows, goodput, resent, rtt, rtt_max;
};

static struct sums sums_of(const struct group *g)
{
	struct sums s = { .flows = g->nr, .goodput = 0, .rtt = NAN, .rtt_max = NAN };
	double rtts = 0;
	size_t nr = 0;

	for (const struct flow *f = g->flow; f < g->flow + g->nr; f++) {
		double rtt = f->value[SRTT];

		if (!isnan(f->seconds)) {
			s.goodput += f->value[GOODPUT] / 8;
			s.resent += f->resent / f->seconds;
		}
		if (isnan(rtt))
			continue;
		rtts += rtt;
		nr++;
		if (!(rtt < s.rtt_max)) /* which is NAN at first */
			s.rtt_max = rtt;
	}
	if (nr)
		s.rtt = rtts / nr;
	return s;
}

static const struct {
	const char *name, *unit, *help;
	size_t offset;
	bool is_rate; /* it takes two looks */
} gauges[] = {
	{ "asymcc_flows", NULL, "Established connections, of all network namespaces.", offsetof(struct sums, flows),
	  false },
	{ "asymcc_goodput_bytes_per_second", "bytes_per_second", "Bytes acknowledged between two looks.",
	  offsetof(struct sums, goodput), true },
	{ "asymcc_retransmitted_packets_per_second", "packets_per_second", "Packets sent again between two looks.",
	  offsetof(struct sums, resent), true },
	{ "asymcc_rtt_seconds", "seconds", "Mean of the smoothed RTTs.", offsetof(struct sums, rtt), false },
	{ "asymcc_rtt_max_seconds", "seconds", "Largest of the smoothed RTTs.", offsetof(struct sums, rtt_max), false },
};

/* By controller; what is not known is left out. */
static void print_flows(const struct sockets *l)
{
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
		struct group g;

		if (gauges[i].is_rate && !args.interval)
			continue;
		family(gauges[i].name, "gauge", gauges[i].unit, gauges[i].help);
		for (size_t at = 0; at < l->flows.nr; at += g.nr) {
			struct sums s;
			double value;

			g = group_from(l, at);
			s = sums_of(&g);
			memcpy(&value, (const char *)&s + gauges[i].offset, sizeof(value));
			if (!isnan(value))
				sample(gauges[i].name, (const char *[]){ "controller", g.flow->cc, NULL }, "%.9g",
				       value);
		}
	}
}

/* --- uses ----------------------------------------------------------------------------------------------------------- */

static unsigned int uses_of(const struct world *w, const char *cc, const char *kind)
{
	unsigned int nr = 0;

	for (int i = 0; i < w->users.nr; i++) {
		if (*kind == 'd')
			nr += !strcmp(w->users.ns[i].initial, cc);
		else if (*kind == 'r')
			nr += netns_routes(&w->users.ns[i], cc);
		else if (*kind == 's')
			nr += netns_sockets(&w->users.ns[i], cc);
	}
	for (int i = 0; *kind == 'c' && i < w->all.nr; i++)
		nr += attached_gives(&w->all.at[i], cc);
	return nr;
}

/* Each registered controller is told once, of however many builds. */
static void print_uses(const struct world *w)
{
	static const char *const kinds[] = { "default", "route", "cgroup", "socket" };

	family("asymcc_uses", "gauge", NULL,
	       "Defaults of network namespaces, routes, cgroups and sockets that have the controller.");
	for (const struct registered *reg = w->registry.at; reg < w->registry.at + w->registry.nr; reg++)
		for (size_t i = 0; registry_find(&w->registry, reg->name) == reg && i < 4; i++)
			sample("asymcc_uses", (const char *[]){ "controller", reg->name, "kind", kinds[i], NULL }, "%u",
			       uses_of(w, reg->name, kinds[i]));
}

/* --- shares --------------------------------------------------------------------------------------------------------- */

/* The values that a family has of a share; `label` tells them apart. */
static const struct {
	const char *name, *help, *label, *values[3];
} share_families[] = {
	{ "asymcc_share_connections",
	  "Connections that have ended, of those that use --share gave the controller (given), and of the rest.",
	  "group",
	  { "given", "rest" } },
	{ "asymcc_share_goodput_ratio",
	  "Goodput of the given, over that of the rest, with its 95 % interval.",
	  "bound",
	  { "low", "estimate", "high" } },
	{ "asymcc_share_rtt_ratio",
	  "RTT of the given, over that of the rest, with its 95 % interval.",
	  "bound",
	  { "low", "estimate", "high" } },
	{ "asymcc_share_retransmitted_difference",
	  "Part of the segments that were sent again, of the given less that of the rest, with its 95 % interval.",
	  "bound",
	  { "low", "estimate", "high" } },
	{ "asymcc_share_stopped", "1: use --stop-if-worse has ended it.", "", { "" } },
};
#define SHARE_FAMILIES (sizeof(share_families) / sizeof(share_families[0]))

/* Each family of all shares in turn. */
static int print_shares(const struct attachments *all)
{
	int found = 0;

	for (size_t f = 0; f < SHARE_FAMILIES && found >= 0; f++) {
		struct share s;
		int i = 0;

		family(share_families[f].name, "gauge", NULL, share_families[f].help);
		while ((found = share_next(all, &i, &s)) > 0) {
			const double values[SHARE_FAMILIES][3] = {
				{ s.connections[1], s.connections[0] },
				{ s.goodput_ratio.low, s.goodput_ratio.value, s.goodput_ratio.high },
				{ s.rtt_ratio.low, s.rtt_ratio.value, s.rtt_ratio.high },
				{ s.resent_difference.low, s.resent_difference.value, s.resent_difference.high },
				{ !!s.stopped },
			};

			for (int k = 0; k < 3 && share_families[f].values[k]; k++)
				if (isfinite(values[f][k]))
					sample(share_families[f].name,
					       (const char *[]){
						       "controller", s.cc, "cgroup", s.cgroup,
						       *share_families[f].label ? share_families[f].label : NULL,
						       share_families[f].values[k], NULL },
					       "%.9g", values[f][k]);
		}
	}
	return found;
}

/* --- uplinks -------------------------------------------------------------------------------------------------------- */

enum { UPLINK_RATE, UPLINK_CAPACITY, UPLINK_WAIT, UPLINK_TICKS, UPLINK_FAMILIES };

static const struct {
	const char *name, *type, *unit, *help;
} uplink_families[UPLINK_FAMILIES] = {
	[UPLINK_RATE] = { "asymcc_uplink_rate_bytes_per_second", "gauge", "bytes_per_second",
			  "The device's rate by `asymcc uplink`, in this network namespace; direction=\"down\": what arrives." },
	[UPLINK_CAPACITY] = { "asymcc_uplink_capacity_bytes_per_second", "gauge", "bytes_per_second",
			      "Rate of the modem behind it, by the last queue." },
	[UPLINK_WAIT] = { "asymcc_uplink_queue_seconds", "gauge", "seconds", "How long packets wait in the modem." },
	[UPLINK_TICKS] = { "asymcc_uplink_ticks", "counter", NULL, "Ticks of 40 ms, by the cause of their rate." },
};

static void print_uplink(const struct uplink_state *u, void *ctx)
{
	const char *direction = u->way == UPLINK_DOWN ? "direction" : NULL; /* the last of the labels */
	const double values[] = { u->now.rate / 8.0, u->now.capacity / 8.0, u->now.queue_ns / 1e9 };
	int f = *(const int *)ctx;

	if (!u->now.rate)
		return;
	if (f != UPLINK_TICKS)
		sample(uplink_families[f].name, (const char *[]){ "device", u->dev, direction, "down", NULL }, "%.9g",
		       values[f]);
	for (int i = 0; f == UPLINK_TICKS && i < UPLINK_CAUSES; i++)
		sample("asymcc_uplink_ticks_total",
		       (const char *[]){ "device", u->dev, "cause", uplink_causes[i], direction, "down", NULL }, "%llu",
		       u->now.ticks[i]);
}

static int print_uplinks(void)
{
	int err = 0;

	for (int f = 0; f < UPLINK_FAMILIES && !err; f++) {
		family(uplink_families[f].name, uplink_families[f].type, uplink_families[f].unit,
		       uplink_families[f].help);
		err = uplinks_each(print_uplink, &f);
	}
	return err;
}

/* --- counters of the programs --------------------------------------------------------------------------------------- */

/* `at` NULL: of a controller. */
static void print_counters(const struct section *s, const char *name, const char *object, const struct attached *at)
{
	bool device = at && at->netns;

	for (const struct var *v = s->vars.var; v < s->vars.var + s->vars.nr; v++)
		sample("asymcc_events_total",
		       (const char *[]){
			       "controller", name, "object", object, device ? "device" : "cgroup",
			       device ? at->device
			       : at   ? at->cgroup
				      : "",
			       "netns", device && !at->netns->own ? at->netns->name : NULL, "event", v->name, NULL },
		       "%llu", (unsigned long long)var_get(v, s->bytes));
}

static int of_load(__u32 btf_id, const char *name, const char *object, const struct attached *at)
{
	struct section s = {};
	int err = section_read(&s, btf_id, ".bss");

	if (!err)
		print_counters(&s, name, object, at);
	section_free(&s);
	return err;
}

/* A kernel's own controller has no BTF, and counts nothing. */
static int of_controllers(const struct registry *r)
{
	for (int i = 0; i < r->nr; i++)
		if (!r->at[i].unloading && r->at[i].btf_id &&
		    of_load(r->at[i].btf_id, r->at[i].name, r->at[i].object, NULL))
			return -1;
	return 0;
}

static int of_thinning(const struct attachments *all)
{
	struct thinning t;
	int i = 0;

	while (thinning_next(all, &i, &t))
		if (of_load(t.btf_id, THIN, t.at->netns ? THIN_ROUTER : THIN, t.at))
			return -1;
	return 0;
}

static int print_events(const struct world *w)
{
	family("asymcc_events", "counter", NULL,
	       "Counters of a loaded controller, and of ACK thinning, as `asymcc show` has them.");
	return of_controllers(&w->registry) || of_thinning(&w->all) ? -1 : 0;
}

/* -------------------------------------------------------------------------------------------------------------------- */

static int read_world(struct world *w)
{
	struct sockets *l = &w->sockets;
	int err = sockets_read(l);

	if (!err && args.interval && l->flows.nr) {
		sleep(args.interval);
		err = sockets_read(l);
	}
	if (err && *l->error)
		fail("%s", l->error);
	return err || users_read(&w->users) || registry_read(&w->registry) || attachments_read(&w->all) ? -1 : 0;
}

static int metrics(void)
{
	struct world w = {};
	int err = read_world(&w);

	if (!err) {
		print_flows(&w.sockets);
		print_uses(&w);
		err = print_shares(&w.all) || print_uplinks() || print_events(&w) ? -1 : 0;
	}
	if (!err) {
		printf("# EOF\n");
		if (attachments_hidden(&w.all, NULL, false) < 0 || users_warn_hidden(&w.users, &w.registry))
			err = -1;
		if (w.sockets.nr_unread)
			fail("%s", w.sockets.unread);
	}
	sockets_free(&w.sockets);
	users_free(&w.users);
	attachments_free(&w.all);
	registry_free(&w.registry);
	return err;
}

static const struct opt opts[] = {
	{ "interval", 'i', "N", "seconds between two looks at the flows (1); 0: look once, without rates",
	  .number = &args.interval, .max = 86400 },
	{}
};

const struct command cmd_metrics = {
	.name = "metrics",
	.opts = opts,
	.run = metrics,
	.summary = "flows and counters as OpenMetrics text, for a monitoring system",
	.about =
		"By controller: flows, their goodput, retransmissions and RTT, and who uses it; of loaded programs their "
		"counters. For the text files of Prometheus's node exporter: `asymcc metrics >FILE.part && mv FILE.part "
		"FILE.prom` in its folder, once a minute.",
};
