/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that an object has for a cgroup beside its struct_ops. They see every connection of the cgroup and of those
 * below it.
 */
#ifndef CGROUP_PROGRAMS_H
#define CGROUP_PROGRAMS_H

#include "kernel/attachments.h"

/* The cgroup in which a load attaches them. */
struct cgroup_programs {
	char cgroup[PATH_MAX];
	int fd;
	int nr;             /* how many are attached */
};
#define CGROUP_PROGRAMS_NOWHERE { .fd = -1 }

/* `path` NULL: the root. An object without such programs has nothing to open and to attach. */
int cgroup_programs_open(struct cgroup_programs *h, const struct object *o, const char *path);
/*
 * -1 with a message: programs of the same object, but for those `leaving`, would run beside ours, here or in a cgroup
 * below.
 */
int cgroup_programs_check(const struct cgroup_programs *h, const struct object *o, const struct attachments *leaving);
/* All of them or none. */
int cgroup_programs_attach(struct cgroup_programs *h, const struct object *o);
void cgroup_programs_detach(struct cgroup_programs *h, const struct object *o);
void cgroup_programs_close(struct cgroup_programs *h);

#endif
