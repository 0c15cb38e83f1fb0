// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/text.h"
#include "object/verifier.h"

/* Bytes of a log, as libbpf's own has. It takes no memory until the kernel writes it. */
#define LOG_SIZE (16 << 20)
#define LOCKDOWN "/sys/kernel/security/lockdown"

static bool verbose;
static char verdict[256], complaint[256], whisper[256];

/* It has names from the object. */
static void clean_lines(char *text)
{
	for (char *line = text, *end, c; *line; line = end + !!c) {
		end = line + strcspn(line, "\n\t");
		c = *end;
		*end = 0;
		clean_text(line);
		*end = c;
	}
}

static int on_message(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char *msg;

	if (vasprintf(&msg, fmt, ap) < 0)
		return 0;
	clean_lines(msg);
	if (verbose && level != LIBBPF_DEBUG)
		fputs(msg, stderr);
	if (level != LIBBPF_WARN || !complaint[0]) {
		const char *text = strncmp(msg, "libbpf: ", 8) ? msg : msg + 8;

		snprintf(level == LIBBPF_WARN ? complaint : whisper, sizeof(complaint), "%.*s",
			 (int)strcspn(text, "\n"), text);
	}
	free(msg);
	return 0;
}

void verifier_listen(bool loud)
{
	verbose = loud;
	libbpf_set_print(on_message);
}

/* The line that counts: the last before the verifier's statistics. */
static void keep_verdict(const char *prog, char *log)
{
	clean_lines(log);
	if (verbose && *log)
		fprintf(stderr, "the verifier's log of program %s:\n%s", prog, log);
	for (char *line = log, *next; *line && strncmp(line, "processed ", 10); line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		if (*line)
			snprintf(verdict, sizeof(verdict), "program %s: %.180s", prog, line);
	}
}

int verifier_load(struct bpf_object *o)
{
	struct bpf_program *prog;
	char *log;
	int err;

	/* a buffer for each: it tells which program the verifier rejects. Without one libbpf has its own */
	bpf_object__for_each_program(prog, o) {
		log = calloc(1, LOG_SIZE);
		if (log && bpf_program__set_log_buf(prog, log, LOG_SIZE))
			free(log);
	}
	err = bpf_object__load(o);
	bpf_object__for_each_program(prog, o) {
		log = (char *)bpf_program__log_buf(prog, &(size_t){ 0 });
		if (log && err)
			keep_verdict(bpf_program__name(prog), log);
		free(log);
	}
	return err;
}

const char *verifier_verdict(void)
{
	return verdict[0] ? verdict : NULL;
}

const char *libbpf_complaint(void)
{
	return *complaint ? complaint : whisper;
}

void libbpf_complaint_forget(void)
{
	*complaint = *whisper = 0;
}

/* The file says "none [integrity] confidentiality". */
const char *lockdown(void)
{
	static char line[80];
	FILE *f = fopen(LOCKDOWN, "re");
	char *level = NULL;

	if (f && fgets(line, sizeof(line), f))
		level = strchr(line, '[');
	if (f)
		fclose(f);
	if (!level)
		return "";
	level++;
	level[strcspn(level, "]\n")] = 0;
	return level;
}

bool lockdown_refuses_reads(void)
{
	return !strcmp(lockdown(), "confidentiality");
}
