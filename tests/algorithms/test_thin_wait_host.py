# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin` without a rate on the host: ACKs are dropped only while they wait on their way."""

import struct

import pytest

from tests.algorithms.host.driver import line
from tests.algorithms.host.formosa import ip_packet
from tests.algorithms.host.streams import MS
from tests.algorithms.test_thin_host import RTT, SEG, STAMPS, Download, spacing


class Uplink(Download):
    """Its ACKs wait in a queue of 200 at most. Each packet tells when it left, and which ACK had come."""

    OURS, PEERS = 3 << 30, 1000  # what both clocks begin with

    def __init__(self, driver, rate, params=None, tick=MS, alien=0, **keys):
        """`rate`: ACKs that leave the queue in a second; `alien`: us that others' packets take there, later on."""
        super().__init__(driver, params, rtt=RTT, **keys)
        self.later = self.now + 2 * RTT
        self.cost, self.tick, self.alien, self.free, self.told = 10**6 // rate, tick, alien, 0, [(-RTT, self.OURS - 40)]

    def stamps(self, tsval, tsecr):
        return STAMPS[:4] + struct.pack(">II", tsval % 2**32, tsecr % 2**32)

    def ack(self, *args, **keys):
        self.stamped = self.stamps(self.OURS + self.now // MS, 0)
        passes = super().ack(*args, **keys)
        if passes and self.queue < 200 * self.cost:
            self.free = max(self.free, self.now + (self.alien if self.now > self.later else 0)) + self.cost
            self.told.append((self.free, self.OURS + self.now // MS))
        return passes

    def come(self, packets, gap=None):
        told = []
        for _ in range(packets):
            self.now += self.gap if gap is None else gap
            left = self.now - RTT // 2
            while len(self.told) > 1 and self.told[1][0] <= left - RTT // 2:
                self.told.pop(0)
            options = self.stamps(self.PEERS + left // self.tick, self.told[0][1])
            self.driver.batch(
                [
                    line("poke", now=self.now, rcv_nxt=self.next),
                    line("ingress", packet=ip_packet(1, options=options, seq=self.next, payload=bytes(SEG))),
                ]
            )
            self.next += SEG
            self.unacked += 1
            if self.unacked == self.every:
                told.append((self.next, self.ack()))
        return told

    @property
    def queue(self):
        return max(self.free - self.now - self.alien, 0)


def share_of(told):
    return sum(passes for _, passes in told) / len(told)


def test_nothing_is_dropped_without_a_queue(thin):
    """An ACK each 400 us, and room for one each 333."""
    assert share_of(Uplink(thin, rate=3000).come(6000)) == 1


@pytest.mark.parametrize("rate", [200, 400, 800])
def test_acks_that_wait_are_spaced_until_they_do_not(thin, rate):
    """2,500 ACKs come in a second. So many pass as the uplink takes, or a quarter; the first queue is gone."""
    d = Uplink(thin, rate=rate)
    d.come(30_000)
    waits, passed = [], 0
    for _ in range(100):
        told = d.come(50)
        passed += sum(passes for _, passes in told)
        waits.append(d.queue)
    assert rate / 4 < passed / (100 * 50 * d.gap / 1e6) < 1.1 * rate
    assert sorted(waits)[50] < 10 * MS


def test_a_queue_that_others_fill_is_left_to_them(thin):
    """Fewer ACKs leave it as long as it is: after some trials all pass."""
    d = Uplink(thin, rate=100_000, alien=200 * MS)
    shares = [share_of(d.come(1000)) for _ in range(50)]
    assert min(shares) < 0.2 and shares[-1] == 1


def test_timestamps_of_another_clock_tell_no_queue(thin):
    """Ticks of 10 ms: an ACK covers a sixteenth of an RTT, as without timestamps."""
    told = Uplink(thin, rate=3000, tick=10 * MS).come(6000)
    assert set(spacing(told[-300:])) == {14 * SEG}


def test_a_forged_queue_leaves_the_least(thin):
    """The peer's clock pretends that each ACK is later than the last one: two ACKs pass in each RTT."""
    d = Uplink(thin, rate=3000, tick=700)
    d.come(6000)
    assert max(spacing(d.come(6000))) <= (RTT // 2 // d.gap + 2) * SEG
