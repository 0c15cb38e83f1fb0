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
 * Here is the sender. formosa/ has the parameters, the options, the forward delay, the receiver, and the law toward any peer.
 *
 * Our choices, and our differences from the paper:
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
 *  - Beyond [P], cut_least: between the packet that fills the queue and the cut W grows by some 3 packets. If delta W
 *    is less, signals do not hold the queue.
 *  - The sender's srtt is that of the newest packet an ACK covers. The stack's counts the oldest too,
 *    which waited a round for its ACK.
 *  - A lost flag or ACK: packets carry a round number and the first of a new one is answered. So is
 *    the last packet of the data (T); and, twice, what shows that an ACK was lost (P): a probe beyond W, a
 *    retransmission after timeout, data that is here already; the sender asks once where ACKs queue. A
 *    signal is numbered and stays in each ACK until the next.
 *  - If answers are lost, a round asks for more of them: answers.bpf.h. If they wait longer, W may be larger (`fit_rtt`): ackpath.bpf.h.
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
#include "formosa/ackpath.bpf.h"
#include "formosa/answers.bpf.h"
#include "formosa/anypeer.bpf.h"
#include "formosa/beside.bpf.h"
#include "formosa/receiver.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* --- sender's law --------------------------------------------------------------------------- */

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
	return w->echo == w->round || round_us(&f->s, tp) > f->srtt_us + (f->srtt_us >> 2);
}

/* At the end of a round without gaps: do the receiver's answers come, and does the round need more of them? */
static inline void hear_round(const struct formosa *f, const struct tcp_sock *tp, struct wire *w)
{
	w->acks_queue = acks_queue(w, f->srtt_us, f->s.rtt_min);
	count_answers(w, tp);
	w->deaf_rounds = w->heard ? 0 : w->deaf_rounds + 1;
	if (w->deaf_rounds >= DEAF)
		fall_back(w);
}

/* W after a round, packets << 16, by (1), (2) or (3); with `fair` a look may set it. `limited`: the round carried too little. */
static inline u64 after_round(struct formosa *f, const struct wire *w, struct fair *mode, u32 carried, bool limited)
{
	u32 window = look_window(f, mode, w, carried);

	if (window) {
		f->ssthresh = min(f->ssthresh, window); /* no slow start follows */
		f->hold = TOLD;
		return (u64)window << W_BITS | f->w_part;
	}
	if (w->signalled && !f->hold)
		return after_signal(f, mul_div(f->w, w->queue_us, f->srtt_us)); /* 2^20 * 2^22 */
	if (w->signalled) {
		COUNT(old_signals);
		return w_q16(f);
	}
	if (limited) {
		COUNT(limited_rounds);
		return w_q16(f);
	}
	return f->w < f->ssthresh ? after_start(f, carried) : w_q16(f) + (1 << W_BITS);
}

/* The peer answers once a round. */
static inline void
law_by_rounds(struct formosa *f, const struct tcp_sock *tp, const struct inet_connection_sock *icsk, struct wire *w,
	      struct fair *mode)
{
	u8 state = read_bits(icsk, icsk_ca_state);
	bool reduces = state == TCP_CA_CWR || state == TCP_CA_Recovery; /* the stack: W is halved already */
	u32 carried = tp->delivered - f->delivered_round;
	bool limited = (u64)carried + f->w_last / 8 + 2 < f->w_last && !has_more(tp);
	u64 next;

	if (!formosa_round_over(f, tp, w))
		return;
	COUNT(rounds);
	if (state == TCP_CA_Open)
		hear_round(f, tp, w);
	if (mode && mode->competes)
		w->signalled = false;
	next = reduces ? w_q16(f) : after_round(f, w, mode, carried, limited);
	if (f->hold && f->w <= next >> W_BITS)
		f->hold--;
	if (!fit_rtt || limited || state != TCP_CA_Open || next >> W_BITS < f->ssthresh) {
		fitted(w, f->srtt_us);
	} else {
		u32 whole = max(fit(w, f->srtt_us, next >> W_BITS), W_MIN);

		next = (u64)whole << W_BITS | (u16)next;
		f->ssthresh = min(f->ssthresh, whole); /* no slow start follows */
	}
	w->signalled = false;
	f->w_last = f->w;
	write_w(f, next);
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

/* W is what leaves in this time, us. With fit_rtt W is fitted at the end of a round: the answers in it change no rate. */
static inline u32 time_of_w(const struct formosa *f, const struct wire *w)
{
	return fit_rtt && sends_options(w) && w->fitted_srtt ? w->fitted_srtt : f->srtt_us;
}

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
	fair_sample(sk, f->s.rtt_last);
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
		pace(sk, mul_div((u64)f->w * min(tp->mss_cache, 65535) * 10000, percent, time_of_w(f, w)));
}

SEC("struct_ops/formosa_ssthresh")
u32 BPF_PROG(formosa_ssthresh, struct sock *sk)
{
	struct formosa *f = inet_csk_ca(sk);

	COUNT(losses);
	f->w_saved = f->w;
	f->w_part_saved = f->w_part;
	f->ssthresh_saved = f->ssthresh;
	write_w(f, max(left_by_loss(f, fair_of(sk)), W_MIN << W_BITS));
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
