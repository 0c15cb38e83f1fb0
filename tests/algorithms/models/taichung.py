# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP Taichung: (5) to (12) and Fig. 2, as taichung.bpf.c has them. Times between ACKs are in ns."""

from hypothesis import strategies as st

from . import EVENT_LOSS, ONE, W_MAX, Model, flags, marked, members, reno, rtts, waits, windows

GAP_MAX = 4 * 10**9  # ns


def sixteenths(packets):
    return int(packets * 16) / 16


class Taichung(Model):
    FIELDS = (
        members(ONE, w="w_q20")
        | members(16, ideal="ideal_q4", net="net_q4")
        | members(same="fresh left held held_saved wait", inter_ack="inter_ack_ns", inter_min="inter_min_ns")
        | members(sampling="mark", delivered="mark_delivered", mark="ecn_mark")
        | members(same="lost sent rtt_then percent_then crowded air")
    )
    SLACK = {"w": 0, "inter_ack": 1}

    @classmethod
    def start(cls, draw):
        w, gap = draw(windows), draw(st.integers(0, GAP_MAX) | st.integers(0, 10**6))
        least = max(int(gap * draw(st.floats(0, 1))), gap > 0)
        return w >> 20, {
            "w_q20": w, "inter_ack_ns": gap, "inter_min_ns": least, "rtt_min": draw(rtts), "rtt_last": draw(rtts),
            "wait": draw(waits),
            "fresh": gap > 0 and draw(flags), "left": draw(flags), "held": draw(st.integers(0, 2)),
            "crowded": draw(flags), "percent_then": draw(st.integers(2, 100)), "rtt_then": draw(rtts),
            "air": draw(flags), "lost": -draw(st.integers(0, 200)) % 2**32,
            "sent": -draw(st.integers(200, 5000)) % 2**32,
        }  # fmt: skip

    def accepted(self, sample, cwnd):
        """Fig. 2's filter; mode 2 has average and sample the other way round."""
        average = self.inter_ack
        if not self.p.filter_mode or not average:
            return True
        new, old = (sample, average) if self.p.filter_mode == 1 else (average, sample)
        return new < cwnd * self.inter_min or old > new

    def sample(self, tp, us, packets):
        sample = max(min(min(us, 2**32 - 1) * 1000 // packets, GAP_MAX), 1)
        self.inter_min = min(self.inter_min or GAP_MAX, sample)
        if not self.accepted(sample, min(tp.snd_cwnd, W_MAX)):
            self.count("rejected")
            return
        self.count("samples")
        self.fresh = not self.held or (self.held == 2 and self.wait > 0)
        weight = self.p.avg_weight_q8 / 256
        self.inter_ack = max(weight * self.inter_ack + (1 - weight) * sample, 1) if self.inter_ack else sample  # (5)

    def measure(self, tp, over):
        """A sample ends when it spans enough; the first gap of a round is none."""
        came, packets = (tp.now - self.wait) % 2**64, (tp.delivered - self.delivered) % 2**32
        span = (came - self.sampling + 2**63) % 2**64 - 2**63
        skip = self.p.skip_first_gap
        if self.sampling and not (over and skip and not (skip == 2 and self.left)):
            least = max(self.p.coalesce_us, self.rtt_min * self.p.span_q8 // 256, 8000 * (self.wait > 0))
            if not packets or span <= 0 or span < least:
                return
            self.sample(tp, span, packets)
        self.sampling, self.delivered = came, tp.delivered

    def find_thresholds(self):
        """(6) and (10)."""
        rtt, base = self.rtt_last, min(self.rtt_min + self.wait, self.rtt_last)
        self.ideal = self.net = 0
        if not rtt or not self.inter_ack:
            return
        ideal = min(sixteenths(base * 1000 / self.inter_ack) + 1, W_MAX)
        w = sixteenths(self.w)
        own = sixteenths(w * base / rtt)
        if self.p.own_q and w - own >= self.p.own_q:
            ideal = own
        self.ideal = ideal
        self.net = ideal + sixteenths(base / rtt) if self.p.net_mode else sixteenths(ideal * base / rtt)

    def take_over(self, tp):
        self.w = self.stack_window(tp)

    # --- calls --------------------------------------------------------------------------------

    def init(self, tp, *_):
        self.clear()
        self.first_window(tp)
        self.w, self.cwnd = self.stack_window(tp), tp.snd_cwnd
        self.round_start(tp)
        self.count("flows")

    def in_ack_event(self, tp, flags, _):
        self.mark = marked(tp, flags)

    def pkts_acked(self, tp, n, rtt):
        over = self.round_over(tp)
        if self.idle_ended(tp, rtt):
            self.sampling = self.cwnd = 0
        if over:
            self.round_start(tp)
        before = self.rtt_min
        wait = self.forward_sample(tp, rtt)
        self.wait = self.wait if wait is None else wait
        if self.rtt_min > before:  # as with the first sample
            self.inter_min = 0
        if self.in_recovery(tp) or not self.may_grow(tp):
            self.sampling = 0
        else:
            self.measure(tp, over)

    def cong_avoid(self, tp, n, _):
        self.taken_over(tp)
        self.find_thresholds()
        if self.fresh and self.ideal:
            tp.snd_ssthresh = max(int(min(self.net, self.ideal)), 2)
        if not self.may_grow(tp):
            self.count("limited_acks")
            n = 0
        if n and self.w < tp.snd_ssthresh and int(self.w) < tp.snd_ssthresh:
            self.count("exponential_acks")
            up = min(n, tp.snd_ssthresh - int(self.w))
            self.w += up
            n -= up
        if n and int(self.w) >= tp.snd_ssthresh:
            self.count("linear_acks")
            self.left = 1
            self.w += reno(self.w, n)
        self.w = min(self.w, self.limit(tp))
        self.write(tp, self.w)

    def count_anew(self, tp):
        self.lost, self.sent = tp.lost, (tp.delivered + tp.lost) % 2**32

    def is_crowded(self, tp):
        """A loss of a flow that has a small part of the link and loses 2 %, of which a smaller window frees it."""
        lost, sent = (tp.lost - self.lost) % 2**32, (tp.delivered + tp.lost - self.sent) % 2**32
        if not self.p.own_q or not self.inter_ack:
            return False
        rtt = self.rtt_min + self.rtt_min // 32
        self.air &= rtt > self.rtt_then
        if lost < 16:
            return self.crowded
        percent = lost * 100 // max(sent, 1)
        if self.crowded and lost >= 80 and percent > 4 and percent * 4 >= self.percent_then * 3 and rtt > self.rtt_then:
            self.air = 1
        share = min(self.rtt_min + self.wait, self.rtt_last) * 1000 // int(self.inter_ack)
        crowded = not self.air and percent >= (1 if self.crowded else 2) and share > 2 * tp.snd_cwnd
        if crowded and not self.crowded:
            self.percent_then, self.rtt_then = percent % 256, self.rtt_min
        if crowded != self.crowded or sent > 2048:
            self.count_anew(tp)
        self.crowded = crowded
        return crowded

    def ssthresh(self, tp, *_):
        """(11), or a mark's share, or loss_beta_percent where that is less."""
        self.count("losses")
        self.left, self.fresh, self.held_saved, self.sampling, self.cwnd = 1, 0, self.held, 0, 0
        beta = self.p.ecn_beta_percent
        self.held = bool(beta and self.mark == tp.now != 0)
        if self.held or (beta and not self.wait and self.is_crowded(tp)):
            self.count("marks" if self.held else "crowds")
            self.held = 1
            return max(tp.snd_cwnd * beta // 100, 2)
        if not self.rtt_last:
            return self.half(tp)
        net = tp.snd_cwnd * min(self.rtt_min + self.wait, self.rtt_last) // self.rtt_last
        self.held = 2 * (self.p.own_q > 0 and tp.snd_cwnd - net >= max(self.p.own_q, tp.snd_cwnd // 4))
        most = tp.snd_cwnd * self.p.loss_beta_percent // 100
        if net > most:
            self.count("bounded")
            self.held, net = 1, most
        return max(net, 2)

    def cwnd_event(self, tp, event, *_):
        super().cwnd_event(tp, event)
        if event == EVENT_LOSS:
            self.count_anew(tp)

    def undo_cwnd(self, tp, *_):
        self.held = self.held_saved
        self.fresh = bool(self.inter_ack) and not self.held
        self.cwnd = 0
        return super().undo_cwnd(tp)
