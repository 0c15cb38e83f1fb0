// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <bpf/btf.h>

#include "kernel/hook.h"
#include "object/struct_ops.h"
#include "object/variables.h"

#define STRUCT "tcp_congestion_ops"
#define OPS_MAX 32 /* of an object */

bool ops_are_in(void *image, size_t size)
{
	size_t bytes;

	/* an ELF file has a section without a name */
	return !elf_section(image, size, "", &bytes) || elf_section(image, size, OPS_SECTION, &bytes) ||
	       elf_section(image, size, LINK_SECTION, &bytes);
}

/* The type of a variable; NULL: there is none of that name. */
static const struct btf_type *type_of(const struct btf *btf, const char *variable)
{
	int id = btf__find_by_name_kind(btf, variable, BTF_KIND_VAR);
	const struct btf_type *t = id < 0 ? NULL : btf__type_by_id(btf, id);

	return t ? btf_plain_type(btf, t->type) : NULL;
}

/* Its flags; 0: its type has none. */
static __u32 flags_of(const struct elf_symbol *s, const struct btf *btf, const struct btf_type *t)
{
	const struct btf_member *m = btf_member_find(btf, t, "flags");
	__u32 flags = 0;

	if (m && s->bytes >= sizeof(flags) && m->offset / 8 <= s->bytes - sizeof(flags))
		memcpy(&flags, s->value + m->offset / 8, sizeof(flags));
	return flags;
}

/* Is the symbol a controller? */
static bool is_ops(struct ops *ops, const struct elf_symbol *s, const struct btf *btf)
{
	const struct btf_type *t;
	const struct btf_member *m;

	if (!s->name || !s->section || !s->bytes ||
	    (strcmp(s->section, OPS_SECTION) && strcmp(s->section, LINK_SECTION)))
		return false;
	t = type_of(btf, s->name);
	if (!t || !btf_is_struct(t) || strcmp(btf_text(btf, t->name_off), STRUCT))
		return false;
	m = btf_member_find(btf, t, "name");
	if (!m || s->bytes < CC_NAME_LEN || m->offset / 8 > s->bytes - CC_NAME_LEN)
		return false;
	*ops = (struct ops){
		.symbol = *s,
		.name = s->value + m->offset / 8,
		.l4s = flags_of(s, btf, t) & ECT_1,
	};
	return true;
}

/* "mine_ops, other_ops (other)": variables, with what each registers as where that is another name. */
static const char *listed(const struct ops *all, int nr)
{
	static char list[512];
	size_t n = 0;

	for (int i = 0; i < nr && n < sizeof(list) - 100; i++) {
		char name[CC_NAME_LEN] = "";

		memcpy(name, all[i].name, CC_NAME_LEN - 1);
		n += snprintf(list + n, sizeof(list) - n, "%s%.60s", n ? ", " : "", all[i].symbol.name);
		if (*name && strcmp(name, all[i].symbol.name))
			n += snprintf(list + n, sizeof(list) - n, " (%s)", name);
	}
	clean_text(list);
	return list;
}

static int choose(struct ops *found, const struct ops *all, int nr, const char *file, const char *wanted)
{
	int by_name = 0;

	for (int i = 0; i < nr && *wanted; i++)
		if (!strcmp(all[i].symbol.name, wanted)) {
			*found = all[i];
			return 0;
		}
	for (int i = 0; i < nr; i++)
		if (!*wanted || !strncmp(all[i].name, wanted, CC_NAME_LEN)) {
			*found = all[i];
			by_name++;
		}
	if (by_name == 1)
		return 0;
	if (!nr)
		return fail("%s is not a controller: it has no " STRUCT " in section " OPS_SECTION " or " LINK_SECTION,
			    file);
	if (*wanted && !by_name)
		return fail("%s has no controller %s; it has: %s", file, wanted, listed(all, nr));
	return fail("%s has %d controllers, choose one by FILE:NAME; it has: %s", file, nr, listed(all, nr));
}

int ops_find(struct ops *found, void *image, size_t size, const char *file, const char *wanted)
{
	const char *why = elf_unfit(image, size);
	struct ops all[OPS_MAX];
	struct elf_symbol s;
	struct btf *btf;
	size_t bytes;
	char *types;
	int nr = 0, err;

	if (why)
		return fail("%s: not a BPF object: %s: build it with `clang -target bpf -g -O2 -c`", file, why);
	types = elf_section(image, size, ".BTF", &bytes);
	if (!types)
		return fail("%s has no BTF: build it with clang -g", file);
	btf = btf__new(types, bytes);
	if (!btf)
		return fail("%s: not a BPF object: its BTF cannot be read: %s", file, strerror(errno));
	for (unsigned int i = 0; nr < OPS_MAX && elf_symbol(image, size, i, &s); i++)
		nr += is_ops(&all[nr], &s, btf);
	err = choose(found, all, nr, file, wanted);
	btf__free(btf);
	return err;
}

