// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which connections take a controller: `asymcc use`, `asymcc unuse`. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "object.h"
#include "route.h"
#include "state.h"
#include "use.h"

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
		if (!attached_gives(&all->at[i], cc))
			continue;
		fprintf(f, "%scgroup %s", between, all->at[i].cgroup);
		between = "; ";
	}
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
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

/* What a namespace has before `use` changes its default. */
struct before {
	char now[CC_NAME_LEN];
	struct words state;
	int known;                  /* is there a state? */
};

/* Did `use` make `cc` the default? It did so at any moment of its work, and of its undoing: hence two names. */
static bool is_given(const struct words *state, const char *cc)
{
	return !strcmp(state->word[1], cc) || !strcmp(state->word[2], cc);
}

/* The default is as before: so is what is remembered of it. */
static int restore_state(const struct before *b)
{
	const char *file = state_default();

	if (!file)
		return -1;
	return b->known ? state_write(file, &b->state) : state_remove(file);
}

/* `b`: for undo_default(). */
static int use_default(const char *cc, struct before *b)
{
	const char *file = state_default();
	struct words next = {};
	int err;

	if (!file || netns_default(b->now))
		return -1;
	if (!*b->now)
		return fail("--default: this network namespace has none");
	b->known = state_read(file, &b->state);
	if (b->known < 0)
		return -1;
	if (strcmp(b->now, cc)) {
		memcpy(next.word[0], is_given(&b->state, b->now) ? b->state.word[0] : b->now, CC_NAME_LEN);
		snprintf(next.word[1], CC_NAME_LEN, "%s", cc);
		memcpy(next.word[2], b->now, CC_NAME_LEN);
		if (state_write(file, &next))
			return -1;
	}
	err = set_default(cc); /* of that name it may have been an older instance */
	if (!err)
		return 0;
	if (strcmp(b->now, cc))
		restore_state(b);
	if (err == -EPERM && !geteuid())
		return fail("--default: this namespace may not have %s: add it to net.ipv4.tcp_allowed_congestion_control "
			    "of the first one", cc);
	if (err == -EPERM || err == -EACCES)
		return fail("--default: not permitted: run it as root (it needs CAP_NET_ADMIN)");
	return fail("--default: %s cannot be made the default: %s", cc, strerror(-err));
}

static void undo_default(const char *cc, const struct before *b)
{
	int err = strcmp(b->now, cc) ? set_default(b->now) : 0;

	if (err)
		fail("--default: cannot be set back to %s: %s", b->now, strerror(-err));
	else if (strcmp(b->now, cc))
		restore_state(b);
}

/* In the namespace the thread is in. Returns whether it was the default. */
static int unuse_default(const char *cc, bool only_count)
{
	const char *candidates[] = { "", "cubic", "reno" }, *file; /* a namespace may not be allowed the first two any more */
	char now[CC_NAME_LEN];
	struct words state;
	int err = -ENOENT;

	if (netns_default(now))
		return -1;
	if (strcmp(now, cc) || only_count)
		return !strcmp(now, cc);
	file = state_default();
	if (!file || state_read(file, &state) < 0)
		return -1;
	if (is_given(&state, cc)) /* else another has set it */
		candidates[0] = state.word[0];
	for (int i = 0; i < 3 && (err == -ENOENT || err == -EPERM || err == -EBUSY); i++)
		if (*candidates[i] && strcmp(candidates[i], cc))
			err = set_default(candidates[i]);
	if (err)
		return fail("--default: nothing else can be made the default (%s): set it by sysctl net.ipv4.tcp_congestion_control",
			    strerror(-err));
	return state_remove(file) ? -1 : 1;
}

struct renewal {
	const char *cc;
	bool failed;
};

static int renew_one(const struct netns_id *id, void *ctx)
{
	struct renewal *w = ctx;
	char now[CC_NAME_LEN];
	int err = 0;

	if (netns_default(now))
		w->failed = true;
	else if (!strcmp(now, w->cc))
		err = set_default(w->cc);
	if (err) {
		fail("%s stays the default of %s as it was loaded before: %s", w->cc, id->name, strerror(-err));
		w->failed = true;
	}
	return 0;
}

int defaults_renew(const char *cc)
{
	struct renewal w = { .cc = cc };

	return netns_each(renew_one, &w) || w.failed ? -1 : 0;
}

