// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP-Taichung: the time between ACKs tells the bottleneck's rate, and so where slow start must end.
 *
 *   [T] B.-J. Chang, S.-Y. Lin, Y.-H. Liang, "TCP-Taichung: A RTT-based Predictive Bandwidth
 *       Based with Optimal Shrink Factor for TCP Congestion Control in Heterogeneous Wired and
 *       Wireless Networks".
 *
 * InterACK, the averaged time between ACKs, stands for S/R, the time of one packet at rate R.
 * Window that fills the path:        ideal = RTTmin / InterACK + 1                     (6)
 * less by what is queued already:    net   = ideal * RTTmin / RTT                      (9, 10)
 * On each ACK (Fig. 2):   cwnd < net and cwnd < ideal:  cwnd += 1,  else  cwnd += 1/cwnd
 * On loss (Fig. 4):       cwnd = net = cwnd * RTTmin / RTT;  after a timeout cwnd = 1  (11, 12)
 *
 * Good where losses are of the air and not of the queue: the cut takes out what was queued, and no
 * more. On deep queues it cuts by more than half. If ACKs come in clumps (Wi-Fi, cable) InterACK
 * is coarse; a stale RTTmin makes it timid: rtt_min_win_s. Behind a policer or a very short queue the
 * RTT shows no congestion, and a loss hardly cuts (loss_beta_percent); duplicate ACKs that somebody forges
 * are such losses, which neither slow it nor raise it. With more flows than packets in cwnd the filter takes
 * samples below the average only, and InterACK drifts down.
 *
 * Our choices, and our differences from the paper:
 *  - Fig. 2 joins net's factors by '+'; then nothing shrinks. (9), (10) and "shrink factor" say
 *    product. net_mode 1 is the figure.
 *  - Fig. 2's filter: matched by position with (5), InterACK_org is the average and InterACK the
 *    sample. Accepted is a sample below cwnd * InterACK_min (no gap between bursts), or below the
 *    average. filter_mode 2 is the opposite naming, 0 no filter.
 *  - A rejected sample changes no average. The figure does not say so, but would use it for net.
 *  - The first gap of a round is an RTT long while cwnd is small: not a sample. skip_first_gap 0: is.
 *  - The constant of (5) is not given: 7/8 on the average.
 *  - So InterACK is the link's time for a packet. The preset `paper` has the reading that the paper's numbers speak for:
 *    the opposite naming, which accepts nearly all, every gap a sample, 63/64. InterACK is then the flow's own time for a
 *    packet, and many flows share a queue evenly. But slow start ends at some forty packets, however many the path holds.
 *  - GRO, softirqs and shapers deliver ACKs in clumps. A sample spans max(coalesce_us, RTTmin / 256)
 *    at least and divides by the packets acknowledged in it: delayed ACKs count for what they are.
 *  - "RTT should be less than RTTmin" is a misprint for greater.
 *  - net is computed anew at each ACK: so slow start may come back, which is what makes it robust to
 *    random loss. Until the first sample after a loss the value of (11) holds.
 *  - A mark (ECN) is congestion, never random loss: it leaves half, and net holds again after the next loss only. In
 *    between the window grows as Reno's. ecn_beta_percent 0: as a loss.
 *  - Beyond the paper, on by default:
 *    own_q: the ACKs of a flow's window come in a clump, at the link's pace, so each of many flows takes all of the link
 *    for its own. A flow that has so many packets in the queue fills its share: ideal is cwnd RTTmin/RTT, its own rate.
 *    If a loss finds a quarter of the window queued, growth after it is Reno's until a loss finds less. Flows that began in a
 *    full queue never see RTTmin, and no queue of theirs: is_crowded().
 *    forward_delay: the wait of the ACKs is no queue (forward.bpf.h), RTTmin of (6) to (11) is longer by it. Nor does it
 *    count between ACKs: a sample spans the time in which they would have come without it.
 *    noise_start: noise parts the ACKs of a small window, and InterACK is the flow's own time for a packet then. So the first slow
 *    start is HyStart++ if noise shows in it.
 *  - Off by default:
 *    slow_start: the first slow start is another one, and (6) and (10) hold when it is over.
 *    span_q8: a longer sample has gaps between clumps in it. Losses of the air make gaps, too.
 *    loss_beta_percent: a loss that shows less of a queue leaves so much, and counts as congestion, as a mark does.
 *  - Not limited by cwnd: no sample, no growth. No RTT or InterACK yet: Reno.
 */
