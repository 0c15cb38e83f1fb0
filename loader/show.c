// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What there is: `asymcc list`, `asymcc show`. */
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
#include "use.h"

static void json_users(const struct netns_list *l, const char *cc)
{
	const char *sep = "";

	printf("[");
	for (int i = 0; i < l->nr; i++) {
		const struct netns *ns = &l->ns[i];
		unsigned int sockets = netns_sockets(ns, cc);
		bool initial = !strcmp(ns->initial, cc);

		const char *comma = "";

		if (!initial && !sockets && !netns_routes(ns, cc))
			continue;
		printf("%s{\"netns\": ", sep);
		json_string(ns->name);
		printf(", \"default\": %s, \"routes\": [", initial ? "true" : "false");
		for (int k = 0; k < ns->nr_route; k++) {
			if (strcmp(ns->route[k].name, cc))
				continue;
			printf("%s", comma);
			json_string(ns->route[k].text);
			comma = ", ";
		}
		printf("], \"sockets\": %u}", sockets);
		sep = ", ";
	}
	printf("]");
}

static void print_cgroups(const struct attachments *all, __u32 btf_id, const char *owner)
{
	const char *cgroup, *sep = "";
	int i = 0;

	while ((cgroup = attachments_cgroup(all, btf_id, owner, &i))) {
		printf("%s%s", sep, cgroup);
		sep = ", ";
	}
}

static void json_cgroups(const struct attachments *all, __u32 btf_id, const char *owner)
{
	const char *cgroup, *sep = "";
	int i = 0;

	printf(", \"cgroups\": [");
	while ((cgroup = attachments_cgroup(all, btf_id, owner, &i))) {
		printf("%s", sep);
		json_string(cgroup);
		sep = ", ";
	}
	printf("]");
}

/* Cgroups that `use` gave the controller. */
static void json_used_in(const struct attachments *all, const char *cc)
{
	const char *sep = "";

	printf(", \"used_in\": [");
	for (int i = 0; i < all->nr; i++) {
		if (!attached_gives(&all->at[i], cc))
			continue;
		printf("%s", sep);
		json_string(all->at[i].cgroup);
		sep = ", ";
	}
	printf("]");
}

