// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the controllers' flows do, and what the loaded programs count, as OpenMetrics text. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel/attachments.h"
#include "command.h"
#include "kernel/sockets.h"
#include "kernel/netns.h"
#include "kernel/registry.h"
#include "kernel/device.h"
#include "uses/share.h"
#include "uses/thinning.h"

static struct {
	long interval;
} args = { .interval = 1 };

/* What there is to tell of. */
struct world {
	struct look look;
	struct netns_list users;
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

/* Of one family, by controller; what is not known is left out. */
static void print_family(const struct look *l, const char *name, const char *unit, size_t offset, const char *help)
{
	struct group g;

	printf("# TYPE %s gauge\n", name);
	if (unit)
		printf("# UNIT %s %s\n", name, unit);
	printf("# HELP %s %s\n", name, help);
	for (size_t at = 0; at < l->flows.nr; at += g.nr) {
		struct sums s;
		double value;

		g = group_from(l, at);
		s = sums_of(&g);
		memcpy(&value, (const char *)&s + offset, sizeof(value));
		if (isnan(value))
			continue;
		printf("%s{controller=", name);
		label_value(g.flow->cc);
		printf("} %.9g\n", value);
	}
}

static void print_flows(const struct look *l)
{
	print_family(l, "asymcc_flows", NULL, offsetof(struct sums, flows),
		     "Established connections, of all network namespaces.");
	if (args.interval) {
		print_family(l, "asymcc_goodput_bytes_per_second", "bytes_per_second", offsetof(struct sums, goodput),
			     "Bytes acknowledged between two looks.");
		print_family(l, "asymcc_retransmitted_packets_per_second", "packets_per_second",
			     offsetof(struct sums, resent), "Packets sent again between two looks.");
	}
	print_family(l, "asymcc_rtt_seconds", "seconds", offsetof(struct sums, rtt), "Mean of the smoothed RTTs.");
	print_family(l, "asymcc_rtt_max_seconds", "seconds", offsetof(struct sums, rtt_max),
		     "Largest of the smoothed RTTs.");
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

/* Of those that are registered: each once, of however many builds. */
static void print_uses(const struct world *w)
{
	static const char *const kinds[] = { "default", "route", "cgroup", "socket" };

	printf("# TYPE asymcc_uses gauge\n"
	       "# HELP asymcc_uses Defaults of network namespaces, routes, cgroups and sockets that have the controller.\n");
	for (const struct registered *reg = w->registry.at; reg < w->registry.at + w->registry.nr; reg++)
		for (size_t i = 0; registry_find(&w->registry, reg->name) == reg && i < 4; i++)
			printf("asymcc_uses{controller=\"%s\",kind=\"%s\"} %u\n", reg->name, kinds[i],
			       uses_of(w, reg->name, kinds[i]));
}

/* --- shares --------------------------------------------------------------------------------------------------------- */

static void print_share(const char *family, const struct share *s, const char *key, const char *value, double v)
{
	if (isnan(v) || isinf(v))
		return;
	printf("%s{controller=\"%s\",cgroup=", family, s->cc);
	label_value(s->cgroup);
	if (key)
		printf(",%s=\"%s\"", key, value);
	printf("} %.9g\n", v);
}

static void print_share_interval(const char *family, const struct share *s, const struct interval *v)
{
	print_share(family, s, "bound", "low", v->low);
	print_share(family, s, "bound", "estimate", v->value);
	print_share(family, s, "bound", "high", v->high);
}

/* Each family of all shares in turn. */
static int print_shares(const struct attachments *all)
{
	static const char *const families[][2] = {
		{ "asymcc_share_connections",
		  "Connections that have ended, of those that use --share gave the controller "
		  "(given), and of the rest." },
		{ "asymcc_share_goodput_ratio",
		  "Goodput of the given, over that of the rest, with its 95 % interval." },
		{ "asymcc_share_rtt_ratio", "RTT of the given, over that of the rest, with its 95 % interval." },
		{ "asymcc_share_retransmitted_difference",
		  "Part of the segments that were sent again, of the given less that of the rest, with its 95 % interval." },
		{ "asymcc_share_stopped", "1: use --stop-if-worse has ended it." },
	};
	int found = 0;

	for (int f = 0; f < 5 && found >= 0; f++) {
		const char *family = families[f][0];
		struct share s;
		int i = 0;

		printf("# TYPE %s gauge\n# HELP %s %s\n", family, family, families[f][1]);
		while ((found = share_next(all, &i, &s)) > 0) {
			switch (f) {
			case 0:
				print_share(family, &s, "group", "given", s.connections[1]);
				print_share(family, &s, "group", "rest", s.connections[0]);
				break;
			case 1:
				print_share_interval(family, &s, &s.goodput_ratio);
				break;
			case 2:
				print_share_interval(family, &s, &s.rtt_ratio);
				break;
			case 3:
				print_share_interval(family, &s, &s.resent_difference);
				break;
			case 4:
				print_share(family, &s, NULL, NULL, !!s.stopped);
				break;
			}
		}
	}
	return found;
}

/* --- counters of the programs --------------------------------------------------------------------------------------- */

static void print_counters(const struct section *s, const char *name, const char *object, const struct attached *at)
{
	bool device = at && at->netns;

	for (int i = 0; i < s->vars.nr; i++) {
		printf("asymcc_events_total{controller=\"%s\",object=\"%s\",%s=", name, object,
		       device ? "device" : "cgroup");
		label_value(device ? at->device : at ? at->cgroup : "");
		if (device && !at->netns->own) {
			printf(",netns=");
			label_value(at->netns->name);
		}
		printf(",event=\"%s\"} %llu\n", s->vars.var[i].name,
		       (unsigned long long)var_get(&s->vars.var[i], s->bytes));
	}
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
	printf("# TYPE asymcc_events counter\n"
	       "# HELP asymcc_events Counters of a loaded controller, and of ACK thinning, as `asymcc show` has them.\n");
	return of_controllers(&w->registry) || of_thinning(&w->all) ? -1 : 0;
}

/* -------------------------------------------------------------------------------------------------------------------- */

static int read_world(struct world *w)
{
	struct look *l = &w->look;
	int err = look(l);

	if (!err && args.interval && l->flows.nr) {
		sleep(args.interval);
		err = look(l);
	}
	if (err && *l->error)
		fail("%s", l->error);
	return err || netns_read(&w->users) || registry_read(&w->registry) || attachments_read(&w->all) ? -1 : 0;
}

static int metrics(void)
{
	struct world w = {};
	int err = read_world(&w);

	if (!err) {
		print_flows(&w.look);
		print_uses(&w);
		err = print_shares(&w.all) || print_events(&w) ? -1 : 0;
	}
	if (!err) {
		printf("# EOF\n");
		attachments_warn(&w.all, NULL);
		if (w.look.nr_unread)
			fail("%s", w.look.unread);
	}
	look_free(&w.look);
	netns_free(&w.users);
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
