# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""bpf/slowstart.bpf.h in the controllers that have it, beside models of RFC 9406 and of the draft (host/starts.py)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.bottleneck import Link, run
from tests.algorithms.host.driver import line
from tests.algorithms.host.starts import Ack, HyStart, Search
from tests.algorithms.host.streams import MS, any_stream, many_rtts, one_rtt

NAMES = ("cubic9438", "fast", "fusion", "taichung")
HYSTART, SEARCH = 1, 2
MSS = 960
EVER, ENDLESS = 2**32 - 1, 2**31 - 1  # data; ssthresh of a connection that begins
ACK_S = 20e-6  # each path's first RTT is a multiple of 20 us, so that a bin is whole us


def of_ten(name, option):
    """Parameters with which the first window is ten packets; FAST's own is two."""
    return {"slow_start": option} | ({"init_cwnd": 10} if name == "fast" else {})


def begin(driver, option, **keys):
    return driver.start(of_ten(driver.binary.name, option), now=0, tx_start=0, **keys)


def left(driver):
    """Is the first slow start over?"""
    return driver.state()["tp"]["snd_ssthresh"] < ENDLESS


def counts(driver):
    counters = driver.state()["counters"]
    return [counters[name] for name in ("starts_left", "starts_slowed", "starts_resumed")]


# --- beside the models ------------------------------------------------------------------------


