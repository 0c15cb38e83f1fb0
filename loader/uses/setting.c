// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "uses/setting.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The value that begins at *s, into `out`; *s is then behind its line. */
static void take_value(const char **s, char *out)
{
	char *end = out, quote = 0; /* blanks after `end` do not count: they were not quoted */
	bool begins = true;         /* here a quote would be one */
	const char *c = *s;

	for (; *c && (quote || *c != '\n'); c++) {
		if (quote ? *c == quote : begins && (*c == '"' || *c == '\'')) {
			quote = quote ? 0 : *c;
		} else if (*c == '\\' && c[1] && quote != '\'') {
			c++;
			if (quote && !strchr("\"\\`$\n", *c))
				*out++ = '\\';
			if (*c != '\n')
				*out++ = *c;
			end = out;
			begins = quote;
		} else if (quote || !begins || !is_blank(*c)) {
			*out++ = *c;
			if (quote || !is_blank(*c))
				end = out;
			begins = quote;
		}
	}
	*end = 0;
	*s = c;
}

char *setting_read(const char *text, const char *key)
{
	char *value = malloc(strlen(text) + 1), *other = malloc(strlen(text) + 1);
	const char *s = text;
	bool found = false;

	while (*s && value && other) {
		const char *name = s += strspn(s, " \t\r\n");
		size_t n;

		if (*s == '#' || *s == ';') {
			for (; *s && *s != '\n'; s++) /* it goes on behind a backslash */
				s += *s == '\\' && s[1];
			continue;
		}
		s += strcspn(s, "=\n");
		if (*s != '=')
			continue;
		for (n = s - name; n && is_blank(name[n - 1]); n--)
			;
		s++;
		if (n == strlen(key) && !memcmp(name, key, n)) {
			take_value(&s, value);
			found = true;
		} else {
			take_value(&s, other);
		}
	}
	free(other);
	if (found)
		return value;
	free(value);
	return NULL;
}

int setting_split(const char *value, struct texts *words, char **store)
{
	char *out = *store = malloc(strlen(value) + 2), quote = 0;
	bool any = false;
	int err = *store ? 0 : -1;

	if (!err)
		*out = 0;
	for (char *word = out; !err; value++) {
		char c = *value;

		if (c == '\\' && value[1]) {
			*out++ = *++value;
			any = true;
		} else if (c && quote) {
			if (c == quote)
				quote = 0;
			else
				*out++ = c;
		} else if (c == '\'' || c == '"') {
			quote = c;
			any = true;
		} else if (!c || strchr(" \t\r\n", c)) {
			*out++ = 0;
			if (any)
				err = texts_add(words, word);
			word = out;
			any = false;
			if (!c)
				break;
		} else {
			*out++ = c;
			any = true;
		}
	}
	return err;
}
