# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
One link with a rate and an endless queue in each direction, packet by packet.

Packets that an ACK lets leave cannot come back before one propagation delay: so all ACKs that arrive
within that time are known beforehand and go to the controller in one batch.
"""

import heapq

from .driver import line


class Link:
    def __init__(self, packet_s, ack_s, delay_s):
        """Time of one packet forward and of one ACK back; propagation of both ways together."""
        self.packet_s, self.ack_s, self.delay_s = packet_s, ack_s, delay_s
        self.forward_free = self.back_free = 0.0

    def cross(self, now):
        """When the ACK of a packet sent at `now` is back."""
        self.forward_free = max(now, self.forward_free) + self.packet_s
        self.back_free = max(self.forward_free + self.delay_s / 2, self.back_free) + self.ack_s
        return self.back_free + self.delay_s / 2


def run(link, flows, params, seconds, extra=None, every=1, **keys):
    """
    Runs drivers `flows`, each with its `params` and, behind the link, its `extra` delay. For
    each: a list of (arrival, window, RTT) per ACK. An ACK comes for `every` packets: none is
    sent late, so that there must always be so many in flight.
    """
    got = [0] * len(flows)
    extra = extra or [0.0] * len(flows)
    acks, traces, order = [], [[] for _ in flows], 0
    for i, (flow, own) in enumerate(zip(flows, params)):
        for _ in range(flow.start(own, now=0, **keys)["sent"]):
            acks.append((link.cross(0.0) + extra[i], order, i, 0.0))
            order += 1
    heapq.heapify(acks)
    while acks[0][0] < seconds:
        horizon, ready = acks[0][0] + link.delay_s, []
        while acks and acks[0][0] < horizon:
            packet = heapq.heappop(acks)
            got[packet[2]] += 1
            if got[packet[2]] % every == 0:
                ready.append(packet)
        answers = [
            iter(flow.batch([command(at, sent, every) for at, _, who, sent in ready if who == i]))
            for i, flow in enumerate(flows)
        ]
        for at, _, i, sent in ready:
            answer = next(answers[i])
            traces[i].append((at, answer["cwnd"], at - sent))
            for _ in range(answer["sent"]):
                heapq.heappush(acks, (link.cross(at) + extra[i], order, i, at))
                order += 1
    return traces


def command(at, sent, n):
    now = round(at * 1e6)
    return line("ack", n=n, now=now, rtt=now - round(sent * 1e6))
