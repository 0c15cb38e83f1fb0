/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A sender's work that does not depend on its law: fixed point, the stack's view, rounds, drains and RTT samples, windows, marks,
 * and idle times. Each has its heading.
 */
#ifndef SENDER_BPF_H
#define SENDER_BPF_H

#include "compat.bpf.h"

/* --- fixed point -------------------------------------------------------------------------- */

#define Q20 20 /* windows in packets << 20: one ACK's growth shows up to the largest window */

#define W_MAX (1u << 20)      /* packets; in Q20 2^40 */
#define W_MIN 2u              /* packets; only an RTO goes below */
#define DRAINED 4u            /* packets: a window that no drain halves further */
#define RTT_MAX_US (1u << 26) /* 67 s; a longer sample counts as this */

/* A zero divisor counts as 1: x/0 is 0 in BPF. */
static __always_inline u64 divide(u64 a, u64 by)
{
	return a / max(by, 1);
}

/* a * b / c; the caller sees to it that a * b < 2^64. */
static __always_inline u64 mul_div(u64 a, u64 b, u64 c)
{
	return divide(a * b, c);
}

/*
 * Square root of 2^30 to 2^61, rounded down or up. Newton's steps from above: each halves the excess
 * down to a factor of two, 16 of them at most; five more are enough for 2^-47 of the root. (From where
 * clz64 tells to begin would need those five only, but clang 14 finds no end with it for BPF.)
 */
static __always_inline u64 square_root(u64 n)
{
	u64 x = 1u << 31;

	for (int i = 0; i < 24; i++)
		x = (x + n / x) / 2;
	return x;
}

/*
 * Growth by Linux's Reno: `acked` packets' share of a window w, packets in Q20 both. A window of w whole packets is one larger
 * after exactly w. Shares of w with its part would take w + 1/2: 6 % more at eight packets. Rounded up, or the last share
 * would be missing: too much by w / 2^20 at most.
 */
static __always_inline u64 reno_growth(u64 w_q20, u32 acked)
{
	u64 w = max(w_q20 >> Q20, 1);

	/* 2^20 packets << 20 = 2^40 */
	return (((u64)min(acked, W_MAX) << Q20) + w - 1) / w;
}

/* --- what the stack tells, and what it is told -------------------------------------------- */

#ifdef __bpf__ /* the tests' stack has its own */
static __always_inline void set_pace(struct sock *sk, u64 rate)
{
	struct sock___pacing *p = (struct sock___pacing *)sk;

	if (p->sk_pacing_status == SK_PACING_NONE)
		p->sk_pacing_status = SK_PACING_NEEDED;
	p->sk_pacing_rate = min(rate, p->sk_max_pacing_rate);
}
#endif

/*
 * A route that is replaced beneath a connection leaves it with the MTU of the kernel's blackhole_netdev, 68, until it sends
 * the next packet. Its MSS is 48 or less then.
 */
#define MSS_NO_LINK_HAS 64

/*
 * Pace by a rate in bytes/s, of which the MSS is a part. fq does it if the device has it, or else the stack's own timer.
 * The timer of retransmissions waits for it too.
 */
static __always_inline void pace(struct sock *sk, u64 rate)
{
	if (tcp_sk(sk)->mss_cache >= MSS_NO_LINK_HAS)
		set_pace(sk, rate);
}

/* Did the window, and not the application, limit the last flight? */
static __always_inline bool is_cwnd_limited(const struct tcp_sock *tp)
{
	return read_bits(tp, is_cwnd_limited);
}

/*
 * For laws that have Reno's slow start: in it a window that is less than twice what was in flight
 * may grow too, as in the stack's tcp_is_cwnd_limited().
 */
