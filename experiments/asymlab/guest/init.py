# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Process 1 of the guest: takes a job, seeds the random generator, runs the job, hands the results out, powers off.

In QEMU the machine is kept as it is before the job comes (on_qemu.py). The job comes and the results leave through
shared memory, before and after the experiment, so that nothing waits for the host while virtual time runs.
"""

import contextlib
import fcntl
import io
import json
import mmap
import os
import struct
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from .audit import refusals
from .controllers import Record
from .job import Job, Refusals
from .protocol import BACK, CLOCK_SET_UP, HEADER, JOB, RESULTS, SAVE, SHARED, STATUS, STOP, TIMER_PERIOD, Fault
from .run import run
from .system import LIBC, Failure, mount, sh
from .tracer import keep_types
from .tunnels import none_unasked
from .wire import learn, load

OUT = "/tmp/out"
BROUGHT = "/lab/brought"
RNDADDENTROPY, RNDCLEARPOOL, RNDRESEEDCRNG = 0x40085203, 0x5206, 0x5207
IVSHMEM = ("0x1af4", "0x1110")
MODULES = ("veth", "sch_tbf", "sch_netem", "sch_gred")  # most runs' networks; those built in or not there are none
RB_AUTOBOOT, RB_POWER_OFF = 0x01234567, 0x4321FEDC
CLOCK_REALTIME_COARSE = 5
START_NS = 20_000_000  # virtual time
COPY_BYTES = 1 << 20  # at a time: few system calls
RLIMIT_NOFILE, FILES_MAX = 7, 1 << 16


def is_uml() -> bool:
    return os.path.exists(SHARED)


def seed_random(seed: int) -> None:
    """The kernel's generator (ports, sequence numbers, netem) starts from the run's seed alone.

    User Mode Linux forgets what it had before (machine/uml/edits.py). There a read takes 256 ns of the clock for each
    16 kB, so the run starts at one time, however long the files were that the guest has read.
    """
    if is_uml():
        if time.monotonic_ns() >= START_NS:
            raise Failure(f"the guest has read files for {START_NS / 1e6:g} ms")
        LIBC.clock_nanosleep(time.CLOCK_MONOTONIC, 1, struct.pack("qq", 0, START_NS), None)
    entropy = struct.pack("<Q", seed) * 8
    with open("/dev/urandom", "wb", buffering=0) as f:
        if is_uml():
            fcntl.ioctl(f, RNDCLEARPOOL)
        fcntl.ioctl(f, RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
        fcntl.ioctl(f, RNDRESEEDCRNG)


def wait_for_job() -> None:
    """Here the machine is stopped and kept. It is the only call of that function, with a number that it refuses."""
    with open("/proc/kallsyms") as f:
        for line in f:
            if line.split()[2] in (*STOP.values(), CLOCK_SET_UP, TIMER_PERIOD):
                print(line.strip())
    print(tell_clock(), flush=True)
    LIBC.reboot(0)


def tell_clock() -> str:
    """The kernel's clock and its tick, how often a program looks at it in 2 ms, how long a sleep of 10 ms takes."""
    with open("/sys/devices/system/clocksource/clocksource0/current_clocksource") as f:
        source = f.read().strip()
    tick, looks, began = time.clock_getres(CLOCK_REALTIME_COARSE), 0, time.monotonic_ns()
    while time.monotonic_ns() < began + 2_000_000:
        looks += 1
    began = time.monotonic_ns()
    time.sleep(0.01)
    slept = (time.monotonic_ns() - began) // 1000
    return f"clock {source} tick_us {tick * 1e6:.0f} looks {looks} slept_us {slept}"


def shared_memory() -> int | None:
    """A file: the memory by which the job comes. In QEMU it is that of a device that was plugged in while the machine
    stood; None if none was."""
    if is_uml():
        return os.open(SHARED, os.O_RDWR | os.O_CLOEXEC)
    with open("/sys/bus/pci/rescan", "w") as f:
        f.write("1")
    for name in os.listdir("/sys/bus/pci/devices"):
        device = f"/sys/bus/pci/devices/{name}"
        ids = tuple(open(f"{device}/{f}").read().strip() for f in ("vendor", "device"))
        if ids == IVSHMEM:
            break
    else:
        return None
    with open(f"{device}/enable", "w") as f:
        f.write("1")
    return os.open(f"{device}/resource2", os.O_RDWR | os.O_CLOEXEC)


@contextlib.contextmanager
def memory(shared: int, size: int) -> Iterator[Any]:
    """The first bytes of the shared memory, as a file. In QEMU not all of it is mapped: 100 instructions a page."""
    if is_uml():
        with open(shared, "r+b", buffering=0, closefd=False) as file:
            yield file
    else:
        with mmap.mmap(shared, size) as mapped:
            yield mapped


