/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel does not tell, in /run/asymcc, that is as long as the machine runs:
 *   lock               held by every command that changes something
 *   default-COOKIE     "PREVIOUS NAME": the default of that network namespace before `use` made it NAME
 *   replacing-NAME     the object that `load --replace` was about to put in place of NAME
 */
#ifndef STATE_H
#define STATE_H

#include "asymcc.h"

/* May be taken again while it is held. -1 with a message. */
int state_lock(void);
void state_unlock(void);

/* All under the lock. Two words of at most 15 characters; the second may be "". */
int state_write(const char *file, const char *first, const char *second);
bool state_read(const char *file, char first[CC_NAME_LEN], char second[CC_NAME_LEN]);
void state_remove(const char *file);

/* The files' names. */
const char *state_default(void); /* of the namespace that the thread is in */
const char *state_replacing(const char *cc);
/* Calls `look` for each NAME of which a replacement is not finished. */
void state_each_replacing(void (*look)(const char *cc, const char *object, void *ctx), void *ctx);

#endif
