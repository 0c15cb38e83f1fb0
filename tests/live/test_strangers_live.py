# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa and ACC+SA on this machine's own kernel against those who are no kernel: third parties off the path, and
peers that lie. IPv4 and IPv6."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import time

import pytest

from tests.live import pairs
from tests.live.ends import stream
from tests.live.exchanges import connections, counted, sockets_in_storage
from tests.live.harness import asymcc, endpoint, needs_cgroup2, program
from tests.live.harness import pytestmark as live
from tests.live.peers.raw import ACK, CE, CWR, ECE, PSH, SYN
from tests.live.rawtcp import Peer, Port, Segment, watching

pytestmark = [*live, needs_cgroup2]

V4, V6 = (
    ("10.9.0.1", "10.9.0.2", "10.9.0.7"),
    ("fd09::1", "fd09::2", "fd09::7"),
)  # client, server, and an address that no kernel has
PORT = 7300
STEP = 30_000  # less than the smallest window
MANY = 3000  # segments of each kind
BYTES = 300_000
HELLO = {"formosa": bytes.fromhex("fd04f0a0"), "accsa": bytes.fromhex("fd04f0a3")}
DATA = {"formosa": bytes.fromhex("fd0cf0a1a001027100000000"), "accsa": bytes.fromhex("fd0cf0a48001001000000000")}
ANSWER = bytes.fromhex("fd08f0a2")
BEFORE = bytes.fromhex("020405b401010402")  # MSS, and SACK permitted


def asleep(pair):
    """No queue overflows. Both hosts forward nothing, and their segments have no timestamps, which a stranger would
    have to guess, too."""
    for ns, dev in ((pair.client, pair.dev_c), (pair.server, pair.dev_s)):
        pair.sh(ns, *f"tc qdisc change dev {dev} root tbf rate 50mbit burst 10000 limit 3000000".split())
        pair.sh(
            ns, "sysctl", "-qw", "net.ipv4.tcp_timestamps=0", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0"
        )


@pytest.fixture(params=["formosa", "accsa"])
def both(request, alias, joined, pair):
    """The object, and its registered name, with both halves in place."""
    name = alias()
    asymcc("load", request.param, "--as", name, "--cgroup", joined)
    asleep(pair)
    return request.param, name


@pytest.fixture
def formosa(loaded, joined, pair):
    name = loaded("formosa", "--cgroup", joined)
    asleep(pair)
    return name


def listening(pair, n: int = BYTES, address: str = V4[1], **options):
    return pairs.listening(pair, address, PORT, "digest", n=n, **options)


def connecting(pair, role: str, cc: str, address: str, **options):
    argv = endpoint(role, pair.client, address=address, port=PORT, n=BYTES, cc=cc, **options)
    return program(*argv)


def says(process, word: str) -> str:
    line = process.stdout.readline()
    assert line.startswith(word), line + process.stderr.read()
    return line


@contextlib.contextmanager
def quiet(pair, cc: str, ends, at_server: Port, at_client: Port):
    """A connection whose ends have said hello and then nothing: a segment of either side that is right, and its
    client."""
    client, server, _ = ends
    with listening(pair, address=server), connecting(pair, "send", cc, server, wait="before", stay=1) as c:
        port = int(says(c, "open").split()[1])
        syn = at_server.receive(5, sport=port)
        synack = at_client.receive(5, dport=port)
        yield (
            Segment(client, server, port, PORT, syn.end, synack.end),
            Segment(server, client, PORT, port, synack.end, syn.end),
            c,
        )


def but(segment: Segment, **keys) -> Segment:
    return Segment(**(segment.__dict__ | keys))


