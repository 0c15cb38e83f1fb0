# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""NewReno of ns-2, its own source compiled for the host, against its law."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.rivals import ONE, at_rest, own, sending
from tests.algorithms.host.streams import many_rtts


@pytest.mark.parametrize(
    "stretch, trace", [(1, [20, 40, 80]), (2, [15, 23, 35]), (4, [13, 17, 22]), (10, [11, 13, 15])]
)
def test_nreno_slow_start_counts_acks(nreno, stretch, trace):
    nreno.start({"init_cwnd": 10}, now=0)
    assert many_rtts(nreno, 3, stretch=stretch) == trace


@pytest.mark.parametrize("stretch, gained", [(1, 1), (2, 0.5), (4, 0.25), (50, 0.02)])
def test_nreno_gains_less_where_acks_are_few(nreno, stretch, gained):
    """A round trip of 100 packets."""
    at_rest(nreno, 100 * ONE, flight=100, ca__w_q20=100 * ONE)
    nreno.batch([line("ack", n=stretch) for _ in range(100 // stretch)])
    assert own(nreno)["w_q20"] / ONE - 100 == pytest.approx(gained, rel=0.01)


def test_nreno_after_a_timeout(nreno):
    sending(nreno, 16 * ONE, ca__w_q20=16 * ONE)
    nreno.rto()
    trace = [nreno.ack(rtt=-1)["cwnd"] for _ in range(15)]
    assert trace[:7] == [2, 3, 4, 5, 6, 7, 8]  # ssthresh
    assert trace[7:15] == [8] * 8
    assert own(nreno)["w_q20"] / ONE == pytest.approx(9, abs=0.06)  # eight ACKs of 1/8 to 1/9
