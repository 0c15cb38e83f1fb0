# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FAST's own source, compiled for the host with sanitizers: laws (1) and (2) by hand, and Theorem 1."""

from fractions import Fraction

import pytest

from tests.algorithms.conftest import running
from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.streams import MS, many_rtts

Q8 = 256
ALPHA = 1000


@pytest.fixture(scope="session")
def pair(fast):
    for other in running("fast"):
        yield fast, other


def at_rest(fast, w, params=None, base=40 * MS, average=40 * MS, w_old=None, flight=1, **keys):
    """A connection with this window, packets, at the end of a round: the next ACK updates it. RTTs in us."""
    fast.start({"alpha": ALPHA} | (params or {}), app=0, tx_start=0, **keys)
    fast.poke(
        snd_cwnd=w, ca__cwnd=w, ca__w_q8=w * Q8, ca__step_from_q8=w * Q8, ca__step_to_q8=w * Q8,
        ca__w_round_q8=(w_old or w) * Q8, ca__rtt_min=base, ca__rtt_avg_q16=average << 16, ca__cwnd_limited=1,
        ca__round_end=1, packets_out=flight, snd_nxt=1 + flight * 960, snd_ssthresh=2,
    )  # fmt: skip


def target(fast):
    """The window that one update leads to, packets."""
    fast.ack()
    state = fast.state()
    assert state["counters"]["updates"] == 1
    return state["ca"]["step_to_q8"] / Q8


# Law (1)


def test_the_product_takes_the_window_of_one_rtt_ago(fast):
    at_rest(fast, 200, {"alpha": 10}, average=80 * MS, w_old=100)
    assert target(fast) == 100 + (50 + 10) / 2


def test_a_wait_that_would_more_than_double_the_window_is_followed_later(fast):
    """(1) asks for 105 packets. 360 ms of wait would make ten times as many of them, and 200 stand for 36 ms."""
    at_rest(fast, 100, {"alpha": 10}, average=400 * MS, ca__wait_avg_q16=0)
    fast.poke(ca__wait_avg_q16=360 * MS << 16)
    assert target(fast) == pytest.approx(200, abs=0.01)
    assert fast.state()["ca"]["wait_then"] == pytest.approx(200 / 105 * 40 * MS - 40 * MS, rel=0.001)


def test_a_start_grows_by_a_quarter_in_the_datas_own_round_trip(fast):
    """Half of the RTT is a wait, so it has two of them."""
    at_rest(fast, 100, {"alpha": 0}, average=80 * MS)
    fast.poke(ca__wait_avg_q16=40 * MS << 16, ca__wait_then=40 * MS, ca__rtt_round=40 * MS)
    assert target(fast) == 150


@pytest.mark.parametrize("stretch", [1, 2, 1024])
def test_start_at_2_doubles_each_rtt(fast, stretch):
    """Whatever an ACK covers; then the other branch of min{2w, .} is the smaller."""
    fast.start({"alpha": ALPHA}, now=0)
    windows = many_rtts(fast, 7, stretch=stretch)
    assert windows == [windows[0] << i for i in range(7)]


@pytest.mark.parametrize(
    "mbit, base, alpha",
    [
        *((1, 40 * MS, 4), (4, 40 * MS, 8), (25, 40 * MS, 20), (100, 40 * MS, 40), (160_000, 40 * MS, 1600)),
        *((10_000, 10 * MS, 400), (10_000, MS, 126.49), (10_000, 100, 40), (160, 100, 4)),
    ],
)
def test_alpha_by_rate(fast, mbit, base, alpha):
    w = round(mbit * base / 8 / 1000)  # packets of 1000 bytes
    at_rest(fast, w, {"alpha": 0}, base=base, average=base, mss_cache=1000)
    assert target(fast) == pytest.approx(w + alpha / 2, abs=0.01)


@pytest.mark.parametrize("queue_us, doubles", [(749, True), (750, False)])
def test_mi_mode(fast, queue_us, doubles):
    at_rest(fast, 100, {"alpha": 10, "mi_thresh_us": 750}, average=40 * MS + queue_us)
    assert (target(fast) == 200) == doubles


def test_pacing_leaves_the_rate_to_the_stack(fast):
    for pacing, rate in ((0, 0), (1, 2**64 - 1)):
        fast.start({"pacing": pacing})
        assert fast.state()["tp"]["pacing_rate"] == rate


# Law (2)


@pytest.mark.parametrize("w, n, most, eta", [
    (2, 1, 1 / 4, Fraction(1, 4)), (24, 1, 1 / 4, Fraction(1, 8)), (1024, 1, 1 / 4, Fraction(3, 1024)),
    (1024, 16, 1 / 4, Fraction(48, 1024)), (24, 1, 1 / 256, Fraction(1, 256)), (1536, 1, 1 / 256, Fraction(1, 512)),
])  # fmt: skip
def test_weight_of_a_sample(fast, w, n, most, eta):
    at_rest(fast, w, {"eta_max_q16": int(most * 65536)}, 1, 65536, flight=n)
    fast.ack(n=n, rtt=2 * 65536)
    assert Fraction(fast.state()["ca"]["rtt_avg_q16"] - (65536 << 16), 65536 << 16) == eta


