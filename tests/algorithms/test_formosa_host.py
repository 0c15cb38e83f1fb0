# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's own source, compiled for the host with sanitizers: the sender's law against the paper's, toward its
receiver and toward any peer."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.formosa import (
    ALL,
    HELLO,
    SECOND,
    SEG,
    P,
    answer,
    at_w,
    end_round,
    fields_of_data,
    room,
)  # fmt: skip
from tests.algorithms.host.streams import MS, many_rtts

FIBONACCI = [1, 2, 3, 5, 8, 13, 21, 34]


# --- a sender by rounds -----------------------------------------------------------------------


def test_slow_start_is_the_papers(formosa):
    """W packets a round; what is out is never more than two rounds'."""
    formosa.start(synack=HELLO, now=0)
    for w in FIBONACCI[1:]:
        assert end_round(formosa) == w
        state = formosa.state()
        assert state["tp"]["data_segs_out"] - state["wire"]["segs"] == w
        assert state["tp"]["packets_out"] == w + state["ca"]["w_last"] - 1
        assert state["tp"]["snd_cwnd"] <= w + state["ca"]["w_last"]


@pytest.mark.parametrize("w, delta, left", [(64, 32, 56), (15, 32, 13.125), (100, 64, 75), (2, 127, 2)])
def test_a_signal_takes_delta(formosa, w, delta, left):
    """Exactly: W has a part of a packet, which a loss and its undo keep."""
    at_w(formosa, w, {"delta_q8": delta})
    end_round(formosa, 1)
    assert w_of(formosa) == left
    formosa.loss(n=1, sack=3)
    assert w_of(formosa) == max(left / 2, 2)
    formosa.undo()
    assert w_of(formosa) == left
    assert end_round(formosa) == int(left) + 1


def w_of(sender):
    ca = sender.state()["ca"]
    return ca["w"] + ca["w_part"] / 2**16


def test_a_signal_counts_once_and_once_a_round(formosa):
    at_w(formosa, 64)
    for signal in (1, 2, 3, 2):
        formosa.read(options=answer(0, signal))
    formosa.ack(n=3)
    assert formosa.state()["ca"]["w"] == 64  # at the end of the round
    assert end_round(formosa) == 56
    formosa.read(options=answer(0, 3))  # said before
    assert end_round(formosa) == 57
    assert w_of(formosa) == 57
    assert end_round(formosa, 4) == int(57 * 7 / 8)
    assert formosa.state()["counters"]["signals"] == formosa.state()["ca"]["peer_signals"] == 2


@pytest.mark.parametrize(
    "seen, number, counts", [(0, 1, True), (0, 7, True), (0, 8, False), (0, 15, False), (15, 0, True), (14, 13, False)]
)
def test_numbers_of_signals_wrap_and_never_go_back(formosa, seen, number, counts):
    at_w(formosa, 64)
    formosa.poke(wire__signal_seen=seen)
    assert end_round(formosa, number) == (56 if counts else 65)
    assert formosa.state()["wire"]["signal_seen"] == (number if counts else seen)


@pytest.mark.parametrize("hold, expected", [(0, [56, 49, 42, 37]), (1, [56, 56, 49, 49]), (2, [56, 56, 56, 49])])
def test_a_signal_about_packets_from_before_the_cut_is_old(formosa, hold, expected):
    at_w(formosa, 64, {"signal_hold": hold})
    assert [end_round(formosa, i) for i in range(1, 5)] == expected
    counters = formosa.state()["counters"]
    assert counters["signals"] + counters["old_signals"] == 4


def test_the_cut_that_ends_slow_start_holds_nothing(formosa):
    at_w(formosa, 64, {"signal_hold": 1}, ssthresh=2**31 - 1)
    assert [end_round(formosa, i) for i in range(1, 5)] == [56, 49, 49, 42]


