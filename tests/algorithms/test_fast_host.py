# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FAST's own source, compiled for the host with sanitizers: laws (1) and (2) by hand, and Theorem 1."""

from fractions import Fraction

import pytest

from tests.algorithms.conftest import running
from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.streams import MS, many_rtts, one_rtt

Q8 = 256
ALPHA = 1000


@pytest.fixture(scope="session")
def pair(fast):
    for other in running("fast"):
        yield fast, other


def at_rest(fast, w_q8, params=None, base=40 * MS, avg_q16=None, w_old_q8=None, flight=1, **keys):
    """A connection with this window, at the end of a round: the next ACK updates it."""
    first = {"app": 0, "tx_start": 0} | {k: keys.pop(k) for k in list(keys) if k in ("mss_cache", "snd_cwnd_clamp")}
    fast.start({"alpha": ALPHA} | (params or {}), **first)
    state = {
        "snd_cwnd": w_q8 >> 8, "ca__cwnd": w_q8 >> 8,
        "ca__w_q8": w_q8, "ca__step_from_q8": w_q8, "ca__step_to_q8": w_q8,
        "ca__w_round_q8": w_q8 if w_old_q8 is None else w_old_q8,
        "ca__rtt_min": base, "ca__rtt_avg_q16": base << 16 if avg_q16 is None else avg_q16,
        "ca__cwnd_limited": 1, "ca__round_end": 1, "packets_out": flight, "snd_nxt": 1 + flight * 960,
    }  # fmt: skip
    fast.poke(**state | keys)


def sending(fast, w_q8, params=None, **keys):
    """A connection with this window, full flight, unlimited data."""
    at_rest(fast, w_q8, params, **keys)
    fast.poke(packets_out=0, snd_nxt=1)
    fast.send(app=2**32 - 1)
    fast.poke(ca__round_end=fast.state()["tp"]["snd_nxt"])


def target(fast, **keys):
    """The window that one update leads to."""
    before = fast.state()["counters"]["updates"]
    fast.ack(**keys)
    state = fast.state()
    assert state["counters"]["updates"] == before + 1
    return state["ca"]["step_to_q8"]


