// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What works on this machine, what was left half done, and the mend. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/capability.h>

#include "kernel/cgroup.h"
#include "uses/cgroups.h"
#include "command.h"
#include "kernel/registry.h"
#include "kernel/route_lookup.h"
#include "uses/thinning.h"
#include "uses/trial.h"
#include "uses/uses.h"
#include "object/verifier.h"

static struct {
	bool json;
} args;

enum state { GOOD, NOTE, BAD };

struct report {
	bool json;
	int nr, bad;
};

/* A line; `mend` NULL: nothing is to be done. */
static void __attribute__((format(printf, 5, 6)))
tell(struct report *rep, enum state state, const char *what, const char *mend, const char *fmt, ...)
{
	static const char *const names[] = { "ok", "note", "bad" };
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = strdup("out of memory");
	va_end(ap);
	rep->bad += state == BAD;
	if (rep->json) {
		printf("%s\n  {\"check\": %s, \"state\": \"%s\", \"text\": %s, \"mend\": %s}", rep->nr++ ? "," : "[",
		       json_text(what), names[state], json_text(text), json_text(mend));
		free(text);
		return;
	}
	printf("%-4s  %-16s ", names[state], what);
	print_name(stdout, text);
	if (mend) {
		printf(": ");
		print_name(stdout, mend);
	}
	putchar('\n');
	free(text);
}

static void see_kernel(struct report *rep)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 1))
		tell(rep, GOOD, "kernel", NULL, "%s", u.release);
	else
		tell(rep, NOTE, "kernel", "boot 6.1 or later", "%s, older than those that are tried", u.release);
}

static bool is_readable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, R_OK);
}

/* asymcc's own objects do not ask for it; many others' do, for CONFIG_HZ. */
static void see_config(struct report *rep)
{
	char path[120];
	struct utsname u;

	uname(&u);
	snprintf(path, sizeof(path), "/boot/config-%s", u.release);
	if (is_readable(path))
		tell(rep, GOOD, "kernel's config", NULL, "%s", path);
	else if (is_readable("/proc/config.gz"))
		tell(rep, GOOD, "kernel's config", NULL, "/proc/config.gz");
	else
		tell(rep, NOTE, "kernel's config", "put the kernel's configuration there, or `modprobe configs`",
		     "neither %s nor /proc/config.gz: objects that ask for a CONFIG_ of the kernel (__kconfig) do not load",
		     path);
}

static long number_in(const char *path, long missing)
{
	FILE *f = fopen(path, "re");
	long n;

	if (!f || fscanf(f, "%ld", &n) != 1)
		n = missing;
	if (f)
		fclose(f);
	return n;
}

static void see_jit(struct report *rep)
{
	long on = number_in("/proc/sys/net/core/bpf_jit_enable", -1);

	if (on > 0)
		tell(rep, GOOD, "JIT", NULL, "on");
	else if (!on)
		tell(rep, BAD, "JIT", "sysctl -w net.core.bpf_jit_enable=1", "off, and struct_ops need it");
	else
		tell(rep, NOTE, "JIT", NULL, "net.core.bpf_jit_enable cannot be read here");
}

static void see_capabilities(struct report *rep)
{
	static const struct {
		int bit;
		const char *name;
	} wanted[] = {
		{ 39, "CAP_BPF" },
		{ 38, "CAP_PERFMON" },
		{ CAP_NET_ADMIN, "CAP_NET_ADMIN" },
		{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
	};
	char line[128], missing[128] = "";
	unsigned long long effective = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "CapEff: %llx", &effective);
	if (f)
		fclose(f);
	for (int i = 0; i < 4; i++)
		if (!(effective >> wanted[i].bit & 1))
			snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing), " %s", wanted[i].name);
	if (*missing)
		tell(rep, BAD, "capabilities", "run it as root", "missing:%s", missing);
	else
		tell(rep, GOOD, "capabilities", NULL, "all that are needed");
}

