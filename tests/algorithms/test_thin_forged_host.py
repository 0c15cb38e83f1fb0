# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning on the host: what is forged, by strangers and by the sender itself, hides no end and no ACK."""

import struct

import pytest

from tests.algorithms.host.formosa import ACK, PSH, ip_packet
from tests.algorithms.host.streams import MS
from tests.algorithms.test_thin_host import SEG, STAMPS, Download, push_until, request, spacing


def test_a_forged_push_makes_acks_pass_for_a_window_at_most(thin):
    d = Download(thin, window=100 * SEG).steady()
    for end in (d.next + 101 * SEG, d.next - 2 * SEG):  # nowhere in the window
        thin.ingress(packet=push_until(end))
        assert not d.flow["tail.due"]
    thin.ingress(packet=push_until(d.next + 100 * SEG))
    assert all(passes for _, passes in d.come(100))
    d.come(200)
    assert not all(passes for _, passes in d.come(100))


@pytest.mark.parametrize("ack", [0, 2, 2**31], ids=["old", "of what was not sent", "far"])
def test_a_stranger_hides_no_end(thin, ack):
    """Full segments with PSH in each RTT, at the right place: the kernel refuses their ACK. The reply's own end, a full
    segment, is the first with PSH for long: its ACK passes."""
    d = Download(thin)
    d.come(2000)
    for _ in range(10):
        for _ in range(40):
            thin.ingress(packet=ip_packet(ack, flags=ACK | PSH, seq=d.next, payload=bytes(SEG)))
            d.come(10)
        thin.ingress(packet=ip_packet(1, flags=ACK | PSH, seq=d.next, payload=bytes(SEG)))
        d.next, d.now = d.next + SEG, d.now + d.gap
        assert d.ack()


def test_a_segment_of_elsewhere_tells_nothing(thin):
    """The kernel refuses these segments, or may: no time, no end of data and no request is taken from them."""
    d = Download(thin, rtt=10 * MS, window=100 * SEG)
    d.stamped = STAMPS[:4] + struct.pack(">II", 1000, 0)
    d.come(2000)
    before = d.flow
    for seq in (d.next - 1, d.next + 101 * SEG):
        options = STAMPS[:4] + struct.pack(">II", 7, 1000)
        thin.ingress(packet=ip_packet(1, flags=ACK | PSH, options=options, seq=seq, payload=bytes(10)))
        thin.ingress(packet=request(d, 1 << 1, seq=seq))
        thin.ingress(packet=request(d, 0, seq=seq))
    for ack in (0, 2, 2**31):  # the right place, but an ACK that is old, or of what was not sent
        thin.ingress(packet=ip_packet(ack, options=options, seq=d.next, payload=bytes(10)))
        thin.ingress(packet=request(d, 1 << 1, ack=ack))
        thin.ingress(packet=request(d, 0, ack=ack))
    assert d.flow == before


@pytest.mark.parametrize("params", [{}, {"reverse_kbit": 1}])
def test_an_rtt_that_a_peer_pretends_is_bounded(thin, params):
    """It answers an ACK after half a minute while it sends all the time, a packet each 50 ms."""
    d = Download(thin, params | {"acks_per_rtt": 2, "max_packets": 256}, rtt=10 * MS, gap=50 * MS, every=1)
    d.stamped = STAMPS[:4] + struct.pack(">II", 1000, 0)
    d.come(2000)
    answer = STAMPS[:4] + struct.pack(">II", 7, 1000)
    thin.ingress(packet=ip_packet(1, options=answer, seq=d.next, payload=bytes(100)))
    assert d.flow["rtt.smooth_ns"] > 30e9
    assert max(spacing(d.come(2000)[100:])) <= 11 * SEG  # 500 ms, and a packet


def test_a_header_longer_than_its_packet_is_harmless(thin):
    d = Download(thin).steady()
    packet = bytearray(ip_packet(1, flags=ACK | PSH, seq=d.next, payload=b""))
    packet[32] = 15 << 4
    before = d.flow
    assert thin.ingress(packet=bytes(packet))["pass"] == 1
    noted = {"tail.push", "tail.push_ns"}  # the kernel lets none come so far; nothing would be awaited for it
    assert {name for name, value in d.flow.items() if value != before[name]} <= noted
