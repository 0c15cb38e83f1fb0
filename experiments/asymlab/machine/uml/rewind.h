/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A kernel that goes back: rewind.c is the kernel's part, rewind_user.c the host's. */

unsigned int rewind_point(void);
int rewind_back(void);
int rewind_keeps(int pid);
void rewind_branch(unsigned long at_ns, unsigned int draw);

extern unsigned int um_draw;
unsigned int um_drawn(unsigned int value);
void um_reseed(unsigned int draw);

struct rewind_change {
	void *whose; /* struct mm_id */
	unsigned long at, size;
};

int os_rewind_serves(void);
void os_rewind_drop(void);
void os_rewind_save(int physmem, char *base, unsigned long first, unsigned long end, char *own, unsigned long own_size);
void os_rewind_restore(void);
int os_rewind_count(void);
void os_rewind_done(void);
unsigned int os_rewind_await(void);
void os_rewind_changed(void *whose, unsigned long at, unsigned long size);
const struct rewind_change *os_rewind_change(int i);
void os_rewind_mapped(void);
void os_rewind_unmap(unsigned long at, unsigned long size);
