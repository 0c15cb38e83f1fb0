// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The connections of all network namespaces, by controller, once or again and again. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kernel/clock.h"
#include "command.h"
#include "kernel/sockets.h"
#include "kernel/netns.h"
#include "kernel/device.h"
#include "uses/share.h"
#include "uses/thinning.h"
#include "uses/uplinks.h"
#include "view/output.h"

#define SHARE_LINES 3 /* that one takes at most */

static struct {
	const char *name;             /* NULL: all */
	bool json, once;
	long seconds;                 /* -1: without end */
	long interval;                /* 0: no second look, and no rates */
} args = { .seconds = -1, .interval = 1 };

enum unit { NUMBER, RATIO, SECONDS, RATE };

static const struct column {
	const char *head;             /* NULL: in JSON only */
	const char *json;
	enum unit unit;
} columns[NR_VALUES] = {
	[GOODPUT] = { "GOODPUT", "goodput_bps", RATE },
	[CWND] = { "CWND", "cwnd_packets", NUMBER },
	[SRTT] = { "SRTT", "srtt_s", SECONDS },
	[ACKS] = { "ACKS/PKT", "acks_per_data_packet", RATIO },
	[RETRANS] = { "RETRANS", "retransmits", NUMBER },
	[LOST] = { "LOST", "lost", NUMBER },
	[SSTHRESH] = { "SSTHRESH", "ssthresh_packets", NUMBER },
	[PACING] = { "PACING", "pacing_bps", RATE },
	[DELIVERY] = { NULL, "delivery_bps", RATE },
	[BYTES_ACKED] = { NULL, "bytes_acked", NUMBER },
	[BYTES_RECEIVED] = { NULL, "bytes_received", NUMBER },
};

/* One screen. */
struct picture {
	struct sockets sockets;
	struct attachments attached;
	struct thinning *thin;        /* where ACKs are thinned, among those; none without the right to see them */
	int nr_thin;
	struct share *share;          /* parts of connections that are given a controller, among those */
	int nr_share;
	struct uplink_state *uplink;  /* of this network namespace */
	int nr_uplink;
	bool lacks;                   /* one more of these, as memory is short */
};

static void forget_thinning(struct picture *p)
{
	free(p->thin);
	attachments_free(&p->attached);
	free(p->share);
	free(p->uplink);
	p->thin = NULL;
	p->share = NULL;
	p->uplink = NULL;
	p->nr_thin = p->nr_share = p->nr_uplink = 0;
	p->lacks = false;
}

static void keep_uplink(const struct uplink_state *u, void *ctx)
{
	struct picture *p = ctx;
	struct uplink_state *more = realloc(p->uplink, (p->nr_uplink + 1) * sizeof(*more));

	if (!more) {
		p->lacks = true;
		return;
	}
	p->uplink = more;
	p->uplink[p->nr_uplink++] = *u;
}

static int look_for_thinning(struct picture *p)
{
	struct thinning t, *thin;
	struct share s, *share;
	int i = 0, k = 0, found;

	if (attachments_read(&p->attached))
		return -1;
	while (thinning_next(&p->attached, &i, &t)) {
		thin = realloc(p->thin, (p->nr_thin + 1) * sizeof(*thin));
		if (thin)
			p->thin = thin;
		if (!thin || thinning_count(&t))
			return -1;
		p->thin[p->nr_thin++] = t;
	}
	while ((found = share_next(&p->attached, &k, &s)) > 0) {
		share = realloc(p->share, (p->nr_share + 1) * sizeof(*share));
		if (!share)
			return -1;
		p->share = share;
		p->share[p->nr_share++] = s;
	}
	return found < 0 || uplinks_each(keep_uplink, p) || p->lacks ? -1 : 0;
}

/* All anew. A failure is told in look.error. */
static int take(struct picture *p)
{
	struct sockets *l = &p->sockets;

	forget_thinning(p);
	if (sockets_read(l))
		return -1;
	if (l->met_home && !l->name && look_for_thinning(p)) {
		snprintf(l->error, sizeof(l->error), "cannot see where ACKs are thinned");
		return -1;
	}
	return 0;
}

static const char *value_text(char *text, size_t size, enum unit unit, double v)
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

static void member_value(const char *name, enum unit unit, double v)
{
	members(real_of(name, unit == RATIO || unit == SECONDS ? "%.6f" : "%.0f", v));
}

/* Its members that a socket has in any state; the object goes on. */
static void begin_flow(const struct flow *f)
{
	object_begin(NULL, "", "");
	members(text_of("netns", f->netns), text_of("local", f->local), text_of("peer", f->peer),
		text_of("state", f->state));
}

