/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formosa's TCP options, and what its two halves know of a connection. */
#ifndef FORMOSA_OPTIONS_BPF_H
#define FORMOSA_OPTIONS_BPF_H

#include "delay.bpf.h"

/*
 * Experimental TCP options (RFC 6994), 16-bit ExIDs, not registered:
 *   hello   4 bytes, SYN and SYN-ACK: "I answer data options"
 *   data   12 bytes, each data segment of the sender
 *   answer  8 bytes, each segment of a receiver; absent where SACK blocks leave no room
 */
#define HELLO_EXID bpf_htons(0xF0A0)
#define DATA_EXID bpf_htons(0xF0A1)
#define ANSWER_EXID bpf_htons(0xF0A2)

#define DATA_A 0x80 /* first packet of its round */
#define DATA_T 0x40 /* answer at once: one more is wanted, or data or the peer's window end before a full segment */
#define DATA_P 0x20 /* answer at once and twice: a probe beyond W, or a repair that begins a round, unless ACKs queue */

struct data_option {
	u8 kind, len;
	__be16 exid;
	u8 flags;
	u8 round; /* mod 256 */
	__be16 srtt; /* 64 us, at most 4.2 s; 0: not known */
	__be32 stamp; /* sender's clock when it left, us */
};

#define ANSWER_F 0x10 /* the answer to a flagged packet */
#define ANSWER_SIGNAL 0x0f /* number of signals so far, mod 16 */

struct answer_option {
	u8 kind, len;
	__be16 exid;
	u8 signal;
	u8 round; /* newest round seen */
	__be16 queue; /* forward delay above its minimum, 64 us: for who watches */
};

/* --- what the halves share: one per socket --------------------------------------------------- */

struct wire {
	/* sender */
	bool sender; /* our controller runs on this socket */
	bool peer; /* the other end said hello */
	bool silent; /* but does not answer: fallback, for good */
	bool heard; /* an answer option came in this round */
	bool signalled; /* a new signal came */
	u8 deaf_rounds; /* rounds without an answer option */
	u8 deaf_timeouts; /* timeouts, and answers between them, but none to a new round */
	bool answered; /* an answer option came since the last timeout */
	u8 echo_then; /* echo at the last timeout */
	u8 round; /* number of the round, on the wire */
	u8 echo; /* newest round that the receiver has seen */
	u8 signal_seen;
	u8 answers; /* so many a round asks for */
	bool acks_queue; /* on their way: none is asked for that can be spared */
	u8 calm; /* rounds in a row whose first answer came */
	bool flag_is_new; /* the packet that began this round is no repair ... */
	u32 flag_end; /* ... and ends here */
	u32 segs; /* data_segs_out when this round began */
	u32 budget; /* W of this round */
	u32 srtt_us;
	u32 queue_us; /* as the receiver sees it */
	u32 squeue_us; /* smoothed as srtt_us is */
	u32 fitted_srtt, fitted_queue; /* srtt_us and squeue_us when W was last fitted to the RTT */

	/* receiver */
	bool receiving; /* data options come */
	bool thin; /* and the kernel answers flagged packets: other pure ACKs are dropped */
	u8 due; /* so many ACKs, the next ones, answer a flagged packet, or must pass for another reason */
	bool optioned; /* a data option came since the kernel's last ACK */
	bool gaps; /* data waits behind gaps */
	u8 nacks; /* so many reports of the newest gap are left */
	u8 last_round;
	u8 signal; /* number of signals given */
	u32 end; /* end of the data that came with an option */
	u32 d0; /* forward delay of the first packet, clocks' difference included, us */
	u32 peer_srtt_us;
	u32 last_ack; /* the kernel's last ACK, passed or not: its number ... */
	u32 last_right; /* ... and the right edge of its window */
	u32 passed_right; /* of the last that passed */
	u64 passed_ns; /* and when it did */
	struct estimate in;

	struct timestamps stamps; /* sender toward a peer without the receiver half */
};

#include "wire.bpf.h"

/* Do we speak Formosa on this connection? */
static inline bool sends_options(const struct wire *w)
{
	return w && w->sender && w->peer && !w->silent;
}

#endif
