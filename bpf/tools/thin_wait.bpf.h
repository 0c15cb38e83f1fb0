/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Do the ACKs wait on their way? Then space between them. Part of thin_rules.bpf.h. */
/*
 * How long an ACK took to the sender, by both clocks: a packet left when it came. The peer's timestamps count ms if they told more
 * than half, and less than twice of the time. Who forges them has us drop ACKs of its own data, down to `least_per_rtt`.
 */
static inline void note_way(struct flow *f, u32 tsval, u32 tsecr, u64 now)
{
	u32 way = tsval - tsecr, ticks = tsval - f->ticks;
	u64 ms = (now - f->ticks_ns) / 1000000;
	bool judged = f->ticks_ns && ms >= TICKS_MIN_MS;

	if (!f->ticks_ns) {
		f->ticks_ns = now;
		f->ticks = tsval;
	}
	f->in_ms = waits_only && (!judged || (2ULL * ticks > ms && ticks < 2 * ms));
	if (!f->least_ns || before(way, f->least)) {
		f->least = way;
		f->least_ns = now;
	}
	if (now - f->least_ns > DRIFT_NS) {
		f->least++;
		f->least_ns = now;
	}
	f->heard += tsecr != f->heard_last;
	f->heard_last = tsecr;
	if (!f->timed || before(way, f->least_now))
		f->least_now = way;
	f->timed = judged;
}

/*
 * An RTT is over. ACKs that waited through all of it have a queue, and the uplink takes as many as the sender has heard of. Space
 * between them lets the queue fall; then it is tried whether less does. What a step brings shows when an ACK has
 * been heard of that left after it.
 *
 * A full queue drops ACKs itself, and a sender with a long RTT stands that better than fewer ACKs in a short one. So space begins only
 * if the queue drops none, or makes the RTT several times as long. It does not help if the sender would get less than `least_per_rtt`
 * in the shortest RTT, or if others fill the queue: then all ACKs pass for a while.
 */
static __always_inline void set_space(struct flow *f, u64 shortest_ns, u64 rtt_ns, u64 elapsed, u64 now)
{
	u64 sent_ns = elapsed / max(f->acks, 1), heard_ns = elapsed / max(f->heard, 1),
	    most = shortest_ns / max(least_per_rtt, 1);
	u32 queue_ms = f->least_now - f->least, allowed_ms = max(rtt_ns / 16000000, QUEUE_MS);
	bool known = f->timed && !f->settles && now > f->futile_ns, falls = queue_ms < f->queue_ms;

	f->timed = false;
	f->settles = f->settles && before(f->heard_last, f->changed);
	if (!known)
		return;
	f->queue_ms = queue_ms;
	f->stands = queue_ms > allowed_ms && 7 * heard_ns <= 8 * sent_ns ? min(f->stands + 1, STANDS) : 0;
	f->spaces |= f->stands == STANDS || queue_ms > max(allowed_ms, LONG_QUEUE * shortest_ns / 1000000);
	if (queue_ms <= allowed_ms) {
		f->space_ns -= f->space_ns / PROBE_MS * min(elapsed / 1000000, PROBE_MS / 8);
		if (f->space_ns <= sent_ns)
			f->space_ns = 0;
		f->futile = 0;
	} else if (falls || !f->spaces) {
		return;
	} else if (most > heard_ns + heard_ns / 8) {
		f->space_ns = min(max(f->space_ns, heard_ns) * 3 / 2, most);
	} else if (++f->futile == FUTILE) {
		f->space_ns = 0;
		f->futile = 0;
		f->futile_ns = now + FUTILE_NS;
		f->spaces = false;
	}
	f->settles = true;
	f->changed = f->acks_last;
}

/*
 * New data is acknowledged: how much comes in an RTT? Bytes up to 2^28, the RTT below 2^35 ns: the product fits 2^64. A window falls by
 * half in an RTT. If less comes, the sender waits for its flight to fall so far: then its window comes at once.
 */
static __always_inline void measure(struct flow *f, u32 ack, u32 mss, u64 shortest_ns, u64 rtt_ns, u64 now)
{
	u64 elapsed = now - f->epoch_ns, bytes = min(ack - f->epoch_ack, 1 << 28);

	if (now - f->came_ns > max(rtt_ns, SILENCE_NS)) { /* the sender was idle, or has halved its window */
		f->thin_from = ack + START_BYTES;
		f->rtt_bytes = min(f->rtt_bytes, INITIAL_PACKETS * mss);
		f->settles = true;
		f->changed = f->acks_last;
	} else if (!rtt_ns || elapsed < rtt_ns) {
		return;
	} else {
		bytes = bytes * rtt_ns / elapsed;
		f->doubles = 4 * bytes > 5 * (u64)f->rtt_bytes;
		f->rtt_bytes = max(bytes, f->rtt_bytes / 2);
		set_space(f, shortest_ns, rtt_ns, elapsed, now);
	}
	f->acks = f->heard = 0;
	f->epoch_ns = now;
	f->epoch_ack = ack;
}
