/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For a controller that has TCP options of its own: their format, and the part of its sockops program that every such controller has.
 * The ends say hello in the handshake. Then data segments, ACKs or both carry options.
 *
 * A controller includes this below its declarations. It has
 *     asymcc_name, COUNTER(peers)
 *     HELLO_EXID            of its hello
 *     struct wire           one per socket, in which its programs meet; `bool peer`: the other end said hello
 *     greets()              does a connection that is opened here say hello?
 *     reserve(), write()    room in a segment that leaves, and the options in it; reserved_hello() and wrote_hello() come first
 *     parse()               a segment has come; acceptable() comes first
 * and in its sockops program a switch over ops->op with WIRE_CASES. The filter of the kernel's ACKs is ack_filter.bpf.h.
 */
#ifndef WIRE_BPF_H
#define WIRE_BPF_H

#include "packet.bpf.h"

enum {
	WRITE = BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG,
	PARSE = BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG,
	TCP_CONGESTION_ = 13,
	TCP_SAVE_SYN_ = 27,
	ENOSPC = 28,
};

#define OPTION_KIND 253 /* experimental options (RFC 6994): a 16-bit ExID follows the length */

/* In SYN and SYN-ACK. Every other option of ours begins with the same members. */
struct hello_option {
	u8 kind, len;
	__be16 exid;
};

#define HELLO { OPTION_KIND, sizeof(struct hello_option), HELLO_EXID }

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wire);
} wires SEC(".maps");

/* --- the socket ----------------------------------------------------------------------------- */

static inline struct wire *wire_of(struct bpf_sock_ops *ops, u64 flags)
{
	struct bpf_sock *sk = ops->sk;

	return sk ? bpf_sk_storage_get(&wires, sk, NULL, flags) : NULL;
}

static inline struct tcp_sock *tcp_of(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	return sk ? bpf_skc_to_tcp_sock(sk) : NULL;
}

/* The flags are the socket's, and other programs of the cgroup may need them: what is set stays. */
static inline void callbacks(struct bpf_sock_ops *ops, u32 flags)
{
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | flags);
}

/* Is ours the controller of this socket? */
static inline bool is_ours(struct bpf_sock_ops *ops)
{
	char name[16] = "";

	if (bpf_getsockopt(ops, IPPROTO_TCP_, TCP_CONGESTION_, name, sizeof(name)))
		return false;
	for (int i = 0; i < 16 && name[i] == asymcc_name[i]; i++)
		if (!name[i])
			return true;
	return false;
}

/* Did somebody choose the socket's controller: the application, or `asymcc use --cgroup`? Else it is a route's, or the default. */
static inline bool is_chosen(const struct inet_connection_sock *icsk)
{
	return read_bits(icsk, icsk_ca_setsockopt);
}

/* May this socket's controller become ours? It may be so already; another one that was chosen for the socket stays. */
static inline bool may_receive(struct bpf_sock_ops *ops)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tcp_of(ops);

	return icsk && (!is_chosen(icsk) || is_ours(ops));
}

/* Only a controller can have the kernel ACK at once. False where ours cannot be this socket's. */
static inline bool take_socket(struct bpf_sock_ops *ops)
{
	return may_receive(ops) &&
	       !bpf_setsockopt(ops, IPPROTO_TCP_, TCP_CONGESTION_, (void *)asymcc_name, sizeof(asymcc_name));
}

/* --- the header at hand ----------------------------------------------------------------------- */

/* Fill an option of ours from the header at hand, or from the SYN: its length, below 0 if absent. */
static inline int find_option(struct bpf_sock_ops *ops, void *option, u32 size, __be16 exid, u64 flags)
{
	struct hello_option *o = option;

	o->kind = OPTION_KIND;
	o->len = sizeof(*o); /* of what is compared: kind and ExID */
	o->exid = exid;
	return bpf_load_hdr_opt(ops, option, size, flags);
}

/* Does no full segment follow the one that ends here, for want of data or of the peer's window? */
static __always_inline bool is_last(const struct tcp_sock *tp, u32 end)
{
	return (s32)(tp->write_seq - end) < (s32)tp->mss_cache ||
	       (s32)(tp->snd_una + tp->snd_wnd - end) < (s32)tp->mss_cache;
}

/* Has find_option() found one of ours, but of a wrong length? */
static __always_inline bool is_bad(int len)
{
	return len == -ENOSPC || len >= 0;
}

static inline bool says_hello(struct bpf_sock_ops *ops, u64 flags)
{
	struct hello_option o;

	return find_option(ops, &o, sizeof(o), HELLO_EXID, flags) == sizeof(o);
}

