// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* There is no such cgroup, or it is gone meanwhile; with any other error it could not be looked for. */
static bool is_absent(int err)
{
	return err == -ENOENT || err == -ENODEV || err == -ENOTDIR || err == -EMEDIUMTYPE;
}

static int fail_read(const char *cgroup, int err)
{
	return fail("cannot read what is attached to %s: %s", cgroup, strerror(-err));
}

/* The root of the hierarchy as `mounts` has it, whose paths begin at `top`; returns it opened. */
static int open_mounted(char path[PATH_MAX], const char *mounts, const char *top)
{
	FILE *f = setmntent(mounts, "re");
	int fd = -ENOENT;
	struct mntent *m;

	if (!f)
		return -errno;
	while (is_absent(fd) && (m = getmntent(f))) {
		if (strcmp(m->mnt_type, "cgroup2"))
			continue;
		snprintf(path, PATH_MAX, "%s%s", top, m->mnt_dir);
		fd = open_cgroup(path);
	}
	if (fd < 0 && ferror(f))
		fd = -EIO;
	endmntent(f);
	return fd;
}

static int open_root(char path[PATH_MAX])
{
	return open_mounted(path, "/proc/self/mounts", "");
}

/* Where it is hidden from us (`ip netns exec` does that), we still see it through the first process, if we may. */
static int open_root_anyhow(char path[PATH_MAX])
{
	int fd = open_root(path);

	if (is_absent(fd))
		fd = open_mounted(path, "/proc/1/mounts", "/proc/1/root");
	return fd == -EACCES ? -ENOENT : fd;
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

static int add(struct attachments *all, const char *cgroup, const struct kind *kind, __u32 prog_id)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);
	struct attached *a;
	int err = 0, fd = bpf_prog_get_fd_by_id(prog_id);

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_read(cgroup, -errno); /* gone since */
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		err = fail_read(cgroup, -errno);
	close(fd);
	if (err)
		return err;
	a = realloc(all->at, (all->nr + 1) * sizeof(*a));
	if (!a)
		return fail("out of memory");
	all->at = a;
	a += all->nr;
	*a = (struct attached){ .prog_id = prog_id, .btf_id = info.btf_id, .kind = kind };
	memcpy(a->name, info.name, sizeof(a->name));
	a->cgroup = strdup(cgroup);
	if (!a->cgroup)
		return fail("out of memory");
	all->nr++;
	return a->btf_id ? read_written_names(a) : 0;
}

static int query(struct attachments *all, int fd, const char *cgroup, __u32 flags)
{
	__u32 ids[MAX_EFFECTIVE];

	for (int i = 0; i < NR_KINDS; i++) {
		__u32 n = MAX_EFFECTIVE;

		if (bpf_prog_query(fd, kinds[i].attach, flags, NULL, ids, &n)) {
			if (is_absent(-errno))
				continue; /* removed since */
			return fail_read(cgroup, -errno);
		}
		for (__u32 k = 0; k < n; k++)
			if (add(all, cgroup, &kinds[i], ids[k]))
				return -1;
	}
	return 0;
}

