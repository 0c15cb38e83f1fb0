/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --cgroup`: one sockops program, use.bpf.c, in each cgroup. -1 with a message. */
#ifndef CGROUPS_H
#define CGROUPS_H

#include "args.h"
#include "kernel/attachments.h"
#include "uses/share.h"

/*
 * All or none. It takes the place of a controller that is used in the same cgroup; one above or below is refused, as
 * the upper one would win. A rule of zeros: all connections.
 */
int cgroups_use(const char *cc, const struct texts *paths, bool by_trial, const struct share_rule *rule);
/* Take `cc` back from cgroup `path` (NULL: from all). Returns how many had it. */
int cgroups_unuse(const struct attachments *all, const char *path, const char *cc, bool only_count);
/* A trial of `cc` ends: each cgroup that has it by that is as it was before. */
int cgroups_end(const struct attachments *all, const char *cc);
/* Forgets cgroups to which `use` gave `cc`, and that have it no more. */
int cgroups_forget(const struct attachments *all, const char *cc);
/* Calls `look` for each cgroup to which `use` gave a controller that it has no more; `gone`: the cgroup itself is. */
int cgroups_lost(const struct attachments *all, void (*look)(const char *cc, const char *path, bool gone, void *ctx),
		 void *ctx);

#endif
