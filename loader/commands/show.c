// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "kernel/attachments.h"
#include "kernel/cgroup.h"
#include "command.h"
#include "kernel/registry.h"
#include "kernel/device.h"
#include "uses/thinning.h"
#include "view/output.h"

static struct {
	const char *name, *cgroup, *dev;
	bool json;
} args;

/* Values are in `data` for those that are live, else in `rest`. */
static void show_vars(const char *title, const struct vars *vars, const void *data, const void *rest, bool params)
{
	member_break("\n ");
	list_begin(title, "\n  ", "");
	if (vars->nr)
		print("%s:\n", title);
	for (const struct var *v = vars->var; v < vars->var + vars->nr; v++) {
		long long value = var_get(v, v->live ? data : rest);

		object_begin(NULL, "", "");
		members(text_of("name", v->name), integer_of("value", value));
		print("  %-16s %10lld %-8s ", v->name, value, params && strcmp(v->unit, "-") ? v->unit : "");
		if (params) {
			members(integer_of("min", v->min), integer_of("max", v->max), flag_of("live", v->live),
				flag_of("declared", v->declared), text_of("unit", v->unit));
			print("%s ", v->live ? "live" : "    ");
		}
		members(text_of("doc", v->doc));
		print("%s", v->doc);
		if (params)
			print(" [%lld..%lld]", v->min, v->max);
		level_end();
		print("\n");
	}
	level_end();
}

static void show_presets(const struct btf *btf)
{
	struct preset preset;

	member_break("\n ");
	list_begin("presets", "\n  ", "");
	for (int i = 0; preset_read(&preset, btf, i); i++) {
		object(text_of("name", preset.name), text_of("values", preset.values), text_of("doc", preset.doc));
		print("%s  %-16s %s: %s\n", i ? "" : "presets:\n", preset.name, preset.values, preset.doc);
	}
	level_end();
}

static void show_note(const struct btf *btf)
{
	const char *note = btf ? note_read(btf) : NULL;

	member_break("\n ");
	members(text_of("note", note));
	if (note)
		print("note: %s\n", note);
}

static void show_needs(const struct btf *btf)
{
	struct needs needs;
	char linux_version[24];

	member_break("\n ");
	if (!btf || !needs_read(&needs, btf)) {
		members(text_of("needs", NULL));
		return;
	}
	snprintf(linux_version, sizeof(linux_version), "%u.%u", needs.major, needs.minor);
	object_begin("needs", "", "");
	members(text_of("linux", linux_version), text_of("for", needs.what));
	level_end();
	print("needs Linux %s or later: %s\n", linux_version, needs.what);
}

static void show_l4s(bool l4s)
{
	member_break("\n ");
	members(flag_of("l4s", l4s));
	if (l4s)
		print("L4S: it asks that its packets leave as ECT(1)\n");
}

/* For programs only: how to decode a trace of the private state. */
static int show_state(const struct btf *btf)
{
	struct vars state = {};
	int err = btf && output_is_json() ? vars_read_state(&state, btf) : 0;

	member_break("\n ");
	list_begin("state", "\n  ", "");
	for (const struct var *v = state.var; v < state.var + state.nr; v++) {
		object(text_of("name", v->name), integer_of("offset", v->offset), integer_of("bytes", v->size),
		       flag_of("signed", v->is_signed));
	}
	level_end();
	vars_free(&state);
	return err;
}

/* The programs of a load: their size, and how much the verifier had to look at. */
static int show_programs(__u32 btf_id)
{
	unsigned long long insns = 0, verified = 0;
	struct bpf_prog_info info;
	__u32 id = 0, nr = 0;
	int found = 0;

	member_break("\n ");
	list_begin("programs", "\n  ", "");
	while (btf_id && (found = registry_program(btf_id, &id, &info)) > 0) {
		object(integer_of("id", id), text_of("name", info.name),
		       text_of("type", libbpf_bpf_prog_type_str(info.type)),
		       integer_of("insns", info.xlated_prog_len / 8), integer_of("verified_insns", info.verified_insns),
		       integer_of("jited_bytes", info.jited_prog_len));
		nr++;
		insns += info.xlated_prog_len / 8;
		verified += info.verified_insns;
	}
	level_end();
	if (nr)
		print("programs: %u, of %llu instructions; the verifier looked at %llu\n", nr, insns, verified);
	return found < 0 ? -1 : 0;
}

