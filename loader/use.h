/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What makes new connections take a controller: defaults of namespaces, routes, cgroups. -1 with a message. */
#ifndef USE_H
#define USE_H

#include "args.h"
#include "attached.h"
#include "netns.h"
#include "route.h"
#include "state.h"

/* What `use` and `unuse` name. */
struct uses {
	const char *cc;
	bool by_default;
	struct texts routes, cgroups;
	struct prefix *prefix;      /* of each route */
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

int uses_parse(struct uses *u);
void uses_free(struct uses *u);
/* "fast is used by default, on route 198.51.100.0/24"; `made`, or NULL: which of the routes are new. */
void uses_print(const struct uses *u, const char *verb, const bool *made);

/*
 * "default of host, route 198.51.100.0/24 and 3 sockets in host; cgroup /sys/fs/cgroup/bulk", in memory to be
 * freed; "" if nobody does. `sockets`: count those, too.
 */
char *users_text(const struct netns_list *l, const struct attachments *all, const char *cc, bool sockets);

/*
 * Take `cc` back wherever it is used, or from all routes only. Returns from how many places. *left: foreign
 * namespaces where something is left, with a message: no error, as their owners shall not keep root from anything.
 */
int unuse_all(const struct attachments *all, const char *cc, bool only_routes, int *left);

/* What a namespace has before `use` changes its default. */
struct before {
	char now[CC_NAME_LEN];
	struct words state;
	int known;                  /* is there a state? */
};

/* Did `use` give `cc`? It did so at any moment of its work, and of its undoing: hence two names. */
bool is_given(const struct words *state, const char *cc);

/* Of the namespace that the thread is in. `b`: for default_undo(). */
int default_use(const char *cc, struct before *b);
void default_undo(const char *cc, const struct before *b);
/* Returns whether it was the default. */
int default_unuse(const char *cc, bool only_count);
/* Namespaces whose default is `cc` keep the instance they met: make them meet the one that has the name now. */
int defaults_renew(const char *cc);

/*
 * All routes to just this prefix, in the table where the kernel finds the one that connections take, or a new one there.
 * `undo`, zeros at first, is what was before.
 */
int route_use(const struct prefix *p, const char *cc, struct routes *undo, bool *made);
void route_undo(const struct prefix *p, const char *cc, const struct routes *undo, bool made);
/*
 * Those of the namespace that name `cc`, to prefix `p` (NULL: to any), and what `use` remembers of those that lost it.
 * Returns how many; goes on over those that fail, and tells the first.
 */
int routes_unuse(const struct prefix *p, const char *cc, bool only_count);

/*
 * All or none. It takes the place of a controller that is used in the same cgroup; one above or below is refused, as
 * the upper one would win.
 */
int cgroups_use(const char *cc, const struct texts *paths);
/* Take `cc` back from cgroup `path` (NULL: from all). Returns how many had it. */
int cgroups_unuse(const struct attachments *all, const char *path, const char *cc, bool only_count);

#endif
