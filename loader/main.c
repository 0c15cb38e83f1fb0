// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * asymcc: congestion controllers written in BPF, in service.
 *
 * What is registered, with which values, and who uses it is read from the kernel each time; state.h has the little
 * that the kernel does not tell.
 *
 * The two tables below are the command line: parsing, --help, completion and manual page are made of them.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"

#ifndef ASYMCC_VERSION
#define ASYMCC_VERSION "0.1.0"
#endif

#define EXIT_USAGE 2

enum {
	LIST = 1, LOAD = 2, SHOW = 4, SET = 8, USE = 16, UNUSE = 32, UNLOAD = 64, TOP = 128, TRACE = 256,
	DOCTOR = 512, COMPLETION = 1024, MANUAL = 2048,
	OBJECTS = LIST | LOAD | SHOW | SET | USE | UNUSE | UNLOAD | TRACE | DOCTOR,
	ALL = OBJECTS | TOP | COMPLETION | MANUAL,
};

static int cmd_completion(const struct args *a);
static int cmd_manual(const struct args *a);

static const struct command {
	const char *name;
	int bit;
	const char *words;   /* what it takes beside options; the first is the NAME, in brackets if it may be left out */
	const char *summary;
	const char *about;   /* of the manual page; a paragraph a line */
	int (*run)(const struct args *a);
} commands[] = {
	{ "list", LIST, "", "controllers built and registered, and who uses them",
	  "USED BY tells namespaces whose default a controller is, routes and cgroups that `use` gave it, and open sockets.", cmd_list },
	{ "load", LOAD, "NAME", "load a controller's object and register it",
	  "New connections may use it from then on; none does before `use`, or the like, gives it to them.\n"
	  "With --replace, one of that name that is loaded gives way to the new one: connections that run it keep its "
	  "program and values, new ones get the new. Its values are the defaults and those of --set, not the replaced one's.", cmd_load },
	{ "show", SHOW, "NAME", "parameters, counters and programs of a controller",
	  "Parameters marked \"live\" can be changed by `set`.", cmd_show },
	{ "set", SET, "NAME PARAM=VALUE...", "change parameters while flows run",
	  "Only those that `show` marks \"live\"; the others are constants of the loaded program and need `load --replace`. "
	  "All or none are changed; running connections follow at their next update.", cmd_set },
	{ "use", USE, "NAME", "give a loaded controller to new connections",
	  "--default: those of this network namespace (sysctl net.ipv4.tcp_congestion_control).\n"
	  "--route: those to a prefix (the route's congctl); if the prefix has no route of its own in table main, one is made like "
	  "that by which its first address is reached now.\n"
	  "--cgroup: those that processes of a cgroup open or accept.\n"
	  "A cgroup comes before a route, a route before what the socket itself chose before it was connected, that before the default. "
	  "All uses named are made, or none.", cmd_use },
	{ "unuse", UNUSE, "NAME", "take it back from new connections",
	  "Without options, everywhere. The default becomes what it was before `use` (cubic or reno, if that is not known); routes and "
	  "cgroups name none then, and routes that `use` made are gone. Connections keep what they have.", cmd_unuse },
	{ "unload", UNLOAD, "NAME", "take a controller out of the kernel",
	  "It is refused while a default, a route or a cgroup names the controller. With --drain those are taken back as by `unuse`, and "
	  "the command waits until the last connection has ended, of replaced builds as well. With --force only routes are. Connections "
	  "keep the program they have until they are closed.\n"
	  "It removes what a killed `load` left, too.", cmd_unload },
	{ "top", TOP, "[NAME]", "watch flows, by controller",
	  "The established connections of every network namespace. DELIVERY: the kernel's latest measurement, so of an idle flow a past "
	  "one; - if it has sent no data. ACKS/PKT: segments without data that came in, to each data segment that went out. LOST: "
	  "segments held for lost now.", cmd_top },
	{ "trace", TRACE, "", "record every ACK, and goodput and links in bins",
	  "With --flow and --ports, connections that fit both. Links are counted whole.", cmd_trace },
	{ "doctor", DOCTOR, "", "what works here, what does not, and the mend",
	  "Exit status 1 if a controller could not be loaded here, or if something was left half done.", cmd_doctor },
	{ "completion", COMPLETION, "", "print the completion for bash", "", cmd_completion },
	{ "manual", MANUAL, "", "print the manual page", "", cmd_manual },
};

