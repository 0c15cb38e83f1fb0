// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `asymcc doctor`: it looks for what works on this machine and what was left half done, and names the mend. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/capability.h>

#include "kernel/cake.h"
#include "kernel/cgroup.h"
#include "command.h"
#include "kernel/registry.h"
#include "kernel/route_lookup.h"
#include "uses/given.h"
#include "uses/thinning.h"
#include "uses/trial.h"
#include "uses/uplinks.h"
#include "uses/uses.h"
#include "view/findings.h"
#include "view/output.h"
#include "object/verifier.h"

static struct {
	bool json;
} args;

/* A line; `mend` NULL: nothing is to be done. */
static void print_line(struct report *rep, enum grade grade, const char *what, const char *mend, const char *text)
{
	static const char *const names[] = { "ok", "note", "bad" };

	(void)rep;
	object(text_of("check", what), text_of("state", names[grade]), text_of("text", text), text_of("mend", mend));
	print("%-4s  %-16s %s%s%s\n", names[grade], what, printable(text), mend ? ": " : "",
	      mend ? printable(mend) : "");
}

static void see_kernel(struct report *rep)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 1))
		report(rep, GOOD, "kernel", NULL, "%s", u.release);
	else
		report(rep, NOTE, "kernel", "boot 6.1 or later", "%s, older than those that are tried", u.release);
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
		report(rep, GOOD, "kernel's config", NULL, "%s", path);
	else if (is_readable("/proc/config.gz"))
		report(rep, GOOD, "kernel's config", NULL, "/proc/config.gz");
	else
		report(rep, NOTE, "kernel's config", "put the kernel's configuration there, or `modprobe configs`",
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
		report(rep, GOOD, "JIT", NULL, "on");
	else if (!on)
		report(rep, BAD, "JIT", "sysctl -w net.core.bpf_jit_enable=1", "off, and struct_ops need it");
	else
		report(rep, NOTE, "JIT", NULL, "net.core.bpf_jit_enable cannot be read here");
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
		report(rep, BAD, "capabilities", "run it as root", "missing:%s", missing);
	else
		report(rep, GOOD, "capabilities", NULL, "all that are needed");
}

/* The verifier looks at no call that the settings make dead: without its options, trace does without the helper. */
static void see_lockdown(struct report *rep)
{
	const char *level = lockdown();

	if (lockdown_refuses_reads())
		report(rep, NOTE, "lockdown", "boot with lockdown=integrity for these",
		       "%s: controllers load; trace has no --flow, --link and --state, use no --existing, unload no --switch, "
		       "and unload --drain waits for listeners",
		       level);
	else if (*level)
		report(rep, GOOD, "lockdown", NULL, "%s, which hinders nothing", level);
}

static void see_cgroup(struct report *rep)
{
	char root[PATH_MAX];
	int fd = cgroup_open_root(root);

	if (fd >= 0)
		report(rep, GOOD, "cgroup2", NULL, "mounted at %s", root);
	else if (!cgroup_is_absent(fd))
		report(rep, BAD, "cgroup2", NULL, "it cannot be looked for: %s", strerror(-fd));
	else
		report(rep, NOTE, "cgroup2", "mount -t cgroup2 none DIR",
		       "not mounted: no --cgroup, and no Formosa receiver");
	if (fd >= 0)
		close(fd);
}

static void see_cake(struct report *rep)
{
	int there = cake_there();

	if (there > 0)
		report(rep, GOOD, "CAKE", NULL, "there");
	else if (!there)
		report(rep, NOTE, "CAKE", "a kernel with CONFIG_NET_SCH_CAKE (OpenWrt: kmod-sched-cake)",
		       "not there: no `asymcc uplink`");
	else
		report(rep, NOTE, "CAKE", NULL, "it cannot be looked for: %s", strerror(-there));
}

static void see_uplink(const struct uplink_state *u, void *ctx)
{
	report(ctx, *u->mend ? BAD : GOOD, UPLINK, *u->mend ? u->mend : NULL, "%s: %s", u->dev, u->text);
}

