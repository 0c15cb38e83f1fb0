# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP-Fusion: [F]'s (1) to (5), as fusion.bpf.c has them."""

from hypothesis import strategies as st

from . import NONE, ONE, W_MAX, Model, flags, marked, members, packets, reno, rtts, waits, windows

SLOW_START, INCREASE, STEADY, DECREASE = range(4)
ROUNDS = 5
PART = 2**-15  # packets: diff and alpha are each rounded down to 2^-16


class Fusion(Model):
    FIELDS = (
        members(ONE, w="w_q20", reno="reno_q20")
        | members(256, b="b_q8", b_last="b_last_q8", diff="diff_q8", alpha="alpha_q8")
        | members(16, rtt="rtt_q4", wait="wait_q4")
        | members(same="b_rounds delivered phase mark reno_ssthresh reno_saved", is_limited="limited")
        | members(ssthresh_saved="reno_ssthresh_saved")
    )
    SLACK = {"w": 2 * PART, "reno": PART, "rtt": 1 / 16, "b": 1 / 128, "diff": 1 / 128, "alpha": 1 / 128}
    WINDOW_SLACK = 2 * PART

    @classmethod
    def start(cls, draw):
        w, rtt = draw(windows), draw(rtts)
        near = min(rtt + rtt * draw(st.integers(0, 400)) // 1000, 1 << 26)  # about alpha and upper_mult alpha
        rates = st.integers(0, NONE) | st.integers(0, 10**7)
        return w >> 20, {
            "w_q20": w, "reno_q20": min(draw(windows), w), "rtt_min": rtt, "rtt_last": draw(rtts), "rtt_q4": near << 4,
            "wait_q4": draw(waits) << 4,
            "b_q8": draw(rates), "b_last_q8": draw(rates), "reno_ssthresh": draw(packets), "limited": draw(flags),
        }  # fmt: skip

    def backlog(self):
        """(1) and (2), alpha one packet at least; None without an RTT. RTT is in whole us, and of the data alone."""
        rtt, data = int(self.rtt + self.wait), int(self.rtt)
        if not rtt:
            return None
        diff = self.w * (data - min(self.rtt_min, data)) / rtt
        return diff, max(min(self.w * self.p.dmin_alpha_us / rtt, W_MAX), 1)

    def avoid_congestion(self, n, grow):
        """(4): amounts a round trip, of which n packets are a share; one round trip's at most."""
        backlog, more = self.backlog(), reno(self.w, n)
        share = min(n / int(self.w), 1)
        if backlog:
            self.diff, self.alpha = diff, alpha = backlog
            error = PART * max(self.p.dmin_alpha_us / int(self.rtt + self.wait), 1)  # of alpha: cwnd is in 2^-16 there
            self.slack["alpha"] += error
            if self.less(diff, alpha, error):
                self.phase = INCREASE
                self.count("increases")
                b = max(self.b, self.b_last) if self.p.b_mode else self.b
                self.slack["w"] += W_MAX * 2**-24
                self.w += min(b * self.p.dmin_winc_us / 1e6, self.w) * share if grow else 0  # (3)
            elif self.less(self.p.upper_mult * alpha, diff, error * (self.p.upper_mult + 1)):
                self.phase = DECREASE
                self.slack["w"] += error
                self.count("decreases")
                self.w = max(self.w - (diff - alpha) * share, 2)
            else:
                self.phase = STEADY
                self.count("steadies")
        self.reno += more if grow else 0
        if not self.less(self.reno, self.w, self.slack["w"] if backlog else 0):
            self.count("reno_wins")
            self.w = self.reno

    def sample_b(self, tp):
        """The rate of a round, packets/s, averaged with 7/8, or the largest of five to ten rounds."""
        b = self.rate_of_round(tp)
        known = max(self.b, self.b_last) if self.p.b_mode else self.b
        if not b or (self.is_limited and b < known):
            return
        if not self.b:
            self.b = b
        else:
            self.b = max(self.b, b) if self.p.b_mode else (7 * self.b + b) / 8
        self.b_rounds += self.p.b_mode
        if self.b_rounds == ROUNDS:
            self.b_last, self.b, self.b_rounds = self.b, 0, 0

    def slow_start(self, tp, n):
        """To ssthresh, reno_cwnd to its own; the packets beyond."""
        up = min(n, min(tp.snd_ssthresh, W_MAX) - int(self.w))
        self.w += up
        self.reno = max(self.reno, min(self.w, self.reno_ssthresh))
        return n - up

    def leave_slow_start(self, tp):
        backlog = self.backlog()
        if backlog and self.less(
            self.p.ss_exit * backlog[1],
            backlog[0],
            PART * (self.p.ss_exit + 1) * max(self.p.dmin_alpha_us / int(self.rtt + self.wait), 1),
        ):
            self.count("early_exits")
            tp.snd_ssthresh = max(int(self.w), 2)
            self.halve_reno()

    def halve_reno(self):
        self.reno = max(self.reno / 2, 2)
        self.reno_ssthresh = int(self.reno)

    def begin_round(self, tp):
        self.round_start(tp)
        self.delivered, self.is_limited = tp.delivered, 0

    def take_over(self, tp):
        whole = int(self.reno)
        self.w = self.stack_window(tp)
        if self.reno > self.w:  # as after idle time: refilled to 3/4
            self.reno_ssthresh = max(self.reno_ssthresh, whole // 2 + whole // 4)
        self.reno = min(self.reno, self.w)
        self.begin_round(tp)

    # --- calls --------------------------------------------------------------------------------

    def init(self, tp, *_):
        self.clear()
        self.first_window(tp)
        self.reno = self.reno_ssthresh = W_MAX
        self.take_over(tp)
        self.cwnd = tp.snd_cwnd
        self.count("flows")

    def in_ack_event(self, tp, flags, _):
        self.mark = marked(tp, flags)

    def pkts_acked(self, tp, n, rtt):
        if self.idle_ended(tp, rtt):
            self.cwnd = 0
        wait = self.forward_sample(tp, rtt)
        if wait is None:
            return
        data = self.rtt_last - wait
        self.rtt = (int(48 * self.rtt) + 16 * data) // 4 / 16 if self.rtt else data
        if wait or self.wait:
            self.note_wait(tp, wait, min(n, W_MAX))

    def note_wait(self, tp, wait, n):
        """The average, and the window, which changes as the RTT does: it grows by what was acknowledged at most.
        In slow start it grows so anyway, and no fall is a reason for one."""
        most = int(16 * self.wait) + int(16 * (self.rtt + self.wait)) * n // max(int(self.w) + n, 1)
        then, self.wait = int(self.wait), min((int(48 * self.wait) + 16 * wait) // 4, most) / 16
        if int(self.w) >= tp.snd_ssthresh and (int(self.wait) < then or tp.limited):
            self.slack["w"] += PART
            self.w = min(self.fit_window(self.w, int(self.rtt + self.wait), then, int(self.wait)), W_MAX)
            tp.snd_ssthresh = min(tp.snd_ssthresh, max(int(self.w), 2))

    def cong_avoid(self, tp, n, _):
        grow = self.may_grow(tp)
        self.taken_over(tp)
        if not grow:
            self.count("limited_acks")
            self.is_limited = 1
        if self.round_over(tp):
            if not self.in_recovery(tp):
                self.sample_b(tp)
            self.begin_round(tp)
        if self.p.ss_exit and tp.snd_ssthresh > W_MAX:
            self.leave_slow_start(tp)
        if int(self.w) < tp.snd_ssthresh:
            self.phase = SLOW_START
            n = self.slow_start(tp, n) if grow else 0
        if n and int(self.w) >= tp.snd_ssthresh:
            self.avoid_congestion(n, grow)
            if self.less(self.w, tp.snd_ssthresh, self.slack["w"]):
                tp.snd_ssthresh = max(int(self.w), 2)
        self.w, self.reno = min(self.w, self.limit(tp)), min(self.reno, self.limit(tp))
        self.write(tp, self.w)

    def ssthresh(self, tp, *_):
        """(5), or a mark's share."""
        self.count("losses")
        self.reno_saved, self.ssthresh_saved = int(self.reno), self.reno_ssthresh
        self.halve_reno()
        self.cwnd = 0
        if self.p.ecn_beta_percent and self.mark == tp.now != 0:
            self.count("marks")
            return max(tp.snd_cwnd * self.p.ecn_beta_percent // 100, 2)
        half = max(tp.snd_cwnd // 2, 2)
        if not self.rtt_last:
            return half
        return max(half, tp.snd_cwnd * min(self.rtt_min + int(self.wait), self.rtt_last) // self.rtt_last)

    def undo_cwnd(self, tp, *_):
        self.reno = max(self.reno, self.reno_saved)
        self.reno_ssthresh = max(self.reno_ssthresh, self.ssthresh_saved)
        self.cwnd = 0
        return super().undo_cwnd(tp)
