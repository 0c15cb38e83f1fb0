/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* All that a command that lists what is in service looks at. */
#ifndef INVENTORY_H
#define INVENTORY_H

#include "kernel/attachments.h"
#include "kernel/registry.h"
#include "uses/users.h"

struct inventory {
	struct registry registry;
	struct users users;
	struct attachments all;
	struct attachments *after; /* what runs after each of these */
};

/* `blind`: without the right to read the kernel's BPF, `users` alone. -1 with a message. */
int inventory_read(struct inventory *s, bool blind);
/* It is empty then. */
void inventory_free(struct inventory *s);

#endif
