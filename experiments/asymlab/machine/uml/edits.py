# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Our edits to a kernel's source: User Mode Linux with BPF's JIT, and with nothing of the host's in it.

They fit 6.1, 6.12 and 7.3. Each names a place by a regular expression: a source without that place is
refused, so that no edit is lost in silence.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ... import LabError

JIT = Path(__file__).with_name("bpf_jit.c")
SHARED = Path(__file__).with_name("shared.c")
PROGRAMS = Path(__file__).with_name("programs.c")
REWIND = Path(__file__).with_name("rewind.c")
COVERAGE = Path(__file__).with_name("coverage.c")


@dataclass(frozen=True)
class Edit:
    file: str
    why: str
    old: str  # a regular expression; `^` and `$` are of lines
    new: str
    where: str = ""  # only if the file has this text


@dataclass(frozen=True)
class New:
    file: str
    why: str
    text: str


# Settings of a network namespace, net.ipv4..., that the edits in net/ bring.
RECOVERIES = ("tcp_newreno_impatient", "tcp_reno_classic")
MAPPING = {
    "arch/um/os-Linux/skas/mem.c": ("map", "unmap", "protect"),
    "arch/um/kernel/tlb.c": ("kern_map", "kern_unmap", "kern_mprotect"),
}
PROCESS = "arch/um/os-Linux/skas/process.c"
VISITS = "\t\t\t\thandle_trap(pid, regs);\n"  # 6.12 has them so
KEPT_FP = """int um_fp_of; /* the process that was visited last, and what its floating-point registers were then */
static unsigned long last_fp[MAX_FP_NR];

static int has_fp(int pid, const unsigned long *fp)
{
	unsigned long difference = pid ^ um_fp_of;
	int i;

	for (i = 0; i < MAX_FP_NR; i++)
		difference |= fp[i] ^ last_fp[i];
	return !difference;
}

"""
SPDX = "/* SPDX-License-Identifier: GPL-2.0 */\n"
EDITS: tuple[Edit | New, ...] = (
    # --- BPF: x86's own JIT, tracing, storage of sockets
    New("arch/x86/um/bpf_jit.c", "x86's JIT, and what it asks of the kernel around it", JIT.read_text()),
    Edit(
        "arch/x86/um/Makefile",
        "builds it",
        r"^(subarch-\$\(CONFIG_MODULES\) \+=)",
        r"obj-$(CONFIG_BPF_JIT) += bpf_jit.o\n\n\1",
    ),
    Edit(
        "arch/um/Kconfig",
        "there is a JIT, and there are perf's events for BPF to attach to",
        r"^(\tselect HAVE_UID16\n)",
        r"\1\tselect HAVE_EBPF_JIT if X86_64\n\tselect ARCH_WANT_DEFAULT_BPF_JIT if X86_64\n"
        r"\tselect HAVE_PERF_EVENTS\n",
    ),
    New(
        "arch/um/include/asm/perf_event.h",
        "software events alone: x86's header is for hardware that is not there",
        SPDX + "#ifndef __ASM_UM_PERF_EVENT_H\n#define __ASM_UM_PERF_EVENT_H\n#endif\n",
    ),
    Edit(
        "kernel/trace/Kconfig",
        "BPF programs attach to tracepoints; kprobes and uprobes are not there",
        r"depends on \(KPROBE_EVENTS \|\| UPROBE_EVENTS\) && PERF_EVENTS\n\tbool",
        "depends on (KPROBE_EVENTS || UPROBE_EVENTS || UML) && PERF_EVENTS\n\tbool",
    ),
    New(
        "arch/um/include/asm/extable.h",
        "the JIT writes exception tables as x86's assembly does",
        SPDX + '#include "../../../x86/include/asm/extable.h"\n',
    ),
    Edit(
        "arch/um/os-Linux/signal.c",
        "a BPF program may read through a pointer that leads nowhere: it gets 0",
        r"^static void sig_handler_common\(",
        "/* arch/x86/um/bpf_jit.c has another. */\nint um_bpf_fixup(void *mc);\n\n"
        "int __attribute__((weak)) um_bpf_fixup(void *mc)\n{\n\treturn 0;\n}\n\nstatic void sig_handler_common(",
    ),
    Edit(
        "arch/um/os-Linux/signal.c",
        "the same",
        r"^(\tr\.is_user = 0;\n)",
        r"\t/* A BPF program's probing load: past it, with its target cleared. */\n"
        r"\tif (sig == SIGSEGV && um_bpf_fixup(mc))\n\t\treturn;\n\n\1",
    ),
    Edit(
        "mm/slub.c",
        "BPF's storage of sockets comes from kmalloc_nolock(), which refuses without cmpxchg16b for fear of an NMI: "
        "there is none here",
        r"if \(!\(s->flags & __CMPXCHG_DOUBLE\) && !kmem_cache_debug\(s\)\)\n",
        "if (!(s->flags & __CMPXCHG_DOUBLE) && !kmem_cache_debug(s) && !IS_ENABLED(CONFIG_UML))\n",
        where="kmalloc_nolock",
    ),
    Edit(
        "arch/um/os-Linux/user_syms.c",
        "the host's libc has no such function; 6.1 would give it to its modules",
        r"^EXPORT_SYMBOL_PROTO\(__xmknod\);\n",
        "",
        where="__xmknod",
    ),
    Edit(
        "arch/x86/Makefile.um",
        "6.1 builds with SSE by gcc, which wants a stack aligned to 16 bytes, and a BPF program's is not",
        r"^ifeq \(\$\(CONFIG_CC_IS_CLANG\),y\)\n(KBUILD_CFLAGS \+= -mno-sse)",
        r"ifeq ($(call gcc-min-version, 110000)$(CONFIG_CC_IS_CLANG),y)\n\1",
        where="ifeq ($(CONFIG_CC_IS_CLANG),y)\nKBUILD_CFLAGS += -mno-sse",
    ),
    Edit(
        "kernel/bpf/verifier.c",
        "a BPF program reads at any address: the CPU is an x86, which does so, and so does every x86 kernel",
        r"if \(!IS_ENABLED\(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS\)\)\n(\t\tenv->strict_alignment = true;)",
        r"if (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) && !IS_ENABLED(CONFIG_UML))\n\1",
    ),
    # --- the clock: of 1 ns, with ticks as Debian's
    Edit(
        "arch/um/Kconfig",
        "ticks of 4 ms, as Debian's kernels have, or as CONFIG_HZ of `--config` says",
        r"^(config HZ\n\tint)\n\tdefault 100",
        r'\1 "Ticks a second"\n\tdefault 250',
    ),
    Edit(
        "arch/um/include/linux/time-internal.h",
        "the clock has a resolution of 1 ns and not of 256; timers are not late",
        r"#define TIMER_MULTIPLIER 256\n#define TIMER_MIN_DELTA  500",
        "#define TIMER_MULTIPLIER 1\n#define TIMER_LOOK_NS 256\n#define TIMER_MIN_DELTA  1",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "a look at the clock still takes a process 256 ns: who waits for a time by looking gets there",
        r"time_travel_update_time_rel\(TIMER_MULTIPLIER\);",
        "if (tt_looks++ >= tt_free_looks)\n\t\t\t\ttime_travel_update_time_rel(TIMER_LOOK_NS);",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "but for so many in a row, none by default: a test of packetdrill's looks a dozen times, and shall not be late",
        r"^(static u64 timer_read\(struct clocksource \*cs\)\n)",
        "static unsigned int tt_free_looks;\nunsigned int tt_looks;\n\n"
        "static int __init setup_free_looks(char *str)\n{\n\treturn !kstrtouint(str, 0, &tt_free_looks);\n}\n"
        '__setup("free-looks=", setup_free_looks);\n\n'
        r"\1",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "the number of looks in a row",
        r"^(#include <linux/time-internal\.h>\n(?:#include .*\n)*)",
        r"\1\nextern unsigned int tt_looks;\n",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "another call ends the row; times() takes 10 us: who waits for a tick by it, as packetdrill does, gets there",
        r"^(\tif \(syscall >= 0 && syscall < __NR_syscalls\)(?: \{)?\n)",
        r"\tif (syscall != __NR_gettimeofday && syscall != __NR_clock_gettime)\n\t\ttt_looks = 0;\n"
        r"\tif (time_travel_mode == TT_MODE_INFCPU && syscall == __NR_times)\n"
        r"\t\ttime_travel_ndelay(10 * NSEC_PER_USEC);\n\1",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "timers are exact in virtual time",
        r"^\tdelta \+= 1;\n",
        "\tif (time_travel_mode == TT_MODE_OFF)\n\t\tdelta += 1;\n",
    ),
    Edit(
        "mm/oom_kill.c",
        "without memory the kernel ends, and not one of its processes: that one would never get the CPU to end on, "
        "because no tick comes while the kernel looks for memory",
        r"^static int sysctl_panic_on_oom;$",
        "static int sysctl_panic_on_oom = 1;",
    ),
    # --- how a loss is repaired without SACK (RFC 6582, RFC 2581): the only edits in net/, off by default
    *(
        edit
        for name in RECOVERIES
        for edit in (
            Edit(
                "include/net/netns/ipv4.h",
                "a setting of a network namespace, 0 by default",
                r"^(\tu8 sysctl_tcp_frto;\n)",
                rf"\1\tu8 sysctl_{name};\n",
            ),
            Edit(
                "net/ipv4/sysctl_net_ipv4.c",
                "the same",
                r'^(\t\{\n\t\t\.procname\t= "tcp_frto",\n)',
                f'\t{{\n\t\t.procname\t= "{name}",\n\t\t.data\t\t= &init_net.ipv4.sysctl_{name},\n'
                "\t\t.maxlen\t\t= sizeof(u8),\n\t\t.mode\t\t= 0644,\n\t\t.proc_handler\t= proc_dou8vec_minmax,\n"
                "\t\t.extra1\t\t= SYSCTL_ZERO,\n\t\t.extra2\t\t= SYSCTL_ONE,\n\t},\n"
                r"\1",
            ),
        )
    ),
    Edit(
        "include/net/tcp.h",
        "without SACK the first partial ACK of a recovery restarts the timer, and no later one. A recovery begins with "
        "undo_marker at snd_una, which its first partial ACK moves on",
        r"^(static inline bool tcp_in_cwnd_reduction\(const struct sock \*sk\)\n\{\n[^}]*\}\n)",
        r"\1\nstatic inline bool tcp_newreno_is_impatient(const struct sock *sk, u32 una)\n{\n"
        r"\tconst struct tcp_sock *tp = tcp_sk(sk);\n\n"
        r"\treturn READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_newreno_impatient) &&\n"
        r"\t       inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery && tcp_is_reno(tp) &&\n"
        r"\t       una != tp->undo_marker;\n}\n",
    ),
    Edit(
        "net/ipv4/tcp_input.c",
        "what an ACK acknowledges restarts the timer",
        r"^\tif \(flag & FLAG_SET_XMIT_TIMER\)\n(\t\ttcp_set_xmit_timer\(sk\);\n)",
        r"\tif ((flag & FLAG_SET_XMIT_TIMER) &&\n\t    !tcp_newreno_is_impatient(sk, prior_snd_una))\n\1",
    ),
    Edit(
        "net/ipv4/tcp_output.c",
        "a packet that is sent again does so too; the first partial ACK's has its timer by the edit above",
        r"^\tif \(rearm_timer\)\n",
        "\tif (rearm_timer && !tcp_newreno_is_impatient(sk, tcp_sk(sk)->snd_una))\n",
    ),
    Edit(
        "include/net/tcp.h",
        "without SACK the first new ACK ends a recovery, whatever it leaves unacknowledged",
        r"^(static inline bool tcp_in_cwnd_reduction\(const struct sock \*sk\)\n\{\n[^}]*\}\n)",
        r"\1\nstatic inline bool tcp_reno_is_classic(const struct sock *sk)\n{\n"
        r"\treturn READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_reno_classic) &&\n"
        r"\t       inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery && tcp_is_reno(tcp_sk(sk));\n}\n",
    ),
    Edit(
        "net/ipv4/tcp_input.c",
        "it does so as an ACK of all that was sent does",
        r"^\t\} else if \(!before\(tp->snd_una, tp->high_seq\)\) \{\n",
        "\t} else if (!before(tp->snd_una, tp->high_seq) ||\n"
        "\t\t   ((flag & FLAG_SND_UNA_ADVANCED) && tcp_reno_is_classic(sk))) {\n",
    ),
    # --- cheaper code
    Edit(
        "arch/um/Makefile",
        "calls and addresses of 32 bits: the kernel's code and data lie below 2 GB",
        r"-mcmodel=large",
        "-mcmodel=small",
        where="-mcmodel=large",
    ),
    Edit(
        "arch/x86/Makefile.um",
        "the compiler may copy and clear small things in place",
        r"-fno-builtin ",
        "",
        where="-fno-builtin ",
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "a write to a private page brings those around it: a fault takes three visits of the host's process",
        r"^(/\*\n \* Note this is constrained to return 0, -EFAULT, -EACCES, -ENOMEM by\n)",
        r"""static void um_fault_around(struct vm_area_struct *vma, unsigned long address, unsigned int flags)
{
	unsigned long first = max(vma->vm_start, address & ~0xffffUL);
	unsigned long end = min(vma->vm_end, (address | 0xffff) + 1);

	flags &= ~(FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE | FAULT_FLAG_INTERRUPTIBLE);
	for (; first < end; first += PAGE_SIZE)
		if (first != (address & PAGE_MASK) && (handle_mm_fault(vma, first, flags, NULL) & VM_FAULT_ERROR))
			break;
}

\1""",
        where="} while (!pte_present(*pte));\n\terr = 0;\n",
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "the same",
        r"^(\t\} while \(!pte_present\(\*pte\)\);\n\terr = 0;\n)",
        r"\1\tif (is_write && is_user && !(vma->vm_flags & VM_SHARED))\n\t\tum_fault_around(vma, address, flags);\n",
        where="} while (!pte_present(*pte));\n\terr = 0;\n",
    ),
    Edit(
        "mm/memory.c",
        "a program's pages come with more of those around them",
        r"65536 >> PAGE_SHIFT;",
        "(512 << 10) >> PAGE_SHIFT;",
        where="65536 >> PAGE_SHIFT;",
    ),
    Edit(
        PROCESS,
        "a process that goes on as it stopped keeps its floating-point registers: to give them takes as long as a call",
        r"^(void userspace\(struct uml_pt_regs \*regs)",
        KEPT_FP + r"\1",
        where=VISITS,
    ),
    Edit(
        PROCESS,
        "the same",
        r"if \(put_fp_registers\(pid, regs->fp\)\)",
        "if (!has_fp(pid, regs->fp) && put_fp_registers(pid, regs->fp))",
        where=VISITS,
    ),
    Edit(
        PROCESS,
        "the same",
        r"^(\t\tUPT_SYSCALL_NR\(regs\) = -1;)",
        r"\t\tum_fp_of = pid;\n\t\tmemcpy(last_fp, regs->fp, sizeof(last_fp));\n\n\1",
        where=VISITS,
    ),
    Edit(
        "arch/x86/um/os-Linux/registers.c",
        "the host takes floating-point registers as long as its own: "
        "a CPU with AMX has more, which no program here gets",
        r"^(\tif \(have_xstate_support\) \{\n)(\t\tiov\.iov_base = )fp_regs;\n"
        r"(\t\tiov\.iov_len = )FP_SIZE \* sizeof\(unsigned long\);\n(\t\tif \(ptrace\(PTRACE_SETREGSET)",
        r"\1\t\tstatic char whole[16384];\n\n\t\t__builtin_memcpy(whole, fp_regs, FP_SIZE * sizeof(unsigned long));\n"
        r"\2whole;\n\3sizeof(whole);\n\4",
        where="iov.iov_len = FP_SIZE",
    ),
    Edit(
        "fs/kernfs/file.c",
        "a program reads the kernel's types, 2 MB, in a few calls: each takes two visits of the host's process",
        r"^(\tssize_t len = min_t\(size_t, iov_iter_count\(iter\), )PAGE_SIZE\);",
        r"\1of->prealloc_buf ? PAGE_SIZE : 64 << 10);",
    ),
    # --- the job and its results
    New("arch/um/drivers/asymlab.c", "a file of the host, by which they come and go", SHARED.read_text()),
    New(
        "arch/um/include/shared/asymlab_rewind.h",
        "many jobs, one after the other",
        REWIND.with_suffix(".h").read_text(),
    ),
    New("arch/um/drivers/asymlab_rewind.c", "the same", REWIND.read_text()),
    New("arch/um/drivers/asymlab_rewind_user.c", "the same", REWIND.with_stem("rewind_user").read_text()),
    Edit(
        "arch/um/drivers/Makefile",
        "builds them",
        r"^(obj-y := .*)$",
        r"\1 asymlab.o asymlab_rewind.o asymlab_rewind_user.o",
    ),
    Edit(
        "arch/um/kernel/skas/mmu.c",
        "a process of the host stays that a kernel may come back to",
        r"^(#include <skas\.h>\n)",
        r"\1#include <asymlab_rewind.h>\n",
    ),
    Edit(
        "arch/um/kernel/skas/mmu.c",
        "the same",
        r"^(\t+)(os_kill_ptraced_process\((mmu->id(?:\.u)?\.pid), 1\);\n)",
        r"\1if (!rewind_keeps(\3))\n\1\t\2",
    ),
    *(
        Edit(
            file,
            "a kernel that comes back makes those mappings anew that have changed",
            rf"^((?:static )?int {name}\(struct mm_id \*mm_idp,\s+unsigned long (\w+), unsigned long len\b[^{{]*\{{\n)",
            r"\1\tos_rewind_changed(mm_idp, \2, len);\n",
            where=f"int {name}(struct mm_id *mm_idp",
        )
        for file, names in MAPPING.items()
        for name in names
    ),
    *(Edit(file, "the same", r"^(#include <skas\.h>\n)", r"\1#include <asymlab_rewind.h>\n") for file in MAPPING),
    Edit(
        "lib/random32.c",
        "netem and BPF draw from here: a branch has other numbers",
        r"^\treturn \(state->s1 \^ state->s2 \^ state->s3 \^ state->s4\);\n",
        "\treturn um_drawn(state->s1 ^ state->s2 ^ state->s3 ^ state->s4);\n",
    ),
    Edit("lib/random32.c", "the same", r"^(#include <linux/bitops\.h>\n)", r"\1#include <asymlab_rewind.h>\n"),
    *(
        Edit(
            "drivers/char/random.c",
            "ports and sequence numbers of a branch",
            r"^(static long random_ioctl\()",
            r"void um_reseed(unsigned int draw);\nvoid um_reseed(unsigned int draw)\n{\n"
            rf"\tmix_pool_bytes(&draw, sizeof(draw));\n\tcrng_reseed({given});\n}}\n\n\1",
            where=f"static void crng_reseed({takes})\n",
        )
        for takes, given in (("void", ""), ("struct work_struct *work", "NULL"))
    ),
    # --- what a run reaches, for `asymlab explore`
    Edit(
        "arch/um/Kconfig",
        "off by default",
        r"^(config PGTABLE_LEVELS\n)",
        'config ASYMLAB_COVERAGE\n\tbool "Tell which branches of TCP and of BPF programs a run reaches"\n\n'
        r"\1",
    ),
    New("arch/um/kernel/asymlab_coverage.c", "a map of them", COVERAGE.read_text()),
    New("arch/um/include/shared/asymlab_coverage.h", "the same", COVERAGE.with_suffix(".h").read_text()),
    Edit(
        "arch/um/kernel/Makefile",
        "builds it",
        r"^(obj-\$\(CONFIG_BLK_DEV_INITRD\) )",
        r"obj-$(CONFIG_ASYMLAB_COVERAGE) += asymlab_coverage.o\n\1",
    ),
    Edit(
        "net/ipv4/Makefile",
        "the compiler marks the branches of TCP and of its controllers",
        r"^(obj-\$\(CONFIG_BPF_SYSCALL\) \+= bpf_tcp_ca\.o\n)",
        r"\1\nifdef CONFIG_ASYMLAB_COVERAGE\n"
        r"$(foreach o,$(filter tcp%.o,$(obj-y)),$(eval CFLAGS_$(o) += -fsanitize-coverage=trace-pc))\nendif\n",
    ),
    Edit(
        "arch/x86/net/bpf_jit_comp.c",
        "the JIT marks the instructions of a program",
        r"^(#include <linux/netdevice\.h>\n)",
        r"\1#include <asymlab_coverage.h>\n",
    ),
    Edit(
        "arch/x86/net/bpf_jit_comp.c",
        "the same",
        r"^(\t\tilen = prog - temp;\n\t\tif \(ilen > BPF_MAX_INSN_SIZE\) \{\n)",
        r"\t\tprog = um_mark(prog, bpf_prog, insn, i);\n\1",
    ),
    # --- real programs, from the moment on when a run starts its first
    New("arch/um/kernel/um_programs.c", "how they get on in virtual time", PROGRAMS.read_text()),
    New(
        "arch/um/include/shared/um_programs.h",
        "the same",
        SPDX + "struct uml_pt_regs;\n\nextern int um_programs;\nvoid um_turn(void);\n"
        "int um_reads_counter(struct uml_pt_regs *r);\n",
    ),
    Edit("arch/um/kernel/Makefile", "builds it", r"^(obj-y = )", r"\1um_programs.o "),
    Edit(
        "arch/um/include/asm/processor-generic.h",
        "a task's calls since it waited, and how often it has waited",
        r"^(\tstruct task_struct \*prev_sched;\n)",
        r"\1\tunsigned int turns;\n\tunsigned long waits;\n",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "a call after 10,000 of a task without a wait takes 1 us",
        r"^(#include <linux/time-internal\.h>\n)",
        r"\1#include <um_programs.h>\n",
    ),
    Edit("arch/um/kernel/skas/syscall.c", "the same", r"^(\tsyscall = UPT_SYSCALL_NR\(r\);\n)", r"\1\tum_turn();\n"),
    Edit(
        "kernel/sched/core.c",
        "so does an offer of the CPU: the kernel itself waits for another task by them, and no tick comes",
        r"^(int __sched __cond_resched\(void\)\n\{\n)",
        r"#include <um_programs.h>\n\n\1\tum_turn();\n",
    ),
    Edit(
        "arch/um/os-Linux/skas/process.c",
        "a program has no time-stamp counter of the host: its rdtsc faults",
        r"^(#include <sys/wait\.h>\n)",
        r"\1#include <sys/prctl.h>\n#include <um_programs.h>\n",
    ),
    Edit(
        "arch/um/os-Linux/skas/process.c",
        "the same",
        r"^(\tptrace\(PTRACE_TRACEME, 0, 0, 0\);\n|\tsyscall\(__NR_close_range, 0, ~0U, CLOSE_RANGE_CLOEXEC\);\n)",
        r"\1\tif (um_programs)\n\t\tprctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);\n",
    ),
    Edit(
        "arch/um/kernel/trap.c", "and gives virtual time", r"^(#include <skas\.h>\n)", r"\1#include <um_programs.h>\n"
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "the same: 13 is a general protection fault",
        r"^(\tif \(UPT_IS_USER\(regs\) && !SEGV_IS_FIXABLE\(fi\)\) \{\n)",
        r"\tif (UPT_IS_USER(regs) && fi->trap_no == 13 && um_reads_counter(regs))\n\t\treturn;\n\1",
    ),
    # --- nothing of the host
    Edit(
        "arch/um/os-Linux/util.c", "no entropy of the host", r"^\treturn getrandom\(buf, len, flags\);", "\treturn 0;"
    ),
    Edit(
        "kernel/irq/handle.c",
        "and none of interrupts, which mix in the clock and where the kernel's code lies",
        r"^\tadd_interrupt_randomness\(desc->irq_data\.irq\);\n",
        "",
    ),
    Edit(
        "drivers/char/random.c",
        "random numbers follow from what a run's seed brings after this call, and from nothing before it",
        r"^(\tcase RNDCLEARPOOL:\n\t\t/\*.*\*/\n\t\tif \(!capable\(CAP_SYS_ADMIN\)\)\n\t\t\treturn -EPERM;\n)",
        r"\1\t\tblake2s_init(&input_pool.hash, BLAKE2S_HASH_SIZE);\n",
    ),
    Edit(
        "arch/um/os-Linux/process.c",
        "no interrupt when the host gets to tell that a process has ended",
        r"^\tif \(using_seccomp\)\n\t\tset_handler\(SIGCHLD\);\n",
        "",
        where="using_seccomp",
    ),
    Edit(
        "arch/um/kernel/um_arch.c",
        "no size of the host's floating-point state in the size of a task",
        r"(sizeof\(struct task_struct\) \+) host_fp_size;",
        r"\1 max(host_fp_size, 16384UL);",
        where="arch_task_struct_size",
    ),
    Edit(
        "arch/um/kernel/um_arch.c",
        "no name of the host in /proc/cpuinfo",
        r"^\tsetup_hostinfo\(host_info, sizeof host_info\);\n",
        "",
    ),
    Edit(
        "arch/um/os-Linux/start_up.c",
        "no features and no cache lines of the host's CPU",
        r'fopen\("/proc/cpuinfo", "r"\)',
        'fopen("/dev/null", "r")',
    ),
    # --- Tunnels
    Edit(
        "include/linux/netdevice.h",
        "a packet of TCP takes as much of a buffer as in a kernel without tunnels: runs without one keep their bytes",
        r"\(LL_MAX_HEADER \+ 48\)$",
        "LL_MAX_HEADER",
    ),
)