/* All that is shown is in its object. */
static void show_head(const char *name, const char *object, const struct registered *reg)
{
	object_begin(NULL, "", "");
	members(text_of("name", name), text_of("object", object), flag_of("registered", reg),
		integer_if("map_id", reg && reg->map_id, reg ? reg->map_id : 0),
		flag_of("unloading", reg && reg->unloading));
	if (reg && !reg->map_id)
		print("%s: drops ACKs that senders do not need\n", args.name);
	else if (reg)
		print("%s: %s as struct_ops map %u, from object %s\n", args.name,
		      reg->unloading ? "unloading, kept by its users," : "registered", reg->map_id, object);
	else if (strcmp(name, object) && strcmp(name, THIN))
		print("%s: registers as %s; its defaults:\n", object, name);
	else
		print("%s: not registered; the defaults of its object:\n", name);
}

/* "  name             /sys/fs/cgroup/a, /sys/fs/cgroup/b" */
static void print_program(const struct attachments *all, __u32 btf_id, const char *prog)
{
	const char *cgroup, *sep = "";
	int i = 0;

	print("  %-16s ", prog);
	while ((cgroup = attachments_cgroup(all, btf_id, NULL, &i))) {
		if (!attachments_has(all, btf_id, cgroup, prog))
			continue;
		print("%s%s", sep, printable(cgroup));
		sep = ", ";
	}
	print(*sep ? "\n" : "-\n");
}

/* The places of each program; `o` NULL: the object is not built here. */
static int show_cgroups(const struct registered *reg, const struct object *o, const struct attachments *all)
{
	__u32 btf_id = reg ? reg->btf_id : 0;
	const char **names = attachments_programs(o, all, btf_id);
	int i = 0;

	if (!names)
		return fail("out of memory");
	if (output_is_json())
		attachments_print(all, btf_id, NULL, "");
	list_begin("cgroup_programs", "", "");
	if (*names)
		print("%s\n",
		      !reg ? "cgroup programs:"
		      : attachments_cgroup(all, btf_id, NULL, &i)
			      ? "programs of a cgroup or a device, and where they are:"
			      : "cgroup programs (not attached: only the sender is in place):");
	for (const char **n = names; *n; n++) {
		members(text_of(NULL, *n));
		print_program(all, btf_id, *n);
	}
	level_end();
	free(names);
	return 0;
}

/* `o` NULL: the object is not built here. */
static int show_registered(const struct registered *reg, const struct object *o, const struct attachments *all)
{
	struct section counters = {};
	struct params params = {};
	struct btf *btf = btf__load_from_kernel_by_id(reg->btf_id);
	int err = 0;

	if (reg->btf_id && !btf)
		err = fail("cannot read BTF %u: %s", reg->btf_id, strerror(errno));
	if (!err && !params_read(&params, reg->btf_id) && !section_read(&counters, reg->btf_id, ".bss")) {
		show_head(args.name, reg->object, reg);
		err = show_cgroups(reg, o, all);
	} else {
		err = -1;
	}
	if (!err) {
		show_note(btf);
		show_needs(btf);
		show_l4s(reg->l4s);
		show_vars("parameters", &params.vars, params.data.bytes, params.rodata.bytes, true);
		show_presets(btf);
		show_vars("counters", &counters.vars, NULL, counters.bytes, false);
		err = show_programs(reg->btf_id) || show_state(btf) ? -1 : 0;
		level_end();
	}
	btf__free(btf);
	params_free(&params);
	section_free(&counters);
	return err;
}

/* The object of `asymcc thin`, by its name or its file, has no controller. */
static int open_object(struct object *o)
{
	const char *slash = strrchr(args.name, '/'), *base = slash ? slash + 1 : args.name;

	if (!strcmp(args.name, THIN) || !strcmp(base, THIN ".bpf.o"))
		return object_open(o, args.name);
	return object_open_controller(o, args.name, NULL);
}