static void json_group(const struct group *g)
{
	object_begin(NULL, "", "");
	members(text_of("name", g->flow->cc));
	member_value("goodput_bps", RATE, g->goodput);
	member_value("jain_index", RATIO, g->jain);
	member_value("retransmits", NUMBER, g->retrans);
	list_begin("flows", "\n  ", "\n ");
	for (const struct flow *f = g->flow; f < g->flow + g->nr; f++) {
		begin_flow(f);
		for (int v = 0; v < NR_VALUES; v++)
			member_value(columns[v].json, columns[v].unit, f->value[v]);
		level_end();
	}
	level_end();
	level_end();
}

static void print_json(const struct picture *p)
{
	const struct sockets *l = &p->sockets;
	struct group g;

	object_begin(NULL, "", "");
	members(flag_of("all_namespaces", l->met_home && !l->nr_unread && !netns_unseen()));
	list_begin("controllers", "\n ", "\n");
	for (size_t at = 0; at < l->flows.nr; at += g.nr) {
		g = group_from(l, at);
		json_group(&g);
	}
	level_end();
	list_begin("others", "\n ", "\n");
	for (size_t i = 0; i < l->others.nr; i++) {
		begin_flow(&l->others.at[i]);
		level_end();
	}
	level_end();
	list_begin("thinning", "", "");
	for (int i = 0; i < p->nr_thin; i++) {
		object_begin(NULL, "", "");
		thinning_members(&p->thin[i]);
		level_end();
	}
	level_end();
	list_begin("shares", "", "");
	for (int i = 0; i < p->nr_share; i++)
		share_print(&p->share[i], "");
	level_end();
	list_begin("uplinks", "", "");
	for (const struct uplink_state *u = p->uplink; u < p->uplink + p->nr_uplink; u++) {
		object_begin(NULL, "", "");
		members(text_of("device", u->dev));
		members(text_of("text", u->text));
		level_end();
	}
	level_end();
	level_end();
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

/* How wide the columns of text are. */
struct widths {
	int local, peer, netns;       /* netns 0: it is left out */
};

static struct widths widths_of(const struct sockets *l)
{
	struct widths w = { wider(0, "LOCAL"), wider(0, "PEER"), 0 };

	for (const struct flow *f = l->flows.at; f < l->flows.at + l->flows.nr; f++) {
		w.local = wider(w.local, f->local);
		w.peer = wider(w.peer, f->peer);
		if (!f->own)
			w.netns = wider(wider(w.netns, "NETNS"), netns_text(f));
	}
	return w;
}

/* "fast: 3 flows, 15.7Mbit/s, Jain index 0.999, 0 retransmitted", and those of its flows that have room */
static void print_group(const struct group *g, const struct widths *w)
{
	char text[32];

	print("%s: %zu flow%s", g->flow->cc, g->nr, g->nr > 1 ? "s" : "");
	if (g->shown < g->nr)
		print(" (%zu not shown)", g->nr - g->shown);
	if (isnan(g->goodput))
		print(", rates not known before a second look");
	else
		print(", %s/s", value_text(text, sizeof(text), RATE, g->goodput));
	print(", Jain index %s", value_text(text, sizeof(text), RATIO, g->jain));
	print(", %.0f retransmitted\n", g->retrans);
	for (const struct flow *f = g->flow; f < g->flow + g->shown; f++) {
		print("%-*s %-*s", w->local, f->local, w->peer, f->peer);
		if (w->netns)
			print(" %-*s", w->netns, netns_text(f));
		for (int v = 0; v < NR_VALUES && columns[v].head; v++)
			print(" %9s", value_text(text, sizeof(text), columns[v].unit, f->value[v]));
		print("\n");
	}
}

/* The lines are shared: each controller gets one, and then each in turn one for a flow. */
static void share_rows(struct group *groups, size_t nr, size_t rows)
{
	size_t before;

	do {
		before = rows;
		for (struct group *g = groups; g < groups + nr && rows; g++) {
			if (g->shown < g->nr) {
				g->shown++;
				rows--;
			}
		}
	} while (rows < before);
}

/* The picture, of `rows` lines at most if that holds the controllers. -1: out of memory. */
static int print_text(const struct picture *p, size_t rows)
{
	const struct sockets *l = &p->sockets;
	struct group *groups = calloc(l->flows.nr + 1, sizeof(*groups));
	struct widths w = widths_of(l);
	size_t nr = 0, used;

	if (!groups)
		return -1;
	for (const struct thinning *t = p->thin; t < p->thin + p->nr_thin; t++) {
		print("ACKs thinned in %s: %llu sent, %llu dropped\n", printable(t->cgroup), t->sent, t->dropped);
	}
	for (int i = 0; i < p->nr_share; i++)
		share_print(&p->share[i], "");
	for (const struct uplink_state *u = p->uplink; u < p->uplink + p->nr_uplink; u++)
		print("uplink %s: %s\n", printable(u->dev), u->text);
	for (size_t at = 0; at < l->flows.nr; at += groups[nr++].nr)
		groups[nr] = group_from(l, at);
	used = 1 + p->nr_thin + SHARE_LINES * p->nr_share + p->nr_uplink + nr + !l->met_home;
	share_rows(groups, nr, rows > used ? rows - used : 0);
	if (!l->met_home)
		print("this network namespace only: other ones take root\n");
	if (!l->flows.nr) {
		print("no established connections%s%s\n", l->name ? " of " : "", l->name ? l->name : "");
	} else {
		print("%-*s %-*s", w.local, "LOCAL", w.peer, "PEER");
		if (w.netns)
			print(" %-*s", w.netns, "NETNS");
		for (int v = 0; v < NR_VALUES && columns[v].head; v++)
			print(" %9s", columns[v].head);
		print("\n");
		for (struct group *g = groups; g < groups + nr; g++)
			print_group(g, &w);
	}
	if (l->others.nr && (!l->flows.nr || rows == SIZE_MAX)) { /* listeners, say: they keep it as well */
		print("%zu socket%s %s in another state:\n", l->others.nr, l->others.nr > 1 ? "s have" : " has",
		      l->name);
		print_sockets(l, false);
	}
	free(groups);
	return 0;
}

/* The other screen, so that what is on this one comes back. */
static void screen(bool enter)
{
	fputs(enter ? "\033[?1049h\033[?25l" : "\033[?25h\033[?1049l", stdout);
	fflush(stdout);
}

/* Over what is there, with one write and no clearing before: no flicker. */
static int draw(const struct picture *p)
{
	const struct sockets *l = &p->sockets;
	struct winsize w = {};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int err;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	if (!f)
		return -1;
	output_to(f);
	if (l->nr_unread)
		print("%s\n", l->unread);
	err = print_text(p, w.ws_row - !!l->nr_unread);
	output_to(NULL);
	if (fclose(f) || err) {
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

static int watch(struct picture *p)
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
			err = draw(p);
			sig = err ? -1 : wait_till(next, &set);
			if (sig == SIGTSTP) {
				screen(false);
				raise(SIGSTOP);
				screen(true);
			}
		} while (sig == SIGTSTP || sig == SIGWINCH);
		if (err || sig > 0 || next == end)
			break;
		err = take(p);
	} while (!err);
	screen(false);
	if (err)
		fail("%s",
		     *p->sockets.error ? p->sockets.error : "cannot go on: out of memory, or the terminal is gone");
	return err;
}

