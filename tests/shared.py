# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The parts that all folders of tests share: the built tree, runs of scenarios, the command `asymlab`."""

from __future__ import annotations

import functools
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asymlab import LabError
from asymlab.cage import LACKS
from asymlab.guest.job import Flow, Hop, Job, Probe, Watched
from asymlab.guest.wire import dump
from asymlab.machine import on_uml
from asymlab.machine.arch import NATIVE
from asymlab.machine.image import DEFAULT_KERNEL, label_of, open_image
from asymlab.plan import scenario
from asymlab.plan.topology import plan_job
from asymlab.results import capture
from asymlab.results.store import Run
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs
from tests.scenarios import FAST, alpha
from tests.warm import Warm, environment

# Which images a machine has decides no test: those of the engine uml name it.
os.environ["ASYMLAB_ENGINE"] = "qemu"
ENVIRONMENT = environment()

REPO = Path(__file__).resolve().parents[1]
BUILD = REPO / "build"

KERNELS = ("6.1", "6.12")
CAGES = [cage.value for cage, lack in LACKS.items() if not lack()]  # that this machine can make


def _fast() -> str:
    """The image for tests whose subject is not a kernel's binary: of the fast engine, where it can run."""
    try:
        on_uml.cage()
        return label_of(DEFAULT_KERNEL, "uml" if NATIVE.name == "amd64" else "qemu")
    except LabError as e:
        print(f"tests run in QEMU: {e}", file=sys.stderr)
        return DEFAULT_KERNEL


LAB = _fast()
LAB_KERNELS = ("6.1", LAB)
# AccECN comes with Linux 7.0, and our fast kernel alone is built with DualPI2: in an image that nobody must have.
L4S = "newest-uml"
needs_l4s = pytest.mark.skipif(
    not (BUILD / "image" / L4S / "manifest.json").exists(), reason=f"no image {L4S}: make check-newest"
)


@functools.cache
def _warm() -> Warm:
    return Warm(ENVIRONMENT)


