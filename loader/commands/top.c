// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The connections of all network namespaces, by controller, once or again and again. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "clock.h"
#include "command.h"
#include "flows.h"
#include "netlink.h"
#include "netns.h"
#include "thinning.h"

#define END_LEN (INET6_ADDRSTRLEN + sizeof("[]:65535"))
#define SSTHRESH_INFINITE 0x7fffffff

static struct {
	const char *name;             /* NULL: all */
	bool json, once;
	long seconds;                 /* -1: without end */
	long interval;
} args = { .seconds = -1, .interval = 1 };

/* The states in which data may flow or be acknowledged, by their numbers in the kernel. */
static const char *const states[] = {
	[1] = "ESTABLISHED", [4] = "FIN_WAIT1", [8] = "CLOSE_WAIT", [9] = "LAST_ACK", [11] = "CLOSING",
};
#define NR_STATES (sizeof(states) / sizeof(states[0]))

/* What is told of each flow, the most telling first: a narrow terminal cuts the rest. */
enum { DELIVERY, CWND, SRTT, ACKS, RETRANS, LOST, SSTHRESH, PACING, BYTES_ACKED, BYTES_RECEIVED, NR_VALUES };
enum unit { NUMBER, RATIO, SECONDS, RATE };

static const struct column {
	const char *head;             /* NULL: in JSON only */
	const char *json;
	enum unit unit;
} columns[NR_VALUES] = {
	[DELIVERY] = { "DELIVERY", "delivery_bps", RATE },
	[CWND] = { "CWND", "cwnd_packets", NUMBER },
	[SRTT] = { "SRTT", "srtt_s", SECONDS },
	[ACKS] = { "ACKS/PKT", "acks_per_data_packet", RATIO },
	[RETRANS] = { "RETRANS", "retransmits", NUMBER },
	[LOST] = { "LOST", "lost", NUMBER },
	[SSTHRESH] = { "SSTHRESH", "ssthresh_packets", NUMBER },
	[PACING] = { "PACING", "pacing_bps", RATE },
	[BYTES_ACKED] = { NULL, "bytes_acked", NUMBER },
	[BYTES_RECEIVED] = { NULL, "bytes_received", NUMBER },
};

struct flow {
	char cc[CC_NAME_LEN];
	char local[END_LEN], peer[END_LEN];
	const char *netns;            /* NULL: not known */
	bool own;                     /* it is the namespace we run in */
	const char *state;
	double value[NR_VALUES];      /* NAN: not known */
};

struct look {
	const char *name;             /* the only controller of interest, or NULL */
	struct flow *flow;
	size_t nr, room;
	struct attachments attached;
	struct thinning *thin;        /* where ACKs are thinned, among those; none without the right to see them */
	int nr_thin;
	char **netns;                 /* names, of the namespaces met */
	int nr_netns;
	const char *here;             /* name of the one being looked at; NULL: not known */
	bool at_home, met_home;       /* this one, or any so far, is our own */
	int nr_unread;                /* that could not be read, or not to the end; the first one's error */
	char unread[400], error[400];
};

/* The flows of one controller. */
struct group {
	const struct flow *flow;
	size_t nr, shown;
	double delivery, jain, retrans;
};

/* Kernels differ in how much of tcp_info they have: what is not there stays NAN, or 0 in `i`. */
static void measure(double value[NR_VALUES], const void *data, size_t len)
{
	struct tcp_info i = {};
	__u32 sent;

#define VALUE(field) (len >= offsetof(struct tcp_info, field) + sizeof(i.field) ? (double)i.field : NAN)
	memcpy(&i, data, len < sizeof(i) ? len : sizeof(i));
	sent = i.tcpi_data_segs_out;
	value[DELIVERY] = sent ? 8 * VALUE(tcpi_delivery_rate) : NAN;
	value[CWND] = VALUE(tcpi_snd_cwnd);
	value[SRTT] = i.tcpi_rtt ? i.tcpi_rtt / 1e6 : NAN;
	value[ACKS] = sent ? (double)(i.tcpi_segs_in - i.tcpi_data_segs_in) / sent : NAN;
	value[RETRANS] = VALUE(tcpi_total_retrans);
	value[LOST] = VALUE(tcpi_lost);
	value[SSTHRESH] = i.tcpi_snd_ssthresh < SSTHRESH_INFINITE ? VALUE(tcpi_snd_ssthresh) : NAN;
	value[PACING] = i.tcpi_pacing_rate != ~0ULL ? 8 * VALUE(tcpi_pacing_rate) : NAN;
	value[BYTES_ACKED] = VALUE(tcpi_bytes_acked);
	value[BYTES_RECEIVED] = VALUE(tcpi_bytes_received);
#undef VALUE
}

