# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin` on the host, with AccECN: no count of marks is lost with an ACK that is dropped."""

import struct

import pytest

from tests.algorithms.host.formosa import ACK
from tests.algorithms.test_thin_host import SEG, STAMPS, Download, hole, spacing

CEP = [AE << 8 | CWR_ECE << 6 for AE in (0, 1) for CWR_ECE in range(4)]  # as flags, of the counter's values in turn


class Accurate(Download):
    """A download with AccECN: each ACK has its counters, `marks` of packets modulo 8 and the bytes."""

    def __init__(self, driver, params=None, stamps=STAMPS, kind=172, **keys):
        super().__init__(driver, params, **keys)
        driver.poke(ecn_flags=16, ca_flags=2)
        self.marks, self.kind, self.stamps = 5, kind, stamps

    def counters(self, length=11):
        fields = b"".join(struct.pack(">I", n % 2**24)[1:] for n in (self.next, self.marks * SEG, 1))
        return (bytes([self.kind, length]) + fields)[:length] + b"\x01" * (12 - length)

    def packet(self, number=None, flags=ACK, options=None):
        ace = CEP[self.marks % 8]
        options = self.stamps + self.counters() if options is None else options
        packet = bytearray(super().packet(flags=flags | ace & 0xFF, options=options))
        packet[(20 if self.version == 4 else 40) + 12] |= ace >> 8
        return bytes(packet)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("stamps", "kind"), [(STAMPS, 172), (b"", 174)])
def test_accurate_ecn_is_thinned(thin, version, stamps, kind):
    """A later ACK has the same counters. Those of other lengths, and the first that has them, are news."""
    d = Accurate(thin, stamps=stamps, kind=kind, version=version)
    assert set(spacing(d.come(2000)[-300:])) == {14 * SEG}
    for options in (stamps + d.counters(8), stamps + b"\xac\x02" + bytes(10), stamps + b"\xfe" + d.counters()[1:]):
        d.steady()
        assert d.come(1) == [] and d.ack(options=options)
        d.come(1)
        assert d.ack()  # the one before had none


def test_no_mark_is_lost(thin):
    """Each ACK with a new one passes: three bits count them, and wrap."""
    d = Accurate(thin).steady()
    for marks in [1] * 20 + [5, 6, 7] * 5:
        d.come(2)
        d.marks += marks
        assert d.come(2) == [(d.next, True)]
    assert thin.state()["counters"]["sent_ecn"] >= 35


def test_counters_do_not_wrap_unheard(thin):
    """24 bits count bytes: an ACK covers a quarter of that at most."""
    d = Accurate(thin, {"reverse_kbit": 1000, "least_per_rtt": 1}, gap=1, window=1 << 30)
    thin.set(reverse_kbit=1)
    assert max(spacing(d.come(60_000)[-20_000:])) <= 2**22 + 2 * SEG


def test_a_counter_of_three_bits_alone_covers_few_packets(thin):
    """Without the option a sender that hears of more than seven packets may take eight for marked."""
    d = Accurate(thin)
    d.counters = lambda: b""
    assert set(spacing(d.come(2000)[-300:])) == {4 * SEG}


def test_with_accurate_ecn_a_gap_has_all_of_its_acks(thin):
    """SACK blocks leave no room for all counters."""
    d = Accurate(thin).steady()
    assert all(d.come(1) or d.ack(**hole(d)) for _ in range(40))
