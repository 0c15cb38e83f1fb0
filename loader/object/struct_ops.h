/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The controllers in an object's file: each variable of struct tcp_congestion_ops in section .struct_ops, or in
 * .struct_ops.link, which other loaders use. An object may have several, of which one is loaded.
 */
#ifndef STRUCT_OPS_H
#define STRUCT_OPS_H

#include <bpf/libbpf.h>

#include "object/elf.h"
#include "view/text.h"

#define OPS_SECTION ".struct_ops"
#define LINK_SECTION OPS_SECTION ".link" /* libbpf before 1.2 does not know it */

#define ECT_1 0x8 /* of its flags: TCP_CONG_ECT_1_NEGOTIATION, of Linux 7.0 and later; before, the bit means nothing */

struct ops {
	struct elf_symbol symbol; /* its variable */
	char *name; /* what it registers as: CC_NAME_LEN bytes of the file */
	bool l4s; /* it asks that its packets leave as ECT(1) */
};

/* Has a file such a section? One that cannot be read, or has no sections, may have. */
bool ops_are_in(void *image, size_t size);
/*
 * The one that is meant: by its variable, or else by the name that it registers; "": the only one. -1 with a message,
 * which calls the object `file`.
 */
int ops_find(struct ops *found, void *image, size_t size, const char *file, const char *wanted);
/* libbpf takes only programs of a section struct_ops into the struct. -1 with a message that names one of another section. */
int ops_check_programs(const struct ops *ops, void *image, size_t size, const char *file);
/* Change the file so that libbpf takes it: this one has the section .struct_ops, and registers as `alias` (NULL: as it does). */
void ops_settle(const struct ops *ops, void *image, size_t size, const char *alias);
/*
 * Functions that an object has from elsewhere, as bbr_main: the kernel's module for controller bbr may have them, and
 * is loaded as for a socket that asks for bbr.
 */
void ops_wake_modules(void *image, size_t size);
/* Leave out what is not this one's: other struct_ops, and programs that asymcc does not attach. The map of this one. */
struct bpf_map *ops_alone(const struct ops *ops, void *image, size_t size, struct bpf_object *o);

#endif
