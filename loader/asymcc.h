/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of the loader share. */
#ifndef ASYMCC_H
#define ASYMCC_H

#include <stdbool.h>
#include <stddef.h>

#define CC_NAME_LEN 16 /* of a congestion control's name, with its NUL */

/* The command line, parsed. */
struct args {
	const char *name;          /* the controller a command is about; NULL: none was named */
	const char **words;        /* what stands after it */
	int nr_words;
	const char *objects;       /* folder given by --objects */
	bool verbose, json, force, drain, replace, state, by_default, once;
	const char *alias;
	const char **set;          /* "param=value" */
	const char **cgroups, **routes, **flows, **links;
	int nr_set, nr_cgroups, nr_routes, nr_flows, nr_links;
	const char *output;
	long port_lo, port_hi;
	long bin_ms, drain_ms;
	long seconds;              /* -1: without end */
	long interval;             /* s */
};

/* One line on stderr, "asymcc: ..."; returns -1 so that `return fail(...)` reads well. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void json_string(const char *s);
/* Can it be a controller's name? 1 to 15 letters, digits, '_', '.' and '-': one of the kernel's own has that. */
bool is_name(const char *s);

int cmd_list(const struct args *a);
int cmd_show(const struct args *a);
int cmd_load(const struct args *a);
int cmd_set(const struct args *a);
int cmd_unload(const struct args *a);
int cmd_use(const struct args *a);
int cmd_unuse(const struct args *a);
int cmd_top(const struct args *a);
int cmd_trace(const struct args *a);
int cmd_doctor(const struct args *a);

#endif