/* As `trace --flow` takes it. */
static void end_text(char text[END_LEN], int family, const void *address, __be16 port)
{
	char a[INET6_ADDRSTRLEN] = "?";

	inet_ntop(family, address, a, sizeof(a));
	snprintf(text, END_LEN, family == AF_INET6 ? "[%s]:%d" : "%s:%d", a, ntohs(port));
}

static int add_flow(const struct inet_diag_msg *m, size_t len, void *ctx)
{
	const struct rtattr *info = flow_attr(m, len, INET_DIAG_INFO);
	const char *cc = flow_controller(m, len);
	struct look *l = ctx;
	struct flow *f;

	if (m->idiag_state >= NR_STATES || !states[m->idiag_state])
		return 0;
	if (!cc || (l->name && strcmp(cc, l->name)))
		return 0;
	if (l->nr == l->room) {
		f = realloc(l->flow, (2 * l->room + 64) * sizeof(*f));
		if (!f)
			return -ENOMEM;
		l->flow = f;
		l->room = 2 * l->room + 64;
	}
	f = &l->flow[l->nr++];
	*f = (struct flow){ .state = states[m->idiag_state], .netns = l->here, .own = l->at_home };
	snprintf(f->cc, sizeof(f->cc), "%s", cc);
	end_text(f->local, m->idiag_family, m->id.idiag_src, m->id.idiag_sport);
	end_text(f->peer, m->idiag_family, m->id.idiag_dst, m->id.idiag_dport);
	measure(f->value, info ? RTA_DATA(info) : "", info ? RTA_PAYLOAD(info) : 0);
	return 0;
}

static int add_flows(struct look *l)
{
	__u32 mask = 0;
	int err;

	for (size_t i = 0; i < NR_STATES; i++)
		mask |= states[i] ? 1U << i : 0;
	err = flows_each(mask, 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1), add_flow, l);
	if (err == -ENOENT)
		snprintf(l->error, sizeof(l->error), "this kernel tells nothing of its connections: modprobe tcp_diag");
	else if (err)
		snprintf(l->error, sizeof(l->error), "cannot see the connections of %s: %s",
			 l->here ? l->here : "this network namespace", netlink_error(err));
	return err;
}

static int look_into(const struct netns_id *id, void *ctx)
{
	struct look *l = ctx;
	char **names = realloc(l->netns, (l->nr_netns + 1) * sizeof(*names));
	int err;

	if (names)
		l->netns = names;
	if (!names || !(names[l->nr_netns] = strdup(id->name))) {
		snprintf(l->error, sizeof(l->error), "out of memory");
		return -1;
	}
	l->here = names[l->nr_netns++];
	l->at_home = id->own;
	l->met_home |= l->at_home;
	err = add_flows(l);
	if (err && err != -ENOENT && err != -ENOMEM && !id->own) { /* another's, who shall not blind us to the rest */
		if (!l->nr_unread++)
			memcpy(l->unread, l->error, sizeof(l->unread));
		l->error[0] = 0;
		err = 0;
	}
	return err;
}

static int by_controller_and_rate(const void *a, const void *b)
{
	const struct flow *x = a, *y = b;
	double dx = isnan(x->value[DELIVERY]) ? -1 : x->value[DELIVERY];
	double dy = isnan(y->value[DELIVERY]) ? -1 : y->value[DELIVERY];
	int d = strcmp(x->cc, y->cc);

	if (!d)
		d = (dx < dy) - (dx > dy);
	if (!d)
		d = strcmp(x->local, y->local);
	return d ? d : strcmp(x->peer, y->peer);
}

