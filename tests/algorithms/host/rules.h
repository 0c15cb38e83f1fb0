/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * These rules hold after each command, whatever the controller. At the end of a stream two more hold: in a calm no window
 * grows, and the same stream has the same outcome again. A rule that is broken ends the process.
 */
enum { CALM = 48, CALM_AT_LAST = 8 };               /* the ACKs of a calm; those after which nothing grows */
enum { MOST = 400, ALL_LINES = MOST + 8 * CALM };   /* commands of a stream; with what follows it */

/* The model at one moment. */
struct snapshot {
	struct inet_connection_sock icsk;
	struct tcp_sock tp; /* but for the room in front of it */
	__typeof__(k) k;
	u64 counters[COUNT_OF(counters)];
	bool other, wired; /* another controller runs; the peer speaks our options */
};

static struct {
	struct line lines[ALL_LINES];
	int n;
	struct snapshot at[2]; /* before and after a command */
	bool began;            /* a connection is there */
	u64 digest;            /* of all answers */
} stream;

static bool telling; /* each line, before it is played */

static u64 of_private(const struct snapshot *s, const struct entry *e)
{
	const struct entry copy = { .at = (char *)s->icsk.icsk_ca_priv + ((char *)e->at - PRIVATE), .size = e->size };

	return get(&copy);
}

#ifdef WIRE
/* Does the peer speak our options, as far as the controller knows? */
static bool wired(void)
{
	static const struct entry *peer, *silent;

	if (!peer) {
		peer = member("wire.peer");
		silent = member("wire.silent");
	}
	return storage.exists && get(peer) && !(silent && get(silent));
}
#endif

static void take_snapshot(struct snapshot *s)
{
	const size_t room = offsetof(struct tcp_sock, room_) + sizeof(tp->room_);

	s->icsk = *ICSK;
	memcpy((char *)&s->tp + room, (char *)tp + room, sizeof(*tp) - room);
	s->k = k;
	for (int i = 0; i < n_counters; i++)
		s->counters[i] = *(u64 *)counters[i].at;
	s->other = skops.other;
#ifdef WIRE
	s->wired = wired();
#endif
}

/* The window that the law governs. With cong_control it is W; cwnd is what W leaves room for at the moment. */
static u64 window(const struct snapshot *s)
{
	static const struct entry *w;

	if (!OPS.cong_control)
		return s->tp.snd_cwnd;
	if (!w)
		w = member("ca.w");
	return of_private(s, w);
}

/* The window that the stack has set, which a law with a W may take up; else `otherwise`. */
static u64 given(const struct snapshot *s, u64 otherwise)
{
	return s->tp.snd_cwnd == s->k.stack_cwnd ? s->tp.snd_cwnd : otherwise;
}

/* By how much a counter has grown; -1 if there is none. */
static s64 counted(const char *name, const struct snapshot *old, const struct snapshot *new)
{
	const struct entry *e = find(counters, n_counters, name);

	return e ? (s64)(new->counters[e - counters] - old->counters[e - counters]) : -1;
}

/* A marked ACK may end one reduction and begin the next; after a recovery perhaps up to the same packet. */
static bool marked_anew(bool ack, const struct snapshot *old, const struct snapshot *new)
{
	return ack && new->k.state == CWR && (old->k.state == RECOVERY || old->k.high_seq != new->k.high_seq);
}

static bool cutting(u8 state)
{
	return state == CWR || state == RECOVERY;
}

#define HOLDS(condition, words) \
	do {                    \
		if (!(condition)) \
			return words; \
	} while (0)

/* Rules for a controller that counts rounds, with a peer that answers them or not. */
static const char *rules_of_rounds(bool ack, bool undo, const struct snapshot *old, const struct snapshot *new)
{
	static const struct entry *delivered_round, *w_last;
	s64 rounds = counted("rounds", old, new);
	u64 w = window(new), last = window(old), flight;
	u32 carried;

	if (rounds < 0)
		return NULL;
	if (!w_last) {
		delivered_round = member("ca.delivered_round");
		w_last = member("ca.w_last");
	}
	carried = new->tp.delivered - (u32)of_private(old, delivered_round);
	if (counted("fits", old, new) > 0) /* the RTT has become longer: at most doubled */
		HOLDS(w <= 2 * (last + max(carried, 1)), "more than doubled");
	else
		HOLDS(undo || w <= last + max(carried, 1), "grows by more than was delivered");
	HOLDS(counted("signals", old, new) <= rounds && rounds <= 1, "two cuts in a round");
	if (!ack || !new->wired || new->tp.lost_out)
		return NULL;
	/* a round's first packet always goes out */
	flight = new->tp.packets_out - new->tp.sacked_out - new->tp.lost_out + new->tp.retrans_out;
	HOLDS(new->tp.snd_cwnd == old->tp.snd_cwnd || new->tp.snd_cwnd == new->k.stack_cwnd ||
	      new->tp.snd_cwnd <= max(w + of_private(new, w_last), flight + 1), "beyond W and W_last");
	return NULL;
}

