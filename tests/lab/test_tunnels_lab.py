# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A tunnel on the path: what its packets look like, what their headers take, and what becomes of ECN (RFC 6040)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from asymlab import LabError
from asymlab.machine.image import open_image
from asymlab.plan import scenario
from asymlab.run.tasks import plan_runs, without
from tests.scenarios import CAPTURE, FAST, TUNED, alpha, hop
from tests.shared import DEFAULT_KERNEL, LAB, check_physics, counters, run

pytestmark = pytest.mark.lab

HEADERS = {"ipip": 20, "gre": 24, "wireguard": 60}
PROTOCOL = {"ipip": 4, "gre": 47, "wireguard": 17}
# The fast engine's kernel has no WireGuard.
KINDS = {"ipip": LAB, "gre": LAB, "wireguard": DEFAULT_KERNEL}
EVERY_KERNEL = [*KINDS.items(), *((kind, kernel) for kernel in ("6.1", DEFAULT_KERNEL) for kind in ("ipip", "gre"))]
MTU, TCP = 1500, 52  # bytes: a packet, and IP and TCP headers with timestamps
NOT_ECT, ECT1, ECT0, CE = range(4)
CUBIC = {"flow": {"controller": "cubic", "ack": "delayed"}}
LONG = {"run": {"duration": "8s", "measure_from": "3s"}}


def over(scenario_file, kind, *parts, **more):
    """One flow of CUBIC through a tunnel, or without one."""
    return scenario_file(TUNED, CUBIC, LONG, *parts, mtu=MTU, path={"tunnel": kind} if kind else {}, **more)


def packets(r, name="forward"):
    """(protocol, ECN, whole length, whether it is one of several fragments) of each packet of a capture."""
    data, at = (r.folder / f"{name}.pcap").read_bytes(), 24
    while at + 16 <= len(data):
        kept, size = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (8, 12))
        ip = data[at + 16 : at + 16 + kept]
        yield ip[9], ip[1] & 3, size, bool(int.from_bytes(ip[6:8], "big") & 0x3FFF)
        at += 16 + kept