static void forget(struct look *l)
{
	for (int i = 0; i < l->nr_netns; i++)
		free(l->netns[i]);
	free(l->netns);
	free(l->flow);
	free(l->thin);
	attachments_free(&l->attached);
	l->netns = NULL;
	l->thin = NULL;
	l->nr_thin = 0;
	l->flow = NULL;
	l->nr = l->room = l->nr_netns = 0;
}

static int look_for_thinning(struct look *l)
{
	struct thinning t, *thin;
	int i = 0;

	if (attachments_read(&l->attached))
		return -1;
	while (thinning_next(&l->attached, &i, &t)) {
		thin = realloc(l->thin, (l->nr_thin + 1) * sizeof(*thin));
		if (thin)
			l->thin = thin;
		if (!thin || thinning_count(&t))
			return -1;
		l->thin[l->nr_thin++] = t;
	}
	return 0;
}

/* All flows anew. Without the right to enter namespaces, those of our own. A failure is told in l->error. */
static int look(struct look *l)
{
	forget(l);
	l->met_home = false;
	l->nr_unread = 0;
	if (netns_each(look_into, l))
		return -1;
	if (!l->met_home) {
		l->here = NULL;
		l->at_home = true;
		if (add_flows(l))
			return -1;
	}
	if (l->met_home && !l->name && look_for_thinning(l)) {
		snprintf(l->error, sizeof(l->error), "cannot see where ACKs are thinned");
		return -1;
	}
	if (l->nr_unread > 1) {
		size_t len = strlen(l->unread);

		snprintf(l->unread + len, sizeof(l->unread) - len, "; nor those of %d more namespaces",
			 l->nr_unread - 1);
	}
	if (l->nr)
		qsort(l->flow, l->nr, sizeof(*l->flow), by_controller_and_rate);
	return 0;
}

/* Those from `at` on that have one controller. Jain's index is of those that have sent data. */
static struct group group_from(const struct look *l, size_t at)
{
	struct group g = { .flow = &l->flow[at] };
	double squares = 0;
	size_t senders = 0;

	for (; at + g.nr < l->nr && !strcmp(g.flow[g.nr].cc, g.flow->cc); g.nr++) {
		const double *v = g.flow[g.nr].value;

		g.retrans += isnan(v[RETRANS]) ? 0 : v[RETRANS];
		if (isnan(v[DELIVERY]))
			continue;
		senders++;
		g.delivery += v[DELIVERY];
		squares += v[DELIVERY] * v[DELIVERY];
	}
	g.jain = squares > 0 ? g.delivery * g.delivery / (senders * squares) : NAN;
	return g;
}

static const char *text_of(char *text, size_t size, enum unit unit, double v)
{
	static const char *const prefix[] = { "", "K", "M", "G", "T" };
	size_t p = 0;

	if (isnan(v))
		return "-";
	switch (unit) {
	case NUMBER:
		snprintf(text, size, "%.0f", v);
		break;
	case RATIO:
		snprintf(text, size, "%.3f", v);
		break;
	case SECONDS:
		snprintf(text, size, "%.2fms", v * 1e3);
		break;
	case RATE:
		for (; v >= 999.5 && p < 4; p++)
			v /= 1000;
		snprintf(text, size, "%.3g%sbit", v, prefix[p]);
		break;
	}
	return text;
}

static void json_value(const char *name, enum unit unit, double v)
{
	printf("\"%s\": ", name);
	if (isnan(v))
		printf("null");
	else
		printf("%.*f", unit == RATIO || unit == SECONDS ? 6 : 0, v);
}

