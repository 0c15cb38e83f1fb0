/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Formosa's receiver: it measures the packets that carry a data option, answers the first of a round, and spares the other ACKs.
 */
#ifndef FORMOSA_RECEIVER_BPF_H
#define FORMOSA_RECEIVER_BPF_H

#include "options.bpf.h"

/* The first data option. False where this controller cannot be the socket's: the sender falls back. */
static inline bool start_receiving(struct bpf_sock_ops *ops, struct wire *w)
{
	w->receiving = true; /* the controller's init looks at it */
	if (!w->sender)
		w->receiving = take_socket(ops);
	w->end = w->last_ack = ops->rcv_nxt;
	return w->receiving;
}

/* The receiver measures a packet, and decides whether it is to be answered at once. */
static inline void received(struct bpf_sock_ops *ops, struct wire *w, const struct data_option *o, u32 seq, u32 payload)
{
	u32 end = seq + payload, now_us = bpf_ktime_get_ns() / 1000, mss = 0;
	u32 d = now_us - bpf_ntohl(o->stamp);
	struct tcp_sock *tp = tcp_of(ops);
	bool first = !w->receiving;

	COUNT(options_seen);
	if (first && !start_receiving(ops, w))
		return;
	w->optioned = true;
	if (!before(ops->rcv_nxt, end)) { /* here already: the sender has not heard of it */
		w->due = 2;
		return;
	}
	if (before(w->end, ops->rcv_nxt)) /* what came without an option, or with an old ACK */
		w->end = ops->rcv_nxt;
	if (before(w->end, seq)) { /* a new gap */
		w->nacks = nack_dup;
		w->gaps = true;
		w->in.ours = OURS;
	}
	if (before(w->end, end))
		w->end = end;
	if (tp)
		mss = ((struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;
	if (!w->in.seeded || (u32)(d - w->d0 + D_MAX_US / 2) > D_MAX_US) { /* clocks drift apart */
		w->d0 = d;
		w->in.seeded = false;
	}
	estimate_sample(&w->in, (s32)(d - w->d0), divide(payload + mss - 1, mss), now_us);
	if (o->flags & (DATA_T | DATA_P))
		w->due = o->flags & DATA_P ? 2 : 1;
	w->peer_srtt_us = bpf_ntohs(o->srtt) * 64;
	if (!first && (signed char)(o->round - w->last_round) <= 0)
		return;
	w->last_round = o->round;
	w->due = max(w->due, 1);
	if (estimate_round(&w->in, w->peer_srtt_us)) {
		w->signal++;
		COUNT(signals_sent);
	}
}

static inline void write_answer(struct bpf_sock_ops *ops, const struct wire *w)
{
	struct answer_option o = {
		.kind = OPTION_KIND,
		.len = sizeof(o),
		.exid = ANSWER_EXID,
		.signal = (w->signal & ANSWER_SIGNAL) | (w->due ? ANSWER_F : 0),
		.round = w->last_round,
		.queue = bpf_htons(min(estimate_queue(&w->in) / 64, 65535)),
	};

	bpf_store_hdr_opt(ops, &o, sizeof(o), 0);
}

/*
 * Runs for the segment that PARSE_HDR_OPT_CB has just noted, before its data is queued. The kernel
 * then sends an ACK once it is: with this segment covered.
 */
SEC("struct_ops/formosa_in_ack_event")
void BPF_PROG(formosa_in_ack_event, struct sock *sk, u32 flags)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	if (!w || !w->receiving)
		return;
	w->thin = true;
	if (w->due > 1) { /* first: an ACK that is sent clears what is pending */
		bpf_tcp_send_ack(sk, tcp_sk(sk)->rcv_nxt);
		w->due = 1; /* even where thinning does not see our ACKs: IPsec, extension headers */
	}
	if (w->due)
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
}

/* --- which of the kernel's ACKs pass: ack_filter.bpf.h ------------------------------------------ */

#define SILENCE_NS 500000000ULL    /* an ACK passes after this or 2 RTTs without one */

static inline bool must_pass(struct wire *w, const struct tcp_sock *tp, u32 ack, u32 right, u64 now)
{
	u64 silence = max(2000ULL * w->peer_srtt_us, SILENCE_NS);
	u32 two = 2 * ((const struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;

	if (w->due || before(w->end, ack) || (ack != w->last_ack && !w->optioned)) /* data came without options */
		return true;
	if (w->gaps && ack == w->end) { /* the last one has closed */
		w->gaps = false;
		return true;
	}
	if (before(ack, w->end)) {
		if (w->nacks) {
			w->nacks--;
			COUNT(nacks);
			return true;
		}
	} else if (ack == w->last_ack && right == w->last_right) {
		return true; /* said before: somebody asked, or sent what is here already */
	}
	if (before(w->passed_right, right) && before(w->passed_right, w->end + two))
		return true; /* the window that the sender knows is used up */
	return now - w->passed_ns > silence;
}

#define ON_PASS(w) \
	if ((w)->due) \
	(w)->due--

#endif