/* --- routes */

static int fail_route(const struct route *r, const char *text, int err)
{
	if (r)
		text = r->text;
	if (err == -EPERM)
		return fail("--route %s: not permitted: run it as root (it needs CAP_NET_ADMIN)", text);
	if (err == -EMLINK)
		return fail("--route %s: several routes have that prefix and metric, and the kernel would change another than meant: "
			    "choose a longer prefix, or give them metrics", text);
	if (r && (err == -ENETUNREACH || err == -EHOSTUNREACH || err == -ENETDOWN || err == -ENODEV || err == -EINVAL))
		return fail("--route %s: the kernel takes no change of it: a next hop is down or unreachable (%s)", text, strerror(-err));
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
	if (!undo->nr) {
		err = route_make(&p, cc);
		*made = !err;
		return err ? fail_route(NULL, text, err) : 0;
	}
	for (int i = 0; i < undo->nr; i++) {
		const struct route *r = &undo->route[i];

		if (((struct rtmsg *)NLMSG_DATA(r->message))->rtm_protocol == RTPROT_RA)
			err = fail("--route %s: a router's advertisements keep that route as it is: choose a longer prefix", text);
		else if ((err = route_set(r, cc)))
			fail_route(r, NULL, err);
		if (!err)
			continue;
		while (undo->nr > i) /* these have not been changed */
			free(undo->route[--undo->nr].message);
		return -1;
	}
	return 0;
}

/* Those of the namespace that name `cc`, to prefix `text` (NULL: to any). Returns how many; goes on over those that fail, and tells the first. */
static int unuse_routes(const char *text, const char *cc, bool only_count)
{
	struct routes r = {};
	struct prefix p;
	int nr = 0, failed = 0;

	if ((text && prefix_parse(&p, text)) || routes_read(&r, text ? &p : NULL))
		return -1;
	for (int i = 0; i < r.nr; i++) {
		const struct route *one = &r.route[i];
		int ret = 0;

		if (!*one->cc || strcmp(one->cc, cc))
			continue;
		nr++;
		if (!only_count)
			ret = route_is_ours(one) ? route_delete(one) : route_set(one, NULL);
		if (ret && !failed++)
			fail_route(one, NULL, ret);
	}
	if (failed > 1)
		fail("%d other routes are left with %s, too", failed - 1, cc);
	routes_free(&r);
	return failed ? -1 : nr;
}

/* --- the commands */

struct everywhere {
	const char *cc;
	int nr, left;  /* places changed; foreign namespaces where something is left */
	bool failed, only_routes;
};

/* What cannot be taken back here hinders nothing elsewhere. */
static int unuse_one(const struct netns_id *id, void *ctx)
{
	struct everywhere *e = ctx;
	int initial = e->only_routes ? 0 : unuse_default(e->cc, false), routes = unuse_routes(NULL, e->cc, false);

	if (initial < 0 || routes < 0) {
		e->failed |= !id->foreign;
		e->left += id->foreign;
		if (id->foreign)
			fail("%s: %s may still be used there", id->name, e->cc);
	}
	e->nr += (initial > 0 ? initial : 0) + (routes > 0 ? routes : 0);
	return 0;
}

int unuse_all(const struct attachments *all, const char *cc, bool only_routes, int *left)
{
	struct everywhere e = { .cc = cc, .only_routes = only_routes };
	int cgroups = 0;

	if (netns_each(unuse_one, &e))
		return -1;
	*left = e.left;
	if (!only_routes)
		cgroups = cgroup_unuse(all, NULL, cc, false);
	return e.failed || cgroups < 0 ? -1 : e.nr + cgroups;
}

static int load_user(struct object *o, const char *dir, const char *cc)
{
	int err;

	if (object_open(o, dir, "use", NULL))
		return -1;
	object_write_name(o, "asymcc_used", cc);
	err = registry_load(o->bpf);
	if (err == -EPERM)
		return fail("--cgroup: not permitted: run it as root (it needs CAP_BPF and CAP_NET_ADMIN)");
	return err ? fail("--cgroup: its program cannot be loaded: %s: %s", registry_load_error(err), object_complaint()) : 0;
}

