# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a scenario may ask of path and hosts beyond rates, delays and losses."""

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
from asymlab.results import capture
from asymlab.run.tasks import plan_runs
from tests.shared import ALPHA, FAST, FORMOSA, HOP, LAB, LAB_KERNELS, PATH, PLAIN, check_physics, run

pytestmark = pytest.mark.lab

FORWARD = "queue = 100 }\nreverse"
CAPTURE = ('measure_from = "1s"', 'measure_from = "1s"\ncapture = true')
LONG = ('duration = "3s"\nmeasure_from = "1s"', 'duration = "8s"\nmeasure_from = "4s"')
SACK_PERMITTED = 4


def option_kinds(packet) -> set[int]:
    options, at, found = packet["options"].tobytes(), 0, set()
    while at < len(options) and options[at]:
        found.add(options[at])
        at += 1 if options[at] == 1 else options[at + 1]
    return found


def syn_ack(r):
    back = r.capture("reverse")
    return back[back["flags"] & capture.SYN > 0][0]


def counted(r, name, host="src0"):
    return r.record["agent"]["marks"]["end"]["tcp"][host][name]


@pytest.mark.parametrize("early", range(30))
def test_the_rate_of_a_train_in_which_one_overtakes(monkeypatch, early):
    """At 10 Mbit/s 1000 bytes take 0.8 ms; that one is not delayed by 20 ms as the others are."""
    train = Train(packets=30, bytes=1000, skip=4, rate_bps=10**7)
    left = {i: 800_000 * i for i in range(30)}
    came = sorted((t + (0 if i == early else 20_000_000), i) for i, t in left.items())
    arrivals = iter([(i.to_bytes(4, "little").ljust(1000 - ip_udp("")), t, None) for t, i in came])
    monkeypatch.setattr(check, "stamped_receive", lambda _: next(arrivals, None))
    low, high = check.link_rate(mock.Mock(), None, "", train)
    assert 0.9 * 10e6 <= low <= high == pytest.approx(10e6)


@pytest.mark.parametrize("early", [{4}, {29}, {4, 29}, {4, 5, 12, 28, 29}])
@pytest.mark.parametrize("rate", [10**7, 10**7 * 1.02])
def test_the_rate_of_a_train_in_which_some_are_early_and_overtake_none(monkeypatch, early, rate):
    """Without 0.6 ms of delay, where 1000 bytes take 0.8 ms; a rate that is wrong by 2 % is told."""
    train = Train(packets=30, bytes=1000, skip=4, rate_bps=10**7, early=True)
    took = [(i, 8e12 * i / rate + (0 if i in early else 600_000)) for i in range(30)]
    arrivals = iter([(i.to_bytes(4, "little").ljust(1000 - ip_udp("")), t, None) for i, t in took])
    monkeypatch.setattr(check, "stamped_receive", lambda _: next(arrivals, None))
    assert check.link_rate(mock.Mock(), None, "", train) == pytest.approx((rate, rate))


@pytest.mark.parametrize(
    "late, rate, good", [({4}, 1, 1), ({29}, 1, 1), ({4, 29}, 1, 1), ({12}, 1, 1), ({12}, 0.98, 0)]
)
def test_the_rate_of_a_train_in_which_a_copy_is_late(monkeypatch, late, rate, good):
    """A hop doubles packets, a later one takes 0.6 ms for each, and the first of two is lost. Number 9 is lost with its
    copy; where that befalls none at an end, 2 % too few are found."""
    train = Train(packets=30, bytes=1000, skip=4, rate_bps=10**7)
    took = [(i, 800_000 * i / rate + (600_000 if i in late else 0)) for i in range(30) if i != 9]
    arrivals = iter([(i.to_bytes(4, "little").ljust(1000 - ip_udp("")), t, None) for i, t in took])
    monkeypatch.setattr(check, "stamped_receive", lambda _: next(arrivals, None))
    low, high = check.link_rate(mock.Mock(), None, "", train)
    off = check.RATE_OFF * train.rate_bps
    assert (low <= train.rate_bps + off and high >= train.rate_bps - off) == good


