// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "kernel/cgroup.h"
#include "uses/cgroups.h"
#include "kernel/cgroup_programs.h"
#include "kernel/netns.h"
#include "kernel/clock.h"
#include "kernel/registry.h"
#include "uses/share.h"
#include "uses/state.h"
#include "object/verifier.h"

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
	const char *used;   /* what that gives */
	bool remembered, done;
};

/* The cgroups that `use` remembers, in memory to be freed. */
struct remembered {
	struct {
		unsigned long long id;
		char cc[CC_NAME_LEN];
		char *path;
	} *at;
	int nr;
	bool failed;
};

static void keep_remembered(const char *rest, const struct record *w, void *ctx)
{
	struct remembered *g = ctx;
	void *room;
	char *path;

	if (!*w->text) /* a path that could not be written: its loss is not told */
		return;
	room = realloc(g->at, (g->nr + 1) * sizeof(*g->at));
	path = strdup(w->text);

	if (room)
		g->at = room;
	if (!room || !path) {
		free(path);
		g->failed = true;
		return;
	}
	g->at[g->nr].id = strtoull(rest, NULL, 10);
	memcpy(g->at[g->nr].cc, w->what, CC_NAME_LEN);
	g->at[g->nr++].path = path;
}

static int remembered_read(struct remembered *g)
{
	*g = (struct remembered){};
	return state_each(STATE_CGROUP, keep_remembered, g) || g->failed
		       ? fail("cannot tell which cgroups `use` gave a controller")
		       : 0;
}

static void remembered_free(struct remembered *g)
{
	for (int i = 0; i < g->nr; i++)
		free(g->at[i].path);
	free(g->at);
}

/* Its number in the kernel, which is never given again; 0: it is gone. */
static unsigned long long id_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

/* Before its program is attached. */
static int remember(const char *path, const char *cc)
{
	return state_write_text(state_cgroup(id_of(path)), cc, path);
}

static bool has(const struct attachments *all, const char *path, const char *cc)
{
	for (int i = 0; i < all->nr; i++)
		if (attached_gives(&all->at[i], cc) && !strcmp(all->at[i].cgroup, path))
			return true;
	return false;
}

/*
 * Forgets what is remembered of cgroup `path` (NULL: of any) with `cc` (NULL: any) although it is not so. Returns how
 * many.
 */
static int forget_lost(const struct attachments *all, const char *path, const char *cc, bool only_count)
{
	struct remembered g;
	int nr = 0, err = remembered_read(&g);

	for (int i = 0; i < g.nr && !err; i++) {
		bool there = g.at[i].id == id_of(g.at[i].path) && has(all, g.at[i].path, g.at[i].cc);

		if ((path && strcmp(path, g.at[i].path)) || (cc && strcmp(cc, g.at[i].cc)) || there)
			continue;
		nr++;
		err = only_count ? 0 : state_remove(state_cgroup(g.at[i].id));
	}
	remembered_free(&g);
	return err ? -1 : nr;
}

int cgroups_forget(const struct attachments *all, const char *cc)
{
	return forget_lost(all, NULL, cc, false) < 0 ? -1 : 0;
}

int cgroups_lost(const struct attachments *all, void (*look)(const char *cc, const char *path, bool gone, void *ctx),
		 void *ctx)
{
	struct remembered g;
	int err = remembered_read(&g);

	for (int i = 0; i < g.nr && !err; i++) {
		bool gone = g.at[i].id != id_of(g.at[i].path);

		if (gone || !has(all, g.at[i].path, g.at[i].cc))
			look(g.at[i].cc, g.at[i].path, gone, ctx);
	}
	remembered_free(&g);
	return err;
}

