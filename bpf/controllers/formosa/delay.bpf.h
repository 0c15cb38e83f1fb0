/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Forward delay, (4) and (5) of formosa.bpf.c: at the receiver by the sender's stamps, at a sender whose peer is none by timestamps.
 */
#ifndef FORMOSA_DELAY_BPF_H
#define FORMOSA_DELAY_BPF_H

#include "sender.bpf.h"
#include "values.bpf.h"

#define D_MAX_US (1 << 26)      /* 67 s; a change of delay beyond counts as this */
#define X_MAX_US (1LL << 40)    /* 13 days; so far two clocks may drift apart, and stamps that jump get no further */
#define IDLE_US 1000000u        /* a longer silence makes sftt stale */
#define MIN_EPOCH_US 10000000u  /* the smallest delay is that of the last one to two epochs: clocks drift */
#define OURS 3                  /* rounds after a signal in which the cut may empty a queue */

struct estimate {
	s64 sftt_q16;  /* us << 16, relative to d0: at most 2^42 */
	s64 var_q16;   /* ftt_var, us << 16; 2^42 a packet */
	s64 q_q8;      /* Q, packets << 8 */
	s64 min_q16, young_q16; /* smallest sftt, and of this epoch */
	u32 packets;   /* packet_sum */
	u32 seen_us;   /* when the last sample came */
	u32 epoch_us;
	bool seeded;
	/* with noise_rounds */
	u8 ours;       /* in so many rounds a queue of ours may shrink */
	u32 gap_us;    /* least time between two packets, as on the slowest link; 0: none yet */
	s64 top_q16;   /* largest sftt of this round */
	u64 fall_q16;  /* by how much it was smaller later, at most: 2^43 */
	u64 then_q16;  /* that of the last round that tells */
	u64 noise_q16; /* of sftt, us << 16: at most 2^43 */
};

/* After a sample of sftt: how far it fell in this round. Each time between packets is one of so many. */
static inline void note_fall(struct estimate *e, u32 gap_us, u32 packets)
{
	u32 gap = max(divide(gap_us, packets), 1);

	e->gap_us = e->gap_us ? min(e->gap_us, gap) : gap;
	if (e->sftt_q16 > e->top_q16)
		e->top_q16 = e->sftt_q16;
	e->fall_q16 = max(e->fall_q16, e->top_q16 - e->sftt_q16);
}

/*
 * At the end of a round: noise, by how far the delay fell within the round. A queue of ours grows, but for the rounds after a
 * signal or a loss, and but for two packets: senders let as many go at once. Other flows' queues fall, too, but not in each
 * round: so the smaller of two falls counts.
 */
static inline void measure_noise(struct estimate *e)
{
	u64 fall = e->fall_q16 - min((u64)e->gap_us << 17, e->fall_q16); /* 2^32 << 17 = 2^49 */

	if (e->ours) {
		e->ours--;
	} else {
		e->noise_q16 -= e->noise_q16 / max(noise_rounds, 1);
		e->noise_q16 = max(e->noise_q16, min(fall, e->then_q16));
		e->then_q16 = fall;
	}
	e->top_q16 = e->sftt_q16;
	e->fall_q16 = 0;
}

/* Is the delay above its smallest no more than noise? That smallest had none, and a fall within a round shows a part of it. */
static inline bool is_noise(const struct estimate *e)
{
	return (u64)(e->sftt_q16 - e->min_q16) < 2 * e->noise_q16; /* 2^44 */
}

/* (4) with one more delay, us, whose zero the caller chose; `packets` came with it. */
static inline void estimate_sample(struct estimate *e, s64 d, u32 packets, u32 now_us)
{
	s64 d_q16;
	u32 gap_us;

	if (d > D_MAX_US)
		d = D_MAX_US;
	if (d < -D_MAX_US)
		d = -D_MAX_US;
	d_q16 = d * 65536;
	if (!e->seeded || now_us - e->seen_us > IDLE_US) {
		e->sftt_q16 = e->min_q16 = e->young_q16 = d_q16;
		e->var_q16 = 0;
		e->packets = 0;
		e->top_q16 = d_q16;
		e->epoch_us = now_us;
		e->seeded = true;
	}
	gap_us = now_us - e->seen_us;
	e->seen_us = now_us;
	/* 2^42 * 2^8 = 2^50 */
	e->sftt_q16 = (eta_q8 * e->sftt_q16 + (s64)(256 - eta_q8) * d_q16 + 128) >> 8;
	e->var_q16 += d_q16 - e->sftt_q16; /* 2^43 a packet, 2^16 packets: 2^59 */
	if (noise_rounds)
		note_fall(e, gap_us, packets);
	if (e->packets < 65535)
		e->packets += packets;
	if (now_us - e->epoch_us > MIN_EPOCH_US) {
		e->min_q16 = e->young_q16;
		e->young_q16 = e->sftt_q16;
		e->epoch_us = now_us;
	}
	if (e->sftt_q16 < e->young_q16)
		e->young_q16 = e->sftt_q16;
	if (e->sftt_q16 < e->min_q16)
		e->min_q16 = e->sftt_q16;
}

