# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Paths and hosts of a scenario, beyond rates, delays and losses."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from asymlab import LabError
from asymlab.guest import check
from asymlab.guest.job import Job, Train
from asymlab.guest.protocol import FLOW_PORT, ip_udp
from asymlab.guest.wire import dump, read
from asymlab.machine import image, vm
from asymlab.plan import scenario
from asymlab.results import breakdown, capture
from asymlab.run.tasks import plan_runs
from tests.scenarios import CAPTURE, FAST, FORMOSA, LINUX, PLAIN, TUNED, WAY, alpha, hop, side_by_side
from tests.shared import LAB, LAB_KERNELS, check_physics, run

pytestmark = pytest.mark.lab

LONG = {"run": {"duration": "8s", "measure_from": "4s"}}
SACK_PERMITTED = 4


def option_kinds(packet) -> set[int]:
    options, at, kinds = packet["options"].tobytes(), 0, set()
    while at < len(options) and options[at]:
        kinds.add(options[at])
        at += 1 if options[at] == 1 else options[at + 1]
    return kinds


def syn_ack(r):
    back = r.capture("reverse")
    return back[back["flags"] & capture.SYN > 0][0]


def counted(r, name, host="src0"):
    return r.record["agent"]["marks"]["end"]["tcp"][host][name]


def rate_of(monkeypatch, train: Train, arrivals: dict[int, float]) -> tuple[float, float]:
    """The rate that the self-check computes of packets that come at these times, ns, by their number."""
    packets = iter(
        (number.to_bytes(4, "little").ljust(train.bytes - ip_udp("")), round(t), None)
        for number, t in sorted(arrivals.items(), key=lambda item: item[1])
    )
    monkeypatch.setattr(check, "stamped_receive", lambda _: next(packets, None))
    return check.link_rate(mock.Mock(), None, "", train)


@pytest.mark.parametrize("early", range(30))
def test_the_rate_of_a_train_in_which_one_overtakes(monkeypatch, early):
    """At 10 Mbit/s 1000 bytes take 0.8 ms; that one is not delayed by 20 ms as the others are."""
    train = Train(packets=30, bytes=1000, skip=4, rate_bps=10**7)
    arrivals = {i: 800_000 * i + (0 if i == early else 20_000_000) for i in range(30)}
    low, high = rate_of(monkeypatch, train, arrivals)
    assert 0.9 * 10e6 <= low <= high == pytest.approx(10e6)


@pytest.mark.parametrize("early", [{4}, {29}, {4, 29}, {4, 5, 12, 28, 29}])
@pytest.mark.parametrize("rate", [10**7, 10**7 * 1.02])
def test_the_rate_of_a_train_in_which_some_are_early_and_overtake_none(monkeypatch, early, rate):
    """Without 0.6 ms of delay, where 1000 bytes take 0.8 ms; a rate that is wrong by 2 % is told."""
    train = Train(packets=30, bytes=1000, skip=4, rate_bps=10**7, early=True)
    arrivals = {i: 8e12 * i / rate + (0 if i in early else 600_000) for i in range(30)}
    assert rate_of(monkeypatch, train, arrivals) == pytest.approx((rate, rate))


@pytest.mark.parametrize(
    "late, rate, good", [({4}, 1, 1), ({29}, 1, 1), ({4, 29}, 1, 1), ({12}, 1, 1), ({12}, 0.98, 0)]
)
def test_the_rate_of_a_train_in_which_a_copy_is_late(monkeypatch, late, rate, good):
    """A hop doubles packets, a later one takes 0.6 ms for each, and the first of two is lost. Number 9 is lost with its
    copy; where that befalls none at an end, 2 % too few are found."""
    train = Train(packets=30, bytes=1000, skip=4, rate_bps=10**7)
    arrivals = {i: 800_000 * i / rate + (600_000 if i in late else 0) for i in range(30) if i != 9}
    low, high = rate_of(monkeypatch, train, arrivals)
    off = check.RATE_OFF * train.rate_bps
    assert (low <= train.rate_bps + off and high >= train.rate_bps - off) == good


