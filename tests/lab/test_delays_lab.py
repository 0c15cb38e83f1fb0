# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Delays and losses that change, in virtual machines: to the packet's time, and a program that is wrong is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from asymlab.guest.delayer import Trace
from asymlab.machine import vm
from asymlab.machine.image import open_image
from asymlab.plan import delays, scenario
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs
from tests.scenarios import CAPTURE, TUNED, hop, write
from tests.shared import LAB, LAB_KERNELS, REPO, run

pytestmark = pytest.mark.lab

NS = 1e9
OWN_MS = 10  # the hop's own delay
LAST_S = 5.8  # of a run of 6 s: what leaves later may still be under way at its end
# A delay that grows, falls by more than packets are apart, and grows again; some lose packets.
LINES = [(0, 5, 0), (400, 40, 0.02), (900, 8.5, 0), (1300, 60, 0.1), (1500, 20, 0), (2100, 0, 0)]
SOURCE = REPO / "bpf" / "lab" / "delayer.bpf.c"


def put(file: Path, lines=LINES, name="way") -> Path:
    """The trace beside the scenario that names it."""
    (file.parent / name).write_text("".join(f"{at} {ms} {lost}\n" for at, ms, lost in lines))
    return file


def across(r) -> tuple[np.ndarray, np.ndarray]:
    """Data packets that were sent once: when they left the first hop's queue, and the second's; NaN: never."""
    first, second = (packets[packets["payload"] > 0] for packets in (r.capture("forward"), r.capture("forward-2")))
    seq, count = np.unique(first["seq"], return_counts=True)
    once = first[np.isin(first["seq"], seq[count == 1]) & (first["t"] < LAST_S)]
    came = dict(zip(second["seq"].tolist(), second["t"].tolist()))
    return once["t"], np.array([came.get(s, np.nan) for s in once["seq"].tolist()])


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_each_packet_comes_across_when_the_trace_says_so_or_is_lost(scenario_file, kernel):
    """Over a hop with the trace, to one that is fast. In `uml` to 20 us."""
    fast = {"rate": "1gbit", "delay": "1ms", "queue": 1000}
    hops = [hop({"delay_trace": "way", "delay": f"{OWN_MS}ms"}), {"forward": fast, "reverse": fast}]
    file = put(scenario_file(CAPTURE, TUNED, mtu=1500, hops=hops, run={"duration": "6s"}))
    r = run(file, kernel)
    left, came = across(r)
    (shape,) = (end.shape for end in r.job.ends if end.dev == "far1-wire1")
    way = Trace(delays.read(file.parent / "way").pack(), shape.period_ms, shape.seed)
    begins = np.array([at for at, _, _ in LINES]) / 1e3
    part = np.searchsorted(begins, left % 2.1, "right") - 1
    near = np.abs(left[:, None] % 2.1 - begins).min(axis=1) < 1e-3  # the millisecond may be the one before
    expected, last = [], 0.0
    for t, p, lost in zip(left, part, np.isnan(came)):
        at = t + LINES[p][1] / 1e3
        last = max(last, 0 if lost else at)
        expected.append(max(last, at) + OWN_MS / 1e3)
    late = (came - expected)[~np.isnan(came) & ~near]
    assert len(left) > 1500 and -3e-5 < late.min()
    assert np.percentile(late, 99) < (2e-5 if kernel == LAB else 1e-3), "what comes at once waits for the second hop"
    lossy = np.isin(part, [1, 3])
    assert not np.isnan(came[~lossy & ~near]).any()
    for p in (1, 3):
        share = np.isnan(came[(part == p) & ~near]).mean()
        assert share == pytest.approx(LINES[p][2], abs=4 * (LINES[p][2] / (part == p).sum()) ** 0.5)
    assert (np.diff(came[~np.isnan(came)]) >= 0).all() and way.period_ns == 2.1 * NS


