// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A guest that serves many jobs: its kernel goes back to the moment before the first, and takes the next. Or one that
 * makes a run many times from a moment on: it goes back to there, and chance is another each time.
 *
 * All that a kernel which is a process knows lies in its memory, and that is restored to the byte (rewind_user.c), what
 * is free as well: so a job finds what it would find after a boot. The processes of the host that stand for the guest's
 * know nothing but mappings. Those that there were get theirs anew, and so does the kernel; the others end.
 */
#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/version.h>
#include <asm/mmu_context.h>
#include <asm/sections.h>
#include <asm/tlbflush.h>
#include <as-layout.h>
#include <kern_util.h>
#include <mem_user.h>
#include <os.h>
#include <skas.h>
#include <asymlab_rewind.h>

/* Others keep their mappings in another way. Their guests have a boot for each job. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)

extern unsigned long long physmem_size;

#define KEPT 256 /* processes; a point where there are more is none to come back to */

static int kept[KEPT], kept_count; /* the host's, which stay for the guest's that there are then */

int rewind_keeps(int pid)
{
	int i;

	for (i = 0; i < kept_count && kept[i] != pid; i++)
		;
	return i < kept_count;
}

/* Whether there was room. */
static int keep(struct mm_struct *mm)
{
	if (!mm || mm == &init_mm || rewind_keeps(mm->context.id.pid))
		return 1;
	if (kept_count == KEPT)
		return 0;
	kept[kept_count++] = mm->context.id.pid;
	return 1;
}

static void save(void *unused)
{
	char *own = (char *)((unsigned long)__start_rodata & PAGE_MASK);
	unsigned long long at;
	int physmem = phys_mapping(physmem_size - PAGE_SIZE, &at);

	os_rewind_save(physmem, (char *)uml_physmem, uml_reserved - uml_physmem, physmem_size, own,
		       (char *)uml_reserved - own);
}

static void restore(void *unused)
{
	os_rewind_restore();
}

static int renew(pte_t *pte, unsigned long address, void *unused)
{
	if (pte_present(*pte))
		*pte = pte_mknewpage(*pte);
	return 0;
}

static void map_range(struct mm_struct *mm, unsigned long at, unsigned long size)
{
	if (mm == &init_mm)
		os_rewind_unmap(at, size);
	else
		unmap(&mm->context.id, at, size);
	apply_to_existing_page_range(mm, at, size, renew, NULL);
	um_tlb_mark_sync(mm, at, at + size);
}

/* The mappings that have changed since. A process of the host gets its mappings as it runs. */
static void map_anew(struct mm_struct *mm)
{
	const struct rewind_change *change;
	int i;

	if (os_rewind_change(-1) && mm == &init_mm)
		map_range(mm, VMALLOC_START, VMALLOC_END - VMALLOC_START); /* far above lie mappings of its own */
	else if (os_rewind_change(-1))
		map_range(mm, 0, TASK_SIZE);
	else
		for (i = 0; (change = os_rewind_change(i)); i++)
			if (change->whose == &mm->context.id)
				map_range(mm, change->at, change->size);
}

/*
 * The kernel comes back to here. Returns 0 at first, and then once for each number that the lab gives. A guest that is
 * to make one run alone saves nothing.
 */
unsigned int rewind_point(void)
{
	struct task_struct *process, *thread;
	struct mm_struct *last = NULL;
	int all;

	if (!os_rewind_serves())
		return 0;
	os_rewind_drop();
	kept_count = 0;
	all = keep(current->active_mm); /* of one that has ended, as nothing runs */
	for_each_process_thread(process, thread)
		all &= keep(thread->mm);
	if (!all)
		return 0;
	initial_thread_cb(save, NULL);
	if (os_rewind_count() <= 0)
		return 0;
	map_anew(&init_mm);
	for_each_process_thread(process, thread)
	{
		if (thread->mm && thread->mm != last)
			map_anew(thread->mm);
		last = thread->mm ?: last;
	}
	os_rewind_mapped();
	um_tlb_sync(&init_mm);
	return os_rewind_await();
}

/* Returns only if nothing is saved. */
int rewind_back(void)
{
	struct task_struct *process, *thread;

	if (os_rewind_count() < 0)
		return 0;
	os_rewind_done();
	for_each_process_thread(process, thread)
	{
		struct mm_struct *mm = thread->mm;

		if (!mm || rewind_keeps(mm->context.id.pid))
			continue;
		os_kill_ptraced_process(mm->context.id.pid, 1);
		mm->context.id.pid = kept[0]; /* it has ended, and threads share it */
	}
	initial_thread_cb(restore, NULL);
	return 0;
}

#else

int rewind_keeps(int pid)
{
	return 0;
}

unsigned int rewind_point(void)
{
	return 0;
}

int rewind_back(void)
{
	return 0;
}

#endif

/* --- a branch: from a moment on, chance is another */

unsigned int um_draw; /* which; 0: the run's own */
static unsigned int first_draw;
static struct hrtimer timer;

/* Uniform if the value is, and another in each draw: MurmurHash3 ends so (public domain). */
u32 um_drawn(u32 value)
{
	u64 x = (u64)um_draw << 32 | value;

	if (!um_draw)
		return value;
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

static enum hrtimer_restart branch(struct hrtimer *unused)
{
	unsigned int draw = rewind_point();

	um_draw = draw ?: first_draw;
	um_reseed(um_draw);
	return HRTIMER_NORESTART;
}

/* `at_ns`: of the monotonic clock. */
void rewind_branch(unsigned long at_ns, unsigned int draw)
{
	first_draw = draw;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer.function = branch;
#else
	hrtimer_setup(&timer, branch, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#endif
	hrtimer_start(&timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS);
}