def test_a_slow_path_that_reorders(scenario_file):
    """A packet that does not wait for the 20 ms overtakes none: each takes 27 ms. This seed's last is early."""
    r = run(scenario_file(PLAIN, forward={"rate": "300kbit", "reorder": "30%"}), seed=8)
    assert rates(r)[0] == pytest.approx(1, rel=0.004)


def rates(r):
    """Measured by the self-check, over those that the scenario has."""
    rows = {row["what"].split()[0]: row for row in r.record["agent"]["self_check"]}
    return [rows[d]["measured"] / rows[d]["expected"] for d in ("forward", "reverse")]


@pytest.mark.parametrize("mtu", [4000, 9000])
def test_the_rates_of_large_packets(scenario_file, mtu):
    r = run(scenario_file(PLAIN, mtu=mtu))
    assert rates(r) == pytest.approx([1, 1], rel=0.004)


def test_the_rate_of_cake(scenario_file):
    """It drops some of the train, which then take no time of the link."""
    cakes = [{"rate": rate, "cake": {}} for rate in ("1mbit", "10mbit")]
    r = run(scenario_file(PLAIN, side_by_side(*cakes), mtu=1500))
    rows = [row for row in r.record["agent"]["self_check"] if " rate src" in row["what"]]
    assert len(rows) == 4
    for row in rows:
        assert row["measured"] == pytest.approx(row["expected"], rel=0.02), row


def train_of(monkeypatch, train, lost, rate_bps):
    """The rate that is measured of packets that take their time at this one, and of which some are lost."""
    kept = [i for i in range(train.packets) if i not in lost]
    return rate_of(monkeypatch, train, {i: 8e9 * train.bytes * n / rate_bps for n, i in enumerate(kept)})


def test_a_wrong_rate_of_cake_is_found(monkeypatch):
    """The lost ones are no excuse: 1.19 Mbit/s in place of 1 is wrong."""
    train = Train(packets=30, bytes=1500, skip=4, rate_bps=10**6, lost_before=True)
    assert train_of(monkeypatch, train, {9, 15, 20}, 1e6) == pytest.approx((1e6, 1e6))
    assert train_of(monkeypatch, train, {9, 15, 20}, 0.95e6) == pytest.approx((0.95e6, 0.95e6))


def test_the_buffers_of_a_host_out_of_the_box_grow(scenario_file):
    """A window that stays below 128 KiB passes 3.5 Mbit/s of an RTT of 300 ms."""
    far = {"delay": "150ms", "queue": 400}
    times = {"duration": "10s", "measure_from": "7s"}
    r = run(scenario_file(profile=None, forward=far, reverse=far, run=times))
    assert r.metrics["goodput_bps"] > 8e6


def test_a_path_that_reorders(scenario_file):
    """5 % of the packets overtake what left in the 20 ms before them. FAST loses none, and RACK lives with it."""
    r = run(scenario_file(FAST, LINUX, PLAIN, alpha(20), forward={"reorder": "5%"}))
    straight = run(scenario_file(FAST, LINUX, PLAIN, alpha(20)))
    for one, share in ((straight, 0), (r, 0.05)):
        early = one.goodput["not_next"].sum() / one.goodput["segments"].sum()
        assert early == pytest.approx(share, rel=0.5)
        assert one.metrics["utilisation"] > 0.5
    assert r.metrics["flows"][0]["rtt_s"]["min"] < 0.021 < 0.04 <= straight.metrics["flows"][0]["rtt_s"]["min"]


def test_jitter_keeps_the_order(scenario_file):
    """Delays differ by more than ten packets' time, and none overtakes."""
    r = run(scenario_file(FAST, PLAIN, alpha(20), forward={"jitter": "10ms"}))
    assert r.goodput["segments"].sum() > 500 and r.goodput["not_next"].sum() == 0
    rtt = r.metrics["flows"][0]["rtt_s"]
    assert rtt["p95"] - rtt["p5"] > 0.005 and r.metrics["flows"][0]["retransmits_whole_run"] == 0


