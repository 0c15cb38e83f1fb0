// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* In and out of the kernel: `asymcc load`, `asymcc set`, `asymcc unload`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "cgroup.h"
#include "netns.h"
#include "object.h"
#include "registry.h"
#include "state.h"
#include "use.h"

static int fail_load(const struct object *o, int err)
{
	if (err == -EPERM && !object_verdict())
		return fail("cannot load %s: not permitted: run it as root (it needs CAP_SYS_ADMIN, "
			    "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)", o->ops_name);
	if (object_verdict())
		return fail("cannot load %s: the kernel's verifier rejects %s (-v shows its log)",
			    o->ops_name, object_verdict());
	return fail("cannot load %s: %s: %s", o->ops_name, registry_load_error(err), object_complaint());
}

static int fail_register(const struct object *o, int err)
{
	if (err == -EEXIST)
		return fail("cannot register %s: the kernel has a congestion control of that name; "
			    "choose another with --as", o->ops_name);
	if (err == -EINVAL)
		return fail("cannot register %s: the kernel refuses its ops: ssthresh, undo_cwnd and "
			    "one of cong_avoid and cong_control are required", o->ops_name);
	return fail("cannot register %s: %s", o->ops_name, strerror(-err));
}

static int register_ops(const struct object *o)
{
	struct bpf_link *link = bpf_map__attach_struct_ops(o->ops);

	if (!link)
		return fail_register(o, -errno);
	/* the registration shall outlive us: without this, destroying the link undoes it */
	bpf_link__disconnect(link);
	bpf_link__destroy(link);
	return 0;
}

/* "fast registered (alpha=500 packets), with programs in /sys/fs/cgroup" */
static void print_registered(const struct object *o, const struct args *a, const struct cgroup *c)
{
	const char *sep = " (";

	printf("%s registered", o->ops_name);
	for (int i = 0; i < o->params.nr; i++) {
		const struct var *v = &o->params.var[i];
		bool changed = false;

		for (int k = 0; k < a->nr_set; k++)
			changed |= !strncmp(a->set[k], v->name, strcspn(a->set[k], "=")) &&
				   strlen(v->name) == strcspn(a->set[k], "=");
		if (!changed)
			continue;
		printf("%s%s=%lld", sep, v->name, object_get(o, v));
		if (strcmp(v->unit, "-"))
			printf(" %s", v->unit);
		sep = ", ";
	}
	if (*sep == ',')
		putchar(')');
	if (c->nr)
		printf(", with programs in %s", c->path);
	putchar('\n');
}

/* It comes before its programs are detached, as it can be refused; killed after it, we leave what unload finds. */
static int unregister(const struct live *live)
{
	int err = registry_remove(live);

	if (err == -EOPNOTSUPP)
		return fail("%s is registered through a BPF link: end the program that holds it, or use "
			    "`bpftool link detach`", live->name);
	return err ? fail("cannot unload %s: %s", live->name, strerror(-err)) : 0;
}

/* Where the programs go: the place named, or that of the one that is replaced. */
static const char *place(const struct args *a, const struct attachments *replaced)
{
	int i = 0;

	return a->nr_cgroups ? a->cgroups[0] : attachments_cgroup(replaced, 0, NULL, &i);
}

int cmd_load(const struct args *a)
{
	struct cgroup cgroup = CGROUP_CLOSED;
	struct attachments replaced = {};
	struct words object = {};
	const struct live *live;
	struct registry r = {};
	struct object o = {};
	const char *missing;
	int err = -1, ret;

	if (a->nr_cgroups > 1)
		return fail("--cgroup %s: load takes one cgroup", a->cgroups[1]);
	if (object_open_controller(&o, object_dir(a), a->name, a->alias) || state_lock())
		goto unlocked;
	for (int i = 0; i < a->nr_set; i++)
		if (object_set(&o, a->set[i]))
			goto cleanup;
	if (registry_read(&r))
		goto cleanup;
	live = registry_find(&r, o.ops_name);
	if (live && live->unloading)
		live = NULL;
	if (live && !a->replace) {
		fail("%s is registered already (struct_ops map %u): `asymcc unload %s` first, put this one in its place with "
		     "--replace, or choose another name with --as", o.ops_name, live->map_id, o.ops_name);
		goto cleanup;
	}
	missing = registry_missing(&r, o.btf, o.type);
	if (missing) {
		fail("cannot load %s: it sets tcp_congestion_ops.%s, which this kernel lacks",
		     o.ops_name, missing);
		goto cleanup;
	}
	if (live) {
		if (attachments_read(&replaced))
			goto cleanup;
		attachments_keep(&replaced, o.ops_name);
	}
	if (cgroup_open(&cgroup, &o, place(a, &replaced)) || cgroup_admits(&cgroup, &o, &replaced))
		goto cleanup;
	ret = registry_load(o.bpf);
	if (ret) {
		fail_load(&o, ret);
		goto cleanup;
	}
	/* from here on, what is there gives way: the new one has passed the verifier, and all checks */
	snprintf(object.word[0], CC_NAME_LEN, "%s", bpf_object__name(o.bpf));
	if (live && state_write(state_replacing(o.ops_name), &object))
		goto cleanup;
	if (live && unregister(live)) {
		state_remove(state_replacing(o.ops_name));
		goto cleanup;
	}
	if (attachments_detach(&replaced) || cgroup_attach(&cgroup, &o))
		goto gone;
	if (register_ops(&o)) {
		cgroup_detach(&cgroup, &o);
		goto gone;
	}
	print_registered(&o, a, &cgroup);
	/* also if an earlier one left it */
	err = defaults_renew(o.ops_name) || state_remove(state_replacing(o.ops_name)) ? -1 : 0;
	goto cleanup;
gone:
	if (live)
		fail("%s is out, and the new one is not in: load it again", o.ops_name);
cleanup:
	state_unlock();
unlocked:
	cgroup_close(&cgroup);
	attachments_free(&replaced);
	object_close(&o);
	registry_free(&r);
	return err;
}

