// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP-Fusion: Vegas' eyes and Westwood's cut, and never less than Reno.
 *
 *   [F] K. Kaneko, T. Fujikawa, Z. Su, J. Katto, "TCP-Fusion: A Hybrid Congestion Control
 *       Algorithm for High-Speed Networks", PFLDnet 2007.
 *
 * Packets of its own in the bottleneck queue:   diff  = cwnd (RTT - RTTmin) / RTT       (1)
 * The few it may keep there:                    alpha = cwnd Dmin / RTT, Dmin = 4 ms    (2)
 * Increase a round trip:                        Winc  = B Dmin' / packet, Dmin' = 1 ms  (3)
 * Per ACK, reno_cwnd growing by one packet a round trip beside it:
 *     diff < alpha:      cwnd = max(cwnd + Winc/cwnd,           reno_cwnd)
 *     diff > 3 alpha:    cwnd = max(cwnd + (alpha - diff)/cwnd, reno_cwnd)
 *     between:           cwnd = max(cwnd,                       reno_cwnd)              (4)
 * On loss:   cwnd = max(cwnd RTTmin/RTT, cwnd/2),   reno_cwnd = reno_cwnd / 2           (5)
 *
 * Good on long fat paths with losses that are not congestion, beside Reno flows. Not good against CUBIC or BIC, nor
 * where the queue holds less than Dmin (LANs, policers): it sees no queue, grows, and hardly cuts.
 *
 * Our choices, and our differences from the paper:
 *  - The copy at hand has lost (4). The text leaves no choice but for the upper bound; public ports
 *    and a survey (Afanasyev et al. 2010) have 3 alpha: upper_mult. Winc and diff - alpha are
 *    amounts a round trip: only so "increased by Winc" agrees with the bound that the text derives.
 *  - reno_cwnd grows by acked/cwnd, as one packet a round trip demands; by acked/reno_cwnd it would
 *    be cwnd/reno_cwnd packets. It can be the larger in congestion avoidance only.
 *  - RTT in (1) and (2) is averaged over about four samples; in (5) it is the last one, the "RTT
 *    right before the packet loss".
 *  - B is the rate of each round trip, averaged as in Westwood+; b_mode 1: the largest of the last
 *    ten at most.
 *  - In [F] reverse traffic looks like a queue, and reno_cwnd carries the flow. Here the wait of the ACKs is none (forward.bpf.h):
 *    RTTmin of (5) is longer by it, averaged as RTT is, and cwnd changes as the RTT does by it. RTT of (1) and (2) has as much
 *    of it as cwnd has followed.
 *  - alpha is one packet at least: else jitter ends every increase. Winc may be less.
 *  - A mark (ECN) is congestion, never random loss: it leaves half, not RTTmin/RTT. ecn_beta_percent 0: as a loss.
 *  - Slow start is Reno's. After a timeout reno_cwnd follows cwnd up to half its former value, after idle time to 3/4.
 *    Beyond the paper, ss_exit ends the first one where diff tells of a queue; slow_start is another one instead.
 *  - All growth is per acknowledged packet. One ACK moves cwnd by one round trip's amount at most, and
 *    Winc is one window at most: at RTTs below Dmin' (3) would ask for more.
 *  - Not limited by cwnd: no window grows. No RTT sample yet: Reno.
 */
#include "declare.bpf.h"
#include "forward.bpf.h"
#include "slowstart.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, dmin_alpha_us, 4000, 100, 1000000, "us", "queueing delay that alpha stands for (Dmin of eq. 2)");
TUNABLE(u32, dmin_winc_us, 1000, 100, 1000000, "us", "queueing delay that one round's increase stands for (eq. 3)");
TUNABLE(u32, upper_mult, 3, 1, 16, "alpha", "diff above this many alpha lowers the window (eq. 4)");
TUNABLE(u32, ecn_beta_percent, 50, 0, 100, "%",
	"window that a mark leaves: 50 as RFC 3168, 80 as RFC 8511; 0: what a loss leaves, as in the paper");
