// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* All that asymcc has done on this machine, what of it will last, and what others did to it since. It changes nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "uses/boot.h"
#include "uses/cgroups.h"
#include "kernel/clock.h"
#include "command.h"
#include "kernel/device.h"
#include "uses/share.h"
#include "uses/inventory.h"
#include "uses/state.h"
#include "uses/thinning.h"
#include "uses/trial.h"
#include "uses/uplinks.h"
#include "uses/uses.h"
#include "view/findings.h"
#include "view/output.h"

static struct {
	bool json;
} args;

struct seen {
	struct report report; /* first: a line of it is an item here */
	struct inventory now;
	struct boots boots;
	bool blind; /* without the right to read the kernel's BPF */
	const char *section; /* that is being told */
	int nr; /* items of it */
};

/* Before each item. */
static void item(struct seen *s)
{
	if (s->nr++)
		print("  ");
	else
		print("%s:\n  ", s->section);
}

static void print_line(struct report *r, enum grade grade, const char *what, const char *mend, const char *text)
{
	(void)grade;
	item((struct seen *)r);
	object(text_of("name", what), text_of("text", text), text_of("mend", mend));
	print("%s: %s%s%s\n", printable(what), printable(text), mend ? ": " : "", mend ? printable(mend) : "");
}

/* --- loaded --------------------------------------------------------------------------------------------------------- */

/* "alpha=30, pacing=1": those that are not the object's own; of an object that is not installed, none. */
static int print_values(const struct registered *reg)
{
	struct params p = {};
	struct object o = {};
	int err = params_read(&p, reg->btf_id);

	object_begin("values", "", "");
	if (!err && object_open_if_built(&o, reg->object)) {
		for (int i = 0; i < p.vars.nr; i++) {
			const struct var *v = &p.vars.var[i], *built = vars_find(&o.params, v->name, strlen(v->name));
			long long is = var_get(v, v->live ? p.data.bytes : p.rodata.bytes);

			if (!built || is == object_get(&o, built))
				continue;
			members(integer_of(v->name, is));
			print(", %s=%lld", v->name, is);
		}
	}
	level_end();
	object_close(&o);
	params_free(&p);
	return err;
}

/* The file that it was loaded from; "": not by asymcc. */
static int read_origin(const struct registered *reg, char file[STATE_TEXT])
{
	struct record w;
	char id[CC_NAME_LEN];
	int there = state_peek(state_loaded(reg->name), &w);

	snprintf(id, sizeof(id), "%u", reg->map_id);
	snprintf(file, STATE_TEXT, "%s", strcmp(w.what, id) ? "" : w.text);
	return there < 0 ? -1 : 0;
}

static int print_loaded(struct seen *s, const struct registered *reg)
{
	const struct boot *b = boot_find(&s->boots, reg->name);
	bool stays = b && b->starts && !reg->unloading;
	time_t since = registry_since(reg->btf_id);
	char file[STATE_TEXT], when[40];
	int err;

	if (since < 0)
		return -1;
	strftime(when, sizeof(when), output_is_json() ? "%FT%T%z" : "%F %T", localtime(&since));
	err = read_origin(reg, file);
	item(s);
	object_begin(NULL, "", "");
	members(text_of("name", reg->name), text_of("object", reg->object), text_of("file", *file ? file : NULL),
		text_of("since", since ? when : NULL), flag_of("unloading", reg->unloading),
		flag_of("after_reboot", stays));
	if (*file)
		print("%s: %s", reg->name, printable(file));
	else
		print("%s: object %s, not loaded by asymcc", reg->name, reg->object);
	if (since)
		print(", since %s", when);
	err |= print_values(reg);
	attachments_print(&s->now.all, reg->btf_id, NULL, "; programs in ");
	level_end();
	print(reg->unloading ? "; unloaded, it stays until its users end\n"
	      : stays        ? "; %s loads it after a reboot\n"
			     : "; gone after a reboot\n",
	      stays ? b->unit : "");
	return err;
}

static int tell_loaded(struct seen *s)
{
	const struct registry *r = &s->now.registry;
	int err = 0;

	for (const struct registered *reg = r->at; reg < r->at + r->nr && !err; reg++)
		err = print_loaded(s, reg);
	return err;
}