def test_a_slow_path_that_reorders(scenario_file):
    """What does not wait for the 20 ms overtakes none, because a packet takes 27 ms. This seed's last is early."""
    slow = ('forward = { rate = "10mbit", ', 'forward = { rate = "300kbit", reorder = "30%", ')
    r = run(scenario_file(PLAIN, slow), seed=8)
    assert r.valid, r.record["invalid"]
    assert rates(r)[0] == pytest.approx(1, rel=0.004)


def rates(r):
    """Measured by the self-check, over those that the scenario has."""
    rows = {row["what"].split()[0]: row for row in r.record["agent"]["self_check"]}
    return [rows[d]["measured"] / rows[d]["expected"] for d in ("forward", "reverse")]


@pytest.mark.parametrize("mtu", [4000, 9000])
def test_the_rates_of_large_packets(scenario_file, mtu):
    r = run(scenario_file(PLAIN, ("mtu = 1000", f"mtu = {mtu}")))
    assert r.valid, r.record["invalid"]
    assert rates(r) == pytest.approx([1, 1], rel=0.004)


@pytest.mark.parametrize("rate", ["1mbit", "10mbit"])
def test_the_rate_of_cake(scenario_file, rate):
    """It drops some of the train, which then take no time of the link."""
    cake = f'forward = {{ rate = "{rate}", cake = {{}}, '
    r = run(scenario_file(PLAIN, ("mtu = 1000", "mtu = 1500"), ('forward = { rate = "10mbit", ', cake)))
    assert r.valid, r.record["invalid"]
    assert rates(r) == pytest.approx([1, 1], rel=0.02)


def train_of(monkeypatch, train, lost, rate_bps):
    """What is measured where packets take their time at this rate, but for those that are lost."""
    kept = [i for i in range(train.packets) if i not in lost]
    arrivals = iter(
        (i.to_bytes(4, "little").ljust(train.bytes - ip_udp("")), round(8e9 * train.bytes * n / rate_bps), None)
        for n, i in enumerate(kept)
    )
    monkeypatch.setattr(check, "stamped_receive", lambda _: next(arrivals, None))
    return check.link_rate(mock.Mock(), None, "", train)


def test_a_wrong_rate_of_cake_is_found(monkeypatch):
    """The lost ones are no excuse: 1.19 Mbit/s in place of 1 is wrong."""
    train = Train(packets=30, bytes=1500, skip=4, rate_bps=10**6, lost_before=True)
    assert train_of(monkeypatch, train, {9, 15, 20}, 1e6) == pytest.approx((1e6, 1e6))
    assert train_of(monkeypatch, train, {9, 15, 20}, 0.95e6) == pytest.approx((0.95e6, 0.95e6))


def test_the_buffers_of_a_host_out_of_the_box_grow(scenario_file):
    """A window that stays below 128 KiB passes 3.5 Mbit/s of an RTT of 300 ms."""
    far = PATH.replace("20ms", "150ms").replace("queue = 100", "queue = 400")
    timed = 'duration = "10s"\nmeasure_from = "7s"\n'
    linux = (('profile = "ns2"\n', ""), (PATH, far))
    r = run(scenario_file(*linux, ('duration = "3s"\nmeasure_from = "1s"\n', timed)))
    assert r.valid, r.record["invalid"]
    assert r.metrics["goodput_bps"] > 8e6


def test_a_path_that_reorders(scenario_file):
    """5 % of the packets overtake what left in the 20 ms before them. FAST loses none, and RACK lives with it."""
    linux = ('profile = "ns2"', 'profile = "linux"')
    r = run(
        scenario_file(FAST, linux, PLAIN, (FORWARD, 'queue = 100, reorder = "5%" }\nreverse'), append=ALPHA.format(20))
    )
    straight = run(scenario_file(FAST, linux, PLAIN, append=ALPHA.format(20)))
    for one, share in ((straight, 0), (r, 0.05)):
        assert one.valid, one.record["invalid"]  # set-up checks are not led astray
        early = one.goodput["not_next"].sum() / one.goodput["segments"].sum()
        assert early == pytest.approx(share, rel=0.5)
        assert one.metrics["utilisation"] > 0.5
    assert r.metrics["flows"][0]["rtt_s"]["min"] < 0.021 < 0.04 <= straight.metrics["flows"][0]["rtt_s"]["min"]