/* Nobody but the controller sets the window in recovery, and the window is not what it governs. */
static const char *rules_of_w(bool ack, bool undo, const struct snapshot *old, const struct snapshot *new)
{
	u64 w = window(new), last = window(old), clamp = new->tp.snd_cwnd_clamp;

	if (cutting(old->k.state) && cutting(new->k.state) && !marked_anew(ack, old, new) && counted("idle_restarts", old, new) <= 0)
		HOLDS(w == last || w == clamp || w == min(new->tp.snd_ssthresh, W_MAX), "changed during recovery");
	if (ack)
		HOLDS(w >= min(min(min(last, 2), clamp), given(old, 2)), "W below 2");
	return rules_of_rounds(ack, undo, old, new);
}

#ifdef WIRE
/* But for what a callback is told with. */
static bool unchanged(const struct snapshot *old, const struct snapshot *new)
{
	const size_t room = offsetof(struct tcp_sock, room_) + sizeof(tp->room_);

	return !memcmp(old->icsk.icsk_ca_priv, new->icsk.icsk_ca_priv, sizeof(old->icsk.icsk_ca_priv)) &&
	       !memcmp(&old->icsk.icsk_ack, &new->icsk.icsk_ack, sizeof(old->icsk.icsk_ack)) &&
	       !memcmp(&old->k, &new->k, sizeof(old->k)) &&
	       !memcmp((char *)&old->tp + room, (char *)&new->tp + room, sizeof(old->tp) - room);
}
#endif

/* The connection before and after a command; NULL, or the rule that is broken. */
static const char *rules(void (*run)(void), const struct snapshot *old, const struct snapshot *new)
{
	u32 cwnd = new->tp.snd_cwnd, ssthresh = new->tp.snd_ssthresh;
	bool started = old->k.state < CWR && new->k.state >= CWR;

	HOLDS(cwnd >= 1, "no window");
	HOLDS(ssthresh >= 2, "ssthresh below 2");
	if (run == fresh_socket) {
		HOLDS(cwnd <= new->tp.snd_cwnd_clamp, "above the clamp");
		return NULL;
	}
	if (old->other) /* another's, or ours from now on */
		return NULL;
	HOLDS(cwnd <= max(old->tp.snd_cwnd, new->tp.snd_cwnd_clamp) || cwnd == new->k.stack_cwnd, "above the clamp");
	if (cutting(new->k.state) && !marked_anew(run == ack, old, new) && !OPS.cong_control)
		HOLDS(cwnd == old->tp.snd_cwnd || cwnd == new->k.stack_cwnd, "changed during recovery");
	if (started)
		HOLDS(ssthresh <= max(max(window(old), given(old, 0)), 2), "a loss raises ssthresh");
	if (run == undo) {
		u32 prior = old->k.undo_marker && old->k.prior_ssthresh ? old->tp.prior_cwnd : 0;

		HOLDS(cwnd >= max(old->tp.snd_cwnd, prior), "undo lowers");
		HOLDS(window(new) >= window(old), "undo lowers");
	}
#ifdef WIRE
	if (run == read_options || run == write_options || run == egress || run == ingress)
		HOLDS(unchanged(old, new), "the wire changes the socket");
#endif
	return OPS.cong_control ? rules_of_w(run == ack, run == undo, old, new) : NULL;
}

/* Does its law break this rule by this command? BENDS is of its record, in asymlab/controllers. */
static bool lawful(const struct command *command, const char *words)
{
	static const struct {
		const char *command, *rule;
	} bends[] = { BENDS { NULL, NULL } };

	for (int i = 0; i < COUNT_OF(bends) - 1; i++)
		if (same(command->name, bends[i].command) && same(words, bends[i].rule))
			return true;
	return false;
}

static void print_line(FILE *to, const struct line *line)
{
	fprintf(to, "%s", line->command->name);
	for (int i = 0; i < line->n; i++) {
		const struct arg *arg = &line->args[i];

		if (arg->text)
			fprintf(to, " %s=%s", arg->key, arg->text);
		else
			fprintf(to, " %s=%lld", arg->key, arg->value);
	}
	fprintf(to, "\n");
	fflush(to);
}

