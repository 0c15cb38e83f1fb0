// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A use for a time, and what the connections did before, during and after it. */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/attachments.h"
#include "kernel/cgroup.h"
#include "command.h"
#include "kernel/netns.h"
#include "uses/measurement.h"
#include "uses/share.h"
#include "uses/state.h"
#include "uses/trial.h"
#include "view/output.h"

#define NOT_GIVEN -1

static struct uses args;
static struct {
	long seconds, before;       /* before: NOT_GIVEN: as long as `seconds` */
	bool end, json;
} times = { .seconds = 60, .before = NOT_GIVEN };

enum { BEFORE, DURING, AFTER };
static const char *const names[] = { "before", "during", "after" };
static const char *const ages[NR_AGES] = { "existed", "began" };

/* --- the output ----------------------------------------------------------------------------------------------------- */

static void print_cell(const char *key, const char *format, double v, double scale, const char *unit)
{
	char text[32] = "-";

	members(real_of(key, format, v));
	if (!isnan(v))
		snprintf(text, sizeof(text), "%.2f%s", v * scale, unit);
	print(" %13s", text);
}

static void print_phase(const char *name, const struct measurement *p)
{
	static bool more;

	if (!more)
		print("%-13s %-17s %13s %13s %13s\n", "", "CONNECTIONS", "GOODPUT", "SRTT", "RETRANSMITTED");
	more = true;
	object_begin(NULL, "", "");
	members(text_of("phase", name), real_of("seconds", "%.6f", p->seconds));
	for (int age = 0; age < NR_AGES; age++) {
		print("%-7s %4.0fs %8zu %-8s", name, p->seconds, p->of[age].nr, ages[age]);
		object_begin(ages[age], "", "");
		members(integer_of("connections", p->of[age].nr));
		print_cell("goodput_bps", "%.0f", measurement_goodput(p, age), 1e-6, "Mbit/s");
		print_cell("srtt_s", "%.6f", measurement_rtt(p, age), 1e3, "ms");
		print_cell("retransmitted_share", "%.6f", measurement_resent(p, age), 100, "%");
		level_end();
		print("\n");
	}
	level_end();
	fflush(stdout);
}

/* --- what is tried -------------------------------------------------------------------------------------------------- */

static int check_routes(void)
{
	int err = 0;

	for (int i = 0; i < args.routes.nr && !err; i++) {
		struct routes r = {};

		err = routes_read(&r, &args.prefix[i]);
		for (int k = 0; k < r.nr && !err; k++)
			if (!strcmp(r.route[k].cc, args.cc))
				err = fail("try %s: route %s has it already", args.cc, r.route[k].text);
		routes_free(&r);
	}
	return err;
}

static int check_cgroup(void)
{
	struct attachments all = {};
	struct share share;
	char path[PATH_MAX];
	int err, found, next = 0;

	if (!args.cgroups.nr || cgroup_path_parse(path, args.cgroups.text[0])) /* later we are told why */
		return 0;
	err = attachments_read(&all);
	for (int i = 0; i < all.nr && !err; i++) {
		const struct attached *a = &all.at[i];

		if (strcmp(a->cgroup, path) || !*a->used)
			continue;
		if (!strcmp(a->used, args.cc))
			err = fail("try %s: cgroup %s has it already", args.cc, path);
		else if (*a->before)
			err = fail("try %s: in cgroup %s is a trial of %s", args.cc, path, a->used);
	}
	while (!err && (found = share_next(&all, &next, &share))) {
		if (found < 0)
			err = -1;
		else if (!strcmp(share.cgroup, path))
			err = fail(
				"try %s: in cgroup %s a share of connections has %s: `asymcc unuse %s --cgroup %s` first",
				args.cc, path, share.cc, share.cc, path);
	}
	attachments_free(&all);
	return err;
}

/* A trial of what is there already would take it away at its end. */
static int check(void)
{
	int there = controller_available(args.cc);
	char now[CC_NAME_LEN];

	if (!there)
		return fail("%s is not loaded: `asymcc load %s` first (`asymcc list` shows what is there)", args.cc,
			    args.cc);
	if (there < 0 || trial_refuse_second(args.cc) || netns_default(now))
		return -1;
	if (args.by_default && !strcmp(now, args.cc))
		return fail("try %s: it is the default already", args.cc);
	return check_routes() || check_cgroup() ? -1 : 0;
}

