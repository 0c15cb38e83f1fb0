/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rate sample of an ACK (section 4.1). Stock kernels do not keep for a packet how many were in flight when it left, and how
 * many had been lost by then. Both follow from the ACK before it, which the kernel's prior_delivered names.
 */
#ifndef BBR3_SAMPLE_BPF_H
#define BBR3_SAMPLE_BPF_H

#define MEMORIES 128 /* ACKs that are remembered, spread over two flights: a power of two */

/* The sender after an ACK: the packets that leave next have tcp_sock.delivered as it is now. */
struct memory {
	u32 delivered; /* packets so far */
	u32 lost;      /* packets so far */
	u32 in_flight; /* packets */
	u32 snd_nxt;
};

struct memories {
	struct memory of[MEMORIES];
	u32 n; /* so many were written */
};

/* An ACK. P is the packet sent last of those that it tells of. */
struct sample {
	u64 bw;            /* RS.delivery_rate, packets/s << 8; 0: no valid one */
	u32 delivered;     /* RS.delivered: packets since P left */
	u32 prior_delivered; /* P.delivered */
	u32 newly_acked;   /* packets */
	u32 newly_lost;    /* packets since the last ACK that had data */
	u32 tx_in_flight;  /* what was in flight when P left, with P, packets */
	u32 lost;          /* packets since P left */
	u32 prior_in_flight; /* before this ACK, packets */
	s32 rtt_us;        /* of P; -1: none */
	bool has_data;     /* it tells of a packet */
	bool is_app_limited;
	bool is_marked;    /* it tells of a mark (CE) */
};

static __always_inline struct memory *memory_back(struct memories *m, u32 back)
{
	return &m->of[(m->n - 1 - back) & (MEMORIES - 1)];
}

static __always_inline void remember(struct memories *m, const struct tcp_sock *tp)
{
	u32 flight = packets_in_flight(tp);
	struct memory *last = memory_back(m, 0);

	/* Two flights fit: of more ACKs some are left out, which matters for `lost` only. */
	if (m->n && rates_of(tp)->lost == last->lost &&
	    tp->delivered - last->delivered < max(flight / (MEMORIES / 2), 1))
		return;
	if (!m->n || tp->delivered != last->delivered)
		m->n = m->n == ~0u ? MEMORIES : m->n + 1; /* both say the same place */
	last = memory_back(m, 0);
	last->delivered = tp->delivered;
	last->lost = rates_of(tp)->lost;
	last->in_flight = flight;
	last->snd_nxt = tp->snd_nxt;
}

/*
 * The last ACK before a packet with that `delivered` left, or the oldest one known. Without branches, each of which would
 * double the verifier's work: the sign of the difference tells whether those are all too new.
 */
static __always_inline struct memory *recall(struct memories *m, u32 delivered)
{
	u32 back = 0;

	for (u32 step = MEMORIES / 2; step; step /= 2)
		back += step & -((delivered - memory_back(m, back + step - 1)->delivered) >> 31);
	return memory_back(m, back < m->n ? back : m->n - 1);
}

/*
 * tx_in_flight of P: what was in flight after that ACK, and what left up to P. Other ACKs in between took away what they
 * delivered. Exact but for losses in between, for packets that are not full, and for one sent again, which may be first or last.
 */
static __always_inline u32 tx_in_flight(const struct memory *m, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	s64 packets = (s64)m->in_flight - (u32)(rs->prior_delivered - m->delivered); /* 2^33 */

	if (rs->is_retrans)
		packets++;
	else if (before(m->snd_nxt, rs->last_end_seq))
		packets += (rs->last_end_seq - m->snd_nxt + max(tp->mss_cache, 1) - 1) / max(tp->mss_cache, 1);
	return packets < 1 ? 1 : min(packets, W_MAX);
}

static __always_inline void
take_sample(struct sample *s, struct memories *m, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct memory *then;

	__builtin_memset(s, 0, sizeof(*s));
	s->rtt_us = rs->rtt_us < 0 ? -1 : (s32)min(max(rs->rtt_us, 1), RTT_MAX_US);
	s->newly_acked = min(rs->acked_sacked, W_MAX);
	s->prior_in_flight = rs->prior_in_flight;
	s->has_data = rs->delivered >= 0;
	if (!s->has_data || !m->n)
		return;
	s->delivered = min(rs->delivered, W_MAX);
	s->prior_delivered = rs->prior_delivered;
	s->is_app_limited = rs->is_app_limited;
	if (rs->interval_us > 0) /* 2^20 * 2^28 = 2^48 */
		s->bw = min(mul_div(s->delivered, (u64)SECOND << BW_BITS, rs->interval_us), BW_MAX);
	then = recall(m, rs->prior_delivered);
	s->tx_in_flight = tx_in_flight(then, tp, rs);
	s->lost = min(rates_of(tp)->lost - then->lost, W_MAX);
}

#endif
