/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Any bytes are a stream of commands: a connection, its path, and all that may happen on it, also what a
 * peer may send. Behind the last byte all choices are 0, the ordinary. Choices look at the model:
 * sequence numbers lie near those expected.
 */
enum { ROOM_OF_ONE = 70 };      /* lines that one choice adds at most */
enum { SYN_PORT = 443 };        /* that packets come from */
enum { MANY = 16 };             /* packets in flight at most when the options of each are written */
#define ALL (~0u)

static struct {
	const u8 *at, *end;
	u64 now, base;          /* clock and RTT of the path, us */
	u32 size;               /* packets an ACK */
	u32 tick;               /* of the peer's timestamps, us; 0: it has none */
	u32 most;               /* packets in flight at most */
	bool answers;           /* an answer comes with each ACK */
	u8 round, signal;       /* of the peer's options */
	char text[1 << 16];     /* of the lines, in hexadecimal */
	u32 written;
} in;

static u8 byte(void)
{
	return in.at < in.end ? *in.at++ : 0;
}

/* Choices that are seldom another than 0. */
static u8 seldom(void)
{
	return byte() & 0x80 ? byte() : 0;
}

#define PICK(...)                                       \
	({                                              \
		const u64 of_[] = { __VA_ARGS__ };      \
		of_[byte() % COUNT_OF(of_)];            \
	})

/* The bounds often; else any order of magnitude is as likely as another. */
static u64 number(u64 low, u64 high)
{
	u8 how, bits, width;
	u64 value = 0;

	if (low == high)
		return low;
	how = byte();
	bits = 64 - __builtin_clzll(high - low);
	width = how % (bits + 1);
	if (how >= 204)
		return how & 1 ? high : low;
	for (int i = 0; i < width; i += 8)
		value = value << 8 | byte();
	return min(high, low + (value & ((1ull << width) - 1)));
}

static void play_line(struct line *line)
{
	at(line, in.now);
	judge_line(line);
}

static void simply(const char *name)
{
	play_line(begin_line(name));
}

static void set_param(const struct entry *e)
{
	struct line *line = begin_line("set");

	give(line, e->name, number(e->min, e->max));
	judge_line(line);
}

/* Those that are fixed, for who reads the stream, and some others. */
static void choose_params(void)
{
	for (int i = 0; i < n_params; i++)
		if (params[i].min == params[i].max)
			set_param(&params[i]);
	for (int n = byte() % 8; n > 0 && n_params; n--)
		set_param(&params[byte() % n_params]);
}

static void choose_tunable(void)
{
	const struct entry *e = &params[byte() % max(n_params, 1)];

	if (e->tunable)
		set_param(e);
}

/* The peer's clock when its ACK left, and the echo of ours. */
static void stamp(struct line *line, u64 rtt)
{
	if (!in.tick)
		return;
	assign(line, "saw_tstamp", 1);
	assign(line, "rcv_tsval", (in.now - in.base / 2) / in.tick);
	assign(line, "rcv_tsecr", (in.now - rtt) / (k.usec_ts ? 1 : 1000));
}

static s64 choose_rtt(u8 how)
{
	u64 queue = min(in_flight(), W_MAX) * in.base / 64;

	switch (how % 8) {
	case 1:
		return min(in.base + queue, 0x7fffffff);
	case 2:
		return in.base + number(0, in.base);
	case 3:
		return (s64)number(0, 2 * in.base) - 1;
	case 4:
		return -1;
	case 5:
		return 0;
	case 6:
		return 1;
	case 7:
		return 0x7fffffff;
	}
	return in.base;
}

#ifdef WIRE
static void hear_answer(u8 round, u8 signal, u32 queue);
#endif

static void one_ack(u32 n, u32 sack, s64 rtt, bool ece, bool slow)
{
	struct line *line;

#ifdef WIRE
	if (in.answers)
		hear_answer(in.round, in.signal, 0);
#endif
	line = begin_line("ack");
	give(line, "n", n);
	if (sack)
		give(line, "sack", sack);
	give(line, "rtt", rtt);
	if (ece)
		give(line, "ece", 1);
	if (ece && ACCURATE) {
		give(line, "ce", number(1, 1 << 20));
		assign(line, "ect0", byte() % 4 == 3);
	}
	else if (slow || sack)
		give(line, "slow", 1);
	stamp(line, max(rtt, 0));
	play_line(line);
}

static void choose_ack(void)
{
	u8 how = byte();
	u32 n = how % 4 == 0 ? in.size : how % 4 == 1 ? 1 : how % 4 == 2 ? number(0, 2 * in.size) : ALL;
	s64 rtt = choose_rtt(how >> 2);

	one_ack(n, how & 0x20 ? number(0, in.size) : 0, rtt, how >> 5 == 2, how & 0x80);
}

/* ACKs in a row. */
static void choose_acks(void)
{
	u8 how = byte(), count = how % 32 + 1;
	u64 gap = PICK(in.base, in.base / 16, in.base / 256, 1, 1000000);

	for (int i = 0; i < count; i++) {
		in.now += gap;
		one_ack(in.size, 0, choose_rtt(how >> 7), false, false);
	}
}

