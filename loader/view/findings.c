// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uses/cgroups.h"
#include "uses/thinning.h"
#include "view/findings.h"

void report(struct report *r, enum grade grade, const char *what, const char *mend, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	r->nr++;
	r->bad += grade == BAD;
	r->line(r, grade, what, mend, text ? text : "out of memory");
	free(text);
}

static void report_lost_cgroup(const char *cc, const char *path, bool gone, void *ctx)
{
	char *mend = NULL;

	if (asprintf(&mend, "asymcc use %s --cgroup %s%s, or asymcc unuse %s --cgroup %s", cc, path,
		     gone ? " when it is there again" : "", cc, path) < 0)
		mend = NULL;
	report(ctx, gone ? NOTE : BAD, cc, mend, "cgroup %s was given it, and %s", path,
	       gone ? "was removed since, as by a restart of its service" : "has it no more");
	free(mend);
}

/* The controller that a route has now, if it is another. */
static const char *controller_of_route(const struct netns *ns, const char *text)
{
	for (int i = 0; i < ns->nr_route; i++)
		if (!strcmp(ns->route[i].text, text))
			return ns->route[i].name;
	return NULL;
}

static void report_netns(struct report *r, const struct netns *ns)
{
	const char *there = netns_prefix(ns->name, ns->own);
	char mend[900];

	if (*ns->given && strcmp(ns->given, ns->initial)) {
		snprintf(mend, sizeof(mend), "%sasymcc use %s --default again, or %sasymcc unuse %s --default", there,
			 ns->given, there, ns->given);
		report(r, NOTE, ns->given, mend, "it was made the default of %s, which has %s now", ns->name,
		       ns->initial);
	}
	for (int i = 0; i < ns->nr_lost; i++) {
		const char *cc = ns->lost[i].name, *text = ns->lost[i].text, *now = controller_of_route(ns, text);

		snprintf(mend, sizeof(mend),
			 "%sasymcc use %s --route %.*s again, or asymcc unuse %s; a network manager that does so "
			 "can be told to run `systemctl reload asymcc@%s` after it",
			 there, cc, (int)strcspn(text, " "), text, cc, cc);
		report(r, BAD, cc, mend, "route %s in %s was given it, and %s%s", text, ns->name,
		       now ? "has another now: " : "is gone, or was written anew without it", now ? now : "");
	}
	for (int i = 0; i < ns->nr_orphan; i++)
		report(r, BAD, "route", "ip route del it, or load that again",
		       "%s in %s was made for a controller that is not loaded any more", ns->orphan[i].text, ns->name);
}

/* Programs of others that have the last word where ours are, such as bpftune's or Cilium's. */
static void report_after(struct report *r, const struct attached *ours, const struct attachments *after)
{
	char mend[120];

	for (const struct attached *theirs = after->at; theirs < after->at + after->nr; theirs++) {
		snprintf(mend, sizeof(mend), "`bpftool prog show id %u` tells whose it is", theirs->prog_id);
		report(r, NOTE, *ours->used ? ours->used : ours->owner, mend,
		       "in %s program %s of %s runs after %s, and may %s", ours->cgroup, theirs->name, theirs->cgroup,
		       ours->name, *ours->used ? "choose another controller" : "undo what that sets");
	}
}

int findings_report(struct report *r, const struct inventory *now, bool blind)
{
	struct thinning t;
	char mend[900];
	int n = 0;

	for (int i = 0; i < now->users.nr; i++)
		report_netns(r, &now->users.ns[i]);
	if (!blind && cgroups_lost(&now->all, report_lost_cgroup, r))
		return -1;
	for (int i = 0; i < now->all.nr; i++) {
		const struct attached *ours = &now->all.at[i];
		int there = *ours->used ? controller_available(ours->used) : 1;

		if (there < 0)
			return -1;
		if (now->after)
			report_after(r, ours, &now->after[i]);
		snprintf(mend, sizeof(mend), "asymcc unuse %s, or load it", ours->used);
		if (!there)
			report(r, BAD, ours->used, mend, "cgroup %s is given it, and it is not loaded", ours->cgroup);
	}
	while (thinning_next(&now->all, &n, &t)) {
		snprintf(mend, sizeof(mend), "%s, then thin there again", thinning_command(&t, "thin --off"));
		if (t.programs < THINNING_PROGRAMS)
			report(r, BAD, THIN, mend, "%s has only a part of its programs", t.cgroup);
	}
	return 0;
}

static int report_hidden_uses(struct report *r, const struct inventory *now)
{
	const struct registry *all = &now->registry;

	for (const struct registered *reg = all->at; reg < all->at + all->nr; reg++) {
		int nr = users_hidden(&now->users, all, reg);

		if (nr < 0)
			return -1;
		if (nr)
			report(r, NOTE, reg->name, NULL, HIDDEN_USES(nr), reg->name);
	}
	return 0;
}

int findings_hidden(struct report *r, const struct inventory *now, bool blind)
{
	int nr = blind ? 0 : attachments_hidden(&now->all, NULL, false);

	if (netns_unseen())
		report(r, NOTE, "namespaces", "run it as root, in no container", NETNS_UNSEEN, netns_unseen());
	if (nr > 0)
		report(r, NOTE, "programs", NULL,
		       "some of asymcc run in a network namespace or a cgroup that cannot be seen from here");
	else if (nr < 0)
		report(r, BAD, "programs", NULL,
		       "whether some of asymcc run elsewhere is not known (the reason is on standard error)");
	return nr < 0 || report_hidden_uses(r, now) ? -1 : 0;
}
