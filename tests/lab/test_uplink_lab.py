# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc uplink` before a modem whose rate nobody tells it: a short queue there, and an uplink in use."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab import LabError
from asymlab.plan import scenario, topology
from asymlab.results.store import Run
from tests.shared import LAB, run

MBIT = 1e6
ROUTER = """
title = "four uploads beside four downloads"
id = "UP"
profile = "tuned"
ack = "every"
[[path.hops]]
forward = { rate = "100mbit", delay = "25ms", queue = 1000 }
reverse = { rate = "20mbit", delay = "25ms", queue = 417, jitter = "JITTER" }
[[path.hops]]
forward = { rate = "100mbit", delay = "0ms", queue = 1000 }
reverse = { rate = "1gbit", delay = "0ms", queue = 1000 }
UPLINK
[[flows]]
controller = "cubic"
count = 4
[[flows]]
controller = "cubic"
count = 4
direction = "reverse"
hosts_of = 0
[run]
duration = "15s"
measure_from = "5s"
"""
FIRST, SECOND = "[[path.hops]]", ROUTER[ROUTER.rindex("[[path.hops]]") : ROUTER.index("UPLINK")]
HOST = ROUTER.replace(SECOND, "").replace(FIRST, "[path]")  # one that is right before the modem


def text(of: str = ROUTER, uplink: str = "", jitter: str = "0ms") -> str:
    return of.replace("UPLINK", uplink).replace("JITTER", jitter)


def ran(tmp_path, *words, down: bool = False, **keys) -> tuple[float, float]:
    """Goodput of the uploads, and p95 of how long the modem's queue was, over bins of 100 ms; bit/s and s. `down`: of
    the downloads, and the queue at its far end."""
    (tmp_path / "s.toml").write_text(text(*words, **keys))
    r: Run = run(tmp_path / "s.toml", LAB)
    links = r.links
    modem = r.job.watch[0].forward if down else r.job.watch[0].reverse
    bins = links[(links["dev"] == modem.dev) & (links["t"] >= r.job.measure_from_s) & (links["t"] < r.job.duration_s)]
    packets = np.maximum(bins["packets"], 1)
    queue = bins["qlen_sum"] / packets * (bins["bytes"] - 14 * bins["packets"]) / packets * 8 / modem.rate_bps
    goodput = sum(f["goodput_bps"] for f in r.metrics["flows"] if (r.job.flows[f["flow"]].src == "src0") == down)
    return goodput, float(np.percentile(queue, 95))


@pytest.mark.lab
@pytest.mark.parametrize("words", [(ROUTER, "[uplink]"), (HOST, '[uplink]\nat = "host"')], ids=["router", "host"])
def test_the_modem_has_a_short_queue_and_the_uplink_is_used(tmp_path, words):
    up, queue = ran(tmp_path, *words)
    without, long = ran(tmp_path, words[0])
    assert up > 0.75 * 20 * MBIT and queue < 0.03
    assert long > 0.1 and up > without


@pytest.mark.lab
@pytest.mark.parametrize("of, at", [(ROUTER, "router"), (HOST, "host")], ids=["router", "host"])
def test_what_arrives_waits_here_and_not_before_the_modem(tmp_path, of, at):
    down, queue = ran(tmp_path, of, f'[uplink]\nat = "{at}"\ndown = true', down=True)
    without, long = ran(tmp_path, of, f'[uplink]\nat = "{at}"', down=True)
    assert queue < 0.03 and long > 0.08
    assert down > 0.95 * without


@pytest.mark.lab
def test_probes_tell_how_long_packets_wait_if_no_tcp_does(tmp_path):
    silent = ROUTER + '[sysctls]\n"net.ipv4.tcp_timestamps" = 0\n'
    up, queue = ran(tmp_path, silent, "[uplink]\nprobe = true")
    without, long = ran(tmp_path, silent, "[uplink]")
    assert queue < 0.03 and long > 0.1
    assert up > 0.75 * 20 * MBIT and up > 0.9 * without


@pytest.mark.lab
def test_jitter_is_no_queue(tmp_path):
    up, queue = ran(tmp_path, ROUTER, "[uplink]", jitter="5ms")
    assert up > 0.75 * 20 * MBIT and queue < 0.03


# The law of cake-autorate needs a CAKE of its base's rate.
CAKE = ROUTER.replace('rate = "1gbit", delay', 'rate = "20mbit", cake = { ack_filter = true }, delay')


@pytest.mark.lab
@pytest.mark.parametrize("law", ["autorate", "autorate-rtt"])
def test_a_rival_hears_its_pings_and_moves_the_rate_of_cake(tmp_path, law):
    (tmp_path / "s.toml").write_text(
        text(CAKE, f'[thin]\nat = "router"\n[uplink]\nlaw = "{law}"\nleast = "5mbit"\nmost = "35mbit"')
    )
    ticks = run(tmp_path / "s.toml", LAB).uplink
    assert len(ticks) > 200 and "queue" in ticks["cause"]
    assert 5e6 <= ticks["rate"].min() < 18e6 and ticks["rate"].max() <= 35e6


def planned(tmp_path, *words):
    (tmp_path / "s.toml").write_text(text(*words))
    (case,) = scenario.load(tmp_path / "s.toml", seeds=(1,))
    return topology.plan_job(case, 1).uplink


def test_where_it_stands_and_what_it_is_told(tmp_path):
    assert planned(tmp_path, ROUTER, "") is None
    router = planned(tmp_path, ROUTER, '[uplink]\nleast = "1mbit"\nmost = "30mbit"')
    assert router.dev == "sw3-wire2" and router.options == ["--least", "1000000bit", "--most", "30000000bit"]
    assert planned(tmp_path, HOST, '[uplink]\nat = "host"').dev == "dst0-right"
    rival = planned(tmp_path, CAKE, '[uplink]\nlaw = "autorate"\nleast = "5mbit"\nmost = "30mbit"')
    assert (rival.dev, rival.one_way, rival.base_bps) == ("sw3-wire2", True, 20 * MBIT)
    assert (rival.least_bps, rival.most_bps) == (5 * MBIT, 30 * MBIT)


@pytest.mark.parametrize(
    "words, why",
    [
        ((HOST, "[uplink]"), "a router stands between two hops, and this path has one"),
        ((ROUTER, "[uplink]\n[thin]"), "it thins ACKs itself"),
        ((ROUTER, '[uplink]\nat = "modem"'), "uplink.at"),
        ((ROUTER.replace("ack =", "ip = 6\nack ="), "[uplink]\nprobe = true"), "uplink.probe: it asks by ICMP of IPv4"),
        ((ROUTER, '[uplink]\nlaw = "autorate"'), "give the last hop's `reverse` a `cake`"),
        ((CAKE, '[uplink]\nlaw = "autorate"\nleast = "9mbit"'), "autorate needs `least` and `most`"),
    ],
)
def test_what_a_scenario_may_not_say(tmp_path, words, why):
    with pytest.raises(LabError, match=why):
        planned(tmp_path, *words)
