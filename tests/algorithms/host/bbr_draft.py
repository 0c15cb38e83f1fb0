# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
BBRv3 again: the pseudocode of draft-ietf-ccwg-bbr-06 in floating point, with each packet's own tx_in_flight and lost.
Volumes in packets, times in s, rates in packets/s. The caller gives what is random.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, inf

STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT = range(7)
INIT, REFILLING, STARTING, FEEDBACK, STOPPING = range(5)
GAINS = {  # of pacing and window
    STARTUP: (2.77, 2),
    DRAIN: (0.5, 2),
    DOWN: (0.9, 2),
    CRUISE: (1, 2),
    REFILL: (1, 2),
    UP: (1.25, 2.25),
    PROBE_RTT: (1, 0.5),
}
PROBE_BW = (DOWN, CRUISE, REFILL, UP)


@dataclass
class Packet:
    """A sent packet, with the fields that the draft keeps (4.1.2.2)."""

    sent: float
    first_sent: float
    delivered_time: float
    delivered: int
    limited: bool
    tx_in_flight: int
    lost: int
    number: int = 0


@dataclass
class Connection:
    """C: the transport's own state."""

    inflight: int = 0
    prior_inflight: int = 0
    cwnd: int = 10
    initial_cwnd: int = 10
    delivered: int = 0
    lost: int = 0
    cwnd_limited: bool = False
    in_recovery: bool = False
    srtt: float = 0.0
    mss: int = 960


@dataclass
class Sample:
    """RS."""

    rate: float = 0
    delivered: int = 0
    prior_delivered: int = -1
    newly_acked: int = 0
    newly_lost: int = 0
    tx_in_flight: int = 0
    lost: int = 0
    rtt: float = -1
    limited: bool = False


