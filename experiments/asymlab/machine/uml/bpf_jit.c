// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * x86-64's BPF JIT in User Mode Linux: the file as it is, with what it asks of the kernel around it.
 *
 * One CPU, memory that is writable and executable, no retpolines, no CFI, no ftrace. The kernel's text, its
 * "physical" memory and the vmalloc area lie within 2 GB, so that calls of 32 bits reach.
 */
#include <linux/version.h>
#include <linux/netdevice.h>
#include <linux/filter.h>
#include <linux/if_vlan.h>
#include <linux/bitfield.h>
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/memory.h>
#include <linux/sort.h>
#include <linux/extable.h>
#include <linux/mutex.h>
#include <linux/mm.h>
#include <asm/extable.h>
#include <asm/ptrace.h>
#include <asm/sections.h>
#include <asm/sigcontext.h>
#include <asm/cfi.h>
#include <asm/ibt.h>

/* Headers of x86 that are not for us. */
#define _ASM_X86_FTRACE_H
#define _ASM_X86_SET_MEMORY_H
#define _ASM_X86_NOSPEC_BRANCH_H_
#define _ASM_X86_TEXT_PATCHING_H
#define _ASM_X86_UNWIND_H

/* The code asks for these: none of the CPU's own troubles. */
#undef cpu_feature_enabled
#define cpu_feature_enabled(bit) 0
#undef boot_cpu_has
#define boot_cpu_has(bit) 0
#define cpu_wants_rethunk() false
#define x86_return_thunk NULL
#define clear_bhb_loop NULL
#define its_static_thunk(reg) NULL
static void *__x86_indirect_thunk_array[16], *__x86_indirect_jump_thunk_array[16];

static const unsigned char nops[][8] = {
	{ 0x90 },
	{ 0x66, 0x90 },
	{ 0x0f, 0x1f, 0x00 },
	{ 0x0f, 0x1f, 0x40, 0x00 },
	{ 0x0f, 0x1f, 0x44, 0x00, 0x00 },
	{ 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00 },
	{ 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00 },
	{ 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00 },
};
static const unsigned char *const um_nops[] = {
	NULL, nops[0], nops[1], nops[2], nops[3], nops[4], nops[5], nops[6], nops[7],
};
#define x86_nops um_nops
#undef ASM_NOP_MAX
#define ASM_NOP_MAX 8

/* Text is memory. */
#undef text_poke_copy
#define text_poke_copy(dst, src, len) memcpy(dst, src, len)
#define text_poke_set(dst, c, len) memset(dst, c, len)
#define smp_text_poke_single(ip, insn, len, emulate) memcpy(ip, insn, len)
#define text_poke_bp(ip, insn, len, emulate) memcpy(ip, insn, len)

/* Kernel addresses begin where the kernel does: (addr - 0) > TASK_SIZE_MAX + PAGE_SIZE - 0. */
#undef VSYSCALL_ADDR
#define VSYSCALL_ADDR 0UL
#undef TASK_SIZE_MAX
#define TASK_SIZE_MAX (0x60000000UL - 2 * PAGE_SIZE)

/* A fault's registers are those of the host's signal frame; they begin as sigcontext_64 does. */
#define pt_regs sigcontext_64
#define ex_handler_bpf um_ex_handler_bpf
#define bpf_jit_supports_timed_may_goto x86_bpf_jit_supports_timed_may_goto
#define bpf_jit_supports_private_stack x86_bpf_jit_supports_private_stack
bool um_ex_handler_bpf(const struct exception_table_entry *x, struct pt_regs *regs);
bool x86_bpf_jit_supports_timed_may_goto(void);
bool x86_bpf_jit_supports_private_stack(void);

#include "../net/bpf_jit_comp.c"

#undef pt_regs
#undef bpf_jit_supports_timed_may_goto
#undef bpf_jit_supports_private_stack

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
static bool um_host_lags(struct sigcontext_64 *regs)
{
	pte_t *pte = virt_to_pte(&init_mm, regs->cr2);

	return pte && pte_present(*pte) && pte_newpage(*pte);
}
#else
enum cfi_mode cfi_mode = CFI_OFF;

static bool um_host_lags(struct sigcontext_64 *regs)
{
	return init_mm.context.sync_tlb_range_to;
}
#endif

int um_bpf_fixup(void *mc);

/* In the host's signal handler (os-Linux/signal.c). Mappings that the host does not know yet come first. */
int um_bpf_fixup(void *mc)
{
	struct sigcontext_64 *regs = mc;
	const struct exception_table_entry *e;

	if (um_host_lags(regs))
		return 0;
	e = search_bpf_extables(regs->ip);
	return e && um_ex_handler_bpf(e, regs);
}
