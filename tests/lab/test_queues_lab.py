# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's queues beside the plain one, and losses in bursts: each beside what theory says of it."""

from __future__ import annotations

import struct
from itertools import groupby
from unittest import mock

import numpy as np
import pytest

from asymlab.guest import check
from asymlab.guest.job import Bottleneck, Discipline, End, Propagation, Red
from asymlab.guest.net import loss_model
from asymlab.guest.netlink import DUALPI2, Queue, attribute
from asymlab.guest.protocol import Check
from asymlab.plan.queues import ANYWHERE
from tests.scenarios import CAPTURE, TUNED, side_by_side
from tests.shared import L4S, LAB, LAB_KERNELS, check_physics, needs_l4s, run

LONG = {"run": {"duration": "20s", "measure_from": "5s"}}
STEADY = {"run": {"duration": "10s", "measure_from": "4s"}}
CUBIC = {"flow": {"controller": "cubic"}}


def with_queue(rule: dict) -> dict:
    return {"forward": {"queue": 1000, **rule}}


def delay_ms(r) -> float:
    return 1e3 * r.metrics["forward"]["queue_delay_mean_s"]


TARGETS = [
    ({"codel": {}}, 1, 8),  # RFC 8289: a standing queue of its target, 5 ms, at most
    ({"codel": {"target": "20ms"}}, 8, 25),
    ({"fq_codel": {}}, 1, 8),
    ({"pie": {}}, 7, 20),  # RFC 8033: it steers to its target, 15 ms
    ({}, 100, 1000),  # a plain queue of 1000 packets of 0.8 ms
]


@pytest.mark.lab
def test_the_delay_of_a_queue_with_a_target(scenario_file):
    ways = [{"queue": 1000, **rule} for rule, *_ in TARGETS]
    r = run(scenario_file(side_by_side(*ways, controller="cubic"), STEADY, TUNED))
    for hop, (rule, least, most) in zip(r.metrics["hops"], TARGETS, strict=True):
        way = hop["forward"]
        assert least < 1e3 * way["queue_delay_mean_s"] < most, rule
        assert 0.9 < way["utilisation"] < 1.005 and (way["drops"] > 0 or not rule), rule


@needs_l4s
@pytest.mark.lab
@pytest.mark.parametrize("target, least, most", [("15ms", 7, 20), ("30ms", 15, 40)])
def test_dualpi2_steers_classic_packets_to_its_target(scenario_file, target, least, most):
    """RFC 9332, A.1. Those that cannot be marked are dropped."""
    r = run(scenario_file(with_queue({"dualpi2": {"target": target}}), STEADY, TUNED, CUBIC), L4S)
    check_physics(r)
    assert least < delay_ms(r) < most and r.metrics["utilisation"] > 0.9
    assert r.metrics["forward"]["drops"] > 0 == r.metrics["forward"]["marks"]


@needs_l4s
@pytest.mark.lab
@pytest.mark.parametrize("queue", [1, 20])
def test_dualpi2_holds_as_many_small_packets_as_it_is_told(scenario_file, queue):
    """A bucket's peek holds one more."""
    way = {"queue": queue, "dualpi2": {"target": "500ms"}}
    r = run(scenario_file(TUNED, CUBIC, mtu=576, forward=way), L4S)
    rows = r.links[r.links["dev"] == r.job.watch[0].forward.dev]
    assert rows["drops"][-1] > 0 and queue <= rows["qlen_max"].max() <= queue + 1


@pytest.mark.lab
@pytest.mark.parametrize(
    "rule, others, off",
    [
        ({"fq": {}}, "cubic", 0.02),  # all five have packets that wait
        ({"fq_codel": {}}, "bbr", 0.1),  # CoDel's drops leave Reno's own queue empty for a while
    ],
)
def test_flows_that_take_turns_have_the_same(scenario_file, rule, others, off):
    """A Reno flow beside four more aggressive ones has a fifth. In a plain queue it has far less, or more."""
    shares = []
    for queue in (with_queue(rule), {"forward": {"queue": 50}}):
        r = run(scenario_file(queue, LONG, TUNED, flows=[{"controller": others, "count": 4}]))
        check_physics(r)
        rates = np.array([f["goodput_bps"] for f in r.metrics["flows"]])
        shares.append(rates[0] / rates.sum())
    assert shares[0] == pytest.approx(0.2, rel=off) and not shares[1] == pytest.approx(0.2, rel=1.5 * off)