/* The verifier looks at no call that the settings make dead: without its options, trace does without the helper. */
static void see_lockdown(struct report *rep)
{
	const char *level = lockdown();

	if (lockdown_refuses_reads())
		tell(rep, NOTE, "lockdown", "boot with lockdown=integrity for these",
		     "%s: controllers load; trace has no --flow, --link and --state, use no --existing, unload no --switch, "
		     "and unload --drain waits for listeners",
		     level);
	else if (*level)
		tell(rep, GOOD, "lockdown", NULL, "%s, which hinders nothing", level);
}

static void see_cgroup(struct report *rep)
{
	char root[PATH_MAX];
	int fd = cgroup_open_root(root);

	if (fd >= 0)
		tell(rep, GOOD, "cgroup2", NULL, "mounted at %s", root);
	else if (!cgroup_is_absent(fd))
		tell(rep, BAD, "cgroup2", NULL, "it cannot be looked for: %s", strerror(-fd));
	else
		tell(rep, NOTE, "cgroup2", "mount -t cgroup2 none DIR",
		     "not mounted: no --cgroup, and no Formosa receiver");
	if (fd >= 0)
		close(fd);
}

/* Can it be loaded here? `r` NULL: what the kernel takes is not known. */
static bool see_object(struct report *rep, const char *name, const struct registry *r)
{
	const char *missing = NULL;
	struct object o = {};
	bool read = !object_open_controller(&o, name, NULL) && !object_check_name(&o, name);

	if (!read)
		tell(rep, BAD, name, "build or install it anew", "its object cannot be read");
	else if (r && (missing = registry_missing(r, o.btf, o.type)))
		tell(rep, BAD, name, "another kernel, or another controller",
		     "it sets tcp_congestion_ops.%s, which this kernel lacks", missing);
	object_close(&o);
	return read && !missing;
}

static void see_objects(struct report *rep, const struct registry *r)
{
	const char *dir = object_dir();
	int nr = 0, fit = 0;
	char **names;

	object_names(&names);
	for (char **n = names; n && *n; n++, nr++)
		fit += see_object(rep, *n, r);
	object_names_free(names);
	if (!nr)
		tell(rep, BAD, "objects", "make build, or name their folder with --objects", "none in %s", dir);
	else
		tell(rep, fit < nr ? NOTE : GOOD, "objects", NULL, "%d controllers in %s, %d fit this kernel", nr, dir,
		     fit);
}

/* Programs of a load that did not get to its end, or whose struct_ops was taken out alone. */
static void see_left_programs(struct report *rep, const struct registry *r, const struct attachments *all)
{
	for (int i = 0; i < all->nr; i++) {
		const struct attached *a = &all->at[i];
		const struct registered *reg = *a->owner ? registry_find(r, a->owner) : NULL;
		char mend[80];

		if (!*a->owner || !strcmp(a->owner, THIN) || (reg && !reg->unloading))
			continue;
		snprintf(mend, sizeof(mend), "asymcc unload %s", a->owner);
		tell(rep, BAD, a->owner, mend, "program %s is left in %s, and %s is not registered", a->name, a->cgroup,
		     a->owner);
	}
}

static void see_thinning(struct report *rep, const struct attachments *all)
{
	struct thinning t;
	char mend[200];
	int i = 0;

	while (thinning_next(all, &i, &t)) {
		snprintf(mend, sizeof(mend), "asymcc thin --off %s, then thin there again", thinning_option(t.cgroup));
		if (t.programs == THINNING_PROGRAMS)
			tell(rep, GOOD, THIN, NULL, "%s %s are thinned",
			     is_on_device(t.cgroup) ? "forwarded ACKs that leave by" : "ACKs of connections in",
			     t.cgroup);
		else
			tell(rep, BAD, THIN, mend, "%s has only a part of its programs", t.cgroup);
	}
}

