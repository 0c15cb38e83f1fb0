# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin` on the host: which ACKs of a download pass, and which never may be dropped."""

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.formosa import ACK, ECE, FIN, PSH, RST, SEG, SYN, ip_packet
from tests.algorithms.host.streams import MS

START = 64 * 1024
RTT = 40 * MS
STAMPS = b"\x01\x01\x08\x0a" + bytes(8)


def sack(*edges):
    return b"\x01\x01\x05" + bytes([2 + 4 * len(edges)]) + struct.pack(f">{len(edges)}I", *edges)


SACK = sack(0, 0)


class Download:
    """Packets that come in order, and the kernel's ACK after each `every` of them."""

    began = 0  # the last one: what all connections share goes on, so each begins a day later

    def __init__(self, driver, params=None, every=2, gap=200, version=4, rtt=RTT, window=1 << 24):
        """`gap`: us from packet to packet; `window`: bytes that the receiver offers."""
        self.driver, self.every, self.gap, self.version, self.window = driver, every, gap, version, window
        Download.began += 86_400_000 * MS
        self.now, self.next, self.unacked, self.stamped = Download.began, 1, 0, STAMPS
        driver.start(params, app=0, now=self.now)
        driver.poke(srtt_us=rtt << 3, rcv_mss=SEG, rcv_nxt=1, rcv_wup=1, rcv_wnd=window)

    def packet(self, number=None, flags=ACK, options=None, **keys):
        options = self.stamped if options is None else options
        return ip_packet(number or self.next, flags=flags, options=options, version=self.version, **keys)

    def lines(self, packet, **keys):
        """The kernel sends an ACK."""
        self.unacked = 0
        state = {"rcv_wup": self.next, "rcv_wnd": self.window, "bytes_received": self.next - 1} | keys
        return [line("poke", now=self.now, rcv_nxt=self.next, **state), line("egress", packet=packet)]

    def ack(self, bytes_received=None, **keys):
        """Does it pass?"""
        state = {} if bytes_received is None else {"bytes_received": bytes_received}
        return bool(self.driver.batch(self.lines(self.packet(**keys), **state))[1]["pass"])

    def come(self, packets, gap=None):
        """The number of each ACK, and whether it passes."""
        numbers, lines = [], []
        for _ in range(packets):
            self.now += self.gap if gap is None else gap
            self.next += SEG
            self.unacked += 1
            if self.unacked == self.every:
                numbers.append(self.next)
                lines += self.lines(self.packet())
        return [(number, bool(told["pass"])) for number, told in zip(numbers, self.driver.batch(lines)[1::2])]

    def steady(self):
        """Past the start, and in a stretch where ACKs are dropped."""
        self.come(2000)
        assert any(not self.come(self.every)[0][1] for _ in range(2000)), "nothing is dropped"
        return self

    @property
    def flow(self):
        return self.driver.state()["wire"]


def push_until(end):
    return ip_packet(1, flags=ACK | PSH, seq=end - 100, payload=bytes(100))


def jumbo(packet):
    """With the extension that a BIG TCP packet of IPv6 has."""
    return packet[:4] + bytes(2) + b"\x00" + packet[7:40] + b"\x06\x00\xc2\x04" + bytes(4) + packet[40:]


def spacing(told):
    passed = [number for number, passes in told if passes]
    return [b - a for a, b in zip(passed, passed[1:], strict=False)]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("options", [STAMPS, b""])
def test_one_in_so_many_passes_after_the_start(thin, version, options):
    d = Download(thin, version=version)
    d.stamped = options
    told = d.come(2000)
    assert all(passes for number, passes in told if number < START)
    # 200 packets come in an RTT: an ACK covers 12.5 of them, and the kernel sends one for two
    assert set(spacing(told[-300:])) == {14 * SEG}


