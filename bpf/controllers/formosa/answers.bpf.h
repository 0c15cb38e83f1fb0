/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many answers a round asks for. [P] has one, which is all that a sender hears of its round: if that ACK is lost, it waits for the
 * stack's probe, four round trips. So where ACKs are lost, more packets of a round ask (T), the same number of packets apart.
 */
#ifndef FORMOSA_ANSWERS_BPF_H
#define FORMOSA_ANSWERS_BPF_H

#include "options.bpf.h"

#define CALM_ROUNDS 32 /* so many rounds in a row whose first answer came halve the number */

static inline void halve_answers(struct wire *w)
{
	w->answers = max(w->answers >> 1, 1);
	w->calm = 0;
}

/*
 * At the end of a round without gaps. An ACK that covers more than the flagged packet is not the first that was sent. If
 * the ACKs queue on their way, more of them are no help: others' may be what makes them late, and are lost instead.
 * With fit_rtt it is another's data that makes them late, and W is as large as the wait is long. One answer has up to 2 W in flight,
 * more than the peer's window; so many as there may be have little more than W.
 */
static inline void count_answers(struct wire *w, const struct tcp_sock *tp)
{
	if (w->acks_queue && fit_rtt) {
		w->answers = answers_max;
	} else if (w->acks_queue) {
		halve_answers(w);
	} else if (w->flag_is_new && before(w->flag_end, tp->snd_una)) {
		w->answers = min(w->answers << 1, answers_max);
		w->calm = 0;
	} else if (++w->calm >= CALM_ROUNDS) {
		halve_answers(w);
	}
}

/* Do these packets, before which `sent` of their round have left, ask? Every W/m-th packet of the round does. */
static inline bool asks(const struct wire *w, u32 sent, u32 packets)
{
	u64 m = w->answers; /* 2^4 * 2^32 */

	return sent && m > 1 && mul_div(sent - 1 + (u64)packets, m, w->budget) > mul_div(sent - 1, m, w->budget);
}

#define DEAF 4 /* so many rounds without an answer option, or timeouts without one to a new round, make a fallback */

static inline void fall_back(struct wire *w)
{
	w->silent = true;
	COUNT(fallbacks);
}

/*
 * Each timeout begins a round, and its repair says so. A receiver that answers, but to no new round, does not see
 * what we ask: something on the path changes our options.
 */
static inline void heard_at_timeout(struct wire *w)
{
	if (!w->answered)
		return;
	w->deaf_timeouts = w->echo == w->echo_then ? w->deaf_timeouts + 1 : 0;
	w->answered = false;
	w->echo_then = w->echo;
	if (w->deaf_timeouts >= DEAF)
		fall_back(w);
}

#endif
