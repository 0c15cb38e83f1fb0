// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pseudo-rate TCP: a bound on the window from the measured rate, filled by doubling.
 *
 *   [P] J.-R. Chen, Y.-C. Chen, "Pseudo-rate TCP: a congestion avoidance scheme with nearly
 *       optimized fairness and throughput", Computer Communications 22, 1999.
 *
 * A cycle lasts from the sending of a packet to its ACK. At its end, with N packets acknowledged
 * in the cycle's RTT, and T the lowest RTT of all:
 *     mu = N / RTT,   Bound = mu (T + N_queue / mu) = N T / RTT + N_queue               (1)
 * The window is Base + Offset. It fills up to Bound by doubling Offset in each cycle: an ACK adds
 * one to Offset and two to OffsetBound while Offset > OffsetBound, which each cycle starts at 0.
 * At Bound, and where it lies above a new one, the window becomes (Bound - 1) + 1.
 *
 * At rest N_queue packets of each flow are queued, whatever its RTT: short queues, fair shares, and
 * what is set free is taken in a few round trips. Not good against loss-based flows, which fill the
 * queue, nor for a flow that starts in others' queue: it takes their delay for part of T.
 *
 * Our choices where the paper is silent or contradicts itself, and our differences from it:
 *  - Section 3.4 ends with an increase when Offset is *smaller* than OffsetBound. That is never so
 *    when a cycle begins. *Larger*, as in 3.1, gives Table 1 digit for digit.
 *  - 3.4 sets Base = Bound, Offset = 0; 3.1 and Table 1 Bound - 1 and 1. The latter: no window of
 *    one packet more after a rise, no special case of 0. Only at Bound: when Offset alone is used up
 *    (3.4) it would jump there, and void the doubling.
 *  - The rate in (1) is the flow's own. With no queue N T / RTT is the last window, and (1) lets it
 *    grow by N_queue a cycle, not double as in Figs. 1 and 4. So while less than one packet is
 *    queued, Bound is at least twice the window: bound_mode 1. bound_mode 0 is (1) as it stands.
 *  - Queued packets for that are judged by the smallest RTT of the cycle: jitter is no queue.
 *  - A doubling learns of its queue a cycle late, and overshoots. Beyond the paper, `early` looks at the
 *    latest RTT, and ends it once so many own packets are queued: 3, where N_queue is 3.
 *  - Beyond the paper, the wait of an ACK is no queue (forward.bpf.h), and T is longer by it. Behind the packets of an upload
 *    ACKs come in clumps, of which N has one more or less: then the window stands for N. It changes as the RTT does by the wait.
 *  - Beyond the paper, RTT noise of more than RTT / window looks like a queue of one packet: noise_us, a constant, or
 *    noise_cycles, by which the flow measures it.
 *  - Growth counts acknowledged packets, not ACKs: a delayed ACK of two adds two steps.
 *  - Bound counts in whole packets, rounded down. At rest a flow has 2 to 3 packets queued of N_queue 3;
 *    with N_queue 1 less than one, which bound_mode 1 takes for none: it never rests.
 *  - Loss (and ECN): half, Bound that half until a whole cycle after the recovery. Timeout: the
 *    same from (0, 1). A cycle that the application limited, or without an RTT sample, changes no Bound.
 *  - Half of the packets in flight, if they are more than the window (RFC 5681, (4)): a cycle's end may drop the
 *    window before the loss of its last doubling is known, and one overshoot shall not be paid for twice.
 */
#include "declare.bpf.h"
#include "forward.bpf.h"
#include "fair.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, n_queue, 3, 1, 1024, "packets", "N_queue of (1): what a flow may keep in queues");
PARAM(u32, bound_mode, 1, 0, 1, "-", "0: Bound is (1); 1: and twice the window while less than a packet is queued");
PARAM(u32, rtt_min_win_s, 0, 0, 86400, "s",
      "after so long a flow drains its own queue, and measures T anew, for routes that change; 0: never, as in the paper");
PARAM(u32, early, 0, 0, 1024, "packets",
      "own packets queued, by the latest RTT, from which on a cycle fills no more; 0: off, as in the paper");
