// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/netlink.h"
#include "kernel/sock_diag.h"
#include "uses/state.h"
#include "uses/users.h"

#define WARNINGS 5
#define LOOKS 5

static int count_one(struct netns *ns, const char *cc)
{
	struct cc_use *u;

	for (int i = 0; i < ns->nr_use; i++) {
		if (!strcmp(ns->use[i].name, cc)) {
			ns->use[i].sockets++;
			return 0;
		}
	}
	u = realloc(ns->use, (ns->nr_use + 1) * sizeof(*u));
	if (!u)
		return -ENOMEM;
	ns->use = u;
	u = &ns->use[ns->nr_use++];
	snprintf(u->name, sizeof(u->name), "%s", cc);
	u->sockets = 1;
	return 0;
}

static int count_socket(const struct inet_diag_msg *m, size_t len, void *ctx)
{
	const char *cc = flow_controller(m, len);

	return cc ? count_one(ctx, cc) : 0;
}

static int keep_routes(struct netns *ns)
{
	struct routes r;
	int err = routes_get(&r, NULL);

	if (!err && r.nr) {
		ns->route = calloc(r.nr, sizeof(*ns->route));
		ns->orphan = calloc(r.nr, sizeof(*ns->orphan));
		err = ns->route && ns->orphan ? 0 : -ENOMEM;
	}
	for (int i = 0; !err && i < r.nr; i++) {
		struct cc_route *to = *r.route[i].cc ? &ns->route[ns->nr_route++] : &ns->orphan[ns->nr_orphan++];

		memcpy(to->name, r.route[i].cc, sizeof(to->name));
		memcpy(to->text, r.route[i].text, sizeof(to->text));
	}
	routes_free(&r);
	return err;
}

struct losses {
	struct netns *ns;
	int err;
};

/* This is one of the routes that `use` remembers. That of a controller which is not there is nowhere to be seen. */
static void add_lost(const char *text, const struct record *g, void *ctx)
{
	struct losses *l = ctx;
	struct netns *ns = l->ns;
	struct cc_route *room, lost = {};

	memcpy(lost.name, g->name, sizeof(lost.name));
	snprintf(lost.text, sizeof(lost.text), "%s", text);
	for (char *c = lost.text; *c; c++) /* root alone may have named the file otherwise */
		if (*c < ' ' || *c > '~')
			return;
	for (int i = 0; i < ns->nr_route; i++)
		if (!strcmp(ns->route[i].text, lost.text) && !strcmp(ns->route[i].name, lost.name))
			return;
	if (!is_name(lost.name) || controller_available(lost.name) <= 0)
		return;
	room = realloc(ns->lost, (ns->nr_lost + 1) * sizeof(*room));
	if (!room) {
		l->err = -ENOMEM;
		return;
	}
	ns->lost = room;
	ns->lost[ns->nr_lost++] = lost;
}

/* The records that `use` made of the namespace. -errno; a record that cannot be read hides no other. */
static int keep_records(struct netns *ns, bool *unread)
{
	struct losses l = { .ns = ns };
	struct record g;

	if (state_each_route(add_lost, &l))
		*unread = true;
	if (state_peek(state_default(), &g) < 0)
		*unread = true;
	else
		memcpy(ns->given, g.name, sizeof(ns->given));
	return l.err;
}

static int read_one(const struct netns_id *id, void *ctx)
{
	struct users *l = ctx;
	struct netns *ns = realloc(l->ns, (l->nr + 1) * sizeof(*ns));
	int err;

	if (!ns)
		return fail("out of memory");
	l->ns = ns;
	ns = &l->ns[l->nr++];
	*ns = (struct netns){ .own = id->own, .first = id->first };
	snprintf(ns->name, sizeof(ns->name), "%s", id->name);
	if (netns_default(ns->initial))
		return -1;
	err = flows_each(~0U, 1 << (INET_DIAG_CONG - 1), count_socket, ns);
	if (err == -ENOENT && !ns->nr_use)
		err = 0; /* no tcp_diag module: nothing to count with */
	if (!err)
		err = keep_routes(ns);
	if (!err)
		err = keep_records(ns, &l->records_unread);
	if (netns_is_lack(-err))
		return netns_fail_lack(-err);
	if (err)
		ns->unread = netlink_error(err);
	return 0;
}

