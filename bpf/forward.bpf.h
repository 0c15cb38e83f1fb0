/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The data's own queue: an RTT sample, and what of it the ACK waited on its way.
 *
 *   [P] A. Kuzmanovic, E. Knightly, "TCP-LP: Low-Priority Service via End-Point Congestion Control", IEEE/ACM Transactions on
 *       Networking 14(4), 2006.
 *   [L] S. Shalunov et al., "Low Extra Delay Background Transport (LEDBAT)", RFC 6817, 2012.
 *   [T] D. Borman et al., "TCP Extensions for High Performance", RFC 7323, 2014.
 *
 * ACKs wait in the queue of an upload. A law that takes the RTT for its queue takes that one for its own, and stops. [P] and [L]
 * measure one way instead. The two clocks differ by a constant, so what is above the least delay is a queue. Here the way
 * is the ACK's:
 *     way  = our clock - the peer's timestamp in the ACK                               (1)
 *     wait = way - the least way - tick + RTTmin / 128,   from 0 to RTT - RTTmin           (2)
 * RTT - wait is the RTT of the data alone, and RTTmin + wait that of a path without a queue of data.
 *
 *  - [P] and [L] take the other way, by the timestamp that the ACK echoes. An echo may be that of the oldest packet which the ACK
 *    covers ([T] 4.3), but the stack's RTT is that of the newest. (1) has no echo: delayed ACKs, SACK and repairs change nothing.
 *  - The peer's clock ticks each millisecond, or microsecond: (1) is too long by a part of a tick. A receiver that waits with its
 *    SACKs, 1.1 ms at most, stamps them with an older time. So up to LEAST_US is no wait: without a queue of ACKs the law is
 *    that of the RTT.
 *  - (2) is too short by a tick and by what follows. Some ms of a long RTT are many packets of a large window, which would
 *    count as its queue. Hence a 128th of RTTmin more.
 *  - Clocks drift: the least way rises by 61 us a second. Our own clock is slowed for it, so that no time is to be kept. A queue of
 *    ACKs that never ends is forgotten as slowly.
 *  - No ACK waits longer than its RTT has grown. If (2) says so, the least way is wrong: at the least RTT it is taken anew.
 *  - A peer's clock that ticks more slowly, or stands, makes all ways longer. So does one that was set back. From CLOCK_US
 *    beyond the RTT on no way is believed for AGAIN_US of that clock, and one that ticks as it should is not believed again.
 *    A clock that is too fast shows no wait.
 *  - ACKs that waited behind the packets of an upload come in clumps. So the flow is paced from the first wait of CLUMP_US on.
 *    A wait in a recovery tells of no upload: SACKs make the ACKs longer, and a slow link queues these alone.
 *
 * A receiver that lies can hide the queue, as one can that sends ACKs early: the law then grows until a packet is lost.
 */
#ifndef FORWARD_BPF_H
#define FORWARD_BPF_H

#include "declare.bpf.h"
#include "sender.bpf.h"

PARAM(u32, forward_delay, 1, 0, 1, "-",
      "1: the wait of ACKs, by the peer's timestamps, is no queue of the data; 0: all of the RTT counts, as in the paper");

#define DRIFT_SHIFT 14          /* 2^-14 = 61 ppm */
#define CLOCK_US (1u << 18)     /* 262 ms */
#define AGAIN_US (1u << 29)     /* 9 minutes: an eighth of all that tells before from after */
#define LEAST_US 2500
#define CLUMP_US 4000
#define FALL_US 4000
#define FALL_MS 1000

/*
 * The least way falls: an upload's queue is shorter, and its ACKs' wait was in rtt_min. Drift is slower. A step in which the RTT does
 * not fall is one of the peer's clock. If rtt_min ages, that mends it.
 */
static __always_inline void follow_fall(struct sender *s, const struct tcp_sock *tp, u32 rtt, u32 way)
{
	u32 now = tp->tcp_mstamp / 1000, step = s->ack_way - way;
	s32 fall;

	if (now - s->fall_ms > FALL_MS) {
		s->fall_ms = now;
		s->fall_way = way;
	} else if (step > LEAST_US && rtt + step / 4 > s->rtt_last) {
		s->fall_way -= step;
	}
	fall = s->fall_way - way;
	if (fall <= FALL_US)
		return;
	s->rtt_min -= min((u32)fall - LEAST_US, s->rtt_min / 4);
	s->fall_way = way + LEAST_US;
}

/*
 * (1) and (2), us, of a way that is long by stamps of 1 ms. Clocks wrap at 2^32 us: the least way is a little before a way, far before,
 * or behind one that is not believed.
 */
static __always_inline u32 long_way(struct sender *s, const struct tcp_sock *tp, u32 rtt, u32 clock, u32 age_s)
{
	u32 stamp = tp->rx_opt.rcv_tsval, tick = has_usec_timestamps(tp) ? 1 : 1000, way = clock - stamp * tick,
	    wait = way - s->ack_way, most;

	if (!forward_delay || !stamp) /* without a stamp the connection has no timestamps */
		return 0;
	if (!s->ack_way || wait > -AGAIN_US) {
		if (!age_s)
			follow_fall(s, tp, rtt, way);
		s->ack_way = way;
		return 0;
	}
	if ((s32)wait <= LEAST_US)
		return 0;
	most = rtt - min(s->rtt_min, rtt);
	wait += s->rtt_min / 128 - tick; /* 2^29 + 2^19 */
	if (wait <= most)
		return wait;
	if (wait > most + CLOCK_US)
		s->ack_way = way + 2 * AGAIN_US;
	else if (most <= tick)
		s->ack_way = way;
	return most;
}

/* Most ACKs do not wait: nothing else is read for them. (If the stamps are of 1 us, one of a million ends here by chance.) */
static __always_inline u32 ack_wait(struct sender *s, const struct tcp_sock *tp, u32 rtt, u32 age_s)
{
	u32 clock = tp->tcp_mstamp - (tp->tcp_mstamp >> DRIFT_SHIFT);

	if (clock - tp->rx_opt.rcv_tsval * 1000 - s->ack_way <= LEAST_US)
		return 0;
	return long_way(s, tp, rtt, clock, age_s);
}

/* Like rtt_sample(), but returns rtt_last, or 0; *wait is the part of it that is no data's. */
static __always_inline u32
forward_sample(struct sender *s, struct sock *sk, const struct ack_sample *sample, u32 age_s, u32 *wait)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	s32 rtt = sample->rtt_us;

	if (rtt <= 0)
		return 0;
	rtt = min(rtt, RTT_MAX_US);
	*wait = ack_wait(s, tp, rtt, age_s);
	if (*wait > CLUMP_US && !in_recovery(inet_csk(sk)))
		pace(sk, ~0ULL); /* the stack sets its rate with each ACK */
	s->rtt_last = rtt;
	if (!age_s && rtt - *wait < s->rtt_min)
		s->fall_way = s->ack_way;
	note_rtt_min(s, tp, rtt - *wait, age_s);
	return rtt;
}

/*
 * A window beside an RTT whose part that is a wait was `then`. ACKs that come later shall not slow the data, nor shall a burst leave
 * when they come earlier: it changes as the RTT did, by half or twice at most. w < 2^37.
 */
static __always_inline u64 fit_window(u64 w, u32 rtt, u32 then, u32 wait)
{
	u32 before = rtt - min(wait, rtt) + then; /* 2^27 */

	return mul_div(w, rtt, max(min(before, 2 * rtt), rtt / 2));
}

#endif
