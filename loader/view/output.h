/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A command writes by this: text, or with --json JSON. It describes each thing once, as JSON's members and as
 * words of a text; each call writes in one of the two forms alone.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Which form; text at first. */
void output_json(bool json);
bool output_is_json(void);
/* Text goes there; NULL, and at first: stdout. */
void output_to(FILE *f);

/* Text. Names of strangers go through printable() of text.h. */
void print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * JSON. `key` NULL: an element of a list. `between` stands before each member: "\n  " for lines of their own, "" for one line. When
 * there were members, `tail` stands before the end.
 */
void object_begin(const char *key, const char *between, const char *tail);
void list_begin(const char *key, const char *between, const char *tail);
void level_end(void); /* of the object or list that was begun last */
/* The next member stands behind this. */
void member_break(const char *between);

struct member {
	const char *key; /* NULL: an element of a list */
	enum { END, TEXT, FLAG, INTEGER, REAL } kind;
	const char *text, *format; /* NULL: null; of a REAL */
	long long integer;
	double real; /* null if it is no number */
};

static inline struct member text_of(const char *key, const char *text)
{
	return (struct member){ .key = key, .kind = TEXT, .text = text };
}

static inline struct member flag_of(const char *key, bool flag)
{
	return (struct member){ .key = key, .kind = FLAG, .integer = flag };
}

static inline struct member integer_of(const char *key, long long integer)
{
	return (struct member){ .key = key, .kind = INTEGER, .integer = integer };
}

static inline struct member integer_if(const char *key, bool known, long long integer)
{
	return known ? integer_of(key, integer) : text_of(key, NULL);
}

static inline struct member real_of(const char *key, const char *format, double real)
{
	return (struct member){ .key = key, .kind = REAL, .format = format, .real = real };
}

void members_write(const struct member *m); /* END at the end */
#define members(...) members_write((const struct member[]){ __VA_ARGS__, { .kind = END } })
/* A whole object, as an element of a list. */
#define object(...) \
	do { \
		object_begin(NULL, "", ""); \
		members(__VA_ARGS__); \
		level_end(); \
	} while (0)

/* OpenMetrics. `unit` NULL: it has none. */
void family(const char *name, const char *type, const char *unit, const char *help);
/* `labels`: name and value in turn, NULL at the end; one whose value is NULL is left out. */
void sample(const char *name, const char *const *labels, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
