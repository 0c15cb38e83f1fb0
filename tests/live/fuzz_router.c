// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fuzz_router OBJECT SEED COUNT: packets for the program of `asymcc thin --dev`, in the kernel. Downloads, and between their packets
 * others with one thing or several changed. It may drop plain ACKs that leave, by a model that shares no word with it.
 * Prints "PACKETS DROPPED REFUSED"; the last are packets that BPF_PROG_TEST_RUN does not take.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

enum {
	FIN = 1,
	SYN = 2,
	RST = 4,
	PSH = 8,
	ACK = 16,
	URG = 32,
	ECE = 64,
	CWR = 128,
	ETH = 14,
	WINDOW = 40000,
	PAYLOAD = 200,
	BEYOND = 2 * PAYLOAD,
	PASSES = -1,
	DROPPED = 2,
	OF_EACH = 4000,
	RTT_US = 2000
};

/* --- random -------------------------------------------------------------------------------- */

static uint64_t state;

static uint32_t any(uint32_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return ((state * 0x2545f4914f6cdd1dULL) >> 32) % below;
}

static bool once_in(uint32_t n)
{
	return !any(n);
}

/* --- packets ------------------------------------------------------------------------------- */

struct packet {
	uint8_t at[2048];
	unsigned int len;
};

static void put(struct packet *p, const void *bytes, unsigned int n)
{
	memcpy(p->at + p->len, bytes, n);
	p->len += n;
}

static void put8(struct packet *p, uint8_t v)
{
	p->at[p->len++] = v;
}

static void put16(struct packet *p, uint16_t v)
{
	put(p, (uint8_t[]){ v >> 8, v }, 2);
}

static void put32(struct packet *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p, v);
}

/* A download: its host, how its frames are wrapped, and where its numbers are. */
struct download {
	bool v6, pppoe, stamped;
	int vlans;
	uint16_t port;
	uint32_t next, seq;
};

/* The members of a frame beside the numbers of its connection; zeros: as usual. */
struct odd {
	uint8_t tos, protocol, ip_options, offset;
	uint16_t fragment;
	bool fragmented;
};

static void put_ip(struct packet *p, const struct download *d, const struct odd *o, bool leaves, unsigned int segment)
{
	static const uint8_t host[16] = { 0x20, 1, 0xd, 0xb8, [15] = 7 }, server[16] = {
		0x20, 1, 0xd, 0xb8, 0, 1, [15] = 9
	};
	uint8_t protocol = o->protocol ? o->protocol - 1 : 6;

	if (d->v6) {
		put32(p, 6u << 28 | o->tos << 20);
		put16(p, segment);
		put8(p, protocol);
		put8(p, 64);
		put(p, leaves ? host : server, 16);
		put(p, leaves ? server : host, 16);
		return;
	}
	put8(p, 4 << 4 | (5 + o->ip_options));
	put8(p, o->tos);
	put16(p, 20 + 4 * o->ip_options + segment);
	put16(p, 1);
	put16(p, o->fragmented ? o->fragment : 0x4000);
	put8(p, 64);
	put8(p, protocol);
	put16(p, 0);
	put32(p, leaves ? 0xc0000207 : 0xc6336409);
	put32(p, leaves ? 0xc6336409 : 0xc0000207);
	for (int i = 0; i < o->ip_options; i++)
		put32(p, 0x94040000);
}

static void
frame(struct packet *p, const struct download *d, const struct odd *o, bool leaves, const struct packet *segment)
{
	uint16_t type = d->v6 ? 0x86dd : 0x0800;

	p->len = 0;
	put(p, (uint8_t[12]){ 0 }, 12);
	for (int i = 0; i < d->vlans; i++) {
		put16(p, 0x8100);
		put16(p, 7 + i);
	}
	put16(p, d->pppoe ? 0x8864 : type);
	if (d->pppoe) {
		put16(p, 0x1100);
		put16(p, 9);
		put16(p, segment->len + 22);
		put16(p, d->v6 ? 0x57 : 0x21);
	}
	put_ip(p, d, o, leaves, segment->len);
	put(p, segment->at, segment->len);
}

