/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that an object has for a cgroup beside its struct_ops. They see every connection of the cgroup and of those
 * below it.
 */
#ifndef HALVES_H
#define HALVES_H

#include "attached.h"

/* Where a load attaches them. */
struct halves {
	char cgroup[PATH_MAX];
	int fd;
	int nr;             /* how many are attached */
};
#define HALVES_NOWHERE { .fd = -1 }

/* `path` NULL: the root. Of an object without such programs there is nothing to open and to attach. */
int halves_open(struct halves *h, const struct object *o, const char *path);
/*
 * -1 with a message: programs of the same object, but for those `leaving`, would run beside ours, here or in a cgroup
 * below.
 */
int halves_check(const struct halves *h, const struct object *o, const struct attachments *leaving);
/* All of them or none. */
int halves_attach(struct halves *h, const struct object *o);
void halves_detach(struct halves *h, const struct object *o);
void halves_close(struct halves *h);

#endif
