// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "args.h"
#include "kernel/cgroup.h"
#include "kernel/cgroup_programs.h"

static bool has_any(const struct object *o)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf)
		if (hook_of(p))
			return true;
	return false;
}

int cgroup_programs_open(struct cgroup_programs *h, const struct object *o, const char *path)
{
	char root[PATH_MAX];
	int fd;

	if (!has_any(o)) {
		if (path)
			return fail("--cgroup %s: %s has no programs for a cgroup that asymcc would find again (by a "
				    "`const volatile char asymcc_name[%d]`): leave it out",
				    path, bpf_object__name(o->bpf), CC_NAME_LEN);
		return 0;
	}
	fd = cgroup_open_root(root);
	if (fd < 0 && !cgroup_is_absent(fd))
		return fail("cannot look for cgroups: %s", strerror(-fd));
	if (fd < 0 && path)
		return fail("--cgroup %s: no cgroup2 is mounted here (`ip netns exec` hides it, `nsenter --net=...` "
			    "does not)",
			    path);
	if (fd < 0)
		return fail("cannot load %s: its cgroup programs need a cgroup2, and none is mounted: mount one (mount "
			    "-t cgroup2 none DIR), or register the sender alone (bpftool struct_ops register "
			    "%s.bpf.o)",
			    o->ops_name, bpf_object__name(o->bpf));
	close(fd);
	if (!path)
		path = root;
	h->fd = cgroup_path_parse(h->cgroup, path);
	if (!h->fd)
		h->fd = cgroup_open(h->cgroup);
	if (h->fd == -ENOENT)
		return fail("--cgroup %s: there is none: make it (mkdir), or choose one under %s", path, root);
	if (h->fd == -EMEDIUMTYPE || h->fd == -ENOTDIR)
		return fail("--cgroup %s: not a directory of cgroup2: choose one under %s", path, root);
	if (h->fd < 0)
		return fail("--cgroup %s: %s", path, strerror(-h->fd));
	return 0;
}

static bool among(const struct attachments *some, __u32 prog_id)
{
	for (int i = 0; some && i < some->nr; i++)
		if (some->at[i].prog_id == prog_id)
			return true;
	return false;
}

int cgroup_programs_check(const struct cgroup_programs *h, const struct object *o, const struct attachments *leaving)
{
	const char *object = bpf_object__name(o->bpf);
	struct attachments there = {};
	int err;

	if (h->fd < 0)
		return 0;
	err = attachments_near(&there, h->fd, h->cgroup);
	for (int i = 0; !err && i < there.nr; i++) {
		const struct attached *a = &there.at[i];

		if (*a->owner && attached_is_of(a, o) && !among(leaving, a->prog_id))
			err = fail("cannot load %s: programs of %s are in effect in %s already, as %s, and two would "
				   "write on one connection: choose a --cgroup apart from it, or `asymcc unload %s` "
				   "first",
				   o->ops_name, object, a->cgroup, a->owner, a->owner);
	}
	attachments_free(&there);
	return err;
}

static int fail_attach(const struct cgroup_programs *h, const struct object *o, const char *prog, int err)
{
	if (err == EPERM)
		return fail("cannot load %s: %s does not go into %s: a program there or above admits no other "
			    "(`bpftool cgroup tree` shows it)",
			    o->ops_name, prog, h->cgroup);
	return fail("cannot load %s: %s does not go into %s: %s", o->ops_name, prog, h->cgroup,
		    err == E2BIG ? "the cgroup is full" : strerror(err));
}

int cgroup_programs_attach(struct cgroup_programs *h, const struct object *o)
{
	struct bpf_program *p;
	int err;

	if (h->fd < 0)
		return 0;
	bpf_object__for_each_program(p, o->bpf) {
		const struct hook *hook = hook_of(p);

		if (!hook)
			continue;
		err = attached_check_findable(bpf_program__fd(p), o->ops_name);
		if (!err && bpf_prog_attach(bpf_program__fd(p), h->fd, hook->attach, BPF_F_ALLOW_MULTI))
			err = fail_attach(h, o, bpf_program__name(p), errno);
		if (err) {
			cgroup_programs_detach(h, o);
			return -1;
		}
		h->nr++;
	}
	return 0;
}

void cgroup_programs_detach(struct cgroup_programs *h, const struct object *o)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf) {
		const struct hook *hook = hook_of(p);

		if (!hook || !h->nr)
			continue;
		h->nr--;
		if (bpf_prog_detach2(bpf_program__fd(p), h->fd, hook->attach))
			fail_detach(bpf_program__name(p), h->cgroup, -errno);
	}
}

void cgroup_programs_close(struct cgroup_programs *h)
{
	if (h->fd >= 0)
		close(h->fd);
}