/* Rates are of what happens between two looks. Prints all that could be read; -1 if something could not. */
static int print_once(struct picture *p)
{
	const struct sockets *l = &p->sockets;
	int err = 0;

	if (args.interval && l->flows.nr) {
		sleep(args.interval);
		err = take(p);
	}
	if (err)
		return fail("%s", l->error);
	if (l->nr_unread)
		err = fail("%s", l->unread);
	netns_warn_unseen();
	if (args.json)
		print_json(p);
	else if (print_text(p, SIZE_MAX))
		err = fail("out of memory");
	return err;
}

/* Nobody has the controller: is there one of that name? */
static int check_name(const char *name)
{
	int there = controller_available(name);

	return there ? there : fail("no congestion control %s: neither the kernel has it now, nor a socket", name);
}

static int top(void)
{
	struct picture p = { .sockets.name = args.name };
	struct sockets *l = &p.sockets;
	int err = take(&p);

	output_json(args.json);
	if (err && *l->error)
		fail("%s", l->error);
	if (!err && l->name && !l->flows.nr && !l->others.nr)
		err = check_name(l->name) < 0 ? -1 : 0;
	if (!err)
		err = args.json || args.once || !args.interval || !isatty(STDOUT_FILENO) ? print_once(&p) : watch(&p);
	forget_thinning(&p);
	sockets_free(l);
	return err;
}

static const struct opt words[] = { { .arg = "[NAME]", .cc = &args.name }, {} };
static const struct opt opts[] = {
	OPT_JSON(&args.json),
	{ "seconds", 't', "N", "stop after N seconds", .number = &args.seconds, .max = SECONDS_MAX },
	{ "interval", 'i', "N", "seconds between two looks (1); 0: look once, without rates", .number = &args.interval,
	  .max = 86400 },
	{ "once", '1', NULL, "print once, after two looks; so does --json, and output that is no terminal",
	  .flag = &args.once },
	{}
};

const struct command cmd_top = {
	.name = "top",
	.words = words,
	.opts = opts,
	.run = top,
	.summary = "watch flows, by controller",
	.about = "The established connections of every network namespace. GOODPUT: what was acknowledged between two "
		 "looks, over the time between them. Jain's index is of the flows that sent, or had something to send. "
		 "ACKS/PKT: segments without data that came in, to each data segment that went out. LOST: segments "
		 "held for lost now. `top NAME` also tells which sockets have the controller in another state, as "
		 "listeners, and whose they are.",
};
