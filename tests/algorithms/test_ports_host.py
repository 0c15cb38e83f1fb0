# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ports of Linux's laws, compiled for the host with sanitizers, each against its law written a second time here.

Every ACK of a random stream is foretold from the connection before it: windows and the port's own state, exactly. That
these are also the modules' laws, tests/lab/test_ports_lab.py shows.
"""

from math import floor, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.host.driver import HERE
from tests.algorithms.host.streams import MS, many_rtts, one_rtt, recover

LAWS = ("vegas", "westwood", "highspeed", "bic")
U32 = 2**32
ALL = U32 - 1
NO_RTT = 2**31 - 1
HZ = 250
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)

windows = st.integers(1, 1 << 20) | st.integers(1, 200)
rtts = st.integers(1, 1 << 26) | st.integers(20 * MS, 80 * MS)
acks = st.integers(1, 64) | st.integers(1, 4)


def full(port, cwnd, params=None, used=True, **keys):
    """A connection with this window, all of it in flight, or half if it is not used."""
    port.start(params, app=0, tx_start=0, data_segs_out=1, now=10**9)
    port.poke(snd_cwnd=cwnd)
    port.send(app=ALL if used else cwnd // 2)
    port.poke(**keys)


def ack(port, **keys):
    """One ACK that lets nothing go. The connection before and after, with what the kernel counts toward the next
    step."""
    port.poke(**{key: keys.pop(key) for key in [*keys] if key not in ("n", "rtt", "sack", "now")})
    before = port.state()
    port.ack(app=0, **keys)
    after = port.state()
    return {**before["tp"], **before["ca"]}, {**after["tp"], **after["ca"]}, before["cwnd_limited"]


class Reno:
    """Linux's Reno: windows and the count toward the next step."""

    def __init__(self, before, limited):
        self.cwnd, self.ssthresh, self.clamp = (before[f"snd_{key}"] for key in ("cwnd", "ssthresh", "cwnd_clamp"))
        self.count = before["rcv_tsval"]  # the model keeps it there
        self.may_grow = limited or (self.slow_start and self.cwnd < 2 * before["max_packets_out"])

    @property
    def slow_start(self):
        return self.cwnd < self.ssthresh

    def double(self, acked):
        """Slow start; what is left of the packets at its end."""
        to = min(self.cwnd + acked, self.ssthresh)
        left = acked - (to - self.cwnd)
        self.cwnd = min(to, self.clamp)
        return left

    def step(self, per_step, acked):
        if self.count >= per_step:
            self.count, self.cwnd = 0, self.cwnd + 1
        self.count += acked
        self.cwnd = min(self.cwnd + self.count // per_step, self.clamp)
        self.count %= per_step

    def grow(self, acked):
        if not self.may_grow:
            return
        if self.slow_start:
            acked = self.double(acked)
        if acked:
            self.step(self.cwnd, acked)

    def __eq__(self, after):
        return (self.cwnd, self.ssthresh, self.count) == (after["snd_cwnd"], after["snd_ssthresh"], after["rcv_tsval"])


# --- Vegas ---------------------------------------------------------------------------------


def vegas(before, limited, n, rtt, alpha=2, beta=4, gamma=1):
    """What an ACK makes of the windows, BaseRTT, the round's RTT and its samples."""
    reno = Reno(before, limited)
    base, least, samples = before["rtt_min"], before["round_rtt"], before["samples"]
    if rtt >= 0:
        base, least, samples = min(base, rtt + 1), min(least, rtt + 1), samples + 1
    una = before["snd_una"] + n * before["seg"]
    over = (una - before["round_end"]) % U32 in range(1, 2**31)
    if not before["on"]:
        reno.grow(n)
        return reno, base, least, samples
    if not over:
        if reno.slow_start:
            reno.double(n)
        return reno, base, least, samples
    if samples < 3:
        reno.grow(n)
        return reno, base, NO_RTT, 0
    diff = reno.cwnd * (least - base) % U32 // base
    if reno.slow_start:
        if diff > gamma:
            reno.cwnd = min(reno.cwnd, reno.cwnd * base // least + 1)
            reno.ssthresh = min(reno.ssthresh, reno.cwnd)
        else:
            reno.double(n)
    elif diff > beta:
        reno.cwnd -= 1
        reno.ssthresh = min(reno.ssthresh, reno.cwnd)
    elif diff < alpha:
        reno.cwnd += 1
    reno.cwnd = min(max(reno.cwnd, 2), reno.clamp)
    reno.ssthresh = max(reno.ssthresh, reno.cwnd // 2 + reno.cwnd // 4, 2)
    return reno, base, NO_RTT, 0


@given(
    cwnd=windows, ssthresh=windows | st.just(NO_RTT), n=acks, rtt=rtts,
    queued=st.integers(0, 1 << 24) | st.integers(0, 40 * MS) | st.none(),
    samples=st.integers(0, 5), over=st.booleans(), on=st.booleans(), used=st.booleans(),
    clamp=st.sampled_from((1, 2, 30, ALL)),
    params=st.fixed_dictionaries({name: st.integers(0, 9) for name in ("alpha", "beta", "gamma")}) | st.just({}),
)  # fmt: skip
def test_vegas(of, cwnd, ssthresh, n, rtt, queued, samples, over, on, used, clamp, params):
    port = of("bpf_vegas")
    full(port, cwnd, params, used, snd_cwnd_clamp=clamp)
    una = port.state()["tp"]["snd_una"]
    least = NO_RTT if queued is None else rtt + queued
    before, after, limited = ack(
        port,
        n=n,
        rtt=rtt + (queued or 0),
        snd_ssthresh=max(ssthresh, 2),
        ca__rtt_min=rtt,
        ca__on=on,
        ca__round_rtt=least,
        ca__samples=samples,
        ca__round_end=una if over else una + n * 960,
    )
    n = after["delivered"] - before["delivered"]
    if not n:  # nothing was in flight
        return
    reno, *own = vegas(before, limited, n, rtt + (queued or 0), **params)
    assert reno == after
    assert own == [after[key] for key in ("rtt_min", "round_rtt", "samples")]


@pytest.mark.parametrize("slow_start", [0, 1])
@pytest.mark.parametrize("params", [{}, {"alpha": 1, "beta": 3}, {"alpha": 4, "beta": 4, "gamma": 3}])
def test_vegas_about_each_bound(of, slow_start, params):
    """From nothing queued to ten packets, and what wraps: 4000 packets of a second each, above 10 ms."""
    port = of("bpf_vegas")
    for cwnd, base, queued in [(50, 40 * MS, us) for us in range(0, 8 * MS, 400)] + [(4000, 10 * MS, 1100 * MS)]:
        full(port, cwnd, params)
        una = port.state()["tp"]["snd_una"]
        before, after, limited = ack(
            port,
            n=1,
            rtt=base + queued,
            snd_ssthresh=2 * cwnd if slow_start else 2,
            ca__rtt_min=base,
            ca__samples=2,
            ca__round_rtt=base + queued,
            ca__round_end=una,
        )
        reno, *own = vegas(before, limited, 1, base + queued, **params)
        assert reno == after


def test_vegas_begins_anew_at_each_packet_into_an_empty_network_and_with_the_open_state(of):
    port = of("bpf_vegas")
    port.start(now=0)
    one_rtt(port, 0)
    state = port.state()
    assert state["ca"]["rtt_min"] == 40 * MS + 1 and state["ca"]["samples"] == 9
    port.loss()
    assert not port.state()["ca"]["on"]
    recover(port, rtt=50 * MS, app=4, tx_start=0)
    state = port.state()
    assert state["ca"]["on"] and state["ca"]["samples"] == 0 and state["ca"]["rtt_min"] == 40 * MS + 1  # kept
    port.ack(n=4, rtt=50 * MS, app=0)
    port.send(app=ALL, tx_start=1)  # into an empty network
    state = port.state()["ca"]
    assert (state["rtt_min"], state["round_rtt"], state["samples"]) == (NO_RTT, NO_RTT, 0)


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


# --- Westwood+ -----------------------------------------------------------------------------


def ticks(us):
    return -(-us * HZ // 10**6)


def westwood(before, moved, rtt, now, slow=False, mss=960):
    """What an ACK makes of the filter's members."""
    own = {key: before[key] for key in ("filtered", "estimate", "sample_start", "sample_bytes", "counted", "rtt_min")}
    tick, rtt_last = now // 4000, before["rtt_last"]
    took = (tick - own["sample_start"]) % U32
    if took > max(ticks(rtt_last), HZ // 20):
        rate = own["sample_bytes"] // took
        if own["filtered"] or own["estimate"]:
            own["filtered"] = (7 * own["filtered"] + rate) % U32 >> 3
            own["estimate"] = (7 * own["estimate"] + own["filtered"]) % U32 >> 3
        else:
            own["filtered"] = own["estimate"] = rate
        own["sample_bytes"], own["sample_start"] = 0, tick
    bytes_ = moved
    if slow:
        if not moved:
            own["counted"], bytes_ = own["counted"] + mss, mss
        elif moved > mss:
            covered = min(own["counted"], moved)
            own["counted"] -= covered
            bytes_ = moved - covered or mss
    own["sample_bytes"] = (own["sample_bytes"] + bytes_) % U32
    own["rtt_min"] = rtt_last if before["forget_min"] else min(rtt_last, own["rtt_min"])
    return own


@given(
    n=st.integers(0, 20), counted=st.integers(0, 20), slow=st.booleans(), rtt=rtts, rtt_last=rtts, rtt_min=rtts,
    took=st.integers(0, 3 * 10**6) | st.integers(0, 60 * MS), filtered=st.integers(0, ALL // 8) | st.just(0),
    estimate=st.integers(0, ALL // 8) | st.just(0), bytes_=st.integers(0, 1 << 30), forget=st.booleans(),
)  # fmt: skip
def test_westwood_filter(of, n, counted, slow, rtt, rtt_last, rtt_min, took, filtered, estimate, bytes_, forget):
    port = of("slow_westwood", HERE / "slow_westwood.bpf.c")
    full(port, 40)
    port.do("set", slow_path=slow)
    una = port.state()["tp"]["snd_una"]
    before, after, _ = ack(
        port,
        n=n,
        sack=n == 0,
        rtt=rtt,
        now=10**9 + took,
        ca__counted=counted * 960,
        ca__rtt_last=rtt_last,
        ca__rtt_min=rtt_min,
        ca__filtered=filtered,
        ca__estimate=estimate,
        ca__sample_bytes=bytes_,
        ca__sample_start=10**9 // 4000,
        ca__forget_min=forget,
        ca__started=1,
        ca__snd_una=una,
    )
    for key, value in westwood(before, n * 960, rtt, 10**9 + took, slow).items():
        assert after[key] == value, key
    assert after["rtt_last"] == rtt and after["snd_una"] == una + n * 960 and not after["forget_min"]


@given(
    estimate=st.integers(0, ALL),
    rtt_min=rtts,
    cwnd=st.integers(4, 100),
    clamp=st.sampled_from((30, ALL)),
    timeout=st.booleans(),
)
def test_westwood_falls_back_to_what_the_path_carried(of, estimate, rtt_min, cwnd, clamp, timeout):
    port = of("bpf_westwood")
    full(port, cwnd, ca__estimate=estimate, ca__rtt_min=rtt_min, ca__started=1)
    fits = max(estimate * ticks(rtt_min) % U32 // 960, 2)
    if timeout:
        port.rto()
        state = port.state()
        assert state["tp"]["snd_ssthresh"] == fits and state["ca"]["forget_min"] and state["tp"]["snd_cwnd"] == 1
        return
    port.poke(snd_cwnd_clamp=clamp)
    port.loss()
    assert port.state()["tp"]["snd_ssthresh"] == max(cwnd // 2, 2)
    # The loss's ACK was a sample as well.
    heard = {"ca__estimate": estimate, "ca__rtt_min": rtt_min, "ca__rtt_last": rtt_min}
    before, after, limited = ack(port, n=cwnd, rtt=-1, ca__sample_start=10**9 // 4000, **heard)
    reno = Reno({**before, "snd_cwnd": min(fits, clamp), "snd_ssthresh": fits}, limited)
    reno.grow(after["delivered"] - before["delivered"])  # the ACK that ends it is the first beyond it, too
    assert reno == after


@pytest.mark.parametrize("at_once, left, at_the_end", [(0, 20, 17), (1, 17, 17)])
def test_westwood_sets_its_window_when_a_loss_is_found_or_at_the_end(of, at_once, left, at_the_end):
    port = of("bpf_westwood")
    heard = {"ca__estimate": 17 * 960, "ca__rtt_min": 4 * MS, "ca__rtt_last": 4 * MS, "ca__sample_start": 10**9 // 4000}
    full(port, 40, {"at_once": at_once}, ca__started=1, ca__forget_min=0, **heard)
    port.loss()
    assert port.state()["tp"]["snd_ssthresh"] == left
    _, after, _ = ack(port, n=40, rtt=-1, **heard)
    assert after["snd_ssthresh"] == at_the_end


def test_westwood_learns_the_rate_of_a_path(of):
    """A hundred packets in 100 ms: 960 bytes a ms."""
    port = of("bpf_westwood")
    port.start(now=0, snd_cwnd=100)
    for i in range(1, 3000):
        port.ack(n=1, rtt=100 * MS, now=i * MS, snd_cwnd=100)
    assert port.state()["ca"]["estimate"] == pytest.approx(960 * 1000 / HZ, rel=0.02)
    port.loss()
    recover(port, rtt=100 * MS)
    assert 96 <= port.state()["tp"]["snd_ssthresh"] <= 102


# --- HighSpeed -----------------------------------------------------------------------------


def b(w):
    return 0.5 - 0.4 * log(w / 38) / log(83000 / 38)


def a(w):
    return w**2 * 2 * b(w) / ((2 - b(w)) * w**1.2 * 12.8)


def rfc3649():
    """Appendix B: each window whose a(w) exceeds that of the row before by more than 1."""
    rows, last = [38], 1
    for w in range(38, 100_000):
        if a(w) > last + 1:
            rows.append(w)
            last = a(w)
    return rows


def test_rfc3649_table_as_printed():
    rows = rfc3649()
    assert len(rows) == 73 and rows[:5] == [38, 118, 221, 347, 495]
    assert [(w, round(b(w), 2)) for w in rows[-4:]] == [(79517, 0.10), (84035, 0.10), (89053, 0.10), (94717, 0.09)]
    assert all(floor(a(w)) == i for i, w in enumerate(rows[1:], 2))


TABLE = [(w, floor(b(w) * 256)) for w in rfc3649()[:-1]]


def row(cwnd):
    return next((i for i, (w, _) in enumerate(TABLE) if cwnd <= w), len(TABLE) - 1)


@pytest.mark.parametrize("i", range(len(TABLE)))
def test_highspeed_each_row(of, i):
    """At the end of its windows, one before and one beyond: growth per ACK, and what a loss leaves."""
    port = of("bpf_highspeed")
    for cwnd in (TABLE[i][0] - 1, TABLE[i][0], TABLE[i][0] + 1):
        full(port, cwnd, snd_ssthresh=2)
        _, after, _ = ack(port, n=2, rtt=1000)  # one ACK
        assert (after["row"], after["rcv_tsval"], after["snd_cwnd"]) == (row(cwnd), row(cwnd) + 1, cwnd)
        port.loss()
        assert port.state()["tp"]["snd_ssthresh"] == cwnd - (cwnd * TABLE[row(cwnd)][1] >> 8)


@given(
    cwnd=windows,
    ssthresh=windows,
    count=st.integers(0, 1 << 20),
    n=acks,
    used=st.booleans(),
    clamp=st.sampled_from((1, 30, ALL)),
    last=st.integers(0, 71),
)
def test_highspeed(of, cwnd, ssthresh, count, n, used, clamp, last):
    port = of("bpf_highspeed")
    full(port, cwnd, used=used, snd_ssthresh=max(ssthresh, 2), snd_cwnd_clamp=clamp, ca__row=last)
    before, after, limited = ack(port, n=n, rtt=1000, rcv_tsval=count)
    n = after["delivered"] - before["delivered"]
    reno = Reno(before, limited)
    if n and reno.may_grow:
        if reno.slow_start:
            reno.double(n)
        else:
            last = row(cwnd)
            if reno.cwnd < clamp:
                reno.count += last + 1
                if reno.count >= reno.cwnd:
                    reno.count, reno.cwnd = reno.count - reno.cwnd, reno.cwnd + 1
    assert reno == after and after["row"] == last
    window = after["snd_cwnd"]
    port.send(app=ALL)
    port.loss()
    assert port.state()["tp"]["snd_ssthresh"] == max(window - (window * TABLE[last][1] >> 8), 2)


# --- BIC -----------------------------------------------------------------------------------


def bic_count(cwnd, wmax, per_ack_q4, max_increment=16, low_window=14, smooth_part=20):
    """Packets acknowledged per step."""
    if cwnd <= low_window:
        return cwnd
    if cwnd < wmax:
        part = (wmax - cwnd) // 4
        count = (
            cwnd // max_increment if part > max_increment else cwnd * smooth_part // 4 if part <= 1 else cwnd // part
        )
    elif cwnd < wmax + 4:
        count = cwnd * smooth_part // 4
    elif cwnd < wmax + 3 * max_increment:
        count = 3 * cwnd // (cwnd - wmax)
    else:
        count = cwnd // max_increment
    if not wmax:
        count = min(count, 20)
    return max(count * 16 // per_ack_q4, 1)


@given(
    cwnd=windows, near=st.integers(-300, 300) | st.integers(-9, 9) | st.none(), ssthresh=windows, n=acks,
    used=st.booleans(), per_ack_q4=st.integers(15, 1000) | st.just(16), kept=st.none() | st.integers(0, 15),
    count=st.integers(0, 200), clamp=st.sampled_from((1, 30, ALL)), state=st.sampled_from((OPEN, DISORDER)),
    params=st.just({}) | st.fixed_dictionaries({
        "max_increment": st.integers(1, 64), "low_window": st.integers(0, 64), "smooth_part": st.integers(1, 64),
    }),
)  # fmt: skip
def test_bic(of, cwnd, near, ssthresh, n, used, per_ack_q4, kept, count, clamp, state, params):
    """kept: ticks since the count was worked out for this window; None: for another."""
    port = of("bpf_bic")
    wmax = 0 if near is None else max(cwnd + near, 0)
    full(
        port,
        cwnd,
        params,
        used,
        snd_ssthresh=max(ssthresh, 2),
        snd_cwnd_clamp=clamp,
        ca__wmax=wmax,
        ca__per_ack_q4=per_ack_q4,
    )
    port.poke(
        state=state, ca__count=7, ca__count_cwnd=0 if kept is None else cwnd, ca__count_tick=10**9 // 4000 - (kept or 0)
    )
    before, after, limited = ack(port, n=n, rtt=1000, rcv_tsval=count)
    n = after["delivered"] - before["delivered"]
    reno = Reno(before, limited)
    own = {key: before[key] for key in ("count", "count_cwnd", "count_tick", "per_ack_q4")}
    if n:  # k.state of the model; the socket's own stays Open until it changes
        own["per_ack_q4"] += n - own["per_ack_q4"] // 16
    left = reno.double(n) if n and reno.may_grow and reno.slow_start else n
    if left and reno.may_grow:
        if reno.cwnd != own["count_cwnd"] or 10**9 // 4000 - own["count_tick"] > HZ // 32:
            own |= {
                "count": bic_count(reno.cwnd, wmax, own["per_ack_q4"], **params),
                "count_cwnd": reno.cwnd,
                "count_tick": 10**9 // 4000,
            }
        reno.step(own["count"], left)
    assert reno == after
    assert own == {key: after[key] for key in own}


@given(
    cwnd=st.integers(1, 1 << 20) | st.integers(1, 40),
    near=st.integers(-20, 20),
    beta=st.sampled_from((1, 512, 819, 1023)),
    fast=st.integers(0, 1),
    low=st.sampled_from((0, 14, 40)),
)
def test_bic_loss(of, cwnd, near, beta, fast, low):
    port = of("bpf_bic")
    wmax = max(cwnd + near, 0)
    full(port, cwnd, {"beta": beta, "fast_convergence": fast, "low_window": low}, ca__wmax=wmax)
    port.loss()
    state = port.state()
    assert state["tp"]["snd_ssthresh"] == max(cwnd // 2 if cwnd <= low else cwnd * beta // 1024, 2)
    assert state["ca"]["wmax"] == (cwnd * (1024 + beta) // 2048 if fast and cwnd < wmax else cwnd)


def test_bic_forgets_wmax_at_a_timeout_and_counts_acks_only_when_nothing_is_amiss(of):
    port = of("bpf_bic")
    full(port, 100)
    port.loss()
    state = port.state()["ca"]
    assert state["wmax"] == 100 and state["per_ack_q4"] == 32
    port.ack(n=20, rtt=1000)
    assert port.state()["ca"]["per_ack_q4"] == 32
    full(port, 100)
    port.ack(n=20, rtt=1000)
    assert port.state()["ca"]["per_ack_q4"] == 32 + 20 - 2
    port.rto()
    state = port.state()["ca"]
    assert state["wmax"] == 0 and state["per_ack_q4"] == 32


@pytest.mark.parametrize("given, ssthresh", [(0, 2**31 - 1), (1, 2), (300, 300)])
def test_bic_initial_ssthresh(of, given, ssthresh):
    of("bpf_bic").start({"initial_ssthresh": given})
    assert of("bpf_bic").state()["tp"]["snd_ssthresh"] == ssthresh


def test_bic_halves_the_way_to_wmax(of):
    """From 80 of 100 packets: slower and slower, then over it. Not yet, with delayed ACKs counted for."""
    port = of("bpf_bic")
    full(port, 80, snd_ssthresh=2, ca__wmax=100, ca__per_ack_q4=16, now=0)
    w = many_rtts(port, 14, rtt=40 * MS)
    steps = [b - a for a, b in zip(w, w[1:])]
    assert w[0] >= 84 and w[3] < 100 and sorted(steps[:4], reverse=True) == steps[:4] and w[-1] < 104


# --- all -----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
def test_undo_restores_the_window(of, law):
    port = of(f"bpf_{law}")
    full(port, 50)
    port.loss()
    port.undo()
    assert port.state()["tp"]["snd_cwnd"] == 50