static void print_json(const struct look *l)
{
	struct group g;

	printf("{\"all_namespaces\": %s, \"controllers\": [", l->met_home && !l->nr_unread ? "true" : "false");
	for (size_t at = 0; at < l->nr; at += g.nr) {
		g = group_from(l, at);
		printf("%s\n {\"name\": ", at ? "," : "");
		json_string(g.flow->cc);
		printf(", ");
		json_value("delivery_bps", RATE, g.delivery);
		printf(", ");
		json_value("jain_index", RATIO, g.jain);
		printf(", ");
		json_value("retransmits", NUMBER, g.retrans);
		printf(", \"flows\": [");
		for (size_t i = 0; i < g.nr; i++) {
			const struct flow *f = &g.flow[i];

			printf("%s\n  {\"netns\": ", i ? "," : "");
			if (f->netns)
				json_string(f->netns);
			else
				printf("null");
			printf(", \"local\": \"%s\", \"peer\": \"%s\", \"state\": \"%s\"", f->local, f->peer, f->state);
			for (int v = 0; v < NR_VALUES; v++) {
				printf(", ");
				json_value(columns[v].json, columns[v].unit, f->value[v]);
			}
			putchar('}');
		}
		printf("\n ]}");
	}
	printf(l->nr ? "\n], \"thinning\": [" : "], \"thinning\": [");
	for (int i = 0; i < l->nr_thin; i++) {
		printf(i ? ", {\"cgroup\": " : "{\"cgroup\": ");
		json_string(l->thin[i].cgroup);
		printf(", \"acks_sent\": %llu, \"acks_dropped\": %llu}", l->thin[i].sent, l->thin[i].dropped);
	}
	puts("]}");
}

static const char *netns_text(const struct flow *f)
{
	return f->own ? "-" : f->netns;
}

static int wider(int width, const char *text)
{
	int n = strlen(text);

	return n > width ? n : width;
}

/* The picture, of `rows` lines at most if that holds the controllers; each gets its share of the lines. */
static void print_text(FILE *out, const struct look *l, size_t rows)
{
	int local = wider(0, "LOCAL"), peer = wider(0, "PEER"), netns = 0;
	struct group *groups = calloc(l->nr + 1, sizeof(*groups)), *g;
	size_t nr = 0, used = 1, before;
	char text[32], rate[32];

	if (!groups)
		return;
	for (const struct thinning *t = l->thin; t < l->thin + l->nr_thin; t++, used++)
		fprintf(out, "ACKs thinned in %s: %llu sent, %llu dropped\n", t->cgroup, t->sent, t->dropped);
	for (size_t at = 0; at < l->nr; at += groups[nr++].nr)
		groups[nr] = group_from(l, at);
	used += nr + !l->met_home;
	do {
		before = used;
		for (g = groups; g < groups + nr && used < rows; g++) {
			if (g->shown < g->nr) {
				g->shown++;
				used++;
			}
		}
	} while (used > before);
	for (size_t i = 0; i < l->nr; i++) {
		local = wider(local, l->flow[i].local);
		peer = wider(peer, l->flow[i].peer);
		if (!l->flow[i].own)
			netns = wider(wider(netns, "NETNS"), netns_text(&l->flow[i]));
	}

	if (!l->met_home)
		fputs("this network namespace only: other ones take root\n", out);
	if (!l->nr) {
		fprintf(out, "no established connections%s%s\n", l->name ? " of " : "", l->name ? l->name : "");
		goto cleanup;
	}
	fprintf(out, "%-*s %-*s", local, "LOCAL", peer, "PEER");
	if (netns)
		fprintf(out, " %-*s", netns, "NETNS");
	for (int v = 0; v < NR_VALUES && columns[v].head; v++)
		fprintf(out, " %9s", columns[v].head);
	fputc('\n', out);
	for (g = groups; g < groups + nr; g++) {
		fprintf(out, "%s: %zu flow%s", g->flow->cc, g->nr, g->nr > 1 ? "s" : "");
		if (g->shown < g->nr)
			fprintf(out, " (%zu not shown)", g->nr - g->shown);
		fprintf(out, ", %s/s, ", text_of(rate, sizeof(rate), RATE, g->delivery));
		fprintf(out, "Jain index %s, %.0f retransmitted\n", text_of(text, sizeof(text), RATIO, g->jain),
			g->retrans);
		for (const struct flow *f = g->flow; f < g->flow + g->shown; f++) {
			fprintf(out, "%-*s %-*s", local, f->local, peer, f->peer);
			if (netns)
				fprintf(out, " %-*s", netns, netns_text(f));
			for (int v = 0; v < NR_VALUES && columns[v].head; v++)
				fprintf(out, " %9s", text_of(text, sizeof(text), columns[v].unit, f->value[v]));
			fputc('\n', out);
		}
	}
cleanup:
	free(groups);
}

