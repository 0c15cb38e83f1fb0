/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cgroup2 hierarchy. All return -errno on failure, and say nothing. */
#ifndef CGROUP_H
#define CGROUP_H

#include <limits.h>
#include <stdbool.h>

/* Its own path, without links and dots; room for PATH_MAX. */
int cgroup_path_parse(char *path, const char *text);
/* -EMEDIUMTYPE: a directory, but not a cgroup2's. */
int cgroup_open(const char *path);
/* There is no such cgroup, or it is gone meanwhile; with any other error it could not be looked for. */
bool cgroup_is_absent(int err);

/* The root where it is mounted for us, opened. */
int cgroup_open_root(char path[PATH_MAX]);
/* A root that is hidden from us (`ip netns exec` does that) is still seen through the first process, if we may. */
int cgroup_open_root_anyhow(char path[PATH_MAX]);

/* Is one of the two in the other, or the same? */
bool cgroup_is_near(const char *one, const char *other);

#endif
