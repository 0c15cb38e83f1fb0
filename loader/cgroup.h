/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that an object has for a cgroup beside its struct_ops: in sections "sockops",
 * "cgroup_skb/egress" and "cgroup_skb/ingress". They see every connection of the cgroup and of those below it.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include "object.h"

struct kind;

/* One program in one cgroup, whoever put it there. */
struct attached {
	__u32 prog_id, btf_id;
	const struct kind *kind;
	char name[16];              /* of the program, cut by the kernel */
	/* what asymcc wrote into it; both "": it is somebody else's, and asymcc never detaches it */
	char owner[CC_NAME_LEN];    /* the controller it was loaded with */
	char used[CC_NAME_LEN];     /* the controller that it gives to connections: `use --cgroup` */
	char *cgroup;               /* its path */
};

struct attachments {
	struct attached *at;
	int nr;
};

/* What is attached in the whole tree; nothing if no cgroup2 is mounted. */
int attachments_read(struct attachments *all);
void attachments_free(struct attachments *all);
/* Keep what was loaded with controller `name`. */
void attachments_keep(struct attachments *all, const char *name);
/* Does it give `cc` to connections? */
bool attached_gives(const struct attached *a, const char *cc);
int attachments_detach(const struct attachments *mine);

/*
 * The cgroups, one a call and each once, with programs of the load `btf_id` and of `owner` (0, NULL:
 * of any). *i is 0 at first; NULL at the end.
 */
const char *attachments_cgroup(const struct attachments *all, __u32 btf_id, const char *owner, int *i);
/* Is the program called `prog` among those of `btf_id` in this cgroup? */
bool attachments_has(const struct attachments *all, __u32 btf_id, const char *cgroup, const char *prog);

/* The programs for a cgroup that an object has (NULL: not known), or that are attached; freed by free(). */
const char **cgroup_programs(const struct object *o, const struct attachments *all, __u32 btf_id);

/* Where a load attaches. */
struct cgroup {
	char path[PATH_MAX];
	int fd;
	int nr;             /* of the object's programs, how many are attached */
};
#define CGROUP_CLOSED { .fd = -1 }

/* `path` NULL: the root. Of an object without such programs there is nothing to open and to attach. */
int cgroup_open(struct cgroup *c, const struct object *o, const char *path);
/* -1 with a message: programs of the same object, but for those `leaving`, would run beside ours, here or in a cgroup below. */
int cgroup_admits(const struct cgroup *c, const struct object *o, const struct attachments *leaving);
/* All of them or none. */
int cgroup_attach(struct cgroup *c, const struct object *o);
void cgroup_detach(struct cgroup *c, const struct object *o);
void cgroup_close(struct cgroup *c);

/*
 * `o`: the object of `use --cgroup`, loaded; it goes to all cgroups or to none. It takes the place of one that is in the same
 * cgroup; one above or below is refused, as the upper one would win.
 */
int cgroup_use(const struct object *o, const char **paths, int nr);
/* Take `cc` back from cgroup `path` (NULL: from all). Returns how many had it, -1 with a message. */
int cgroup_unuse(const struct attachments *all, const char *path, const char *cc, bool only_count);

/* Where the hierarchy is mounted, in memory to be freed; NULL: nowhere, or errno is not ENOENT. */
char *cgroup_root(void);

#endif
