# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACC+SA's sender: Reno by the packets that an ACK covers, as accsa.bpf.c has it."""

from hypothesis import strategies as st

from ..host.accsa import SENDER
from . import CWR, LOSS, RECOVERY, W_MAX, Model, members, rtts, windows


class Accsa(Model):
    SHARED = "ack_stamp rtt_last rtt_min"
    FIELDS = members(same="w delivered una srtt_us", acked="count")
    HANDSHAKE = SENDER

    @classmethod
    def start(cls, draw):
        w = draw(windows) >> 20
        return w, {"w": w, "count": draw(st.integers(0, w - 1)), "srtt_us": draw(rtts)}

    def take_over(self, tp):
        self.w, self.acked, self.cwnd = self.stack_window(tp), 0, tp.snd_cwnd

    def grow(self, tp, n):
        """A packet for each in slow start, then one a window. `acked`: packets toward it."""
        n = min(n, W_MAX)
        if self.w < tp.snd_ssthresh:
            before, self.w = self.w, min(self.w + n, tp.snd_ssthresh)
            n -= self.w - before
        self.acked += n
        more = self.acked // self.w
        self.acked -= more * self.w
        self.w = min(self.w + more, max(self.limit(tp), 1))
        self.acked = min(self.acked, self.w - 1)

    def take_ssthresh(self, tp):
        self.w, self.acked = min(max(tp.snd_ssthresh, 2), W_MAX), 0
        self.write(tp, self.first_repair(tp, max(tp.snd_ssthresh, 2)))

    # --- calls --------------------------------------------------------------------------------

    def init(self, tp, *_):
        self.clear()
        self.count("flows")
        if not self.wire.peer:
            self.count("fallbacks")
            return
        self.first_window(tp)
        self.take_over(tp)
        self.delivered, self.una = tp.delivered, tp.snd_una

    def pkts_acked(self, tp, n, rtt):
        if self.rtt_sample(rtt):
            self.srtt_us = (7 * self.srtt_us + self.rtt_last) // 8 if self.srtt_us else self.rtt_last

    def cong_control(self, tp, *_):
        n, advanced = (tp.delivered - self.delivered) % 2**32, tp.snd_una != self.una
        self.ack_stamp, self.delivered, self.una = tp.now, tp.delivered, tp.snd_una
        if tp.state in (CWR, RECOVERY):
            self.take_ssthresh(tp)
            return
        if tp.snd_cwnd != self.cwnd:
            self.take_over(tp)
        if advanced and self.may_grow(tp):
            self.grow(tp, n)
        self.write(tp, self.w)

    def ssthresh(self, tp, *_):
        self.count("losses")
        return self.half(tp)

    def set_state(self, tp, state, *_):
        if state == LOSS:
            self.count("timeouts")
        elif state in (CWR, RECOVERY):
            self.take_ssthresh(tp)

    def undo_cwnd(self, tp, *_):
        self.cwnd = 0
        return super().undo_cwnd(tp)

    def min_tso_segs(self, tp, *_):
        if self.shrunk_by_idle(tp):
            self.take_over(tp)
        return 2