PARAM(u32, b_mode, 0, 0, 1, "-", "B of eq. 3: 0 averaged rate of the rounds, 1 largest of the last 5 to 10");
PARAM(u32, ss_exit, 0, 0, 16, "alpha",
      "diff above this many alpha ends the first slow start; 0: only a loss, as in the paper");
PARAM(u32, rtt_min_win_s, 0, 0, 86400, "s",
      "after so long a flow drains its own queue, and measures RTTmin anew, for routes that change; 0: never, as in the paper");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's");

PRESET(radio, "dmin_winc_us=4000", "a path of one's own with random loss: 1.1 times the goodput at 1 %");
PRESET(fat, "ss_exit=3", "a queue of one BDP: no loss in slow start, 135 packets without, at the same goodput");

COUNTER(flows, "connections started");
COUNTER(early_exits, "first slow starts that ss_exit ended");
COUNTER(increases, "ACKs in the increase phase");
COUNTER(steadies, "ACKs in the steady phase");
COUNTER(decreases, "ACKs in the decrease phase");
COUNTER(reno_wins, "ACKs after which reno_cwnd is the window");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions: fast retransmit, ECN or RTO");
COUNTER(marks, "of those, for a mark (ECN): to ecn_beta_percent, not by (5)");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

#define B_ROUNDS 5 /* b_mode 1 looks at this many rounds and at as many before them */

enum phase { SLOW_START, INCREASE, STEADY, DECREASE };

/* One connection. Windows in packets << 20 ("q20"), at most 2^40. */
struct fusion {
	struct sender s;
	u64 w_q20;           /* the window; snd_cwnd is its integer part */
	u64 reno_q20;        /* reno_cwnd, never above w */
	u32 mark;            /* when the ACK that tells of a mark came, us; 0: the last one does not */
	u32 reno_ssthresh;   /* packets: where reno_cwnd ends slow start */
	u32 reno_saved;      /* packets: reno_cwnd before the last reduction, for undo ... */
	u32 reno_ssthresh_saved; /* ... and its threshold */
	u32 rtt_q4;          /* RTT of the data alone, us << 4, at most 2^30; 0: no sample yet ... */
	u32 wait_q4;         /* ... and the wait of its ACK that the window has followed */
	u32 b_q8;            /* B of (3), packets/s << 8; 0: no sample yet. b_mode 1: largest of these rounds */
	u32 b_last_q8;       /* b_mode 1: largest of the B_ROUNDS rounds before */
	u32 delivered;       /* when this round began, packets */
	u32 diff_q8;         /* (1) at the last ACK, packets << 8, at most 2^28 */
	u32 alpha_q8;        /* (2) at the last ACK */
	u8 b_rounds;         /* of B_ROUNDS, those done */
	u8 phase;            /* of the last ACK: enum phase */
	bool limited;        /* the application limited this round */
};
STATE(struct fusion);

static inline void begin_round(struct fusion *f, const struct tcp_sock *tp)
{
	round_start(&f->s, tp);
	f->delivered = tp->delivered;
	f->limited = false;
}

/*
 * Take over a window that we did not set. One that idle time has cut, Reno would refill to 3/4 by slow start: the
 * stack's tcp_current_ssthresh(), here for reno_cwnd. After a timeout reno_ssthresh is all of it already.
 */
static inline void reload(struct fusion *f, const struct tcp_sock *tp)
{
	u32 reno = f->reno_q20 >> Q20;

	f->w_q20 = stack_window(tp) << Q20;
	if (f->reno_q20 > f->w_q20)
		f->reno_ssthresh = max(f->reno_ssthresh, (reno >> 1) + (reno >> 2));
	f->reno_q20 = min(f->reno_q20, f->w_q20);
	begin_round(f, tp);
}

/* (5) of reno_cwnd. */
static inline void halve_reno(struct fusion *f)
{
	f->reno_q20 = max(f->reno_q20 >> 1, W_MIN << Q20);
	f->reno_ssthresh = f->reno_q20 >> Q20;
}

