/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of the loader share. */
#ifndef ASYMCC_H
#define ASYMCC_H

#include <stdbool.h>
#include <stddef.h>

#define CC_NAME_LEN 16 /* of a congestion control's name, with its NUL */

struct args {
	const char *name;     /* the controller a command is about */
	const char *objects;  /* folder given by --objects */
	bool verbose, json, force, state;
	const char *alias, *cgroup;
	const char **set;     /* "param=value" */
	int nr_set;
	const char **links;
	int nr_links;
	const char *output;
	long port_lo, port_hi;
	long bin_ms, drain_ms, seconds;
};

/* One line on stderr, "asymcc: ..."; returns -1 so that `return fail(...)` reads well. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

int cmd_trace(const struct args *a);

#endif
