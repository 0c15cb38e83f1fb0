# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACC+SA's own source, compiled for the host with sanitizers: the sender against its law, its options, and a peer
that lies."""

import pytest

from tests.algorithms.host.accsa import HELLO, NEEDS_ECN, SENDER, T, at_w, fields_of_data
from tests.algorithms.host.formosa import ACK, CALL, COOKIE, CURRENT_MSS, FIN, SEG, SYN, WRITE, ip_packet  # fmt: skip
from tests.algorithms.host.streams import MS

NOT_ECT, ECT1, ECT0, CE = range(4)


# --- sender's law -----------------------------------------------------------------------------


def test_slow_start_adds_what_is_acknowledged_and_ends_at_ssthresh(accsa):
    at_w(accsa, 10, 35)
    assert [accsa.ack(n=n, rtt=40 * MS)["cwnd"] for n in (10, 1, 7, 10)] == [20, 21, 28, 35]
    assert accsa.state()["ca"]["count"] == 3, "what is left of the ACK counts as Reno's"


@pytest.mark.parametrize("n", [1, 5, 20])
def test_growth_is_by_packets_not_by_acks(accsa, n):
    """One packet a window, however the ACKs are cut; duplicates add none."""
    at_w(accsa, 20)
    for left in range(20, n, -n):
        assert accsa.ack(n=n, rtt=40 * MS)["cwnd"] == 20, left
    assert accsa.ack(n=n, rtt=40 * MS)["cwnd"] == 21
    accsa.ack(n=0, sack=1, rtt=40 * MS)
    assert accsa.state()["ca"]["count"] == 0


def test_losses_are_renos(accsa):
    at_w(accsa, 40)
    assert accsa.loss(n=1, sack=3)["cwnd"] == 36 + 1, "what is in flight, and the first repair at once"
    assert [accsa.ack(n=0, sack=1)["cwnd"] for _ in range(30)][-1] == accsa.state()["tp"]["snd_ssthresh"] == 20
    assert accsa.undo()["cwnd"] == 40
    assert accsa.rto()["cwnd"] == 1
    assert [accsa.ack(n=n)["cwnd"] for n in (1, 2)] == [2, 4]


@pytest.mark.parametrize("params, percent", [({}, 125), ({"pace_percent": 100}, 100)])
def test_paced_by_a_window_an_rtt(accsa, params, percent):
    """Not by the MSS of a route that goes: the kernel's blackhole_netdev has an MTU of 68."""
    at_w(accsa, 100, params=params)
    for rtt, mss, paced in (
        (50, 960, 50), (90, 960, 55), (55, 36, 55), (55, 576, 55 * 960 / 576),
    ):  # fmt: skip
        accsa.poke(mss_cache=mss)
        accsa.ack(n=4, rtt=rtt * MS)
        assert accsa.state()["tp"]["pacing_rate"] == int(960 * percent * MS / paced)


@pytest.mark.parametrize(
    "keys",
    [{}, {"ecn_flags": 1}, {"synack": HELLO}, {"synack": b"", "ecn_flags": 1}, {"syn": HELLO}, SENDER | {"fails": 1}],
)
def test_without_the_peer_or_ecn_it_goes_on_as_reno(accsa, keys):
    assert accsa.start(**keys)["controller"] == "reno"
    assert accsa.state()["counters"]["fallbacks"] == 1
    assert "controller" not in accsa.start(**SENDER)


# --- what a sender writes, and sees -----------------------------------------------------------


def test_hello(accsa):
    """A socket with this controller says it: in two SYNs, and in the answer to one."""

    def hello(**keys):
        return accsa.write(flags=SYN, **keys)["options"]

    def answer(syn, **keys):
        accsa.start(other=1)
        accsa.call(op=CALL["listen"])
        return accsa.write(flags=SYN | ACK, full=0, syn=syn, **keys)["options"]

    for other in (0, 1):
        accsa.start()
        accsa.poke(other=other)
        accsa.call(op=CALL["connect"])
        accsa.call(op=CALL["syn"])
        assert accsa.state()["tp"]["cb_flags"] == (0 if other else WRITE)
        accsa.poke(cb_flags=WRITE)
        assert hello() == ("" if other else HELLO.hex())
    accsa.poke(other=0, icsk_retransmits=1)
    assert hello() == HELLO.hex()
    accsa.poke(icsk_retransmits=2)
    assert hello() == ""
    assert answer(HELLO) == HELLO.hex()
    assert answer(b"") == answer(bytes.fromhex("fd04f0a0")) == answer(HELLO, mode=COOKIE) == ""
    accsa.start(**SENDER, other=1)
    assert accsa.state()["tp"]["exists"] == 0, "an answer to what was not said"


@pytest.mark.parametrize("version", [4, 6])
def test_only_syns_that_say_hello_may_have_ecn_whatever_tcp_ecn_says(accsa, version):
    def reply(options, flags=SYN | 0xC0, port=80, full=0):
        accsa.ingress(packet=ip_packet(0, flags=flags, options=options + bytes(-len(options) % 4), version=version))
        return accsa.call(op=NEEDS_ECN, full=full, remote_port=port)["reply"]

    accsa.start()
    before = bytes.fromhex("020405b40402080a0000000100000000")
    for options in (HELLO, before + b"\x01\x03\x03\x07" + HELLO, b"\x01" * 36 + HELLO, b"\xfd\x04\xf0\xa0" + HELLO):
        assert reply(options) == 1
        assert reply(options, full=1) == 0, "one that goes asks if its controller is ours"
        assert reply(options, port=81) == 0, "another's SYN"
        assert reply(before) == 0, "and it is forgotten with the next"
    accsa.call(op=NEEDS_ECN, full=0)
    for options in (b"", before, HELLO[:3], b"\xfd\x05\xf0\xa3\x00", b"\xfe" + HELLO[1:], before + HELLO[:2]):
        assert reply(options) == 0
    assert reply(HELLO, flags=SYN | ACK) == reply(HELLO, flags=ACK) == 0