static int use_cgroups(const struct args *a)
{
	struct object o = {};
	int err = -1;

	if (!load_user(&o, object_dir(a), a->name))
		err = cgroup_use(&o, a->cgroups, a->nr_cgroups);
	object_close(&o);
	return err;
}

/* As it was before use_route(), the last one first: `undo` and `made` are what that gave. */
static void restore_routes(const struct args *a, const struct routes *undo, const bool *made, int nr)
{
	while (nr--) {
		for (int k = undo[nr].nr; k--;) {
			const struct route *r = &undo[nr].route[k];
			int err = route_set(r, *r->cc ? r->cc : NULL);

			if (err)
				fail_route(r, NULL, err);
		}
		if (made[nr])
			unuse_routes(a->routes[nr], a->name, false);
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

/* All or none: cgroups, which undo themselves, come last. */
static int use_all(const struct args *a, struct routes *undo, bool *made)
{
	struct before before;
	struct prefix p;
	int err = 0, nr = 0;

	for (int i = 0; i < a->nr_routes; i++)
		if (prefix_parse(&p, a->routes[i]))
			return -1;
	for (; !err && nr < a->nr_routes; nr++)
		err = use_route(a->routes[nr], a->name, &undo[nr], &made[nr]);
	if (!err && a->by_default)
		err = use_default(a->name, &before);
	if (!err && a->nr_cgroups) {
		err = use_cgroups(a);
		if (err && a->by_default)
			undo_default(a->name, &before);
	}
	if (err)
		restore_routes(a, undo, made, nr);
	return err;
}

int cmd_use(const struct args *a)
{
	struct routes *undo = calloc(a->nr_routes + 1, sizeof(*undo));
	bool *made = calloc(a->nr_routes + 1, sizeof(*made));
	int err = -1, there;

	if (!undo || !made)
		fail("out of memory");
	else if (!a->by_default && !a->nr_routes && !a->nr_cgroups)
		fail("use %s: for which connections? --default, --route PREFIX or --cgroup PATH", a->name);
	else if (!state_lock()) {
		there = controller_available(a->name);
		if (!there)
			fail("%s is not loaded: `asymcc load %s` first (`asymcc list` shows what is there)", a->name, a->name);
		else if (there > 0)
			err = use_all(a, undo, made);
		state_unlock();
	}
	if (!err)
		print_uses("is used", a, made);
	for (int i = 0; undo && i < a->nr_routes; i++)
		routes_free(&undo[i]);
	free(undo);
	free(made);
	return err;
}

/* The places named on the command line; only_count: whether each has it. */
static int unuse_named(const struct args *a, const struct attachments *all, bool only_count)
{
	int n = a->by_default ? unuse_default(a->name, only_count) : 1;

	if (!n)
		fail("%s is not the default of this network namespace", a->name);
	for (int i = 0; n > 0 && i < a->nr_routes; i++) {
		n = unuse_routes(a->routes[i], a->name, only_count);
		if (!n)
			fail("--route %s: no route of table main to just this prefix has %s", a->routes[i], a->name);
	}
	for (int i = 0; n > 0 && i < a->nr_cgroups; i++) {
		n = cgroup_unuse(all, a->cgroups[i], a->name, only_count);
		if (!n)
			fail("--cgroup %s: %s is not used there", a->cgroups[i], a->name);
	}
	return n > 0 ? 0 : -1;
}

int cmd_unuse(const struct args *a)
{
	bool everywhere = !a->by_default && !a->nr_routes && !a->nr_cgroups;
	struct attachments all = {};
	int n, left, err = -1;

	if (state_lock())
		return -1;
	if ((everywhere || a->nr_cgroups) && attachments_read(&all))
		goto cleanup;
	if (!everywhere) {
		err = unuse_named(a, &all, true) || unuse_named(a, &all, false) ? -1 : 0;
		if (!err)
			print_uses("taken back", a, NULL);
		goto cleanup;
	}
	n = unuse_all(&all, a->name, false, &left);
	if (!n && !left)
		fail("%s is no default, on no route and in no cgroup", a->name);
	else if (n > 0)
		printf("%s taken back in %d place%s\n", a->name, n, n == 1 ? "" : "s");
	err = n > 0 && !left ? 0 : -1;
cleanup:
	attachments_free(&all);
	state_unlock();
	return err;
}
