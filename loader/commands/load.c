// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "kernel/cgroup_programs.h"
#include "command.h"
#include "uses/default.h"
#include "object/struct_ops.h"
#include "kernel/registry.h"
#include "uses/state.h"
#include "object/verifier.h"

static struct {
	const char *name, *alias, *preset;
	struct texts set, cgroups;
	bool replace;
} args;

/* A load under way. */
struct load {
	struct object o;
	struct registry registry;
	const struct registered *old;     /* the one that gives way; NULL: there is none */
	struct attachments old_programs;  /* of its object */
	struct cgroup_programs programs;
	struct preset preset;
	bool renamed;                     /* by registry_rename() */
};

/* A program for the arguments of older kernels takes a number for a pointer. */
static const char *remedy(void)
{
	if (!strstr(verifier_verdict(), "invalid mem access 'scalar'"))
		return "";
	return "; from Linux 6.10 on cong_control is called with sk, ack, flag and rs";
}

/* "fast registered (alpha=500 packets), with programs in /sys/fs/cgroup" */
static void print_registered(const struct load *l)
{
	const struct object *o = &l->o;
	const char *sep = " (";

	printf("%s registered", o->ops_name);
	for (int i = 0; i < o->params.nr; i++) {
		const struct var *v = &o->params.var[i];
		bool changed = false;

		for (int k = 0; k < args.set.nr; k++)
			changed |= vars_find(&o->params, args.set.text[k], strcspn(args.set.text[k], "=")) == v;
		if (!changed)
			continue;
		printf("%s%s=%lld", sep, v->name, object_get(o, v));
		if (strcmp(v->unit, "-"))
			printf(" %s", v->unit);
		sep = ", ";
	}
	if (*sep == ',')
		putchar(')');
	if (l->programs.nr)
		printf(", with programs in %s", printable(l->programs.cgroup));
	putchar('\n');
}

/* The parts of another loader's object that asymcc leaves out. */
static void print_left_out(const struct object *o)
{
	const char *sep =
		"note: asymcc runs a controller and programs of sockops and cgroup_skb that have asymcc_name; "
		"left out: ";
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf) {
		if (bpf_program__autoload(p) || bpf_program__type(p) == BPF_PROG_TYPE_STRUCT_OPS)
			continue;
		printf("%s%s", sep, printable(bpf_program__name(p)));
		sep = ", ";
	}
	if (*sep == ',')
		putchar('\n');
}

static int fail_preset(const struct object *o)
{
	char list[512] = "none";
	struct preset preset;
	size_t n = 0;

	for (int i = 0; preset_read(&preset, o->btf, i) && n < sizeof(list) - 80; i++)
		n += snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", preset.name);
	return fail("--preset %s: %s has no such preset; it has: %s", args.preset, args.name, list);
}

/* Its values are taken first, so that those of --set win. */
static int take_preset(struct load *l)
{
	struct texts set = {};
	char *rest;
	int err = 0, i = 0;

	if (!args.preset)
		return 0;
	do {
		if (!preset_read(&l->preset, l->o.btf, i++))
			return fail_preset(&l->o);
	} while (strcmp(l->preset.name, args.preset));
	for (char *word = strtok_r(l->preset.values, " ", &rest); word && !err; word = strtok_r(NULL, " ", &rest))
		err = texts_add(&set, word);
	for (i = 0; i < args.set.nr && !err; i++)
		err = texts_add(&set, args.set.text[i]);
	args.set = set;
	return err;
}

static int take_values(struct load *l)
{
	int err = 0;

	for (int i = 0; i < args.set.nr && !err; i++)
		err = object_set(&l->o, args.set.text[i]);
	return err;
}

/* Whether something has the name already. */
static int check_name(struct load *l)
{
	if (registry_read(&l->registry))
		return -1;
	l->old = registry_find(&l->registry, l->o.ops_name);
	if (l->old && l->old->unloading)
		l->old = NULL;
	return 0;
}

