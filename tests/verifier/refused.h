/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A controller that does nothing, for the faults around it: each file here has one, in one hook, and the kernel's verifier refuses it
 * with what stands behind "refused:", a regular expression. A file defines OWN_<hook> where it has that hook itself.
 */
#ifndef REFUSED_H
#define REFUSED_H

#include "compat.bpf.h"

#ifndef LICENCE
#define LICENCE "Dual BSD/GPL"
#endif
char LICENSE[] SEC("license") = LICENCE;

const volatile char asymcc_name[16] = "refused"; /* by which the loader tells programs at a cgroup from others' */

#define HOOK(hook, ...) SEC("struct_ops/refused_" #hook) void BPF_PROG(refused_##hook, struct sock *sk, ##__VA_ARGS__)
#define HOOK32(hook) SEC("struct_ops/refused_" #hook) u32 BPF_PROG(refused_##hook, struct sock *sk)

#ifndef OWN_ssthresh
HOOK32(ssthresh) { return 2; }
#endif
#ifndef OWN_undo_cwnd
HOOK32(undo_cwnd) { return tcp_sk(sk)->snd_cwnd; }
#endif
#ifdef OWN_cong_control
#define GROWTH .cong_control = (void *)refused_cong_control,
#else
#define GROWTH .cong_avoid = (void *)refused_cong_avoid,
#endif
#if !defined(OWN_cong_control) && !defined(OWN_cong_avoid)
HOOK(cong_avoid, u32 ack, u32 acked) {}
#endif

#define OPS(...) \
	SEC(".struct_ops") struct tcp_congestion_ops refused = { \
		.ssthresh = (void *)refused_ssthresh, .undo_cwnd = (void *)refused_undo_cwnd, GROWTH __VA_ARGS__ \
		.flags = TCP_CONG_NON_RESTRICTED, .name = "refused", \
	}

#endif
