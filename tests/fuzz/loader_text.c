// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: what asymcc reads of text: its state files, prefixes, assignments of parameters. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const void *content;
static size_t content_size;
#define fopen(path, mode) fmemopen((void *)content, content_size, "r")
#include "state.c"
#undef fopen
#include "object.c"
#include "say.c"
#include "vars.c"
#include "netlink.c"
#define netlink_open(protocol) (-EPERM)
#include "route.c"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct var var[] = { { .name = "alpha", .size = 4, .max = 1000 }, { .name = "beta", .size = 2, .is_signed = true, .min = -9, .max = 9 } };
	const struct vars vars = { var, 2 };
	char first[CC_NAME_LEN], second[CC_NAME_LEN], *text = malloc(size + 1), *value = malloc(8);
	const struct var *v;
	struct prefix p;
	long long number;

	memcpy(text, data, size);
	text[size] = 0;
	content = text;
	content_size = size;
	if (size)
		state_read("default-1", first, second);
	prefix_parse(&p, text);
	if (!assignment_parse(&vars, "fuzz", "", text, &v, &number)) {
		var_set(v, value, number);
		if (var_get(v, value) != number)
			abort();
	}
	free(text);
	free(value);
	return 0;
}
