// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * asymcc: load, list, show, unload and trace congestion controllers written in BPF.
 *
 * Nothing is remembered between runs: what is registered, with which values, and who uses it
 * is read from the kernel each time.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "netns.h"
#include "object.h"
#include "registry.h"

#ifndef ASYMCC_VERSION
#define ASYMCC_VERSION "0.1.0"
#endif

#define EXIT_USAGE 2
#define ENOTSUPP 524 /* the kernel's own; strerror() does not know it */

int fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("asymcc: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

static void json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}

/* "default of host, 3 sockets in host; 1 socket in netns r1"; true if there are any */
static bool print_users(const struct netns_list *l, const char *cc)
{
	const char *sep = "";

	for (int i = 0; i < l->nr; i++) {
		const struct netns *ns = &l->ns[i];
		unsigned int sockets = netns_sockets(ns, cc);
		bool initial = !strcmp(ns->initial, cc);

		if (!initial && !sockets)
			continue;
		printf("%s", sep);
		if (initial)
			printf("default of %s%s", ns->name, sockets ? ", " : "");
		if (sockets)
			printf("%u socket%s in %s", sockets, sockets == 1 ? "" : "s", ns->name);
		sep = "; ";
	}
	return *sep;
}

static void json_users(const struct netns_list *l, const char *cc)
{
	const char *sep = "";

	printf("[");
	for (int i = 0; i < l->nr; i++) {
		const struct netns *ns = &l->ns[i];
		unsigned int sockets = netns_sockets(ns, cc);
		bool initial = !strcmp(ns->initial, cc);

		if (!initial && !sockets)
			continue;
		printf("%s{\"netns\": ", sep);
		json_string(ns->name);
		printf(", \"default\": %s, \"sockets\": %u}", initial ? "true" : "false", sockets);
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

static unsigned int count_sockets(const struct netns_list *l, const char *cc)
{
	unsigned int n = 0;

	for (int i = 0; i < l->nr; i++)
		n += netns_sockets(&l->ns[i], cc);
	return n;
}

static bool is_built(char **names, const char *name)
{
	for (; names && *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

static bool open_if_built(struct object *o, const struct args *a, const char *name)
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
	char id[40] = "-";
	bool used;
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
		json_cgroups(all, btf_id, owner);
		printf("}");
		return;
	}
	if (live)
		snprintf(id, sizeof(id), "%u%s", live->map_id, live->unloading ? " (unloading)" : "");
	printf("%-16s %-16s %-16s ", name,
	       !built ? "-" : strcmp(name, object) ? object : "yes", id);
	used = print_users(users, name);
	if (attachments_cgroup(all, btf_id, owner, &i)) {
		printf(used ? "; programs in " : "programs in ");
		print_cgroups(all, btf_id, owner);
	} else if (!used) {
		putchar('-');
	}
	putchar('\n');
}

static int cmd_list(const struct args *a)
{
	struct attachments all = {};
	struct netns_list users = {};
	struct registry r = {};
	char **built = NULL;
	bool first = true;
	int err = -1;

	if (registry_read(&r) || netns_read(&users) || attachments_read(&all, &r))
		goto cleanup;
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

static int fail_load(const struct object *o, int err)
{
	if (err == -EPERM && !object_verdict())
		return fail("cannot load %s: not permitted: run it as root (it needs CAP_SYS_ADMIN, "
			    "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)", o->ops_name);
	if (object_verdict())
		return fail("cannot load %s: the kernel's verifier rejects %s (-v shows its log)",
			    o->ops_name, object_verdict());
	return fail("cannot load %s: %s: %s", o->ops_name,
		    err == -ENOTSUPP ? "this kernel does not support it" : strerror(-err),
		    object_complaint());
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

static int cmd_load(const struct args *a)
{
	struct cgroup cgroup = CGROUP_CLOSED;
	const struct live *live;
	struct registry r = {};
	struct object o = {};
	const char *missing;
	int err = -1, ret;

	if (object_open_controller(&o, object_dir(a), a->name, a->alias))
		goto cleanup;
	for (int i = 0; i < a->nr_set; i++)
		if (object_set(&o, a->set[i]))
			goto cleanup;
	if (registry_read(&r))
		goto cleanup;
	live = registry_find(&r, o.ops_name);
	if (live && !live->unloading) {
		fail("%s is registered already (struct_ops map %u): `asymcc unload %s` first, or choose "
		     "another name with --as", o.ops_name, live->map_id, o.ops_name);
		goto cleanup;
	}
	missing = registry_missing(&r, o.btf, o.type);
	if (missing) {
		fail("cannot load %s: it sets tcp_congestion_ops.%s, which this kernel lacks",
		     o.ops_name, missing);
		goto cleanup;
	}
	if (cgroup_open(&cgroup, &o, a->cgroup))
		goto cleanup;
	ret = bpf_object__load(o.bpf);
	if (ret) {
		fail_load(&o, ret);
		goto cleanup;
	}
	if (cgroup_attach(&cgroup, &o, &r))
		goto cleanup;
	if (register_ops(&o)) {
		cgroup_detach(&cgroup, &o);
		goto cleanup;
	}
	print_registered(&o, a, &cgroup);
	err = 0;
cleanup:
	cgroup_close(&cgroup);
	object_close(&o);
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

	if (params_read(&params, live->btf_id) ||
	    section_read(&counters, live->btf_id, ".bss"))
		goto cleanup;
	show_head(a, live->object, live);
	if (show_cgroups(a, live, o, all))
		goto cleanup;
	show_vars(a, "parameters", &params.vars, params.live.data, params.fixed.data, true);
	show_vars(a, "counters", &counters.vars, NULL, counters.data, false);
	err = show_state(a, btf);
cleanup:
	btf__free(btf);
	params_free(&params);
	section_free(&counters);
	return err;
}

static int show_built(const struct args *a, const struct object *o, struct attachments *all)
{
	struct vars none = {};

	attachments_keep(all, a->name, o);
	show_head(a, a->name, NULL);
	if (show_cgroups(a, NULL, o, all))
		return -1;
	show_vars(a, "parameters", &o->params, o->data, o->rodata, true);
	show_vars(a, "counters", &none, NULL, NULL, false);
	return show_state(a, o->btf);
}

static int cmd_show(const struct args *a)
{
	struct attachments all = {};
	const struct live *live;
	struct registry r = {};
	struct object o = {};
	int err = -1;

	if (registry_read(&r) || attachments_read(&all, &r))
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

/* A load was killed before it registered anything, or the struct_ops was taken out alone. */
static int unload_left_over(const struct args *a, const struct live *live,
			    const struct attachments *mine)
{
	if (attachments_detach(mine))
		return -1;
	printf("%s %s; its programs were left over and are detached from ", a->name,
	       live ? "is unloaded already" : "is not registered");
	print_cgroups(mine, 0, NULL);
	putchar('\n');
	return 0;
}

static int unload_live(const struct args *a, const struct live *live, const struct netns_list *users,
		       const struct attachments *mine)
{
	unsigned int sockets = count_sockets(users, a->name);
	char where[1024] = "";
	int err;

	for (int i = 0; i < users->nr; i++)
		if (!strcmp(users->ns[i].initial, a->name))
			snprintf(where + strlen(where), sizeof(where) - strlen(where), "%s%s",
				 *where ? ", " : "", users->ns[i].name);
	if (*where && !a->force)
		return fail("%s is the default of %s: reset it there first (sysctl -w "
			    "net.ipv4.tcp_congestion_control=cubic), or use --force", a->name, where);
	/* before anything is detached, as it can refuse; killed after it, we leave what unload finds */
	err = registry_remove(live);
	if (err == -EOPNOTSUPP)
		return fail("%s is registered through a BPF link: end the program that holds it, or use "
			    "`bpftool link detach`", a->name);
	if (err)
		return fail("cannot unload %s: %s", a->name, strerror(-err));
	err = attachments_detach(mine);
	printf("%s unloaded", a->name);
	if (!err && mine->nr) {
		printf("; detached from ");
		print_cgroups(mine, 0, NULL);
	}
	if (*where)
		printf("; still the default of %s", where);
	if (sockets)
		printf("; %u socket%s it until closed", sockets, sockets == 1 ? " keeps" : "s keep");
	putchar('\n');
	return err;
}

static int cmd_unload(const struct args *a)
{
	struct attachments mine = {};
	struct netns_list users = {};
	const struct live *live;
	struct registry r = {};
	struct object o = {};
	int err = -1, lock = -1;

	if (cgroup_lock(&lock) || registry_read(&r) || attachments_read(&mine, &r))
		goto cleanup;
	attachments_keep(&mine, a->name, open_if_built(&o, a, a->name) ? &o : NULL);
	live = registry_find(&r, a->name);
	if ((!live || live->unloading) && mine.nr)
		err = unload_left_over(a, live, &mine);
	else if (!live)
		fail("%s is not registered; `asymcc list` shows what is", a->name);
	else if (netns_read(&users))
		goto cleanup;
	else if (live->unloading)
		fail("%s is unloaded already; it stays until its users end (%u sockets)", a->name,
		     count_sockets(&users, a->name));
	else
		err = unload_live(a, live, &users, &mine);
cleanup:
	if (lock >= 0)
		close(lock);
	object_close(&o);
	attachments_free(&mine);
	netns_free(&users);
	registry_free(&r);
	return err;
}

/* The command line: what there is, who takes it, and what --help says are these two tables. */
enum {
	LIST = 1, LOAD = 2, SHOW = 4, UNLOAD = 8, TRACE = 16,
	ALL = LIST | LOAD | SHOW | UNLOAD | TRACE,
};

static const struct command {
	const char *name;
	int bit;
	bool takes_name;
	const char *summary;
	int (*run)(const struct args *a);
} commands[] = {
	{ "list", LIST, false, "controllers built and registered, and who uses them", cmd_list },
	{ "load", LOAD, true, "load a controller's object and register it", cmd_load },
	{ "show", SHOW, true, "parameters and counters of a controller", cmd_show },
	{ "unload", UNLOAD, true, "take a controller out of the kernel", cmd_unload },
	{ "trace", TRACE, false, "record every ACK, and goodput and links in bins", cmd_trace },
};

static const struct opt {
	const char *name;
	int key;
	const char *arg;
	int commands;
	const char *help;
} opts[] = {
	{ "as", 'a', "ALIAS", LOAD, "register under this name; instances may differ in parameters" },
	{ "set", 's', "PARAM=VALUE", LOAD, "change a parameter (`asymcc show NAME` lists them); repeatable" },
	{ "cgroup", 'c', "PATH", LOAD, "whose connections an object's cgroup programs serve (else the root's: all)" },
	{ "json", 'j', NULL, LIST | SHOW, "print JSON" },
	{ "force", 'f', NULL, UNLOAD, "unload even the default of a network namespace" },
	{ "output", 'o', "FILE", TRACE, "where the records go (format: loader/trace.h)" },
	{ "link", 'l', "DEVICE", TRACE, "count departures and queue of a shaped device (tbf, htb); repeatable" },
	{ "ports", 'p', "LO-HI", TRACE, "only sockets with a local or remote port in this range" },
	{ "state", 'S', NULL, TRACE, "also record the controllers' private state at each ACK" },
	{ "bin-ms", 'b', "MS", TRACE, "width of goodput and link bins (100)" },
	{ "drain-ms", 'd', "MS", TRACE, "time between two collections of records (1000)" },
	{ "seconds", 't', "N", TRACE, "stop after N seconds (else at SIGINT or SIGTERM)" },
	{ "objects", 'O', "DIR", ALL, "folder of the objects (else $ASYMCC_OBJECTS, the folder of asymcc, "
				      ASYMCC_OBJDIR ")" },
	{ "verbose", 'v', NULL, ALL, "libbpf's messages and the verifier's log" },
	{ "help", 'h', NULL, ALL, "this text" },
	{ "version", 'V', NULL, 0, "version" },
};
#define NR_OPTS (sizeof(opts) / sizeof(opts[0]))
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static bool takes(const struct opt *o, const struct command *c)
{
	return c ? o->commands & c->bit : o->commands == ALL || !o->commands;
}

static void help(const struct command *c)
{
	if (c) {
		printf("asymcc %s%s [options]: %s\n\n", c->name, c->takes_name ? " NAME" : "", c->summary);
	} else {
		puts("asymcc COMMAND [options]: congestion controllers written in BPF\n");
		for (size_t i = 0; i < NR_COMMANDS; i++)
			printf("  %-6s %-5s %s\n", commands[i].name,
			       commands[i].takes_name ? "NAME" : "", commands[i].summary);
		putchar('\n');
	}
	for (size_t i = 0; i < NR_OPTS; i++) {
		char left[40];

		if (!takes(&opts[i], c))
			continue;
		snprintf(left, sizeof(left), "-%c, --%s %s", opts[i].key, opts[i].name,
			 opts[i].arg ? opts[i].arg : "");
		printf("  %-26s %s\n", left, opts[i].help);
	}
	if (!c)
		puts("\n`asymcc COMMAND --help` tells a command's own options.");
}

static long number(const char *option, const char *text, long min, long max, bool *ok)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < min || n > max) {
		fail("--%s %s: expected an integer from %ld to %ld", option, text, min, max);
		*ok = false;
	}
	return n;
}

static void parse_ports(struct args *a, const char *text, bool *ok)
{
	char rest;

	if (sscanf(text, "%5ld-%5ld%c", &a->port_lo, &a->port_hi, &rest) != 2 || a->port_lo < 0 ||
	    a->port_hi > 65535 || a->port_lo > a->port_hi) {
		fail("--ports %s: expected LO-HI with 0 <= LO <= HI <= 65535", text);
		*ok = false;
	}
}

static void apply(struct args *a, int key, const char *value, bool *ok)
{
	switch (key) {
	case 'a': a->alias = value; break;
	case 's': a->set[a->nr_set++] = value; break;
	case 'c': a->cgroup = value; break;
	case 'j': a->json = true; break;
	case 'f': a->force = true; break;
	case 'o': a->output = value; break;
	case 'l': a->links[a->nr_links++] = value; break;
	case 'p': parse_ports(a, value, ok); break;
	case 'S': a->state = true; break;
	case 'b': a->bin_ms = number("bin-ms", value, 1, 3600000, ok); break;
	case 'd': a->drain_ms = number("drain-ms", value, 1, 3600000, ok); break;
	case 't': a->seconds = number("seconds", value, 1, 1000000, ok); break;
	case 'O': a->objects = value; break;
	case 'v': a->verbose = true; break;
	}
}

/* Options that `c` takes (before a command is known: those of all). Returns -1 to go on. */
static int parse(struct args *a, const struct command *c, int argc, char **argv)
{
	struct option longs[NR_OPTS + 1] = {};
	char shorts[2 * NR_OPTS + 3], *s = shorts;
	bool ok = true;
	int n = 0, key;

	*s++ = c ? ':' : '+'; /* without a command, stop at the first word: it is the command */
	if (!c)
		*s++ = ':';
	for (size_t i = 0; i < NR_OPTS; i++) {
		if (!takes(&opts[i], c))
			continue;
		longs[n++] = (struct option){
			opts[i].name, opts[i].arg ? required_argument : no_argument, NULL, opts[i].key
		};
		*s++ = opts[i].key;
		if (opts[i].arg)
			*s++ = ':';
	}
	*s = 0;
	optind = 0;
	while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const char *what = argv[optind - 1];

		if (key == 'h') {
			help(c);
			return EXIT_SUCCESS;
		}
		if (key == 'V') {
			printf("asymcc %s (libbpf %s)\n", ASYMCC_VERSION, libbpf_version_string());
			return EXIT_SUCCESS;
		}
		if (key == '?' || key == ':') {
			fail(key == ':' ? "option %s needs a value; see asymcc%s%s --help"
					: "unknown option %s; see asymcc%s%s --help",
			     what, c ? " " : "", c ? c->name : "");
			return EXIT_USAGE;
		}
		apply(a, key, optarg, &ok);
	}
	return ok ? -1 : EXIT_USAGE;
}

int main(int argc, char **argv)
{
	const struct command *c = NULL;
	struct args a = { .port_hi = 65535, .bin_ms = 100, .drain_ms = 1000 };
	int ret = EXIT_FAILURE, words;

	a.set = calloc(argc, sizeof(*a.set));
	a.links = calloc(argc, sizeof(*a.links));
	if (!a.set || !a.links) {
		fail("out of memory");
		goto cleanup;
	}
	ret = parse(&a, NULL, argc, argv);
	if (ret >= 0)
		goto cleanup;
	ret = EXIT_USAGE;
	argc -= optind;
	argv += optind;
	for (size_t i = 0; argc > 0 && i < NR_COMMANDS; i++)
		if (!strcmp(argv[0], commands[i].name))
			c = &commands[i];
	if (!c) {
		fail(argc > 0 ? "unknown command %s; see asymcc --help"
			      : "no command given; see asymcc --help", argc > 0 ? argv[0] : "");
		goto cleanup;
	}
	ret = parse(&a, c, argc, argv);
	if (ret >= 0)
		goto cleanup;
	ret = EXIT_USAGE;
	words = argc - optind;
	if (words != c->takes_name) {
		fail(c->takes_name ? "%s takes one NAME; see asymcc %s --help"
				   : "%s takes no name; see asymcc %s --help", c->name, c->name);
		goto cleanup;
	}
	a.name = c->takes_name ? argv[optind] : NULL;
	object_messages(a.verbose);
	ret = c->run(&a) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (ret == EXIT_SUCCESS && (fflush(stdout) || ferror(stdout))) {
		fail("cannot write the output: %s", strerror(errno));
		ret = EXIT_FAILURE;
	}
cleanup:
	free(a.set);
	free(a.links);
	return ret;
}