def forged(right: Segment, n: int = MANY):
    """By one who knows the ends: with any number, with the right place, with the right ACK. All places, in steps, are
    around the right one."""
    rnd = random.Random(1)
    for i in range(n):
        yield but(right, seq=right.seq + (i - n // 2) * STEP, ack=rnd.getrandbits(32))
    for _ in range(n):
        yield but(right, ack=right.ack + rnd.randrange(1 << 20, 2**32 - (1 << 20)))
    for _ in range(n):
        yield but(right, seq=right.seq + rnd.randrange(1 << 24, 2**32 - (1 << 24)))


def taken_in(pair, ns: str) -> int:
    """Segments that have come to TCP there."""
    names, numbers = [
        line.split()[1:] for line in pair.sh(ns, "cat", "/proc/net/snmp").stdout.splitlines() if line.startswith("Tcp:")
    ]
    return int(numbers[names.index("InSegs")])


def throw(pair, port: Port, ns: str, segments) -> int:
    """Sends them; returns when all have come there."""
    before, n = taken_in(pair, ns), 0
    for segment in segments:
        port.send(segment)
        n += 1
    for _ in range(200):
        if taken_in(pair, ns) >= before + n:
            return n
        time.sleep(0.05)
    raise AssertionError(f"{taken_in(pair, ns) - before} of {n} have come")


@pytest.mark.parametrize("ends", [V4, V6], ids=["v4", "v6"])
def test_a_third_party_changes_nobodys_connection(ends, both, pair):
    """Data options to the receiver of an idle connection, answers and marked ACKs to its sender. With all numbers
    right they would be its peer's."""
    kind, cc = both
    with (
        watching(pair, pair.server) as at_server,
        watching(pair, pair.client) as at_client,
        quiet(pair, cc, ends, at_server, at_client) as (up, down, client),
    ):
        before, line = counted(cc), connections(pair, pair.server)
        assert before["peers"] == 2 and f" {cc} " not in line
        data = but(up, flags=ACK | PSH, options=DATA[kind], payload=stream(1))
        ack = but(down, options=ANSWER + b"\x15\x01\x00\x10" if kind == "formosa" else b"", ecn=CE)
        throw(pair, at_client, pair.server, forged(data))
        throw(pair, at_server, pair.client, forged(ack))
        assert counted(cc) == before and re.findall(r" cwnd:\d+ ", connections(pair, pair.server)) == re.findall(
            r" cwnd:\d+ ", line
        )
        assert f" {cc} " not in connections(pair, pair.server)
        throw(pair, at_server, pair.client, [ack])
        assert counted(cc)["answers_seen" if kind == "formosa" else "marks"] == 1
        throw(pair, at_client, pair.server, [data])
        assert counted(cc)["options_seen"] == 1 and f" {cc} " in connections(pair, pair.server)
        client.stdin.write("\n")
        client.stdin.flush()
        says(client, "right")


@pytest.mark.parametrize("cookies", [False, True], ids=["flood", "cookies"])
@pytest.mark.parametrize("ends", [V4, V6], ids=["v4", "v6"])
def test_syns_that_say_hello_take_no_memory(ends, cookies, both, pair, objects, tmp_path):
    """Storage is made when a handshake is complete; of a SYN cookie, which keeps no hello, not even then."""
    kind, cc = both
    _, server, stranger = ends
    pair.sh(
        pair.server,
        "sysctl",
        "-qw",
        f"net.ipv4.tcp_syncookies={2 if cookies else 0}",
        "net.ipv4.tcp_max_syn_backlog=16384",
        "net.core.somaxconn=16384",
    )
    neighbour(pair, pair.server, stranger)
    with (
        watching(pair, pair.client) as port,
        listening(pair, n=1000, address=server, backlog=16384),
        sockets_in_storage(cc, objects, tmp_path) as entries,
    ):
        flags = SYN | (ECE | CWR) * (kind == "accsa")
        flood = [
            Segment(
                stranger,
                server,
                1024 + i,
                PORT,
                i,
                flags=flags,
                options=BEFORE + HELLO[kind],
                ecn=2 * (kind == "accsa"),
            )
            for i in range(MANY)
        ]
        throw(pair, port, pair.server, flood)
        assert entries() == 0 and counted(cc)["peers"] == 0
        peer = Peer(port, (stranger, 999), (server, PORT))
        synack = peer.connect(BEFORE + HELLO[kind], flags=flags, ecn=2 * (kind == "accsa"))
        assert (synack.option(253, HELLO[kind][2:]) is not None) == (not cookies)
        peer.send(flags=ACK | PSH, options=DATA[kind], payload=stream(1000))
        peer.seq += 1000
        while peer.receive().ack != peer.seq:
            pass
        n = counted(cc)
        assert n["peers"] == n["options_seen"] == entries() == (not cookies)
        peer.reset()


def neighbour(pair, ns: str, stranger: str) -> None:
    """The stranger's cable is that of the other namespace."""
    dev, (other, theirs) = (
        (pair.dev_s, (pair.client, pair.dev_c)) if ns == pair.server else (pair.dev_c, (pair.server, pair.dev_s))
    )
    mac = json.loads(pair.sh(other, "ip", "-j", "link", "show", theirs).stdout)[0]["address"]
    pair.sh(ns, "ip", "neigh", "replace", stranger, "lladdr", mac, "dev", dev)


def answer(number: int, signal: int = 0) -> bytes:
    return ANSWER + bytes([0x10 | signal % 16, number, 0, 0])


def honest(peer, got):
    """An ACK of each segment."""
    yield {"ack": got.end}


def divided(peer, got):
    """Twenty ACKs of each segment, for a part of it each."""
    for i in range(1, 21):
        yield {"ack": got.seq + len(got.payload) * i // 20}


def optimistic(peer, got):
    """ACKs of data that has not come yet, and that has not even left."""
    for ahead in (40, 20, 10, 5, 3, 2, 1, 0):
        yield {"ack": got.end + ahead * len(got.payload)}


@pytest.mark.parametrize("liar", [honest, divided, optimistic])
@pytest.mark.parametrize("ends", [V4, V6], ids=["v4", "v6"])
def test_a_peer_that_acknowledges_too_much_gets_no_more_than_was_delivered(ends, liar, formosa, pair):
    """W is 1 at first, and grows by no more than a packet for each that has been delivered: two rounds of W are the
    window."""
    with hand_made_receiver(pair, formosa, ends) as (peer, client):
        while len(peer.data(peer.first)) < BYTES:
            got = peer.receive()
            assert got, "it stands still"
            if not got.payload:
                continue
            number = got.option(253, b"\xf0\xa1")
            for ack in liar(peer, got):
                peer.send(options=answer(number[1]) if number else b"", **ack)
        assert peer.data(peer.first) == stream(BYTES)
        info = pair.sh(pair.client, "ss", "-tinHO", "dport", "=", f":{PORT}").stdout
        cwnd, delivered = (int(re.search(rf" {what}:(\d+)", info)[1]) for what in ("cwnd", "delivered"))
        assert cwnd <= 2 * (delivered + 1) and counted(formosa)["options_sent"] > 10


@contextlib.contextmanager
def hand_made_receiver(pair, cc, ends, options=b"", hello=HELLO["formosa"]):
    """A Formosa sender's peer; `first`: the number of its first byte."""
    client, _, stranger = ends
    neighbour(pair, pair.client, stranger)
    with watching(pair, pair.server) as port, connecting(pair, "send_only", cc, stranger) as c:
        syn = port.receive(10, flags=SYN, dst=stranger)
        assert syn and syn.option(253, b"\xf0\xa0") is not None
        peer = Peer(port, (stranger, PORT), (client, syn.sport))
        peer.first = syn.end
        peer.accept(syn, BEFORE + options + hello)
        try:
            yield peer, c
        finally:
            peer.reset()


@pytest.mark.parametrize("ends", [V4, V6], ids=["v4", "v6"])
def test_a_peer_whose_clock_jumps(ends, formosa, pair):
    """No Formosa receiver; its timestamps go on by up to 2^31 with each ACK. The transfer is whole."""
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_timestamps=1")
    rnd, tsval = random.Random(1), 1

    def stamp(got):
        echo = got.option(8)
        return b"\x01\x01\x08\x0a" + (tsval % 2**32).to_bytes(4, "big") + (echo[:4] if echo else bytes(4))

    with hand_made_receiver(
        pair, formosa, ends, options=b"\x01\x01\x08\x0a" + bytes(3) + b"\x01" + bytes(4), hello=b""
    ) as (peer, _):
        while len(peer.data(peer.first)) < BYTES:
            got = peer.receive()
            assert got, "it stands still"
            if got.payload:
                tsval += rnd.choice((1, 1, 2**31 - 1, 2**31 - 1, rnd.getrandbits(31)))
                peer.send(ack=got.end, options=stamp(got))
        assert peer.data(peer.first) == stream(BYTES)
    n = counted(formosa)
    assert n["peers"] == n["options_sent"] == 0 and n["rounds"] > 5


@pytest.mark.parametrize("ends", [V4, V6], ids=["v4", "v6"])
def test_a_sender_that_asks_for_everything_gets_two_acks_a_segment(ends, both, pair):
    """Each segment is a probe, the first of its round and marked; then data that is here already. All of it arrives."""
    kind, cc = both
    _, server, stranger = ends
    neighbour(pair, pair.server, stranger)
    ecn = {"flags": SYN | ECE | CWR, "ecn": 2} if kind == "accsa" else {}
    with watching(pair, pair.client) as port, listening(pair, address=server):
        peer = Peer(port, (stranger, 999), (server, PORT))
        peer.connect(BEFORE + HELLO[kind], **ecn)
        data, acks, sent = stream(BYTES), 0, 0
        for at in range(0, BYTES, 1000):
            raw = bytearray(DATA[kind])
            raw[5] = sent % 256
            for place in (at, max(at - 1000, 0)):
                peer.send(flags=ACK, seq=peer.seq + place, options=bytes(raw), payload=data[place : place + 1000])
                sent += 1
            # A reader that gets no CPU closes the window: the next segment waits till there is room.
            while (got := peer.receive(10)) and (got.ack != (peer.seq + at + 1000) % 2**32 or got.window < 1000):
                acks += 1
            assert got, "no ACK"
            acks += 1
        while got := peer.receive(1):
            acks += 1
            if got.payload:
                break
        peer.seq += BYTES
        peer.reset()
        assert got and got.payload == hashlib.sha256(data).digest()
        assert acks <= 2 * sent + 10
