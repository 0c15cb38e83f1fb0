// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* All that asymcc has done on this machine, what of it will last, and what others did to it since. It changes nothing. */
#include <errno.h>
#include <stdarg.h>
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
#include "kernel/inventory.h"
#include "uses/state.h"
#include "uses/thinning.h"
#include "uses/trial.h"
#include "uses/uses.h"

static struct {
	bool json;
} args;

struct seen {
	struct sight now;
	struct boots boots;
	bool blind; /* without the right to read the kernel's BPF */
	const char *section; /* that is being told */
	bool needs_root; /* that it is told as a whole */
	int nr; /* items of it */
};

/* --- the output: sections of items ---------------------------------------------------------------------------------- */

static void begin(struct seen *s, const char *section, bool by_bpf)
{
	s->section = section;
	s->needs_root = s->blind && by_bpf;
	s->nr = 0;
}

/* Before each item. */
static void item(struct seen *s)
{
	if (args.json)
		printf(s->nr ? ",\n  " : "\n \"%s\": [\n  ", s->section);
	else
		printf(s->nr ? "  " : "%s:\n  ", s->section);
	s->nr++;
}

static void end(const struct seen *s)
{
	if (args.json)
		printf(s->nr ? "]" : "\n \"%s\": []", s->section);
	else if (!s->nr)
		printf("%s: %s\n", s->section, s->needs_root ? "not seen: it needs root" : "nothing");
}

/* A text that says something of `what`, and the mend, or NULL. */
static void __attribute__((format(printf, 4, 5)))
tell(struct seen *s, const char *what, const char *mend, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	item(s);
	if (args.json) {
		printf("{\"name\": %s, \"text\": %s, \"mend\": %s}", json_text(what), json_text(text), json_text(mend));
		return;
	}
	print_name(stdout, what);
	fputs(": ", stdout);
	print_name(stdout, text);
	if (mend) {
		fputs(": ", stdout);
		print_name(stdout, mend);
	}
	putchar('\n');
}

static const char *yes(bool it_is)
{
	return it_is ? "true" : "false";
}

/* --- loaded --------------------------------------------------------------------------------------------------------- */

/* "alpha=30, pacing=1": those that are not the object's own; of an object that is not installed, none. */
static int print_values(const struct registered *reg)
{
	struct params p = {};
	struct object o = {};
	const char *sep = args.json ? "" : ", ";
	int err = params_read(&p, reg->btf_id);

	if (!err && object_open_if_built(&o, reg->object)) {
		for (int i = 0; i < p.vars.nr; i++) {
			const struct var *v = &p.vars.var[i], *built = vars_find(&o.params, v->name, strlen(v->name));
			long long is = var_get(v, v->live ? p.data.bytes : p.rodata.bytes);

			if (!built || is == object_get(&o, built))
				continue;
			if (args.json)
				printf("%s%s: %lld", sep, json_text(v->name), is);
			else
				printf("%s%s=%lld", sep, v->name, is);
			sep = ", ";
		}
	}
	object_close(&o);
	params_free(&p);
	return err;
}

/* The file that it was loaded from; "": not by asymcc. */
static int read_origin(const struct registered *reg, char file[STATE_TEXT])
{
	struct words w;
	char id[CC_NAME_LEN];
	int there = state_peek(state_loaded(reg->name), &w);

	snprintf(id, sizeof(id), "%u", reg->map_id);
	snprintf(file, STATE_TEXT, "%s", strcmp(w.word[0], id) ? "" : w.text);
	return there < 0 ? -1 : 0;
}