# Loss


@pytest.mark.parametrize("alpha, after", [(10, 50), (26, 50.5), (1000, 100)])
def test_one_loss_cuts_once(fast, alpha, after):
    """The average of before the loss is twice the base: law (1) would take another quarter, but for alpha."""
    at_rest(fast, 100, {"alpha": alpha}, average=80 * MS, flight=100)
    fast.loss()
    fast.ack(n=100, rtt=80 * MS)
    state = fast.state()
    assert state["ca"]["w_q8"] == 50 * Q8 and state["counters"]["updates"] == 1
    assert state["ca"]["step_to_q8"] == after * Q8


# Equilibrium: c_f = 100 Mbit/s, packets of 1000 bytes, ACKs of 40, 20 ms either way


PACKET_S = 80e-6
DELAY_S = 0.04


def settle(flows, params, k_f, seconds):
    """Windows, packets/s and RTTs of each flow over the last quarter."""
    link = Link(PACKET_S, PACKET_S * k_f, DELAY_S)
    out = []
    for trace in run(link, flows, [{"alpha": ALPHA} | own for own in params], seconds):
        end = [(w, rtt) for at, w, rtt in trace if seconds * 3 / 4 <= at < seconds]
        out.append(([w for w, _ in end], len(end) / seconds * 4, [rtt for _, rtt in end]))
    return out


@pytest.mark.parametrize("k_f, window, seconds", [(0.04, 1500, 8), (1, 1502, 8), (4, 1126, 40), (40, 1013, 300)])
def test_theorem_1(fast, k_f, window, seconds):
    [(w, rate, rtt)] = settle([fast], [{}], k_f, seconds)
    assert window - 1 <= min(w) <= max(w) <= window + 1
    assert rate == pytest.approx(12500 / max(k_f, 1), rel=0.01)
    base = DELAY_S + PACKET_S * (1 + k_f)
    assert sum(rtt) / len(rtt) - base == pytest.approx(ALPHA * PACKET_S * max(k_f, 1), rel=0.01)


@pytest.mark.parametrize(
    "params", [{"gamma_q8": 32}, {"gamma_q8": 256}, {"eta_max_q16": 256}, {"update_rtts": 2}, {"update_us": 10 * MS}]
)
def test_equilibrium_knows_neither_gamma_nor_eta_nor_interval(fast, params):
    [(w, rate, _)] = settle([fast], [params], 4, 40)
    assert 1124 <= min(w) <= max(w) <= 1128
    assert rate == pytest.approx(3125, rel=0.01)


def test_a_long_path_is_filled_from_the_start(fast):
    """By its rate a flow has a small alpha, but doubles its window each round trip until so many packets are queued."""
    delay, bdp = 0.6, 1500
    [trace] = run(Link(delay / bdp, delay / bdp / 100, delay), [fast], [{"alpha": 0}], 40)
    alpha = 17.5  # 2500 packets of 960 bytes a second: 19.2 Mbit/s
    assert next(at for at, w, _ in trace if w >= bdp) < 11 * delay  # by alpha alone 9 packets a round trip at most: 170
    assert max(w for _, w, _ in trace) < 3 * bdp  # its queue shows a round trip late; CSS would make 12,512
    assert abs(trace[-1][1] - (bdp + alpha)) <= 15 and fast.state()["ca"]["started"]


def test_flows_whose_alpha_follows_the_rate_share_alike(pair):
    """Whatever their RTT. Steps would not: of 16 Mbit/s one flow is above 10, the other below."""
    packet_s, extra = 480e-6, [0, 0.04]
    traces = run(Link(packet_s, 5e-6, 0.04), pair, [{"alpha": 0}] * 2, 60, extra=extra)
    first, second = (sum(45 <= at < 60 for at, _, _ in trace) for trace in traces)
    # Each may have a packet of the other in its baseRTT, and takes so much less of the queue for one.
    bases = [(flow.state()["ca"]["rtt_min"] * 1e-6, 0.04 + more) for flow, more in zip(pair, extra)]
    assert all(base - least < 2.1 * packet_s for base, least in bases)
    later = [[rtt for at, _, rtt in trace if at >= 45] for trace in traces]
    q = [sum(rtts) / len(rtts) - base for rtts, (base, _) in zip(later, bases)]
    assert first / second == pytest.approx((q[1] / q[0]) ** 2, rel=0.05)


def test_flows_share_by_alpha(pair):
    (_, big, _), (_, small, _) = settle(pair, [{"alpha": 1000}, {"alpha": 500}], 1, 16)
    assert big / small == pytest.approx(2, rel=0.05)
    assert big + small == pytest.approx(12500, rel=0.01)
