/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first slow start of a connection, for any controller: another one than its paper's, and where it ends.
 *
 *   [H] P. Balasubramanian, Y. Huang, M. Olson, "HyStart++: Modified Slow Start for TCP", RFC 9406, 2023.
 *   [S] J. Chung, M. Kachooei, F. Li, M. Claypool, "SEARCH -- a New Slow Start Algorithm for TCP and QUIC",
 *       draft-chung-ccwg-search-09, 2026: version 4. docs/options.md tells what of it was at hand.
 *
 * HyStart++: the least RTT of a round is longer than that of the round before by an eighth, 4 ms at least. From then on the
 * window grows by a quarter of what it did (CSS). After five rounds it stays; a shorter RTT takes all back.
 * SEARCH: in the last 3.5 RTTs a quarter of what was sent in the 3.5 RTTs before this RTT has not arrived. Then one packet
 * leaves for three that arrive, until the window is what arrived in one RTT.
 *
 * Our choices, and our differences from them:
 *  - Both hold for the first slow start only ([H] 4.3), which is over when ssthresh is finite. A loss ends it by the
 *    controller's own law, a loss found spurious takes that back.
 *  - L of [H] 4.2, packets that one ACK counts for at most: none, as the stack's slow start. Each ACK that is left by thinning is many packets.
 *  - A round is over when windowEnd, the first byte after it, is acknowledged: by the first ACK of the next flight. Were it over
 *    by the last ACK of its own, what that one lets go would count for the next but one: each round would begin with the tail
 *    of a burst, whose RTT is a long one, and growth would slow where no queue stays.
 *  - [S] counts bytes; sequence numbers are these, and wrap as they do. Repeated packets do not count as sent.
 *  - [S] may forget its bins after a gap of many, as an option: here after more than W.
 *  - [S] interpolates toward the newer bin. That is a mistake which its authors agree to (says Mozilla's port): what was sent one
 *    RTT ago lies between an older bin and prev_idx. So W + 2 bins must be full, and not W.
 *  - [S]'s drain may not raise the window.
 */
#ifndef SLOWSTART_BPF_H
#define SLOWSTART_BPF_H

#include "declare.bpf.h"
#include "sender.bpf.h"

PARAM(u32, slow_start, 0, 0, 2, "-",
      "first slow start: 0 the controller's own, 1 HyStart++ (RFC 9406), 2 SEARCH (draft-chung-ccwg-search-09)");

COUNTER(starts_left, "first slow starts that slow_start ended");
COUNTER(starts_slowed, "times that HyStart++ saw a longer RTT: growth by a quarter (CSS)");
COUNTER(starts_resumed, "of those, taken back for a shorter RTT");

enum { START_HYSTART = 1, START_SEARCH = 2 };

/* [H] 4.3 */
#define MIN_RTT_THRESH 4000u
#define MAX_RTT_THRESH 16000u
#define MIN_RTT_DIVISOR 8
#define N_RTT_SAMPLE 8
#define CSS_GROWTH_DIVISOR 4
#define CSS_ROUNDS 5

/* [S] 3 */
#define SEARCH_W 10           /* bins of WINDOW_SIZE, 3.5 times the first RTT */
#define SEARCH_BIN_PERCENT 35 /* of the first RTT: BIN_DURATION */
#define SEARCH_EXTRA_BINS 15  /* an RTT spans fewer */
#define SEARCH_THRESH 26      /* % of what was sent */
#define SEARCH_RTT_BINS 3     /* that the first RTT spans, rounded up */
#define SEARCH_DRAIN 3        /* packets that arrive for one that leaves */
#define SEARCH_LEAST 10u      /* packets: the drain goes no lower */
#define SEARCH_BINS 32        /* kept: a power of two, at least W + EXTRA_BINS + 1 */

_Static_assert(SEARCH_BINS > SEARCH_W + SEARCH_EXTRA_BINS, "too few bins");

/* One connection, until its first slow start is over: in storage of the socket. */
struct start {
	/* [H] 4.2. RTTs in us, at most 2^26; 0: infinity there */
	u32 window_end;    /* windowEnd */
	u32 rtt_last;      /* lastRoundMinRTT */
	u32 rtt_now;       /* currentRoundMinRTT */
	u32 samples;       /* rttSampleCount */
	u32 css_baseline;  /* cssBaselineMinRtt; 0: not in CSS */
	u32 css_rounds;
	/* [S] 3.2 */
	u32 bin_us;        /* BIN_DURATION, at most 2^25; 0: no bins yet */
	u32 bin;           /* curr_idx */
	u64 bin_end;       /* us */
	u32 target;        /* packets that the drain leads to; 0: no drain yet */
	u32 drained;       /* packets that arrived, of SEARCH_DRAIN */
	u32 acked[SEARCH_BINS]; /* snd_una at the end of each bin ... */
	u32 sent[SEARCH_BINS];  /* ... and snd_nxt */
	bool begun;        /* the first round has */
	bool over;         /* the window stays what it is */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct start);
} starts SEC(".maps");