/* B of (3), packets/s << 8; 0: no sample yet. */
static inline u32 estimate_b(const struct fusion *f)
{
	return b_mode ? max(f->b_q8, f->b_last_q8) : f->b_q8;
}

/* A round is over: its rate is a sample of B, unless it is the application's. */
static inline void sample_b(struct fusion *f, const struct tcp_sock *tp)
{
	u64 packets = min(tp->delivered - f->delivered, W_MAX), us = round_us(&f->s, tp);
	/* 2^20 packets << 8 * 10^6 < 2^48; the quotient is held below 2^24 packets/s */
	u32 b = min(mul_div(packets << 8, 1000000, us), ~0u);

	if (!us || !b || (f->limited && b < estimate_b(f)))
		return;
	if (!f->b_q8)
		f->b_q8 = b;
	else
		f->b_q8 = b_mode ? max(f->b_q8, b) : (7ULL * f->b_q8 + b) / 8;
	if (b_mode && ++f->b_rounds == B_ROUNDS) {
		f->b_last_q8 = f->b_q8;
		f->b_q8 = 0;
		f->b_rounds = 0;
	}
}

/* Slow start to ssthresh, reno_cwnd to its own. Packets acknowledged beyond. */
static inline u32 reno_start(struct fusion *f, const struct tcp_sock *tp, u32 acked)
{
	u32 n = min(acked, min(tp->snd_ssthresh, W_MAX) - (f->w_q20 >> Q20)); /* w stays below 2^40 */

	f->w_q20 += (u64)n << Q20;
	f->reno_q20 = max(f->reno_q20, min(f->w_q20, (u64)f->reno_ssthresh << Q20));
	return acked - n;
}

/* RTT of (1) and (2). A wait that the window has not followed yet is in none: it is no queue of the data. */
static inline u32 law_rtt(const struct fusion *f)
{
	return (f->rtt_q4 + f->wait_q4) >> 4;
}

/*
 * An ACK waited, or the last one did. The average grows no faster than the window may, by what was acknowledged. Slow start adds
 * as much already. A window that falls with the wait is no reason for one.
 */
static inline void note_wait(struct fusion *f, struct tcp_sock *tp, u32 wait, u32 acked)
{
	u32 then = f->wait_q4 >> 4, rtt;
	u64 n = min(acked, W_MAX),
	    most = f->wait_q4 + mul_div(f->rtt_q4 + f->wait_q4, n, (f->w_q20 >> Q20) + n); /* 2^31 * 2^20 */

	f->wait_q4 = min((3ULL * f->wait_q4 + (wait << 4)) / 4, most);
	wait = f->wait_q4 >> 4;
	rtt = law_rtt(f);
	if (f->w_q20 >> Q20 < tp->snd_ssthresh || (wait >= then && !is_cwnd_limited(tp)))
		return;
	f->w_q20 = min(fit_window(f->w_q20 >> 4, rtt, then, wait) << 4, (u64)W_MAX << Q20);
	tp->snd_ssthresh = min(tp->snd_ssthresh, max(f->w_q20 >> Q20, W_MIN));
}

/* (1) and (2), packets << 20, each at most 2^40. False without an RTT. */
static inline bool backlog(const struct fusion *f, u64 *diff, u64 *alpha)
{
	u32 rtt = law_rtt(f);
	s64 queue = (s64)(f->rtt_q4 >> 4) - f->s.rtt_min; /* us */

	if (!rtt)
		return false;
	if (queue < 0)
		queue = 0;
	/* 2^36 * 2^26 = 2^62; 2^36 * 10^6 < 2^56 */
	*diff = ((f->w_q20 >> 4) * (u64)queue / rtt) << 4;
	*alpha = ((f->w_q20 >> 4) * dmin_alpha_us / rtt) << 4;
	*alpha = max(min(*alpha, (u64)W_MAX << Q20), 1u << Q20);
	return true;
}

/*
 * Beyond the paper: the first slow start, which no ssthresh bounds, ends where a queue shows, before it overflows.
 * reno_cwnd halves as if it had.
 */