static void
put_tcp(struct packet *s, const struct download *d, bool leaves, uint32_t seq, uint32_t ack, uint8_t flags,
	uint16_t window, const struct packet *options, unsigned int payload)
{
	s->len = 0;
	put16(s, leaves ? d->port : 80);
	put16(s, leaves ? 80 : d->port);
	put32(s, seq);
	put32(s, ack);
	put8(s, (20 + options->len) / 4 << 4);
	put8(s, flags);
	put16(s, window);
	put32(s, 0);
	put(s, options->at, options->len);
	memset(s->at + s->len, 0, payload);
	s->len += payload;
}

/* In whole words: timestamps, SACK, a D-SACK, AccECN, MPTCP, those of a SYN, an ACK Rate Request, lengths that lie, anything. */
static void put_option(struct packet *o)
{
	static const struct {
		uint8_t head[4], len;
	} known[] = {
		{ { 1, 1, 8, 10 }, 12 },   { { 1, 1, 5, 10 }, 12 }, { { 1, 1, 5, 18 }, 20 }, { { 172, 11, 0, 0 }, 12 },
		{ { 30, 8, 0, 0 }, 8 },    { { 2, 4, 5, 180 }, 4 }, { { 3, 3, 7, 0 }, 4 },   { { 19, 18, 0, 0 }, 20 },
		{ { 254, 5, 0, 172 }, 8 }, { { 5, 255, 0, 0 }, 4 }, { { 5, 0, 0, 0 }, 4 },   { { 1, 1, 1, 1 }, 4 },
		{ { 0, 0, 0, 0 }, 4 },     { { 8, 10, 0, 0 }, 12 },
	};
	const typeof(known[0]) *k = &known[any(sizeof(known) / sizeof(known[0]))];
	unsigned int n = k->len;

	if (o->len + n > 40)
		return;
	if (once_in(8)) {
		for (unsigned int i = 0; i < 4; i++)
			put8(o, any(256));
		return;
	}
	put(o, k->head, 4);
	for (unsigned int i = 4; i < n; i++)
		put8(o, once_in(2) ? 0 : any(256));
}

/* One far ahead makes all that the connection sends later old. */
static uint32_t near(uint32_t n)
{
	static const int32_t off[] = { -1, 1, PAYLOAD, -PAYLOAD, 2 * PAYLOAD, -1000000 };

	if (once_in(5000))
		return any(UINT32_MAX);
	return once_in(4) ? n + (uint32_t)off[any(sizeof(off) / sizeof(off[0]))] : n;
}

static void put_stamps(struct packet *options)
{
	put32(options, 0x0101080a);
	put32(options, 1000);
	put32(options, 7);
}

static void usual(struct packet *p, struct download *d, bool leaves)
{
	struct packet segment, options = { .len = 0 };

	if (d->stamped)
		put_stamps(&options);
	if (leaves) {
		/* beyond all that a forged one acknowledges: else it would look like an old one, and pass */
		put_tcp(&segment, d, true, d->seq + BEYOND, d->next, ACK, WINDOW, &options, 0);
	} else {
		put_tcp(&segment, d, false, d->next, d->seq, ACK, 500, &options, PAYLOAD);
		d->next += PAYLOAD;
	}
	frame(p, d, &(struct odd){ 0 }, leaves, &segment);
}

