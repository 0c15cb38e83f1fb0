// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP Adaptive Reno: the RTT tells how near the next congestion loss is, and so how fast to grow and
 * how much to cut.
 *
 *   [A] H. Shimonishi, T. Hama, T. Murase, "TCP-Adaptive Reno for Improving Efficiency-Friendliness
 *       Tradeoffs of TCP Congestion Control Algorithm", PFLDnet 2006.
 *   [P] Public ports to ns-3 (rab2807/tcp-adaptive-reno-ns3 and others). They follow the task of a
 *       course, which repeats [A]'s formulas and gives values to what [A] leaves open.
 *   [F] The paper of TCP-Fusion, which compares with ARENO.
 *
 * The window, one part for Reno and one that probes:   W = Wbase + Wprobe                       (1)
 * Congestion level:   c = min((RTT - RTTmin) / (RTTcong - RTTmin), 1)                           (2)
 *   at the jth loss:  RTTcong = a RTTcong + (1 - a) RTT,  a = 0.85                              (3)
 * Per ACK:   Wbase += 1/W,   Wprobe = max(Wprobe + Winc(c)/W, 0)                                (4)
 *            Winc(c) = Winc_max / e^(10c) + beta c + gamma,   Winc_max = B MSS / M              (5)
 *            beta = 2 Winc_max (1/10 - (1/10 + 1) / e^10)
 *            gamma = winc_at_1 - 2 Winc_max (1/10 - (1/10 + 1/2) / e^10)
 * On loss:   Wbase = W / (1 + c),   Wprobe = 0                                                  (6)
 *
 * Winc is 0.8 Winc_max on an empty path and 0 at c = 1; where Winc_max is much it is negative from
 * c = 0.18 on, and over all c its mean is 0: the probe fills the path, then makes room, and comes to
 * the loss with what Reno has. Losses that are not congestion pull RTTcong toward RTTmin, so c rises
 * and with it the cut ([F]).
 *
 * Our choices, and our differences from the sources:
 *  - gamma is printed with 1 for winc_at_1: then Winc is 1 at c = 1, and in the mean. With Wbase that
 *    makes two packets a round trip and twice Reno's share. But the text says that Winc "is gradually
 *    increased again so that it approaches to 0. In this situation, the base part takes a main role and
 *    TCP-AReno behaves like TCP-Reno", and [F] measured 40.5 Mbit/s beside Reno's 42.4. So the 1 is
 *    Wbase's own, and here counted once.
 *  - M is "a scaling factor we set at 10Mbps": one packet a round trip for each 10 Mbit/s of B. [P] put
 *    1000 there, without a unit; in bit/s that would be 100000 packets at 100 Mbit/s.
 *  - [A] prints (3) with a for the new RTT and 1 - a for the old RTTcong, and gives a no value. (3) and
 *    0.85 are [P]'s. cong_weight_pct 15 is 0.85 in [A]'s formula.
 *  - [A]'s introduction has TCPW's bandwidth estimate for the cut of a loss that is no congestion. Its
 *    section II.C has (6) for all losses, and so have we.
 *  - c at a loss is taken after (3), as in [P]. First loss: RTTcong is its RTT, so that c is 1, or 0 at
 *    RTTmin. RTTcong <= RTTmin likewise: 1 with a queue, 0 without. Before, RTTcong is the largest RTT
 *    so far. Without an RTT sample c is 1.
 *  - RTTs are whole ticks of 4 ms, as the clock of [F]'s Linux 2.6.15 had them (HZ is 250 there by default, and [F]
 *    sets its Dmin to 4 ms for the tick). In microseconds c is 1 at a loss whose RTT is RTTcong, however short the
 *    queue: a random loss then costs half of the window, where [F] measured less. tick_us 0: microseconds.
 *  - RTT in (4) is averaged over about four samples: one late ACK is no congestion. In (3) and (6) it
 *    is the last one.
 *  - B is the rate of each round trip, averaged as in Westwood+ (7/8), on which ARENO is built.
 *  - e^(-10c): 64 straight lines, 0.3 % too large at most.
 *  - Growth is per acknowledged packet; one ACK moves Wprobe by one round trip's amount at most, and
 *    Winc_max is one window at most.
 *  - Slow start is Reno's, with Wprobe = 0. After a timeout (3) and (6) hold, but for the window of one
 *    packet that the stack sets.
 *  - Not limited by cwnd: no growth; Wprobe may shrink.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, m_kbit, 10000, 1, 100000000, "kbit/s", "M of (5): B that probes by one packet a round trip");
PARAM(u32, winc_at_1, 0, 0, 1, "packets", "Winc at c = 1: 0 to grow as Reno does there, 1 as gamma is printed");
PARAM(u32, cong_weight_pct, 85, 0, 100, "%", "weight of the average in (3), a");
PARAM(u32, tick_us, 4000, 0, 100000, "us", "an RTT is whole ticks of this clock, one at least; 0: microseconds");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's");