def test_a_queue_with_red(scenario_file):
    """
    It bounds the queue by marks, where the hosts have ECN; the queue itself drops nothing. A mark halves a window of
    some 70 packets, 20 above the path's own 50: then the queue is empty until the window has grown again, so its mean
    lies below `min`.
    """
    red = {"min": 10, "max": 40, "probability": "10%", "ecn": True}
    r = run(scenario_file(LONG, forward={"red": red}, sysctls={"net.ipv4.tcp_ecn": 1}))
    assert 1 < r.metrics["forward"]["queue_mean"] < 40 and "marks" not in r.metrics["reverse"]
    assert r.metrics["forward"]["marks"] > 0 == r.metrics["forward"]["drops"]


def test_a_queue_of_cake(scenario_file):
    """It keeps the rate and a short queue. Its filter leaves few ACKs in the queue of a slow reverse link."""
    metrics = []
    for filters in (False, True):
        back = {"rate": "100kbit", "cake": {"ack_filter": filters}}
        r = run(scenario_file(PLAIN, forward={"cake": {}}, reverse=back))
        metrics.append(r.metrics)
    every, fewer = metrics
    assert every["utilisation"] < 1.01 and every["forward"]["queue_mean"] < 40
    assert fewer["goodput_bps"] > 1.1 * every["goodput_bps"]


def test_requests_and_replies(scenario_file):
    """A reply of one packet takes the path's RTT, and the next is asked for at once."""
    r = run(scenario_file(PLAIN, flow={"reply": 100}))
    asked, took = zip(*r.record["agent"]["replies"]["0"], strict=True)
    assert min(took) >= 40e6 and max(took) < 42e6
    assert max(b - a - t for a, b, t in zip(asked, asked[1:], took, strict=False)) < 1e6


def test_chunks_that_are_due_one_after_the_other(scenario_file):
    """Each half second, as a player asks: of 0.2 s on 10 Mbit/s, where the slow start's losses hold the second up
    and the next ones catch up; and of 0.6 s, so that each is asked for at once."""
    r = run(scenario_file(side_by_side({}, {}, controller="reno", reply=[250_000, 750_000], every="500ms"), LONG))
    (asked, took), (asked_late, took_late) = (
        zip(*r.record["agent"]["replies"][flow], strict=True) for flow in ("0", "1")
    )
    due = [asked[0] + 500_000_000 * n for n in range(len(asked))]
    assert len(asked) == 16 and max(took[4:]) < 0.5e9 and asked[2] > due[2] + 10**8
    assert max(abs(a - d) for a, d in zip(asked[4:], due[4:])) < 10_000
    pauses = [b - a - t for a, b, t in zip(asked_late, asked_late[1:], took_late, strict=False)]
    assert len(asked_late) > 4 and max(pauses) < 1e6 and min(took_late) > 0.5e9


@pytest.mark.parametrize("verify", [False, True])
def test_a_flow_of_a_size_closes_when_all_has_arrived(scenario_file, verify):
    """10 Mbit/s, 40 ms, a queue that nothing fills. close() is called when the last bytes are about to be sent."""
    r = run(scenario_file(PLAIN, flow={"size": 100_000}, run={"verify": verify}))
    assert int(r.goodput["bytes"].sum()) == 10**5
    closed, took = r.record["agent"]["closed"]["0"]
    first = 1e9 * float(r.goodput["t"][r.goodput["bytes"] > 0].max())  # moment at which the last byte can have arrived
    last = first + 1e6 * r.job.bin_ms
    assert first - 105e6 < closed < last and first + 20e6 < closed + took < last + 21e6
    if verify:
        assert r.record["agent"]["verified"]["0"] == {"bytes": 10**5, "wrong_at": None}


