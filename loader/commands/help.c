// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tables of the commands as text: `asymcc completion`, `asymcc manual`. */
#include <stdio.h>
#include <string.h>

#include "command.h"

static int completion(void)
{
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
	      "\t\twords='--help --version",
	      stdout);
	for (const struct command *const *c = commands; *c; c++)
		printf(" %s", (*c)->name);
	fputs("'\n"
	      "\telse\n"
	      "\t\tcase $command in\n",
	      stdout);
	for (const struct command *const *c = commands; *c; c++) {
		const struct opt *list[OPTS_MAX];
		int nr = opts_of(*c, list);

		printf("\t\t%s) words='", (*c)->name);
		for (int i = 0; i < nr; i++)
			printf("--%s ", list[i]->name);
		putchar('\'');
		if ((*c)->words)
			printf("; [[ $word == -* ]] || words+=$(asymcc list 2>/dev/null | awk 'NR > 1 { print $1 }')");
		puts(" ;;");
	}
	fputs("\t\tesac\n"
	      "\tfi\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
	      "}\n"
	      "complete -F _asymcc asymcc\n",
	      stdout);
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

static void roff_options(const struct opt *o)
{
	for (; o && o->name; o++) {
		puts(".TP");
		roff(option_text(o));
		roff(o->help);
	}
}

static void roff_command(const struct command *c)
{
	printf(".SS \"asymcc %s%s%s\"\n", c->name, c->words ? " " : "", words_text(c));
	printf("%c", c->summary[0] - 'a' + 'A');
	roff(c->summary + 1);
	if (c->about) {
		puts(".PP");
		roff(c->about);
	}
	roff_options(c->opts);
}

static int manual(void)
{
	puts(".\\\" made by `asymcc manual`\n"
	     ".TH ASYMCC 8 \"\" \"asymcc " ASYMCC_VERSION "\" \"System Administration\"\n"
	     ".SH NAME\nasymcc \\- TCP congestion controllers written in BPF: load, use, watch, tune and remove them\n"
	     ".SH SYNOPSIS\n.B asymcc\n.I COMMAND\n[options]\n"
	     ".SH DESCRIPTION\n"
	     "Registers BPF objects that hold a struct tcp_congestion_ops with the running kernel (6.1 or later with "
	     "BTF), without a reboot. Connections that are open keep the controller they have, whatever is loaded, "
	     "replaced or unloaded.\n"
	     ".SH COMMANDS");
	for (const struct command *const *c = commands; *c; c++)
		roff_command(*c);
	puts(".SH OPTIONS OF MOST COMMANDS");
	roff_options(common);
	puts(".SH EXIT STATUS\n0 done; 1 not done, with one line on standard error; 2 the command line is wrong. "
	     "list and top tell what they know, and end with 1 if a network namespace or an object cannot be read.\n"
	     ".SH CAPABILITIES\nCAP_BPF, CAP_PERFMON and CAP_NET_ADMIN to load; CAP_SYS_ADMIN, too, to find what is "
	     "loaded and to look into other network namespaces. Nothing is setuid.\n"
	     ".SH ENVIRONMENT\n.TP\nASYMCC_OBJECTS\nFolder of the objects.\n"
	     ".SH FILES\n.TP\n/usr/lib/asymcc\nThe objects, NAME.bpf.o; /usr/local/lib/asymcc if it is installed "
	     "there.\n"
	     ".TP\n/etc/asymcc/NAME.conf\nWhat asymcc@NAME.service loads: LOAD= options of load, USE= options of use.\n"
	     ".TP\n/run/asymcc\nThe lock; what \\(oqload\\(cq and \\(oquse\\(cq did and what was there before; trials and "
	     "replacements under way.\n"
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

const struct command cmd_completion = {
	.name = "completion",
	.summary = "print the completion for bash",
	.run = completion,
};

const struct command cmd_manual = {
	.name = "manual",
	.summary = "print the manual page",
	.run = manual,
};