/* The other screen, so that what is on this one comes back. */
static void screen(bool enter)
{
	fputs(enter ? "\033[?1049h\033[?25l" : "\033[?25h\033[?1049l", stdout);
	fflush(stdout);
}

/* Over what is there, with one write and no clearing before: no flicker. */
static int draw(const struct look *l)
{
	struct winsize w = {};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	if (!f)
		return -1;
	if (l->nr_unread)
		fprintf(f, "%s\n", l->unread);
	print_text(f, l, w.ws_row - !!l->nr_unread);
	if (fclose(f)) {
		free(text);
		return -1;
	}
	fputs("\033[H", stdout);
	for (char *line = text, *next; *line && w.ws_row; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		if (len > w.ws_col)
			len = w.ws_col;
		for (size_t i = 0; i < len; i++) /* a namespace's name may hold anything */
			putchar(line[i] >= ' ' && line[i] <= '~' ? line[i] : '?');
		if (len < w.ws_col) /* behind a full line the cursor still stands on its last character */
			fputs("\033[K", stdout);
		if (--w.ws_row)
			fputs(*next ? "\r\n" : "\r\n\033[J", stdout);
	}
	fputs("\033[H", stdout); /* what is typed shows here, and scrolls nothing */
	free(text);
	return fflush(stdout);
}

static int watch(struct look *l)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
	__u64 end = ns_after(args.seconds), next;
	int sig, err = 0;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	setvbuf(stdout, NULL, _IOFBF, 1 << 18);
	screen(true);
	do {
		next = ns_after(args.interval);
		if (next > end)
			next = end;
		do {
			err = draw(l);
			sig = err ? -1 : wait_till(next, &set);
			if (sig == SIGTSTP) {
				screen(false);
				raise(SIGSTOP);
				screen(true);
			}
		} while (sig == SIGTSTP || sig == SIGWINCH);
		if (err || sig > 0 || next == end)
			break;
		err = look(l);
	} while (!err);
	screen(false);
	if (err)
		fail("%s", *l->error ? l->error : "cannot go on: out of memory, or the terminal is gone");
	return err;
}

/* What could be read; -1 if that is not all. */
static int print_once(const struct look *l)
{
	int err = l->nr_unread ? fail("%s", l->unread) : 0;

	if (args.json)
		print_json(l);
	else
		print_text(stdout, l, SIZE_MAX);
	return err;
}

/* Nobody has the controller: is there one of that name? */
static int check_name(const char *name)
{
	int there = controller_available(name);

	return there ? there : fail("no congestion control %s: neither the kernel has it now, nor a connection", name);
}

static int top(void)
{
	struct look l = { .name = args.name };
	int err = look(&l);

	if (err && *l.error)
		fail("%s", l.error);
	if (!err && l.name && !l.nr)
		err = check_name(l.name) < 0 ? -1 : 0;
	if (!err)
		err = args.json || args.once || !isatty(STDOUT_FILENO) ? print_once(&l) : watch(&l);
	forget(&l);
	return err;
}

static const struct opt words[] = { { .arg = "[NAME]", .cc = &args.name }, {} };
static const struct opt opts[] = {
	OPT_JSON(&args.json),
	{ "seconds", 't', "N", "stop after N seconds", .number = &args.seconds, .max = SECONDS_MAX },
	{ "interval", 'i', "N", "seconds between two looks (1)", .number = &args.interval, .min = 1, .max = 86400 },
	{ "once", '1', NULL, "look once; so does --json, and output that is no terminal", .flag = &args.once },
	{}
};

const struct command cmd_top = {
	.name = "top",
	.words = words,
	.opts = opts,
	.run = top,
	.summary = "watch flows, by controller",
	.about = "The established connections of every network namespace. DELIVERY: the kernel's latest measurement, "
		 "so of an idle flow a past one; - if it has sent no data. ACKS/PKT: segments without data that came "
		 "in, to each data segment that went out. LOST: segments held for lost now.",
};
