// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "asymcc.h"
#include "holder.h"

static void read_name(struct holder *h)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", h->pid);
	f = fopen(path, "re");
	if (!f || !fgets(h->name, sizeof(h->name), f))
		strcpy(h->name, "?");
	if (f)
		fclose(f);
	h->name[strcspn(h->name, "\n")] = 0;
	clean_text(h->name);
}

/* Among the files that a process has open. Returns how many are found. */
static size_t look_into(struct holder *h, size_t nr, pid_t pid)
{
	char path[PATH_MAX], to[64];
	struct dirent *e;
	size_t found = 0;
	unsigned int inode;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);

		if (n <= 0)
			continue;
		to[n] = 0;
		if (sscanf(to, "socket:[%u]", &inode) != 1)
			continue;
		for (size_t i = 0; i < nr; i++) {
			if (h[i].inode != inode || h[i].pid)
				continue;
			h[i].pid = pid;
			read_name(&h[i]);
			found++;
		}
	}
	if (d)
		closedir(d);
	return found;
}

void holders_find(struct holder *h, size_t nr)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	size_t left = 0;

	for (size_t i = 0; i < nr; i++)
		left += !!h[i].inode;
	while (d && left && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			left -= look_into(h, nr, atoi(e->d_name));
	if (d)
		closedir(d);
}