/* Does another slow start rule? `mode` is slow_start, or what a controller takes for it. */
static __always_inline bool is_first_start(const struct tcp_sock *tp, u32 mode)
{
	return mode && tp->snd_ssthresh > W_MAX;
}

static __always_inline void start_round(struct start *s, const struct tcp_sock *tp)
{
	s->window_end = tp->snd_nxt;
	s->rtt_last = s->rtt_now;
	s->rtt_now = s->samples = 0;
	s->begun = true;
}

/* [H] 4.2. Sums of RTTs stay below 2^27. */
static __always_inline void hystart_sample(struct start *s, const struct tcp_sock *tp, u32 rtt)
{
	u32 thresh;

	if (!s->begun || before(s->window_end, tp->snd_una)) {
		s->over = s->css_baseline && ++s->css_rounds >= CSS_ROUNDS;
		start_round(s, tp);
	}
	s->rtt_now = s->rtt_now ? min(s->rtt_now, rtt) : rtt;
	if (++s->samples < N_RTT_SAMPLE)
		return;
	thresh = max(MIN_RTT_THRESH, min(s->rtt_last / MIN_RTT_DIVISOR, MAX_RTT_THRESH));
	if (s->css_baseline && s->rtt_now < s->css_baseline) {
		COUNT(starts_resumed);
		s->css_baseline = 0;
	} else if (!s->css_baseline && s->rtt_last && s->rtt_now >= s->rtt_last + thresh) {
		COUNT(starts_slowed);
		s->css_baseline = s->rtt_now;
		s->css_rounds = 0;
	}
}

static __always_inline void search_fill(struct start *s, u32 bin, u32 acked, u32 sent)
{
	s->acked[bin % SEARCH_BINS] = acked;
	s->sent[bin % SEARCH_BINS] = sent;
}

/* update_bins() of [S] 3.2. False: too long ago for bins. */
static __always_inline bool search_update(struct start *s, const struct tcp_sock *tp)
{
	u32 acked = s->acked[s->bin % SEARCH_BINS], sent = s->sent[s->bin % SEARCH_BINS];
	u64 passed = (tp->tcp_mstamp - s->bin_end) / max(s->bin_us, 1) + 1;

	if (passed > SEARCH_W)
		return false;
	for (u32 i = 1; i < SEARCH_W; i++)
		if (i < passed)
			search_fill(s, s->bin + i, acked, sent);
	s->bin += passed;
	s->bin_end += passed * s->bin_us;
	search_fill(s, s->bin, tp->snd_una, tp->snd_nxt);
	return true;
}

/* Bytes of W bins up to `bin`; differences of sequence numbers, below 2^31. */
static __always_inline u64 search_sent(const struct start *s, u32 bin)
{
	return s->sent[bin % SEARCH_BINS] - s->sent[(bin - SEARCH_W) % SEARCH_BINS];
}

