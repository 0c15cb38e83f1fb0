# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A flow of MPTCP with two subflows, over one bottleneck and over two. The fast engine's kernel has none."""

from __future__ import annotations

import pytest

from asymlab import LabError
from asymlab.machine.image import open_image
from asymlab.plan import scenario
from asymlab.results import capture
from asymlab.run.tasks import plan_runs
from tests.scenarios import CAPTURE, TUNED, hop
from tests.shared import DEFAULT_KERNEL, KERNELS, LAB, check_physics, run

pytestmark = pytest.mark.lab

CUBIC = {"controller": "cubic", "ack": "delayed"}
MPTCP = 30  # the option's kind


def two(scenario_file, *parts, subflows=2, **more):
    long = {"run": {"duration": "30s", "measure_from": "10s"}}
    return scenario_file(TUNED, long, *parts, {"flow": CUBIC | {"subflows": subflows}}, mtu=1500, **more)


def options(packet) -> dict[int, bytes]:
    kinds, at, data = {}, 0, packet["options"].tobytes()
    while at < len(data) and data[at]:
        length = 1 if data[at] == 1 else data[at + 1]
        kinds[data[at]] = data[at : at + length]
        at += length
    return kinds


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_subflows_have_the_shares_of_two_flows(scenario_file, kernel):
    """Linux couples no controllers (RFC 6356 would): two of three equal flows have two thirds."""
    r = run(two(scenario_file, CAPTURE, flows=[CUBIC]), kernel)
    check_physics(r)
    first, second, other = (flow["goodput_bps"] for flow in r.metrics["flows"])
    assert min(first, second) > 1e6 and r.metrics["utilisation"] > 0.99
    assert (first + second) / (first + second + other) == pytest.approx(2 / 3, abs=0.1)
    packets = capture.read(r.folder / "forward.pcap", r.record["agent"]["zero_unix_ns"])
    assert {int(port) for port in packets["sport"]} == {61000, 61001, 61002}
    for port, has in ((61000, True), (61001, True), (61002, False)):
        data = packets[(packets["sport"] == port) & (packets["payload"] > 1000)]
        assert {MPTCP in options(packet) for packet in data[:50]} == {has}


def test_one_subflow_is_tcp_and_two_repeat_to_the_byte(scenario_file):
    short = {"run": {"duration": "3s", "measure_from": "1s"}, "forward": {"loss": "0.5%"}}
    hashes = [
        run(two(scenario_file, short, subflows=subflows), DEFAULT_KERNEL, fresh=True).record["result_sha256"]
        for subflows in (1, 2, 2)
    ]
    assert hashes[0] != hashes[1] == hashes[2]


def test_the_other_way_and_within_a_tunnel(scenario_file):
    r = run(two(scenario_file, {"flow": {"direction": "reverse"}}, path={"tunnel": "gre"}), DEFAULT_KERNEL)
    check_physics(r)
    assert min(flow["goodput_bps"] for flow in r.metrics["flows"]) > 1e6


WAYS = [(DEFAULT_KERNEL, "forward"), (DEFAULT_KERNEL, "reverse"), ("6.1", "forward")]


@pytest.mark.parametrize("kernel, direction", WAYS)
def test_each_subflow_has_a_path_of_its_own(scenario_file, kernel, direction):
    """It has all of it, and its packets are nowhere else."""
    hops = [hop({"rate": rate}, {"rate": rate}) for rate in ("10mbit", "5mbit")]
    flow = {"hop": 1, "second_hop": 2, "direction": direction}
    more = {"flow": flow, "run": {"duration": "5s", "measure_from": "2s"}}
    r = run(two(scenario_file, CAPTURE, more, hops=hops), kernel)
    for k, (flow, watched, rate) in enumerate(zip(r.metrics["flows"], r.metrics["hops"], (10e6, 5e6), strict=True)):
        assert watched[direction]["utilisation"] > 0.99
        assert flow["goodput_bps"] == pytest.approx(rate * r.job.payload_share, rel=0.02)
        name = f"{direction}.pcap" if not k else f"{direction}-2.pcap"
        packets = capture.read(r.folder / name, r.record["agent"]["zero_unix_ns"])
        assert {int(port) for port in packets["sport"]} == {61000 + k}


def test_the_fast_engine_refuses_it(scenario_file):
    (case,) = scenario.load(two(scenario_file))
    with pytest.raises(LabError, match="flows.subflows: .* take --engine qemu"):
        plan_runs([case], open_image(LAB))