/* (5) at the end of a round: true for a signal. Without a known srtt the round adds nothing. */
static inline bool estimate_round(struct estimate *e, u32 srtt_us)
{
	bool fell = e->var_q16 < 0, signal;
	u64 l_q8 = min((u64)(fell ? -e->var_q16 : e->var_q16) >> 8, 1ULL << 40);

	l_q8 = srtt_us ? mul_div(l_q8, min(e->packets, 65535), srtt_us) : 0; /* 2^56 */
	if (ftt_norm) /* the sum telescopes to eta / (1 - eta) times the rise */
		l_q8 = mul_div(min(l_q8, 1ULL << 40), 256 - eta_q8, eta_q8);
	l_q8 = min(l_q8, 1ULL << 30);
	e->var_q16 = 0;
	e->packets = 0;
	if (!fell)
		e->q_q8 += l_q8;
	else if (q_mode != 1)
		e->q_q8 -= l_q8;
	if (q_mode && e->q_q8 < 0)
		e->q_q8 = 0;
	if (e->q_q8 < -(1LL << 40))
		e->q_q8 = -(1LL << 40);
	signal = e->q_q8 > (s64)cathresh << 8;
	if (noise_rounds) {
		measure_noise(e);
		if (signal && is_noise(e))
			e->q_q8 = signal = 0;
		else if (signal && !e->ours)
			e->ours = OURS;
	}
	if (signal)
		e->q_q8 = 0;
	return signal;
}

/* Forward queueing delay, us. */
static inline u32 estimate_queue(const struct estimate *e)
{
	return e->seeded ? (u64)(e->sftt_q16 - e->min_q16) >> 16 : 0;
}

/* --- by timestamps -------------------------------------------------------------------------- */

/* Toward a peer without the receiver half: forward delay by the timestamps of its ACKs. */
struct timestamps {
	u32 tsval, tsecr;           /* of the last ACK */
	u32 first_tsval, first_us;  /* for the tick of the peer's clock */
	u32 tick_us;                /* 0: unknown clock, no delay signal */
	bool calibrated;
	s64 x_us;                   /* forward delay, relative to the first */
	s64 x_min, x_held;          /* smallest of this round; the last that differed by a tick */
	struct estimate out;
};

/* A tick of the peer's timestamp clock, us, from a second or more of it; 0: none that we know. */
static inline u32 tick_of(u64 elapsed_us, u32 ticks)
{
	u64 tick = divide(elapsed_us, ticks);

	return tick <= 10                     ? 1
	       : tick >= 700 && tick <= 1400  ? 1000
	       : tick >= 2800 && tick <= 5600 ? 4000
	       : tick >= 7000 && tick <= 14000
		       ? 10000
		       : 0;
}

/* Can so many ticks have passed in that time? A delay of 50 ms more or less than the first is none of the clock's. */
static inline bool may_tick(u32 tick_us, u32 elapsed_us, u32 ticks)
{
	u64 passed = (u64)ticks * tick_us;

	return passed <= 2 * (u64)elapsed_us + 50000 && 2 * passed + 100000 >= elapsed_us;
}

/*
 * When the peer's ACK left less when our packet did. A constant is unknown; what changes is forward
 * delay and the peer's wait with its ACK. The smallest of a round counts.
 */
static inline void timestamp_sample(struct timestamps *t, const struct tcp_sock *tp)
{
	bool usec = has_usec_timestamps(tp);
	u32 tsval = tp->rx_opt.rcv_tsval, tsecr = tp->rx_opt.rcv_tsecr, now_us = tp->tcp_mstamp;

	if (!read_bits(tp, rx_opt.saw_tstamp) || !tsecr)
		return;
	if (!t->first_us) {
		t->first_us = now_us | 1;
		t->first_tsval = tsval;
		t->tick_us = usec ? 1 : 1000;
		t->x_min = 0;
	} else { /* 2^31 * 10^4 + 2^31 * 10^3 < 2^45 an ACK */
		s64 x = t->x_us + (s64)(s32)(tsval - t->tsval) * t->tick_us -
			(s64)(s32)(tsecr - t->tsecr) * (usec ? 1 : 1000);

		t->x_us = x > X_MAX_US ? X_MAX_US : x < -X_MAX_US ? -X_MAX_US : x;
	}
	t->tsval = tsval;
	t->tsecr = tsecr;
	if (!t->calibrated && !may_tick(t->tick_us, now_us - t->first_us, tsval - t->first_tsval))
		t->tick_us = 0; /* till we know better */
	if (!t->calibrated && now_us - t->first_us >= 1000000 && tsval != t->first_tsval) {
		u32 tick = tick_of(now_us - t->first_us, tsval - t->first_tsval);

		t->calibrated = true;
		if (tick != t->tick_us) {
			t->tick_us = tick;
			t->x_us = t->x_min = t->x_held = 0;
			t->out.seeded = false;
		}
	}
	if (t->x_us < t->x_min)
		t->x_min = t->x_us;
}

#endif