int users_read(struct users *l)
{
	static const struct netns_id own = { .name = "this network namespace", .own = true };
	bool met = false;
	int err;

	memset(l, 0, sizeof(*l));
	err = netns_each(read_one, l);
	for (int i = 0; i < l->nr; i++)
		met |= l->ns[i].own;
	if (!err && !met)
		err = read_one(&own, l);
	return err;
}

int users_warn(const struct users *l)
{
	int nr = 0;

	for (int i = 0; i < l->nr; i++)
		if (l->ns[i].unread && nr++ < WARNINGS)
			fail("%s cannot be read: %s: what uses a controller there is not known", l->ns[i].name,
			     l->ns[i].unread);
	if (nr > WARNINGS)
		fail("so are %d more", nr - WARNINGS);
	return nr || l->records_unread ? -1 : 0;
}

void users_free(struct users *l)
{
	for (int i = 0; i < l->nr; i++) {
		free(l->ns[i].use);
		free(l->ns[i].route);
		free(l->ns[i].orphan);
		free(l->ns[i].lost);
	}
	free(l->ns);
	memset(l, 0, sizeof(*l));
}

unsigned int netns_sockets(const struct netns *ns, const char *cc)
{
	for (int i = 0; i < ns->nr_use; i++)
		if (!strcmp(ns->use[i].name, cc))
			return ns->use[i].sockets;
	return 0;
}

static unsigned int count_routes(const struct cc_route *at, int nr, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < nr; i++)
		n += !strcmp(at[i].name, cc);
	return n;
}

unsigned int netns_routes(const struct netns *ns, const char *cc)
{
	return count_routes(ns->route, ns->nr_route, cc);
}

bool lost_default(const struct netns *ns, const char *cc)
{
	return !strcmp(ns->given, cc) && strcmp(ns->initial, cc);
}

unsigned int users_lost(const struct users *l, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < l->nr; i++)
		n += count_routes(l->ns[i].lost, l->ns[i].nr_lost, cc) + lost_default(&l->ns[i], cc);
	return n;
}

static int surplus(const struct users *l, const struct registry *r, const char *cc)
{
	int nr = 0;

	for (const struct registered *reg = r->at; reg < r->at + r->nr; reg++)
		nr += strcmp(reg->name, cc) ? 0 : reg->uses;
	for (const struct netns *ns = l->ns; ns < l->ns + l->nr; ns++)
		nr -= netns_sockets(ns, cc) + !strcmp(ns->initial, cc);
	return nr;
}

int users_hidden(const struct users *l, const struct registry *r, const struct registered *reg)
{
	const char *cc = reg->name;
	int nr = reg->unloading ? 0 : surplus(l, r, cc), err = 0;

	if (registry_find(r, cc) != reg) /* another build counts for all of that name */
		return 0;
	for (int i = 1; i < LOOKS && nr > 0 && !err; i++) {
		struct registry now = {};
		struct users more = {};

		err = registry_read(&now) || users_read(&more);
		nr = err ? nr : surplus(&more, &now, cc);
		registry_free(&now);
		users_free(&more);
	}
	return err ? -1 : nr > 0 ? nr : 0;
}

int users_warn_hidden(const struct users *l, const struct registry *r)
{
	netns_warn_unseen();
	for (const struct registered *reg = r->at; reg < r->at + r->nr; reg++) {
		int nr = users_hidden(l, r, reg);

		if (nr < 0)
			return -1;
		if (nr)
			fail(HIDDEN_USES(nr), reg->name);
	}
	return 0;
}
