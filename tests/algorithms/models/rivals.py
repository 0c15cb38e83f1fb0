# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rivals: NewReno of ns-2, Vegas of 1995, Compound TCP, TCP Adaptive Reno and CUBIC of RFC 9438."""

from math import exp

from hypothesis import strategies as st

from . import EVENT_LOSS, NONE, ONE, RTT_MAX, W_MAX, Model, flags, members, reno, rtts, windows

PART = 2**-15  # packets: diff is rounded down to 2^-16


class Rival(Model):
    """All rivals do so: a reduction saves nothing of the stack's window, and the next ACK takes that over."""

    def init(self, tp, *_):
        self.clear()
        self.first_window(tp)
        self.take_over(tp)
        self.cwnd = tp.snd_cwnd
        self.count("flows")

    def ssthresh(self, tp, *_):
        self.count("losses")
        self.cwnd = 0
        return self.half(tp)

    def undo_cwnd(self, tp, *_):
        self.cwnd = 0
        return super().undo_cwnd(tp)


class Nreno(Rival):
    """(1) each ACK adds 1 below ssthresh and 1/cwnd beyond; (2) a loss halves."""

    SHARED = ""
    FIELDS = members(ONE, w="w_q20")
    SLACK = {"w": 1 / ONE}
    WINDOW_SLACK = 1 / ONE

    @classmethod
    def start(cls, draw):
        w = draw(windows)
        return w >> 20, {"w_q20": w}

    def take_over(self, tp):
        self.w = self.stack_window(tp)

    def cong_avoid(self, tp, *_):
        self.taken_over(tp)
        if not self.may_grow(tp):
            self.count("limited_acks")
        elif int(self.w) < tp.snd_ssthresh:
            self.count("exponential_acks")
            self.w += 1
        else:
            self.count("linear_acks")
            self.w += 1 / self.w
        self.w = min(self.w, self.limit(tp))
        self.write(tp, self.w)


HOLD, DOUBLE, UP = range(3)