#include "declare.bpf.h"
#include "forward.bpf.h"
#include "rates.bpf.h"
#include "slowstart.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, avg_weight_q8, 224, 0, 255, "1/256", "weight of the average in (5), alpha; 224 = 7/8");
PARAM(u32, own_q, 4, 0, 1024, "packets",
      "from so many own packets in the queue on the own rate gives ideal, and losses may be congestion; 0: never, as in the paper");
PARAM(u32, loss_beta_percent, 100, 1, 100, "%",
      "most of the window that a loss leaves; if that is less than (11), growth is Reno's; 100: no bound, as in the paper");
TUNABLE(u32, ecn_beta_percent, 50, 0, 100, "%",
	"window that a mark leaves: 50 as RFC 3168, 80 as RFC 8511; 0: what a loss leaves, as in the paper");
PARAM(u32, filter_mode, 1, 0, 2, "-",
      "Fig. 2's filter: 0 none, 1 as above, 2 with average and sample the other way round");
PARAM(u32, net_mode, 0, 0, 1, "-", "ssthresh_net: 0 the product of (10), 1 the sum that Fig. 2 shows");
PARAM(u32, skip_first_gap, 1, 0, 2, "-",
      "1: the first gap of a round is no sample; 2: only until slow start has ended once; 0: it is one");
TUNABLE(u32, coalesce_us, 200, 0, 100000, "us", "least span of a sample; span_q8 of RTTmin if that is more");
PARAM(u32, span_q8, 1, 1, 256, "1/256", "least span of a sample, of RTTmin: 16 for ACKs that come in clumps");
PARAM(u32, noise_start, 1, 0, 1, "-",
      "1: in noise the first slow start is HyStart++ (RFC 9406); 0: never, as in the paper");
PARAM(u32, rtt_min_win_s, 0, 0, 86400, "s",
      "after so long a flow drains its own queue, and measures RTTmin anew, for routes that change; 0: never, as in the paper");
PARAM(u32, init_cwnd, 0, 0, 1024, "packets", "first window; 0: leave the stack's");

PRESET(paper, "filter_mode=2 skip_first_gap=0 avg_weight_q8=252 own_q=0 forward_delay=0 noise_start=0",
       "the paper's numbers: many flows share evenly; but a path of more than some 200 packets is filled late or never");
PRESET(policed, "loss_beta_percent=90",
       "policers: a loss at a flat RTT costs a tenth; a third of the goodput at 10 % random loss");

COUNTER(flows, "connections started");
COUNTER(samples, "InterACK samples accepted");
COUNTER(rejected, "InterACK samples that the filter rejected");
COUNTER(exponential_acks, "ACKs below both thresholds: cwnd += 1");
COUNTER(linear_acks, "ACKs beyond: cwnd += 1/cwnd");
COUNTER(limited_acks, "ACKs whose growth the application's lack of data withheld");
COUNTER(losses, "reductions: fast retransmit, ECN or RTO");
COUNTER(marks, "of those, for a mark (ECN): to ecn_beta_percent, not by (11)");
COUNTER(crowds, "of those, as for a mark: many packets are lost, and the flow has a small part of the link");
COUNTER(bounded, "of those, to loss_beta_percent, which is less than (11)");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(reloads, "windows taken over from the stack: recovery, RTO, idle");

#define WAITED_US 8000         /* least span of a sample where ACKs wait: so long is their wait's error three times */
#define GAP_MAX_NS 4000000000u /* a longer time between ACKs counts as this */

#define CROWDED 2       /* % */
#define LOSSES 16       /* so many tell how many are lost ... */
#define LOSSES_MANY 80  /* ... and whether a smaller window helps */
#define NOISE_ROUNDS 32 /* in the first of which noise tells */
#define NOISY 255
#define ENDLESS 0x7fffffff /* ssthresh before a loss */
#define HELD 1
#define QUEUED 2        /* the loss found a queue; where ACKs wait, the RTT is to be followed */
#define SENT_MOST 2048  /* packets: older ones tell no more */