def test_a_loss_takes_half_of_w(formosa):
    """W, not of snd_cwnd; the first repair waits for nothing, and W stands until all is repaired."""
    at_w(formosa, 64)
    assert formosa.loss(n=1, sack=3)["again"] == 1
    state = formosa.state()
    assert state["ca"]["w"] == state["ca"]["ssthresh"] == state["tp"]["snd_ssthresh"] == 32
    for signal in (1, 2):
        formosa.read(options=answer(state["wire"]["round"], signal))
        formosa.ack(n=0, sack=10, now=10**6 * signal)
        assert formosa.state()["ca"]["w"] == 32
    assert formosa.state()["counters"]["signals"] == 0


def test_a_timeout_begins_a_slow_start_to_half(formosa):
    at_w(formosa, 64)
    got = formosa.rto(now=10**6)
    assert got["again"] == 1
    assert [end_round(formosa) for _ in range(8)] == [2, 3, 5, 8, 13, 21, 32, 33]


def test_no_probes_after_an_undo(formosa):
    """Packets that W allows again are not beyond it."""
    at_w(formosa, 64)
    formosa.loss(n=1, sack=3)
    got = [formosa.undo(), *formosa.batch([line("ack")] * 70)]
    flags = [
        fields_of_data(bytes.fromhex(options))[0] for answer in got for _, _, options in answer.get("segments", [])
    ]
    assert len(flags) > 32 and not any(flag & P for flag in flags)


def test_the_first_packet_after_idle_is_answered(formosa):
    """It belongs to the new round, as those behind it do."""
    at_w(formosa, 20)
    tp, number = formosa.state()["tp"], formosa.state()["wire"]["round"]
    formosa.ack(n=tp["packets_out"], app=0, now=tp["now"] + 40 * MS, rtt=40 * MS)
    sent = formosa.send(app=ALL, now=tp["now"] + 1040 * MS)["segments"]
    rounds = {fields_of_data(bytes.fromhex(options))[1] for _, _, options in sent}
    assert rounds == {formosa.state()["wire"]["round"]} != {number}


def test_an_idle_time_is_told_once_where_the_peers_window_is_closed(formosa):
    """The application writes five times in five seconds, and nothing may leave: a halving a second, not fifteen."""
    at_w(formosa, 2000)
    tp = formosa.state()["tp"]
    formosa.ack(n=tp["packets_out"], app=0, now=tp["now"] + 40 * MS, rtt=40 * MS)
    w = formosa.state()["ca"]["w"]
    formosa.poke(shut=1)
    for i in range(1, 6):
        assert formosa.send(app=ALL, now=tp["now"] + 40 * MS + i * 1000 * MS)["sent"] == 0
    formosa.poke(shut=0)
    assert formosa.send(app=ALL, now=tp["now"] + 40 * MS + 5001 * MS)["sent"] == w >> 5


@pytest.mark.parametrize("srtt, w, mss", [(40 * MS, 64, 960), (100, 2000, 65535), (2**26, 2, 536)])
def test_paces_w_over_the_rtt(formosa, srtt, w, mss):
    at_w(formosa, w)
    formosa.poke(ca__srtt_us=srtt, mss_cache=mss, ca__ssthresh=w)
    formosa.ack(n=0)
    assert formosa.state()["tp"]["pacing_rate"] == w * mss * SECOND // srtt


def test_answers_amid_a_round_change_no_rate_of_a_fitted_w(formosa):
    """An upload's queue drains: the RTT is half, and W is that of the whole one until the round ends."""
    at_w(formosa, 64, {"fit_rtt": 1})
    formosa.poke(ca__srtt_us=400 * MS, wire__fitted_srtt=800 * MS, ca__ssthresh=64)
    formosa.ack(n=0)
    state = formosa.state()["tp"]
    assert state["pacing_rate"] == 64 * state["mss_cache"] * SECOND // (800 * MS)


