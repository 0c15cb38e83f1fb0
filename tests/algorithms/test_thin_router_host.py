# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin --dev` on the host: what a router drops of forwarded ACKs, and what it never may."""

import itertools
import os
import random

import pytest

from tests.algorithms.host import forwarded as fw
from tests.algorithms.host.forwarded import ACK, ECE, FIN, HOST, HOST6, PSH, RST, SERVER, SERVER6, SYN

MS = 1000
SEG = 1000
RTT = 40 * MS
SCALE = 7
WSCALE = bytes([1, 3, 3, SCALE])
PORTS = itertools.count(1024)


@pytest.fixture(scope="module")
def router():
    router = fw.Router()
    yield router
    assert router.close() == 0


class Download:
    """Data that comes in order, and the host's ACK for each two packets. Times in us."""

    now = 10**9  # goes on from one to the next

    def __init__(self, router, hosts=(HOST, SERVER), wrap=fw.frame, gap=200, window=40000, rtt=RTT, seen=True, **tags):
        self.router, self.hosts, self.wrap, self.gap, self.window, self.tags = router, hosts, wrap, gap, window, tags
        self.port, self.next, self.seq, self.stamped = next(PORTS) % 60000, 5001, 1, b""
        Download.now += 3600 * 1000 * MS
        if not seen:
            return
        assert self.out(0, SYN, WSCALE, seq=0)
        Download.now += rtt
        self.data(SYN | ACK, WSCALE, seq=5000)

    def out(self, ack=None, flags=ACK, options=None, seq=None, payload=b"", window=None, **keys):
        """The host's segment leaves: does it pass?"""
        return self.router.leaves(
            Download.now, self.ack(ack, flags, options, seq, payload, window, **keys), **self.tags
        )

    def ack(self, ack=None, flags=ACK, options=None, seq=None, payload=b"", window=None, accurate=0, **ip):
        segment = fw.tcp(
            self.port, 80, self.seq if seq is None else seq, self.next if ack is None else ack, flags,
            self.window if window is None else window, self.stamped if options is None else options, payload, accurate,
        )  # fmt: skip
        return self.wrap(fw.ip(*self.hosts, segment, **ip))

    def data(self, flags=ACK, options=b"", payload=b"", seq=None, ack=None, **keys):
        segment = fw.tcp(
            80,
            self.port,
            self.next if seq is None else seq,
            self.seq if ack is None else ack,
            flags,
            500,
            options,
            payload,
        )
        packet = self.wrap(fw.ip(*self.hosts[::-1], segment))
        assert self.router.comes(Download.now, packet, **self.tags, **keys)

    def come(self, packets, gap=None, every=2, payload=SEG, **keys):
        """The number of each ACK, and whether it passes."""
        told = []
        for n in range(packets):
            Download.now += self.gap if gap is None else gap
            self.data(payload=bytes(payload), **keys)
            self.next += payload
            if n % every == every - 1:
                told.append((self.next, self.out()))
        return told

    def steady(self):
        """Past the start, and just behind an ACK that passed: the next one would be dropped."""
        self.come(2000)
        for _ in range(200):
            if self.come(2)[0][1] and not self.come(2)[0][1]:
                return self
        raise AssertionError("nothing is dropped")


def spacing(told):
    passed = [number for number, passes in told if passes]
    return {b - a for a, b in itertools.pairwise(passed)}


PLACES = {
    "Ethernet": fw.frame,
    "VLAN": lambda p: fw.frame(p, vlans=[7]),
    "QinQ": lambda p: fw.frame(p, vlans=[7, 8]),
    "PPPoE": lambda p: fw.frame(p, session=9),
    "PPPoE in a VLAN": lambda p: fw.frame(p, vlans=[7], session=9),
}


