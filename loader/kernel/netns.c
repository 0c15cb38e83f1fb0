// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/nsfs.h>

#include "kernel/netlink.h"
#include "kernel/netns.h"

#define AVAILABLE_CC "/proc/sys/net/ipv4/tcp_available_congestion_control"
#define ALLOWED_CC "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
#define LIST 4096
#define NAMED "/run/netns"
#define FIRST "host"
#define FIRST_PID_NS 0xEFFFFFFCU /* the inode of the namespace that has all processes */
#define SECONDS 10 /* to look into a foreign namespace */

int netns_default(char name[CC_NAME_LEN])
{
	FILE *f = fopen(DEFAULT_CC, "re"); /* shows the namespace of the thread that opens it */
	int err = 0;

	name[0] = 0;
	if (f ? fscanf(f, "%15s", name) != 1 && ferror(f) : errno != ENOENT)
		err = fail("cannot read " DEFAULT_CC ": %s", strerror(errno));
	if (f)
		fclose(f);
	return err;
}

/* The controllers that a file of /proc lists. -errno. */
static int read_list(const char *file, char line[LIST])
{
	FILE *f = fopen(file, "re");
	int err = 0;

	line[0] = 0;
	if (!f || (!fgets(line, LIST, f) && ferror(f)))
		err = -errno;
	if (f)
		fclose(f);
	return err;
}

/* The next one; `line` at first, then NULL. */
static const char *next_in(char *line, char **save)
{
	return strtok_r(line, " \n", save);
}

static bool has(char line[LIST], const char *cc)
{
	char *save = NULL;

	for (const char *s = next_in(line, &save); s; s = next_in(NULL, &save))
		if (!strcmp(s, cc))
			return true;
	return false;
}

int controller_available(const char *cc)
{
	char line[LIST];
	int err = read_list(AVAILABLE_CC, line);

	return err ? fail("cannot read " AVAILABLE_CC ": %s", strerror(-err)) : has(line, cc);
}

/* Only the first namespace can write the list, and only that one may make any controller its default. */
bool controller_may_be_default(const char *cc)
{
	char line[LIST];
	struct stat st;

	return stat(ALLOWED_CC, &st) || st.st_mode & S_IWUSR || read_list(ALLOWED_CC, line) || has(line, cc);
}

bool controller_allowed(const char *but, char name[CC_NAME_LEN])
{
	char line[LIST], *save = NULL;
	const char *s;

	if (read_list(ALLOWED_CC, line))
		return false;
	for (s = next_in(line, &save); s && !strcmp(s, but); s = next_in(NULL, &save))
		;
	if (s)
		snprintf(name, CC_NAME_LEN, "%.15s", s);
	return s;
}

const char *netns_prefix(const char *name, bool own)
{
	static char text[300];

	if (own)
		return "";
	if (!strncmp(name, "netns ", 6))
		snprintf(text, sizeof(text), "ip netns exec %s ", name + 6);
	else if (*name == '/')
		snprintf(text, sizeof(text), "nsenter --net=%s ", name);
	else
		snprintf(text, sizeof(text), "nsenter -t %s -n ", strcmp(name, FIRST) ? name + 4 : "1");
	return text;
}

struct walk {
	int (*look)(const struct netns_id *id, void *ctx);
	void *ctx;
	struct netns_id *seen;
	ino_t *shut; /* device files of namespaces that could not be opened; they may be among those seen */
	struct stat own, user;
	int nr, nr_shut, home, err;
	bool barred; /* something could not be entered */
};

static const char *unseen;

const char *netns_unseen(void)
{
	return unseen;
}

