// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * FAST TCP: hold alpha packets in the queues along the path, measured by delay.
 *
 *   [L] F. Ge, L. Tan, M. Zukerman, "Throughput of FAST TCP in Asymmetric Networks",
 *       IEEE Communications Letters 12(2), 2008.       The model, and what we reproduce.
 *   [I] C. Jin, D. Wei, S. Low, "FAST TCP: motivation, architecture, algorithms,
 *       performance", INFOCOM 2004.                    The discrete law, [L]'s ref. 2.
 *   [N] T. Cui, L. Andrew, "FAST TCP simulator module for ns-2", 1.1.1, [L]'s ref. 9.
 *
 * [L] eq. 2:  dw/dt = gamma * ( d*w/(d + q) + alpha - w )
 * as a step:  w <- min{ 2w, (1-gamma) w + gamma ( (baseRTT/RTT) w_old + alpha ) }        (1)
 *             RTT <- (1-eta) RTT + eta * sample,  eta = min(3/w, 1/4)                    (2)
 * w_old is the window one RTT ago, which the RTT of today belongs to. At rest w = w_old, so
 * w (1 - baseRTT/RTT) = alpha: a flow keeps alpha packets queued whatever gamma and eta are.
 *
 * Good where queues are deep and the delay is the flow's own. In [L] the RTT counts both directions:
 * on a path whose ACKs are slow (k_f = c_f P_b / (c_b P_f) > 1) alpha ACKs queue on the reverse
 * link and the flow settles at 1/k_f of the forward rate (Theorem 1). By default the wait of the ACKs is
 * no queue (forward.bpf.h): baseRTT of (1) is longer by it, x (RTT - baseRTT) = alpha holds for the queue of data
 * alone, and the flow has all of the forward rate. Not good against loss-based flows: they take the queue.
 *
 * Our choices, and our differences from the papers:
 *  - gamma, eta, the update interval and the first window are not in [L]: 0.5, (2), one RTT, 2.
 *  - A step is not made at once but spread over the ACKs of one RTT, as [N] does: at once it
 *    would send up to gamma*alpha packets back to back.
 *  - alpha is a constant in [L], 1000 packets. By default it follows the rate: nobody chooses it for all paths that a
 *    server has, and 1000 packets leave a CUBIC flow nothing. [I] has steps, 8, 20 and 200 packets below 10, below 100
 *    and from 100 Mbit/s on: of equal flows the one that is above a step keeps what it has. A root has no such place: at
 *    rest x is (4 / q)^2, the same for all. Below a baseRTT of SHORT_US x is less by their ratio: else four flows of 10
 *    Gbit/s and 0.1 ms would ask for 800 packets of a queue of 200.
 *  - By such an alpha a path of 600 ms takes minutes to fill. So the flow begins with HyStart++ until alpha packets are queued:
 *    five rounds of CSS would queue several BDPs more. If it ends before, the window grows by a quarter a round trip until then.
 *    An alpha that is given begins with (1), as in the papers; slow_start is for it as well.
 *  - Growth counts acknowledged packets, never callbacks: delayed and stretch ACKs do not slow it.
 *  - A round that the application limited may lower the window, never raise it.
 *  - Loss (and ECN): half. RTO: restart from the stack's window, doubling by the 2w of (1).
 *    Recovery itself (PRR, RACK) is the stack's; w is reloaded whenever the stack changed cwnd.
 *    The update that follows at once may raise w, not lower it: its RTT is that before the loss.
 *  - ACKs that come later shall not slow the data: the window changes as the RTT does by their wait. forward_delay 0: [L].
 *  - baseRTT is the minimum of the whole connection, as in the papers. If routes change it may age
 *    (rtt_min_win_s), but not in the flow's own queue: such a base asks for alpha packets more, and the
 *    window runs away. So the queue is drained first.
 */