static void fail(const char *words, const struct line *line)
{
	const struct snapshot *old = &stream.at[0], *new = &stream.at[1];

	fprintf(stderr, "%s: ", words);
	print_line(stderr, line);
	fprintf(stderr, "cwnd %u -> %u, governed %llu -> %llu, ssthresh %u -> %u, state %u -> %u\n", old->tp.snd_cwnd,
		new->tp.snd_cwnd, window(old), window(new), old->tp.snd_ssthresh, new->tp.snd_ssthresh, old->k.state, new->k.state);
	abort();
}

static void digest(u64 value)
{
	stream.digest = (stream.digest ^ value) * 0x100000001b3ull;
}

/* Plays a line; from the first connection on its answer counts. */
static bool play_and_digest(struct line *line)
{
	play(line);
	stream.began |= line->command->run == fresh_socket;
	if (error || !stream.began)
		return false;
	digest((u64)tp->snd_cwnd << 32 ^ sent.fresh);
	digest(sent.again);
	for (const char *c = extra; *c; c++)
		digest(*c);
	return true;
}

/* One command, judged. */
static void judge_line(struct line *line)
{
	const char *words;

	if (telling)
		print_line(stdout, line);
	stream.at[0] = stream.at[1];
	if (!play_and_digest(line))
		return;
	take_snapshot(&stream.at[1]);
	words = rules(line->command->run, &stream.at[0], &stream.at[1]);
	if (words && !lawful(line->command, words))
		fail(words, line);
}

/* --- streams of lines -------------------------------------------------------------------- */

static struct line *begin_line(const char *name)
{
	struct line *line = &stream.lines[stream.n++];

	assert(stream.n <= ALL_LINES);
	line->command = command(name);
	line->n = 0;
	return line;
}

static void add(struct line *line, const char *key, const char *text, s64 value, const struct entry *member)
{
	line->args[line->n++] = (struct arg){ key, text, value, member, false };
}

/* A key that names no member of the model, and one that does. */
static void give(struct line *line, const char *key, s64 value)
{
	add(line, key, NULL, value, NULL);
}

static void assign(struct line *line, const char *key, s64 value)
{
	add(line, key, NULL, value, member(key));
}

static void at(struct line *line, u64 now)
{
	static const struct entry *clock;

	if (!clock)
		clock = member("now");
	add(line, "now", NULL, now, clock);
}

/* The application keeps one packet in flight: after some time nothing grows any more. */
static void calm(const char *answer)
{
	u64 last = 0;

	for (int i = 0; i < CALM; i++) {
		struct line *line;

		if (answer) {
			line = begin_line("read");
			add(line, "options", answer, 0, NULL);
			judge_line(line);
		}
		line = begin_line("ack");
		give(line, "n", ~0u);
		assign(line, "app", 1);
		give(line, "rtt", 40000);
		at(line, tp->tcp_mstamp + 20000000);
		judge_line(line);
		if (i > CALM - CALM_AT_LAST && window(&stream.at[1]) > max(last, 2) &&
		    !lawful(line->command, "grows while the application limits"))
			fail("grows while the application limits", line);
		last = window(&stream.at[1]);
	}
}

static u64 digest_all(void)
{
	for (int i = 0; i < COUNT_OF(members); i++)
		digest(get(&members[i]));
	for (const struct entry *e = fields; e->name; e++)
		digest(get(e));
	for (int i = 0; i < n_counters; i++)
		digest(get(&counters[i]));
	return stream.digest;
}

static void restart_stream(void)
{
	reset();
	stream.began = false;
	stream.digest = 0;
}

static void start(void)
{
	restart_stream();
	stream.n = 0;
}

/* The end of a stream: the same again has the same outcome. Before that, the calm. */
static void finish(void)
{
	struct line *line __attribute__((unused));
	int n = stream.n;
	u64 outcome;

	if (!stream.began)
		return;
	telling = false;
	outcome = digest_all();
#ifdef WIRE
	line = begin_line("poke"); /* the options of what is sent now tell nothing new, and take most of the time */
	assign(line, "cb_flags", BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG);
	judge_line(line);
	if (stream.at[1].wired)
		calm("fd08f0a200000000");
#endif
	calm(NULL);
	judge_line(begin_line("release"));
	restart_stream();
	for (int i = 0; i < n; i++)
		play_and_digest(&stream.lines[i]);
	if (digest_all() != outcome)
		fail("the same stream twice, two outcomes", &stream.lines[n - 1]);
}
