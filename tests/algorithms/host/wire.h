/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wire half of a controller that has TCP options of its own: `NAME_sockops`, `NAME_egress`, one
 * socket storage and, of those that have it, `NAME_ingress`, called as the kernel calls them, with the helpers as net/core/filter.c has them.
 *
 *   call    op= options= syn= full=          a callback of the connection; `options` are the segment's
 *   read    seq= ack= len= flags= options= cut=
 *                                            a segment comes; cut= bytes of its header are there
 *   write   seq= len= flags= mode= room= others= syn= full=
 *                                            a segment leaves with `room` bytes left for options; another program reserves others=
 *   egress  packet= owned= type= protocol=   {"pass":1}: an IP packet of such a socket goes on the wire
 *   ingress packet= owned= type= protocol=   one comes
 *   new     syn= or synack=                  the handshake first: what the peer's SYN or SYN-ACK carried
 *
 * Options and packets are hexadecimal. `write` answers with what was reserved and written. Each packet that
 * the model sends is in `segments`: sequence number, 1 if it is sent again, options; the ACK that a program
 * sends in `ack`. Members: exists= the storage is there, fails= none can be made, other= another controller
 * runs on the socket.
 */
enum { WRITTEN = 2000 }; /* packets of one command that get their options: of more only the first */
enum { STREAM = 1, TCP = 6 }; /* SOCK_STREAM, IPPROTO_TCP */
enum {
	HEADER = 20,
	OPTIONS = 40,
	NOT_PERMITTED = 1,
	FAULTY = 14,
	EXISTS = 17,
	INVALID = 22,
	FULL = 28,
	NO_MESSAGE = 42
};

extern struct tcp_congestion_ops OPS;
int SOCKOPS(struct bpf_sock_ops *ops);
int EGRESS(struct __sk_buff *skb);
#define NAME_OF(name) #name
#define NAME(name) NAME_OF(name)
#define INGRESS_OF(name) name##_ingress
#define INGRESS(name) INGRESS_OF(name)
int __attribute__((weak)) INGRESS(OPS)(struct __sk_buff *skb);

/* The kernel keeps these for one callback, and for the socket. */
static struct {
	u8 header[HEADER + OPTIONS];
	u8 *end;       /* of what the program sees of it */
	u32 remaining; /* room for options */
	u32 others;    /* reserved by another program */
	u8 syn[OPTIONS];
	int syn_len;   /* of the SYN that was saved; -1: none */
	u8 packet[2048];
	u32 packet_len;
	u32 cb_flags;
	u32 keeps_syn; /* TCP_SAVE_SYN */
	u32 remote_port;
	u8 other;
	u8 chosen; /* icsk_ca_setsockopt */
	u8 locked; /* the route's controller stays: `congctl lock` */
} skops;

static struct bpf_sock packets_sock; /* what a packet knows of its socket */
static u32 per_cpu; /* what the one entry of a map for each CPU has */
#define bpf_map_lookup_elem(map, key) (*(key) ? NULL : &per_cpu)

static void *storage_of(void *of, void *init, u64 flags)
{
	if ((of != &sock && of != &packets_sock) || init)
		wrong("storage of what is no socket");
	return storage_made(flags);
}

static inline struct tcp_sock *bpf_skc_to_tcp_sock(void *of)
{
	if (of == &packets_sock && packets_sock.protocol != TCP)
		return NULL;
	if (of == &packets_sock && packets_sock.type != STREAM)
		wrong("a raw socket taken for one of TCP");
	if (of != &packets_sock && of != &sock)
		wrong("no socket");
	return &sock.tp;
}

static inline struct bpf_sock *bpf_sk_fullsock(struct bpf_sock *of)
{
	return of;
}

static struct bpf_sock *socket_of_packet(u32 type, u32 protocol)
{
	packets_sock = (struct bpf_sock){ .type = type, .protocol = protocol };
	return &packets_sock;
}

static inline long bpf_sock_ops_cb_flags_set(struct bpf_sock_ops *ops, int flags)
{
	skops.cb_flags = ops->bpf_sock_ops_cb_flags = flags & BPF_SOCK_OPS_ALL_CB_FLAGS;
	return flags & ~BPF_SOCK_OPS_ALL_CB_FLAGS;
}

