/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's TCP sender: tcp_ack(), tcp_fastretrans_alert(), tcp_enter_loss(), tcp_write_xmit(). Each command but those
 * of wire.h has its function here.
 */
static u32 in_flight(void)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

#include "rates.h"

static void event(enum tcp_ca_event ev)
{
	if (OPS.cwnd_event)
		CALL(cwnd_event, ev, 0, sk, ev);
}

static void stack_sets_cwnd(u32 cwnd)
{
	tp->snd_cwnd = k.stack_cwnd = cwnd;
}

static void set_state(u8 state)
{
	if (OPS.set_state)
		CALL(set_state, state, 0, sk, state);
	k.state = ICSK->icsk_ca_state = state;
}

static bool in_reduction(void)
{
	return k.state == CWR || k.state == RECOVERY;
}

static u32 current_ssthresh(void)
{
	u32 cwnd = tp->snd_cwnd;

	return in_reduction() ? tp->snd_ssthresh : max(tp->snd_ssthresh, (cwnd >> 1) + (cwnd >> 2));
}

static void cwnd_validate(bool limited)
{
	if (!before(tp->snd_una, k.usage_seq) || limited ||
	    (!tp->is_cwnd_limited && tp->packets_out > tp->max_packets_out)) {
		tp->is_cwnd_limited = limited;
		tp->max_packets_out = tp->packets_out;
		k.usage_seq = tp->snd_nxt;
	}
}

/* Window, application and peer allow so many packets: lost ones first. */
static void allowed(u32 data, u32 *fresh, u32 *again)
{
	u32 flight = in_flight(), room = tp->snd_cwnd > flight ? min(tp->snd_cwnd - flight, k.burst) : 0;

	*again = min(room, tp->lost_out - tp->retrans_out);
	*fresh = min(room - *again, data);
}

static void transmit(u32 *fresh, u32 *again)
{
	u32 limit = min(k.app, SND_WND / k.seg);
	u32 data = limit > tp->packets_out ? limit - tp->packets_out : 0;
	bool full;

	if (skops.other)
		return;
	if (data && OPS.min_tso_segs && (u32)(min_tso_segs() - 1) >= TSO_SEGS)
		abort();
	tp->write_seq = tp->snd_nxt + data * k.seg;
	if (k.shut)
		data = 0;
	allowed(data, fresh, again);
	for (u32 i = 0; i < *fresh + *again; i++) {
#ifdef WIRE
		send_options(i < *again ? tp->snd_una + (tp->retrans_out + i) * k.seg
					: tp->snd_nxt + (i - *again) * k.seg);
		if (i >= WRITTEN || (i && !(skops.cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)))
#else
		if (i)
#endif
		{
			tp->data_segs_out += *fresh + *again - i;
			break;
		}
		/*
		 * Not only after idle: every packet that leaves into an empty network. Its options are
		 * written by then, and it does not count yet.
		 */
		if (!i && !in_flight() && k.tx_start) {
			event(CA_EVENT_TX_START);
			allowed(data, fresh, again);
		}
		tp->data_segs_out++;
	}
	tp->retrans_out += *again;
	tp->packets_out += *fresh;
	tp->snd_nxt += *fresh * k.seg;
	rate_sent(*fresh, *again, !k.shut && *fresh == data && in_flight() < tp->snd_cwnd);
	if (in_reduction())
		k.prr_out += *fresh + *again;
	full = in_flight() >= tp->snd_cwnd;
	if (data && (*fresh || full))
		cwnd_validate(full);
}

static void init_reduction(void)
{
	k.high_seq = tp->snd_nxt;
	k.prr_delivered = k.prr_out = 0;
	tp->prior_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = ssthresh();
}

/* Proportional rate reduction, RFC 6937. */
static void prr(u32 delivered, bool advanced)
{
	int delta = (int)(tp->snd_ssthresh - in_flight()), count;

	if (!delivered)
		return;
	k.prr_delivered += delivered;
	if (delta < 0) {
		u64 share = (u64)tp->snd_ssthresh * k.prr_delivered + tp->prior_cwnd - 1;

		count = (int)(share / tp->prior_cwnd) - (int)k.prr_out;
	} else {
		count = (int)(k.prr_delivered - k.prr_out);
		if (count < (int)delivered)
			count = delivered;
		count += advanced;
		if (count > delta)
			count = delta;
	}
	if (count < !k.prr_out)
		count = !k.prr_out;
	stack_sets_cwnd(in_flight() + count);
}

