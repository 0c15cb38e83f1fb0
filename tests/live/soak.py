# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Very many ACKs, connections, loads and unloads on this machine's own kernel, as root; is as much left in it as before?

    python -m tests.live.soak acks|connections|loads COUNT [--resume FILE] [CONTROLLER...]
    python -m tests.live.soak hours                   in the lab, experiments/bench/cases.toml:hours: no root

For `acks` and `connections` COUNT is each controller's, for `loads` all theirs by turns. A line each, with what was
left; exit code 1 if that is not flat. With --resume an interrupted run goes on with the controllers or the loads that
were still to come.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import functools
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from asymlab.machine.kernel import series
from asymlab.plan import objects
from tests.live.harness import ASYMCC, ROOT
from tests.live.harness import CGROUP2 as MOUNTS
from tests.live.resume import Progress

LIBC, CLONE_NEWNET = ctypes.CDLL(None, use_errno=True), 0x40000000
CONTROLLERS = objects.built_for(series(os.uname().release))
FITTING = {"fast": ("--set", "alpha=20")}
CGROUP2 = Path(next(iter(MOUNTS), "/none"))
MTU = 140  # bytes: 88 of payload a segment, so that 10^7 of them are a gigabyte
CHUNK = b"soak" * 16384
SIZES = "8 16 32 64 96 128 192 256 512 1k 2k 4k 8k".split()
# The slabs of TCP and of BPF. A leak of one object for each of N would show as N; processes around us allocate, too,
# but no tenth of that.
SLABS = (
    *"TCP TCPv6 tw_sock_TCP request_sock_TCP sock_inode_cache".split(),
    *(f"{kind}-{size}" for kind in ("kmalloc", "kmalloc-cg") for size in SIZES),
)
SHARE, NOISE = 0.1, 500
PART = 2000  # loads between two looks: a leak of one object for each is four times the noise
SETTLE_S = 20  # the kernel frees in its own time: after RCU, after TIME-WAIT


def run(*argv, check: bool = True) -> str:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=120)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout


# --- what is there -------------------------------------------------------------------------


@dataclasses.dataclass
class Count:
    bpf: dict[str, str]  # names, by kind and id
    slabs: dict[str, int]

    @classmethod
    def now(cls) -> Count:
        bpf = {
            f"{kind} {o['id']}": o.get("name", "")
            for kind in ("prog", "map", "link", "btf")
            for o in json.loads(run("bpftool", "-j", kind, "show") or "[]")
        }
        with open("/proc/slabinfo") as f:
            slabs = {words[0]: int(words[1]) for line in f if (words := line.split())[0] in SLABS}
        return cls(bpf, slabs)

    def more_than(self, before: Count, done: int) -> list[str]:
        """BPF's to the piece; slabs by less than a tenth of an object for each that was done. So few that a leak of one
        for each would drown in the noise say nothing of the slabs."""
        grown = {
            k: n - before.slabs[k]
            for k, n in self.slabs.items()
            if done > NOISE and n - before.slabs[k] > max(NOISE, SHARE * done)
        }
        return [f"{k} {name}" for k, name in self.bpf.items() if k not in before.bpf] + [
            f"{k} +{n}" for k, n in grown.items()
        ]


def report(remains: list[str]) -> str:
    return "left: " + ", ".join(remains) if remains else "flat"


def flat(what: str, done: int, before: Count, took: float, output: str = "") -> tuple[bool, str]:
    """Is it, and the line that tells it."""
    for _ in range(SETTLE_S * 2):
        after = Count.now()
        if not (more := after.more_than(before, done)):
            break
        time.sleep(0.5)
    most = max(after.slabs, key=lambda k: after.slabs[k] - before.slabs[k])
    line = (
        f"{what}: {done:,} in {took:.1f} s ({done / took:,.0f}/s){output}; {report(more)}; "
        f"{len(after.bpf)} programs, maps and the like, {len(before.bpf)} before; "
        f"most of the slabs: {most} {after.slabs[most] - before.slabs[most]:+}"
    )
    return not more, line


def keep(progress: Progress, what: str, fine: bool, line: str) -> None:
    progress.note(what, (fine, line))
    print(line, flush=True)


# --- what is done --------------------------------------------------------------------------


@functools.cache
def halves(name: str) -> bool:
    """Has it programs for a cgroup?"""
    return bool(json.loads(run(ASYMCC, "show", name, "--json"))["cgroup_programs"])