@dataclass
class Bbr:
    c: Connection
    now: float
    pick: Callable[[], tuple[float, int]]
    state: int = STARTUP
    ack_phase: int = INIT
    bw: float = 0
    max_bw: float = 0
    slots: list[float] = field(default_factory=lambda: [0.0, 0.0])
    bw_shortterm: float = inf
    inflight_shortterm: float = inf
    inflight_longterm: float = inf
    bw_latest: float = 0
    inflight_latest: float = 0
    full_bw: float = 0
    full_bw_count: int = 0
    full_bw_now: bool = False
    full_bw_reached: bool = False
    round_count: int = 0
    round_start: bool = False
    next_round_delivered: int = 0
    loss_round_delivered: int = 0
    loss_round_start: bool = False
    loss_in_round: bool = False
    loss_events: int = 0
    probe_sample: bool = False
    rounds_since_probe_up: int = 0
    bw_probe_wait: float = 0
    cycle_stamp: float = 0
    up_rounds: int = 0
    up_acked: float = 0
    acked_per_inc: float = inf
    too_high: bool = False
    precautionary: bool = False
    drain_start_round: int = 0
    prior_cwnd: int = 0
    probe_rtt_done: float = 0
    probe_rtt_round_done: bool = False
    probe_rtt_expired: bool = False
    limited_until: int = 0
    extra_acked: float = 0
    extra_delivered: float = 0
    extra: dict[int, float] = field(default_factory=dict)
    pacing_rate: float = 0

    def __post_init__(self):
        self.min_rtt = self.probe_rtt_min = self.c.srtt or inf
        self.min_rtt_stamp = self.probe_rtt_stamp = self.extra_start = self.now
        self.pacing_rate = GAINS[STARTUP][0] * self.c.initial_cwnd / (self.c.srtt or 0.001)
        self.next_round_delivered = self.loss_round_delivered = self.c.delivered

    # --- volumes (5.6.4.2, 5.5.8) ---------------------------------------------------------

    def bdp(self, gain, bw=None):
        if self.min_rtt == inf:
            return self.c.initial_cwnd
        return ceil(gain * (self.bw if bw is None else bw) * self.min_rtt - 1e-6)

    def quantized(self, packets):
        quantum = max(min(self.pacing_rate * self.c.mss * 0.001, 65536) // self.c.mss, 2)
        return max(packets, 3 * quantum, 4) + 2 * (self.state == UP)

    def empty_queue(self):
        return self.quantized(self.bdp(1, self.max_bw))

    def with_headroom(self):
        if self.inflight_longterm == inf:
            return inf
        return max(self.inflight_longterm - max(1, int(0.15 * self.inflight_longterm)), 4)

    def target(self):
        return min(self.bdp(1), self.c.cwnd)

    # --- loss (5.5.10.2) --------------------------------------------------------------------

    def on_lost(self, packets):
        """HandleLostPacket() of each; the episode's beginning is the caller's, by on_recovery()."""
        for p in packets:
            if not self.loss_in_round:
                self.loss_round_delivered = self.c.delivered
            self.loss_in_round = True
            if not self.probe_sample:
                continue
            tx, lost = p.tx_in_flight, self.c.lost - p.lost
            if lost > tx * 0.02:
                prefix = (0.02 * (tx - 1) - (lost - 1)) / 0.98
                self.on_too_high(tx - 1 + max(prefix, 0), p.limited)

    def on_too_high(self, at, limited):
        self.too_high, self.probe_sample = True, False
        if not limited:
            self.inflight_longterm = max(int(at), int(self.target() * 0.7))
        if self.state == UP:
            self.start_down()

    def on_recovery(self):
        self.save_cwnd()

    def save_cwnd(self):
        busy = self.c.in_recovery or self.state == PROBE_RTT
        self.prior_cwnd = max(self.prior_cwnd, self.c.cwnd) if busy else self.c.cwnd

    def restore_cwnd(self):
        self.c.cwnd = max(self.c.cwnd, self.prior_cwnd)

    # --- states (5.3) -------------------------------------------------------------------------

    def start_round(self):
        self.next_round_delivered = self.c.delivered

    def reset_full_bw(self, bw=0.0):
        self.full_bw, self.full_bw_count, self.full_bw_now = bw, 0, False

    def start_down(self):
        self.loss_in_round, self.bw_latest, self.inflight_latest = False, 0, 0
        self.acked_per_inc = inf
        self.cycle_stamp = self.now
        self.ack_phase = STOPPING
        self.start_round()
        self.state = DOWN
        self.bw_probe_wait, self.rounds_since_probe_up = self.pick()

    def start_refill(self):
        self.bw_shortterm = self.inflight_shortterm = inf
        self.up_rounds, self.up_acked, self.precautionary = 0, 0, False
        self.ack_phase = REFILLING
        self.start_round()
        self.state = REFILL

    def start_up(self, rs):
        self.probe_sample = True
        self.ack_phase = STARTING
        self.start_round()
        self.reset_full_bw(rs.rate)
        self.state = UP
        self.raise_slope()

    def raise_slope(self):
        growth = 1 << self.up_rounds
        self.up_rounds = min(self.up_rounds + 1, 30)
        self.acked_per_inc = max(self.c.cwnd // growth, 1)

    def probe_upward(self, rs):
        if not self.c.cwnd_limited or self.c.cwnd < self.inflight_longterm:
            return
        self.up_acked += rs.newly_acked
        if self.up_acked >= self.acked_per_inc:
            delta = self.up_acked // self.acked_per_inc
            self.up_acked -= delta * self.acked_per_inc
            self.inflight_longterm += delta
        if self.round_start:
            self.raise_slope()

    def adapt_long_term(self, rs):
        if self.ack_phase == STARTING and self.round_start:
            self.ack_phase = FEEDBACK
        if self.ack_phase == STOPPING and self.round_start:
            self.probe_sample, self.ack_phase = False, INIT
            if self.state in PROBE_BW and not rs.limited and self.slots[1]:
                self.slots = [self.slots[1], 0.0]
                self.max_bw = self.slots[0]
            if self.state in PROBE_BW and self.precautionary and not self.too_high:
                self.start_refill()
                return True
        if rs.prior_delivered < 0 or rs.lost > rs.tx_in_flight * 0.02 or self.inflight_longterm == inf:
            return False
        self.inflight_longterm = max(self.inflight_longterm, rs.tx_in_flight)
        if self.state == UP:
            self.probe_upward(rs)
        return False

    def time_to_go_down(self, rs):
        if self.too_high and self.c.prior_inflight >= self.inflight_longterm:
            self.precautionary = True
            return True
        if self.c.cwnd_limited and self.c.cwnd >= self.inflight_longterm:
            self.reset_full_bw(rs.rate)
        elif self.full_bw_now:
            return True
        return False

    def update_cycle(self, rs):
        if not self.full_bw_reached or self.adapt_long_term(rs) or self.state not in PROBE_BW:
            return
        if self.state in (DOWN, CRUISE):
            waited = self.now > self.cycle_stamp + self.bw_probe_wait
            if waited or self.rounds_since_probe_up >= min(self.target(), 63):
                self.start_refill()
            elif self.state == DOWN and self.c.inflight <= min(self.with_headroom(), self.empty_queue()):
                self.state = CRUISE
        elif self.state == REFILL:
            if self.round_start:
                self.start_up(rs)
        elif self.time_to_go_down(rs):
            self.too_high = False
            self.start_down()

    # --- the model (5.5) ------------------------------------------------------------------------

    def update_signals(self, rs):
        self.loss_round_start = False
        if rs.prior_delivered >= 0:
            self.bw_latest = max(self.bw_latest, rs.rate)
            self.inflight_latest = max(self.inflight_latest, rs.delivered)
            if rs.prior_delivered >= self.loss_round_delivered:
                self.loss_round_delivered = self.c.delivered
                self.loss_round_start = True
        self.round_start = rs.prior_delivered >= self.next_round_delivered
        if self.round_start:
            self.start_round()
            self.round_count += 1
            self.rounds_since_probe_up += 1
        if rs.rate and (rs.rate >= self.max_bw or not rs.limited):
            self.slots[1] = max(self.slots[1], rs.rate)
            self.max_bw = max(self.slots)
        if not self.loss_round_start:
            return
        if self.loss_in_round and self.state not in (STARTUP, REFILL, UP):
            if self.bw_shortterm == inf:
                self.bw_shortterm = self.max_bw
            if self.inflight_shortterm == inf:
                self.inflight_shortterm = self.c.cwnd
            self.bw_shortterm = max(self.bw_latest, 0.7 * self.bw_shortterm)
            self.inflight_shortterm = max(self.inflight_latest, int(0.7 * self.inflight_shortterm))
        self.loss_in_round = False

    def update_aggregation(self, rs):
        expected = self.bw * (self.now - self.extra_start)
        if rs.newly_acked:
            if self.extra_delivered <= int(expected):
                self.extra_delivered, self.extra_start, expected = 0, self.now, 0
            self.extra_delivered += rs.newly_acked
            extra = min(self.extra_delivered - int(expected), self.c.cwnd)
            self.extra[self.round_count] = max(self.extra.get(self.round_count, 0), extra)
        span = 10 if self.full_bw_reached else 1
        self.extra = {r: e for r, e in self.extra.items() if r > self.round_count - span}
        self.extra_acked = max(self.extra.values(), default=0)

    def update_min_rtt(self, rs):
        self.probe_rtt_expired = self.now > self.probe_rtt_stamp + 5
        if rs.rtt >= 0 and (rs.rtt < self.probe_rtt_min or self.probe_rtt_expired):
            self.probe_rtt_min, self.probe_rtt_stamp = rs.rtt, self.now
        if self.probe_rtt_min < self.min_rtt or self.now > self.min_rtt_stamp + 10:
            self.min_rtt, self.min_rtt_stamp = self.probe_rtt_min, self.probe_rtt_stamp

    def check_full(self, rs):
        if self.full_bw_now or not self.round_start or rs.limited or not rs.rate:
            return
        if rs.rate >= self.full_bw * 1.25:
            self.reset_full_bw(rs.rate)
            return
        self.full_bw_count += 1
        self.full_bw_now = self.full_bw_count >= 3
        self.full_bw_reached |= self.full_bw_now

    def check_startup(self, rs):
        self.loss_events += rs.newly_lost > 0
        high = rs.lost > rs.tx_in_flight * 0.02 and self.loss_events >= 6
        if self.state == STARTUP and self.loss_round_start and self.c.in_recovery and high:
            self.full_bw_now = self.full_bw_reached = True
            self.inflight_longterm = max(self.bdp(1), self.inflight_latest)
        if self.loss_round_start:
            self.loss_events = 0
        if self.state == STARTUP and self.full_bw_reached:
            self.state, self.drain_start_round = DRAIN, self.round_count

    def check_drain(self):
        rounds = self.round_count - self.drain_start_round
        if self.state == DRAIN and (self.c.inflight <= self.quantized(self.bdp(1)) or rounds > 3):
            self.start_down()

    def check_probe_rtt(self, rs):
        if self.state != PROBE_RTT and self.probe_rtt_expired:
            self.state = PROBE_RTT
            self.save_cwnd()
            self.probe_rtt_done, self.ack_phase = 0, STOPPING
            self.start_round()
        if self.state != PROBE_RTT:
            return
        self.limited_until = max(self.c.delivered + self.c.inflight, 1)
        if not self.probe_rtt_done:
            if self.c.inflight <= max(self.bdp(0.5), 4):
                self.probe_rtt_done, self.probe_rtt_round_done = self.now + 0.2, False
                self.start_round()
            return
        self.probe_rtt_round_done |= self.round_start
        if self.probe_rtt_round_done and self.now > self.probe_rtt_done:
            self.probe_rtt_stamp = self.now
            self.restore_cwnd()
            self.bw_shortterm = self.inflight_shortterm = inf
            if self.full_bw_reached:
                self.start_down()
                self.state = CRUISE
            else:
                self.state = STARTUP

    # --- an ACK (5.2.3, 5.6) -------------------------------------------------------------------------

    def on_ack(self, now, rs):
        self.now = now
        self.update_signals(rs)
        self.update_aggregation(rs)
        self.check_full(rs)
        self.check_startup(rs)
        self.check_drain()
        self.update_cycle(rs)
        self.update_min_rtt(rs)
        self.check_probe_rtt(rs)
        if self.loss_round_start:
            self.bw_latest, self.inflight_latest = rs.rate, rs.delivered
        self.bw = min(self.max_bw, self.bw_shortterm)
        pacing, gain = GAINS[self.state]
        rate = pacing * self.bw * 0.99
        if self.full_bw_reached or rate > self.pacing_rate:
            self.pacing_rate = rate
        self.set_cwnd(rs, self.quantized(self.bdp(gain) + self.extra_acked))

    def set_cwnd(self, rs, max_inflight):
        c = self.c
        if self.full_bw_reached:
            c.cwnd = min(c.cwnd + rs.newly_acked, max_inflight)
        elif c.cwnd < max_inflight or c.delivered < c.initial_cwnd:
            c.cwnd += rs.newly_acked
        c.cwnd = max(c.cwnd, 4)
        cap = inf
        if self.state == PROBE_RTT:
            c.cwnd = min(c.cwnd, max(self.bdp(0.5), 4))
        if self.state in (PROBE_RTT, CRUISE):
            cap = self.with_headroom()
        elif self.state in PROBE_BW:
            cap = self.inflight_longterm
        c.cwnd = int(min(c.cwnd, max(min(cap, self.inflight_shortterm), 4)))