/* tcp_cong_control() */
static void control(u32 delivered, bool advanced)
{
	if (OPS.cong_control)
		CALL(cong_control, delivered, 0, sk); /* in every state: there is no PRR */
	else if (in_reduction())
		prr(delivered, advanced);
	else if (advanced)
		CALL(cong_avoid, delivered, 0, sk, tp->snd_una, delivered);
}

static void end_reduction(void)
{
	if (OPS.cong_control)
		return;
	if (tp->snd_ssthresh < NO_SSTHRESH && (k.state == CWR || k.undo_marker))
		stack_sets_cwnd(tp->snd_ssthresh);
	event(CA_EVENT_COMPLETE_CWR);
}

static void leave_recovery(void)
{
	tp->lost_out = tp->retrans_out = 0; /* all of it lay before high_seq */
	if (k.state == CWR) {
		end_reduction();
		set_state(OPEN);
	} else {
		bool reduced = k.state == RECOVERY;

		set_state(OPEN);
		if (reduced)
			end_reduction();
	}
}

static void average_rtt(long long rtt)
{
	if (rtt > 0)
		tp->srtt_us = tp->srtt_us ? tp->srtt_us - (tp->srtt_us >> 3) + rtt : rtt << 3;
}

static void ack_event(u32 flags)
{
	if (skops.other)
		return;
	if (OPS.in_ack_event)
		CALL(in_ack_event, flags, 0, sk, flags);
}

static void enter_cwr(void)
{
	k.prior_ssthresh = 0;
	if (k.state < CWR) {
		k.undo_marker = 0;
		init_reduction();
		set_state(CWR);
	}
}

static void ack(void)
{
	u32 n = min(take("n", 1), tp->packets_out), lost = min(n, tp->lost_out);
	u32 sacked = min(n - lost, tp->sacked_out);
	u32 free = tp->packets_out - n - (tp->lost_out - lost) - (tp->sacked_out - sacked);
	u32 more = min(take("sack", 0), free), delivered = n - sacked + more;
	u32 repairs_then = rates_of_model.sent_again - tp->retrans_out, repaired = min(lost, tp->retrans_out);
	long long rtt = take("rtt", -1), marks = take("ce", -1);
	struct ack_sample sample = { .pkts_acked = n, .in_flight = take("in_flight", in_flight()) };
	u32 ce, flags = take("ece", 0) ? CA_ACK_SLOWPATH | CA_ACK_ECE : take("slow", 0);

	rate_check_limited(min(k.app, SND_WND / k.seg) <= tp->packets_out);
	if (!tp->packets_out) { /* tcp_ack(): no_queue */
		ack_event(flags);
		return;
	}
	if (repaired && !k.timestamps)
		rtt = -1;
	sample.rtt_us = n || more ? rtt : -1;

	tp->snd_una += n * k.seg;
	tp->delivered += delivered;
	ce = marks >= 0 ? marks : flags & CA_ACK_ECE ? delivered : 0; /* of an ACK that was lost, too */
	rates.delivered_ce += ce;
	rates.delivered_ecn_bytes[k.ect0 ? ECT_0 : ECT_1] += (delivered - min(ce, delivered)) * k.seg;
	tp->packets_out -= n;
	tp->lost_out -= lost;
	tp->retrans_out -= min(lost, tp->retrans_out);
	tp->sacked_out += more - sacked;
	if (n)
		k.retransmits = 0;
	average_rtt(sample.rtt_us);

	ack_event(flags);
	if (OPS.pkts_acked)
		CALL(pkts_acked, n, sample.rtt_us, sk, &sample);
	if (k.state >= CWR && !before(tp->snd_una, k.high_seq) &&
	    (k.state != CWR || tp->snd_una != k.high_seq))
		leave_recovery();
	if (flags & CA_ACK_ECE)
		enter_cwr();
	rate_acked(delivered, more ? tp->snd_una + (tp->lost_out + tp->sacked_out) * k.seg : n > lost + sacked ? tp->snd_una : 0,
		   repaired ? repairs_then + repaired : 0, sample.rtt_us);
	control(delivered, n > 0);
}

