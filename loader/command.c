// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "object/object.h"

#define OPTION_LEN 40
#define EXIT_USAGE 2

const struct command *const *commands;

static const char *objects;
static bool verbose;

const struct opt common[] = {
	{ "objects", 'O', "DIR",
	  "folder of the objects (else $ASYMCC_OBJECTS; the folder of asymcc if it holds some; " INSTALLED
	  " from there)",
	  .text = &objects },
	{ "verbose", 'v', NULL, "libbpf's messages and the verifier's log", .flag = &verbose },
	{ "help", 'h', NULL, "this text", .flag = NULL },
	{ "version", 'V', NULL, "version", .flag = NULL },
	{}
};

static bool is_taken(const struct opt *o, const struct command *c)
{
	return !c || o->key == 'h' || (o->key != 'V' && c->objects);
}

int opts_of(const struct command *c, const struct opt *list[OPTS_MAX])
{
	int nr = 0;

	for (const struct opt *o = c ? c->opts : NULL; o && o->name; o++)
		list[nr++] = o;
	for (const struct opt *o = common; o->name; o++)
		if (is_taken(o, c))
			list[nr++] = o;
	return nr;
}

const char *words_text(const struct command *c)
{
	static char text[80];
	int n = 0;

	text[0] = 0;
	for (const struct opt *w = c->words; w && w->arg; w++)
		n += snprintf(text + n, sizeof(text) - n, "%s%s", n ? " " : "", w->arg);
	return text;
}

