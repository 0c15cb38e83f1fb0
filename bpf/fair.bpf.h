/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fair mode for laws that keep a queue short: beside flows that fill the queue the flow competes with them.
 *
 *   [C] V. Arun, H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018.
 *   [N] P. Goyal et al., "Elasticity Detection: A Building Block for Internet Congestion Control" (Nimbus), 2018.
 *
 * At a window w and an RTT a flow has w (1 - T/RTT) packets in the queue, whoever else sends: the RTT does not tell whose the
 * queue is. So the flow looks: for one round trip its window is w T/RTT, which drains what is its own. The rest is others'.
 * From [C] 2.2: a flow competes, by AIMD, until the queue gets nearly empty. Copa's own queue does so by itself, these laws' does not.
 * From [N]: to change one's own rate and see what others make of it, and that only flows which answer to losses matter. Those
 * fill the queue: it must have grown at RISES looks in a row. A longer route and a constant load leave the same at each look.
 *
 *  - A look comes after LOOK rounds: a round trip drains the queue, then a packet more leaves for each that arrives. The law
 *    rests meanwhile, and takes its window over afterwards.
 *  - No look where the queue is shorter than a millisecond and 1/32 of T.
 *  - What the look drained must be less than a quarter of the queue: a few flows with this law have more each.
 *  - RTTs of one round that differ by more than the queue are jitter.
 *  - Nearly empty is an eighth of the longest queue ([C]: a tenth of that of four RTTs). After EMPTY such looks the law is back,
 *    from the window of the look: the queue is empty.
 *  - It competes by Reno's growth, and a loss leaves CUT_PERCENT: of a CUBIC flow's 70 and Reno's 50 the middle.
 */
#ifndef FAIR_BPF_H
#define FAIR_BPF_H

#include "declare.bpf.h"
#include "sender.bpf.h"

PARAM(u32, fair, 0, 0, 1, "-", "1: competes while flows that fill the queue are there; 0: never, as in the paper");

COUNTER(looks, "times that fair let the flow's own queue drain, to see others'");
COUNTER(contests, "times that it began to compete");
COUNTER(truces, "times that the law was back");

#define LOOK 8            /* rounds */
#define LOOK_COMPETING 64 /* ... while the flow competes ... */
#define LOOK_AGAIN 16     /* ... and the last look found the queue nearly empty */
#define RISES 3
#define EMPTY 4
#define CUT_PERCENT 60
#define TOLD 3   /* rounds */
#define JITTER 4 /* mean changes from round to round */

enum {
	WAIT,
	DRAIN,  /* the window is the look's; what was sent before arrives */
	HEAR,   /* what was sent in the look arrives */
	REFILL, /* the window grows back */
};

/* One connection. Times in us, at most 2^26; windows in packets, at most 2^20. */
struct fair {
	u64 w_q20;     /* the window while it competes, packets << 20 */
	u32 low, high; /* RTTs of this round; 0: none yet */
	u32 last;      /* the latest RTT */
	u32 top;       /* the longest queue, which ages */
	u32 queue;     /* when this look began */
	u32 left;      /* others' queue at the last look */
	u32 before;    /* window that a look is to give back */
	u32 window;    /* ... and what it leaves meanwhile */
	u32 heard;     /* of fair_turn: the queue of the round before ... */
	u32 noise;     /* ... and by how much such queues differ, smoothed */
	u8 step;
	u8 rounds;     /* since the last look */
	u8 votes;      /* looks in a row that say that it is time to change */
	bool competes;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fair);
} fairs SEC(".maps");

static __always_inline struct fair *fair_of(struct sock *sk)
{
	return fair ? bpf_sk_storage_get(&fairs, sk, NULL, 0) : NULL;
}

static __always_inline u32 fair_queue(const struct sender *s, u32 rtt)
{
	return rtt - min(s->rtt_min, rtt);
}

static __always_inline u32 fair_floor(const struct sender *s)
{
	return 1000 + s->rtt_min / 32;
}

static __always_inline void begin_look(struct fair *f, const struct sender *s, u32 window)
{
	COUNT(looks);
	f->before = window;
	f->queue = fair_queue(s, f->low);
	/* 2^20 * 2^26 */
	f->window = max(mul_div(window, s->rtt_min, f->low), min(window, DRAINED));
	f->step = DRAIN;
	f->rounds = 0;
}

/* At the end of a look: what it tells. */
static __always_inline void judge(struct fair *f, const struct sender *s)
{
	u32 left = fair_queue(s, f->low);
	bool others = left > fair_floor(s) && left >= f->top / 8,
	     rises = left > f->left + f->left / 64 && left >= f->high - f->low && left >= f->queue - f->queue / 4;

	f->votes = (f->competes ? !others : others && rises) ? f->votes + 1 : 0;
	f->left = left;
	f->top -= f->top / 16;
	f->step = REFILL;
	if (f->votes < (f->competes ? EMPTY : RISES))
		return;
	f->votes = 0;
	f->competes = !f->competes;
	if (f->competes) {
		COUNT(contests);
		f->w_q20 = (u64)f->before << Q20;
	} else {
		COUNT(truces);
		f->before = f->window;
	}
}

