// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP Formosa: one ACK per window, congestion judged by forward delay.
 *
 *   [P] "TCP Formosa": an ACK per window, forward-delay congestion avoidance and negative
 *       acknowledgements for asymmetric networks.
 *
 * [P] in short. The sender sends W packets a round, spread over the RTT, and flags the first (A).
 * The receiver answers the flagged packet only. Its ACK covers what came since the last, ends the
 * sender's round and opens the next:
 *     slow start           W <- W + packets acknowledged: 1, 2, 3, 5, 8, 13, ...           (1)
 *     congestion signal    W <- (1 - delta) W                                              (2)
 *     otherwise            W <- W + 1                                                      (3)
 * The receiver takes the forward delay d of each packet; the sender's clock may differ by a constant:
 *     sftt <- eta sftt + (1 - eta) d;   ftt_var = sum of (d - sftt) over the round         (4)
 *     L = ftt_var * packet_sum / srtt;  Q = sum of L;  signal and Q <- 0 if Q > cathresh   (5)
 * L is the queue that the round added, in packets. At a gap it reports at once (NACK) and is
 * silent otherwise.
 *
 * Good where the ACK path is nearly nothing: satellite, DOCSIS, LTE. ACKs cost one packet an RTT, and
 * the reverse queue is no congestion. Not good where the forward delay jitters by more than a few
 * packets' time (each rise counts as queue; noise_rounds is for that), nor against loss-based flows, which keep the queue.
 *
 * One object, three hooks, four roles:
 *   sender, law         struct_ops: cong_control. Alone, toward any peer, it is a sound AIMD controller.
 *   sender, wire        sockops: writes the data option, reads the ACK option.
 *   receiver, wire      sockops: reads the data option, measures, writes the ACK option;
 *                       struct_ops in_ack_event: makes the kernel answer the flagged packet at once.
 *   receiver, filter    cgroup_skb/egress: drops the kernel's other pure ACKs.
 * They meet in one storage per socket, `struct wire`. A receiver of a Formosa sender runs this
 * controller too, since only a controller is called in in_ack_event; not if another was chosen for its socket.
 * Here is the sender. formosa/ has the options, the forward delay, the receiver, and the law toward any peer.
 *
 * Where the paper is silent, or we differ:
 *  - W counts packets of a round, not packets outstanding: with one ACK a round, up to the last
 *    round's W are delivered and not yet known to be. So snd_cwnd = in flight + what is left of W.
 *  - eta is not in [P]. With sftt taken after the sample and eta = 1/2 a rise of the delay by x adds
 *    just x to the sum; for other eta the sum is scaled so that it does (ftt_norm).
 *  - Q counts rises only (q_mode 1). The literal sum goes below zero when the queue drains after a
 *    signal, and each next signal comes at a longer queue than the last.
 *  - W is a real number in [P]. Here it has 16 bits behind the point: what (2) leaves of 15 packets is 13.125. A
 *    round has the whole packets of W.
 *  - A signal tells of the round before the one that its ACK ends. So the signal after a cut may tell of packets that were
 *    sent before it. [P] believes it, and so does this. signal_hold drops it.
 *  - A timeout is no reason to end the slow start that follows it: a signal of packets sent before it is not believed.
 *  - Slow start ends at the first signal, at ssthresh, or at a loss. A loss halves W (loss_beta).
 *  - Beyond [P], cut_least: between the packet that fills the queue and the cut W grows by some 3 packets. Where delta W
 *    is less, signals do not hold the queue.
 *  - The sender's srtt is that of the newest packet an ACK covers. The stack's counts the oldest too,
 *    which waited a round for its ACK.
 *  - A lost flag or ACK: packets carry a round number and the first of a new one is answered. So is
 *    the last packet of the data (T); and, twice, what shows that an ACK was lost (P): a probe beyond W, a
 *    retransmission after timeout, data that is here already; the sender asks once where ACKs queue. A
 *    signal is numbered and stays in each ACK until the next.
 *  - Where answers are lost, a round asks for more of them: answers.bpf.h. Where they wait longer, W may be larger (`fit_rtt`): ackpath.bpf.h.
 *  - A round that carried less than W lets W grow if data waits and the peer has room: the RTT has become shorter.
 *  - A NACK is the kernel's ACK with SACK blocks: up to three blocks, newest first, are the complement
 *    of up to three gaps. The policy is ours: nack_dup ACKs at a new gap, one when the last gap has
 *    closed, none otherwise; without SACK none says more than the cumulative ACK.
 *  - A peer that is no Formosa receiver: ACK clocking, and d from the timestamps. Not from the RTT: the
 *    reverse queue is what must not count. Without timestamps only losses tell.
 *  - Jitter is no queue: noise_rounds, beyond the paper. Then a delay above its smallest by no more than the noise, which
 *    the receiver measures, makes no signal.
 *  - Beside flows that fill the queue signals never end: `fair`, beyond the paper, is in beside.bpf.h.
 *  - After an idle time of n seconds W has been halved n times, not below 10.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, delta_q8, 32, 1, 127, "1/256", "share that a signal takes from W, delta of (2); 32 = 1/8 [P]");
