// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "cgroup.h"
#include "cgroup_controller.h"
#include "cgroup_programs.h"
#include "registry.h"
#include "verifier.h"

/* Is another controller used above or below, and by whom? */
static int refuse_nested(const struct attachments *all, const char *path)
{
	for (int i = 0; i < all->nr; i++) {
		const struct attached *a = &all->at[i];

		if (*a->used && strcmp(a->cgroup, path) && cgroup_is_near(a->cgroup, path))
			return fail(
				"--cgroup %s: %s uses %s already, and of two the upper one would win: `asymcc unuse %s "
				"--cgroup %s` first",
				path, a->cgroup, a->used, a->used, a->cgroup);
	}
	return 0;
}

/* A cgroup of `use`. */
struct place {
	struct cgroup_programs in;
	int before;         /* the program that an earlier `use` put there; -1: none */
	bool done;
};

static int place_open(struct place *p, const struct object *o, const char *path, const struct attachments *all)
{
	if (cgroup_programs_open(&p->in, o, path) || refuse_nested(all, p->in.cgroup))
		return -1;
	for (int i = 0; p->before < 0 && i < all->nr; i++) {
		if (!*all->at[i].used || strcmp(all->at[i].cgroup, p->in.cgroup))
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
	return bpf_prog_attach_opts(in, p->in.fd, BPF_CGROUP_SOCK_OPS, &opts);
}

static int place_take(struct place *p, int prog)
{
	int err = exchange(p, prog, p->before);

	p->done = !err;
	if (err == -EPERM)
		return fail("--cgroup %s: a program there or above admits no other (`bpftool cgroup tree` shows it)",
			    p->in.cgroup);
	if (err)
		return fail("--cgroup %s: cannot be used: %s", p->in.cgroup,
			    err == -E2BIG ? "it is full" : strerror(-err));
	return 0;
}

static void place_give_back(struct place *p, int prog)
{
	int err = 0;

	if (p->done && p->before >= 0)
		err = exchange(p, p->before, prog);
	else if (p->done && bpf_prog_detach2(prog, p->in.fd, BPF_CGROUP_SOCK_OPS))
		err = -errno;
	if (err)
		fail("--cgroup %s: cannot be set back: %s", p->in.cgroup, strerror(-err));
}

static int load_user(struct object *o, const char *cc)
{
	int err;

	if (object_open(o, "use"))
		return -1;
	object_write_name(o, "asymcc_used", cc);
	err = registry_load(o->bpf);
	if (err == -EPERM)
		return fail("--cgroup: not permitted: run it as root (it needs CAP_BPF and CAP_NET_ADMIN)");
	return err ? fail("--cgroup: its program cannot be loaded: %s: %s", registry_load_error(err),
			  libbpf_complaint())
		   : 0;
}

/* `o` is loaded. */
static int take_places(const struct object *o, const char *cc, struct place *p, const struct texts *paths)
{
	int prog = bpf_program__fd(bpf_object__next_program(o->bpf, NULL)), err;
	struct attachments all;

	err = attachments_read(&all) || attached_check_findable(prog, cc) ? -1 : 0;
	for (int i = 0; i < paths->nr && !err; i++)
		err = place_open(&p[i], o, paths->text[i], &all);
	for (int i = 0; i < paths->nr && !err; i++)
		err = place_take(&p[i], prog);
	for (int i = 0; i < paths->nr && err; i++)
		place_give_back(&p[i], prog);
	attachments_free(&all);
	return err;
}

int cgroups_use(const char *cc, const struct texts *paths)
{
	struct place *p = calloc(paths->nr, sizeof(*p));
	struct object o = {};
	int err = -1;

	if (!p)
		return fail("out of memory");
	for (int i = 0; i < paths->nr; i++)
		p[i] = (struct place){ .in = CGROUP_PROGRAMS_NOWHERE, .before = -1 };
	if (!load_user(&o, cc))
		err = take_places(&o, cc, p, paths);
	for (int i = 0; i < paths->nr; i++) {
		if (p[i].before >= 0)
			close(p[i].before);
		cgroup_programs_close(&p[i].in);
	}
	object_close(&o);
	free(p);
	return err;
}

int cgroups_unuse(const struct attachments *all, const char *path, const char *cc, bool only_count)
{
	char real[PATH_MAX] = "";
	int nr = 0, err = path ? cgroup_path_parse(real, path) : 0;

	if (err)
		return fail("--cgroup %s: %s", path, strerror(-err));
	for (int i = 0; i < all->nr; i++) {
		if (!attached_gives(&all->at[i], cc) || (path && strcmp(all->at[i].cgroup, real)))
			continue;
		nr++;
		err |= only_count ? 0 : attached_detach(&all->at[i]);
	}
	return err ? -1 : nr;
}