ON_LAB = [pytest.param(LAB, ANYWHERE), pytest.param(L4S, ["dualpi2"], marks=needs_l4s)]


@pytest.mark.lab
@pytest.mark.parametrize("kernel, kinds", ON_LAB)
def test_marks_in_place_of_drops(scenario_file, kernel, kinds):
    """Hosts that ask for ECN get marks; without, the same queue drops."""
    kinds = kinds[:3]
    ways = [{"queue": 1000, kind: {} if kind == "dualpi2" else {"ecn": True}} for kind in kinds]
    marked, dropped = (run(scenario_file(side_by_side(*ways), STEADY, TUNED, ecn=ecn), kernel) for ecn in (True, False))
    for kind, with_ecn, without, flow, watched in zip(
        kinds, marked.metrics["hops"], dropped.metrics["hops"], marked.metrics["flows"], marked.job.watch, strict=True
    ):
        drops = with_ecn["forward"]["drops"]
        ends = marked.record["agent"]["marks"]["end"]["qdisc"][watched.forward.dev]
        assert with_ecn["forward"]["marks"] > 0 and flow["retransmits_whole_run"] == ends["drops"], kind
        # PIE marks no packet while it would hit more than a tenth (RFC 8033, 5.1).
        assert drops == 0 or kind == "pie"
        assert without["forward"]["marks"] == 0 <= drops < without["forward"]["drops"], kind


@pytest.mark.lab
@pytest.mark.parametrize("kernel, kinds", ON_LAB)
def test_a_rate_changes_before_each_queue(scenario_file, kernel, kinds):
    """Half of it in the second half: the queue stays as it was told, and the flow has what is left."""
    rules = [{kind: {}} for kind in kinds]
    if kernel == LAB:
        rules += [{"cake": {}}, {"red": {"min": 20, "max": 60, "probability": "10%"}}]
    half = {"at": "1500ms", "direction": "forward", "rate": "5mbit"}
    changes = [half | {"hop": k} for k in range(1, len(rules) + 1)]
    times = {"duration": "4s", "measure_from": "2s"}
    ways = [{"queue": 1000, **rule} for rule in rules]
    r = run(scenario_file(side_by_side(*ways), TUNED, run=times, changes=changes), kernel)
    for rule, flow in zip(rules, r.metrics["flows"], strict=True):
        assert 0.8 < flow["goodput_bps"] / (5e6 * r.job.payload_share) < 1.001, rule


@pytest.mark.lab
def test_the_length_of_a_red_queue_under_a_constant_load(scenario_file):
    """A share d of the packets is too many. RED drops after 1 to 1/p arrivals, each as likely (Floyd and Jacobson 1993,
    method 2), so d = 2 p / (1 + p), and p grows with the average from 0 at min to `most` at max."""
    cases = ("11mbit", 0.1), ("12mbit", 0.2), ("14mbit", 0.6)
    reds = [{"queue": 300, "red": {"min": 30, "max": 130, "probability": f"{most:.0%}"}} for _, most in cases]
    loads = [{"rate": rate, "packet": 1000, "hop": k} for k, (rate, _) in enumerate(cases, 1)]
    late = {"flow": {"start": "25s", "direction": "reverse"}, "run": {"duration": "26s", "measure_from": "5s"}}
    r = run(scenario_file(side_by_side(*reds), TUNED, late, background=loads))
    for watched, (_, most) in zip(r.job.watch, cases, strict=True):
        rows = r.links[(r.links["dev"] == watched.forward.dev) & (r.links["t"] >= 5) & (r.links["t"] < 24.9)]
        dropped, sent = rows["drops"][-1] - rows["drops"][0], rows["packets"][1:].sum()
        d = dropped / (dropped + sent)
        assert d > 0.09
        expected = 30 + 100 * d / (2 - d) / most
        assert rows["qlen_sum"].sum() / rows["packets"].sum() == pytest.approx(expected, rel=0.04)


