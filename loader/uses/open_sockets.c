// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "uses/open_sockets.h"
#include "kernel/sock_diag.h"
#include "kernel/netlink.h"
#include "kernel/route_lookup.h"

#define NO_CONNECTIONS (1U << 6 | 1U << 7 | 1U << 10 | 1U << 12) /* TIME_WAIT, CLOSE, LISTEN, NEW_SYN_RECV */

struct connections {
	struct connection *at;
	size_t nr;
};

static int keep(const struct inet_diag_msg *m, size_t len, void *ctx)
{
	struct connections *l = ctx;

	if (!(l->nr & (l->nr - 1))) { /* a power of two is full */
		struct connection *room = realloc(l->at, (l->nr ? 2 * l->nr : 1) * sizeof(*room));

		if (!room)
			return -ENOMEM;
		l->at = room;
	}
	connection_read(&l->at[l->nr++], m, len);
	return 0;
}

static bool is_to(const struct uses *u, const struct connection *c)
{
	for (int i = 0; i < u->routes.nr; i++)
		if (u->prefix[i].family == c->family && prefix_has(&u->prefix[i], c->peer))
			return true;
	return false;
}

/*
 * Those whose route names the controller, of all to the prefixes that were given; `by_default`: those whose route names
 * none. One that has no route now has none that names one.
 */
static int choose(const struct connections *l, const struct uses *u, bool by_default, __u64 *cookie, size_t *nr)
{
	*nr = 0;
	for (size_t i = 0; i < l->nr; i++) {
		const struct connection *c = &l->at[i];
		struct route r;
		int err;

		if (!by_default && !is_to(u, c))
			continue;
		err = route_of(c, &r);
		if (err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -EAGAIN || err == -EIO)
			return fail("--existing: cannot read the routes: %s", netlink_error(err));
		if (by_default ? err || !*r.cc : !err && !strcmp(r.cc, u->cc))
			cookie[(*nr)++] = c->cookie;
	}
	return 0;
}

static int move_chosen(struct move *m, const struct uses *u)
{
	struct connections l = {};
	__u64 *cookie = NULL;
	size_t nr;
	int err = flows_each(~NO_CONNECTIONS, CONNECTION_EXT, keep, &l);

	if (!err) {
		cookie = calloc(l.nr + 1, sizeof(*cookie));
		err = cookie ? 0 : -ENOMEM;
	}
	if (err)
		err = fail("--existing: %s",
			   err == -ENOENT ? "this kernel does not tell its connections: modprobe tcp_diag"
					  : netlink_error(err));
	if (!err && u->by_default) {
		m->rule.what = MOVE_CONNECTIONS | MOVE_UNCHOSEN;
		err = choose(&l, u, true, cookie, &nr) || move_run_listed(m, cookie, nr) ? -1 : 0;
	}
	if (!err && u->routes.nr) {
		m->rule.what = MOVE_CONNECTIONS;
		err = choose(&l, u, false, cookie, &nr) || move_run_listed(m, cookie, nr) ? -1 : 0;
	}
	free(cookie);
	free(l.at);
	return err;
}

static int move_in_cgroups(struct move *m, const struct uses *u)
{
	struct stat st;
	int err = 0;

	m->rule.what = MOVE_CONNECTIONS;
	for (int i = 0; !err && i < u->cgroups.nr; i++) {
		if (stat(u->cgroups.text[i], &st))
			return fail("--existing: cgroup %s is gone", u->cgroups.text[i]);
		m->rule.cgroup = st.st_ino; /* its number in the kernel */
		err = move_run_all(m);
	}
	return err;
}

/* A message of a failure adds this. */
static void say_what_stays(const struct uses *u)
{
	char text[2048];
	int n = snprintf(text, sizeof(text), "new connections take %s all the same: `asymcc unuse %s%s", u->cc, u->cc,
			 u->by_default ? " --default" : "");

	for (int i = 0; i < u->routes.nr && n < (int)sizeof(text); i++)
		n += snprintf(text + n, sizeof(text) - n, " --route %s", u->routes.text[i]);
	for (int i = 0; i < u->cgroups.nr && n < (int)sizeof(text); i++)
		n += snprintf(text + n, sizeof(text) - n, " --cgroup %s", u->cgroups.text[i]);
	fail_adds("%.*s` takes it back", (int)sizeof(text), text);
}

int open_sockets_move(struct move *m, const struct uses *u)
{
	struct move_rule *r = &m->rule;
	int err = 0;

	say_what_stays(u);
	snprintf(r->to, sizeof(r->to), "%s", u->cc);
	if (u->by_default || u->routes.nr)
		err = move_chosen(m, u);
	if (!err)
		err = move_in_cgroups(m, u);
	printf("%s: %u open connection%s given it", u->cc, r->moved, r->moved == 1 ? " is" : "s are");
	if (r->refused)
		printf("; %u %s locked by a route", r->refused, r->refused == 1 ? "is" : "are");
	putchar('\n');
	return err;
}
