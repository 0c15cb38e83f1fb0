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
#define CHANGES 16384 /* of mappings; after more all are made anew */

struct copy {
	int physmem; /* the file */
	int count; /* how often it went back */
	int changes; /* since it was made, or since it went back */
	struct rewind_change change[CHANGES];
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

/* There is one copy at a time. Without one a guest ends with its job. */
void os_rewind_drop(void)
{
	struct copy *c = copy;

	if (!c)
		return;
	munmap(c->memory_copy, c->end);
	munmap(c->own_copy, c->own_size);
	munmap(c, sizeof(*c) + c->end / PAGE);
	copy = NULL;
}

/* There is no copy if the host has too little memory for it. */
void os_rewind_save(int physmem, char *base, unsigned long first, unsigned long end, char *own, unsigned long own_size)
{
	struct copy *c = allocate(sizeof(*c) + end / PAGE);
	char *memory_copy = allocate(end), *own_copy = allocate(own_size);
	off_t from = first, to;

	if (!c || !memory_copy || !own_copy)
		return;
	c->physmem = physmem;
	c->first = first;
	c->end = end;
	c->memory = base;
	c->memory_copy = memory_copy;
	c->own = own;
	c->own_copy = own_copy;
	c->own_size = own_size;
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

/* A mapping of a process, or of the kernel, has changed. */
void os_rewind_changed(void *whose, unsigned long at, unsigned long size)
{
	struct copy *c = copy;
	struct rewind_change *last = c && c->changes ? &c->change[c->changes - 1] : NULL;

	if (!c || c->changes == CHANGES)
		return;
	if (last && last->whose == whose && last->at + last->size == at)
		last->size += size;
	else
		c->change[c->changes++] = (struct rewind_change){ whose, at, size };
}

/* The i-th; NULL behind the last. -1: there were too many, and all are to be made anew. */
const struct rewind_change *os_rewind_change(int i)
{
	static const struct rewind_change all;

	if (i < 0)
		return copy->changes == CHANGES ? &all : NULL;
	return i < copy->changes ? &copy->change[i] : NULL;
}

/* They have been made anew. */
void os_rewind_mapped(void)
{
	copy->changes = 0;
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

/* Until the next job is there: its draw. The kernel ends with the lab. */
unsigned int os_rewind_await(void)
{
	unsigned int draw;

	if (read(LAB, &draw, sizeof(draw)) != sizeof(draw))
		_exit(0);
	return draw;
}

void os_rewind_unmap(unsigned long at, unsigned long size)
{
	if (munmap((void *)at, size))
		_exit(1);
}
