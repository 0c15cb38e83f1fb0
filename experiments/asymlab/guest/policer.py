# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Policers: tc's `police` where a direction comes in, behind its queue. It has no queue of its own."""

import math
import socket
import time
from collections.abc import Callable
from typing import Any

from .job import End, Job, Policer
from .net import Namespaces
from .protocol import Check
from .system import LIBC

SOL_PACKET, PACKET_QDISC_BYPASS, PR_SET_TIMERSLACK = 263, 20, 29
NOBODYS = 0x88B5  # an EtherType for experiments, which no host takes in
OFF = 0.01  # a share: with 2 % less or more, one of the two trains has another end
PASSED, FASTER = 200, 2  # packets that tell a rate to half a percent, and how much faster they are sent
RATE_OFF = 0.015
STEP_S = 1e-3  # that one of them takes, if a packet can be so small or large
LEAST = 60  # bytes
SLOW = 4  # times as many packets as the burst has
Sender = Callable[[int], Any]  # of a packet of so many bytes


def police(job: Job, ns: Namespaces) -> list[dict]:
    """Adds the policers to a network that is built and checked, and checks each.

    They come last: a train that measures the rate of a link would not pass.
    """
    peers = {end.dev: (end, peer) for link in job.links for end, peer in (link.ends, link.ends[::-1])}
    mtus = {end.dev: link.mtu for link in job.links for end in link.ends}
    rows = []
    for policer in job.policers:
        end, peer = peers[policer.dev]
        _add(ns, end, policer)
        rows += _check(ns, policer, end, peer, mtus[end.dev])
    return rows


def _add(ns: Namespaces, end: End, policer: Policer) -> None:
    there = any(queue.kind == "clsact" for queue in ns.queues([end])[end.dev])  # of `asymcc thin --dev`, on Linux 6.1
    how = f"rate {policer.rate_bps}bit burst {policer.burst_bytes} mtu 65535 conform-exceed drop/ok"
    first = [] if there else [f"qdisc add dev {end.dev} clsact"]
    ns.tc(end.node, [*first, f"filter add dev {end.dev} ingress matchall action police {how}"])


def dropped(ns: Namespaces, end: End) -> int:
    """Packets, since the policer is there."""
    return next(queue.counters["drops"] for queue in ns.queues([end])[end.dev] if queue.kind == "clsact")


def _check(ns: Namespaces, policer: Policer, end: End, peer: End, mtu: int) -> list[dict]:
    """Its burst by two trains, one a little shorter than it and one a little longer; then its rate.

    All packets are sent past the queue before it, as fast as the CPU can.
    """
    with ns.enter(peer.node):
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    sender.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
    to = (peer.dev, NOBODYS, 0, 0, bytes.fromhex(end.mac.replace(":", "")))
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)

    def send(size: int) -> None:
        sender.sendto(bytes(size), to)

    trains = []
    for share in (1 - OFF, 1 + OFF):
        before = dropped(ns, end)
        _train(policer, mtu, share, send)
        trains.append(min(dropped(ns, end) - before, 1))
        time.sleep(8 * policer.burst_bytes / policer.rate_bps)  # until the bucket is full
    size = min(max(round(policer.rate_bps * STEP_S / 8), LEAST), mtu, policer.burst_bytes // 2)  # none overflows
    _train(policer, mtu, 1 + OFF, send)
    for _ in range(mtu // size + 1):  # what the train left
        send(size)
    before = dropped(ns, end)
    took_s = _paced(policer, size, send)
    rate = round((FASTER * PASSED - dropped(ns, end) + before) * size * 8 / took_s)
    time.sleep(8 * policer.burst_bytes / policer.rate_bps)
    LIBC.prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0)
    sender.close()
    return [
        {"what": Check.BURST.what(end.dev), "expected": [0, 1], "measured": trains, "ok": trains == [0, 1]},
        {
            "what": Check.POLICED.what(end.dev),
            "expected": policer.rate_bps,
            "measured": rate,
            "ok": abs(rate - policer.rate_bps) <= RATE_OFF * policer.rate_bps,
        },
    ]


def _train(policer: Policer, mtu: int, share: float, send: Sender) -> None:
    """So many bursts back to back, and what the bucket gets meanwhile."""
    begun, sent = time.monotonic(), 0
    pieces = max(2, math.ceil((1 + OFF) * policer.burst_bytes / mtu))
    size = math.ceil((1 + OFF) * policer.burst_bytes / pieces)
    for _ in range(SLOW * pieces):  # as far as a slow CPU comes
        more = min(size, round(share * policer.burst_bytes + policer.rate_bps / 8 * (time.monotonic() - begun)) - sent)
        if more <= 0:
            break
        send(more)
        sent += more


def _paced(policer: Policer, size: int, send: Sender) -> float:
    """Packets at twice the rate. The seconds that they took."""
    begun, step_s = time.monotonic(), 8 * size / policer.rate_bps / FASTER
    for number in range(1, FASTER * PASSED + 1):
        time.sleep(max(0.0, begun + number * step_s - time.monotonic()))
        send(size)
    return time.monotonic() - begun