static inline long bpf_setsockopt(void *ops, int level, int name, void *value, int len)
{
	char *end = extra + strlen(extra);

	if (name == 13 && skops.locked)
		return -NOT_PERMITTED;
	if (name == 13) { /* TCP_CONGESTION: a new controller starts, not the one that is there */
		bool was = skops.other;

		skops.chosen = 1;
		sprintf(end, ",\"controller\":\"%.*s\"", len, (char *)value);
		skops.other = strncmp(value, NAME(OPS), len);
		if (was && !skops.other)
			OPS.init(sk);
	} else {
		sprintf(end, ",\"option\":[%d,%d,%d]", level, name, *(int *)value);
		skops.keeps_syn = *(int *)value;
	}
	return 0;
}

static inline long bpf_getsockopt(void *ops, int level, int name, void *value, int len)
{
	if (ops != NULL && !((struct bpf_sock_ops *)ops)->sk)
		return -INVALID;
	if (name == 27) {
		*(u32 *)value = skops.keeps_syn;
		return 0;
	}
	if (name != 13)
		wrong("no option of the model");
	strncpy(value, skops.other ? "other" : NAME(OPS), len);
	return 0;
}

/* The option of this kind and magic; a negative error otherwise. */
static int search_option(const u8 *at, const u8 *end, const u8 *wanted, int magic, const u8 **found)
{
	while (at < end) {
		if (at[0] == 0)
			return -NO_MESSAGE;
		if (at[0] == 1) {
			at++;
			continue;
		}
		if (end - at < 2 || at[1] < 2 || at[1] > end - at)
			return -FAULTY;
		if (at[0] == wanted[0] && at[1] - 2 >= magic && !memcmp(at + 2, wanted + 2, magic)) {
			*found = at;
			return 0;
		}
		at += at[1];
	}
	return -NO_MESSAGE;
}

