// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Prague: a scalable congestion control for L4S. It keeps a queue that marks early below a millisecond, and the link full.
 *
 *   [P] K. De Schepper, O. Tilmans, B. Briscoe, V. Goel, "Prague Congestion Control", draft-briscoe-iccrg-prague-congestion-control.
 *       The text at hand is that of the authors' repository of 12 July 2022, named -02. The newest is -04, July 2024:
 *       only its front page was at hand. Numbers without a letter are sections of [P].
 *   [9331] RFC 9331, the ECN protocol for L4S: what such a sender must do (section 4). [9330] RFC 9330, the architecture.
 *   [9332] RFC 9332, DualPI2: the queue for it.
 *
 * Packets leave as ECT(1), and the receiver tells by AccECN (RFC 9768) how many came marked (CE). Once an RTT
 *     alpha <- alpha + (share of marked packets - alpha) / 16                    (1), 2.3.2
 * The first mark of an RTT takes
 *     cwnd <- cwnd - cwnd alpha / 2                                              (2), 2.4.2
 * and each packet that came unmarked gives
 *     cwnd <- cwnd + 1 / cwnd / M^2                                              (3), 2.4.3, 2.4.4
 * M is 1, or after 500 rounds rtt_virt / srtt with rtt_virt = max(srtt, 25 ms): flows with short RTTs then have no more than others.
 * It paces at cwnd / srtt, and twice as fast in slow start (2.5.1). A loss halves the window, as Reno (2.4.1, [9331] 4.3).
 *
 * Linux from 7.0 on has AccECN and lets a controller ask for it: the flags below. It sends ECT(1) in the handshake only, and ECT(0)
 * afterwards. tools/ect1.bpf.c, on the device, makes it ECT(1) for controllers that ask. So the law looks at what arrived: AccECN
 * counts bytes of ECT(1) and of ECT(0) apart. While ECT(0) arrives a mark is that of RFC 3168, and halves the window.
 *
 * Our differences from [P], and our choices:
 *  - Shares are of packets, not of bytes (2.3.2): the kernel counts marked packets.
 *  - Without AccECN at the peer the connection goes on as the kernel's CUBIC, or Reno where there is no CUBIC (2.3.1.1).
 *  - A classic queue with ECN (3.3, [9331] 4.3) is looked for with classic_ms only; the authors' code has it off by default, too. Its marks
 *    come while packets wait some ms, those of an L4S queue after one. A marked RTT whose smallest sample is classic_ms above the shortest
 *    so far counts one up, any other marked one down; from three on marks are classic. The authors' rule is in a report that we lack.
 *  - A burst is the kernel's (2.5.2): 1 ms of the pacing rate where the device takes large segments, else a packet. [P] has 250 us.
 *  - The window is one of whole packets, with its part kept (2.4.2). Not below two packets: no fractional windows (3.5).
 *  - After a loss the window is at ssthresh until the recovery is over (RFC 6675), without rate reduction. Reno's halving comes on top of
 *    a cut by (2) in the same RTT (2.4.1: MAY be less).
 *  - A queue of this host that is full counts as a loss.
 *  - After n idle seconds the window is halved n times, not below 10: [P] says nothing of the window then.
 *  - Slow start is the stack's: doubling, until the first mark or loss (2.4.5). It paces twice as fast up to ssthresh, not to half of it (2.5.1).
 */
#include "declare.bpf.h"
#include "rates.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

NEEDS_LINUX(7.0, "controllers with AccECN");
NOTE("its data are L4S (ECT(1)) only with ect1.bpf.o on the device that they leave by; else it answers a mark as Reno does");

PARAM(u32, rtt_virt_ms, 25, 0, 1000, "ms",
      "flows with a shorter RTT take as much as with this; 0: as much as their RTT gives");
PARAM(u32, rtt_rounds, 500, 0, 1000000, "rounds", "from then on rtt_virt_ms holds");

PARAM(u32, classic_ms, 0, 0, 1000, "ms",
      "marks are classic while marked RTTs are at least so much longer than the shortest one; 0: never");

PRESET(classic, "classic_ms=3",
       "a queue with classic ECN may be on the way: a CUBIC flow beside it has half there, 6 % without");

COUNTER(flows, "connections started");
COUNTER(fallbacks, "connections that went on as CUBIC or Reno: without AccECN");
COUNTER(marked_acks, "ACKs that told of marks");
COUNTER(cuts, "reductions by (2)");
COUNTER(classic_cuts, "reductions by half for a mark: data did not arrive as ECT(1), or classic_ms");
COUNTER(losses, "reductions by half: fast retransmit, RTO or a full queue of this host");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(idle_restarts, "windows that an idle time has shrunk");