static bool is_built(char **names, const char *name)
{
	for (; names && *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

bool open_if_built(struct object *o, const struct args *a, const char *name)
{
	char **names = object_names(object_dir(a));
	bool built = is_built(names, name);

	object_names_free(names);
	return built && !object_open_controller(o, object_dir(a), name, NULL);
}

static void list_row(bool json, bool first, const char *name, const char *object, bool built,
		     const struct live *live, const struct netns_list *users,
		     const struct attachments *all)
{
	const char *owner = live ? NULL : name;
	__u32 btf_id = live ? live->btf_id : 0;
	char id[40] = "-", *used;
	int i = 0;

	if (json) {
		printf("%s\n  {\"name\": ", first ? "" : ",");
		json_string(name);
		printf(", \"object\": ");
		json_string(object);
		printf(", \"built\": %s, \"map_id\": ", built ? "true" : "false");
		printf(live ? "%u" : "null", live ? live->map_id : 0);
		printf(", \"unloading\": %s, \"used_by\": ", live && live->unloading ? "true" : "false");
		json_users(users, name);
		json_used_in(all, name);
		json_cgroups(all, btf_id, owner);
		printf("}");
		return;
	}
	if (live)
		snprintf(id, sizeof(id), "%u%s", live->map_id, live->unloading ? " (unloading)" : "");
	printf("%-16s %-16s %-16s ", name,
	       !built ? "-" : strcmp(name, object) ? object : "yes", id);
	used = users_text(users, all, name, true);
	fputs(used ? used : "?", stdout);
	if (attachments_cgroup(all, btf_id, owner, &i)) {
		printf(used && *used ? "; programs in " : "programs in ");
		print_cgroups(all, btf_id, owner);
	} else if (used && !*used) {
		putchar('-');
	}
	putchar('\n');
	free(used);
}

int cmd_list(const struct args *a)
{
	struct attachments all = {};
	struct netns_list users = {};
	struct registry r = {};
	char **built = NULL;
	bool first = true;
	int err = -1;

	if (registry_read(&r) || netns_read(&users) || attachments_read(&all))
		goto cleanup;
	netns_warn(&users);
	built = object_names(object_dir(a));
	if (a->json)
		printf("[");
	else
		printf("%-16s %-16s %-16s %s\n", "NAME", "BUILT", "REGISTERED", "USED BY");
	for (char **n = built; n && *n; n++) {
		if (registry_find(&r, *n))
			continue;
		list_row(a->json, first, *n, *n, true, NULL, &users, &all);
		first = false;
	}
	for (int i = 0; i < r.nr; i++) {
		const struct live *l = &r.live[i];

		list_row(a->json, first, l->name, l->object, is_built(built, l->object), l, &users, &all);
		first = false;
	}
	if (a->json)
		printf("\n]\n");
	err = 0;
cleanup:
	object_names_free(built);
	attachments_free(&all);
	netns_free(&users);
	registry_free(&r);
	return err;
}

/* Values are in `live` for those that may change, else in `data`. */
static void show_vars(const struct args *a, const char *title, const struct vars *vars,
		      const void *live, const void *data, bool params)
{
	if (a->json)
		printf(",\n \"%s\": [", title);
	else if (vars->nr)
		printf("%s:\n", title);
	for (int i = 0; i < vars->nr; i++) {
		const struct var *v = &vars->var[i];
		long long value = var_get(v, v->live ? live : data);

		if (a->json) {
			printf("%s\n  {\"name\": ", i ? "," : "");
			json_string(v->name);
			printf(", \"value\": %lld", value);
			if (params) {
				printf(", \"min\": %lld, \"max\": %lld, \"live\": %s, \"unit\": ", v->min,
				       v->max, v->live ? "true" : "false");
				json_string(v->unit);
			}
			printf(", \"doc\": ");
			json_string(v->doc);
			printf("}");
		} else if (params) {
			printf("  %-16s %10lld %-8s %s %s [%lld..%lld]\n", v->name, value,
			       strcmp(v->unit, "-") ? v->unit : "", v->live ? "live" : "    ", v->doc, v->min,
			       v->max);
		} else {
			printf("  %-16s %10lld %-8s %s\n", v->name, value, "", v->doc);
		}
	}
	if (a->json)
		printf("]");
}

/* For programs only: how to decode a trace of the private state. */
static int show_state(const struct args *a, const struct btf *btf)
{
	struct vars state = {};
	int err;

	if (!a->json)
		return 0;
	err = btf ? vars_read_state(&state, btf) : 0;
	printf(",\n \"state\": [");
	for (int i = 0; i < state.nr; i++) {
		printf("%s\n  {\"name\": ", i ? "," : "");
		json_string(state.var[i].name);
		printf(", \"offset\": %u, \"bytes\": %u, \"signed\": %s}", state.var[i].offset,
		       state.var[i].size, state.var[i].is_signed ? "true" : "false");
	}
	puts("]}");
	vars_free(&state);
	return err;
}

/* The programs of a load: their size, and how much the verifier had to look at. */
static int show_programs(const struct args *a, __u32 btf_id)
{
	unsigned long long insns = 0, verified = 0;
	const char *sep = "";
	__u32 id = 0, nr = 0;

	if (a->json)
		printf(",\n \"programs\": [");
	while (btf_id && !bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);
		int err, fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0 && errno == ENOENT)
			continue; /* gone since */
		err = fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len);
		if (err)
			fail("cannot read BPF program %u: %s", id, strerror(errno));
		if (!err && info.btf_id == btf_id) {
			nr++;
			insns += info.xlated_prog_len / 8;
			verified += info.verified_insns;
			if (a->json) {
				printf("%s\n  {\"id\": %u, \"name\": ", sep, id);
				json_string(info.name);
				printf(", \"type\": ");
				json_string(libbpf_bpf_prog_type_str(info.type));
				printf(", \"insns\": %u, \"verified_insns\": %u, \"jited_bytes\": %u}",
				       info.xlated_prog_len / 8, info.verified_insns, info.jited_prog_len);
				sep = ",";
			}
		}
		if (fd >= 0)
			close(fd);
		if (err)
			return -1;
	}
	if (btf_id && errno != ENOENT)
		return fail("cannot read the kernel's BPF programs: %s", strerror(errno));
	if (a->json)
		printf("]");
	else if (nr)
		printf("programs: %u, of %llu instructions; the verifier looked at %llu\n", nr, insns, verified);
	return 0;
}

