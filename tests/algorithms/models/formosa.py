# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's sender, toward its receiver and toward any peer, as formosa.bpf.c has it.

W <- W + packets acknowledged, once a round, in slow start   (1)
W <- (1 - delta) W after a signal                            (2)
W <- W + 1 otherwise                                         (3)
"""

from hypothesis import strategies as st

from ..host.formosa import HELLO, F, answer
from . import CWR, LOSS, OPEN, RECOVERY, RTT_MAX, W_MAX, Model, after, members, packets, rtts, windows

PART = 2**-16  # packets: W's part is rounded down to it
CALM, DEAF = 32, 4  # rounds


class Formosa(Model):
    """`whole` are the packets of a round, `rest` is what W has beyond them."""

    FIELDS = members(
        same="w_last srtt_us rounds delivered_round delivered peer_queue_us peer_signals hold", whole="w",
        whole_saved="w_saved", threshold="ssthresh", threshold_saved="ssthresh_saved", is_limited="cwnd_limited",
    ) | members(65536, rest="w_part", rest_saved="w_part_saved")  # fmt: skip
    HANDSHAKE = {"synack": HELLO}
    STEPS = st.builds(
        lambda *fields: ("read", {"options": answer(*fields)}, 1),
        st.integers(0, 20), st.integers(0, 15), st.just(F), st.sampled_from([0, 640, 20_000, 4 * 10**6]),
    )  # fmt: skip

    @classmethod
    def start(cls, draw):
        w = draw(windows) >> 20
        return w, {
            "w": w, "w_last": draw(packets), "ssthresh": draw(packets), "srtt_us": draw(rtts), "rtt_min": draw(rtts),
            "w_part": draw(st.integers(0, 65535)), "hold": draw(st.integers(0, 4)), "wire.fitted_srtt": draw(rtts),
            "wire.squeue_us": draw(st.integers(0, 100_000)), "wire.fitted_queue": draw(st.integers(0, 100_000)),
            "wire.calm": draw(st.sampled_from([0, CALM - 1])), "wire.deaf_timeouts": draw(st.integers(0, DEAF - 1)),
        }  # fmt: skip

    @property
    def w(self):
        return self.whole + self.rest

    @w.setter
    def w(self, packets):
        self.whole, self.rest = int(packets), int((packets % 1) / PART) * PART

    @property
    def speaks(self):
        wire = self.wire
        return wire.sender and wire.peer and not wire.silent

    def begin_round(self, tp):
        wire = self.wire
        self.round_start(tp)
        self.rounds, self.delivered_round, self.is_limited = self.rounds + 1, tp.delivered, 0
        wire.round, wire.segs, wire.heard = (wire.round + 1) % 256, tp.data_segs_out, 0
        wire.budget, wire.srtt_us = self.whole, self.srtt_us

    def after_signal(self, queue):
        """(2)"""
        self.count("signals")
        cut = int(self.w * self.p.delta_q8 / 256 / PART) * PART
        if self.p.cut_mode and self.whole >= self.threshold:
            cut = min(cut, queue + 1)
        w = max(self.w - max(cut, min(self.p.cut_least, int(self.w / 2 / PART) * PART)), 2)
        self.hold = 0 if self.whole < self.threshold else self.p.signal_hold
        self.threshold, self.peer_signals = int(w), self.peer_signals + 1
        return w

    # --- toward its receiver ----------------------------------------------------------------

    def ends(self, tp):
        """The first packet of a round is acknowledged; behind a gap an answer names the round, or it took too long."""
        if self.round_over(tp):
            return True
        if not tp.sacked_out | tp.lost_out or tp.delivered == self.delivered_round:
            return False
        return self.wire.echo == self.wire.round or tp.now - self.round_stamp > self.srtt_us + self.srtt_us // 4

    def fall_back(self):
        self.wire.silent = 1
        self.count("fallbacks")

    def hear(self, tp):
        """Do the receiver's answers come, and does the round need more of them?"""
        wire = self.wire
        wire.acks_queue = int(self.srtt_us > self.rtt_min + self.rtt_min // 4 + wire.queue_us)
        wire.calm += 1
        if wire.acks_queue and self.p.fit_rtt:
            wire.answers, wire.calm = self.p.answers_max, wire.calm - 1
        elif not wire.acks_queue and wire.flag_is_new and after(tp.snd_una, wire.flag_end):
            wire.answers, wire.calm = min(2 * wire.answers, self.p.answers_max), 0
        elif wire.acks_queue or wire.calm >= CALM:
            wire.answers, wire.calm = max(wire.answers // 2, 1), 0
        wire.deaf_rounds = 0 if wire.heard else wire.deaf_rounds + 1
        if wire.deaf_rounds >= DEAF:
            self.fall_back()

    def after_round(self, carried, is_short):
        if self.wire.signalled and not self.hold:
            queue = self.whole * self.wire.queue_us // max(self.srtt_us, 1)
            return self.after_signal(queue)
        if self.wire.signalled or is_short:
            self.count("old_signals" if self.wire.signalled else "limited_rounds")
            return self.w
        if self.whole < self.threshold:
            return min(self.whole + carried, self.threshold) + self.rest  # (1)
        return self.w + 1  # (3)

    def fit(self, packets):
        """W follows the RTT by what the forward queue does not explain, if that is more than an eighth."""
        wire, then = self.wire, self.wire.fitted_srtt
        change, moved = self.srtt_us - then, wire.squeue_us - wire.fitted_queue
        if change * moved > 0:
            change = 0 if abs(moved) >= abs(change) else change - moved
        if not then or abs(change) <= then // 8:
            return packets
        self.count("fits")
        rtt = min(then + change, 2 * then)
        wire.fitted_srtt, wire.fitted_queue = self.srtt_us if change < then else rtt, wire.squeue_us
        return min(-(-packets * rtt // then), W_MAX)

    def law_by_rounds(self, tp):
        wire, carried = self.wire, (tp.delivered - self.delivered_round) % 2**32
        if not self.ends(tp):
            return
        self.count("rounds")
        more = (tp.snd_nxt + max(tp.mss_cache, 1)) % 2**32
        waits = not after(more, tp.write_seq) and not after(more, (tp.snd_una + tp.snd_wnd) % 2**32)
        is_short = carried + self.w_last // 8 + 2 < self.w_last and (tp.sacked_out | tp.lost_out or not waits)
        if tp.state == OPEN:
            self.hear(tp)
        w = self.w if tp.state in (CWR, RECOVERY) else self.after_round(carried, is_short)
        if self.hold and self.whole <= int(w):
            self.hold -= 1
        if not self.p.fit_rtt or is_short or tp.state != OPEN or int(w) < self.threshold:
            wire.fitted_srtt, wire.fitted_queue = self.srtt_us, wire.squeue_us
        else:
            fitted = max(self.fit(int(w)), 2)
            w, self.threshold = fitted + w % 1, min(self.threshold, fitted)
        wire.signalled, self.w_last = 0, self.whole
        self.w = w
        self.begin_round(tp)

    def window_by_rounds(self, tp):
        """In flight, and what is left of this round's W; the flag and the first repair wait for nothing."""
        sent = (tp.data_segs_out - self.wire.segs) % 2**32
        window = min(tp.flight + max(self.whole - sent, 0), self.whole + self.w_last)
        return max(window, tp.flight + 1) if not sent or (tp.lost_out and not tp.retrans_out) else window

    # --- toward any peer ----------------------------------------------------------------------

    def law_by_acks(self, tp):
        starting = self.whole < self.threshold
        if tp.state in (CWR, RECOVERY):
            return
        self.is_limited |= tp.limited
        if starting and (tp.limited or self.whole < 2 * tp.max_packets_out):
            self.w = min(self.whole + (tp.delivered - self.delivered) % 2**32, self.threshold) + self.rest
        if not self.round_over(tp):
            return
        self.count("rounds")
        self.w_last = self.whole
        if not starting and self.is_limited:
            self.whole += 1
        elif not starting:
            self.count("limited_rounds")
        self.begin_round(tp)

    def use(self, tp):
        self.write(tp, self.window_by_rounds(tp) if self.speaks else self.first_repair(tp, self.whole))

    # --- calls --------------------------------------------------------------------------------

    def differences(self, tp, result, call):
        yield from super().differences(tp, result, call)
        for name, code in call["stored"].items():
            if not name.startswith(("in.", "stamps.")) and getattr(self.wire, name) != code:
                yield name, getattr(self.wire, name), code

    def init(self, tp, *_):
        self.clear()
        self.count("flows")
        if not self.wire.receiving:
            self.first_window(tp)
        self.whole = self.w_last = self.stack_window(tp)
        self.threshold, self.srtt_us = max(tp.snd_ssthresh, 2), min(tp.srtt_us >> 3, RTT_MAX)
        self.delivered, self.cwnd = tp.delivered, tp.snd_cwnd
        self.wire.sender = self.wire.answers = 1
        self.begin_round(tp)

    def pkts_acked(self, tp, n, rtt):
        """The RTT is that of the flagged packet; how long a gap or a probe lasted is none."""
        first, sent = not self.rtt_last, (tp.data_segs_out - self.wire.segs) % 2**32
        if self.speaks and (self.in_recovery(tp) or (tp.packets_out and sent > self.wire.budget)):
            return
        if self.rtt_sample(rtt):
            self.srtt_us = self.rtt_last if first else (7 * self.srtt_us + self.rtt_last) // 8
            self.wire.squeue_us = (7 * self.wire.squeue_us + self.wire.queue_us) // 8

    def cong_control(self, tp, *_):
        if not self.whole:
            return
        self.ack_stamp, by_rounds = tp.now, self.speaks
        if by_rounds:
            self.peer_queue_us = self.wire.queue_us
            self.law_by_rounds(tp)
        else:
            self.law_by_acks(tp)
        self.whole = min(self.whole, self.limit(tp))
        if by_rounds:
            self.wire.budget = self.whole
            self.write(tp, self.window_by_rounds(tp))
        else:
            self.write(tp, self.first_repair(tp, self.whole))
        self.delivered = tp.delivered

    def ssthresh(self, tp, *_):
        self.count("losses")
        self.whole_saved, self.rest_saved, self.threshold_saved = self.whole, self.rest, self.threshold
        self.w = max(self.w * self.p.loss_beta_q8 / 256, 2)
        self.w_last = self.threshold = self.whole
        return self.whole

    def set_state(self, tp, state, *_):
        if state not in (LOSS, RECOVERY):
            return
        if state == LOSS:
            self.count("timeouts")
            self.w = self.w_last = 1
            self.hold = max(self.p.signal_hold, 1)
            if self.speaks and self.wire.answered:
                self.answered_at_timeout()
        self.begin_round(tp)
        if state == RECOVERY:
            self.use(tp)

    def answered_at_timeout(self):
        """A receiver that answers, but to no new round, does not see what it is asked."""
        wire = self.wire
        wire.deaf_timeouts = wire.deaf_timeouts + 1 if wire.echo == wire.echo_then else 0
        wire.answered, wire.echo_then = 0, wire.echo
        if wire.deaf_timeouts >= DEAF:
            self.fall_back()

    def undo_cwnd(self, tp, *_):
        if self.whole < self.whole_saved:
            self.whole, self.rest = self.whole_saved, self.rest_saved
        self.w_last, self.threshold = self.whole, max(self.threshold, self.threshold_saved)
        self.wire.budget = self.whole
        return super().undo_cwnd(tp)

    def min_tso_segs(self, tp, *_):
        """After n idle seconds W is halved n times, not below 10."""
        idle = self.idle_time(tp)
        if idle:
            self.count("idle_restarts")
            halvings = min(idle // 10**6, 31)
            if halvings and self.whole > 10:
                self.threshold = max(self.threshold, self.whole - self.whole // 4)
                self.whole = max(self.whole >> halvings, 10)
            self.w_last = self.whole
            self.begin_round(tp)
            self.use(tp)
        return 2
