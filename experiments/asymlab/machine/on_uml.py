# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run in User Mode Linux: a kernel that is a process, in virtual time, with an infinitely fast CPU.

Its clock jumps from timer to timer; while it computes no time goes by. The kernel gets no clock, no entropy and no CPU
features of the host (uml/edits.py), no network and no disk. But its programs run on the host's CPU, and see what it
can. The command line is the same for every run. The job comes as in QEMU, through shared memory.

A guest's code has the powers of the process that it is. So that process sits in a cage (bubblewrap): no network, no
processes but its own, none of the host's files but its kernel and initramfs (to read) and the shared memory, and of the
host's system calls those that a kernel needs (syscalls.py).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from .. import LabError, syscalls
from ..cage import WORDS, Cage, confined, kind
from ..guest.job import Job, Refusals
from ..guest.protocol import Fault
from ..results.store import files_of
from . import shared
from .files import content_of, scratch
from .image import Image
from .shared import Answer
from .uml import coverage
from .watched import Watched

MEMORY_MB = 512  # at least
MEMORY_MAX_MB = 1920  # the JIT's calls reach 2 GB: text, memory and BPF's programs behind it lie within
SYSTEM_MB, FLOW_KB = 90, 400  # of it: the initramfs and the agent; a flow's two threads and what it sends from
MAPS_MB = 64
TCP_SHARE = 0.75  # of it, that TCP may take (guest/init.py)
SHARED_MB = 512
STALL_S = 60  # of the host without progress of the guest's clock
IDLE = 0.02  # share of the time below which nothing computes
LOOK_S = 0.05
HEAP_MB = 1024  # how far from its data the host puts a program's heap at random; the kernel's memory begins behind it
MEMORY_FOLDERS = "/dev/shm", "/tmp", "/var/tmp"  # for a guest's memory, outside of bubblewrap
APPEND = (
    "initrd=root.cpio rdinit=/init con=null con0=null,fd:1 uml_dir=/tmp "
    "time-travel=inf-cpu time-travel-start=1767225600000000000 "  # 2026-01-01
    "quiet loglevel=3 panic=-1 oops=panic nokaslr norandmaps random.trust_cpu=off random.trust_bootloader=off "
    "lsm= init_on_alloc=0 PYTHONHASHSEED=0"
)

# The host's scheduler would write into a part of glibc's memory (rseq) that the processes of a guest do not have.
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


def identity(image: Image, job: Job, maps: int) -> dict:
    """The parts of the engine that determine a run's result."""
    words = arguments(image, memory_mb(job, maps))
    return {"uml": {"version": f"Linux {image.kernel} as a process"}, "arguments": words}


def memory_mb(job: Job | Refusals, maps: int) -> int:
    """A guest's memory: room for its flows besides all that TCP may take, and for large maps of anyone's objects. A run
    of up to 97 flows with maps of up to 64 MB has the same."""
    return _flows_mb(job) + (maps if maps > MAPS_MB else 0)


def maps_max_mb(job: Job | Refusals) -> int:
    return max(MEMORY_MAX_MB - _flows_mb(job), MAPS_MB)


def _flows_mb(job: Job | Refusals) -> int:
    flows = len(job.flows) if isinstance(job, Job) else 0
    needed = (SYSTEM_MB + flows * FLOW_KB / 1024) / (1 - TCP_SHARE)
    return min(max(MEMORY_MB, math.ceil(needed)), MEMORY_MAX_MB)


def arguments(image: Image, memory: int) -> list[str]:
    """The kernel's command line. It is mixed into the random numbers: all of it shapes a result."""
    return [f"mem={memory}M", *APPEND.split(), *image.words.split()]


@cache
def cage() -> Cage:
    """A guest's. LabError where there can be none."""
    return kind("a guest", "--engine qemu needs none")


@cache
def keeps_addresses() -> bool:
    """The host gives a process the same addresses each time, if asked. Docker's filter of system calls refuses that."""
    return subprocess.run(["setarch", "--addr-no-randomize", "true"], capture_output=True).returncode == 0