@pytest.mark.lab
def test_losses_in_bursts(scenario_file):
    """5 % in bursts of five: what is sent again was lost, and neighbours that were lost are a burst. There are some 120
    bursts, so a share is known to 13 % twice of three times."""
    losses = {"loss": "5%", "loss_burst": 5}
    r = run(scenario_file(STEADY, TUNED, CAPTURE, forward=losses, flow={"controller": "bbr"}))
    sent = r.capture("forward")
    seq = sent["seq"][sent["payload"] > 0]
    _, first, times = np.unique(seq, return_index=True, return_counts=True)
    lost = (times > 1)[np.argsort(first)][:-200]
    bursts = [sum(1 for _ in run) for gone, run in groupby(lost) if gone]
    assert lost.mean() == pytest.approx(0.05, rel=0.35) and np.mean(bursts) == pytest.approx(5, rel=0.35)


@pytest.mark.lab
def test_jitter_without_order(scenario_file):
    r = run(scenario_file(TUNED, forward={"jitter": "10ms", "disorder": True}))
    assert r.goodput["not_next"].sum() > 0.1 * r.goodput["segments"].sum()


END = ("left", "left-right", "10.77.1.1", "02:00:00:00:01:01")


RULES = {
    "codel": {"limit": 100, "target": 5000, "interval": 100_000},
    "fq_codel": {"limit": 100, "target": 5000, "interval": 100_000, "flows": 1024},
    "pie": {"limit": 100, "target": 15_000, "tupdate": 16_000},
    "fq": {"limit": 100, "flow_limit": 100},
}


@pytest.mark.parametrize("off, good", [(0.999, True), (1.02, False), (0.98, False)])
@pytest.mark.parametrize("kind, key", [(kind, key) for kind, options in RULES.items() for key in options])
def test_a_rule_that_is_wrong_by_2_percent_is_found(kind, key, off, good):
    """tc tells a time that is not whole in its ticks a little short."""
    if good and key not in ("target", "interval", "tupdate"):
        off = 1
    told = RULES[kind] | {key: round(RULES[kind][key] * off), "ecn": False}
    end = End(*END, Bottleneck(10**7, 1500, 3000, 100, discipline=Discipline(kind, RULES[kind])))
    assert check._check_rule(mock.Mock(options=lambda _: {kind: told}), end, end.shape.discipline)["ok"] is good


RED = Red(1500, 150_000, 15_000, 60_000, 0.1, 30, 9, True)


@pytest.mark.parametrize("off", [1, 1.02, 0.98])
@pytest.mark.parametrize("key", ["limit", "min", "max", "ewma", "probability"])
def test_a_red_that_is_wrong_by_2_percent_is_found(key, off):
    """Its weight is a power of two: the next one is half of it, or twice."""
    end = End(*END, Bottleneck(10**7, 1500, 3000, 100, red=RED))
    options = {"limit": 150_000, "min": 15_000, "max": 60_000, "ewma": 9, "ecn": True}
    if key in options:
        options[key] = round(options[key] * off) if key != "ewma" else options[key] + {1: 0, 1.02: 1, 0.98: -1}[off]
    odds = int(RED.probability * 2**32 * (off if key == "probability" else 1))
    queue = Queue("gred", False, {}, attribute(4, struct.pack("16I", odds, *bytes(15))), b"")
    row = check._check_red(mock.Mock(options=lambda _: {"gred": {"vqs": [options]}}), [queue], end, RED)
    assert row["ok"] is (off == 1) and row["expected"].keys() == row["measured"].keys()
    assert not check._check_red(mock.Mock(options=lambda _: {}), [], end, RED)["ok"]


@pytest.mark.lab
@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_the_kernel_tells_the_probability_that_its_red_was_given(scenario_file, kernel):
    reds = [
        {"queue": 1000, "red": {"min": 5, "max": 20, "probability": odds}} for odds in ("0.1%", "33.3333333%", "99.99%")
    ]
    r = run(scenario_file(side_by_side(*reds), TUNED, run={"duration": "1s", "measure_from": "500ms"}), kernel)
    rows = [row for row in r.self_check if row.kind == Check.RED]
    assert len(rows) == len(reds) and all(row.ok for row in rows)
    for row in rows:
        assert row.measured["probability"] == pytest.approx(row.expected["probability"], rel=1e-5), row


