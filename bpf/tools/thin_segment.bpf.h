/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `asymcc thin`: a segment of the sender tells an RTT, a request, or the end of what the application sends. */
#ifndef THIN_SEGMENT_BPF_H
#define THIN_SEGMENT_BPF_H

#include "thin_wait.bpf.h"

enum {
	TCPOPT_EXPERIMENT = 254,
	TARR_LENGTH = 5,  /* bytes of a TCP ACK Rate Request with a rate (draft-ietf-tcpm-ack-rate-request) */
	TARR_ID = 0x00ac, /* its identifier; one byte follows, the rate above a bit that is reserved */
};

struct segment {
	struct tcp_header h;
	u32 at;      /* of the TCP header in the packet */
	u32 payload; /* bytes */
	int packets; /* as of rate_request() */
	bool stamped;
	__be32 stamps[3];
};

/*
 * The first data that answers the ACK which is timed; none if the sender may have been idle. A stranger that forges an answer has us
 * take the RTT for shorter, and drop less.
 */
static inline void sample_rtt(struct flow *f, const struct receiver *r, u32 tsecr, u64 now)
{
	u64 rtt = min(now - f->rtt.stamp_ns + r->behind_ns, 1000ULL * LONGEST_RTT_US);

	if (!f->rtt.stamp_ns || before(tsecr, f->rtt.stamp))
		return;
	f->rtt.shortest_ns = f->rtt.shortest_ns ? min(f->rtt.shortest_ns, rtt) : rtt;
	if (now - f->came_ns <= 2 * rtt_of(f, r) + SILENCE_NS)
		f->rtt.smooth_ns = f->rtt.smooth_ns ? (3 * f->rtt.smooth_ns + rtt) / 4 : rtt;
	f->rtt.stamp_ns = 0;
}

/* No later ACK may follow that of this end. A stranger that forges one has more ACKs pass, for a window at most. */
static inline void await(struct flow *f, const struct receiver *r, u32 end)
{
	if (before(end, r->rcv_nxt) || end - r->rcv_nxt > r->rcv_wnd)
		return;
	if (!f->tail.due || before(f->tail.end, end))
		f->tail.end = end;
	f->tail.due = true;
}

/*
 * The end of what the application sends now: a FIN, or a segment with PSH that is not full. Linux ends each burst of TSO with PSH, so
 * that a full one tells it only if the last PSH is longer ago than an RTT, by time or by what has come since: then its ACK is one more
 * in each RTT at most. A PSH that the kernel refuses is not the last one: the true end would be hidden.
 */
static inline void
note_end(struct flow *f, const struct receiver *r, u32 end, u32 payload, u8 flags, bool accepted, u64 now)
{
	struct tail *t = &f->tail;
	bool alone = end - t->push > f->round.bytes || now - t->push_ns > max(rtt_of(f, r), SILENCE_NS);

	if (flags & FIN)
		await(f, r, end + 1);
	else if (r->mss && (payload % r->mss || alone))
		await(f, r, end);
	t->push = accepted ? end : t->push;
	t->push_ns = accepted ? now : t->push_ns;
}

/* Will the kernel take this ACK? One that is old may be taken, too, but needs no knowledge to be guessed. */
static inline bool takes_ack(const struct receiver *r, const struct tcp_header *h)
{
	u32 ack = bpf_ntohl(h->ack);

	return h->flags & ACK && !before(ack, r->snd_una) && !before(r->snd_nxt, ack);
}

/* The packets that an ACK shall cover, by the option of the sender; 0: this one at once; NONE: it does not ask. */
static inline int rate_request(struct __sk_buff *skb, u32 at, const struct tcp_header *h)
{
	u32 end = at + (h->offset >> 4) * 4;
	u8 o[TARR_LENGTH];

	at += sizeof(*h);
	for (int i = 0; i < OPTIONS_MAX && at + 2 <= end && !bpf_skb_load_bytes(skb, at, o, 2) && o[0]; i++) {
		if (o[0] == TCPOPT_EXPERIMENT && o[1] == TARR_LENGTH && at + TARR_LENGTH <= end &&
		    !bpf_skb_load_bytes(skb, at, o, TARR_LENGTH) && o[2] == TARR_ID >> 8 && o[3] == (TARR_ID & 255))
			return o[4] >> 1;
		if (o[0] != 1 && o[1] < 2)
			break;
		at += o[0] == 1 ? 1 : o[1];
	}
	return NONE;
}

/* An ACK covers no more than was asked for: a stranger that forges a request has more of them pass. */
static inline void note_request(struct flow *f, const struct receiver *r, int packets, u32 end)
{
	if (packets)
		f->asked = packets;
	else
		await(f, r, end);
}

/* Fills the rest, where header and payload are known. */
static __always_inline void read_segment(struct __sk_buff *skb, struct segment *s)
{
	s->stamped = timestamps(skb, s->at, &s->h, s->stamps);
	s->packets =
		s->h.offset >> 4 == (s->stamped ? WORDS_STAMP : WORDS_PLAIN) ? NONE : rate_request(skb, s->at, &s->h);
}

static __always_inline void hear(struct flow *f, const struct receiver *r, const struct segment *s, u64 now)
{
	u32 seq = bpf_ntohl(s->h.seq), end = seq + s->payload;
	bool accepted = takes_ack(r, &s->h);

	if (before(seq, r->rcv_nxt) || seq - r->rcv_nxt > r->rcv_wnd) /* old, or not of this connection */
		return;
	if (accepted && s->packets != NONE)
		note_request(f, r, s->packets, end);
	if (accepted && s->stamped)
		sample_rtt(f, r, bpf_ntohl(s->stamps[2]), now);
	if (accepted && s->stamped && s->payload)
		note_way(f, bpf_ntohl(s->stamps[1]), bpf_ntohl(s->stamps[2]), now);
	if (s->h.flags & (PSH | FIN))
		note_end(f, r, end, s->payload, s->h.flags, accepted, now);
}

#endif