/* --- who uses what -------------------------------------------------------------------------------------------------- */

struct use {
	const char *cc, *by, *where, *netns;
	unsigned int sockets;
	bool stays;
};

static void tell_use(struct seen *s, const struct use *u)
{
	bool lasts = strcmp(u->by, "connections");

	item(s);
	object_begin(NULL, "", "");
	members(text_of("name", u->cc), text_of("by", u->by), text_of("where", u->where), text_of("netns", u->netns),
		integer_if("connections", !lasts, u->sockets));
	members(lasts ? flag_of("after_reboot", u->stays) : text_of("after_reboot", NULL));
	level_end();
	if (lasts)
		print("%s: %s", u->cc, u->by);
	else
		print("%s: %u socket%s", u->cc, u->sockets, u->sockets == 1 ? "" : "s");
	if (u->where)
		print(" %s", printable(u->where));
	if (u->netns)
		print(" %s %s", strcmp(u->by, "default") ? "in" : "of", u->netns);
	print("%s\n", !lasts ? "" : u->stays ? "; also after a reboot" : "; not after a reboot");
}

/* The kernel's own are the default, and have connections, without us. */
static bool is_given_in(const struct netns *ns, const char *cc)
{
	return !strcmp(ns->given, cc) || netns_routes(ns, cc);
}

static void tell_uses_of(struct seen *s, const char *cc)
{
	bool registered = registry_find(&s->now.registry, cc);

	for (int i = 0; i < s->now.users.nr; i++) {
		const struct netns *ns = &s->now.users.ns[i];
		bool ours = registered || is_given_in(ns, cc);
		unsigned int sockets = ours ? netns_sockets(ns, cc) : 0;

		if (!strcmp(ns->initial, cc) && (registered || !strcmp(ns->given, cc)))
			tell_use(s, &(struct use){ cc, "default", NULL, ns->name, 0,
						   ns->first && boot_has_default(&s->boots, cc) });
		for (int k = 0; k < ns->nr_route; k++)
			if (!strcmp(ns->route[k].name, cc))
				tell_use(s, &(struct use){
						    cc, "route", ns->route[k].text, ns->name, 0,
						    ns->first && boot_has_route(&s->boots, cc, ns->route[k].text) });
		if (sockets)
			tell_use(s, &(struct use){ cc, "connections", NULL, ns->name, sockets, false });
	}
	for (int i = 0; i < s->now.all.nr; i++)
		if (attached_gives(&s->now.all.at[i], cc))
			tell_use(s, &(struct use){ cc, "cgroup", s->now.all.at[i].cgroup, NULL, 0,
						   boot_has_cgroup(&s->boots, cc, s->now.all.at[i].cgroup) });
}

/* Names of controllers, each once. */
struct names {
	const char **at;
	int nr;
};

static int add_name(struct names *n, const char *cc)
{
	const char **room;

	for (int i = 0; i < n->nr; i++)
		if (!strcmp(n->at[i], cc))
			return 0;
	room = realloc(n->at, (n->nr + 1) * sizeof(*room));
	if (!room)
		return fail("out of memory");
	n->at = room;
	n->at[n->nr++] = cc;
	return 0;
}

/* All controllers that are loaded, that `use` gave, or that routes name; one may be the kernel's own. */
static int tell_uses(struct seen *s)
{
	struct names n = {};
	int err = 0;

	for (int i = 0; i < s->now.registry.nr && !err; i++)
		err = add_name(&n, s->now.registry.at[i].name);
	for (int i = 0; i < s->now.users.nr && !err; i++) {
		const struct netns *ns = &s->now.users.ns[i];

		if (*ns->given)
			err = add_name(&n, ns->given);
		for (int k = 0; k < ns->nr_route && !err; k++)
			err = add_name(&n, ns->route[k].name);
	}
	for (int i = 0; i < s->now.all.nr && !err; i++)
		if (*s->now.all.at[i].used)
			err = add_name(&n, s->now.all.at[i].used);
	for (int i = 0; i < n.nr && !err; i++)
		tell_uses_of(s, n.at[i]);
	free(n.at);
	return err;
}