def take_job(shared: int) -> str:
    """Unpack what the run brings along; returns the text of its job."""
    with memory(shared, HEADER.size) as file:
        magic, length = HEADER.unpack(file.read(HEADER.size))
    if magic != JOB:
        raise OSError("no job in the shared memory")
    with memory(shared, HEADER.size + length) as file:
        file.seek(HEADER.size)
        brought = file.read(length)
    with tarfile.open(fileobj=io.BytesIO(brought)) as tar:
        tar.extractall("/lab")
    with open("/lab/job.json") as f:
        return f.read()


def do(job: Job | Refusals) -> None:
    seed_random(job.seed)
    if isinstance(job, Job):
        return run(job, OUT, "/lab", "lab-", Record())
    with open(f"{OUT}/agent.json", "w") as f:
        json.dump(refusals(job), f)


def hand_out(shared: int, status: dict) -> None:
    """Results as one tar in the shared memory; its header is written last: without it there are none."""
    text = json.dumps(status).encode()
    paths = [f"{OUT}/{name}" for name in sorted(os.listdir(OUT))]
    sizes = [len(text), *map(os.path.getsize, paths)]
    # A block before each file, less than one behind it; two at the end, and what is left of a record.
    most = HEADER.size + sum(sizes) + 2 * tarfile.BLOCKSIZE * (len(sizes) + 1) + tarfile.RECORDSIZE
    with memory(shared, most) as file:
        file.seek(HEADER.size)
        with tarfile.TarFile(fileobj=file, mode="w", copybufsize=COPY_BYTES) as tar:

            def add(name: str, data_size: int, stream) -> None:
                info = tarfile.TarInfo(name)
                info.size = data_size
                tar.addfile(info, stream)

            add(STATUS, len(text), io.BytesIO(text))
            for path, size in zip(paths, sizes[1:]):
                with open(path, "rb", buffering=0) as stream:
                    add(os.path.basename(path), size, stream)
        length = file.tell() - HEADER.size
        file.seek(0)
        file.write(HEADER.pack(RESULTS, length))


def give_memory() -> None:
    """TCP may have three quarters of it, not a twelfth: a window of a gigabit path shall not end there."""
    pages = os.sysconf("SC_PHYS_PAGES")
    with open("/proc/sys/net/ipv4/tcp_mem", "w") as f:
        f.write(f"{pages * 5 // 8} {pages * 11 // 16} {pages * 3 // 4}")


def give_files() -> None:
    """A flow takes three sockets of ours."""
    LIBC.setrlimit(RLIMIT_NOFILE, struct.pack("QQ", FILES_MAX, FILES_MAX))


def run_job() -> None:
    mount("devtmpfs", "/dev", "devtmpfs")
    console = os.open("/dev/console", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(console, fd)
    for kind, target in (
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
        ("bpf", "/sys/fs/bpf"),
        ("tracefs", "/sys/kernel/tracing"),
        ("cgroup2", "/sys/fs/cgroup"),
    ):
        os.makedirs(target, exist_ok=True)
        mount(kind, target, kind)
    os.environ.update(PATH="/usr/bin", HOME="/", PYTHONHASHSEED="0", LC_ALL="C")
    os.mkdir(OUT)
    if not is_uml():
        sh("modprobe", "--all", "--quiet", *MODULES, check=False)
    give_memory()
    give_files()
    none_unasked()
    keep_types("/lab")
    learn(Job | Refusals)
    if not is_uml():
        wait_for_job()
    if (shared := shared_memory()) is None:
        return
    if is_uml():
        fcntl.ioctl(shared, SAVE)
    text = take_job(shared)
    if os.path.isdir(BROUGHT):
        begin_programs()
    answer(shared, lambda: do(load(Job | Refusals, text, "job")))


def begin_programs() -> None:
    """A run with real programs brings the package that runs them. Other runs have nothing of it."""
    sys.modules[__package__].__path__.append(BROUGHT)
    __import__(name := f"{__package__}.programs")
    sys.modules[name].begin()


def answer(shared: int, work: Callable[[], None]) -> None:
    """Works, and hands out what came of it."""
    status: dict[str, object] = {"ok": True}
    try:
        work()
    except Failure as e:
        status = e.status
    except BaseException:
        traceback.print_exc()
        status = Failure(f"agent: {traceback.format_exc().strip().splitlines()[-1]}", Fault.AGENT).status
    hand_out(shared, status)
    if is_uml():
        fcntl.ioctl(shared, BACK)


def main() -> None:
    """From the first process's start to the machine's end."""
    try:
        run_job()
    except BaseException:
        traceback.print_exc()
    os.sync()
    LIBC.reboot(RB_POWER_OFF if is_uml() else RB_AUTOBOOT)  # QEMU ends at a reset, UML would boot again
