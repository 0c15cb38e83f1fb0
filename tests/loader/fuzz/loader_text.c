// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: what asymcc reads of text: its state files and settings, prefixes, ends of flows, ranges of ports, assignments of parameters. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const void *content;
static size_t content_size;

/* The content of a state file. */
static ssize_t read_content(void *to, size_t most)
{
	size_t n = content_size < most ? content_size : most;

	memcpy(to, content, n);
	return n;
}
#define openat(at, ...) open("/dev/null", O_RDONLY | O_CLOEXEC)
#define read(fd, to, most) read_content(to, most)
#include "uses/state.c"
#undef openat
#undef read
#include "args.c"
#include "kernel/flow_end.c"
#include "view/text.c"
#include "uses/setting.c"
#include "object/variables.c"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static struct var var[] = {
		{ .name = "alpha", .size = 4, .max = 1000 },
		{ .name = "beta", .size = 2, .is_signed = true, .min = -9, .max = 9 }
	};
	const struct vars vars = { var, 2 };
	char *text = malloc(size + 1), *value = malloc(8);
	char *setting, *store = NULL;
	struct texts list = {};
	struct record words;
	const struct var *v;
	struct trace_flow_end end;
	struct ports ports;
	struct prefix p;
	long long number;

	memcpy(text, data, size);
	text[size] = 0;
	content = text;
	content_size = size;
	if (state_read("default-1", &words) > 0)
		for (int i = 0; i < STATE_WORDS; i++)
			if (*words.word[i] && !is_name(words.word[i]))
				abort();
	setting = setting_read(text, "A");
	if (setting && !setting_split(setting, &list, &store))
		for (int i = 0; i < list.nr; i++)
			if (strlen(list.text[i]) > size)
				abort();
	free(list.text);
	free(store);
	free(setting);
	prefix_parse(&p, text);
	flow_end_parse(&end, text);
	if (!ports_parse(&ports, text) && (ports.lo < 0 || ports.lo > ports.hi || ports.hi > 65535))
		abort();
	if (!assignment_parse(&vars, "fuzz", "", text, &v, &number)) {
		var_set(v, value, number);
		if (var_get(v, value) != number)
			abort();
	}
	free(text);
	free(value);
	return 0;
}