static void tell_trial(const char *cc, bool by_systemd, long over, void *ctx)
{
	char mend[60];

	snprintf(mend, sizeof(mend), "asymcc try %s --end", cc);
	if (over <= 0)
		report(ctx, GOOD, cc, NULL, "%ld s are left; %s sees to its end", -over,
		       by_systemd ? "a timer of systemd" : "a process of its own");
	else
		report(ctx, BAD, cc, mend, "its end is past for %ld s", over);
}

static int tell_trials(struct seen *s)
{
	return trials_each(tell_trial, s);
}

static void tell_uplink(const struct uplink_state *u, void *ctx)
{
	report(ctx, *u->mend ? BAD : GOOD, u->dev, *u->mend ? u->mend : NULL, "%s", u->text);
}

static int tell_uplinks(struct seen *s)
{
	return uplinks_each(tell_uplink, s);
}

static int tell_shares(struct seen *s)
{
	struct share share;
	int i = 0, found;

	while ((found = share_next(&s->now.all, &i, &share)) > 0) {
		item(s);
		share_print(&share, "  ");
	}
	return found;
}

static int tell_thinning(struct seen *s)
{
	struct thinning t;
	int i = 0, err = 0;

	while (!err && thinning_next(&s->now.all, &i, &t)) {
		bool stays = boot_has_cgroup(&s->boots, THIN, t.cgroup);

		err = thinning_count(&t);
		item(s);
		object_begin(NULL, "", "");
		thinning_members(&t);
		members(flag_of("whole", t.programs == THINNING_PROGRAMS), flag_of("after_reboot", stays));
		level_end();
		print("%s: %llu sent, %llu dropped; %s after a reboot\n", printable(thinning_text(t.cgroup)), t.sent,
		      t.dropped, stays ? "also" : "not");
	}
	return err;
}

/* --- what starts at boot -------------------------------------------------------------------------------------------- */

/* Is it so in the first namespace, or the tree of cgroups, as USE says? */
static bool is_default(const struct seen *s, const char *cc)
{
	for (int i = 0; i < s->now.users.nr; i++)
		if (s->now.users.ns[i].first && !strcmp(s->now.users.ns[i].initial, cc))
			return true;
	return false;
}

static bool is_on_route(const struct seen *s, const struct boot *b, const struct prefix *p)
{
	for (int i = 0; i < s->now.users.nr; i++)
		for (int k = 0; s->now.users.ns[i].first && k < s->now.users.ns[i].nr_route; k++)
			if (!strcmp(s->now.users.ns[i].route[k].name, b->name) &&
			    route_text_is_to(s->now.users.ns[i].route[k].text, p))
				return true;
	return false;
}

static bool is_in_cgroup(const struct seen *s, const char *cc, const char *path)
{
	char real[PATH_MAX];

	for (int i = 0; i < s->now.all.nr; i++)
		if (attached_gives(&s->now.all.at[i], cc) &&
		    !strcmp(realpath(path, real) ? real : path, s->now.all.at[i].cgroup))
			return true;
	return false;
}

/* The part of its USE that does not hold now; "" if all does. */
static void missing_now(const struct seen *s, const struct boot *b, char *text, size_t size)
{
	const struct uses *u = &b->uses;
	size_t n = 0;

	*text = 0;
	if (u->by_default && !is_default(s, b->name))
		n += snprintf(text, size, " --default");
	for (int i = 0; i < u->routes.nr && n < size; i++)
		if (!is_on_route(s, b, &u->prefix[i]))
			n += snprintf(text + n, size - n, " --route %s", u->routes.text[i]);
	for (int i = 0; i < u->cgroups.nr && n < size && !s->blind; i++)
		if (!is_in_cgroup(s, b->name, u->cgroups.text[i]))
			n += snprintf(text + n, size - n, " --cgroup %s", u->cgroups.text[i]);
}