static inline void leave_slow_start(struct fusion *f, struct tcp_sock *tp)
{
	u64 diff, alpha;

	if (!backlog(f, &diff, &alpha) || diff <= ss_exit * alpha) /* 16 * 2^40 */
		return;
	COUNT(early_exits);
	tp->snd_ssthresh = max(f->w_q20 >> Q20, W_MIN);
	halve_reno(f);
}

/* (4): the share that `acked` packets are of one round trip. */
static inline void avoid_congestion(struct fusion *f, u32 acked, bool grow)
{
	u64 diff, alpha, most, share, reno = reno_growth(f->w_q20, acked);
	u32 w = f->w_q20 >> Q20;

	if (backlog(f, &diff, &alpha)) {
		f->diff_q8 = diff >> (Q20 - 8);
		f->alpha_q8 = alpha >> (Q20 - 8);
		if (diff < alpha) {
			f->phase = INCREASE;
			COUNT(increases);
			/* (3): 2^40 * 10^6 < 2^60. Then 2^40 * 2^20 = 2^60 */
			most = mul_div((u64)estimate_b(f) << 8, dmin_winc_us, 1000000) << 4;
			most = min(most, f->w_q20);
			share = mul_div(most, min(acked, W_MAX), w);
			if (grow)
				f->w_q20 += min(share, most);
		} else if (diff > upper_mult * alpha) { /* 16 * 2^40 */
			f->phase = DECREASE;
			COUNT(decreases);
			most = diff - alpha;
			share = mul_div(most, min(acked, W_MAX), w);
			f->w_q20 = max(f->w_q20 - min(share, most), W_MIN << Q20);
		} else {
			f->phase = STEADY;
			COUNT(steadies);
		}
	}
	if (grow)
		f->reno_q20 += reno;
	if (f->reno_q20 >= f->w_q20) {
		COUNT(reno_wins);
		f->w_q20 = f->reno_q20;
	}
}

/* ... to the stack. */
static inline void use_windows(struct fusion *f, struct tcp_sock *tp)
{
	u64 limit = (u64)window_limit(tp) << Q20;

	f->w_q20 = min(f->w_q20, limit);
	f->reno_q20 = min(f->reno_q20, limit);
	cwnd_write(&f->s, tp, drained_window(&f->s, tp, f->w_q20 >> Q20, rtt_min_win_s));
}

/* Beyond the paper: the first slow start by slow_start. At its end reno_cwnd halves, as in leave_slow_start(). */
static inline void other_start(struct fusion *f, struct sock *sk, u32 acked, bool grow)
{
	f->phase = SLOW_START;
	f->w_q20 = f->reno_q20 = start_window(sk, f->w_q20, acked, grow);
	if (!is_first_start(tcp_sk(sk), slow_start))
		halve_reno(f);
	use_windows(f, tcp_sk(sk));
}

SEC("struct_ops/fusion_init")
void BPF_PROG(fusion_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fusion *f = inet_csk_ca(sk);

	__builtin_memset(f, 0, sizeof(*f));
	first_window(tp, init_cwnd);
	f->reno_ssthresh = W_MAX;
	f->reno_q20 = (u64)W_MAX << Q20;
	reload(f, tp);
	f->s.cwnd = tp->snd_cwnd;
	start_init(sk, slow_start);
	COUNT(flows);
}

SEC("struct_ops/fusion_in_ack_event")
void BPF_PROG(fusion_in_ack_event, struct sock *sk, u32 flags)
{
	struct fusion *f = inet_csk_ca(sk);

	f->mark = mark_of(tcp_sk(sk), flags);
}