/* Its programs go into the cgroup named, or that of the one that is replaced. */
static int check_cgroup(struct load *l)
{
	const char *path;
	int i = 0;

	if (l->old && attachments_read(&l->old_programs))
		return -1;
	attachments_keep(&l->old_programs, l->o.ops_name, NULL);
	path = args.cgroups.nr ? args.cgroups.text[0] : attachments_cgroup(&l->old_programs, 0, NULL, &i);
	return cgroup_programs_open(&l->programs, &l->o, path) ||
			       cgroup_programs_check(&l->programs, &l->o, &l->old_programs)
		       ? -1
		       : 0;
}

static int load_renamed(struct load *l);

/* The kernel has refused the object. 0: it has taken it by other names of members. */
static int load_refused(struct load *l, int err)
{
	const struct object *o = &l->o;
	const char *missing;

	if (object_fails_needs(o))
		return -1;
	if (err == -EPERM && !verifier_verdict())
		return fail("cannot load %s: not permitted: run it as root (it needs CAP_SYS_ADMIN, CAP_BPF, "
			    "CAP_PERFMON and CAP_NET_ADMIN)",
			    o->ops_name);
	if (verifier_verdict())
		return fail("cannot load %s: the kernel's verifier rejects %s (-v shows its log)%s", o->ops_name,
			    verifier_verdict(), remedy());
	if (registry_layout_once(&l->registry))
		return -1;
	if (!l->renamed && registry_rename(&l->registry, o->btf, o->type))
		return load_renamed(l);
	missing = registry_missing(&l->registry, o->btf, o->type);
	if (missing)
		return fail("cannot load %s: it sets tcp_congestion_ops.%s, which this kernel lacks", o->ops_name,
			    missing);
	return fail("cannot load %s: %s: %s", o->ops_name, registry_load_error(err), libbpf_complaint());
}

/* Anew, as libbpf loads what it has opened once. */
static int load_renamed(struct load *l)
{
	int err;

	l->renamed = true;
	cgroup_programs_close(&l->programs);
	l->programs = (struct cgroup_programs)CGROUP_PROGRAMS_NOWHERE;
	attachments_free(&l->old_programs);
	object_close(&l->o);
	libbpf_complaint_forget();
	if (object_open_controller(&l->o, args.name, args.alias))
		return -1;
	registry_rename(&l->registry, l->o.btf, l->o.type);
	if (take_values(l) || check_cgroup(l))
		return -1;
	err = registry_load(l->o.bpf);
	return err ? load_refused(l, err) : 0;
}

/* Loading twice is no error: the name may already have just what would be put in. */
static int check_same(const struct load *l)
{
	const char *name = l->o.ops_name;
	struct params there = {};
	struct bpf_program *p;
	char how[PATH_MAX + 40] = "";
	int same = registry_same_programs(l->o.bpf, l->old->btf_id);

	if (same < 0 || params_read(&there, l->old->btf_id))
		return -1;
	if (!same)
		snprintf(how, sizeof(how), "from another object or build");
	for (int i = 0; i < l->o.params.nr && !*how; i++) {
		const struct var *v = &l->o.params.var[i], *old = vars_find(&there.vars, v->name, strlen(v->name));
		long long is = old ? var_get(old, old->live ? there.data.bytes : there.rodata.bytes) : 0;

		if (is != object_get(&l->o, v))
			snprintf(how, sizeof(how), "with %s=%lld, not %lld", v->name, is, object_get(&l->o, v));
	}
	bpf_object__for_each_program(p, l->o.bpf)
		if (!*how && hook_of(p) &&
		    !attachments_has(&l->old_programs, l->old->btf_id, l->programs.cgroup, bpf_program__name(p)))
			snprintf(how, sizeof(how), "without its programs in %s", l->programs.cgroup);
	params_free(&there);
	if (*how)
		return fail("%s is registered already (struct_ops map %u), %s: `asymcc unload %s` first, put this one "
			    "in its place with --replace, or choose another name with --as",
			    name, l->old->map_id, how, name);
	printf("%s is registered already\n", name);
	return 0;
}

