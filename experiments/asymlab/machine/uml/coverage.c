// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which branches of TCP and of BPF programs a run reaches: a byte each, at the hash of its place.
 *
 * The compiler puts a call into each block of net/ipv4/tcp*.c, and the JIT a store behind each instruction of a BPF
 * program (um_mark()). The bytes go out with a run's results. No clock and no result knows of them.
 */
#include <linux/hash.h>
#include <asymlab_coverage.h>
#include <os.h>

unsigned char um_coverage[1 << COVERAGE_BITS];

static u32 last; /* the block before: a branch is a pair of blocks */

void __sanitizer_cov_trace_pc(void);

void notrace __sanitizer_cov_trace_pc(void)
{
	u32 here = hash_long((unsigned long)__builtin_return_address(0), COVERAGE_BITS);

	um_coverage[here ^ last] = 1;
	last = here >> 1;
}

/* The byte of an instruction of a BPF program, which its tag names. */
unsigned char *um_coverage_of(u64 tag, u32 instruction)
{
	return &um_coverage[hash_64(tag + instruction, COVERAGE_BITS)];
}

void um_coverage_hand_out(int host)
{
	os_pwrite_file(host, um_coverage, sizeof(um_coverage), COVERAGE_AT);
}
