// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uses/cgroups.h"
#include "uses/default.h"
#include "uses/routes.h"
#include "uses/share.h"
#include "uses/uses.h"

#define LEAST 50

static int parse_share(struct uses *u)
{
	struct share_rule *r = &u->rule;

	if (!u->share_text)
		return u->worse_text || r->least ? fail("--stop-if-worse and --least need --share") : 0;
	if (u->by_default || u->routes.nr || !u->cgroups.nr)
		return fail(
			"--share: the program of a cgroup chooses the connections: give --cgroup PATH alone (that of the "
			"root has all of this machine)");
	if (percent_parse(&r->share, "--share", u->share_text) ||
	    (u->worse_text && percent_parse(&r->worse, "--stop-if-worse", u->worse_text)))
		return -1;
	if (!r->worse && r->least)
		return fail("--least needs --stop-if-worse");
	r->least = r->least ? r->least : LEAST;
	return 0;
}

int uses_parse(struct uses *u)
{
	if (parse_share(u))
		return -1;
	u->prefix = calloc(u->routes.nr + 1, sizeof(*u->prefix));
	u->made = calloc(u->routes.nr + 1, sizeof(*u->made));
	if (!u->prefix || !u->made)
		return fail("out of memory");
	for (int i = 0; i < u->routes.nr; i++)
		if (prefix_parse(&u->prefix[i], u->routes.text[i]))
			return -1;
	return 0;
}

void uses_free(struct uses *u)
{
	free(u->routes.text);
	free(u->cgroups.text);
	free(u->prefix);
	free(u->made);
}

/* Cgroups, which undo themselves, come last. */
static int make_all(const struct uses *u, struct route_before *routes)
{
	struct default_before initial;
	int err = 0, nr = 0;

	for (; !err && nr < u->routes.nr; nr++)
		err = route_use(&u->prefix[nr], u->cc, u->by_trial, &routes[nr], &u->made[nr]);
	if (!err && u->by_default)
		err = default_use(u->cc, u->by_trial, &initial);
	if (!err && u->cgroups.nr) {
		err = cgroups_use(u->cc, &u->cgroups, u->by_trial, &u->rule);
		if (err && u->by_default)
			default_undo(u->cc, &initial);
	}
	while (err && nr--) /* the last one first */
		route_undo(&u->prefix[nr], u->cc, &routes[nr], u->made[nr]);
	return err;
}

int uses_make(const struct uses *u)
{
	struct route_before *routes = calloc(u->routes.nr + 1, sizeof(*routes));
	int err = routes ? make_all(u, routes) : fail("out of memory");

	for (int i = 0; routes && i < u->routes.nr; i++)
		route_before_free(&routes[i]);
	free(routes);
	return err;
}

void uses_print(const struct uses *u, const char *verb)
{
	const char *sep = "";

	printf("%s %s", u->cc, verb);
	if (u->rule.share)
		printf(" for %g%% of new connections", u->rule.share / 100.0);
	if (u->by_default) {
		printf(" by default");
		sep = ",";
	}
	for (int i = 0; i < u->routes.nr; i++, sep = ",")
		printf("%s on route %s%s", sep, u->routes.text[i], u->made[i] ? " (made for it)" : "");
	for (int i = 0; i < u->cgroups.nr; i++, sep = ",")
		printf("%s in cgroup %s", sep, printable(u->cgroups.text[i]));
	putchar('\n');
}

char *users_text(const struct users *l, const struct attachments *all, const char *cc, bool sockets)
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
		fprintf(f, "%scgroup %s", between, printable(all->at[i].cgroup));
		between = "; ";
	}
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

struct everywhere {
	const char *cc;
	int nr, left;  /* places changed; foreign namespaces where something is left */
	bool failed, only_routes;
};

/* A use that cannot be taken back here hinders nothing elsewhere. */
static int unuse_one(const struct netns_id *id, void *ctx)
{
	struct everywhere *e = ctx;
	int initial = e->only_routes ? 0 : default_unuse(e->cc, false), routes = routes_unuse(NULL, e->cc, false);

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
		cgroups = cgroups_unuse(all, NULL, cc, false);
	return e.failed || cgroups < 0 ? -1 : e.nr + cgroups;
}
