// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * uplink.bpf.c and the law that it tells, before a host and far ends that do what libFuzzer says: what must hold whatever they do.
 *
 * An input is a head of 5 bytes, and steps of 3: what, and two numbers. It is one of these, by the head:
 *     alone    nobody else is there, and the steps are done once
 *     beside   three honest uploads fill a modem of 5 Mbit/s, and from 5 s on the steps are done again and again. By a bit of the head answers
 *              may come before the modem has sent what they answer: that hides a queue, and leaves the modem as it is without a shaper
 *     before   likewise for 10 s; then they end, and the honest uploads begin
 */
#include <math.h>

#include "router.h"

#include <tools/uplink.bpf.c>

#undef min /* the loader has none */
#undef max
#include "uses/uplink_law.c"

enum {
	HEAD = 5,
	STEP_BYTES = 3,
	SEG = 1448, /* bytes of payload */
	WIRE = SEG + 52,
	RATE = 5000000, /* of the modem, bit/s */
	RTT = 50000, /* us, without a queue */
	ROOM = 250000, /* us of the modem's queue */
	WINDOW = 100, /* packets of each upload: the host's buffer */
	TICK = (int)(LAW_TICK * 1e6),
	HONEST = 3,
	KEPT = 16,
	EVENTS = 1024,
};

#define START 3600000000ULL

static struct uplink_law law[UPLINK_WAYS];
static double least, most;
static u64 now_us, ticked_us;

static void fails(const char *rule, double a, double b)
{
	fprintf(stderr, "%s: %g, %g at %.3f s\n", rule, a, b, (now_us - START) / 1e6);
	abort();
}

/* --- frames ------------------------------------------------------------------------------------------------------ */

enum wrap { VLANS = 3, PPPOE = 4, V6 = 8, BARE = 16, WAY_DOWN = 32, PROBES = 64, EXTENDED = 128 };

static u8 bytes[2048], last[2048];
static u32 len, last_len;

static void put8(u8 v)
{
	bytes[len++] = v;
}

static void put16(u16 v)
{
	put8(v >> 8);
	put8(v);
}

static void put32(u32 v)
{
	put16(v >> 16);
	put16(v);
}

static void put_address(u8 wrap, u32 v)
{
	for (int i = 0; i < 3 && wrap & V6; i++)
		put32(0x20010db8);
	put32(v);
}

static void frame_begin(u8 wrap, bool leaves, u8 protocol, u32 segment)
{
	u16 type = wrap & V6 ? TYPE_IPV6 : TYPE_IP;

	len = 0;
	for (int i = 0; i < 12 && !(wrap & BARE); i++)
		put8(0);
	for (int i = 0; i < (wrap & VLANS) && !(wrap & BARE); i++) {
		put16(i ? TYPE_VLAN : TYPE_QINQ);
		put16(7);
	}
	if (!(wrap & BARE))
		put16(wrap & PPPOE ? TYPE_PPPOE : type);
	if (wrap & PPPOE && !(wrap & BARE)) {
		put16(PPPOE_PLAIN);
		put32(9);
		put16(wrap & V6 ? PPP_IPV6 : PPP_IP);
	}
	if (wrap & V6) {
		put32(6u << 28);
		put16(wrap & EXTENDED ? 0 : segment);
		put16((wrap & EXTENDED ? 0 : protocol) << 8 | 64);
	} else {
		put16((wrap & EXTENDED ? 0x46 : 0x45) << 8);
		put16(20 + (wrap & EXTENDED ? 4 : 0) + segment);
		put32(0x00014000);
		put32((u32)64 << 24 | protocol << 16);
	}
	put_address(wrap, leaves ? 0xc0000207 : 0xc6336409);
	put_address(wrap, leaves ? 0xc6336409 : 0xc0000207);
	if (wrap & EXTENDED && wrap & V6) {
		put32(protocol << 24 | 0xc204);
		put32(segment);
	} else if (wrap & EXTENDED) {
		put32(0x94040000);
	}
}

struct segment {
	u32 seq, ack, tsval, tsecr, payload;
	u16 port; /* of the local end */
	u8 flags;
};