static void choose_loss(void)
{
	struct line *line = begin_line("loss");

	give(line, "n", number(1, in.size));
	if (byte() & 1)
		give(line, "timer", 1);
	else
		give(line, "sack", number(0, in.size));
	play_line(line);
}

/* A restart happens to an empty network only. */
static void choose_idle(void)
{
	struct line *line = begin_line("ack");
	u8 how = byte();

	give(line, "n", ALL);
	assign(line, "app", 0);
	give(line, "rtt", in.base);
	play_line(line);
	in.now += number(0, 1ull << 32);
	if (how & 1) {
		line = begin_line("restart");
		give(line, "cwnd", PICK(10, 1, 2));
		play_line(line);
	}
	line = begin_line("send");
	assign(line, "app", in.most);
	play_line(line);
}

static void choose_send(void)
{
	struct line *line = begin_line("send");

	assign(line, "app", min(PICK(ALL, 0, 1, 2, 20, 200), in.most));
	play_line(line);
}

static void choose_event(void)
{
	struct line *line = begin_line("event");

	give(line, "id", byte() % 6);
	play_line(line);
}

/* The stack sets a window, or the limit of one. */
static void choose_window(void)
{
	u32 window = number(1, 1 << 20);
	struct line *line = begin_line("poke");

	assign(line, "snd_cwnd", window);
	assign(line, "stack_cwnd", window);
	play_line(line);
	if (byte() % 4 == 3) {
		line = begin_line("poke");
		assign(line, "snd_cwnd_clamp", PICK(ALL, 1, 2, window));
		play_line(line);
	}
}

#ifdef WIRE
#include "stream_wire.h"
#endif

/* --- a stream ---------------------------------------------------------------------------- */

static void choose_connection(void)
{
	struct line *line = begin_line("new");
	u32 seq = PICK(1, 0x7fffffff - 5000, -5000, 0x12345678), mss = PICK(1448, 536, 1, 65535, 0);
	u8 how = byte();
	u32 app;

	in.now = PICK(1000000, 0, 1ull << 32, 1ull << 45);
	in.base = number(1, 1 << 26);
	in.size = number(1, 1 << 20);
	in.tick = PICK(0, 1000, 4000, 10000, 1, 100, 2000);
	in.most = ALL;
	assign(line, "snd_una", seq);
	assign(line, "snd_nxt", seq);
	assign(line, "mss_cache", mss);
	assign(line, "seg", max(mss, 1));
	assign(line, "snd_cwnd", how & 1 ? number(1, 0x7fffffff) : 10);
	assign(line, "snd_cwnd_clamp", PICK(ALL, 50, 1 << 20, 1, 2, 3));
	assign(line, "srtt_us", how & 2 ? number(1, ALL) : 0);
	assign(line, "data_segs_out", how >> 2 & 1);
	assign(line, "tx_start", !(how & 8));
	assign(line, "timestamps", !(how & 0x10));
	assign(line, "usec_ts", how >> 5 & 1);
	assign(line, "delivered", how & 0x40 ? -100 : 0);
	if (byte() % 8 == 7) { /* amid a recovery */
		assign(line, "state", RECOVERY);
		assign(line, "high_seq", seq + 20 * max(mss, 1));
		assign(line, "prior_cwnd", 20);
		assign(line, "snd_ssthresh", 50);
	}
	if (ACCURATE && byte() % 8 == 7)
		assign(line, "ecn_flags", TCP_ECN_OK);
#ifdef WIRE
	choose_peer(line);
#endif
	app = min(how & 0x80 ? PICK(1, 50) : ALL, in.most);
#ifdef WIRE
	assign(line, "app", 0);
	play_line(line);
	write_none();
	line = begin_line("send");
#endif
	assign(line, "app", app);
	play_line(line);
}

static void choose_time(u8 how)
{
	const u64 times[] = { 0, 1, in.base / 100, in.base / 10, in.base, in.base };

	in.now += how < 6 ? times[how] : number(0, how == 6 ? 1 << 21 : 1ull << 34);
}

static void choose(u8 what)
{
	choose_time(what >> 5);
	switch (what % 32) {
	case 0 ... 7:
		choose_ack();
		break;
	case 8 ... 11:
		choose_acks();
		break;
	case 12:
	case 13:
		choose_loss();
		break;
	case 14:
		simply("cwr");
		break;
	case 15:
		simply("rto");
		break;
	case 16:
		simply("undo");
		break;
	case 17:
		choose_idle();
		break;
	case 18:
		choose_send();
		break;
	case 19:
		choose_event();
		break;
	case 20:
		choose_window();
		break;
	case 21:
		choose_tunable();
		break;
	case 22:
		in.base = number(1, 1 << 26); /* the route changes */
		break;
	case 23:
		in.size = number(1, 1 << 20);
		break;
#ifdef WIRE
	default:
		choose_of_wire(what % 32 - 24);
#else
	default:
		choose_ack();
#endif
	}
}

static void decode(const u8 *data, size_t size)
{
	memset(&in, 0, offsetof(__typeof__(in), text));
	in.at = data;
	in.end = data + size;
	in.written = 0;
	start();
	choose_params();
	choose_connection();
	while (in.at < in.end && stream.n < MOST - ROOM_OF_ONE)
		choose(byte());
	finish();
}
