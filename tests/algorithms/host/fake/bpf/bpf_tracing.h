/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On the host a BPF_PROG is a plain function. */
#ifndef FAKE_BPF_TRACING_H
#define FAKE_BPF_TRACING_H

#define BPF_PROG(name, args...) name(args)

#endif