def apply(tree: Path) -> None:
    """Edit a source tree, or one that was edited before. LabError, and no change, if a place is not found."""
    kept = tree / ".asymlab"  # the files as they were
    ours = tree / ".asymlab-edited"  # and as they were left
    plain: dict[str, str] = {}
    edited: dict[str, str] = {}
    for e in EDITS:
        if isinstance(e, New):
            edited[e.file] = e.text
            continue
        if e.file not in plain:
            try:
                plain[e.file] = unedited(tree / e.file, kept / e.file, ours / e.file)
            except OSError as error:
                raise LabError(f"{tree / e.file}: {error.strerror}: no source of a kernel that the edits fit") from None
        text = edited.get(e.file) or plain[e.file]
        if e.where and e.where not in text:
            continue
        edited[e.file], count = re.subn(e.old, e.new, text, count=1, flags=re.M)
        if not count:
            raise LabError(f"{tree / e.file}: no place for an edit ({e.why}); the source is too new or too old")
    for copy in filter(Path.is_file, kept.rglob("*")):  # of an edit that is no more
        name = str(copy.relative_to(kept))
        edited.setdefault(name, plain.setdefault(name, unedited(tree / name, copy, ours / name)))
    for name, text in edited.items():
        write(tree / name, text)
        if name in plain:
            write(kept / name, plain[name])
            write(ours / name, text)
            left = (ours / name).stat()  # a file that git took back is as old as it was
            os.utime(tree / name, ns=(left.st_atime_ns, left.st_mtime_ns))


def unedited(file: Path, before: Path, left: Path) -> str:
    """A file without our edits, with what others have changed in it since."""
    if not before.exists():
        return file.read_text()
    if not left.exists() or file.read_text() == left.read_text():
        return before.read_text()
    merge = subprocess.run(["git", "merge-file", "-p", before, left, file], capture_output=True, text=True)
    if merge.returncode:
        raise LabError(
            f"{file}: its changes and an edit of the lab's are of the same lines; `diff {left} {file}` tells"
        )
    return merge.stdout


def write(file: Path, text: str) -> None:
    """A file with this text is not written: it would be compiled again."""
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