static __always_inline bool may_grow(const struct tcp_sock *tp)
{
	return is_cwnd_limited(tp) || (tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/* Is the stack repairing losses, or reducing? Then what was measured is not the path at work. */
static __always_inline bool in_recovery(const struct inet_connection_sock *icsk)
{
	return read_bits(icsk, icsk_ca_state) >= TCP_CA_CWR;
}

/* The least packets of a burst, as the stack has them: for a controller that has min_tso_segs only to be called by it. */
static __always_inline u32 default_tso_segs(struct sock *sk)
{
	return ((struct sock___net *)sk)->__sk_common.skc_net.net->ipv4.sysctl_tcp_min_tso_segs;
}

/* --- rounds ------------------------------------------------------------------------------- */

/* Stands first in a controller's private state. Times in us of tcp_mstamp. */
struct sender {
	u64 ack_stamp;   /* when the last ACK came */
	u32 round_stamp; /* when this round began: wraps after 71 minutes */
	u32 ack_way;     /* of forward.bpf.h */
	u32 round_end;   /* snd_nxt when this round began */
	u32 cwnd;        /* snd_cwnd as we left it: another value means the stack changed it */
	u32 rtt_last;    /* latest RTT sample, us; 0: none yet */
	u32 rtt_min;     /* smallest, us; 0: none yet */
	union {
		u32 rtt_drained; /* smallest in this drain, us: rtt_min when it is over; 0: none yet */
		u32 fall_way;    /* of forward.bpf.h, if rtt_min does not age */
	};
	union {
		u32 drain_ms;    /* when the last drain began */
		u32 fall_ms;     /* when the time began in which that counts */
	};
};

/*
 * A round begins with an ACK and ends with the ACK of what that one let go: one RTT. The first ACK
 * of a flight is the first of its round, so that the gap before it belongs to no round. After an
 * RTO snd_nxt stays beyond a flight that counts as lost: hence no further than what is in flight.
 */
static __always_inline void round_start(struct sender *s, const struct tcp_sock *tp)
{
	u32 end = tp->snd_una + min((u64)packets_in_flight(tp) * tp->mss_cache, 1u << 30);

	s->round_end = before(end, tp->snd_nxt) ? end : tp->snd_nxt;
	s->round_stamp = tp->tcp_mstamp;
}

/* Time since this round began, us. */
static __always_inline u32 round_us(const struct sender *s, const struct tcp_sock *tp)
{
	return (u32)tp->tcp_mstamp - s->round_stamp;
}

static __always_inline bool round_over(const struct sender *s, const struct tcp_sock *tp)
{
	return before(s->round_end, tp->snd_una);
}

/* --- drains ------------------------------------------------------------------------------- */

static __always_inline u32 srtt_ms(const struct tcp_sock *tp)
{
	return min(tp->srtt_us >> 3, RTT_MAX_US) / 1000;
}

static __always_inline u32 since_drain_ms(const struct sender *s, const struct tcp_sock *tp)
{
	return s->drain_ms ? tp->tcp_mstamp / 1000 - s->drain_ms : ~0u;
}

/*
 * A path may change, so rtt_min ages. Nothing else drains a flow's own queue, which would become rtt_min. So each age_s seconds
 * begin with a drain: half of the window for two round trips, 200 ms at least. It empties a queue of up to half of the window.
 * A loss in a drain cuts what the drain leaves, so that is half and not less. Nothing else is measured meanwhile. age_s 0: never.
 */
static __always_inline bool drains(const struct sender *s, const struct tcp_sock *tp, u32 age_s)
{
	return age_s && since_drain_ms(s, tp) < min(max(2 * srtt_ms(tp), 200), 250 * age_s);
}

/* The law's window, or what a drain leaves of it, in packets. */
static __always_inline u32 drained_window(const struct sender *s, const struct tcp_sock *tp, u32 window, u32 age_s)
{
	return drains(s, tp, age_s) ? max(window / 2, min(window, DRAINED)) : window;
}

static __always_inline u32 drain_stamp(const struct tcp_sock *tp, u32 ago_ms)
{
	return max((u32)(tp->tcp_mstamp / 1000) - ago_ms, 1);
}

/* A packet that left in a drain found no queue of its own: its RTT becomes rtt_min. */
static __always_inline void renew_rtt_min(struct sender *s, const struct tcp_sock *tp, u32 rtt, u32 age_s)
{
	if (!s->drain_ms) /* the first time is shorter, and no drain begins it */
		s->drain_ms = drain_stamp(tp, 250 * age_s);
	if (since_drain_ms(s, tp) >= 1000 * age_s && !in_recovery((const struct inet_connection_sock *)tp))
		s->drain_ms = drain_stamp(tp, 0);
	if (!drains(s, tp, age_s)) {
		s->rtt_min = s->rtt_drained ? s->rtt_drained : s->rtt_min;
		s->rtt_drained = 0;
	} else if (since_drain_ms(s, tp) > rtt / 1000 + 1) {
		s->rtt_drained = s->rtt_drained ? min(s->rtt_drained, rtt) : rtt;
	}
}

/* --- RTT samples -------------------------------------------------------------------------- */

/* rtt_min is the least RTT of the connection, or with age_s the least since the last drain. */
static __always_inline void note_rtt_min(struct sender *s, const struct tcp_sock *tp, u32 rtt, u32 age_s)
{
	if (age_s)
		renew_rtt_min(s, tp, rtt, age_s);
	if (!s->rtt_min || rtt < s->rtt_min)
		s->rtt_min = rtt;
}

/*
 * Take an RTT sample. False if the ACK gives none, as that of a retransmitted packet. tick_us is the tick of the clock that
 * measures: the RTT is a whole number of its ticks, one at least. With 0 the RTT is in microseconds.
 */
static __always_inline bool
rtt_sample_ticks(struct sender *s, const struct tcp_sock *tp, const struct ack_sample *sample, u32 age_s, u32 tick_us)
{
	u32 rtt;

	if (sample->rtt_us <= 0)
		return false;
	rtt = min(sample->rtt_us, RTT_MAX_US);
	if (tick_us) /* 2^26 and a tick at most */
		rtt = max((rtt + tick_us - 1 - (u32)(tp->tcp_mstamp % tick_us)) / tick_us, 1) * tick_us;
	s->rtt_last = rtt;
	note_rtt_min(s, tp, rtt, age_s);
	return true;
}

static __always_inline bool
rtt_sample(struct sender *s, const struct tcp_sock *tp, const struct ack_sample *sample, u32 age_s)
{
	return rtt_sample_ticks(s, tp, sample, age_s, 0);
}

/* --- windows ------------------------------------------------------------------------------ */

/*
 * First window of a connection; 0: leave the stack's. Not of a connection under way that changes
 * its controller, nor above the 1 that a lost SYN leaves.
 */
static __always_inline void first_window(struct tcp_sock *tp, u32 packets)
{
	if (packets && !tp->data_segs_out && tp->snd_cwnd > 1)
		tp->snd_cwnd = min(packets, tp->snd_cwnd_clamp);
}

/* The stack's window, packets, as a law can hold it: never 0. */
static __always_inline u64 stack_window(const struct tcp_sock *tp)
{
	return max(min(tp->snd_cwnd, W_MAX), 1);
}

/* Reno's cut. */
static __always_inline u64 half_window(const struct tcp_sock *tp)
{
	return max(tp->snd_cwnd >> 1, W_MIN);
}

/* The window that undo_cwnd gives back: that before a spurious reduction, or a larger one that has grown since. */
static __always_inline u64 undone_window(const struct tcp_sock *tp)
{
	return max(tp->snd_cwnd, tp->prior_cwnd);
}

/* The largest window that a law may ask for, packets. */
static __always_inline u32 window_limit(const struct tcp_sock *tp)
{
	return min(tp->snd_cwnd_clamp, W_MAX);
}

/* The stack changed cwnd since we wrote it (recovery, RTO, undo, idle), or we asked to look anew. */
static __always_inline bool cwnd_changed(const struct sender *s, const struct tcp_sock *tp)
{
	return tp->snd_cwnd != s->cwnd;
}

/* Whatever the stack makes of cwnd, the next ACK shall find it changed. */
static __always_inline void look_anew(struct sender *s)
{
	s->cwnd = 0;
}

static __always_inline void cwnd_write(struct sender *s, struct tcp_sock *tp, u32 packets)
{
	s->cwnd = max(min(packets, window_limit(tp)), 1);
	if (tp->snd_cwnd != s->cwnd)
		tp->snd_cwnd = s->cwnd;
}

/* A window in a recovery, where nobody but the law sets it: the first repair waits for nothing. */
static __always_inline u32 first_repair(const struct tcp_sock *tp, u64 cwnd)
{
	if (tp->lost_out && !tp->retrans_out)
		cwnd = max(cwnd, (u64)packets_in_flight(tp) + 1);
	return min(cwnd, W_MAX);
}

/* --- marks -------------------------------------------------------------------------------- */

/*
 * A mark is no loss, but the stack asks ssthresh for both. in_ack_event comes before ssthresh on all kernels, and in one
 * ACK tcp_mstamp rests. A timer and a queue of this host that is full have a later one. 0: no mark.
 */
static __always_inline u32 mark_of(const struct tcp_sock *tp, u32 flags)
{
	return flags & CA_ACK_ECE ? tp->tcp_mstamp : 0;
}

static __always_inline bool is_for_mark(const struct tcp_sock *tp, u32 mark)
{
	return mark && mark == (u32)tp->tcp_mstamp;
}

/* The cut for a mark. */
static __always_inline u64 marked_window(const struct tcp_sock *tp, u32 percent)
{
	/* 2^32 * 100 */
	return max(mul_div(tp->snd_cwnd, percent, 100), W_MIN);
}

/* --- idle times --------------------------------------------------------------------------- */

/*
 * At each ACK, before anything else: was there an idle time, of more than an RTT between the ACK before and the sending
 * of what this one acknowledges? A measurement across it would measure the application. No event tells it on all
 * kernels (TX_START). Before the first ACK there is nothing to forget: the first round begins with the first packet.
 */
static __always_inline bool idle_ended(struct sender *s, const struct tcp_sock *tp, const struct ack_sample *sample)
{
	u64 last = s->ack_stamp, now = tp->tcp_mstamp;
	s32 sampled = sample->rtt_us;
	u64 rtt = sampled > 0 ? sampled : 0; /* max() is of u64: -1, no sample, would be the largest */

	s->ack_stamp = now;
	if (!last && rtt && round_us(s, tp) > rtt)
		s->round_stamp = now - rtt;
	return last && rtt && now - last > rtt + (tp->srtt_us >> 3);
}

/*
 * The same before the first packet leaves: the time without an ACK that ends now, us; 0: none. For laws with cong_control, whose window
 * the stack leaves alone, and for vegas95. To be called by min_tso_segs, which every kernel asks before packets leave
 * (TX_START comes until 7.0 only). It also asks if the peer's window holds them back: the time is told once.
 */
static __always_inline u64 idle_time(struct sender *s, const struct tcp_sock *tp)
{
	u64 last = s->ack_stamp, now = tp->tcp_mstamp;

	if (tp->snd_una != tp->snd_nxt)
		return 0;
	if (!last) {
		s->round_stamp = now;
		return 0;
	}
	if (now - last <= tp->srtt_us >> 3)
		return 0;
	s->ack_stamp = now;
	return now - last;
}

/*
 * The stack leaves the window of one with cong_control alone: after n idle seconds it is halved n times, not below 10. To be called
 * by min_tso_segs. False: it stays.
 */
static __always_inline bool shrunk_by_idle(struct sender *s, struct tcp_sock *tp)
{
	u32 halvings = min(idle_time(s, tp) / 1000000, 31);

	if (!halvings || tp->snd_cwnd <= 10)
		return false;
	tp->snd_ssthresh = max(tp->snd_ssthresh, tp->snd_cwnd - tp->snd_cwnd / 4);
	cwnd_write(s, tp, max(tp->snd_cwnd >> halvings, 10));
	return true;
}

#endif
