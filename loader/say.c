// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "asymcc.h"

int fail(const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *s = text; *s; s++) /* what the user gave may hold anything */
		if (iscntrl((unsigned char)*s))
			*s = '?';
	fprintf(stderr, "asymcc: %s\n", text);
	return -1;
}

void json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}
