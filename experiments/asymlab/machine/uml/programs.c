// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Real programs in virtual time: they wait in ways in which the lab's own code never does.
 *
 * An ioctl of /dev/asymlab comes before a run's first program. Until then, and in a run without programs, nothing here
 * has an effect.
 */
#include <linux/hardirq.h>
#include <linux/sched.h>
#include <linux/time-internal.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <asm/delay.h>
#include <um_programs.h>

#define FREE_TURNS 10000

int um_programs;

/* Called for a system call, and for an offer of the CPU. Without a wait in between, no timer would ever be due. */
void um_turn(void)
{
	struct thread_struct *thread = &current->thread;

	if (!um_programs)
		return;
	if (thread->waits != current->nvcsw) {
		thread->waits = current->nvcsw;
		thread->turns = 0;
	} else if (thread->turns < FREE_TURNS) {
		thread->turns++;
	} else if (!irqs_disabled() && !in_interrupt()) {
		time_travel_ndelay(NSEC_PER_USEC);
	}
}

/*
 * For rdtsc and rdtscp, which fault in a program: a counter of 1 GHz in virtual time. A look takes 1 us, of which the
 * clock itself takes its part.
 */
int um_reads_counter(struct uml_pt_regs *r)
{
	struct pt_regs *regs = container_of(r, struct pt_regs, regs);
	unsigned long at = PT_REGS_IP(regs);
	unsigned char code[3] = {};
	u64 now;

	if (copy_from_user(code, (void __user *)at, 2) || code[0] != 0x0f)
		return 0;
	if (code[1] == 0x01) {
		if (copy_from_user(code + 2, (void __user *)(at + 2), 1) || code[2] != 0xf9)
			return 0;
		PT_REGS_CX(regs) = 0; /* the number of the CPU */
		at++;
	} else if (code[1] != 0x31) {
		return 0;
	}
	time_travel_ndelay(NSEC_PER_USEC - TIMER_LOOK_NS);
	now = ktime_get_raw_ns();
	PT_REGS_AX(regs) = (u32)now;
	PT_REGS_DX(regs) = now >> 32;
	PT_REGS_IP(regs) = at + 2;
	return 1;
}
