# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counters of the machine and of the nodes, read at two moments of the experiment."""

import os
import socket
import struct
import time

from .capture import EQUAL, KEEP, LOAD, OUTGOING, statistics, tap
from .job import Job, Unshaped
from .net import Namespaces
from .netlink import attributes
from .policer import dropped
from .protocol import Check

MARKS = {
    "codel": 24,
    "fq_codel": 12,
    "pie": 36,
    "dualpi2": 24,
}  # where the kernel's own counters have it (linux/pkt_sched.h)
GRED_VQ_LIST, GRED_VQ_ENTRY, GRED_MARKS = 6, 1, (7, 9)  # marked at random; because the queue is long


UDP, FRAGMENT = 17, 44  # an IP header's next; of IPv6 a fragment, which is none of TCP's


class Loads:
    """Counts the packets of UDP that leave each hop's queues.

    Elsewhere they are more or fewer: links double or lose them, routers cut them, and some are under way when a
    measurement begins or ends. A run without a load has no taps.
    """

    def __init__(self, job: Job, ns: Namespaces) -> None:
        self.taps: dict[str, socket.socket] = {}
        self.packets: dict[str, int] = {}
        if not job.background:
            return
        udp = (LOAD, 0, 0, 6 if job.v6 else 9), (EQUAL, 1, 0, UDP), (EQUAL, 0, 1, FRAGMENT)
        code = (*OUTGOING[:1], (EQUAL, 0, 4, socket.PACKET_OUTGOING), *udp, (KEEP, 0, 0, 1), (KEEP, 0, 0, 0))
        node = {end.dev: end.node for end in job.ends}
        for dev in (way.dev for hop in job.watch for way in (hop.forward, hop.reverse)):
            self.taps[dev], self.packets[dev] = tap(ns, node[dev], dev, code, 0), 0

    def left(self) -> dict[str, int]:
        """By the queue's device."""
        for dev, s in self.taps.items():
            self.packets[dev] += statistics(s)[0]
        return dict(self.packets)

    def close(self) -> None:
        for s in self.taps.values():
            s.close()


def snapshot(job: Job, ns: Namespaces, loads: Loads) -> dict:
    hosts = sorted({f.src for f in job.flows})
    return {
        "t_ns": time.monotonic_ns(),
        "cpu_idle_s": cpu_idle(),
        "qdisc": qdisc_counters(job, ns),
        "tcp": {h: netstat(ns, h) for h in hosts},
        "udp": {load.dst: udp(ns, load.dst, job.v6) for load in job.background},
        **({"udp_left": loads.left()} if loads.taps else {}),
    }


def cpu_idle() -> float:
    """Seconds that the mean CPU has idled since boot."""
    with open("/proc/stat") as f:
        ticks = [int(v) for v in f.readline().split()[1:]]
    return (ticks[3] + ticks[4]) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)


def netstat(ns: Namespaces, node: str, groups: tuple[str, ...] = ("Tcp", "TcpExt")) -> dict[str, int]:
    """Counters of a node: those of TcpExt and Tcp, or of other groups."""
    counters: dict[str, int] = {}
    with ns.enter(node):
        for path in ("/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"):
            with open(path) as f:
                lines = f.read().splitlines()
            for names, values in zip(lines[::2], lines[1::2]):
                group = names.split(":")[0]
                if group in groups:
                    counters |= {f"{group}{n}": int(v) for n, v in zip(names.split()[1:], values.split()[1:])}
    return counters


def udp(ns: Namespaces, node: str, v6: bool) -> dict[str, int]:
    """Its counters; those of IPv6 have the same names here."""
    if not v6:
        return netstat(ns, node, ("Udp",))
    with ns.enter(node), open("/proc/thread-self/net/snmp6") as f:
        counters = dict(line.split() for line in f)
    return {f"Udp{name[4:]}": int(value) for name, value in counters.items() if name.startswith("Udp6")}


def qdisc_counters(job: Job, ns: Namespaces) -> dict[str, dict]:
    shaped = [end for end in job.ends if end.shape != Unshaped()]
    out = {}
    for dev, queues in ns.queues(shaped).items():
        out[dev] = dict(next(q for q in queues if q.root).counters)
        for red in (q for q in queues if q.kind == "gred"):
            out[dev]["marks"] = _marks(red.options)
        for queue in (q for q in queues if q.kind in MARKS):
            out[dev]["marks"] = struct.unpack_from("I", queue.own, MARKS[queue.kind])[0]
    ends = {end.dev: end for end in job.ends}
    for policer in job.policers:
        out[policer.behind]["policed"] = dropped(ns, ends[policer.dev])
    return out


def _marks(gred: bytes) -> int:
    """The marks of its first virtual queue, the only one."""
    queue = attributes(attributes(attributes(gred)[GRED_VQ_LIST])[GRED_VQ_ENTRY])
    return sum(struct.unpack("I", queue[kind])[0] for kind in GRED_MARKS)


def memory_check(job: Job, ns: Namespaces) -> dict:
    """Times that the kernel was short of memory for TCP: from then on windows are as small as memory wants them."""
    short = 0
    for host in sorted({h for f in job.flows for h in (f.src, f.dst)}):
        with ns.enter(host), open("/proc/thread-self/net/netstat") as f:
            names, values = (line.split() for line in f.read().splitlines()[:2])
        short += int(values[names.index("TCPMemoryPressures")])
    return {"what": Check.MEMORY.what(), "expected": 0, "measured": short, "ok": not short}