TUNABLE(u32, cut_mode, 0, 0, 1, "-",
	"a signal takes 0: delta [P], 1: no more than the queue that the receiver reports, and a packet");
TUNABLE(u32, cathresh, 2, 1, 1024, "packets", "added queue that makes a signal (5) [P]");
PARAM(u32, eta_q8, 128, 1, 255, "1/256", "weight of the old sftt in (4)");
PARAM(u32, ftt_norm, 1, 0, 1, "-", "1: L has gain 1 whatever eta is; 0: literal (4)");
PARAM(u32, q_mode, 1, 0, 2, "-", "Q is the 0: net sum of L, 1: sum of rises, 2: sum, not below 0");
TUNABLE(u32, cut_least, 0, 0, 64, "packets", "least that a signal takes, at most half of W; 0 [P]");
TUNABLE(u32, signal_hold, 0, 0, 4, "rounds",
	"after a cut in congestion avoidance further signals are old news for so long; 0: literal [P]");
TUNABLE(u32, loss_beta_q8, 128, 64, 255, "1/256", "share of W that is left after a loss");
PARAM(u32, nack_dup, 1, 1, 16, "ACKs",
      "reports of a new gap, 1 [P]; 3 where the sender's kernel waits for three (tcp_recovery=0)");
PARAM(u32, answers_max, 8, 1, 8, "ACKs",
      "a round asks for so many at most, for more than one where they are lost; 1 [P]");
PARAM(u32, noise_rounds, 0, 0, 65535, "rounds",
      "the forward delay's noise measures itself, makes no signal, and is forgotten in so many rounds; 0: off [P]");
PARAM(u32, fit_rtt, 0, 0, 1, "-", "1: W changes with the time that ACKs take, so that the rate does not; 0 [P]");
PARAM(u32, init_cwnd, 1, 0, 1024, "packets", "first W [P]; 0: the stack's");
NOTE("both ends must run it; flows that fill the queue (CUBIC, Reno) leave it little: for paths without them");

PRESET(two_way, "fit_rtt=1", "data in the other direction, in whose queue ACKs wait: 1.9 times the goodput at r = 4");
PARAM(u32, hello, 0, 0, 1, "-",
      "1: all SYNs say hello, so that downloads have an ACK a round; where options are filtered they cost 2 s or more");