/* A packet of the connection, with one to three things changed. */
static void forged(struct packet *p, const struct download *d, bool leaves)
{
	static const uint8_t protocols[] = { 17, 0, 44, 50 };
	static uint8_t flags_of = ACK; /* the same flags come more than once: a change of some is news of its own */
	uint32_t things = 1 << any(14) | (any(2) ? 1 << any(14) : 0) | (any(2) ? 1 << any(14) : 0);
	uint32_t seq = leaves ? d->seq + BEYOND : d->next, ack = leaves ? d->next : d->seq;
	struct packet segment, options = { .len = 0 };
	unsigned int payload = leaves ? 0 : PAYLOAD;
	bool rare = once_in(2000); /* after a SYN the connection begins anew, and after marks of ECN more passes */
	struct odd o = { 0 };
	uint8_t flags = ACK;

	if (d->stamped && !(things & 1))
		put_stamps(&options);
	if (things & 2)
		for (int n = 1 + any(2); n > 0; n--)
			put_option(&options);
	if (things & 4)
		flags = flags_of = once_in(3) ? any(256) : flags_of;
	if (!rare)
		flags &= ~(SYN | ECE | CWR);
	if (things & 8)
		payload = any(2) ? 1 : any(PAYLOAD);
	if (things & 16)
		seq = near(seq);
	if (things & 32)
		ack = near(ack);
	if (things & 64)
		o.tos = any(4);
	if (things & 128)
		o.protocol = 1 + protocols[any(sizeof(protocols))];
	if (things & 256)
		o.ip_options = 1 + any(2);
	if (things & 512) {
		o.fragmented = true;
		o.fragment = any(2) ? 0x2000 : any(65536);
	}
	put_tcp(&segment, d, leaves, seq, ack, flags, things & 1024 ? any(65536) : WINDOW, &options, payload);
	if (things & 2048)
		segment.at[12] = (any(2) ? segment.at[12] | any(16) : any(256)) & (rare ? 255 : 254);
	frame(p, d, &o, leaves, &segment);
	if (things & 4096)
		p->at[any(p->len)] = any(256);
	if (!(things & 8192))
		return;
	if (once_in(2))
		p->len = ETH + any(p->len - ETH + 1);
	else
		for (int n = any(20); n > 0; n--)
			put8(p, any(256));
}

/* --- the model: RFC 791, 8200, 9293, 2516, 802.1Q ------------------------------------------- */

static uint16_t get16(const uint8_t *at)
{
	return at[0] << 8 | at[1];
}

static bool only_known_options(const uint8_t *at, const uint8_t *end)
{
	while (at < end) {
		if (*at == 0) {
			while (at < end)
				if (*at++)
					return false;
			return true;
		}
		if (*at == 1) {
			at++;
			continue;
		}
		if (end - at < 2 || at[1] < 2 || at + at[1] > end || (*at != 5 && *at != 8 && *at != 172 && *at != 174))
			return false;
		at += at[1];
	}
	return true;
}

/* No data, no flag but ACK and ECN's, no option but timestamps, SACK and AccECN's counters; whole, and no fragment. */
static bool is_plain_ack(const struct packet *p)
{
	const uint8_t *at = p->at + 12, *end = p->at + p->len, *tcp;
	unsigned int header;

	while (end - at >= 4 && (get16(at) == 0x8100 || get16(at) == 0x88a8))
		at += 4;
	if (end - at >= 10 && get16(at) == 0x8864 && get16(at + 2) == 0x1100) {
		at += 8;
		if (get16(at) != 0x21 && get16(at) != 0x57)
			return false;
	} else if (end - at < 2 || (get16(at) != 0x0800 && get16(at) != 0x86dd)) {
		return false;
	}
	at += 2;
	if (end - at >= 40 && *at == 0x45) {
		if (at[9] != 6 || get16(at + 6) & 0x3fff || get16(at + 2) > end - at)
			return false;
		tcp = at + 20;
		end = at + get16(at + 2);
	} else if (end - at >= 60 && *at >> 4 == 6) {
		if (at[6] != 6 || get16(at + 4) > end - at - 40)
			return false;
		tcp = at + 40;
		end = tcp + get16(at + 4);
	} else {
		return false;
	}
	header = end - tcp >= 20 ? (tcp[12] >> 4) * 4 : 0;
	return header >= 20 && end - tcp == header && (tcp[13] & (FIN | SYN | RST | PSH | ACK | URG)) == ACK &&
	       only_known_options(tcp + 20, end);
}

/* --- the kernel ---------------------------------------------------------------------------- */

