/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On the host the views are the structures: nothing to relocate. */
#ifndef FAKE_BPF_CORE_READ_H
#define FAKE_BPF_CORE_READ_H

#define BPF_CORE_READ(s, field) ((s)->field)
#define bpf_core_field_exists(field) 1

#endif
