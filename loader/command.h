/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The command line. Each command tells what it takes in a table beside its code, and its values stand in a struct of
 * its own: parsing, --help, completion and manual page are made of these tables.
 */
#ifndef COMMAND_H
#define COMMAND_H

#include "args.h"

/* An option; or, without a name, a word. */
struct opt {
	const char *name;
	int key;
	const char *arg;     /* what it takes; NULL: nothing */
	const char *help;
	/* where its value goes: the one that is set tells of which kind it is */
	bool *flag;
	const char **text, **cc, **controller;
	struct texts *texts;
	struct ports *ports;
	long *number, min, max;
	long *kbit;          /* a rate */
};

struct command {
	const char *name;
	const char *summary;
	const char *about;       /* for the manual page, a paragraph a line */
	const struct opt *words; /* in their order; in brackets, one that may be left out; NULL: none, as of `opts` */
	const struct opt *opts;  /* its own; both tables end with {} */
	bool objects;            /* it takes --objects and --verbose */
	int (*run)(void);
};

extern const struct command cmd_list, cmd_load, cmd_show, cmd_set, cmd_use, cmd_unuse, cmd_unload, cmd_thin, cmd_uplink,
	cmd_top, cmd_metrics, cmd_trace, cmd_status, cmd_try, cmd_doctor, cmd_completion, cmd_manual;
extern const struct command *const *commands; /* all; NULL at the end */
extern const struct opt common[];              /* of every command, or of most */

#define SECONDS_MAX 1000000
#define OPT_JSON(to) { "json", 'j', NULL, "print JSON", .flag = to }

#define OPTS_MAX 32 /* that one command takes */

/* The options that a command takes, its own first; `c` NULL: those before a command. Returns how many. */
int opts_of(const struct command *c, const struct opt *list[OPTS_MAX]);
/* "NAME PARAM=VALUE..." */
const char *words_text(const struct command *c);
/* "-o, --output FILE" */
const char *option_text(const struct opt *o);

/* Options out of a file, as if they stood on the command line. -1 with a message. */
int options_parse(const struct command *c, const struct texts *words);

/* Runs the command line; `all` ends with NULL. Returns the exit status. */
int command_line(const struct command *const *all, int argc, char **argv);

#endif
