// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A guest that serves many jobs: its kernel goes back to the moment before the first, and takes the next.
 *
 * All that a kernel which is a process knows lies in its memory, and that is restored to the byte (rewind_user.c), what
 * is free as well: so a job finds what it would find after a boot. The processes of the host that stand for the guest's
 * know nothing but mappings. The agent's gets its own anew, and so does the kernel; the others end.
 */
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

static int agent; /* the host's process that stands for it */

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

static void map_anew(void)
{
	struct mm_struct *mm = current->mm;

	/* Far above this lie mappings of the process's own. */
	os_rewind_unmap(VMALLOC_START, VMALLOC_END - VMALLOC_START);
	apply_to_existing_page_range(&init_mm, VMALLOC_START, VMALLOC_END - VMALLOC_START, renew, NULL);
	um_tlb_mark_sync(&init_mm, VMALLOC_START, VMALLOC_END);
	um_tlb_sync(&init_mm);

	unmap(&mm->context.id, 0, TASK_SIZE);
	apply_to_existing_page_range(mm, 0, TASK_SIZE, renew, NULL);
	um_tlb_mark_sync(mm, 0, TASK_SIZE);
}

/* Returns once for each job. A guest that is to make one alone saves nothing. */
int rewind_save(void)
{
	if (!os_rewind_serves())
		return 0;
	agent = current->mm->context.id.pid;
	initial_thread_cb(save, NULL);
	/* The kernel comes back to here. */
	if (os_rewind_count() > 0) {
		map_anew();
		os_rewind_await();
	}
	return 0;
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

		if (!mm || mm->context.id.pid == agent)
			continue;
		os_kill_ptraced_process(mm->context.id.pid, 1);
		mm->context.id.pid = agent; /* it has ended, and threads share it */
	}
	initial_thread_cb(restore, NULL);
	return 0;
}

#else

int rewind_save(void)
{
	return 0;
}

int rewind_back(void)
{
	return 0;
}

#endif