int ops_check_programs(const struct ops *ops, void *image, size_t size, const char *file)
{
	struct elf_symbol s;

	for (unsigned int i = 0; elf_symbol(image, size, i, &s); i++) {
		const char *name = s.name && *s.name ? s.name : "a program";

		if (!s.section || strstr(s.section, "struct_ops") || !elf_refers(image, size, &ops->symbol, i))
			continue;
		return fail("%s: %s has %s, which stands in section %s: write SEC(\"struct_ops/%s\") before it, and "
			    "BPF_PROG() round its name",
			    file, ops->symbol.name, name, s.section, s.name && *s.name ? s.name : "NAME");
	}
	return 0;
}

/* It is elf_swap() for the types that stand for the sections. */
static void swap_types(char *types, size_t bytes)
{
	const struct btf_header *h = (struct btf_header *)types;
	struct btf *btf = btf__new(types, bytes);
	const char *raw = btf ? btf__raw_data(btf, &(__u32){ 0 }) : NULL;
	int from = raw && h->magic == BTF_MAGIC ? btf__find_by_name_kind(btf, LINK_SECTION, BTF_KIND_DATASEC) : -1;
	int other = raw ? btf__find_by_name_kind(btf, OPS_SECTION, BTF_KIND_DATASEC) : -1;
	const struct btf_type *t;
	size_t name;

	if (from >= 0) {
		t = btf__type_by_id(btf, from);
		name = t->name_off + strlen(OPS_SECTION);
		types[h->hdr_len + h->str_off + name] = 0;
		if (other >= 0) {
			t = btf__type_by_id(btf, other);
			((struct btf_type *)(types + ((const char *)t - raw)))->name_off = name + 1;
		}
	}
	btf__free(btf);
}

/*
 * A lone constant of 4 to 32 bytes gets a section .rodata.cstN from clang, and the object has no .rodata. The types
 * know that alone, and libbpf refuses what has none of its size.
 */
static void settle_constants(void *image, size_t size)
{
	static const char *const sections[] = { ".rodata.cst32", ".rodata.cst16", ".rodata.cst8", ".rodata.cst4" };
	size_t bytes;

	for (int i = 0; i < 4 && !elf_section(image, size, ".rodata", &bytes); i++)
		if (elf_section(image, size, sections[i], &bytes))
			elf_swap(image, size, sections[i], ".rodata");
}

void ops_settle(const struct ops *ops, void *image, size_t size, const char *alias)
{
	char *types;
	size_t bytes;

	if (alias) {
		memset(ops->name, 0, CC_NAME_LEN);
		memcpy(ops->name, alias, strnlen(alias, CC_NAME_LEN - 1));
	}
	settle_constants(image, size);
	if (strcmp(ops->symbol.section, LINK_SECTION))
		return;
	types = elf_section(image, size, ".BTF", &bytes);
	if (types)
		swap_types(types, bytes);
	elf_swap(image, size, LINK_SECTION, OPS_SECTION);
}

void ops_wake_modules(void *image, size_t size)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	char name[CC_NAME_LEN], last[CC_NAME_LEN] = "";
	struct elf_symbol s;

	for (unsigned int i = 0; fd >= 0 && elf_symbol(image, size, i, &s); i++) {
		size_t n = s.name && !s.section ? strcspn(s.name, "_") : 0;

		if (!n || n >= sizeof(name) || !s.name[n])
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)n, s.name);
		/* tcp_ and bpf_ are the kernel's own; CONFIG_HZ is no function */
		if (!is_name(name) || !islower((unsigned char)*name) || !strcmp(name, "tcp") || !strcmp(name, "bpf") ||
		    !strcmp(name, last))
			continue;
		/* what it answers does not matter: libbpf tells what is missing */
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, n);
		snprintf(last, sizeof(last), "%s", name);
	}
	if (fd >= 0)
		close(fd);
}

/* Does the struct name the program? */
static bool names(const struct ops *ops, void *image, size_t size, const char *program)
{
	struct elf_symbol s;

	for (unsigned int i = 0; elf_symbol(image, size, i, &s); i++)
		if (s.name && !strcmp(s.name, program) && elf_refers(image, size, &ops->symbol, i))
			return true;
	return false;
}

struct bpf_map *ops_alone(const struct ops *ops, void *image, size_t size, struct bpf_object *o)
{
	/* a program for a cgroup could not be told from others' without it */
	bool owned = vars_offset_of(bpf_object__btf(o), "asymcc_name") >= 0;
	struct bpf_map *map, *found = NULL;
	struct bpf_program *p;

	bpf_object__for_each_map(map, o) {
		if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS)
			continue;
		if (!strcmp(bpf_map__name(map), ops->symbol.name))
			found = map;
		else
			bpf_map__set_autocreate(map, false);
	}
	bpf_object__for_each_program(p, o)
		if (!(owned && hook_of(p)) && !names(ops, image, size, bpf_program__name(p)))
			bpf_program__set_autoload(p, false);
	return found;
}
