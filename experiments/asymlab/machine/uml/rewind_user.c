// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The host's part of a kernel that goes back: a copy of its memory, and the socket by which the lab and it take turns.
 *
 * The kernel's memory is a file that it shares with its processes, and its own data. Pages that the file lacked when
 * the copy was made are holes of it again: they were zero. Copying runs on the process's own stack, which is in neither.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <os.h>
#include <asymlab_rewind.h>

int __attribute__((weak)) um_fp_of; /* of kernels that keep none */

#define LAB 0 /* its file descriptor: the standard input */
#define PAGE 4096UL

struct copy {
	int physmem; /* the file */
	int count; /* how often it went back */
	unsigned long first, end; /* of the file: what is before is the kernel's own data */
	char *memory, *memory_copy; /* by the file's offsets */
	char *own, *own_copy;
	unsigned long own_size;
	char kept[]; /* for each page of the file, whether it is in the copy */
};

static struct copy *copy; /* the pointer is restored to what it is, and what it points to is not */

static void *allocate(unsigned long size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED || madvise(at, size, MADV_DONTFORK) ? NULL : at;
}

int os_rewind_serves(void)
{
	struct stat s;

	return !fstat(LAB, &s) && S_ISSOCK(s.st_mode);
}

/* There is no copy if the host has too little memory for it. */
void os_rewind_save(int physmem, char *base, unsigned long first, unsigned long end, char *own, unsigned long own_size)
{
	struct copy *c = allocate(sizeof(*c) + end / PAGE);
	char *memory_copy = allocate(end), *own_copy = allocate(own_size);
	off_t from = first, to;

	if (!c || !memory_copy || !own_copy)
		return;
	*c = (struct copy){ physmem, 0, first, end, base, memory_copy, own, own_copy, own_size };
	while ((from = lseek(physmem, from, SEEK_DATA)) >= 0) {
		to = lseek(physmem, from, SEEK_HOLE);
		memcpy(memory_copy + from, base + from, to - from);
		memset(c->kept + from / PAGE, 1, (to - from) / PAGE);
		from = to;
	}
	copy = c;
	memcpy(own_copy, own, own_size);
}

/* -1: there is nothing to go back to. */
int os_rewind_count(void)
{
	return copy ? copy->count : -1;
}

static int differs(const unsigned long *a, const unsigned long *b)
{
	unsigned long difference = 0;
	unsigned int i;

	for (i = 0; i < PAGE / sizeof(*a); i++)
		difference |= a[i] ^ b[i];
	return !!difference;
}

static void put_back(char *to, const char *from, unsigned long size)
{
	unsigned long at;

	for (at = 0; at < size; at += PAGE)
		if (differs((unsigned long *)(to + at), (unsigned long *)(from + at)))
			memcpy(to + at, from + at, PAGE);
}

void os_rewind_restore(void)
{
	struct copy *c = copy;
	unsigned long from, to;

	for (from = c->first; from < c->end; from = to) {
		for (to = from + PAGE; to < c->end && c->kept[to / PAGE] == c->kept[from / PAGE]; to += PAGE)
			;
		if (c->kept[from / PAGE])
			put_back(c->memory + from, c->memory_copy + from, to - from);
		else if (fallocate(c->physmem, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from))
			_exit(1);
	}
	put_back(c->own, c->own_copy, c->own_size);
	um_fp_of = 0; /* the processes are where they are */
	c->count++;
}

/* The results are there. */
void os_rewind_done(void)
{
	if (write(LAB, "", 1) != 1)
		_exit(1);
}

/* Until the next job is there. The kernel ends with the lab. */
void os_rewind_await(void)
{
	char byte;

	if (read(LAB, &byte, 1) != 1)
		_exit(0);
}

void os_rewind_unmap(unsigned long at, unsigned long size)
{
	if (munmap((void *)at, size))
		_exit(1);
}
