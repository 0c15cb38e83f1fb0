// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "kernel/cgroup.h"

int cgroup_path_parse(char *path, const char *text)
{
	return realpath(text, path) ? 0 : -errno;
}

int cgroup_open(const char *path)
{
	int err, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0)
		return -errno;
	err = fstatfs(fd, &fs) ? -errno : fs.f_type == CGROUP2_SUPER_MAGIC ? 0 : -EMEDIUMTYPE;
	if (!err)
		return fd;
	close(fd);
	return err;
}

bool cgroup_is_absent(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENOTDIR || err == -EMEDIUMTYPE;
}

/* The root of the hierarchy as `mounts` has it, whose paths begin at `top`; returns it opened. */
static int open_mounted(char path[PATH_MAX], const char *mounts, const char *top)
{
	FILE *f = setmntent(mounts, "re");
	int fd = -ENOENT;
	struct mntent *m;

	if (!f)
		return -errno;
	while (cgroup_is_absent(fd) && (m = getmntent(f))) {
		if (strcmp(m->mnt_type, "cgroup2"))
			continue;
		snprintf(path, PATH_MAX, "%s%s", top, m->mnt_dir);
		fd = cgroup_open(path);
	}
	if (fd < 0 && ferror(f))
		fd = -EIO;
	endmntent(f);
	return fd;
}

int cgroup_open_root(char path[PATH_MAX])
{
	return open_mounted(path, "/proc/self/mounts", "");
}

int cgroup_open_root_anyhow(char path[PATH_MAX])
{
	int fd = cgroup_open_root(path);

	if (cgroup_is_absent(fd))
		fd = open_mounted(path, "/proc/1/mounts", "/proc/1/root");
	return fd == -EACCES ? -ENOENT : fd;
}

static bool is_in(const char *path, const char *above)
{
	size_t n = strlen(above);

	return !strncmp(path, above, n) && (!path[n] || path[n] == '/' || !strcmp(above, "/"));
}

bool cgroup_is_near(const char *one, const char *other)
{
	return is_in(one, other) || is_in(other, one);
}
