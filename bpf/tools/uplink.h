/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The counts that uplink.bpf.c makes on the uplink's device, and `asymcc uplink` reads. Times are of CLOCK_MONOTONIC. */
#ifndef UPLINK_H
#define UPLINK_H

#define UPLINK_BIN_NS 20000000ULL
#define UPLINK_BINS 256 /* 5 s: an answer that takes longer tells nothing */

/* The way of packets that leave by the device, and of those that arrive. */
enum uplink_way { UPLINK_UP, UPLINK_DOWN, UPLINK_WAYS };

/* The packets that left in 20 ms, and their answers; on the way down those that arrived, which answer nothing: they have waited. */
struct uplink_bin {
	unsigned long long number; /* its begin / UPLINK_BIN_NS: a bin is used again */
	unsigned long long bytes; /* of all packets, as the link counts them */
	unsigned long long data; /* of those, bytes of TCP's payload */
	unsigned long long lost; /* bytes of payload that left for the second time */
	unsigned long long queue_ns; /* the least that a packet waited behind the device, by its answer ... */
	unsigned long long at_ns; /* ... and when that packet left, or began to wait */
	unsigned int at_bytes; /* of all packets till then, that one with them; the difference of two counts */
	unsigned int answers; /* 0: `queue_ns` is not known */
};

struct uplink_seen {
	struct uplink_bin bins[UPLINK_BINS];
	unsigned int bytes; /* of all packets that have left, or arrived */
	unsigned long long waits_ns; /* when the first data left that nobody has answered; 0: none waits */
	unsigned long long rtt_ns; /* of the last answers, smoothed */
	unsigned long long heard_ns; /* when a connection told a queue last */
	unsigned long long entry_ns; /* when the last connection got an entry */
};

/* Why the rate is as it is. */
enum uplink_cause {
	UPLINK_SEARCH, /* no queue has been seen */
	UPLINK_IDLE, /* it is not in use */
	UPLINK_GROWTH, /* it is in use, and nothing waits in the modem */
	UPLINK_QUEUE, /* packets wait there */
	UPLINK_LOSS, /* more is lost than by chance */
	UPLINK_SILENCE, /* nobody answers */
	UPLINK_DRAIN, /* a queue that stays: is its base right? */
	UPLINK_PATH, /* the way has become longer, which is no queue */
	UPLINK_CAUSES
};

/* The loader's words to it, and to those who ask what `asymcc uplink` does. */
struct uplink_told {
	unsigned long long rate, capacity; /* bit/s; 0: not known */
	unsigned long long ticks[UPLINK_CAUSES]; /* of 40 ms, by the cause of their rate */
	unsigned int cause; /* of the last one */
	unsigned long long queue_ns; /* of the modem, by the last answers */
	unsigned long long rebase_ns; /* so much longer the way has become, in all */
};

#endif
