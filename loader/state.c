// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"

#define DIR_NAME "/run/asymcc"
#define LOCK_TRIES 100
#define LOCK_WAIT_US 100000
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static int lock_fd = -1, lock_depth;

int state_lock(void)
{
	if (lock_depth++)
		return 0;
	if (mkdir(DIR_NAME, 0755) && errno != EEXIST)
		goto refused;
	lock_fd = open(DIR_NAME "/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); /* others cannot hold it */
	if (lock_fd < 0)
		goto refused;
	/* the kernel takes the lock off when the process ends, however that is */
	for (int i = 0; flock(lock_fd, LOCK_EX | LOCK_NB); i++) {
		if (i == LOCK_TRIES) {
			state_unlock();
			return fail("another asymcc keeps " DIR_NAME "/lock (`lslocks` may tell which)");
		}
		usleep(LOCK_WAIT_US);
	}
	return 0;
refused:
	lock_depth = 0;
	if (errno == EACCES || errno == EPERM)
		return fail("not permitted: run it as root (it needs CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON and "
			    "CAP_NET_ADMIN, and writes " DIR_NAME ")");
	return fail("cannot make " DIR_NAME "/lock: %s", strerror(errno));
}

void state_unlock(void)
{
	if (!lock_depth || --lock_depth)
		return;
	close(lock_fd);
	lock_fd = -1;
}

static void path_of(char path[PATH_MAX], const char *file)
{
	snprintf(path, PATH_MAX, DIR_NAME "/%s", file);
}

int state_write(const char *file, const char *first, const char *second)
{
	char path[PATH_MAX], part[PATH_MAX];
	int err;
	FILE *f;

	path_of(path, file);
	path_of(part, ".part"); /* one for all: whoever writes holds the lock */
	f = fopen(part, "we");
	err = !f;
	if (f) {
		err |= fprintf(f, "%s %s\n", first, second) < 0;
		err |= fclose(f) != 0;
	}
	if (err || rename(part, path)) {
		err = fail("cannot write %s: %s: nothing was changed", path, strerror(errno));
		unlink(part);
	}
	return err;
}

bool state_read(const char *file, char first[CC_NAME_LEN], char second[CC_NAME_LEN])
{
	char path[PATH_MAX];
	int n = 0;
	FILE *f;

	path_of(path, file);
	first[0] = second[0] = 0;
	f = fopen(path, "re");
	if (f) {
		n = fscanf(f, "%15s %15s", first, second);
		fclose(f);
	}
	return n >= 1;
}

void state_remove(const char *file)
{
	char path[PATH_MAX];

	path_of(path, file);
	unlink(path);
}

const char *state_default(void)
{
	static char name[40];
	unsigned long long cookie = 0; /* unlike an inode's number, never given again */
	socklen_t len = sizeof(cookie);
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s >= 0) {
		getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len);
		close(s);
	}
	snprintf(name, sizeof(name), "default-%llu", cookie);
	return name;
}

#define REPLACING "replacing-"

const char *state_replacing(const char *cc)
{
	static char name[sizeof(REPLACING) + CC_NAME_LEN];

	snprintf(name, sizeof(name), REPLACING "%.15s", cc);
	return name;
}

void state_each_replacing(void (*look)(const char *cc, const char *object, void *ctx), void *ctx)
{
	DIR *d = opendir(DIR_NAME);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char object[CC_NAME_LEN], none[CC_NAME_LEN];

		if (!strncmp(e->d_name, REPLACING, strlen(REPLACING)) && state_read(e->d_name, object, none))
			look(e->d_name + strlen(REPLACING), object, ctx);
	}
	if (d)
		closedir(d);
}
