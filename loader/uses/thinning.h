/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of `asymcc thin`, loaded once for each cgroup and device. */
#ifndef THINNING_H
#define THINNING_H

#include <stdio.h>

#include "kernel/attachments.h"
#include "kernel/device.h"

#define THINNING_PROGRAMS 2

struct thinning {
	const char *cgroup;         /* or "dev NAME"; owned by the attachments */
	__u32 btf_id;
	const struct attached *at;  /* its first program */
	int programs;               /* fewer than THINNING_PROGRAMS: something was killed half way */
	unsigned long long sent, dropped;  /* pure ACKs; only after thinning_count() */
};

/* The next one; *i is 0 at first. False at the end. */
bool thinning_next(const struct attachments *all, int *i, struct thinning *t);
/* "ACKs of connections in CGROUP", "forwarded ACKs that leave by dev NAME"; till the next call. */
const char *thinning_text(const char *cgroup);
/* Members of a JSON object. */
void thinning_members(const struct thinning *t);
/* One that is on a device of that name in another network namespace. */
bool thinning_elsewhere(const struct attachments *all, const char *dev, struct thinning *t);
/* A command that acts on it alone, such as "ip netns exec r1 asymcc show thin --dev wan0"; till the next call. */
const char *thinning_command(const struct thinning *t, const char *words);
/* -1 with a message. */
int thinning_count(struct thinning *t);
/* Loads the object's programs, and attaches both to a device, or none. -1 with a message. */
int thinning_attach(struct device *d, struct object *o);
/* At one place; returns how many programs there were, -1 with a message. */
int thinning_detach(const char *place);

#endif
