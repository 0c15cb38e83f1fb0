// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <ctype.h>
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

#include "args.h"
#include "uses/state.h"

#define PART ".part" /* one for all: whoever writes holds the lock */
#define ROUTE_NAME 160
#define LOCK_TRIES 300 /* 30 s: at boot units start at once, and the verifier takes seconds on a slow machine */
#define LOCK_WAIT_US 100000
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static int dir = -1, lock_fd = -1, lock_depth;

/* -1 with errno; EBADF: others may write there, or it is theirs. */
static int open_dir(void)
{
	int fd = open(STATE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		goto refused;
	if ((!st.st_uid || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	errno = EBADF;
refused:
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Said once: each look meets the same. */
static int fail_dir(void)
{
	static bool said;

	if (said)
		return -1;
	said = true;
	if (errno == EACCES || errno == EPERM)
		return fail("not permitted: run it as root (it needs CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON and "
			    "CAP_NET_ADMIN, and writes " STATE_DIR ")");
	if (errno == EBADF)
		return fail(STATE_DIR " is not root's alone: remove it");
	return fail("cannot use " STATE_DIR "/lock: %s", strerror(errno));
}

int state_lock(void)
{
	if (lock_depth++)
		return 0;
	if (mkdir(STATE_DIR, 0755) && errno != EEXIST)
		goto refused;
	dir = open_dir();
	if (dir >= 0) /* others cannot hold it */
		lock_fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0)
		goto refused;
	/* the kernel takes the lock off when the process ends, however that is */
	for (int i = 0; flock(lock_fd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			goto refused;
		if (i == LOCK_TRIES) {
			state_unlock();
			return fail("another asymcc keeps " STATE_DIR "/lock (`lslocks` may tell which)");
		}
		usleep(LOCK_WAIT_US);
	}
	return 0;
refused:
	fail_dir();
	state_unlock();
	return -1;
}

void state_unlock(void)
{
	if (!lock_depth || --lock_depth)
		return;
	if (lock_fd >= 0)
		close(lock_fd);
	if (dir >= 0)
		close(dir);
	lock_fd = dir = -1;
}

static int fail_file(const char *verb, const char *file)
{
	return fail("cannot %s " STATE_DIR "/%s: %s", verb, file, strerror(errno));
}

/* Several parts of a command may meet the same file. */
static int fail_record(const char *file, const char *why)
{
	static char last[NAME_MAX + 1];

	if (strcmp(last, file))
		fail(STATE_DIR "/%s is %s: remove it", file, why);
	snprintf(last, sizeof(last), "%s", file);
	return -1;
}

/* Said once: what one file lacks, the next lacks as well. */
static int fail_read(const char *file)
{
	static bool said;

	if (!said)
		fail_file("read", file);
	said = true;
	return -1;
}

int state_write(const char *file, const struct record *w)
{
	char text[sizeof(*w) + 2];
	int n = snprintf(text, sizeof(text), "%s %s %s %s\n%s%s", w->word[0], w->word[1], w->word[2], w->word[3],
			 w->text, *w->text ? "\n" : "");
	int fd = -1;
	bool written = false;

	if (!file)
		return -1;
	/* one that was left behind, or that somebody put there, is not written to */
	if (!unlinkat(dir, PART, 0) || errno == ENOENT)
		fd = openat(dir, PART, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0) {
		errno = ENOSPC;
		written = write(fd, text, n) == n;
		written &= !close(fd);
	}
	if (written && !renameat(dir, PART, dir, file))
		return 0;
	if (fd < 0 && errno == EISDIR)
		return fail_record(PART, "no regular file");
	fail_file("write", file);
	unlinkat(dir, PART, 0);
	return -1;
}

int state_write_text(const char *file, const char *name, const char *text)
{
	struct record w = {};
	bool odd = !text || strlen(text) >= STATE_TEXT;

	for (const char *c = text; !odd && *c; c++)
		odd = iscntrl((unsigned char)*c);
	snprintf(w.what, CC_NAME_LEN, "%s", name);
	if (!odd)
		strcpy(w.text, text);
	return state_write(file, &w);
}

/* In the folder `at`. */
static int read_words(int at, const char *file, struct record *w)
{
	char text[sizeof(*w) + 2], *line, *end;
	int fd = openat(at, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); /* a FIFO would wait for a writer */
	struct stat st = { .st_mode = S_IFREG };
	ssize_t n = fd < 0 || fstat(fd, &st) ? -1 : read(fd, text, sizeof(text) - 1);
	int failed = errno;

	*w = (struct record){};
	if (fd >= 0)
		close(fd);
	else if (failed == ENOENT)
		return 0;
	errno = failed;
	if (!S_ISREG(st.st_mode))
		return fail_record(file, "no regular file");
	if (n < 0)
		return fail_read(file);
	text[n] = 0;
	line = text + strcspn(text, "\n");
	if (*line)
		*line++ = 0;
	end = line + strcspn(line, "\n");
	if (end - line < STATE_TEXT)
		memcpy(w->text, line, end - line);
	sscanf(text, "%15s %15s %15s %15s", w->word[0], w->word[1], w->word[2], w->word[3]);
	for (int i = 0; i < STATE_WORDS; i++)
		if ((!i || *w->word[i]) && !is_name(w->word[i]))
			return fail_record(file, "damaged");
	for (const char *c = w->text; *c; c++)
		if (iscntrl((unsigned char)*c))
			return fail_record(file, "damaged");
	return 1;
}

int state_read(const char *file, struct record *w)
{
	return file ? read_words(dir, file, w) : -1;
}

int state_remove(const char *file)
{
	return !file ? -1 : unlinkat(dir, file, 0) && errno != ENOENT ? fail_file("remove", file) : 0;
}

/* The cookie of the namespace that the thread is in; unlike an inode's number, it is never given again. */
static int read_cookie(unsigned long long *cookie)
{
	socklen_t len = sizeof(*cookie);
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = s < 0 || getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &len);

	if (err)
		fail("cannot tell the network namespace's cookie: %s", strerror(errno));
	if (s >= 0)
		close(s);
	return err ? -1 : 0;
}

const char *state_default(void)
{
	static char name[40];
	unsigned long long cookie;

	if (read_cookie(&cookie))
		return NULL;
	snprintf(name, sizeof(name), STATE_DEFAULT "%llu", cookie);
	return name;
}

/* Neither character that takes another's place is in such a text. */
static void exchange(char *text, const char *from, const char *to)
{
	for (; *text; text++)
		for (int i = 0; from[i]; i++)
			if (*text == from[i]) {
				*text = to[i];
				break;
			}
}

/* -1 with a message. */
static int name_route(char name[ROUTE_NAME], const char *text)
{
	unsigned long long cookie;
	int n;

	if (read_cookie(&cookie))
		return -1;
	n = snprintf(name, ROUTE_NAME, STATE_ROUTE "%llu-", cookie);
	snprintf(name + n, ROUTE_NAME - n, "%s", text);
	exchange(name + n, "/ ", "_+");
	return 0;
}

const char *state_route(const char *text)
{
	static char name[ROUTE_NAME];

	return name_route(name, text) ? NULL : name;
}

const char *state_replacing(const char *cc)
{
	static char name[sizeof(STATE_REPLACING) + CC_NAME_LEN];

	snprintf(name, sizeof(name), STATE_REPLACING "%.15s", cc);
	return name;
}

const char *state_loaded(const char *cc)
{
	static char name[sizeof(STATE_LOADED) + CC_NAME_LEN];

	snprintf(name, sizeof(name), STATE_LOADED "%.15s", cc);
	return name;
}

const char *state_try(const char *cc)
{
	static char name[sizeof(STATE_TRY) + CC_NAME_LEN];

	snprintf(name, sizeof(name), STATE_TRY "%.15s", cc);
	return name;
}

const char *state_cgroup(unsigned long long id)
{
	static char name[40];

	snprintf(name, sizeof(name), STATE_CGROUP "%llu", id);
	return name;
}

/* A file of the namespace that the thread is in; NULL with a message. */
static const char *name_uplink(const char *index)
{
	static char name[60];
	unsigned long long cookie;

	if (read_cookie(&cookie))
		return NULL;
	snprintf(name, sizeof(name), STATE_UPLINK "%llu-%s", cookie, index);
	return name;
}

const char *state_uplink(unsigned int index)
{
	char text[20];

	snprintf(text, sizeof(text), "%u", index);
	return name_uplink(text);
}

int state_each_uplink(void (*look)(const char *index, const struct record *w, void *ctx), void *ctx)
{
	const char *beginning = name_uplink("");

	return beginning ? state_each(beginning, look, ctx) : -1;
}

int state_peek(const char *file, struct record *w)
{
	int fd = file ? open_dir() : -1, there;

	*w = (struct record){};
	if (fd < 0)
		return !file ? -1 : errno == ENOENT ? 0 : fail_dir();
	there = read_words(fd, file, w);
	close(fd);
	return there;
}

int state_each(const char *beginning, void (*look)(const char *rest, const struct record *w, void *ctx), void *ctx)
{
	int err = 0, fd = open_dir();
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		err = errno == ENOENT ? 0 : fail_dir();
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (errno = 0, (e = readdir(d))) {
		struct record w;
		int there;

		if (strncmp(e->d_name, beginning, strlen(beginning)))
			continue;
		there = read_words(fd, e->d_name, &w);
		if (there > 0)
			look(e->d_name + strlen(beginning), &w, ctx);
		else if (there < 0)
			err = -1;
	}
	if (errno)
		err = fail_file("read", "");
	closedir(d);
	return err;
}

struct route_look {
	void (*look)(const char *text, const struct record *w, void *ctx);
	void *ctx;
};

static void look_at_route(const char *rest, const struct record *w, void *ctx)
{
	const struct route_look *l = ctx;
	char text[ROUTE_NAME];

	snprintf(text, sizeof(text), "%s", rest);
	exchange(text, "_+", "/ ");
	l->look(text, w, l->ctx);
}

int state_each_route(void (*look)(const char *text, const struct record *w, void *ctx), void *ctx)
{
	struct route_look l = { look, ctx };
	char beginning[ROUTE_NAME];

	return name_route(beginning, "") || state_each(beginning, look_at_route, &l) ? -1 : 0;
}
