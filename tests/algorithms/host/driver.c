// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A controller's own source on a small model of the kernel's TCP sender.
 *
 * Built with -DCONTROLLER='"fast.bpf.c"' -DOPS=fast; the private state is `struct OPS`, which has
 * a `struct sender s`. FIELDS names the numbers in it, and in the storage.
 *
 *   NAME                   reads a command a line, `name key=value ...`, and answers each with one line of JSON
 *   NAME trace             the same, and each answer has the controller's calls (calls.h)
 *   NAME judge             the same, and ends at the first that breaks a rule (rules.h)
 *   NAME lines FILE        the commands that an input of the fuzzer stands for (stream.h)
 *   NAME [parameter=value ...] [-option=value ...] [FOLDER ...]   libFuzzer; parameters named here stay as they are
 *
 * A key that names a member of the model ("ca.x": of the private state) sets it first.
 *
 *   reset                         every parameter to its default, every counter to 0
 *   set     NAME=value            a parameter, within its bounds
 *   params                        {name: [value, default, min, max]}
 *   new     [key=value]           a fresh connection: init, then the first flight
 *   ack     n= sack= rtt= ece= ce= slow=
 *                                 n packets acknowledged, sack more selectively; rtt in us, -1: none; slow=1: not on the fast path;
 *                                 ece=1: with a mark, and ce= tells of how many packets (else of all)
 *   loss    n= sack= timer= ece=  n packets at the head found lost: fast retransmit, by an ACK or by RACK's timer
 *   cwr                           a queue of this host is full (a mark is the ACK's ece=)
 *   rto     undo                  timeout; the last reduction was spurious
 *   restart cwnd=                 idle for longer than an RTO: the stack cuts the window to cwnd,
 *                                 unless the controller has cong_control
 *   send    event id=  poke       let the application send; raw cwnd_event; set members only
 *   timer                         the pacing timer lets burst= packets leave
 *   release                       another controller follows
 *   state                         everything
 * and, of a controller that has its own TCP options, those of wire.h.
 *
 * Two members matter most: now= (the clock, us) and app= (packets that the application keeps in
 * flight at most; without it the window is the limit). Order and conditions of the calls are the
 * kernel's: tcp_ack(), tcp_fastretrans_alert(), tcp_enter_loss(), tcp_write_xmit().
 * The queue of sent packets is simplified to [lost][selectively acknowledged][in flight].
 */
#include "model.h"
#include "calls.h"
#include "stack.h"

static void print_params(void)
{
	printf("{");
	for (int i = 0; i < n_params; i++)
		printf("%s\"%s\":[%llu,%lld,%lld,%lld]", i ? "," : "", params[i].name, get(&params[i]),
		       params[i].initial, params[i].min, params[i].max);
	printf("}\n");
}

static void raw_event(void)
{
	event(take("id", 0));
}

static void release(void)
{
	if (OPS.release)
		OPS.release(sk);
#ifdef WIRE
	skops.other = true;
#endif
}

static void nothing(void)
{
}

static void reset(void)
{
	for (int i = 0; i < n_params; i++)
		put(&params[i], params[i].initial);
	for (int i = 0; i < n_counters; i++)
		put(&counters[i], 0);
}

static const struct command {
	const char *name;
	void (*run)(void);
	bool sends; /* then packets may leave */
} commands[] = {
	{ "reset", reset, false },     { "set", set_params, false },	 { "new", fresh_socket, true },
	{ "ack", ack, true },	       { "loss", fast_retransmit, true }, { "cwr", enter_cwr, true },
	{ "rto", timeout, true },      { "undo", undo, true },		 { "restart", restart, true },
	{ "send", application_writes, true }, { "event", raw_event, false },	 { "poke", nothing, false },
	{ "release", release, false },	{ "timer", nothing, true },
#ifdef WIRE
	{ "call", call, false },       { "read", read_options, false },	 { "write", write_options, false },
	{ "egress", egress, false },   { "ingress", ingress, false },
#endif
};

UNWATCHED_BEGIN

static const struct command *command(const char *name)
{
	for (int i = 0; i < COUNT_OF(commands); i++)
		if (same(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static struct {
	u32 fresh, again; /* packets that left */
} sent;

/* Executes a line; `error` tells what is wrong with it. */
static void play(struct line *line)
{
	const struct command *c = line->command;

	served = line;
	error = NULL;
	extra[0] = 0;
	sent.fresh = sent.again = 0;
	for (int i = 0; i < line->n; i++)
		line->args[i].taken = false;
	if (c->run != fresh_socket)
		set_members();
	if (skops.other && c->run != fresh_socket && (c->sends || c->run == raw_event))
		return; /* another controller's connection, which sends nothing */
	c->run();
	for (int i = 0; i < line->n && !error; i++)
		if (!line->args[i].taken)
			error = "no such key";
	if (c->sends && !error)
		transmit(&sent.fresh, &sent.again);
}

/* Makes a command of a line of text, and changes the text. */
static void parse_line(char *text, struct line *line)
{
	char *word = strtok(text, " \n");

	error = NULL;
	line->n = 0;
	line->command = word ? command(word) : NULL;
	if (!line->command)
		error = "no such command";
	while ((word = strtok(NULL, " \n")) && !error) {
		char *eq = strchr(word, '=');

		if (!eq || line->n == COUNT_OF(line->args)) {
			error = "not key=value, or too many";
			return;
		}
		*eq = 0;
		line->args[line->n++] =
			(struct arg){ word, eq + 1, strtoll(eq + 1, NULL, 0), member(word), false };
	}
}

static void print_answer(void)
{
	if (tracing)
		printf("],");
	if (error)
		printf("%s\"error\":\"%s\"}\n", tracing ? "" : "{", error);
	else
		printf("%s\"cwnd\":%u,\"sent\":%u,\"again\":%u%s}\n", tracing ? "" : "{", tp->snd_cwnd, sent.fresh, sent.again, extra);
}

#include "rules.h"
#include "stream.h"

/* Each command on stdin. */
static void serve_all(void)
{
	static char text[8192];
	static struct line line;

	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	while (fgets(text, sizeof(text), stdin))
		if (same(text, "state\n")) {
			print_state();
		} else if (same(text, "params\n")) {
			print_params();
		} else {
			begin_trace();
			parse_line(text, &line);
			if (!error)
				play(&line);
			print_answer();
		}
}

/* The stream on stdin, until it breaks a rule. */
static void judge_all(void)
{
	char *text = NULL;
	size_t room = 0;

	start();
	while (getline(&text, &room, stdin) > 0 && stream.n < MOST) {
		struct line *line = &stream.lines[stream.n++];

		printf("%s", text);
		parse_line(text, line);
		if (!error)
			judge_line(line);
		print_answer();
		if (error)
			exit(2);
		text = NULL; /* the line's own from now on */
	}
	free(text);
	finish();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	decode(data, size);
	return 0;
}

static void print_input(const char *path)
{
	static u8 data[1 << 16];
	FILE *file = fopen(path, "r");

	if (!file) {
		perror(path);
		exit(2);
	}
	telling = true;
	decode(data, fread(data, 1, sizeof(data), file));
	fclose(file);
}

/* A parameter that stays as it is. */
static bool fix_param(char *word)
{
	char *eq = strchr(word, '=');
	struct entry *e;

	if (!eq)
		return false;
	*eq = 0;
	e = (struct entry *)find(params, n_params, word);
	*eq = '=';
	if (e)
		e->initial = e->min = e->max = strtoll(eq + 1, NULL, 0);
	return e;
}

/* libFuzzer's main() calls this first. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int n = 1;

	for (int i = 1; i < *argc; i++)
		if (!fix_param((*argv)[i]))
			(*argv)[n++] = (*argv)[i];
	*argc = n;
	(*argv)[n] = NULL;
	tracing = n > 1 && same((*argv)[1], "trace");
	if (n > 1 && !tracing && !same((*argv)[1], "judge") && !same((*argv)[1], "lines"))
		return 0;
	if (n == 1 || tracing)
		serve_all();
	else if (same((*argv)[1], "judge"))
		judge_all();
	else
		print_input((*argv)[2]);
	exit(0);
}

UNWATCHED_END
