/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A kernel that goes back: rewind.c is the kernel's part, rewind_user.c the host's. */

int rewind_save(void);
int rewind_back(void);

int os_rewind_serves(void);
void os_rewind_save(int physmem, char *base, unsigned long first, unsigned long end, char *own, unsigned long own_size);
void os_rewind_restore(void);
int os_rewind_count(void);
void os_rewind_done(void);
void os_rewind_await(void);
void os_rewind_unmap(unsigned long at, unsigned long size);