PARAM(u32, noise_us, 0, 0, 1000000, "us", "RTT above T that is no queue: T counts as so much longer; 0 in the paper");
PARAM(u32, noise_cycles, 0, 0, 65535, "cycles",
      "the RTT's noise measures itself, is no queue, and is forgotten in so many cycles; 0: off, as in the paper");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's; 1 in the paper");

NOTE("flows that fill the queue (CUBIC, Reno) leave it next to nothing: for paths without them");

PRESET(shared, "early=3", "several Pseudo-rate flows: 6 retransmissions for 805, the Jain index 0.96 for 0.84");

COUNTER(flows, "connections started");
COUNTER(cycles, "cycles that gave a Bound");
COUNTER(doublings, "of those, Bound lifted to twice the window");
COUNTER(drops, "of those, Bound below the window: dropped to it");
COUNTER(skipped, "cycles that gave none: application-limited, in recovery, no RTT sample");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions by half: fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

#define Q4 4
#define Q5 5

/* One connection. Windows in packets, at most 2^20 each. */
struct pseudorate {
	struct sender s;     /* its round is the cycle, its rtt_min T of (1) */
	u32 base, offset;    /* the window is their sum */
	u32 offset_bound;
	u32 bound_q4;        /* Bound of (1), packets << 4, at most 2^24; as much: none yet */
	u32 delivered;       /* when this cycle began, packets */
	u32 cycle_rtt;       /* smallest RTT of the data in this cycle, us; 0: no sample yet */
	u32 wait;            /* of the latest RTT: its ACK's wait, us */
	u32 base_saved, bound_saved_q4; /* before the last reduction, for undo ... */
	u32 cycle_top;       /* largest RTT of this cycle so far, us ... */
	u32 cycle_fall;      /* ... and by how much at most a later one was smaller */
	u32 window_then;     /* at the end of the last cycle ... */
	u32 fall_q5;         /* the last fall that tells of noise, us << 5: at most 2^31 */
	u32 noise_q5;        /* noise of the RTT, us << 5: at most 2^31 */
	u16 offset_saved;    /* ... so many packets at most */
	u16 wait_then;       /* at the end of the last cycle, us >> 10 */
	u16 moved_then;      /* ... which had changed it by so many packets; so many at least */
	bool spoilt;         /* this cycle was limited by the application, or part of a recovery */
};
STATE(struct pseudorate);

static inline void begin_cycle(struct pseudorate *p, const struct tcp_sock *tp)
{
	round_start(&p->s, tp);
	p->delivered = tp->delivered;
	p->cycle_rtt = p->cycle_top = p->cycle_fall = 0;
	p->spoilt = false;
	p->offset_bound = 0;
}

/* The whole of a window is Base, but for one packet that can double. */
static inline void split(struct pseudorate *p, u32 window)
{
	p->base = max(window, 1) - 1;
	p->offset = 1;
}

/* Take over a window that we did not set. */
static inline void reload(struct pseudorate *p, const struct tcp_sock *tp)
{
	split(p, min(tp->snd_cwnd, W_MAX));
	begin_cycle(p, tp);
}

/*
 * T of (1) beside this RTT, us: not above it. T may just have aged. Noise counts twice: the least RTT of a connection is one
 * without any, while a fall within a cycle shows a part of it.
 */
static inline u32 base_rtt(const struct pseudorate *p, u32 rtt)
{
	return min(p->s.rtt_min + noise_us + (p->noise_q5 >> (Q5 - 1)), rtt); /* 2^26 + 10^6 + 2^27 */
}

/*
 * At a cycle's end: noise, by how far the RTT fell within the cycle. If the window rests, so does a queue of ours. A fall is no
 * noise if it is explained by the packets by which the window changed in this cycle, or in the one before, whose RTTs these are;
 * nor if two packets explain it: ACKs come in pairs. Other flows' queues fall, too, but not in each cycle: so the smaller of two
 * falls counts. A cycle tells nothing where the window moved and the fall is explained. Noise is forgotten slowly: many
 * packets in flight keep their order and so see little of it, but their RTT is a long one.
 */
