// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/text.h"
#include "kernel/process.h"

static void read_name(pid_t pid, char *name, size_t size)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, size, f))
		snprintf(name, size, "?");
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = 0;
	clean_text(name);
}

/* Calls `seen` for each file that a process has open, with what it is, until that tells true. */
static bool each_file(pid_t pid, bool (*seen)(pid_t pid, const char *fd, const char *what, void *ctx), void *ctx)
{
	char path[64], what[64];
	bool done = false;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && !done && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, what, sizeof(what) - 1);

		what[n > 0 ? n : 0] = 0;
		done = n > 0 && seen(pid, e->d_name, what, ctx);
	}
	if (d)
		closedir(d);
	return done;
}

static void each_process(bool (*seen)(pid_t pid, const char *fd, const char *what, void *ctx), void *ctx)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	bool done = false;

	while (d && !done && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != getpid())
			done = each_file(atoi(e->d_name), seen, ctx);
	if (d)
		closedir(d);
}

struct wanted {
	struct socket_process *h;
	size_t nr, left;
};

static bool is_wanted(pid_t pid, const char *fd, const char *what, void *ctx)
{
	struct wanted *w = ctx;
	unsigned int inode;

	(void)fd;
	if (sscanf(what, "socket:[%u]", &inode) != 1)
		return false;
	for (size_t i = 0; i < w->nr; i++) {
		if (w->h[i].inode != inode || w->h[i].pid)
			continue;
		w->h[i].pid = pid;
		read_name(pid, w->h[i].name, sizeof(w->h[i].name));
		w->left--;
	}
	return !w->left;
}

void socket_processes_find(struct socket_process *h, size_t nr)
{
	struct wanted w = { h, nr, 0 };

	for (size_t i = 0; i < nr; i++)
		w.left += !!h[i].inode;
	if (w.left)
		each_process(is_wanted, &w);
}

/* One that was got from a pin or an id is called otherwise. */
bool is_link(const char *what)
{
	return strstr(what, "bpf_link") || strstr(what, "bpf-link");
}

struct wanted_link {
	__u32 id;
	char *text;
	size_t size;
};

static bool is_wanted_link(pid_t pid, const char *fd, const char *what, void *ctx)
{
	const struct wanted_link *w = ctx;
	char path[64], line[128], name[32];
	bool found = false;
	unsigned int id;
	FILE *f;

	if (!is_link(what))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", pid, fd);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "link_id: %u", &id) == 1 && id == w->id;
	if (f)
		fclose(f);
	if (found) {
		read_name(pid, name, sizeof(name));
		snprintf(w->text, w->size, "%s (pid %d)", name, pid);
	}
	return found;
}

void process_of_link(__u32 link_id, char *text, size_t size)
{
	struct wanted_link w = { link_id, text, size };

	text[0] = 0;
	each_process(is_wanted_link, &w);
}

unsigned long long process_start(pid_t pid)
{
	unsigned long long start = 0;
	char path[40], text[600], *rest;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = 0;
	rest = strrchr(text, ')'); /* the name before it may have anything */
	if (rest)
		sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		       &start);
	return start;
}
