// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>

#include "command.h"
#include "use.h"

static struct uses args;

/* The places named on the command line; only_count: whether each has it. */
static int unuse_named(const struct attachments *all, bool only_count)
{
	int n = args.by_default ? default_unuse(args.cc, only_count) : 1;

	if (!n)
		fail("%s is not the default of this network namespace", args.cc);
	for (int i = 0; n > 0 && i < args.routes.nr; i++) {
		n = routes_unuse(&args.prefix[i], args.cc, only_count);
		if (!n)
			fail("--route %s: no route to just this prefix has %s", args.routes.text[i], args.cc);
	}
	for (int i = 0; n > 0 && i < args.cgroups.nr; i++) {
		n = cgroups_unuse(all, args.cgroups.text[i], args.cc, only_count);
		if (!n)
			fail("--cgroup %s: %s is not used there", args.cgroups.text[i], args.cc);
	}
	return n > 0 ? 0 : -1;
}

static int unuse_everywhere(const struct attachments *all)
{
	int left, n = unuse_all(all, args.cc, false, &left);

	if (!n && !left)
		fail("%s is no default, on no route and in no cgroup", args.cc);
	else if (n > 0)
		printf("%s taken back in %d place%s\n", args.cc, n, n == 1 ? "" : "s");
	return n > 0 && !left ? 0 : -1;
}

static int unuse_locked(void)
{
	bool everywhere = !args.by_default && !args.routes.nr && !args.cgroups.nr;
	struct attachments all = {};
	int err = everywhere || args.cgroups.nr ? attachments_read(&all) : 0;

	if (!err && everywhere) {
		err = unuse_everywhere(&all);
	} else if (!err) {
		err = unuse_named(&all, true) || unuse_named(&all, false) ? -1 : 0;
		if (!err)
			uses_print(&args, "taken back", NULL);
	}
	attachments_free(&all);
	return err;
}

static int unuse(void)
{
	int err = uses_parse(&args) || state_lock() ? -1 : unuse_locked();

	state_unlock();
	uses_free(&args);
	return err;
}

static const struct opt words[] = { USES_WORDS(args), {} };
static const struct opt opts[] = { USES_OPTS(args), {} };

const struct command cmd_unuse = {
	.name = "unuse",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = unuse,
	.summary = "take it back from new connections",
	.about =
		"Without options, everywhere. The default and routes become what they were before `use` (a default that is "
		"not known: cubic or reno); cgroups name none then, and routes that `use` made are gone. Connections keep "
		"what they have.",
};
