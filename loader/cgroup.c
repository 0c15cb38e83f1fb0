// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/magic.h>

#include "cgroup.h"
#include "registry.h"

#define MAX_EFFECTIVE 1024 /* a cgroup takes 64 of a kind, and those of all above it count */

static const struct kind {
	enum bpf_prog_type type;
	enum bpf_attach_type attach;
} kinds[] = {
	{ BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS },
	{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS },
	{ BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS },
};
#define NR_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static const struct kind *kind_of(const struct bpf_program *p)
{
	for (int i = 0; i < NR_KINDS; i++)
		if (bpf_program__type(p) == kinds[i].type &&
		    bpf_program__expected_attach_type(p) == kinds[i].attach)
			return &kinds[i];
	return NULL;
}

/* The kernel cuts names, and the object's may be longer. */
static bool same_name(const struct attached *a, const char *prog)
{
	return !strncmp(prog, a->name, sizeof(a->name) - 1);
}

static bool has_any(const struct object *o)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf)
		if (kind_of(p))
			return true;
	return false;
}

static bool has_program(const struct object *o, const struct attached *a)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf)
		if (kind_of(p) == a->kind && same_name(a, bpf_program__name(p)))
			return true;
	return false;
}

/* -EMEDIUMTYPE: a directory, but not a cgroup2's. */
static int open_cgroup(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0)
		return -errno;
	if (!fstatfs(fd, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC)
		return fd;
	close(fd);
	return -EMEDIUMTYPE;
}

/* The root of the hierarchy as `mounts` has it, whose paths begin at `top`; returns it opened. */
static int open_mounted(char path[PATH_MAX], const char *mounts, const char *top)
{
	FILE *f = setmntent(mounts, "re");
	int fd = -ENOENT;
	struct mntent *m;

	while (f && fd < 0 && (m = getmntent(f))) {
		if (strcmp(m->mnt_type, "cgroup2"))
			continue;
		snprintf(path, PATH_MAX, "%s%s", top, m->mnt_dir);
		fd = open_cgroup(path);
	}
	if (f)
		endmntent(f);
	return fd;
}

static int open_root(char path[PATH_MAX])
{
	return open_mounted(path, "/proc/self/mounts", "");
}

/* Where it is hidden from us (`ip netns exec` does that), we still see it through the first process. */
static int open_root_anyhow(char path[PATH_MAX])
{
	int fd = open_root(path);

	return fd >= 0 ? fd : open_mounted(path, "/proc/1/mounts", "/proc/1/root");
}

static void read_name(const struct section *s, const char *variable, char name[CC_NAME_LEN])
{
	int offset = s->btf ? vars_offset_of(s->btf, variable) : -1;

	if (offset >= 0)
		snprintf(name, CC_NAME_LEN, "%.15s", (const char *)s->data + offset);
	if (!is_name(name))
		name[0] = 0;
}

/* The names that the loader wrote into the program's object. */
static int read_written_names(struct attached *a)
{
	struct section s;
	int err = section_read(&s, a->btf_id, ".rodata");

	if (!err) {
		read_name(&s, "asymcc_name", a->owner);
		read_name(&s, "asymcc_used", a->used);
	}
	section_free(&s);
	return err;
}

static int add(struct attachments *all, const char *cgroup,
	       const struct kind *kind, __u32 prog_id)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);
	struct attached *a;
	int err = 0, fd = bpf_prog_get_fd_by_id(prog_id);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno; /* gone since */
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		err = -errno;
	close(fd);
	if (err)
		return err;
	a = realloc(all->at, (all->nr + 1) * sizeof(*a));
	if (!a)
		return -ENOMEM;
	all->at = a;
	a += all->nr;
	*a = (struct attached){ .prog_id = prog_id, .btf_id = info.btf_id, .kind = kind };
	memcpy(a->name, info.name, sizeof(a->name));
	a->cgroup = strdup(cgroup);
	if (!a->cgroup)
		return -ENOMEM;
	all->nr++;
	return a->btf_id ? read_written_names(a) : 0;
}