def test_the_ack_of_our_syn_sets_no_rate(formosa):
    """If a route names the controller, the kernel handles it before `init`: on a state of zeros."""
    formosa.start(now=0)
    formosa.poke(**{"ca.w": 0, "ca.w_last": 0, "pacing_rate": 10**9, "now": 40 * MS})
    formosa.ack(n=1, rtt=40 * MS)
    assert formosa.state()["tp"]["pacing_rate"] == 10**9


@pytest.mark.parametrize("then, queue, limited, after", [
    (40, 0, {}, 65 * 60 // 40 + 1), (60, 0, {}, 65),  # W follows the time that ACKs take ...
    (40, 30, {}, 65 * 60 // 40 + 1),  # ... which a forward queue that moved the other way explains not at all
    (40, 0, {"snd_wnd": 0, "ca__w_last": 1000}, 64),  # ... but not while it is limited
])  # fmt: skip
def test_w_follows_the_time_that_acks_take(formosa, then, queue, limited, after):
    at_w(formosa, 64, {"fit_rtt": 1})
    fitted = {"wire__fitted_srtt": then * MS, "wire__fitted_queue": queue * MS, "wire__squeue_us": 0}
    formosa.poke(ca__srtt_us=60 * MS, **fitted, **limited)
    assert end_round(formosa, rtt=60 * MS) == after
    assert formosa.state()["wire"]["fitted_srtt"] == 60 * MS


# --- rounds behind a gap


def test_without_a_gap_only_the_first_packets_ack_ends_a_round(formosa):
    """However often a liar names the round, and however late it is."""
    at_w(formosa, 64)
    rounds = formosa.state()["counters"]["rounds"]
    for i in range(63):
        formosa.read(options=answer(formosa.state()["wire"]["round"], i), now=10**7 + i)
        formosa.ack(n=1)
    assert formosa.state()["counters"]["rounds"] == rounds
    formosa.ack(n=1)
    assert formosa.state()["counters"]["rounds"] == rounds + 1


# --- a peer without the receiver half ---------------------------------------------------------


def test_a_peer_that_never_answers(formosa):
    """After 4 rounds the window clocks the ACKs, and no more options are sent."""
    at_w(formosa, 64)
    for i in range(4):
        assert formosa.state()["counters"]["fallbacks"] == formosa.state()["wire"]["silent"] == 0
        tp, ca = formosa.state()["tp"], formosa.state()["ca"]
        got = formosa.ack(n=(ca["round_end"] - tp["snd_una"]) // SEG + 1, rtt=40 * MS, now=tp["now"] + 40 * MS)
        assert "segments" in got or i == 3
    state = formosa.state()
    assert state["counters"]["fallbacks"] == state["wire"]["silent"] == 1
    formosa.ack(n=1)
    w = formosa.state()["ca"]["w"]
    assert formosa.state()["tp"]["snd_cwnd"] == w
    assert room(formosa) == formosa.write(len=SEG)["reserved"] == 0
    formosa.read(options=answer(0, 5))
    formosa.ack(n=2)
    assert formosa.state()["ca"]["w"] in (w, w + 1) and formosa.state()["wire"]["silent"] == 1


@pytest.mark.parametrize("keys", [{}, {"synack": b""}, {"synack": HELLO, "fails": 1}])
def test_toward_any_peer_it_is_aimd(formosa, keys):
    """Also where no storage can be had. It paces 2 windows an RTT in slow start, and then 1.2."""
    formosa.start({"init_cwnd": 4}, now=0, **keys)
    for w in (8, 16, 32):
        acks = formosa.batch([line("ack", rtt=40 * MS, now=40 * MS * w)] * (w // 2))
        assert (acks[-1]["cwnd"], formosa.state()["ca"]["w"]) == (w, w)
    assert formosa.state()["tp"]["pacing_rate"] == 2 * 32 * 960 * SECOND // (40 * MS)
    formosa.loss(n=1, sack=3)
    formosa.ack(n=0, sack=10)
    formosa.ack(n=32, now=SECOND)
    trace = many_rtts(formosa, 4, start=SECOND)
    assert trace[0] in (16, 17, 18) and trace == [trace[0] + i for i in range(4)]
    assert formosa.state()["tp"]["pacing_rate"] == trace[-1] * 960 * 10000 * 120 // (40 * MS)


def forward_signals(driver, forward, back=lambda t: 20_000, tick=MS, own=MS, stamps=1, offset=12345678, w=32, **new):
    """Times of the signals of a sender whose peer only stamps, in five seconds; delays by time of leaving, us."""
    driver.start({"init_cwnd": w}, now=0, snd_ssthresh=w, saw_tstamp=stamps, usec_ts=own == 1, **new)
    sent, now, signals = [MS * i * 40 // w for i in range(w)], 0, []
    while now < 5 * SECOND:
        acks = []
        for left in sent:
            arrived = left + forward(left)
            now = max(now, arrived + back(arrived))
            stamps = {"rcv_tsval": (arrived + offset) // tick % 2**32, "rcv_tsecr": (left + 10**9) // own % 2**32}
            acks.append((now, line("ack", now=now, rtt=now - left, **stamps)))
        answers = driver.batch([command for _, command in acks])
        sent = [at for (at, _), answer in zip(acks, answers) for _ in range(answer["sent"])]
        if driver.state()["counters"]["signals"] > len(signals):
            signals.append(now)
    return signals


def ramp(t):
    """20 ms until 3 s, then a queue that grows by 100 ms a second."""
    return 20 * MS + max(0, t - 3 * SECOND) // 10


CLOCKS = [(1000, 1000), (4000, 1000), (10_000, 1000), (1, 1), (1000, 1), (1, 1000)]  # the peer's tick and our own, us


@pytest.mark.parametrize("tick, own", CLOCKS)
@pytest.mark.parametrize("wraps", [False, True])
def test_timestamps_tell_the_forward_delay_and_nothing_of_the_way_back(formosa, tick, own, wraps):
    offset = (2**32 * 1000 - 10**6) * tick if wraps else 12345678
    assert forward_signals(formosa, lambda t: 20 * MS, ramp, tick=tick, own=own, offset=offset) == []
    signals = forward_signals(formosa, ramp, tick=tick, own=own, offset=offset)
    assert len(signals) >= 3 and min(signals) > 3 * SECOND
    assert formosa.state()["wire"]["stamps.tick_us"] == tick


@pytest.mark.parametrize("tick", [1000, 4000, 10_000])
@pytest.mark.parametrize("w", [2, 3, 8])
def test_a_coarse_clock_is_no_queue(formosa, tick, w):
    """However the ticks fall on few ACKs."""
    assert forward_signals(formosa, lambda t: 20 * MS, lambda t: 23_700, tick=tick, w=w) == []


@pytest.mark.parametrize("keys", [{"stamps": 0}, {"tick": 50_000}, {"synack": b"", "fails": 1}])
def test_without_a_clock_only_losses_tell(formosa, keys):
    assert forward_signals(formosa, ramp, **keys) == []


def test_a_clock_that_jumps_overflows_nothing(formosa):
    """A peer of 10-ms ticks that are taken for true, then stamps as far from the last as they can be."""
    formosa.start({"init_cwnd": 2}, now=0, saw_tstamp=1, snd_ssthresh=2, app=1)
    stamps = [(i, i) if i <= 300 else ((i - 300) * (2**31 - 1) + 300, -i) for i in range(1, 10**4)]
    formosa.batch([
        line("ack", now=(i + 1) * 10 * MS, rcv_tsval=tsval % 2**32, rcv_tsecr=tsecr % 2**32)
        for i, (tsval, tsecr) in enumerate(stamps)
    ])  # fmt: skip
    wire = formosa.state()["wire"]
    assert wire["stamps.tick_us"] == 10_000 and wire["stamps.x_us"] == 1 << 40, "the bound that the code names"