@pytest.mark.parametrize("kind, kernel", EVERY_KERNEL)
def test_headers_take_their_share_and_no_more(scenario_file, kind, kernel):
    """The sender learns of the tunnel's MTU: full packets have the path's, and none is cut."""
    r, plain = (run(over(scenario_file, of, CAPTURE), kernel) for of in (kind, None))
    for of in (r, plain):
        check_physics(of)
    seen = list(packets(r))
    assert {protocol for protocol, *_ in seen} == {PROTOCOL[kind]}
    assert max(size for *_, size, _ in seen) == MTU and not any(cut for *_, cut in seen)
    later = seen[len(seen) // 2 :]  # Linux 6.1 cuts a tail off each segment that it had made before
    assert sum(size == MTU for *_, size, _ in later) > 0.98 * len(later)
    wanted = 10e6 * (MTU - HEADERS[kind] - TCP) / MTU
    assert r.metrics["goodput_bps"] == pytest.approx(wanted, rel=0.003)
    assert plain.metrics["goodput_bps"] == pytest.approx(10e6 * (MTU - TCP) / MTU, rel=0.003)
    assert r.metrics["utilisation"] == pytest.approx(1, abs=0.002)
    assert r.metrics["throughput_bps"] == pytest.approx(10e6, rel=0.003)


@pytest.mark.parametrize("kind", KINDS)
def test_it_repeats_to_the_byte(scenario_file, kind):
    lossy = {"forward": {"loss": "0.5%"}, "run": {"trace_state": True, "duration": "3s", "measure_from": "1s"}}
    file = over(scenario_file, kind, FAST, alpha(20), lossy)
    first, second = (run(file, KINDS[kind], fresh=True) for _ in range(2))
    other = run(file, KINDS[kind], seed=2, fresh=True)
    assert first.record["result_sha256"] == second.record["result_sha256"] != other.record["result_sha256"]


RED = {"red": {"min": 10, "max": 40, "weight": 0.02, "probability": "10%", "ecn": True}}


@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_the_outer_queue_reach_the_sender(scenario_file, kind):
    """It keeps as short a queue as without the tunnel, by marks alone."""
    more = {"ecn": True, "forward": RED, "run": {"duration": "20s", "measure_from": "3s"}}
    runs = [run(over(scenario_file, of, CAPTURE, more), KINDS[kind]) for of in (kind, None)]
    for r in runs:
        forward, (source,) = r.metrics["forward"], r.record["agent"]["marks"]["end"]["tcp"].values()
        fields = Counter(ecn for _, ecn, size, _ in packets(r) if size == MTU)
        assert forward["marks"] > 3 and forward["drops"] == 0 == r.metrics["flows"][0]["retransmits"]
        assert fields[CE] > 3 and fields[ECT0] > 0.9 * fields.total()
        assert source["TcpExtTCPDeliveredCE"] >= fields[CE]
    tunnelled, plain = (r.metrics["forward"]["queue_delay_mean_s"] for r in runs)
    assert tunnelled == pytest.approx(plain, rel=0.25)


@pytest.mark.parametrize("ecn", [False, True])
@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_mark_on_what_is_not_ect_is_a_loss(scenario_file, kind, ecn):
    """A router marks one packet of a hundred. RFC 6040, 4.2: within a tunnel Not-ECT is dropped, and ECT becomes CE.
    WireGuard lets it pass as Not-ECT: the mark is lost."""
    r = run(over(scenario_file, kind, ecn=ecn, forward={"ecn_codepoint": "marked"}), KINDS.get(kind, LAB))
    (source,) = r.record["agent"]["marks"]["end"]["tcp"].values()
    lost = r.metrics["flows"][0]["retransmits"] / r.metrics["forward"]["packets"]
    dropped = kind in ("ipip", "gre") and not ecn
    assert lost == pytest.approx(0.01 if dropped else 0, abs=0.001)
    assert (source["TcpExtTCPDeliveredCE"] > 10) == ecn


def test_a_chain_has_one_from_end_to_end(scenario_file):
    """The middle hop is the slow one, and the routers between know no host."""
    hops = [hop({"rate": "50mbit"}), hop(), hop({"rate": "50mbit"})]
    r = run(over(scenario_file, "gre", hops=hops), LAB)
    check_physics(r)
    assert r.metrics["goodput_bps"] == pytest.approx(10e6 * (MTU - HEADERS["gre"] - TCP) / MTU, rel=0.003)
    assert {route.node for route in r.job.routes if "tunnel" in route.dev} == {"sw1", "sw4"}


UPLOAD = {"controller": "cubic", "direction": "reverse", "hosts_of": 0}


@pytest.mark.parametrize("kind", ["ipip", "gre"])
def test_thinning_on_a_router_leaves_what_it_cannot_read(scenario_file, kind):
    """It thins what is in no tunnel."""
    slow = {"reverse": {"rate": "100kbit"}}
    thin = {"at": "router", "reverse_kbit": 100}
    for of, touched in ((None, True), (kind, False)):
        r, without = (run(over(scenario_file, of, slow, **more), LAB) for more in ({"thin": thin}, {}))
        counted = {c["name"]: c["value"] for c in r.record["agent"]["thin"]["counters"]}
        assert (counted["acks_suppressed"] > 0) == touched
        assert (r.metrics["flows"] == without.metrics["flows"]) == (not touched)


def test_a_receiver_thins_within_a_tunnel(scenario_file):
    slow = {"reverse": {"rate": "100kbit"}}
    r, without = (run(over(scenario_file, "gre", slow, **more), LAB) for more in ({"thin": {"reverse_kbit": 40}}, {}))
    assert r.metrics["reverse"]["packets"] < 0.6 * without.metrics["reverse"]["packets"]
    assert r.metrics["goodput_bps"] > 0.98 * without.metrics["goodput_bps"]


def test_uplink_shapes_nothing_where_it_sees_no_tcp(scenario_file):
    """On the router before a modem."""
    wide = {"rate": "100mbit", "queue": 1000}
    hops = [hop(wide, {"rate": "5mbit", "queue": 100}), hop(wide, wide)]
    for kind, shaped in ((None, True), ("gre", False)):
        r = run(over(scenario_file, kind, hops=hops, flows=[UPLOAD], uplink={"at": "router"}), LAB)
        rates = [line.split()[1] for line in (r.folder / "uplink.txt").read_text().splitlines() if "." in line]
        assert (set(rates) != {"10000000000"}) == shaped and len(rates) > 100
        assert shaped or r.metrics["hops"][0]["reverse"]["utilisation"] > 0.95


def test_a_fair_law_sees_cubic_within_a_tunnel(scenario_file):
    """FAST keeps its share beside CUBIC by its contest, as without the tunnel."""
    fair = {"controllers": {"fast": {"fair": 1, "alpha": 20}}, "flow": {"controller": "fast"}}
    fair |= {"flows": [{"controller": "cubic"}], "run": {"duration": "30s", "measure_from": "15s"}}
    shares = []
    for kind in (None, "gre"):
        r = run(over(scenario_file, kind, fair, ack="every"), LAB)
        assert counters(r, "fast")["contests"] > 0
        own, other = (flow["goodput_bps"] for flow in r.metrics["flows"])
        shares.append(own / (own + other))
    assert shares[1] == pytest.approx(shares[0], abs=0.1)


def test_the_fast_engine_refuses_what_its_kernel_is_built_without(scenario_file):
    (case,) = scenario.load(over(scenario_file, "wireguard"))
    with pytest.raises(LabError, match="path.tunnel: wireguard: .* take --engine qemu"):
        plan_runs([case], open_image(LAB))


def test_a_kernel_of_the_user_may_have_it(scenario_file, tmp_path):
    """Its types tell."""
    (case,) = scenario.load(over(scenario_file, "wireguard"))
    (tmp_path / "vmlinux.h").write_text("struct wg_peer {\n};\n")
    assert not without(case, replace(open_image(LAB), folder=tmp_path))
