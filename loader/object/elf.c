// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "object/elf.h"

#define REL ".rel" /* of a section's relocations: the begin of their name */
#define OBJECT_MAX (16u << 20) /* bytes; the largest of ours has 200,000 */

/* Till the next call. */
static const char *too_large(const struct stat *st, size_t most)
{
	static char text[100];

	snprintf(text, sizeof(text), "too large: it has %lld bytes, and the limit is %zu", (long long)st->st_size,
		 most);
	return text;
}

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
		*why = too_large(&st, most);
	if (!*why) {
		*size = st.st_size;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

const char *elf_read(const char *path, void **image, size_t *size)
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

/* The table of an ELF file's sections; NULL: it is none, or damaged. `names`: of the sections. */
static Elf64_Shdr *sections(void *image, size_t size, int *nr, Elf64_Shdr **names)
{
	const Elf64_Ehdr *h = image;
	Elf64_Shdr *sh;

	if (size < sizeof(*h) || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_shoff > size || h->e_shoff % 8 || h->e_shnum > (size - h->e_shoff) / sizeof(*sh) ||
	    h->e_shstrndx >= h->e_shnum)
		return NULL;
	sh = image + h->e_shoff;
	*nr = h->e_shnum;
	*names = &sh[h->e_shstrndx];
	return sh;
}

static bool is_inside(const Elf64_Shdr *s, size_t size)
{
	return s->sh_offset <= size && s->sh_size <= size - s->sh_offset && s->sh_type != SHT_NOBITS;
}

/* The text at an offset of a section of texts; NULL: there is none that ends in it. */
static char *text_in(void *image, size_t size, const Elf64_Shdr *texts, size_t at)
{
	char *text = image + texts->sh_offset + at;

	if (!is_inside(texts, size) || at >= texts->sh_size || !memchr(text, 0, texts->sh_size - at))
		return NULL;
	return text;
}

char *elf_section(void *image, size_t size, const char *name, size_t *bytes)
{
	Elf64_Shdr *names, *sh;
	int nr;

	sh = sections(image, size, &nr, &names);
	for (int i = 0; sh && i < nr; i++) {
		const char *s = text_in(image, size, names, sh[i].sh_name);

		if (!s || strcmp(s, name) || !is_inside(&sh[i], size))
			continue;
		*bytes = sh[i].sh_size;
		return image + sh[i].sh_offset;
	}
	return NULL;
}

const char *elf_unfit(void *image, size_t size)
{
	const Elf64_Ehdr *h = image;
	Elf64_Shdr *names;
	int nr;

	if (size < SELFMAG || memcmp(h->e_ident, ELFMAG, SELFMAG))
		return "it is no ELF file";
	if (!sections(image, size, &nr, &names))
		return "it is damaged";
	if (h->e_machine != EM_BPF)
		return "it is an ELF file, but not of BPF";
	return h->e_ident[EI_DATA] == ELFDATA2LSB ? NULL : "it is for machines of the other byte order";
}

bool elf_symbol(void *image, size_t size, unsigned int nth, struct elf_symbol *found)
{
	Elf64_Shdr *names, *sh;
	int nr;

	*found = (struct elf_symbol){};
	sh = sections(image, size, &nr, &names);
	for (int i = 0; sh && i < nr; i++) {
		const Elf64_Sym *symbol;
		const Elf64_Shdr *in;

		if (sh[i].sh_type != SHT_SYMTAB || !is_inside(&sh[i], size) || sh[i].sh_offset % 8 ||
		    sh[i].sh_link >= (unsigned int)nr)
			continue;
		if (nth >= sh[i].sh_size / sizeof(*symbol))
			return false;
		symbol = (Elf64_Sym *)(image + sh[i].sh_offset) + nth;
		found->name = text_in(image, size, &sh[sh[i].sh_link], symbol->st_name);
		in = symbol->st_shndx && symbol->st_shndx < nr ? &sh[symbol->st_shndx] : NULL;
		if (!found->name || !in || !is_inside(in, size) || symbol->st_value > in->sh_size ||
		    symbol->st_size > in->sh_size - symbol->st_value)
			return true;
		found->section = text_in(image, size, names, in->sh_name);
		found->section_nr = symbol->st_shndx;
		found->offset = symbol->st_value;
		found->bytes = symbol->st_size;
		found->value = image + in->sh_offset + symbol->st_value;
		return true;
	}
	return false;
}

bool elf_refers(void *image, size_t size, const struct elf_symbol *from, unsigned int to)
{
	Elf64_Shdr *names, *sh;
	int nr;

	sh = sections(image, size, &nr, &names);
	for (int i = 0; sh && i < nr; i++) {
		const Elf64_Rel *rel;

		if (sh[i].sh_type != SHT_REL || sh[i].sh_info != from->section_nr || !is_inside(&sh[i], size) ||
		    sh[i].sh_offset % 8)
			continue;
		rel = image + sh[i].sh_offset;
		for (size_t k = 0; k < sh[i].sh_size / sizeof(*rel); k++)
			if (rel[k].r_offset - from->offset < from->bytes && ELF64_R_SYM(rel[k].r_info) == to)
				return true;
	}
	return false;
}

void elf_swap(void *image, size_t size, const char *longer, const char *shorter)
{
	size_t cut = strlen(shorter), rest = 0;
	Elf64_Shdr *names, *sh, *other = NULL;
	char *name;
	int nr;

	sh = sections(image, size, &nr, &names);
	for (int i = 0; sh && i < nr; i++) {
		name = text_in(image, size, names, sh[i].sh_name);
		if (!name)
			continue;
		if (!strcmp(name, shorter))
			other = &sh[i];
		if (!strncmp(name, REL, strlen(REL)) && !strcmp(name + strlen(REL), shorter))
			sh[i].sh_name = 0;
		if (!strncmp(name, REL, strlen(REL)) && !strcmp(name + strlen(REL), longer))
			name[strlen(REL) + cut] = 0; /* its end may be the section's own name */
	}
	for (int i = 0; sh && i < nr; i++) {
		name = text_in(image, size, names, sh[i].sh_name);
		if (!name || &sh[i] == other || strncmp(name, longer, cut))
			continue;
		if (!strcmp(name, longer))
			name[cut] = 0;
		if (!name[cut])
			rest = sh[i].sh_name + cut + 1;
	}
	if (other && rest)
		other->sh_name = rest;
}
