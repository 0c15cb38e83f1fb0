# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ports of Linux's Vegas, Westwood+, HighSpeed and BIC: their modules' integers, which wrap as u32 do."""

from math import floor, log

from hypothesis import strategies as st

from . import EVENT_LOSS, LOSS, NONE, OPEN, Model, flags, packets, rtts, windows

U32, NO_RTT = 2**32, 2**31 - 1
HZ, TICK_US = 250, 4000  # of the tests' kernel
TX_START, CWND_RESTART, COMPLETE_CWR = range(3)  # CA_EVENT_...
SLOW_PATH = 1  # CA_ACK_SLOWPATH


class LinuxReno(Model):
    """tcp_cong.c's Reno. The stack's window is the law's; `rcv_tsval` is snd_cwnd_cnt, packets toward the next step."""

    SHARED = ""

    def differences(self, tp, result, call):
        yield from super().differences(tp, result, call)
        if tp.rcv_tsval != call["rcv_tsval"]:
            yield "snd_cwnd_cnt", tp.rcv_tsval, call["rcv_tsval"]

    def init(self, tp, *_):
        self.clear()
        self.count("flows")

    def slow_start(self, tp, n):
        """Returns the packets that its end leaves over."""
        to = min(tp.snd_cwnd + n, tp.snd_ssthresh)
        left = n - (to - tp.snd_cwnd)
        tp.snd_cwnd = min(to, tp.snd_cwnd_clamp)
        return left

    def step(self, tp, per_step, n):
        if tp.rcv_tsval >= per_step:
            tp.rcv_tsval, tp.snd_cwnd = 0, tp.snd_cwnd + 1
        tp.rcv_tsval += n
        tp.snd_cwnd = min(tp.snd_cwnd + tp.rcv_tsval // per_step, tp.snd_cwnd_clamp)
        tp.rcv_tsval %= per_step

    def cong_avoid(self, tp, n, _):
        if not self.may_grow(tp):
            return
        if tp.snd_cwnd < tp.snd_ssthresh:
            n = self.slow_start(tp, n)
        if n:
            self.step(tp, tp.snd_cwnd, n)

    def ssthresh(self, tp, *_):
        return self.half(tp)

    def undo_cwnd(self, tp, *_):
        return max(tp.snd_cwnd, tp.prior_cwnd)

    def cwnd_event(self, tp, event, *_):
        pass


class Bpf_vegas(LinuxReno):
    """diff = cwnd (RTT - BaseRTT) / BaseRTT by the least RTT of a round; RTTs are us plus 1."""

    SHARED = "round_end rtt_min round_rtt samples on"

    @classmethod
    def start(cls, draw):
        base = draw(rtts)
        least = draw(st.integers(0, 1 << 24) | st.integers(0, 40_000).map(lambda us: base + us) | st.just(NO_RTT))
        own = {"samples": draw(st.integers(0, 5)), "on": draw(flags), "rtt_min": base, "round_rtt": max(least, base)}
        return draw(windows) >> 20, own

    def begin_round(self, tp):
        self.round_end, self.round_rtt, self.samples = tp.snd_nxt, NO_RTT, 0

    def start_over(self, tp):
        self.rtt_min, self.on = NO_RTT, 1
        self.begin_round(tp)

    def judge(self, tp, n):
        self.count("rounds")
        diff = tp.snd_cwnd * (self.round_rtt - self.rtt_min) % U32 // self.rtt_min
        slow_start = tp.snd_cwnd < tp.snd_ssthresh
        if slow_start and diff <= self.p.gamma:
            self.slow_start(tp, n)
        elif slow_start or diff > self.p.beta:
            self.count("slow_start_exits" if slow_start else "cuts")
            fitting = min(tp.snd_cwnd, tp.snd_cwnd * self.rtt_min // self.round_rtt + 1)
            tp.snd_cwnd = fitting if slow_start else tp.snd_cwnd - 1
            tp.snd_ssthresh = min(tp.snd_ssthresh, tp.snd_cwnd)
        elif diff < self.p.alpha:
            self.count("raises")
            tp.snd_cwnd += 1
        tp.snd_cwnd = min(max(tp.snd_cwnd, 2), tp.snd_cwnd_clamp)
        tp.snd_ssthresh = max(tp.snd_ssthresh, tp.snd_cwnd // 2 + tp.snd_cwnd // 4, 2)

    def init(self, tp, *_):
        super().init(tp)
        self.start_over(tp)

    def pkts_acked(self, tp, n, rtt):
        if rtt < 0:
            return
        self.rtt_min, self.round_rtt = min(self.rtt_min, rtt + 1), min(self.round_rtt, rtt + 1)
        self.samples += 1

    def cong_avoid(self, tp, n, _):
        if not self.on:
            super().cong_avoid(tp, n, _)
        elif self.round_over(tp):
            if self.samples >= 3:
                self.judge(tp, n)
            else:
                self.count("reno_rounds")
                super().cong_avoid(tp, n, _)
            self.begin_round(tp)
        elif tp.snd_cwnd < tp.snd_ssthresh:
            self.slow_start(tp, n)

    def set_state(self, tp, state, *_):
        self.on = int(state == OPEN)
        if self.on:
            self.begin_round(tp)

    def cwnd_event(self, tp, event, *_):
        if event in (TX_START, CWND_RESTART):
            self.count("restarts")
            self.start_over(tp)


def ticks(us):
    return -(-us * HZ // 10**6)


class Bpf_westwood(LinuxReno):
    """(1) the rate in bytes a tick, filtered twice by 7/8; (2) the window that carries it at RTTmin."""

    SHARED = "rtt_last rtt_min filtered estimate sample_start sample_bytes snd_una counted started forget_min"

    @classmethod
    def start(cls, draw):
        rates = st.integers(0, NONE // 8) | st.just(0)
        own = {"estimate": draw(rates), "filtered": draw(rates), "sample_bytes": draw(st.integers(0, 1 << 30))}
        times = {"rtt_last": draw(rtts), "rtt_min": draw(rtts), "forget_min": draw(flags)}
        return draw(windows) >> 20, own | times | {"counted": draw(st.integers(0, 20)) * 536}

    def sample(self, tp):
        now = tp.now // TICK_US
        took = (now - self.sample_start) % U32
        self.snd_una, self.started = self.snd_una if self.started else tp.snd_una, 1
        if took <= max(ticks(self.rtt_last), HZ // 20):
            return
        self.count("samples")
        rate = self.sample_bytes // took
        if self.filtered or self.estimate:
            self.filtered = (7 * self.filtered + rate) % U32 >> 3
            self.estimate = (7 * self.estimate + self.filtered) % U32 >> 3
        else:
            self.filtered = self.estimate = rate
        self.sample_bytes, self.sample_start = 0, now

    def slow_bytes(self, moved, mss):
        """An ACK of the slow path adds this: a packet if it moves nothing, and that is not counted again later."""
        if not moved:
            self.count("duplicates")
            self.counted += mss
            return mss
        if moved <= mss:
            return moved
        covered = min(self.counted, moved)
        self.counted -= covered
        return moved - covered or mss

    def fitting(self, tp):
        return max(self.estimate * ticks(self.rtt_min) % U32 // max(tp.mss_cache, 1), 2)

    def init(self, tp, *_):
        super().init(tp)
        self.rtt_last = self.rtt_min = 20 * 10**6
        self.forget_min, self.sample_start, self.snd_una = 1, tp.now // TICK_US, tp.snd_una

    def pkts_acked(self, tp, n, rtt):
        self.rtt_last = rtt if rtt > 0 else self.rtt_last

    def in_ack_event(self, tp, how, _):
        self.sample(tp)
        moved, self.snd_una = (tp.snd_una - self.snd_una) % U32, tp.snd_una
        more = self.slow_bytes(moved, tp.mss_cache) if how & SLOW_PATH else moved
        self.sample_bytes = (self.sample_bytes + more) % U32
        self.rtt_min = self.rtt_last if self.forget_min else min(self.rtt_min, self.rtt_last)
        self.forget_min = 0

    def cwnd_event(self, tp, event, *_):
        if event == COMPLETE_CWR and not self.p.at_once:
            self.count("recoveries")
            tp.snd_ssthresh = self.fitting(tp)
            tp.snd_cwnd = min(tp.snd_ssthresh, tp.snd_cwnd_clamp)
        elif event == EVENT_LOSS:
            self.count("timeouts")
            tp.snd_ssthresh, self.forget_min = self.fitting(tp), 1

    def ssthresh(self, tp, *_):
        return self.fitting(tp) if self.p.at_once else self.half(tp)


def b(w):
    """RFC 3649: what a loss takes, (4); and growth a round trip, (3)."""
    return 0.5 - 0.4 * log(w / 38) / log(83000 / 38)


def a(w):
    return w**2 * 2 * b(w) / ((2 - b(w)) * w**1.2 * 12.8)


def rfc3649():
    """Appendix B: each window whose a(w) exceeds that of the row before by more than 1."""
    rows, last = [38], 1
    for w in range(38, 100_000):
        if a(w) > last + 1:
            rows.append(w)
            last = a(w)
    return rows


TABLE = [(w, floor(b(w) * 256)) for w in rfc3649()[:-1]]


class Bpf_highspeed(LinuxReno):
    SHARED = "row"

    @classmethod
    def start(cls, draw):
        near = st.builds(lambda row, more: row[0] + more, st.sampled_from(TABLE), st.integers(-1, 1))
        return draw(packets | near), {"row": draw(st.integers(0, len(TABLE) - 1))}

    def cong_avoid(self, tp, n, _):
        if not self.may_grow(tp):
            return
        if tp.snd_cwnd < tp.snd_ssthresh:
            self.slow_start(tp, n)
            return
        self.row = next((i for i, (w, _) in enumerate(TABLE) if tp.snd_cwnd <= w), len(TABLE) - 1)
        if tp.snd_cwnd >= tp.snd_cwnd_clamp:
            return
        tp.rcv_tsval += self.row + 1
        if tp.rcv_tsval >= tp.snd_cwnd:
            tp.rcv_tsval, tp.snd_cwnd = tp.rcv_tsval - tp.snd_cwnd, tp.snd_cwnd + 1

    def ssthresh(self, tp, *_):
        self.count("losses")
        return max(tp.snd_cwnd - (tp.snd_cwnd * TABLE[self.row][1] >> 8), 2)


class Bpf_bic(LinuxReno):
    SHARED = "count_cwnd count_tick wmax per_ack_q4"
    FIELDS = {"per_step": ("count", 1)}

    @classmethod
    def start(cls, draw):
        window = draw(packets | st.integers(1, 40))
        near = draw(st.integers(-300, 300) | st.integers(-9, 9) | st.none())
        wmax = 0 if near is None else max(window + near, 0)
        return window, {"wmax": wmax, "per_ack_q4": draw(st.integers(15, 1000) | st.just(16)), "count": 7,
                        "count_cwnd": window * draw(flags)}  # fmt: skip

    def packets_a_step(self, cwnd):
        if cwnd < self.wmax:
            part = (self.wmax - cwnd) // 4
            if part > self.p.max_increment:
                return cwnd // self.p.max_increment
            return cwnd // part if part > 1 else cwnd * self.p.smooth_part // 4
        beyond = cwnd - self.wmax
        if beyond < 4:
            count = cwnd * self.p.smooth_part // 4
        elif beyond < 3 * self.p.max_increment:
            count = 3 * cwnd // beyond
        else:
            count = cwnd // self.p.max_increment
        return count if self.wmax else min(count, 20)

    def find_step(self, tp):
        now = tp.now // TICK_US
        if tp.snd_cwnd == self.count_cwnd and now - self.count_tick <= HZ // 32:
            return
        self.count_cwnd, self.count_tick, self.per_step = tp.snd_cwnd, now, tp.snd_cwnd
        if tp.snd_cwnd > self.p.low_window:
            self.per_step = max((self.packets_a_step(tp.snd_cwnd) << 4) % U32 // self.per_ack_q4, 1)

    def forget(self):
        self.clear()
        self.per_ack_q4 = 32

    def init(self, tp, *_):
        super().init(tp)
        self.per_ack_q4 = 32
        if self.p.initial_ssthresh:
            tp.snd_ssthresh = max(self.p.initial_ssthresh, 2)

    def pkts_acked(self, tp, n, _):
        if tp.state == OPEN:
            self.per_ack_q4 += n - self.per_ack_q4 // 16

    def cong_avoid(self, tp, n, _):
        if not self.may_grow(tp):
            return
        if tp.snd_cwnd < tp.snd_ssthresh:
            n = self.slow_start(tp, n)
            if not n:
                return
        self.find_step(tp)
        self.step(tp, self.per_step, n)

    def ssthresh(self, tp, *_):
        self.count("losses")
        cwnd, beta = tp.snd_cwnd, self.p.beta
        self.wmax = cwnd * (1024 + beta) // 2048 if self.p.fast_convergence and cwnd < self.wmax else cwnd
        return max(cwnd // 2 if cwnd <= self.p.low_window else cwnd * beta // 1024, 2)

    def set_state(self, tp, state, *_):
        if state == LOSS:
            self.count("resets")
            self.forget()
