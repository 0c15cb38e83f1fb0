/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ASYMLAB_COVERAGE_H
#define ASYMLAB_COVERAGE_H

#include <linux/filter.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/types.h>

#define COVERAGE_BITS 20
#define COVERAGE_AT (511ULL * SZ_1M) /* in the host's file `shared`, behind any results */

unsigned char *um_coverage_of(u64 tag, u32 instruction);
void um_coverage_hand_out(int host);

/* For the JIT: an instruction that is no jump stores a one behind itself: movb $1, address. */
static inline u8 *um_mark(u8 *at, const struct bpf_prog *of, const struct bpf_insn *instruction, int number)
{
	u8 class = BPF_CLASS(instruction->code);
	u32 address;
	u64 tag;

	if (!IS_ENABLED(CONFIG_ASYMLAB_COVERAGE) || class == BPF_JMP || class == BPF_JMP32)
		return at;
	memcpy(&tag, of->tag, sizeof(tag));
	address = (unsigned long)um_coverage_of(tag, number);
	*at++ = 0xc6;
	*at++ = 0x04;
	*at++ = 0x25;
	memcpy(at, &address, sizeof(address));
	at += sizeof(address);
	*at++ = 1;
	return at;
}

#endif