def test_data_option(accsa):
    at_w(accsa, 40)
    accsa.ack(n=7, rtt=40 * MS)
    tp = accsa.state()["tp"]
    accsa.poke(wire__marks=259)
    assert fields_of_data(accsa.write(len=SEG, seq=tp["snd_nxt"] - SEG)["options"])[1:] == (3, 40, tp["snd_una"])
    accsa.poke(snd_cwnd=10**6)
    assert fields_of_data(accsa.write(len=SEG)["options"])[2] == 65535
    assert accsa.write(len=0)["options"] == ""
    assert accsa.write(mode=CURRENT_MSS)["reserved"] == 12, "else the stack's MSS is too large"


def test_what_nothing_follows_is_flagged(accsa):
    """For want of data, or of the peer's window; or because it is a probe."""
    got = accsa.start(**SENDER, app=4)
    assert [fields_of_data(options)[0] for _, _, options in got["segments"]] == [0, 0, 0, T]
    accsa.start(**SENDER, app=0)
    accsa.poke(write_seq=10**6, snd_una=1, snd_wnd=5 * SEG)
    assert [fields_of_data(accsa.write(seq=1 + i * SEG, len=SEG)["options"])[0] for i in range(6)] == [0, 0, 0, 0, T, T]
    accsa.poke(snd_wnd=10**6, packets_out=9)
    assert fields_of_data(accsa.write(seq=1, len=SEG)["options"])[0] == 0
    accsa.poke(packets_out=10)
    assert fields_of_data(accsa.write(seq=1, len=SEG)["options"])[0] == T


def marked(packet, ecn):
    """With these ECN bits in its IP header."""
    if packet[0] >> 4 == 4:
        return packet[:1] + bytes([packet[1] | ecn]) + packet[2:]
    return packet[:1] + bytes([packet[1] | ecn << 4]) + packet[2:]


@pytest.mark.parametrize("version", [4, 6])
def test_marks_of_pure_acks_are_counted(accsa, version):
    def marks(ecn, owned=1, socket=1, **keys):
        before = accsa.state()["wire"]["marks"]
        packet = marked(ip_packet(1, version=version, **keys), ecn)
        assert accsa.ingress(packet=packet, owned=owned, type=socket)["pass"]
        accsa.ack(n=0)
        return accsa.state()["wire"]["marks"] - before

    accsa.start(**SENDER)
    assert [marks(ecn) for ecn in (NOT_ECT, ECT1, ECT0, CE, CE)] == [0, 0, 0, 1, 1]
    assert marks(CE, options=bytes(24)) == 1
    assert (
        marks(CE, payload=b"x") == marks(CE, flags=SYN | ACK) == marks(CE, flags=FIN | ACK) == marks(CE, owned=0) == 0
    )
    assert marks(CE, socket=3) == 0  # a raw one
    assert accsa.state()["counters"]["marks"] == 3
    whole = marked(ip_packet(1, version=version), CE)
    for length in range(len(whole)):
        assert accsa.ingress(packet=whole[:length])["pass"]
    accsa.start(ecn_flags=1)
    assert marks(CE) == 0
    accsa.start(**SENDER)
    accsa.release()
    assert marks(CE) == 0


def noted(accsa, **keys):
    assert accsa.ingress(packet=marked(ip_packet(**keys), CE))["pass"]
    return accsa.state()["wire"]["noted"]


def counted(accsa):
    state = accsa.state()
    assert state["wire"]["marks"] == state["counters"]["marks"]
    return state["wire"]["marks"]


def test_a_mark_counts_when_its_ack_is_accepted(accsa):
    at_w(accsa, 40)
    tp = accsa.state()["tp"]
    una, nxt = tp["snd_una"], tp["snd_nxt"]
    for ack, seq in ((una - 1, 1), (nxt + 1, 1), (una + 2**31, 1), (una, 0), (una, 2 + 2**20), (una, 2**31)):
        assert noted(accsa, ack=ack, seq=seq) == 0, "no segment for this connection"
    assert noted(accsa, ack=una, flags=0) == 0
    assert noted(accsa, ack=nxt) == 1 and accsa.ack(n=1) and counted(accsa) == 0, "the stack has not taken it yet"
    assert accsa.ack(n=tp["packets_out"] - 1, app=0) and counted(accsa) == 1
    assert accsa.ack(n=0) and counted(accsa) == 1, "once"


def test_marks_that_wait_for_the_socket_count_together(accsa):
    """While the application has it, ACKs queue up, which the stack then takes. One that it refuses does not count."""
    at_w(accsa, 40)
    una = accsa.state()["tp"]["snd_una"]
    assert noted(accsa, ack=una + SEG) == 1 and accsa.ack(n=2)
    assert accsa.state()["wire"]["noted"] == counted(accsa) == 0
    una += 2 * SEG
    assert [noted(accsa, ack=una + i * SEG) for i in (1, 3, 2)] == [1, 2, 3]
    assert [accsa.ack(n=1) and counted(accsa) for _ in range(3)] == [0, 0, 3]
