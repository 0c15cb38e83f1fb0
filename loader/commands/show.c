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

static struct {
	const char *name, *cgroup, *dev;
	bool json;
} args;

/* Values are in `data` for those that are live, else in `rest`. */
static void show_vars(const char *title, const struct vars *vars, const void *data, const void *rest, bool params)
{
	if (args.json)
		printf(",\n \"%s\": [", title);
	else if (vars->nr)
		printf("%s:\n", title);
	for (int i = 0; i < vars->nr; i++) {
		const struct var *v = &vars->var[i];
		long long value = var_get(v, v->live ? data : rest);

		if (args.json) {
			printf("%s\n  {\"name\": %s, \"value\": %lld", i ? "," : "", json_text(v->name), value);
			if (params)
				printf(", \"min\": %lld, \"max\": %lld, \"live\": %s, \"declared\": %s, "
				       "\"unit\": %s",
				       v->min, v->max, v->live ? "true" : "false", v->declared ? "true" : "false",
				       json_text(v->unit));
			printf(", \"doc\": %s}", json_text(v->doc));
		} else if (params) {
			printf("  %-16s %10lld %-8s %s %s [%lld..%lld]\n", v->name, value,
			       strcmp(v->unit, "-") ? v->unit : "", v->live ? "live" : "    ", v->doc, v->min, v->max);
		} else {
			printf("  %-16s %10lld %-8s %s\n", v->name, value, "", v->doc);
		}
	}
	if (args.json)
		printf("]");
}

static void show_presets(const struct btf *btf)
{
	struct preset preset;

	if (args.json)
		printf(",\n \"presets\": [");
	for (int i = 0; preset_read(&preset, btf, i); i++) {
		if (args.json) {
			printf("%s\n  {\"name\": %s, \"values\": %s, \"doc\": %s}", i ? "," : "",
			       json_text(preset.name), json_text(preset.values), json_text(preset.doc));
		} else {
			printf("%s  %-16s %s: %s\n", i ? "" : "presets:\n", preset.name, preset.values, preset.doc);
		}
	}
	if (args.json)
		printf("]");
}

static void show_note(const struct btf *btf)
{
	const char *note = btf ? note_read(btf) : NULL;

	if (args.json)
		printf(",\n \"note\": %s", json_text(note));
	else if (note)
		printf("note: %s\n", note);
}

static void show_needs(const struct btf *btf)
{
	struct needs needs;
	bool given = btf && needs_read(&needs, btf);

	if (args.json && given)
		printf(",\n \"needs\": {\"linux\": \"%u.%u\", \"for\": %s}", needs.major, needs.minor,
		       json_text(needs.what));
	else if (args.json)
		printf(",\n \"needs\": null");
	else if (given)
		printf("needs Linux %u.%u or later: %s\n", needs.major, needs.minor, needs.what);
}

static void show_l4s(bool l4s)
{
	if (args.json)
		printf(",\n \"l4s\": %s", l4s ? "true" : "false");
	else if (l4s)
		printf("L4S: it asks that its packets leave as ECT(1)\n");
}

/* For programs only: how to decode a trace of the private state. */
static int show_state(const struct btf *btf)
{
	struct vars state = {};
	int err;

	if (!args.json)
		return 0;
	err = btf ? vars_read_state(&state, btf) : 0;
	printf(",\n \"state\": [");
	for (int i = 0; i < state.nr; i++)
		printf("%s\n  {\"name\": %s, \"offset\": %u, \"bytes\": %u, \"signed\": %s}", i ? "," : "",
		       json_text(state.var[i].name), state.var[i].offset, state.var[i].size,
		       state.var[i].is_signed ? "true" : "false");
	puts("]}");
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

	if (args.json)
		printf(",\n \"programs\": [");
	while (btf_id && (found = registry_program(btf_id, &id, &info)) > 0) {
		if (args.json)
			printf("%s\n  {\"id\": %u, \"name\": %s, \"type\": %s, \"insns\": %u, "
			       "\"verified_insns\": %u, \"jited_bytes\": %u}",
			       nr ? "," : "", id, json_text(info.name), json_text(libbpf_bpf_prog_type_str(info.type)),
			       info.xlated_prog_len / 8, info.verified_insns, info.jited_prog_len);
		nr++;
		insns += info.xlated_prog_len / 8;
		verified += info.verified_insns;
	}
	if (found < 0)
		return -1;
	if (args.json)
		printf("]");
	else if (nr)
		printf("programs: %u, of %llu instructions; the verifier looked at %llu\n", nr, insns, verified);
	return 0;
}

