# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counting a run's instructions: exact, complete, and of no effect on the run."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace

import pytest

from asymlab import LabError
from asymlab.machine.image import open_image
from asymlab.plan import scenario
from asymlab.profile import parts, profile
from asymlab.profile.counting import count
from asymlab.profile.programs import UNKNOWN
from asymlab.profile.symbols import Kernel
from asymlab.run.tasks import plan_runs
from tests.shared import KERNELS, REPO, asymlab, one_line, run

pytestmark = pytest.mark.lab
CANARY, UPLINK = (REPO / "experiments" / "bench" / f"cases.toml:{name}" for name in ("canary", "uplink"))
CORE = 1e9  # instructions a second of a small one


@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_are_exact_and_change_nothing(kernel):
    image = open_image(kernel)
    (task,) = plan_runs(scenario.load(CANARY), image)
    symbols = Kernel(image)
    first, second = (count(image, symbols, task.job, task.objects) for _ in range(2))
    assert (first.blocks == second.blocks).all()
    assert first.modules == second.modules and first.bpf == second.bpf
    plain = run(CANARY, kernel)
    profile._check(task, first, plain)
    with pytest.raises(LabError, match="counting changed the run"):
        profile._check(task, replace(first, files={**first.files, "trace.bin": b""}), plain)
    counts = parts.of_run(first, symbols)
    total = int(first.blocks["executed"].sum())
    assert counts.total() == total and first.by_clock <= total < 1.001 * first.by_clock
    # Each kind has the parts that any run has; and hardly anything lacks a name.
    assert {"veth", "sch_tbf", "sch_netem", "tcp_vegas"} <= {p.part for p in counts if p.kind == "module"}
    assert {"segment", "on_dequeue"} <= {p.part for p in counts if p.kind == "bpf"}
    assert {"asymcc", "tc", "libc.so.6", "vdso"} <= {p.part for p in counts if p.kind == "user"}
    assert {"tcp_ack", "ip_forward", "kernel_restart"} <= {p.part for p in counts if p.kind == "kernel"}
    assert counts[parts.Part("user", UNKNOWN, UNKNOWN)] < total / 1000


def test_an_uplink_costs_a_router_little():
    """Its programs, for a data packet with its ACK; its loop, with all that libc does for other programs of the run."""
    image = open_image("6.12")
    (task,) = plan_runs(scenario.load(UPLINK), image)
    plain, counted = run(UPLINK, "6.12"), count(image, symbols := Kernel(image), task.job, task.objects)
    profile._check(task, counted, plain)
    sums: Counter[tuple[str, str]] = Counter()
    for part, instructions in parts.of_run(counted, symbols).items():
        sums[part.kind, part.part] += instructions
    packets = profile.data_packets(plain)
    own = {name: sums["bpf", name] / packets for name in ("uplink", "thin_egress", "thin_ingress")}
    assert 200 < own["uplink"] < 500 and sum(own.values()) < 1800, own
    loop = sum(sums["user", name] for name in ("asymcc", "libm.so.6", "libc.so.6")) / task.job.duration_s
    assert 100_000 < loop < 0.005 * CORE, loop


def test_the_command_tells_of_a_packet_and_of_what_is_fixed(scenario_file, tmp_path):
    file = scenario_file(run={"duration": "2s", "measure_from": "500ms"})
    p = asymlab("profile", file, "--short", "1s", "--top", "5", "--csv", tmp_path / "all.csv")
    assert p.returncode == 0, p.stderr
    words = p.stderr
    for word in ("2 s and 1 s", "those of the runs without counting", "a packet", "fixed", "sch_netem", "on_dequeue"):
        assert word in words
    with open(tmp_path / "all.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    executed = next(line for line in words.splitlines() if line.startswith("executed")).replace(",", "").split()
    assert [sum(int(row[run]) for row in rows) for run in ("long", "short")] == [int(executed[1]), int(executed[3])]
    a_packet = sum(float(row["a_packet"]) for row in rows)
    assert 10_000 < a_packet < 100_000
    one_line(asymlab("profile", file, "--short", "2s"), "the shorter run takes 2 s")
