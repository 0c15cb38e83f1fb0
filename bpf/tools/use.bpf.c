// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc use NAME --cgroup PATH`: every connection that the cgroup opens or accepts takes the controller; with --share a
 * part of them, chosen by a hash of the socket's number. Then it also counts how both groups fared, and may stop itself.
 */
#include "kernel.bpf.h"
#include "share.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NAME_LEN 16 /* CC_NAME_LEN of view/text.h */
#define IPPROTO_TCP 6
#define TCP_CONGESTION 13

/* written by the loader */
const volatile char asymcc_used[NAME_LEN] = "";
const volatile char asymcc_before[NAME_LEN] = ""; /* `try`: what gives way to it, which its end brings back */
const volatile u32 share = SHARE_FULL;
const volatile u32 seed = 0;
const volatile u32 worse = 0;      /* stop if goodput is less by more than this, log2 in units of 2^-16; 0: never */
const volatile u32 least = 0;      /* connections of each group that it takes; 2 or more */

struct shares shares;

#define MANY (1ULL << 28)          /* connections: more of a group are not judged, see is_worse() */
#define SEGMENTS (1u << 20)

struct begun {
	u64 ns, jiffies;
	u32 group;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct begun);
} begun SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* How long it had data to send: jiffies of each kind that are over, and since when the one is that runs. */
struct tcp_sock___busy {
	u32 chrono_start;
	u32 chrono_stat[3];
	u8 chrono_type:2; /* 0: none runs */
};

#pragma clang attribute pop

static __always_inline void choose(struct bpf_sock_ops *ops)
{
	char name[NAME_LEN];

	for (int i = 0; i < NAME_LEN; i++)
		name[i] = asymcc_used[i];
	/* one that is unloaded: the connection keeps what it has */
	bpf_setsockopt(ops, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name));
}

/* The same at each call of one socket. The mixing is that of splitmix64. */
static __always_inline bool is_chosen(struct bpf_sock_ops *ops)
{
	u64 x = bpf_get_socket_cookie(ops) + ((u64)seed << 32);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return (x ^ x >> 31) % SHARE_FULL < share;
}

