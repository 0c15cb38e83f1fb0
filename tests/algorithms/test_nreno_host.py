# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""NewReno of ns-2, its own source compiled for the host, against its law."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, at_rest, own, sending, tp, windows
from tests.algorithms.host.streams import W_MAX, many_rtts, packets, recover

# --- NewReno of ns-2 ----------------------------------------------------------------------


def test_nreno_begins_with_one_packet(nreno):
    assert nreno.start()["cwnd"] == 1
    assert nreno.start({"init_cwnd": 0})["cwnd"] == 10
    assert nreno.start({"init_cwnd": 3}, snd_cwnd_clamp=2)["cwnd"] == 2


@pytest.mark.parametrize(
    "stretch, trace", [(1, [20, 40, 80]), (2, [15, 23, 35]), (4, [13, 17, 22]), (10, [11, 13, 15])]
)
def test_nreno_slow_start_counts_acks(nreno, stretch, trace):
    nreno.start({"init_cwnd": 10}, now=0)
    assert many_rtts(nreno, 3, stretch=stretch) == trace


@given(w=windows, n=packets, ssthresh=st.integers(2, W_MAX))
@example(w=W_MAX * ONE, n=W_MAX, ssthresh=2)
@example(w=64 * ONE + ONE - 1, n=3, ssthresh=64)
@example(w=64 * ONE - 1, n=3, ssthresh=64)
def test_nreno_law_is_exact(nreno, w, n, ssthresh):
    at_rest(nreno, w, flight=n, ssthresh=ssthresh, ca__w_q20=w)
    nreno.poke(max_packets_out=w >> 20)
    nreno.ack(n=n)
    new = w + (ONE if w >> 20 < ssthresh else (1 << 40) // w)
    assert own(nreno)["w_q20"] == min(new, W_MAX * ONE)


@pytest.mark.parametrize("stretch, gained", [(1, 1), (2, 0.5), (4, 0.25), (50, 0.02)])
def test_nreno_gains_less_where_acks_are_few(nreno, stretch, gained):
    """A round trip of 100 packets."""
    at_rest(nreno, 100 * ONE, flight=100, ca__w_q20=100 * ONE)
    nreno.batch([line("ack", n=stretch) for _ in range(100 // stretch)])
    assert own(nreno)["w_q20"] / ONE - 100 == pytest.approx(gained, rel=0.01)


@pytest.mark.parametrize("w, half", [(100, 50), (101, 50), (5, 2), (3, 2), (2, 2)])
def test_nreno_halves(nreno, w, half):
    sending(nreno, w * ONE, ca__w_q20=w * ONE)
    nreno.loss()
    assert tp(nreno)["snd_ssthresh"] == half
    recover(nreno)
    assert tp(nreno)["snd_cwnd"] == half


def test_nreno_after_a_timeout(nreno):
    sending(nreno, 16 * ONE, ca__w_q20=16 * ONE)
    nreno.rto()
    trace = [nreno.ack(rtt=-1)["cwnd"] for _ in range(15)]
    assert trace[:7] == [2, 3, 4, 5, 6, 7, 8]  # ssthresh
    assert trace[7:15] == [8] * 8
    assert own(nreno)["w_q20"] / ONE == pytest.approx(9, abs=0.06)  # eight ACKs of 1/8 to 1/9
