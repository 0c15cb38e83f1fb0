// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "object/variables.h"

#define LINKS_MAX 32     /* of a chain of names and qualifiers */
#define MEMBERS_MAX 4096 /* of the private state, with those of the structs in it */

/*
 * An object may say anything of itself: libbpf before 1.3 checks neither ids nor names, and none checks tags.
 * Names and tags are printed.
 */
const char *btf_text(const struct btf *btf, unsigned int offset)
{
	const char *text = btf__name_by_offset(btf, offset);

	for (const char *c = text; c && *c; c++)
		if (*c < ' ' || *c > '~')
			return "";
	return text ? text : "";
}

/* Strip names and qualifiers: const volatile u32 -> unsigned int. */
const struct btf_type *btf_plain_type(const struct btf *btf, unsigned int id)
{
	const struct btf_type *t = btf__type_by_id(btf, id);
	int links = 0;

	while (t && (btf_is_mod(t) || btf_is_typedef(t)))
		t = ++links < LINKS_MAX ? btf__type_by_id(btf, t->type) : NULL;
	return t;
}

const struct btf_member *btf_member_find(const struct btf *btf, const struct btf_type *type, const char *name)
{
	const struct btf_member *m = btf_members(type);

	for (int i = 0; btf_is_struct(type) && i < (int)btf_vlen(type); i++, m++)
		if (!strcmp(btf_text(btf, m->name_off), name))
			return m;
	return NULL;
}

/* The type that a section's entry stands for; NULL: no variable. */
static const struct btf_type *var_at(const struct btf *btf, const struct btf_var_secinfo *s)
{
	const struct btf_type *t = btf__type_by_id(btf, s->type);

	return t && btf_is_var(t) ? t : NULL;
}

static const char *tag_of(const struct btf *btf, unsigned int var_id)
{
	unsigned int nr = btf__type_cnt(btf);

	for (unsigned int id = 1; id < nr; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (btf_is_decl_tag(t) && t->type == var_id && btf_decl_tag(t)->component_idx == -1)
			return btf_text(btf, t->name_off);
	}
	return NULL;
}

static bool parse_bound(const char **text, long long *bound)
{
	char *end;

	errno = 0;
	*bound = strtoll(*text, &end, 0);
	if (errno || end == *text || *end != '|')
		return false;
	*text = end + 1;
	return true;
}

/* "param|min|max|unit|doc", "tunable|" and the same, or "counter|doc" */
static int parse_tag(struct var *v, const char *tag)
{
	const char *bar = strchr(tag, '|');

	if (!strncmp(tag, "counter|", 8)) {
		v->doc = tag + 8;
		return 1;
	}
	v->live = !strncmp(tag, "tunable|", 8);
	if (!v->live && strncmp(tag, "param|", 6))
		return 0;
	tag = bar + 1;
	if (!parse_bound(&tag, &v->min) || !parse_bound(&tag, &v->max))
		return fail("parameter %s: bad tag \"%s\": its bounds must be plain integers", v->name, tag);
	bar = strchr(tag, '|');
	if (!bar || (size_t)(bar - tag) >= sizeof(v->unit))
		return fail("parameter %s: bad tag \"%s\": unit missing or too long", v->name, tag);
	memcpy(v->unit, tag, bar - tag);
	v->doc = bar + 1;
	return 1;
}

/* A `const volatile` integer is a parameter without words: it takes what its type does. */
static int parse_plain(struct var *v, const struct btf *btf, unsigned int id)
{
	const struct btf_type *t = btf__type_by_id(btf, id);
	bool is_volatile = false;
	int links = 0;

	for (; t && (btf_is_mod(t) || btf_is_typedef(t)) && links < LINKS_MAX; links++) {
		is_volatile |= btf_is_volatile(t);
		t = btf__type_by_id(btf, t->type);
	}
	if (!t || !is_volatile || !(btf_is_int(t) || btf_is_any_enum(t)) || t->size != v->size || !*v->name ||
	    (v->size != 1 && v->size != 2 && v->size != 4 && v->size != 8))
		return 0;
	v->max = v->size == 8 ? INT64_MAX : (1ll << (8 * v->size - v->is_signed)) - 1;
	v->min = v->is_signed ? -v->max - 1 : 0;
	if (btf_is_int(t) && (btf_int_encoding(t) & BTF_INT_BOOL))
		v->max = 1;
	v->declared = false;
	v->unit[0] = '-';
	v->doc = "";
	return 1;
}