@pytest.mark.parametrize("hosts", [(HOST, SERVER), (HOST6, SERVER6)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("wrap", PLACES.values(), ids=PLACES.keys())
def test_as_at_the_host(router, wrap, hosts):
    """200 packets come in an RTT: an ACK covers 12.5 of them, and there is one for two. All of the first 64 kB pass."""
    router.begin()
    d = Download(router, hosts, wrap)
    told = d.come(2000)
    assert all(passes for number, passes in told if number < 5001 + 64 * 1024)
    assert spacing(told[-300:]) == {14 * SEG}


def test_where_packets_begin_with_ip(router):
    """PPP, tun and wwan: a parameter that the loader sets."""
    router.begin(ethernet=0)
    assert spacing(Download(router, wrap=lambda p: p).come(2000)[-300:]) == {14 * SEG}
    router.begin(ethernet=1)
    assert all(passes for _, passes in Download(router, wrap=lambda p: p).come(2000))


def test_a_rate_for_all(router):
    """100 kbit/s for three downloads that would have 780."""
    router.begin(reverse_kbit=100)
    downloads = [Download(router) for _ in range(3)]
    for d in downloads:
        d.come(100)
    for _ in range(4000):  # what the first ones took is worked off
        for d in downloads:
            d.come(2, gap=66)
    began, passed = Download.now, 0
    for _ in range(3000):
        passed += sum(d.come(2, gap=66)[0][1] for d in downloads)
    assert 0.9 < passed * 40 * 8 / ((Download.now - began) / 1e6) / 100e3 <= 1.01


def test_each_download_has_its_part_of_a_rate(router):
    """One has four times the data of each other, and so four times the ACKs. They need 1,300 kbit/s, and have 100."""
    router.begin(reverse_kbit=100)
    downloads = [Download(router) for _ in range(4)]
    for d in downloads:
        d.come(100)
    passed = dict.fromkeys(downloads, 0)
    for n in range(12000):
        if n == 8000:  # what the first ones took is worked off
            passed = dict.fromkeys(downloads, 0)
        for d in downloads[3:] if n % 4 else downloads:
            passed[d] += d.come(2, gap=66)[0][1]
    few, *_, most = sorted(passed.values())
    assert most < 1.25 * few and sum(passed.values()) > 200


def test_the_way_to_the_host_is_part_of_the_rtt(router):
    """20 ms before the router and 20 behind it: ACKs cover what they cover with 40 before it, and not half."""
    router.begin()
    d = Download(router, rtt=RTT // 2)
    for _ in range(2000):  # 100 packets are between the router and the host
        Download.now += 2 * d.gap
        for n in range(2):
            d.data(payload=bytes(SEG), seq=d.next + (100 + n) * SEG)
        d.next += 2 * SEG
        told = d.out()
    before = router.counters()["acks_sent"]
    for _ in range(700):
        Download.now += 2 * d.gap
        for n in range(2):
            d.data(payload=bytes(SEG), seq=d.next + (100 + n) * SEG)
        d.next += 2 * SEG
        told = d.out()
    assert router.counters()["acks_sent"] - before == 100, told  # one for 14 packets


def test_a_second_syn_tells_no_rtt(router):
    """Its answer may be one to the first."""
    router.begin()
    d = Download(router, seen=False)
    d.out(0, SYN, WSCALE, seq=0)
    Download.now += RTT
    d.out(0, SYN, WSCALE, seq=0)
    d.data(SYN | ACK, WSCALE, seq=5000)
    assert all(passes for _, passes in d.come(1000))


def test_a_connection_that_was_there_before(router):
    """Timestamps tell its RTT, and what comes tells that its window is scaled."""
    router.begin(waits_only=0)
    d = Download(router, seen=False, window=3000)  # 384 kB with the scale, which nobody told
    for _ in range(3000):
        Download.now += 400
        ms = Download.now // MS
        d.data(payload=bytes(SEG), options=fw.stamps(ms, ms - 40), seq=d.next + 200 * SEG)  # which are on their way
        d.next += 2 * SEG
        d.stamped = fw.stamps(ms, ms)
        d.out()
    assert router.counters()["acks_suppressed"] > 500


@pytest.mark.parametrize("keys", [
    {}, {"flags": ACK | ECE}, {"flags": ACK | FIN}, {"flags": ACK | RST}, {"flags": ACK | SYN}, {"flags": ACK | PSH},
    {"flags": 0}, {"accurate": 1}, {"payload": b"x"}, {"options": fw.sack(9000, 10000)},
    {"options": bytes.fromhex("fd06f0a30000") + bytes(2)}, {"options": bytes.fromhex("1e0c") + bytes(10)},  # MPTCP
    {"seq": 0},  # a keepalive
    {"tos": 3},  # marked on its way
    {"fragment": 0x2000}, {"fragment": 0x0001}, {"options": b"", "ip_options": b"\x94\x04\x00\x00"}, {"protocol": 17},
    {"window": 100},
])  # fmt: skip
def test_what_has_news_passes(router, keys):
    """A plain one at the same place does not."""
    router.begin()
    d = Download(router).steady()
    Download.now += d.gap
    d.next += 2 * SEG
    if "ip_options" in keys:
        segment = fw.tcp(d.port, 80, d.seq, d.next, ACK, d.window)
        assert router.leaves(Download.now, fw.frame(fw.ip(*d.hosts, segment, options=keys["ip_options"])))
    else:
        assert d.out(**keys) == bool(keys)


def test_what_this_machine_sends_passes(router):
    router.begin()
    d = Download(router, own=1)
    assert all(passes for _, passes in d.come(2000))


def test_a_stranger_hides_no_end(router):
    """It knows the ports and the place, and not what the host has sent: the true end is still seen."""
    router.begin()
    d = Download(router).steady()
    for ack in (0, 2, 2**31):
        d.data(PSH | ACK, payload=bytes(SEG), ack=ack)
        d.come(100)
    d.steady()
    Download.now += d.gap
    d.data(PSH | ACK, payload=bytes(100))
    d.next += 100
    assert d.out()


def test_a_stranger_makes_no_entry(router):
    """65 connections would push the first one out of the model's map."""
    router.begin()
    d = Download(router).steady()
    for _ in range(200):
        other = Download(router, seen=False)
        other.data(SYN, WSCALE)
        other.data(ACK, payload=bytes(SEG))
    d.come(200)  # those after the pause
    assert not all(passes for _, passes in d.come(40))


def test_a_full_map_thins_less(router):
    """One of those that were pushed out begins anew: its first 64 kB pass."""
    router.begin()
    d = Download(router).steady()
    for _ in range(64):
        Download(router)
    assert all(passes for _, passes in d.come(60))


def test_a_fourth_block_is_told_where_no_timestamps_take_its_room(router):
    router.begin(reverse_kbit=100)
    d = Download(router).steady()
    hole = d.next

    def told(*edges):
        Download.now += d.gap
        return d.out(options=fw.sack(*(hole + e * SEG for e in edges)))

    while told(7, 8, 5, 6, 3, 4, 1, 2):
        pass
    for e in range(9, 99, 2):
        news = e, e + 1, e - 2, e - 1, e - 4, e - 3, e - 6, e - 5
        assert told(*news) and not told(*news)


def test_ece_that_ends_unanswered_tells_each_mark(router):
    """So DCTCP's receiver. The other answers until the sender has sent CWR."""
    router.begin()
    for answered, all_pass in ((fw.CWR, False), (0, True)):
        d = Download(router).steady()
        Download.now += d.gap
        d.next += SEG
        assert d.out(flags=ACK | ECE)
        Download.now += d.gap
        d.data(ACK | answered, payload=bytes(SEG))
        d.next += SEG
        assert d.out()
        assert all(passes for _, passes in d.come(60)[2:]) == all_pass


def test_two_networks_may_have_the_same_addresses(router):
    router.begin()
    one = Download(router, tag=1).steady()
    two = Download(router, tag=2)
    two.port = one.port
    assert all(passes for _, passes in two.come(60))


# --- any packet -----------------------------------------------------------------------------------------------------


OPTIONS = [
    *[b"", b"", b"", fw.stamps(1, 2), fw.sack(1, 2), fw.sack(5, 6, 1, 9)],  # the first six come first
    *[bytes(4), b"\x01" * 4, b"\x02\x04\x05\xb4", b"\x03\x03\x07\x00", b"\x1e\x08" + bytes(6)],
    *[b"\xac\x0b" + bytes(9) + b"\x01", b"\x13\x12" + bytes(16) + b"\x01\x01", b"\x22\x0a" + bytes(8) + b"\x01\x01"],
    *[
        b"\xfe\x05\x00\xac\x08\x00\x00\x00",
        b"\x08\x0a" + bytes(8) + b"\x01\x01",
        b"\x05\xff\x00\x00",
        b"\x05\x00\x00\x00",
    ],
]


def mutated(rng, d, leaves):
    """A packet of the connection, with one to three things changed."""
    segment = fw.tcp(
        *((d.port, 80) if leaves else (80, d.port)),
        d.seq + rng.choice((0, 0, 0, -1, 1, SEG)) if leaves else d.next + rng.choice((0, 0, SEG, -SEG, 10**6)),
        d.next + rng.choice((0, 0, 0, 2 * SEG, -SEG, 10**9)) if leaves else d.seq + rng.choice((0, 0, 1, -1)),
        ACK | rng.choice((0, 0, 0, 0, rng.randrange(256))),
        rng.choice((d.window, d.window, 0, rng.randrange(65536))),
        rng.choice(OPTIONS) + rng.choice(OPTIONS[:6]),
        bytes(rng.choice((0, 0, 0, 0, 1, 20 if leaves else SEG))),
        rng.choice((0, 0, 0, rng.randrange(16))),
    )
    if rng.random() < 0.05:
        segment = segment[:12] + bytes([rng.randrange(256)]) + segment[13:]
    extra = {"tos": rng.choice((0, 0, 1, 3))}
    hosts = d.hosts if leaves else d.hosts[::-1]
    if d.hosts[0] == HOST:
        extra["fragment"] = rng.choice((0x4000, 0x4000, 0x4000, 0, 0x2000, rng.randrange(65536)))
        extra["options"] = rng.choice((b"", b"", b"", b"\x94\x04\x00\x00"))
    packet = bytearray(d.wrap(fw.ip(*hosts, segment, protocol=rng.choice((6, 6, 6, 6, 17, 0, 44)), **extra)))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        packet[rng.randrange(len(packet))] = rng.randrange(256)
    if rng.random() < 0.1:
        del packet[rng.randrange(len(packet)) :]
    if rng.random() < 0.1:
        packet += bytes(rng.randrange(20))
    return bytes(packet)


def play(router, seed, count):
    """`count` packets: a download with forged ones between. How many were dropped."""
    rng = random.Random(seed)
    router.begin(reverse_kbit=rng.choice((50, 100, 300)), max_packets=rng.choice((16, 256)))
    dropped = sent = 0
    while sent < count:
        wrap = rng.choice(list(PLACES.values()))
        d = Download(router, rng.choice(((HOST, SERVER), (HOST6, SERVER6))), wrap)
        d.stamped = rng.choice((b"", fw.stamps(1000, 7)))
        records = []
        for n in range(4000):
            Download.now += 100
            forged = n > 400 and rng.random() < 0.3
            leaves = n % 3 == 2 if not forged else rng.random() < 0.7
            if forged:
                packet = mutated(rng, d, leaves)
            elif leaves:
                packet = d.ack()
            else:
                packet = d.wrap(fw.ip(*d.hosts[::-1], fw.tcp(80, d.port, d.next, d.seq, payload=bytes(SEG))))
                d.next += SEG
            records.append((leaves, Download.now, packet, {}))
        for passed, (leaves, _, packet, _) in zip(router.packets(records), records, strict=True):
            if not passed:
                dropped += 1
                assert leaves and fw.is_plain_ack(packet), (seed, packet.hex())
        sent += len(records)
    return dropped


@pytest.mark.parametrize("hosts", [(HOST, SERVER), (HOST6, SERVER6)], ids=["IPv4", "IPv6"])
def test_a_length_of_nothing_is_that_of_large_packets_alone(router, hosts):
    """It was taken for an ACK, and dropped."""
    router.begin()
    d = Download(router, hosts).steady()
    Download.now += d.gap
    d.data(payload=bytes(SEG))
    d.next += SEG
    packet = bytearray(d.ack())
    packet[16:18] = packet[18:20] = bytes(2)  # of IPv4 the first, with the identification, of IPv6 the second
    assert router.leaves(Download.now, bytes(packet))
    assert not d.out()


@pytest.mark.parametrize("fill, passes", [(0, False), (1, False), (0x13, True)])
def test_what_fills_the_word_behind_the_counters(router, fill, passes):
    """An option that begins in that byte was dropped."""
    router.begin()
    d = Download(router)
    d.stamped = b"\xac\x0b" + bytes(9) + bytes([1])
    d.steady()
    Download.now += d.gap
    d.data(payload=bytes(SEG))
    d.next += SEG
    assert d.out(options=d.stamped[:-1] + bytes([fill])) == passes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_only_plain_acks_are_dropped(router, seed):
    """FORWARDED packets in all [10^6], judged by a model of its own."""
    count = int(os.environ.get("FORWARDED", 10**6)) // 8
    assert play(router, seed, count) > count // 100