static inline long bpf_load_hdr_opt(struct bpf_sock_ops *ops, void *result, u32 len, u64 flags)
{
	u8 *wanted = result;
	const u8 *found = NULL;
	int error;

	if (wanted[1] > len || wanted[0] < 2 || wanted[0] != 253 || (wanted[1] != 4 && wanted[1] != 6))
		return -INVALID;
	if (flags & BPF_LOAD_HDR_OPT_TCP_SYN) {
		if (skops.syn_len < 0)
			return -2;
		error = search_option(skops.syn, skops.syn + skops.syn_len, wanted, wanted[1] - 2, &found);
	} else {
		if (!ops->skb_data || ops->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
			return -NOT_PERMITTED;
		error = search_option(skops.header + HEADER, skops.end, wanted, wanted[1] - 2, &found);
	}
	if (error)
		return error;
	memcpy(result, found, min(found[1], len));
	return found[1] > len ? -FULL : found[1];
}

static inline long bpf_reserve_hdr_opt(struct bpf_sock_ops *ops, u32 len, u64 flags)
{
	if (ops->op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return -NOT_PERMITTED;
	if (len < 2 || flags)
		return -INVALID;
	if (len > skops.remaining)
		return -FULL;
	skops.remaining -= len;
	return 0;
}

static inline long bpf_store_hdr_opt(struct bpf_sock_ops *ops, const void *from, u32 len, u64 flags)
{
	const u8 *option = from, *found;

	if (ops->op != BPF_SOCK_OPS_WRITE_HDR_OPT_CB)
		return -NOT_PERMITTED;
	if (len < 4 || flags || option[1] > len || option[0] != 253)
		return -INVALID;
	if (option[1] > skops.remaining)
		return -FULL;
	if (!search_option(skops.header + HEADER, skops.end, option, 2, &found))
		return -EXISTS;
	memcpy(skops.end, from, option[1]);
	skops.end += option[1];
	skops.remaining -= option[1];
	return 0;
}

static inline long bpf_skb_load_bytes(const struct __sk_buff *skb, u32 offset, void *to, u32 len)
{
	if (offset > skops.packet_len || len > skops.packet_len - offset)
		return -FAULTY;
	memcpy(to, skops.packet + offset, len);
	return 0;
}

/* --- what the kernel does ------------------------------------------------------------------ */

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* Bytes of the command's key; -1 without it. */
static int take_bytes(const char *key, u8 *to, int most)
{
	const char *text = take_text(key);
	int n = 0;

	if (!text)
		return -1;
	for (; text[0] && text[1] && n < most; text += 2)
		to[n++] = digit(text[0]) << 4 | digit(text[1]);
	return n;
}

static void tell(const char *name, const u8 *bytes, int n)
{
	char *end = extra + strlen(extra);

	end += sprintf(end, ",\"%s\":\"", name);
	while (n-- > 0)
		end += sprintf(end, "%02x", *bytes++);
	strcpy(end, "\"");
}

static struct bpf_sock_ops context(u32 op, bool full, bool segment, u32 len, u32 flags)
{
	struct bpf_sock_ops ops = {
		.op = op,
		.is_fullsock = full,
		.bpf_sock_ops_cb_flags = skops.cb_flags,
		.snd_una = tp->snd_una,
		.snd_nxt = tp->snd_nxt,
		.rcv_nxt = tp->rcv_nxt,
		.data_segs_out = tp->data_segs_out,
		.skb_len = len,
		.skb_tcp_flags = flags,
		.remote_port = __builtin_bswap32(skops.remote_port),
	};

	ICSK->icsk_ca_setsockopt = skops.chosen;
	ops.sk = full ? (struct bpf_sock *)&sock : NULL;
	ops.skb_data = segment ? skops.header : NULL;
	ops.skb_data_end = segment ? skops.end : NULL;
	return ops;
}

static int run(struct bpf_sock_ops *ops)
{
	int verdict = SOCKOPS(ops);

	if (verdict != 1)
		wrong("a verdict that is no 1");
	return verdict;
}

/* A TCP header with `options` bytes behind it, filled already. */
static void make_header(u32 seq, u32 ack, u32 flags, u32 options)
{
	u8 *h = skops.header;

	memset(h, 0, HEADER);
	for (int i = 0; i < 4; i++) {
		h[4 + i] = seq >> (24 - 8 * i);
		h[8 + i] = ack >> (24 - 8 * i);
	}
	h[12] = (HEADER + options) / 4 << 4;
	h[13] = flags;
	skops.end = h + HEADER + options;
}

/* tcp_established_options(), __tcp_transmit_skb(): how many bytes; they are at skops.header + HEADER + 40 - room. */
static u32 write_to(u32 seq, u32 len, u32 flags, u32 mode, u32 room, bool full)
{
	struct bpf_sock_ops ops;
	u32 reserved;

	if (!(skops.cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		return 0;
	skops.remaining = room;
	ops = context(BPF_SOCK_OPS_HDR_OPT_LEN_CB, full, false, len, mode == BPF_WRITE_HDR_TCP_CURRENT_MSS ? 0 : flags);
	ops.args[0] = mode;
	run(&ops);
	reserved = (room - skops.remaining + skops.others + 3) & ~3;
	if (mode == BPF_WRITE_HDR_TCP_CURRENT_MSS || !reserved)
		return reserved;
	memset(skops.header + HEADER, 1, OPTIONS);
	make_header(seq, tp->rcv_nxt, flags, OPTIONS - room + reserved);
	skops.end -= reserved;
	skops.remaining = reserved;
	ops = context(BPF_SOCK_OPS_WRITE_HDR_OPT_CB, full, true, HEADER + OPTIONS - room + reserved + len, flags);
	ops.args[0] = mode;
	run(&ops);
	return reserved;
}

/*
 * __tcp_send_ack(): at once, of what is queued by now. An ACK that was due is no more, with whatever
 * was to hasten it. `ack` tells of it: number, verdict, options.
 */
static inline int bpf_tcp_send_ack(void *of, u32 rcv_nxt)
{
	u8 *ip = skops.packet;
	struct __sk_buff skb = { 0 };
	char *end = extra + strlen(extra);
	u32 n;

	if (of != &sock)
		wrong("no socket");
	tp->rcv_wup = tp->rcv_nxt;
	n = write_to(tp->snd_nxt, 0, 16, 0, OPTIONS, true);
	if (rcv_nxt == tp->rcv_nxt)
		ICSK->icsk_ack.pending = 0;
	make_header(tp->snd_nxt, rcv_nxt, 16, n);
	memset(ip, 0, 20);
	ip[0] = 0x45;
	ip[9] = 6;
	memcpy(ip + 20, skops.header, HEADER + n);
	skb.len = skops.packet_len = 20 + HEADER + n;
	skb.sk = socket_of_packet(STREAM, TCP);
	end += sprintf(end, ",\"ack\":[%u,%d,\"", rcv_nxt, EGRESS(&skb));
	for (u32 i = 0; i < n; i++)
		end += sprintf(end, "%02x", skops.header[HEADER + i]);
	strcpy(end, "\"]");
	return 0;
}

/* A data packet leaves. Timestamps take 12 bytes of the 40. */
static void send_options(u32 seq)
{
	const u32 room = OPTIONS - 12;
	char *end;
	u32 n;

	if (!(skops.cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		return;
	n = write_to(seq, k.seg, 16, 0, room, true);
	end = extra + strlen(extra);
	if (!strstr(extra, "segments"))
		end += sprintf(end, ",\"segments\":[");
	else
		end[-1] = ','; /* the bracket that ended the list */
	end += sprintf(end, "[%u,%d,\"", seq, before(seq, tp->snd_nxt));
	for (u32 i = 0; i < n; i++)
		end += sprintf(end, "%02x", skops.header[HEADER + OPTIONS - room + i]);
	strcpy(end, "\"]]");
}

static void write_options(void)
{
	u32 room = take("room", OPTIONS), mode = take("mode", 0), n;
	u32 seq = take("seq", tp->snd_nxt), len = take("len", 0), flags = take("flags", 16);

	skops.syn_len = take_bytes("syn", skops.syn, sizeof(skops.syn));
	skops.others = take("others", 0);
	n = write_to(seq, len, flags, mode, room, take("full", 1));
	skops.others = 0;
	sprintf(extra + strlen(extra), ",\"reserved\":%u", n);
	if (mode != BPF_WRITE_HDR_TCP_CURRENT_MSS)
		tell("options", skops.header + HEADER + OPTIONS - room, n);
}

static u32 take_options(const char *key)
{
	int n = take_bytes(key, skops.header + HEADER, OPTIONS);

	for (n = n < 0 ? 0 : n; n % 4; n++)
		skops.header[HEADER + n] = 0;
	return n;
}

/* bpf_skops_parse_hdr() */
static void read_options(void)
{
	u32 n = take_options("options"), len = take("len", 0), flags = take("flags", 16);
	struct bpf_sock_ops ops;

	make_header(take("seq", tp->rcv_nxt), take("ack", tp->snd_una), flags, n);
	skops.syn_len = -1;
	skops.end -= take("cut", 0);
	if (!n || !(skops.cb_flags & BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG))
		return;
	ops = context(BPF_SOCK_OPS_PARSE_HDR_OPT_CB, true, true, HEADER + n + len, flags);
	run(&ops);
}

static void call_back(u32 op, bool full, u32 options)
{
	struct bpf_sock_ops ops;

	make_header(0, 0, 18, options);
	ops = context(op, full, op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB,
		      0, 18);
	run(&ops);
	if (op == BPF_SOCK_OPS_NEEDS_ECN)
		sprintf(extra + strlen(extra), ",\"reply\":%u", ops.reply);
}

static void call(void)
{
	skops.syn_len = take_bytes("syn", skops.syn, sizeof(skops.syn));
	call_back(take("op", 0), take("full", 1), take_options("options"));
}

static void fresh_wire(void)
{
	memset(&skops, 0, sizeof(skops));
	per_cpu = 0;
}

/* tcp_init_transfer(): before the controller's init. */
static void handshake(void)
{
	int n = take_bytes("synack", skops.header + HEADER, OPTIONS);

	skops.syn_len = take_bytes("syn", skops.syn, sizeof(skops.syn));
	if (n >= 0) {
		call_back(BPF_SOCK_OPS_TCP_CONNECT_CB, true, 0);
		call_back(BPF_SOCK_OPS_TIMEOUT_INIT, true, 0);
		call_back(BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, true, n);
	} else if (skops.syn_len >= 0) {
		call_back(BPF_SOCK_OPS_TCP_LISTEN_CB, true, 0);
		call_back(BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB, true, 0);
	}
	extra[0] = 0;
}

static void pass(int (*program)(struct __sk_buff *skb))
{
	struct __sk_buff skb = { 0 };

	skops.packet_len = take_bytes("packet", skops.packet, sizeof(skops.packet));
	skb.len = skops.packet_len;
	skb.sk = socket_of_packet(take("type", STREAM), take("protocol", TCP));
	if (!take("owned", 1))
		skb.sk = NULL;
	sprintf(extra, ",\"pass\":%d", program ? program(&skb) : 1);
}

static void egress(void)
{
	pass(EGRESS);
}

static void ingress(void)
{
	pass(INGRESS(OPS));
}