/* How the user gets the value, and keeps the others that are not the object's. */
static int fail_constant(const struct args *a, const struct live *live, const struct params *p, const struct var *v,
			 long long value)
{
	char others[512] = "";
	struct object o = {};
	size_t n = 0;

	if (open_if_built(&o, a, live->object)) {
		for (int i = 0; i < p->vars.nr && n < sizeof(others) - 80; i++) {
			const struct var *now = &p->vars.var[i], *built = vars_find(&o.params, now->name, strlen(now->name));
			long long is = var_get(now, now->live ? p->live.data : p->fixed.data);

			if (built && strcmp(now->name, v->name) && is != object_get(&o, built))
				n += snprintf(others + n, sizeof(others) - n, " --set %s=%lld", now->name, is);
		}
	}
	object_close(&o);
	return fail("%s is a constant of the loaded program; for new connections: `asymcc load %s%s%s --replace --set %s=%lld%s`",
		    v->name, live->object, strcmp(live->object, a->name) ? " --as " : "",
		    strcmp(live->object, a->name) ? a->name : "", v->name, value, others);
}

int cmd_set(const struct args *a)
{
	long long *before = calloc(a->nr_words, sizeof(*before));
	const struct var **var = calloc(a->nr_words, sizeof(*var));
	const struct live *live;
	struct params p = {};
	struct registry r = {};
	int err = -1, ret;

	if (!before || !var) {
		fail("out of memory");
		goto cleanup;
	}
	if (state_lock())
		goto unlocked;
	if (registry_read(&r))
		goto cleanup;
	live = registry_find(&r, a->name);
	if (!live) {
		fail("%s is not registered; `asymcc list` shows what is", a->name);
		goto cleanup;
	}
	if (params_read(&p, live->btf_id))
		goto cleanup;
	for (int i = 0; i < a->nr_words; i++) {
		long long value;

		if (assignment_parse(&p.vars, a->name, "", a->words[i], &var[i], &value))
			goto cleanup;
		if (!var[i]->live) {
			fail_constant(a, live, &p, var[i], value);
			goto cleanup;
		}
		before[i] = var_get(var[i], p.live.data);
		var_set(var[i], p.live.data, value);
	}
	ret = params_write(&p);
	if (ret) {
		fail("cannot change %s: %s", a->name, strerror(-ret));
		goto cleanup;
	}
	for (int i = 0; i < a->nr_words; i++)
		printf("%s: %s=%lld%s%s (was %lld)\n", a->name, var[i]->name, var_get(var[i], p.live.data),
		       strcmp(var[i]->unit, "-") ? " " : "", strcmp(var[i]->unit, "-") ? var[i]->unit : "", before[i]);
	err = 0;
cleanup:
	state_unlock();
unlocked:
	free(before);
	free(var);
	params_free(&p);
	registry_free(&r);
	return err;
}

static void print_places(const struct attachments *mine)
{
	const char *cgroup, *sep = "";
	int i = 0;

	while ((cgroup = attachments_cgroup(mine, 0, NULL, &i))) {
		printf("%s%s", sep, cgroup);
		sep = ", ";
	}
}

/* A load was killed before it registered anything, or the struct_ops was taken out alone. */
static int unload_left_over(const struct args *a, const struct live *live,
			    const struct attachments *mine)
{
	if (attachments_detach(mine))
		return -1;
	printf("%s %s; its programs were left over and are detached from ", a->name,
	       live ? "is unloaded already" : "is not registered");
	print_places(mine);
	putchar('\n');
	return 0;
}

/* How many sockets run a controller of that name, whichever build; 0 only if no build of it is left in the kernel. */
static int sockets_left(const char *cc, unsigned int *left)
{
	struct netns_list users;
	struct registry r;
	bool there;

	if (netns_read(&users))
		return -1;
	*left = count_sockets(&users, cc);
	netns_free(&users);
	if (registry_read(&r))
		return -1;
	there = registry_find(&r, cc);
	registry_free(&r);
	if (!there)
		*left = 0;
	return there;
}

