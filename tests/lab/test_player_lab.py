# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Links that play a trace, in virtual machines: to the packet's time, and a wrong one is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from asymlab.machine import vm
from asymlab.machine.image import open_image
from asymlab.plan import scenario
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs
from tests.scenarios import CAPTURE, TUNED, hop, side_by_side, write
from tests.shared import BUILD, LAB, LAB_KERNELS, REPO, run

pytestmark = pytest.mark.lab

LTE = {"rate": None, "trace": {"kind": "lte", "rate": "10mbit", "length": "5s", "seed": 3}}
LONG = {"run": {"duration": "12s"}}


def checked(r) -> dict[str, tuple]:
    return {row["what"]: (row["expected"], row["measured"]) for row in r.record["agent"]["self_check"]}


def curve(r) -> tuple[np.ndarray, np.ndarray, scenario.Direction]:
    """The packets that left the forward queue: times in ms, bytes so far; and the direction's trace."""
    packets = r.capture("forward")
    packets = packets[packets["t"] > 0]
    (case,) = scenario.load(REPO / r.record["command"].split()[2])
    return packets["t"] * 1e3, np.cumsum(packets["bytes"], dtype=float), case.scenario.path.forward


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_each_packet_leaves_at_its_time(scenario_file, kernel):
    """While the queue is never empty, what has left follows the trace's own curve, to a packet."""
    r = run(scenario_file(CAPTURE, LONG, TUNED, mtu=1500, forward=LTE), kernel)
    ms, carried, direction = curve(r)
    late = ms - np.round(ms)
    assert -0.01 < late.min() and late.max() < (0.001 if kernel == LAB else 0.5)
    allowed = np.array([direction.trace.until(round(t)) for t in ms]) * 1500.0
    busy = ms > 1000  # it starts slowly, and then the queue is never empty
    lost = (allowed - carried)[busy]
    # An unused opportunity is lost. Afterwards a packet waits for its last byte at most.
    last_of_time = np.append(np.diff(np.round(ms[busy])) > 0, True)
    assert np.ptp(lost[last_of_time]) <= 1500
    assert r.metrics["utilisation"] == pytest.approx(1, abs=0.002)
    assert checked(r)["trace of left-right, packets at their time"][1] > 100


@pytest.mark.parametrize(
    "fast, slow, queue", [(1, 100, 150), (5, 20, 40), (200, 200, 10)], ids=["idle afterwards", "two rates", "slow"]
)
def test_the_queues_delay_is_what_packets_waited(scenario_file, tmp_path, fast, slow, queue):
    """A packet each `fast` ms for two seconds, each `slow` ms for ten; the flow stops early in one of these."""
    trace = tmp_path / "two-rates.trace"
    trace.write_text("".join(f"{t}\n" for t in [*range(fast, 2001, fast), *range(2000 + slow, 12_001, slow)]))
    way = {"rate": None, "trace": str(trace), "queue": queue}
    flow = {"stop": "1500ms"} if fast == 1 else {}
    times = {"duration": "12s", "measure_from": "0s"}
    r = run(scenario_file(TUNED, mtu=1500, forward=way, flow=flow, run=times))
    rtt = r.metrics["flows"][0]["rtt_s"]
    assert r.metrics["forward"]["queue_delay_mean_s"] == pytest.approx(rtt["mean"] - rtt["min"], rel=0.15)


@pytest.fixture(params=[3, 100], scope="module")
def played(request, tmp_path_factory):
    """Tells of a player's object whether the self-check takes its link; None: the one that is built."""
    guest = open_image(LAB)
    file = write(tmp_path_factory.mktemp("played"), mtu=1500, forward=LTE | {"queue": request.param})
    (task,) = plan_runs(scenario.load(file), guest)

    def passes(player: Path | None) -> bool:
        own = {"player.bpf.o": player.read_bytes()} if player else {}
        files, _ = vm.run(guest, task.job, task.objects | own)
        rows = {row["what"]: row for row in json.loads(files["agent.json"])["self_check"]}
        return rows["trace of left-right, packets at their time"]["ok"]

    return passes


@pytest.mark.parametrize(
    "wrong", ["", "OPPORTUNITY_BYTES 1470", "OPPORTUNITY_BYTES 1530", "NS_PER_MS 1020000ULL", "NS_PER_MS 980000ULL"]
)
def test_a_link_that_is_wrong_by_two_percent_is_found(tmp_path, played, wrong):
    if not wrong:
        assert played(None)
        return
    name, value = wrong.split()
    source = (REPO / "bpf/lab/player.bpf.c").read_text()
    lines = [f"#define {name} {value}" if line.startswith(f"#define {name} ") else line for line in source.splitlines()]
    assert lines != source.splitlines()
    (tmp_path / "player.bpf.c").write_text("\n".join(lines))
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-I{REPO}/bpf", "-idirafter/usr/include/x86_64-linux-gnu"]
    subprocess.run(["clang", *flags, "-c", tmp_path / "player.bpf.c", "-o", tmp_path / "player.bpf.o"], check=True)
    assert not played(tmp_path / "player.bpf.o")


def test_a_short_queue_drops_what_finds_it_full(scenario_file):
    queues = (1, 2, 30)
    r = run(scenario_file(side_by_side(*(LTE | {"queue": queue} for queue in queues)), LONG))
    for queue, measured in zip(queues, r.metrics["hops"], strict=True):
        assert measured["forward"]["queue_max"] == queue and measured["forward"]["drops"] > 0


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_acks_by_a_trace_and_a_chain_with_one(scenario_file, kernel):
    back = run(scenario_file(TUNED, reverse=LTE), kernel)
    assert back.metrics["utilisation"] > 0.9
    both = run(scenario_file(TUNED, hops=[hop(), hop(LTE)]), kernel)
    assert both.metrics["hops"][1]["forward"]["utilisation"] > 0.5


def test_a_run_with_traces_repeats_to_the_byte(scenario_file):
    """Both directions, another trace each; beside a run of another seed, which differs."""
    file = scenario_file(TUNED, forward=LTE, reverse=LTE | {"trace": LTE["trace"] | {"kind": "wifi"}})
    guest = open_image(LAB)
    (task,) = plan_runs(scenario.load(file), guest)
    hashes = {execute([task], guest, fresh=True)[task.key].record["result_sha256"] for _ in range(3)}
    (other,) = plan_runs(scenario.load(file, seeds=(2,)), guest)
    assert len(hashes) == 1 and execute([other], guest)[other.key].record["result_sha256"] not in hashes


def test_changes_beside_a_trace(scenario_file):
    """Delay and loss change while the trace goes on."""
    change = {"at": "2s", "direction": "forward", "delay": "60ms", "loss": "1%"}
    r = run(scenario_file(TUNED, forward=LTE, run={"duration": "6s"}, changes=[change]))
    rtt = r.acks["rtt_us"][(r.acks["t"] > 3) & (r.acks["rtt_us"] > 0)]
    assert rtt.min() >= 80_000 and r.metrics["flows"][0]["retransmits"] > 0
    assert (BUILD / "traces").is_dir()
