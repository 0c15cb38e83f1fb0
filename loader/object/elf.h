/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A built object as a file: read as a whole, and its ELF sections and symbols. */
#ifndef ELF_H
#define ELF_H

#include <stdbool.h>
#include <stddef.h>

/* A FIFO would be waited for without end, and a sparse file have any size. -1 with `why`, else a descriptor. */
int file_open(const char *path, size_t most, size_t *size, const char **why);
/* Why it cannot be read, or NULL. */
const char *elf_read(const char *path, void **image, size_t *size);
/* Why it is no object of BPF's, or NULL. */
const char *elf_unfit(void *image, size_t size);
/* A section's bytes in the file, and how many they are; NULL if it has none by that name. */
char *elf_section(void *image, size_t size, const char *name, size_t *bytes);

struct elf_symbol {
	const char *name;        /* NULL: it has none that can be read */
	const char *section;     /* NULL: it has no bytes in the file */
	unsigned int section_nr;
	size_t offset, bytes;    /* in the section */
	char *value;
};

/* The `nth` symbol; false: there are no more. */
bool elf_symbol(void *image, size_t size, unsigned int nth, struct elf_symbol *found);
/* Does a symbol's value name the symbol number `to`, as a struct names a function? */
bool elf_refers(void *image, size_t size, const struct elf_symbol *from, unsigned int to);
/*
 * A section whose name begins with that of another, and a dot, takes it; the other, if there is one, gets what is left:
 * .a.b is .a from now on, and what was .a is b.
 */
void elf_swap(void *image, size_t size, const char *longer, const char *shorter);

#endif
