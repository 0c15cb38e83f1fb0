/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A controller's parameters, counters and private state, declared so that the loader reads them from the object's BTF. */
#ifndef DECLARE_BPF_H
#define DECLARE_BPF_H

#include "kernel.bpf.h"

/*
 * PARAM(type, name, default, min, max, unit, doc): a constant of the program. `asymcc load
 * --set name=value` changes it before the verifier sees it; the tag is what `asymcc show` prints.
 * TUNABLE(...): the same for what `asymcc set` may change while flows run: it may be another value
 * at each reading, so nothing may rely on two readings being alike.
 * PRESET(name, values, doc): values ("name=value name=value") for one kind of link, which `asymcc load --preset name`
 * sets, and the reason for them.
 * NOTE(text): what the controller does to others on the path, or they to it; `load`, `use` and `show` print it.
 * NEEDS_LINUX(version, what): the controller loads from there on, for want of that; `load` says so where the kernel refuses it,
 * and the lab tries it on no kernel before.
 * COUNTER(name, doc): a u64 over all flows, read by `asymcc show`.
 * STATE(type): the private state of one connection. The pointer, never set, keeps the type's members
 * in the BTF, by which a trace of the state is decoded.
 */
#ifdef __bpf__
#define ASYMCC_TAG(text) __attribute__((btf_decl_tag(text)))
#else
#define ASYMCC_TAG(text)
#endif
#define PARAM(type, name, value, min, max, unit, doc) \
	const volatile type name ASYMCC_TAG("param|" #min "|" #max "|" unit "|" doc) = value
#define TUNABLE(type, name, value, min, max, unit, doc) \
	volatile type name SEC(".data") ASYMCC_TAG("tunable|" #min "|" #max "|" unit "|" doc) = value
#define PRESET(name, values, doc) const volatile u8 preset_##name ASYMCC_TAG("preset|" values "|" doc) = 0
#define NOTE(text) const volatile u8 asymcc_note ASYMCC_TAG("note|" text) = 0
#define NEEDS_LINUX(version, what) const volatile u8 asymcc_needs ASYMCC_TAG("needs|" #version "|" what) = 0
#define COUNTER(name, doc) u64 name ASYMCC_TAG("counter|" doc) = 0 /* else the compiler chooses the order */
#define COUNT(name) __sync_fetch_and_add(&(name), 1)

#define STATE(type) \
	_Static_assert(sizeof(type) <= CA_PRIV_BYTES, "private state does not fit the socket"); \
	type *asymcc_state ASYMCC_TAG("state")

#endif
