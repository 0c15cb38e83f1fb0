/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `use --share`: what use.bpf.c counts of connections that have ended, by group. */
#ifndef SHARE_H
#define SHARE_H

#define SHARE_FULL 10000u /* hundredths of a percent */
#define SHARE_OCTAVES 40  /* is added to log2(bytes/ns), so that it is positive */

/*
 * Logarithms are log2 in units of 1/256, at most 2^14. Sums of them fit for 2^50 connections, sums of squares (2^28 each)
 * for 2^36. A connection counts with at most 2^20 segments, so sums of squares of those fit for 2^24 of the largest.
 */
struct share_group {
	__u64 connections;                       /* that sent data */
	__u64 goodputs, goodput, goodput_square; /* of log2(bytes acknowledged / ns that it had data to send) */
	__u64 rtts, rtt, rtt_square;             /* of log2(smoothed RTT / us) */
	__u64 segments, resent, segments_square, resent_square, product;
};

struct shares {
	struct share_group group[2]; /* [1]: those that were given the controller */
	__u64 stopped;               /* CLOCK_BOOTTIME, ns; 0: it is still given */
};

#endif
