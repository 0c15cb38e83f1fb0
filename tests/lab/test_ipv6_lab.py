# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs over IPv6: they are those over IPv4 with 20 bytes more in each header."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.lab.test_path_lab import SACK_PERMITTED, option_kinds
from tests.scenarios import CAPTURE, TUNED, hop
from tests.shared import LAB_KERNELS, check_physics, counters, run

V6 = TUNED | {"ip": 6}


def line(mbit: float, back_kbit: int, mtu: int = 1500, forward: dict | None = None, back: dict | None = None) -> dict:
    return {
        "mtu": mtu,
        "forward": {"rate": f"{mbit}mbit", **(forward or {})},
        "reverse": {"rate": f"{back_kbit}kbit", **(back or {})},
    }


USUAL = line(10, 2000)


@pytest.mark.lab
@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_twenty_bytes_more(scenario_file, kernel):
    """With packets that are longer by these, and rates as much higher, each packet takes the same time: so every
    segment and every ACK comes as before. Only the SYNs, which are shorter, take another time."""
    old = run(scenario_file(TUNED, CAPTURE, line(15, 1040)), kernel)
    new = run(scenario_file(V6, CAPTURE, line(15.2, 1440, mtu=1520)), kernel)
    for r in (old, new):
        check_physics(r)
    data, longer = (r.capture("forward") for r in (old, new))
    assert set(data["payload"]) == set(longer["payload"]) == {0, 1448}
    assert set(longer["bytes"]) == {20 + size for size in data["bytes"]}
    assert len(data) == len(longer) and (data["payload"] == longer["payload"]).all()
    assert (data["seq"] - data["seq"][0] == longer["seq"] - longer["seq"][0]).all()
    one = 1500 * 8 / 15e6
    assert np.abs(data["t"] - longer["t"]).max() < one  # in the engine qemu a longer header takes more instructions
    assert old.metrics["goodput_bps"] == pytest.approx(new.metrics["goodput_bps"], rel=1e-3)


@pytest.mark.lab
@pytest.mark.parametrize("controller, seen", [("formosa", "acks_suppressed"), ("accsa", None)])
def test_controllers_with_options_of_their_own(scenario_file, controller, seen):
    r = run(scenario_file(V6, USUAL, flow={"controller": controller}))
    check_physics(r)
    assert r.metrics["utilisation"] > 0.9
    if seen:
        n = counters(r, controller)
        assert n["options_seen"] > 100 and n[seen] > 100


@pytest.mark.lab
@pytest.mark.parametrize("kernel", LAB_KERNELS)
@pytest.mark.parametrize("at", ["host", "router"])
def test_thinned_acks(scenario_file, at, kernel):
    """The link of the ACKs has room for a sixth of them; thinned, they fit, and the queue before it stays short."""
    thin = {"thin": {"reverse_kbit": 80, "at": at}}
    plain, thinned = (run(scenario_file(V6, line(10, 80), more), kernel) for more in ({}, thin))
    assert thinned.record["agent"]["thin"]
    assert thinned.metrics["goodput_bps"] > 1.1 * plain.metrics["goodput_bps"]
    assert thinned.metrics["acks_per_data_packet"] < plain.metrics["acks_per_data_packet"]


@pytest.mark.lab
def test_all_else_that_a_path_may_have(scenario_file):
    """Middleboxes, a load, a trace, a change of the MTU, requests, a flow of a size, all data compared."""
    trace = {"kind": "wifi", "rate": "10mbit", "length": "5s"}
    way = {"rate": None, "trace": trace, "strip": {"kinds": [4], "syn": True}}
    more = {
        "flows": [{"controller": "cubic", "size": 100_000}],
        "background": [{"rate": "1mbit", "packet": 500}],
        "changes": [{"at": "2s", "direction": "forward", "mtu": 1280}],
    }
    r = run(scenario_file(V6, CAPTURE, line(10, 2000, forward=way), more, run={"verify": True}))
    assert r.metrics["background_bps"] == [pytest.approx(1e6, rel=0.02)]
    assert SACK_PERMITTED not in option_kinds(r.capture("reverse")[0])
    sent = r.capture("forward")
    assert sent["bytes"][sent["t"] < 2].max() == 1500 and sent["bytes"][sent["t"] > 2.5].max() == 1280
    assert r.record["agent"]["verified"]["1"] == {"bytes": 10**5, "wrong_at": None}


def next_headers(capture: bytes) -> set[int]:
    """The next headers of all IPv6 packets of a capture."""
    at, kinds = 24, set()
    while at < len(capture):
        (length,) = struct.unpack_from("<I", capture, at + 8)
        kinds.add(capture[at + 16 + 6])
        at += 16 + length
    return kinds


@pytest.mark.lab
def test_no_packets_but_those_of_the_experiment(scenario_file):
    """The kernel reports its multicast groups when a link comes up, and once more within a second: not here. On a chain
    such a report took an opportunity of a trace in the middle of the self-check."""
    r = run(scenario_file(V6, CAPTURE, USUAL))
    assert {h for side in ("forward", "reverse") for h in next_headers((r.folder / f"{side}.pcap").read_bytes())} == {6}
    traced = hop({"rate": None, "trace": {"kind": "wifi", "rate": "100kbit", "length": "5s"}})
    r = run(scenario_file(V6, mtu=1500, hops=[hop(), traced, hop()]))
