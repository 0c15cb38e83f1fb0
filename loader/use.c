// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which connections take a controller: `asymcc use`, `asymcc unuse`.
 *
 * The default that `use --default` replaced is kept in /run/asymcc/default-INODE, INODE being that of
 * the network namespace: "PREVIOUS NAME", so that a default set by others since is not mistaken for ours.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "object.h"
#include "route.h"
#include "use.h"

#define STATE_DIR "/run/asymcc"

char *users_text(const struct netns_list *l, const struct attachments *all, const char *cc, bool sockets)
{
	const char *between = "";
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (int i = 0; i < l->nr; i++) {
		const struct netns *ns = &l->ns[i];
		unsigned int n = sockets ? netns_sockets(ns, cc) : 0;
		const char *comma = "";

		if (strcmp(ns->initial, cc) && !netns_routes(ns, cc) && !n)
			continue;
		fputs(between, f);
		between = "; ";
		if (!strcmp(ns->initial, cc)) {
			fprintf(f, "default of %s", ns->name);
			comma = ", ";
		}
		for (int k = 0, nr = 0; k < ns->nr_route; k++) {
			if (strcmp(ns->route[k].name, cc))
				continue;
			fprintf(f, "%s%s%s", comma, nr++ ? "" : "route ", ns->route[k].text);
			comma = ", ";
		}
		if (netns_routes(ns, cc))
			fprintf(f, " in %s", ns->name);
		if (n)
			fprintf(f, "%s%u socket%s in %s", comma, n, n == 1 ? "" : "s", ns->name);
	}
	for (int i = 0; i < all->nr; i++) {
		if (strcmp(all->at[i].used, cc))
			continue;
		fprintf(f, "%scgroup %s", between, all->at[i].cgroup);
		between = "; ";
	}
	fclose(f);
	return text;
}

/* --- the default of a namespace */

