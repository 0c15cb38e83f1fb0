// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ACK thinning for any sender: thin.bpf.c in a cgroup of the receiver's, or thin_router.bpf.c on a router's device. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cgroup.h"
#include "kernel/cgroup_programs.h"
#include "command.h"
#include "kernel/device.h"
#include "kernel/registry.h"
#include "uses/state.h"
#include "uses/thinning.h"
#include "uses/uplinks.h"
#include "view/output.h"
#include "object/verifier.h"

static struct {
	struct texts cgroups, set;
	const char *dev;
	bool off, atm;
} args;

/* Parameters that have options of their own. */
#define NOT_GIVEN LONG_MIN
enum { REVERSE, PACKETS, OVERHEAD, MPU };
static struct {
	const char *param;
	long value;
} given[] = {
	[REVERSE] = { "reverse_kbit", NOT_GIVEN },
	[PACKETS] = { "max_packets", NOT_GIVEN },
	[OVERHEAD] = { "overhead", NOT_GIVEN },
	[MPU] = { "mpu", NOT_GIVEN },
};
#define NR_GIVEN (int)(sizeof(given) / sizeof(given[0]))

/* The values that the options give, as `--set` would. */
static int collect(struct texts *set)
{
	static char texts[NR_GIVEN][40];
	int err = 0;

	for (int i = 0; i < args.set.nr && !err; i++)
		err = texts_add(set, args.set.text[i]);
	for (int i = 0; i < NR_GIVEN && !err; i++) {
		if (given[i].value == NOT_GIVEN)
			continue;
		snprintf(texts[i], sizeof(texts[i]), "%s=%ld", given[i].param, given[i].value);
		err = texts_add(set, texts[i]);
	}
	return err || !args.atm ? err : texts_add(set, "atm=1");
}

/* asymcc itself knows that of the device. */
static int fail_constant(const struct var *v)
{
	return fail("--set %s: only asymcc sets it", v->name);
}

/* Other values for one that runs. */
static int change(const struct thinning *t, const struct texts *set)
{
	struct params p = {};
	const struct var *v;
	long long value;
	int err = params_read(&p, t->btf_id);

	for (int i = 0; i < set->nr && !err; i++) {
		err = assignment_parse(&p.vars, THIN, "--set ", set->text[i], &v, &value);
		if (!err && !v->live)
			err = fail_constant(v);
		if (!err)
			var_set(v, p.data.bytes, value);
	}
	if (!err) {
		err = params_write(&p);
		if (err)
			err = fail("cannot change the thinning in %s: %s", t->cgroup, strerror(-err));
	}
	params_free(&p);
	return err;
}

static int attach(struct cgroup_programs *h, struct object *o)
{
	int err = registry_load(o->bpf);

	if (err == -EPERM && !verifier_verdict())
		return fail("cannot thin: not permitted: run it as root (it needs CAP_BPF and CAP_NET_ADMIN)");
	if (err)
		return fail("cannot thin: %s: %s", registry_load_error(err), libbpf_complaint());
	return cgroup_programs_attach(h, o);
}

static void tell(const char *cgroup, bool there)
{
	print("%s are thinned%s\n", printable(thinning_text(cgroup)), there ? ", with other values" : "");
}

static int start_in(struct cgroup_programs *h, struct object *o, const struct texts *set)
{
	struct thinning t, there = {};
	struct attachments all;
	int i = 0, err = attachments_read(&all);

	while (!err && thinning_next(&all, &i, &t)) {
		if (!strcmp(t.cgroup, h->cgroup))
			there = t;
		else if (cgroup_is_near(t.cgroup, h->cgroup))
			err = fail(
				"--cgroup %s: ACKs are thinned in %s already, and two would drop what the other needs: "
				"`asymcc thin --off --cgroup %s` first",
				h->cgroup, t.cgroup, t.cgroup);
	}
	if (!err && there.cgroup && there.programs < THINNING_PROGRAMS)
		err = fail("--cgroup %s: it has only a part of the programs: `asymcc thin --off --cgroup %s` first",
			   h->cgroup, h->cgroup);
	if (!err)
		err = there.cgroup ? change(&there, set) : attach(h, o);
	if (!err)
		tell(h->cgroup, there.cgroup);
	attachments_free(&all);
	return err;
}

static int start_on(struct device *d, struct object *o, const struct texts *set)
{
	struct thinning t, there = {};
	struct attachments all;
	bool killed;
	int i = 0, err;

	if (uplink_of(d->index, &killed))
		return fail(
			"--dev %s: `asymcc uplink` is there, and thins by itself: `asymcc uplink --dev %s --off` first",
			args.dev, args.dev);
	err = attachments_read(&all);
	while (!err && thinning_next(&all, &i, &t))
		if (!strcmp(t.cgroup, d->place))
			there = t;
	if (!err && there.cgroup && there.programs < THINNING_PROGRAMS)
		err = fail("--dev %s: it has only a part of the programs: `asymcc thin --off --dev %s` first", args.dev,
			   args.dev);
	if (!err)
		err = there.cgroup ? change(&there, set) : thinning_attach(d, o);
	if (!err)
		tell(d->place, there.cgroup);
	attachments_free(&all);
	return err;
}

static int set_value(struct object *o, const char *assignment)
{
	const struct var *v;
	long long value;

	if (assignment_parse(&o->params, THIN, "--set ", assignment, &v, &value))
		return -1;
	return v->live ? object_set(o, assignment) : fail_constant(v);
}

