// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc thin --dev`: ACK thinning on a router, for the hosts behind it. Neither they nor the senders need know of it.
 *
 * Both programs are on the uplink's device, which all packets of a connection pass behind NAT: ACKs leave by it, and data comes.
 * They learn from the packets what thin.bpf.c reads from the socket. The rules are the same: thin_rules.bpf.h.
 *
 * Only what leaves makes an entry, so that no stranger does. A full map forgets the connections that it has not seen for long: these
 * begin anew, and their first ACKs pass. A packet that is not understood passes.
 *
 * No kernel type is read, so that a kernel without BTF takes it.
 */
#include "thin_rules.bpf.h"
#include "router_packet.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile char asymcc_name[16] = "thin"; /* by which asymcc finds the programs again */

PARAM(u8, made_clsact, 0, 0, 1, "-", "1: asymcc made the device's clsact, and takes it away again");

enum {
	FLOWS = 8192, /* connections that are remembered; each takes some 400 bytes */
	NEXT = -1, /* what others have on the device decides */
	DROP = 2,
	URG = 32,
	CWR = 128,
	AE = 1, /* the bit before the flags (RFC 9768) */
	TCPOPT_WSCALE = 3,
	SCALE_MAX = 14,
};

struct connection {
	struct flow rules;
	u64 syn_ns; /* when the SYN or SYN-ACK left whose answer is timed; 0: none is */
	u64 handshake_ns; /* RTT to the sender and back */
	u64 data_ns; /* when the data came whose ACK is timed; 0: none is */
	u64 behind_ns; /* RTT to the host and back: the shortest; 0: not known */
	u32 data_end; /* end of that data */
	u32 began; /* number of the first ACK that was seen */
	u32 ack; /* the host's last ACK */
	u32 right; /* the right edge of its window */
	u32 snd_nxt; /* end of what the host has sent */
	u32 snd_una; /* the first byte of it that is not acknowledged */
	u16 window; /* as its last ACK had it, not scaled */
	u16 mss; /* bytes of payload in a segment that came */
	u8 scale; /* of the window */
	bool scaled; /* the handshake told `scale`; else it is the least that explains what came */
	bool acked; /* the host has sent an ACK */
	bool begun; /* START_BYTES have come since */
	bool accecn;
	bool ece; /* of the host's last ACK */
	bool cwr; /* the sender has answered ECE */
	bool each_mark; /* ECE ended unanswered: it tells of each mark, as DCTCP's */
};

const volatile struct connection unknown = {};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct tuple);
	__type(value, struct connection);
} flows SEC(".maps");

struct load load;

/* --- the packet --------------------------------------------------------------------------------- */

/* The window scale of a SYN; 0: without. */
static __always_inline u8 scale_of(struct __sk_buff *skb, const struct packet *p)
{
	u32 at = p->at + sizeof(p->h), end = p->at + (p->h.offset >> 4) * 4;
	u8 o[3];

	for (int i = 0; i < OPTIONS_MAX && at + 2 <= end && !bpf_skb_load_bytes(skb, at, o, 2) && o[0]; i++) {
		if (o[0] == TCPOPT_WSCALE)
			return o[1] == 3 && !bpf_skb_load_bytes(skb, at + 2, o, 1) ? min(o[0], SCALE_MAX) : 0;
		if (o[0] != 1 && o[1] < 2)
			break;
		at += o[0] == 1 ? 1 : o[1];
	}
	return 0;
}

/* --- the connection ------------------------------------------------------------------------------- */

static inline void know(struct receiver *r, const struct connection *c)
{
	r->handshake_ns = c->handshake_ns ? c->handshake_ns + c->behind_ns : 0;
	r->behind_ns = c->behind_ns;
	r->rcv_nxt = c->ack;
	r->rcv_wnd = c->right - c->ack;
	r->snd_una = c->snd_una;
	r->snd_nxt = c->snd_nxt;
	r->mss = c->mss;
}

static inline struct connection *begin(const struct packet *p)
{
	bpf_map_update_elem(&flows, &p->of, (const void *)&unknown, BPF_ANY);
	return bpf_map_lookup_elem(&flows, &p->of);
}

/* The host opens a connection, or takes one. An answer to the second of its SYNs may be one to the first. */
static __always_inline void opens(struct __sk_buff *skb, const struct packet *p, u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&flows, &p->of);
	u32 seq = bpf_ntohl(p->h.seq), sent = seq + 1 + p->payload;
	bool again = c && !c->begun && c->snd_nxt == sent && c->snd_una == seq;

	c = begin(p);
	if (!c)
		return;
	c->snd_nxt = sent;
	c->snd_una = seq;
	c->scale = scale_of(skb, p);
	c->scaled = true;
	c->syn_ns = again ? 0 : now;
}

/* The host's segment tells its window, and what it has sent. False: it is an older one. */
static __always_inline bool note_sent(struct connection *c, const struct packet *p, u64 now)
{
	u32 ack = bpf_ntohl(p->h.ack), end = bpf_ntohl(p->h.seq) + p->payload + !!(p->h.flags & FIN);
	u64 behind_ns;

	if (!c->acked)
		c->began = c->ack = ack;
	if (before(c->snd_nxt, end))
		c->snd_nxt = end;
	if (before(ack, c->ack))
		return false;
	if (c->data_ns && !before(ack, c->data_end)) { /* the host may wait with its ACK, but not each time */
		behind_ns = min(now - c->data_ns, 1000ULL * LONGEST_RTT_US);
		c->behind_ns = c->behind_ns ? min(c->behind_ns, behind_ns) : behind_ns;
		c->data_ns = 0;
	}
	c->acked = true;
	c->ack = ack;
	c->window = bpf_ntohs(p->h.window);
	c->right = ack + ((u32)c->window << (c->scale & 15));
	c->begun |= ack - c->began >= START_BYTES;
	return true;
}

