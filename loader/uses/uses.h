/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Defaults of namespaces, routes and cgroups make new connections take a controller. -1 with a message. */
#ifndef USES_H
#define USES_H

#include "args.h"
#include "kernel/attachments.h"
#include "kernel/route.h"
#include "uses/share.h"
#include "uses/users.h"

/* The places that `use` and `unuse` name. */
struct uses {
	const char *cc;
	bool by_default;
	struct texts routes, cgroups;
	struct prefix *prefix;      /* of each route */
	bool *made;                 /* of each route: is it new? */
	bool by_trial;              /* `try` makes them */
	/* A part of the connections in cgroups, and when it ends itself; texts as they were written, NULL: not given. */
	const char *share_text, *worse_text;
	struct share_rule rule;
};

#define USES_WORDS(u) { .arg = "NAME", .cc = &(u).cc }
#define USES_OPTS(u) \
	{ "default", 'D', NULL, "of this network namespace", .flag = &(u).by_default }, \
		{ "route", 'r', "PREFIX", "connections to ADDRESS/LENGTH, or `default`; repeatable", \
		  .texts = &(u).routes }, \
	{ \
		"cgroup", 'c', "PATH", "connections of this cgroup2 and those below it; repeatable", \
			.texts = &(u).cgroups \
	}

#define SHARE_OPTS(u) \
	{ "share", 's', "PERCENT", "with --cgroup: only that part of the new connections", .text = &(u).share_text }, \
		{ "stop-if-worse", 'w', "PERCENT", \
		  "with --share: end it when their goodput is less by more than this", .text = &(u).worse_text }, \
		{ "least", \
		  'l', \
		  "N", \
		  "connections of each group that it takes to end it (50)", \
		  .number = &(u).rule.least, \
		  .min = 2, \
		  .max = 1000000 }

int uses_parse(struct uses *u);
void uses_free(struct uses *u);
/* All or none. */
int uses_make(const struct uses *u);
/* "fast is used by default, on route 198.51.100.0/24" */
void uses_print(const struct uses *u, const char *verb);

/*
 * "default of host, route 198.51.100.0/24 and 3 sockets in host; cgroup /sys/fs/cgroup/bulk", in memory to be
 * freed; "" if nobody does. `sockets`: count those, too.
 */
char *users_text(const struct users *l, const struct attachments *all, const char *cc, bool sockets);

/*
 * Take `cc` back wherever it is used, or from all routes only. Returns from how many places. *left: foreign
 * namespaces where something is left, with a message: no error, as their owners shall not keep root from anything.
 */
int unuse_all(const struct attachments *all, const char *cc, bool only_routes, int *left);

#endif
