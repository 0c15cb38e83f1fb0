/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `asymcc thin`: its values and counters, and what it knows of a connection and of the packets at hand. */
#ifndef THIN_FLOW_BPF_H
#define THIN_FLOW_BPF_H

#include "../declare.bpf.h"
#include "../packet.bpf.h"

TUNABLE(u8, thins, 1, 0, 1, "-", "0: every ACK passes");
TUNABLE(u32, acks_per_rtt, 16, 2, 1000, "ACKs", "ACKs that a sender gets in each RTT at least ...");
TUNABLE(u32, least_per_rtt, 2, 1, 1000, "ACKs", "... and where `reverse_kbit` is given, and has no room for more");
TUNABLE(u8, waits_only, 1, 0, 1, "-", "1: without `reverse_kbit` drops ACKs only while they wait, as timestamps tell");
TUNABLE(u32, max_packets, 16, 2, 256, "packets", "packets that an ACK covers at most");
TUNABLE(u32, reverse_kbit, 0, 0, 10000000, "kbit/s",
	"rate for the ACKs of all connections; drops only those that it has no room for. 0: not known");

TUNABLE(s32, overhead, 0, -64, 256, "bytes", "that an ACK takes at the bottleneck beside its IP packet");
TUNABLE(s32, mpu, 0, 0, 256, "bytes", "that an ACK takes there at least, with `overhead`");
TUNABLE(u8, atm, 0, 0, 1, "-", "1: there it takes whole cells of 53 bytes, of which 48 are its own");

COUNTER(acks_suppressed, "pure ACKs that were dropped");
COUNTER(acks_sent, "pure ACKs that passed, each for one of these reasons:");
COUNTER(sent_start, "in the first 64 kB, or in those after a pause, a loss or a stall");
COUNTER(sent_silence, "the first for a while: 20 ms, or a share of the RTT");
COUNTER(sent_share, "it covers as many packets as an ACK may");
COUNTER(sent_room, "the uplink has room for it: by `reverse_kbit`, or as no ACK waits");
COUNTER(sent_train, "one in 2 ms while the sender's window doubles");
COUNTER(sent_tail, "the end of what the application sends, a FIN, or asked for by the sender");
COUNTER(sent_window, "the sender knows of a small window, or of one that is no more");
COUNTER(sent_sack, "a gap, its end, or a duplicate");
COUNTER(sent_again, "its number was said before: a window update, an answer, a probe");
COUNTER(sent_ecn, "marks: a change of the ECN bits, DCTCP, a counter that could wrap");
COUNTER(sent_option, "an option that a later ACK does not repeat, such as MPTCP's");
COUNTER(acks_over, "ACKs that passed as the senders need more than `reverse_kbit`");
COUNTER(acks_beside, "ACKs that passed as this machine sends data beside them");
COUNTER(stalls, "times that a sender waited for an ACK that was dropped");

enum {
	START_BYTES = 64 * 1024, /* at first, after idle and after a stall each ACK passes */
	SILENCE_NS = 20000000,   /* an ACK passes after so long, or its share of an RTT, without one */
	INITIAL_PACKETS = 10,    /* the packets that a sender begins with, and again after idle (RFC 6928) */
	LONGEST_RTT_US = 1 << 25, /* 33 s */
	OPTIONS_MAX = 16,         /* options of a segment that are looked at */
	NONE = -1,
};

/* --- a connection ------------------------------------------------------------------------------- */

struct rtt {
	u64 smooth_ns;   /* 0: no sample yet */
	u64 shortest_ns; /* of the samples */
	u64 stamp_ns;    /* when the ACK that is timed left; 0: none is */
	u32 stamp;       /* the timestamp in it */
};

/* Bytes are counted over an RTT. */
struct round {
	u64 began_ns;
	u32 ack;      /* its number when the round began */
	u32 bytes;    /* that came in the last one; 0: not known yet */
	bool doubles; /* in the last one a quarter more came than in that before */
};

/* The peer's timestamps. */
struct clock {
	u64 began_ns; /* when the first came; 0: none has */
	u32 began;    /* the first */
	bool in_ms;   /* they count ms */
};

/* TSval less TSecr in ms: the way of an ACK to the sender, by clocks that differ. */
struct way {
	u64 least_ns;  /* when `least` was last set, or raised by the clocks' drift */
	u32 least;     /* the least: a way without a queue */
	u32 least_now; /* the least of this round ... */
	bool timed;    /* ... if it has one */
};