def test_jitter_keeps_the_order(scenario_file):
    """Delays differ by more than ten packets' time, and none overtakes."""
    jittery = (FORWARD, 'queue = 100, jitter = "10ms" }\nreverse')
    r = run(scenario_file(FAST, PLAIN, jittery, append=ALPHA.format(20)))
    assert r.valid, r.record["invalid"]
    assert r.goodput["segments"].sum() > 500 and r.goodput["not_next"].sum() == 0
    rtt = r.metrics["flows"][0]["rtt_s"]
    assert rtt["p95"] - rtt["p5"] > 0.005 and r.metrics["flows"][0]["retransmits_whole_run"] == 0


def test_a_queue_with_red(scenario_file):
    """
    It bounds the queue by marks, where the hosts have ECN; the queue itself drops nothing. A mark halves a window of
    some 70 packets, 20 above the path's own 50: then the queue is empty until the window has grown again, so its mean
    lies below `min`.
    """
    red = 'queue = 100, red = { min = 10, max = 40, probability = "10%", ecn = true } }\nreverse'
    r = run(scenario_file((FORWARD, red), LONG, ("[path]", '[sysctls]\n"net.ipv4.tcp_ecn" = 1\n\n[path]')))
    assert r.valid, r.record["invalid"]
    assert 1 < r.metrics["forward"]["queue_mean"] < 40 and "marks" not in r.metrics["reverse"]
    assert r.metrics["forward"]["marks"] > 0 == r.metrics["forward"]["drops"]


def test_a_queue_of_cake(scenario_file):
    """It keeps the rate and a short queue. Its filter leaves few ACKs in the queue of a slow reverse link."""
    told = {}
    for filters in ("false", "true"):
        there = f"queue = 100, cake = {{ ack_filter = {filters} }} }}\n"
        back = (
            'reverse = { rate = "10mbit", delay = "20ms", queue = 100 }',
            'reverse = { rate = "100kbit", delay = "20ms", ',
        )
        r = run(scenario_file((FORWARD, "queue = 100, cake = { } }\nreverse"), (back[0], back[1] + there), PLAIN))
        assert r.valid, r.record["invalid"]
        told[filters] = r.metrics
    assert told["false"]["utilisation"] < 1.01 and told["false"]["forward"]["queue_mean"] < 40
    assert told["true"]["goodput_bps"] > 1.1 * told["false"]["goodput_bps"]


def test_requests_and_replies(scenario_file):
    """A reply of one packet takes the path's RTT, and the next is asked for at once."""
    asks = scenario_file(('controller = "reno"', 'controller = "reno"\nreply = 100'), PLAIN)
    r = run(asks)
    assert r.valid, r.record["invalid"]
    asked, took = zip(*r.record["agent"]["replies"]["0"], strict=True)
    assert min(took) >= 40e6 and max(took) < 42e6
    assert max(b - a - t for a, b, t in zip(asked, asked[1:], took, strict=False)) < 1e6


@pytest.mark.parametrize("reply, late", [(250_000, False), (750_000, True)])
def test_chunks_that_are_due_one_after_the_other(scenario_file, reply, late):
    """Each half second, as a player asks: of 0.2 s on 10 Mbit/s, where the slow start's losses hold the second up
    and the next ones catch up; and of 0.6 s, so that each is asked for at once."""
    r = run(scenario_file(('controller = "reno"', f'controller = "reno"\nreply = {reply}\nevery = "500ms"'), LONG))
    assert r.valid, r.record["invalid"]
    asked, took = zip(*r.record["agent"]["replies"]["0"], strict=True)
    pauses = [b - a - t for a, b, t in zip(asked, asked[1:], took, strict=False)]
    if late:
        assert len(asked) > 4 and max(pauses) < 1e6 and min(took) > 0.5e9
    else:
        due = [asked[0] + 500_000_000 * n for n in range(len(asked))]
        assert len(asked) == 16 and max(took[4:]) < 0.5e9 and asked[2] > due[2] + 10**8
        assert max(abs(a - d) for a, d in zip(asked[4:], due[4:])) < 10_000


