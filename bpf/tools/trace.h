/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The file that `asymcc trace` writes: one header, then records, 64 bytes each, little endian.
 * The first 16 bits of a record tell its type; a reader skips types it does not know.
 * Times are ns of CLOCK_MONOTONIC. Ports are in host order, IPv4 and IPv6 alike.
 *
 * ACK records are in order of time within a CPU. A bin is written when it is over and something
 * of a later bin came, so bins come after ACK records of the same time; empty bins are not
 * written. With --state two STATE records follow each ACK record directly. The last record is END:
 * a file without it was cut off.
 */
#ifndef TRACE_H
#define TRACE_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define TRACE_MAGIC "ASYMCCT1"
#define TRACE_VERSION 1
#define TRACE_NAME_LEN 16
#define TRACE_RING_BYTES (16 << 20) /* with its headers 233000 records, or 83000 ACKs with state */
#define TRACE_MAX_SOCKS 8192
#define TRACE_MAX_LINKS 64

enum { TRACE_ACK = 1, TRACE_GOODPUT = 2, TRACE_LINK = 3, TRACE_END = 4, TRACE_STATE = 5 };

struct trace_header {
	char magic[8];
	__u32 version;
	__u32 record_size;    /* 64 */
	__u64 bin_ns;
	__u64 start_ns;       /* when tracing began */
	__u64 pad[4];
};

/*
 * A sender got an ACK that covers new data, or a segment without payload. With --every-ms the first
 * such of each interval has a record, and the others have none. The state is that before the kernel processes the ACK; only sockets in ESTABLISHED are seen, so what is
 * acknowledged after close() is not.
 */
enum { TRACE_CWND_LIMITED = 1, TRACE_ECE = 2, TRACE_PAYLOAD = 4, TRACE_APP_LIMITED = 8 };

struct trace_ack {
	__u16 type;
	__u16 lport, rport;
	__u8 ca_state;        /* 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss */
	__u8 flags;
	__u64 t_ns;
	__u32 cwnd;           /* packets */
	__u32 ssthresh;       /* packets */
	__u32 srtt_us;        /* smoothed; 0: none yet */
	__u32 rtt_us;         /* latest sample, of an earlier ACK; 0: none yet */
	__u32 in_flight;      /* packets */
	__u32 acked;          /* bytes of new data that this ACK covers, with those that have no record */
	__u64 pacing_rate;    /* bytes/s; all ones: not paced */
	__u32 total_retrans;  /* segments, so far */
	__u32 delivered;      /* segments, so far */
	__u32 lost;           /* segments, so far */
	__u32 mss;            /* bytes of payload a segment */
};

/*
 * The controller's state of the connection, in two parts: the 104 bytes of icsk_ca_priv, at
 * the time of the ACK record before it and, like that, before the ACK is processed. `asymcc show
 * NAME --json` tells a controller's members: offset, bytes.
 */
#define TRACE_STATE_BYTES 56

struct trace_state {
	__u16 type;
	__u16 lport, rport;
	__u16 part;           /* 0, then 1 */
	__u8 bytes[TRACE_STATE_BYTES];
};

/*
 * The bytes that one socket received in order in one bin. An advance counts at the time of its segment.
 * The advance by a socket's last segment is foretold, not seen: too low if it closed one of several gaps.
 */
struct trace_goodput {
	__u16 type;
	__u16 lport, rport;
	__u16 pad;
	__u64 t_ns;           /* start of the bin, a multiple of bin_ns */
	__u64 bytes;          /* that became readable */
	__u32 segments;       /* with payload */
	__u32 not_next;       /* of those: out of order, or repeated */
	__u64 cookie;         /* of the socket: ports may be used again */
	__u64 pad2[3];
};

/*
 * The packets that left one device's queue in one bin. Meant for a shaper such as tbf at the root: a packet
 * that meets an empty pfifo, fq_codel or the like bypasses the queue and is not seen, and a qdisc
 * that several CPUs drain without lock (pfifo_fast) gives no qlen. Devices of one name in several
 * namespaces count as one.
 */
struct trace_link {
	__u16 type;
	__u16 pad;
	__u32 packets;
	__u64 t_ns;           /* start of the bin, a multiple of bin_ns */
	char name[TRACE_NAME_LEN];
	__u64 bytes;          /* with link-layer header, as tc counts */
	__u32 pure_acks;      /* TCP without payload, SYN, FIN and RST */
	__u32 qlen_max;       /* packets, the departing one included */
	__u64 qlen_sum;       /* packets left behind, over departures: / packets = mean */
	__u32 drops;          /* of the root qdisc since it exists */
	__u32 unseen;         /* packets behind the first of a bulk: not in bytes, pure_acks */
};

struct trace_end {
	__u16 type;
	__u16 pad[3];
	__u64 t_ns;
	__u64 acks, goodput, links; /* records in this file */
	__u64 lost;                 /* records that found the ring, or the table of sockets, full */
	__u64 states;               /* records, two an ACK */
	__u64 pad2;
};

_Static_assert(sizeof(struct trace_header) == 64, "");
_Static_assert(sizeof(struct trace_ack) == 64, "");
_Static_assert(sizeof(struct trace_state) == 64, "");
_Static_assert(sizeof(struct trace_goodput) == 64, "");
_Static_assert(sizeof(struct trace_link) == 64, "");
_Static_assert(sizeof(struct trace_end) == 64, "");

/* The BPF side's only global variable. */
#define TRACE_MAX_CPUS 8192

struct trace_counts {
	__u64 lost;           /* records that found the ring, or the table of sockets, full */
	__u64 within;         /* segments received while this CPU traced another */
	__u8 busy[TRACE_MAX_CPUS];
};

/* A sender, if not each ACK has a record. */
struct trace_sender {
	__u64 next_ns;        /* from then on the next record */
	__u32 acked;          /* bytes since the last one */
};

/* Open bins, shared by the BPF side and the loader. packets/segments and bytes 0: nothing open. */
struct trace_sock {
	struct trace_goodput bin;
	__u64 end_ns;
	__u32 nxt;            /* rcv_nxt up to which bytes are counted */
	__u32 expect;         /* rcv_nxt that the last segment leads to */
	__u32 fin;            /* a FIN came, maybe behind a gap ... */
	__u32 fin_seq;        /* ... with this sequence number */
};

struct trace_dev {
	struct trace_link bin;
	__u64 end_ns;
};

/* One end of a connection, as --flow names it; an IPv4 address in its mapped form, ::ffff:a.b.c.d. */
struct trace_flow_end {
	__u8 address[16];
	__u16 port;
};

static inline void trace_map_v4(struct trace_flow_end *end, __u32 address)
{
	end->address[10] = end->address[11] = 0xff;
	__builtin_memcpy(&end->address[12], &address, 4);
}

#endif
