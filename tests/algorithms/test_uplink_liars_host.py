# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc uplink` before far ends and hosts that lie: its meter and its law, before a modem of 20 Mbit/s."""

import heapq
import itertools
import random
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.algorithms.host import forwarded as fw

RATE = 20e6
SEG = 1448  # bytes of payload
WIRE = SEG + 52  # of the IP packet
RTT = 50_000  # us, without a queue
ROOM = 250_000  # us of the modem's queue
TICK = 40_000
START = 3600 * 10**6  # us
CHANCE = random.Random(3)
STAMPS = fw.stamps(1, 0)
WINDOW = 300  # packets of all uploads: the hosts' buffers


@dataclass
class Upload:
    """A host's upload, as long as the shaper lets it; and its far end."""

    port: int
    stamp: Callable[[int, int], int] = lambda came, queue: came  # us that TSval tells, of what came then, after so long
    hold: Callable[[int], int] = lambda now: 0  # us that the far end waits with an ACK
    again: Callable[[int], bool] = lambda now: False  # does the host send twice what has arrived?
    floods: int | None = None  # us from the start: from then on it sends what nobody answers, without end
    udp: bool = False
    life: int = 1 << 40  # packets, after which another connection takes its place
    next: int = 1
    missing: list[tuple[int, int]] = field(default_factory=list)  # when the host knows it, and the data
    sent: int = 0  # packets
    flight: int = 0
    window: float = 10
    calm: int = 0  # us: until then it is not halved anew
    turn: int = 0
    arrived: int = 0  # bytes of payload
    offset: int = field(default_factory=lambda: random.Random(7).getrandbits(31))


