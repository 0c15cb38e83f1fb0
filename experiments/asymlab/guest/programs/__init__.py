# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A guest that also runs real programs. This module comes with their packs: a guest without packs has none of it.

Each program has the network of its host, a root of its own (its pack), mount, PID, UTS and IPC namespaces, and is an
ordinary user without capabilities. In the output folder are then

    programs.json          of each program its start, end and exit status
    NAME.out, NAME.err     its words
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Annotated, Literal

from .. import init, run
from ..job import Address, Job, Name
from ..net import CLONE_NEWNET, MS_REC
from ..protocol import FLOW_PORT, Fault
from ..run import Event, Rank, Running
from ..system import LIBC, Failure
from ..wire import Matching
from .connections import USER, ConnectionTracer, build_guarded, dropped

PACKS = "/packs"
SUFFIX, HEAD_BYTES, LAST = ".cpio", 110, "/TRAILER!!!"  # of their archives
NAMES = "etc/hosts"
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID = 0x20000, 0x4000000, 0x8000000, 0x20000000
MS_NOSUID, MS_PRIVATE = 2, 1 << 18
PR_SET_NO_NEW_PRIVS = 38
OUTPUT_MAX, PROCESSES_MAX, FILES_MAX = 16 << 20, 4096, 4096
# Bytes of a file and of a core, processes, open files, bytes of its data: three quarters of the memory, in whole MB. V8
# takes an eighth of them for its code, and ends at once if those are not whole pages.
RLIMITS = {1: OUTPUT_MAX, 4: 0, 6: PROCESSES_MAX, 7: FILES_MAX, 2: os.sysconf("SC_PHYS_PAGES") * 3072 >> 20 << 20}
FOLDER_SHARE = "10%"  # of the memory, for the files of a folder
# The settings of kernels that have them: programs get none of it.
REFUSED = {"user/max_user_namespaces": 0, "kernel/io_uring_disabled": 2, "kernel/unprivileged_bpf_disabled": 1}
DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}  # of the major number 1
DESCRIPTORS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
WRITABLE = ("tmp", "run", "dev", "var/tmp", "var/log", "var/cache")
GRACE_S = 1.0  # between the two signals
WITH_PROGRAMS = 0  # the command to the kernel (machine/uml/programs.c): from now on they get on in virtual time
STACK = 256 << 10
ENVIRONMENT = {
    **{"PATH": "/usr/bin:/usr/sbin", "HOME": "/tmp", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
    "OPENSSL_ia32cap": "~0x4000000000000010:~0x40000",  # no rdrand, rdtsc and rdseed: they are the host's
}


@dataclass(frozen=True)
class Program:
    name: Name
    node: Name
    host: Name
    pack: Name
    run: list[str]
    env: dict[Annotated[str, Matching("[A-Za-z_][A-Za-z0-9_]*")], str]
    start_s: float
    stop_s: float | None
    ends: int | str  # its exit status, "running" or "any"
    result: Literal["none", "json", "lines"]


@dataclass(frozen=True)
class WithPrograms(Job):
    programs: list[Program] = field(default_factory=list)
    names: dict[Name, Address] = field(default_factory=dict)  # of hosts


def kind_of(job: dict) -> type[Job]:
    """The kind of a job, from its JSON."""
    return WithPrograms if "programs" in job else Job


def _mount(kind: str, target: str, options: str) -> None:
    os.makedirs(target, exist_ok=True)
    if LIBC.mount(kind.encode(), target.encode(), kind.encode(), MS_NOSUID, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _enter_world(network: int, host: str, root: str, report: int) -> None:
    """In a new process, before it is the program."""
    if LIBC.setns(network, CLONE_NEWNET) or LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC):
        raise OSError(ctypes.get_errno(), "namespaces")
    LIBC.sethostname(host.encode(), len(host))
    LIBC.mount(b"", b"/", b"", MS_REC | MS_PRIVATE, b"")
    for place in WRITABLE:
        _mount("tmpfs", f"{root}/{place}", f"mode=1777,size={FOLDER_SHARE}")
    _mount("proc", f"{root}/proc", "")
    os.umask(0)
    os.mkdir(f"{root}/dev/shm", 0o1777)
    for name, minor in DEVICES.items():
        os.mknod(f"{root}/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
    for name, number in DESCRIPTORS.items():
        os.symlink(f"/proc/self/fd{number}", f"{root}/dev/{name}")
    os.umask(0o022)
    os.chroot(root)
    os.chdir("/")
    for what, most in RLIMITS.items():
        LIBC.setrlimit(what, struct.pack("QQ", most, most))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if child := os.fork():
        _be_first(child, report)


def _be_first(child: int, report: int) -> None:
    """The first process of a PID namespace, to which signals without a handler do nothing: so a program is its child.
    With it all others end."""
    os.closerange(3, report)
    os.closerange(report + 1, FILES_MAX)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == child:
            os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)


class Life:
    """A program, from its start to its end. Its own thread waits for it."""

    def __init__(self, program: Program, network: int) -> None:
        self.program, self.network = program, network
        self.process: subprocess.Popen | None = None
        self.record: dict[str, int | bool] = {}
        self.error = ""
        self.started = threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        self.thread.start()
        self.started.wait()
        if self.error:
            raise Failure(f"program {self.program.name}: {self.error}", Fault.FLOW)

    def _live(self) -> None:
        program = self.program
        try:
            # One process of it is then the first of its PID namespace, and all others end with that.
            if LIBC.unshare(CLONE_NEWPID):
                raise OSError(ctypes.get_errno(), "the kernel has no namespaces of processes")
            self.record["start_ns"] = time.monotonic_ns()
            print(f"program {program.name} starts", flush=True)
            told, report = os.pipe()
            words = f"{init.OUT}/{program.name}"
            with open(f"{words}.out", "wb") as out, open(f"{words}.err", "wb") as err:
                self.process = subprocess.Popen(
                    program.run,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env={**ENVIRONMENT, **program.env},
                    preexec_fn=partial(_enter_world, self.network, program.host, f"{PACKS}/{program.pack}", report),
                )
            os.close(report)
        except (OSError, subprocess.SubprocessError) as e:
            self.error = f"{program.run[0]}: {e.strerror if isinstance(e, OSError) else e}"
            return
        finally:
            self.started.set()
        os.waitpid(self.process.pid, 0)
        self.process.returncode = 0
        exit = os.read(told, 16)
        self.record |= {"end_ns": time.monotonic_ns(), "exit": int(exit) if exit else -signal.SIGKILL}
        print(f"program {program.name} ends", flush=True)

    def signal(self, number: int) -> None:
        if self.process and self.process.returncode is None:
            os.kill(self.process.pid, number)

    def stop(self) -> None:
        end(self)


def end(*lives: Life) -> None:
    """A signal that they may answer, and one that they cannot."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE_S
        for life in lives:
            life.signal(number)
        for life in lives:
            if life.process:
                life.thread.join(max(0, until - time.monotonic()))


def finish(running: Running, lives: list[Life]) -> None:
    """End the programs that still run, and write down what became of all."""
    for life in lives:
        life.record["running"] = "exit" not in life.record
    end(*lives)
    for life in lives:
        if packets := dropped(running.job, running.ns, life.program.node):
            life.record["dropped"] = packets
    with open(f"{init.OUT}/programs.json", "w") as f:
        json.dump({life.program.name: life.record for life in lives}, f)


def lives_of(running: Running) -> list[Life]:
    job = running.job
    assert isinstance(job, WithPrograms)
    threading.stack_size(STACK)
    if init.is_uml():
        with open(init.SHARED) as shared:
            fcntl.ioctl(shared, WITH_PROGRAMS)
    for place, value in REFUSED.items():
        if os.path.exists(file := f"/proc/sys/{place}"):
            with open(file, "w") as f:
                f.write(str(value))
    names = "127.0.0.1 localhost\n" + "".join(f"{addr} {name}\n" for name, addr in job.names.items())
    for pack in {program.pack for program in job.programs}:
        os.makedirs(f"{PACKS}/{pack}/etc", exist_ok=True)
        with open(f"{PACKS}/{pack}/{NAMES}", "w") as f:
            f.write(names)
    return [Life(program, running.ns.open(program.node)) for program in job.programs]


def on_own_port(job: Job, act: Callable[[], None]) -> None:
    """An event that may begin a flow. Only a program on its host can have its port."""
    try:
        act()
    except OSError as e:
        if e.errno != errno.EADDRINUSE:
            raise
        sources = {flow.src for flow in job.flows}
        names = " or ".join(program.name for program in vars(job)["programs"] if program.node in sources)
        raise Failure(f"program {names}: listens on a port of the lab's flows, {FLOW_PORT} + N", Fault.FLOW) from None


def with_programs(schedule: Callable[..., list[Event]]) -> Callable[..., list[Event]]:
    """A schedule that has programs' starts and ends as well."""

    def schedule_all(running: Running, mark: Callable[[str], None]) -> list[Event]:
        lives = lives_of(running)
        events = [
            *(event._replace(act=partial(on_own_port, running.job, event.act)) for event in schedule(running, mark)),
            *(Event(life.program.start_s, Rank.BEGIN, life.start) for life in lives),
            *(Event(life.program.stop_s, Rank.CHANGE, life.stop) for life in lives if life.program.stop_s is not None),
        ]
        # Only behind the last counters.
        return [
            *sorted(events, key=lambda event: (event.at_s, event.rank)),
            Event(0, Rank.END, partial(finish, running, lives)),
        ]

    return schedule_all


def begin() -> None:
    """Make the base guest, which a run without programs has to the byte, one with programs."""
    if not init.is_uml():
        unpack_packs()
    vars(init)["Job"] = WithPrograms
    vars(run).update(build_network=build_guarded, schedule=with_programs(run.schedule), Tracer=ConnectionTracer)


def unpack_packs() -> None:
    """The kernel of `uml` unpacks them as it boots. That of QEMU has booted before it was known which there are."""
    for name in sorted(os.listdir("/lab")):
        if name.endswith(SUFFIX):
            with open(f"/lab/{name}", "rb") as archive:
                unpack(archive)
            os.unlink(f"/lab/{name}")


def unpack(archive: IO[bytes]) -> None:
    """The files of an archive that the lab has made (machine/cpio.py), from the root on."""

    def part(size: int) -> bytes:
        data = archive.read(size)
        archive.seek(-archive.tell() % 4, os.SEEK_CUR)
        return data

    while True:
        head = archive.read(HEAD_BYTES)
        mode, size, length = (int(head[6 + 8 * n : 14 + 8 * n], 16) for n in (1, 6, 11))
        name = "/" + part(length)[:-1].decode()
        if name == LAST:
            return
        data = part(size)
        if stat.S_ISDIR(mode):
            os.makedirs(name, exist_ok=True)
        elif stat.S_ISLNK(mode):
            os.symlink(data.decode(), name)
        else:
            with open(name, "wb", opener=lambda path, flags: os.open(path, flags, mode & 0o777)) as file:
                file.write(data)