def replayed(trace, first, every, model):
    """The model's window and mode after each ACK of a trace, whose data have no end: the window is full."""
    una, nxt = 1, 1 + first * MSS
    for at, cwnd, rtt in trace:
        una += every * MSS
        now = round(at * 1e6)
        model.ack(Ack(now, every, now - round((at - rtt) * 1e6), una, nxt, (nxt - una) // MSS))
        yield cwnd, model.cwnd, model.mode
        nxt = una + cwnd * MSS


@pytest.mark.parametrize("option", [HYSTART, SEARCH])
@pytest.mark.parametrize("delay, packet, seconds, every", [
    (0.04, 120e-6, 3, 1), (0.04, 120e-6, 3, 2), (0.04, 40e-6, 2.5, 2),
    (0.2, 120e-6, 8, 1), (0.6, 960e-6, 30, 1), (0.1, 960e-6, 10, 2),
])  # fmt: skip
@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_model_to_the_ack(of, name, option, delay, packet, seconds, every):
    first = 10
    params = of_ten(name, option)
    [trace] = run(Link(packet, ACK_S, delay), [of(name)], [params], seconds, every=every)
    model = HyStart(first, 1 + first * MSS) if option == HYSTART else Search(first, MSS)
    far = 0.0
    for cwnd, modelled, mode in replayed(trace, first, every, model):
        if mode == "congestion avoidance":
            break
        # the RFC's order: at each change of mode an ACK counts by what was, here by what is
        far = max(far, abs(cwnd - int(modelled)))
        assert abs(cwnd - modelled) < 1 + model.changes * every, (model, cwnd)
    assert mode == "congestion avoidance" and counts(of(name))[0] == 1
    assert abs(cwnd - modelled) < 1 + model.changes * every
    assert option == HYSTART or far == 0


@given(
    start=st.integers(5, 300), option=st.sampled_from([HYSTART, SEARCH]),
    acks=st.lists(st.tuples(st.integers(1, 12), st.integers(-9, 40), st.integers(1, 900)), min_size=20, max_size=200),
)  # fmt: skip
def test_any_acks_give_what_the_model_gives(of, start, option, acks):
    """RTTs around their thresholds, gaps beyond a window of bins. Times that are whole bins are whole us."""
    fusion, base = of("fusion"), start * 200
    sent = begin(fusion, option)["sent"]
    model = HyStart(sent, 1 + sent * MSS) if option == HYSTART else Search(sent, MSS)
    now, una, nxt = base, 1, 1 + sent * MSS
    for n, more, gap in acks:
        now += gap * base // 200
        n = min(n, (nxt - una) // MSS)
        rtt = base + max(more, 0) * base // 40
        una += n * MSS
        model.ack(Ack(now, n, rtt, una, nxt, (nxt - una) // MSS))
        cwnd = fusion.ack(n=n, rtt=rtt, now=now)["cwnd"]
        over = model.mode == "congestion avoidance"
        assert left(fusion) == over
        if over:
            break
        assert abs(cwnd - model.cwnd) < 1 + model.changes * 12
        nxt = max(nxt, una + cwnd * MSS)


# --- RFC 9406 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last, thresh", [(8 * MS, 4 * MS), (32 * MS, 4 * MS), (80 * MS, 10 * MS), (128 * MS, 16 * MS), (600 * MS, 16 * MS)]
)
@pytest.mark.parametrize("samples, short", [(8, 0), (8, 1), (7, 0)])
def test_a_longer_rtt_slows_growth(of, last, thresh, samples, short):
    """An eighth, within 4 and 16 ms; eight RTTs of the round must say so."""
    fusion = of("fusion")
    begin(fusion, HYSTART)
    one_rtt(fusion, 0, last)
    fusion.batch([line("ack", rtt=last + thresh - short, now=3 * last + i) for i in range(samples)])
    slowed = samples == 8 and not short
    assert counts(fusion) == [0, slowed, 0]
    before = fusion.state()["ca"]["w_q20"]
    fusion.ack(n=4, rtt=-1, now=4 * last)
    assert fusion.state()["ca"]["w_q20"] - before == (1 if slowed else 4) << 20


@pytest.mark.parametrize("name", NAMES)
def test_bursts_are_no_queue(of, name):
    """A round's packets wait for each other; up to a window of one BDP, 1,667 packets, none for the round before."""
    params = of_ten(name, HYSTART)
    [trace] = run(Link(120e-6, ACK_S, 0.2), [of(name)], [params], 1.55)
    assert counts(of(name)) == [0, 0, 0] and trace[-1][1] > 1200


def test_a_flow_that_the_application_limits_is_not_at_the_link(of):
    """All that it sent arrives: so the draft compares with what was sent, and not with twice what arrived."""
    for option in (HYSTART, SEARCH):
        begin(of("fusion"), option, app=20)
        many_rtts(of("fusion"), 30)
        assert not left(of("fusion"))


# --- whatever happens -----------------------------------------------------------------------------


@pytest.mark.parametrize("option", [HYSTART, SEARCH])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_ends_it_and_its_undo_takes_that_back(of, name, option):
    driver = of(name)
    begin(driver, option)
    many_rtts(driver, 3)
    window = driver.state()["tp"]["snd_cwnd"]
    driver.loss(n=1, sack=3)
    assert left(driver)
    driver.undo()
    assert not left(driver) and driver.state()["tp"]["snd_cwnd"] >= window
    assert one_rtt(driver, 10**6)[-1] > 1.4 * window


@pytest.mark.parametrize("name", NAMES)
def test_without_memory_it_is_renos(of, name):
    begin(of(name), SEARCH, fails=1)
    assert many_rtts(of(name), 4) == [20, 40, 80, 160]


@pytest.mark.parametrize("option", [HYSTART, SEARCH])
@pytest.mark.parametrize("name", NAMES)
def test_sequence_numbers_wrap(of, name, option):
    traces = []
    for una in (1, 2**32 - MSS * 40, 2**32 - MSS, 2**31 - MSS * 40):
        begin(of(name), option, snd_una=una, snd_nxt=una)
        traces.append(many_rtts(of(name), 4) + many_rtts(of(name), 12, 10**6, rtt=80 * MS, gap=400))
        assert left(of(name))
    assert all(trace == traces[0] for trace in traces)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_the_papers_own_start_makes_no_storage(of, name, data):
    params, _, _ = any_stream(data, of(name))
    # FAST by the rate begins with HyStart++, and Taichung takes it where it sees noise.
    if not params["slow_start"] and params.get("alpha", 1) and not params.get("noise_start"):
        assert not of(name).state()["tp"]["exists"] and counts(of(name)) == [0, 0, 0]
