# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ports of Linux's laws, compiled for the host with sanitizers: numbers by hand. Beside their models they run in
test_models_host.py; that these are also the modules' laws, tests/lab/test_ports_lab.py shows.
"""

from math import floor

import pytest

from tests.algorithms.host.streams import MS, many_rtts, one_rtt, recover
from tests.algorithms.models.ports import HZ, TABLE, a, b, rfc3649


def full(port, cwnd, **keys):
    """A connection with this window, all of it in flight."""
    port.start(app=0, tx_start=0, data_segs_out=1, now=10**9)
    port.poke(snd_cwnd=cwnd)
    port.send(app=2**32 - 1)
    port.poke(**keys)


def test_vegas_rests_between_alpha_and_beta(of):
    """A queue of all that exceeds 50 packets: 2 to 4 of them stay."""
    port = of("bpf_vegas")
    port.start(now=0)
    now, window = 0, 10
    for _ in range(60):
        rtt = max(40 * MS, window * 800)
        window = one_rtt(port, now, rtt)[-1]
        now += rtt
    assert 52 <= window <= 54


@pytest.mark.parametrize("at_once, found", [(0, 50), (1, 100)])
def test_westwood_learns_the_rate_of_a_path(of, at_once, found):
    """A hundred packets in 100 ms: 960 bytes a ms. Its window is set where a loss is found, or at the end."""
    port = of("bpf_westwood")
    port.start({"at_once": at_once}, now=0, snd_cwnd=100)
    for i in range(1, 3000):
        port.ack(n=1, rtt=100 * MS, now=i * MS, snd_cwnd=100)
    assert port.state()["ca"]["estimate"] == pytest.approx(960 * 1000 / HZ, rel=0.02)
    port.loss()
    assert port.state()["tp"]["snd_ssthresh"] == pytest.approx(found, abs=4)
    recover(port, rtt=100 * MS)
    assert 96 <= port.state()["tp"]["snd_ssthresh"] <= 102


def test_rfc3649_table_as_printed():
    rows = rfc3649()
    assert len(rows) == 73 and rows[:5] == [38, 118, 221, 347, 495]
    assert [(w, round(b(w), 2)) for w in rows[-4:]] == [(79517, 0.10), (84035, 0.10), (89053, 0.10), (94717, 0.09)]
    assert all(floor(a(w)) == i for i, w in enumerate(rows[1:], 2))


def test_highspeed_each_row(of):
    """At the end of its windows and one beyond: growth per ACK, and what a loss leaves."""
    port = of("bpf_highspeed")
    for i, (w, _) in enumerate(TABLE):
        for cwnd, row in ((w, i), (w + 1, min(i + 1, len(TABLE) - 1))):
            full(port, cwnd, snd_ssthresh=2)
            port.ack(n=2, rtt=1000, app=0)  # one ACK
            state = port.state()
            assert (state["tp"]["rcv_tsval"], state["tp"]["snd_cwnd"]) == (row + 1, cwnd)
            port.loss()
            assert port.state()["tp"]["snd_ssthresh"] == cwnd - (cwnd * TABLE[row][1] >> 8)


def test_bic_halves_the_way_to_wmax(of):
    """From 80 of 100 packets: slower and slower, then over it. Not yet, with delayed ACKs counted for."""
    port = of("bpf_bic")
    full(port, 80, snd_ssthresh=2, ca__wmax=100, ca__per_ack_q4=16, now=0)
    w = many_rtts(port, 14, rtt=40 * MS)
    steps = [b - a for a, b in zip(w, w[1:])]
    assert w[0] >= 84 and w[3] < 100 and sorted(steps[:4], reverse=True) == steps[:4] and w[-1] < 104