static void frame(u8 wrap, bool leaves, const struct segment *s)
{
	frame_begin(wrap, leaves, 6, 32 + s->payload);
	put16(leaves ? s->port : 443);
	put16(leaves ? 443 : s->port);
	put32(s->seq);
	put32(s->ack);
	put16(0x8000 | s->flags);
	put16(500);
	put32(0);
	put32(STAMP_WORD);
	put32(s->tsval);
	put32(s->tsecr);
	memset(bytes + len, 0, s->payload);
	len += s->payload;
}

static int entries_used(void)
{
	int nr = 0;

	for (int i = 0; i < ENTRIES; i++)
		nr += entries[i].used > 0;
	return nr;
}

/* The frame that was put together passes the device. */
static void pass(bool leaves, u8 segs, u32 earlier_us)
{
	struct __sk_buff skb = {
		.len = len, .pkt_type = leaves ? OUTGOING : 0, .gso_segs = segs, .gso_size = segs > 1 ? SEG : 0
	};
	int before = entries_used();
	u64 at = now_us - earlier_us;
	const struct uplink_bin *bins = seen[UPLINK_UP].bins, *b = &bins[at * 1000 / UPLINK_BIN_NS % UPLINK_BINS];

	packet.bytes = bytes;
	packet.len = len;
	now_ns = at * 1000;
	uplink(&skb);
	memcpy(last, bytes, len);
	last_len = len;
	if (!leaves && entries_used() != before)
		fails("what comes makes an entry", before, entries_used());
	for (int i = 0; i < UPLINK_BINS && !leaves; i++)
		if (bins[i].answers && bins[i].at_ns + bins[i].queue_ns > now_ns)
			fails("a packet waits longer than there was time", bins[i].queue_ns / 1e9, i);
	if (b->lost > b->data)
		fails("more is lost than has left", b->lost, b->data);
	if (seen[UPLINK_UP].rtt_ns > PATIENCE_NS)
		fails("an answer counts that takes longer than there is patience", seen[UPLINK_UP].rtt_ns, PATIENCE_NS);
}

/* --- the law ----------------------------------------------------------------------------------------------------- */

static void check(const struct uplink_law *l)
{
	if (!(l->rate >= least && l->rate <= most))
		fails("the rate is out of its bounds", l->rate, most);
	if (!(l->capacity >= 0) || isinf(l->capacity) || (l->capacity && l->capacity < 1))
		fails("no capacity is that", l->capacity, l->rate);
	if (!(l->queue >= 0 && l->queue < 60) || l->cause >= UPLINK_CAUSES)
		fails("no queue is that", l->queue, l->cause);
	if (!(l->noise >= NOISE_LEAST && l->noise <= NOISE_MOST))
		fails("no noise is that", l->noise, 0);
}

static void tick(void)
{
	struct uplink_view v;

	ticked_us = now_us;
	for (int i = 0; i < (down ? 2 : 1); i++) {
		double none;

		seen[i].rtt_ns = seen[UPLINK_UP].rtt_ns;
		uplink_law_view(&v, &seen[i], now_us * 1000);
		none = uplink_law_tick(&law[i], &v);
		told[i].rebase_ns += none * 1e9;
		told[i].capacity = law[i].capacity;
		check(&law[i]);
	}
}

static void begin_all(const u8 *head, bool alone)
{
	static const double rates[] = { 0, 0, 1e5, 5e6, 1e9 };

	ethernet = !(head[1] & BARE);
	down = head[1] & WAY_DOWN && alone;
	reflector = head[1] & PROBES ? 0xc6336409 : 0;
	overhead = alone && (signed char)head[2] >= -64 ? (signed char)head[2] : 0;
	mpu = alone ? head[3] : 0;
	least = alone && head[4] & 8 ? 1e6 : 1e5;
	most = alone && head[4] & 16 ? 2e6 : 1e10;
	memset(entries, 0, sizeof(entries));
	memset(seen, 0, sizeof(seen));
	memset(told, 0, sizeof(told));
	now_us = ticked_us = START;
	uplink_law_begin(&law[UPLINK_UP], least, most, alone ? fmin(rates[head[4] % 5], most) : 0);
	uplink_law_begin(&law[UPLINK_DOWN], least, most, 0);
}

/* --- those that lie ---------------------------------------------------------------------------------------------- */