static inline void measure_noise(struct pseudorate *p)
{
	u32 window = p->base + p->offset, fall,
	    moved = window > p->window_then ? window - p->window_then : p->window_then - window;
	u64 ours = mul_div((u64)moved + p->moved_then + 2, p->cycle_rtt, window); /* 2^22 * 2^26 */

	if (!p->spoilt && (p->cycle_fall > ours || moved + p->moved_then <= n_queue)) {
		fall = p->cycle_fall > ours ? (p->cycle_fall - ours) << Q5 : 0; /* 2^31 */
		p->noise_q5 -= p->noise_q5 / max(noise_cycles, 1);
		p->noise_q5 = max(p->noise_q5, min(fall, p->fall_q5));
		p->fall_q5 = fall;
	}
	p->window_then = window;
	p->moved_then = p->spoilt ? 65535 : min(moved, 65535);
}

/* Own packets queued at this RTT of the data, not 0, if n arrive in it and its ACK's wait; n and the result in packets << 4. */
static inline u64 queued(const struct pseudorate *p, u64 n_q4, u32 rtt)
{
	return mul_div(n_q4, rtt - base_rtt(p, rtt), (u64)rtt + p->wait); /* 2^24 * 2^26 = 2^50 */
}

/* (1), in packets << 4; 0 if this cycle tells nothing about the path. */
static inline u32 find_bound(const struct pseudorate *p, const struct tcp_sock *tp)
{
	u64 n_q4 = min(tp->delivered - p->delivered, W_MAX) << Q4;
	u64 period = round_us(&p->s, tp);
	u64 bound, window = p->base + p->offset, twice = 2 * window << Q4;

	if (p->spoilt || !p->cycle_rtt || !period || !n_q4)
		return 0;
	if (p->wait) /* ACKs in clumps: N may be one of them more or less. The window is what has been acknowledged, too */
		bound = (window << Q4) - min(queued(p, window << Q4, p->cycle_rtt), window << Q4);
	else /* 2^24 * 2^26 = 2^50 */
		bound = mul_div(n_q4, base_rtt(p, p->cycle_rtt), period);
	bound += n_queue << Q4;
	if (bound_mode && queued(p, n_q4, p->cycle_rtt) < 1 << Q4 && bound < twice) {
		COUNT(doublings);
		bound = twice;
	}
	return min(bound, W_MAX << Q4);
}

/*
 * ACKs wait longer, or not so long. No cycle adds more than arrives in it: it has filled Offset by half of OffsetBound, and the
 * `acked` of its last ACK fill the next.
 */
static inline void fit_base(struct pseudorate *p, const struct tcp_sock *tp, u32 acked)
{
	u64 window = p->base + p->offset, filled = (u64)p->offset_bound / 2 + acked,
	    fitted = fit_window(window, p->s.rtt_last, (u32)p->wait_then << 10, p->wait);

	fitted = min(fitted, window + max(tp->delivered - p->delivered, filled) - filled);
	p->base = min(max(fitted, p->offset), W_MAX) - p->offset;
	p->wait_then = p->wait >> 10;
}

static inline void end_cycle(struct pseudorate *p, const struct tcp_sock *tp, u32 acked)
{
	u32 window, bound;

	if (noise_cycles)
		measure_noise(p);
	if (p->wait >> 10 != p->wait_then)
		fit_base(p, tp, acked);
	window = p->base + p->offset;
	bound = find_bound(p, tp);
	if (bound) {
		COUNT(cycles);
		p->bound_q4 = max(bound, W_MIN << Q4);
	} else {
		COUNT(skipped);
	}
	if (window >= p->bound_q4 >> Q4) {
		if (window > p->bound_q4 >> Q4)
			COUNT(drops);
		split(p, p->bound_q4 >> Q4);
	}
	begin_cycle(p, tp);
}

/* Does a cycle's own queue end its doubling before the cycle's end can tell of it? */
static inline bool is_early(const struct pseudorate *p, u32 window)
{
	return early && p->s.rtt_last && queued(p, (u64)window << Q4, p->s.rtt_last - p->wait) >= early << Q4;
}

/* Each step adds 1 to Offset and 2 to OffsetBound: so many until they meet, or the window is full. */
static inline void fill(struct pseudorate *p, const struct tcp_sock *tp, u32 acked)
{
	u64 room, limit = min(p->bound_q4 >> Q4, window_limit(tp));
	u32 window = p->base + p->offset;

	if (p->offset <= p->offset_bound || window >= limit || is_early(p, window))
		return;
	room = min(p->offset - p->offset_bound, limit - window);
	room = min(room, acked);
	p->offset += room;
	p->offset_bound += 2 * room;
}