int vars_read(struct vars *vars, const struct btf *btf, const char *section)
{
	const struct btf_var_secinfo *s;
	const struct btf_type *sec;
	struct var *room;
	int id, ret;

	id = btf__find_by_name_kind(btf, section, BTF_KIND_DATASEC);
	if (id < 0)
		return 0;
	sec = btf__type_by_id(btf, id);
	room = realloc(vars->var, (vars->nr + btf_vlen(sec) + 1) * sizeof(*room));
	if (!room)
		return fail("out of memory");
	vars->var = room;
	s = btf_var_secinfos(sec);
	for (int i = 0; i < (int)btf_vlen(sec); i++, s++) {
		const struct btf_type *decl = var_at(btf, s), *t;
		struct var *v = &vars->var[vars->nr];
		const char *tag = decl ? tag_of(btf, s->type) : NULL;

		if (!decl || (!tag && strcmp(section, ".rodata")))
			continue;
		t = btf_plain_type(btf, decl->type);
		*v = (struct var){
			.name = btf_text(btf, decl->name_off),
			.offset = s->offset,
			.size = s->size,
			.is_signed = t && btf_is_int(t) && (btf_int_encoding(t) & BTF_INT_SIGNED),
			.declared = true,
		};
		ret = tag ? parse_tag(v, tag) : parse_plain(v, btf, decl->type);
		if (ret < 0)
			return ret;
		if (!tag && !ret)
			continue;
		if (!*v->name)
			return fail("a variable in %s has no name, or not a plain one", section);
		if (v->size != 1 && v->size != 2 && v->size != 4 && v->size != 8)
			return fail("variable %s: %u bytes is no integer", v->name, v->size);
		vars->nr += ret;
	}
	return 0;
}

/* The text behind that prefix; NULL: it begins otherwise. */
static const char *behind(const char *prefix, const char *text)
{
	size_t n = strlen(prefix);

	return strncmp(text, prefix, n) ? NULL : text + n;
}

bool preset_read(struct preset *preset, const struct btf *btf, int nth)
{
	unsigned int nr = btf__type_cnt(btf);

	for (unsigned int id = 1; id < nr; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);
		const char *values = btf_is_decl_tag(t) ? behind("preset|", btf_text(btf, t->name_off)) : NULL;
		const char *doc = values ? strchr(values, '|') : NULL, *name;

		t = doc ? btf__type_by_id(btf, t->type) : NULL;
		name = t && btf_is_var(t) ? behind("preset_", btf_text(btf, t->name_off)) : NULL;
		if (!name || doc - values >= (int)sizeof(preset->values) || nth--)
			continue;
		*preset = (struct preset){ .name = name, .doc = doc + 1 };
		memcpy(preset->values, values, doc - values);
		return true;
	}
	return false;
}

/* The first tag with that prefix, behind it; NULL: there is none. */
static const char *tagged(const struct btf *btf, const char *prefix)
{
	unsigned int nr = btf__type_cnt(btf);
	const char *text = NULL;

	for (unsigned int id = 1; id < nr && !text; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		text = btf_is_decl_tag(t) ? behind(prefix, btf_text(btf, t->name_off)) : NULL;
	}
	return text;
}

const char *note_read(const struct btf *btf)
{
	return tagged(btf, "note|");
}

bool needs_read(struct needs *needs, const struct btf *btf)
{
	const char *tag = tagged(btf, "needs|"), *what = tag ? strchr(tag, '|') : NULL;
	char end;

	if (!what || sscanf(tag, "%u.%u%c", &needs->major, &needs->minor, &end) != 3 || end != '|')
		return false;
	needs->what = what + 1;
	return true;
}

bool needs_more(const struct needs *needs, const char *release)
{
	unsigned int major, minor;

	return sscanf(release, "%u.%u", &major, &minor) == 2 &&
	       (major < needs->major || (major == needs->major && minor < needs->minor));
}

void note_print(const struct btf *btf)
{
	const char *note = note_read(btf);

	if (note)
		printf("note: %s\n", note);
}

