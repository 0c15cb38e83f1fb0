# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prague behind DualPI2, on a kernel that has AccECN; and where it may not be what it is."""

from __future__ import annotations

import struct

import pytest

from asymlab.conformance.packetdrill import guest
from asymlab.conformance.packetdrill.packetdrill import loaded
from asymlab.guest.drill import Script
from asymlab.machine.image import current_image
from tests.scenarios import TUNED, write
from tests.shared import L4S, REPO, check_physics, counters, needs_l4s, run

pytestmark = [pytest.mark.lab, needs_l4s]

SYN, LARGEST_ACK = 2, 200
ECT0, ECT1, CE = 2, 1, 3
DUALPI2: dict = {"dualpi2": {}}
CODEL = {"codel": {"ecn": True}}
CUBIC = {"controller": "cubic"}


def flow_of(tmp_path, queue=DUALPI2, beside=(), tcp_ecn=5, duration=12, ip=4, **more):
    """50 Mbit/s and 20 ms, a BDP of 83 packets; receivers that accept AccECN, if tcp_ecn is 3 or more."""
    way = {"rate": "50mbit", "delay": "10ms", "queue": 1000}
    return write(
        tmp_path,
        TUNED,
        more,
        ack=None,
        ip=ip,
        sysctls={"net.ipv4.tcp_ecn": tcp_ecn} if tcp_ecn is not None else None,
        mtu=None,
        forward=way | queue,
        reverse=way,
        flow={"controller": "prague"},
        flows=list(beside),
        run={"duration": f"{duration}s", "measure_from": "4s", "capture": True, "trace_state": True},
    )


def ecn_fields(r, which: str, v6: bool = False) -> dict[tuple[int, str], int]:
    """How many packets have each ECN field, by their kind. Each checksum of an IP header is right."""
    data, at, counts = (r.folder / f"{which}.pcap").read_bytes(), 24, {}
    while at + 16 <= len(data):
        kept, size = struct.unpack_from("II", data, at + 8)
        ip, at = data[at + 16 : at + 16 + kept], at + 16 + kept
        if not v6:
            words = sum(struct.unpack(">10H", ip[:20]))
            assert (words & 0xFFFF) + (words >> 16) == 0xFFFF
        ecn, flags = (ip[1] >> 4 & 3, ip[53]) if v6 else (ip[1] & 3, ip[33])
        key = ecn, "SYN" if flags & SYN else "data" if size > LARGEST_ACK else "ACK"
        counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("ip", [4, 6])
def test_a_queue_below_a_millisecond_and_a_full_link(tmp_path, ip):
    """RFC 9331, 4.1: all its data are ECT(1), or marked on the way. Each mark is told."""
    r = run(flow_of(tmp_path, ip=ip), L4S)
    check_physics(r)
    forward, c = r.metrics["forward"], counters(r, "prague")
    assert forward["queue_delay_mean_s"] < 1e-3 and forward["utilisation"] > 0.97 and forward["drops"] == 0
    assert c["cuts"] > 20 and c["classic_cuts"] == c["losses"] == c["fallbacks"] == 0
    assert r.record["agent"]["controllers"]["prague"]["l4s"]  # as the kernel has it
    sent = ecn_fields(r, "forward", ip == 6)
    assert {key for key in sent if key[1] != "ACK"} == {(ECT1, "SYN"), (ECT1, "data"), (CE, "data")}
    marks = r.record["agent"]["marks"]["end"]["qdisc"][r.job.watch[0].forward.dev]["marks"]
    assert marks == sent[CE, "data"] and (r.state(0)["l4s"][100:] == 1).all()


def test_a_scenario_that_says_nothing_of_ecn_has_prague_and_cubic_without(tmp_path):
    """The hosts of `tuned` have no ECN; its receiver alone accepts AccECN."""
    r = run(flow_of(tmp_path, beside=[CUBIC], tcp_ecn=None, duration=6), L4S)
    assert counters(r, "prague")["fallbacks"] == 0 < counters(r, "prague")["cuts"]
    assert {ecn for ecn, kind in ecn_fields(r, "forward") if kind == "data"} == {0, ECT1, CE}


