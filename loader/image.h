/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A built object as a file: read as a whole, and its ELF sections. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stddef.h>

/* A FIFO would be waited for without end, and a sparse file have any size. -1 with `why`, else a descriptor. */
int file_open(const char *path, size_t most, size_t *size, const char **why);
/* Why it cannot be read, or NULL. */
const char *image_read(const char *path, void **image, size_t *size);
/* Where a section's bytes lie in the file, and how many; NULL if it has none by that name. */
char *image_section(void *image, size_t size, const char *name, size_t *bytes);

#endif