static __always_inline u32 look_after(const struct fair *f)
{
	return !f->competes ? LOOK : f->votes ? LOOK_AGAIN : LOOK_COMPETING;
}

static __always_inline void fair_round(struct fair *f, const struct sender *s, u32 window)
{
	u32 queue = fair_queue(s, f->low);

	if (f->step == DRAIN) {
		f->step = HEAR;
	} else if (f->step == HEAR) {
		judge(f, s);
	} else {
		f->top = max(f->top, queue);
		f->rounds = min(f->rounds + 1, LOOK_COMPETING);
		if (f->rounds >= look_after(f) && queue > fair_floor(s))
			begin_look(f, s, window);
	}
	f->low = f->high = f->last;
}

/* Reno's growth, and its slow start after a timeout. acked << 20 < 2^52 */
static __always_inline void contest(struct fair *f, const struct tcp_sock *tp, u32 acked)
{
	u64 limit = (u64)window_limit(tp) << Q20, start = (u64)min(tp->snd_ssthresh, W_MAX) << Q20;

	if (f->w_q20 < start)
		f->w_q20 = min(f->w_q20 + ((u64)acked << Q20), start);
	else
		f->w_q20 += reno_growth(f->w_q20, acked);
	f->w_q20 = min(f->w_q20, limit);
}

/* Call in pkts_acked, after rtt_sample(). */
static __always_inline void fair_sample(struct sock *sk, u32 rtt)
{
	struct fair *f;

	if (!fair)
		return;
	f = bpf_sk_storage_get(&fairs, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return;
	f->low = f->low ? min(f->low, rtt) : rtt;
	f->high = max(f->high, rtt);
	f->last = rtt;
}

/*
 * Call in cong_avoid, before the law. Does the law rest, as fair has set the window? `over`: this ACK ends a round; `window` is the law's.
 */
static __always_inline bool fair_acked(struct sock *sk, struct sender *s, u32 window, u32 acked, bool over, u32 age_s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fair *f = fair_of(sk);

	if (!f)
		return false;
	if (cwnd_changed(s, tp)) { /* a loss or an idle time: it ends a look, and the law has a window to take over */
		f->w_q20 = stack_window(tp) << Q20;
		f->step = WAIT;
		if (!f->competes)
			return false;
	}
	if (f->competes) {
		if (is_cwnd_limited(tp))
			contest(f, tp, acked);
		window = f->w_q20 >> Q20;
		f->before = f->step == WAIT ? f->before : window;
	}
	if (over && f->step != REFILL)
		fair_round(f, s, window);
	if (f->step == WAIT && !f->competes)
		return false;
	if (over)
		round_start(s, tp);
	if ((f->step == HEAR || f->step == REFILL) && is_cwnd_limited(tp))
		f->window = min((u64)f->window + acked, f->before);
	if (f->step == REFILL && f->window >= f->before)
		f->step = WAIT;
	cwnd_write(s, tp, drained_window(s, tp, f->step == WAIT ? window : f->window, age_s));
	if (f->step == WAIT && !f->competes) { /* the law takes over */
		cwnd_write(s, tp, f->before);
		look_anew(s);
	}
	return true;
}

/* The window after a loss: `half`, which is the law's. In a look it is half of the window before, but not more than the look has left. */
static __always_inline u32 fair_cut(struct sock *sk, u32 half)
{
	struct fair *f = fair_of(sk);

	if (!f || (f->step == WAIT && !f->competes))
		return half;
	half = f->competes ? (f->w_q20 >> Q20) * CUT_PERCENT / 100 : max(half, f->before / 2); /* 2^27 */
	return max(min(half, tcp_sk(sk)->snd_cwnd), W_MIN);
}

/* A window that the stack, a loss or an idle time has set. */
static __always_inline void end_look(struct fair *f)
{
	if (f)
		f->step = WAIT;
}

/*
 * Call at the end of a round, which carried so many packets, if the law has rounds and a window of its own. Returns the next
 * round's window while a look lasts, or 0: the law goes on. `queue_us`, at most 2^22, is the queue that the round met: one sample, so jitter
 * shows from round to round. A look shows in the queues of TOLD rounds.
 */
static __always_inline u32 fair_turn(struct fair *f, const struct sender *s, u32 window, u32 carried, u32 queue_us)
{
	u32 change = max(queue_us, f->heard) - min(queue_us, f->heard);

	if (f->step == WAIT && f->rounds >= TOLD)
		f->noise = (7 * f->noise + change) / 8;
	f->heard = queue_us;
	f->low = s->rtt_min + queue_us;
	f->high = f->low + JITTER * f->noise; /* 2^24 */
	if (f->step != REFILL)
		fair_round(f, s, window);
	if (f->step == WAIT)
		return 0;
	if (f->step == REFILL) {
		f->window = min((u64)f->window + carried, f->before);
		f->step = f->window < f->before ? REFILL : WAIT;
	}
	return f->window;
}

/* Call in init: nothing is left of an earlier time with this controller. */
static __always_inline void fair_init(struct sock *sk)
{
	if (fair)
		bpf_sk_storage_delete(&fairs, sk);
}

#endif
