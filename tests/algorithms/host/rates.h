/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's delivery rates, net/ipv4/tcp_rate.c. Packets that leave with one command are one departure.
 */
enum { DEPARTURES = 1024 };

static struct departure {
	u64 sent, first_sent, delivered_at; /* us */
	u32 end;                            /* sequence number behind the last packet; of repairs their count so far */
	u32 delivered;
	bool app_limited;
} departures[DEPARTURES], repairs[DEPARTURES];

static struct {
	u64 first_sent, delivered_at; /* tcp_sock.first_tx_mstamp, .delivered_mstamp */
	u32 n, n_repairs;             /* departures so far */
	u32 sent_again;               /* packets so far */
	u32 prior_in_flight;          /* before this ACK */
	u32 min_rtt;                  /* us; 0: none yet */
} rates_of_model;

static struct departure departure(u32 end)
{
	return (struct departure){ tp->tcp_mstamp, rates_of_model.first_sent, rates_of_model.delivered_at,
				   end, tp->delivered, rates.app_limited };
}

/* tcp_rate_check_app_limited(): an ACK comes, or the application writes, when all is sent and the window has room. */
static void rate_check_limited(bool all_sent)
{
	rates_of_model.prior_in_flight = in_flight();
	if (all_sent && in_flight() < tp->snd_cwnd && tp->lost_out <= tp->retrans_out)
		rates.app_limited = max(tp->delivered + in_flight(), 1);
}

/* tcp_rate_skb_sent() */
static void rate_sent(u32 fresh, u32 sent_again, bool starved)
{
	if (!(fresh + sent_again))
		return;
	if (tp->packets_out == fresh)
		rates_of_model.first_sent = rates_of_model.delivered_at = tp->tcp_mstamp;
	if (fresh)
		departures[rates_of_model.n++ % DEPARTURES] = departure(tp->snd_nxt);
	if (sent_again) {
		rates_of_model.sent_again += sent_again;
		repairs[rates_of_model.n_repairs++ % DEPARTURES] = departure(rates_of_model.sent_again);
	}
	if (starved)
		rates.app_limited = max(tp->delivered + in_flight(), 1);
}

static const struct departure *departure_of(const struct departure *ring, u32 n, u32 end)
{
	const struct departure *found = NULL;

	for (u32 i = 1; i <= min(n, DEPARTURES); i++) {
		const struct departure *d = &ring[(n - i) % DEPARTURES];

		if (before(d->end, end))
			break;
		found = d;
	}
	return found;
}

/*
 * tcp_rate_skb_delivered() and tcp_rate_gen(): `end` is where the last new packet ends, 0: there is none; `repaired` is the number
 * of the last one that was sent again, 0: there is none.
 */
static void rate_acked(u32 delivered, u32 end, u32 repaired, long long rtt)
{
	const struct departure *again = repaired ? departure_of(repairs, rates_of_model.n_repairs, repaired) : NULL;
	const struct departure *fresh = end ? departure_of(departures, rates_of_model.n, end) : NULL, *p = again;
	long spent;

	if (fresh && (!p || fresh->sent >= p->sent))
		p = fresh;
	if (rtt > 0)
		rates_of_model.min_rtt = rates_of_model.min_rtt ? min(rates_of_model.min_rtt, rtt) : rtt;
	if (delivered)
		rates_of_model.delivered_at = tp->tcp_mstamp;
	if (rates.app_limited && before(rates.app_limited, tp->delivered))
		rates.app_limited = 0;
	rate = (struct rate_sample){ .delivered = -1, .interval_us = -1, .rtt_us = rtt > 0 ? rtt : -1, .acked_sacked = delivered, .prior_in_flight = rates_of_model.prior_in_flight };
	if (!p || !delivered)
		return;
	rates_of_model.first_sent = p->sent;
	spent = max(p->sent - p->first_sent, tp->tcp_mstamp - p->delivered_at);
	rate.prior_delivered = p->delivered;
	rate.delivered = tp->delivered - p->delivered;
	rate.interval_us = spent < rates_of_model.min_rtt ? -1 : spent;
	rate.last_end_seq = p == again ? tp->snd_una : end;
	rate.is_app_limited = p->app_limited;
	rate.is_retrans = p == again;
}

/* An ACK that tells of nothing new. */
static void rate_nothing(void)
{
	rate_acked(0, 0, 0, -1);
}

static void fresh_rates(void)
{
	memset(&rates, 0, sizeof(rates));
	memset(&rates_of_model, 0, sizeof(rates_of_model));
	rates.app_limited = ~0u;
	rates.rx_opt.sack_ok = 1;
	random_state = 1;
	rates_of_model.first_sent = rates_of_model.delivered_at = tp->tcp_mstamp;
	rate_nothing();
}