static const struct opt {
	const char *name;
	int key;
	const char *arg;
	int commands;
	const char *help;
} opts[] = {
	{ "as", 'a', "ALIAS", LOAD, "register under this name; instances may differ in parameters" },
	{ "set", 's', "PARAM=VALUE", LOAD, "change a parameter (`asymcc show NAME` lists them); repeatable" },
	{ "cgroup", 'c', "PATH", LOAD, "whose connections an object's cgroup programs serve (else the root's: all)" },
	{ "replace", 'R', NULL, LOAD, "in place of the one that is registered" },
	{ "default", 'D', NULL, USE | UNUSE, "of this network namespace" },
	{ "route", 'r', "PREFIX", USE | UNUSE, "connections to ADDRESS/LENGTH, or `default`; repeatable" },
	{ "cgroup", 'c', "PATH", USE | UNUSE, "connections of this cgroup2 and those below it; repeatable" },
	{ "json", 'j', NULL, LIST | SHOW | TOP | DOCTOR, "print JSON" },
	{ "force", 'f', NULL, UNLOAD, "unload although something names it" },
	{ "drain", 'd', NULL, UNLOAD, "take back every use, and wait for the last connection" },
	{ "seconds", 't', "N", UNLOAD, "with --drain: wait no longer; 0: not at all" },
	{ "seconds", 't', "N", TRACE, "stop after N seconds (else at SIGINT or SIGTERM)" },
	{ "seconds", 't', "N", TOP, "stop after N seconds" },
	{ "interval", 'i', "N", TOP, "seconds between two looks (1)" },
	{ "once", '1', NULL, TOP, "look once; so does --json, and output that is no terminal" },
	{ "output", 'o', "FILE", TRACE, "where the records go (format: trace.h); replaced if it is there" },
	{ "flow", 'F', "ADDRESS:PORT", TRACE, "only connections that have this end; IPv6 as [ADDRESS]:PORT; repeatable" },
	{ "link", 'l', "DEVICE", TRACE, "count departures and queue of a shaped device (tbf, htb); repeatable" },
	{ "ports", 'p', "LO-HI", TRACE, "only sockets with a local or remote port in this range" },
	{ "state", 'S', NULL, TRACE, "also record the controllers' private state at each ACK" },
	{ "bin-ms", 'b', "MS", TRACE, "width of goodput and link bins (100)" },
	{ "drain-ms", 'm', "MS", TRACE, "time between two collections of records (1000)" },
	{ "objects", 'O', "DIR", OBJECTS, "folder of the objects (else $ASYMCC_OBJECTS; the folder of "
					  "asymcc if it holds some; " INSTALLED " from there)" },
	{ "verbose", 'v', NULL, OBJECTS, "libbpf's messages and the verifier's log" },
	{ "help", 'h', NULL, ALL, "this text" },
	{ "version", 'V', NULL, 0, "version" },
};
#define NR_OPTS (sizeof(opts) / sizeof(opts[0]))
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Without a command: what every one takes. */
static bool takes(const struct opt *o, const struct command *c)
{
	return c ? o->commands & c->bit : o->commands == ALL || o->commands == OBJECTS || !o->commands;
}