/* Programs of others that have the last word where ours are, such as bpftune's or Cilium's. */
static int see_after(struct report *rep, const struct attachments *all)
{
	struct attachments *after = attachments_after(all);
	char mend[120];

	for (int i = 0; after && i < all->nr; i++) {
		const struct attached *ours = &all->at[i];

		for (int k = 0; k < after[i].nr; k++) {
			const struct attached *theirs = &after[i].at[k];

			snprintf(mend, sizeof(mend), "`bpftool prog show id %u` tells whose it is", theirs->prog_id);
			tell(rep, NOTE, *ours->used ? ours->used : ours->owner, mend,
			     "in %s program %s of %s runs after %s, and may %s", ours->cgroup, theirs->name,
			     theirs->cgroup, ours->name,
			     *ours->used ? "choose another controller" : "undo what that sets");
		}
	}
	attachments_after_free(after, all);
	return after ? 0 : -1;
}

static bool is_gone(struct report *rep, const char *cc)
{
	int there = controller_available(cc);

	rep->bad += there < 0;
	return !there;
}

/* Names that nobody bears any more. */
static void
see_uses(struct report *rep, const struct registry *r, const struct netns_list *l, const struct attachments *all)
{
	char mend[240];

	for (int i = 0; i < l->nr; i++) {
		const struct netns *ns = &l->ns[i];
		const struct registered *reg = registry_find(r, ns->initial);

		if (ns->unread)
			tell(rep, NOTE, "netns", NULL,
			     "%s cannot be read: %s: what uses a controller there is not known", ns->name, ns->unread);
		if (reg && reg->unloading) {
			snprintf(mend, sizeof(mend), "asymcc unuse %s", ns->initial);
			tell(rep, BAD, ns->initial, mend, "unloaded, but still the default of %s", ns->name);
		}
		for (int k = 0; k < ns->nr_orphan; k++)
			tell(rep, BAD, "route", "ip route del it, or load that again",
			     "%s in %s was made for a controller that is not loaded any more", ns->orphan[k].text,
			     ns->name);
		for (int k = 0; k < ns->nr_lost; k++) {
			snprintf(
				mend, sizeof(mend),
				"asymcc use %s --route %.*s there again, or asymcc unuse %s; a network manager that does so "
				"can be told to run `systemctl reload asymcc@%s` after it",
				ns->lost[k].name, (int)strcspn(ns->lost[k].text, " "), ns->lost[k].text,
				ns->lost[k].name, ns->lost[k].name);
			tell(rep, BAD, ns->lost[k].name, mend, "route %s in %s was given it, and has it no more",
			     ns->lost[k].text, ns->name);
		}
	}
	for (int i = 0; i < all->nr; i++) {
		if (!*all->at[i].used || !is_gone(rep, all->at[i].used))
			continue;
		snprintf(mend, sizeof(mend), "asymcc unuse %s, or load it", all->at[i].used);
		tell(rep, BAD, all->at[i].used, mend, "cgroup %s uses it, and it is not loaded", all->at[i].cgroup);
	}
}

struct aside {
	struct report *rep;
	const char *netns;
};

/* Somebody has added another route to just the prefix of one that `use` gave a controller, and connections take that. */
static void see_aside(const char *text, const struct words *w, void *ctx)
{
	int len = strcspn(text, " ");
	const char *cc = w->word[1];
	const struct aside *a = ctx;
	char dst[ROUTE_TEXT], mend[240];
	struct routes all = {};
	struct prefix p;
	struct route now;
	bool has_it = false;

	snprintf(dst, sizeof(dst), "%.*s", len, text);
	if (controller_available(cc) <= 0 || prefix_parse(&p, dst) || route_find(&p, &now))
		return;
	if (route_is_to(&now, &p) && strcmp(now.cc, cc) && !routes_read(&all, &p))
		for (int i = 0; i < all.nr; i++)
			has_it |= !strcmp(all.route[i].text, text) && !strcmp(all.route[i].cc, cc);
	if (has_it) { /* one that has it no more is lost, and told as that */
		snprintf(mend, sizeof(mend), "%sasymcc use %s --route %s there again",
			 strcmp(now.text, text) ? "" : "give one of them a metric of its own, then ", cc, dst);
		tell(a->rep, BAD, cc, mend,
		     "route %s was given it, but connections take another there, %s in %s, without it", text, now.text,
		     a->netns);
	}
	routes_free(&all);
	free(now.message);
}