void netns_warn_unseen(void)
{
	if (unseen)
		fail(NETNS_UNSEEN ": what uses a controller there is not known", unseen);
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

bool netns_is_lack(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == EIO;
}

int netns_fail_lack(int err)
{
	static bool said;

	if (!said)
		fail("cannot look into every network namespace: %s", strerror(err));
	said = true;
	return -1;
}

/* Each network namespace has a file of its own there, which any process may look at, without a right to enter. -errno. */
static int stat_devices(const char *process, struct stat *st)
{
	char path[300];

	snprintf(path, sizeof(path), "/proc/%s/net/dev", process);
	return stat(path, st) ? -errno : 0;
}

static void keep_shut(struct walk *w, const char *process)
{
	ino_t *more = realloc(w->shut, (w->nr_shut + 1) * sizeof(*more));
	struct stat st;
	int err = stat_devices(process, &st);

	if (more)
		w->shut = more;
	if (!more || netns_is_lack(-err))
		w->err = netns_fail_lack(more ? -err : ENOMEM);
	else if (!err)
		w->shut[w->nr_shut++] = st.st_ino;
	else
		w->barred |= err == -EACCES || err == -EPERM; /* else it is gone */
}

static bool is_barred(const struct walk *w)
{
	struct stat own = {};

	stat_devices("self", &own);
	for (int i = 0, k; i < w->nr_shut; i++) {
		for (k = 0; k < w->nr && w->seen[k].devices != w->shut[i]; k++)
			;
		if (k == w->nr && w->shut[i] != own.st_ino)
			return true;
	}
	return w->barred;
}

static bool has_all_processes(void)
{
	struct stat st;

	if (access("/proc/1", F_OK)) /* /proc hides processes */
		return false;
	if (stat("/proc/1/ns/pid", &st) && stat("/proc/self/ns/pid", &st))
		return true; /* this kernel has no PID namespaces */
	return st.st_ino == FIRST_PID_NS;
}

/* -1 with a message. */
static int is_foreign(const struct walk *w, int ns)
{
	struct stat owner;
	int foreign, fd;

	if (!w->user.st_ino) /* this kernel has no user namespaces */
		return false;
	fd = ioctl(ns, NS_GET_USERNS);
	if (fd < 0)
		return netns_is_lack(errno) ? netns_fail_lack(errno) : true;
	foreign = fstat(fd, &owner) || !same(&owner, &w->user);
	close(fd);
	return foreign;
}

static bool is_seen(const struct walk *w, const struct stat *st)
{
	for (int i = 0; i < w->nr; i++)
		if (w->seen[i].ino == st->st_ino && w->seen[i].dev == st->st_dev)
			return true;
	return false;
}

/* Look into it, if it is another than those before. -1 with a message, unless it is none, or none of ours to see. */
static int enter(struct walk *w, int ns, const char *name)
{
	struct netns_id *id;
	struct stat st;
	int foreign;

	if (fstat(ns, &st))
		return netns_is_lack(errno) ? netns_fail_lack(errno) : 0;
	if (is_seen(w, &st))
		return 0;
	id = realloc(w->seen, (w->nr + 1) * sizeof(*id));
	if (!id)
		return netns_fail_lack(ENOMEM);
	w->seen = id;
	foreign = is_foreign(w, ns);
	if (foreign < 0)
		return -1;
	if (setns(ns, CLONE_NEWNET)) {
		w->barred |= errno == EPERM && !same(&st, &w->own);
		return netns_is_lack(errno) ? netns_fail_lack(errno) : 0;
	}
	id = &w->seen[w->nr++];
	*id = (struct netns_id){ .dev = st.st_dev, .ino = st.st_ino, .own = same(&st, &w->own), .foreign = foreign };
	id->first = !strcmp(name, FIRST);
	if (!stat_devices("thread-self", &st))
		id->devices = st.st_ino;
	snprintf(id->name, sizeof(id->name), "%s", name);
	for (char *c = id->name; *c; c++) /* whoever named it may have meant the terminal */
		if (*c < ' ' || *c > '~')
			*c = '?';
	netlink_limit(id->foreign ? SECONDS : 0);
	if (w->look(id, w->ctx))
		w->err = -1;
	netlink_limit(0);
	if (setns(w->home, CLONE_NEWNET)) { /* what follows would be done to another's */
		fail("cannot return to the own network namespace: %s", strerror(errno));
		exit(EXIT_FAILURE);
	}
	return 0;
}

/* `process` NULL: the file is nobody's. */
static void visit(struct walk *w, const char *path, const char *name, const char *process)
{
	struct stat st;
	int ns;

	if (!stat(path, &st) && is_seen(w, &st)) /* most processes are in one: a call for each, not three */
		return;
	ns = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (ns < 0) {
		if (netns_is_lack(errno))
			w->err = netns_fail_lack(errno);
		else if (process && (errno == EACCES || errno == EPERM)) /* else it vanished meanwhile */
			keep_shut(w, process);
		return;
	}
	if (enter(w, ns, name))
		w->err = -1;
	close(ns);
}

static void visit_all(struct walk *w, const char *dir, bool processes)
{
	char path[PATH_MAX], name[280];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (errno = 0, e = readdir(d))) {
		if (e->d_name[0] == '.' || (processes && !isdigit((unsigned char)e->d_name[0])))
			continue;
		snprintf(path, sizeof(path), processes ? "%s/%s/ns/net" : "%s/%s", dir, e->d_name);
		snprintf(name, sizeof(name), "%s %s", processes ? "pid" : "netns", e->d_name);
		visit(w, path, name, processes ? e->d_name : NULL);
	}
	if (netns_is_lack(errno))
		w->err = netns_fail_lack(errno);
	if (d)
		closedir(d);
}

/* Those that a mount alone holds, wherever it is. */
static void visit_mounts(struct walk *w)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;

	while (f && (m = getmntent(f)))
		if (!strcmp(m->mnt_type, "nsfs"))
			visit(w, m->mnt_dir, m->mnt_dir, NULL);
	if (f)
		endmntent(f);
	else if (netns_is_lack(errno))
		w->err = netns_fail_lack(errno);
}

/* The first name that a namespace is met by stays: host, then named ones, then processes, then mounts. */
int netns_each(int (*look)(const struct netns_id *id, void *ctx), void *ctx)
{
	struct walk w = { .look = look, .ctx = ctx, .home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) };

	if (stat("/proc/self/ns/user", &w.user))
		w.user.st_ino = 0;
	if (w.home < 0 || fstat(w.home, &w.own)) {
		w.err = fail("cannot open /proc/self/ns/net: %s", strerror(errno));
	} else {
		visit(&w, "/proc/1/ns/net", FIRST, "1");
		visit_all(&w, NAMED, false);
		visit_all(&w, "/proc", true);
		visit_mounts(&w);
	}
	unseen = !has_all_processes() ? "not all processes can be seen"
		 : is_barred(&w)      ? "it takes root, with CAP_SYS_PTRACE"
				      : NULL;
	free(w.seen);
	free(w.shut);
	if (w.home >= 0)
		close(w.home);
	return w.err;
}