/* "-o, --output FILE" */
static void option_text(char *text, size_t size, const struct opt *o)
{
	snprintf(text, size, "-%c, --%s%s%s", o->key, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
}

static void help(const struct command *c)
{
	if (c) {
		printf("asymcc %s%s%s [options]: %s\n\n", c->name, *c->words ? " " : "", c->words, c->summary);
	} else {
		puts("asymcc COMMAND [options]: congestion controllers written in BPF\n");
		for (size_t i = 0; i < NR_COMMANDS; i++)
			printf("  %-10s %-20s %s\n", commands[i].name, commands[i].words, commands[i].summary);
		putchar('\n');
	}
	for (size_t i = 0; i < NR_OPTS; i++) {
		char left[40];

		if (!takes(&opts[i], c))
			continue;
		option_text(left, sizeof(left), &opts[i]);
		printf("  %-26s %s\n", left, opts[i].help);
	}
	if (!c)
		puts("\n`asymcc COMMAND --help` tells a command's own options, `man asymcc` the rest.");
}

static int cmd_completion(const struct args *a)
{
	(void)a;
	fputs("# bash completion of asymcc; made by `asymcc completion`\n"
	      "_asymcc() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
	      "\tlocal words=\n"
	      "\tCOMPREPLY=()\n"
	      "\tcase $before in\n"
	      "\t--objects | -O | --cgroup | -c) mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return ;;\n"
	      "\t--output | -o) mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n"
	      "\tesac\n"
	      "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	      "\t\twords='--help --version", stdout);
	for (size_t i = 0; i < NR_COMMANDS; i++)
		printf(" %s", commands[i].name);
	fputs("'\n"
	      "\telse\n"
	      "\t\tcase $command in\n", stdout);
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		printf("\t\t%s) words='", commands[i].name);
		for (size_t k = 0; k < NR_OPTS; k++)
			if (takes(&opts[k], &commands[i]))
				printf("--%s ", opts[k].name);
		fputs(*commands[i].words ? "'; [[ $word == -* ]] || words+=$(asymcc list 2>/dev/null | awk 'NR > 1 { print $1 }') ;;\n"
					 : "' ;;\n", stdout);
	}
	fputs("\t\tesac\n"
	      "\tfi\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
	      "}\n"
	      "complete -F _asymcc asymcc\n", stdout);
	return 0;
}

/* Text of a manual page: a hyphen is one that can be searched for, a line may begin with anything. */
static void roff(const char *text)
{
	bool open = false;

	for (const char *s = text; *s; s++) {
		if (*s == '-')
			fputs("\\-", stdout);
		else if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '\n')
			fputs("\n.PP\n", stdout);
		else if (*s == '`')
			fputs((open = !open) ? "\\(oq" : "\\(cq", stdout);
		else if ((*s == '.' || *s == '\'') && (s == text || s[-1] == '\n'))
			printf("\\&%c", *s);
		else
			putchar(*s);
	}
	putchar('\n');
}

static void roff_options(const struct command *c)
{
	for (size_t i = 0; i < NR_OPTS; i++) {
		char left[40];

		if (!takes(&opts[i], c) || (c && (opts[i].commands == ALL || opts[i].commands == OBJECTS)))
			continue;
		puts(".TP");
		option_text(left, sizeof(left), &opts[i]);
		roff(left);
		roff(opts[i].help);
	}
}