static int start(struct cgroup_programs *h)
{
	struct object o = {};
	struct texts set = {};
	struct device d;
	int err = object_open(&o, args.dev ? THIN_ROUTER : THIN);

	if (!err) {
		snprintf(o.ops_name, sizeof(o.ops_name), THIN); /* for messages */
		err = collect(&set);
	}
	for (int i = 0; i < set.nr && !err; i++)
		err = set_value(&o, set.text[i]);
	if (err)
		;
	else if (args.dev)
		err = device_find(&d, args.dev) || start_on(&d, &o, &set) ? -1 : 0;
	else if (!cgroup_programs_open(h, &o, args.cgroups.nr ? args.cgroups.text[0] : NULL))
		err = start_in(h, &o, &set);
	else
		err = -1;
	free(set.text);
	object_close(&o);
	return err;
}

static bool is_thinned(const struct attachments *all, const char *place)
{
	struct thinning t;
	int i = 0;

	while (thinning_next(all, &i, &t))
		if (!strcmp(t.cgroup, place))
			return true;
	return false;
}

/* Even one that cannot be detached drops no more. */
static int stop(void)
{
	static const char *const no[] = { "thins=0" };
	const struct texts off = { (const char **)no, 1 };
	bool one = args.cgroups.nr || args.dev, hidden = false;
	char path[PATH_MAX];
	struct attachments all = {};
	struct thinning t;
	char *moved = NULL;
	int i = 0, err = args.cgroups.nr ? cgroup_path_parse(path, args.cgroups.text[0]) : 0;

	if (err)
		return fail("--cgroup %s: %s", args.cgroups.text[0], strerror(-err));
	if (args.dev)
		device_place(path, args.dev);
	err = attachments_read(&all);
	if (!err && args.dev && thinning_elsewhere(&all, path + strlen(ON_DEVICE), &t))
		moved = strdup(t.cgroup);
	if (!err && one && !moved && !is_thinned(&all, path)) /* it may be where nobody can look, or on its way out */
		hidden = attachments_hidden(&all, THIN, true);
	attachments_keep(&all, THIN, one ? path : NULL);
	while (!err && thinning_next(&all, &i, &t))
		if (t.programs == THINNING_PROGRAMS) /* the kernel may have freed the parameters of a part */
			err = change(&t, &off);
	err = attachments_detach(&all) || err ? -1 : 0;
	if (!err && all.nr) {
		attachments_print(&all, 0, NULL, "ACKs are no longer thinned in ");
		print("\n");
	}
	if (hidden || (!one && attachments_hidden(&all, THIN, all.nr)))
		err = -1;
	else if (!err && !all.nr)
		printf("no ACKs are thinned%s%s%s%s\n", one ? args.dev ? " at " : " in " : "", one ? path : "",
		       moved ? ", but at " : "", moved ? moved : "");
	attachments_free(&all);
	free(moved);
	return err;
}

static int thin(void)
{
	struct cgroup_programs h = CGROUP_PROGRAMS_NOWHERE;
	bool values = args.set.nr || args.atm;
	int err;

	for (int i = 0; i < NR_GIVEN; i++)
		values = values || given[i].value != NOT_GIVEN;
	if (args.cgroups.nr > 1)
		return fail("--cgroup %s: thin takes one cgroup", args.cgroups.text[1]);
	if (args.dev && args.cgroups.nr)
		return fail("--dev %s: it thins what is forwarded, and --cgroup what this machine sends: one at a time",
			    args.dev);
	if (args.off && values)
		return fail("--off takes no values");
	err = state_lock();
	if (!err)
		err = args.off ? stop() : start(&h);
	state_unlock();
	cgroup_programs_close(&h);
	return err;
}

static const struct opt opts[] = {
	{ "cgroup", 'c', "PATH", "whose connections (else the root's: all)", .texts = &args.cgroups },
	{ "dev", 'd', "DEVICE", "instead, what this router forwards: the device of the slow uplink",
	  .text = &args.dev },
	{ "reverse", 'r', "RATE", "rate of the ACK direction, such as 200kbit: drop only ACKs that it has no room for",
	  .kbit = &given[REVERSE].value },
	{ "overhead", 'e', "N", "bytes that each packet takes there beside IP, as of CAKE",
	  .number = &given[OVERHEAD].value, .min = -64, .max = 256 },
	{ "mpu", 'p', "N", "bytes that each packet takes there at least, as of CAKE", .number = &given[MPU].value,
	  .max = 256 },
	{ "atm", 'a', NULL, "there are ATM cells, as on ADSL", .flag = &args.atm },
	{ "max", 'm', "N", "packets that an ACK covers at most", .number = &given[PACKETS].value, .min = 2,
	  .max = 256 },
	{ "set", 's', "PARAM=VALUE", "change another parameter; repeatable", .texts = &args.set },
	{ "off", 'o', NULL, "thin no more; without --cgroup and --dev nowhere, in no network namespace",
	  .flag = &args.off },
	{}
};

const struct command cmd_thin = {
	.name = "thin",
	.opts = opts,
	.objects = true,
	.run = thin,
	.summary = "send fewer ACKs to any sender, for a slow uplink",
	.about =
		"It works at the receiver of the data. The sender needs nothing, and may run any controller.\n"
		"An ACK is dropped only where the sender needs none now. One that reports a new gap, a duplicate, a mark or a "
		"small window is never dropped, nor one of a connection's first 64 kB.\n"
		"With --dev it works on a router, for the hosts behind it, NAT or not. The kernel needs no BTF then.\n"
		"The same command again changes the values of that cgroup or device, while connections run.",
};