SEC("struct_ops/pseudorate_init")
void BPF_PROG(pseudorate_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pseudorate *p = inet_csk_ca(sk);

	__builtin_memset(p, 0, sizeof(*p));
	first_window(tp, init_cwnd);
	if (!in_recovery(inet_csk(sk))) /* else the stack is on its way to it */
		tp->snd_ssthresh = W_MIN; /* no slow start for the stack to see: Offset doubles instead */
	p->offset = stack_window(tp);
	p->bound_q4 = W_MAX << Q4;
	p->s.cwnd = tp->snd_cwnd;
	fair_init(sk);
	begin_cycle(p, tp);
	COUNT(flows);
}

SEC("struct_ops/pseudorate_pkts_acked")
void BPF_PROG(pseudorate_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct pseudorate *p = inet_csk_ca(sk);
	u32 rtt;

	if (idle_ended(&p->s, tcp_sk(sk), sample))
		look_anew(&p->s); /* T and Bound still hold; the open cycle measures nothing */
	if (!forward_sample(&p->s, sk, sample, rtt_min_win_s, &p->wait))
		return;
	rtt = p->s.rtt_last - p->wait;
	fair_sample(sk, rtt);
	if (!p->cycle_rtt || rtt < p->cycle_rtt)
		p->cycle_rtt = rtt;
	if (!noise_cycles)
		return;
	p->cycle_top = max(p->cycle_top, rtt);
	p->cycle_fall = max(p->cycle_fall, p->cycle_top - rtt);
}

SEC("struct_ops/pseudorate_cong_avoid")
void BPF_PROG(pseudorate_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pseudorate *p = inet_csk_ca(sk);
	bool grow = is_cwnd_limited(tp),
	     spoilt = !grow || in_recovery(inet_csk(sk)) || drains(&p->s, tp, rtt_min_win_s);

	if (fair_acked(sk, &p->s, p->base + p->offset, acked, round_over(&p->s, tp), rtt_min_win_s))
		return;
	if (cwnd_changed(&p->s, tp)) {
		COUNT(reloads);
		reload(p, tp);
	}
	if (!grow)
		COUNT(limited_acks);
	p->spoilt |= spoilt;
	if (round_over(&p->s, tp)) {
		end_cycle(p, tp, acked);
		p->spoilt |= spoilt; /* this ACK begins the next cycle */
	}
	if (grow)
		fill(p, tp, acked);
	cwnd_write(&p->s, tp, drained_window(&p->s, tp, p->base + p->offset, rtt_min_win_s));
}

SEC("struct_ops/pseudorate_ssthresh")
u32 BPF_PROG(pseudorate_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pseudorate *p = inet_csk_ca(sk);
	u32 half = fair_cut(sk, max(half_window(tp), min(tp->snd_cwnd, tp->packets_out / 2)));

	COUNT(losses);
	p->offset_saved = min(p->offset, 65535);
	p->base_saved = p->base + p->offset - p->offset_saved;
	p->bound_saved_q4 = p->bound_q4;
	p->bound_q4 = min(half, W_MAX) << Q4;
	look_anew(&p->s);
	return half;
}

SEC("struct_ops/pseudorate_undo_cwnd")
u32 BPF_PROG(pseudorate_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pseudorate *p = inet_csk_ca(sk);

	COUNT(undos);
	p->base = p->base_saved;
	p->offset = p->offset_saved;
	p->bound_q4 = p->bound_saved_q4;
	p->s.cwnd = p->base + p->offset; /* another window is taken over by cong_avoid */
	begin_cycle(p, tp);
	return undone_window(tp);
}

SEC("struct_ops/pseudorate_cwnd_event")
void BPF_PROG(pseudorate_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_LOSS)
		COUNT(timeouts);
}

SEC(".struct_ops")
struct tcp_congestion_ops pseudorate = {
	.init = (void *)pseudorate_init,
	.pkts_acked = (void *)pseudorate_pkts_acked,
	.cong_avoid = (void *)pseudorate_cong_avoid,
	.ssthresh = (void *)pseudorate_ssthresh,
	.undo_cwnd = (void *)pseudorate_undo_cwnd,
	.cwnd_event = (void *)pseudorate_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "pseudorate",
};
