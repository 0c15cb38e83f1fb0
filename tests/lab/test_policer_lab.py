# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A policer: what it passes at once and in the long run, and that its self-check finds a wrong one."""

from __future__ import annotations

from unittest import mock

import pytest

from asymlab.guest import policer as guest
from asymlab.guest.job import End, Policer, Unshaped
from tests.shared import LAB, check_physics, run

RATE, BURST, DELAY_S = 10**7, 30_000, 0.02
POLICED = {"forward": {"rate": "100mbit", "policer": {"rate": "10mbit", "burst": BURST}}}


@pytest.mark.lab
@pytest.mark.parametrize(
    "kernel, start, stop, most, unread",
    [
        # An idle bucket is full. The first two packets stay in the socket's buffer, and count as no arrival.
        ("6.1", "1.2s", "2.2s", BURST + 1.0 * RATE / 8, 2000),
        (LAB, "1.2s", "2.2s", BURST + 1.0 * RATE / 8, 2000),
        (LAB, "0.5s", "2.9s", (1.9 + DELAY_S) * RATE / 8, 0),  # it was empty before the run measures
    ],
)
def test_a_load_above_its_rate(scenario_file, kernel, start, stop, most, unread):
    """A burst passes at once, and from then on the rate, to a packet. The flow beside sends later."""
    load = {"rate": "50mbit", "packet": 1000, "start": start, "stop": stop}
    r = run(scenario_file(POLICED, flow={"start": "2.95s"}, background=[load]), kernel)
    assert most - 2000 < r.metrics["background_bps"][0] * 2 / 8 + unread <= most
    assert r.metrics["forward"]["policed"] > 4900


@pytest.mark.lab
def test_a_flow_behind_a_policer_keeps_no_queue(scenario_file):
    """Its losses are the policer's, and no packet waits: the link before it is ten times as fast."""
    r = run(scenario_file(POLICED, flow={"controller": "bbr"}, mtu=1500))
    check_physics(r)
    segments = r.goodput[r.goodput["t"] >= r.job.measure_from_s]["segments"].sum()  # in order or not
    arrived = segments * r.job.links[0].mtu * 8 / (r.job.duration_s - r.job.measure_from_s)
    assert 0.9 * RATE < arrived <= RATE + 8 * BURST / 2
    assert r.metrics["forward"]["policed"] > 0 == r.metrics["forward"]["drops"]
    assert r.metrics["flows"][0]["rtt_s"]["p95"] < 0.042


# --- the self-check, beside a bucket by the book -------------------------------------------


class Bucket:
    """A kernel whose policer has this rate and burst, and whose clock moves when one sleeps, or sends."""

    def __init__(self, rate: float, burst: float, send_s: float) -> None:
        self.rate, self.burst, self.send_s = rate / 8, burst, send_s
        self.now, self.bytes, self.at, self.drops = 100.0, burst, 100.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def sendto(self, data: bytes, _) -> None:
        self.now += self.send_s
        self.bytes = min(self.burst, self.bytes + self.rate * (self.now - self.at))
        self.at = self.now
        if len(data) <= self.bytes:
            self.bytes -= len(data)
        else:
            self.drops += 1


def checked(monkeypatch, rate, burst, mtu=1500, of_rate=1.0, of_burst=1.0, send_s=0.0):
    """Whether the burst and the rate of a policer are right, where it has another part of them."""
    bucket = Bucket(rate * of_rate, burst * of_burst, send_s)
    end = End("right", "right-left", "10.77.1.2", "02:00:00:00:01:02", Unshaped())
    monkeypatch.setattr(guest, "time", bucket)
    monkeypatch.setattr(guest, "dropped", lambda *_: bucket.drops)
    monkeypatch.setattr(guest.socket, "socket", lambda *_: mock.Mock(sendto=bucket.sendto))
    wanted = Policer("right", end.dev, "left-right", rate, burst)
    return [row["ok"] for row in guest._check(mock.MagicMock(), wanted, end, end, mtu)]


@pytest.mark.parametrize("send_s", [0, 4e-6])  # the engines' CPUs: uml's and qemu's
@pytest.mark.parametrize(
    "rate, burst", [(10**7, 1500), (10**7, 30_000), (10**5, 10_000), (10**8, 10**6), (10**9, 125_000)]
)
def test_a_policer_that_is_wrong_by_2_percent_is_found(monkeypatch, rate, burst, send_s):
    assert checked(monkeypatch, rate, burst, send_s=send_s) == [True, True]
    for off in (0.98, 1.02):
        assert checked(monkeypatch, rate, burst, send_s=send_s, of_rate=off)[1] is False
        assert checked(monkeypatch, rate, burst, send_s=send_s, of_burst=off)[0] is False
