// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program that watches does not write. refused: only read is supported */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/tcp_probe")
int BPF_PROG(refused_ack, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd = 1;
	return 0;
}