static struct {
	u32 seq, ends[KEPT], stamps[KEPT], sent, acked;
	u64 end_exits[KEPT], stamp_exits[KEPT]; /* when they are at the far end; NEVER: the modem has dropped them */
	u64 *exit; /* of those, that of the last step */
	u64 arrives; /* when the far end has what the last step answers */
	bool guesses; /* it answers what has perhaps not left */
	u32 number; /* of the last probe */
	u16 port;
	u8 wrap;
} liar;

#define NEVER (~0ULL)

static s32 lie_of(u8 what, u8 value)
{
	static const int scales[] = { 1, 8, 64, 4096 };

	return (signed char)value * scales[what >> 5 & 3];
}

/* The last frame, with another byte. */
static void frame_changed(u8 at, u8 byte)
{
	memcpy(bytes, last, last_len);
	len = last_len;
	if (len)
		bytes[at % len] = byte;
}

/* A probe, or its answer, whose far clock is wrong by `lie` ms. */
static void probe(bool leaves, u8 back, s32 lie)
{
	u32 now_ms = now_us / 1000;

	liar.number += leaves;
	frame_begin(liar.wrap & V6 ? 0 : liar.wrap & ~EXTENDED, leaves, ICMP, 20);
	put16((leaves ? TIMESTAMP : TIMESTAMP_REPLY) << 8);
	put16(0);
	put32(leaves ? liar.number : liar.number - back % KEPT);
	put32(now_ms);
	put32(now_ms + lie);
	put32(now_ms);
}

/* A step: true if a frame is to leave, or to come. Else the step waits `*wait_us`. */
static bool do_step(const u8 *step, bool *leaves, u64 *wait_us)
{
	struct segment s = { .seq = liar.seq, .ack = 1, .port = liar.port, .flags = ACK, .tsecr = 1 };
	u8 what = step[0], a = step[1], b = step[2];

	*leaves = true;
	*wait_us = liar.arrives = 0;
	liar.guesses = false;
	liar.exit = NULL;
	s.tsval = now_us / 1000;
	switch (what & 15) {
	case 0: /* data */
	case 1: /* some that have left */
	case 2: /* behind a gap */
		s.payload = b ? 6 * b - (b > 240 ? 100 : 0) : SEG;
		if ((what & 15) == 1)
			s.seq = liar.ends[(liar.sent - 1 - a % KEPT) % KEPT] - s.payload;
		else
			s.seq += (what & 15) == 2 ? a * SEG : 0;
		if (before(liar.seq, s.seq + s.payload))
			liar.seq = s.seq + s.payload;
		liar.exit = &liar.end_exits[liar.sent % KEPT];
		liar.ends[liar.sent++ % KEPT] = s.seq + s.payload;
		break;
	case 3:
		s.tsval += lie_of(what, b);
		liar.exit = &liar.stamp_exits[liar.acked % KEPT];
		liar.stamps[liar.acked++ % KEPT] = s.tsval;
		break;
	case 4:
		s.flags = a;
		break;
	case 5: /* an ACK of these */
	case 6:
	case 7:
		*leaves = false;
		s.ack = liar.ends[(liar.sent - 1 - a % KEPT) % KEPT];
		liar.arrives = liar.end_exits[(liar.sent - 1 - a % KEPT) % KEPT];
		s.tsval += 12345 + lie_of(what, b);
		s.tsecr = now_us / 1000;
		break;
	case 8: /* data, for an ACK */
		*leaves = false;
		s.tsecr = liar.stamps[(liar.acked - 1 - a % KEPT) % KEPT];
		liar.arrives = liar.stamp_exits[(liar.acked - 1 - a % KEPT) % KEPT];
		s.tsval += 12345 + lie_of(what, b);
		s.payload = what & 16 ? 100 : SEG;
		break;
	case 9:
		*leaves = false;
		liar.guesses = true;
		s.ack = liar.seq + (signed char)a * SEG;
		s.seq = b;
		break;
	case 10:
		liar.port = 1024 + a;
		liar.seq = b;
		return false;
	case 11:
		*wait_us = 1000 * a;
		return false;
	case 12:
		*wait_us = 10000 * a;
		return false;
	case 13:
		*wait_us = 10000ULL * a * b;
		return false;
	case 14:
	case 15:
		*leaves = what & 16;
		liar.guesses = true;
		if ((what & 15) == 14)
			frame_changed(a, b);
		else
			probe(*leaves, a, lie_of(what, b));
		return true;
	}
	frame(liar.wrap, *leaves, &s);
	return true;
}