static int query(struct attachments *all, int fd, const char *cgroup,
		 __u32 flags)
{
	__u32 ids[MAX_EFFECTIVE];
	int err = 0;

	for (int i = 0; i < NR_KINDS; i++) {
		__u32 n = MAX_EFFECTIVE;

		if (bpf_prog_query(fd, kinds[i].attach, flags, NULL, ids, &n)) {
			if (errno == ENOENT || errno == ENODEV)
				continue; /* removed since */
			return -errno;
		}
		for (__u32 k = 0; !err && k < n; k++)
			err = add(all, cgroup, &kinds[i], ids[k]);
		if (err)
			return err;
	}
	return 0;
}

static int query_path(struct attachments *all, const char *path)
{
	int err, fd = open_cgroup(path);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd; /* removed since */
	err = query(all, fd, path, 0);
	close(fd);
	return err;
}

/* Cgroups come and go meanwhile: that is no error. */
static int walk(struct attachments *all, char *root)
{
	char *roots[] = { root, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	int err = fts ? 0 : -errno;
	FTSENT *e;

	while (!err && (e = fts_read(fts)))
		if (e->fts_info == FTS_D)
			err = query_path(all, e->fts_path);
	if (fts)
		fts_close(fts);
	if (err)
		return fail("cannot read what is attached to the cgroups under %s: %s", root, strerror(-err));
	return 0;
}

int attachments_read(struct attachments *all)
{
	char root[PATH_MAX];
	int fd = open_root_anyhow(root);

	memset(all, 0, sizeof(*all));
	if (fd < 0)
		return 0;
	close(fd);
	return walk(all, root);
}

void attachments_free(struct attachments *all)
{
	for (int i = 0; i < all->nr; i++)
		free(all->at[i].cgroup);
	free(all->at);
	memset(all, 0, sizeof(*all));
}

void attachments_keep(struct attachments *all, const char *name)
{
	int nr = 0;

	for (int i = 0; i < all->nr; i++) {
		struct attached *a = &all->at[i];

		if (*a->owner && !strcmp(a->owner, name))
			all->at[nr++] = *a;
		else
			free(a->cgroup);
	}
	all->nr = nr;
}

bool attached_gives(const struct attached *a, const char *cc)
{
	return *a->used && !strcmp(a->used, cc);
}

const char *attachments_cgroup(const struct attachments *all, __u32 btf_id, const char *owner, int *i)
{
	const char *last = *i ? all->at[*i - 1].cgroup : "";

	while (*i < all->nr) {
		const struct attached *a = &all->at[(*i)++];

		if ((!btf_id || a->btf_id == btf_id) && (!owner || !strcmp(a->owner, owner)) &&
		    strcmp(a->cgroup, last))
			return a->cgroup;
	}
	return NULL;
}

bool attachments_has(const struct attachments *all, __u32 btf_id, const char *cgroup, const char *prog)
{
	for (int i = 0; i < all->nr; i++)
		if ((!btf_id || all->at[i].btf_id == btf_id) && !strcmp(all->at[i].cgroup, cgroup) &&
		    same_name(&all->at[i], prog))
			return true;
	return false;
}

const char **cgroup_programs(const struct object *o, const struct attachments *all, __u32 btf_id)
{
	struct bpf_program *p;
	const char **names;
	int n = 0, room = all->nr + 1;

	if (o)
		bpf_object__for_each_program(p, o->bpf)
			room++;
	names = calloc(room, sizeof(*names));
	if (!names)
		return NULL;
	if (o)
		bpf_object__for_each_program(p, o->bpf)
			if (kind_of(p))
				names[n++] = bpf_program__name(p);
	for (int i = 0, k; i < all->nr; i++) {
		if (btf_id && all->at[i].btf_id != btf_id)
			continue;
		for (k = 0; k < n && !same_name(&all->at[i], names[k]); k++)
			;
		if (k == n)
			names[n++] = all->at[i].name;
	}
	return names;
}

static int detach(const struct attached *a)
{
	int err = 0, cgroup = open_cgroup(a->cgroup), prog = bpf_prog_get_fd_by_id(a->prog_id);

	if (cgroup >= 0 && prog >= 0 && bpf_prog_detach2(prog, cgroup, a->kind->attach))
		err = fail("%s stays attached to %s: %s", a->name, a->cgroup, errno == ENOENT ?
			   "a BPF link holds it: end the program that has the link, or use "
			   "`bpftool link detach`" : strerror(errno));
	if (cgroup >= 0)
		close(cgroup);
	if (prog >= 0)
		close(prog);
	return err;
}

int attachments_detach(const struct attachments *mine)
{
	int err = 0;

	for (int i = 0; i < mine->nr; i++)
		err |= detach(&mine->at[i]);
	return err;
}

char *cgroup_root(void)
{
	char root[PATH_MAX];
	int fd = open_root(root);

	if (fd < 0)
		return NULL;
	close(fd);
	return strdup(root);
}

int cgroup_open(struct cgroup *c, const struct object *o, const char *path)
{
	char root[PATH_MAX];
	int fd;

	if (!has_any(o)) {
		if (path)
			return fail("--cgroup %s: %s has no programs for a cgroup: leave it out", path,
				    bpf_object__name(o->bpf));
		return 0;
	}
	fd = open_root(root);
	if (fd < 0 && path)
		return fail("--cgroup %s: no cgroup2 is mounted here (`ip netns exec` hides it, `nsenter --net=...` does not)", path);
	if (fd < 0)
		return fail("cannot load %s: its cgroup programs need a cgroup2, and none is mounted: mount one "
			    "(mount -t cgroup2 none DIR), or register the sender alone "
			    "(bpftool struct_ops register %s.bpf.o)", o->ops_name, bpf_object__name(o->bpf));
	close(fd);
	if (!path)
		path = root;
	c->fd = realpath(path, c->path) ? open_cgroup(c->path) : -errno;
	if (c->fd == -ENOENT)
		return fail("--cgroup %s: there is none: make it (mkdir), or choose one under %s", path, root);
	if (c->fd == -EMEDIUMTYPE || c->fd == -ENOTDIR)
		return fail("--cgroup %s: not a directory of cgroup2: choose one under %s", path, root);
	if (c->fd < 0)
		return fail("--cgroup %s: %s", path, strerror(-c->fd));
	return 0;
}

static bool among(const struct attachments *some, __u32 prog_id)
{
	for (int i = 0; some && i < some->nr; i++)
		if (some->at[i].prog_id == prog_id)
			return true;
	return false;
}

int cgroup_admits(const struct cgroup *c, const struct object *o, const struct attachments *leaving)
{
	const char *object = bpf_object__name(o->bpf);
	struct attachments there = {};
	char path[PATH_MAX];
	int err;

	if (c->fd < 0)
		return 0;
	if (vars_offset_of(o->btf, "asymcc_name") < 0)
		return fail("cannot load %s: its cgroup programs could not be told from others': they need a "
			    "`const volatile char asymcc_name[%d]`", o->ops_name, CC_NAME_LEN);
	strcpy(path, c->path);
	err = query(&there, c->fd, path, BPF_F_QUERY_EFFECTIVE);
	if (err)
		err = fail("cannot read what is in effect in %s: %s", c->path, strerror(-err));
	else
		err = walk(&there, path);
	for (int i = 0; !err && i < there.nr; i++) {
		const struct attached *a = &there.at[i];

		if (*a->owner && has_program(o, a) && !among(leaving, a->prog_id))
			err = fail("cannot load %s: programs of %s are in effect in %s already, as %s, and two would "
				   "write on one connection: choose a --cgroup apart from it, or `asymcc unload %s` first",
				   o->ops_name, object, a->cgroup, a->owner, a->owner);
	}
	attachments_free(&there);
	return err;
}

static int fail_attach(const struct cgroup *c, const struct object *o, const char *prog, int err)
{
	if (err == EPERM)
		return fail("cannot load %s: %s does not go into %s: a program there or above admits no other "
			    "(`bpftool cgroup tree` shows it)", o->ops_name, prog, c->path);
	return fail("cannot load %s: %s does not go into %s: %s", o->ops_name, prog, c->path,
		    err == E2BIG ? "the cgroup is full" : strerror(err));
}

int cgroup_attach(struct cgroup *c, const struct object *o)
{
	struct bpf_program *p;

	if (c->fd < 0)
		return 0;
	bpf_object__for_each_program(p, o->bpf) {
		const struct kind *kind = kind_of(p);

		if (!kind)
			continue;
		if (bpf_prog_attach(bpf_program__fd(p), c->fd, kind->attach, BPF_F_ALLOW_MULTI)) {
			fail_attach(c, o, bpf_program__name(p), errno);
			cgroup_detach(c, o);
			return -1;
		}
		c->nr++;
	}
	return 0;
}

void cgroup_detach(struct cgroup *c, const struct object *o)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf) {
		const struct kind *kind = kind_of(p);

		if (!kind || !c->nr)
			continue;
		c->nr--;
		if (bpf_prog_detach2(bpf_program__fd(p), c->fd, kind->attach))
			fail("%s stays attached to %s: %s: try `asymcc unload %s`", bpf_program__name(p),
			     c->path, strerror(errno), o->ops_name);
	}
}