/* The header at hand, and how much payload follows it. False: none there. */
static inline bool header(struct bpf_sock_ops *ops, struct tcp_header *h, u32 *payload)
{
	void *data = ops->skb_data;
	u32 len;

	if (data + sizeof(*h) > ops->skb_data_end)
		return false;
	__builtin_memcpy(h, data, sizeof(*h));
	len = (h->offset >> 4) * 4;
	*payload = ops->skb_len > len ? ops->skb_len - len : 0;
	return true;
}

/*
 * Nothing is done by a segment that the kernel does not accept. Its place and timestamp are checked before we are called, its
 * ACK is not: one beyond what was sent is a lie. An old one, which the kernel may accept, needs no knowledge to be guessed.
 */
static inline bool acceptable(const struct bpf_sock_ops *ops, const struct tcp_header *h)
{
	u32 ack = bpf_ntohl(h->ack);

	return h->flags & ACK && !before(ack, ops->snd_una) && !before(ops->snd_nxt, ack);
}

/* --- the handshake ------------------------------------------------------------------------------ */

/* A controller's: does a connection that is opened here say hello? */
static inline bool greets(struct bpf_sock_ops *ops);

/* The kernel keeps SYNs, which show whose SYN said hello. The application may keep more of them. */
static inline void listens(struct bpf_sock_ops *ops)
{
	int keep = 0, one = 1;

	if (!may_receive(ops))
		return;
	if (!bpf_getsockopt(ops, IPPROTO_TCP_, TCP_SAVE_SYN_, &keep, sizeof(keep)) && !keep)
		bpf_setsockopt(ops, IPPROTO_TCP_, TCP_SAVE_SYN_, &one, sizeof(one));
	callbacks(ops, WRITE);
}

PARAM(u32, hello_syns, 2, 1, 255, "SYNs",
      "so many SYNs of a connection say hello, the rest not: a middlebox may drop a SYN for its option");

/*
 * Is a hello to be written? Not in a SYN that is sent once too often (hello_syns). A SYN-ACK answers a hello, but not
 * one of which a SYN cookie keeps no record.
 */
static inline bool hello_due(struct bpf_sock_ops *ops)
{
	struct tcp_sock *tp;

	if (ops->skb_tcp_flags & ACK)
		return ops->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE && says_hello(ops, BPF_LOAD_HDR_OPT_TCP_SYN);
	tp = tcp_of(ops);
	return tp && ((struct inet_connection_sock *)tp)->icsk_retransmits < hello_syns && greets(ops);
}

/* Both ends have said hello: from now on segments carry options. */
static inline void speak(struct bpf_sock_ops *ops)
{
	struct wire *w = wire_of(ops, BPF_SK_STORAGE_GET_F_CREATE);

	if (!w)
		return;
	w->peer = true;
	COUNT(peers);
	callbacks(ops, WRITE | PARSE);
}

/* Is a SYN to be written? Then room for the hello it says is reserved. */
static __always_inline bool reserved_hello(struct bpf_sock_ops *ops)
{
	if (ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || !(ops->skb_tcp_flags & SYN))
		return false;
	if (hello_due(ops))
		bpf_reserve_hdr_opt(ops, sizeof(struct hello_option), 0);
	return true;
}

/* Is a SYN written? Then so is the hello it says. */
static __always_inline bool wrote_hello(struct bpf_sock_ops *ops, const struct hello_option *hello)
{
	if (!(ops->skb_tcp_flags & SYN))
		return false;
	if (hello_due(ops)) /* the room may be another program's */
		bpf_store_hdr_opt(ops, hello, sizeof(*hello), 0);
	return true;
}

/* established: what follows where both ends have said hello; speak(), or a function that may call it. */
#define WIRE_CASES(ops, greets, established) \
	case BPF_SOCK_OPS_TCP_LISTEN_CB: \
		listens(ops); \
		break; \
	case BPF_SOCK_OPS_TCP_CONNECT_CB: \
		if (ops->sk) /* a socket that is connected anew */ \
			bpf_sk_storage_delete(&wires, ops->sk); \
		break; \
	case BPF_SOCK_OPS_TIMEOUT_INIT: /* of a SYN that will leave: a route, too, has given its controller by now */ \
		if (greets(ops)) \
			callbacks(ops, WRITE); \
		break; \
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: \
		if (greets(ops) && says_hello(ops, 0)) \
			established(ops); \
		break; \
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB: \
		if (may_receive(ops) && says_hello(ops, BPF_LOAD_HDR_OPT_TCP_SYN)) \
			established(ops); \
		break; \
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB: \
		reserve(ops); \
		break; \
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB: \
		write(ops); \
		break; \
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB: \
		parse(ops); \
		break;

#endif
