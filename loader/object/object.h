/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A built BPF object: find it, open it, rename its controller, set its parameters. */
#ifndef OBJECT_H
#define OBJECT_H

#include <limits.h>
#include <bpf/libbpf.h>

#include "view/text.h"
#include "object/variables.h"

/* From the folder of asymcc; not a place of its own, so that the binary may be moved with it. */
#define INSTALLED "../lib/asymcc"

#define THIN "thin" /* the object of `asymcc thin`, and the name that its programs have as their owner's */
#define THIN_ROUTER "thin_router" /* the object of `asymcc thin --dev` */

struct object {
	struct bpf_object *bpf;
	const struct btf *btf;
	struct bpf_map *ops;          /* of a controller: its struct_ops */
	const struct btf_type *type;  /* its view of tcp_congestion_ops */
	char ops_name[CC_NAME_LEN];
	bool l4s;                     /* a controller that asks that its packets leave as ECT(1) */
	struct vars params;
	void *rodata, *data;          /* initial values of the parameters, of those that are live in `data` */
	size_t rodata_size, data_size;
	void *image;
	size_t size;
	char *path;                   /* of its file, from the root; NULL: not known */
};

/* The values of --objects (NULL: not given) and --verbose. */
void object_settings(const char *dir, bool loud);
const char *object_dir(void);
/* Objects opened from now on find the kernel's types for CO-RE in that file, not in all of the kernel's BTF. */
int object_core_btf(const char *file);

/*
 * Names of the controllers built, sorted, NULL at the end; freed by object_names_free(). A file that cannot be read is
 * among them. NULL, or why the first of those could not be read.
 */
const char *object_names(char ***names);
void object_names_free(char **names);
bool object_is_among(char **names, const char *name);

/* One of asymcc's tools. */
int object_open(struct object *o, const char *name);
/*
 * A controller that is built, by its name, or a file of anybody's, by its path; either with ":NAME" behind it, where
 * the object has several (struct_ops.h). It registers as `alias`; NULL: as it says.
 */
int object_open_controller(struct object *o, const char *spec, const char *alias);
/* Does the kernel take the name that it registers as? Opening does not look. -1 with a message. */
int object_check_name(const struct object *o, const char *spec);
/* Open it if it is there; no word if it is not. */
bool object_open_if_built(struct object *o, const char *name);
void object_close(struct object *o);
void object_write_name(struct object *o, const char *variable, const char *cc);
int object_set(struct object *o, const char *assignment);
long long object_get(const struct object *o, const struct var *v);

/* Register the controller of a loaded object, for longer than we live. */
int object_register(const struct object *o);
/* The kernel has refused it: is it older than what the object says it needs? Then with a message. */
bool object_fails_needs(const struct object *o);

#endif