static int cmd_manual(const struct args *a)
{
	(void)a;
	puts(".\\\" made by `asymcc manual`\n"
	     ".TH ASYMCC 8 \"\" \"asymcc " ASYMCC_VERSION "\" \"System Administration\"\n"
	     ".SH NAME\nasymcc \\- TCP congestion controllers written in BPF: load, use, watch, tune and remove them\n"
	     ".SH SYNOPSIS\n.B asymcc\n.I COMMAND\n[options]\n"
	     ".SH DESCRIPTION\n"
	     "Registers BPF objects that hold a struct tcp_congestion_ops with the running kernel (6.1 or later with BTF), "
	     "without a reboot. Connections that are open keep the controller they have, whatever is loaded, replaced or unloaded.\n"
	     ".SH COMMANDS");
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		const struct command *c = &commands[i];

		printf(".SS \"asymcc %s%s%s\"\n", c->name, *c->words ? " " : "", c->words);
		printf("%c", c->summary[0] - 'a' + 'A');
		roff(c->summary + 1);
		if (*c->about) {
			puts(".PP");
			roff(c->about);
		}
		roff_options(c);
	}
	puts(".SH OPTIONS OF MOST COMMANDS");
	for (size_t i = 0; i < NR_OPTS; i++) {
		char left[40];

		if (opts[i].commands != ALL && opts[i].commands != OBJECTS && opts[i].commands)
			continue;
		puts(".TP");
		option_text(left, sizeof(left), &opts[i]);
		roff(left);
		roff(opts[i].help);
	}
	puts(".SH EXIT STATUS\n0 done; 1 not done, with one line on standard error; 2 the command line is wrong.\n"
	     ".SH CAPABILITIES\nCAP_BPF, CAP_PERFMON and CAP_NET_ADMIN to load; CAP_SYS_ADMIN, too, to find what is loaded and to "
	     "look into other network namespaces. Nothing is setuid.\n"
	     ".SH ENVIRONMENT\n.TP\nASYMCC_OBJECTS\nFolder of the objects.\n"
	     ".SH FILES\n.TP\n/usr/lib/asymcc\nThe objects, NAME.bpf.o; /usr/local/lib/asymcc if it is installed there.\n"
	     ".TP\n/etc/asymcc/NAME.conf\nWhat asymcc@NAME.service loads: LOAD= options of load, USE= options of use.\n"
	     ".TP\n/run/asymcc\nThe lock, the defaults that \\(oquse \\-\\-default\\(cq replaced, and replacements under way.\n"
	     ".SH EXAMPLES\n.nf\n"
	     "asymcc load fast \\-\\-set alpha=50\n"
	     "asymcc use fast \\-\\-route 198.51.100.0/24\n"
	     "asymcc top\n"
	     "asymcc set fast alpha=80\n"
	     "asymcc unload fast \\-\\-drain\n"
	     ".fi\n"
	     ".SH SEE ALSO\nip\\-route(8), ss(8), bpftool\\-struct_ops(8), tcp(7)");
	return 0;
}

static long number(const char *option, const char *text, long min, long max, bool *ok)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < min || n > max) {
		fail("--%s %s: expected an integer from %ld to %ld", option, text, min, max);
		*ok = false;
	}
	return n;
}

static const char *named(const char *what, const char *text, bool *ok)
{
	if (!is_name(text)) {
		fail("%s \"%s\": expected 1 to %d letters, digits, '_', '.' and '-'", what, text, CC_NAME_LEN - 1);
		*ok = false;
	}
	return text;
}

static void parse_ports(struct args *a, const char *text, bool *ok)
{
	char rest;

	if (sscanf(text, "%5ld-%5ld%c", &a->port_lo, &a->port_hi, &rest) != 2 || a->port_lo < 0 ||
	    a->port_hi > 65535 || a->port_lo > a->port_hi) {
		fail("--ports %s: expected LO-HI with 0 <= LO <= HI <= 65535", text);
		*ok = false;
	}
}

static void apply(struct args *a, int key, const char *value, bool *ok)
{
	switch (key) {
	case 'a': a->alias = named("--as", value, ok); break;
	case 's': a->set[a->nr_set++] = value; break;
	case 'c': a->cgroups[a->nr_cgroups++] = value; break;
	case 'r': a->routes[a->nr_routes++] = value; break;
	case 'R': a->replace = true; break;
	case 'D': a->by_default = true; break;
	case 'j': a->json = true; break;
	case 'f': a->force = true; break;
	case 'd': a->drain = true; break;
	case '1': a->once = true; break;
	case 'i': a->interval = number("interval", value, 1, 86400, ok); break;
	case 'o': a->output = value; break;
	case 'F': a->flows[a->nr_flows++] = value; break;
	case 'l': a->links[a->nr_links++] = value; break;
	case 'p': parse_ports(a, value, ok); break;
	case 'S': a->state = true; break;
	case 'b': a->bin_ms = number("bin-ms", value, 1, 3600000, ok); break;
	case 'm': a->drain_ms = number("drain-ms", value, 1, 3600000, ok); break;
	case 't': a->seconds = number("seconds", value, 0, 1000000, ok); break;
	case 'O': a->objects = value; break;
	case 'v': a->verbose = true; break;
	}
}

static const char *long_name(int key, const struct command *c)
{
	const struct opt *o = opts;

	while (o->key != key || !takes(o, c))
		o++;
	return o->name;
}

