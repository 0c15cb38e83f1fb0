/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The variables that a BPF object's BTF declares: PARAM() in .rodata, TUNABLE() in .data, COUNTER() in .bss, PRESET(), NOTE(), STATE()
 * (bpf/declare.bpf.h); and the `const volatile` integers of objects without such macros, which are parameters, too.
 */
#ifndef VARIABLES_H
#define VARIABLES_H

#include <stdbool.h>
#include <bpf/btf.h>

struct var {
	const char *name, *doc;   /* strings of the BTF: valid as long as it is */
	unsigned int offset, size;
	bool is_signed;
	bool live;                /* a TUNABLE(): may change while flows run */
	bool declared;            /* by a macro of declare.bpf.h; else a `const volatile` integer, of any value */
	char unit[24];            /* parameters only, as min and max */
	long long min, max;
};

struct vars {
	struct var *var;
	int nr;
};

/* Adds those of a section to what `vars` holds, zeros at first. */
int vars_read(struct vars *vars, const struct btf *btf, const char *section);
/* The integers of STATE()'s type and of the structs in it; bit-fields and arrays are left out. */
int vars_read_state(struct vars *vars, const struct btf *btf);

/* A PRESET(): "param=value param=value" for one kind of link. */
struct preset {
	const char *name, *doc; /* strings of the BTF */
	char values[256];
};

/* The object's `nth` preset; false: it has no more. */
bool preset_read(struct preset *preset, const struct btf *btf, int nth);
/* The object's NOTE(), a string of the BTF; NULL: it has none. */
const char *note_read(const struct btf *btf);
void note_print(const struct btf *btf);

/* A NEEDS_LINUX(). */
struct needs {
	unsigned int major, minor; /* of the first kernel that takes the object */
	const char *what;          /* that those before lack, a string of the BTF */
};

/* False: the object says nothing. */
bool needs_read(struct needs *needs, const struct btf *btf);
/* Is this release, as of uname(), too old? */
bool needs_more(const struct needs *needs, const char *release);
/*
 * The place in .rodata of a `const volatile char NAME[16]`; -1: there is none. asymcc_name takes the name that
 * the controller is registered by, asymcc_used that which `use --cgroup` gives.
 */
int vars_offset_of(const struct btf *btf, const char *name);
void vars_free(struct vars *vars);
const struct var *vars_find(const struct vars *vars, const char *name, size_t len);
long long var_get(const struct var *var, const void *data);
void var_set(const struct var *var, void *data, long long value);

/*
 * The parameter and the value that "param=value" names; `option` is what the user wrote before it, for the message.
 * -1 with a message.
 */
int assignment_parse(const struct vars *vars, const char *owner, const char *option, const char *assignment,
		     const struct var **v, long long *value);

/* A string of the BTF; "" if it has none there, or one that is not plain text. */
const char *btf_text(const struct btf *btf, unsigned int offset);
const struct btf_member *btf_member_find(const struct btf *btf, const struct btf_type *type, const char *name);
const struct btf_type *btf_plain_type(const struct btf *btf, unsigned int id);

#endif