@pytest.mark.parametrize("link", [{}, {"rate": None, "trace": {"kind": "wifi", "rate": "10mbit", "length": "5s"}}])
def test_what_is_under_way_is_no_queue(scenario_file, link):
    """Utilisation and the queue's delay are those of the link; round trips have the rest."""
    mean = sum((b[0] - a[0]) * a[1] for a, b in zip(LINES, LINES[1:])) / LINES[-1][0]
    lossless = [(at, ms, 0) for at, ms, _ in LINES]
    file = put(
        scenario_file(TUNED, mtu=1500, forward=link | {"delay_trace": "way"}, run={"duration": "14800ms"}), lossless
    )
    r = run(file)
    forward, rtt = r.metrics["forward"], r.metrics["flows"][0]["rtt_s"]
    assert r.metrics["utilisation"] > 0.98 and forward["queue_max"] <= 100
    assert rtt["mean"] - 0.04 - forward["queue_delay_mean_s"] == pytest.approx(mean / 1e3, rel=0.15)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Tells of a program whether the self-check takes it; None: the one that is built."""
    guest = open_image(LAB)
    lines = [(at, ms + 100, round(3 * lost, 2)) for at, ms, lost in LINES]
    file = put(write(tmp_path_factory.mktemp("played"), forward={"delay_trace": "way"}), lines)
    (task,) = plan_runs(scenario.load(file), guest)

    def passes(program: Path | None) -> bool:
        own = {"delayer.bpf.o": program.read_bytes()} if program else {}
        files, _ = vm.run(guest, task.job, task.objects | own)
        rows = {row["what"]: row for row in json.loads(files["agent.json"])["self_check"]}
        return rows["delays and losses of far1-right, packets at their time"]["ok"]

    return passes


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("", ""),
        ("NS_PER_MS 1000000ULL", "NS_PER_MS 1020000ULL"),
        ("NS_PER_MS 1000000ULL", "NS_PER_MS 980000ULL"),
        ("NS_PER_US 1000ULL", "NS_PER_US 1020ULL"),
        ("NS_PER_US 1000ULL", "NS_PER_US 980ULL"),
        ("d->random >> 7", "d->random >> 9"),
        ("draw(d) < part->lost", "draw(d) < part->lost / 2"),
        ("% d->period_ns : 0", ": 0"),
    ],
)
def test_a_program_that_is_wrong_is_found(tmp_path, played, right, wrong):
    if not wrong:
        assert played(None)
        return
    text = SOURCE.read_text()
    assert right in text
    (tmp_path / "delayer.bpf.c").write_text(text.replace(right, wrong))
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-I{REPO}/bpf", "-idirafter/usr/include/x86_64-linux-gnu"]
    subprocess.run(["clang", *flags, "-c", tmp_path / "delayer.bpf.c", "-o", tmp_path / "delayer.bpf.o"], check=True)
    assert not played(tmp_path / "delayer.bpf.o")


def test_it_repeats_to_the_byte_and_another_seed_has_other_losses(scenario_file):
    file = put(scenario_file(TUNED, forward={"delay_trace": "way"}, reverse={"delay_trace": "way"}))
    guest = open_image(LAB)
    (task,) = plan_runs(scenario.load(file), guest)
    hashes = {execute([task], guest, fresh=True)[task.key].record["result_sha256"] for _ in range(3)}
    (other,) = plan_runs(scenario.load(file, seeds=(2,)), guest)
    assert len(hashes) == 1 and execute([other], guest)[other.key].record["result_sha256"] not in hashes


def test_beside_all_else_that_a_path_has(scenario_file):
    """IPv6, a chain, jitter, a change of the delay, a policer, a load, and losses of all packets for a while."""
    way = {"delay_trace": "way", "jitter": "2ms", "policer": {"rate": "9mbit", "burst": 30000}}
    change = {"at": "2s", "hop": 2, "direction": "forward", "delay": "30ms"}
    more = {"ip": 6, "changes": [change], "background": [{"rate": "500kbit", "packet": 700}]}
    file = put(
        scenario_file(TUNED, more, mtu=1500, hops=[hop(), hop(way, {"delay_trace": "way"})], run={"duration": "8s"}),
        [(0, 1, 0), (3000, 30, 0), (5000, 1, 1), (5300, 9, 0), (8000, 0, 0)],
    )
    r = run(file)
    bins = r.goodput[(r.goodput["t"] > 5.15) & (r.goodput["t"] < 5.25)]
    assert bins["bytes"].sum() == 0 and r.metrics["goodput_bps"] > 2e6
    rtt = [r.acks["rtt_us"][(abs(r.acks["t"] - at) < 0.7) & (r.acks["rtt_us"] > 0)].min() for at in (1, 4)]
    assert 75_000 < rtt[1] - rtt[0] < 85_000, "20 ms by the change, and 29 more each way"