/* Options that `c` takes (before a command is known: those of all). Returns -1 to go on. */
static int parse(struct args *a, const struct command *c, int argc, char **argv)
{
	struct option longs[NR_OPTS + 1] = {};
	char shorts[2 * NR_OPTS + 3], *s = shorts;
	bool ok = true;
	int n = 0, key;

	*s++ = c ? ':' : '+'; /* without a command, stop at the first word: it is the command */
	if (!c)
		*s++ = ':';
	for (size_t i = 0; i < NR_OPTS; i++) {
		if (!takes(&opts[i], c))
			continue;
		longs[n++] = (struct option){
			opts[i].name, opts[i].arg ? required_argument : no_argument, NULL, opts[i].key
		};
		*s++ = opts[i].key;
		if (opts[i].arg)
			*s++ = ':';
	}
	*s = 0;
	optind = 0;
	while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const char *what = argv[optind - 1];

		if (key == 'h') {
			help(c);
			return EXIT_SUCCESS;
		}
		if (key == 'V') {
			printf("asymcc %s (libbpf %s)\n", ASYMCC_VERSION, libbpf_version_string());
			return EXIT_SUCCESS;
		}
		if (key == '?' || key == ':') {
			fail(key == ':' ? "option %s needs a value; see asymcc%s%s --help"
					: "unknown option %s; see asymcc%s%s --help",
			     what, c ? " " : "", c ? c->name : "");
			return EXIT_USAGE;
		}
		if (optarg && !*optarg) { /* an unset variable of the shell's */
			fail("--%s: its value is empty", long_name(key, c));
			return EXIT_USAGE;
		}
		apply(a, key, optarg, &ok);
	}
	return ok ? -1 : EXIT_USAGE;
}

/* NAME and what follows; `words` are those on the command line. */
static bool take_words(struct args *a, const struct command *c, int n, char **words)
{
	bool optional = c->words[0] == '[', any = strchr(c->words, ' '), ok = true;

	if (!*c->words && n)
		fail("%s takes no name; see asymcc %s --help", c->name, c->name);
	else if (*c->words && !n && !optional)
		fail("%s takes %s; see asymcc %s --help", c->name, any ? c->words : "one NAME", c->name);
	else if (n > 1 && !any)
		fail("%s takes one NAME; see asymcc %s --help", c->name, c->name);
	else if (any && n < 2)
		fail("%s takes %s; see asymcc %s --help", c->name, c->words, c->name);
	else {
		a->name = n ? words[0] : NULL;
		a->words = (const char **)words + (n > 0);
		a->nr_words = n > 0 ? n - 1 : 0;
		if (n)
			named("name", a->name, &ok);
		return ok;
	}
	return false;
}

int main(int argc, char **argv)
{
	const struct command *c = NULL;
	const char **lists = calloc(5 * (size_t)argc, sizeof(*lists));
	struct args a = {
		.port_hi = 65535, .bin_ms = 100, .drain_ms = 1000, .seconds = -1, .interval = 1,
		.set = lists, .cgroups = lists + argc, .routes = lists + 2 * argc, .flows = lists + 3 * argc,
		.links = lists + 4 * argc,
	};
	int ret = EXIT_FAILURE;

	if (!lists) {
		fail("out of memory");
		goto cleanup;
	}
	ret = parse(&a, NULL, argc, argv);
	if (ret >= 0)
		goto cleanup;
	ret = EXIT_USAGE;
	argc -= optind;
	argv += optind;
	for (size_t i = 0; argc > 0 && i < NR_COMMANDS; i++)
		if (!strcmp(argv[0], commands[i].name))
			c = &commands[i];
	if (!c) {
		fail(argc > 0 ? "unknown command %s; see asymcc --help"
			      : "no command given; see asymcc --help", argc > 0 ? argv[0] : "");
		goto cleanup;
	}
	ret = parse(&a, c, argc, argv);
	if (ret >= 0)
		goto cleanup;
	ret = EXIT_USAGE;
	if (!take_words(&a, c, argc - optind, argv + optind))
		goto cleanup;
	object_messages(a.verbose);
	ret = c->run(&a) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (ret == EXIT_SUCCESS && (fflush(stdout) || ferror(stdout))) {
		fail("cannot write the output: %s", strerror(errno));
		ret = EXIT_FAILURE;
	}
cleanup:
	free(lists);
	return ret;
}