#define Q40 40                 /* windows in packets << 40, at most 2^60 */
#define ONE (1u << Q20)        /* alpha's 1 */
#define GAIN 4                 /* g of (1) is 2^-4; alpha is kept as alpha / g, at most 2^24 */
#define IPPROTO_TCP 6
#define TCP_CONGESTION 13
#define ROUNDS_MAX 1000000u
enum {
	CLASSIC = 3,
	SURELY = 6
}; /* RTTs more with a long queue than with a short one: from where on, and counted at most */

/* One connection. */
struct prague {
	struct sender s;
	u64 w_q40;           /* the window, packets << 40 */
	u32 w;               /* ... its whole packets; 0: no init yet */
	u32 alpha_q24;       /* alpha / g, << 20 */
	u32 delivered, ce;   /* tcp_sock.delivered and .delivered_ce at the last ACK ... */
	u32 round_delivered, round_ce; /* ... and when the last period of (1) began */
	u32 round_us;        /* when that was */
	u32 ect1, ect0;      /* bytes that have arrived so, as told so far */
	u32 rounds;
	u32 cwr_end;         /* snd_nxt at the last reduction ... */
	u32 cwr_us;          /* ... and when it was */
	u32 rtt_us;          /* the smallest of this RTT's samples; 0: none yet */
	u8 long_queue;       /* 0 to SURELY */
	bool marked;         /* a mark was seen: alpha is known */
	bool cwr;            /* no further reduction by marks yet */
	bool l4s;            /* data arrive as ECT(1) */
};
STATE(struct prague);

/* Are marks those of L4S? Else all is Reno's. */
static inline bool is_scalable(const struct prague *p)
{
	return p->l4s && p->long_queue < CLASSIC;
}

/* rtt_virt, us */
static inline u32 virtual_rtt(const struct prague *p, const struct tcp_sock *tp)
{
	u32 rtt = min(tp->srtt_us >> 3, RTT_MAX_US);

	return p->rounds < rtt_rounds || !is_scalable(p) ? rtt : max(rtt, 1000 * rtt_virt_ms);
}

/* 2^20 packets << 40 */
static inline void set_window(struct prague *p, const struct tcp_sock *tp, u64 w_q40)
{
	p->w_q40 = min(w_q40, (u64)max(window_limit(tp), 1) << Q40);
	p->w = p->w_q40 >> Q40;
}

static inline void take_window(struct prague *p, const struct tcp_sock *tp)
{
	set_window(p, tp, stack_window(tp) << Q40);
	p->s.cwnd = tp->snd_cwnd;
}

/* Reductions by marks wait for an RTT from now on: the packet that leaves next tells of it. */
static inline void begin_cwr(struct prague *p, const struct tcp_sock *tp)
{
	p->cwr = true;
	p->cwr_end = tp->snd_nxt;
	p->cwr_us = tp->tcp_mstamp;
}

/* The window becomes ssthresh, which the stack has halved, or we have. */
static inline void take_ssthresh(struct prague *p, struct tcp_sock *tp)
{
	set_window(p, tp, (u64)min(max(tp->snd_ssthresh, W_MIN), W_MAX) << Q40);
	cwnd_write(&p->s, tp, first_repair(tp, p->w));
}

/* Does data arrive as it should? The last that came tells. */
static inline void note_ect(struct prague *p, const struct tcp_sock *tp)
{
	u32 ect1 = rates_of(tp)->delivered_ecn_bytes[ECT_1], ect0 = rates_of(tp)->delivered_ecn_bytes[ECT_0];

	if (ect1 != p->ect1)
		p->l4s = true;
	else if (ect0 != p->ect0)
		p->l4s = false;
	p->ect1 = ect1;
	p->ect0 = ect0;
}

/* An RTT is over. Did its marks come from a queue that is longer than one of L4S? 2^26 + 10^6 us */
static inline void note_queue(struct prague *p, bool marks)
{
	if (classic_ms && marks && p->rtt_us >= p->s.rtt_min + 1000 * classic_ms)
		p->long_queue = min(p->long_queue + 1, SURELY);
	else if (marks && p->long_queue)
		p->long_queue--;
	p->rtt_us = 0;
}