/* It comes before its programs are detached, as it can be refused; killed after it, we leave what `unload` finds. */
static int take_out_old(struct load *l)
{
	const char *file = state_replacing(l->o.ops_name);
	struct record object = {};

	snprintf(object.what, CC_NAME_LEN, "%s", bpf_object__name(l->o.bpf));
	if (state_write(file, &object))
		return -1;
	if (!registry_remove(l->old))
		return 0;
	state_remove(file);
	return -1;
}

/* Before it is registered: `status` tells where it is from. */
static int remember_file(const struct object *o)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	char id[CC_NAME_LEN];

	if (bpf_obj_get_info_by_fd(bpf_map__fd(o->ops), &info, &len))
		return fail("cannot load %s: cannot read its struct_ops: %s", o->ops_name, strerror(errno));
	snprintf(id, sizeof(id), "%u", info.id);
	return state_write_text(state_loaded(o->ops_name), id, o->path);
}

/* The new one has passed the verifier, and all checks: what is there gives way. */
static int put_in(struct load *l)
{
	if (remember_file(&l->o) || (l->old && take_out_old(l)))
		return -1;
	if (!attachments_detach(&l->old_programs) && !cgroup_programs_attach(&l->programs, &l->o)) {
		if (!object_register(&l->o))
			return 0;
		cgroup_programs_detach(&l->programs, &l->o);
	}
	if (l->old)
		fail("%s is out, and the new one is not in: load it again", l->o.ops_name);
	return -1;
}

static int load_locked(struct load *l)
{
	int err;

	if (take_preset(l) || take_values(l) || check_name(l) || check_cgroup(l))
		return -1;
	ops_wake_modules(l->o.image, l->o.size);
	err = registry_load(l->o.bpf);
	if (err && load_refused(l, err))
		return -1;
	if (l->old && !args.replace) {
		if (check_same(l))
			return -1;
	} else {
		if (put_in(l))
			return -1;
		print_registered(l);
	}
	note_print(l->o.btf);
	print_left_out(&l->o);
	/* also if an earlier one left it */
	return defaults_renew(l->o.ops_name) || state_remove(state_replacing(l->o.ops_name)) ? -1 : 0;
}

static int load(void)
{
	struct load l = { .programs = CGROUP_PROGRAMS_NOWHERE };
	int err = -1;

	if (args.cgroups.nr > 1)
		return fail("--cgroup %s: load takes one cgroup", args.cgroups.text[1]);
	if (!object_open_controller(&l.o, args.name, args.alias) && !object_check_name(&l.o, args.name) &&
	    !state_lock())
		err = load_locked(&l);
	state_unlock();
	cgroup_programs_close(&l.programs);
	attachments_free(&l.old_programs);
	object_close(&l.o);
	registry_free(&l.registry);
	return err;
}

static const struct opt words[] = { { .arg = "CONTROLLER", .controller = &args.name }, {} };
static const struct opt opts[] = {
	{ "as", 'a', "ALIAS", "register under this name; instances may differ in parameters", .cc = &args.alias },
	{ "set", 's', "PARAM=VALUE", "change a parameter (`asymcc show NAME` lists them); repeatable",
	  .texts = &args.set },
	{ "preset", 'p', "LINK", "values for a kind of link (`asymcc show NAME` lists them); --set wins over them",
	  .text = &args.preset },
	{ "cgroup", 'c', "PATH", "whose connections an object's cgroup programs serve (else the root's: all)",
	  .texts = &args.cgroups },
	{ "replace", 'R', NULL, "in place of the one that is registered", .flag = &args.replace },
	{}
};

const struct command cmd_load = {
	.name = "load",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = load,
	.summary = "load a controller's object and register it",
	.about =
		"CONTROLLER is the name of one that is installed, or the path of anybody's object: ./mine.bpf.o. If an "
		"object has several, NAME behind a colon chooses: ./mine.bpf.o:NAME.\n"
		"From then on every user's program may choose it for its own connections, as it is in "
		"net.ipv4.tcp_allowed_congestion_control; no other has it before `use`, or the like, gives it to them.\n"
		"One that is registered already, with the same values, stays.\n"
		"With --replace, one of that name that is loaded gives way to the new one: connections that run it "
		"keep its program and values, new ones get the new. Its values are the defaults and those of --set, "
		"not the replaced one's.",
};