static int see_asides(const struct netns_id *id, void *ctx)
{
	struct aside a = { ctx, id->name };

	return state_each_route(see_aside, &a);
}

static void see_lost_cgroup(const char *cc, const char *path, bool gone, void *ctx)
{
	char *mend = NULL;

	if (asprintf(&mend, "asymcc use %s --cgroup %s%s, or asymcc unuse %s --cgroup %s", cc, path,
		     gone ? " when it is there again" : "", cc, path) < 0)
		mend = NULL;
	tell(ctx, gone ? NOTE : BAD, cc, mend, "cgroup %s was given it, and %s", path,
	     gone ? "was removed since" : "has it no more");
	free(mend);
}

/* Its guard tries again and again for some time. */
static void see_trial(const char *cc, bool by_systemd, long over, void *ctx)
{
	char mend[60];

	(void)by_systemd;
	snprintf(mend, sizeof(mend), "asymcc try %s --end", cc);
	if (over > 60)
		tell(ctx, BAD, cc, mend, "a trial of it did not end, which was to end %ld s ago", over);
}

static void see_replacing(const char *cc, const struct words *w, void *ctx)
{
	char mend[120];

	if (!is_name(cc))
		return;
	snprintf(mend, sizeof(mend), "asymcc load %s --as %s --replace, or asymcc unload %s --drain", w->word[0], cc,
		 cc);
	tell(ctx, BAD, cc, mend, "load --replace was killed: %s",
	     is_gone(ctx, cc) ? "the old one is out, the new one not in" : "defaults may still have the old one");
}

/* The namespaces of which an original default is remembered. */
struct originals {
	struct report *rep;
	char *found;                /* the files' names of those that are there, each after a space */
};

static int find_original(const struct netns_id *id, void *ctx)
{
	struct originals *o = ctx;
	const char *file = state_default();
	char *more;

	(void)id;
	if (!file || asprintf(&more, "%s %s ", o->found ? o->found : "", file) < 0)
		return -1;
	free(o->found);
	o->found = more;
	return 0;
}

static bool is_found(const struct originals *o, const char *cookie, int len)
{
	char file[80];

	snprintf(file, sizeof(file), " " STATE_DEFAULT "%.*s ", len, cookie);
	return !o->found || strstr(o->found, file);
}

/*
 * One that no process is in, and that has no name, cannot be told from one that is gone: so nobody but the user removes
 * it.
 */
static void see_original(const char *cookie, const struct words *w, void *ctx)
{
	struct originals *o = ctx;
	char mend[160];

	if (is_found(o, cookie, strlen(cookie)))
		return;
	snprintf(mend, sizeof(mend), "rm " STATE_DIR "/" STATE_DEFAULT "%s, if it is gone", cookie);
	tell(o->rep, NOTE, w->word[1], mend, "%s was the default of a network namespace that is not found", w->word[0]);
}

static void see_route_of_none(const char *rest, const struct words *w, void *ctx)
{
	struct originals *o = ctx;
	char mend[240];

	if (is_found(o, rest, strcspn(rest, "-")))
		return;
	snprintf(mend, sizeof(mend), "rm " STATE_DIR "/" STATE_ROUTE "%s, if it is gone", rest);
	tell(o->rep, NOTE, w->word[1], mend, "a route of a network namespace that is not found was given it");
}

static int see_state(struct report *rep)
{
	struct originals o = { .rep = rep };
	int err = netns_each(find_original, &o);

	if (!err)
		err = state_each(STATE_DEFAULT, see_original, &o) || state_each(STATE_ROUTE, see_route_of_none, &o);
	free(o.found);
	err |= netns_each(see_asides, rep);
	return state_each(STATE_REPLACING, see_replacing, rep) || trials_each(see_trial, rep) || err ? -1 : 0;
}

