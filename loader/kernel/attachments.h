/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF programs that are attached to cgroups and devices, of the kinds that asymcc attaches, and whose they are. */
#ifndef ATTACHMENTS_H
#define ATTACHMENTS_H

#include <net/if.h>

#include "kernel/hook.h"
#include "kernel/netns.h"
#include "object/object.h"

/* One program in one cgroup, whoever put it there; or one of asymcc's on a device. */
struct attached {
	__u32 prog_id, btf_id;
	const struct hook *hook;
	char name[16];              /* of the program, cut by the kernel */
	/* what asymcc wrote into it; both "": it is somebody else's, and asymcc never detaches it */
	char owner[CC_NAME_LEN];    /* the controller it was loaded with */
	char used[CC_NAME_LEN];     /* the controller that it gives to connections: `use --cgroup` */
	char before[CC_NAME_LEN];   /* `try` put it there: the controller that was used before, - for none */
	char *cgroup; /* its path; or "dev NAME", "dev NAME in netns r1" if that is another network namespace */
	char device[IFNAMSIZ]; /* "": it is in a cgroup */
	unsigned int index; /* the device's */
	struct netns_id *netns; /* where the device is; else NULL */
};

struct attachments {
	struct attached *at;
	int nr;
	__u64 since_boot; /* when they were read, in ns */
};

/* All that is attached in the cgroups, nothing if no cgroup2 is mounted; and on the devices of each network namespace. */
int attachments_read(struct attachments *all);
/*
 * Programs of asymcc that the kernel runs at a place which is not among those: in a network namespace, or a cgroup, that nobody
 * here can enter. `name`: the owner or the controller; NULL: any. Returns how many, with a message; -1 with a message: that is
 * not known. `after_detach`: the kernel frees a program a moment after it was detached, and has that time.
 */
int attachments_hidden(const struct attachments *all, const char *name, bool after_detach);
/* The programs in effect in the cgroup that is open as `fd`, and those attached below it. */
int attachments_near(struct attachments *near, int fd, const char *cgroup);
void attachments_free(struct attachments *all);
/* Keep what was loaded with controller `name`, in `cgroup` (NULL: in any). */
void attachments_keep(struct attachments *all, const char *name, const char *cgroup);
/* Does it give `cc` to connections? */
bool attached_gives(const struct attached *a, const char *cc);
/*
 * For each of asymcc's sockops programs, the programs of others that run after it in its cgroup, in their order: each
 * may undo what it did. NULL with a message.
 */
struct attachments *attachments_after(const struct attachments *all);
void attachments_after_free(struct attachments *after, const struct attachments *all);
/* Is it a device's? */
bool is_on_device(const char *cgroup);
/* Has the object such a program? */
bool attached_is_of(const struct attached *a, const struct object *o);

/*
 * A loaded program is attached only if it would be found again: by `cc`, which the loader wrote into it, in a map that stays
 * as long as the program. libbpf leaves out the name, or the map, when a probe of the kernel fails. -1 with a message.
 */
int attached_check_findable(int prog, const char *cc);

/* A cgroup or a program that is gone meanwhile is no error. -1 with a message. */
int attached_detach(const struct attached *a);
int attachments_detach(const struct attachments *mine);
int fail_detach(const char *prog, const char *cgroup, int err);

/*
 * The cgroups, one a call and each once, with programs of the load `btf_id` and of `owner` (0, NULL:
 * of any). *i is 0 at first; NULL at the end.
 */
const char *attachments_cgroup(const struct attachments *all, __u32 btf_id, const char *owner, int *i);
/* Text: "/sys/fs/cgroup/a, /sys/fs/cgroup/b", behind `before` if there are some; in JSON members "cgroups" and "devices". */
void attachments_print(const struct attachments *all, __u32 btf_id, const char *owner, const char *before);
/* Is the program called `prog` among those of `btf_id` in this cgroup? */
bool attachments_has(const struct attachments *all, __u32 btf_id, const char *cgroup, const char *prog);

/* The programs for a cgroup that an object has (NULL: not known), or that are attached; freed by free(). */
const char **attachments_programs(const struct object *o, const struct attachments *all, __u32 btf_id);

#endif
