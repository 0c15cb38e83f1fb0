// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/netns.h"
#include "uses/routes.h"
#include "kernel/route_lookup.h"

static int fail_route(const struct route *r, const char *text, int err)
{
	if (r)
		text = r->text;
	if (err == -EPERM)
		return fail("--route %s: not permitted: run it as root (it needs CAP_NET_ADMIN)", text);
	if (err == -EMLINK)
		return fail("--route %s: several routes have that prefix and metric, and the kernel would change "
			    "another than meant: choose a longer prefix, or give them metrics",
			    text);
	if (r && (err == -ENETUNREACH || err == -EHOSTUNREACH || err == -ENETDOWN || err == -ENODEV || err == -EINVAL))
		return fail("--route %s: the kernel takes no change of it: a next hop is down or unreachable (%s)",
			    text, strerror(-err));
	if (err == -ENETUNREACH || err == -EHOSTUNREACH)
		return fail("--route %s: no route leads there: make one (ip route add), or choose another", text);
	return fail("--route %s: the kernel does not take the change: %s", text, strerror(-err));
}

/* No route is made like `way`. */
static int fail_like(const struct prefix *p, const struct route *way, int err)
{
	if (err == -EXDEV)
		return fail("--route %s: a rule (suppress_prefixlength, see `ip rule`) hides %s, and would not hide a "
			    "longer route: packets would change their way",
			    p->text, way->text);
	if (err == -EMEDIUMTYPE)
		return fail("--route %s: %s leads there for some sources alone: make a route (ip route add), or choose "
			    "another",
			    p->text, way->text);
	return fail_route(NULL, p->text, err);
}

/* Before the route is changed. */
static int remember(const struct route *r, const char *cc, bool by_trial, struct past *past)
{
	return given_remember(state_route(r->text), *r->cc ? r->cc : NONE, cc, by_trial, past);
}

/* The kernel's answer was lost perhaps, and not the change. */
static bool has_it_all_the_same(const struct route *r, const char *cc)
{
	struct routes now = {};
	bool has = false;

	if (!routes_get(&now, NULL))
		for (int i = 0; i < now.nr && !has; i++)
			has = !strcmp(now.route[i].text, r->text) && !strcmp(now.route[i].cc, cc);
	routes_free(&now);
	return has;
}

static int give(const struct route *r, const char *cc, bool by_trial, struct past *past)
{
	int err;

	if (route_is_advertised(r))
		return fail("--route %s: a router's advertisements keep that route as it is: choose a longer prefix",
			    r->text);
	if (remember(r, cc, by_trial, past))
		return -1;
	err = route_set(r, cc);
	if (!err || has_it_all_the_same(r, cc))
		return 0;
	given_restore(state_route(r->text), past);
	return fail_route(r, NULL, err);
}

static int give_all(struct route_before *b, const char *cc, bool by_trial)
{
	b->past = calloc(b->routes.nr, sizeof(*b->past));
	for (int i = 0; i < b->routes.nr; i++) {
		if (!b->past || give(&b->routes.route[i], cc, by_trial, &b->past[i])) {
			routes_cut(&b->routes, i); /* from here on they have not been changed */
			return b->past ? -1 : fail("out of memory");
		}
	}
	return 0;
}

static int make(const struct prefix *p, const struct route *way, const char *cc, bool *made)
{
	int err = route_check_like(p, way);

	if (!err)
		err = route_make(p, way, cc);
	*made = !err;
	return err ? fail_like(p, way, err) : 0;
}

/* Connections must meet it there now: else nothing would be changed for them. */
static int check_given(const struct prefix *p, const char *cc, bool by_trial, bool made)
{
	struct route now;
	int err = route_find(p, &now);

	if (err)
		return fail_route(NULL, p->text, err);
	if (!route_is_to(&now, p) || strcmp(now.cc, cc))
		err = fail("--route %s: connections take %s there, without %s", p->text, now.text, cc);
	else if (made)
		err = remember(&now, cc, by_trial, &(struct past){});
	free(now.message);
	return err;
}

/* There are routes to just this prefix, and connections take another (NULL: none). */
static int fail_aside(const struct prefix *p, const char *cc, const struct route *way, const struct route *aside)
{
	return fail("--route %s: connections take %s there, not %s, which is for others (a VRF's, or by `ip rule`): "
		    "give it %s by `ip route change`, or choose another prefix",
		    p->text, way ? way->text : "no route", aside->text, cc);
}

int route_use(const struct prefix *p, const char *cc, bool by_trial, struct route_before *b, bool *made)
{
	struct routes *there = &b->routes;
	struct route way;
	int err, found = route_find(p, &way);

	if (found == -ENOTUNIQ)
		return fail("--route %s: longer routes take all of it, to %s: choose those", p->text, way.text);
	err = routes_read(there, p);
	if (!err && there->nr && (found || !route_is_to(&way, p))) {
		err = fail_aside(p, cc, found ? NULL : &way, &there->route[0]);
		routes_free(there);
	} else if (!err && found) {
		err = fail_route(NULL, p->text, found);
	} else if (!err) {
		routes_keep_table(there, route_table(&way));
		err = there->nr ? give_all(b, cc, by_trial) : make(p, &way, cc, made);
	}
	if (!found)
		free(way.message);
	return err ? -1 : check_given(p, cc, by_trial, *made);
}