@pytest.mark.parametrize("verify", ["false", "true"])
def test_a_flow_of_a_size_closes_when_all_has_arrived(scenario_file, verify):
    """10 Mbit/s, 40 ms, a queue that nothing fills. close() is called when the last bytes are about to be sent."""
    sized = ('controller = "reno"', 'controller = "reno"\nsize = 100000')
    r = run(scenario_file(sized, (*PLAIN[:1], f"{PLAIN[1]}\nverify = {verify}")))
    assert r.valid, r.record["invalid"]
    assert int(r.goodput["bytes"].sum()) == 10**5
    closed, took = r.record["agent"]["closed"]["0"]
    first = 1e9 * float(r.goodput["t"][r.goodput["bytes"] > 0].max())  # moment at which the last byte can have arrived
    last = first + 1e6 * r.job.bin_ms
    assert first - 105e6 < closed < last and first + 20e6 < closed + took < last + 21e6
    if verify == "true":
        assert r.record["agent"]["verified"]["0"] == {"bytes": 10**5, "wrong_at": None}


def test_a_middlebox_strips_options_from_all_segments_or_all_but_syns(scenario_file):
    """SACK-permitted, offered in the SYN and answered in the SYN-ACK: gone only where SYNs are stripped."""
    for syn in (False, True):
        strip = f"queue = 100, strip = {{ kinds = [{SACK_PERMITTED}], syn = {str(syn).lower()} }} }}\nreverse"
        r = run(scenario_file(FAST, (FORWARD, strip), CAPTURE, PLAIN, append=ALPHA.format(20)))
        assert r.valid and r.metrics["utilisation"] > 0.9, r.record["invalid"]
        assert (SACK_PERMITTED in option_kinds(syn_ack(r))) != syn
        assert counted(r, "TcpInErrs") == counted(r, "TcpRetransSegs") == 0  # checksums are right


def test_a_link_behind_one_that_doubles_packets_is_measured(scenario_file):
    """A packet of the train that comes twice takes its time at the slower link twice."""
    doubling = HOP.replace("queue = 50 }", "queue = 50, duplicate = '5%' }", 1)
    r = run(scenario_file((PATH, doubling + HOP.replace("10mbit", "5mbit"))))
    assert r.valid, r.record["invalid"]


def test_stripped_sack_blocks_leave_recovery_to_duplicates(scenario_file):
    """In the ACKs' direction, from segments other than SYNs: SACK is agreed on and never seen; a short queue loses
    packets."""
    lossy = (
        'queue = 100 }\nreverse = { rate = "10mbit", delay = "20ms", queue = 100',
        'queue = 10 }\nreverse = { rate = "10mbit", delay = "20ms", queue = 100',
    )
    told = run(scenario_file(lossy, PLAIN))
    r = run(scenario_file((lossy[0], lossy[1] + ", strip = { kinds = [5, 253], syn = false }"), PLAIN))
    assert counted(told, "TcpExtTCPSackRecovery") >= 1
    sacked = [
        counted(x, "TcpExtTCPSackShifted")
        + counted(x, "TcpExtTCPSackMerged")
        + counted(x, "TcpExtTCPSackShiftFallback")
        for x in (told, r)
    ]
    assert sacked[0] > 0 and sacked[1] == 0 and counted(r, "TcpInErrs") == 0 and r.valid


