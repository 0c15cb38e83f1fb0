/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The user's words, by kind. */
#ifndef ARGS_H
#define ARGS_H

#include "view/text.h"

/* The values of an option that may be repeated. */
struct texts {
	const char **text;
	int nr;
};

struct ports {
	long lo, hi;
};

/* A prefix of routes. */
struct prefix {
	const char *text;  /* as it was written */
	int family, len;
	unsigned char addr[16];
};

/* 0, -EINVAL: it is no integer, -ERANGE: it is not from `min` to `max`. `base` as of strtol(). */
int integer_parse(long long *n, const char *text, int base, long long min, long long max);

/* From here on: -1 with a message, which begins with the option. */
bool ends_with(const char *s, const char *end);
/* Is a controller given by the path of its object? One has a '/', or ends with ".o". */
bool is_file(const char *controller);
/* A name, or such a path; ":NAME" may stand behind either. */
int controller_parse(const char **controller, const char *option, const char *text);
int name_parse(const char **name, const char *option, const char *text);
int number_parse(long *n, const char *option, const char *text, long min, long max);
/* "200kbit", "1.5mbit": as the lab takes rates; in kbit/s, rounded. */
#define RATE_MAX_KBIT 10000000
int rate_parse(long *kbit, const char *option, const char *text);
int texts_add(struct texts *list, const char *text);
int ports_parse(struct ports *p, const char *text);
int prefix_parse(struct prefix *p, const char *text);

/* Bits of an address. */
unsigned int address_bits(int family);

#endif