/* (1), once an rtt_virt, and an RTT at least. */
static inline void update_alpha(struct prague *p, const struct tcp_sock *tp)
{
	u32 acked = tp->delivered - p->round_delivered, ce = rates_of(tp)->delivered_ce - p->round_ce;

	if (!round_over(&p->s, tp))
		return;
	p->rounds = min(p->rounds + 1, ROUNDS_MAX);
	note_queue(p, ce);
	round_start(&p->s, tp);
	if ((u32)tp->tcp_mstamp - p->round_us < virtual_rtt(p, tp))
		return;
	if (p->marked && acked) /* 2^24 + 2^20; the share is 2^32 << 20 / 2^32 */
		p->alpha_q24 += mul_div(min(ce, acked), ONE, acked) - (p->alpha_q24 >> GAIN);
	p->round_delivered = tp->delivered;
	p->round_ce = rates_of(tp)->delivered_ce;
	p->round_us = tp->tcp_mstamp;
}

/* (2): 2^40 * 2^20 >> 1. By half where a mark is a classic one. */
static inline void cut(struct prague *p, const struct tcp_sock *tp)
{
	u64 alpha = min(p->alpha_q24 >> GAIN, ONE), w = p->w_q40;

	w -= is_scalable(p) ? (w >> Q20) * alpha >> 1 : w >> 1;
	if (is_scalable(p))
		COUNT(cuts);
	else
		COUNT(classic_cuts);
	set_window(p, tp, max(w, min(p->w_q40, (u64)W_MIN << Q40)));
	begin_cwr(p, tp);
}

/* An ACK tells of marks. The stack has halved ssthresh for it, if it was not reducing; after a mark there is no slow start. */
static inline void on_marks(struct prague *p, struct tcp_sock *tp)
{
	COUNT(marked_acks);
	if (!p->marked) {
		p->marked = true;
		p->alpha_q24 = ONE << GAIN;
	}
	if (!p->cwr)
		cut(p, tp);
	tp->snd_ssthresh = max(p->w, W_MIN);
}

/* (3) of n packets, not more than a packet: 2^20 << 40, then twice 2^40 * 10^6 < 2^60: a shorter RTT than 1000 ms. */
static inline u64 growth(const struct prague *p, const struct tcp_sock *tp, u32 n)
{
	u32 w = max(p->w, 1), rtt = min(tp->srtt_us >> 3, RTT_MAX_US), virt = virtual_rtt(p, tp);
	u64 grown = ((u64)min(n, w) << Q40) / w;

	if (rtt >= virt)
		return grown;
	return mul_div(mul_div(grown, rtt, virt), rtt, virt);
}

static inline void grow(struct prague *p, const struct tcp_sock *tp, u32 acked, u32 ce)
{
	u32 n = 0;

	if (p->w < tp->snd_ssthresh) {
		n = min(acked, min(tp->snd_ssthresh, W_MAX) - min(p->w, W_MAX));
		set_window(p, tp, p->w_q40 + ((u64)n << Q40));
	}
	if (acked > n + ce)
		set_window(p, tp, p->w_q40 + growth(p, tp, acked - n - ce));
}

/* 2.5.1: 2^20 packets * 2^16 bytes * 2 * 10^6 < 2^57 */
static inline void pace_window(struct sock *sk, const struct prague *p)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 packets = min(max(p->w, packets_in_flight(tp)), W_MAX);

	if (tp->srtt_us >> 3)
		pace(sk, mul_div(packets * min(tp->mss_cache, 65535), p->w < tp->snd_ssthresh ? 2000000 : 1000000,
				 tp->srtt_us >> 3));
}

/* --- hooks ------------------------------------------------------------------------------------------------------- */