def test_sysctls_of_one_end(scenario_file):
    """Its receive buffer of 20 kB holds the second flow at a third of what 40 ms on 10 Mbit/s would take."""
    small = '\n[[flows]]\ncontroller = "reno"\nsink_sysctls = { "net.ipv4.tcp_rmem" = "4096 20000 20000" }\n'
    own = ('controller = "reno"', 'controller = "reno"\nsource_sysctls = { "net.ipv4.tcp_slow_start_after_idle" = 0 }')
    r = run(scenario_file(own, PLAIN, append=small))
    assert r.valid, r.record["invalid"]
    told = {(node, key): value for node, of in r.record["agent"]["sysctls"].items() for key, value in of.items()}
    assert told["src0", "net.ipv4.tcp_slow_start_after_idle"] == ["0"]
    assert ("src1", "net.ipv4.tcp_slow_start_after_idle") not in told
    assert told["dst1", "net.ipv4.tcp_rmem"] == ["4096", "20000", "20000"] != told["dst0", "net.ipv4.tcp_rmem"]
    first, second = (flow["goodput_bps"] for flow in r.metrics["flows"])
    assert second < 20000 * 8 / 0.04 < first


def test_sysctls_of_the_hosts(scenario_file):
    r = run(
        scenario_file(
            ("[path]", '[sysctls]\n"net.ipv4.tcp_sack" = 0\n"net.ipv4.tcp_early_retrans" = 3\n\n[path]'), CAPTURE, PLAIN
        )
    )
    values = r.record["agent"]["sysctls"]
    assert [values[n]["net.ipv4.tcp_early_retrans"] for n in ("src0", "dst0", "left")] == [["3"], ["3"], ["0"]]
    assert SACK_PERMITTED not in option_kinds(r.capture("forward")[0]) and r.record["identity"]["job"]["must_have"]


@pytest.mark.parametrize(
    "line, words",
    [
        ('"net.ipv4.tcp_sakc" = 1', "sysctl net.ipv4.tcp_sakc: kernel 6.12"),
        ('"net.ipv4.tcp_sack" = "x"', "net.ipv4.tcp_sack=x: Invalid argument"),
    ],
)
def test_sysctls_that_the_kernel_refuses(scenario_file, line, words):
    with pytest.raises(LabError, match=words) as e:
        run(scenario_file(("[path]", f"[sysctls]\n{line}\n\n[path]")))
    assert "\n" not in str(e.value)


def test_a_capture_holds_what_the_tracer_counts_and_repeats_to_the_byte(scenario_file):
    file = scenario_file((FORWARD, 'queue = 100, loss = "0.5%" }\nreverse'), CAPTURE, PLAIN)
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
    r = run(
        scenario_file(
            FAST,
            PLAIN,
            ("[run]", '[[background]]\nrate = "4mbit"\npacket = 500\nstop = "2s"\n[run]'),
            append=ALPHA.format(20),
        )
    )
    assert r.valid, r.record["invalid"]
    under_way_s = 0.020 + 20 * 8000 / 1e7  # the delay, and FAST's packets in the queue
    assert r.metrics["background_bps"] == [pytest.approx(4e6 * (1 + under_way_s) / 2, rel=0.02)]  # of two seconds one
    assert r.metrics["acks_per_data_packet"] == pytest.approx(1, abs=0.02)  # of TCP's packets
    seconds = np.bincount(r.goodput["t"].clip(0).astype(int), r.goodput["bytes"])[:3] * 8 / 0.96
    assert seconds[1:] == pytest.approx([6e6, 1e7], rel=0.06)


LOSES = ("queue = 100 }\nreverse", 'queue = 100, loss = "20%" }\nreverse')
DOUBLES = ("queue = 100 }\nreverse", 'queue = 100, duplicate = "50%" }\nreverse')
LOAD = ("[run]", '[[background]]\nrate = "2mbit"\npacket = 100\n[run]')
SECOND = (PATH, HOP + HOP.replace("10mbit", "5mbit", 1).replace("queue = 50", "queue = 5", 1))


@pytest.mark.parametrize(
    "change",
    [
        LOSES,
        DOUBLES,
        SECOND,
        ("queue = 100 }\nreverse", 'queue = 100, policer = { rate = "5mbit", burst = 20000 } }\nreverse'),
    ],
)
def test_acks_per_packet_beside_a_load_that_is_lost_or_doubled(scenario_file, change):
    """As the packets that left the queue say."""
    r = run(scenario_file(PLAIN, CAPTURE, LOAD, change))
    assert r.valid, r.record["invalid"]
    hop = int(r.metrics["busiest"].split()[1])
    begun = r.job.measure_from_s
    acks = data = 0
    for side in ("forward", "reverse"):
        packets = r.capture(side, hop)
        tcp = packets[(packets["t"] >= begun) & ((packets["sport"] == FLOW_PORT) | (packets["dport"] == FLOW_PORT))]
        data, acks = data + (tcp["payload"] > 0).sum(), acks + (tcp["payload"] == 0).sum()
    assert r.metrics["acks_per_data_packet"] == pytest.approx(acks / data, rel=0.01)


