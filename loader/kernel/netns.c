// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/nsfs.h>

#include "kernel/sock_diag.h"
#include "kernel/netlink.h"
#include "kernel/netns.h"
#include "kernel/route.h"
#include "args.h"
#include "uses/given.h"

#define AVAILABLE_CC "/proc/sys/net/ipv4/tcp_available_congestion_control"
#define ALLOWED_CC "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
#define LIST 4096
#define NAMED "/run/netns"
#define FIRST "host"
#define SECONDS 10 /* to look into a foreign namespace */
#define WARNINGS 5

static int count_one(struct netns *ns, const char *cc)
{
	struct cc_use *u;

	for (int i = 0; i < ns->nr_use; i++) {
		if (!strcmp(ns->use[i].name, cc)) {
			ns->use[i].sockets++;
			return 0;
		}
	}
	u = realloc(ns->use, (ns->nr_use + 1) * sizeof(*u));
	if (!u)
		return -ENOMEM;
	ns->use = u;
	u = &ns->use[ns->nr_use++];
	snprintf(u->name, sizeof(u->name), "%s", cc);
	u->sockets = 1;
	return 0;
}

static int count_socket(const struct inet_diag_msg *m, size_t len, void *ctx)
{
	const char *cc = flow_controller(m, len);

	return cc ? count_one(ctx, cc) : 0;
}

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
bool controller_may_return(const char *cc)
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

struct walk {
	int (*look)(const struct netns_id *id, void *ctx);
	void *ctx;
	struct netns_id *seen;
	struct stat own, user;
	int nr, home, err;
};

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* What we lack ourselves: then a namespace was not looked into that is there, and may be of interest. */
static bool is_lack(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == EIO;
}

/* Said once: each one that follows lacks the same. */
static int fail_lack(int err)
{
	static bool said;

	if (!said)
		fail("cannot look into every network namespace: %s", strerror(err));
	said = true;
	return -1;
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
		return is_lack(errno) ? fail_lack(errno) : true;
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
		return is_lack(errno) ? fail_lack(errno) : 0;
	if (is_seen(w, &st))
		return 0;
	id = realloc(w->seen, (w->nr + 1) * sizeof(*id));
	if (!id)
		return fail_lack(ENOMEM);
	w->seen = id;
	foreign = is_foreign(w, ns);
	if (foreign < 0)
		return -1;
	if (setns(ns, CLONE_NEWNET))
		return is_lack(errno) ? fail_lack(errno) : 0;
	id = &w->seen[w->nr++];
	*id = (struct netns_id){ .dev = st.st_dev, .ino = st.st_ino, .own = same(&st, &w->own), .foreign = foreign };
	id->first = !strcmp(name, FIRST);
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

static void visit(struct walk *w, const char *path, const char *name)
{
	int ns = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (ns < 0) {
		if (is_lack(errno)) /* else it vanished meanwhile, or is none of ours to see */
			w->err = fail_lack(errno);
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
		visit(w, path, name);
	}
	if (is_lack(errno))
		w->err = fail_lack(errno);
	if (d)
		closedir(d);
}

/* The first name that a namespace is met by stays: host, then named ones, then processes. */
int netns_each(int (*look)(const struct netns_id *id, void *ctx), void *ctx)
{
	struct walk w = { .look = look, .ctx = ctx, .home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) };

	if (stat("/proc/self/ns/user", &w.user))
		w.user.st_ino = 0;
	if (w.home < 0 || fstat(w.home, &w.own)) {
		w.err = fail("cannot open /proc/self/ns/net: %s", strerror(errno));
	} else {
		visit(&w, "/proc/1/ns/net", FIRST);
		visit_all(&w, NAMED, false);
		visit_all(&w, "/proc", true);
	}
	free(w.seen);
	if (w.home >= 0)
		close(w.home);
	return w.err;
}

static int keep_routes(struct netns *ns)
{
	struct routes r;
	int err = routes_get(&r, NULL);

	if (!err && r.nr) {
		ns->route = calloc(r.nr, sizeof(*ns->route));
		ns->orphan = calloc(r.nr, sizeof(*ns->orphan));
		err = ns->route && ns->orphan ? 0 : -ENOMEM;
	}
	for (int i = 0; !err && i < r.nr; i++) {
		struct cc_route *to = *r.route[i].cc ? &ns->route[ns->nr_route++] : &ns->orphan[ns->nr_orphan++];

		memcpy(to->name, r.route[i].cc, sizeof(to->name));
		memcpy(to->text, r.route[i].text, sizeof(to->text));
	}
	routes_free(&r);
	return err;
}

struct losses {
	struct netns *ns;
	int err;
};