/* Is `path` in the cgroup `above`, or that itself? */
static bool is_in(const char *path, const char *above)
{
	size_t n = strlen(above);

	return !strncmp(path, above, n) && (!path[n] || path[n] == '/' || !strcmp(above, "/"));
}

/* Is another controller used above or below, and by whom? */
static int refuse_nested(const struct attachments *all, const char *path)
{
	for (int i = 0; i < all->nr; i++) {
		const struct attached *a = &all->at[i];

		if (*a->used && strcmp(a->cgroup, path) && (is_in(a->cgroup, path) || is_in(path, a->cgroup)))
			return fail("--cgroup %s: %s uses %s already, and of two the upper one would win: `asymcc unuse %s "
				    "--cgroup %s` first", path, a->cgroup, a->used, a->used, a->cgroup);
	}
	return 0;
}

static int attach_user(const struct object *o, struct cgroup *c)
{
	struct bpf_program *prog = bpf_object__next_program(o->bpf, NULL);

	if (!bpf_prog_attach(bpf_program__fd(prog), c->fd, BPF_CGROUP_SOCK_OPS, BPF_F_ALLOW_MULTI)) {
		c->nr = 1;
		return 0;
	}
	if (errno == EPERM)
		return fail("--cgroup %s: a program there or above admits no other (`bpftool cgroup tree` shows it)", c->path);
	return fail("--cgroup %s: cannot be used: %s", c->path, errno == E2BIG ? "it is full" : strerror(errno));
}