def test_a_flow_of_any_size_is_done_with_the_ack_of_its_last_byte(scenario_file):
    """One byte, a packet, an initial window, and more. No flow beats its path: a handshake, a round trip of 40 ms, and
    10 Mbit/s from the second packet on. A receiver holds the last ACK back for 40 ms at most."""
    sizes = (1, 1448, 12_000, 100_000)
    first, *others = ({"controller": "reno", "start": f"{k}s", "size": size} for k, size in enumerate(sizes))
    r = run(scenario_file(PLAIN, flow=first, flows=others, run={"duration": "6s"}))
    for flow, size in zip(r.metrics["flows"], sizes, strict=True):
        least = 2 * 0.04 + max(size - 1448, 0) * 8 / 1e7
        assert least < flow["done_s"] < least + (0.045 if size <= 12_000 else 0.1), size
    assert [row.done for row in breakdown.times(r)] == ["4 of 4"]


def test_a_middlebox_strips_options_from_all_segments_or_all_but_syns(scenario_file):
    """SACK-permitted, offered in the SYN and answered in the SYN-ACK: gone only where SYNs are stripped."""
    for syn in (False, True):
        strip = {"kinds": [SACK_PERMITTED], "syn": syn}
        r = run(scenario_file(FAST, CAPTURE, PLAIN, alpha(20), forward={"strip": strip}))
        assert r.metrics["utilisation"] > 0.9
        assert (SACK_PERMITTED in option_kinds(syn_ack(r))) != syn
        assert counted(r, "TcpInErrs") == counted(r, "TcpRetransSegs") == 0  # checksums are right


def test_a_link_behind_one_that_doubles_packets_is_measured(scenario_file):
    """A packet of the train that comes twice takes its time at the slower link twice."""
    slower = {"rate": "5mbit"}
    run(scenario_file(hops=[hop({"duplicate": "5%"}), hop(slower, slower)]))


def test_stripped_sack_blocks_leave_recovery_to_duplicates(scenario_file):
    """In the ACKs' direction, from segments other than SYNs: SACK is agreed on and never seen; a short queue loses
    packets."""
    plain = run(scenario_file(PLAIN, forward={"queue": 10}))
    strip = {"kinds": [5, 253], "syn": False}
    r = run(scenario_file(PLAIN, forward={"queue": 10}, reverse={"strip": strip}))
    assert counted(plain, "TcpExtTCPSackRecovery") >= 1
    sacked = [
        counted(x, "TcpExtTCPSackShifted")
        + counted(x, "TcpExtTCPSackMerged")
        + counted(x, "TcpExtTCPSackShiftFallback")
        for x in (plain, r)
    ]
    assert sacked[0] > 0 and sacked[1] == 0 and counted(r, "TcpInErrs") == 0


def test_sysctls_of_one_end(scenario_file):
    """Its receive buffer of 20 kB holds the second flow at a third of what 40 ms on 10 Mbit/s would take."""
    idle, rmem = "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_rmem"
    small = {"controller": "reno", "sink_sysctls": {rmem: "4096 20000 20000"}}
    r = run(scenario_file(PLAIN, flow={"source_sysctls": {idle: 0}}, flows=[small]))
    sysctls = r.record["agent"]["sysctls"]
    assert sysctls["src0"][idle] == ["0"] and idle not in sysctls.get("src1", {})
    assert sysctls["dst1"][rmem] == ["4096", "20000", "20000"] != sysctls["dst0"][rmem]
    first, second = (flow["goodput_bps"] for flow in r.metrics["flows"])
    assert second < 20000 * 8 / 0.04 < first


def test_sysctls_of_the_hosts(scenario_file):
    own = {"net.ipv4.tcp_sack": 0, "net.ipv4.tcp_early_retrans": 3}
    r = run(scenario_file(CAPTURE, PLAIN, sysctls=own))
    values = r.record["agent"]["sysctls"]
    assert [values[n]["net.ipv4.tcp_early_retrans"] for n in ("src0", "dst0", "left")] == [["3"], ["3"], ["0"]]
    assert SACK_PERMITTED not in option_kinds(r.capture("forward")[0]) and r.record["identity"]["job"]["must_have"]


