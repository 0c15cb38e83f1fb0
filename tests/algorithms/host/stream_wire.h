/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of stream.h for a controller with TCP options of its own: what comes from the peer or goes to it. */

/* Adds bytes to a line. */
static void give_bytes(struct line *line, const char *key, const u8 *bytes, u32 n)
{
	char *to = in.text + in.written;

	if (in.written + 2 * n + 1 > sizeof(in.text))
		n = 0;
	for (u32 i = 0; i < n; i++) {
		to[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		to[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	to[2 * n] = 0;
	in.written += 2 * n + 1;
	add(line, key, to, 0, NULL);
}

static void give_hello(struct line *line, const char *key)
{
	const u16 exid = HELLO_EXID;
	u8 hello[4] = { OPTION_KIND, 4 };

	memcpy(hello + 2, &exid, 2);
	give_bytes(line, key, hello, 4);
}

static void put_be(u8 *to, u64 value, int n)
{
	while (n-- > 0) {
		to[n] = value;
		value >>= 8;
	}
}

#ifdef ANSWER_EXID
static void hear_answer(u8 round, u8 signal, u32 queue)
{
	const u16 exid = ANSWER_EXID;
	struct line *line = begin_line("read");
	u8 o[8] = { OPTION_KIND, 8 };

	memcpy(o + 2, &exid, 2);
	o[4] = signal;
	o[5] = round;
	put_be(o + 6, queue, 2);
	give_bytes(line, "options", o, 8);
	judge_line(line);
}
#else
static void hear_answer(u8 round, u8 signal, u32 queue)
{
}
#endif

/* An ACK with an answer: of this round or another, with a new signal or none. */
static void choose_answer(void)
{
	u8 how = byte();
	const struct entry *round = member("wire.round"), *seen = member("wire.signal_seen");

	in.round = how & 1 ? byte() : round ? get(round) : 0;
	in.signal = how & 2 ? byte() : (seen ? get(seen) : 0) + (how >> 2 & 1);
	hear_answer(in.round, in.signal, how & 8 ? number(0, 65535) : 0);
	if (how & 0x10)
		one_ack(0, number(0, in.size), -1, false, true);
	else if (!(how & 0x20))
		choose_ack();
}

/* Tells the socket what the kernel has received. */
static void have_received(u32 next)
{
	struct line *line = begin_line("poke");

	assign(line, "rcv_nxt", next);
	play_line(line);
}

static void finish_segment(u8 how, u32 seq, u32 len, bool queued)
{
	if (!(how & 0x80)) { /* the kernel takes it: tcp_ack(), then the data */
		struct line *line = begin_line("ack");

		give(line, "n", 0);
		play_line(line);
		if (queued && !before(tp->rcv_nxt, seq) && before(tp->rcv_nxt, seq + len))
			have_received(seq + len);
	}
}

/* A segment of the peer with a data option. */
static void choose_data(void)
{
	const u16 exid = DATA_EXID;
	u8 what = byte(), how = what & 0x80 ? byte() : 0, o[12] = { OPTION_KIND, 12 };
	u32 seq = tp->rcv_nxt, len = 960, stamp = in.now - in.base - (what >> 2 & 7) * in.base / 8;
	struct line *line;

	if (how % 4 == 2)
		seq += number(1, 1u << 31);
	if (how % 4 == 3)
		seq -= number(1, 1u << 16);
	in.round = how & 0x04 ? byte() : in.round + (what % 4 == 3);
	if (how & 0x10)
		o[4] = byte();
	if (how & 0x20) {
		len = PICK(1, 1920, 65535, 0);
		stamp = byte() & 1 ? number(0, ALL) : in.now - number(0, 1u << 26);
	}
	memcpy(o + 2, &exid, 2);
	o[5] = in.round;
#ifdef ANSWER_EXID
	put_be(o + 6, in.base / 64, 2);
#else
	put_be(o + 6, PICK(64, 2, 1, 0, 65535), 2);
	if (!(how & 0x20)) /* the peer's snd_una */
		stamp = tp->rcv_nxt;
#endif
	put_be(o + 8, stamp, 4);
	line = begin_line("read");
	give_bytes(line, "options", o, 12);
	give(line, "seq", seq);
	give(line, "len", len);
	if (how & 0x40) {
		give(line, "flags", PICK(24, 17, 0, 20));
		give(line, "ack", tp->snd_una + (u32)number(0, ALL));
	}
	judge_line(line);
	finish_segment(how, seq, len, true);
}

/* Options that are nearly right, or nothing of the kind. */
static void choose_options(void)
{
	static const u16 exids[] = {
		HELLO_EXID, DATA_EXID,
#ifdef ANSWER_EXID
		ANSWER_EXID,
#endif
	};
	u8 how = byte(), raw[40], n = min(byte(), sizeof(raw));
	struct line *line = begin_line("read");

	for (int i = 0; i < n; i++)
		raw[i] = byte();
	if (how & 1 && n >= 4) {
		raw[0] = OPTION_KIND;
		memcpy(raw + 2, &exids[(how >> 1) % COUNT_OF(exids)], 2);
	}
	if (how & 0x10 && n >= 2)
		raw[1] = n;
	give_bytes(line, "options", raw, n);
	give(line, "seq", tp->rcv_nxt);
	give(line, "len", how & 0x20 ? 0 : 960);
	if (how & 0x40)
		give(line, "cut", PICK(1, 60));
	judge_line(line);
	finish_segment(how, tp->rcv_nxt, 960, false);
}

/* An IP packet: a pure ACK of `ack`, or nearly one. */
static void give_packet(struct line *line, u32 seq, u32 ack, u8 ecn, u8 flags)
{
	u8 what = byte(), how = what & 0x80 ? byte() : what & 7, raw[160] = { 0 }, *tcp = raw + (how & 1 ? 40 : 20), *end = tcp + 20;

	if (how & 1) {
		raw[0] = 0x60;
		raw[1] = ecn << 4;
		raw[6] = 6;
	} else {
		raw[0] = 0x45;
		raw[1] = ecn;
		raw[9] = 6;
	}
	if (how & 2) { /* timestamps, and SACK */
		static const u8 stamps[] = { 1, 1, 8, 10 };

		memcpy(end, stamps, 4);
		end += 12;
	}
	if (how & 4) {
		static const u8 sack[] = { 1, 1, 5, 10 };

		memcpy(end, sack, 4);
		put_be(end + 4, ack + (u32)PICK(960, -960, 0), 4);
		put_be(end + 8, ack + 1920, 4);
		end += 12;
	}
	tcp[13] = how & 8 ? PICK(0x50, 0, 2, 17, 18, 20, 24) : flags;
	if (tcp[13] & 2 && !(what & 8)) { /* a SYN says hello */
		const u16 exid = HELLO_EXID;

		end[0] = OPTION_KIND;
		end[1] = 4;
		memcpy(end + 2, &exid, 2);
		end += 4;
	}
	put_be(tcp, SYN_PORT, 2);
	tcp[12] = (end - tcp) / 4 << 4;
	if (how & 0x10)
		seq = seq - number(0, 1 << 16);
	put_be(tcp + 4, seq, 4);
	put_be(tcp + 8, ack, 4);
	if (how & 0x20) { /* anything */
		raw[byte() % (end - raw)] = byte();
		end += byte() % 64;
	}
	if (how & 0x40)
		end = raw + byte() % (end - raw + 1);
	give_bytes(line, "packet", raw, end - raw);
	if (how & 0x80)
		give(line, "owned", 0);
}

/* The kernel sends an ACK; a cgroup's program may drop it. */
static void choose_pure_ack(void)
{
	struct line *line = begin_line("poke");
	u8 how = seldom();
	u32 ack = tp->rcv_nxt;

	assign(line, "rcv_wup", tp->rcv_nxt);
	if (how & 1)
		assign(line, "rcv_wnd", PICK(0, 960, 65535, 1 << 20));
	assign(line, "pending", 0);
	play_line(line);
	line = begin_line("write");
	give(line, "len", 0);
	give(line, "room", how & 4 ? PICK(40, 20, 8, 0) : 28);
	judge_line(line);
	if (how & 2)
		ack -= number(0, ALL);
	line = begin_line("egress");
	give_packet(line, tp->snd_nxt, ack, 0, 16);
	judge_line(line);
}

/* An ACK of the peer, marked or not, and what the stack makes of it. */
static void choose_mark(u8 how)
{
	struct line *line = begin_line("ingress");
	u32 ack = how & 1 ? tp->snd_una + (u32)number(0, ALL) : tp->snd_una + in.size * k.seg;

	give_packet(line, tp->rcv_nxt, ack, 3 - (how >> 1 & 3), 16);
	judge_line(line);
	if (!(how & 8))
		choose_ack();
}

/* A SYN comes: does it say hello, and may it have ECN? */
static void choose_syn(u8 how)
{
	struct line *line = begin_line("ingress");

	give_packet(line, 1, 0, 0, 2);
	judge_line(line);
	line = begin_line("call");
	give(line, "op", BPF_SOCK_OPS_NEEDS_ECN);
	give(line, "full", how & 1);
	judge_line(line);
}

static void choose_ingress(void)
{
	u8 how = byte();

	if (how < 0xc0)
		choose_mark(how);
	else
		choose_syn(how);
}

static void choose_write(void)
{
	struct line *line = begin_line("poke");
	u8 how = byte();

	assign(line, "icsk_retransmits", how >> 4 & 3);
	assign(line, "snd_wnd", how & 0x40 ? number(0, SND_WND) : SND_WND);
	play_line(line);
	line = begin_line("write");
	give(line, "room", PICK(40, 28, 20, 8, 0));
	give(line, "len", how & 1 ? 0 : 960);
	give(line, "flags", PICK(16, 2, 18));
	give(line, "mode", byte() % 3);
	give(line, "full", !(how & 2));
	if (how & 4)
		give_hello(line, "syn");
	judge_line(line);
}

/* If windows have any size, packets go without options: thousands would take most of the time. */
static void write_none(void)
{
	struct line *line;

	if (in.most != ALL)
		return;
	line = begin_line("poke");
	assign(line, "cb_flags", BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG);
	play_line(line);
}

/* Callbacks of the connection, and its controller changed. */
static void choose_call(void)
{
	struct line *line;
	u8 how = byte();

	if (how & 0x80) {
		simply("release");
		return;
	}
	line = begin_line("call");
	give(line, "op", how % 13); /* of those that carry no header */
	give(line, "full", !(how & 0x10));
	if (how & 0x20)
		give_hello(line, "options");
	if (how & 0x40)
		give_hello(line, "syn");
	judge_line(line);
	write_none();
}

/* The socket's controller was chosen for it, or is not to be changed; the port of the peer. */
static void choose_socket(struct line *line)
{
	u8 how = byte();

	assign(line, "chosen", how % 4 == 1);
	assign(line, "locked", how % 8 == 2);
	assign(line, "remote_port", how & 0x80 ? SYN_PORT : 80);
}

static void choose_peer(struct line *line)
{
	u8 how = byte();

	assign(line, "ecn_flags", how % 4 != 3);
	in.most = how & 8 ? ALL : MANY;
	assign(line, "fails", how % 16 == 7);
	assign(line, "rcv_nxt", how & 0x10 ? -3000 : 1);
	assign(line, "rcv_wup", how & 0x10 ? -3000 : 1);
	in.answers = how & 0x20;
	if (member("chosen"))
		choose_socket(line);
	if (how & 0x40)
		assign(line, "other", 1);
	if (how % 4 == 2)
		give_hello(line, "syn");
	else if (how % 4 == 1)
		return;
	give_hello(line, "synack");
}

static void choose_of_wire(u8 what)
{
	switch (what) {
	case 0:
	case 1:
		choose_answer();
		break;
	case 2:
		choose_data();
		break;
	case 3:
		choose_pure_ack();
		break;
	case 4:
		choose_options();
		break;
	case 5:
		choose_ingress();
		break;
	case 6:
		choose_write();
		break;
	case 7:
		choose_call();
		break;
	}
}