static int show_built(const struct object *o, struct attachments *all)
{
	const char *name = *o->ops_name ? o->ops_name : THIN;
	struct vars none = {};

	attachments_keep(all, args.name, NULL);
	show_head(is_file(args.name) ? name : args.name, args.name, NULL);
	if (show_cgroups(NULL, o, all))
		return -1;
	show_note(o->btf);
	show_needs(o->btf);
	show_l4s(o->l4s);
	show_vars("parameters", &o->params, o->data, o->rodata, true);
	show_presets(o->btf);
	show_vars("counters", &none, NULL, NULL, false);
	if (show_programs(0) || show_state(o->btf))
		return -1;
	level_end();
	return 0;
}

/* How many there are; one that is not in another network namespace goes first. */
static int count_thin(const struct attachments *all, struct thinning *first)
{
	struct thinning t;
	int i = 0, nr = 0;

	for (; thinning_next(all, &i, &t); nr++)
		if (!nr || (first->at->netns && !first->at->netns->own && (!t.at->netns || t.at->netns->own)))
			*first = t;
	return nr;
}

/* `asymcc thin`, which registers nothing. 0: no ACKs are thinned. */
static int find_thin(struct attachments *all, const struct registered **reg)
{
	static struct registered thin = { .name = THIN, .object = THIN };
	char path[PATH_MAX], there[PATH_MAX] = "";
	struct thinning t, elsewhere;
	int nr, err = args.cgroup ? cgroup_path_parse(path, args.cgroup) : 0;

	if (err)
		return fail("--cgroup %s: %s", args.cgroup, strerror(-err));
	if (args.dev)
		device_place(path, args.dev);
	if (args.dev && thinning_elsewhere(all, path + strlen(ON_DEVICE), &elsewhere))
		snprintf(there, sizeof(there), ", but at %s: `%s`", elsewhere.cgroup,
			 thinning_command(&elsewhere, "show " THIN));
	attachments_keep(all, THIN, args.cgroup || args.dev ? path : NULL);
	nr = count_thin(all, &t);
	if (!nr && args.cgroup)
		return fail("--cgroup %s: no ACKs are thinned there", path);
	if (!nr && args.dev)
		return fail("--dev %s: no ACKs are thinned there%s", path + strlen(ON_DEVICE), there);
	if (nr > 1)
		return fail("ACKs are thinned in several places: choose one with --cgroup or --dev, such as `%s`",
			    thinning_command(&t, "show " THIN));
	if (!nr)
		return 0;
	thin.btf_id = t.btf_id;
	*reg = &thin;
	return 0;
}

static int show(void)
{
	const struct registered *reg = NULL;
	struct attachments all = {};
	struct registry r = {};
	struct object o = {};
	int err;

	output_json(args.json);
	if ((args.cgroup || args.dev) && strcmp(args.name, THIN))
		return fail("%s: only `asymcc show " THIN "` takes it", args.dev ? "--dev" : "--cgroup");
	if (args.cgroup && args.dev)
		return fail("--dev %s: ACKs are thinned in a cgroup or on a device: one at a time", args.dev);
	if (is_file(args.name)) {
		err = open_object(&o) || show_built(&o, &all) ? -1 : 0;
		object_close(&o);
		return err;
	}
	err = registry_read(&r) || attachments_read(&all) ? -1 : 0;
	if (!err)
		reg = registry_find(&r, args.name);
	if (!err && !reg && !strcmp(args.name, THIN))
		err = find_thin(&all, &reg);
	if (reg)
		err = show_registered(reg, object_open_if_built(&o, reg->object) ? &o : NULL, &all);
	else if (!err)
		err = open_object(&o) ? -1 : show_built(&o, &all);
	object_close(&o);
	attachments_free(&all);
	registry_free(&r);
	return err;
}

static const struct opt words[] = { { .arg = "CONTROLLER", .controller = &args.name }, {} };
static const struct opt opts[] = {
	OPT_JSON(&args.json),
	{ "cgroup", 'c', "PATH", "of the cgroups whose ACKs are thinned, this one: `show thin` only",
	  .text = &args.cgroup },
	{ "dev", 'd', "DEVICE", "of the devices by which thinned ACKs leave, this one: `show thin` only",
	  .text = &args.dev },
	{}
};

const struct command cmd_show = {
	.name = "show",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = show,
	.summary = "parameters, counters and programs of a controller",
	.about =
		"CONTROLLER is a name, or the path of an object, as with `load`: of a file its defaults are shown, and "
		"anybody may do so.\n"
		"Parameters marked \"live\" can be changed by `set`. Presets are values for a kind of link: `load --preset`.",
};
