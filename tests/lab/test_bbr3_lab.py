# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""BBRv3 on real kernels, with pacing and queues: cases of the draft's appendix A that the host cannot show."""

from __future__ import annotations

import numpy as np
import pytest

from tests.scenarios import write
from tests.shared import LAB_KERNELS, counters, run

pytestmark = pytest.mark.lab

STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT = range(7)
MSS = 1448


def alone(tmp_path, forward=None, duration=20, **more):
    """A flow on 20 Mbit/s and 40 ms: a BDP of 67 packets."""
    return write(
        tmp_path,
        more,
        ack=None,
        profile=None,
        mtu=None,
        forward={"rate": "20mbit", **(forward or {})},
        reverse={"rate": "20mbit"},
        flow={"controller": "bbr3"},
        run={"duration": f"{duration}s", "measure_from": None, "trace_state": True},
    )


def at_6s(rate: str) -> dict:
    return {"at": "6s", "direction": "forward", "rate": rate}


def checked(r):
    """The model decides the pacing rate, to the byte, once the path was full."""
    state, acks = r.state(0), r.acks
    full = state["full_bw_reached"] == 1
    rate = (state["bw"].astype("u8") * MSS >> 8) * state["pacing_gain"] * 99 // 10_000
    assert (acks["pacing"][full] == rate[full]).mean() > 0.999
    assert (acks["cwnd"][full] <= np.maximum(state["w"][full], acks["cwnd"][:-1].max())).all()
    return r


def entries(r, which):
    """When a state begins."""
    state = r.state(0)
    begins = np.flatnonzero((state["state"][1:] == which) & (state["state"][:-1] != which)) + 1
    return state["t"][begins]


def goodput(r, start, end):
    g = r.goodput[(r.goodput["t"] >= start) & (r.goodput["t"] < end)]
    return g["bytes"].sum() * 8 / (end - start)


def expiries(r):
    """5 s after the least RTT, or the end of a drain, the next one is due (5.3.4.2)."""
    state, acks, times = r.state(0)["state"], r.acks, []
    least, since, before = np.inf, 0.0, state[0]
    for t, rtt, now in zip(acks["t"], acks["rtt_us"], state):
        expired = t - since > 5
        if expired and before != PROBE_RTT:
            times.append(t)
        if 0 < rtt < least or expired:
            least, since = rtt, t
        if before == PROBE_RTT != now:
            since = t
        before = now
    return np.array(times)


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_fills_the_path_and_leaves_its_queue_empty(tmp_path, kernel):
    """A.1, A.3, A.8, A.10"""
    r = checked(run(alone(tmp_path, duration=26), kernel))  # a smaller RTT may put the first drain off to 9 s
    state, acks = r.state(0), r.acks
    assert goodput(r, 2, 20) > 0.95 * 20e6 * MSS / 1500
    assert entries(r, DRAIN)[0] < 0.7
    cruise = state["state"] == CRUISE
    assert abs(state["max_bw"][cruise] / 256 - 20e6 / 8 / 1500).max() < 0.02 * 20e6 / 8 / 1500
    assert np.median(acks["rtt_us"][cruise & (acks["rtt_us"] > 0)]) < 41_000
    drains = entries(r, PROBE_RTT)
    assert len(drains) >= 3 and drains == pytest.approx(expiries(r), abs=0.01)
    assert (acks["in_flight"][state["state"] == PROBE_RTT].min()) <= 67 // 2 + 1
    c = counters(r, "bbr3")
    assert c["flows"] == 1 and c["startups"] == 1 and c["timeouts"] == 0 and c["probes"] >= 4
    order = state["state"][np.flatnonzero(np.diff(state["state"].astype(int)) != 0) + 1]
    after = {(int(a), int(b)) for a, b in zip(order, order[1:])}
    assert after <= {
        (DRAIN, DOWN), (DRAIN, CRUISE), (DOWN, CRUISE), (DOWN, REFILL),
        (CRUISE, REFILL), (REFILL, UP), (UP, DOWN), (UP, CRUISE),
        *((s, PROBE_RTT) for s in (DOWN, CRUISE, REFILL, UP)), (PROBE_RTT, CRUISE),
    }  # fmt: skip


def test_ten_times_the_rate_is_found(tmp_path):
    """A.15: in a few probes, since a probe that finds more goes on."""
    r = run(alone(tmp_path, {"queue": 667}, 16, changes=[at_6s("200mbit")]))
    assert goodput(r, 3, 6) > 0.9 * 20e6 * MSS / 1500
    assert goodput(r, 12, 16) > 0.85 * 200e6 * MSS / 1500


def test_a_tenth_of_the_rate_is_found(tmp_path):
    """A.16: within two cycles."""
    r = run(alone(tmp_path, {"queue": 67}, 24, changes=[at_6s("2mbit")]))
    state = r.state(0)
    late = state[state["t"] > 18]
    assert abs(late["bw"] / 256 - 2e6 / 8 / 1500).max() < 0.2 * 2e6 / 8 / 1500
    assert goodput(r, 16, 24) > 0.85 * 2e6 * MSS / 1500


def test_one_percent_of_random_loss_leaves_the_rate(tmp_path):
    """2.8: no probe ends for it. Between probes each round leaves what it delivered, as 5.3.3.8 says."""
    r = checked(run(alone(tmp_path, {"loss": "1%"})))
    assert goodput(r, 2, 20) > 0.75 * 20e6 * MSS / 1500
    c = counters(r, "bbr3")
    assert c["losses"] >= 10 and (r.acks["ca_state"] < 4).all()
