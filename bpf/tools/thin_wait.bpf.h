/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `asymcc thin` without a rate: do the ACKs wait on their way? Then there is space between them. */
#ifndef THIN_WAIT_BPF_H
#define THIN_WAIT_BPF_H

#include "thin_flow.bpf.h"

enum {
	TICKS_MIN_MS = 100, /* the time in which the peer's timestamps show whether they count ms */
	PROBE_MS = 8000,    /* the time in which the space between ACKs would fall to none at its present pace */
	QUEUE_MS = 4,       /* or a sixteenth of the RTT: a shorter queue of ACKs is none */
	LONG_QUEUE = 4,     /* shortest RTTs: a queue that is shorter does less harm than fewer ACKs */
	STANDS = 8,         /* RTTs in a row that a queue drops none */
	FUTILE = 4,         /* times in a row that no space between ACKs would help */
};

#define FUTILE_NS 60000000000ULL
#define DRIFT_NS 8000000000ULL /* the time in which two clocks part by 1 ms (125 ppm) at most */

/*
 * A packet of the sender: how long an ACK took to it, by both clocks. The peer's timestamps count ms if they told more
 * than half, and less than twice of the time. A peer that forges them has us drop ACKs of its own data, down to `least_per_rtt`.
 */
static inline void note_way(struct flow *f, u32 tsval, u32 tsecr, u64 now)
{
	struct way *w = &f->way;
	u32 way = tsval - tsecr, ticks = tsval - f->clock.began;
	u64 ms = (now - f->clock.began_ns) / 1000000;
	bool judged = f->clock.began_ns && ms >= TICKS_MIN_MS;

	if (!f->clock.began_ns) {
		f->clock.began_ns = now;
		f->clock.began = tsval;
	}
	f->clock.in_ms = waits_only && (!judged || (2ULL * ticks > ms && ticks < 2 * ms));
	if (!w->least_ns || before(way, w->least)) {
		w->least = way;
		w->least_ns = now;
	}
	if (now - w->least_ns > DRIFT_NS) {
		w->least++;
		w->least_ns = now;
	}
	f->stamps.heard += tsecr != f->stamps.heard_last;
	f->stamps.heard_last = tsecr;
	if (!w->timed || before(way, w->least_now))
		w->least_now = way;
	w->timed = judged;
}

/*
 * An RTT is over. ACKs that waited through all of it have a queue, and the uplink takes as many as the sender has heard of. Space
 * between them lets the queue fall; then it is tried whether less does. A step shows its effect when an ACK has been heard of that
 * left after it.
 *
 * A full queue drops ACKs itself, and a sender with a long RTT stands that better than fewer ACKs in a short one. So space begins only
 * if the queue drops none, or makes the RTT several times as long. It does not help if the sender would get less than `least_per_rtt`
 * in the shortest RTT, or if others fill the queue: then all ACKs pass for a while.
 */
static __always_inline void set_space(struct flow *f, u64 shortest_ns, u64 rtt_ns, u64 elapsed, u64 now)
{
	struct pace *p = &f->pace;
	u64 sent_ns = elapsed / max(f->stamps.sent, 1), heard_ns = elapsed / max(f->stamps.heard, 1),
	    most = shortest_ns / max(least_per_rtt, 1);
	u32 queue_ms = f->way.least_now - f->way.least, allowed_ms = max(rtt_ns / 16000000, QUEUE_MS);
	bool known = f->way.timed && !p->settles && now > p->futile_ns, falls = queue_ms < p->queue_ms;

	f->way.timed = false;
	p->settles = p->settles && before(f->stamps.heard_last, p->changed);
	if (!known)
		return;
	p->queue_ms = queue_ms;
	p->stands = queue_ms > allowed_ms && 7 * heard_ns <= 8 * sent_ns ? min(p->stands + 1, STANDS) : 0;
	p->helps |= p->stands == STANDS || queue_ms > max(allowed_ms, LONG_QUEUE * shortest_ns / 1000000);
	if (queue_ms <= allowed_ms) {
		p->space_ns -= p->space_ns / PROBE_MS * min(elapsed / 1000000, PROBE_MS / 8);
		if (p->space_ns <= sent_ns)
			p->space_ns = 0;
		p->futile = 0;
	} else if (falls || !p->helps) {
		return;
	} else if (most > heard_ns + heard_ns / 8) {
		p->space_ns = min(max(p->space_ns, heard_ns) * 3 / 2, most);
	} else if (++p->futile == FUTILE) {
		p->space_ns = 0;
		p->futile = 0;
		p->futile_ns = now + FUTILE_NS;
		p->helps = false;
	}
	p->settles = true;
	p->changed = f->stamps.sent_last;
}

/*
 * New data is acknowledged: how much comes in an RTT? Bytes up to 2^28, the RTT below 2^35 ns: the product fits 2^64. A window falls by
 * half in an RTT. If less comes, the sender waits for its flight to fall so far: then its window comes at once.
 */
static __always_inline void
measure(struct flow *f, u32 ack, u32 mss, u64 shortest_ns, u64 rtt_ns, u64 since_ns, u64 now)
{
	struct round *d = &f->round;
	u64 elapsed = now - d->began_ns, bytes = min(ack - d->ack, 1 << 28);

	if (since_ns > max(rtt_ns, SILENCE_NS)) { /* the sender was idle, or has halved its window */
		f->thin_from = ack + START_BYTES;
		d->bytes = min(d->bytes, INITIAL_PACKETS * mss);
		f->pace.settles = true;
		f->pace.changed = f->stamps.sent_last;
	} else if (!rtt_ns || elapsed < rtt_ns) {
		return;
	} else {
		bytes = bytes * rtt_ns / elapsed;
		d->doubles = 4 * bytes > 5 * (u64)d->bytes;
		d->bytes = max(bytes, d->bytes / 2);
		set_space(f, shortest_ns, rtt_ns, elapsed, now);
	}
	f->stamps.sent = f->stamps.heard = 0;
	d->began_ns = now;
	d->ack = ack;
}

#endif