/* Our timestamps: those that left in this round, and those that the sender echoed. */
struct stamps {
	u32 sent, sent_last;   /* their number, and the newest */
	u32 heard, heard_last; /* the same */
};

/* Space between the ACKs that wait in a queue. */
struct pace {
	u64 space_ns;  /* the least time between two; 0: they do not wait */
	u64 room_ns;   /* when there is room for the next: the mean space counts */
	u64 futile_ns; /* until then fewer ACKs do not help */
	u32 queue_ms;  /* how long they waited in the round before */
	u32 changed;   /* the newest timestamp when `space_ns` was set */
	u8 stands;     /* rounds in which ACKs had a queue and none was lost, up to STANDS */
	u8 futile;     /* times that no space helped, up to FUTILE */
	bool helps;    /* space between the ACKs does */
	bool settles;  /* what comes in this round does not tell of `space_ns` yet */
};

/* The ACKs that report a gap. */
struct gap {
	u32 edge;   /* left edge of the newest block of SACK in the last of them */
	u8 blocks;  /* of SACK in the last of them; 0: there is no gap */
	u8 acks;    /* their number, up to DUPS */
	u8 share;   /* packets that each covers */
	u8 dropped; /* since one passed */
};

/* The end of what the application sends. */
struct tail {
	u64 push_ns; /* when the last segment with PSH came */
	u32 push;    /* its end */
	u32 end;
	bool due; /* the ACK of `end` is waited for */
};

/* An ACK of the kernel: its number, and the right edge of its window. */
struct ack {
	u32 number;
	u32 right;
};

/* The last ACK that passed as it was due, or as there was room for it. */
struct due {
	u64 ns;
	u32 ack;
};

/* Times that the sender waited for an ACK that was dropped. */
struct stall {
	u64 ns;      /* the last one, or when a halving was taken back */
	u8 halvings; /* of what an ACK covers */
};

/* A connection's part of `reverse_kbit`. */
struct turn {
	u64 through_ns; /* when its ACKs are through at that */
	u64 counted_ns; /* when the period began in which it was counted */
};

struct flow {
	struct rtt rtt;
	struct round round;
	struct clock clock;
	struct way way;
	struct stamps stamps;
	struct pace pace;
	struct gap gap;
	struct tail tail;
	struct stall stall;
	struct turn turn;
	struct due due;
	struct ack last;   /* the kernel's last ACK, passed or not */
	struct ack passed; /* the last that passed */
	u64 came_ns;        /* the last ACK of new data that the kernel sent */
	u32 thin_from;      /* below this number each ACK passes */
	u16 flags;          /* of the last ACK that passed */
	u8 asked;           /* packets that an ACK covers at most, as the sender asked; 0: it did not */
	bool counts;        /* the kernel's last ACK had AccECN's counters */
};

/* The receiver of the data, as its socket or its packets show it. */
struct receiver {
	u64 handshake_ns; /* the handshake's RTT; 0: not known */
	u64 behind_ns;    /* what an RTT that is timed here lacks: the way to the receiver and back */
	u32 rcv_nxt;      /* next byte that it expects ... */
	u32 rcv_wnd;      /* ... and how many it takes */
	u32 snd_una;      /* of its own data the first byte that is not acknowledged ... */
	u32 snd_nxt;      /* ... and the end of what it has sent */
	u32 mss;          /* bytes of payload in a segment that comes; 0: none has */
};

/*
 * Timestamps tell it; without them the handshake's RTT stands. Both are no longer than the sender's window takes, so that an ACK
 * covers no more than its share of that.
 */
static inline u64 rtt_of(const struct flow *f, const struct receiver *r)
{
	return f->rtt.smooth_ns ? f->rtt.smooth_ns : r->handshake_ns;
}

/* The RTT of the path without queues, as far as it is known: the handshake's, or a shorter one since. */
static inline u64 shortest_rtt(const struct flow *f, const struct receiver *r)
{
	u64 shortest_ns = f->rtt.shortest_ns;

	return shortest_ns && (!r->handshake_ns || shortest_ns < r->handshake_ns) ? shortest_ns : r->handshake_ns;
}

#endif