/* One connection. */
struct taichung {
	struct sender s;
	u64 w_q20;           /* the window, packets << 20, at most 2^40; snd_cwnd is its integer part */
	u64 mark;            /* ack_time() where the sample in progress began, us; 0: none in progress */
	u32 ecn_mark;        /* when the ACK that tells of ECN's mark came, us; 0: the last one does not */
	u32 wait;            /* of the latest RTT: its ACK's wait, us */
	u32 mark_delivered;  /* delivered then, packets */
	u32 lost, sent;      /* packets before those that is_crowded() counts */
	u32 rtt_then;        /* RTTmin when it last became so, us ... */
	u32 inter_ack_ns;    /* InterACK of (5); 0: no sample yet */
	u32 inter_min_ns;    /* InterACK_min; 0: no sample yet */
	u32 ideal_q4;        /* (6), packets << 4, at most 2^24; 0: unknown */
	u32 net_q4;          /* (10) */
	u8 percent_then;     /* ... and what was lost, % */
	u8 rounds;           /* up to NOISE_ROUNDS; NOISY: noise in one of these */
	bool crowded;        /* losses are congestion, though the RTT is flat */
	bool air;            /* they are not: a smaller window had no fewer */
	bool fresh;          /* a sample has come since the last loss: (6) and (10) hold, not (11) */
	bool left;           /* slow start has ended once */
	u8 held;             /* 0, HELD or QUEUED: the last reduction was for congestion: no (6), (10) ... */
	u8 held_saved;       /* ... and so before it, for undo */
};
STATE(struct taichung);

/* Fig. 2: is this sample the bottleneck's time of a packet? Both in ns, both > 0. */
static inline bool accepted(const struct taichung *t, u32 sample, u32 cwnd)
{
	u32 avg = t->inter_ack_ns, mode = filter_mode;

	if (!mode || !avg)
		return true;
	/* 2^20 * 2^32 */
	if (mode == 1)
		return sample < (u64)cwnd * t->inter_min_ns || sample < avg;
	return avg < (u64)cwnd * t->inter_min_ns || sample > avg;
}

static inline void sample_inter_ack(struct taichung *t, u64 us, u32 packets, u32 cwnd)
{
	/* 2^32 us at most * 1000 < 2^42 */
	u32 sample = max(min(mul_div(min(us, ~0u), 1000, packets), GAP_MAX_NS), 1);
	u64 weight = avg_weight_q8;

	if (!t->inter_min_ns || sample < t->inter_min_ns)
		t->inter_min_ns = sample;
	if (!accepted(t, sample, cwnd)) {
		COUNT(rejected);
		return;
	}
	COUNT(samples);
	t->fresh = !t->held || (t->held == QUEUED && t->wait);
	if (!t->inter_ack_ns)
		t->inter_ack_ns = sample;
	else /* (5): 2^8 * 2^32 */
		t->inter_ack_ns = max((weight * t->inter_ack_ns + (256 - weight) * sample) >> 8, 1);
}

/* When the latest ACK would have come without its wait: an upload's packets part the ACKs, and let them go in clumps. */
static inline u64 ack_time(const struct taichung *t, const struct tcp_sock *tp)
{
	return tp->tcp_mstamp - t->wait;
}

static inline void set_mark(struct taichung *t, const struct tcp_sock *tp)
{
	t->mark = ack_time(t, tp);
	t->mark_delivered = tp->delivered;
}

/* An ACK came: does it end a sample? over: and a round. */
static inline void measure(struct taichung *t, const struct tcp_sock *tp, bool over)
{
	u64 span = ack_time(t, tp) - t->mark, least = max(coalesce_us, (u64)t->s.rtt_min * span_q8 >> 8);
	u32 packets = tp->delivered - t->mark_delivered;

	if (!t->mark || (over && skip_first_gap && !(skip_first_gap == 2 && t->left))) {
		set_mark(t, tp);
		return;
	}
	if (t->wait)
		least = max(least, WAITED_US);
	if (!packets || (s64)span <= 0 || span < least)
		return;
	sample_inter_ack(t, span, packets, min(tp->snd_cwnd, W_MAX));
	set_mark(t, tp);
}

/* RTTmin without a queue of data, beside the latest RTT. */
static inline u32 base_rtt(const struct taichung *t)
{
	return min(t->s.rtt_min + t->wait, t->s.rtt_last);
}

/*
 * A round begins. Its first packet finds the queue of the window before, which does not shrink until a packet is lost or nothing is
 * sent. So if its RTT is shorter than that of the round before, rtt_then, that is noise.
 */
static inline void look_for_noise(struct taichung *t, struct tcp_sock *tp, u32 rtt, bool idle)
{
	if (!noise_start || slow_start || t->rounds >= NOISE_ROUNDS || rates_of(tp)->lost)
		return;
	t->rounds++;
	if (!idle && rtt + t->s.rtt_min / 16 < t->rtt_then) { /* 2^27 */
		t->rounds = NOISY;
		tp->snd_ssthresh = ENDLESS;
	}
	t->rtt_then = rtt;
}

