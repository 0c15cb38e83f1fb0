# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Each law a second time, in floating point and in its paper's numbers: windows in packets, RTTs in us.

A model gets the calls that the controller's own source gets, with the connection as it was at each (`NAME trace`,
calls.h). After a call both must have the same state within `SLACK`, the fixed point's error. Then the model takes the
code's state, so that errors do not add up. If rounding may decide which way a law goes, `less()` notes it, and the call
is not compared.
"""

from collections import Counter
from math import floor
from types import SimpleNamespace

from hypothesis import strategies as st

W_MAX, RTT_MAX = 1 << 20, 1 << 26  # packets, us
NONE = 2**32 - 1
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)  # from CWR on the stack reduces or repairs
EVENT_LOSS, ECE = 3, 4  # CA_EVENT_LOSS, CA_ACK_ECE
ONE = 1 << 20  # a packet, in the units of most windows

# Often small, seldom as large as they can be.
rtts = st.integers(1, RTT_MAX) | st.integers(1, 1000) | st.integers(30_000, 60_000)
packets = st.integers(1, W_MAX) | st.integers(1, 100)
windows = st.integers(2 * ONE, W_MAX * ONE) | st.integers(2 * ONE, 40 * ONE)
flags = st.integers(0, 1)
waits = st.just(0) | st.integers(0, 2000) | rtts  # of ACKs, us


def members(part=1, same="", **named):
    """Members of the private state by the model's names; `part` of their units are one of the model's."""
    return {name: (code, part) for name, code in ({name: name for name in same.split()} | named).items()}


def after(a, b):
    """Sequence numbers wrap: is a behind b?"""
    return 0 < (a - b) % 2**32 < 2**31


class Model:
    """Rounds, RTT samples, and windows that the stack sets: each sender has them (sender.bpf.h)."""

    SHARED = "round_end round_stamp ack_stamp ack_way rtt_last rtt_min fall_way fall_ms"
    FIELDS: dict[str, tuple[str, int]] = {}  # of members()
    SLACK: dict[str, float] = {}  # by the model's name
    WINDOW_SLACK = 0.0  # of what the stack is given, packets
    HANDSHAKE: dict[str, object] = {}  # what the peer says in it
    STEPS = st.nothing()  # beside those that each law gets

    @classmethod
    def start(cls, draw):
        """Members of the private state of a connection under way, as drawn; `w`: its window in the code's units."""
        raise NotImplementedError

    def __init__(self, params):
        self.p = SimpleNamespace(**params)
        self.fields = members(same=self.SHARED) | self.FIELDS
        self.unsure, self.counts, self.before, self.slack, self.code = False, Counter(), {}, {}, {}

    def adopt(self, ca, counters):
        self.cwnd = ca["cwnd"]  # as the controller left it: another value means that the stack changed it
        for name, (member, units) in self.fields.items():
            setattr(self, name, ca[member] / units if units > 1 else ca[member])
        self.before = counters

    def clear(self):
        """A connection's private state before init()."""
        self.adopt(dict.fromkeys(["cwnd", *(member for member, _ in self.fields.values())], 0), self.before)

    def count(self, name):
        self.counts[name] += 1

    def less(self, a, b, slack):
        """a < b, unless they are so near that the code's rounding decides."""
        self.unsure |= abs(a - b) <= slack
        return a < b

    def follow(self, call):
        """Runs one call and compares; what differs: [(name, model, code)]."""
        tp = SimpleNamespace(**call["tp"], limited=call["limited"])
        self.wire = SimpleNamespace(**call.get("before", {}))
        tp.now = tp.tcp_mstamp
        tp.flight = tp.packets_out - tp.sacked_out - tp.lost_out + tp.retrans_out
        self.unsure, self.counts, self.slack, self.code = False, Counter(), dict(self.SLACK), call["ca"]
        self.before = call.get("counted", self.before)
        result = getattr(self, call["op"], lambda *_: None)(tp, *call["args"])
        differences = [] if self.unsure else [*self.differences(tp, result, call)]
        self.adopt(call["ca"], call["counters"])
        return differences

    def differences(self, tp, result, call):
        for name, (member, units) in self.fields.items():
            code, own = call["ca"][member] / units, getattr(self, name)
            if abs(own - code) > self.slack.get(name, 0):
                yield name, own, code
        windows = {
            "snd_cwnd": (tp.snd_cwnd, call["cwnd"]), "snd_ssthresh": (tp.snd_ssthresh, call["ssthresh"]),
            "cwnd": (self.cwnd, call["ca"]["cwnd"]), "result": (result, call["result"]),
        }  # fmt: skip
        for name, (own, code) in windows.items():
            if own is not None and not floor(own - self.WINDOW_SLACK) <= code <= floor(own + self.WINDOW_SLACK):
                yield name, own, code
        counts = {name: n - self.before[name] for name, n in call["counters"].items() if n != self.before[name]}
        if counts != +self.counts:
            yield "counters", dict(self.counts), counts

    # --- rounds, samples, windows ---------------------------------------------------------

    def round_start(self, tp):
        end = (tp.snd_una + min(tp.flight * tp.mss_cache, 1 << 30)) % 2**32
        self.round_end = end if after(tp.snd_nxt, end) else tp.snd_nxt
        self.round_stamp = tp.now % 2**32

    def round_us(self, tp):
        return (tp.now - self.round_stamp) % 2**32

    def round_over(self, tp):
        return after(tp.snd_una, self.round_end)

    def idle_ended(self, tp, rtt):
        """More than an RTO between the ACK before and the sending of what this one acknowledges."""
        last, self.ack_stamp, rtt = self.ack_stamp, tp.now, max(rtt, 0)
        if not last and rtt and self.round_us(tp) > rtt:
            self.round_stamp = (tp.now - rtt) % 2**32
        return last and rtt and tp.now - last > rtt + (tp.srtt_us >> 3)

    def idle_time(self, tp):
        """The time without an ACK that ends with the packets to be sent, us; 0: none. It is told once."""
        last = self.ack_stamp
        if tp.snd_una != tp.snd_nxt:
            return 0
        if not last:
            self.round_stamp = tp.now % 2**32
            return 0
        if tp.now - last <= tp.srtt_us >> 3:
            return 0
        self.ack_stamp = tp.now
        return tp.now - last

    def rtt_sample(self, rtt):
        if rtt <= 0:
            return False
        self.rtt_last = min(rtt, RTT_MAX)
        self.rtt_min = min(self.rtt_min or RTT_MAX, self.rtt_last)
        return True

    def ack_wait(self, tp, rtt):
        """The ACK waited so much of this RTT on its way, us: (1) and (2) of forward.bpf.h."""
        if not (self.p.forward_delay and tp.rcv_tsval):
            return 0
        tick, most, clock = 1 if tp.usec_ts else 1000, max(rtt - self.rtt_min, 0), tp.now - (tp.now >> 14)
        if (clock - tp.rcv_tsval * 1000 - self.ack_way) % 2**32 <= 2500:  # by stamps of 1 us a matter of chance
            return 0
        way = (clock - tp.rcv_tsval * tick) % 2**32
        wait = (way - self.ack_way + 2**31) % 2**32 - 2**31
        if not self.ack_way or -(2**29) < wait < 0:
            self.follow_fall(tp, rtt, way)
            self.ack_way, wait = way, 0
        wait = wait - tick + self.rtt_min // 128 if wait > 2500 else 0
        if wait > most + 2**18:  # that is no clock
            self.ack_way = (way + 2**30) % 2**32
        elif wait > most and most <= tick:
            self.ack_way = way
        return min(wait, most)

    def follow_fall(self, tp, rtt, way):
        """The least way has fallen by 4 ms within a second, and with it the RTT: rtt_min was too long."""
        step = (self.ack_way - way) % 2**32
        if (tp.now // 1000 - self.fall_ms) % 2**32 > 1000:
            self.fall_ms, self.fall_way = tp.now // 1000 % 2**32, way
        elif step > 2500 and rtt + step // 4 > self.rtt_last:
            self.fall_way = (self.fall_way - step) % 2**32
        fall = (self.fall_way - way + 2**31) % 2**32 - 2**31
        if fall > 4000:
            self.rtt_min -= min(fall - 2500, self.rtt_min // 4)
            self.fall_way = (way + 2500) % 2**32

    def forward_sample(self, tp, rtt):
        """The sample's wait; None: no sample."""
        if rtt <= 0:
            return None
        wait = self.ack_wait(tp, min(rtt, RTT_MAX))
        self.rtt_last = min(rtt, RTT_MAX)
        if self.rtt_last - wait < self.rtt_min:
            self.fall_way = self.ack_way
        self.rtt_min = min(self.rtt_min or RTT_MAX, self.rtt_last - wait)
        return wait

    def fit_window(self, w, rtt, then, wait):
        """A window changes as the RTT does by a wait, by half or twice at most."""
        return w * rtt / max(min(rtt - min(wait, rtt) + then, 2 * rtt), rtt // 2, 1)

    def rate_of_round(self, tp):
        """Packets/s that the round has carried, in 1/256; 0: it took no time."""
        carried, us = min((tp.delivered - self.delivered) % 2**32, W_MAX), self.round_us(tp)
        return min(int(carried * 256 * 10**6 / us) / 256, (2**32 - 1) / 256) if us else 0

    def stack_window(self, tp):
        return max(min(tp.snd_cwnd, W_MAX), 1)

    def limit(self, tp):
        return min(tp.snd_cwnd_clamp, W_MAX)

    def first_window(self, tp):
        if self.p.init_cwnd and not tp.data_segs_out and tp.snd_cwnd > 1:
            tp.snd_cwnd = min(self.p.init_cwnd, tp.snd_cwnd_clamp)

    def write(self, tp, window):
        """The stack's window; `cwnd` is what the next call compares with."""
        tp.snd_cwnd = max(min(window, self.limit(tp)), 1)
        self.cwnd = tp.snd_cwnd

    def may_grow(self, tp):
        """The window limits, or Reno's slow start sees less than twice what was in flight."""
        return tp.limited or (tp.snd_cwnd < tp.snd_ssthresh and tp.snd_cwnd < 2 * tp.max_packets_out)

    def in_recovery(self, tp):
        return tp.state >= CWR

    def first_repair(self, tp, window):
        """A window in a recovery, where nobody but the law sets it: the first repair waits for nothing."""
        return min(max(window, tp.flight + 1 if tp.lost_out and not tp.retrans_out else 0), W_MAX)

    def shrunk_by_idle(self, tp):
        """After n idle seconds the stack's window is halved n times, not below 10."""
        halvings = min(self.idle_time(tp) // 10**6, 31)
        if not halvings or tp.snd_cwnd <= 10:
            return False
        self.count("idle_restarts")
        tp.snd_ssthresh = max(tp.snd_ssthresh, tp.snd_cwnd - tp.snd_cwnd // 4)
        self.write(tp, max(tp.snd_cwnd >> halvings, 10))
        return True

    def half(self, tp):
        return max(tp.snd_cwnd // 2, 2)

    def taken_over(self, tp):
        """A window that the stack has changed becomes the law's."""
        if tp.snd_cwnd != self.cwnd:
            self.count("reloads")
            self.take_over(tp)

    # --- calls that most laws share ---------------------------------------------------------

    def undo_cwnd(self, tp, *_):
        self.count("undos")
        return max(tp.snd_cwnd, tp.prior_cwnd)

    def cwnd_event(self, tp, event, *_):
        if event == EVENT_LOSS:
            self.count("timeouts")


def reno(w, n):
    """Linux's Reno: n packets add this to w, and w whole packets add one. Shares are rounded up to 2^-20."""
    return -(-(min(n, W_MAX) << 20) // max(int(w), 1)) / (1 << 20)


def marked(tp, flags):
    """When the ACK that tells of a mark came; 0: this one does not."""
    return tp.now if flags & ECE else 0
