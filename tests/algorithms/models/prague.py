# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prague: draft-briscoe-iccrg-prague-congestion-control, as prague.bpf.c has it.

alpha += (share of marks - alpha) / 16, once an rtt_virt             (1)
a mark: W -= alpha W / 2, once an RTT; a classic one W / 2           (2)
W += n / W (rtt / rtt_virt)^2 for n packets without a mark           (3)
"""

from hypothesis import strategies as st

from . import CWR, LOSS, RECOVERY, RTT_MAX, W_MAX, Model, after, flags, members, rtts, windows

CLASSIC, SURELY = 3, 6  # RTTs more with a long queue than with a short one


class Prague(Model):
    FIELDS = (
        members(1 << 40, w="w_q40")
        | members(1 << 24, alpha="alpha_q24")
        | members(
            same="delivered ce round_delivered round_ce round_us ect1 ect0 rounds cwr_end cwr_us rtt_us long_queue"
        )
        | members(same="marked cwr l4s")
    )
    SLACK = {"alpha": 2**-20, "w": 2**-19}
    WINDOW_SLACK = 2**-19

    @classmethod
    def start(cls, draw):
        w, base = draw(windows), draw(rtts)
        own = {"rtt_us": min(base + draw(st.integers(0, 10_000)), RTT_MAX), "long_queue": draw(st.integers(0, SURELY))}
        own |= {"alpha_q24": draw(st.integers(0, 1 << 24)), "rounds": draw(st.integers(0, 1000)), "rtt_min": base}
        own |= {"marked": draw(flags), "cwr": draw(flags), "l4s": draw(flags)}
        return w >> 20, {"w_q40": w << 20, "w": w >> 20} | own

    @property
    def is_scalable(self):
        return self.l4s and self.long_queue < CLASSIC

    def virtual_rtt(self, tp):
        rtt = min(tp.srtt_us >> 3, RTT_MAX)
        short = self.rounds >= self.p.rtt_rounds and self.is_scalable
        return max(rtt, 1000 * self.p.rtt_virt_ms) if short else rtt

    def set_window(self, tp, w):
        self.w = min(w, max(self.limit(tp), 1))

    def take_window(self, tp):
        self.set_window(tp, self.stack_window(tp))
        self.cwnd = tp.snd_cwnd

    def take_ssthresh(self, tp):
        self.set_window(tp, min(max(tp.snd_ssthresh, 2), W_MAX))
        self.write(tp, self.first_repair(tp, int(self.w)))

    def begin_cwr(self, tp):
        self.cwr, self.cwr_end, self.cwr_us = 1, tp.snd_nxt, tp.now % 2**32

    def note_queue(self, marks):
        """Marks of an RTT with a long queue are classic ones."""
        if self.p.classic_ms and marks and self.rtt_us >= self.rtt_min + 1000 * self.p.classic_ms:
            self.long_queue = min(self.long_queue + 1, SURELY)
        elif marks and self.long_queue:
            self.long_queue -= 1
        self.rtt_us = 0

    def update_alpha(self, tp):
        """(1)"""
        if not self.round_over(tp):
            return
        acked, ce = (tp.delivered - self.round_delivered) % 2**32, (tp.delivered_ce - self.round_ce) % 2**32
        self.rounds = min(self.rounds + 1, 10**6)
        self.note_queue(ce)
        self.round_start(tp)
        if (tp.now - self.round_us) % 2**32 < self.virtual_rtt(tp):
            return
        if self.marked and acked:
            self.alpha += (min(ce, acked) / acked - self.alpha) / 16
        self.round_delivered, self.round_ce, self.round_us = tp.delivered, tp.delivered_ce, tp.now % 2**32

    def on_marks(self, tp):
        """(2)"""
        self.count("marked_acks")
        if not self.marked:
            self.marked, self.alpha = 1, 1
        if not self.cwr:
            left = self.w * (1 - min(self.alpha, 1) / 2) if self.is_scalable else self.w / 2
            self.slack["w"] += self.w * 2**-20
            self.count("cuts" if self.is_scalable else "classic_cuts")
            self.set_window(tp, max(left, min(self.w, 2)))
            self.unsure |= self.w % 1 != 0 and abs(self.w - round(self.w)) <= self.slack["w"]
            self.begin_cwr(tp)
        tp.snd_ssthresh = max(int(self.w), 2)

    def grow(self, tp, n, ce):
        """Slow start, then (3) for what was not marked."""
        up = 0
        if int(self.w) < tp.snd_ssthresh:
            up = min(n, min(tp.snd_ssthresh, W_MAX) - min(int(self.w), W_MAX))
            self.set_window(tp, self.w + up)
        if n <= up + ce:
            return
        rtt, whole = min(tp.srtt_us >> 3, RTT_MAX), max(int(self.w), 1)
        m = max(self.virtual_rtt(tp) / rtt, 1) if rtt else 0
        grown = min(n - up - ce, whole) / whole
        self.set_window(tp, self.w + (grown / m**2 if m else 0 if self.virtual_rtt(tp) else grown))

    # --- calls --------------------------------------------------------------------------------

    def init(self, tp, *_):
        self.clear()
        self.count("flows")
        self.delivered = self.round_delivered = tp.delivered
        self.ce = self.round_ce = tp.delivered_ce
        self.round_us = tp.now % 2**32
        self.take_window(tp)
        self.round_start(tp)

    def pkts_acked(self, tp, n, rtt):
        if self.rtt_sample(rtt):
            self.rtt_us = min(self.rtt_us or RTT_MAX, self.rtt_last)

    def cong_control(self, tp, *_):
        acked, ce = (tp.delivered - self.delivered) % 2**32, (tp.delivered_ce - self.ce) % 2**32
        self.ack_stamp, self.delivered, self.ce = tp.now, tp.delivered, tp.delivered_ce
        ect1, ect0 = self.code["ect1"], self.code["ect0"]  # bytes that arrived so
        if ect1 != self.ect1 or ect0 != self.ect0:
            self.l4s = int(ect1 != self.ect1)
        self.ect1, self.ect0 = ect1, ect0
        self.update_alpha(tp)
        is_old = (tp.now - self.cwr_us) % 2**32 >= self.virtual_rtt(tp)
        if self.cwr and not after(self.cwr_end, tp.snd_una) and is_old:
            self.cwr = 0
        if tp.state == RECOVERY:
            self.take_ssthresh(tp)
            return
        if tp.snd_cwnd != self.cwnd:
            self.take_window(tp)
        if ce and tp.state != LOSS:
            self.on_marks(tp)
        if acked and self.may_grow(tp):
            self.grow(tp, min(acked, W_MAX), min(ce, W_MAX))
        self.write(tp, self.w)

    def half_of(self, tp):
        return self.half(tp) if tp.snd_cwnd != self.cwnd else max(int(self.w) // 2, 2)

    def ssthresh(self, tp, *_):
        return self.half_of(tp)

    def on_loss(self, tp):
        self.count("losses")
        self.begin_cwr(tp)

    def set_state(self, tp, state, *_):
        if state == RECOVERY and tp.state != RECOVERY:
            if tp.state == CWR:
                tp.snd_ssthresh = self.half_of(tp)
            self.on_loss(tp)
            self.take_ssthresh(tp)
        elif state == CWR and tp.delivered_ce == self.ce:
            self.on_loss(tp)
            self.take_ssthresh(tp)
        elif state == LOSS:
            self.count("timeouts")
            if tp.state == CWR:
                tp.snd_ssthresh = max(min(tp.snd_ssthresh, int(self.w) // 2), 2)
            if tp.state < RECOVERY:
                self.on_loss(tp)
            self.cwnd = 0

    def undo_cwnd(self, tp, *_):
        self.cwnd = 0
        return super().undo_cwnd(tp)

    def min_tso_segs(self, tp, *_):
        if self.shrunk_by_idle(tp):
            self.take_window(tp)
        return 1