/* [9331] 4.2, and 2.3.1.1: a peer without accurate feedback gets a classic sender, without ECN. */
static inline void fall_back(struct sock *sk)
{
	char cubic[] = "cubic", reno[] = "reno";

	COUNT(fallbacks);
	if (bpf_setsockopt(sk, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof(cubic)))
		bpf_setsockopt(sk, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

SEC("struct_ops/prague_init")
void BPF_PROG(prague_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *p = inet_csk_ca(sk);

	__builtin_memset(p, 0, sizeof(*p));
	COUNT(flows);
	if ((tp->ecn_flags & TCP_ECN_MODE_ANY) != TCP_ECN_MODE_ACCECN) {
		fall_back(sk);
		return;
	}
	p->delivered = p->round_delivered = tp->delivered;
	p->ce = p->round_ce = rates_of(tp)->delivered_ce;
	p->round_us = tp->tcp_mstamp;
	note_ect(p, tp);
	p->l4s = false;
	take_window(p, tp);
	round_start(&p->s, tp);
	pace_window(sk, p);
}

SEC("struct_ops/prague_pkts_acked")
void BPF_PROG(prague_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct prague *p = inet_csk_ca(sk);

	if (p->w && rtt_sample(&p->s, tcp_sk(sk), sample, 0))
		p->rtt_us = p->rtt_us ? min(p->rtt_us, p->s.rtt_last) : p->s.rtt_last;
}

SEC("struct_ops/prague_cong_control")
void BPF_PROG(prague_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *p = inet_csk_ca(sk);
	u32 acked = tp->delivered - p->delivered, ce = rates_of(tp)->delivered_ce - p->ce;
	u8 state = read_bits(inet_csk(sk), icsk_ca_state);

	if (!p->w) /* before init: the ACK of our SYN, where a route names the controller */
		return;
	p->s.ack_stamp = tp->tcp_mstamp;
	p->delivered = tp->delivered;
	p->ce = rates_of(tp)->delivered_ce;
	note_ect(p, tp);
	update_alpha(p, tp);
	if (p->cwr && !before(tp->snd_una, p->cwr_end) && (u32)tp->tcp_mstamp - p->cwr_us >= virtual_rtt(p, tp))
		p->cwr = false;
	if (state == TCP_CA_Recovery) {
		take_ssthresh(p, tp);
	} else {
		if (cwnd_changed(&p->s, tp)) /* by an RTO, or an undo */
			take_window(p, tp);
		if (ce && state != TCP_CA_Loss)
			on_marks(p, tp);
		if (acked && may_grow(tp))
			grow(p, tp, min(acked, W_MAX), min(ce, W_MAX));
		cwnd_write(&p->s, tp, p->w);
	}
	pace_window(sk, p);
}

/* Half of the law's window, or of the stack's that it takes next: the first repair may have let more in flight. */
static inline u32 half(const struct prague *p, const struct tcp_sock *tp)
{
	return cwnd_changed(&p->s, tp) ? half_window(tp) : max(p->w >> 1, W_MIN);
}

/* Reno's cut, for a loss. For a mark cong_control sets another. */
SEC("struct_ops/prague_ssthresh")
u32 BPF_PROG(prague_ssthresh, struct sock *sk)
{
	return half(inet_csk_ca(sk), tcp_sk(sk));
}

static inline void on_loss(struct prague *p, struct tcp_sock *tp)
{
	COUNT(losses);
	begin_cwr(p, tp);
}

/* A loss in a reduction for a mark halves too, and the stack does not ask then. An RTO has cut the window before it tells. */
SEC("struct_ops/prague_set_state")
void BPF_PROG(prague_set_state, struct sock *sk, u8 state)
{
	u8 was = read_bits(inet_csk(sk), icsk_ca_state);
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *p = inet_csk_ca(sk);

	if (!p->w)
		return;
	if (state == TCP_CA_Recovery && was != TCP_CA_Recovery) {
		if (was == TCP_CA_CWR)
			tp->snd_ssthresh = half(p, tp);
		on_loss(p, tp);
		take_ssthresh(p, tp); /* by a timer, too: no ACK need follow */
	} else if (state == TCP_CA_CWR && rates_of(tp)->delivered_ce == p->ce) {
		on_loss(p, tp);
		take_ssthresh(p, tp);
	} else if (state == TCP_CA_Loss) {
		COUNT(timeouts);
		if (was == TCP_CA_CWR)
			tp->snd_ssthresh = max(min(tp->snd_ssthresh, p->w / 2), W_MIN);
		if (was < TCP_CA_Recovery)
			on_loss(p, tp);
		look_anew(&p->s);
	}
}

SEC("struct_ops/prague_undo_cwnd")
u32 BPF_PROG(prague_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *p = inet_csk_ca(sk);

	COUNT(undos);
	look_anew(&p->s);
	return undone_window(tp);
}

/* 2.5.2: a burst of one packet at least. It comes before packets leave, and so tells of the end of an idle time. */
SEC("struct_ops/prague_min_tso_segs")
u32 BPF_PROG(prague_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct prague *p = inet_csk_ca(sk);

	if (p->w && shrunk_by_idle(&p->s, tp)) {
		COUNT(idle_restarts);
		take_window(p, tp);
	}
	return 1;
}

SEC(".struct_ops")
struct tcp_congestion_ops prague = {
	.init = (void *)prague_init,
	.pkts_acked = (void *)prague_pkts_acked,
	.cong_control = (void *)prague_cong_control,
	.ssthresh = (void *)prague_ssthresh,
	.undo_cwnd = (void *)prague_undo_cwnd,
	.set_state = (void *)prague_set_state,
	.min_tso_segs = (void *)prague_min_tso_segs,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
		 TCP_CONG_NO_FALLBACK_RFC3168,
	.name = "prague",
};