static __always_inline void begin(struct bpf_sock_ops *ops, u32 group)
{
	struct bpf_sock *sk = ops->sk;
	struct begun *b = sk ? bpf_sk_storage_get(&begun, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE) : NULL;

	if (!b)
		return;
	b->ns = bpf_ktime_get_ns();
	b->jiffies = bpf_jiffies64();
	b->group = group;
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* log2 in units of 1/256, rounded down; x > 0. A function of its own: the verifier looks at it once. */
__noinline u32 log2_of(u64 x)
{
	u32 whole = 0, part = 0;

	for (int i = 32; i; i >>= 1) {
		if (x >> (whole + i)) /* whole + i <= 63 */
			whole += i;
	}
	x = whole > 31 ? x >> (whole - 31) : x << (31 - whole); /* 2^31 <= x < 2^32: a fraction from 1 to 2 */
	for (int i = 0; i < 8; i++) {
		x = x * x >> 31; /* < 2^33 */
		part = part << 1 | (x >> 32);
		x >>= x >> 32;
	}
	return whole << 8 | part;
}

/* Jiffies in which it had data to send. */
static __always_inline u32 busy_of(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock___busy *tp = sk ? (void *)bpf_skc_to_tcp_sock(sk) : NULL;
	u32 busy;

	if (!tp)
		return 0;
	busy = tp->chrono_stat[0] + tp->chrono_stat[1] + tp->chrono_stat[2];
	if (BPF_CORE_READ_BITFIELD(tp, chrono_type))
		busy += (u32)bpf_jiffies64() - tp->chrono_start;
	return busy;
}

/* Means in units of 2^-16 octaves, at most 2^22, from sums of at most 2^42. */
static __always_inline u64 mean_of(u64 sum, u64 n)
{
	return (sum << 8) / n;
}

/* The square of the mean's standard error, in units of 2^-32: the variance is at most 2^28. */
static __always_inline u64 error_of(u64 squares, u64 mean, u64 n)
{
	u64 square = squares / n, of_mean = mean * mean >> 16;

	return square > of_mean ? ((square - of_mean) << 16) / n : 0;
}

/*
 * Does the 95 % interval of the difference lie wholly beyond the bound? The difference less the bound is at most 2^22, its
 * square 2^44; 62941 / 16384 is the square of 1.96. Each term stays below 2^61.
 */
__noinline int is_worse(void)
{
	const struct share_group *group = &shares.group[1], *rest = &shares.group[0];
	u64 n = group->goodputs, m = rest->goodputs, mean, other, beyond;

	if (n < 2 || m < 2 || n < least || m < least || n > MANY || m > MANY)
		return false;
	mean = mean_of(group->goodput, n);
	other = mean_of(rest->goodput, m);
	if (other <= mean + worse)
		return false;
	beyond = other - mean - worse;
	return beyond * beyond * 16384 >
	       62941 * (error_of(group->goodput_square, mean, n) + error_of(rest->goodput_square, other, m));
}

#define ADD(member, value) __sync_fetch_and_add(&g->member, value)

static __always_inline void count_segments(struct share_group *g, u64 segments, u64 resent)
{
	for (int i = 0; i < 12 && segments > SEGMENTS; i++) { /* of u32: with the same weight for both */
		segments >>= 1;
		resent >>= 1;
	}
	ADD(segments, segments);
	ADD(resent, resent);
	ADD(segments_square, segments * segments);
	ADD(resent_square, resent * resent);
	ADD(product, segments * resent);
}

static __always_inline void count_goodput(struct share_group *g, const struct begun *b, u64 bytes, u32 busy)
{
	u64 ns = bpf_ktime_get_ns() - b->ns, jiffies = bpf_jiffies64() - b->jiffies;
	s64 rate;

	if (!bytes || !busy || !ns)
		return;
	/* how long a jiffy is only the kernel's configuration tells; both clocks ran as long */
	rate = (s64)(SHARE_OCTAVES << 8) + log2_of(bytes) - log2_of(busy) - log2_of(ns) +
	       log2_of(jiffies ? jiffies : 1);
	if (rate < 0)
		rate = 0;
	ADD(goodput, rate);
	ADD(goodput_square, rate * rate);
	ADD(goodputs, 1);
}

static __always_inline void end(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct begun *b = sk ? bpf_sk_storage_get(&begun, sk, NULL, 0) : NULL;
	struct share_group *g;
	u32 rtt = ops->srtt_us >> 3;

	if (!b)
		return;
	g = &shares.group[b->group & 1];
	if (!shares.stopped && ops->data_segs_out) {
		ADD(connections, 1);
		count_goodput(g, b, ops->bytes_acked, busy_of(ops));
		count_segments(g, ops->data_segs_out, ops->total_retrans);
		if (rtt) {
			u64 log = log2_of(rtt);

			ADD(rtts, 1);
			ADD(rtt, log);
			ADD(rtt_square, log * log);
		}
		if (worse && is_worse())
			shares.stopped = bpf_ktime_get_boot_ns();
	}
	bpf_sk_storage_delete(&begun, sk);
}

SEC("sockops")
int asymcc_use(struct bpf_sock_ops *ops)
{
	bool established =
		ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
	bool chosen;

	if (share < SHARE_FULL && ops->op == BPF_SOCK_OPS_STATE_CB && ops->args[1] == BPF_TCP_CLOSE)
		end(ops);
	/* before the SYN, which may carry a controller's option; then against what a route says, before the controller starts */
	if (ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB && !established)
		return 1;
	chosen = share == SHARE_FULL || (!shares.stopped && is_chosen(ops));
	if (chosen)
		choose(ops);
	if (share < SHARE_FULL && established && !shares.stopped)
		begin(ops, chosen);
	return 1;
}