/* This is one of the routes that `use` remembers. That of a controller which is not there is nowhere to be seen. */
static void add_lost(const char *text, const struct record *g, void *ctx)
{
	struct losses *l = ctx;
	struct netns *ns = l->ns;
	struct cc_route *room, lost = {};

	memcpy(lost.name, g->name, sizeof(lost.name));
	snprintf(lost.text, sizeof(lost.text), "%s", text);
	for (char *c = lost.text; *c; c++) /* root alone may have named the file otherwise */
		if (*c < ' ' || *c > '~')
			return;
	for (int i = 0; i < ns->nr_route; i++)
		if (!strcmp(ns->route[i].text, lost.text) && !strcmp(ns->route[i].name, lost.name))
			return;
	if (!is_name(lost.name) || controller_available(lost.name) <= 0)
		return;
	room = realloc(ns->lost, (ns->nr_lost + 1) * sizeof(*room));
	if (!room) {
		l->err = -ENOMEM;
		return;
	}
	ns->lost = room;
	ns->lost[ns->nr_lost++] = lost;
}

/* The records that `use` made of the namespace. -errno; a record that cannot be read hides no other. */
static int keep_records(struct netns *ns, bool *unread)
{
	struct losses l = { .ns = ns };
	struct record g;

	if (state_each_route(add_lost, &l))
		*unread = true;
	if (state_peek(state_default(), &g) < 0)
		*unread = true;
	else
		memcpy(ns->given, g.name, sizeof(ns->given));
	return l.err;
}

static int read_one(const struct netns_id *id, void *ctx)
{
	struct netns_list *l = ctx;
	struct netns *ns = realloc(l->ns, (l->nr + 1) * sizeof(*ns));
	int err;

	if (!ns)
		return fail("out of memory");
	l->ns = ns;
	ns = &l->ns[l->nr++];
	*ns = (struct netns){ .own = id->own, .first = id->first };
	snprintf(ns->name, sizeof(ns->name), "%s", id->name);
	if (netns_default(ns->initial))
		return -1;
	err = flows_each(~0U, 1 << (INET_DIAG_CONG - 1), count_socket, ns);
	if (err == -ENOENT && !ns->nr_use)
		err = 0; /* no tcp_diag module: nothing to count with */
	if (!err)
		err = keep_routes(ns);
	if (!err)
		err = keep_records(ns, &l->records_unread);
	if (is_lack(-err))
		return fail_lack(-err);
	if (err)
		ns->unread = netlink_error(err);
	return 0;
}

int netns_read(struct netns_list *l)
{
	static const struct netns_id own = { .name = "this network namespace", .own = true };
	bool met = false;
	int err;

	memset(l, 0, sizeof(*l));
	err = netns_each(read_one, l);
	for (int i = 0; i < l->nr; i++)
		met |= l->ns[i].own;
	if (!err && !met)
		err = read_one(&own, l);
	return err;
}

int netns_warn(const struct netns_list *l)
{
	int nr = 0;

	for (int i = 0; i < l->nr; i++)
		if (l->ns[i].unread && nr++ < WARNINGS)
			fail("%s cannot be read: %s: what uses a controller there is not known", l->ns[i].name,
			     l->ns[i].unread);
	if (nr > WARNINGS)
		fail("so are %d more", nr - WARNINGS);
	return nr || l->records_unread ? -1 : 0;
}

void netns_free(struct netns_list *l)
{
	for (int i = 0; i < l->nr; i++) {
		free(l->ns[i].use);
		free(l->ns[i].route);
		free(l->ns[i].orphan);
		free(l->ns[i].lost);
	}
	free(l->ns);
	memset(l, 0, sizeof(*l));
}

unsigned int netns_sockets(const struct netns *ns, const char *cc)
{
	for (int i = 0; i < ns->nr_use; i++)
		if (!strcmp(ns->use[i].name, cc))
			return ns->use[i].sockets;
	return 0;
}

static unsigned int count_routes(const struct cc_route *at, int nr, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < nr; i++)
		n += !strcmp(at[i].name, cc);
	return n;
}

unsigned int netns_routes(const struct netns *ns, const char *cc)
{
	return count_routes(ns->route, ns->nr_route, cc);
}

bool netns_lost_default(const struct netns *ns, const char *cc)
{
	return !strcmp(ns->given, cc) && strcmp(ns->initial, cc);
}

unsigned int count_lost(const struct netns_list *l, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < l->nr; i++)
		n += count_routes(l->ns[i].lost, l->ns[i].nr_lost, cc) + netns_lost_default(&l->ns[i], cc);
	return n;
}
