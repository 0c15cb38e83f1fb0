# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compound TCP, its own source compiled for the host, against its law and numbers by hand."""

import pytest

from tests.algorithms.host.rivals import ONE, at_rest, count, own, repaired, sending, tp
from tests.algorithms.host.streams import MS, W_MAX, many_rtts, reno_share


def round_ends(ctcp, cwnd, dwnd, srtt=40 * MS, base=40 * MS, params=None, ssthresh=2, n=1, **keys):
    """One ACK that ends a round: both windows after it."""
    at_rest(ctcp, cwnd + dwnd, params, flight=n, ssthresh=ssthresh, ca__cwnd_q20=cwnd, ca__dwnd_q20=dwnd,
            ca__rtt_min=base, ca__round_end=0, srtt_us=srtt << 3, **keys)  # fmt: skip
    ctcp.ack(n=n)
    ca = own(ctcp)
    return ca["cwnd_q20"], ca["dwnd_q20"]


@pytest.mark.parametrize("w, gained", [
    (39, 0.95075), (100, 2.95285), (256, 7), (1000, 21.22849), (4096, 63), (10_000, 124), (65_536, 511),
    (W_MAX // 2, 2434.5),
])  # fmt: skip
def test_ctcp_grows_by_an_eighth_of_the_window_to_three_quarters(ctcp, w, gained):
    """win^0.75 / 8 - 1: 256^0.75 = 64, 4096^0.75 = 512, 10000^0.75 = 1000, 65536^0.75 = 4096."""
    _, dwnd = round_ends(ctcp, w * ONE, 0)
    assert dwnd / ONE == pytest.approx(gained, abs=5e-5, rel=1e-4)
    assert count(ctcp, "increases") == 1


@pytest.mark.parametrize("w, grows", [(38, False), (39, True)])
def test_ctcp_is_reno_up_to_low_window(ctcp, w, grows):
    cwnd, dwnd = round_ends(ctcp, w * ONE, 0)
    assert (dwnd > 0) == grows
    assert cwnd == w * ONE + reno_share(w * ONE + dwnd, 1)


@pytest.mark.parametrize(
    "srtt, moved", [(40_000, 2.95285), (57_142, 2.95285), (57_143, -30), (80_000, -50), (160_000, -60)]
)
def test_ctcp_retreats_from_gamma_on(ctcp, srtt, moved):
    """100 packets, RTTmin 40 ms: 30 of them are in the queue at 57.143 ms, 50 at 80, 75 at 160; dwnd has 60."""
    _, dwnd = round_ends(ctcp, 40 * ONE, 60 * ONE, srtt=srtt)
    assert dwnd / ONE - 60 == pytest.approx(moved, abs=1e-3)
    assert (count(ctcp, "increases"), count(ctcp, "retreats")) == (moved > 0, moved < 0)


def test_ctcp_over_round_trips(ctcp):
    """100 packets, no queue: 1 of (2) in each, and 3, 3, 3.1, ... of (3) with the first ACK of each but the first."""
    sending(ctcp, 100 * ONE, ca__cwnd_q20=100 * ONE, ca__rtt_min=40 * MS, srtt_us=40 * MS << 3)
    cwnd, dwnd, expected = 100 * ONE, 0.0, []
    for i in range(8):
        acks = int(cwnd + dwnd) // ONE
        dwnd += (acks**0.75 / 8 - 1) * ONE if i else 0
        for _ in range(acks):
            cwnd += reno_share(cwnd + int(dwnd), 1)
        expected.append(int(cwnd + dwnd) // ONE)
    assert many_rtts(ctcp, 8) == expected
    ca = own(ctcp)
    assert (ca["cwnd_q20"] / ONE, ca["dwnd_q20"] / ONE) == pytest.approx((cwnd / ONE, dwnd / ONE), abs=0.01)


@pytest.mark.parametrize("cwnd, dwnd", [(60, 40), (100, 0), (20, 80), (30, 30), (10, 13)])
def test_ctcp_halves_both(ctcp, cwnd, dwnd):
    """Below 38 packets too: 60 becomes 30, not 15."""
    sending(ctcp, (cwnd + dwnd) * ONE, ca__cwnd_q20=cwnd * ONE, ca__dwnd_q20=dwnd * ONE, ca__rtt_min=40 * MS)
    ctcp.loss()
    assert tp(ctcp)["snd_ssthresh"] == (cwnd + dwnd) // 2
    repaired(ctcp)
    ca = own(ctcp)
    assert ca["dwnd_q20"] == dwnd * ONE // 2
    assert ca["cwnd_q20"] / ONE == pytest.approx((cwnd + dwnd) // 2 - dwnd / 2, abs=0.1)
    assert tp(ctcp)["snd_cwnd"] == (cwnd + dwnd) // 2