int cgroup_use(const struct object *o, const char **paths, int nr)
{
	struct cgroup *c = calloc(nr, sizeof(*c));
	struct attachments before = {};
	int err = c ? 0 : fail("out of memory");

	for (int i = 0; c && i < nr; i++)
		c[i] = (struct cgroup)CGROUP_CLOSED;
	for (int i = 0; !err && i < nr; i++)
		err = cgroup_open(&c[i], o, paths[i]);
	if (!err)
		err = attachments_read(&before);
	for (int i = 0; !err && i < nr; i++)
		err = refuse_nested(&before, c[i].path);
	for (int i = 0; !err && i < nr; i++)
		err = attach_user(o, &c[i]);
	/* the last one attached wins: what was there before can go once all are in place */
	for (int i = 0; !err && i < nr; i++)
		for (int k = 0; k < before.nr; k++)
			if (*before.at[k].used && !strcmp(before.at[k].cgroup, c[i].path))
				detach(&before.at[k]);
	for (int i = 0; c && i < nr; i++) {
		if (err)
			cgroup_detach(&c[i], o);
		cgroup_close(&c[i]);
	}
	attachments_free(&before);
	free(c);
	return err;
}

int cgroup_unuse(const struct attachments *all, const char *path, const char *cc, bool only_count)
{
	char real[PATH_MAX] = "";
	int nr = 0, err = 0;

	if (path && !realpath(path, real))
		return fail("--cgroup %s: %s", path, strerror(errno));
	for (int i = 0; i < all->nr; i++) {
		if (!attached_gives(&all->at[i], cc) || (path && strcmp(all->at[i].cgroup, real)))
			continue;
		nr++;
		err |= only_count ? 0 : detach(&all->at[i]);
	}
	return err ? -1 : nr;
}

void cgroup_close(struct cgroup *c)
{
	if (c->fd >= 0)
		close(c->fd);
}
