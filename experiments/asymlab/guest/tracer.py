# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc trace`, which runs beside the flows."""

import os
import signal
import subprocess
from typing import IO

from .job import Bottleneck, ChangePath, Job, NewMtu
from .protocol import FLOW_PORT
from .system import Failure, die_with_us, sh

KERNEL_TYPES = "/sys/kernel/btf/vmlinux"
TYPES = "/lab/types.btf"  # those that the tracer uses: 50 million instructions less. A live host has none
MTU_MAX = 65535
RECORD_BYTES = 72  # with what the ring has of its own
RING_KB_MIN, RING_KB_MAX = 64, 16 << 10
DRAIN_MS = 1000  # between two collections


def keep_types(objects: str) -> None:
    """In a guest, before it is kept; an image may bring them."""
    if not os.path.exists(TYPES):
        sh("bpftool", "gen", "min_core_btf", KERNEL_TYPES, TYPES, f"{objects}/trace.bpf.o")


def _needed_kb(job: Job) -> float:
    """The room for the records of two seconds, if each rate is full of data packets and each packet has an ACK."""
    new = [n for change in job.changes if isinstance(change, ChangePath) for n in change.path]
    mtu = min(*(link.mtu for link in job.links), *(n.mtu for n in new if isinstance(n, NewMtu)), MTU_MAX)
    packets_s = sum(shape.rate_bps for _, shape in job.shapes if isinstance(shape, Bottleneck)) / (8 * mtu)
    if job.trace_every_ms:
        packets_s = min(packets_s, len(job.flows) * 1000 / job.trace_every_ms)
    return packets_s * 2 * RECORD_BYTES * (3 if job.trace_state else 1) / 1024


def ring_kb(job: Job) -> int:
    """Room for twice what comes between two collections, if there is as much. The kernel maps all of it at once."""
    return max(RING_KB_MIN, min(round(_needed_kb(job)), RING_KB_MAX))


def drain_ms(job: Job) -> int:
    """Time between two collections: less on a path so fast that there is no room for the records of a second."""
    return max(1, min(DRAIN_MS, int(DRAIN_MS * RING_KB_MAX / max(_needed_kb(job), 1))))


def start(words: list[str]) -> subprocess.Popen:
    """A command that runs beside the flows, with what it prints."""
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=None if os.getpid() == 1 else die_with_us,  # it needs a fork(), 14 times what vfork() takes
    )


class Tracer:
    out: IO[str]
    ports = ""  # that it traces; empty: those of the flows

    def __init__(self, job: Job, objects: str, path: str):
        links = [x for hop in job.watch for side in (hop.forward, hop.reverse) for x in ("--link", side.dev)]
        state = ["--state"] if job.trace_state else []
        btf = ["--btf", TYPES] if os.path.exists(TYPES) else []
        ring = ["--ring-kb", str(ring_kb(job)), "--drain-ms", str(drain_ms(job))]
        every = ["--every-ms", str(job.trace_every_ms)] if job.trace_every_ms else []
        ports = self.ports or f"{FLOW_PORT}-{FLOW_PORT + len(job.flows) - 1}"
        options = ["--ports", ports, "--bin-ms", str(job.bin_ms), *every, *ring, *state, *btf, *links, "-o", path]
        self.process = start(["asymcc", "--objects", objects, "trace", *options])
        assert self.process.stdout
        self.out = self.process.stdout

    def wait_until_attached(self) -> None:
        line = self.out.readline().strip()
        if line != "tracing":
            raise Failure(f"asymcc trace: {line or 'ended at once'}")

    def check(self) -> None:
        if self.process.poll() is not None:
            raise Failure(f"asymcc trace ended: {self.out.read().strip()}")

    def finish(self) -> str:
        """Stop it; its last words."""
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=60)[0]
        if self.process.returncode:
            raise Failure(f"asymcc trace: {out.strip()}")
        return out.strip()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()