static __always_inline u64 search_acked(const struct start *s, u32 bins)
{
	return s->acked[s->bin % SEARCH_BINS] - s->acked[(s->bin - bins) % SEARCH_BINS];
}

/* [S] 3.2 */
static __always_inline void search_sample(struct start *s, const struct tcp_sock *tp, u32 rtt)
{
	u64 delivered, sent, rest;
	u32 bins, prev;

	if (s->target)
		return;
	if (!s->bin_us) { /* 2^26 * 35 < 2^32 */
		s->bin_us = max(rtt * SEARCH_BIN_PERCENT / 100, 1);
		s->bin_end = tp->tcp_mstamp + s->bin_us;
		s->bin = 0;
		search_fill(s, 0, tp->snd_una, tp->snd_nxt);
		return;
	}
	if (tp->tcp_mstamp <= s->bin_end)
		return;
	if (!search_update(s, tp)) {
		s->bin_us = 0;
		return;
	}
	bins = rtt / max(s->bin_us, 1);
	if (bins >= SEARCH_EXTRA_BINS || s->bin < bins + SEARCH_W + 1)
		return;
	prev = s->bin - bins;
	rest = rtt % max(s->bin_us, 1);
	delivered = search_acked(s, SEARCH_W);
	/* twice 2^32 * 2^25 */
	sent = (search_sent(s, prev - 1) * rest + search_sent(s, prev) * (s->bin_us - rest)) / max(s->bin_us, 1);
	/* norm_diff >= THRESH without a quotient: 2^32 * 100 */
	if (sent <= delivered || (sent - delivered) * 100 < sent * SEARCH_THRESH)
		return;
	s->target = max(min(search_acked(s, SEARCH_RTT_BINS) / max(tp->mss_cache, 1), W_MAX), SEARCH_LEAST);
}

/* Call in pkts_acked, with an RTT in us, more than 0. Without memory for its storage slow start is the stack's. */
static __always_inline void start_sample(struct sock *sk, u32 rtt, u32 mode)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct start *s;

	if (!is_first_start(tp, mode))
		return;
	s = bpf_sk_storage_get(&starts, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return;
	if (mode == START_HYSTART)
		hystart_sample(s, tp, rtt);
	else
		search_sample(s, tp, rtt);
}

/* SEARCH's drain: a packet leaves for each three that arrive, down to the target. packets << 20 */
static __always_inline u64 search_drain(struct start *s, const struct tcp_sock *tp, u64 w_q20, u32 acked)
{
	u64 arrived = s->drained + (u64)acked;
	u64 left = max(packets_in_flight(tp) + arrived / SEARCH_DRAIN, s->target);

	s->drained = arrived % SEARCH_DRAIN;
	s->over = left == s->target;
	/* 2^32 + 2^31 << 20 */
	return min(w_q20, left << Q20);
}

/*
 * Call in cong_avoid, while is_first_start(). Returns the window after `acked` packets, packets << 20 as before. It was at most
 * 2^40, so it is at most 2^41. When the start ends here, ssthresh is the window.
 */
static __always_inline u64 start_window(struct sock *sk, u64 w_q20, u32 acked, bool grow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct start *s = bpf_sk_storage_get(&starts, sk, NULL, 0);
	u64 more = grow ? (u64)min(acked, W_MAX) << Q20 : 0;

	if (!s)
		return w_q20 + more;
	if (s->target)
		w_q20 = search_drain(s, tp, w_q20, acked);
	else /* [H] 4.2 */
		w_q20 += s->css_baseline ? more / CSS_GROWTH_DIVISOR : more;
	if (s->over) {
		COUNT(starts_left);
		tp->snd_ssthresh = max(min(w_q20 >> Q20, W_MAX), W_MIN);
		bpf_sk_storage_delete(&starts, sk);
	}
	return w_q20;
}

/* Call in init: nothing is left of an earlier time with this controller. */
static __always_inline void start_init(struct sock *sk, bool may_start)
{
	if (may_start)
		bpf_sk_storage_delete(&starts, sk);
}

#endif
