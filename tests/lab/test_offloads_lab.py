# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Hosts with TSO, GRO and a network card that interrupts seldom: what is on the wire, and how many ACKs come back."""

from __future__ import annotations

import re
import struct
from unittest import mock

import pytest

from asymlab.guest import check, net
from asymlab.guest.job import End, Propagation, Unshaped
from asymlab.guest.netlink import Queue, attribute, slot_us
from asymlab.guest.protocol import Check
from tests.scenarios import CAPTURE, TUNED, hop
from tests.shared import LAB, run

DELAYED = {"flow": {"controller": "cubic", "ack": "delayed"}}


def fast_link(mbit: int) -> dict:
    way = {"rate": f"{mbit}mbit", "delay": "5ms", "queue": 2000}
    return {"mtu": 1500, "forward": way, "reverse": way}


def offloads(**words) -> dict:
    return {"offloads": True, **words}


@pytest.mark.lab
@pytest.mark.parametrize(
    "kernel, words, mbit, packets, off",
    [
        (LAB, {}, 100, 2, 0.01),  # the delayed ACK
        (LAB, offloads(), 100, 2, 0.01),  # packets come one by one: GRO has nothing to join
        # An ACK for each group. GRO joins packets of one timestamp, so each millisecond ends a group early.
        (LAB, offloads(coalesce="50us"), 1000, 50 / 12, 0.05),
        (LAB, offloads(coalesce="500us", ip=6), 100, 500 / 120, 0.15),
        ("6.1", offloads(coalesce="500us"), 100, 500 / 120, 0.15),
    ],
)
def test_packets_that_an_ack_covers(scenario_file, kernel, words, mbit, packets, off):
    """100 Mbit/s are a packet of 1500 bytes each 120 us. On the wire no packet is larger than the MTU."""
    short = {"run": {"duration": "1.5s"}}
    r = run(scenario_file(TUNED, words, fast_link(mbit), DELAYED, CAPTURE, short), kernel)
    assert 1 / r.metrics["acks_per_data_packet"] == pytest.approx(packets, rel=off)
    assert r.metrics["utilisation"] > 0.99 and r.capture("forward")["bytes"].max() == 1500


@pytest.mark.lab
@pytest.mark.parametrize(
    "kernel, segment, least, most",
    [
        (LAB, 16384, 9, 22),  # some ACKs are of two segments
        (LAB, None, 40, 46),
        (LAB, 180000, 85, 125),  # BIG TCP
        ("6.1", 180000, 2, 125),  # its guest's CPU takes time: groups are smaller
    ],
)
def test_segments_of_another_size(scenario_file, kernel, segment, least, most):
    """At 1 Gbit/s 5 ms are 417 packets of 1500 bytes, and GRO makes segments of 11, 45 or 125 of them."""
    words = offloads(coalesce="5ms", ip=6, segment=segment)
    short = {"duration": "1s", "measure_from": "500ms"}
    r = run(scenario_file(words, fast_link(1000), DELAYED, CAPTURE, run=short), kernel)
    assert r.capture("forward")["bytes"].max() == 1500
    assert least < 1 / r.metrics["acks_per_data_packet"] < most
    (row,) = [row for row in r.self_check if row.kind == Check.OFFLOADS]
    bytes_ = re.findall(r"segments of (\d+) bytes out and (\d+) in", " ".join(row.measured))
    assert bytes_ == 2 * [2 * (str(segment),)] if segment else not bytes_


@pytest.mark.lab
@pytest.mark.parametrize("mtu", [576, 1500, 9000])
def test_small_and_large_packets(scenario_file, mtu):
    r = run(scenario_file(TUNED, offloads(coalesce="200us"), fast_link(100), DELAYED, mtu=mtu))
    assert r.metrics["goodput_bps"] == pytest.approx(1e8 * (1 - 52 / mtu), rel=0.005)


@pytest.mark.lab
def test_hosts_on_a_chain(scenario_file):
    """Their links have no delay of their own; they have groups all the same."""
    r = run(scenario_file(TUNED, offloads(coalesce="5ms"), DELAYED, hops=2 * [hop()]))
    rows = [row for row in r.self_check if row.what.startswith("groups of packets")]
    assert len(rows) == 2 and all(row.measured == 5000 for row in rows)
    least_us = r.acks["rtt_us"][r.acks["rtt_us"] > 0].min()
    assert 45_000 < least_us < 51_000  # of a group the first waits for as long as it lasts


@pytest.mark.parametrize(
    "segments, good", [((180_000, 180_000), True), ((180_000, 176_400), False), ((183_600,) * 2, False)]
)
def test_segments_that_are_wrong_by_2_percent_are_found(monkeypatch, segments, good):
    end = End("src0", "src0-left", "fd77::1:1", "02:00:00:00:01:01", Unshaped(), True, 180_000)
    monkeypatch.setattr(net, "ethtool", lambda _, asked: int(asked != 0x1E))
    monkeypatch.setattr(net.netlink.Netlink, "segments", lambda *_: segments)
    assert (net.offloads_on(mock.MagicMock(), end) == net.wanted_offloads(end)) is good


def test_what_a_netem_tells_of_its_slots():
    options = struct.pack("6I", *6 * [0])
    assert slot_us(options) == 0.0
    assert slot_us(options + attribute(12, struct.pack("qqiiqq", 50_000, 50_000, 0, 0, 0, 0))) == 50.0


@pytest.mark.parametrize("ns, good", [(50_000, True), (51_000, False), (49_000, False)])
def test_groups_that_are_wrong_by_2_percent_are_found(ns, good):
    end = End("left", "left-right", "10.77.1.1", "02:00:00:00:01:01", Propagation(1000, 0.0, 0.0, slot_us=50))
    words = struct.pack("6I", *6 * [0]) + attribute(12, struct.pack("qqiiqq", ns, ns, 0, 0, 0, 0))
    kernel = mock.Mock(queues=lambda _: {end.dev: [Queue("netem", True, {}, words, b"")]})
    (row,) = check.check_slots(mock.Mock(ends=[end]), kernel)
    assert row["ok"] is good