const char *option_text(const struct opt *o)
{
	static char text[OPTION_LEN];

	snprintf(text, sizeof(text), "-%c, --%s%s%s", o->key, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
	return text;
}

/* --help: of one command, or of all. */
static void print_help(const struct command *c)
{
	const struct opt *list[OPTS_MAX];
	int nr = opts_of(c, list);

	if (c) {
		printf("asymcc %s%s%s [options]: %s\n\n", c->name, c->words ? " " : "", words_text(c), c->summary);
	} else {
		puts("asymcc COMMAND [options]: congestion controllers written in BPF\n");
		for (const struct command *const *i = commands; *i; i++)
			printf("  %-10s %-20s %s\n", (*i)->name, words_text(*i), (*i)->summary);
		putchar('\n');
	}
	for (int i = 0; i < nr; i++)
		printf("  %-26s %s\n", option_text(list[i]), list[i]->help);
	if (!c)
		puts("\n`asymcc COMMAND --help` tells a command's own options, `man asymcc` the rest.");
}

static int take(const struct opt *o, const char *value)
{
	char option[32] = "name";

	if (o->name)
		snprintf(option, sizeof(option), "--%s", o->name);
	if (o->name && value && !*value) /* an unset variable of the shell's */
		return fail("%s: its value is empty", option);
	if (o->flag)
		*o->flag = true;
	else if (o->text)
		*o->text = value;
	else if (o->cc)
		return name_parse(o->cc, option, value);
	else if (o->controller)
		return controller_parse(o->controller, option, value);
	else if (o->texts)
		return texts_add(o->texts, value);
	else if (o->number)
		return number_parse(o->number, option, value, o->min, o->max);
	else if (o->kbit)
		return rate_parse(o->kbit, option, value);
	else if (o->ports)
		return ports_parse(o->ports, value);
	return 0;
}

/* For getopt_long(): ":a:b", and the long names. */
static void describe(const struct opt *const *list, int nr, const struct command *c, char *shorts, struct option *longs)
{
	shorts += sprintf(shorts, c ? ":" : "+:"); /* without a command, stop at the first word: it is the command */
	for (int i = 0; i < nr; i++) {
		longs[i] = (struct option){
			list[i]->name, list[i]->arg ? required_argument : no_argument, NULL, list[i]->key
		};
		shorts += sprintf(shorts, "%c%s", list[i]->key, list[i]->arg ? ":" : "");
	}
}

/* getopt_long() takes the begin of a name; the next version may have two such. */
static bool is_shortened(const struct opt *o, char **argv, const char *value)
{
	const char *word = argv[optind - 1];
	size_t n;

	if (value && value == word) /* its own word */
		word = argv[optind - 2];
	n = strcspn(word, "=");
	if (n == strlen(o->name) + 2 && !strncmp(word + 2, o->name, n - 2))
		return false;
	fail("unknown option %.*s: write --%s", (int)n, word, o->name);
	return true;
}

/* Options that `c` takes (NULL: those before a command). Returns -1 to go on, else the exit status. */
static int parse(const struct command *c, int argc, char **argv)
{
	struct option longs[OPTS_MAX + 1] = {};
	const struct opt *list[OPTS_MAX];
	char shorts[2 * OPTS_MAX + 3];
	int key, at, nr = opts_of(c, list);

	describe(list, nr, c, shorts, longs);
	optind = 0;
	while (at = -1, (key = getopt_long(argc, argv, shorts, longs, &at)) != -1) {
		if (key == '?' || key == ':') {
			fail(key == ':' ? "option %s needs a value; see asymcc%s%s --help"
					: "unknown option %s; see asymcc%s%s --help",
			     argv[optind - 1], c ? " " : "", c ? c->name : "");
			return EXIT_USAGE;
		}
		if (at >= 0 && is_shortened(list[at], argv, optarg)) /* a long one */
			return EXIT_USAGE;
		if (key == 'h') {
			print_help(c);
			return EXIT_SUCCESS;
		}
		if (key == 'V') {
			printf("asymcc %s (libbpf %s)\n", ASYMCC_VERSION, libbpf_version_string());
			return EXIT_SUCCESS;
		}
		for (int i = 0; i < nr; i++)
			if (list[i]->key == key && take(list[i], optarg))
				return EXIT_USAGE;
	}
	return -1;
}

/* The words beside the options; a last kind of word that is a list takes the rest. */
static int take_words(const struct command *c, int n, char **words)
{
	int nr = 0, least = 0, err = 0;
	bool many = false;

	for (const struct opt *w = c->words; w && w->arg; w++) {
		nr++;
		least += *w->arg != '[';
		many = w->texts;
	}
	if (!nr && n)
		return fail("%s takes no name; see asymcc %s --help", c->name, c->name);
	if (n < least || (n > nr && !many))
		return fail("%s takes %s; see asymcc %s --help", c->name, nr > 1 ? words_text(c) : "one NAME", c->name);
	for (int i = 0; i < n && !err; i++)
		err = take(&c->words[i < nr ? i : nr - 1], words[i]);
	return err;
}

int options_parse(const struct command *c, const struct texts *words)
{
	char **argv = calloc(words->nr + 2, sizeof(*argv));
	int err = argv ? 0 : fail("out of memory");

	for (int i = 0; i < words->nr && !err; i++)
		argv[i + 1] = (char *)words->text[i];
	if (!err) {
		argv[0] = (char *)c->name;
		err = parse(c, words->nr + 1, argv) >= 0 ? -1 : 0;
	}
	if (!err && optind <= words->nr)
		err = fail("%s takes no name; see asymcc %s --help", c->name, c->name);
	free(argv);
	return err;
}

static int run(const struct command *c)
{
	object_settings(objects, verbose);
	if (c->run())
		return EXIT_FAILURE;
	if (!fflush(stdout) && !ferror(stdout))
		return EXIT_SUCCESS;
	fail("cannot write the output: %s", strerror(errno));
	return EXIT_FAILURE;
}

int command_line(const struct command *const *all, int argc, char **argv)
{
	const struct command *const *c = commands = all;
	int ret = parse(NULL, argc, argv);

	if (ret >= 0)
		return ret;
	argc -= optind;
	argv += optind;
	if (argc <= 0) {
		fail("no command given; see asymcc --help");
		return EXIT_USAGE;
	}
	while (*c && strcmp(argv[0], (*c)->name))
		c++;
	if (!*c) {
		fail("unknown command %s; see asymcc --help", argv[0]);
		return EXIT_USAGE;
	}
	ret = parse(*c, argc, argv);
	if (ret >= 0)
		return ret;
	return take_words(*c, argc - optind, argv + optind) ? EXIT_USAGE : run(*c);
}