def test_a_load_that_reaches_its_host_whole_is_counted_there(scenario_file):
    """Nothing is added to such a run: its bytes are as they were."""
    assert "udp_left" not in run(scenario_file(PLAIN, LOAD)).record["agent"]["marks"]["end"]


def test_a_link_that_doubles_packets_has_its_rate(scenario_file, monkeypatch):
    """Behind its queue: the copies take no time of it."""
    r = run(scenario_file(PLAIN, DOUBLES))
    assert r.valid and rates(r) == pytest.approx([1, 1], rel=0.004)


@pytest.mark.parametrize(
    "before, after, at", [("1mbit", "10mbit", "1500ms"), ("10mbit", "2mbit", "2s"), ("4mbit", "8mbit", "0s")]
)
def test_a_rate_that_changes_counts_while_it_is_there(scenario_file, before, after, at):
    slow = ('forward = { rate = "10mbit"', f'forward = {{ rate = "{before}"')
    change = f'[[changes]]\nat = "{at}"\ndirection = "forward"\nrate = "{after}"\n[run]'
    r = run(scenario_file(PLAIN, slow, ("[run]", change)))
    assert r.valid, r.record["invalid"]
    packet = 8e3 / 1e6
    assert 0.9 < r.metrics["utilisation"] < 1 + packet
    assert r.metrics["forward"]["queue_delay_mean_s"] < r.metrics["flows"][0]["rtt_s"]["max"]


@pytest.mark.parametrize("rate", ["1mbit", "10mbit", "100mbit"])
def test_a_busy_link_sends_each_packet_on_time(rate, scenario_file):
    """To within one packet's time of a link that has no bucket; FAST keeps its queue from running dry."""
    link = ('forward = { rate = "10mbit"', f'forward = {{ rate = "{rate}"')
    r = run(scenario_file(FAST, link, ('delay = "20ms"', 'delay = "2ms"'), CAPTURE, PLAIN, append=ALPHA.format(20)))
    assert r.valid, r.record["invalid"]
    sent = r.capture("forward")
    sent = sent[(sent["t"] >= 2) & (sent["t"] < 3)]
    one = 8000 / r.job.watch[0].forward.rate_bps
    assert (sent["bytes"] == 1000).all() and len(sent) == pytest.approx(1 / one, abs=1)
    assert np.ptp(sent["t"] - one * np.arange(len(sent))) <= one


@pytest.mark.parametrize("rate, ip", [("1mbit", 4), ("100mbit", 4), ("1000mbit", 4), ("10mbit", 6)])
@pytest.mark.parametrize("wrong", [0.98, 1.02])
def test_a_link_that_is_wrong_by_2_percent_is_found(rate, ip, wrong, scenario_file):
    """The links are made so after the plan: the check expects what the scenario says."""
    link = ('forward = { rate = "10mbit"', f'forward = {{ rate = "{rate}"')
    guest = image.open_image(LAB)
    family = [('id = "TEST"', f'id = "TEST"\nip = {ip}'), ("mtu = 1000", "mtu = 1400")]
    (task,) = plan_runs(scenario.load(scenario_file(link, PLAIN, *family)), guest)
    job = dump(replace(task.job, duration_s=0.05, measure_from_s=0.01))
    for shape in (end["shape"] for link in job["links"] for end in (link["a"], link["b"])):
        if "rate_bps" in shape:
            shape["rate_bps"] = round(shape["rate_bps"] * wrong)
    files, _ = vm.run(guest, read(Job, job, "job"), task.objects)
    found = {row["what"] for row in json.loads(files["agent.json"])["self_check"] if not row["ok"]}
    assert found == {f"{way} rate src0-dst0, bit/s" for way in ("forward", "reverse")}


