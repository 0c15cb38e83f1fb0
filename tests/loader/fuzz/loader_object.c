// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: what asymcc itself reads of an object's sections and types. libbpf's reading is not ours to mend: a child process holds it. */
#include "args.c"
#include "kernel/clock.c"
#include "kernel/process.c"
#include "object/elf.c"
#include "kernel/hook.c"
#include "kernel/bpf_link.c"
#include "object/object.c"
#include "object/struct_ops.c"
#include "kernel/registry.c"
#include "view/text.c"
#include "object/variables.c"
#include "object/verifier.c"

int controller_available(const char *cc)
{
	(void)cc; /* nothing is registered here */
	return 0;
}

static void *copy_of(void *image, size_t size, const char *section, size_t *bytes)
{
	const void *data = elf_section(image, size, section, bytes);
	void *copy = data ? malloc(*bytes ? *bytes : 1) : NULL; /* a step too far is seen */

	return copy ? memcpy(copy, data, *bytes) : NULL;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct object o = { .image = malloc(size ? size : 1), .size = size };
	volatile size_t presets = 0;
	struct preset preset;
	struct vars state = {};
	size_t bytes = 0;
	struct ops ops;
	void *types;
	int id;

	memcpy(o.image, data, size);
	object_settings(NULL, false);
	types = copy_of(o.image, size, ".BTF", &bytes);
	o.btf = types ? btf__new(types, bytes) : NULL;
	o.rodata = copy_of(o.image, size, ".rodata", &o.rodata_size);
	o.data = copy_of(o.image, size, ".data", &o.data_size);
	if (!libbpf_get_error(o.btf) && o.btf) {
		struct registry r = { .kernel = (struct btf *)o.btf };

		id = btf__find_by_name_kind(o.btf, "tcp_congestion_ops", BTF_KIND_STRUCT);
		if (id >= 0) {
			r.ops = btf__type_by_id(o.btf, id);
			registry_missing(&r, o.btf, r.ops);
			registry_rename(&r, o.btf, r.ops);
		}
		if (!vars_read(&o.params, o.btf, ".data") && !vars_read(&o.params, o.btf, ".rodata") && !check_params(&o, "fuzz"))
			for (int i = 0; i < o.params.nr; i++)
				var_set(&o.params.var[i], o.params.var[i].live ? o.data : o.rodata, object_get(&o, &o.params.var[i]));
		object_write_name(&o, "asymcc_name", "fuzz");
		for (int i = 0; preset_read(&preset, o.btf, i); i++)
			presets += strlen(preset.name) + strlen(preset.doc) + strlen(preset.values);
		vars_read_state(&state, o.btf);
		vars_free(&state);
		btf__free((struct btf *)o.btf);
	}
	if (!ops_find(&ops, o.image, size, "fuzz", "")) {
		snprintf(o.ops_name, sizeof(o.ops_name), "%.15s", ops.name);
		for (unsigned int i = 0; i < 64; i++)
			presets += elf_refers(o.image, size, &ops.symbol, i);
		ops_check_programs(&ops, o.image, size, "fuzz");
		ops_settle(&ops, o.image, size, "fuzz");
	}
	vars_free(&o.params);
	free(types);
	free(o.rodata);
	free(o.data);
	free(o.image);
	return 0;
}
