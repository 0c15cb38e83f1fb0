// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc thin`: ACK thinning for any sender. It runs at the receiver of the data, and the peer need not know of it.
 *
 * The kernel sends its ACKs as ever. A cgroup_skb/egress program drops the pure ones that tell the sender nothing which it has to
 * know now. The sender needs some ACKs in each RTT, to keep its clock and its samples: `acks_per_rtt` of them pass. More pass where
 * `reverse_kbit` has room for them.
 *
 * The kernel believes that a dropped ACK was sent, and no timer of its sends it again. So an ACK is only dropped where a later one
 * is sure to follow: data still comes, in order, at a known rate.
 */
#include "declare.bpf.h"
#include "packet.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile char asymcc_name[16] = "thin"; /* by which asymcc finds the programs again */

TUNABLE(u8, thins, 1, 0, 1, "-", "0: every ACK passes");
TUNABLE(u32, acks_per_rtt, 16, 2, 1000, "ACKs", "ACKs that a sender gets in each RTT at least ...");
TUNABLE(u32, least_per_rtt, 2, 1, 1000, "ACKs", "... and where `reverse_kbit` is given, and has no room for more");
TUNABLE(u32, max_packets, 16, 2, 256, "packets", "packets that an ACK covers at most");
TUNABLE(u32, reverse_kbit, 0, 0, 10000000, "kbit/s",
	"rate for the ACKs of all connections; thins no more than it takes. 0: not known");

COUNTER(acks_sent, "pure ACKs that passed");
COUNTER(acks_suppressed, "pure ACKs that were dropped");
COUNTER(stalls, "times that a sender waited for an ACK that was dropped");

enum {
	START_BYTES = 64 * 1024, /* at first, after idle and after a stall each ACK passes */
	SILENCE_NS = 20000000,   /* an ACK passes after so long, or its share of an RTT, without one */
	DUPS = 3,                /* as many tell the sender of a loss */
	EDGE_PACKETS = 4,        /* room in the window that the sender knows of: less is told at once */
	WORDS_PLAIN = 5,         /* header without options, in 4 bytes ... */
	WORDS_STAMP = 8,         /* ... and with timestamps alone, as Linux writes them */
	STAMP_WORD = 0x0101080a,
	LONGEST_RTT_US = 1 << 25,    /* 33 s */
	BACKLOG_MAX_NS = 1000000000,
};

struct flow {
	u64 epoch_ns;     /* since then the bytes of an RTT are counted ... */
	u64 came_ns;      /* the last ACK of new data that the kernel sent */
	u64 passed_ns;    /* of the last that passed */
	u32 epoch_ack;    /* ... from this one on */
	u32 rtt_bytes;    /* that came in the last RTT; 0: not known yet */
	u32 thin_from;    /* below this number each ACK passes */
	u32 last_ack;     /* the kernel's last ACK, passed or not ... */
	u32 last_right;   /* ... and the right edge of its window */
	u32 passed_ack;   /* the same of the last that passed */
	u32 passed_right;
	u32 pushed;       /* end of the last segment with PSH */
	u16 flags;        /* of the last that passed */
	u8 push;          /* is `pushed` waited for? */
	u8 halvings;      /* of the bytes that an ACK covers, after stalls */
	u8 dups;          /* ACKs with the same number that have passed, SACK in them */
	u8 blocks;        /* of SACK, in the last of them */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* When the ACKs that have passed are through at `reverse_kbit`. */
u64 through_ns;

static inline u64 backlog_ns(u64 now)
{
	u64 through = through_ns;

	return reverse_kbit && through > now ? min(through - now, BACKLOG_MAX_NS) : 0;
}

/*
 * The kernel measures it at the receiver by timestamps. Without them only the handshake's is sure: a least one, so that an ACK covers
 * no more than its share of the sender's window.
 */
static inline u64 rtt_of(const struct tcp_sock *tp)
{
	u32 stamped = tp->rcv_rtt_est.rtt_us >> 3, us = tp->srtt_us >> 3;

	if (BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp) && stamped)
		us = stamped;
	return 1000 * min(us, LONGEST_RTT_US);
}

/* --- what has come ---------------------------------------------------------------------------- */

/* A burst often ends with PSH. Who forges one has more ACKs pass, for a window at most. */
SEC("cgroup_skb/ingress")
int thin_ingress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct tcp_header h;
	struct tcp_sock *tp;
	struct flow *f;
	u32 at, end;
	u8 ecn;

	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	f = sk ? bpf_sk_storage_get(&flows, sk, NULL, 0) : NULL;
	if (!f)
		return 1;
	at = tcp_header_at(skb, &h, &ecn);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!at || !tp || !(h.flags & PSH))
		return 1;
	end = bpf_ntohl(h.seq) + skb->len - at - (h.offset >> 4) * 4;
	if (before(end, tp->rcv_nxt) || end - tp->rcv_nxt > tp->rcv_wnd)
		return 1;
	if (!f->push || before(f->pushed, end))
		f->pushed = end;
	f->push = true;
	return 1;
}

/* New data is acknowledged: how much comes in an RTT? Bytes below 2^31, times below 2^35: the product fits 2^64 by the first line. */
static inline void measure(struct flow *f, u32 ack, u64 rtt_ns, u64 now)
{
	u64 elapsed = now - f->epoch_ns, bytes = min(ack - f->epoch_ack, 1 << 28);

	if (now - f->came_ns > max(rtt_ns, SILENCE_NS)) { /* the sender was idle */
		f->thin_from = ack + START_BYTES;
		f->rtt_bytes = 0;
	} else if (!rtt_ns || elapsed < rtt_ns) {
		return;
	} else {
		f->rtt_bytes = bytes * rtt_ns / elapsed;
	}
	f->epoch_ns = now;
	f->epoch_ack = ack;
}