SEC("struct_ops/fusion_pkts_acked")
void BPF_PROG(fusion_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fusion *f = inet_csk_ca(sk);
	u32 rtt_q4, wait;

	if (idle_ended(&f->s, tcp_sk(sk), sample))
		look_anew(&f->s); /* RTTmin and B still hold; the open round measures nothing */
	if (!forward_sample(&f->s, sk, sample, rtt_min_win_s, &wait))
		return;
	start_sample(sk, f->s.rtt_last - wait, slow_start);
	rtt_q4 = (f->s.rtt_last - wait) << 4;
	f->rtt_q4 = f->rtt_q4 ? (3ULL * f->rtt_q4 + rtt_q4) / 4 : rtt_q4;
	if (wait | f->wait_q4)
		note_wait(f, tcp_sk(sk), wait, sample->pkts_acked);
}

SEC("struct_ops/fusion_cong_avoid")
void BPF_PROG(fusion_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fusion *f = inet_csk_ca(sk);
	bool grow = may_grow(tp);

	if (cwnd_changed(&f->s, tp)) {
		COUNT(reloads);
		reload(f, tp);
	}
	if (!grow)
		COUNT(limited_acks);
	f->limited |= !grow || drains(&f->s, tp, rtt_min_win_s);
	if (round_over(&f->s, tp)) {
		if (!in_recovery(inet_csk(sk)))
			sample_b(f, tp);
		begin_round(f, tp);
	}
	if (is_first_start(tp, slow_start)) {
		other_start(f, sk, acked, grow);
		return;
	}
	if (ss_exit && tp->snd_ssthresh > W_MAX)
		leave_slow_start(f, tp);
	if (f->w_q20 >> Q20 < tp->snd_ssthresh) {
		f->phase = SLOW_START;
		acked = grow ? reno_start(f, tp, acked) : 0;
	}
	if (acked && f->w_q20 >> Q20 >= tp->snd_ssthresh) {
		avoid_congestion(f, acked, grow);
		if (f->w_q20 >> Q20 < tp->snd_ssthresh) /* a decrease is no reason for slow start */
			tp->snd_ssthresh = max(f->w_q20 >> Q20, W_MIN);
	}
	use_windows(f, tp);
}

/* (5), or the cut for a mark. The same after a timeout, but for the window of one packet that the stack sets. */
SEC("struct_ops/fusion_ssthresh")
u32 BPF_PROG(fusion_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fusion *f = inet_csk_ca(sk);
	u32 n = tp->snd_cwnd >> 1, base, beta = ecn_beta_percent;

	COUNT(losses);
	f->reno_saved = f->reno_q20 >> Q20;
	f->reno_ssthresh_saved = f->reno_ssthresh;
	halve_reno(f);
	look_anew(&f->s);
	if (beta && is_for_mark(tp, f->mark)) {
		COUNT(marks);
		return marked_window(tp, beta);
	}
	if (f->s.rtt_last) { /* RTTmin of (5), without a queue of data, beside this RTT: 2^32 * 2^26 = 2^58 */
		base = min(f->s.rtt_min + (f->wait_q4 >> 4), f->s.rtt_last);
		n = max(n, mul_div(tp->snd_cwnd, base, f->s.rtt_last));
	}
	return max(n, W_MIN);
}

SEC("struct_ops/fusion_undo_cwnd")
u32 BPF_PROG(fusion_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fusion *f = inet_csk_ca(sk);

	COUNT(undos);
	f->reno_q20 = max(f->reno_q20, (u64)f->reno_saved << Q20);
	f->reno_ssthresh = max(f->reno_ssthresh, f->reno_ssthresh_saved);
	look_anew(&f->s);
	return undone_window(tp);
}

SEC("struct_ops/fusion_cwnd_event")
void BPF_PROG(fusion_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_LOSS)
		COUNT(timeouts);
}

SEC(".struct_ops")
struct tcp_congestion_ops fusion = {
	.init = (void *)fusion_init,
	.in_ack_event = (void *)fusion_in_ack_event,
	.pkts_acked = (void *)fusion_pkts_acked,
	.cong_avoid = (void *)fusion_cong_avoid,
	.ssthresh = (void *)fusion_ssthresh,
	.undo_cwnd = (void *)fusion_undo_cwnd,
	.cwnd_event = (void *)fusion_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "fusion",
};
