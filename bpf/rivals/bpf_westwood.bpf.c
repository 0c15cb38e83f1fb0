// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Westwood+ as Linux has it, for kernels without the module tcp_westwood: the same window after each ACK.
 *
 *   [W] L. Grieco, S. Mascolo, "Performance Evaluation and Comparison of Westwood+, New Reno,
 *       and Vegas TCP Congestion Control", ACM CCR 34(2), 2004.
 *
 * Reno, but for what it falls back to: not to half, but to what the path carried. Once in an RTT,
 * or 50 ms if that is longer, with B bytes acknowledged in time D:
 *     b  = (7 b + B / D) / 8,     BWE = (7 BWE + b) / 8;     at first b = BWE = B / D         (1)
 * At the end of a recovery, and after an RTO (from which cwnd is 1):
 *     ssthresh = BWE RTTmin / MSS, at least 2;               cwnd = ssthresh                  (2)
 * While a recovery lasts its window is Reno's half; (2) may then raise it above what it was before.
 *
 * A duplicate ACK counts as one packet in B; the ACK that later covers such packets counts for what is
 * left of it, or for one packet. RTTmin is the smallest RTT since the last RTO.
 *
 * The module counts time in the kernel's ticks, rounded up to whole ones in an RTT: with 250 a
 * second an RTT of 41 ms is 44. So do we, or the windows would differ. RTTs are kept in us here: to
 * round the smallest up is to take the smallest of those rounded up. Not the module's: (2) obeys the clamp.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"
#include <rivals/reno.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

PARAM(u32, at_once, 0, 0, 1, "-", "1: (2) when a loss is found, as [W] has it; 0: at the end of a recovery, as Linux");

COUNTER(flows, "connections started");
COUNTER(samples, "bandwidth samples of (1)");
COUNTER(duplicates, "ACKs that moved nothing and count as one packet");
COUNTER(recoveries, "recoveries that ended with (2)");
COUNTER(timeouts, "retransmission timeouts");

#define SLOW_PATH 1u             /* CA_ACK_SLOWPATH: the ACK was not the one that header prediction expects */
#define FIRST_RTT_US 20000000    /* until the first sample */
#define SAMPLES_A_SECOND 20      /* at most */

/* One connection. Times in ticks, but for those of s in us. All of it wraps as the module's u32 do. */
struct bpf_westwood {
	struct sender s;   /* of it only rtt_last and rtt_min */
	u32 filtered;      /* b of (1), bytes a tick */
	u32 estimate;      /* BWE */
	u32 sample_start;
	u32 sample_bytes;  /* B so far */
	u32 snd_una;       /* up to where B counts */
	u32 counted;       /* bytes counted for duplicate ACKs that no ACK has covered yet */
	bool started;      /* an ACK came: snd_una is one's own */
	bool forget_min;   /* an RTO came: RTTmin begins anew with the next ACK */
};
STATE(struct bpf_westwood);

static inline u32 ticks(const struct sock *sk, u32 us)
{
	/* 2^32 * 2^10 */
	return ((u64)us * ticks_a_second(sk) + 999999) / 1000000;
}

static inline u32 smoothed(u32 average, u32 sample)
{
	return (7 * average + sample) >> 3;
}

/* (1), when it is time. */
static inline void sample_bandwidth(struct sock *sk, struct bpf_westwood *w)
{
	u32 now = ticks_now(), took = now - w->sample_start;
	u32 rate;

	if (!w->started)
		w->snd_una = tcp_sk(sk)->snd_una;
	w->started = true;
	/* The RTT last: it costs a division. */
	if (took <= ticks_a_second(sk) / SAMPLES_A_SECOND || took <= ticks(sk, w->s.rtt_last))
		return;
	COUNT(samples);
	rate = w->sample_bytes / max(took, 1);
	if (w->filtered || w->estimate) {
		w->filtered = smoothed(w->filtered, rate);
		w->estimate = smoothed(w->estimate, w->filtered);
	} else {
		w->filtered = w->estimate = rate;
	}
	w->sample_bytes = 0;
	w->sample_start = now;
}

/* The bytes that an ACK of the slow path adds to B. */
static inline u32 bytes_of(struct bpf_westwood *w, u32 moved, u32 mss)
{
	u32 left;

	if (!moved) {
		COUNT(duplicates);
		w->counted += mss;
		return mss;
	}
	if (moved <= mss)
		return moved;
	if (w->counted >= moved) {
		w->counted -= moved;
		return mss;
	}
	left = moved - w->counted;
	w->counted = 0;
	return left;
}

/* (2), packets. */
static inline u32 fitting_window(struct sock *sk, const struct bpf_westwood *w)
{
	return max(w->estimate * ticks(sk, w->s.rtt_min) / (u32)max(tcp_sk(sk)->mss_cache, 1), 2);
}

SEC("struct_ops/bpf_westwood_init")
void BPF_PROG(bpf_westwood_init, struct sock *sk)
{
	struct bpf_westwood *w = inet_csk_ca(sk);

	__builtin_memset(w, 0, sizeof(*w));
	w->s.rtt_last = w->s.rtt_min = FIRST_RTT_US;
	w->forget_min = true;
	w->sample_start = ticks_now();
	w->snd_una = tcp_sk(sk)->snd_una;
	COUNT(flows);
}

SEC("struct_ops/bpf_westwood_pkts_acked")
void BPF_PROG(bpf_westwood_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_westwood *w = inet_csk_ca(sk);

	if (sample->rtt_us > 0)
		w->s.rtt_last = sample->rtt_us;
}

SEC("struct_ops/bpf_westwood_in_ack_event")
void BPF_PROG(bpf_westwood_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_westwood *w = inet_csk_ca(sk);
	u32 moved;

	sample_bandwidth(sk, w);
	moved = tp->snd_una - w->snd_una;
	w->snd_una = tp->snd_una;
	w->sample_bytes += flags & SLOW_PATH ? bytes_of(w, moved, tp->mss_cache) : moved;
	if (w->forget_min || w->s.rtt_last < w->s.rtt_min)
		w->s.rtt_min = w->s.rtt_last;
	w->forget_min = false;
}

SEC("struct_ops/bpf_westwood_cwnd_event")
void BPF_PROG(bpf_westwood_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_westwood *w = inet_csk_ca(sk);

	if (ev == CA_EVENT_COMPLETE_CWR && !at_once) {
		COUNT(recoveries);
		tp->snd_ssthresh = fitting_window(sk, w);
		tp->snd_cwnd = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	} else if (ev == CA_EVENT_LOSS) {
		COUNT(timeouts);
		tp->snd_ssthresh = fitting_window(sk, w);
		w->forget_min = true;
	}
}

SEC("struct_ops/bpf_westwood_cong_avoid")
void BPF_PROG(bpf_westwood_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/bpf_westwood_ssthresh")
u32 BPF_PROG(bpf_westwood_ssthresh, struct sock *sk)
{
	return at_once ? fitting_window(sk, inet_csk_ca(sk)) : tcp_reno_ssthresh(sk);
}

SEC("struct_ops/bpf_westwood_undo_cwnd")
u32 BPF_PROG(bpf_westwood_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_westwood = {
	.init = (void *)bpf_westwood_init,
	.pkts_acked = (void *)bpf_westwood_pkts_acked,
	.in_ack_event = (void *)bpf_westwood_in_ack_event,
	.cwnd_event = (void *)bpf_westwood_cwnd_event,
	.cong_avoid = (void *)bpf_westwood_cong_avoid,
	.ssthresh = (void *)bpf_westwood_ssthresh,
	.undo_cwnd = (void *)bpf_westwood_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_westwood",
};
