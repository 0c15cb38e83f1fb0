# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""FAST: [I]'s discrete law (1) and average (2), as fast.bpf.c has them.

w <- min{2w, (1 - gamma) w + gamma (baseRTT/RTT w_old + alpha)}   (1)
RTT <- (1 - eta) RTT + eta sample,  eta = min(3/w, 1/4)           (2)
"""

from math import sqrt

from hypothesis import strategies as st

from . import ONE, RTT_MAX, W_MAX, Model, flags, members, rtts, waits, windows


class Fast(Model):
    FIELDS = (
        members(256, w="w_q8", w_old="w_round_q8", step_from="step_from_q8", step_to="step_to_q8", w_saved="w_saved_q8")
        | members(65536, rtt="rtt_avg_q16", wait="wait_avg_q16")
        | members(same="wait_then rtt_round samples rounds update_stamp started", is_limited="cwnd_limited")
    )
    SLACK = {"w": 3 / 256, "step_to": 3 / 256, "step_from": 3 / 256, "w_old": 3 / 256}  # three roundings
    WINDOW_SLACK = 3 / 256

    @classmethod
    def start(cls, draw):
        w, to = draw(windows) * 256 // ONE, draw(windows) * 256 // ONE
        to = min(to, 2 * w)
        rtt = draw(st.integers(1 << 16, RTT_MAX << 16) | rtts.map(lambda us: us << 16))
        return w >> 8, {
            "w_q8": w, "step_from_q8": w, "step_to_q8": to, "w_round_q8": draw(windows) * 256 // ONE,
            "rtt_min": draw(rtts), "rtt_avg_q16": rtt, "rtt_round": draw(rtts), "cwnd_limited": draw(flags),
            "started": draw(flags), "wait_avg_q16": draw(waits) << 16, "wait_then": draw(waits),
        }  # fmt: skip

    def alpha(self, tp):
        """Packets: the parameter, or 4 times the root of the rate in Mbit/s, 4 to 2^17; less by a short baseRTT."""
        rate = self.w * tp.mss_cache * 8 / max(int(self.rtt), 1)
        return self.p.alpha or max(min(4 * sqrt(rate), 1 << 17) * sqrt(min(self.rtt_min, 10_000) / 10_000), 4)

    def law(self, tp):
        """(1); RTT is in whole us."""
        rtt = max(int(self.rtt), 1)
        wait = int(self.wait)
        own = rtt - min(wait, rtt)
        base, alpha = min(self.rtt_min + wait, rtt), self.alpha(tp)
        if self.p.mi_thresh_us and rtt - base < self.p.mi_thresh_us:
            self.count("doublings")
            return 2 * self.w
        gamma = self.p.gamma_q8 / 256
        new = (1 - gamma) * self.w + gamma * (base / rtt * self.w_old + alpha)
        if self.is_starting(alpha):
            new = max(new, self.w * (1 + rtt / max(own, 1) / 4))
        if wait or self.wait_then:
            self.slack["step_to"] = 6 / 256  # of a window that may be twice the law's
            new = min(new, 2 * self.w)
            most = 2 * self.w * (own + self.wait_then) / new
            error = 1 + most * 3 / 256 / new  # us; new has three roundings
            if wait > most - own - error:
                self.slack["wait_then"] = error
                self.slack["step_to"] += new / max(own + self.wait_then, 1)  # 1 us of the wait
            wait = min(wait, int(most) - own)
            new = self.fit_window(new, own + wait, self.wait_then, wait)
        self.wait_then = wait
        if not self.less(new, 2 * self.w, self.slack["step_to"]):
            self.count("doublings")
            new = 2 * self.w
        return new

    def is_starting(self, alpha):
        """Alpha by the rate: a quarter a round trip until so many packets wait."""
        rtt = max(self.rtt_round, 1)
        queued = self.w * (rtt - min(self.rtt_min, rtt)) / (rtt + int(self.wait))
        self.started |= bool(self.p.alpha) or not self.less(queued, alpha, 2 / 256)
        return not self.started and self.rtt_round

    def update(self, tp, cut):
        new = self.law(tp)
        if cut:
            new = max(new, self.w)
        new = min(max(new, 2), self.limit(tp))
        if not self.is_limited and not self.less(new, self.w, 3 / 256) and new > self.w:
            self.count("limited_rounds")
            new = self.w
        self.count("updates")
        self.step_from, self.step_to = self.w, new
        self.is_limited, self.rounds, self.update_stamp = 0, 0, tp.now

    def step(self, n):
        """Toward step_to by the share that n packets are of a window."""
        way = self.step_to - self.step_from
        left = max(self.step_to - self.w, 0) if way > 0 else max(self.w - self.step_to, 0)
        move = min(abs(way) * min(n, W_MAX) / int(self.step_from) + 1 / 256, left)
        self.w += move if way > 0 else -move

    def begin_round(self, tp):
        self.round_start(tp)
        self.w_old, self.rtt_round, self.samples = self.w, 0, 0

    def take_over(self, tp):
        self.w = self.step_from = self.step_to = self.stack_window(tp)
        self.cwnd, self.rounds, self.update_stamp = tp.snd_cwnd, 0, tp.now
        self.begin_round(tp)

    def is_first_start(self, tp):
        """HyStart++ rules, which has tests of its own."""
        return not self.p.alpha and tp.snd_ssthresh > W_MAX

    # --- calls --------------------------------------------------------------------------------

    def init(self, tp, *_):
        self.clear()
        self.first_window(tp)
        if not self.in_recovery(tp) and not self.is_first_start(tp):
            tp.snd_ssthresh = 2
        self.take_over(tp)
        self.count("flows")

    def pkts_acked(self, tp, n, rtt):
        if self.idle_ended(tp, rtt):
            self.rtt = self.cwnd = 0
        wait = self.forward_sample(tp, rtt)
        if wait is None:
            return
        self.unsure |= self.is_first_start(tp)
        self.rtt_round = min(self.rtt_round or RTT_MAX, self.rtt_last - wait)
        self.samples = min(self.samples + 1, 8)
        if not self.rtt:
            self.rtt, self.wait = self.rtt_last, wait
            return
        eta = min(3 * min(max(n, 1), W_MAX) / int(self.w), self.p.eta_max_q16 / 65536)
        eta = max(eta, 1 / 65536)
        self.slack["rtt"] = (abs(self.rtt_last - self.rtt) + 2) / 65536  # eta is in 2^-16
        self.slack["wait"] = (abs(wait - self.wait) + 2) / 65536
        self.rtt += eta * (self.rtt_last - self.rtt)
        self.wait += eta * (wait - self.wait)

    def cong_avoid(self, tp, n, _):
        is_cut = False
        if tp.snd_cwnd != self.cwnd:
            self.count("reloads")
            is_cut = bool(self.cwnd)
            self.take_over(tp)
        if self.is_first_start(tp):
            self.unsure = True
            return
        self.is_limited |= tp.limited
        self.step(n)
        over = self.round_over(tp)
        self.rounds += over
        interval = self.p.update_us
        due = is_cut or (over and not interval and self.rounds >= self.p.update_rtts)
        if (due or (interval and tp.now - self.update_stamp >= interval)) and self.rtt:
            self.update(tp, is_cut)
        if over:
            self.begin_round(tp)
        self.write(tp, self.w)

    def ssthresh(self, tp, *_):
        self.count("losses")
        self.started, self.w_saved = 1, self.w
        return self.half(tp)

    def undo_cwnd(self, tp, *_):
        window = super().undo_cwnd(tp)
        if window == int(self.w_saved):
            self.w = self.step_from = self.step_to = self.w_saved
            self.cwnd = window
            self.begin_round(tp)
        return window
