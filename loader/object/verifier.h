/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loads an object into the kernel, and tells what the verifier, libbpf and the lockdown have against it. */
#ifndef VERIFIER_H
#define VERIFIER_H

#include <bpf/libbpf.h>

/* libbpf is silent but for us; with `loud` it speaks on stderr, as the verifier does. */
void verifier_listen(bool loud);
/* bpf_object__load(). */
int verifier_load(struct bpf_object *o);
/* After a failed load: the line by which the verifier rejects a program, or NULL. */
const char *verifier_verdict(void);
/* The first warning of libbpf, or else the last that it said; "": nothing since it was forgotten. */
const char *libbpf_complaint(void);
void libbpf_complaint_forget(void);

/* The kernel's lockdown; "": it has none, or does not show it. */
const char *lockdown(void);
/* Does it refuse bpf_probe_read_kernel()? Loads by BTF types, which are all that controllers need, it leaves alone. */
bool lockdown_refuses_reads(void);

#endif