COUNTER(flows, "connections started, receivers' too");
COUNTER(peers, "connections whose other end said that it is a Formosa receiver");
COUNTER(rounds, "rounds ended");
COUNTER(signals, "reductions by a congestion signal");
COUNTER(old_signals, "signals about packets that left before the last reduction");
COUNTER(limited_rounds, "rounds that carried too little for W to grow");
COUNTER(fits, "rounds after which W followed the time that ACKs take");
COUNTER(losses, "reductions by loss: fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(idle_restarts, "rounds begun after an idle time");
COUNTER(fallbacks, "connections whose receiver fell silent: a middlebox took the options");
COUNTER(options_sent, "data options written");
COUNTER(answers_seen, "ACK options read");
COUNTER(options_seen, "data options read");
COUNTER(options_bad, "options of ours with a wrong length");
COUNTER(signals_sent, "congestion signals given");
COUNTER(acks_sent, "pure ACKs let pass, of connections with a Formosa sender");
COUNTER(acks_suppressed, "pure ACKs dropped");
COUNTER(nacks, "of acks_sent: reports of a new gap");

/* The registered name, written by the loader: what a receiver's controller is switched to. */
const volatile char asymcc_name[16] = "formosa";

#include "formosa/delay.bpf.h"
#include "formosa/options.bpf.h"
#include "formosa/answers.bpf.h"
#include "formosa/ackpath.bpf.h"

/* --- sender's law --------------------------------------------------------------------------- */

#define W_BITS 16 /* behind the point of W: with the 20 before it 2^36 */

/* One connection. Windows in packets. */
struct formosa {
	struct sender s;      /* its round is Formosa's */
	u32 w;                /* packets a round: the whole ones of W ... */
	u16 w_part;           /* ... and its part of a packet, 2^-16 */
	u16 w_part_saved;     /* before the last reduction */
	u32 w_last;           /* of the round before */
	u32 ssthresh;         /* of w: the stack's is for show */
	u32 w_saved;          /* before the last reduction, for undo */
	u32 ssthresh_saved;
	u32 srtt_us;          /* smoothed RTT of the newest packet covered; 0: none */
	u32 rounds;           /* begun so far */
	u32 delivered_round;  /* tp->delivered when this round began */
	u32 delivered;        /* tp->delivered at the last ACK */
	u32 peer_queue_us;    /* forward queueing delay as the receiver sees it */
	u32 peer_signals;     /* signals believed */
	u8 hold;              /* rounds in which no signal is */
	bool cwnd_limited;    /* fallback: the window was the limit in this round */
};
STATE(struct formosa);

static inline void begin_round(struct formosa *f, const struct tcp_sock *tp, struct wire *w)
{
	round_start(&f->s, tp);
	f->rounds++;
	f->delivered_round = tp->delivered;
	f->cwnd_limited = false;
	if (w) {
		w->round++;
		w->segs = tp->data_segs_out;
		w->budget = f->w;
		w->srtt_us = f->srtt_us;
		w->heard = false;
	}
}

/* W, packets << 16: at most 2^36. */
static inline u64 w_q16(const struct formosa *f)
{
	return (u64)f->w << W_BITS | f->w_part;
}

/* W becomes this, packets << 16, but not less than two packets. */
static inline void set_w(struct formosa *f, u64 w_q16)
{
	w_q16 = max(w_q16, W_MIN << W_BITS);
	f->w = w_q16 >> W_BITS;
	f->w_part = w_q16;
}

/* (2), and slow start is over. `queue`: packets of ours that wait, as far as known, below 2^32. */
static inline void on_signal(struct formosa *f, u64 queue)
{
	u64 w = w_q16(f), cut = w * delta_q8 >> 8; /* 2^36 * 2^7 = 2^43 */

	if (cut_mode && f->w >= f->ssthresh)
		cut = min(cut, (queue + 1) << W_BITS); /* 2^48 */
	cut = max(cut, min((u64)cut_least << W_BITS, w / 2));
	f->hold = f->w < f->ssthresh ? 0 : signal_hold;
	set_w(f, w - cut); /* cut is at most half of w */
	f->ssthresh = f->w;
	f->peer_signals++;
	COUNT(signals);
}

/* (1) by `acked` packets, up to ssthresh. */
static inline void slow_start(struct formosa *f, u32 acked)
{
	f->w = min((u64)f->w + acked, f->ssthresh);
}

/*
 * A round is over when what it sent first is acknowledged. Behind a gap the cumulative ACK stands
 * still: then when the receiver names the round, or, where its option finds no room, by time.
 */
static inline bool formosa_round_over(const struct formosa *f, const struct tcp_sock *tp, const struct wire *w)
{
	if (round_over(&f->s, tp))
		return true;
	if (!(tp->sacked_out | tp->lost_out) || tp->delivered == f->delivered_round)
		return false;
	return w->echo == w->round || tp->tcp_mstamp - f->s.round_stamp > f->srtt_us + (f->srtt_us >> 2);
}

#include "formosa/beside.bpf.h"

/* The peer answers once a round. */
static inline void
law_by_rounds(struct formosa *f, const struct tcp_sock *tp, const struct inet_connection_sock *icsk, struct wire *w,
	      struct fair *mode)
{
	u8 state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	u32 carried = tp->delivered - f->delivered_round, was = f->w;
	bool limited = (u64)carried + f->w_last / 8 + 2 < f->w_last && !has_more(tp);

	if (!formosa_round_over(f, tp, w))
		return;
	COUNT(rounds);
	if (state == TCP_CA_Open) {
		w->acks_queue = acks_queue(w, f->srtt_us, f->s.rtt_min);
		count_answers(w, tp);
		w->deaf_rounds = w->heard ? 0 : w->deaf_rounds + 1;
		if (w->deaf_rounds >= DEAF)
			fall_back(w);
	}
	if (mode && mode->competes)
		w->signalled = false;
	if (state != TCP_CA_CWR && state != TCP_CA_Recovery && !rests(f, mode, w, carried)) { /* else halved already */
		if (w->signalled && !f->hold)
			on_signal(f, mul_div(f->w, w->queue_us, f->srtt_us)); /* 2^20 * 2^22 */
		else if (w->signalled)
			COUNT(old_signals);
		else if (limited)
			COUNT(limited_rounds);
		else if (f->w < f->ssthresh)
			slow_start(f, carried);
		else
			f->w++;
	}
	if (f->hold && was <= f->w)
		f->hold--;
	if (!fit_rtt || limited || state != TCP_CA_Open || f->w < f->ssthresh) {
		fitted(w, f->srtt_us);
	} else {
		f->w = max(fit(w, f->srtt_us, f->w), W_MIN);
		f->ssthresh = min(f->ssthresh, f->w); /* no slow start follows */
	}
	w->signalled = false;
	f->w_last = was;
	begin_round(f, tp, w);
}

/* The window that lets out what is left of this round's W. */
static inline u32 window_by_rounds(const struct formosa *f, const struct tcp_sock *tp, const struct wire *w)
{
	u32 sent = tp->data_segs_out - w->segs, flight = packets_in_flight(tp);
	u64 cwnd = (u64)flight + (f->w > sent ? f->w - sent : 0);

	/* this round's and, as not yet known to have arrived, the last one's */
	cwnd = min(cwnd, (u64)f->w + f->w_last);
	if (!sent || (tp->lost_out && !tp->retrans_out)) /* the flag and the first repair wait for nothing */
		cwnd = max(cwnd, (u64)flight + 1);
	return min(cwnd, W_MAX);
}

#include "formosa/anypeer.bpf.h"

/* --- sender's hooks -------------------------------------------------------------------------- */

SEC("struct_ops/formosa_init")
void BPF_PROG(formosa_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	__builtin_memset(f, 0, sizeof(*f));
	fair_init(sk);
	if (!w || !w->receiving) /* to receive changes no window */
		first_window(tp, init_cwnd);
	f->w = f->w_last = min(max(tp->snd_cwnd, 1), W_MAX);
	f->ssthresh = max(tp->snd_ssthresh, W_MIN);
	f->srtt_us = min(tp->srtt_us >> 3, RTT_MAX_US); /* of the handshake */
	f->delivered = tp->delivered;
	if (w) {
		w->sender = true;
		w->answers = 1;
	}
	begin_round(f, tp, w);
	f->s.cwnd = tp->snd_cwnd;
	COUNT(flows);
}

SEC("struct_ops/formosa_release")
void BPF_PROG(formosa_release, struct sock *sk)
{
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	if (w) /* another controller follows: it forces no ACKs */
		w->sender = w->thin = false;
}

SEC("struct_ops/formosa_pkts_acked")
void BPF_PROG(formosa_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	bool first = !f->s.rtt_last; /* what the handshake told may be seconds, if its segments were lost */

	/*
	 * The RTT is that of the flagged packet, which an ACK covers last. Not so of one that closes gaps, nor,
	 * with a probe out beyond W, of one that does not cover that: they tell how long we waited.
	 */
	if (sends_options(w) &&
	    (in_recovery(inet_csk(sk)) || (tp->packets_out && tp->data_segs_out - w->segs > w->budget)))
		return;
	if (!rtt_sample(&f->s, tp, sample, 0))
		return;
	f->srtt_us = first ? f->s.rtt_last : ((u64)7 * f->srtt_us + f->s.rtt_last) / 8;
	fair_sample(sk, &f->s);
	if (w) /* 2^22 */
		w->squeue_us = (7 * w->squeue_us + w->queue_us) / 8;
}

SEC("struct_ops/formosa_cong_control")
void BPF_PROG(formosa_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct inet_connection_sock *icsk = inet_csk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	u32 percent = 100, limit = window_limit(tp);

	if (!f->w) /* before init: the ACK of our SYN, where a route names the controller */
		return;
	f->s.ack_stamp = tp->tcp_mstamp;
	if (sends_options(w)) {
		f->peer_queue_us = w->queue_us;
		law_by_rounds(f, tp, icsk, w, fair_of(sk));
		f->w = w->budget = min(f->w, limit);
		cwnd_write(&f->s, tp, window_by_rounds(f, tp, w));
	} else {
		law_by_acks(f, tp, icsk, w);
		f->w = min(f->w, limit);
		cwnd_write(&f->s, tp, window_by_acks(f, tp));
		percent = f->w < f->ssthresh ? 200 : 120; /* as the stack: ACKs are the clock */
	}
	f->delivered = tp->delivered;
	if (f->srtt_us) /* 2^20 * 2^16 * 10^6 * 2^8 < 2^64 */
		pace(sk, mul_div((u64)f->w * min(tp->mss_cache, 65535) * 10000, percent, f->srtt_us));
}

SEC("struct_ops/formosa_ssthresh")
u32 BPF_PROG(formosa_ssthresh, struct sock *sk)
{
	struct formosa *f = inet_csk_ca(sk);

	COUNT(losses);
	f->w_saved = f->w;
	f->w_part_saved = f->w_part;
	f->ssthresh_saved = f->ssthresh;
	set_w(f, left_by_loss(f, fair_of(sk)));
	f->w_last = f->ssthresh = f->w;
	return f->w;
}

SEC("struct_ops/formosa_set_state")
void BPF_PROG(formosa_set_state, struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w;

	if (state == TCP_CA_Loss) {
		COUNT(timeouts);
		f->w = f->w_last = 1;
		f->w_part = 0;
		f->hold = max(signal_hold, 1);
		end_look(fair_of(sk));
	} else if (state != TCP_CA_Recovery) {
		return;
	}
	w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	if (state == TCP_CA_Loss && sends_options(w))
		heard_at_timeout(w);
	begin_round(f, tp, w); /* repairs go out now ... */
	if (state == TCP_CA_Recovery) /* ... and no more than W: no ACK need follow */
		cwnd_write(&f->s, tp, sends_options(w) ? window_by_rounds(f, tp, w) : window_by_acks(f, tp));
}

SEC("struct_ops/formosa_undo_cwnd")
u32 BPF_PROG(formosa_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	COUNT(undos);
	if (f->w < f->w_saved) {
		f->w = f->w_saved;
		f->w_part = f->w_part_saved;
	}
	f->w_last = f->w;
	f->ssthresh = max(f->ssthresh, f->ssthresh_saved);
	if (w)
		w->budget = f->w;
	return undone_window(tp);
}

/* After idle time the window is halved for each second, not below 10. */
static __always_inline void after_idle(struct formosa *f, struct tcp_sock *tp, struct wire *w, u64 idle_us)
{
	u32 halvings = min(idle_us / 1000000, 31);

	COUNT(idle_restarts);
	if (halvings && f->w > 10) {
		f->ssthresh = max(f->ssthresh, f->w - f->w / 4);
		f->w = max(f->w >> halvings, 10);
	}
	f->w_last = f->w;
	begin_round(f, tp, w);
	cwnd_write(&f->s, tp, sends_options(w) ? window_by_rounds(f, tp, w) : window_by_acks(f, tp));
}

SEC("struct_ops/formosa_min_tso_segs")
u32 BPF_PROG(formosa_min_tso_segs, struct sock *sk)
{
	struct formosa *f = inet_csk_ca(sk);
	u64 idle_us = idle_time(&f->s, tcp_sk(sk));

	if (idle_us) {
		end_look(fair_of(sk));
		after_idle(f, tcp_sk(sk), bpf_sk_storage_get(&wires, sk, NULL, 0), idle_us);
	}
	return default_tso_segs(sk);
}

#include "formosa/receiver.bpf.h"

/* --- options ----------------------------------------------------------------------------------- */

static inline bool greets(struct bpf_sock_ops *ops)
{
	return is_ours(ops) || (hello && may_receive(ops));
}

static inline void reserve(struct bpf_sock_ops *ops)
{
	const struct wire *w;

	if (reserved_hello(ops))
		return;
	w = wire_of(ops, 0);
	if (!w)
		return;
	if (sends_options(w) && (ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || ops->skb_len))
		bpf_reserve_hdr_opt(ops, sizeof(struct data_option), 0);
	if (w->receiving)
		bpf_reserve_hdr_opt(ops, sizeof(struct answer_option), 0);
}

static inline void write_data(struct bpf_sock_ops *ops, struct wire *w, u32 seq, u32 payload)
{
	struct tcp_sock *tp = tcp_of(ops);
	u32 sent = ops->data_segs_out - w->segs, end = seq + payload;
	struct data_option o = {
		.kind = OPTION_KIND,
		.len = sizeof(o),
		.exid = DATA_EXID,
		.flags = sent ? 0 : DATA_A,
		.round = w->round,
		.srtt = bpf_htons(min(w->srtt_us / 64, 65535)),
		.stamp = bpf_htonl((u32)(bpf_ktime_get_ns() / 1000)),
	};

	if (!sent) {
		w->flag_end = end;
		w->flag_is_new = !before(seq, ops->snd_nxt);
	}
	if (tp && (is_last(tp, end) || asks(w, sent, divide(payload + tp->mss_cache - 1, tp->mss_cache))))
		o.flags |= DATA_T;
	if (sent >= w->budget || (!sent && before(seq, ops->snd_nxt)))
		o.flags |= w->acks_queue ? DATA_T : DATA_P;
	if (!bpf_store_hdr_opt(ops, &o, sizeof(o), 0))
		COUNT(options_sent);
}

static inline void write(struct bpf_sock_ops *ops)
{
	struct hello_option greet = HELLO;
	struct tcp_header h;
	struct wire *w;
	u32 payload;

	if (wrote_hello(ops, &greet))
		return;
	w = wire_of(ops, 0);
	if (!w || !header(ops, &h, &payload))
		return;
	if (payload && sends_options(w))
		write_data(ops, w, bpf_ntohl(h.seq), payload);
	if (w->receiving)
		write_answer(ops, w);
}

/* The sender hears its receiver. */
static inline void heard(struct wire *w, const struct answer_option *o)
{
	u8 ahead = (o->signal - w->signal_seen) & ANSWER_SIGNAL;

	COUNT(answers_seen);
	w->heard = w->answered = true;
	w->echo = o->round;
	w->queue_us = bpf_ntohs(o->queue) * 64;
	if (ahead && ahead < 8) {
		w->signal_seen = o->signal & ANSWER_SIGNAL;
		w->signalled = true;
	}
}

static inline void parse(struct bpf_sock_ops *ops)
{
	struct wire *w = wire_of(ops, 0);
	struct answer_option answer;
	struct data_option data;
	struct tcp_header h;
	u32 payload;
	int len;

	if (!w || !w->peer || !header(ops, &h, &payload) || !acceptable(ops, &h))
		return;
	len = find_option(ops, &answer, sizeof(answer), ANSWER_EXID, 0);
	if (len == sizeof(answer))
		heard(w, &answer);
	else if (is_bad(len))
		COUNT(options_bad);
	if (!payload)
		return;
	len = find_option(ops, &data, sizeof(data), DATA_EXID, 0);
	if (len == sizeof(data))
		received(ops, w, &data, bpf_ntohl(h.seq), payload);
	else if (is_bad(len))
		COUNT(options_bad);
}

SEC("sockops")
int formosa_sockops(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
		WIRE_CASES(ops, greets, speak)
	}
	return 1;
}

#define PROGRAM formosa_egress
#include "ack_filter.bpf.h"

SEC(".struct_ops")
struct tcp_congestion_ops formosa = {
	.init = (void *)formosa_init,
	.release = (void *)formosa_release,
	.pkts_acked = (void *)formosa_pkts_acked,
	.in_ack_event = (void *)formosa_in_ack_event,
	.cong_control = (void *)formosa_cong_control,
	.ssthresh = (void *)formosa_ssthresh,
	.set_state = (void *)formosa_set_state,
	.undo_cwnd = (void *)formosa_undo_cwnd,
	.min_tso_segs = (void *)formosa_min_tso_segs,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "formosa",
};