@contextlib.contextmanager
def loaded(name: str, cc: str) -> Iterator[None]:
    """Registered by another name; with programs for a cgroup, in one of its own, in which this process is then."""
    group = CGROUP2 / f"asymcc-soak-{cc}"
    home = CGROUP2 / next(
        line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")
    ).lstrip("/")
    if halves(name):
        group.mkdir()
    try:
        run(ASYMCC, "load", name, "--as", cc, *(("--cgroup", group) if halves(name) else ()), *FITTING.get(name, ()))
        if halves(name):
            (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        if halves(name):
            (home / "cgroup.procs").write_text(str(os.getpid()))
        run(ASYMCC, "unload", "--force", cc, check=False)
        if halves(name):
            group.rmdir()


class Path2:
    """Two namespaces, a veth pair without offloads, each segment with an ACK of its own."""

    def __init__(self) -> None:
        self.names = [f"soak{os.getpid()}{end}" for end in "ab"]
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)

    def __enter__(self) -> Path2:
        for name in self.names:
            run("ip", "netns", "add", name)
        here, there = (f"netns {name} mtu {MTU}" for name in self.names)
        run("ip", "link", "add", "soak", *f"{here} type veth peer name soak {there}".split())
        for end, name in enumerate(self.names, 1):
            ip = ("ip", "-n", name)
            run("ip", "netns", "exec", name, "ethtool", "-K", "soak", "tso", "off", "gso", "off", "gro", "off")
            for words in (
                "link set lo up",
                "link set soak up",
                f"addr add 10.78.0.{end}/24 dev soak noprefixroute",
                "route add 10.78.0.0/24 dev soak quickack 1",
            ):
                run(*ip, *words.split())
            run(
                *f"ip netns exec {name} sysctl -qw net.ipv4.tcp_tw_reuse=1 net.ipv4.tcp_fin_timeout=1".split(),
                "net.ipv4.ip_local_port_range=1024 65535",
            )
        return self

    def __exit__(self, *_) -> None:
        for name in self.names:
            run("ip", "netns", "del", name, check=False)
        os.close(self.home)

    def await_ends(self) -> None:
        """A FIN of its connections that was lost comes again. Without a path it would for minutes."""
        alive = "ss -tanH state connected exclude time-wait".split()
        for _ in range(100):
            if not any(run("ip", "netns", "exec", name, *alive) for name in self.names):
                return
            time.sleep(0.1)

    @staticmethod
    def enter(fd: int) -> None:
        if LIBC.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    @contextlib.contextmanager
    def inside(self, end: int) -> Iterator[None]:
        """Sockets of this thread belong there."""
        with open(f"/run/netns/{self.names[end]}") as f:
            self.enter(f.fileno())
        try:
            yield
        finally:
            self.enter(self.home)

    def socket(self, end: int, cc: str = "") -> socket.socket:
        with self.inside(end):
            s = socket.socket()
        if cc:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        return s

    def listen(self, cc: str = "") -> socket.socket:
        s = self.socket(1, cc)
        s.bind(("10.78.0.2", 0))
        s.listen(64)
        return s


def drain(s: socket.socket) -> None:
    room = bytearray(1 << 20)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 17)  # what comes while it reads is acknowledged together
    with contextlib.suppress(OSError):
        while s.recv_into(room):
            pass
    s.close()


def acks(path: Path2, name: str, cc: str, count: int) -> str:
    """One connection till so many segments have come to its sender; where few ACKs stand for many packets, till so
    many are acknowledged."""
    listener = path.listen(cc)
    with path.socket(0, cc) as s:
        s.connect(listener.getsockname())
        child = os.fork()
        if not child:
            signal.alarm(600)
            drain(listener.accept()[0])
            os._exit(0)
        try:
            came = packets = 0
            while max(came, packets if halves(name) else 0) < count:
                for _ in range(32):
                    s.sendall(CHUNK)
                info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                (cwnd,), (came,), (packets,) = (struct.unpack_from("=I", info, at) for at in (80, 140, 192))
        finally:
            s.close()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            listener.close()
    return f", {came:,} ACKs of {packets:,} packets, cwnd {cwnd} at the end"


def connections(path: Path2, name: str, cc: str, count: int) -> str:
    """One after the other: some packets there, an answer."""
    listener = path.listen(cc)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                s, _ = listener.accept()
                with s:
                    while s.recv(65536):
                        pass
                    s.sendall(b"right")

    threading.Thread(target=serve, daemon=True).start()
    for _ in range(count):
        with path.socket(0, cc) as s:
            s.connect(listener.getsockname())
            s.sendall(CHUNK[:500])
            s.shutdown(socket.SHUT_WR)
            assert s.recv(5, socket.MSG_WAITALL) == b"right"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    path.await_ends()
    return ""