static int
add_members(struct vars *vars, const struct btf *btf, const struct btf_type *type, unsigned int base, int *left)
{
	const struct btf_member *m = btf_members(type);

	for (int i = 0; i < (int)btf_vlen(type); i++, m++) {
		const struct btf_type *t = btf_plain_type(btf, m->type);
		unsigned int offset = base + btf_member_bit_offset(type, i) / 8;
		struct var *var;

		if (!(*left)--)
			return fail("the private state has more than %d members, or one is in itself", MEMBERS_MAX);
		if (t && btf_is_struct(t) && add_members(vars, btf, t, offset, left))
			return -1;
		if (!t || !(btf_is_int(t) || btf_is_any_enum(t)) || t->size > 8 || btf_member_bitfield_size(type, i))
			continue;
		var = realloc(vars->var, (vars->nr + 1) * sizeof(*var));
		if (!var)
			return fail("out of memory");
		vars->var = var;
		var[vars->nr++] = (struct var){
			.name = btf_text(btf, m->name_off),
			.offset = offset,
			.size = t->size,
			.is_signed = btf_is_int(t) && (btf_int_encoding(t) & BTF_INT_SIGNED),
		};
	}
	return 0;
}

int vars_read_state(struct vars *vars, const struct btf *btf)
{
	unsigned int nr = btf__type_cnt(btf);
	int left = MEMBERS_MAX;

	memset(vars, 0, sizeof(*vars));
	for (unsigned int id = 1; id < nr; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!btf_is_decl_tag(t) || strcmp(btf_text(btf, t->name_off), "state"))
			continue;
		t = btf__type_by_id(btf, t->type);
		t = t ? btf_plain_type(btf, t->type) : NULL;
		t = t && btf_is_ptr(t) ? btf_plain_type(btf, t->type) : NULL;
		return t && btf_is_struct(t) ? add_members(vars, btf, t, 0, &left) : 0;
	}
	return 0;
}

int vars_offset_of(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC);
	const struct btf_type *sec = id < 0 ? NULL : btf__type_by_id(btf, id);

	for (int i = 0; sec && i < (int)btf_vlen(sec); i++) {
		const struct btf_var_secinfo *s = &btf_var_secinfos(sec)[i];
		const struct btf_type *decl = var_at(btf, s);

		if (decl && s->size == CC_NAME_LEN && !strcmp(btf_text(btf, decl->name_off), name))
			return s->offset;
	}
	return -1;
}

void vars_free(struct vars *vars)
{
	free(vars->var);
	memset(vars, 0, sizeof(*vars));
}

const struct var *vars_find(const struct vars *vars, const char *name, size_t len)
{
	for (int i = 0; i < vars->nr; i++)
		if (strlen(vars->var[i].name) == len && !memcmp(vars->var[i].name, name, len))
			return &vars->var[i];
	return NULL;
}

/* The BPF targets of interest are little endian, as their hosts: low bytes first. */
long long var_get(const struct var *var, const void *data)
{
	unsigned int unused = 64 - 8 * var->size;
	uint64_t raw = 0;

	memcpy(&raw, (const char *)data + var->offset, var->size);
	return var->is_signed ? (int64_t)(raw << unused) >> unused : (int64_t)raw;
}

void var_set(const struct var *var, void *data, long long value)
{
	memcpy((char *)data + var->offset, &value, var->size);
}

int assignment_parse(const struct vars *vars, const char *owner, const char *option, const char *assignment,
		     const struct var **v, long long *value)
{
	const char *eq = strchr(assignment, '=');
	char list[512] = "none";
	size_t n = 0;
	int err;

	if (!eq || eq == assignment)
		return fail("%s%s: expected param=value", option, assignment);
	*v = vars_find(vars, assignment, eq - assignment);
	if (!*v) {
		for (int i = 0; i < vars->nr && n < sizeof(list) - 80; i++)
			n += snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", vars->var[i].name);
		return fail("%s has no parameter %.*s; it has: %s", owner, (int)(eq - assignment), assignment, list);
	}
	err = integer_parse(value, eq + 1, 0, (*v)->min, (*v)->max);
	if (err == -EINVAL || isspace((unsigned char)eq[1]))
		return fail("%s%s: \"%s\" is not an integer", option, assignment, eq + 1);
	if (err)
		return fail("%s%s: out of range, %s takes %lld to %lld %s", option, assignment, (*v)->name, (*v)->min,
			    (*v)->max, (*v)->unit);
	return 0;
}