static void fast_retransmit(void)
{
	u32 n = take("n", 1), timer = take("timer", 0), sack = take("sack", !timer), ece = take("ece", 0);

	if (tp->packets_out == 0 || k.state == LOSS)
		return;
	rate_check_limited(false);
	n = min(n, tp->packets_out - tp->sacked_out - tp->lost_out);
	tp->lost_out += n;
	rates.lost += n;
	sack = min(sack, tp->packets_out - tp->sacked_out - tp->lost_out);
	tp->sacked_out += sack;
	tp->delivered += sack;
	if (!timer)
		ack_event(ece ? CA_ACK_SLOWPATH | CA_ACK_ECE : CA_ACK_SLOWPATH);
	if (k.state != RECOVERY) {
		k.prior_ssthresh = 0;
		k.undo_marker = 1;
		if (!in_reduction()) {
			if (!ece)
				k.prior_ssthresh = current_ssthresh();
			init_reduction();
		}
		set_state(RECOVERY);
	}
	if (!timer) {
		rate_acked(sack, sack ? tp->snd_una + (tp->lost_out + tp->sacked_out) * k.seg : 0, 0, -1);
		control(sack, false);
	} else if (!OPS.cong_control) {
		prr(1, false);
	}
}

/* The application writes, perhaps after a time without data. */
static void application_writes(void)
{
	if (!tp->packets_out && tp->data_segs_out)
		rate_check_limited(true);
}

static void timeout(void)
{
	if (!tp->packets_out)
		return;
	rates.lost += tp->packets_out - tp->sacked_out - (tp->lost_out - tp->retrans_out);
	tp->lost_out = tp->packets_out - tp->sacked_out;
	tp->retrans_out = 0;
	if (k.state <= DISORDER || !before(tp->snd_una, k.high_seq) ||
	    (k.state == LOSS && !k.retransmits)) {
		k.prior_ssthresh = current_ssthresh();
		tp->prior_cwnd = tp->snd_cwnd;
		tp->snd_ssthresh = ssthresh();
		event(CA_EVENT_LOSS);
		k.undo_marker = 1;
	}
	stack_sets_cwnd(in_flight() + 1);
	set_state(LOSS);
	k.high_seq = tp->snd_nxt; /* snd_nxt itself is not taken back */
	k.retransmits++;
}

static void undo(void)
{
	if (!k.undo_marker)
		return;
	tp->lost_out = tp->retrans_out = 0;
	if (k.prior_ssthresh) {
		stack_sets_cwnd(undo_cwnd());
		tp->snd_ssthresh = max(tp->snd_ssthresh, k.prior_ssthresh);
	}
	k.undo_marker = 0;
	if (k.state != OPEN)
		set_state(OPEN);
}

static void restart(void)
{
	u32 cwnd = take("cwnd", 10);

	if (tp->packets_out || OPS.cong_control)
		return;
	event(CA_EVENT_CWND_RESTART);
	tp->snd_ssthresh = current_ssthresh();
	stack_sets_cwnd(min(tp->snd_cwnd, cwnd));
}

static void fresh_socket(void)
{
	ASAN_UNPOISON_MEMORY_REGION(sk, sizeof(*sk));
	memset(sk, 0, sizeof(*sk));
	ASAN_POISON_MEMORY_REGION(ICSK + 1, ROOM - sizeof(*ICSK)); /* what overruns the private state */
	memset(&k, 0, sizeof(k));
	tp->snd_cwnd = 10;
	tp->snd_ssthresh = NO_SSTHRESH;
	tp->snd_cwnd_clamp = ~0u;
	tp->snd_wnd = SND_WND;
	tp->mss_cache = 960;
	tp->snd_una = tp->snd_nxt = 1;
	tp->tcp_mstamp = 1000000;
	k.seg = 960;
	k.app = ~0u;
	k.tx_start = 1;
	tp->rcv_nxt = tp->rcv_wup = 1;
	tp->rcv_wnd = 1 << 20;
	ICSK->icsk_ack.rcv_mss = 960;
	ca_ops.flags = 0;
	tp->ecn_flags = ACCURATE ? TCP_ECN_MODE_ACCECN : 0;
	ICSK->icsk_ca_ops = &ca_ops;
	k.sack_ok = 1;
	k.burst = ~0u;
#ifdef STORE
	memset(&storage, 0, sizeof(storage));
	memset(&second, 0, sizeof(second));
#endif
#ifdef WIRE
	fresh_wire();
#endif
	fresh_rates();
	set_members();
	stack_sets_cwnd(min(tp->snd_cwnd, tp->snd_cwnd_clamp));
	k.usage_seq = tp->snd_nxt;
	ICSK->icsk_ca_state = k.state;
#ifdef WIRE
	handshake();
	if (skops.other)
		return;
#else
	skops.other = false;
#endif
	if (OPS.init)
		CALL(init, 0, 0, sk);
}
