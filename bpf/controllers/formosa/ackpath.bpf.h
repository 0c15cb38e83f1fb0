/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue on the ACKs' way is no congestion, so it changes no rate. W counts the packets of an RTT. If the ACKs' way makes the RTT
 * longer, W is to grow with it, or packets leave more slowly. If it makes the RTT shorter, W is to shrink, or packets flood the queue.
 * By one packet an RTT it would come too late: ACKs behind another's data may wait ten times the RTT a few seconds later.
 */
#ifndef FORMOSA_ACKPATH_BPF_H
#define FORMOSA_ACKPATH_BPF_H

#include "options.bpf.h"

/* Do ACKs queue on their way? Then the RTT is longer than its smallest by more than our own packets' queue. */
static inline bool acks_queue(const struct wire *w, u32 srtt_us, u32 rtt_min)
{
	return srtt_us > rtt_min + rtt_min / 4 + w->queue_us; /* each below 2^27 */
}

/*
 * Data waits, the peer has room for it and misses nothing: then neither of the two made this round small. Behind a gap any echo of
 * a round's number ends it.
 */
static inline bool has_more(const struct tcp_sock *tp)
{
	u32 next = tp->snd_nxt + max(tp->mss_cache, 1);

	return !(tp->sacked_out | tp->lost_out) && !before(tp->write_seq, next) &&
	       !before(tp->snd_una + tp->snd_wnd, next);
}

/*
 * How much longer (or, below 0, shorter) the RTT is than when W was last fitted to it, us, without what the forward queue
 * explains. A forward queue that moves the other way explains nothing: its smallest delay may have been forgotten.
 */
static inline s64 rtt_change(const struct wire *w, u32 srtt_us)
{
	s64 change = (s64)srtt_us - w->fitted_srtt, queue = (s64)w->squeue_us - w->fitted_queue;

	if (change > 0)
		return change - (queue < 0 ? 0 : queue < change ? queue : change);
	return change - (queue > 0 ? 0 : queue > change ? queue : change);
}

static inline void fitted(struct wire *w, u32 srtt_us)
{
	w->fitted_srtt = srtt_us;
	w->fitted_queue = w->squeue_us;
}

/* At the end of a round: `packets`, fitted to an RTT that changed by more than an eighth. At most doubled, the rest follows. */
static inline u32 fit(struct wire *w, u32 srtt_us, u32 packets)
{
	s64 change = rtt_change(w, srtt_us);
	u32 was = w->fitted_srtt, rtt;

	if (!was || (u64)(change < 0 ? -change : change) <= was >> 3)
		return packets;
	COUNT(fits);
	rtt = min((u64)(was + change), 2 * (u64)was); /* not below srtt_us */
	fitted(w, change < was ? srtt_us : rtt);
	return min(divide((u64)packets * rtt + was - 1, was), W_MAX); /* 2^20 * 2^28; up, so that a small one stays */
}

#endif