class Vegas95(Rival):
    """(1) diff = w (RTT - RTTmin) / RTT by the mean RTT of a round; (2) leaves slow start; (3) avoids; (4) a loss."""

    FIELDS = (
        members(ONE, w="w_q20")
        | members(256, diff="diff_q8")
        | members(same="rtt_sum phase over timed_out", samples="rtt_count", rtt="rtt_mean")
    )
    SLACK = {"w": PART, "diff": 1 / 128, "rtt": 1}
    WINDOW_SLACK = PART

    @classmethod
    def start(cls, draw):
        w, rtt = draw(windows), draw(rtts)
        near = min(rtt + rtt * draw(st.integers(0, 200)) // 1000, RTT_MAX)
        own = {"over": draw(flags), "phase": draw(st.integers(0, 2)), "timed_out": draw(flags)}
        return w >> 20, {"w_q20": w, "rtt_min": rtt, "rtt_mean": near, **own}

    def take_over(self, tp):
        self.w = max(min(tp.snd_cwnd, W_MAX), 2 if self.timed_out else 1)
        self.phase, self.over, self.timed_out = HOLD, 0, 0
        self.begin_round(tp)

    def begin_round(self, tp):
        self.round_start(tp)
        self.rtt_sum = self.samples = 0

    def shrink(self, tp, by):
        self.w = max(self.w - by, 2)
        tp.snd_ssthresh = 2

    def decide(self, tp):
        held, self.phase = self.phase == HOLD, HOLD
        if not self.rtt:
            self.count("blind_rounds")
            return
        self.count("rounds")
        self.diff = diff = self.w * (self.rtt - min(self.rtt_min, self.rtt)) / self.rtt
        if int(self.w) < tp.snd_ssthresh:
            if held and self.less(self.p.gamma, diff, PART):
                self.count("exits")
                self.shrink(tp, self.w / 8)
            elif held:
                self.phase = DOUBLE
        elif self.less(diff, self.p.alpha, PART):
            self.count("increases")
            self.phase = UP
        elif self.less(self.p.beta, diff, PART):
            self.count("decreases")
            self.shrink(tp, 1)

    def pkts_acked(self, tp, n, rtt):
        if self.round_over(tp):
            self.rtt = self.rtt_sum // self.samples if self.samples else 0
            self.over = 1
            self.begin_round(tp)
        if self.rtt_sample(rtt):
            self.rtt_sum += self.rtt_last
            self.samples += 1

    def cong_avoid(self, tp, n, _):
        self.taken_over(tp)
        self.ack_stamp = tp.now
        if self.over:
            self.over = 0
            self.decide(tp)
        if self.phase != HOLD and not self.may_grow(tp):
            self.count("limited_acks")
        elif self.phase == DOUBLE and int(self.w) < tp.snd_ssthresh:
            self.w += min(n, tp.snd_ssthresh - int(self.w))
        elif self.phase == UP:
            self.w += min(reno(self.w, n), 1)
        self.w = min(self.w, self.limit(tp))
        self.write(tp, self.w)

    def min_tso_segs(self, tp, *_):
        if self.idle_time(tp):
            self.cwnd = 0

    def ssthresh(self, tp, *_):
        super().ssthresh(tp)
        return max(tp.snd_cwnd * self.p.loss_q8 // 256, 2)

    def undo_cwnd(self, tp, *_):
        self.timed_out = 0
        return super().undo_cwnd(tp)

    def cwnd_event(self, tp, event, *_):
        super().cwnd_event(tp, event)
        if event == EVENT_LOSS:
            self.timed_out = 1
            tp.snd_ssthresh = self.half(tp)


class TwoWindows(Rival):
    """A window for Reno and one beside it, which slow start does not have."""

    def take_over(self, tp):
        w = self.stack_window(tp)
        if w < tp.snd_ssthresh:
            self.beside = 0
        self.beside = min(self.beside, w - min(w, 2))
        self.reno = w - self.beside
        self.begin_round(tp)

    def use(self, tp):
        self.reno = min(self.reno, self.limit(tp))
        self.beside = min(self.beside, self.limit(tp) - self.reno)
        self.write(tp, self.reno + self.beside)

    @property
    def w(self):
        return self.reno + self.beside


class Ctcp(TwoWindows):
    """dwnd beside cwnd: (3) grows by win^0.75 / 8 - 1, (4) retreats by diff from gamma on, (5) a loss halves both."""

    FIELDS = (
        members(ONE, reno="cwnd_q20", beside="dwnd_q20", saved="dwnd_saved")
        | members(256, diff="diff_q8")
        | members(base_saved="base_saved", is_limited="limited")
    )
    SLACK = {"beside": 17 * PART, "diff": 1 / 128, "reno": 1e-5, "saved": 1 / ONE}
    WINDOW_SLACK = 17 * PART  # zeta, 16 at most, times that of diff

    @classmethod
    def start(cls, draw):
        w = draw(windows)
        beside = int((w - 2 * ONE) * draw(st.floats(0, 1)))
        return w >> 20, {"cwnd_q20": w - beside, "dwnd_q20": beside, "rtt_min": draw(rtts), "limited": draw(flags)}

    def begin_round(self, tp):
        self.round_start(tp)
        self.is_limited = 0

    def update(self, tp, grow):
        rtt = min(tp.srtt_us >> 3, RTT_MAX)
        base = min(self.rtt_min, rtt)
        if not base:
            return
        self.diff = diff = self.w * (rtt - base) / rtt
        if not self.less(diff, self.p.gamma, PART):
            self.count("retreats")
            self.beside = max(self.beside - self.p.zeta * diff, 0)
        elif grow and self.w > self.p.low_window:
            self.count("increases")
            up = int(self.w) ** 0.75 * self.p.alpha_q8 / 256
            self.slack["beside"] += up * 1e-4 + 1e-4
            self.beside += max(up - 1, 0)

    def pkts_acked(self, tp, n, rtt):
        if self.idle_ended(tp, rtt):
            self.cwnd = 0
        self.rtt_sample(rtt)

    def cong_avoid(self, tp, n, _):
        grow = self.may_grow(tp)
        self.taken_over(tp)
        if not grow:
            self.count("limited_acks")
            self.is_limited = 1
        if self.round_over(tp):
            if int(self.w) >= tp.snd_ssthresh:
                self.update(tp, not self.is_limited)
                self.unsure |= abs(self.w - round(self.w)) < self.slack["beside"] and self.w % 1 != 0
                if int(self.w) < tp.snd_ssthresh:
                    tp.snd_ssthresh = max(int(self.w), 2)
            self.begin_round(tp)
        if grow and int(self.w) < tp.snd_ssthresh:
            up = min(n, tp.snd_ssthresh - int(self.w))
            self.reno += up
            n -= up
        if grow and n and int(self.w) >= tp.snd_ssthresh:
            self.slack["reno"] += n / self.w**2 * self.slack["beside"]
            self.reno += reno(self.w, n)
        self.use(tp)

    def ssthresh(self, tp, *_):
        self.saved, self.base_saved = self.beside, 0
        self.beside /= 2
        return super().ssthresh(tp)

    def undo_cwnd(self, tp, *_):
        self.beside = self.saved
        if self.base_saved:
            self.rtt_min = min(self.rtt_min or RTT_MAX, self.base_saved)
        return super().undo_cwnd(tp)

    def cwnd_event(self, tp, event, *_):
        super().cwnd_event(tp, event)
        if event == EVENT_LOSS:
            self.beside, self.base_saved, self.rtt_min = 0, self.rtt_min, 0


class Areno(TwoWindows):
    """W = Wbase + Wprobe (1); c (2), RTTcong (3); Wprobe by Winc(c) (4), (5); a loss leaves W / (1 + c) (6)."""

    FIELDS = (
        members(ONE, reno="base_q20", beside="probe_q20", saved="probe_saved")
        | members(65536, c="c_q16")
        | members(256, b="b_q8")
        | members(16, rtt="rtt_q4")
        | members(same="rtt_max delivered", cong="rtt_cong", cong_saved="rtt_cong_saved", is_limited="limited")
    )
    SLACK = {"reno": 1e-5, "rtt": 1 / 16, "b": 1 / 128, "c": 1 / 65536, "cong": 1}

    @classmethod
    def start(cls, draw):
        w, low = draw(windows), draw(rtts)
        beside = int((w - 2 * ONE) * draw(st.floats(0, 1)))
        last = min(low + low * draw(st.integers(0, 1100)) // 1000, RTT_MAX)
        return w >> 20, {
            "base_q20": w - beside, "probe_q20": beside, "rtt_min": low, "rtt_max": last, "rtt_last": last,
            "rtt_q4": last << 4, "rtt_cong": draw(st.just(min(2 * low, RTT_MAX)) | rtts), "limited": draw(flags),
            "b_q8": draw(st.integers(0, NONE) | st.integers(0, 10**8)),
        }  # fmt: skip

    def begin_round(self, tp):
        self.round_start(tp)
        self.delivered, self.is_limited = tp.delivered, 0

    def sample_b(self, tp):
        b = self.rate_of_round(tp)
        if b and not (self.is_limited and b < self.b):
            self.b = (7 * self.b + b) / 8 if self.b else b

    def congestion(self, rtt):
        """(2)"""
        cong = self.cong or self.rtt_max
        if not rtt:
            return 1
        if rtt <= self.rtt_min:
            return 0
        return (rtt - self.rtt_min) / (cong - self.rtt_min) if cong > rtt else 1

    def increase(self, tp):
        """(5), packets a round trip."""
        most = min(self.b * 8 * min(tp.mss_cache, 65535) / (self.p.m_kbit * 1000), self.w)
        beta = 2 * most * (1 / 10 - (1 / 10 + 1) / exp(10))
        gamma = self.p.winc_at_1 - 2 * most * (1 / 10 - (1 / 10 + 1 / 2) / exp(10))
        self.slack["beside"] = most * (0.0031 * exp(-10 * self.c) + 10 / 65536 + 2e-5) + 1e-3
        return most / exp(10 * self.c) + beta * self.c + gamma

    def avoid_congestion(self, tp, n, grow):
        """(4), of which n packets are a share; one round trip's at most."""
        more, share = reno(self.w, n), min(n / int(self.w), 1)
        self.c = self.congestion(int(self.rtt))
        increase = self.increase(tp)
        if not self.less(increase, 0, self.slack["beside"]):
            self.count("probes")
            self.beside += increase * share if grow else 0
        else:
            self.count("retreats")
            self.beside = max(self.beside + increase * share, 0)
        self.reno += more if grow else 0

    def pkts_acked(self, tp, n, rtt):
        if self.idle_ended(tp, rtt):
            self.cwnd = 0
        if rtt <= 0:
            return
        tick = self.p.tick_us
        rtt = min(rtt, RTT_MAX)
        if tick:
            rtt = max((rtt + tick - 1 - tp.now % tick) // tick, 1) * tick
        self.rtt_last = rtt
        self.rtt_min = min(self.rtt_min or rtt, rtt)
        self.rtt = (3 * self.rtt + rtt) / 4 if self.rtt else rtt
        self.rtt_max = max(self.rtt_max, rtt)

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
        self.slack["beside"] = 0
        if int(self.w) < tp.snd_ssthresh:
            up = min(n, tp.snd_ssthresh - int(self.w)) if grow else n
            self.reno += up if grow else 0
            n -= up
        if n:
            self.avoid_congestion(tp, n, grow)
            if self.less(self.w, tp.snd_ssthresh, self.slack["beside"]):
                tp.snd_ssthresh = max(int(self.w), 2)
        self.use(tp)
        self.slack["reno"] += self.slack["beside"] * (self.w >= self.limit(tp) - 1)
        self.WINDOW_SLACK = self.slack["beside"] + 1e-5

    def ssthresh(self, tp, *_):
        super().ssthresh(tp)
        self.saved, self.cong_saved, self.beside = self.beside, self.cong, 0
        rtt, weight = self.rtt_last, self.p.cong_weight_pct
        if rtt:
            self.cong = int((self.cong * weight + rtt * (100 - weight)) / 100) if self.cong else rtt
        self.c = self.congestion(rtt)
        self.WINDOW_SLACK = tp.snd_cwnd / 65536 + 1e-9
        return max(tp.snd_cwnd / (1 + self.c), 2)

    def undo_cwnd(self, tp, *_):
        self.beside, self.cong, self.WINDOW_SLACK = self.saved, self.cong_saved, 0
        return super().undo_cwnd(tp)


C, BETA = 0.4, 0.7  # packets/s^3, the share that a loss leaves


class Cubic9438(Rival):
    """RFC 9438: (1), (2) and (4), growth by the target, fast convergence."""

    FIELDS = (
        members(ONE, w="w_q20", w_max="now.wmax_q20", prior="now.prior_q20", est="now.est_q20")
        | members(ONE, w_max_saved="saved_wmax_q20")
        | members(1000, k="k_ms")
        | members(epoch="now.stamp")
    )
    SLACK = {"w_max": 2 / ONE, "w": 1e-5, "k": 0.002, "est": 2 / ONE}
    WINDOW_SLACK = 1e-5

    @classmethod
    def start(cls, draw):
        w, most = draw(windows), draw(windows)
        return w >> 20, {"w_q20": w, "now.wmax_q20": most, "now.prior_q20": draw(windows), "now.est_q20": draw(windows)}

    def take_over(self, tp):
        self.w = self.stack_window(tp)

    def cubic(self, t):
        """(1), t in s; 262 s from K at most. Not below 0."""
        far = min(abs(t - self.k), 262.144)
        return max(self.w_max + (C if t >= self.k else -C) * far**3, 0)

    def avoid_congestion(self, tp, n):
        more = reno(self.w, n)
        if not self.epoch:
            self.epoch, self.est = tp.now, self.w
            self.w_max = max(self.w_max, self.w)
            self.k = int(1000 * ((self.w_max - self.w) / C) ** (1 / 3)) / 1000
            self.unsure |= self.w_max > self.w  # the next call knows the code's K, in ms
        t = (tp.now - self.epoch) // 1000 / 1000
        self.est = min(self.est + more * (3 * (1 - BETA) / (1 + BETA) if self.est < self.prior else 1), W_MAX)
        now = self.cubic(t)
        if self.less(now, self.est, abs(now - self.w_max) * 1e-4 + 1e-5) and self.est >= self.w:
            self.count("friendly_acks")
            self.w = self.est
            return
        at_rtt = self.cubic(t + min(tp.srtt_us >> 3, RTT_MAX) // 1000 / 1000)
        target = min(max(at_rtt, self.w), self.w * 1.5)
        share = min(min(n, W_MAX) / int(self.w), 1)
        self.slack["w"] += abs(at_rtt - self.w_max) * 1e-4 * share  # ms^3 in a packet << 20 are 8 in 10^5 too few
        self.w += (target - self.w) * share

    def init(self, tp, *_):
        self.p.init_cwnd = 0
        super().init(tp)

    def pkts_acked(self, tp, n, rtt):
        last = self.ack_stamp
        if self.idle_ended(tp, rtt):
            self.cwnd = 0
            self.epoch += tp.now - last if self.epoch else 0
        self.rtt_sample(rtt)

    def cong_avoid(self, tp, n, _):
        self.taken_over(tp)
        ssthresh = min(tp.snd_ssthresh, W_MAX)
        if not self.may_grow(tp):
            self.count("limited_acks")
            self.epoch = n = 0
        elif int(self.w) < ssthresh:
            up = min(n, ssthresh - int(self.w))
            self.w += up
            n -= up
        if n and int(self.w) >= ssthresh:
            self.avoid_congestion(tp, n)
        self.w = min(self.w, self.limit(tp))
        self.write(tp, self.w)
        self.WINDOW_SLACK = self.slack["w"]

    def ssthresh(self, tp, *_):
        super().ssthresh(tp)
        w = self.stack_window(tp)
        self.w_max_saved, self.epoch, self.prior = self.w_max, 0, w
        self.w_max = w * (1 + BETA) / 2 if self.p.fast_convergence and w < self.w_max else w
        return max(tp.snd_cwnd * 70 // 100, 2)

    def undo_cwnd(self, tp, *_):
        self.w_max, self.epoch = self.w_max_saved, 0
        return super().undo_cwnd(tp)

    def cwnd_event(self, tp, event, *_):
        super().cwnd_event(tp, event)
        if event == EVENT_LOSS:
            self.w_max = 0