#include "declare.bpf.h"
#include "forward.bpf.h"
#include "slowstart.bpf.h"
#include "fair.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, alpha, 0, 0, 65536, "packets",
	"backlog a flow keeps in the path's queues (eq. 2); 0: 4 times the root of its rate in Mbit/s");
TUNABLE(u32, gamma_q8, 128, 1, 256, "1/256", "gain of one update (gamma of eq. 2), 256 = 1");
PARAM(u32, eta_max_q16, 16384, 1, 65536, "1/65536",
      "largest weight of one RTT sample; 16384 = 1/4 [I], 256 = 1/256 [N]");
TUNABLE(u32, update_rtts, 1, 1, 16, "RTT", "round trips between updates; 1 [I], 2 in later [N]");
PARAM(u32, update_us, 0, 0, 10000000, "us", "fixed time between updates instead, 10000 in [N]; 0: count RTTs");
PARAM(u32, mi_thresh_us, 0, 0, 1000000, "us",
      "double each RTT while the queueing delay is below this, 750 in [N]; 0: off");
PARAM(u32, pacing, 0, 0, 1, "-",
      "1: packets leave at the stack's 1.2 w/RTT, so that stretch ACKs make no bursts; 0 in the papers");
PARAM(u32, rtt_min_win_s, 0, 0, 86400, "s",
      "after so long a flow drains its own queue, and measures baseRTT anew, for routes that change; 0: never, as in the papers");
PARAM(u32, init_cwnd, 2, 0, 1024, "packets", "first window; 0: leave the stack's");

NOTE("for queues that its flows have for themselves: beside CUBIC or Reno a small alpha gets little, a large one leaves little");

PRESET(upload, "alpha=20",
       "one flow of 5 to 50 Mbit/s with a deep queue for itself: full, and its queue is twenty packets");
PRESET(thinned, "pacing=1", "receivers that send one ACK for 16 packets: 1.75 times the goodput");
PRESET(route, "rtt_min_win_s=10", "routes that change: the longer path fills again; a drain each ten seconds");

