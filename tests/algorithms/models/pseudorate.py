# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pseudo-rate TCP: Table 1 and (1), as pseudorate.bpf.c has them. Bound in 1/16 packet; noise in us."""

from hypothesis import strategies as st

from . import RTT_MAX, W_MAX, Model, flags, members, packets, rtts, waits


class Pseudorate(Model):
    FIELDS = (
        members(same="base offset offset_bound delivered cycle_rtt wait wait_then base_saved offset_saved spoilt")
        | members(16, bound="bound_q4", bound_saved="bound_saved_q4")
        | members(32, last_fall="fall_q5", noise="noise_q5")
        | members(same="window_then moved_then", top="cycle_top", fall="cycle_fall")
    )
    SLACK = {"bound": 1 / 8, "noise": 1 / 16}

    @classmethod
    def start(cls, draw):
        window = draw(packets)
        offset = draw(st.integers(1, window))
        least = draw(rtts)
        near = min(least + least * draw(st.integers(0, 50)) // 1000, RTT_MAX)  # a packet of some, or none
        return window, {
            "base": window - offset, "offset": offset, "offset_bound": draw(st.integers(0, 2 * offset)),
            "bound_q4": draw(st.integers(32, W_MAX * 16) | st.integers(32, 2000)), "rtt_min": least, "cycle_rtt": near,
            "rtt_last": near, "cycle_top": near, "cycle_fall": draw(rtts), "window_then": draw(packets),
            "moved_then": draw(st.integers(0, 65535) | st.integers(0, 9)), "wait": draw(waits),
            "wait_then": draw(waits) >> 10, "fall_q5": draw(rtts) * 32,
            "noise_q5": draw(rtts),
            "spoilt": draw(flags), "delivered": (1 - draw(packets)) % 2**32,
        }  # fmt: skip

    def base_rtt(self, rtt):
        """T of (1) beside this RTT; noise counts twice."""
        return min(self.rtt_min + self.p.noise_us + int(2 * self.noise), rtt)

    def queued(self, n, rtt):
        return n * (rtt - self.base_rtt(rtt)) / (rtt + self.wait)

    def find_bound(self, tp):
        """(1): n T / period + N_queue; twice the window while less than a packet is queued. 0: no Bound."""
        n, period = min((tp.delivered - self.delivered) % 2**32, W_MAX), self.round_us(tp)
        if self.spoilt or not self.cycle_rtt or not period or not n:
            return 0
        window = self.base + self.offset
        twice = 2 * window
        if self.wait:
            bound = max(window - int(16 * self.queued(window, self.cycle_rtt)) / 16, 0) + self.p.n_queue
        else:
            bound = int(16 * n * self.base_rtt(self.cycle_rtt) // period) / 16 + self.p.n_queue
        if self.p.bound_mode and self.less(self.queued(n, self.cycle_rtt), 1, 1e-9) and bound < twice:
            self.count("doublings")
            bound = twice
        return min(bound, W_MAX)

    def measure_noise(self):
        """By how far the RTT fell, but for what the window's own packets explain; the smaller of two falls counts."""
        window = self.base + self.offset
        moved = abs(window - self.window_then)
        ours = (moved + self.moved_then + 2) * self.cycle_rtt // max(window, 1)
        left = max(self.fall - ours, 0)
        if not self.spoilt and (left or moved + self.moved_then <= self.p.n_queue):
            self.noise = max(self.noise - self.noise / self.p.noise_cycles, min(left, self.last_fall))
            self.last_fall = left
        self.window_then, self.moved_then = window, 65535 if self.spoilt else min(moved, 65535)

    def end_cycle(self, tp, n):
        """ACKs that wait longer make a larger window; no cycle adds more than arrived in it before its last ACK."""
        if self.p.noise_cycles:
            self.measure_noise()
        if self.wait >> 10 != self.wait_then:
            window = int(self.fit_window(self.base + self.offset, self.rtt_last, self.wait_then << 10, self.wait))
            left = (tp.delivered - self.delivered) % 2**32 - self.offset_bound // 2 - n
            window = min(window, self.base + self.offset + max(left, 0))
            self.base = min(max(window, self.offset), W_MAX) - self.offset
            self.wait_then = self.wait >> 10
        window = self.base + self.offset
        bound = self.find_bound(tp)
        self.count("cycles" if bound else "skipped")
        if bound:
            self.bound = max(bound, 2)
        if window >= int(self.bound):
            if window > int(self.bound):
                self.count("drops")
            self.split(int(self.bound))
        self.begin_cycle(tp)

    def fill(self, tp, n):
        """Each packet adds 1 to Offset and 2 to OffsetBound: until they meet, or the window is full."""
        limit, window = min(int(self.bound), self.limit(tp)), self.base + self.offset
        if self.offset <= self.offset_bound or window >= limit:
            return
        if (
            self.p.early
            and self.rtt_last
            and not self.less(self.queued(window, self.rtt_last - self.wait), self.p.early, 1 / 16)
        ):
            return
        room = min(self.offset - self.offset_bound, limit - window, n)
        self.offset += room
        self.offset_bound += 2 * room

    def split(self, window):
        self.base, self.offset = max(window, 1) - 1, 1

    def begin_cycle(self, tp):
        self.round_start(tp)
        self.delivered = tp.delivered
        self.cycle_rtt = self.top = self.fall = self.spoilt = self.offset_bound = 0

    def take_over(self, tp):
        self.split(min(tp.snd_cwnd, W_MAX))
        self.begin_cycle(tp)

    # --- calls --------------------------------------------------------------------------------

    def init(self, tp, *_):
        self.clear()
        self.first_window(tp)
        if not self.in_recovery(tp):
            tp.snd_ssthresh = 2
        self.offset, self.bound, self.cwnd = self.stack_window(tp), W_MAX, tp.snd_cwnd
        self.begin_cycle(tp)
        self.count("flows")

    def pkts_acked(self, tp, n, rtt):
        if self.idle_ended(tp, rtt):
            self.cwnd = 0
        wait = self.forward_sample(tp, rtt)
        if wait is None:
            return
        self.wait, own = wait, self.rtt_last - wait
        self.cycle_rtt = min(self.cycle_rtt or RTT_MAX, own)
        if self.p.noise_cycles:
            self.top = max(self.top, own)
            self.fall = max(self.fall, self.top - own)

    def cong_avoid(self, tp, n, _):
        grow = tp.limited
        spoilt = not grow or self.in_recovery(tp)
        self.taken_over(tp)
        if not grow:
            self.count("limited_acks")
        self.spoilt |= spoilt
        if self.round_over(tp):
            self.end_cycle(tp, n)
            self.spoilt |= spoilt
        if grow:
            self.fill(tp, n)
        self.write(tp, self.base + self.offset)

    def ssthresh(self, tp, *_):
        """Half, of what is in flight if that is more than the window."""
        self.count("losses")
        half = max(self.half(tp), min(tp.snd_cwnd, tp.packets_out // 2))
        self.offset_saved = min(self.offset, 65535)
        self.base_saved, self.bound_saved = self.base + self.offset - self.offset_saved, self.bound
        self.bound, self.cwnd = min(half, W_MAX), 0
        return half

    def undo_cwnd(self, tp, *_):
        self.base, self.offset, self.bound = self.base_saved, self.offset_saved, self.bound_saved
        self.cwnd = self.base + self.offset
        self.begin_cycle(tp)
        return super().undo_cwnd(tp)