@pytest.mark.parametrize("key, told", [("target", 14_999), ("step", 1001), ("coupling", 1), ("limit", None), ("", 0)])
def test_another_dualpi2_is_found(key, told):
    wanted = {"limit": 100, "memory": 2**32 - 1, "target": 15_000, "tupdate": 16_000, "step": 1000, "coupling": 2}
    end = End(*END, Bottleneck(10**7, 1500, 3000, 100, discipline=Discipline("dualpi2", wanted)))
    has = {name: value for name, value in (wanted | {key: told} if key else wanted).items() if value is not None}
    words = b"".join(attribute(DUALPI2[name][0], struct.pack(DUALPI2[name][1], value)) for name, value in has.items())
    row = check._check_dualpi2([Queue("dualpi2", False, {}, words, b"")], end, end.shape.discipline)
    assert row["ok"] is (not key) and row["measured"] == has
    assert not check._check_dualpi2([], end, end.shape.discipline)["ok"]


def netem_of(delay_us=20_000, jitter_us=0, loss=0.0, reorder=0.0, duplicate=0.0, begin=0.0, end=0.0):
    """A netem as the kernel tells it."""

    def odds(share):
        return round(share * 0xFFFFFFFF)

    qopt = struct.pack("6I", 0, 10**6, odds(loss), 1 if reorder else 0, odds(duplicate), 0)
    bursts = attribute(5, attribute(2, struct.pack("4I", odds(begin), odds(end), 0xFFFFFFFF, 0))) if begin else b""
    times = attribute(10, struct.pack("q", round(1000 * delay_us))) + attribute(11, struct.pack("q", 1000 * jitter_us))
    return Queue("netem", True, {}, qopt + attribute(3, struct.pack("II", odds(reorder), 0)) + bursts + times, b"")


@pytest.mark.parametrize("key", ["delay_us", "jitter_us", "loss", "reorder", "duplicate"])
@pytest.mark.parametrize("off, good", [(1, True), (1.02, False), (0.98, False), (0, False)])
def test_wrong_odds_and_times_are_found(key, off, good):
    wanted = {"delay_us": 20_000, "jitter_us": 5000, "loss": 1e-4, "reorder": 0.02, "duplicate": 0.01}
    end = End(*END, Propagation(**wanted))
    queue = netem_of(**wanted | {key: round(wanted[key] * off) if key.endswith("us") else wanted[key] * off})
    assert check._check_netem([queue], end, end.shape)["ok"] is good
    assert not check._check_netem([], end, end.shape)["ok"]


@pytest.mark.parametrize("told_us, good", [(2.944, True), (2.8, False)])
def test_a_delay_is_known_to_a_tick_of_tc(told_us, good):
    end = End(*END, Propagation(3, 0.01, 0.0))
    assert check._check_netem([netem_of(delay_us=told_us, loss=0.01)], end, end.shape)["ok"] is good


@pytest.mark.parametrize("off, good", [(1, True), (1.02, False), (0.98, False)])
@pytest.mark.parametrize("key", [0, 1])
def test_wrong_bursts_are_found(key, off, good):
    end = End(*END, Propagation(20_000, 0.01, 0.0, loss_burst=5.0))
    odds = list(loss_model(end.shape))
    odds[key] *= off
    row = check._check_netem([netem_of(begin=odds[0], end=odds[1])], end, end.shape)
    assert row["ok"] is good and row["expected"] | {"loss": 0.01, "burst": 5.0} == row["expected"]


@pytest.mark.lab
@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_the_kernel_tells_what_its_netem_was_given(scenario_file, kernel):
    """All at once, rare and frequent: each within 0.2 %."""
    bad = {"loss": "0.01%", "loss_burst": 3, "reorder": "2%", "duplicate": "1e-4%", "jitter": "3ms"}
    other = {"loss": "1e-5%", "duplicate": "50%", "jitter": "3ms", "disorder": True}
    r = run(scenario_file(TUNED, forward=bad, reverse=other), kernel)
    rows = [row for row in r.self_check if row.kind == Check.NETEM]
    assert len(rows) == 2 and all(row.ok for row in rows)
