/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The lines that asymcc says, and the names in them. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CC_NAME_LEN 16 /* of a congestion control's name, with its NUL */

/* One line on stderr, "asymcc: ..."; returns -1 so that `return fail(...)` reads well. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on each such line ends so, after "; ": what stays as it is in spite of the failure. */
void fail_adds(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * Names of cgroups, files and processes come from anybody. In text, what would steer the terminal, or is no UTF-8,
 * becomes '?'. In JSON and OpenMetrics: quoted by their rules; what is no UTF-8 becomes U+FFFD.
 */
void clean_text(char *s);
const char *printable(const char *s); /* a copy, till the fourth call after */
const char *json_text(const char *s); /* NULL: null; as long */
void label_value(const char *s);

/* Can it be a controller's name? 1 to 15 letters, digits, '_', '.' and '-': one of the kernel's own has that. */
bool is_name(const char *s);

#endif