/* A value of slow_start. */
static inline u32 start_mode(const struct taichung *t)
{
	return t->rounds == NOISY ? START_HYSTART : slow_start;
}

/* (6) and (10). */
static inline void find_thresholds(struct taichung *t)
{
	u64 ideal, own, rtt = t->s.rtt_last, base = base_rtt(t), w_q4 = t->w_q20 >> (Q20 - 4), packets_q4 = own_q << 4;

	if (!rtt || !t->inter_ack_ns) {
		t->ideal_q4 = t->net_q4 = 0;
		return;
	}
	/* what is not queued, which is rate * RTTmin: 2^24 * 2^26 = 2^50 */
	own = packets_q4 ? w_q4 * base / rtt : 0;
	if (packets_q4 && w_q4 - own >= packets_q4)
		ideal = own;
	else /* 2^26 us * 16000 < 2^40 */
		ideal = min(base * (1000 << 4) / t->inter_ack_ns + (1 << 4), W_MAX << 4);
	t->ideal_q4 = ideal;
	/* 2^24 * 2^26 = 2^50 */
	t->net_q4 = net_mode ? ideal + mul_div(base, 1 << 4, rtt) : ideal * base / rtt;
}

static inline void use_window(struct taichung *t, struct tcp_sock *tp)
{
	t->w_q20 = min(t->w_q20, (u64)window_limit(tp) << Q20);
	cwnd_write(&t->s, tp, drained_window(&t->s, tp, t->w_q20 >> Q20, rtt_min_win_s));
}

SEC("struct_ops/taichung_init")
void BPF_PROG(taichung_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct taichung *t = inet_csk_ca(sk);

	__builtin_memset(t, 0, sizeof(*t));
	first_window(tp, init_cwnd);
	t->w_q20 = stack_window(tp) << Q20;
	t->s.cwnd = tp->snd_cwnd;
	round_start(&t->s, tp);
	start_init(sk, slow_start || noise_start);
	COUNT(flows);
}

SEC("struct_ops/taichung_in_ack_event")
void BPF_PROG(taichung_in_ack_event, struct sock *sk, u32 flags)
{
	struct taichung *t = inet_csk_ca(sk);

	t->ecn_mark = mark_of(tcp_sk(sk), flags);
}

SEC("struct_ops/taichung_pkts_acked")
void BPF_PROG(taichung_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct taichung *t = inet_csk_ca(sk);

	bool over = round_over(&t->s, tp), idle = idle_ended(&t->s, tp, sample);
	u32 rtt_min = t->s.rtt_min;

	if (idle) {
		t->mark = 0; /* no sample across the gap; the averages still hold */
		look_anew(&t->s);
	}
	if (over)
		round_start(&t->s, tp);
	if (forward_sample(&t->s, sk, sample, rtt_min_win_s, &t->wait)) {
		if (over)
			look_for_noise(t, tp, t->s.rtt_last - t->wait, idle);
		start_sample(sk, t->s.rtt_last - t->wait, start_mode(t));
	}
	if (t->s.rtt_min > rtt_min) /* it has aged, and with it what was measured on the same path */
		t->inter_min_ns = 0;
	if (in_recovery(inet_csk(sk)) || !may_grow(tp) || drains(&t->s, tp, rtt_min_win_s))
		t->mark = 0; /* gaps now are the recovery's, the application's, or the drain's */
	else
		measure(t, tp, over);
}

SEC("struct_ops/taichung_cong_avoid")
void BPF_PROG(taichung_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct taichung *t = inet_csk_ca(sk);
	u32 w, n, threshold;

	if (cwnd_changed(&t->s, tp)) {
		COUNT(reloads);
		t->w_q20 = stack_window(tp) << Q20;
	}
	find_thresholds(t);
	if (is_first_start(tp, start_mode(t))) {
		t->w_q20 = start_window(sk, t->w_q20, acked, may_grow(tp));
		t->left = !is_first_start(tp, start_mode(t));
		use_window(t, tp);
		return;
	}
	/* So that the stack knows slow start when it sees it. */
	if (t->fresh && t->ideal_q4)
		tp->snd_ssthresh = max(min(t->net_q4, t->ideal_q4) >> 4, W_MIN);
	threshold = tp->snd_ssthresh;
	if (!may_grow(tp)) {
		COUNT(limited_acks);
		acked = 0;
	}
	w = t->w_q20 >> Q20;
	if (acked && w < threshold) {
		COUNT(exponential_acks);
		n = min(acked, threshold - w);
		t->w_q20 += (u64)n << Q20;
		acked -= n;
	}
	if (acked && t->w_q20 >> Q20 >= threshold) {
		COUNT(linear_acks);
		t->left = true;
		t->w_q20 += reno_growth(t->w_q20, acked);
	}
	use_window(t, tp);
}