COUNTER(flows, "connections started");
COUNTER(probes, "ACKs with Winc >= 0");
COUNTER(retreats, "ACKs with Winc < 0");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions by (6): fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

#define C_ONE (1u << 16)   /* c is 1 */
#define BETA_Q20 209610u   /* beta / Winc_max */
#define GAMMA_Q20 209658u  /* (winc_at_1 - gamma) / Winc_max; with the table's last the sum at c = 1 is exactly 0 */

/* e^(-10 i/64) << 20 */
static const u32 exp_q20[65] = {
	1048576, 896895, 767155, 656182, 561262, 480073, 410628, 351229, 300422, 256965, 219793, 187999, 160804,
	137543,  117647, 100629, 86072,  73622,  62972,  53863,  46071,  39407,  33706,  28831,  24660,  21093,
	18042,   15432,  13200,  11290,  9657,   8260,   7065,   6043,   5169,   4421,   3782,   3235,   2767,
	2367,    2024,   1731,   1481,   1267,   1083,   927,    793,    678,    580,    496,    424,    363,
	310,     266,    227,    194,    166,    142,    122,    104,    89,     76,     65,     56,     48,
};

/* One connection. Windows in packets << 20 ("q20"); their sum at most 2^40. */
struct areno {
	struct sender s;
	u64 base_q20;       /* Wbase */
	u64 probe_q20;      /* Wprobe */
	u64 probe_saved;    /* before the last reduction, for undo ... */
	u32 rtt_cong_saved; /* ... and RTTcong */
	u32 rtt_cong;       /* (3), us, below 2^27; 0: no loss yet */
	u32 rtt_max;        /* largest RTT, us */
	u32 rtt_q4;         /* RTT of (4), us << 4, below 2^31; 0: no sample yet */
	u32 b_q8;           /* B, packets/s << 8; 0: no sample yet */
	u32 delivered;      /* when this round began, packets */
	u32 c_q16;          /* (2) at the last ACK or loss, at most 2^16 */
	bool limited;       /* the application limited this round */
};
STATE(struct areno);

static inline u64 sum(const struct areno *a)
{
	return a->base_q20 + a->probe_q20;
}

static inline void begin_round(struct areno *a, const struct tcp_sock *tp)
{
	round_start(&a->s, tp);
	a->delivered = tp->delivered;
	a->limited = false;
}

/* Take over a window that we did not set: what is not Wprobe's is Wbase's, two packets at least. */
static inline void reload(struct areno *a, const struct tcp_sock *tp)
{
	u64 w = stack_window(tp) << Q20;

	if (w >> Q20 < tp->snd_ssthresh)
		a->probe_q20 = 0;
	a->probe_q20 = min(a->probe_q20, w - min(w, W_MIN << Q20));
	a->base_q20 = w - a->probe_q20;
	begin_round(a, tp);
}

/* A round is over: its rate is a sample of B, unless it is the application's. */
static inline void sample_b(struct areno *a, const struct tcp_sock *tp)
{
	u64 packets = min(tp->delivered - a->delivered, W_MAX), us = round_us(&a->s, tp);
	/* 2^20 packets << 8 * 10^6 < 2^48; the quotient is held below 2^24 packets/s */
	u32 b = min(mul_div(packets << 8, 1000000, us), ~0u);

	if (!us || !b || (a->limited && b < a->b_q8))
		return;
	a->b_q8 = a->b_q8 ? (7ULL * a->b_q8 + b) / 8 : b;
}

/* (2) */
static inline u32 congestion(const struct areno *a, u32 rtt)
{
	u32 base = a->s.rtt_min, cong = a->rtt_cong ? a->rtt_cong : a->rtt_max;

	if (!rtt)
		return C_ONE;
	if (rtt <= base)
		return 0;
	if (cong <= rtt)
		return C_ONE;
	return mul_div(rtt - base, C_ONE, cong - base); /* 2^27 * 2^16; rtt < cong, hence cong > base */
}

/* e^(-10c) */
static inline u32 exp_minus_10(u32 c_q16)
{
	u32 i = c_q16 >> 10;

	if (i >= 64)
		return exp_q20[64];
	return exp_q20[i] - ((exp_q20[i] - exp_q20[i + 1]) * (c_q16 & 1023) >> 10);
}

/* (5): what a round trip adds to Wprobe and what it takes away, packets << 20. */
static inline void increment(const struct areno *a, const struct tcp_sock *tp, u64 *up, u64 *down)
{
	u64 bits = 8 * min(tp->mss_cache, 65535);
	/* 2^32 * 2^19 * 2^12 = 2^63 */
	u64 most = min(mul_div(a->b_q8 * bits, 1u << (Q20 - 8), (u64)m_kbit * 1000), sum(a));

	/* 2^40 * (2^20 + 2^18) */
	*up = (most * (exp_minus_10(a->c_q16) + (a->c_q16 * (u64)BETA_Q20 >> 16)) >> Q20) + ((u64)winc_at_1 << Q20);
	*down = most * GAMMA_Q20 >> Q20;
}

