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
#include <sys/stat.h>
#include <unistd.h>

#include "flows.h"
#include "netns.h"
#include "route.h"

#define NAMED "/run/netns"

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
	const struct rtattr *cong = flow_attr(m, len, INET_DIAG_CONG);

	return cong ? count_one(ctx, RTA_DATA(cong)) : 0; /* TIME_WAIT and the like have none */
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

struct walk {
	int (*look)(const struct netns_id *id, void *ctx);
	void *ctx;
	struct netns_id *seen;
	int nr, home;
};

/* Enter the namespace, look, come back. One that vanished meanwhile is no error. */
static int visit(struct walk *w, const char *path, const char *name)
{
	int err = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
	struct netns_id *id;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		goto cleanup;
	for (int i = 0; i < w->nr; i++)
		if (w->seen[i].ino == st.st_ino && w->seen[i].dev == st.st_dev)
			goto cleanup;
	if (setns(fd, CLONE_NEWNET))
		goto cleanup;
	id = realloc(w->seen, (w->nr + 1) * sizeof(*id));
	if (id) {
		w->seen = id;
		id = &w->seen[w->nr++];
		*id = (struct netns_id){ .dev = st.st_dev, .ino = st.st_ino };
		snprintf(id->name, sizeof(id->name), "%s", name);
		err = w->look(id, w->ctx);
	} else {
		err = fail("out of memory");
	}
	if (setns(w->home, CLONE_NEWNET))
		err = fail("cannot return to the own network namespace: %s", strerror(errno));
cleanup:
	if (fd >= 0)
		close(fd);
	return err;
}

static int visit_all(struct walk *w, const char *dir, bool processes)
{
	char path[PATH_MAX], name[280];
	struct dirent *e;
	DIR *d = opendir(dir);
	int err = 0;

	if (!d)
		return 0;
	while (!err && (e = readdir(d))) {
		if (e->d_name[0] == '.' || (processes && !isdigit((unsigned char)e->d_name[0])))
			continue;
		snprintf(path, sizeof(path), processes ? "%s/%s/ns/net" : "%s/%s", dir, e->d_name);
		snprintf(name, sizeof(name), "%s %s", processes ? "pid" : "netns", e->d_name);
		err = visit(w, path, name);
	}
	closedir(d);
	return err;
}

/* The first name that a namespace is met by stays: host, then named ones, then processes. */
int netns_each(int (*look)(const struct netns_id *id, void *ctx), void *ctx)
{
	struct walk w = { .look = look, .ctx = ctx, .home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) };
	int err;

	if (w.home < 0)
		return fail("cannot open /proc/self/ns/net: %s", strerror(errno));
	err = visit(&w, "/proc/1/ns/net", "host");
	if (!err)
		err = visit_all(&w, NAMED, false);
	if (!err)
		err = visit_all(&w, "/proc", true);
	free(w.seen);
	close(w.home);
	return err;
}

static int keep_routes(struct netns *ns)
{
	struct routes r;
	int err = routes_read(&r, NULL);

	if (!err && r.nr) {
		ns->route = calloc(r.nr, sizeof(*ns->route));
		ns->orphan = calloc(r.nr, sizeof(*ns->orphan));
		err = ns->route && ns->orphan ? 0 : fail("out of memory");
	}
	for (int i = 0; !err && i < r.nr; i++) {
		struct cc_route *to = *r.route[i].cc ? &ns->route[ns->nr_route++] : &ns->orphan[ns->nr_orphan++];

		memcpy(to->name, r.route[i].cc, sizeof(to->name));
		memcpy(to->text, r.route[i].text, sizeof(to->text));
	}
	routes_free(&r);
	return err;
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
	*ns = (struct netns){};
	snprintf(ns->name, sizeof(ns->name), "%s", id->name);
	if (netns_default(ns->initial))
		return -1;
	err = flows_each(~0U, 1 << (INET_DIAG_CONG - 1), count_socket, ns);
	if (err == -ENOENT && !ns->nr_use)
		err = 0; /* no tcp_diag module: nothing to count with */
	if (err)
		return fail("cannot count the sockets of %s: %s", id->name, strerror(-err));
	return keep_routes(ns);
}

int netns_read(struct netns_list *l)
{
	memset(l, 0, sizeof(*l));
	return netns_each(read_one, l);
}

void netns_free(struct netns_list *l)
{
	for (int i = 0; i < l->nr; i++) {
		free(l->ns[i].use);
		free(l->ns[i].route);
		free(l->ns[i].orphan);
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

unsigned int netns_routes(const struct netns *ns, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < ns->nr_route; i++)
		n += !strcmp(ns->route[i].name, cc);
	return n;
}

unsigned int count_sockets(const struct netns_list *l, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < l->nr; i++)
		n += netns_sockets(&l->ns[i], cc);
	return n;
}