def same_addresses(memory: int) -> list[str]:
    """These words go before a kernel's: it would ask for such addresses itself only from 6.13 on. Without them
    its memory has a hole, so that it cannot go back to an earlier state, and up to 4 MB more, which no result depends
    on: the scenario gives the sizes of buffers."""
    if keeps_addresses():
        return ["setarch", "--addr-no-randomize"]
    if memory + HEAP_MB > MEMORY_MAX_MB:
        raise LabError(
            f"this container refuses fixed addresses (personality), which a guest of {memory} MB needs: "
            "`docker run --security-opt seccomp=unconfined` gives them, --engine qemu needs none"
        )
    return []


def bubble(files: dict[str, Path]) -> list[str]:
    """The command that a guest's goes behind, with its files by their names."""
    environment = {"HOME": "/tmp", "TMPDIR": "/tmp", **ENVIRONMENT}
    settings = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    binds = [
        word
        for name, file in files.items()
        for word in ("--bind" if name == "shared" else "--ro-bind", str(file), f"/{name}")
    ]
    return [*WORDS, *"--proc /proc --dev /dev --tmpfs /tmp --chdir /".split(), *settings, *binds]


def memory_folder(memory: int) -> Path:
    """A folder where a guest's memory may be a file: it holds as much, and a program may run from it."""
    for folder in map(Path, MEMORY_FOLDERS):
        with contextlib.suppress(OSError):
            fs = os.statvfs(folder)
            if not fs.f_flag & os.ST_NOEXEC and fs.f_bavail * fs.f_frsize >= memory << 20:
                return folder
    raise LabError(f"no room for a guest's memory of {memory} MB in {' or '.join(MEMORY_FOLDERS)}")


def run(
    image: Image, job: Job | Refusals, objects: dict[str, bytes], maps: int, core: int | None, limit_s: float, started
) -> Answer:
    """Boot, run the job, power off."""
    with scratch("uml-") as tmp:
        image.verify()
        archives = [data for name, data in objects.items() if name.endswith(".cpio")]
        shared.lay_out(tmp / "shared", SHARED_MB, job, {k: v for k, v in objects.items() if not k.endswith(".cpio")})
        initramfs = joined(image.folder / "root.cpio", archives, tmp / "joined.cpio")
        with contextlib.closing(Process(image, tmp, core, started, memory_mb(job, maps), initramfs)) as process:
            return process.answer(job, limit_s)


def trunk_of(job: Job | Refusals) -> Job | None:
    """The run that a job is a branch of."""
    return replace(job, branch=replace(job.branch, draw=0)) if isinstance(job, Job) and job.branch else None


class Server:
    """A guest that makes one job after the other: between two its kernel goes back to where it was before the first
    (uml/rewind.c), so that each finds what it would find in a guest of its own. A guest that has made a branch of a run
    makes others of that run alone: its kernel goes back to where they part."""

    def __init__(self, image: Image, core: int, started):
        self.image, self.core, self.started = image, core, started
        self.guest: Process | None = None
        self.branches: tuple[Job, dict[str, bytes]] | None = None  # that it makes
        self.kept = contextlib.ExitStack()

    def run(self, job: Job | Refusals, objects: dict[str, bytes], maps: int, limit_s: float) -> Answer:
        memory, trunk = memory_mb(job, maps), trunk_of(job)
        wanted = (trunk, objects) if trunk else None
        if self.guest and (self.guest.memory != memory or self.branches and self.branches != wanted):
            self.close()
        self.branches = wanted
        first = self.guest is None
        guest = self.guest or self._boot(memory, job, objects)
        if not first:
            guest.go_on(job, objects)
        try:
            return guest.answer(job, limit_s)
        except LabError:
            if first or guest.waits or guest.process.poll() is None:
                raise
        finally:
            if not guest.waits:  # it has ended, for it cannot go back; or it shall
                self.close()
        # Nobody shall have to ask whether it was a job before that ended it.
        return run(self.image, job, objects, maps, self.core, limit_s, self.started)

    def _boot(self, memory: int, job: Job | Refusals, objects: dict[str, bytes]) -> Process:
        self.image.verify()
        folder = self.kept.enter_context(scratch("uml-"))
        shared.lay_out(folder / "shared", SHARED_MB, job, objects)
        self.guest = Process(self.image, folder, self.core, self.started, memory, serves=True)
        self.kept.callback(self.guest.close)
        return self.guest

    def close(self) -> None:
        self.guest = self.branches = None
        self.kept.close()