static void alone(const u8 *steps, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const u8 *step = steps + i * STEP_BYTES;
		u64 wait = 0, end;
		bool leaves;

		if (do_step(step, &leaves, &wait))
			pass(leaves, (step[0] & 15) == 8 ? step[2] % 8 : 0, step[0] & 16 ? 30 : 0);
		end = now_us + wait + 200;
		if ((step[0] & 15) == 13) /* the process is stopped meanwhile */
			ticked_us = end - TICK;
		while (ticked_us + TICK <= end) {
			now_us = ticked_us + TICK;
			tick();
		}
		now_us = end;
	}
}

/* --- beside honest uploads, before a modem ----------------------------------------------------------------------- */

static struct upload {
	u32 next, missing[256], flight, turn;
	u64 missing_at[256], calm;
	u8 lost, found;
	double window;
	u64 arrived; /* bytes of payload */
} uploads[HONEST];
static struct {
	u64 at;
	u32 ack, tsval, stamp, of;
} coming[EVENTS];
static u32 came, left;
static u64 free_us; /* when the modem has sent all that stands in it */

static double queue_us(void)
{
	return free_us > now_us ? free_us - now_us : 0;
}

static bool enters_modem(u32 size)
{
	if (queue_us() > ROOM)
		return false;
	free_us = (free_us > now_us ? free_us : now_us) + 8000000ULL * size / RATE;
	return true;
}

static void leave(struct upload *u)
{
	bool again = u->lost != u->found && u->missing_at[u->found] <= now_us;
	struct segment s = {
		.seq = again ? u->missing[u->found++] : u->next,
		.ack = 1,
		.flags = ACK,
		.payload = SEG,
		.tsval = now_us / 1000
	};
	u64 queue = queue_us();

	s.port = 2000 + (u - uploads);
	u->next += again ? 0 : SEG;
	frame(ethernet ? 0 : BARE, true, &s);
	pass(true, 0, 0);
	if (!enters_modem(WIRE)) {
		u->missing_at[u->lost] = now_us + queue + RTT;
		u->missing[u->lost++] = s.seq;
		if (now_us > u->calm) {
			u->window = fmax(u->window / 2, 2);
			u->calm = now_us + queue + RTT;
		}
		return;
	}
	u->arrived += SEG;
	u->flight++;
	coming[left % EVENTS].at = free_us + RTT;
	coming[left % EVENTS].of = u - uploads;
	coming[left % EVENTS].ack = s.seq + SEG;
	coming[left % EVENTS].stamp = s.tsval;
	coming[left++ % EVENTS].tsval = (free_us + RTT / 2) / 1000 + 77;
}

static void come(void)
{
	struct upload *u = &uploads[coming[came % EVENTS].of];
	struct segment s = { .seq = 1, .ack = coming[came % EVENTS].ack, .flags = ACK, .port = 2000 + (u - uploads) };

	s.tsval = coming[came % EVENTS].tsval;
	s.tsecr = coming[came % EVENTS].stamp;
	came++;
	frame(ethernet ? 0 : BARE, false, &s);
	pass(false, 0, 0);
	u->flight--;
	u->window = fmin(u->window + (u->calm ? 1 / u->window : 1), WINDOW);
}

static struct line {
	const u8 *steps;
	size_t nr, at; /* of the step that comes next */
	u64 step_due, leave_due;
	bool early; /* its far end answers what has not arrived */
	bool waits; /* a frame of the liar's waits for its turn: it is in ... */
	u8 frame[2048];
	u32 len, turn, turns;
} line;

static void next_step(void)
{
	const u8 *step = line.steps + line.at * STEP_BYTES;
	bool leaves, acts;
	u64 wait;

	acts = do_step(step, &leaves, &wait);
	if (!line.early && !leaves && liar.arrives > now_us && liar.arrives != NEVER) {
		line.step_due = liar.arrives;
		return;
	}
	line.at = (line.at + 1) % line.nr;
	if (acts && leaves) {
		line.waits = true;
		memcpy(line.frame, bytes, len);
		line.len = len;
	} else if (acts && (line.early || !(liar.guesses || liar.arrives == NEVER))) {
		pass(false, 0, 0);
	}
	line.step_due = now_us + 1000 + (wait > 5000000 ? 5000000 : wait);
}