/* Can it be loaded here? `r` NULL: what the kernel takes is not known. */
static bool see_object(struct report *rep, const char *name, const struct registry *r)
{
	const char *missing = NULL;
	struct object o = {};
	bool read = !object_open_controller(&o, name, NULL) && !object_check_name(&o, name);

	if (!read)
		report(rep, BAD, name, "build or install it anew", "its object cannot be read");
	else if (r && (missing = registry_missing(r, o.btf, o.type)))
		report(rep, BAD, name, "another kernel, or another controller",
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
		report(rep, BAD, "objects", "make build, or name their folder with --objects", "none in %s", dir);
	else
		report(rep, fit < nr ? NOTE : GOOD, "objects", NULL, "%d controllers in %s, %d fit this kernel", nr,
		       dir, fit);
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
		report(rep, BAD, a->owner, mend, "program %s is left in %s, and %s is not registered", a->name,
		       a->cgroup, a->owner);
	}
}

static void see_thinning(struct report *rep, const struct attachments *all)
{
	struct thinning t;
	int i = 0;

	while (thinning_next(all, &i, &t))
		if (t.programs == THINNING_PROGRAMS) /* else it is among the findings */
			report(rep, GOOD, THIN, NULL, "%s are thinned", thinning_text(t.cgroup));
}

static bool is_gone(struct report *rep, const char *cc)
{
	int there = controller_available(cc);

	rep->bad += there < 0;
	return !there;
}

static void see_namespaces(struct report *rep, const struct inventory *now)
{
	char mend[80];

	for (const struct netns *ns = now->users.ns; ns < now->users.ns + now->users.nr; ns++) {
		const struct registered *reg = registry_find(&now->registry, ns->initial);

		if (ns->unread)
			report(rep, NOTE, "netns", NULL,
			       "%s cannot be read: %s: what uses a controller there is not known", ns->name,
			       ns->unread);
		snprintf(mend, sizeof(mend), "asymcc unuse %s", ns->initial);
		if (reg && reg->unloading)
			report(rep, BAD, ns->initial, mend, "unloaded, but still the default of %s", ns->name);
	}
}

struct aside {
	struct report *rep;
	const struct netns_id *netns;
};

/* Somebody has added another route to just the prefix of one that `use` gave a controller, and connections take that. */
static void see_aside(const char *text, const struct record *g, void *ctx)
{
	int len = strcspn(text, " ");
	const char *cc = g->name;
	const struct aside *a = ctx;
	char dst[ROUTE_TEXT], mend[500];
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
		snprintf(mend, sizeof(mend), "%s%sasymcc use %s --route %s again",
			 strcmp(now.text, text) ? "" : "give one of them a metric of its own, then ",
			 netns_prefix(a->netns->name, a->netns->own), cc, dst);
		report(a->rep, BAD, cc, mend,
		       "route %s was given it, but connections take another there, %s in %s, without it", text,
		       now.text, a->netns->name);
	}
	routes_free(&all);
	free(now.message);
}

static int see_asides(const struct netns_id *id, void *ctx)
{
	struct aside a = { ctx, id };

	return state_each_route(see_aside, &a);
}

/* Its guard tries again and again for some time. */
static void see_trial(const char *cc, bool by_systemd, long over, void *ctx)
{
	char mend[60];

	(void)by_systemd;
	snprintf(mend, sizeof(mend), "asymcc try %s --end", cc);
	if (over > 60)
		report(ctx, BAD, cc, mend, "a trial of it did not end, which was to end %ld s ago", over);
}

