# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Links of real life that people have reported: experiments/links/, each with the value that is right."""

from __future__ import annotations

import pytest

from asymlab.plan import scenario
from asymlab.results.metrics import goodput_bins
from tests.shared import REPO, run

pytestmark = pytest.mark.lab

LINKS = REPO / "experiments" / "links"
PAYLOAD = 1448 / 1500
ACK_BITS = 52 * 8
TO_MEND = pytest.mark.xfail(strict=True, reason="after a fade its rate climbs by 7 Mbit/s a second, and no faster")
JITTER = pytest.mark.xfail(strict=True, reason="to T jitter is a queue, and docs/pseudorate.md says why it stays")


def run_of(name: str, controller: str, **point: str):
    return run(LINKS / f"cases.toml:{name}", **{"flows.controller": controller, **point})


def seconds(r):
    """Mbit/s of goodput, a value a second."""
    bins = goodput_bins(r.goodput, 0, r.job.duration_s, r.job.bin_ms / 1e3) / 1e6
    return bins.reshape(-1, 10).mean(axis=1)


@pytest.mark.parametrize("controller", ["cubic", "bbr", "fast", "pseudorate", pytest.param("formosa", marks=TO_MEND)])
def test_a_fade_and_back(controller):
    """A tenth of the rate for 10 s is used in full, and 3 s after it all of the rate again."""
    rate = seconds(run_of("fade", controller))
    assert rate[12:20].min() > 0.97 * 10 * PAYLOAD
    assert rate[23:30].min() > 0.95 * 100 * PAYLOAD


@pytest.mark.parametrize("controller", ["cubic", "reno", "bbr", "fast"])
def test_a_pause_of_166_ms_is_no_loss(controller):
    """1669 packets a second are left, no timer of 200 ms ends, and all but BBR use 99 % of them."""
    r = run_of("wifi-pause", controller)
    assert r.metrics["timeouts"] == 0
    assert r.metrics["goodput_bps"] <= 1669 * 1448 * 8 * 1.001
    assert r.metrics["utilisation"] > (0.97 if controller == "bbr" else 0.99)


@pytest.mark.parametrize("back, kbit", [("100kbit", 100), ("200kbit", 200)])
def test_a_slow_way_of_acks(back, kbit):
    """A sender that fills the queue of ACKs loses them there, and has the whole link. One that keeps it short has an
    ACK for each packet: then the ACKs' rate is that of the data. The papers' FAST and Pseudo-rate are so. By default
    they take the ACKs' wait for no queue of their own."""
    point = {"path.reverse.rate": back}
    cubic = run_of("slow-acks", "cubic", **point)
    assert cubic.metrics["utilisation"] > 0.99 and cubic.metrics["acks_per_data_packet"] < 0.6
    for controller, least in (("fast", 0.99), ("pseudorate", 0.9)):
        papers = run_of("slow-acks-papers", controller, **point)
        assert papers.metrics["goodput_bps"] == pytest.approx(kbit * 1e3 / ACK_BITS * 1448 * 8, rel=0.01)
        assert run_of("slow-acks", controller, **point).metrics["utilisation"] > least


@pytest.mark.parametrize("controller", ["fast", "pseudorate"])
def test_acks_that_wait_in_recoveries_alone_change_no_law(controller):
    """An ACK for each packet fits through the link, and one with three SACKs does not."""
    r = run_of("slow-acks", controller, **{"path.reverse.rate": "400kbit"})
    assert r.metrics["utilisation"] > 0.99


def test_handovers_of_a_satellite():
    """Nothing passes for the outage of each beam, and BBR uses most of what is left."""
    r = run_of("leo", "bbr")
    rows = r.links[r.links["dev"] == r.job.watch[0].forward.dev]
    trace = scenario.load(LINKS / "cases.toml:leo")[0].scenario.path.forward.trace
    for t, carried in zip(rows["t"], rows["bytes"] - 14 * rows["packets"]):
        if 1 <= t < r.job.duration_s - 0.1:
            assert carried <= (trace.until(1e3 * t + 100) - trace.until(1e3 * t - 1)) * 1500 + 1500
    assert r.metrics["utilisation"] > 0.5


@pytest.mark.parametrize(
    "title",
    [
        "cubic",
        "taichung",
        pytest.param("pseudorate", marks=JITTER),  # 0.06 to 0.12
        "pseudorate, noise_cycles 256",
    ],
)
def test_jitter_of_a_cable_line(title):
    """2 ms of jitter at 300 Mbit/s: a flow alone fills the link."""
    assert run(LINKS / "cases.toml:jitter-cable", title=title).metrics["utilisation"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, controller, option, most",
    [
        ("jitter-leo", "pseudorate", "noise_cycles", 1 / 4),  # 0.12 to 0.13 by four seeds
        ("jitter-geo", "pseudorate", "noise_cycles", 1),  # 0.11, 0.20, 0.26 and 0.92
        ("jitter-geo", "formosa", "noise_rounds", 1 / 20),
    ],
)
def test_jitter_is_no_queue(name, controller, option, most):
    """A sender that measures the noise has at least half of what BBR has, and without it often next to nothing.
    Pseudo-rate without it has more than Formosa: to it the jitter of ACKs is no queue (forward.bpf.h)."""
    titles = "bbr", controller, f"{controller}, {option} 256"
    file = LINKS / f"cases.toml:{name}"
    bbr, without, with_it = (run(file, title=title).metrics["goodput_bps"] for title in titles)
    assert without < most * bbr
    assert with_it > 0.5 * bbr
