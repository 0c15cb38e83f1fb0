// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `use --route`: routes that name a controller. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "use.h"

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

int route_use(const struct prefix *p, const char *cc, struct routes *undo, bool *made)
{
	int err = 0;

	if (routes_read(undo, p))
		return -1;
	if (!undo->nr) {
		err = route_make(p, cc);
		*made = !err;
		return err ? fail_route(NULL, p->text, err) : 0;
	}
	for (int i = 0; i < undo->nr && !err; i++) {
		const struct route *r = &undo->route[i];

		if (route_is_advertised(r))
			err = fail("--route %s: a router's advertisements keep that route as it is: choose a longer "
				   "prefix",
				   p->text);
		else if ((err = route_set(r, cc)))
			fail_route(r, NULL, err);
		if (err)
			routes_cut(undo, i); /* from here on they have not been changed */
	}
	return err ? -1 : 0;
}

void route_undo(const struct prefix *p, const char *cc, const struct routes *undo, bool made)
{
	for (int i = undo->nr; i--;) {
		const struct route *r = &undo->route[i];
		int err = route_set(r, *r->cc ? r->cc : NULL);

		if (err)
			fail_route(r, NULL, err);
	}
	if (made)
		routes_unuse(p, cc, false);
}

int routes_unuse(const struct prefix *p, const char *cc, bool only_count)
{
	struct routes r = {};
	int nr = 0, failed = 0;

	if (routes_read(&r, p))
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