static void show_head(const char *name, const char *object, const struct registered *reg)
{
	if (args.json) {
		printf("{\"name\": %s, \"object\": %s, \"registered\": %s, \"map_id\": ", json_text(name),
		       json_text(object), reg ? "true" : "false");
		printf(reg && reg->map_id ? "%u" : "null", reg ? reg->map_id : 0);
		printf(", \"unloading\": %s", reg && reg->unloading ? "true" : "false");
	} else if (reg && !reg->map_id) {
		printf("%s: drops ACKs that senders do not need\n", args.name);
	} else if (reg) {
		printf("%s: %s as struct_ops map %u, from object %s\n", args.name,
		       reg->unloading ? "unloading, kept by its users," : "registered", reg->map_id, object);
	} else if (strcmp(name, object)) {
		printf("%s: registers as %s; its defaults:\n", object, name);
	} else {
		printf("%s: not registered; the defaults of its object:\n", name);
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
		fputs(sep, stdout);
		print_name(stdout, cgroup);
		sep = ", ";
	}
	puts(*sep ? "" : "-");
}

/* Where each program is; `o` NULL: the object is not built here. */
static int show_cgroups(const struct registered *reg, const struct object *o, const struct attachments *all)
{
	__u32 btf_id = reg ? reg->btf_id : 0;
	const char **names = attachments_programs(o, all, btf_id);
	int i = 0;

	if (!names)
		return fail("out of memory");
	if (args.json) {
		attachments_json(all, btf_id, NULL);
		printf(", \"cgroup_programs\": [");
	} else if (*names) {
		puts(!reg ? "cgroup programs:"
		     : attachments_cgroup(all, btf_id, NULL, &i)
			     ? "programs of a cgroup or a device, and where they are:"
			     : "cgroup programs (not attached: only the sender is in place):");
	}
	for (const char **n = names; *n; n++) {
		if (args.json)
			printf("%s%s", n == names ? "" : ", ", json_text(*n));
		else
			print_program(all, btf_id, *n);
	}
	if (args.json)
		printf("]");
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
	}
	btf__free(btf);
	params_free(&params);
	section_free(&counters);
	return err;
}

static int open_built(struct object *o)
{
	return strcmp(args.name, THIN) ? object_open_controller(o, args.name, NULL) : object_open(o, THIN);
}

static int show_built(const struct object *o, struct attachments *all)
{
	struct vars none = {};

	attachments_keep(all, args.name, NULL);
	show_head(is_file(args.name) ? o->ops_name : args.name, args.name, NULL);
	if (show_cgroups(NULL, o, all))
		return -1;
	show_note(o->btf);
	show_needs(o->btf);
	show_l4s(o->l4s);
	show_vars("parameters", &o->params, o->data, o->rodata, true);
	show_presets(o->btf);
	show_vars("counters", &none, NULL, NULL, false);
	return show_programs(0) || show_state(o->btf) ? -1 : 0;
}

/* `asymcc thin`, which registers nothing. 0: no ACKs are thinned. */
static int find_thin(struct attachments *all, const struct registered **reg)
{
	static struct registered thin = { .name = THIN, .object = THIN };
	char path[PATH_MAX];
	struct thinning t, more;
	int i = 0, err = args.cgroup ? cgroup_path_parse(path, args.cgroup) : 0;

	if (err)
		return fail("--cgroup %s: %s", args.cgroup, strerror(-err));
	if (args.dev)
		snprintf(path, sizeof(path), ON_DEVICE "%s", args.dev);
	attachments_keep(all, THIN, args.cgroup || args.dev ? path : NULL);
	if (!thinning_next(all, &i, &t) && (args.cgroup || args.dev))
		return fail("%s: no ACKs are thinned there", thinning_option(path));
	if (!t.cgroup)
		return 0;
	if (thinning_next(all, &i, &more))
		return fail("ACKs are thinned in several %s: choose one with --cgroup or --dev, such as %s",
			    is_on_device(more.cgroup) ? "places" : "cgroups", thinning_option(t.cgroup));
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

	if ((args.cgroup || args.dev) && strcmp(args.name, THIN))
		return fail("%s: only `asymcc show " THIN "` takes it", args.dev ? "--dev" : "--cgroup");
	if (args.cgroup && args.dev)
		return fail("--dev %s: ACKs are thinned in a cgroup or on a device: one at a time", args.dev);
	if (is_file(args.name)) {
		err = object_open_controller(&o, args.name, NULL) || show_built(&o, &all) ? -1 : 0;
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
		err = open_built(&o) ? -1 : show_built(&o, &all);
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