static void show_head(const struct args *a, const char *object, const struct live *live)
{
	if (a->json) {
		printf("{\"name\": ");
		json_string(a->name);
		printf(", \"object\": ");
		json_string(object);
		printf(", \"registered\": %s, \"map_id\": ", live ? "true" : "false");
		printf(live ? "%u" : "null", live ? live->map_id : 0);
		printf(", \"unloading\": %s", live && live->unloading ? "true" : "false");
	} else if (live) {
		printf("%s: %s as struct_ops map %u, from object %s\n", a->name,
		       live->unloading ? "unloading, kept by its users," : "registered",
		       live->map_id, object);
	} else {
		printf("%s: not registered; the defaults of its object:\n", a->name);
	}
}

/* "  name             /sys/fs/cgroup/a, /sys/fs/cgroup/b" */
static void print_program(const struct attachments *all, __u32 btf_id, const char *prog)
{
	const char *cgroup, *sep = "";
	int i = 0;

	printf("  %-16s ", prog);
	while ((cgroup = attachments_cgroup(all, btf_id, NULL, &i))) {
		if (!attachments_has(all, btf_id, cgroup, prog))
			continue;
		printf("%s%s", sep, cgroup);
		sep = ", ";
	}
	puts(*sep ? "" : "-");
}

/* Where each program is; `o` NULL: the object is not built here. */
static int show_cgroups(const struct args *a, const struct live *live, const struct object *o,
			const struct attachments *all)
{
	__u32 btf_id = live ? live->btf_id : 0;
	const char **names = cgroup_programs(o, all, btf_id);
	int i = 0;

	if (!names)
		return fail("out of memory");
	if (a->json) {
		json_cgroups(all, btf_id, NULL);
		printf(", \"cgroup_programs\": [");
	} else if (*names) {
		puts(!live ? "cgroup programs:" : attachments_cgroup(all, btf_id, NULL, &i) ?
		     "cgroup programs, and where they are:" :
		     "cgroup programs (not attached: only the sender is in place):");
	}
	for (const char **n = names; *n; n++) {
		if (a->json) {
			printf(n == names ? "" : ", ");
			json_string(*n);
		} else {
			print_program(all, btf_id, *n);
		}
	}
	if (a->json)
		printf("]");
	free(names);
	return 0;
}

static int show_live(const struct args *a, const struct live *live, const struct object *o,
		     const struct attachments *all)
{
	struct section counters = {};
	struct params params = {};
	struct btf *btf = btf__load_from_kernel_by_id(live->btf_id);
	int err = -1;

	if (live->btf_id && !btf) {
		fail("cannot read BTF %u: %s", live->btf_id, strerror(errno));
		goto cleanup;
	}
	if (params_read(&params, live->btf_id) ||
	    section_read(&counters, live->btf_id, ".bss"))
		goto cleanup;
	show_head(a, live->object, live);
	if (show_cgroups(a, live, o, all))
		goto cleanup;
	show_vars(a, "parameters", &params.vars, params.live.data, params.fixed.data, true);
	show_vars(a, "counters", &counters.vars, NULL, counters.data, false);
	err = show_programs(a, live->btf_id) || show_state(a, btf) ? -1 : 0;
cleanup:
	btf__free(btf);
	params_free(&params);
	section_free(&counters);
	return err;
}

static int show_built(const struct args *a, const struct object *o, struct attachments *all)
{
	struct vars none = {};

	attachments_keep(all, a->name);
	show_head(a, a->name, NULL);
	if (show_cgroups(a, NULL, o, all))
		return -1;
	show_vars(a, "parameters", &o->params, o->data, o->rodata, true);
	show_vars(a, "counters", &none, NULL, NULL, false);
	return show_programs(a, 0) || show_state(a, o->btf) ? -1 : 0;
}

int cmd_show(const struct args *a)
{
	struct attachments all = {};
	const struct live *live;
	struct registry r = {};
	struct object o = {};
	int err = -1;

	if (registry_read(&r) || attachments_read(&all))
		goto cleanup;
	live = registry_find(&r, a->name);
	if (live) {
		bool built = open_if_built(&o, a, live->object);

		err = show_live(a, live, built ? &o : NULL, &all);
	} else if (!object_open_controller(&o, object_dir(a), a->name, NULL)) {
		err = show_built(a, &o, &all);
	}
cleanup:
	object_close(&o);
	attachments_free(&all);
	registry_free(&r);
	return err;
}
