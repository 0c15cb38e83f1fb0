/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `try`: uses that end by themselves. What they are is in the state files, and in the program of a cgroup; so anybody can
 * end them, whatever became of the command that made them.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include "uses.h"

struct trial {
	const char *guard;          /* what ends it, if the command cannot: for the user */
	bool by_systemd;
};

/* Before anything is changed. -1 with a message. */
int trial_guard(struct trial *t, const char *cc, long seconds);
/* All or none. -1 with a message. */
int trial_make(const struct trial *t, const struct uses *u, long seconds);
/*
 * All that is still as the trial made it is as it was before. Returns how many places others have changed since, each with
 * a message; -1 with a message. Where there is no trial, there is nothing to do.
 */
int trial_end(const char *cc);
/* Calls `look` for each that is under way; `over`: for so many seconds its end is past, below 0: it is to come. */
int trials_each(void (*look)(const char *cc, bool by_systemd, long over, void *ctx), void *ctx);
/* The guard is needed no more. */
void trial_release(const struct trial *t, const char *cc);

#endif