def test_plain_traffic_is_the_data_alone(scenario_file):
    """One connection a flow, from its SYN at its start on; it stops and resumes."""
    r = run(
        scenario_file(
            ('controller = "reno"', 'controller = "reno"\nstart = "0.2s"\nstop = "1.2s"\nresume = "2s"'), CAPTURE, PLAIN
        )
    )
    assert r.valid
    forward = r.capture("forward")
    assert set(forward["sport"]) == {FLOW_PORT} and forward["flags"][0] == capture.SYN
    start = r.job.flows[0].start_s
    assert start <= forward["t"][0] < start + 0.002
    data = forward["t"][forward["payload"] > 0]
    assert ((data > 1.3) & (data < 2)).sum() == 0 and (data > 2).sum() > 500 and data[0] < start + 0.05


def test_a_gigabit_window_has_memory(scenario_file):
    """10,000 packets on the way, and as many to be sent: more than a kernel of this memory gives TCP by itself."""
    forward = 'forward = { rate = "10mbit", delay = "20ms", queue = 100 }'
    r = run(
        scenario_file(
            ("mtu = 1000", "mtu = 1500"),
            (forward, 'forward = { rate = "1gbit", delay = "80ms", queue = 9000 }'),
            ('duration = "3s"\nmeasure_from = "1s"', 'duration = "1.2s"\nmeasure_from = "1s"\ntraffic = "plain"'),
            FAST,
            append="\n[controllers.fast]\nalpha = 4000\ninit_cwnd = 1024\n",
        )
    )
    (row,) = (row for row in r.record["agent"]["self_check"] if "memory" in row["what"])
    assert r.valid and row["measured"] == 0
    assert r.acks["cwnd"].max() > 8000 and r.metrics["utilisation"] > 0.5


# --- the oldest kernel ---------------------------------------------------------------------

RULES = {
    'codel = { target = "20ms", ecn = true }': 'loss = "5%", loss_burst = 5',
    "fq_codel = {}": 'jitter = "10ms"',
    "pie = {}": 'jitter = "10ms", disorder = true',
    "fq = {}": 'reorder = "5%"',
    'red = { min = 5, max = 20, probability = "10%", ecn = true }': "strip = { kinds = [4], syn = true }",
    "cake = { ack_filter = true }": "strip = { kinds = [5], syn = false }",
}
_, SIZED, DISORDER, REORDER, STRIPPED, ASKING = range(len(RULES))


def test_the_oldest_kernel_takes_all_that_a_path_may_have(tmp_path):
    """A hop for each, and a flow on it. The self-check asks tc for queues, targets and odds, and measures the rest."""
    link = 'rate = "5mbit", delay = "20ms", queue = 100'
    hops = (f"[[path.hops]]\nforward = {{ {link}, {a}, {b} }}\nreverse = {{ {link} }}\n" for a, b in RULES.items())
    flows = [f'[[flows]]\ncontroller = "reno"\nenter = {k + 1}\nleave = {k + 2}\n' for k in range(len(RULES))]
    flows[ASKING] += "reply = 100\n"
    flows[SIZED] += "size = 100000\n"
    file = tmp_path / "all.toml"
    path = 'title = "all"\nid = "ALL"\necn = true\nprofile = "tuned"\n[path]\nmtu = 1000\n'
    timed = '[run]\nduration = "2s"\nmeasure_from = "0s"\ntraffic = "plain"\n'
    file.write_text("".join([path, *hops, *flows, timed]))
    r = run(file, "6.1")
    assert r.valid and r.record["agent"]["kernel"].startswith("6.1."), r.record["invalid"]
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
    slow = HOP.replace('reverse = { rate = "10mbit"', 'reverse = { rate = "30kbit"')
    less = '\n[[changes]]\nat = "0s"\nhop = 2\ndirection = "forward"\nmtu = 700\n'
    r = run(scenario_file((PATH, slow + HOP), ("mtu = 1000", "mtu = 1500"), append=less))
    assert r.valid and r.metrics["goodput_bps"] > 1e5, r.record["invalid"]
