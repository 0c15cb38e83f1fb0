// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>

#include "command.h"
#include "use.h"

static struct uses args;

/* All or none: cgroups, which undo themselves, come last. */
static int use_all(struct routes *undo, bool *made)
{
	struct before before;
	int err = 0, nr = 0;

	for (; !err && nr < args.routes.nr; nr++)
		err = route_use(&args.prefix[nr], args.cc, &undo[nr], &made[nr]);
	if (!err && args.by_default)
		err = default_use(args.cc, &before);
	if (!err && args.cgroups.nr) {
		err = cgroups_use(args.cc, &args.cgroups);
		if (err && args.by_default)
			default_undo(args.cc, &before);
	}
	while (err && nr--) /* the last one first */
		route_undo(&args.prefix[nr], args.cc, &undo[nr], made[nr]);
	return err;
}

static int use_locked(void)
{
	struct routes *undo = calloc(args.routes.nr + 1, sizeof(*undo));
	bool *made = calloc(args.routes.nr + 1, sizeof(*made));
	int err = -1, there = undo && made ? controller_available(args.cc) : fail("out of memory");

	if (!there)
		fail("%s is not loaded: `asymcc load %s` first (`asymcc list` shows what is there)", args.cc, args.cc);
	else if (there > 0)
		err = use_all(undo, made);
	if (!err)
		uses_print(&args, "is used", made);
	for (int i = 0; undo && i < args.routes.nr; i++)
		routes_free(&undo[i]);
	free(undo);
	free(made);
	return err;
}

static int use(void)
{
	int err = -1;

	if (!args.by_default && !args.routes.nr && !args.cgroups.nr)
		fail("use %s: for which connections? --default, --route PREFIX or --cgroup PATH", args.cc);
	else if (!uses_parse(&args) && !state_lock())
		err = use_locked();
	state_unlock();
	uses_free(&args);
	return err;
}

static const struct opt words[] = { USES_WORDS(args), {} };
static const struct opt opts[] = { USES_OPTS(args), {} };

const struct command cmd_use = {
	.name = "use",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = use,
	.summary = "give a loaded controller to new connections",
	.about = "--default: those of this network namespace (sysctl net.ipv4.tcp_congestion_control).\n"
		 "--route: those to a prefix (the congctl of the route that they take there now, in whichever table); "
		 "if that is of a shorter prefix, one is made like it.\n"
		 "--cgroup: those that processes of a cgroup open or accept.\n"
		 "A cgroup comes before a route, a route before what the socket itself chose before it was connected, "
		 "that before the default. All uses named are made, or none.",
};