@pytest.mark.parametrize(
    "own, words",
    [
        ({"net.ipv4.tcp_sakc": 1}, "sysctl net.ipv4.tcp_sakc: kernel 6.12"),
        ({"net.ipv4.tcp_sack": "x"}, "net.ipv4.tcp_sack=x: Invalid argument"),
    ],
)
def test_sysctls_that_the_kernel_refuses(scenario_file, own, words):
    with pytest.raises(LabError, match=words) as e:
        run(scenario_file(sysctls=own))
    assert "\n" not in str(e.value)


def test_a_capture_holds_what_the_tracer_counts_and_repeats_to_the_byte(scenario_file):
    file = scenario_file(CAPTURE, PLAIN, forward={"loss": "0.5%"})
    r, again = run(file, fresh=True), run(file, fresh=True)
    check_physics(r)
    assert r.record["result_sha256"] == again.record["result_sha256"]
    for side in ("forward", "reverse"):
        packets = r.capture(side)
        inside = packets[(packets["t"] >= 1) & (packets["t"] < 3)]
        m = r.metrics[side]
        assert len(inside) == pytest.approx(m["packets"], abs=2)
        assert inside["bytes"].mean() == pytest.approx(m["packet_bytes"], rel=0.001)
        assert ((inside["payload"] == 0).sum()) == pytest.approx(m["pure_acks"], abs=2)
        assert (np.diff(packets["t"]) > 0).all()
    data = r.capture("forward")
    gaps = np.diff(data["t"][data["payload"] == 960])
    assert np.median(gaps) == pytest.approx(8e-4, rel=0.02)  # as the link spaces them
    with pytest.raises(LabError, match="no forward.pcap: it takes run.capture"):
        run(scenario_file()).capture("forward")


def test_a_constant_load_takes_its_rate_and_leaves_the_rest(scenario_file):
    """4 of 10 Mbit/s for the first two seconds; the flow beside it has what is left."""
    load = {"rate": "4mbit", "packet": 500, "stop": "2s"}
    r = run(scenario_file(FAST, PLAIN, alpha(20), background=[load]))
    under_way_s = 0.020 + 20 * 8000 / 1e7  # the delay, and FAST's packets in the queue
    assert r.metrics["background_bps"] == [pytest.approx(4e6 * (1 + under_way_s) / 2, rel=0.02)]  # of two seconds one
    assert r.metrics["acks_per_data_packet"] == pytest.approx(1, abs=0.02)  # of TCP's packets
    seconds = np.bincount(r.goodput["t"].clip(0).astype(int), r.goodput["bytes"])[:3] * 8 / 0.96
    assert seconds[1:] == pytest.approx([6e6, 1e7], rel=0.06)


LOAD = {"background": [{"rate": "2mbit", "packet": 100}]}
CUT = {"at": "500ms", "direction": "forward", "mtu": 576}


@pytest.mark.parametrize(
    "change",
    [
        {"changes": [{"at": "500ms", "direction": "forward", "loss": "20%"}]},
        {"forward": {"duplicate": "50%"}},
        {"hops": [hop(), hop({"rate": "5mbit", "queue": 5})]},
        {"forward": {"policer": {"rate": "5mbit", "burst": 20_000}}},
        {"forward": {"delay": "300ms"}, "background": [LOAD["background"][0] | {"start": "900ms"}]},
        {"mtu": 1500, "background": [{"rate": "2mbit", "packet": 1500}], "changes": [CUT]},
    ],
    ids=["lost", "doubled", "second hop", "policed", "under way", "fragments"],
)
def test_acks_per_packet_beside_a_load_that_is_not_what_its_host_received(scenario_file, change):
    """The packets that left the queue say the same."""
    r = run(scenario_file(PLAIN, CAPTURE, LOAD, change))
    busiest = int(r.metrics["busiest"].split()[1])
    begun = r.job.measure_from_s
    acks = data = 0
    for side in ("forward", "reverse"):
        packets = r.capture(side, busiest)
        tcp = packets[(packets["t"] >= begun) & ((packets["sport"] == FLOW_PORT) | (packets["dport"] == FLOW_PORT))]
        data, acks = data + (tcp["payload"] > 0).sum(), acks + (tcp["payload"] == 0).sum()
    assert r.metrics["acks_per_data_packet"] == pytest.approx(acks / data, rel=0.01)