def test_beside_cubic_in_the_same_queue(tmp_path):
    """RFC 9332, 2.1: like windows, within a factor. CUBIC's packets wait for the target."""
    r = run(flow_of(tmp_path, beside=[CUBIC | {"start": "1s"}], duration=30), L4S)
    check_physics(r)
    prague, cubic = r.metrics["flows"]
    assert 0.6 < prague["cwnd_mean"] / cubic["cwnd_mean"] < 1.7
    assert prague["rtt_s"]["p95"] < 21.5e-3 < 28e-3 < cubic["rtt_s"]["mean"]


def test_a_peer_without_accurate_feedback_has_a_cubic_flow_without_ecn(tmp_path):
    r = run(flow_of(tmp_path, {}, tcp_ecn=1), L4S)
    assert counters(r, "prague")["fallbacks"] == 1
    assert {ecn for (ecn, kind) in ecn_fields(r, "forward") if kind == "data"} == {0}
    assert r.metrics["forward"]["utilisation"] > 0.9


def test_without_the_filter_on_its_device_a_mark_is_a_classic_one(tmp_path, monkeypatch):
    """Linux sends its data as ECT(0) then, and the law sees that they arrive so."""
    monkeypatch.setattr("asymlab.plan.topology._ect1", lambda *_: [])
    r = run(flow_of(tmp_path, CODEL, tcp_ecn=3), L4S)
    c = counters(r, "prague")
    assert c["classic_cuts"] > 5 and c["cuts"] == 0
    sent = ecn_fields(r, "forward")
    assert (ECT0, "data") in sent and (ECT1, "data") not in sent


def test_a_classic_queue_is_noticed(tmp_path):
    """RFC 9331, 4.3: CUBIC does not starve where one queue marks both, and DualPI2 is not taken for such a one."""
    classic = {"beside": [CUBIC], "tcp_ecn": 4, "controllers": {"prague": {"classic_ms": 3}}}
    codel = run(flow_of(tmp_path, CODEL, duration=30, **classic), L4S)
    prague, cubic = (flow["goodput_bps"] for flow in codel.metrics["flows"])
    assert 0.5 < prague / cubic < 2 and counters(codel, "prague")["classic_cuts"] > 10
    l4s = run(flow_of(tmp_path, **classic), L4S)
    assert counters(l4s, "prague")["classic_cuts"] == 0 < counters(l4s, "prague")["cuts"]


def test_its_presets_load():
    """Objects that this machine's own kernel may be too old for (tests/live/test_loader.py)."""
    image = current_image(L4S)
    _, files = loaded(["prague"], image)
    words = "load prague --preset classic"
    argv = ["bash", "-c", f"asymcc --objects /lab {words} && asymcc unload prague"]
    with guest.guest(image) as ready:
        files = guest.run(ready, Script(1, ".", argv, 60, []), files | {"scripts/none": b""}, None, 60, None)
    assert files["code"] == b"0", files["stderr"].decode()
    assert b"prague registered (classic_ms=3 ms)" in files["stdout"]
    assert f"\n    sudo asymcc {words}\n" in (REPO / "docs" / "prague.md").read_text()


def test_the_filter_leaves_other_controllers_packets_as_they_are(tmp_path, monkeypatch):
    """CUBIC's data leave by a device that has it, too."""
    both = ["src0-left", "src1-left"]
    monkeypatch.setattr("asymlab.plan.topology._ect1", lambda *_: both)
    r = run(flow_of(tmp_path, beside=[CUBIC], tcp_ecn=4, duration=5), L4S)
    assert r.job.ect1 == both
    sent = ecn_fields(r, "forward")
    assert sent[ECT0, "data"] > 1000 and sent[ECT1, "data"] > 1000
