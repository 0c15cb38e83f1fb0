// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>

#include "uses/cgroups.h"
#include "command.h"
#include "uses/state.h"
#include "uses/default.h"
#include "uses/routes.h"
#include "uses/uses.h"

static struct uses args;

/* The places named on the command line that have it. One that has not is no error. */
static int find_named(const struct attachments *all, struct uses *had)
{
	int n = args.by_default ? default_unuse(args.cc, true) : 0;

	had->by_default = n > 0;
	if (!n && args.by_default)
		printf("%s is not the default of this network namespace\n", args.cc);
	for (int i = 0; n >= 0 && i < args.routes.nr; i++) {
		n = routes_unuse(&args.prefix[i], args.cc, true);
		if (!n)
			printf("%s is on no route to just %s\n", args.cc, args.routes.text[i]);
		else if (n > 0)
			n = texts_add(&had->routes, args.routes.text[i]);
	}
	for (int i = 0; n >= 0 && i < args.cgroups.nr; i++) {
		n = cgroups_unuse(all, args.cgroups.text[i], args.cc, true);
		if (!n)
			printf("%s is not used in cgroup %s\n", args.cc, args.cgroups.text[i]);
		else if (n > 0)
			n = texts_add(&had->cgroups, args.cgroups.text[i]);
	}
	return n < 0 ? -1 : 0;
}

static int unuse_places(const struct attachments *all, const struct uses *had)
{
	int n = had->by_default ? default_unuse(args.cc, false) : 0;

	for (int i = 0; n >= 0 && i < had->routes.nr; i++)
		n = routes_unuse(&had->prefix[i], args.cc, false);
	for (int i = 0; n >= 0 && i < had->cgroups.nr; i++)
		n = cgroups_unuse(all, had->cgroups.text[i], args.cc, false);
	return n < 0 ? -1 : 0;
}

static int unuse_named(const struct attachments *all)
{
	struct uses had = { .cc = args.cc };
	int err = find_named(all, &had) || uses_parse(&had) || unuse_places(all, &had) ? -1 : 0;

	if (!err && (had.by_default || had.routes.nr || had.cgroups.nr))
		uses_print(&had, "taken back");
	uses_free(&had);
	return err;
}

static int unuse_everywhere(const struct attachments *all)
{
	int left, n = unuse_all(all, args.cc, false, &left);

	if (attachments_hidden(all, args.cc, n > 0))
		left++;
	netns_warn_unseen();
	if (!n && !left)
		printf("%s is no default, on no route and in no cgroup%s\n", args.cc,
		       netns_unseen() ? " that can be seen from here" : "");
	else if (n > 0)
		printf("%s taken back in %d place%s\n", args.cc, n, n == 1 ? "" : "s");
	return n < 0 || left ? -1 : 0;
}

static int unuse_locked(void)
{
	bool everywhere = !args.by_default && !args.routes.nr && !args.cgroups.nr;
	struct attachments all = {};
	int err = everywhere || args.cgroups.nr ? attachments_read(&all) : 0;

	if (!err)
		err = everywhere ? unuse_everywhere(&all) : unuse_named(&all);
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
		"what they have. If nothing has it there is nothing to do, and that is no error.",
};
