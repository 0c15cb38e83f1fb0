# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""C sources of controllers that the tests build, and of what trips asymcc at a call."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.live.harness import compile_bpf

CONTROLLER = """
#include "compat.bpf.h"
#include "declare.bpf.h"
char LICENSE[] SEC("license") = "GPL";
PARAM(s32, bias, -7, -100, 100, "us", "a signed one | with a bar");
PARAM(u8, tiny, 3, 0, 255, "-", "a small one");
PARAM(u64, huge, 5000000000, 0, 10000000000, "ns", "a large one");
COUNTER(calls, "calls");
SEC("struct_ops/t_ssthresh") u32 BPF_PROG(t_ssthresh, struct sock *sk)
{ COUNT(calls); calls += bias + tiny + huge; BODY return 2; }
SEC("struct_ops/t_undo") u32 BPF_PROG(t_undo, struct sock *sk) { return tcp_sk(sk)->snd_cwnd; }
SEC("struct_ops/t_avoid") void BPF_PROG(t_avoid, struct sock *sk, u32 ack, u32 acked) { }
OPS
"""


OPS = """
SEC(".struct_ops") struct tcp_congestion_ops tiny_ops = {
    .ssthresh = (void *)t_ssthresh, .undo_cwnd = (void *)t_undo, .cong_avoid = (void *)t_avoid, .name = "NAME" };
"""


def build(folder: Path, name: str, body: str = "", ops: str = OPS, **replace) -> None:
    text = CONTROLLER.replace("BODY", body).replace("OPS\n", ops).replace("NAME", name)
    for old, new in replace.items():
        text = text.replace(old, new)
    (folder / f"{name}.bpf.c").write_text(textwrap.dedent(text))
    compile_bpf(folder / f"{name}.bpf.c", folder / f"{name}.bpf.o")


HALVES = """
const volatile char asymcc_name[16] = "";
COUNTER(events, "of sockets");
COUNTER(sent, "packets");
SEC("sockops") int t_opts(struct bpf_sock_ops *ops) { COUNT(events); return 1; }
SEC("cgroup_skb/egress") int t_sent_packets_(struct __sk_buff *skb) { COUNT(sent); return 1; }
"""

CALLS = "{ COUNT(calls); calls += bias + tiny + huge;  return 2; }"
PROGRAMS = {"t_opts", "t_sent_packets_"}  # the longest name that the kernel keeps whole


def build_halves(folder: Path, name: str, halves: str = HALVES) -> None:
    """A controller of which only the halves for a cgroup have counters."""
    build(
        folder,
        name,
        **{
            CALLS: "{ return 2 + bias; }",
            'COUNTER(calls, "calls");': halves,
            "tiny_ops": name,
            ".name = ": ".flags = TCP_CONG_NON_RESTRICTED, .name = ",
        },
    )


FOREIGN = """
SEC("sockops") int t_opts(struct bpf_sock_ops *ops) { return 1; }
SEC("cgroup_skb/egress") int t_sent_packets_(struct __sk_buff *skb) { return 1; }
SEC("cgroup_skb/ingress") int foreign(struct __sk_buff *skb) { return 1; }
"""

HOOK = {"t_opts": "sock_ops", "t_sent_packets_": "egress", "foreign": "ingress"}


HOOKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* TRIP="function call errno": that call fails so, or with errno 0 is the last thing that happens. */
static int trips(const char *function)
{
	static int calls;
	char *end, *trip = getenv("TRIP");

	if (strncmp(trip, function, strlen(function)) || strtol(trip + strlen(function), &end, 10) != ++calls)
		return 0;
	errno = atoi(end);
	if (!errno)
		kill(getpid(), SIGKILL);
	return 1;
}
#define CALL(type, f, ...) (trips(#f " ") ? (type)(long)FAILED : ((type (*)())dlsym(RTLD_NEXT, #f))(__VA_ARGS__))
#define FAILED (-errno)
int bpf_prog_attach(int p, int fd, int type, unsigned flags) { return CALL(int, bpf_prog_attach, p, fd, type, flags); }
int bpf_prog_attach_opts(int p, int fd, int type, void *o) { return CALL(int, bpf_prog_attach_opts, p, fd, type, o); }
int bpf_prog_detach2(int p, int fd, int type) { return CALL(int, bpf_prog_detach2, p, fd, type); }
int bpf_map_delete_elem(int fd, const void *key) { return CALL(int, bpf_map_delete_elem, fd, key); }
int usleep(unsigned us) { return CALL(int, usleep, us); }
int renameat(int f, const char *from, int t, const char *to) { return CALL(int, renameat, f, from, t, to); }
int unlinkat(int fd, const char *path, int flags) { return CALL(int, unlinkat, fd, path, flags); }
ssize_t write(int fd, const void *data, size_t n) { return CALL(ssize_t, write, fd, data, n); }
ssize_t send(int fd, const void *data, size_t n, int flags) { return CALL(ssize_t, send, fd, data, n, flags); }
long any_call(long nr, long a, long b, long c, long d, long e, long f) __asm__("syscall");
long any_call(long nr, long a, long b, long c, long d, long e, long f) {
	if (nr == __NR_bpf && a == 0 && trips("MAP_CREATE ")) return -1;
	if (nr == __NR_bpf && a == 11 && !*(unsigned *)b && trips("FIRST_PROG_ID ")) return -1;
	if (nr == __NR_bpf && a == 16 && ((unsigned *)b)[1] == 46 && trips("TCX_QUERY ")) return -1;
	if (nr == __NR_bpf && a == 35 && trips("PROG_BIND_MAP ")) return -1;
	if (nr == __NR_bpf && a == 28 && trips("LINK_CREATE ")) return -1;
	if (nr == __NR_bpf && a == 33 && trips("ITER_CREATE ")) return -1;
	if (nr == __NR_bpf && a == 18 && trips("BTF_LOAD ")) return -1;
	return ((long (*)())dlsym(RTLD_NEXT, "syscall"))(nr, a, b, c, d, e, f);
}
#undef FAILED
#define FAILED 0
void *bpf_map__attach_struct_ops(void *map) { return CALL(void *, bpf_map__attach_struct_ops, map); }
void *realloc(void *at, size_t n) { return CALL(void *, realloc, at, n); }
void *calloc(size_t nr, size_t n) { return CALL(void *, calloc, nr, n); }
"""