def joined(base: Path, archives: list[bytes], to: Path) -> Path:
    """An initramfs with more archives behind it, whose files take the place of those of their names. A packed one is
    unpacked, since the kernel would do so in other parts of its memory."""
    if not archives and base.exists():
        return base
    try:
        with content_of(base) as begin, open(to, "wb") as file:
            shutil.copyfileobj(begin, file, 1 << 20)
            for archive in archives:
                file.write(archive)
    except OSError as e:
        raise LabError(f"{to}: {e.strerror}") from None
    return to


class Process(Watched):
    """A kernel that runs. It dies with us, and with `close`, and all its processes with it."""

    def __init__(
        self,
        image: Image,
        folder: Path,
        core: int | None = None,
        started=None,
        memory: int = MEMORY_MB,
        initramfs: Path | None = None,
        serves: bool = False,
    ):
        self.folder, self.image, self.memory = folder, image, memory
        self.lab: socket.socket | None = None
        if serves:  # by it a guest says that it has made a job, and hears that the next is there
            self.lab, theirs = socket.socketpair()
        self.waits = False  # for the next
        self.own: Path | None = None  # of a guest that is not behind bubblewrap: for its memory
        root = initramfs or joined(image.folder / "root.cpio", [], folder / "unpacked.cpio")
        files = {"linux": image.folder / "linux", "root.cpio": root, "shared": folder / "shared"}
        unkept = syscalls.UNKEPT if cage() is Cage.LANDLOCK else {}
        box, calls, environment = [], syscalls.filter_file(syscalls.filter_program(unkept)), {}
        if cage() is Cage.BUBBLEWRAP:
            box = [*bubble(files), "--seccomp", str(calls)]
        else:
            (folder / "root.cpio").symlink_to(files["root.cpio"])
            ours = tempfile.mkdtemp(dir=memory_folder(memory), prefix="asymlab-")
            self.own = Path(ours)
            environment = {"TMPDIR": ours, "HOME": str(folder), **ENVIRONMENT}
            if cage() is Cage.LANDLOCK:
                reads, writes = [files["root.cpio"]], [files["shared"], self.own, Path("/dev/null")]
                box = confined(reads, [files["linux"]], writes, calls)
        argv = [
            *"setpriv --pdeathsig KILL".split(),
            *(f"taskset --cpu-list {core}".split() if core is not None else []),
            *f"prlimit --fsize={2 * (memory + SHARED_MB) << 20} --core=0".split(),
            *same_addresses(memory),
            *box,
            "/linux" if cage() is Cage.BUBBLEWRAP else str(files["linux"]),
            *arguments(image, memory),
        ]
        try:
            with open(folder / "console", "wb") as console, open(folder / "errors", "wb") as errors:
                self.process = subprocess.Popen(
                    argv,
                    stdin=theirs.fileno() if serves else subprocess.DEVNULL,
                    stdout=console,
                    stderr=errors,
                    cwd=folder,
                    env={"PATH": os.environ["PATH"], **environment},
                    start_new_session=True,
                    pass_fds=[calls] if box else [],
                )
        finally:
            os.close(calls)
            if serves:
                theirs.close()
        if started:
            started(self.process)

    def answer(self, job: Job | Refusals, limit_s: float) -> Answer:
        began = time.monotonic()
        boot_s = self.await_end(limit_s)
        wall_s = round(time.monotonic() - began, 2)
        reached = {"coverage": coverage.told(self.folder / "shared")} if self.image.covers else {}
        return shared.results(self, files_of(job)), {"wall_s": wall_s, "boot_s": boot_s, **reached}

    def go_on(self, job: Job | Refusals, objects: dict[str, bytes]) -> None:
        """With another job."""
        assert self.lab
        shared.lay_out(self.folder / "shared", SHARED_MB, job, objects)
        self.waits, self.heard = False, os.path.getsize(self.folder / "console")
        with contextlib.suppress(OSError):  # it has ended
            self.lab.send(struct.pack("I", job.branch.draw if isinstance(job, Job) and job.branch else 0))

    def await_end(self, limit_s: float) -> float | None:
        """For the guest's end, or for that of a job of many. Returns the seconds up to its first packet. LabError if
        its clock stands still."""
        began = moved = time.monotonic()
        boot_s, virtual, used = None, -1, 0.0
        end = os.pidfd_open(self.process.pid)
        ends = [end, self.lab.fileno()] if self.lab else [end]
        try:
            while not (ready := select.select(ends, [], [], LOOK_S)[0]):
                now = time.monotonic()
                if boot_s is None and "first packet" in self.console():
                    boot_s = round(now - began, 2)
                if now - moved > STALL_S / 2 and (at := self.virtual_ns()) != virtual:
                    virtual, moved, used = at, now, self.cpu_s()
                if now - moved > STALL_S and not IDLE * (now - moved) < self.cpu_s() - used < STALL_S:
                    raise LabError(
                        f"virtual machine: its clock stands still for {STALL_S} s ({self.complaint()}): {self.cause()}",
                        Fault.MACHINE,
                    )
                self.check_patience(began + limit_s, limit_s)
        finally:
            os.close(end)
        if self.lab and self.lab.fileno() in ready:
            with contextlib.suppress(OSError):  # it has ended
                self.waits = bool(self.lab.recv(1))
        if self.waits:
            return boot_s
        code = self.process.wait()
        if "Out of memory" in self.console():
            raise LabError(
                f"virtual machine: its {self.memory} MB of memory do not hold this run: fewer flows, shorter queues, "
                "run.trace_every or a shorter duration help",
                Fault.MACHINE,
            )
        if (number := -code if code < 0 else code - 128) > 0:  # behind the cage it is told as a shell would
            raise LabError(f"virtual machine: {signal.strsignal(number)}: {self.complaint()}", Fault.MACHINE)
        if code and not self.console():
            raise LabError(
                f"this machine lets no kernel be a process ({self.last_error()}), as some containers do not: "
                "--engine qemu runs here",
                Fault.MACHINE,
            )
        return boot_s

    def virtual_ns(self) -> int:
        """The guest's clock, out of its memory; -1 if it cannot be read."""
        try:
            with open(f"/proc/{self.kernel()}/mem", "rb", buffering=0) as memory:
                memory.seek(self.image.time_at)
                return struct.unpack("<Q", memory.read(8))[0]
        except (OSError, struct.error):
            return -1

    def cpu_s(self) -> float:
        """The CPU time of its processes that live: a machine with much else to do gives a guest little of it."""
        parents, ticks = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                parents[pid := int(stat.parent.name)] = int(fields[1])
                ticks[pid] = int(fields[11]) + int(fields[12])
        own = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in own} - own:
            own |= more
        return sum(ticks.get(pid, 0) for pid in own) / os.sysconf("SC_CLK_TCK")

    def cause(self) -> str:
        """Why a clock may stand still, with the names of the programs that run."""
        words = re.findall(r"^program (\w+) (starts|ends)\s*$", self.console(), re.M)
        running = [name for name, word in words if word == "starts" and (name, "ends") not in words]
        if not running:
            return "a path without rate and delay, or a program that waits without looking at the clock"
        of = "program" if len(running) == 1 else "one of the programs"
        return (
            f"{of} {', '.join(running)} waits without a system call, or computes without end: an infinitely fast CPU "
            "never gets it there"
        )

    def kernel(self) -> int:
        """The process that is the kernel: behind the cage it is a grandchild. 0 if there is none yet."""
        pid = self.process.pid
        for _ in range(2 if cage() is Cage.BUBBLEWRAP else 0):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if not children:
                return 0
            pid = int(children[0])
        return pid

    def complaint(self) -> str:
        words, error = super().complaint(), self.last_error()
        return f"{words}; {error}" if error else words

    def last_error(self) -> str:
        """The last line of what the kernel, or the cage, says of the host. Empty if there is none."""
        errors = (self.folder / "errors").read_text(errors="replace").strip().splitlines()
        return errors[-1][:200] if errors else ""

    def close(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.lab:
            self.lab.close()
        if self.own:
            shutil.rmtree(self.own, ignore_errors=True)