void route_undo(const struct prefix *p, const char *cc, const struct route_before *b, bool made)
{
	for (int i = b->routes.nr; i--;) {
		const struct route *r = &b->routes.route[i];
		int err = route_set(r, *r->cc ? r->cc : NULL);

		if (err)
			fail_route(r, NULL, err);
		else
			given_restore(state_route(r->text), &b->past[i]);
	}
	if (made)
		routes_unuse(p, cc, false);
}

void route_before_free(struct route_before *b)
{
	routes_free(&b->routes);
	free(b->past);
}

/* Its controller before `use`; "" if that is none, or is not known, or is not there any more. -1 with a message. */
static int read_original(const struct route *r, const char *cc, char original[CC_NAME_LEN])
{
	struct record given;
	int known = state_read(state_route(r->text), &given);

	original[0] = 0;
	if (known < 0)
		return -1;
	if (known && is_given(&given, cc) && strcmp(given.original, cc) && controller_available(given.original) > 0)
		memcpy(original, given.original, CC_NAME_LEN);
	return 0;
}

/* -errno; 1: with a message. */
static int take_back(const struct route *r, const char *cc)
{
	char name[CC_NAME_LEN];
	const char *file, *original = name;
	int err;

	if (read_original(r, cc, name))
		return 1;
	if (!*name)
		original = NULL;
	if (route_is_ours(r))
		err = route_delete(r);
	else if (r->alone)
		err = route_set(r, original);
	else /* others have added a second one since */
		err = route_renew(r, original);
	if (err)
		return err;
	file = state_route(r->text);
	return !file || state_remove(file);
}

/* A trial that ends. */
struct ending {
	const char *cc, *netns;
	const struct routes *there;
	bool *done;                 /* which of these */
	int *left;
	bool failed;
};

static int put_back(const struct route *r, const char *cc, const char *before)
{
	const char *past = strcmp(before, NONE) ? before : NULL;

	if (route_is_ours(r) && !strcmp(before, cc)) /* it was made */
		return route_delete(r);
	return r->alone ? route_set(r, past) : route_renew(r, past);
}

/* If it still has what the trial gave: then it is put back. */
static int end_at(const struct route *r, const struct record *g, const struct ending *e)
{
	const char *now = *r->cc ? r->cc : NONE;
	int err;

	if (!strcmp(now, e->cc)) {
		err = put_back(r, e->cc, g->before);
		return err ? fail_route(r, NULL, err) : 0;
	}
	if (strcmp(now, g->before)) {
		++*e->left;
		fail("route %s in %s has %s by now: it stays", r->text, e->netns, *r->cc ? r->cc : "none");
	}
	return 0;
}

static void end_route(const char *text, const struct record *g, void *ctx)
{
	struct ending *e = ctx;
	int err = 0;

	if (!is_trial_of(g, e->cc))
		return;
	for (int i = 0; i < e->there->nr; i++) {
		if (strcmp(e->there->route[i].text, text))
			continue;
		e->done[i] = true;
		err |= end_at(&e->there->route[i], g, e);
	}
	e->failed |= err || given_end_trial(state_route(text), g);
}

/* One that was made, before it could be remembered: the command was killed between. */
static int end_made(const struct route *r, const char *cc)
{
	struct record given;
	int known = state_read(state_route(r->text), &given), err;

	if (known || !route_is_ours(r) || strcmp(r->cc, cc))
		return known < 0 ? -1 : 0;
	err = route_delete(r);
	return err ? fail_route(r, NULL, err) : 0;
}

int routes_end(const char *cc, const char *netns, int *left)
{
	struct ending e = { .cc = cc, .netns = netns, .left = left };
	struct routes r = {};

	if (routes_read(&r, NULL))
		return -1;
	e.there = &r;
	e.done = calloc(r.nr + 1, sizeof(*e.done));
	e.failed = !e.done || state_each_route(end_route, &e);
	for (int i = 0; i < r.nr && e.done; i++)
		if (!e.done[i] && end_made(&r.route[i], cc))
			e.failed = true;
	free(e.done);
	routes_free(&r);
	return e.failed ? -1 : 0;
}

/* Records of routes that lost it. */
struct losses {
	const struct prefix *p;
	const char *cc;
	const struct routes *there;
	bool only_count, failed;
	int nr;
};

static void forget_lost(const char *text, const struct record *g, void *ctx)
{
	struct losses *l = ctx;
	const char *file;

	if (strcmp(g->name, l->cc) || (l->p && !route_text_is_to(text, l->p)))
		return;
	for (int i = 0; i < l->there->nr; i++) /* it has it, or a killed `use` did not come so far */
		if (!strcmp(l->there->route[i].text, text) && is_given(g, l->there->route[i].cc))
			return;
	l->nr++;
	if (l->only_count)
		return;
	file = state_route(text);
	l->failed |= !file || state_remove(file);
}

int routes_unuse(const struct prefix *p, const char *cc, bool only_count)
{
	struct losses lost = { .p = p, .cc = cc, .only_count = only_count };
	int nr = 0, failed = 0;
	struct routes r = {};

	if (routes_read(&r, p))
		return -1;
	for (int i = 0; i < r.nr; i++) {
		const struct route *one = &r.route[i];
		int ret = 0;

		if (!*one->cc || strcmp(one->cc, cc))
			continue;
		nr++;
		if (!only_count)
			ret = take_back(one, cc);
		if (ret && !failed++ && ret < 0)
			fail_route(one, NULL, ret);
	}
	if (failed > 1)
		fail("%d other routes are left with %s, too", failed - 1, cc);
	lost.there = &r;
	if (state_each_route(forget_lost, &lost))
		lost.failed = true;
	routes_free(&r);
	return failed || lost.failed ? -1 : nr + lost.nr;
}