/* The packets leave by turns, as from CAKE. */
static void next_leaves(bool honest)
{
	struct upload *first = NULL;
	u32 size = WIRE;

	for (int i = 0; i < HONEST && honest; i++)
		if (uploads[i].flight < uploads[i].window && (!first || uploads[i].turn < first->turn))
			first = &uploads[i];
	if (line.waits && (!first || line.turn <= first->turn)) {
		line.waits = false;
		line.turn = ++line.turns;
		memcpy(bytes, line.frame, line.len);
		size = len = line.len;
		pass(true, 0, 0);
		if (liar.exit)
			*liar.exit = NEVER;
		if (enters_modem(size) && liar.exit)
			*liar.exit = free_us + RTT;
	} else if (first) {
		first->turn = ++line.turns;
		leave(first);
	} else {
		line.leave_due = now_us + 200;
		return;
	}
	line.leave_due = now_us + 8e6 * size / fmin(law[UPLINK_UP].rate, 4 * RATE) + 1;
}

static u64 least_of(u64 a, u64 b)
{
	return a < b ? a : b;
}

static void run_line(u64 seconds, bool liars, bool honest, double *rate_sum)
{
	u64 end = now_us + seconds * 1000000;

	while (now_us < end) {
		u64 next = least_of(ticked_us + TICK, line.leave_due);

		if (came != left)
			next = least_of(next, coming[came % EVENTS].at);
		if (liars && !line.waits)
			next = least_of(next, line.step_due);
		now_us = next > now_us ? next : now_us;
		if (came != left && coming[came % EVENTS].at <= now_us) {
			come();
		} else if (ticked_us + TICK <= now_us) {
			tick();
			*rate_sum += law[UPLINK_UP].rate / (10.0 * seconds);
		} else if (liars && !line.waits && line.step_due <= now_us) {
			next_step();
		} else {
			next_leaves(honest);
		}
	}
}

static void with_honest(const u8 *steps, size_t nr, bool beside, bool early)
{
	double rate = 0, ignored = 0, share = 0.75 * HONEST / (HONEST + 1.0) * RATE * 10 / 8;
	u64 arrived = 0;

	memset(&line, 0, sizeof(line));
	memset(uploads, 0, sizeof(uploads));
	came = left = 0;
	free_us = line.step_due = line.leave_due = now_us;
	line.steps = steps;
	line.nr = nr;
	line.early = early;
	for (int i = 0; i < HONEST; i++) {
		uploads[i].next = 1;
		uploads[i].window = 10;
	}
	if (beside)
		run_line(5, false, true, &ignored);
	line.step_due = now_us;
	run_line(10, true, beside, &ignored);
	line.waits = line.waits && beside;
	if (!beside)
		run_line(
			27, false, true,
			&ignored); /* 10 s till bases are checked, and from `least` on 17 s to double it, 3 s each time */
	for (int i = 0; i < HONEST; i++)
		arrived -= uploads[i].arrived;
	run_line(10, beside, true, &rate);
	for (int i = 0; i < HONEST; i++)
		arrived += uploads[i].arrived;
	if (rate < 0.9 * RATE)
		fails(beside ? "a host and its far end pin the rate"
			     : "a rate stays pinned when those have ended who lied",
		      rate, RATE);
	if (beside ? !early && arrived < share : arrived < 0.9 * RATE * 10 / 8)
		fails("honest uploads have less than three quarters of their shares", arrived, share);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	size_t nr = size < HEAD ? 0 : (size - HEAD) / STEP_BYTES;
	u8 mode;

	if (!nr)
		return 0;
	mode = data[0] % 4;
	begin_all(data, mode < 2);
	memset(&liar, 0, sizeof(liar));
	last_len = 0;
	liar.port = 1024;
	liar.seq = 1;
	liar.wrap = data[1];
	if (mode < 2)
		alone(data + HEAD, nr);
	else
		with_honest(data + HEAD, nr, mode == 2, mode == 3 || data[4] & 32);
	return 0;
}
