#!/usr/bin/python3 -sSB
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Process 1 of the guest: mounts, seeds the random generator, runs the agent, hands the results out, powers off.

Results leave through a shared-memory device only after the experiment is over, so that nothing
waits for the host while virtual time runs.
"""

import ctypes
import fcntl
import io
import json
import mmap
import os
import struct
import sys
import tarfile
import traceback

sys.path.insert(0, "/lab")
import agent  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
OUT = "/tmp/out"
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
IVSHMEM = ("0x1af4", "0x1110")
RB_AUTOBOOT = 0x01234567


def mount(kind: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    if LIBC.mount(kind.encode(), target.encode(), kind.encode(), 0, b"") != 0:
        raise OSError(ctypes.get_errno(), f"mount {kind} on {target}")


def seed_random(seed: int) -> None:
    """The kernel's generator (ports, sequence numbers, netem) starts from the run's seed alone."""
    entropy = struct.pack("<Q", seed) * 8
    with open("/dev/urandom", "wb", buffering=0) as f:
        fcntl.ioctl(f, RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
        fcntl.ioctl(f, RNDRESEEDCRNG)


def hand_out(status: dict) -> None:
    """Results as one tar in the shared memory; the length is written last: without it there are none."""
    for name in os.listdir("/sys/bus/pci/devices"):
        device = f"/sys/bus/pci/devices/{name}"
        ids = tuple(open(f"{device}/{f}").read().strip() for f in ("vendor", "device"))
        if ids == IVSHMEM:
            break
    else:
        raise OSError("no shared-memory device")
    with open(f"{device}/enable", "w") as f:
        f.write("1")
    size = os.stat(f"{device}/resource2").st_size
    with open(f"{device}/resource2", "r+b") as f, mmap.mmap(f.fileno(), size) as memory:
        memory.seek(16)

        class Sink(io.RawIOBase):
            def writable(self):
                return True

            def write(self, data):
                memory.write(data)
                return len(data)

        with tarfile.open(fileobj=Sink(), mode="w|", bufsize=1 << 20) as tar:
            def add(name: str, data_size: int, stream) -> None:
                info = tarfile.TarInfo(name)
                info.size = data_size
                tar.addfile(info, stream)

            text = json.dumps(status).encode()
            add("status.json", len(text), io.BytesIO(text))
            for name in sorted(os.listdir(OUT)):
                path = f"{OUT}/{name}"
                with open(path, "rb") as stream:
                    add(name, os.path.getsize(path), stream)
        end = memory.tell()
        memory[0:16] = struct.pack("<8sQ", b"ASYMLAB1", end - 16)


def main() -> None:
    mount("devtmpfs", "/dev")
    console = os.open("/dev/console", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(console, fd)
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/tmp"), ("tmpfs", "/run"),
                         ("bpf", "/sys/fs/bpf"), ("tracefs", "/sys/kernel/tracing"), ("cgroup2", "/sys/fs/cgroup")):
        mount(kind, target)
    os.environ.update(PATH="/usr/bin", HOME="/", PYTHONHASHSEED="0", LC_ALL="C")
    os.mkdir(OUT)
    with open("/lab/job.json") as f:
        job = json.load(f)
    seed_random(job["seed"])
    try:
        agent.run(job, OUT, objects="/lab")
        status = {"ok": True}
    except agent.Failure as e:
        status = {"ok": False, "error": str(e)}
    except BaseException:
        traceback.print_exc()
        status = {"ok": False, "error": "agent: " + traceback.format_exc().strip().splitlines()[-1]}
    hand_out(status)


try:
    main()
except BaseException:
    traceback.print_exc()
os.sync()
LIBC.reboot(RB_AUTOBOOT)