class Line:
    """The uploads' packets leave by turns at the law's rate, as from CAKE, into a modem's queue."""

    def __init__(self, uploads):
        self.process = subprocess.Popen([fw.build("meter")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.uploads, self.now, self.due = uploads, START, float(START)
        self.free = START  # when the modem has sent all that stands in it
        self.coming: list = []
        self.order = itertools.count()
        self.rate = 1e10
        self.ticks: list[tuple[float, float, float, float]] = []  # s, rate, true queue in ms, and as it is measured
        self.process.stdin.write(b"B" + bytes(8))

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def _packet(self, leaves, at, segment, hosts):
        self.process.stdin.write(fw.record(leaves, at, fw.frame(fw.ip(*hosts, segment)), {}))

    def _flood(self, upload, at):
        segment, upload.next = (
            fw.tcp(upload.port, 443, upload.next, 1, options=STAMPS, payload=bytes(SEG)),
            upload.next + SEG,
        )
        packet = fw.ip(fw.HOST, fw.SERVER, segment, protocol=17 if upload.udp else 6)
        self.process.stdin.write(fw.record(True, at, fw.frame(packet), {}))
        if self.free - at <= ROOM:
            self.free = max(self.free, at) + int(8e6 * WIRE / RATE)

    def _leave(self, upload, at):
        if upload.floods is not None:
            self._flood(upload, at)
            return
        copy = upload.again(at) and upload.next > 1
        again = upload.missing and upload.missing[0][0] <= at
        seq = upload.missing.pop(0)[1] if again else upload.next - SEG if copy else upload.next
        if seq == upload.next:
            upload.next += SEG
        segment = fw.tcp(upload.port, 443, seq, 1, options=fw.stamps(at // 1000, 0), payload=bytes(SEG))
        self._packet(True, at, segment, (fw.HOST, fw.SERVER))
        queue = max(self.free - at, 0)
        if queue > ROOM:
            upload.missing.append((at + queue + RTT, seq))
            if at > upload.calm:
                upload.window, upload.calm = max(upload.window / 2, 2), at + queue + RTT
            return
        self.free = max(self.free, at) + int(8e6 * WIRE / RATE)
        upload.arrived += 0 if copy else SEG
        upload.flight += 1
        came = self.free + RTT // 2
        back = came + upload.hold(came) + RTT // 2
        value = (upload.stamp(came + upload.hold(came), queue) + upload.offset * 1000) // 1000
        stamps = fw.stamps(value, at // 1000)
        ack = fw.tcp(443, upload.port, 1, seq + SEG, options=stamps)
        heapq.heappush(self.coming, (back, next(self.order), ack, upload))

    def run(self, seconds):
        for _ in range(round(seconds * 1e6 / TICK)):
            self.now += TICK
            while self.due < self.now or (self.coming and self.coming[0][0] < self.now):
                if self.coming and self.coming[0][0] <= self.due:
                    self._come(*heapq.heappop(self.coming))
                    continue
                ready = [u for u in self.uploads if u.flight < u.window and self.due >= START + (u.floods or 0)]
                if not ready:
                    self.due += 200
                    continue
                upload = min(ready, key=lambda u: u.turn)
                upload.turn = next(self.order)
                self._leave(upload, int(self.due))
                self._renew(upload)
                self.due += 8e6 * WIRE / min(self.rate, 4 * RATE)  # the hosts' link
            self.process.stdin.write(b"T" + struct.pack("<Q", self.now))
            self.process.stdin.flush()
            self.rate, _, queue = map(float, self.process.stdout.readline().split()[:3])
            self.ticks.append(((self.now - START) / 1e6, self.rate, max(self.free - self.now, 0) / 1e3, queue))
        return self

    def _come(self, at, _, ack, upload):
        self._packet(False, at, ack, (fw.SERVER, fw.HOST))
        upload.flight -= 1
        upload.window = min(upload.window + (1 if not upload.calm else 1 / upload.window), WINDOW / len(self.uploads))

    def _renew(self, upload):
        upload.sent += 1
        if upload.sent % upload.life == 0:
            upload.port, upload.next, upload.missing = 1024 + (upload.port + 64) % 60_000, 1, []


def mean(line, begin, end):
    values = [tick[1] for tick in line.ticks if begin <= tick[0] < end]
    return sum(values) / len(values)


def honest(count):
    return [Upload(2000 + k) for k in range(count)]


def used(uploads, seconds=25):
    """The shaper's mean rate over the modem's, and p95 of the modem's queue in ms."""
    line = Line(uploads).run(seconds)
    line.close()
    queues = sorted(tick[2] for tick in line.ticks if tick[0] >= 10)
    return mean(line, 10, seconds) / RATE, queues[int(0.95 * len(queues))]


def jump(by_us):
    """A far clock that jumps after 12 s."""
    return lambda came, queue: came + (by_us if came > START + 12 * 10**6 else 0)


def wild(came, queue):
    return came + CHANCE.randrange(50_000)


def test_the_rate_is_found_without_liars():
    rate, queue = used(honest(4))
    assert 0.97 < rate < 1.03 and queue < 15


@pytest.mark.parametrize(
    "liars, stamp, least",
    [(1, jump(40_000), 0.97), (1, wild, 0.97), (3, jump(40_000), 0.95), (3, wild, 0.95), (4, jump(40_000), 0.9)],
    ids=["a queue", "any queue", "three of four", "three with any", "all"],
)
def test_far_ends_that_tell_of_a_queue_do_not_pin_the_rate_low(liars, stamp, least):
    rate, queue = used([*honest(4 - liars), *(Upload(3000 + k, stamp=stamp) for k in range(liars))])
    assert least < rate < 1.03 and queue < 35


def test_clocks_that_jump_back_hide_no_queue():
    rate, queue = used([Upload(3000 + k, stamp=jump(-40_000)) for k in range(4)])
    assert 0.97 < rate < 1.03 and queue < 30


@pytest.mark.parametrize("pacing", [1, 4])
def test_far_ends_that_pace_their_acks_do_not_pin_the_rate_low(pacing):
    """Each 50 ms at once; the queue may be as long as the noise that this is."""
    every = [Upload(3000 + k, hold=lambda now: 50_000 - now % 50_000) for k in range(pacing)]
    assert 0.97 < used([*honest(4 - pacing), *every])[0] < 1.1


def test_more_connections_than_there_is_room_for():
    """The model's table has room for 256. If each new one took another's place no answer would find its packet."""
    rate, queue = used(honest(300), 15)
    assert 0.95 < rate < 1.05 and queue < 35


def test_connections_of_a_few_packets():
    assert 0.8 < used([Upload(2000 + k, life=5) for k in range(60)])[0] < 1.05


def test_a_host_that_sends_again_what_has_arrived_costs_the_others_less_than_its_share():
    """It looks like loss behind the modem, that no lower rate ends."""
    others = honest(3)
    rate, _ = used([*others, Upload(3000, again=lambda now: now // 7 % 2 > 0)])
    assert rate > 0.95
    assert all(other.arrived * 8 / 25 > 0.75 * RATE / 4 for other in others)


@pytest.mark.parametrize("udp", [False, True], ids=["TCP", "UDP"])
@pytest.mark.parametrize("begins", [0, 5_000_000])
def test_a_flood_that_nobody_answers_takes_its_share(begins, udp):
    """Also one from before the rate is found: few answers come then, and most of what is sent is lost."""
    others = honest(3)
    rate, queue = used([*others, Upload(3000, floods=begins, udp=udp)], 30)
    assert 0.95 < rate < 1.05 and queue < 35
    assert all(other.arrived * 8 / 30 > 0.75 * RATE / 4 for other in others)


def test_a_longer_path_is_known_to_a_connection_that_was_silent_then():
    """All far ends are 20 ms farther after 8 s; one connection rests meanwhile, and is alone at the end."""
    far = [Upload(2000 + k, hold=lambda now: 20_000 * (now > START + 8 * 10**6)) for k in range(5)]
    line = Line(far[:]).run(7)
    line.uploads[:] = far[:4]
    line.run(8)
    line.uploads[:] = far[4:]
    line.run(2)
    line.close()
    assert max(measured - true for s, _, true, measured in line.ticks if s > 15.5) < 10


def test_a_connection_that_begins_as_the_queue_falls_makes_none():
    """The last packet before its first one found 150 ms of queue, and it finds 70."""
    burst, late = Upload(2000), Upload(2001)
    line, queue = Line([burst, late]), 0.0
    leaves = [(k * 400, burst) for k in range(750)] + [(at, late) for at in (380_000, *range(10**6, 2 * 10**6, 20_000))]
    for at, upload in sorted(
        [*leaves, *((at, None) for at in range(TICK, 2 * 10**6, TICK))], key=lambda event: event[0]
    ):
        while line.coming and line.coming[0][0] <= START + at:
            line._come(*heapq.heappop(line.coming))
        if upload:
            line._leave(upload, START + at)
            continue
        line.process.stdin.write(b"T" + struct.pack("<Q", START + at))
        line.process.stdin.flush()
        queue = float(line.process.stdout.readline().split()[2])
    assert queue < 2
    line.close()