static void tell_unit(struct seen *s, const struct boot *b)
{
	char missing[1024];

	if (!strcmp(b->name, THIN)) {
		report(&s->report, NOTE, b->name, NULL, "%s: thin %s", b->unit, b->thin ? b->thin : "");
		return;
	}
	missing_now(s, b, missing, sizeof(missing));
	if (controller_available(b->name) == 0)
		snprintf(missing, sizeof(missing), " it is not loaded");
	report(&s->report, NOTE, b->name, NULL, "%s: load %s%s%s%s%s%s%s", b->unit, b->name,
	       b->load && *b->load ? " " : "", b->load ? b->load : "", b->use && *b->use ? "; use " : "",
	       b->use ? b->use : "", *missing ? "; not so now:" : "", missing);
}

static int tell_boot(struct seen *s)
{
	for (const struct boot *b = s->boots.at; b < s->boots.at + s->boots.nr; b++) {
		char mend[80], conf[64];

		snprintf(mend, sizeof(mend), "systemctl enable %.*s", (int)strcspn(b->unit, " "), b->unit);
		snprintf(conf, sizeof(conf), CONF_DIR "/%s.conf", b->name);
		if (b->wrong)
			report(&s->report, BAD, b->name, "mend the file", "%s: %s", conf, b->wrong);
		else if (b->starts)
			tell_unit(s, b);
		else
			report(&s->report, NOTE, b->name, mend, "nothing starts what %s says", conf);
	}
	return 0;
}

static int tell_others(struct seen *s)
{
	return findings_report(&s->report, &s->now, s->blind);
}

/* --- what was not looked at ----------------------------------------------------------------------------------------- */

static int tell_unseen(struct seen *s)
{
	struct report *r = &s->report;
	int err;

	if (s->blind)
		report(r, NOTE, "programs", "run it as root", "what is loaded, cgroups and thinning cannot be seen");
	err = findings_hidden(r, &s->now, s->blind);
	for (const struct netns *ns = s->now.users.ns; ns < s->now.users.ns + s->now.users.nr; ns++)
		if (ns->unread)
			report(r, NOTE, "netns", NULL, "%s cannot be read: %s", ns->name, ns->unread);
	return err;
}

/* -------------------------------------------------------------------------------------------------------------------- */

/* The kernel tells of its BPF only to those that may load some. */
static bool is_blind(void)
{
	__u32 id;

	return bpf_map_get_next_id(0, &id) && errno != ENOENT;
}

static int see(struct seen *s)
{
	s->blind = is_blind();
	return inventory_read(&s->now, s->blind) || boots_read(&s->boots) ? -1 : 0;
}

static const struct {
	const char *name;
	bool by_bpf; /* the kernel tells all of it to root alone */
	int (*tell)(struct seen *s);
} sections[] = {
	{ "loaded", true, tell_loaded },  { "used", true, tell_uses },        { "shares", true, tell_shares },
	{ "trials", false, tell_trials }, { "thinned", true, tell_thinning }, { "uplinks", false, tell_uplinks },
	{ "boot", false, tell_boot },     { "others", true, tell_others },    { "unseen", false, tell_unseen },
};

static int status(void)
{
	struct seen s = { .report.line = print_line };
	int err = see(&s);
	bool seen = !err;

	output_json(args.json);
	if (seen)
		object_begin(NULL, "\n ", "\n");
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && seen; i++) {
		s.section = sections[i].name;
		s.nr = 0;
		list_begin(s.section, "\n  ", "");
		err |= sections[i].tell(&s); /* one that is not known hides no other */
		level_end();
		if (!s.nr)
			print("%s: %s\n", s.section,
			      s.blind && sections[i].by_bpf ? "not seen: it needs root" : "nothing");
	}
	if (seen)
		level_end();
	err |= s.now.users.records_unread;
	inventory_free(&s.now);
	boots_free(&s.boots);
	return err ? -1 : 0;
}

static const struct opt opts[] = { OPT_JSON(&args.json), {} };

const struct command cmd_status = {
	.name = "status",
	.opts = opts,
	.objects = true,
	.run = status,
	.summary = "what asymcc has done here, what of it lasts, and what others changed since",
	.about =
		"It tells what is loaded, who uses it and how, where ACKs are thinned; which of that will be there after a "
		"reboot, by the units that are enabled and the files in /etc/asymcc; and what another program has changed, "
		"or runs beside it. It changes nothing. Without root it tells what it can see, and what it cannot.",
};