static inline void count_anew(struct taichung *t, const struct tcp_sock *tp)
{
	t->lost = rates_of(tp)->lost;
	t->sent = tp->delivered + t->lost;
}

/*
 * Is this loss one of others' flows and of ours, in a queue that no RTT shows? Then more than CROWDED percent are lost, and the flow has
 * less than half of what InterACK says. It counts as a mark. If neither the losses nor RTTmin become less for it, they were of the air.
 */
static inline bool is_crowded(struct taichung *t, const struct tcp_sock *tp)
{
	u32 lost = rates_of(tp)->lost - t->lost, sent = tp->delivered + rates_of(tp)->lost - t->sent,
	    percent = mul_div(lost, 100, sent), rtt = t->s.rtt_min + t->s.rtt_min / 32; /* 2^32 * 100, 2^27 */
	bool crowded;

	if (!own_q || !t->inter_ack_ns)
		return false;
	if (rtt <= t->rtt_then)
		t->air = false;
	if (lost < LOSSES)
		return t->crowded;
	if (t->crowded && lost >= LOSSES_MANY && percent > 2 * CROWDED && 4 * percent >= 3 * t->percent_then &&
	    rtt > t->rtt_then)
		t->air = true;
	crowded = !t->air && percent >= (t->crowded ? CROWDED / 2 : CROWDED) &&
		  mul_div(base_rtt(t), 1000, t->inter_ack_ns) > 2ULL * tp->snd_cwnd; /* 2^36 */
	if (crowded && !t->crowded) {
		t->percent_then = percent;
		t->rtt_then = t->s.rtt_min;
	}
	if (crowded != t->crowded || sent > SENT_MOST)
		count_anew(t, tp);
	t->crowded = crowded;
	return crowded;
}

/* (11), or the cut for a mark. The same after a timeout, but for the window of one packet that the stack sets. */
SEC("struct_ops/taichung_ssthresh")
u32 BPF_PROG(taichung_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct taichung *t = inet_csk_ca(sk);
	u32 cwnd = tp->snd_cwnd, beta = ecn_beta_percent;
	u64 net, most;

	COUNT(losses);
	t->left = true;
	t->fresh = false;
	t->held_saved = t->held;
	t->held = beta && is_for_mark(tp, t->ecn_mark);
	t->mark = 0;
	look_anew(&t->s);
	if (t->held) {
		COUNT(marks);
		return marked_window(tp, beta);
	}
	if (beta && !t->wait && is_crowded(t, tp)) { /* ACKs that wait come in clumps: InterACK says too much */
		COUNT(crowds);
		t->held = true;
		return marked_window(tp, beta);
	}
	if (!t->s.rtt_last)
		return max(cwnd >> 1, W_MIN);
	/* 2^32 * 2^26 = 2^58 */
	net = mul_div(cwnd, base_rtt(t), t->s.rtt_last);
	if (own_q && cwnd - min(net, cwnd) >= max(own_q, cwnd / 4))
		t->held = QUEUED;
	most = mul_div(cwnd, loss_beta_percent, 100);
	if (loss_beta_percent < 100 && net > most) {
		COUNT(bounded);
		t->held = true;
		net = most;
	}
	return max(net, W_MIN);
}

SEC("struct_ops/taichung_undo_cwnd")
u32 BPF_PROG(taichung_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct taichung *t = inet_csk_ca(sk);

	COUNT(undos);
	t->held = t->held_saved;
	t->fresh = t->inter_ack_ns && !t->held; /* (11) is off: there was no loss */
	look_anew(&t->s);
	return undone_window(tp);
}

SEC("struct_ops/taichung_cwnd_event")
void BPF_PROG(taichung_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	if (ev == CA_EVENT_LOSS) {
		COUNT(timeouts);
		count_anew(inet_csk_ca(sk), tcp_sk(sk));
	}
}

SEC(".struct_ops")
struct tcp_congestion_ops taichung = {
	.init = (void *)taichung_init,
	.in_ack_event = (void *)taichung_in_ack_event,
	.pkts_acked = (void *)taichung_pkts_acked,
	.cong_avoid = (void *)taichung_cong_avoid,
	.ssthresh = (void *)taichung_ssthresh,
	.undo_cwnd = (void *)taichung_undo_cwnd,
	.cwnd_event = (void *)taichung_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "taichung",
};
