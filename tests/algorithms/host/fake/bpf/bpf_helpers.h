/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of libbpf's header that controllers use, for a build on the host. */
#ifndef FAKE_BPF_HELPERS_H
#define FAKE_BPF_HELPERS_H

#define SEC(name)
#undef __always_inline /* libc has one too */
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) __typeof__(type) *name

static unsigned long long bpf_ktime_get_ns(void) __attribute__((unused)); /* model.h: its own clock */

#endif
