// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "view/output.h"
#include "view/text.h"

#define DEPTH 8

static struct level {
	const char *between, *tail;
	char end;
	int nr; /* members so far */
} levels[DEPTH];

static int depth;
static bool json;
static FILE *file;
static const char *next_between;

void output_json(bool is_json)
{
	json = is_json;
}

void output_to(FILE *f)
{
	file = f;
}

bool output_is_json(void)
{
	return json;
}

void print(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!json)
		vfprintf(file ? file : stdout, fmt, ap);
	va_end(ap);
}

/* Whether anything is to follow. */
static bool member(const char *key)
{
	struct level *in = &levels[depth];
	const char *between = next_between ? next_between : in->between;

	if (!json)
		return false;
	if (in->nr++)
		putchar(',');
	if (depth && *between)
		fputs(between, stdout);
	else if (in->nr > 1)
		putchar(' ');
	next_between = NULL;
	if (key)
		printf("%s: ", json_text(key));
	return true;
}

static void begin(const char *key, char first, const struct level *level)
{
	if (!member(key))
		return;
	putchar(first);
	levels[++depth] = *level;
}

void object_begin(const char *key, const char *between, const char *tail)
{
	begin(key, '{', &(struct level){ between, tail, '}', 0 });
}

void list_begin(const char *key, const char *between, const char *tail)
{
	begin(key, '[', &(struct level){ between, tail, ']', 0 });
}

void level_end(void)
{
	const struct level *of = &levels[depth];

	if (!json)
		return;
	if (of->nr)
		fputs(of->tail, stdout);
	putchar(of->end);
	if (!--depth) {
		putchar('\n');
		levels[0].nr = 0;
	}
}

void member_break(const char *between)
{
	next_between = between;
}

static void write_value(const struct member *m)
{
	if (m->kind == TEXT)
		fputs(json_text(m->text), stdout);
	else if (m->kind == FLAG)
		fputs(m->integer ? "true" : "false", stdout);
	else if (m->kind == INTEGER)
		printf("%lld", m->integer);
	else if (isfinite(m->real))
		printf(m->format, m->real);
	else
		fputs("null", stdout);
}

void members_write(const struct member *m)
{
	for (; m->kind != END; m++)
		if (member(m->key))
			write_value(m);
}

void family(const char *name, const char *type, const char *unit, const char *help)
{
	printf("# TYPE %s %s\n", name, type);
	if (unit)
		printf("# UNIT %s %s\n", name, unit);
	printf("# HELP %s %s\n", name, help);
}

void sample(const char *name, const char *const *labels, const char *fmt, ...)
{
	char sep = '{';
	va_list ap;

	fputs(name, stdout);
	for (; *labels; labels += 2) {
		if (!labels[1])
			continue;
		printf("%c%s=", sep, labels[0]);
		label_value(labels[1]);
		sep = ',';
	}
	printf("} ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}