/* --- which ACKs pass ---------------------------------------------------------------------------- */

/* Timestamps alone, or nothing: SACK, AccECN, MPTCP, a controller's own option are news. */
static inline bool is_plain(struct __sk_buff *skb, const struct tcp_header *h)
{
	u32 words = h->offset >> 4;
	__be32 first;

	if (words == WORDS_PLAIN)
		return true;
	return words == WORDS_STAMP && !bpf_skb_load_bytes(skb, skb->len - 12, &first, sizeof(first)) &&
	       first == bpf_htonl(STAMP_WORD);
}

/*
 * A gap: each ACK reports all that lies beyond it, or its last three blocks. Where the reverse rate is known to be small, the first
 * ones and those with a new block pass, else all.
 */
static inline bool gap_passes(struct __sk_buff *skb, const struct tcp_header *h, struct flow *f, u32 ack, u8 blocks)
{
	bool passes = !reverse_kbit || ack != f->last_ack || f->dups < DUPS || blocks != f->blocks ||
		      reports_duplicate(skb, h, ack);

	f->dups = ack == f->last_ack ? min(f->dups + 1, DUPS) : 0;
	f->blocks = blocks;
	return passes;
}

/* An ACK covers the bytes of so many to an RTT. */
static inline u32 per_rtt(void)
{
	u32 kbit = reverse_kbit;

	return max(kbit ? least_per_rtt : acks_per_rtt, 1);
}

/* Bytes that an ACK covers. */
static inline u32 share(const struct flow *f, u32 mss)
{
	u64 bytes = f->rtt_bytes / per_rtt();

	if (!reverse_kbit)
		bytes = min(bytes, max_packets * mss);
	return bytes >> min(f->halvings, 8);
}

/* What the kernel says once more, the sender has not heard: dropped, or lost. */
static inline void stalled(struct flow *f, u32 ack)
{
	COUNT(stalls);
	if (f->halvings < 8)
		f->halvings++;
	f->thin_from = ack + START_BYTES;
}

static __always_inline bool
must_pass(struct flow *f, const struct tcp_sock *tp, u32 ack, u32 right, u64 rtt_ns, u64 now)
{
	u32 mss = ((const struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;
	u32 known = f->passed_right - ack, half = (right - ack) / 2, edge = EDGE_PACKETS * mss;
	if (f->push) {
		f->push = before(ack, f->pushed);
		return true;
	}
	if ((!reverse_kbit && before(ack, f->thin_from)) || now - f->passed_ns > max(SILENCE_NS, rtt_ns / per_rtt()))
		return true;
	if ((s32)known < 0 || known < max(edge, half))
		return true;
	return ack - f->passed_ack >= share(f, mss);
}

/* Takes the time of an ACK of so many bytes, if the reverse rate has room for it, or it passes anyhow. */
static inline bool has_room(u32 len, bool passes, u64 now)
{
	u32 kbit = reverse_kbit;
	u64 cost = (u64)len * 8 * 1000000, backlog = backlog_ns(now);

	if (!kbit)
		return false;
	cost /= kbit;
	if (!passes && backlog)
		return false;
	through_ns = now + backlog + cost;
	return true;
}

SEC("cgroup_skb/egress")
int thin_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct tcp_header h;
	struct tcp_sock *tp;
	struct flow *f;
	u32 ack, right;
	u64 rtt_ns, now;
	bool pass;
	u16 flags;

	if (!thins || !sk || !pure_ack(skb, &h))
		return 1;
	sk = bpf_sk_fullsock(sk);
	tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	if (!tp || tp->bytes_received < START_BYTES)
		return 1;
	f = bpf_sk_storage_get(&flows, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return 1;
	now = bpf_ktime_get_ns();
	rtt_ns = rtt_of(tp);
	ack = bpf_ntohl(h.ack);
	right = tp->rcv_wup + tp->rcv_wnd;
	flags = (h.offset & 15) << 8 | h.flags; /* AccECN has one more bit */
	pass = flags != f->flags || before(bpf_ntohl(h.seq), tp->snd_una);
	if (tp->rx_opt.num_sacks) {
		if (!f->blocks) /* a loss: the sender will halve its window */
			f->rtt_bytes /= 2;
		f->thin_from = ack + START_BYTES;
		pass = gap_passes(skb, &h, f, ack, tp->rx_opt.num_sacks) || pass;
		f->came_ns = now;
	} else if (ack == f->last_ack) { /* somebody asked, sent what is here already, or the window grows */
		if (ack != f->passed_ack && right == f->last_right)
			stalled(f, ack);
		pass = true;
	} else {
		f->blocks = 0;
		measure(f, ack, rtt_ns, now);
		pass = !is_plain(skb, &h) || now - f->came_ns > rtt_ns / 2 || pass;
		f->came_ns = now;
		pass = must_pass(f, tp, ack, right, rtt_ns, now) || pass;
	}
	pass = has_room(skb->len, pass, now) || pass;
	f->last_ack = ack;
	f->last_right = right;
	if (!pass) {
		COUNT(acks_suppressed);
		return 0;
	}
	COUNT(acks_sent);
	f->passed_ack = ack;
	f->passed_right = right;
	f->passed_ns = now;
	f->flags = flags;
	return 1;
}
