# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The data's own queue (forward.bpf.h), by hand: what of an RTT the ACK waited, by each kind of peer's clock."""

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.streams import MS

FORWARD, BACK = 20 * MS, 20 * MS  # a path without queues
MORE = (FORWARD + BACK) // 128  # what (2) adds, for it is not exact
SECOND = 1000 * MS


class Peer:
    """A flow of Pseudo-rate, whose state has the wait of the latest ACK, and its receiver's clock."""

    def __init__(self, driver, params=None, tick=MS, ppm=0, offset=0, began=SECOND):
        self.driver, self.tick, self.ppm, self.offset, self.now = driver, tick, ppm, offset, began
        driver.start(params, now=began, usec_ts=tick == 1)

    def wait(self, after, queue=0, wait=0):
        """An ACK comes so much later; its packet waited in a queue, and itself. The law takes so much for its wait."""
        self.now += after
        clock = (self.now - BACK - wait) * (10**6 + self.ppm) // 10**6
        stamp = (clock // self.tick + self.offset) % 2**32
        self.driver.ack(n=1, now=self.now, rtt=FORWARD + BACK + queue + wait, rcv_tsval=stamp)
        return self.driver.state()["ca"]["wait"]

    def waits(self, seconds, step=100 * MS, **path):
        return [self.wait(step, **path) for _ in range(seconds * SECOND // step)]


@pytest.fixture
def pseudorate(of):
    return of("pseudorate")


@pytest.mark.parametrize("offset", [0, 2**32 - 1055, 2**31 - 1055])
@pytest.mark.parametrize("began", [SECOND, 2**32 - 55 * MS])
@pytest.mark.parametrize("tick", [1, MS])
def test_the_wait_is_the_ways_growth_less_a_tick(pseudorate, tick, offset, began):
    """Our clock counts as 2^-14 slower: 6 us in 0.1 s. Both clocks wrap. All that the RTT has more is the most."""
    peer = Peer(pseudorate, tick=tick, offset=offset, began=began)
    assert peer.wait(0) == 0
    assert peer.wait(100 * MS, wait=30 * MS) == pytest.approx(min(30 * MS - tick - 6 + MORE, 30 * MS), abs=1)
    assert peer.wait(100 * MS) == 0


def test_a_queue_of_the_data_is_no_wait_of_the_ack(pseudorate):
    peer = Peer(pseudorate)
    peer.wait(0)
    assert peer.wait(100 * MS, queue=30 * MS) == 0
    assert peer.wait(100 * MS, queue=30 * MS, wait=50 * MS) == pytest.approx(49 * MS + MORE, abs=20)


def test_a_part_of_a_tick_is_no_wait(pseudorate):
    """ACKs leave at all parts of a millisecond: the law sees what it would without timestamps."""
    peer = Peer(pseudorate)
    assert {peer.wait(997, queue=5 * MS) for _ in range(1500)} == {0}


@pytest.mark.parametrize("tick", [1, MS])
def test_a_receiver_that_compresses_its_sacks_makes_no_wait(pseudorate, tick):
    """Their stamp is up to 1.1 ms old."""
    peer = Peer(pseudorate, tick=tick)
    assert {peer.wait(997, wait=i % 1100) for i in range(1500)} == {0}


def test_what_is_no_rtt_is_no_wait(pseudorate):
    """The first packets found a queue of 10 ms, so RTTmin is too long by it."""
    peer = Peer(pseudorate)
    peer.wait(0, queue=10 * MS)
    assert peer.wait(100 * MS, wait=30 * MS) == 20 * MS


def test_without_timestamps_and_with_the_papers_law_none_waits(pseudorate):
    for params, offset in (({"forward_delay": 0}, 0), (None, None)):
        peer = Peer(pseudorate, params)
        for wait in (0, 30 * MS):
            peer.offset = -(peer.now + 100 * MS - BACK - wait) // MS if offset is None else offset
            assert peer.wait(100 * MS, wait=wait) == 0
        assert pseudorate.state()["ca"]["rtt_min"] == FORWARD + BACK


def test_a_wait_that_never_ends_is_forgotten(pseudorate):
    """61 us a second: 10 ms in 164 s."""
    peer = Peer(pseudorate)
    peer.wait(0)
    first = peer.wait(100 * MS, wait=30 * MS)
    assert first - peer.waits(164, wait=30 * MS)[-1] == pytest.approx(10 * MS, abs=0.02 * MS)


@pytest.mark.parametrize("ppm", [-50, 50])
def test_clocks_that_drift_make_no_wait(pseudorate, ppm):
    """Two hours beside a queue of our own of 30 ms: 360 ms of drift."""
    peer = Peer(pseudorate, ppm=ppm)
    peer.wait(0)
    assert max(peer.waits(7200, step=SECOND, queue=30 * MS)) == 0


def test_a_clock_set_back_deceives_until_the_rtt_is_least(pseudorate):
    """The receiver's machine had a pause. No wait is longer than the RTT has grown."""
    peer = Peer(pseudorate)
    peer.waits(1)
    peer.offset -= 100
    assert peer.wait(100 * MS, queue=30 * MS) == 30 * MS
    assert peer.wait(100 * MS) == 0
    assert max(peer.waits(5, queue=30 * MS)) == 0


@pytest.mark.parametrize("jump", [-10_000, 200, 10_000, 3_000_000])
def test_other_jumps_of_the_clock_make_no_wait(pseudorate, jump):
    peer = Peer(pseudorate)
    peer.waits(1)
    peer.offset += jump
    assert max(peer.waits(60, queue=30 * MS)[1:]) == 0


@pytest.mark.parametrize("queue", [0, 40 * MS])
def test_rttmin_follows_an_uploads_queue_that_empties(pseudorate, queue):
    """A flow begins behind an upload of 300 ms. It fills its own queue meanwhile: no RTT is that of the empty path."""
    peer = Peer(pseudorate)
    for i in range(290):
        peer.wait(5 * MS, queue=min(i * MS, queue), wait=300 * MS - i * MS)
    assert FORWARD + BACK <= pseudorate.state()["ca"]["rtt_min"] < FORWARD + BACK + 20 * MS


@pytest.mark.parametrize("ppm, jump", [(-150, 0), (0, 0), (100, 0), (0, 100), (0, 10_000)])
def test_neither_drift_nor_a_jump_is_an_uploads_queue(pseudorate, ppm, jump):
    """Ten minutes with a queue of our own."""
    peer = Peer(pseudorate, ppm=ppm)
    peer.wait(0)
    peer.waits(300, queue=30 * MS)
    peer.offset += jump
    peer.waits(300, queue=30 * MS)
    assert pseudorate.state()["ca"]["rtt_min"] == FORWARD + BACK


def test_after_a_clock_set_forward_waits_are_seen_again(pseudorate):
    peer = Peer(pseudorate)
    peer.waits(1)
    peer.offset += 200
    peer.waits(1)
    assert peer.wait(100 * MS, wait=30 * MS) == pytest.approx(29 * MS + MORE, abs=10)


@pytest.mark.parametrize("tick", [4 * MS, 10 * MS, 10**9 * MS, 1])
def test_a_clock_that_does_not_count_ms_is_not_believed(pseudorate, tick):
    """Three minutes of 4 ms, of 10 ms, of a clock that stands, and of us for which nobody asked."""
    peer = Peer(pseudorate, tick=max(tick, MS), offset=5)
    peer.tick = tick
    waits = peer.waits(180, step=10 * MS, queue=30 * MS)
    assert max(waits) <= 30 * MS and max(waits[100:]) == 0


# A receiver that lies


@pytest.mark.parametrize("law", ["fast", "fusion", "taichung", "pseudorate"])
@pytest.mark.parametrize("turn", [1, 4, 16, 10**9])
def test_a_lying_clock_never_more_than_doubles_a_window_in_a_round(of, law, turn):
    """Each ACK is late by nine base RTTs: all of it a wait, or nothing. Early ACKs double a window in slow start."""
    driver = of(law)
    driver.start(now=SECOND, snd_cwnd=100, snd_ssthresh=2)
    windows, now, base, late = [], SECOND, 40 * MS, 360 * MS
    for _ in range(6):
        flight = min(driver.state()["tp"]["packets_out"], 2000)
        lines = []
        for i in range(flight):
            wait = late if i // turn % 2 == 0 and windows else 0
            rtt = base + late if windows else base
            stamp = (now + rtt + i - BACK - wait) // MS
            lines.append(line("ack", n=1, now=now + rtt + i, rtt=rtt, rcv_tsval=stamp))
        windows.append(driver.batch(lines)[-1]["cwnd"])
        now += base + late + flight
    assert all(b <= 2 * a + 2 for a, b in zip(windows, windows[1:])), windows


@pytest.mark.parametrize("law", ["fast", "fusion", "taichung", "pseudorate"])
def test_no_window_grows_by_more_than_arrives(of, law):
    """ACKs wait longer in each round: a start grows, and so does a window that follows the wait."""
    driver = of(law)
    driver.start(now=SECOND)
    now, base, arrived = SECOND, 40 * MS, 0
    for wait in range(0, 6 * base, base):
        flight = driver.state()["tp"]["packets_out"]
        lines = [
            line("ack", n=1, now=now + base + wait + i, rtt=base + wait, rcv_tsval=(now + i + base - BACK) // MS)
            for i in range(flight)
        ]
        windows = [answer["cwnd"] for answer in driver.batch(lines)]
        assert all(cwnd <= 10 + arrived + i for i, cwnd in enumerate(windows, 1)), windows
        now += base + wait + flight
        arrived += flight
