# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The senders on real kernels: each alone on its path, in pairs, and under what goes wrong on paths.

One machine tests all of them side by side: a chain of as many hops, each controller's flows on a hop of their own.
"""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest

from tests.scenarios import write
from tests.shared import LAB_KERNELS, counters, run

pytestmark = pytest.mark.lab

SENDERS = ("fusion", "taichung", "pseudorate")


def chain(tmp_path, flows=1, forward=None, reverse=None, flow=None, duration=6, measure_from=1, loader="asymcc"):
    """A scenario: `flows` equal flows of each sender on its own 10 Mbit/s hop, base RTT 40 ms, BDP 50 packets."""
    way = {"rate": "10mbit", "delay": "20ms", "queue": 50}
    hop = {"forward": way | (forward or {}), "reverse": way | (reverse or {})}
    entries = [
        {"controller": sender, "enter": k, "leave": k + 1, **(flow or {})}
        for k, sender in enumerate(SENDERS, 1)
        for _ in range(flows)
    ]
    return write(
        tmp_path,
        ack=None,
        profile=None,
        hops=[hop] * len(SENDERS),
        flow=entries[0],
        flows=entries[1:],
        controllers={sender: {"loader": loader} for sender in SENDERS},
        run={"duration": f"{duration}s", "measure_from": f"{measure_from}s", "trace_state": True},
    )


def checked(r):
    """This must hold for each run of this file, whatever happens on the path."""
    for hop in r.metrics["hops"]:
        assert hop["forward"]["utilisation"] <= 1.005 and hop["reverse"]["utilisation"] <= 1.005
    for f in r.metrics["flows"]:
        acks = r.acks[r.acks["flow"] == f["flow"]]
        assert (acks["cwnd"] >= 1).all() and acks["cwnd"].max() < 10_000
        assert not f["rtt_s"] or f["rtt_s"]["min"] >= 0.040
        state = r.state(f["flow"])
        assert len(state) == len(acks)
        quiet = (acks["ca_state"][1:] == 0) & (acks["ca_state"][:-1] == 0)  # elsewhere the stack sets cwnd
        assert (state["cwnd"][1:] == acks["cwnd"][1:])[quiet].mean() > 0.9
    return r


def rate(r, flow, start, end):
    """Goodput over [start, end), bit/s."""
    g = r.goodput[(r.goodput["flow"] == flow) & (r.goodput["t"] >= start - 1e-9) & (r.goodput["t"] < end - 1e-9)]
    return g["bytes"].sum() * 8 / (end - start)


def seconds(r, flow):
    return [rate(r, flow, t, t + 1) for t in range(1, int(r.job.duration_s))]


@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_each_fills_its_path_and_does_so_again_after_an_idle_pause(tmp_path, kernel):
    """Idle for 2 s, longer than the RTO: the stack restarts from a small window. Registered by bpftool alone."""
    r = checked(run(chain(tmp_path, flow={"stop": "3s", "resume": "5s"}, duration=9, loader="bpftool"), kernel))
    assert r.record["agent"]["kernel"].startswith(kernel.removesuffix("-uml") + ".")
    for k, sender in enumerate(SENDERS):
        assert rate(r, k, 1.5, 3) >= 0.9 * 9.48e6, sender  # 10 Mbit/s less 52 bytes of header in 1000
        assert rate(r, k, 3.5, 5) == 0
        assert rate(r, k, 7, 9) >= 0.9 * 9.48e6, sender
        state = r.state(k)
        after = state[state["t"] > 5]
        assert after["rtt_min"].max() == state["rtt_min"][state["t"] < 3][-1]  # kept over the pause
        c = counters(r, sender)
        assert c["flows"] >= 1 and c["reloads"] >= 1 and c["timeouts"] == 0


def test_pairs_share(tmp_path):
    r = checked(run(chain(tmp_path, flows=2, duration=16, measure_from=6)))
    for k, sender in enumerate(SENDERS):
        a, b = (r.metrics["flows"][2 * k + i]["goodput_bps"] for i in range(2))
        assert a + b >= 0.9 * 9.48e6, sender
        assert (a + b) ** 2 / (2 * (a * a + b * b)) >= 0.9, sender


def test_one_percent_loss(tmp_path):
    """No stall; Fusion and Taichung, who cut by what was queued, use the path far better than Reno's sqrt(3/2p)
    packets an RTT, in the median of three seeds."""
    results = [checked(run(chain(tmp_path, forward={"loss": "1%"}, duration=9), seed=seed)) for seed in (1, 2, 3)]
    reno = (1.5 / 0.01) ** 0.5 / 50 * 9.48e6
    for r in results:
        for k, sender in enumerate(SENDERS):
            assert min(seconds(r, k)) > 0.3 * reno, sender
            assert counters(r, sender)["losses"] >= 10
    fusion, taichung, pseudorate = (median(rate(r, k, 1, 9) for r in results) for k in range(3))
    assert fusion >= 2 * reno and taichung >= 2 * reno and pseudorate >= reno


def by_backoff(silence_s: float) -> bool:
    """Is a silence the time of some timeouts in a row, each twice the one before? The first is 0.2 to 0.35 s."""
    return any(0.2 * (2**n - 1) <= silence_s <= 0.35 * (2**n - 1) for n in range(1, 7))


def test_what_a_backoff_explains():
    assert all(map(by_backoff, (0.25, 0.8, 1.8, 3.8, 7.8))) and not any(map(by_backoff, (0.5, 1.2, 2.7, 5.7, 40)))


def test_timeouts(tmp_path):
    """Retransmissions are lost too: recovery by timeout, and on from one packet. Half a minute, so that chance does
    not decide on the count."""
    r = checked(run(chain(tmp_path, forward={"loss": "25%"}, duration=30)))
    for k, sender in enumerate(SENDERS):
        assert r.record["agent"]["marks"]["end"]["tcp"][f"src{k}"]["TcpExtTCPTimeouts"] >= 2, sender
        assert (r.acks[r.acks["flow"] == k]["cwnd"] == 1).any()
        # Silent for the stack's own timeouts and no longer. How many come in a row is chance.
        acked = r.acks[r.acks["flow"] == k]["t"]
        silences = np.diff(acked)
        assert all(map(by_backoff, silences[silences > 0.5])), sender
        # In the rest it sends. The last silence has no end here.
        waited = silences[silences > 0.5].sum() + max(30 - acked[-1], 0)
        assert rate(r, k, 0, 30) * 30 > 30e3 * (30 - waited), sender


def test_reverse_path_slower_than_its_acks(tmp_path):
    """100 kbit/s carry 240 ACKs of 52 bytes a second, 10 Mbit/s would give 1250: ACKs queue, are dropped, and data
    goes on."""
    r = checked(run(chain(tmp_path, reverse={"rate": "0.1mbit"}, duration=12, measure_from=4)))
    for k, sender in enumerate(SENDERS):
        assert r.metrics["hops"][k]["reverse"]["utilisation"] >= 0.9, sender
        assert min(seconds(r, k)[3:]) > 1e6, sender  # as many packets a second as ACKs come back, at least
        assert counters(r, sender)["timeouts"] == 0, sender
