// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/text.h"

/* Bytes of the character at `s`; 0: it is no UTF-8, or a control character. */
static size_t character(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned int code = *u, least = 0x20;
	size_t n = 1;

	if (*u >= 0xf0)
		code = *u & 7, least = 0x10000, n = *u < 0xf8 ? 4 : 0;
	else if (*u >= 0xe0)
		code = *u & 0xf, least = 0x800, n = 3;
	else if (*u >= 0xc0)
		code = *u & 0x1f, least = 0xa0, n = 2; /* those from 0x80 on are control characters */
	else if (*u >= 0x7f)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (u[i] & 0x3f);
	}
	return code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

void clean_text(char *s)
{
	while (*s) {
		size_t n = character(s);

		if (!n)
			*s = '?';
		s += n ? n : 1;
	}
}

static char added[2048];

void fail_adds(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(added, sizeof(added), fmt, ap);
	va_end(ap);
	clean_text(added);
}

int fail(const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	clean_text(text);
	fprintf(stderr, "asymcc: %s%s%s\n", text, *added ? "; " : "", added);
	return -1;
}

/* Is it a control character of UTF-8, that is one that character() does not take? */
static bool is_control(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;

	return *u < 0x20 || *u == 0x7f || (*u == 0xc2 && u[1] >= 0x80 && u[1] < 0xa0);
}

static void json_write(FILE *f, const char *s)
{
	fputc('"', f);
	while (*s) {
		size_t n = character(s);

		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if (n)
			fprintf(f, "%.*s", (int)n, s);
		else if (is_control(s)) /* two bytes: the second one is its number */
			fprintf(f, "\\u%04x", (unsigned char)(*s & 0x80 ? *++s : *s));
		else
			fprintf(f, "\\ufffd");
		s += n ? n : 1;
	}
	fputc('"', f);
}

/* Texts that stay till the fourth call after. */
static char **next_text(void)
{
	static char *texts[4];
	static int nr;
	char **text = &texts[nr++ % 4];

	free(*text);
	return text;
}

static void fail_memory(void)
{
	fail("out of memory");
	exit(EXIT_FAILURE);
}

const char *printable(const char *s)
{
	char **text = next_text();

	*text = strdup(s);
	if (!*text)
		fail_memory();
	clean_text(*text);
	return *text;
}

const char *json_text(const char *s)
{
	char **text;
	size_t size;
	FILE *f;

	if (!s)
		return "null";
	text = next_text();
	f = open_memstream(text, &size);
	if (f)
		json_write(f, s);
	if (!f || fclose(f))
		fail_memory();
	return *text;
}

void label_value(const char *s)
{
	putchar('"');
	while (*s) {
		size_t n = character(s);

		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if (*s == '\n')
			printf("\\n");
		else
			printf("%.*s", n ? (int)n : 3, n ? s : "\xef\xbf\xbd"); /* U+FFFD */
		s += n ? n : 1;
	}
	putchar('"');
}

bool is_name(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

	return n && n < CC_NAME_LEN && !s[n];
}