static void fail(const char *what)
{
	fprintf(stderr, "fuzz_router: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A variable of .data gets this value before the load. */
static void set(struct bpf_object *o, const char *name, uint32_t value)
{
	const struct btf *btf = bpf_object__btf(o);
	const struct btf_type *section = btf__type_by_id(btf, btf__find_by_name_kind(btf, ".data", BTF_KIND_DATASEC));
	struct bpf_map *map;
	size_t size;

	bpf_object__for_each_map(map, o)
		if (strstr(bpf_map__name(map), ".data"))
			for (int i = 0; i < btf_vlen(section); i++) {
				const struct btf_var_secinfo *v = &btf_var_secinfos(section)[i];

				if (!strcmp(btf__name_by_offset(btf, btf__type_by_id(btf, v->type)->name_off), name)) {
					memcpy((char *)bpf_map__initial_value(map, &size) + v->offset, &value,
					       sizeof(value));
					return;
				}
			}
	errno = ENOENT;
	fail(name);
}

static int program(struct bpf_object *o, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(o, name));
}

static int runs(int program, struct packet *p, struct bpf_test_run_opts *run)
{
	run->data_in = p->at;
	run->data_size_in = p->len;
	return bpf_prog_test_run_opts(program, run);
}

/* Another download, and its handshake: without one the program knows no RTT, and all passes. */
static void begin(struct download *d, int in, int out)
{
	struct packet p, segment, options = { .at = { 1, 3, 3, 7 }, .len = 4 };
	static uint16_t port = 1024;
	LIBBPF_OPTS(bpf_test_run_opts, run);

	*d = (struct download){
		.v6 = any(2), .pppoe = once_in(3), .stamped = any(2), .vlans = any(3), .next = any(UINT32_MAX), .seq = 1
	};
	d->port = port++;
	for (int comes = 0; comes < 2; comes++) {
		if (comes)
			put_tcp(&segment, d, false, d->next - 1, d->seq, SYN | ACK, 500, &options, 0);
		else
			put_tcp(&segment, d, true, d->seq - 1, 0, SYN, WINDOW, &options, 0);
		frame(&p, d, &(struct odd){ 0 }, !comes, &segment);
		if (runs(comes ? in : out, &p, &run))
			fail("a handshake");
		usleep(comes ? 0 : RTT_US);
	}
}

int main(int argc, char **argv)
{
	static const uint32_t rates[] = { 5000, 20000, 50000 }; /* an ACK takes some 20 us of a core */
	uint64_t count, dropped = 0, refused = 0;
	struct bpf_object *o;
	struct download d;
	struct packet p;
	int in, out;

	if (argc != 4)
		return fprintf(stderr, "usage: fuzz_router OBJECT SEED COUNT\n"), 2;
	state = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
	count = strtoull(argv[3], NULL, 0);
	o = bpf_object__open(argv[1]);
	if (!o)
		fail(argv[1]);
	set(o, "reverse_kbit", rates[any(3)]);
	if (bpf_object__load(o))
		fail("it does not load");
	in = program(o, "thin_ingress");
	out = program(o, "thin_egress");
	for (uint64_t n = 0; n < count; n++) {
		unsigned int of = n % OF_EACH;
		bool other = of > 800 && any(10) < 3, leaves = other ? any(10) < 7 : of % 3 == 2;
		LIBBPF_OPTS(bpf_test_run_opts, run);

		if (!of)
			begin(&d, in, out);
		if (other)
			forged(&p, &d, leaves);
		else
			usual(&p, &d, leaves);
		if (runs(leaves ? out : in, &p, &run)) {
			if (errno != EINVAL || !other)
				fail("BPF_PROG_TEST_RUN");
			refused++;
			continue;
		}
		if ((int)run.retval == PASSES)
			continue;
		if ((int)run.retval == DROPPED && leaves && is_plain_ack(&p)) {
			dropped++;
			continue;
		}
		fprintf(stderr, "fuzz_router: seed %s, packet %llu, which %s: %d: ", argv[2], (unsigned long long)n,
			leaves ? "leaves" : "comes", run.retval);
		for (unsigned int i = 0; i < p.len; i++)
			fprintf(stderr, "%02x", p.at[i]);
		fputc('\n', stderr);
		return 1;
	}
	printf("%llu %llu %llu\n", (unsigned long long)count, (unsigned long long)dropped, (unsigned long long)refused);
	bpf_object__close(o);
	return 0;
}
