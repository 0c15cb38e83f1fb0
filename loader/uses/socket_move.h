/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets that exist get another controller. */
#ifndef SOCKET_MOVE_H
#define SOCKET_MOVE_H

#include "object/object.h"
#include "tools/move_rule.h"

struct move {
	struct object o;
	struct bpf_link *link;
	struct move_rule rule;
};

/* From zeros; -1 with a message: this kernel cannot. */
int move_open(struct move *m);
/* The sockets of the namespace that the thread is in, by m->rule, which then also has the counts. -1 with a message. */
int move_run(struct move *m);
/* The same, of those of the cookies alone. */
int move_run_listed(struct move *m, const __u64 *cookie, size_t nr);
/* It is move_run() in each namespace. */
int move_run_all(struct move *m);
void move_close(struct move *m);

#endif