static int place_open(struct place *p, const struct object *o, const char *path, const struct attachments *all)
{
	if (cgroup_programs_open(&p->in, o, path) || refuse_nested(all, p->in.cgroup))
		return -1;
	for (int i = 0; p->before < 0 && i < all->nr; i++) {
		if (!*all->at[i].used || strcmp(all->at[i].cgroup, p->in.cgroup))
			continue;
		p->used = all->at[i].used;
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

static int place_take(struct place *p, int prog, const char *cc, const struct attachments *all)
{
	int err;

	if (forget_lost(all, p->in.cgroup, NULL, false) < 0 || remember(p->in.cgroup, cc))
		return -1;
	p->remembered = true;
	err = exchange(p, prog, p->before);

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
	else if (p->remembered && p->before >= 0)
		remember(p->in.cgroup, p->used);
	else if (p->remembered)
		state_remove(state_cgroup(id_of(p->in.cgroup)));
}

/* Each use draws anew. */
static int set_rule(struct object *o, const struct share_rule *rule)
{
	const struct {
		const char *name;
		unsigned int value;
	} values[] = {
		{ "share", rule->share },
		{ "worse", share_bound(rule->worse) },
		{ "least", rule->least },
		{ "seed", now_ns() }
	};
	int err = 0;

	for (int i = 0; i < 4 && !err; i++) {
		char text[40];

		snprintf(text, sizeof(text), "%s=%u", values[i].name, values[i].value);
		err = object_set(o, text);
	}
	return err;
}

/* `before`: of a trial, else "". */
static int load_user(struct object *o, const char *cc, const char *before, const struct share_rule *rule)
{
	int err;

	if (object_open(o, "use"))
		return -1;
	object_write_name(o, "asymcc_used", cc);
	object_write_name(o, "asymcc_before", before);
	if (rule->share && set_rule(o, rule))
		return -1;
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
		err = place_take(&p[i], prog, cc, &all);
	for (int i = 0; i < paths->nr && err; i++)
		place_give_back(&p[i], prog);
	attachments_free(&all);
	return err;
}

/* The controller that the cgroup of a trial has now; it takes no more than one. */
static int read_before(const struct texts *paths, bool by_trial, char before[CC_NAME_LEN])
{
	struct attachments all;
	char real[PATH_MAX];
	int err;

	*before = 0;
	if (!by_trial || cgroup_path_parse(real, paths->text[0]))
		return 0;
	err = attachments_read(&all);
	snprintf(before, CC_NAME_LEN, "-");
	for (int i = 0; i < all.nr && !err; i++)
		if (*all.at[i].used && !strcmp(all.at[i].cgroup, real))
			memcpy(before, all.at[i].used, CC_NAME_LEN);
	attachments_free(&all);
	return err;
}

int cgroups_use(const char *cc, const struct texts *paths, bool by_trial, const struct share_rule *rule)
{
	char before[CC_NAME_LEN];
	struct place *p = calloc(paths->nr, sizeof(*p));
	struct object o = {};
	int err = -1;

	if (!p)
		return fail("out of memory");
	for (int i = 0; i < paths->nr; i++)
		p[i] = (struct place){ .in = CGROUP_PROGRAMS_NOWHERE, .before = -1 };
	if (!read_before(paths, by_trial, before) && !load_user(&o, cc, before, rule))
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
	int nr = 0, lost, err = path ? cgroup_path_parse(real, path) : 0;

	lost = forget_lost(all, path && err ? path : path ? real : NULL, cc, only_count);
	if (err && lost > 0)
		return lost; /* it is gone, and what `use` did there */
	if (err)
		return fail("--cgroup %s: %s", path, strerror(-err));
	for (int i = 0; i < all->nr; i++) {
		if (!attached_gives(&all->at[i], cc) || (path && strcmp(all->at[i].cgroup, real)))
			continue;
		nr++;
		if (only_count)
			continue;
		err |= attached_detach(&all->at[i]) || state_remove(state_cgroup(id_of(all->at[i].cgroup)));
	}
	return err || lost < 0 ? -1 : nr + lost;
}

int cgroups_end(const struct attachments *all, const char *cc)
{
	int err = 0;

	for (int i = 0; i < all->nr; i++) {
		const struct attached *a = &all->at[i];
		const char *path = a->cgroup;
		const struct texts one = { &path, 1 };

		if (!attached_gives(a, cc) || !*a->before)
			continue;
		if (strcmp(a->before, "-") && controller_available(a->before) > 0)
			err |= cgroups_use(a->before, &one, false, &(struct share_rule){});
		else
			err |= attached_detach(a) || state_remove(state_cgroup(id_of(path)));
	}
	return err ? -1 : 0;
}