def each(do: Callable[[Path2, str, str, int], str], count: int, names: list[str], progress: Progress) -> None:
    for name in names:
        if name in progress.done:
            print(f"{progress.done[name][1]} (before)", flush=True)
            continue
        before = Count.now()
        began = time.monotonic()
        with Path2() as path, loaded(name, cc := f"s{os.getpid()}_{name}"[:15]):
            output = do(path, name, cc, count)
            took = time.monotonic() - began
        keep(progress, name, *flat(f"{do.__name__} {name}", count, before, took, output))


def loads(count: int, names: list[str], progress: Progress) -> None:
    """In parts. A signal ends one early: what is left then is looked at as well."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    for _, line in progress.done.values():
        print(f"{line} (before)", flush=True)
    while not ended.is_set() and (total := max(map(int, progress.done), default=0)) < count:
        done, *faults = some_loads(min(count - total, PART), names, ended)
        keep(progress, str(total + done), *faults)


def some_loads(count: int, names: list[str], ended: threading.Event) -> tuple[int, bool, str]:
    """Each is loaded, takes a connection that stays open, and goes while it does: the last ones' sockets outlive
    them. Others are loaded all the time. How many were loaded, and what flat() says."""
    before, began = Count.now(), time.monotonic()
    with Path2() as path, contextlib.ExitStack() as stay:
        alone = [name for name in names if not halves(name)]
        stay.enter_context(loaded(alone[0], always := f"s{os.getpid()}_0"))
        listener = path.listen(always)
        taken, stop = [], threading.Event()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    s, _ = listener.accept()
                    threading.Thread(target=drain, args=(s,), daemon=True).start()

        def send() -> None:
            with path.socket(0, always) as s:
                s.connect(listener.getsockname())
                while not stop.is_set():
                    s.sendall(CHUNK)
                    time.sleep(0.01)

        threading.Thread(target=serve, daemon=True).start()
        traffic = threading.Thread(target=send)
        traffic.start()
        try:
            for done, name in zip(range(1, count + 1), itertools.cycle(names)):
                with loaded(name, cc := f"s{os.getpid()}_{done}"):
                    s = path.socket(0, cc)
                    s.connect(listener.getsockname())
                    s.sendall(CHUNK[:3000])
                taken.append(s)
                s.sendall(CHUNK[:3000])  # its controller is no longer registered
                if len(taken) > 8:
                    taken.pop(0).close()
                if ended.is_set():
                    break
        finally:
            stop.set()
            traffic.join()
            for s in taken:
                s.close()
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        took = time.monotonic() - began
    return done, *flat(f"loads and unloads of {len(names)}", done, before, took)


def hours() -> bool:
    """After an idle hour and wrapped clocks each fills its path again, and leaves nothing."""
    from asymlab.machine import image
    from asymlab.plan import scenario
    from asymlab.run.execute import execute
    from asymlab.run.tasks import plan_runs

    fine, guest = True, image.open_image("6.12")
    cases = scenario.load(ROOT / "experiments" / "bench" / "cases.toml:hours")
    for r in execute(plan_runs(cases, guest), guest).values():
        used, remains = r.metrics["utilisation"], r.record["agent"]["left"]
        fine &= used > 0.8 and not remains
        names = ", ".join(r.record["agent"]["controllers"])
        print(f"hours {names}: utilisation {used:.3f} at the end; {report(remains)}", flush=True)
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("acks", "connections", "loads", "hours"))
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("names", nargs="*", default=CONTROLLERS, metavar="CONTROLLER")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="what is done is kept there")
    args = parser.parse_intermixed_args()
    if args.what == "hours":
        sys.exit(not hours())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and nothing stays
    words = (args.what, args.count, *args.names)
    progress = Progress(args.resume, words, [ASYMCC, *ASYMCC.parent.glob("*.bpf.o")])
    if args.what == "loads":
        loads(args.count, args.names, progress)
        if max(map(int, progress.done)) < args.count:
            sys.exit("ended; the same command goes on from here")
    else:
        each({"acks": acks, "connections": connections}[args.what], args.count, args.names, progress)
    progress.finish()
    sys.exit(not all(fine for fine, _ in progress.done.values()))


if __name__ == "__main__":
    main()