static void
see_registered(struct report *rep, const struct registry *r, const struct netns_list *l, const struct attachments *all)
{
	for (const struct registered *reg = r->at; reg < r->at + r->nr; reg++) {
		char *users = users_text(l, all, reg->name, true);

		if (reg->unloading)
			tell(rep, NOTE, reg->name, NULL, "unloaded (map %u); it stays until its users end: %s",
			     reg->map_id, users && *users ? users : "none that can be seen");
		else
			tell(rep, GOOD, reg->name, NULL, "registered (map %u), %s", reg->map_id,
			     users && *users ? users : "used by nobody");
		free(users);
	}
}

/* A Formosa sender's timeouts tell of ACKs that were lost: F-RTO takes them for spurious, and nothing is repaired. */
static void see_frto(struct report *rep, const struct registry *r)
{
	if (number_in("/proc/sys/net/ipv4/tcp_frto", 0) <= 0)
		return;
	for (int i = 0; i < r->nr; i++)
		if (!strcmp(r->at[i].object, "formosa") && !r->at[i].unloading)
			tell(rep, NOTE, r->at[i].name, "sysctl -w net.ipv4.tcp_frto=0",
			     "F-RTO is on: where its flows fill their ACK path, timeouts last longer");
}

/* What is loaded, who uses it, and what is left of what was. */
static void see_loaded(struct report *rep)
{
	struct attachments all = {};
	struct netns_list users = {};
	struct registry r = {};

	if (geteuid()) {
		tell(rep, NOTE, "loaded", "run it as root", "what is loaded cannot be seen");
		return;
	}
	if (registry_read(&r) || attachments_read(&all) || netns_read(&users)) {
		tell(rep, BAD, "loaded", NULL, "what is loaded cannot be seen (the reason is on standard error)");
	} else {
		see_registered(rep, &r, &users, &all);
		see_frto(rep, &r);
		see_left_programs(rep, &r, &all);
		see_thinning(rep, &all);
		if (attachments_warn(&all, NULL))
			tell(rep, NOTE, "programs", NULL,
			     "some of asymcc run in a network namespace or a cgroup that cannot be seen from here");
		if (see_after(rep, &all))
			tell(rep, BAD, "cgroups", NULL,
			     "what runs there cannot be read (the reason is on standard error)");
		see_uses(rep, &r, &users, &all);
		if (cgroups_lost(&all, see_lost_cgroup, rep))
			rep->bad++;
		if (see_state(rep))
			tell(rep, BAD, STATE_DIR, NULL, "it cannot be read (the reason is on standard error)");
	}
	netns_free(&users);
	attachments_free(&all);
	registry_free(&r);
}

static int doctor(void)
{
	struct report rep = { .json = args.json };
	struct registry r = {};
	char why[200] = "";
	bool known;

	see_kernel(&rep);
	known = !registry_layout(&r, why, sizeof(why));
	if (known)
		tell(&rep, GOOD, "BTF", NULL, "there, and struct_ops take congestion controls");
	else
		tell(&rep, BAD, "BTF", "boot a kernel that has it", "%s", why);
	see_config(&rep);
	see_jit(&rep);
	see_capabilities(&rep);
	see_lockdown(&rep);
	see_cgroup(&rep);
	tell(&rep, GOOD, "libbpf", NULL, "%s", libbpf_version_string());
	see_objects(&rep, known ? &r : NULL);
	registry_free(&r);
	if (known)
		see_loaded(&rep);
	if (args.json)
		puts("\n]");
	return rep.bad ? -1 : 0;
}

static const struct opt opts[] = { OPT_JSON(&args.json), {} };

const struct command cmd_doctor = {
	.name = "doctor",
	.opts = opts,
	.objects = true,
	.run = doctor,
	.summary = "what works here, what does not, and the mend",
	.about = "Exit status 1 if a controller could not be loaded here, or if something was left half done.",
};
