/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ACK filter of a controller with a receiver half. The kernel sends its ACKs as ever, and a cgroup_skb/egress program drops the
 * pure ones that tell nothing which the sender has to know now. The controller decides which these are. `asymcc thin`, which serves
 * senders of any kind, has rules of its own: tools/thin_rules.bpf.h.
 *
 * A controller includes this below its struct_ops hooks, for it defines the program. It has
 *     PROGRAM          the program's name
 *     must_pass()      why must this ACK pass?
 *     ON_PASS(w)       what an ACK that passes does to struct wire; a macro, so that its counters keep their order
 *     COUNTER(acks_sent), COUNTER(acks_suppressed)
 * and in struct wire
 *     bool thin        its controller runs, and has the kernel ACK at once where that is due: other ACKs can be spared
 *     bool optioned    a data option came since the kernel's last ACK
 *     u32 last_ack     the kernel's last ACK, passed or not: its number ...
 *     u32 last_right   ... and the right edge of its window
 *     u32 passed_right of the last that passed
 *     u64 passed_ns    and when it did
 */
#ifndef ACK_FILTER_BPF_H
#define ACK_FILTER_BPF_H

#include "wire.bpf.h"

SEC("cgroup_skb/egress")
int PROGRAM(struct __sk_buff *skb)
{
	struct tcp_header h;
	struct tcp_sock *tp;
	struct wire *w;
	u32 at, ack, right;
	bool pass;
	u64 now;

	at = pure_ack(skb, &h);
	tp = at ? tcp_sock_of(skb->sk) : NULL;
	w = tp ? bpf_sk_storage_get(&wires, tp, NULL, 0) : NULL;
	if (!w || !w->thin)
		return 1;
	now = bpf_ktime_get_ns();
	ack = bpf_ntohl(h.ack);
	right = tp->rcv_wup + tp->rcv_wnd;
	pass = must_pass(w, tp, ack, right, now) || h.flags & ECE || reports_duplicate(skb, &h, at, ack) ||
	       before(bpf_ntohl(h.seq), tp->snd_una); /* keepalive, window probe */
	w->last_ack = ack;
	w->last_right = right;
	w->optioned = false;
	if (!pass) {
		COUNT(acks_suppressed);
		return 0;
	}
	COUNT(acks_sent);
	ON_PASS(w);
	w->passed_right = right;
	w->passed_ns = now;
	return 1;
}

#endif