/* Until the last connection that runs it has ended, but no longer than --seconds. */
static int wait_for_sockets(const struct args *a, unsigned int *left)
{
	for (long waited = 0;; waited++) {
		int there = sockets_left(a->name, left);

		if (there <= 0 || (a->seconds >= 0 && waited >= a->seconds))
			return there < 0 ? -1 : 0;
		if (waited == 1) { /* not for one that is about to go */
			printf("%s: waiting for %u socket%s\n", a->name, *left, *left == 1 ? "" : "s");
			fflush(stdout);
		}
		sleep(1);
	}
}

static int unload_live(const struct args *a, const struct live *live, const struct netns_list *users,
		       const struct attachments *all, const struct attachments *mine)
{
	char *where = users_text(users, all, a->name, false), *still = NULL;
	struct netns_list now = {};
	unsigned int sockets = 0;
	int left, err = -1;

	if (!where) {
		fail("out of memory");
		goto cleanup;
	}
	if (*where && !a->force && !a->drain) {
		fail("%s is still given to connections: %s: take it back first (`asymcc unuse %s`), or use --drain, or --force",
		     a->name, where, a->name);
		goto cleanup;
	}
	/* routes always: the kernel does not tell those of a controller that is gone */
	if (*where && unuse_all(all, a->name, !a->drain, &left) < 0 && !a->force)
		goto cleanup;
	/* after this no new connection can take it; with --drain, what runs keeps its programs until it ends */
	if (unregister(live))
		goto cleanup;
	if (a->drain) {
		state_unlock(); /* others need not wait as long */
		err = wait_for_sockets(a, &sockets);
		if (state_lock())
			exit(EXIT_FAILURE);
		err |= attachments_detach(mine);
	} else {
		err = attachments_detach(mine) || sockets_left(a->name, &sockets) < 0 ? -1 : 0;
	}
	printf("%s unloaded", a->name);
	if (!err && mine->nr) {
		printf("; detached from ");
		print_places(mine);
	}
	if (!a->drain && *where && !netns_read(&now))
		still = users_text(&now, all, a->name, false);
	if (*where && a->drain)
		printf("; taken back from %s", where);
	if (still && *still)
		printf("; still %s", still);
	if (sockets)
		printf("; %u socket%s it until closed", sockets, sockets == 1 ? " keeps" : "s keep");
	putchar('\n');
cleanup:
	netns_free(&now);
	free(still);
	free(where);
	return err;
}

/* It is gone, or goes as soon as its sockets do; defaults and cgroups may still name it. */
static int unload_uses(const struct args *a, const struct attachments *all, const char *where)
{
	int left;

	if (!a->drain && !a->force)
		return fail("%s is not registered, but still given to connections: %s: `asymcc unuse %s` takes it back",
			    a->name, where, a->name);
	if (unuse_all(all, a->name, false, &left) < 0)
		return -1;
	printf("%s is not registered; taken back from %s\n", a->name, where);
	return 0;
}

/*
 * A replacement was killed when the old one was out and the new one not in. Routes still have the name, which the
 * kernel tells only of a controller that is registered: so it is, for as long as it takes.
 */
static int finish_replacement(const struct args *a)
{
	struct words left;
	const char *object = left.word[0];
	struct object o = {};
	int err = -1, there = state_read(state_replacing(a->name), &left), available;

	if (there <= 0)
		return there;
	available = controller_available(a->name);
	if (available < 0)
		return -1;
	if (!available) {
		if (object_open_controller(&o, object_dir(a), object, a->name) || registry_load(o.bpf) || register_ops(&o))
			fail("%s was being replaced when asymcc was killed: `asymcc load %s --as %s`, then unload it", a->name,
			     object, a->name);
		else
			err = 0;
		object_close(&o);
	} else {
		err = 0;
	}
	return err ? -1 : state_remove(state_replacing(a->name));
}

int cmd_unload(const struct args *a)
{
	struct attachments all = {}, mine = {};
	struct netns_list users = {};
	const struct live *live;
	struct registry r = {};
	char *where = NULL;
	int err = -1;

	if (state_lock())
		return -1;
	if (finish_replacement(a) || registry_read(&r) || attachments_read(&all) || attachments_read(&mine) ||
	    netns_read(&users))
		goto cleanup;
	netns_warn(&users);
	attachments_keep(&mine, a->name);
	live = registry_find(&r, a->name);
	where = users_text(&users, &all, a->name, false);
	if (!where)
		fail("out of memory");
	else if (live && !live->unloading)
		err = unload_live(a, live, &users, &all, &mine);
	else if (mine.nr || *where)
		err = (mine.nr && unload_left_over(a, live, &mine)) || (*where && unload_uses(a, &all, where)) ? -1 : 0;
	else if (!live)
		fail("%s is not registered; `asymcc list` shows what is", a->name);
	else
		fail("%s is unloaded already; it stays until its users end (%u sockets)", a->name,
		     count_sockets(&users, a->name));
cleanup:
	free(where);
	attachments_free(&all);
	attachments_free(&mine);
	netns_free(&users);
	registry_free(&r);
	state_unlock();
	return err;
}