/* The cgroup at `path` and those below it. They come and go meanwhile: that is no error. */
static int walk(struct attachments *all, char path[PATH_MAX])
{
	int err, fd = open_cgroup(path);
	size_t len = strlen(path);
	struct dirent *e;
	DIR *d;

	if (fd < 0)
		return is_absent(fd) ? 0 : fail_read(path, fd);
	err = query(all, fd, path, 0);
	d = fdopendir(fd);
	if (!d) {
		err = err ? err : fail_read(path, -errno);
		close(fd);
		return err;
	}
	while (!err && (errno = 0, e = readdir(d))) {
		if (e->d_type != DT_DIR || !strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (snprintf(path + len, PATH_MAX - len, "/%s", e->d_name) < (int)(PATH_MAX - len))
			err = walk(all, path);
		else
			err = fail_read(path, -ENAMETOOLONG);
		path[len] = 0;
	}
	if (!err && errno && !is_absent(-errno))
		err = fail_read(path, -errno);
	closedir(d);
	return err;
}

int attachments_read(struct attachments *all)
{
	char root[PATH_MAX];
	int fd = open_root_anyhow(root);

	memset(all, 0, sizeof(*all));
	if (fd < 0)
		return is_absent(fd) ? 0 : fail("cannot look for cgroups: %s", strerror(-fd));
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

static int fail_detach(const char *prog, const char *cgroup, int err)
{
	return fail("%s stays attached to %s: %s", prog, cgroup, err == -ENOENT ?
		    "a BPF link holds it: end the program that has the link, or use `bpftool link detach`" : strerror(-err));
}

/* What is gone meanwhile, the cgroup or the program, is no error. */
static int detach(const struct attached *a)
{
	int cgroup = open_cgroup(a->cgroup), prog = bpf_prog_get_fd_by_id(a->prog_id), err = 0;

	if (prog < 0)
		prog = -errno;
	if (cgroup < 0 && !is_absent(cgroup))
		err = fail_detach(a->name, a->cgroup, cgroup);
	else if (prog < 0 && prog != -ENOENT)
		err = fail_detach(a->name, a->cgroup, prog);
	else if (cgroup >= 0 && prog >= 0 && bpf_prog_detach2(prog, cgroup, a->kind->attach))
		err = fail_detach(a->name, a->cgroup, -errno);
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

	if (fd < 0) {
		errno = is_absent(fd) ? ENOENT : -fd;
		return NULL;
	}
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
	if (fd < 0 && !is_absent(fd))
		return fail("cannot look for cgroups: %s", strerror(-fd));
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
	err = query(&there, c->fd, path, BPF_F_QUERY_EFFECTIVE) || walk(&there, path) ? -1 : 0;
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
			fail_detach(bpf_program__name(p), c->path, -errno);
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

/* A cgroup of `use`. */
struct place {
	struct cgroup c;
	int before;         /* the program that an earlier `use` put there; -1: none */
	bool done;
};

static int place_open(struct place *p, const struct object *o, const char *path, const struct attachments *all)
{
	if (cgroup_open(&p->c, o, path) || refuse_nested(all, p->c.path))
		return -1;
	for (int i = 0; p->before < 0 && i < all->nr; i++) {
		if (!*all->at[i].used || strcmp(all->at[i].cgroup, p->c.path))
			continue;
		p->before = bpf_prog_get_fd_by_id(all->at[i].prog_id);
		if (p->before < 0)
			return fail("--cgroup %s: cannot be used: %s", path, strerror(errno));
	}
	return 0;
}

/* `in` goes into the cgroup, in place of `out` if that is not -1; in one step. */
static int exchange(const struct place *p, int in, int out)
{
	LIBBPF_OPTS(bpf_prog_attach_opts, opts, .flags = BPF_F_ALLOW_MULTI);

	if (out >= 0) {
		opts.flags |= BPF_F_REPLACE;
		opts.replace_prog_fd = out;
	}
	return bpf_prog_attach_opts(in, p->c.fd, BPF_CGROUP_SOCK_OPS, &opts);
}

static int place_take(struct place *p, int prog)
{
	int err = exchange(p, prog, p->before);

	p->done = !err;
	if (err == -EPERM)
		return fail("--cgroup %s: a program there or above admits no other (`bpftool cgroup tree` shows it)", p->c.path);
	if (err)
		return fail("--cgroup %s: cannot be used: %s", p->c.path, err == -E2BIG ? "it is full" : strerror(-err));
	return 0;
}

static void place_give_back(struct place *p, int prog)
{
	int err = 0;

	if (p->done && p->before >= 0)
		err = exchange(p, p->before, prog);
	else if (p->done && bpf_prog_detach2(prog, p->c.fd, BPF_CGROUP_SOCK_OPS))
		err = -errno;
	if (err)
		fail("--cgroup %s: cannot be set back: %s", p->c.path, strerror(-err));
}

int cgroup_use(const struct object *o, const char **paths, int nr)
{
	int prog = bpf_program__fd(bpf_object__next_program(o->bpf, NULL));
	struct place *p = calloc(nr, sizeof(*p));
	struct attachments all = {};
	int err = p ? 0 : fail("out of memory");

	for (int i = 0; p && i < nr; i++)
		p[i] = (struct place){ .c = CGROUP_CLOSED, .before = -1 };
	if (!err)
		err = attachments_read(&all);
	for (int i = 0; !err && i < nr; i++)
		err = place_open(&p[i], o, paths[i], &all);
	for (int i = 0; !err && i < nr; i++)
		err = place_take(&p[i], prog);
	for (int i = 0; p && i < nr; i++) {
		if (err)
			place_give_back(&p[i], prog);
		if (p[i].before >= 0)
			close(p[i].before);
		cgroup_close(&p[i].c);
	}
	attachments_free(&all);
	free(p);
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