static int tell_loaded(struct seen *s)
{
	const struct registry *r = &s->now.registry;
	int err = 0;

	for (const struct registered *reg = r->at; reg < r->at + r->nr && !err; reg++) {
		const struct boot *b = boot_find(&s->boots, reg->name);
		bool stays = b && b->starts && !reg->unloading;
		char file[STATE_TEXT];
		time_t since = registry_since(reg->btf_id);
		char when[40];

		strftime(when, sizeof(when), args.json ? "%FT%T%z" : "%F %T", localtime(&since));
		if (since < 0)
			return -1;
		err = read_origin(reg, file);
		item(s);
		if (args.json) {
			printf("{\"name\": %s, \"object\": %s, \"file\": %s, \"since\": %s, \"unloading\": %s, "
			       "\"after_reboot\": %s, \"values\": {",
			       json_text(reg->name), json_text(reg->object), json_text(*file ? file : NULL),
			       json_text(since ? when : NULL), yes(reg->unloading), yes(stays));
			err |= print_values(reg);
			printf("}");
			attachments_json(&s->now.all, reg->btf_id, NULL);
			printf("}");
			continue;
		}
		printf("%s: ", reg->name);
		if (*file)
			print_name(stdout, file);
		else
			printf("object %s, not loaded by asymcc", reg->object);
		if (since)
			printf(", since %s", when);
		err |= print_values(reg);
		if (attachments_cgroup(&s->now.all, reg->btf_id, NULL, &(int){ 0 })) {
			printf("; programs in ");
			attachments_print(&s->now.all, reg->btf_id, NULL);
		}
		if (reg->unloading)
			printf("; unloaded, it stays until its users end\n");
		else if (stays)
			printf("; %s loads it after a reboot\n", b->unit);
		else
			printf("; gone after a reboot\n");
	}
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
	if (args.json) {
		printf("{\"name\": %s, \"by\": \"%s\", \"where\": %s, \"netns\": %s, \"connections\": ",
		       json_text(u->cc), u->by, json_text(u->where), json_text(u->netns));
		printf(lasts ? "null" : "%u", u->sockets);
		printf(", \"after_reboot\": %s}", lasts ? yes(u->stays) : "null");
		return;
	}
	printf("%s: ", u->cc);
	if (!lasts)
		printf("%u socket%s", u->sockets, u->sockets == 1 ? "" : "s");
	else
		printf("%s", u->by);
	if (u->where) {
		putchar(' ');
		print_name(stdout, u->where);
	}
	if (u->netns)
		printf(strcmp(u->by, "default") ? " in %s" : " of %s", u->netns);
	puts(!lasts ? "" : u->stays ? "; also after a reboot" : "; not after a reboot");
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

/* Of what is loaded, of what `use` gave, which may be one of the kernel's own, and of all that routes name. */
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
		tell(ctx, cc, NULL, "%ld s are left; %s sees to its end", -over,
		     by_systemd ? "a timer of systemd" : "a process of its own");
	else
		tell(ctx, cc, mend, "its end is past for %ld s", over);
}

static int tell_trials(struct seen *s)
{
	return trials_each(tell_trial, s);
}

static int tell_shares(struct seen *s)
{
	struct share share;
	int i = 0, found;

	while ((found = share_next(&s->now.all, &i, &share)) > 0) {
		if (args.json) {
			item(s);
			share_json(&share);
		} else {
			printf(s->nr++ ? "" : "%s:\n", s->section);
			share_print(stdout, &share, "  ");
		}
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
		if (args.json) {
			thinning_json(&t);
			printf(", \"whole\": %s, \"after_reboot\": %s}", yes(t.programs == THINNING_PROGRAMS),
			       yes(stays));
			continue;
		}
		thinning_print(stdout, t.cgroup);
		printf(": %llu sent, %llu dropped%s\n", t.sent, t.dropped,
		       stays ? "; also after a reboot" : "; not after a reboot");
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
	struct prefix one = *p;
	struct boot only = { .starts = true, .uses = { .routes.nr = 1, .prefix = &one } };
	const struct boots among = { &only, 1 };

	memcpy(only.name, b->name, sizeof(only.name));
	for (int i = 0; i < s->now.users.nr; i++)
		for (int k = 0; s->now.users.ns[i].first && k < s->now.users.ns[i].nr_route; k++)
			if (!strcmp(s->now.users.ns[i].route[k].name, b->name) &&
			    boot_has_route(&among, b->name, s->now.users.ns[i].route[k].text))
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

/* What its USE gives that is not so now; "" if all is. */
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
		tell(s, b->name, NULL, "%s: thin %s", b->unit, b->thin ? b->thin : "");
		return;
	}
	missing_now(s, b, missing, sizeof(missing));
	if (controller_available(b->name) == 0)
		snprintf(missing, sizeof(missing), " it is not loaded");
	tell(s, b->name, NULL, "%s: load %s%s%s%s%s%s%s", b->unit, b->name, b->load && *b->load ? " " : "",
	     b->load ? b->load : "", b->use && *b->use ? "; use " : "", b->use ? b->use : "",
	     *missing ? "; not so now:" : "", missing);
}

static int tell_boot(struct seen *s)
{
	for (const struct boot *b = s->boots.at; b < s->boots.at + s->boots.nr; b++) {
		char mend[80], conf[64];

		snprintf(mend, sizeof(mend), "systemctl enable %.*s", (int)strcspn(b->unit, " "), b->unit);
		snprintf(conf, sizeof(conf), CONF_DIR "/%s.conf", b->name);
		if (b->wrong)
			tell(s, b->name, "mend the file", "%s: %s", conf, b->wrong);
		else if (b->starts)
			tell_unit(s, b);
		else
			tell(s, b->name, mend, "nothing starts what %s says", conf);
	}
	return 0;
}

/* --- what others did ------------------------------------------------------------------------------------------------ */

static void tell_lost_cgroup(const char *cc, const char *path, bool gone, void *ctx)
{
	char mend[2200];

	snprintf(mend, sizeof(mend), "asymcc use %s --cgroup %s%s, or asymcc unuse %s --cgroup %s", cc, path,
		 gone ? " when it is there again" : "", cc, path);
	tell(ctx, cc, mend, "cgroup %s was given it, and %s", path,
	     gone ? "was removed since, as by a restart of its service" : "has it no more");
}