COUNTER(flows, "connections started");
COUNTER(updates, "window updates by law (1)");
COUNTER(doublings, "updates where 2w was the smaller of (1), or MI mode held");
COUNTER(limited_rounds, "updates whose rise the application's lack of data withheld");
COUNTER(losses, "reductions by half: fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

#define Q8 8
#define SHORT_US 10000
#define ROUND_SAMPLES 8 /* RTTs of a round, of which the smallest counts in the slow start: N_RTT_SAMPLE of RFC 9406 */

/* One connection. Times in us. Windows in packets * 256 ("q8"), at most 2^28. */
struct fast {
	struct sender s; /* its rtt_min is baseRTT, the propagation delay d of eq. 2 */
	u64 rtt_avg_q16; /* RTT of (2), us << 16, at most 2^42; 0: no sample yet */
	u64 wait_avg_q16; /* the same of its ACK's wait */
	u64 update_stamp; /* when the last update was, us */
	u32 w_q8; /* the window; snd_cwnd is its integer part */
	u32 step_from_q8; /* the step in progress: where it began ... */
	u32 step_to_q8; /* ... and the result of (1) that it leads to */
	u32 w_round_q8; /* window when this round began: w_old when it ends */
	u32 wait_then; /* the average wait that the window had followed at the last update */
	u32 rounds; /* rounds since the last update */
	u32 w_saved_q8; /* w before the last reduction, for undo */
	u32 rtt_round; /* smallest RTT of the data in this round; 0: none yet */
	u8 samples; /* RTTs in this round, ROUND_SAMPLES at most */
	bool started; /* alpha packets were queued, or one was lost */
	bool cwnd_limited; /* since the last update the window, not the data, was the limit */
};
STATE(struct fast);

static inline void begin_round(struct fast *f, const struct tcp_sock *tp)
{
	round_start(&f->s, tp);
	f->w_round_q8 = f->w_q8;
	f->rtt_round = 0;
	f->samples = 0;
}

/* Take over a window that we did not set, and begin anew from it. */
static inline void reload(struct fast *f, struct tcp_sock *tp)
{
	f->w_q8 = min(max(tp->snd_cwnd, 1), W_MAX) << Q8;
	f->step_from_q8 = f->step_to_q8 = f->w_q8;
	f->s.cwnd = tp->snd_cwnd;
	f->rounds = 0;
	f->update_stamp = tp->tcp_mstamp;
	begin_round(f, tp);
}

/* In q8, at most 2^25. */
static inline u64 alpha_q8(const struct fast *f, const struct tcp_sock *tp)
{
	u64 packets = alpha, square;

	if (packets)
		return packets << Q8;
	/* 16 times the rate, bits per us = Mbit/s, in q16: 2^28 * 2^16 B * 2^3 << 12 = 2^59 */
	square = mul_div((u64)f->w_q8 << 12, tp->mss_cache * 8ULL, f->rtt_avg_q16 >> 16);
	square = mul_div(min(square, 1ULL << 50), min(f->s.rtt_min, SHORT_US), SHORT_US); /* 2^50 * 2^14 */
	/* of 4 packets to 2^17; << 10 for square_root() */
	return square_root(max(square, 1ULL << 20) << 10) >> 5;
}

/* A value of slow_start. */
static inline u32 start_mode(void)
{
	return slow_start || alpha ? slow_start : START_HYSTART;
}

/* Packets that are queued, by the smallest RTT of a round: bursts are no queue. In q8. */
static inline u64 queued_q8(const struct fast *f)
{
	u64 rtt = max(f->rtt_round, 1);

	return mul_div(f->w_q8, rtt - min(f->s.rtt_min, rtt), rtt + (f->wait_avg_q16 >> 16)); /* 2^28 * 2^26 = 2^54 */
}

/*
 * By its rate a flow that begins has a small alpha, and would need hundreds of round trips on a long path. So after its slow
 * start, until so many packets are queued, its window grows by a quarter a round trip of the data alone.
 */
static inline bool is_starting(struct fast *f, u64 backlog_q8)
{
	if (alpha || queued_q8(f) >= backlog_q8)
		f->started = true;
	return !f->started && f->rtt_round;
}

/* Law (1): the window, in q8, that the coming RTT leads to. */
static inline u32 law(struct fast *f, const struct tcp_sock *tp)
{
	u64 w = f->w_q8, w_old = f->w_round_q8, twice = 2 * w, gain = gamma_q8, next;
	u64 rtt = max(f->rtt_avg_q16 >> 16, 1);
	u64 wait = f->wait_avg_q16 >> 16, base = min(f->s.rtt_min + wait, rtt), own = rtt - min(wait, rtt);
	u64 backlog = alpha_q8(f, tp);

	if (mi_thresh_us && rtt - base < mi_thresh_us) {
		COUNT(doublings);
		return twice;
	}
	/* w_old * base <= 2^28 * 2^26 = 2^54 */
	next = mul_div(w_old, base, rtt) + backlog;
	/* (2^28 + 2^25) * 2^8 < 2^37 */
	next = ((256 - gain) * w + gain * next) >> 8;
	if (is_starting(f, backlog))
		next = max(next, w + mul_div(w / 4, rtt, own)); /* 2^26 * 2^26 */
	if (wait | f->wait_then) {
		next = min(next, twice);
		/* a wait that would more than double the window is followed in the next round: 2^29 * 2^27 = 2^56 */
		wait = min(wait, mul_div(twice, own + f->wait_then, next) - own);
		next = fit_window(next, own + wait, f->wait_then, wait);
	}
	f->wait_then = wait;
	if (next >= twice) {
		COUNT(doublings);
		next = twice;
	}
	return next;
}

/* `cut`: the window has just been cut, and the average is still that of the queue which the cut drains. */
static inline void update(struct fast *f, const struct tcp_sock *tp, bool cut)
{
	u32 next = law(f, tp); /* <= 2^29 */

	if (cut) /* one loss shall not cut twice */
		next = max(next, f->w_q8);
	/* the law's fraction counts, but at the limits */
	next = min(max(next, W_MIN << Q8), (u64)window_limit(tp) << Q8);

	if (next > f->w_q8 && !f->cwnd_limited) {
		COUNT(limited_rounds);
		next = f->w_q8;
	}
	COUNT(updates);
	f->step_from_q8 = f->w_q8;
	f->step_to_q8 = next;
	f->cwnd_limited = false;
	f->rounds = 0;
	f->update_stamp = tp->tcp_mstamp;
}

/* Go on towards step_to by the share that `acked` packets are of one window: whole in one RTT. */
static inline void step(struct fast *f, u32 acked)
{
	bool up = f->step_to_q8 > f->step_from_q8;
	u64 whole = up ? f->step_to_q8 - f->step_from_q8 : f->step_from_q8 - f->step_to_q8;
	u64 left = up ? max(f->step_to_q8, f->w_q8) - f->w_q8 : f->w_q8 - min(f->step_to_q8, f->w_q8);
	/* whole * acked <= 2^28 * 2^20; one packet more than the share, so that rounding ends it */
	u64 move = mul_div(whole, min(acked, W_MAX), f->step_from_q8 >> Q8) + 1;

	move = min(move, left);
	f->w_q8 = up ? f->w_q8 + move : f->w_q8 - move;
}

/* The first slow start; at its end no slow start is left for the stack to see. */
static inline void other_start(struct fast *f, struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	/* 2^28 << 12 = 2^40 */
	u64 w = start_window(sk, (u64)f->w_q8 << (Q20 - Q8), acked, may_grow(tp)) >> (Q20 - Q8);
	bool full;

	f->w_q8 = f->step_from_q8 = f->step_to_q8 = min(w, (u64)window_limit(tp) << Q8);
	cwnd_write(&f->s, tp, drained_window(&f->s, tp, f->w_q8 >> Q8, rtt_min_win_s));
	full = !slow_start && f->samples == ROUND_SAMPLES && queued_q8(f) >= alpha_q8(f, tp);
	if (is_first_start(tp, start_mode()) && !full) {
		if (round_over(&f->s, tp))
			begin_round(f, tp);
		return;
	}
	start_init(sk, full);
	tp->snd_ssthresh = W_MIN;
	reload(f, tp);
}

SEC("struct_ops/fast_init")
void BPF_PROG(fast_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast *f = inet_csk_ca(sk);

	__builtin_memset(f, 0, sizeof(*f));
	first_window(tp, init_cwnd);
	start_init(sk, start_mode());
	fair_init(sk);
	if (!is_first_start(tp, start_mode()) && !in_recovery(inet_csk(sk))) /* else the stack is on its way to it */
		tp->snd_ssthresh = W_MIN; /* no slow start for the stack to see: the 2w of (1) takes its place */
	reload(f, tp);
	if (pacing)
		pace(sk, ~0ULL); /* until an ACK comes: then the stack sets 1.2 w/RTT */
	COUNT(flows);
}

/* (2), and the same of the ACK's wait. */
static inline void average(struct fast *f, const struct ack_sample *sample, u32 wait)
{
	u64 rtt_q16 = (u64)f->s.rtt_last << 16, wait_q16 = (u64)wait << 16, eta_q16;

	if (!f->rtt_avg_q16) {
		f->rtt_avg_q16 = rtt_q16;
		f->wait_avg_q16 = wait_q16;
		return;
	}
	/* A stretch ACK stands for all its packets. 3 << 16 times 2^20 packets < 2^38 */
	eta_q16 = mul_div(3ULL << 16, min(max(sample->pkts_acked, 1), W_MAX), f->w_q8 >> Q8);
	eta_q16 = max(min(eta_q16, eta_max_q16), 1); /* 3/w is below 2^-16 from w = 196608 on */
	/* 2^42 * 2^16 = 2^58 */
	f->rtt_avg_q16 = ((65536 - eta_q16) * f->rtt_avg_q16 + eta_q16 * rtt_q16) >> 16;
	if (wait_q16 | f->wait_avg_q16)
		f->wait_avg_q16 = ((65536 - eta_q16) * f->wait_avg_q16 + eta_q16 * wait_q16) >> 16;
}

SEC("struct_ops/fast_pkts_acked")
void BPF_PROG(fast_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fast *f = inet_csk_ca(sk);
	u32 rtt, wait;

	/* After idle the average is stale, baseRTT is not; the open round measures nothing. */
	if (idle_ended(&f->s, tcp_sk(sk), sample)) {
		f->rtt_avg_q16 = 0;
		look_anew(&f->s);
	}
	rtt = forward_sample(&f->s, sk, sample, rtt_min_win_s, &wait);
	if (!rtt)
		return;
	rtt -= wait;
	f->rtt_round = f->rtt_round ? min(f->rtt_round, rtt) : rtt;
	f->samples = min(f->samples + 1, ROUND_SAMPLES);
	average(f, sample, wait);
	start_sample(sk, rtt, start_mode());
	fair_sample(sk, rtt);
}

SEC("struct_ops/fast_cong_avoid")
void BPF_PROG(fast_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast *f = inet_csk_ca(sk);
	bool due, over, taken = false;

	if (!is_first_start(tp, start_mode()) &&
	    fair_acked(sk, &f->s, f->w_q8 >> Q8, acked, round_over(&f->s, tp), rtt_min_win_s))
		return;
	if (cwnd_changed(&f->s, tp)) {
		COUNT(reloads);
		/* after a recovery the law does not wait for the round's end; after idle (0) the average is too young for it */
		taken = f->s.cwnd;
		reload(f, tp);
	}
	if (is_first_start(tp, start_mode())) {
		other_start(f, sk, acked);
		return;
	}
	if (is_cwnd_limited(tp))
		f->cwnd_limited = true;
	step(f, acked);

	due = taken;
	over = round_over(&f->s, tp);
	if (over) {
		f->rounds++;
		due |= !update_us && f->rounds >= update_rtts;
	}
	due |= update_us && tp->tcp_mstamp - f->update_stamp >= update_us;
	if (due && f->rtt_avg_q16)
		update(f, tp, taken);
	if (over)
		begin_round(f, tp);
	cwnd_write(&f->s, tp, drained_window(&f->s, tp, f->w_q8 >> Q8, rtt_min_win_s));
}

SEC("struct_ops/fast_ssthresh")
u32 BPF_PROG(fast_ssthresh, struct sock *sk)
{
	struct fast *f = inet_csk_ca(sk);

	COUNT(losses);
	f->started = true;
	f->w_saved_q8 = f->w_q8;
	return fair_cut(sk, half_window(tcp_sk(sk)));
}

SEC("struct_ops/fast_undo_cwnd")
u32 BPF_PROG(fast_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast *f = inet_csk_ca(sk);
	u32 cwnd = undone_window(tp);

	COUNT(undos);
	if (cwnd == f->w_saved_q8 >> Q8) { /* keeps the fraction; otherwise cong_avoid reloads */
		f->w_q8 = f->step_from_q8 = f->step_to_q8 = f->w_saved_q8;
		f->s.cwnd = cwnd;
		begin_round(f, tp);
	}
	return cwnd;
}

SEC("struct_ops/fast_cwnd_event")
void BPF_PROG(fast_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_LOSS)
		COUNT(timeouts);
}

SEC(".struct_ops")
struct tcp_congestion_ops fast = {
	.init = (void *)fast_init,
	.pkts_acked = (void *)fast_pkts_acked,
	.cong_avoid = (void *)fast_cong_avoid,
	.ssthresh = (void *)fast_ssthresh,
	.undo_cwnd = (void *)fast_undo_cwnd,
	.cwnd_event = (void *)fast_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "fast",
};