/* (4): the share that `acked` packets are of one round trip. */
static inline void avoid_congestion(struct areno *a, const struct tcp_sock *tp, u32 acked, bool grow)
{
	u64 up, down, share, reno = reno_growth(sum(a), acked);
	u32 w = sum(a) >> Q20;

	acked = min(acked, w);
	a->c_q16 = congestion(a, a->rtt_q4 >> 4);
	increment(a, tp, &up, &down);
	if (up >= down) {
		COUNT(probes);
		share = mul_div(up - down, acked, w); /* 2^41 * 2^20 */
		if (grow)
			a->probe_q20 += share;
	} else {
		COUNT(retreats);
		share = mul_div(down - up, acked, w);
		a->probe_q20 -= min(share, a->probe_q20);
	}
	if (grow)
		a->base_q20 += reno;
}

SEC("struct_ops/areno_init")
void BPF_PROG(areno_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct areno *a = inet_csk_ca(sk);

	__builtin_memset(a, 0, sizeof(*a));
	first_window(tp, init_cwnd);
	reload(a, tp);
	a->s.cwnd = tp->snd_cwnd;
	COUNT(flows);
}

SEC("struct_ops/areno_pkts_acked")
void BPF_PROG(areno_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct areno *a = inet_csk_ca(sk);
	u32 rtt_q4;

	if (idle_ended(&a->s, tcp_sk(sk), sample))
		look_anew(&a->s); /* RTTmin, RTTcong and B still hold; the open round measures nothing */
	if (!rtt_sample_ticks(&a->s, tcp_sk(sk), sample, 0, tick_us))
		return;
	rtt_q4 = a->s.rtt_last << 4;
	a->rtt_q4 = a->rtt_q4 ? (3ULL * a->rtt_q4 + rtt_q4) / 4 : rtt_q4;
	a->rtt_max = max(a->rtt_max, a->s.rtt_last);
}

SEC("struct_ops/areno_cong_avoid")
void BPF_PROG(areno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct areno *a = inet_csk_ca(sk);
	u64 limit = (u64)window_limit(tp) << Q20;
	bool grow = may_grow(tp);
	u32 w, n;

	if (cwnd_changed(&a->s, tp)) {
		COUNT(reloads);
		reload(a, tp);
	}
	if (!grow) {
		COUNT(limited_acks);
		a->limited = true;
	}
	if (round_over(&a->s, tp)) {
		if (!in_recovery(inet_csk(sk)))
			sample_b(a, tp);
		begin_round(a, tp);
	}
	w = sum(a) >> Q20;
	if (w < tp->snd_ssthresh) {
		n = grow ? min(acked, tp->snd_ssthresh - w) : acked;
		if (grow)
			a->base_q20 += (u64)n << Q20;
		acked -= n;
	}
	if (acked) {
		avoid_congestion(a, tp, acked, grow);
		if (sum(a) >> Q20 < tp->snd_ssthresh) /* a retreat is no reason for slow start */
			tp->snd_ssthresh = max(sum(a) >> Q20, W_MIN);
	}
	a->base_q20 = min(a->base_q20, limit);
	a->probe_q20 = min(a->probe_q20, limit - a->base_q20);
	cwnd_write(&a->s, tp, sum(a) >> Q20);
}

/* (3) and (6) */
SEC("struct_ops/areno_ssthresh")
u32 BPF_PROG(areno_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct areno *a = inet_csk_ca(sk);
	u32 rtt = a->s.rtt_last;

	COUNT(losses);
	a->probe_saved = a->probe_q20;
	a->rtt_cong_saved = a->rtt_cong;
	a->probe_q20 = 0;
	look_anew(&a->s);
	if (rtt) /* 2^27 * 100 */
		a->rtt_cong =
			a->rtt_cong ? ((u64)a->rtt_cong * cong_weight_pct + (u64)rtt * (100 - cong_weight_pct)) / 100
				    : rtt;
	a->c_q16 = congestion(a, rtt);
	return max(mul_div(tp->snd_cwnd, C_ONE, C_ONE + a->c_q16), W_MIN);
}

SEC("struct_ops/areno_undo_cwnd")
u32 BPF_PROG(areno_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct areno *a = inet_csk_ca(sk);

	COUNT(undos);
	a->probe_q20 = a->probe_saved;
	a->rtt_cong = a->rtt_cong_saved;
	look_anew(&a->s);
	return undone_window(tp);
}

SEC("struct_ops/areno_cwnd_event")
void BPF_PROG(areno_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_LOSS)
		COUNT(timeouts);
}

SEC(".struct_ops")
struct tcp_congestion_ops areno = {
	.init = (void *)areno_init,
	.pkts_acked = (void *)areno_pkts_acked,
	.cong_avoid = (void *)areno_cong_avoid,
	.ssthresh = (void *)areno_ssthresh,
	.undo_cwnd = (void *)areno_undo_cwnd,
	.cwnd_event = (void *)areno_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "areno",
};