/* The controller that a route has now, if it is another. */
static const char *route_has(const struct netns *ns, const char *text)
{
	for (int i = 0; i < ns->nr_route; i++)
		if (!strcmp(ns->route[i].text, text))
			return ns->route[i].name;
	return NULL;
}

static void tell_changes_in(struct seen *s, const struct netns *ns)
{
	char mend[200];

	if (*ns->given && strcmp(ns->given, ns->initial)) {
		snprintf(mend, sizeof(mend), "asymcc use %s --default there again, or asymcc unuse %s --default",
			 ns->given, ns->given);
		tell(s, ns->given, mend, "it was made the default of %s, which has %s now", ns->name, ns->initial);
	}
	for (int i = 0; i < ns->nr_lost; i++) {
		const char *cc = ns->lost[i].name, *text = ns->lost[i].text, *now = route_has(ns, text);

		snprintf(mend, sizeof(mend), "asymcc use %s --route %.*s there again, or asymcc unuse %s", cc,
			 (int)strcspn(text, " "), text, cc);
		tell(s, cc, mend, "route %s in %s was given it, and %s%s", text, ns->name,
		     now ? "has another now: " : "is gone, or was written anew without it", now ? now : "");
	}
	for (int i = 0; i < ns->nr_orphan; i++)
		tell(s, "route", "ip route del it, or load that again",
		     "%s in %s was made for a controller that is not loaded any more", ns->orphan[i].text, ns->name);
}

static int tell_others(struct seen *s)
{
	struct thinning t;
	char mend[200];
	int n = 0;

	for (int i = 0; i < s->now.users.nr; i++)
		tell_changes_in(s, &s->now.users.ns[i]);
	if (!s->blind && cgroups_lost(&s->now.all, tell_lost_cgroup, s))
		return -1;
	for (int i = 0; i < s->now.all.nr; i++) {
		const struct attached *ours = &s->now.all.at[i];

		for (int k = 0; s->now.after && k < s->now.after[i].nr; k++) {
			const struct attached *theirs = &s->now.after[i].at[k];

			snprintf(mend, sizeof(mend), "`bpftool prog show id %u` tells whose it is", theirs->prog_id);
			tell(s, *ours->used ? ours->used : ours->owner, mend,
			     "in %s program %s of %s runs after it, and may %s", ours->cgroup, theirs->name,
			     theirs->cgroup, *ours->used ? "choose another controller" : "undo what it sets");
		}
		if (*ours->used && controller_available(ours->used) == 0)
			tell(s, ours->used, "load it, or asymcc unuse it",
			     "cgroup %s is given it, and it is not loaded", ours->cgroup);
	}
	while (thinning_next(&s->now.all, &n, &t)) {
		snprintf(mend, sizeof(mend), "asymcc thin --off %s, then thin there again", thinning_option(t.cgroup));
		if (t.programs < THINNING_PROGRAMS)
			tell(s, THIN, mend, "%s has only a part of its programs", t.cgroup);
	}
	return 0;
}

/* --- what was not looked at ----------------------------------------------------------------------------------------- */

static int tell_unseen(struct seen *s)
{
	if (s->blind)
		tell(s, "programs", "run it as root", "what is loaded, cgroups and thinning cannot be seen");
	if (s->blind && s->now.users.nr == 1)
		tell(s, "namespaces", "run it as root", "other network namespaces than this one cannot be seen");
	if (!s->blind && attachments_warn(&s->now.all, NULL))
		tell(s, "programs", NULL, "some of asymcc run in a network namespace or a cgroup that cannot be seen");
	for (int i = 0; i < s->now.users.nr; i++)
		if (s->now.users.ns[i].unread)
			tell(s, "netns", NULL, "%s cannot be read: %s", s->now.users.ns[i].name,
			     s->now.users.ns[i].unread);
	return 0;
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
	return sight_read(&s->now, s->blind) || boots_read(&s->boots) ? -1 : 0;
}

static const struct {
	const char *name;
	bool by_bpf; /* the kernel tells all of it to root alone */
	int (*tell)(struct seen *s);
} sections[] = {
	{ "loaded", true, tell_loaded },  { "used", true, tell_uses },        { "shares", true, tell_shares },
	{ "trials", false, tell_trials }, { "thinned", true, tell_thinning }, { "boot", false, tell_boot },
	{ "others", true, tell_others },  { "unseen", false, tell_unseen },
};

static int status(void)
{
	struct seen s = {};
	int err = see(&s);

	if (!err && args.json)
		putchar('{');
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && !err; i++) {
		if (args.json && i)
			putchar(',');
		begin(&s, sections[i].name, sections[i].by_bpf);
		err = sections[i].tell(&s);
		end(&s);
	}
	if (!err && args.json)
		puts("\n}");
	sight_free(&s.now);
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
		"What is loaded, who uses it and by which way, where ACKs are thinned; which of that will be there after a "
		"reboot, by the units that are enabled and the files in /etc/asymcc; and what another program has changed, "
		"or runs beside it. It changes nothing. Without root it tells what it can see, and what it cannot.",
};
