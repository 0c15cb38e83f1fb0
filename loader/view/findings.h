/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `status` and `doctor` tell by this what is not as asymcc made it, or may not stay so, and the mend. */
#ifndef FINDINGS_H
#define FINDINGS_H

#include "uses/inventory.h"

enum grade { GOOD, NOTE, BAD };

struct report {
	/* `mend` NULL: nothing is to be done */
	void (*line)(struct report *r, enum grade grade, const char *what, const char *mend, const char *text);
	int nr, bad; /* lines; of them BAD */
};

void report(struct report *r, enum grade grade, const char *what, const char *mend, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Defaults, routes and cgroups that lost what `use` gave them, and programs of others beside ours. -1 with a message. */
int findings_report(struct report *r, const struct inventory *now, bool blind);

/* Programs, namespaces and uses where nobody here can look. -1 with a message: that is not known. */
int findings_hidden(struct report *r, const struct inventory *now, bool blind);

#endif