static int set_default(const char *cc)
{
	int err = 0, fd = open(DEFAULT_CC, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, cc, strlen(cc)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

static void state_path(char path[64], const struct stat *ns)
{
	snprintf(path, 64, STATE_DIR "/default-%lu", (unsigned long)ns->st_ino);
}

static bool own_netns(struct stat *st)
{
	return !stat("/proc/thread-self/ns/net", st);
}

/* What the default was before `use` made it `cc`; "" if that is not known. */
static void remembered(const struct stat *ns, const char *cc, char previous[CC_NAME_LEN])
{
	char path[64], set[CC_NAME_LEN];
	FILE *f;

	state_path(path, ns);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%15s %15s", previous, set) != 2 || strcmp(set, cc))
		previous[0] = 0;
	if (f)
		fclose(f);
}

static int remember(const struct stat *ns, const char *previous, const char *cc)
{
	char path[64], part[80];
	FILE *f;
	int err = 0;

	if (mkdir(STATE_DIR, 0755) && errno != EEXIST)
		return fail("cannot make " STATE_DIR ": %s", strerror(errno));
	state_path(path, ns);
	snprintf(part, sizeof(part), "%s.%d", path, getpid());
	f = fopen(part, "we");
	if (f) {
		fprintf(f, "%s %s\n", previous, cc);
		err = ferror(f);
		err |= fclose(f);
	}
	if (!f || err || rename(part, path)) {
		err = fail("cannot write %s: %s: the default stays as it is", part, strerror(errno));
		unlink(part);
	}
	return err;
}

static int use_default(const char *cc)
{
	char now[CC_NAME_LEN], previous[CC_NAME_LEN];
	struct stat ns;
	int err;

	netns_default(now);
	if (!strcmp(now, cc))
		return 0;
	if (!own_netns(&ns))
		return fail("cannot tell the own network namespace: %s", strerror(errno));
	remembered(&ns, now, previous);
	if (remember(&ns, *previous ? previous : now, cc))
		return -1;
	err = set_default(cc);
	if (err == -EPERM || err == -EACCES)
		return fail("--default: not permitted: run it as root (it needs CAP_NET_ADMIN)");
	return err ? fail("--default: %s cannot be made the default: %s", cc, strerror(-err)) : 0;
}

/* In the namespace the thread is in. Returns whether it was the default. */
static int unuse_default(const char *cc)
{
	char now[CC_NAME_LEN], back[CC_NAME_LEN], path[64];
	const char *candidates[] = { back, "cubic", "reno" }; /* a namespace may not be allowed the first two any more */
	struct stat ns;
	int err = -1;

	netns_default(now);
	if (strcmp(now, cc))
		return 0;
	if (!own_netns(&ns))
		return fail("cannot tell the own network namespace: %s", strerror(errno));
	remembered(&ns, cc, back);
	for (int i = *back ? 0 : 1; err && i < 3; i++)
		err = set_default(candidates[i]);
	if (err)
		return fail("--default: reno cannot be made the default: %s", strerror(-err));
	state_path(path, &ns);
	unlink(path);
	return 1;
}

static int renew_one(const struct netns_id *id, void *ctx)
{
	char now[CC_NAME_LEN];
	const char *cc = ctx;
	int err;

	netns_default(now);
	err = strcmp(now, cc) ? 0 : set_default(cc);
	return err ? fail("%s stays the default of %s as it was loaded before: %s", cc, id->name, strerror(-err)) : 0;
}

int defaults_renew(const char *cc)
{
	return netns_each(renew_one, (void *)cc);
}

/* --- routes */

static int fail_route(const char *text, int err)
{
	if (err == -EPERM)
		return fail("--route %s: not permitted: run it as root (it needs CAP_NET_ADMIN)", text);
	if (err == -ENETUNREACH || err == -EHOSTUNREACH)
		return fail("--route %s: no route leads there: make one (ip route add), or choose another", text);
	return fail("--route %s: the kernel does not take the change: %s", text, strerror(-err));
}

/* All routes of table main to just this prefix, or a new one. `undo`, zeros at first, is what was before. */
static int use_route(const char *text, const char *cc, struct routes *undo, bool *made)
{
	struct prefix p;
	int err = 0;

	if (prefix_parse(&p, text) || routes_read(undo, &p))
		return -1;
	*made = !undo->nr;
	if (*made)
		err = route_make(&p, cc);
	for (int i = 0; !err && i < undo->nr; i++) {
		if (((struct rtmsg *)NLMSG_DATA(undo->route[i].message))->rtm_protocol == RTPROT_RA)
			return fail("--route %s: a router's advertisements keep that route as it is: choose a longer prefix", text);
		err = route_set(&undo->route[i], cc);
	}
	return err ? fail_route(text, err) : 0;
}

/* Of one route that names `cc`. */
static int unuse_route(const struct route *r)
{
	int err = route_is_ours(r) ? route_delete(r) : route_set(r, NULL);

	return err ? fail_route(r->text, err) : 0;
}

/* Those of the namespace that name `cc`, to prefix `text` (NULL: to any). Returns how many. */
static int unuse_routes(const char *text, const char *cc)
{
	struct routes r = {};
	struct prefix p;
	int nr = 0;

	if ((text && prefix_parse(&p, text)) || routes_read(&r, text ? &p : NULL))
		return -1;
	for (int i = 0; nr >= 0 && i < r.nr; i++)
		if (!strcmp(r.route[i].cc, cc))
			nr = unuse_route(&r.route[i]) ? -1 : nr + 1;
	routes_free(&r);
	return nr;
}

/* --- the commands */

struct everywhere {
	const char *cc;
	int nr;
};

static int unuse_one(const struct netns_id *id, void *ctx)
{
	struct everywhere *e = ctx;
	int initial = unuse_default(e->cc), routes = initial < 0 ? -1 : unuse_routes(NULL, e->cc);

	(void)id;
	if (routes < 0)
		return -1;
	e->nr += initial + routes;
	return 0;
}

int unuse_all(const struct registry *r, const char *cc)
{
	struct everywhere e = { .cc = cc };
	int cgroups;

	if (netns_each(unuse_one, &e))
		return -1;
	cgroups = cgroup_unuse(r, NULL, cc);
	return cgroups < 0 ? -1 : e.nr + cgroups;
}

static int load_user(struct object *o, const char *dir, const char *cc)
{
	int err;

	if (object_open(o, dir, "use", NULL))
		return -1;
	object_write_name(o, "asymcc_used", cc);
	err = bpf_object__load(o->bpf);
	if (err == -EPERM)
		return fail("--cgroup: not permitted: run it as root (it needs CAP_BPF and CAP_NET_ADMIN)");
	return err ? fail("--cgroup: its program cannot be loaded: %s: %s", strerror(-err), object_complaint()) : 0;
}

static int use_cgroups(const struct args *a)
{
	struct registry r = {};
	struct object o = {};
	int err = -1;

	if (!registry_read(&r) && !load_user(&o, object_dir(a), a->name)) {
		int nr = 0;

		for (err = 0; !err && nr < a->nr_cgroups; nr += !err)
			err = cgroup_use(&o, &r, a->cgroups[nr], a->name);
		while (err && nr) /* all or none */
			cgroup_unuse(&r, a->cgroups[--nr], a->name);
	}
	object_close(&o);
	registry_free(&r);
	return err;
}

/* As it was before use_route(): `undo` and `made` are what that gave. */
static void restore_routes(const struct args *a, struct routes *undo, const bool *made, int nr)
{
	for (int i = 0; i < nr; i++) {
		for (int k = 0; k < undo[i].nr; k++)
			route_set(&undo[i].route[k], *undo[i].route[k].cc ? undo[i].route[k].cc : NULL);
		if (made[i])
			unuse_routes(a->routes[i], a->name);
	}
}

static void print_uses(const char *verb, const struct args *a, const bool *made)
{
	const char *sep = "";

	printf("%s %s", a->name, verb);
	if (a->by_default) {
		printf(" by default");
		sep = ",";
	}
	for (int i = 0; i < a->nr_routes; i++, sep = ",")
		printf("%s on route %s%s", sep, a->routes[i], made && made[i] ? " (made for it)" : "");
	for (int i = 0; i < a->nr_cgroups; i++, sep = ",")
		printf("%s in cgroup %s", sep, a->cgroups[i]);
	putchar('\n');
}

/* The one that may fail late comes last: what was done before it is taken back. */
int cmd_use(const struct args *a)
{
	struct routes *undo = calloc(a->nr_routes + 1, sizeof(*undo));
	bool *made = calloc(a->nr_routes + 1, sizeof(*made));
	int err = -1, nr = 0;

	if (!undo || !made) {
		fail("out of memory");
		goto cleanup;
	}
	if (!a->by_default && !a->nr_routes && !a->nr_cgroups) {
		fail("use %s: for which connections? --default, --route PREFIX or --cgroup PATH", a->name);
		goto cleanup;
	}
	if (!controller_available(a->name)) {
		fail("%s is not loaded: `asymcc load %s` first (`asymcc list` shows what is there)", a->name, a->name);
		goto cleanup;
	}
	err = 0;
	for (; !err && nr < a->nr_routes; nr++)
		err = use_route(a->routes[nr], a->name, &undo[nr], &made[nr]);
	if (!err && a->nr_cgroups)
		err = use_cgroups(a);
	if (!err && a->by_default && use_default(a->name)) {
		struct registry r = {};

		err = -1;
		for (int i = 0; i < a->nr_cgroups && (i || !registry_read(&r)); i++)
			cgroup_unuse(&r, a->cgroups[i], a->name);
		registry_free(&r);
	}
	if (err)
		restore_routes(a, undo, made, nr);
	else
		print_uses("is used", a, made);
cleanup:
	for (int i = 0; undo && i < nr; i++)
		routes_free(&undo[i]);
	free(undo);
	free(made);
	return err;
}

int cmd_unuse(const struct args *a)
{
	struct registry r = {};
	int n, err = -1;

	if (registry_read(&r))
		return -1;
	if (!a->by_default && !a->nr_routes && !a->nr_cgroups) {
		n = unuse_all(&r, a->name);
		if (!n)
			fail("%s is no default, on no route and in no cgroup", a->name);
		else if (n > 0)
			printf("%s taken back in %d place%s\n", a->name, n, n == 1 ? "" : "s");
		err = n > 0 ? 0 : -1;
		goto cleanup;
	}
	if (a->by_default && (n = unuse_default(a->name)) <= 0) {
		if (!n)
			fail("%s is not the default of this network namespace", a->name);
		goto cleanup;
	}
	for (int i = 0; i < a->nr_routes; i++) {
		n = unuse_routes(a->routes[i], a->name);
		if (n <= 0) {
			if (!n)
				fail("--route %s: no route of table main to just this prefix has %s", a->routes[i], a->name);
			goto cleanup;
		}
	}
	for (int i = 0; i < a->nr_cgroups; i++) {
		n = cgroup_unuse(&r, a->cgroups[i], a->name);
		if (n <= 0) {
			if (!n)
				fail("--cgroup %s: %s is not used there", a->cgroups[i], a->name);
			goto cleanup;
		}
	}
	print_uses("taken back", a, NULL);
	err = 0;
cleanup:
	registry_free(&r);
	return err;
}
