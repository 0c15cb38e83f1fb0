/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every `asymcc uplink` of a network namespace, as others read it: those that run, and those that were killed. */
#ifndef USES_UPLINKS_H
#define USES_UPLINKS_H

#include <net/if.h>
#include <stdbool.h>
#include <sys/types.h>

#include "uses/uplink_law.h"

#define UPLINK "uplink" /* the object */

/*
 * The one that a file in the state's folder tells of; 0: none. `*killed`: its process is gone, and what it made may stand still.
 * -1 with a message.
 */
pid_t uplink_of(unsigned int index, bool *killed);

extern const char *const uplink_causes[UPLINK_CAUSES];

/* The words on one of its ways. */
struct uplink_state {
	char dev[IF_NAMESIZE];
	enum uplink_way way;
	char text[160], mend[80]; /* "": nothing is to be mended */
	struct uplink_told now;   /* `rate` 0: not known */
};
/* Calls `look` for each way of each of the thread's namespace. -1 with a message. */
int uplinks_each(void (*look)(const struct uplink_state *state, void *ctx), void *ctx);
/* Takes away what is left of those whose device is gone. Under the state's lock. -1 with a message. */
int uplinks_forget_gone(void);

#endif
