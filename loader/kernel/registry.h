/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The controllers registered in the running kernel, whoever did that. */
#ifndef REGISTRY_H
#define REGISTRY_H

#include <time.h>

#include <linux/types.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "view/text.h"
#include "object/variables.h"

/* A controller in the kernel. */
struct registered {
	__u32 map_id;
	char name[CC_NAME_LEN];
	char object[16];   /* name of the ops variable, that is of the object */
	bool l4s;          /* it asks that its packets leave as ECT(1) */
	bool unloading;    /* no longer in the kernel's list, but sockets still run it */
	int uses;          /* network namespaces whose default it is, and sockets, as the kernel counts them */
	__u32 btf_id;      /* all that was loaded with it, and nothing else, has this BTF */
};

struct registry {
	struct btf *kernel;
	const struct btf_type *value;  /* struct bpf_struct_ops_tcp_congestion_ops */
	const struct btf_type *ops;    /* struct tcp_congestion_ops */
	int value_id;
	unsigned int data, name, flags, refcnt, state;  /* offsets in the value */
	struct registered *at;
	int nr;
};

/* Only what the kernel's BTF tells, into an empty one; -1: `why` says what is missing. */
int registry_layout(struct registry *r, char *why, size_t size);
/* The same, once. To read the kernel's BTF takes more than all else that most commands do: not where no map needs it. */
int registry_layout_once(struct registry *r);
int registry_read(struct registry *r);
void registry_free(struct registry *r);
struct registered *registry_find(const struct registry *r, const char *name);

/* The first member of an object's view of the ops that this kernel's lacks, or NULL. */
const char *registry_missing(const struct registry *r, const struct btf *btf, const struct btf_type *type);
/*
 * Kernels with Google's BBRv3 ask tso_segs how many packets a burst has, and not min_tso_segs for the fewest. For one of
 * these an object that was opened and not yet loaded answers with its fewest. False: this is none, or it has none.
 */
bool registry_rename(const struct registry *r, const struct btf *btf, const struct btf_type *type);

/*
 * bpf_object__load(), for what shall be found again: -errno, also if the kernel did not take its BTF and names, without
 * which it never is.
 */
int registry_load(struct bpf_object *o);
const char *registry_load_error(int err);
/* Are all programs of an object that is loaded, but not registered, those of the load `btf_id`? -1 with a message. */
int registry_same_programs(const struct bpf_object *o, __u32 btf_id);
/* The programs of the load, one a call; *id is 0 at first. 1, 0 at the end, -1 with a message. */
int registry_program(__u32 btf_id, __u32 *id, struct bpf_prog_info *info);
/* When the first program of the load came into the kernel, as seconds of the epoch; 0: not known. -1 with a message. */
time_t registry_since(__u32 btf_id);
/* Take it out: open connections keep it. */
int registry_remove(const struct registered *old);

/* Variables of one section (".rodata", ".data", ".bss") of a loaded object, with their bytes. */
struct section {
	struct btf *btf;   /* NULL: no such section is in the kernel */
	__u32 map_id;
	struct vars vars;
	void *bytes;
};
int section_read(struct section *s, __u32 btf_id, const char *name);
void section_free(struct section *s);

/* The parameters of a loaded object. */
struct params {
	struct section data, rodata;  /* those that are live, and constants */
	struct vars vars;             /* of both */
};
int params_read(struct params *p, __u32 btf_id);
void params_free(struct params *p);
/* Write the values of the live ones to the kernel. */
int params_write(const struct params *p);

#endif