def test_a_run_without_a_load_counts_none(scenario_file):
    """Nothing is added to such a run."""
    assert "udp_left" not in run(scenario_file(PLAIN)).record["agent"]["marks"]["end"]


def test_a_link_that_doubles_packets_has_its_rate(scenario_file):
    """It doubles them behind its queue: the copies take no time of it."""
    r = run(scenario_file(PLAIN, forward={"duplicate": "50%"}))
    assert rates(r) == pytest.approx([1, 1], rel=0.004)


@pytest.mark.parametrize(
    "before, after, at", [("1mbit", "10mbit", "1500ms"), ("10mbit", "2mbit", "2s"), ("4mbit", "8mbit", "0s")]
)
def test_a_rate_that_changes_counts_while_it_is_there(scenario_file, before, after, at):
    change = {"at": at, "direction": "forward", "rate": after}
    r = run(scenario_file(PLAIN, forward={"rate": before}, changes=[change]))
    packet = 8e3 / 1e6
    assert 0.9 < r.metrics["utilisation"] < 1 + packet
    assert r.metrics["forward"]["queue_delay_mean_s"] < r.metrics["flows"][0]["rtt_s"]["max"]


def test_a_busy_link_sends_each_packet_on_time(scenario_file):
    """To within one packet's time of a link that has no bucket; FAST keeps its queue from running dry."""
    near = {"delay": "2ms"}
    ways = [near | {"rate": rate} for rate in ("1mbit", "10mbit", "100mbit")]
    links = side_by_side(*ways, reverse=near, controller="fast")
    r = run(scenario_file(links, CAPTURE, PLAIN, alpha(20)))
    for number, watched in enumerate(r.job.watch, 1):
        sent = r.capture("forward", number)
        sent = sent[(sent["t"] >= 2) & (sent["t"] < 3)]
        one = 8000 / watched.forward.rate_bps
        assert (sent["bytes"] == 1000).all() and len(sent) == pytest.approx(1 / one, abs=1)
        assert np.ptp(sent["t"] - one * np.arange(len(sent))) <= one


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("wrong", [0.98, 1.02])
def test_a_link_that_is_wrong_by_2_percent_is_found(ip, wrong, scenario_file):
    """The links are made so after the plan: the check expects what the scenario says."""
    guest = image.open_image(LAB)
    link_rates = ("1mbit", "100mbit", "1000mbit") if ip == 4 else ("10mbit", "10mbit")
    file = scenario_file(PLAIN, side_by_side(*({"rate": rate} for rate in link_rates)), ip=ip, mtu=1400)
    (task,) = plan_runs(scenario.load(file), guest)
    job = dump(replace(task.job, duration_s=0.05, measure_from_s=0.01))
    for shape in (end["shape"] for link in job["links"] for end in (link["a"], link["b"])):
        if "rate_bps" in shape:
            shape["rate_bps"] = round(shape["rate_bps"] * wrong)
    files, _ = vm.run(guest, read(Job, job, "job"), task.objects)
    wrong_rows = {row["what"] for row in json.loads(files["agent.json"])["self_check"] if not row["ok"]}
    assert wrong_rows == {
        f"{way} rate src{k}-dst{k}, bit/s" for way in ("forward", "reverse") for k in range(len(link_rates))
    }


def test_plain_traffic_is_the_data_alone(scenario_file):
    """One connection a flow, from its SYN at its start on; it stops and resumes."""
    r = run(scenario_file(CAPTURE, PLAIN, flow={"start": "0.2s", "stop": "1.2s", "resume": "2s"}))
    forward = r.capture("forward")
    assert set(forward["sport"]) == {FLOW_PORT} and forward["flags"][0] == capture.SYN
    start = r.job.flows[0].start_s
    assert start <= forward["t"][0] < start + 0.002
    data = forward["t"][forward["payload"] > 0]
    assert ((data > 1.3) & (data < 2)).sum() == 0 and (data > 2).sum() > 500 and data[0] < start + 0.05