def law(w, w_old, base, avg_q16, alpha=ALPHA, gamma=128):
    rtt = max(avg_q16 >> 16, 1)
    goal = w_old * min(base, rtt) // rtt + alpha * Q8
    return min(2 * w, ((256 - gamma) * w + gamma * goal) // 256)


# Law (1)


def test_the_product_takes_the_window_of_one_rtt_ago(fast):
    at_rest(fast, 200 * Q8, {"alpha": 10}, 40 * MS, 80 * MS << 16, w_old_q8=100 * Q8)
    assert target(fast) == (100 + (50 + 10) // 2) * Q8


@pytest.mark.parametrize("tx_start", [0, 1])
def test_start_at_2_doubles_each_rtt(fast, tx_start):
    fast.start({"alpha": ALPHA}, now=0, snd_una=1, snd_nxt=1, tx_start=tx_start)
    got = many_rtts(fast, 8)  # then the other branch of min{2w, .} is the smaller
    first = got[0]
    assert first in (2, 3)  # 3 when the first ACK, not that of the first flight, ends a round
    assert got[:7] == [first << i for i in range(7)]
    assert got == pytest.approx([first << i for i in range(8)], rel=0.01)


def test_pacing_leaves_the_rate_to_the_stack(fast):
    assert [fast.start(params) and fast.state()["tp"]["pacing_rate"] for params in ({}, {"pacing": 1})] == [
        0,
        2**64 - 1,
    ]


@pytest.mark.parametrize("mbit, alpha", [(0.4, 4), (1, 4), (4, 8), (25, 20), (100, 40), (2500, 200), (160_000, 1600)])
def test_alpha_by_rate(fast, mbit, alpha):
    w = round(mbit * 40 * MS / 8 / 1000)  # packets of 1000 bytes
    at_rest(fast, w * Q8, {"alpha": 0}, mss_cache=1000)
    assert abs(target(fast) - law(w * Q8, w * Q8, 1, 1 << 16, alpha)) <= 1


@pytest.mark.parametrize("queue_us, doubles", [(0, True), (749, True), (750, False)])
def test_mi_mode(fast, queue_us, doubles):
    at_rest(fast, 100 * Q8, {"alpha": 10, "mi_thresh_us": 750}, avg_q16=40 * MS + queue_us << 16)
    assert target(fast) == (200 * Q8 if doubles else law(100 * Q8, 100 * Q8, 40 * MS, 40 * MS + queue_us << 16, 10))


# Law (2) and baseRTT


def weight(fast, w, n=1, **params):
    at_rest(fast, w * Q8, params, 1, 65536 << 16, flight=n)
    fast.ack(n=n, rtt=2 * 65536)
    return Fraction(fast.state()["ca"]["rtt_avg_q16"] - (65536 << 16), 65536 << 16)


def test_weight_of_a_sample(fast):
    assert [weight(fast, w) for w in (2, 12, 24, 1024)] == [
        Fraction(1, 4),
        Fraction(1, 4),
        Fraction(1, 8),
        Fraction(3, 1024),
    ]
    assert weight(fast, 16384) > 0
    assert weight(fast, 1024, n=16) == Fraction(48, 1024)
    assert weight(fast, 1024, n=1024) == Fraction(1, 4)
    assert weight(fast, 24, eta_max_q16=256) == weight(fast, 768, eta_max_q16=256) == Fraction(1, 256)
    assert weight(fast, 1536, eta_max_q16=256) == Fraction(1, 512)


def test_no_update_without_any_sample(fast):
    fast.start(now=0)
    assert many_rtts(fast, 5, sample=-1) == [2] * 5
    assert fast.state()["counters"]["updates"] == 0


# A step is spread over one RTT


def test_stretch_acks_grow_as_fast(fast):
    traces = []
    for stretch in (1, 2, 8):
        sending(fast, 64 * Q8, {"alpha": 20})
        traces.append(many_rtts(fast, 6, stretch=stretch))
    assert (
        max(abs(a - b) for t in traces for a, b in zip(t, traces[0])) <= 2
    )  # a round's first ACK is the larger the more it stands for


# The application, idle, and windows the stack set


def test_application_limited_round_may_lower(fast):
    at_rest(fast, 100 * Q8, {"alpha": 10}, 40 * MS, 160 * MS << 16)
    fast.poke(packets_out=0, snd_nxt=1, ca__cwnd_limited=0)
    fast.send(app=20)
    trace = many_rtts(fast, 20, start=10**6, sample=160 * MS)
    assert trace == sorted(trace, reverse=True) and 12 <= trace[-1] < 50


# Loss


@pytest.mark.parametrize("alpha, kept", [(10, True), (24, True), (26, False), (1000, False)])
def test_one_loss_cuts_once(fast, alpha, kept):
    """The average of before the loss is twice the base: law (1) would take another quarter, but for alpha."""
    sending(fast, 100 * Q8, {"alpha": alpha}, avg_q16=80 * MS << 16)
    fast.loss()
    fast.ack(n=100, rtt=80 * MS)
    state = fast.state()
    assert (state["tp"]["state"], state["ca"]["w_q8"], state["counters"]["updates"]) == (0, 50 * Q8, 1)
    stale = law(50 * Q8, 50 * Q8, 40 * MS, 80 * MS << 16, alpha)
    assert (stale < 50 * Q8) == kept
    assert state["ca"]["step_to_q8"] == max(stale, 50 * Q8)
    one_rtt(fast, 80 * MS, rtt=80 * MS)  # the queue stands still: the update of a whole round may lower
    one_rtt(fast, 160 * MS, rtt=80 * MS)
    assert (fast.state()["ca"]["w_q8"] < 50 * Q8) == kept


def test_timeout_with_one_packet_lost_doubles(fast):
    """One packet lost, the others had arrived."""
    sending(fast, 100 * Q8, {})
    fast.poke(sacked_out=99)
    fast.rto(now=10**6)
    fast.ack(n=100, now=10**6 + 40 * MS, rtt=-1)
    assert many_rtts(fast, 8, start=10**6 + 40 * MS) == [2**i for i in range(1, 9)]


@pytest.mark.parametrize("stretch", [2, 1024])
def test_start_doubles_when_one_ack_covers_the_flight(fast, stretch):
    """A delayed ACK while the window is 2; offloads of the receiver later."""
    fast.start({"alpha": ALPHA}, now=0)
    assert many_rtts(fast, 12, stretch=stretch)[-1] >= 256


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


@pytest.mark.parametrize(
    "k_f, window, seconds", [(0.04, 1500, 8), (0.4, 1501, 8), (1, 1502, 8), (4, 1126, 40), (40, 1013, 300)]
)
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
    """By its rate a flow has a small alpha, but grows by a quarter a round trip until so many packets are queued."""
    delay, bdp = 0.6, 1500
    [trace] = run(Link(delay / bdp, delay / bdp / 100, delay), [fast], [{"alpha": 0}], 40)
    alpha = 17.5  # 2500 packets of 960 bytes a second: 19.2 Mbit/s
    assert next(at for at, w, _ in trace if w >= bdp) < 35 * delay  # by alpha alone 9 packets a round trip at most: 170
    assert max(w for _, w, _ in trace) < 2 * bdp  # a queue of one BDP holds it
    assert abs(trace[-1][1] - (bdp + alpha)) <= 15 and fast.state()["ca"]["started"]


def test_flows_whose_alpha_follows_the_rate_share_alike(pair):
    """Whatever their RTT. Steps would not: of 16 Mbit/s one flow is above 10, the other below."""
    link = Link(480e-6, 5e-6, 0.04)
    traces = run(link, pair, [{"alpha": 0}] * 2, 60, extra=[0, 0.04])
    first, second = (sum(45 <= at < 60 for at, _, _ in trace) for trace in traces)
    assert first / second == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("k_f, seconds", [(1, 16), (4, 60)])
def test_flows_share_by_alpha(pair, k_f, seconds):
    (_, big, _), (_, small, _) = settle(pair, [{"alpha": 1000}, {"alpha": 500}], k_f, seconds)
    assert big / small == pytest.approx(2, rel=0.05)
    assert big + small == pytest.approx(12500 / k_f, rel=0.01)