/*
 * Does ECE tell of each byte whether it was marked? Else it stays until the sender has answered it. AccECN has a counter in its place,
 * which begins at 5.
 */
static __always_inline void note_ecn(struct connection *c, const struct packet *p)
{
	bool ece = p->h.flags & ECE;

	if (!p->payload && (p->h.offset & AE || p->h.flags & CWR))
		c->accecn = true;
	if (ece && !c->ece)
		c->cwr = false;
	if (c->ece && !ece && !c->cwr)
		c->each_mark = true;
	c->ece = ece;
}

/*
 * The sender's segment. One whose ACK the host will refuse tells of no answer and no scale. A sender fills no more than the window:
 * where the handshake was not seen, that tells the scale's least.
 */
static __always_inline void note_heard(struct __sk_buff *skb, struct connection *c, const struct packet *p, u64 now)
{
	u32 ack = bpf_ntohl(p->h.ack), end = bpf_ntohl(p->h.seq) + p->payload, segment;

	if (before(ack, c->snd_una) || before(c->snd_nxt, ack))
		return;
	if (c->syn_ns && ack != c->snd_una) {
		c->handshake_ns = min(now - c->syn_ns, 1000ULL * LONGEST_RTT_US);
		c->syn_ns = 0;
	}
	if (p->h.flags & SYN &&
	    !scale_of(skb, p)) /* it has no window scale, or one of 0: then the host's may not count */
		c->scale = 0;
	c->snd_una = ack;
	c->cwr |= !!(p->h.flags & CWR);
	if (p->payload && !c->data_ns && c->acked && before(c->ack, end)) {
		c->data_ns = now;
		c->data_end = end;
	}
	segment = skb->gso_size ? skb->gso_size : p->payload;
	c->mss = max(c->mss, min(segment, 0xffff));
	if (c->acked && !c->scaled && c->window && end - c->ack < 1 << 30 && before(c->right, end)) {
		for (int i = 0; i < SCALE_MAX && c->scale < SCALE_MAX && before(c->right, end); i++) {
			c->scale++;
			c->right = c->ack + ((u32)c->window << (c->scale & 15));
		}
	}
}

SEC("tc")
int thin_ingress(struct __sk_buff *skb)
{
	struct packet p = {};
	struct receiver r;
	struct connection *c;
	struct segment s;
	u64 now;

	if (!thins || !read_packet(skb, &p, false))
		return NEXT;
	c = bpf_map_lookup_elem(&flows, &p.of);
	if (!c || !(p.h.flags & ACK) || p.h.flags & RST)
		return NEXT;
	now = bpf_ktime_get_ns();
	note_heard(skb, c, &p, now);
	if (p.h.flags & SYN || !c->acked)
		return NEXT;
	know(&r, c);
	s.h = p.h;
	s.at = p.at;
	s.payload = p.payload;
	read_segment(skb, &s);
	hear(&c->rules, &r, &s, now);
	return NEXT;
}

/* Is it an ACK, and nothing else? */
static inline bool is_pure(const struct packet *p)
{
	return !p->payload && p->plain && (p->h.flags & (SYN | FIN | RST | PSH | ACK | URG)) == ACK;
}

/* An ACK of a connection's first bytes takes its room, too. */
static inline void take_part(u32 len, u64 now)
{
	u32 kbit = reverse_kbit;

	if (kbit)
		through_ns = now + ahead_ns(through_ns, now, BACKLOG_MAX_NS) + cost_ns(len, kbit);
}

static __always_inline bool forwards(struct __sk_buff *skb, const struct packet *p, bool uploads, u64 now)
{
	struct connection *c = bpf_map_lookup_elem(&flows, &p->of);
	struct receiver r;
	struct pure a;

	if (!c) {
		c = begin(p);
		if (!c)
			return true;
		c->snd_nxt = c->snd_una = bpf_ntohl(p->h.seq);
	}
	note_ecn(c, p);
	if (!note_sent(c, p, now) || !is_pure(p))
		return true;
	if (!c->begun) {
		take_part(p->len, now);
		return true;
	}
	a.h = p->h;
	a.at = p->at;
	a.len = p->len;
	a.right = c->right;
	a.accecn = c->accecn;
	a.each_mark = c->each_mark;
	read_pure(skb, &a);
	know(&r, c);
	return ack_passes(&c->rules, &r, &a, uploads, now);
}

SEC("tc")
int thin_egress(struct __sk_buff *skb)
{
	struct packet p = {};
	bool is_tcp, uploads;
	u64 now;

	if (!thins)
		return NEXT;
	is_tcp = read_packet(skb, &p, true);
	now = bpf_ktime_get_ns();
	uploads = !reverse_kbit && data_leaves(&load, is_tcp && is_pure(&p), skb->len, now);
	if (!is_tcp ||
	    skb->sk) /* what a socket of this machine sends is left to thin.bpf.c: the kernel would slow it down */
		return NEXT;
	if (p.h.flags & SYN) {
		opens(skb, &p, now);
		return NEXT;
	}
	return p.h.flags & RST || !(p.h.flags & ACK) || forwards(skb, &p, uploads, now) ? NEXT : DROP;
}
