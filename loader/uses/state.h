/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files in /run/asymcc tell what the kernel does not, as long as the machine runs:
 *   lock               held by every command that changes something
 *   default-COOKIE     "ORIGINAL NAME BEFORE": `use` makes NAME the default of that network namespace; the one
 *                      before that is BEFORE, the one before all that `use` made is ORIGINAL
 *   route-COOKIE-ROUTE "ORIGINAL NAME BEFORE", as of a default: `use` gave NAME to that route; - is no controller. ROUTE
 *                      is its text, with _ for / and + for a space
 *   try-NAME           "GUARD END ID": a trial of NAME is under way, till END, in seconds since the machine started; what is
 *                      of it has "try" as the fourth word of its own file
 *   cgroup-ID          "NAME", and its path in a second line: `use` gave NAME to the cgroup of that number
 *   loaded-NAME        the number of its struct_ops map, and the object's file in a second line
 *   uplink-COOKIE-INDEX "PID START MAP DOWN", and the device's name in a second line: that process, which began at START, shapes the
 *                      device of that index in that network namespace; one that is gone was killed. The map of that
 *                      number has what it does. DOWN: it has an ifb, "ifb", and made clsact for it, "clsact"
 *   replacing-NAME     the object that `load --replace` was about to put in place of NAME
 */
#ifndef STATE_H
#define STATE_H

#include "view/text.h"

#define STATE_DIR "/run/asymcc"
#define STATE_DEFAULT "default-"
#define STATE_ROUTE "route-"
#define STATE_CGROUP "cgroup-"
#define STATE_LOADED "loaded-"
#define STATE_REPLACING "replacing-"
#define STATE_TRY "try-"
#define STATE_UPLINK "uplink-"
#define STATE_WORDS 4
#define STATE_TEXT 1024

/* The words of a file: names, "" where it has fewer; and a line of text, without control characters. */
struct record {
	union {
		char word[STATE_WORDS][CC_NAME_LEN];
		struct { /* of a default or a route; `mark` "try": by a trial */
			char original[CC_NAME_LEN], name[CC_NAME_LEN], before[CC_NAME_LEN], mark[CC_NAME_LEN];
		};
		struct { /* of a trial */
			char guard[CC_NAME_LEN], end[CC_NAME_LEN], id[CC_NAME_LEN];
		};
		struct { /* of an uplink */
			char pid[CC_NAME_LEN], start[CC_NAME_LEN], map[CC_NAME_LEN], down[CC_NAME_LEN];
		};
		struct { /* of a cgroup, a load, a replacement */
			char what[CC_NAME_LEN];
		};
	};
	char text[STATE_TEXT];
};

/* May be taken again while it is held. -1 with a message. */
int state_lock(void);
void state_unlock(void);

/* All under the lock; -1 with a message. `file` NULL: its name could not be told. */
int state_write(const char *file, const struct record *w); /* as a whole or not at all */
/* A name, with a text of anybody's, of which what is too long, or has control characters, is left out. */
int state_write_text(const char *file, const char *name, const char *text);
int state_read(const char *file, struct record *w);        /* 0: there is none, else 1 */
int state_remove(const char *file);                       /* it need not be there */

/* The files' names; that of the namespace that the thread is in is NULL, with a message, if it cannot be told. */
const char *state_default(void);
const char *state_route(const char *text);
const char *state_replacing(const char *cc);
const char *state_loaded(const char *cc);
const char *state_try(const char *cc);
const char *state_cgroup(unsigned long long id);
const char *state_uplink(unsigned int index);
/* It is state_read() for a file that others may be writing: the lock need not be held. */
int state_peek(const char *file, struct record *w);
/* Calls `look` for each file whose name begins so, with the rest of that. The lock need not be held. */
int state_each(const char *beginning, void (*look)(const char *rest, const struct record *w, void *ctx), void *ctx);
/* Those of uplinks of the namespace that the thread is in, with the device's index. */
int state_each_uplink(void (*look)(const char *index, const struct record *w, void *ctx), void *ctx);
/* Those of routes of the namespace that the thread is in, with the route's text. */
int state_each_route(void (*look)(const char *text, const struct record *w, void *ctx), void *ctx);

#endif