def test_an_ack_covers_no_more_than_max_packets(thin):
    assert set(spacing(Download(thin, gap=20).come(6000)[-600:])) == {16 * SEG}
    assert set(spacing(Download(thin, {"max_packets": 8}, gap=20).come(6000)[-600:])) == {8 * SEG}


def test_a_slow_flow_is_not_thinned(thin):
    """Thirty packets in an RTT, and the kernel's fifteen ACKs."""
    assert all(passes for _, passes in Download(thin, gap=RTT // 30).come(500))
    assert all(passes for _, passes in Download(thin, rtt=0).come(1000)), "without an RTT"


def test_silence_is_short(thin):
    """A share of the RTT, or 20 ms."""
    d = Download(thin, {"acks_per_rtt": 2}, gap=MS, rtt=1000 * MS)
    told = d.come(3000)
    assert set(spacing(told[-100:])) == {16 * SEG}
    d = Download(thin, {"acks_per_rtt": 2, "max_packets": 256}, gap=MS, rtt=38 * MS)
    assert max(spacing(d.come(400)[-100:])) <= 22 * SEG


def test_off_at_once(thin):
    d = Download(thin).steady()
    thin.set(thins=0)
    assert all(passes for _, passes in d.come(100))


@pytest.mark.parametrize("keys", [
    {"flags": ACK | ECE}, {"flags": ACK | FIN}, {"flags": ACK | RST}, {"flags": ACK | SYN}, {"options": SACK},
    {"options": STAMPS + SACK}, {"options": bytes.fromhex("fd06f0a30000") + bytes(2)}, {"options": bytes(12)},
    {"seq": 0},  # a keepalive probe, before snd_una
])  # fmt: skip
def test_what_has_news_passes(thin, keys):
    d = Download(thin).steady()
    d.now += d.gap
    d.next += SEG
    assert d.ack(**keys)


def test_what_is_said_again_passes(thin):
    """A keepalive is answered, a segment is refused, the window grows."""
    d = Download(thin).steady()
    assert d.ack()
    d.steady()
    d.window += SEG
    assert d.ack()


def test_a_stall_halves_what_an_ack_covers(thin):
    """The sender sends what is here already: it waits for an ACK that was dropped."""
    d = Download(thin).steady()
    assert d.ack() and d.flow["stall.halvings"] == 1
    assert thin.state()["counters"]["stalls"] == 1
    assert all(passes for _, passes in d.come(60))
    d.come(400)
    assert set(spacing(d.come(400))) == {8 * SEG}


def test_a_minute_without_a_stall_takes_a_halving_back(thin):
    d = Download(thin).steady()
    assert d.ack() and d.flow["stall.halvings"] == 1
    d.now += 59_000 * MS
    d.come(2)
    assert d.flow["stall.halvings"] == 1
    d.now += 2_000 * MS
    d.come(2)
    assert d.flow["stall.halvings"] == 0


def test_numbers_wrap(thin):
    """Three times 2^31 bytes after the start: nothing begins anew."""
    d = Download(thin).steady()
    for _ in range(6):
        thin.poke(snd_una=1)
        d.next += 2**30
        d.ack(bytes_received=2**33)
        told = d.come(600)
        assert not all(passes for _, passes in told[-100:])


def test_a_burst_of_full_segments_is_no_end(thin):
    """Linux ends each burst of TSO with PSH: here each tenth of an RTT."""
    d = Download(thin).steady()
    for _ in range(20):
        thin.ingress(packet=ip_packet(1, flags=ACK | PSH, seq=d.next, payload=bytes(SEG)))
        d.come(20)
    assert not d.flow["tail.due"]


def test_a_full_segment_is_an_end_if_no_other_had_push_for_a_while(thin):
    """The same, of a reply that is no longer than what comes in an RTT."""
    d = Download(thin).steady()
    for gap, seen in ((0, True), (0, False), (RTT // 2, False), (2 * RTT, True)):
        d.now += gap
        thin.poke(now=d.now)
        thin.ingress(packet=ip_packet(1, flags=ACK | PSH, seq=d.next, payload=bytes(SEG)))
        assert d.flow["tail.due"] == seen
        d.come(4)


@pytest.mark.parametrize("params", [{}, {"reverse_kbit": 40}])
@pytest.mark.parametrize("payload", [0, 100, SEG])
@pytest.mark.parametrize("version", [4, 6])
def test_the_ack_of_a_fin_passes(thin, params, payload, version):
    """Its sender repeats it after a timeout, and nothing else follows."""
    d = Download(thin, params, version=version).steady()
    thin.ingress(packet=ip_packet(1, flags=ACK | FIN, seq=d.next, payload=bytes(payload), version=version))
    d.next += payload + 1
    assert d.ack() and not d.flow["tail.due"]


def test_the_end_within_a_big_packet_is_seen(thin):
    d = Download(thin, version=6).steady()
    end = ip_packet(1, flags=ACK | PSH, seq=d.next, payload=bytes(100), version=6)
    for packet, seen in ((jumbo(end)[:40] + b"\x3a" + jumbo(end)[41:], False), (jumbo(end), True)):
        thin.ingress(packet=packet)
        assert d.flow["tail.due"] == seen


def test_a_window_that_shrinks_is_told(thin):
    """Else the sender fills room that is no more."""
    d = Download(thin).steady()
    d.window -= 100 * SEG
    assert d.come(2) == [(d.next, True)]
    assert not all(passes for _, passes in d.come(20))


def test_dctcp_hears_what_was_marked(thin):
    """Its ACK before a change of CE looks like any other: what is dropped of it would count with what follows."""
    d = Download(thin).steady()
    for ecn_flags, ca_flags, all_pass in ((0, 2, False), (1, 1, False), (1, 2, True)):
        thin.poke(ecn_flags=ecn_flags, ca_flags=ca_flags)
        assert all(passes for _, passes in d.come(40)) == all_pass


def test_an_rtt_is_timed_by_timestamps(thin):
    """An ACK with the time 1000, and the first data that answers it; what answers older ones tells nothing."""
    d = Download(thin, rtt=10 * MS)
    d.stamped = STAMPS[:4] + struct.pack(">II", 1000, 0)
    d.come(2000)
    for tsecr, passed in ((999, 0), (1000, 30 * MS)):
        thin.poke(now=d.now + 30 * MS)
        options = STAMPS[:4] + struct.pack(">II", 7, tsecr)
        thin.ingress(packet=ip_packet(1, options=options, seq=d.next, payload=bytes(100)))
        assert (d.flow["rtt.smooth_ns"] >= passed * 1000) and (not passed) == (d.flow["rtt.smooth_ns"] == 0)


def test_an_idle_sender_tells_no_rtt(thin):
    d = Download(thin, rtt=10 * MS)
    d.stamped = STAMPS[:4] + struct.pack(">II", 1000, 0)
    d.come(2000)
    thin.poke(now=d.now + 3000 * MS)
    options = STAMPS[:4] + struct.pack(">II", 7, 1000)
    thin.ingress(packet=ip_packet(1, options=options, seq=d.next, payload=bytes(100)))
    assert d.flow["rtt.smooth_ns"] == 0 and d.flow["rtt.stamp_ns"] == 0


def test_the_sender_knows_half_of_the_window(thin):
    """Twenty packets are offered: no ACK that tells of ten more is dropped."""
    d = Download(thin, {"max_packets": 256, "acks_per_rtt": 2}, gap=100, window=20 * SEG)
    assert max(spacing(d.come(3000)[-300:])) <= 12 * SEG


def test_a_reverse_rate_with_room_for_all(thin):
    """Fifty packets in 10 ms, 25 ACKs of 52 bytes: 1.04 Mbit/s."""
    assert all(passes for _, passes in Download(thin, {"reverse_kbit": 1100}).come(2000))


@pytest.mark.parametrize(("params", "taken"), [
    ({}, 52), ({"overhead": 18}, 70), ({"overhead": -4}, 48), ({"overhead": -64}, 0), ({"mpu": 64}, 64),
    ({"overhead": 18, "mpu": 64}, 70), ({"atm": 1}, 106), ({"atm": 1, "overhead": -4}, 53),
    ({"atm": 1, "overhead": 44, "mpu": 64}, 106), ({"atm": 1, "overhead": 45}, 159), ({"atm": 1, "mpu": 97}, 159),
])  # fmt: skip
def test_the_reverse_rate_is_of_what_an_ack_takes_on_the_link(thin, params, taken):
    """CAKE counts so: `overhead`, then `mpu`, then cells. A part of the rate is left: so what waits at the bottleneck
    drains."""
    told = Download(thin, {"reverse_kbit": 100, "least_per_rtt": 1} | params).come(20_000)
    sent = sum(passes for _, passes in told[-5000:])
    share = sent * taken * 8 / (5000 * 2 * 200e-6) / 100e3
    assert 0.9 < share <= (1.01 if params else 0.96) if taken else sent == 5000


def test_a_burst_of_acks_may_wait_for_a_quarter_of_an_rtt(thin):
    """One takes 4.2 ms at 100 kbit/s. Behind 10 ms of them none is let in."""
    d = Download(thin, {"reverse_kbit": 100}).steady()
    d.now += 15 * MS  # none waits
    assert [passes for _, passes in d.come(12, gap=10)] == [True] * 3 + [False] * 3


def test_a_reverse_rate_without_room_for_the_least_is_given_up(thin):
    """Half of what they need: many connections, or a wrong rate. All pass until it fits again, and a counter tells."""
    d = Download(thin, {"reverse_kbit": 10, "least_per_rtt": 2})
    d.come(20_000)
    before = thin.state()["counters"]["acks_over"]
    told = d.come(1000)
    assert all(passes for _, passes in told) and thin.state()["counters"]["acks_over"] > before + 400
    thin.set(reverse_kbit=100)
    d.come(30_000)  # 6 s: what was needed is worked off
    before = thin.state()["counters"]["acks_over"]
    assert max(spacing(d.come(1000))) >= 4 * SEG and thin.state()["counters"]["acks_over"] == before


def test_a_gap_is_told_of_thrice_where_the_reverse_rate_is_small(thin):
    d = Download(thin, {"reverse_kbit": 100}).steady()
    told = [d.ack(number=d.next, **hole(d)) for _ in range(20)]
    assert told[:3] == [True] * 3 and not any(told[3:])
    assert d.ack(number=d.next, **hole(d, blocks=2, newest=5))
    assert d.ack(number=d.next, options=STAMPS + SACK)  # a duplicate came


def test_a_gap_is_told_of_with_each_new_block(thin):
    """Three blocks fit beside timestamps: a new one hides another for good, and the sender would send that again."""
    d = Download(thin, {"reverse_kbit": 100}).steady()
    d.now += 450 * MS  # nothing waits
    while d.ack(number=d.next, **hole(d, blocks=3, newest=5)):
        pass
    for newest in range(7, 99, 2):
        news = hole(d, blocks=3, newest=newest)
        assert d.ack(number=d.next, **news) and not d.ack(number=d.next, **news)


@pytest.mark.parametrize("stamps", [STAMPS, b""])
def test_a_duplicate_beyond_the_gap_is_told(thin, stamps):
    """Its block lies within the second one (RFC 2883)."""
    d = Download(thin, {"reverse_kbit": 100}).steady()

    def told(*edges):
        return d.ack(number=d.next, options=stamps + sack(*(d.next + edge * SEG for edge in edges)))

    for _ in range(20):
        told(1, 9, 11, 12)
    for duplicate in ((1, 2), (3, 4), (8, 9), (1, 9)):
        assert not told(1, 9, 11, 12) and not told(11, 12, 1, 9)
        assert told(*duplicate, 1, 9, 11, 12)


def test_a_gap_has_as_many_acks_as_passed_before(thin):
    """An ACK covers twelve packets before: then one in twelve passes, of those that each packet has."""
    d = Download(thin).steady()
    told = [d.come(1) or d.ack(**hole(d)) for _ in range(100)]
    assert told[:3] == [True] * 3 and sum(told[3:]) == 97 // 12
    d = Download(thin).steady()
    thin.ingress(packet=push_until(d.next + 200 * SEG))
    assert all(d.come(1) or d.ack(**hole(d)) for _ in range(20))  # the end of the data waits beyond the gap


def hole(d, blocks=1, newest=1):
    """An ACK in a gap reports so many blocks of a packet; the newest begins so many packets behind the gap."""
    edges = (d.next + (newest - 2 * block + end) * SEG for block in range(blocks) for end in (0, 1))
    return {"options": STAMPS + sack(*(edge % 2**32 for edge in edges))}


def test_a_gap_that_fills_leaves_the_queue_to_the_news(thin):
    """A packet each 0.8 ms repairs a gap of many holes. 25 kbit/s have room for two ACKs of 64 bytes in that time."""
    d = Download(thin, {"reverse_kbit": 25}, gap=800).steady()
    told, blocks = [], hole(d, blocks=3, newest=99)
    for _ in range(60):
        d.come(1)
        told.append(d.ack(**blocks))
    assert told[:3] == [True] * 3 and sum(told[3:]) <= 3
    d.come(1)
    assert d.ack()  # the gap is closed
    d.come(1)
    assert not d.ack()


def test_in_a_gap_a_sender_may_wait_for_each_ack(thin):
    """One that repairs packet by packet sends none before an ACK: so one passes after most of an RTT without one."""
    d = Download(thin, {"reverse_kbit": 100}).steady()
    for i in range(120):  # all are news, and have used up the rate for half a second
        assert d.ack(**hole(d, 1 + i % 2, newest=5))
    for later, passes in [(32, True), (20, False), (32, True)]:
        d.now += later * MS
        assert d.ack(**hole(d, 2, newest=5)) == passes


def test_a_pause_is_no_small_window(thin):
    """Four packets come in each of two RTTs after 200: the sender waits, and then sends its window at once."""
    d = Download(thin, {"reverse_kbit": 25}).steady()
    d.come(100)
    d.come(8, gap=10 * MS)
    assert min(spacing(d.come(200))[1:]) >= 25 * SEG


def test_after_a_pause_a_sender_begins_with_ten_packets(thin):
    d = Download(thin, {"reverse_kbit": 25}).steady()
    d.now += 500 * MS
    assert d.come(2)[0][1]
    assert set(spacing(d.come(40))) == {6 * SEG}


def test_a_window_that_doubles_keeps_the_train_of_acks(thin):
    """CUBIC's HyStart takes a gap of more than 2 ms for the end of a train: ten packets' time here."""
    d = Download(thin, gap=200, rtt=400 * MS)
    for packets in (500, 1000):
        d.come(packets)
        d.now += 400 * MS - packets * 200
    assert max(spacing(d.come(1900))) <= 10 * SEG
    d.come(4000)
    assert set(spacing(d.come(400))) == {16 * SEG}


@pytest.mark.parametrize("version", [4, 6])
def test_an_upload_of_this_machine_fills_the_uplink(thin, version):
    """An ACK of 52 bytes each 400 us, and data of 1000 bytes as often. Then no data, for seconds."""
    d = Download(thin, version=version).steady()
    upload = line("egress", packet=ip_packet(1, payload=bytes(1000), version=version))
    told = []
    for _ in range(200):
        thin.batch([line("poke", now=d.now), upload])
        told += d.come(2)
    before = thin.state()["counters"]["acks_beside"]
    assert all(passes for _, passes in told[100:]) and before > 100
    d.come(50_000)
    before = thin.state()["counters"]["acks_beside"]
    assert min(spacing(d.come(200))) > 2 * SEG and thin.state()["counters"]["acks_beside"] == before


def test_a_trickle_of_data_is_no_upload(thin):
    """48 bytes for four ACKs: requests, keys typed."""
    d = Download(thin).steady()
    upload = line("egress", packet=ip_packet(1, payload=bytes(8)))
    for _ in range(1000):
        thin.batch([line("poke", now=d.now), upload])
        d.come(8)
    assert thin.state()["counters"]["acks_beside"] == 0


def request(d, byte, kind=254, exid=0x00AC, before=STAMPS, seq=None, padding=3, ack=1):
    """A data segment with a TCP ACK Rate Request."""
    options = before + struct.pack(">BBHB", kind, 5, exid, byte) + bytes(padding)
    return ip_packet(ack, options=options, seq=d.next if seq is None else seq, payload=bytes(SEG))


@pytest.mark.parametrize("params", [{"waits_only": 0}, {"reverse_kbit": 40}])
def test_an_ack_covers_no_more_than_the_sender_asks_for(thin, params):
    """draft-ietf-tcpm-ack-rate-request: R above the lowest bit."""
    d = Download(thin, params).steady()
    thin.ingress(packet=request(d, 4 << 1 | 1))
    assert d.flow["asked"] == 4
    assert set(spacing(d.come(100)[10:])) == {4 * SEG}
    thin.ingress(packet=request(d, 127 << 1))
    assert max(spacing(d.come(400))) == (100 if "reverse_kbit" in params else 14) * SEG  # ours is less


def test_a_sender_asks_for_an_ack_at_once(thin):
    d = Download(thin, {"waits_only": 0}).steady()
    thin.ingress(packet=request(d, 0))
    assert d.come(2)[0][1] and not d.come(2)[0][1]


@pytest.mark.parametrize("keys", [
    {"kind": 253}, {"exid": 0x00AD},
    {"before": b"\xfd\x00"},  # an option of no length: what follows is none
    {"before": b"\x00" + bytes(3)},  # behind the end of the options
    {"before": b"\x01" * 16},
    {"before": STAMPS + b"\xfd\x14" + bytes(18), "padding": 0},  # the last byte lies behind the header
])  # fmt: skip
def test_what_is_no_request_is_none(thin, keys):
    d = Download(thin).steady()
    packet = bytearray(request(d, 2, **keys))
    if keys.get("padding") == 0:
        packet = packet[: len(packet) - SEG]
        packet[32] = 14 << 4
    thin.ingress(packet=bytes(packet))
    assert d.flow["asked"] == 0


@pytest.mark.parametrize(("params", "least"), [({}, 8), ({"reverse_kbit": 40}, 3), ({"reverse_kbit": 25}, 3)])
def test_the_end_of_a_reply_passes(thin, params, least):
    """14,000 bytes after a pause: fourteen full segments and one of 560 bytes, an ACK for two, and one for the last."""
    d = Download(thin, params, gap=1200).steady()
    d.now += 500 * MS
    told = d.come(14)
    d.now += d.gap
    thin.poke(now=d.now, rcv_nxt=d.next)
    thin.ingress(packet=ip_packet(1, flags=ACK | PSH, seq=d.next, payload=bytes(560)))
    d.next += 560
    assert d.ack()
    assert told[0][1] and 1 + sum(passes for _, passes in told) >= least


@pytest.mark.parametrize("params", [{}, {"reverse_kbit": 40}])
def test_each_ack_passes_for_one_reason(thin, params):
    d = Download(thin, params).steady()
    for keys in ({}, {"flags": ACK | ECE}, {"options": STAMPS + SACK}, {"seq": 0}, hole(d, newest=99), {}):
        d.come(11)
        d.ack(**keys)
    d.come(2, gap=600 * MS)
    d.come(6000)
    counted = thin.state()["counters"]
    reasons = [n for name, n in counted.items() if name.startswith("sent_") or name in ("acks_over", "acks_beside")]
    assert sum(reasons) == counted["acks_sent"]
    names = {"ecn", "option", "again", "sack", "silence", "share"} | ({"room"} if params else {"start"})
    assert [name for name in names if not counted[f"sent_{name}"]] == []


def test_what_is_no_download_is_left_alone(thin):
    d = Download(thin)
    for packet in (b"", bytes(40), ip_packet(1)[:9] + b"\x11" + ip_packet(1)[10:]):
        assert thin.egress(packet=packet)["pass"] == 1
        assert thin.ingress(packet=packet)["pass"] == 1
    d.steady()
    assert thin.egress(packet=ip_packet(d.next + SEG), owned=0)["pass"] == 1
    raw, mptcp = {"type": 3}, {"protocol": 262}  # the first also sends the kernel's ACKs for TIME_WAIT
    for socket in (raw, mptcp):
        d.steady()
        thin.poke(now=d.now + d.gap, rcv_nxt=d.next)
        thin.ingress(packet=push_until(d.next + 100), **socket)
        assert not d.flow["tail.due"]
        assert thin.egress(packet=ip_packet(d.next + SEG, options=STAMPS), **socket)["pass"] == 1
    thin.poke(fails=1, exists=0)
    assert d.come(2)[0][1]


@pytest.mark.slow
@settings(max_examples=300)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from([1, 20, 200, MS, 30 * MS, 3000 * MS])), min_size=1, max_size=12
    ),
    params=st.fixed_dictionaries(
        {},
        optional={
            "reverse_kbit": st.sampled_from([0, 1, 100, 10_000_000]),
            "max_packets": st.integers(2, 256),
            "acks_per_rtt": st.integers(2, 1000),
            "least_per_rtt": st.integers(1, 1000),
        },
    ),
    rtt=st.sampled_from([0, 1, 100, RTT, 2**28]),
    first=st.sampled_from([1, 2**32 - 100 * SEG]),
)
def test_nothing_is_covered_beyond_the_bounds(thin, steps, params, rtt, first):
    """However data comes, an ACK covers at most its share: of max_packets, or of what came in an RTT."""
    d = Download(thin, params, rtt=rtt)
    for packets, gap in steps:
        told = d.come(packets, gap)
        most = 2**23 // SEG if params.get("reverse_kbit") else params.get("max_packets", 16)  # half of the window
        for covered in spacing(told):
            assert covered <= max(most + 2, 2) * SEG


@pytest.mark.slow
@settings(max_examples=50)
@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.integers(1, 300), st.integers(1, 3), st.sampled_from([20, 200, MS, 30 * MS])),
        min_size=1,
        max_size=12,
    ),
    params=st.fixed_dictionaries(
        {"acks_per_rtt": st.integers(2, 1000), "max_packets": st.integers(2, 256)},
        optional={"reverse_kbit": st.sampled_from([1, 100, 10_000_000]), "least_per_rtt": st.integers(1, 1000)},
    ),
    rtt=st.sampled_from([0, 1, RTT, 3000 * MS, 2**28]),
)
@example(
    steps=[(False, 300, 1, MS)] * 11 + [(True, 300, 1, 30 * MS)],
    params={"acks_per_rtt": 2, "max_packets": 256},
    rtt=3000 * MS,
)
def test_no_peer_silences_the_acks(thin, steps, params, rtt):
    """It leaves gaps, closes them, speeds up and slows down: after half a second an ACK passes with the next packet."""
    d = Download(thin, params, rtt=rtt)
    heard = d.now
    for gap, packets, blocks, apart in steps:
        for _ in range(packets):
            if gap:
                d.now += apart
                passes = d.ack(number=d.next, **hole(d, blocks, newest=5))
            else:
                passes = any(passes for _, passes in d.come(2, apart))
            assert passes or d.now - heard <= 500 * MS + 2 * apart
            heard = d.now if passes else heard
