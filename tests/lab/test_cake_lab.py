# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""CAKE with the options of its links: what a packet takes of the rate, and whose packets take turns."""

from __future__ import annotations

import numpy as np
import pytest

from asymlab.guest import check
from asymlab.guest.job import Bottleneck, Cake, End
from asymlab.guest.netlink import Queue, attribute
from tests.scenarios import TUNED, side_by_side
from tests.shared import LAB, check_physics, run

ATM, PTM = {"overhead": 40, "framing": "atm"}, {"overhead": 22, "framing": "ptm"}
BBR = {"flow": {"controller": "bbr"}}  # Reno alone leaves a part of its half after CAKE's drops
LONG = {"run": {"duration": "6s", "measure_from": "3s"}}


def with_cake(words: dict) -> dict:
    return {"forward": {"cake": words}}


@pytest.mark.parametrize(
    "cake, packet, takes",
    [
        (Cake(False), 1500, 1500),
        (Cake(False, overhead=18, mpu=64), 40, 64),  # DOCSIS
        (Cake(False, overhead=18, mpu=64), 1500, 1518),
        (Cake(False, overhead=40, framing="atm"), 1500, 33 * 53),  # 1540 bytes need 32.1 cells
        (Cake(False, overhead=36, framing="atm"), 1500, 32 * 53),  # 1536 fill 32
        (Cake(False, overhead=40, framing="atm"), 52, 2 * 53),
        (Cake(False, overhead=40, framing="atm"), 57, 3 * 53),
        (Cake(False, overhead=30, framing="ptm"), 1500, 1530 + 24),
    ],
)
def test_what_a_packet_takes(cake, packet, takes):
    assert cake.takes(packet) == takes


@pytest.mark.lab
@pytest.mark.parametrize("kernel, mtu", [("6.1", 1500), (LAB, 1500), (LAB, 1460)])
def test_the_rate_is_that_of_its_cells(scenario_file, kernel, mtu):
    """It carries what the cells of its packets leave, to half a percent. 1460 + 40 bytes take a cell less than 1540.

    A single flow would leave the link idle after CAKE's drops, so there are eight.
    """
    links = side_by_side({"cake": ATM}, {"cake": PTM}, controller="cubic", count=8)
    r = run(scenario_file(TUNED, LONG, links, mtu=mtu), kernel)
    checks = [row for row in r.self_check if row.what.startswith("forward rate src")]
    for words, hop, row in zip((ATM, PTM), r.metrics["hops"], checks, strict=True):
        taken = 53 * np.ceil((mtu + 40) / 48) if words == ATM else mtu + 22 + np.ceil((mtu + 22) / 64)
        carried = hop["forward"]["packets"] * mtu * 8 / (r.job.duration_s - r.job.measure_from_s)
        assert carried == pytest.approx(1e7 * mtu / taken, rel=0.005)  # goodput lacks what waits behind a gap
        assert row.measured == pytest.approx(1e7 * mtu / taken, rel=0.004)


@pytest.mark.lab
def test_hosts_before_flows(scenario_file):
    """Four flows of one host beside one of another: by flows a fifth each, by hosts a half for the one."""
    beside = {"flows": [{"controller": "bbr", "count": 4}]}
    shares = []
    for isolation in ("flows", "dual-srchost"):
        r = run(scenario_file(TUNED, BBR, LONG, with_cake({"isolation": isolation}), beside))
        check_physics(r)
        rates = [f["goodput_bps"] for f in r.metrics["flows"]]
        shares.append(rates[0] / sum(rates))
    assert shares == [pytest.approx(0.2, rel=0.05), pytest.approx(0.5, rel=0.15)]  # 6.12 gives the one 0.45


@pytest.mark.lab
def test_thinning_knows_the_cells(scenario_file):
    """An ACK of 52 bytes takes two cells of 53. A thinner that counts 52 bytes sends ACKs at twice the rate, and they
    wait; one that counts cells leaves the link of the ACKs room."""
    base = {
        "mtu": 1500,
        "flow": {"controller": "cubic"},
        "reverse": {"rate": "100kbit", "cake": {"overhead": 10, "framing": "atm"}},
        "run": {"duration": "20s", "measure_from": "12s"},
    }
    blind, aware = (
        run(scenario_file(TUNED, base, thin={"reverse_kbit": 100, **more})) for more in ({}, {"overhead": 10, "atm": 1})
    )
    assert aware.metrics["reverse"]["queue_mean"] < 1 and blind.metrics["reverse"]["queue_mean"] > 100
    assert aware.metrics["goodput_bps"] > 3 * blind.metrics["goodput_bps"]


def passes(**values) -> bool:
    """Whether the self-check finds CAKE as it was asked for, where the kernel has these."""
    has = {"rate": 10**7, "atm": 1, "flows": 7, "overhead": 40, "mpu": 64, "filter": 1} | values
    words = attribute(2, (has["rate"] // 8).to_bytes(8, "little")) + b"".join(
        attribute(kind, has[key].to_bytes(4, "little", signed=True))
        for kind, key in ((4, "atm"), (5, "flows"), (6, "overhead"), (14, "mpu"), (16, "filter"))
    )
    shape = Bottleneck(10**7, 1500, 3000, 100, cake=Cake(True, overhead=40, mpu=64, framing="atm"))
    end = End("left", "left-right", "10.77.1.1", "02:00:00:00:01:01", shape)
    return check._check_cake([Queue("cake", True, {}, words, b"")], end, shape)["ok"]


@pytest.mark.parametrize(
    "values",
    [
        {"rate": 10_200_000},
        {"atm": 0},
        {"atm": 2},
        {"flows": 4},
        {"overhead": 41},
        {"mpu": 63},
        {"filter": 0},
        {"filter": 2},
    ],
)
def test_another_cake_is_found(values):
    assert passes() and not passes(**values)
