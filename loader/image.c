// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"

#define OBJECT_MAX (16u << 20) /* bytes; the largest of ours has 200,000 */

int file_open(const char *path, size_t most, size_t *size, const char **why)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	*why = NULL;
	if (fd < 0 || fstat(fd, &st))
		*why = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		*why = "not a regular file";
	else if ((size_t)st.st_size > most)
		*why = "too large";
	if (!*why) {
		*size = st.st_size;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

const char *image_read(const char *path, void **image, size_t *size)
{
	const char *why;
	int fd = file_open(path, OBJECT_MAX, size, &why);

	*image = NULL;
	if (fd < 0)
		return why;
	errno = EIO; /* of fewer bytes than there are */
	*image = malloc(*size + 1);
	if (!*image || read(fd, *image, *size) != (ssize_t)*size)
		why = strerror(errno);
	close(fd);
	return why;
}

char *image_section(void *image, size_t size, const char *name, size_t *bytes)
{
	const Elf64_Ehdr *h = image;
	const Elf64_Shdr *sh, *names;

	if (size < sizeof(*h) || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_shoff > size || h->e_shoff % 8 || h->e_shnum > (size - h->e_shoff) / sizeof(*sh) ||
	    h->e_shstrndx >= h->e_shnum)
		return NULL;
	sh = image + h->e_shoff;
	names = &sh[h->e_shstrndx];
	if (names->sh_offset > size || names->sh_size > size - names->sh_offset)
		return NULL;
	for (; sh < (Elf64_Shdr *)(image + h->e_shoff) + h->e_shnum; sh++) {
		size_t room = sh->sh_name < names->sh_size ? names->sh_size - sh->sh_name : 0;
		const char *s = image + names->sh_offset + sh->sh_name;

		if (sh->sh_offset > size || sh->sh_size > size - sh->sh_offset || sh->sh_type == SHT_NOBITS ||
		    room <= strlen(name) || memcmp(s, name, strlen(name) + 1))
			continue;
		*bytes = sh->sh_size;
		return image + sh->sh_offset;
	}
	return NULL;
}