def asymlab(
    *argv, env: dict[str, str] | None = None, timeout: float = 300, under: Sequence[str | Path] = ()
) -> subprocess.CompletedProcess:
    """Run the command as a user would, `under` another one if that is given."""
    if not (env or under) and environment() == ENVIRONMENT:
        return _warm().run([*map(str, argv)], timeout)
    return subprocess.run(
        [*map(str, under), sys.executable, "-m", "asymlab", *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        cwd=REPO,
    )


def one_line(p, *words):
    """It failed, and said why in one line that has these words."""
    assert p.returncode not in (0, None), p
    lines = [
        line for line in p.stderr.splitlines() if line.strip() and not re.match(r"\d+ runs, \d+ in the store", line)
    ]  # the plan
    assert len(lines) == 1, p.stderr
    for word in words:
        assert word in lines[0]


def wait_for(what, seconds: float = 30):
    """Until it is true; its value."""
    for _ in range(int(seconds / 0.02)):
        if value := what():
            return value
        time.sleep(0.02)
    pytest.fail("it never comes")


def runs(file, kernel=LAB, seed=1, fresh=False, **point) -> list[Run]:
    """The runs of a scenario file's cases, in their order: those with these values. Their set-up checks have passed."""
    guest = open_image(kernel)
    cases = [case for case in scenario.load(file, seeds=(seed,)) if point.items() <= case.point.items()]
    tasks = plan_runs(cases, guest)
    done = execute(tasks, guest, fresh=fresh)
    in_order = [done[task.key] for task in tasks]
    assert all(r.valid for r in in_order), [r.record["invalid"] for r in in_order]
    return in_order


def run(file, kernel=LAB, seed=1, fresh=False, **point) -> Run:
    """That of the one case that there is."""
    (one,) = runs(file, kernel, seed, fresh, **point)
    return one


def repeated(scenario_file, kernel, seconds=2):
    """Random loss, two controllers, BPF and module: every byte repeats on a loaded machine, and another seed has
    others."""
    lossy = {"forward": {"loss": "0.5%"}, "flows": [{"controller": "vegas"}]}
    file = scenario_file(FAST, alpha(20), lossy, run={"duration": f"{seconds}s", "trace_state": True})
    first = run(file, kernel, fresh=True)
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        second = run(file, kernel, fresh=True)
    finally:
        for p in load:
            p.kill()
            p.wait()
    other = run(file, kernel, seed=2, fresh=True)
    assert first.record["result_sha256"] == second.record["result_sha256"] != other.record["result_sha256"]
    assert first.record["metrics"] == second.record["metrics"] != other.record["metrics"]
    assert (first.acks == second.acks).all() and other.metrics["flows"] != first.metrics["flows"]
    for r in (first, other):
        check_physics(r)
    return first, second, other


def counters(r, controller: str) -> dict[str, int]:
    """A controller's counters at the end of a run."""
    return {c["name"]: c["value"] for c in r.record["agent"]["controllers"][controller]["counters"]}


def compile_job(case: scenario.Case, seed: int, clock_factor: int = 1) -> dict[str, Any]:
    """The job as JSON has it."""
    return dump(plan_job(case, seed, clock_factor))


def some_job(**members) -> Job:
    """A job that has these, and else nothing."""
    lists = "nodes must_have links strips routes flows background changes controllers watch probes".split()
    plain = {"trace_state": False, "capture": False, "audit": False, "payload_share": 0.96}
    times = {"seed": 1, "duration_s": 10.0, "measure_from_s": 1.0, "bin_ms": 100}
    return Job(**{**times, **plain, **{name: [] for name in lists}, **members})


def some_flow(id: int, controller: str, start_s: float = 0.0) -> Flow:
    return Flow(id, f"src{id}", f"dst{id}", "10.77.2.1", "10.77.3.1", controller, start_s, None, None)


def some_hop(forward_bps: float, reverse_bps: float = 1e6, devs=("left-right", "right-left"), name="hop 1") -> Hop:
    return Hop(name, *(Watched(dev, round(bps)) for dev, bps in zip(devs, (forward_bps, reverse_bps))))


def some_probe(base_rtt_us: int) -> Probe:
    return Probe("src0", "dst0", "10.77.2.1", "10.77.3.1", base_rtt_us, 1.0, 0.1, None, None)


def check_physics(r):
    """This holds for every run, whatever the controller."""
    m, job = r.metrics, r.job
    assert 0 < m["utilisation"] <= 1 + 1e-9 and 0 <= m["reverse_utilisation"] <= 1 + 1e-9
    # The whole run counts: data that comes before a window, and waits behind a gap, is delivered in it. On top of
    # what the rate allows there is one bucket of two packets.
    delivered = r.goodput["bytes"].sum() * 8 / job.payload_share
    assert delivered <= job.watch[0].forward.rate_bps * 1.001 * job.duration_s + 3 * 1000 * 8
    n = len(m["flows"])
    assert 1 / n - 1e-9 <= m["jain"] <= 1 + 1e-9
    base_us = min(probe.base_rtt_us for probe in job.probes)
    for f in m["flows"]:
        # Timestamps, which tell it where a segment was sent twice, count whole milliseconds.
        assert round(f["rtt_s"]["min"] * 1e6) >= base_us // 1000 * 1000
    assert m["acks_per_data_packet"] <= 1.05
    acks = r.acks
    assert (acks["cwnd"] >= 1).all() and (np.diff(acks["t"]) >= 0).all()
    # The senders saw acknowledged what the receivers got, but for the last flight. Nobody knows what the last segment
    # brought: the next one would tell.
    for f in m["flows"]:
        of_flow = acks[(acks["flow"] == f["flow"]) & (acks["t"] < job.duration_s)]
        acked = int(of_flow["acked"].astype("u8").sum())
        got = int(r.goodput["bytes"][r.goodput["flow"] == f["flow"]].sum())
        assert 0 <= got - acked < 5e6 and got > 0.5 * acked


def packet(options=b"", payload=5, flags=capture.ACK, protocol=6):
    """The headers of a TCP segment, options padded with NOPs."""
    options += b"\1" * (-len(options) % 4)
    tcp = (
        struct.pack(">HHIIBBHHH", 61000, 5201, 2**32 - 1, 77, (5 + len(options) // 4) << 4, flags, 100, 0, 0) + options
    )
    return (
        struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + payload, 0, 0, 64, protocol, 0, b"\n\0\0\1", b"\n\0\0\2")
        + tcp
    )
