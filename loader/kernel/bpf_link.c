// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "kernel/process.h"
#include "kernel/bpf_link.h"

/* Is it a link, and of which struct_ops map? 0: neither. */
static __u32 map_of_link(int fd, __u32 *link_id)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info), map_id = 0;

	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.type != BPF_LINK_TYPE_STRUCT_OPS)
		return 0;
	memcpy(&map_id, &info.raw_tracepoint, sizeof(map_id)); /* older headers do not have the member's name */
	*link_id = info.id;
	return map_id;
}

/* 0: there is none. */
static __u32 find_id(__u32 map_id)
{
	__u32 id = 0, found = 0, link_id = 0;

	while (!found && !bpf_link_get_next_id(id, &id)) {
		int fd = bpf_link_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (map_of_link(fd, &link_id) == map_id)
			found = link_id;
		close(fd);
	}
	return found;
}

/* A pin may be of anything. */
static bool has_link(int fd)
{
	char path[64], to[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, to, sizeof(to) - 1) > 0 && is_link(to);
}

/* In the folder and below it. */
static bool find_pin(char path[PATH_MAX], __u32 id)
{
	size_t len = strlen(path);
	DIR *d = opendir(path);
	bool found = false;
	struct dirent *e;

	while (d && !found && (e = readdir(d))) {
		__u32 link_id = 0;
		int fd = -1;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    snprintf(path + len, PATH_MAX - len, "/%s", e->d_name) >= (int)(PATH_MAX - len))
			continue;
		if (e->d_type == DT_DIR)
			found = find_pin(path, id);
		else if (e->d_type == DT_REG)
			fd = bpf_obj_get(path);
		if (fd >= 0 && has_link(fd) && map_of_link(fd, &link_id))
			found = link_id == id;
		if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
	if (!found)
		path[len] = 0;
	return found;
}

void link_find(__u32 map_id, struct link_holders *h)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	__u32 id = find_id(map_id);
	struct mntent *m;

	*h = (struct link_holders){};
	while (id && f && !*h->pin && (m = getmntent(f))) {
		if (strcmp(m->mnt_type, "bpf"))
			continue;
		snprintf(h->pin, sizeof(h->pin), "%s", m->mnt_dir);
		if (!find_pin(h->pin, id))
			*h->pin = 0;
	}
	if (f)
		endmntent(f);
	if (id)
		process_of_link(id, h->process, sizeof(h->process));
}