static void see_replacing(const char *cc, const struct record *w, void *ctx)
{
	char mend[120];

	if (!is_name(cc))
		return;
	snprintf(mend, sizeof(mend), "asymcc load %s --as %s --replace, or asymcc unload %s --drain", w->what, cc, cc);
	report(ctx, BAD, cc, mend, "load --replace was killed: %s",
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
static void see_original(const char *cookie, const struct record *w, void *ctx)
{
	struct originals *o = ctx;
	char mend[160];

	if (is_found(o, cookie, strlen(cookie)))
		return;
	snprintf(mend, sizeof(mend), "rm " STATE_DIR "/" STATE_DEFAULT "%s, if it is gone", cookie);
	report(o->rep, NOTE, w->name, mend, "%s was the default of a network namespace that is not found", w->original);
}

static void see_route_of_none(const char *rest, const struct record *w, void *ctx)
{
	struct originals *o = ctx;
	char mend[240];

	if (is_found(o, rest, strcspn(rest, "-")))
		return;
	snprintf(mend, sizeof(mend), "rm " STATE_DIR "/" STATE_ROUTE "%s, if it is gone", rest);
	report(o->rep, NOTE, w->name, mend, "a route of a network namespace that is not found was given it");
}

static int see_state(struct report *rep)
{
	struct originals o = { .rep = rep };
	int err = netns_each(find_original, &o);

	if (!err)
		err = state_each(STATE_DEFAULT, see_original, &o) || state_each(STATE_ROUTE, see_route_of_none, &o);
	free(o.found);
	err |= netns_each(see_asides, rep);
	return state_each(STATE_REPLACING, see_replacing, rep) || uplinks_each(see_uplink, rep) ||
			       trials_each(see_trial, rep) || err
		       ? -1
		       : 0;
}

static void see_registered(struct report *rep, const struct inventory *now)
{
	const struct registry *r = &now->registry;

	for (const struct registered *reg = r->at; reg < r->at + r->nr; reg++) {
		char *users = users_text(&now->users, &now->all, reg->name, true);
		bool all = !netns_unseen() && !users_hidden(&now->users, r, reg);

		if (reg->unloading)
			report(rep, NOTE, reg->name, NULL, "unloaded (map %u); it stays until its users end: %s",
			       reg->map_id, users && *users ? users : "none that can be seen");
		else
			report(rep, GOOD, reg->name, NULL, "registered (map %u), %s", reg->map_id,
			       users && *users ? users
			       : all           ? "used by nobody"
					       : "used by nobody that can be seen from here");
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
			report(rep, NOTE, r->at[i].name, "sysctl -w net.ipv4.tcp_frto=0",
			       "F-RTO is on: where its flows fill their ACK path, timeouts last longer");
}

/* Lines about the controllers that are loaded, their users, and leftovers. */
static void see_loaded(struct report *rep)
{
	static const char *const why = "(the reason is on standard error)";
	struct inventory now = {};

	if (geteuid()) {
		report(rep, NOTE, "loaded", "run it as root", "what is loaded cannot be seen");
	} else if (inventory_read(&now, false)) {
		report(rep, BAD, "loaded", NULL, "what is loaded cannot be seen %s", why);
	} else {
		see_registered(rep, &now);
		see_frto(rep, &now.registry);
		see_left_programs(rep, &now.registry, &now.all);
		see_thinning(rep, &now.all);
		findings_hidden(rep, &now, false);
		see_namespaces(rep, &now);
		if (findings_report(rep, &now, false))
			report(rep, BAD, "uses", NULL, "what became of them cannot be seen %s", why);
		if (see_state(rep))
			report(rep, BAD, STATE_DIR, NULL, "it cannot be read %s", why);
	}
	inventory_free(&now);
}

static int doctor(void)
{
	struct report rep = { .line = print_line };
	struct registry r = {};
	char why[200] = "";
	bool known;

	output_json(args.json);
	list_begin(NULL, "\n  ", "\n");
	see_kernel(&rep);
	known = !registry_layout(&r, why, sizeof(why));
	if (known)
		report(&rep, GOOD, "BTF", NULL, "there, and struct_ops take congestion controls");
	else
		report(&rep, BAD, "BTF", "boot a kernel that has it", "%s", why);
	see_config(&rep);
	see_jit(&rep);
	see_capabilities(&rep);
	see_lockdown(&rep);
	see_cgroup(&rep);
	see_cake(&rep);
	report(&rep, GOOD, "libbpf", NULL, "%s", libbpf_version_string());
	see_objects(&rep, known ? &r : NULL);
	registry_free(&r);
	if (known)
		see_loaded(&rep);
	level_end();
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
