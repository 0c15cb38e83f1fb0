/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the parts of the loader share. */
#ifndef ASYMCC_H
#define ASYMCC_H

#include <stdbool.h>
#include <stddef.h>

#define CC_NAME_LEN 16 /* of a congestion control's name, with its NUL */

/* One line on stderr, "asymcc: ..."; returns -1 so that `return fail(...)` reads well. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Names come from anybody: what would steer the terminal, or is no UTF-8, becomes '?'. */
void clean_text(char *s);
void json_string(const char *s);

#endif