def test_a_gigabit_window_has_memory(scenario_file):
    """10,000 packets on the way, and as many to be sent: more than a kernel of this memory gives TCP by itself."""
    wide = {"rate": "1gbit", "delay": "80ms", "queue": 9000}
    fast = {"controllers": {"fast": {"alpha": 4000, "init_cwnd": 1024}}}
    r = run(scenario_file(FAST, PLAIN, fast, mtu=1500, forward=wide, run={"duration": "1.2s"}))
    (row,) = (row for row in r.record["agent"]["self_check"] if "memory" in row["what"])
    assert row["measured"] == 0
    assert r.acks["cwnd"].max() > 8000 and r.metrics["utilisation"] > 0.5


# --- the oldest kernel ---------------------------------------------------------------------

RULES: list[dict] = [
    {"codel": {"target": "20ms", "ecn": True}, "loss": "5%", "loss_burst": 5},
    {"fq_codel": {}, "jitter": "10ms"},
    {"pie": {}, "jitter": "10ms", "disorder": True},
    {"fq": {}, "reorder": "5%"},
    {"red": {"min": 5, "max": 20, "probability": "10%", "ecn": True}, "strip": {"kinds": [4], "syn": True}},
    {"cake": {"ack_filter": True}, "strip": {"kinds": [5], "syn": False}},
]
_, SIZED, DISORDER, REORDER, STRIPPED, ASKING = range(len(RULES))


def test_the_oldest_kernel_takes_all_that_a_path_may_have(scenario_file):
    """A hop for each, and a flow on it. The self-check asks tc for queues, targets and odds, and measures the rest."""
    link = WAY | {"rate": "5mbit"}
    flows: list[dict] = [{"controller": "reno", "enter": k + 1, "leave": k + 2} for k in range(len(RULES))]
    flows[ASKING]["reply"] = 100
    flows[SIZED]["size"] = 100_000
    first, *others = flows
    hops = [{"forward": link | rule, "reverse": link} for rule in RULES]
    times = {"duration": "2s", "measure_from": "0s"}
    r = run(scenario_file(PLAIN, TUNED, ecn=True, hops=hops, flow=first, flows=others, run=times), "6.1")
    assert r.record["agent"]["kernel"].startswith("6.1.")
    assert r.metrics["hops"][STRIPPED]["forward"]["marks"] > 0  # by RED
    early = [int(r.goodput["not_next"][r.goodput["flow"] == k].sum()) for k in range(len(RULES))]
    assert early[SIZED] == 0 < min(early[DISORDER], early[REORDER])
    without_sack = [counted(r, "TcpExtTCPRenoRecovery", f"src{k}") > 0 for k in range(len(RULES))]
    assert without_sack == [k == STRIPPED for k in range(len(RULES))]
    assert r.goodput["bytes"][r.goodput["flow"] == SIZED].sum() == 10**5 and r.record["agent"]["closed"].keys() == {"1"}
    assert len(r.record["agent"]["replies"][str(ASKING)]) > 10


# --- cgroups -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_programs_of_a_cgroup_serve_the_runs_connections(scenario_file, kernel):
    r = run(scenario_file(FORMOSA, PLAIN), kernel)
    check_physics(r)
    shown = r.record["agent"]["controllers"]["formosa"]
    counters = {c["name"]: c["value"] for c in shown["counters"]}
    assert shown["cgroups"] == ["/sys/fs/cgroup/lab-run"]
    assert counters["options_seen"] > 1000 and counters["acks_suppressed"] > 1000


def test_a_smaller_mtu_is_told_over_a_slow_ack_path(scenario_file):
    """The ICMP message has 576 bytes, more than any ACK, and comes from behind the first hop."""
    less = {"at": "0s", "hop": 2, "direction": "forward", "mtu": 700}
    r = run(scenario_file(mtu=1500, hops=[hop(reverse={"rate": "30kbit"}), hop()], changes=[less]))
    assert r.metrics["goodput_bps"] > 1e5
