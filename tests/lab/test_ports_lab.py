# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ports of Linux's laws beside the kernel's own modules: the same windows at each ACK.

One machine runs the four modules, another the four ports, on the same paths, each flow alone on a hop of its own. A BPF
program takes a few instructions more than a module, in the lab as many ns: the times of ACKs differ by microseconds,
and what they carry does not, if no microsecond decides what a queue drops. So no loss is random, which each machine
would draw anew, flows start one by one, and round trips are no whole number of packet times, so that packets come to a
queue half a packet's time after one has left. On the narrow hops the first burst, four times what path and queue hold,
still does not lose the same packets in both.
"""

import numpy as np
import pytest

from tests.scenarios import PLAIN, write
from tests.shared import counters, run

pytestmark = pytest.mark.lab

LAWS = ("vegas", "westwood", "highspeed", "bic")
WIDE = ("5mbit", "20400us", 40)  # rate, one-way delay, queue: a round trip of 25.5 packets
DEEP = ("5mbit", "9200us", 100)  # of 11.5, in a queue that lets Vegas end slow start before a loss does
NARROW = ("1mbit", "5200us", 2)  # of 1.3: too few for duplicate ACKs, so that timeouts come
FLOWS = [*zip(LAWS, (DEEP, WIDE, WIDE, WIDE)), *((law, NARROW) for law in LAWS)]


def scenario(folder, prefix, seconds=6):
    """Without RACK and tail-loss probes, which spare timeouts."""
    first, *others = [
        {"controller": prefix + law, "enter": k + 1, "leave": k + 2, "start": f"{150 * k}ms"}
        for k, (law, _) in enumerate(FLOWS)
    ]
    ways = [{"rate": rate, "delay": delay, "queue": queue} for _, (rate, delay, queue) in FLOWS]
    times = {"duration": f"{seconds}s", "measure_from": f"{max(1, seconds // 3)}s", "start_jitter": "0ms"}
    return write(
        folder,
        PLAIN,
        ack="every",
        hops=[{"forward": way, "reverse": way | {"queue": 50}} for way in ways],
        flow=first,
        flows=others,
        run=times,
        name=f"{prefix}laws.toml",
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ports")
    return [run(scenario(folder, prefix)) for prefix in ("", "bpf_")]


def by_law(r):
    return {law: counters(r, f"bpf_{law}") for law in LAWS}


@pytest.mark.parametrize("k", range(8), ids=[f"{law}-{'narrow' if path is NARROW else 'wide'}" for law, path in FLOWS])
def test_same_windows_at_each_ack(both, k):
    module, port = (r.acks[r.acks["flow"] == k] for r in both)
    n = min(len(module), len(port))
    assert max(len(module), len(port)) - n <= 3  # the last may come after the end
    assert n > (2500 if k < 4 else 500)
    same = {
        what: module[what][:n] == port[what][:n]
        for what in ("acked", "delivered", "lost", "ca_state", "in_flight", "cwnd", "ssthresh")
    }
    path = same["acked"] & same["delivered"] & same["lost"] & same["ca_state"]  # what the law goes by
    assert path.all() if k < 4 else path.mean() > 0.98, np.flatnonzero(~path)
    law = same["cwnd"] & same["ssthresh"] & same["in_flight"]
    assert law[path].all(), np.flatnonzero(path & ~law)


def test_what_the_runs_came_to(both):
    """So that equal means something: losses, timeouts, the laws' branches, windows beyond HighSpeed's first row and
    BIC's Reno."""
    c = by_law(both[1])
    assert c["bic"]["losses"] >= 20 and c["highspeed"]["losses"] >= 20 and c["westwood"]["recoveries"] >= 20
    assert c["westwood"]["samples"] >= 100 and c["westwood"]["duplicates"] >= 100
    assert c["vegas"]["rounds"] >= 200 and c["vegas"]["cuts"] >= 10 and c["vegas"]["slow_start_exits"] >= 1
    assert c["bic"]["resets"] >= 1 and c["vegas"]["restarts"] >= 3
    port = both[1].acks
    for k in range(8):
        acks = port[port["flow"] == k]
        if k != 0:  # Vegas in its deep queue loses nothing
            assert (acks["ca_state"] == 3).sum() >= 20 and (acks["ca_state"] == 1).any()
        if k in (1, 2, 3):
            assert (acks["cwnd"][(acks["ca_state"] == 0) & (acks["cwnd"] > acks["ssthresh"])] > 38).any()
        if k >= 4:
            assert (acks["ca_state"] == 4).any()


def test_on_the_oldest_kernel(tmp_path):
    r = run(scenario(tmp_path, "bpf_", 2), "6.1")
    assert r.record["agent"]["kernel"].startswith("6.1.")
    assert all(c["flows"] == 2 for c in by_law(r).values())
    assert all(len(r.acks[r.acks["flow"] == k]) > 50 for k in range(7))