/* Each phase is told as soon as it is over. */
static int measure(int i, long seconds, const sigset_t *signals)
{
	struct measurement p;
	int sig = measurement_take(&p, &args, seconds, signals);

	if (sig >= 0 && (seconds || i == DURING))
		print_phase(names[i], &p);
	return sig > 0 ? fail("stopped by signal %d (%s)", sig, strsignal(sig)) : sig;
}

static void print_end(int left)
{
	level_end();
	members(flag_of("as_before", !left));
	level_end();
	if (left > 0)
		print("%s is taken back; %d place%s changed by others meanwhile\n", args.cc, left,
		      left == 1 ? " was" : "s were");
	else if (!left)
		print("%s is taken back: all is as it was\n", args.cc);
}

static int run_trial(const sigset_t *signals)
{
	long around = times.before == NOT_GIVEN ? times.seconds : times.before;
	struct trial t = {};
	int left, err = trial_begin(&t, args.cc, around + times.seconds);

	if (err)
		return -1;
	args.by_trial = true;
	output_json(times.json);
	object_begin(NULL, "", "");
	members(text_of("name", args.cc), text_of("guard", t.by_systemd ? "systemd" : "process"));
	list_begin("phases", "\n  ", "");
	print("%s is tried for %ld s; if this command cannot end it, %s does\n", args.cc, times.seconds, t.guard);
	fflush(stdout);
	err = measure(BEFORE, around, signals);
	if (!err)
		err = trial_make(&t, &args, times.seconds);
	if (!err)
		err = measure(DURING, times.seconds, signals);
	left = trial_end(args.cc, t.id);
	if (left < 0)
		err = -1;
	if (!err)
		err = measure(AFTER, around, signals);
	print_end(left);
	return err;
}

static int end(void)
{
	struct record record;
	int under_way = state_peek(state_try(args.cc), &record), left;

	if (!under_way)
		printf("no trial of %s is under way\n", args.cc);
	left = under_way > 0 ? trial_end(args.cc, NULL) : under_way;
	if (under_way > 0)
		print_end(left);
	return left < 0 ? -1 : 0;
}

static int try_it(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	bool places = args.by_default || args.routes.nr || args.cgroups.nr;
	sigset_t signals;
	int err = -1;

	if (times.end)
		return places || times.json ? fail("--end takes no other option: it ends all of the trial") : end();
	if (!places)
		return fail("try %s: for which connections? --default, --route PREFIX or --cgroup PATH", args.cc);
	if (args.cgroups.nr > 1)
		return fail("--cgroup %s: try takes one cgroup", args.cgroups.text[1]);
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&signals, ends[i]);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN); /* a reader that is gone shall not keep it from its end */
	if (!uses_parse(&args) && !check())
		err = run_trial(&signals);
	uses_free(&args);
	return err;
}

static const struct opt words[] = { USES_WORDS(args), {} };
static const struct opt opts[] = {
	USES_OPTS(args),
	{ "seconds", 't', "N", "how long (60)", .number = &times.seconds, .min = 1, .max = 86400 },
	{ "before", 'b', "N", "how long it measures before, and after (as --seconds); 0: not", .number = &times.before,
	  .max = 86400 },
	{ "end", 'x', NULL, "end a trial of NAME that is under way", .flag = &times.end },
	OPT_JSON(&times.json),
	{}
};

const struct command cmd_try = {
	.name = "try",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = try_it,
	.summary = "give a loaded controller to new connections for a time, and compare",
	.about =
		"It measures, gives the controller as `use` does, measures, takes it back, and measures again: goodput, RTT "
		"and retransmissions of the connections that existed when each of the three began, and of those that began "
		"in it. It looks once a second.\n"
		"At the end all is as it was before, also if the command is killed or its terminal is lost: a timer of systemd "
		"sees to that, or where systemd does not run, a process of its own. Changes by other programs meanwhile "
		"stay, and are named. `use` of the same place meanwhile keeps the controller there.",
};
