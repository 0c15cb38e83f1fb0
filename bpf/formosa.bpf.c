// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP Formosa: one ACK per window, congestion judged by forward delay.
 *
 *   [P] "TCP Formosa": an ACK per window, forward-delay congestion avoidance and negative
 *       acknowledgements for asymmetric networks.
 *
 * [P] in short. The sender sends W packets a round, spread over the RTT, and flags the first (A).
 * The receiver answers the flagged packet only. Its ACK covers what came since the last, ends the
 * sender's round and opens the next:
 *     slow start           W <- W + packets acknowledged: 1, 2, 3, 5, 8, 13, ...           (1)
 *     congestion signal    W <- (1 - delta) W                                              (2)
 *     otherwise            W <- W + 1                                                      (3)
 * The receiver takes the forward delay d of each packet; the sender's clock may differ by a constant:
 *     sftt <- eta sftt + (1 - eta) d;   ftt_var = sum of (d - sftt) over the round         (4)
 *     L = ftt_var * packet_sum / srtt;  Q = sum of L;  signal and Q <- 0 if Q > cathresh   (5)
 * L is the queue that the round added, in packets. At a gap it reports at once (NACK) and is
 * silent otherwise.
 *
 * Good where the ACK path is nearly nothing: satellite, DOCSIS, LTE. ACKs cost one packet an RTT, and
 * the reverse queue is no congestion. Not good where the forward delay jitters by more than a few
 * packets' time (each rise counts as queue), nor against loss-based flows, which keep the queue.
 *
 * One file, three hooks, four roles:
 *   sender, law         struct_ops: cong_control. Alone, toward any peer, it is a sound AIMD controller.
 *   sender, wire        sockops: writes the data option, reads the ACK option.
 *   receiver, wire      sockops: reads the data option, measures, writes the ACK option;
 *                       struct_ops in_ack_event: makes the kernel answer the flagged packet at once.
 *   receiver, thinning  cgroup_skb/egress: drops the kernel's other pure ACKs.
 * They meet in one storage per socket, `struct wire`. A receiver of a Formosa sender runs this
 * controller too, since only a controller is called in in_ack_event; not if another was chosen for its socket.
 *
 * Where the paper is silent, or we differ:
 *  - W counts packets of a round, not packets outstanding: with one ACK a round, up to the last
 *    round's W are delivered and not yet known to be. So snd_cwnd = in flight + what is left of W.
 *  - eta is not in [P]. With sftt taken after the sample and eta = 1/2 a rise of the delay by x adds
 *    just x to the sum; for other eta the sum is scaled so that it does (ftt_norm).
 *  - Q counts rises only (q_mode 1). The literal sum goes below zero when the queue drains after a
 *    signal, and each next signal comes at a longer queue than the last.
 *  - A signal tells of the round before the one that its ACK ends. So the signal after a cut tells of
 *    packets sent before it and is not believed (signal_hold): else each excess is cut twice. Not so when
 *    slow start ends, up to 1.6 times too high.
 *  - Slow start ends at the first signal, at ssthresh, or at a loss. A loss halves W (loss_beta).
 *  - The sender's srtt is that of the newest packet an ACK covers. The stack's counts the oldest too,
 *    which waited a round for its ACK.
 *  - A lost flag or ACK: packets carry a round number and the first of a new one is answered. So is
 *    the last packet of the data (T); and, twice, what shows that an ACK was lost (P): a probe beyond W, a
 *    retransmission after timeout, data that is here already. A signal is numbered and stays in each ACK until the next.
 *  - A NACK is the kernel's ACK with SACK blocks: up to three blocks, newest first, are the complement
 *    of up to three gaps. The policy is ours: nack_dup ACKs at a new gap, one when the last gap has
 *    closed, none otherwise; without SACK none says more than the cumulative ACK.
 *  - A peer that is no Formosa receiver: ACK clocking, and d from the timestamps. Not from the RTT: the
 *    reverse queue is what must not count. Without timestamps only losses tell.
 *  - After an idle time of n seconds W has been halved n times, not below 10.
 */
#include "declare.bpf.h"
#include "sender.bpf.h"

#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TUNABLE(u32, delta_q8, 32, 1, 127, "1/256", "share that a signal takes from W, delta of (2); 32 = 1/8 [P]");
TUNABLE(u32, cathresh, 2, 1, 1024, "packets", "added queue that makes a signal (5) [P]");
PARAM(u32, eta_q8, 128, 1, 255, "1/256", "weight of the old sftt in (4)");
PARAM(u32, ftt_norm, 1, 0, 1, "-", "1: L has gain 1 whatever eta is; 0: literal (4)");
PARAM(u32, q_mode, 1, 0, 2, "-", "Q is the 0: net sum of L, 1: sum of rises, 2: sum, not below 0");
TUNABLE(u32, signal_hold, 1, 0, 4, "rounds", "after a cut in congestion avoidance, further signals are old news; 0: literal [P]");
TUNABLE(u32, loss_beta_q8, 128, 64, 255, "1/256", "share of W that is left after a loss");
PARAM(u32, nack_dup, 1, 1, 16, "ACKs", "reports of a new gap, 1 [P]; 3 where the sender's kernel waits for three (tcp_recovery=0)");
PARAM(u32, init_cwnd, 1, 0, 1024, "packets", "first W [P]; 0: the stack's");
PARAM(u32, hello, 0, 0, 1, "-", "1: all SYNs say hello, so that downloads have an ACK a round; where options are filtered they cost 2 s or more");

COUNTER(flows, "connections started, receivers' too");
COUNTER(peers, "connections whose other end said that it is a Formosa receiver");
COUNTER(rounds, "rounds ended");
COUNTER(signals, "reductions by a congestion signal");
COUNTER(old_signals, "signals about packets that left before the last reduction");
COUNTER(limited_rounds, "rounds that carried too little for W to grow");
COUNTER(losses, "reductions by loss: fast retransmit, ECN or RTO");
COUNTER(timeouts, "retransmission timeouts");
COUNTER(undos, "reductions found spurious and taken back");
COUNTER(idle_restarts, "rounds begun after an idle time");
COUNTER(fallbacks, "connections whose receiver fell silent: a middlebox took the options");
COUNTER(options_sent, "data options written");
COUNTER(answers_seen, "ACK options read");
COUNTER(options_seen, "data options read");
COUNTER(options_bad, "options of ours with a wrong length");
COUNTER(signals_sent, "congestion signals given");
COUNTER(acks_sent, "pure ACKs let pass, of connections with a Formosa sender");
COUNTER(acks_suppressed, "pure ACKs dropped");
COUNTER(nacks, "of acks_sent: reports of a new gap");

/* The registered name, written by the loader: what a receiver's controller is switched to. */
const volatile char asymcc_name[16] = "formosa";

/* --- on the wire ------------------------------------------------------------------------- */

/*
 * Experimental TCP options (RFC 6994), 16-bit ExIDs, not registered:
 *   hello   4 bytes, SYN and SYN-ACK: "I answer data options"
 *   data   12 bytes, each data segment of the sender
 *   answer  8 bytes, each segment of a receiver; absent where SACK blocks leave no room
 */
#define OPTION_KIND 253
#define HELLO_EXID bpf_htons(0xF0A0)
#define DATA_EXID bpf_htons(0xF0A1)
#define ANSWER_EXID bpf_htons(0xF0A2)

struct hello_option {
	u8 kind, len;
	__be16 exid;
};

#define DATA_A 0x80 /* first packet of its round */
#define DATA_T 0x40 /* answer at once: no full segment follows, for want of data or of the peer's window */
#define DATA_P 0x20 /* answer at once and twice: a probe beyond W, or a repair that begins a round */

struct data_option {
	u8 kind, len;
	__be16 exid;
	u8 flags;
	u8 round;       /* mod 256 */
	__be16 srtt;    /* 64 us, at most 4.2 s; 0: not known */
	__be32 stamp;   /* sender's clock when it left, us */
};

#define ANSWER_F 0x10      /* the answer to a flagged packet */
#define ANSWER_SIGNAL 0x0f /* number of signals so far, mod 16 */

struct answer_option {
	u8 kind, len;
	__be16 exid;
	u8 signal;
	u8 round;       /* newest round seen */
	__be16 queue;   /* forward delay above its minimum, 64 us: for who watches */
};

/* --- forward delay, (4) and (5) ------------------------------------------------------------ */

#define D_MAX_US (1 << 26)      /* 67 s; a change of delay beyond counts as this */
#define X_MAX_US (1LL << 40)    /* 13 days; so far two clocks may drift apart, and stamps that jump get no further */
#define IDLE_US 1000000u        /* a longer silence makes sftt stale */
#define MIN_EPOCH_US 10000000u  /* the smallest delay is that of the last one to two epochs: clocks drift */

struct estimate {
	s64 sftt_q16;  /* us << 16, relative to d0: at most 2^42 */
	s64 var_q16;   /* ftt_var, us << 16; 2^42 a packet */
	s64 q_q8;      /* Q, packets << 8 */
	s64 min_q16, young_q16; /* smallest sftt, and of this epoch */
	u32 packets;   /* packet_sum */
	u32 seen_us;   /* when the last sample came */
	u32 epoch_us;
	bool seeded;
};

/* (4) with one more delay, us, whose zero the caller chose; `packets` came with it. */
static inline void estimate_sample(struct estimate *e, s64 d, u32 packets, u32 now_us)
{
	s64 d_q16;

	if (d > D_MAX_US)
		d = D_MAX_US;
	if (d < -D_MAX_US)
		d = -D_MAX_US;
	d_q16 = d * 65536;
	if (!e->seeded || now_us - e->seen_us > IDLE_US) {
		e->sftt_q16 = e->min_q16 = e->young_q16 = d_q16;
		e->var_q16 = 0;
		e->packets = 0;
		e->epoch_us = now_us;
		e->seeded = true;
	}
	e->seen_us = now_us;
	/* 2^42 * 2^8 = 2^50 */
	e->sftt_q16 = (eta_q8 * e->sftt_q16 + (s64)(256 - eta_q8) * d_q16 + 128) >> 8;
	e->var_q16 += d_q16 - e->sftt_q16; /* 2^43 a packet, 2^16 packets: 2^59 */
	if (e->packets < 65535)
		e->packets += packets;
	if (now_us - e->epoch_us > MIN_EPOCH_US) {
		e->min_q16 = e->young_q16;
		e->young_q16 = e->sftt_q16;
		e->epoch_us = now_us;
	}
	if (e->sftt_q16 < e->young_q16)
		e->young_q16 = e->sftt_q16;
	if (e->sftt_q16 < e->min_q16)
		e->min_q16 = e->sftt_q16;
}

/* (5) at the end of a round: true for a signal. Without a known srtt the round adds nothing. */
static inline bool estimate_round(struct estimate *e, u32 srtt_us)
{
	bool fell = e->var_q16 < 0, signal;
	u64 l_q8 = min((u64)(fell ? -e->var_q16 : e->var_q16) >> 8, 1ULL << 40);

	l_q8 = srtt_us ? mul_div(l_q8, min(e->packets, 65535), srtt_us) : 0; /* 2^56 */
	if (ftt_norm) /* the sum telescopes to eta / (1 - eta) times the rise */
		l_q8 = mul_div(min(l_q8, 1ULL << 40), 256 - eta_q8, eta_q8);
	l_q8 = min(l_q8, 1ULL << 30);
	e->var_q16 = 0;
	e->packets = 0;
	if (!fell)
		e->q_q8 += l_q8;
	else if (q_mode != 1)
		e->q_q8 -= l_q8;
	if (q_mode && e->q_q8 < 0)
		e->q_q8 = 0;
	if (e->q_q8 < -(1LL << 40))
		e->q_q8 = -(1LL << 40);
	signal = e->q_q8 > (s64)cathresh << 8;
	if (signal)
		e->q_q8 = 0;
	return signal;
}

/* Forward queueing delay, us. */
static inline u32 estimate_queue(const struct estimate *e)
{
	return e->seeded ? (u64)(e->sftt_q16 - e->min_q16) >> 16 : 0;
}

/* --- what the halves share: one per socket --------------------------------------------------- */

struct wire {
	/* sender */
	bool sender;      /* our controller runs on this socket */
	bool peer;        /* the other end said hello */
	bool silent;      /* but does not answer: fallback, for good */
	bool heard;       /* an answer option came in this round */
	bool signalled;   /* a new signal came */
	u8 deaf_rounds;   /* rounds without an answer option */
	u8 round;         /* number of the round, on the wire */
	u8 echo;          /* newest round that the receiver has seen */
	u8 signal_seen;
	u32 segs;         /* data_segs_out when this round began */
	u32 budget;       /* W of this round */
	u32 srtt_us;
	u32 queue_us;     /* as the receiver sees it */

	/* receiver */
	bool receiving;   /* data options come */
	bool thin;        /* and the kernel answers flagged packets: other pure ACKs are dropped */
	u8 due;           /* so many ACKs, the next ones, answer a flagged packet, or must pass for another reason */
	bool optioned;    /* a data option came since the kernel's last ACK */
	bool gaps;        /* data waits behind gaps */
	u8 nacks;         /* so many reports of the newest gap are left */
	u8 last_round;
	u8 signal;        /* number of signals given */
	u32 end;          /* end of the data that came with an option */
	u32 d0;           /* forward delay of the first packet, clocks' difference included, us */
	u32 peer_srtt_us;
	u32 last_ack;     /* the kernel's last ACK, passed or not: its number ... */
	u32 last_right;   /* ... and the right edge of its window */
	u32 passed_right; /* of the last that passed */
	u64 passed_ns;    /* and when it did */
	struct estimate in;

	/* sender toward a peer without the receiver half */
	u32 tsval, tsecr;           /* of the last ACK */
	u32 first_tsval, first_us;  /* for the tick of the peer's clock */
	u32 tick_us;                /* 0: unknown clock, no delay signal */
	bool calibrated;
	s64 x_us;                   /* forward delay by timestamps, relative to the first */
	s64 x_min, x_held;          /* smallest of this round; the last that differed by a tick */
	struct estimate out;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wire);
} wires SEC(".maps");

/* Do we speak Formosa on this connection? */
static inline bool sends_options(const struct wire *w)
{
	return w && w->sender && w->peer && !w->silent;
}

/* --- sender's law --------------------------------------------------------------------------- */

/* One connection. Windows in packets. */
struct formosa {
	struct sender s;      /* its round is Formosa's */
	u32 w;                /* packets a round */
	u32 w_last;           /* of the round before */
	u32 ssthresh;         /* of w: the stack's is for show */
	u32 w_saved;          /* before the last reduction, for undo */
	u32 ssthresh_saved;
	u32 srtt_us;          /* smoothed RTT of the newest packet covered; 0: none */
	u32 rounds;           /* begun so far */
	u32 delivered_round;  /* tp->delivered when this round began */
	u32 delivered;        /* tp->delivered at the last ACK */
	u32 peer_queue_us;    /* forward queueing delay as the receiver sees it */
	u32 peer_signals;     /* signals believed */
	u8 hold;              /* rounds in which no signal is */
	bool cwnd_limited;    /* fallback: the window was the limit in this round */
};
STATE(struct formosa);

#define DEAF_ROUNDS 4 /* so many rounds without an answer option make a fallback */

static inline void begin_round(struct formosa *f, const struct tcp_sock *tp, struct wire *w)
{
	round_start(&f->s, tp);
	f->rounds++;
	f->delivered_round = tp->delivered;
	f->cwnd_limited = false;
	if (w) {
		w->round++;
		w->segs = tp->data_segs_out;
		w->budget = f->w;
		w->srtt_us = f->srtt_us;
		w->heard = false;
	}
}

/* (2), and slow start is over. */
static inline void on_signal(struct formosa *f)
{
	u32 cut = max((u64)f->w * delta_q8 >> 8, 1);

	f->hold = f->w < f->ssthresh ? 0 : signal_hold;
	f->w = max(f->w - min(cut, f->w), W_MIN);
	f->ssthresh = f->w;
	f->peer_signals++;
	COUNT(signals);
}

/* (1) by `acked` packets, up to ssthresh. */
static inline void slow_start(struct formosa *f, u32 acked)
{
	f->w = min((u64)f->w + acked, f->ssthresh);
}

/*
 * A round is over when what it sent first is acknowledged. Behind a gap the cumulative ACK stands
 * still: then when the receiver names the round, or, where its option finds no room, by time.
 */
static inline bool formosa_round_over(const struct formosa *f, const struct tcp_sock *tp,
				      const struct wire *w)
{
	if (round_over(&f->s, tp))
		return true;
	if (!(tp->sacked_out | tp->lost_out) || tp->delivered == f->delivered_round)
		return false;
	return w->echo == w->round ||
	       tp->tcp_mstamp - f->s.round_stamp > f->srtt_us + (f->srtt_us >> 2);
}

/* The peer answers once a round. */
static inline void law_by_rounds(struct formosa *f, const struct tcp_sock *tp,
				 const struct inet_connection_sock *icsk, struct wire *w)
{
	u8 state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	u32 carried = tp->delivered - f->delivered_round, was = f->w;

	if (!formosa_round_over(f, tp, w))
		return;
	COUNT(rounds);
	if (state == TCP_CA_Open) {
		w->deaf_rounds = w->heard ? 0 : w->deaf_rounds + 1;
		if (w->deaf_rounds >= DEAF_ROUNDS) {
			w->silent = true;
			COUNT(fallbacks);
		}
	}
	if (state != TCP_CA_CWR && state != TCP_CA_Recovery) { /* else halved already */
		if (w->signalled && !f->hold)
			on_signal(f);
		else if (w->signalled)
			COUNT(old_signals);
		else if ((u64)carried + f->w_last / 8 + 2 < f->w_last) /* application or peer's window */
			COUNT(limited_rounds);
		else if (f->w < f->ssthresh)
			slow_start(f, carried);
		else
			f->w++;
	}
	if (f->hold && was <= f->w)
		f->hold--;
	w->signalled = false;
	f->w_last = was;
	begin_round(f, tp, w);
}

/* The window that lets out what is left of this round's W. */
static inline u32 window_by_rounds(const struct formosa *f, const struct tcp_sock *tp,
				   const struct wire *w)
{
	u32 sent = tp->data_segs_out - w->segs, flight = packets_in_flight(tp);
	u64 cwnd = (u64)flight + (f->w > sent ? f->w - sent : 0);

	/* this round's and, as not yet known to have arrived, the last one's */
	cwnd = min(cwnd, (u64)f->w + f->w_last);
	if (!sent || (tp->lost_out && !tp->retrans_out)) /* the flag and the first repair wait for nothing */
		cwnd = max(cwnd, (u64)flight + 1);
	return min(cwnd, W_MAX);
}

/* --- the same toward any peer: ACK clocking, delay by timestamps ------------------------------ */

/* A tick of the peer's timestamp clock, us, from a second or more of it; 0: none that we know. */
static inline u32 tick_of(u64 elapsed_us, u32 ticks)
{
	u64 tick = mul_div(elapsed_us, 1, ticks);

	return tick <= 10 ? 1 : tick >= 700 && tick <= 1400 ? 1000 : tick >= 2800 && tick <= 5600 ? 4000
	     : tick >= 7000 && tick <= 14000 ? 10000 : 0;
}

/* Can so many ticks have passed in that time? A delay of 50 ms more or less than the first is none of the clock's. */
static inline bool may_tick(u32 tick_us, u32 elapsed_us, u32 ticks)
{
	u64 passed = (u64)ticks * tick_us;

	return passed <= 2 * (u64)elapsed_us + 50000 && 2 * passed + 100000 >= elapsed_us;
}

/*
 * When the peer's ACK left less when our packet did. A constant is unknown; what changes is forward
 * delay and the peer's wait with its ACK. Of a round the smallest counts.
 */
static inline void timestamp_sample(struct wire *w, const struct tcp_sock *tp)
{
	bool usec = bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts);
	u32 tsval = tp->rx_opt.rcv_tsval, tsecr = tp->rx_opt.rcv_tsecr, now_us = tp->tcp_mstamp;

	if (!BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp) || !tsecr)
		return;
	if (!w->first_us) {
		w->first_us = now_us | 1;
		w->first_tsval = tsval;
		w->tick_us = usec ? 1 : 1000;
		w->x_min = 0;
	} else { /* 2^31 * 10^4 + 2^31 * 10^3 < 2^45 an ACK */
		s64 x = w->x_us + (s64)(s32)(tsval - w->tsval) * w->tick_us -
			(s64)(s32)(tsecr - w->tsecr) * (usec ? 1 : 1000);

		w->x_us = x > X_MAX_US ? X_MAX_US : x < -X_MAX_US ? -X_MAX_US : x;
	}
	w->tsval = tsval;
	w->tsecr = tsecr;
	if (!w->calibrated && !may_tick(w->tick_us, now_us - w->first_us, tsval - w->first_tsval))
		w->tick_us = 0; /* till we know better */
	if (!w->calibrated && now_us - w->first_us >= 1000000 && tsval != w->first_tsval) {
		u32 tick = tick_of(now_us - w->first_us, tsval - w->first_tsval);

		w->calibrated = true;
		if (tick != w->tick_us) {
			w->tick_us = tick;
			w->x_us = w->x_min = w->x_held = 0;
			w->out.seeded = false;
		}
	}
	if (w->x_us < w->x_min)
		w->x_min = w->x_us;
}

/* At the end of a round: is there a signal? A change within a tick is none. */
static inline bool timestamp_round(struct wire *w, const struct formosa *f,
				   const struct tcp_sock *tp, u32 carried)
{
	s64 change = w->x_min - w->x_held, tick = max(w->tick_us, 1000);

	if (!w->first_us || !w->tick_us)
		return false;
	if (change > tick || change < -tick)
		w->x_held = w->x_min;
	w->x_min = w->x_us;
	estimate_sample(&w->out, w->x_held, carried, tp->tcp_mstamp);
	return estimate_round(&w->out, f->srtt_us);
}

static inline void law_by_acks(struct formosa *f, const struct tcp_sock *tp,
			       const struct inet_connection_sock *icsk, struct wire *w)
{
	u32 acked = tp->delivered - f->delivered, carried = tp->delivered - f->delivered_round;
	bool starting = f->w < f->ssthresh;

	if (w)
		timestamp_sample(w, tp);
	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) == TCP_CA_CWR ||
	    BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) == TCP_CA_Recovery)
		return;
	if (is_cwnd_limited(tp))
		f->cwnd_limited = true;
	if (starting && (is_cwnd_limited(tp) || f->w < 2 * tp->max_packets_out))
		slow_start(f, acked);
	if (!round_over(&f->s, tp))
		return;
	COUNT(rounds);
	f->w_last = f->w;
	if (w && timestamp_round(w, f, tp, carried))
		on_signal(f);
	else if (!starting && f->cwnd_limited)
		f->w++;
	else if (!starting)
		COUNT(limited_rounds);
	begin_round(f, tp, w);
}

static inline u32 window_by_acks(const struct formosa *f, const struct tcp_sock *tp)
{
	if (tp->lost_out && !tp->retrans_out)
		return max(f->w, (u64)packets_in_flight(tp) + 1);
	return f->w;
}

/* --- sender's hooks -------------------------------------------------------------------------- */

SEC("struct_ops/formosa_init")
void BPF_PROG(formosa_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	__builtin_memset(f, 0, sizeof(*f));
	if (!w || !w->receiving) /* to receive changes no window */
		first_window(tp, init_cwnd);
	f->w = f->w_last = min(max(tp->snd_cwnd, 1), W_MAX);
	f->ssthresh = max(tp->snd_ssthresh, W_MIN);
	f->srtt_us = min(tp->srtt_us >> 3, RTT_MAX_US); /* of the handshake */
	f->delivered = tp->delivered;
	if (w)
		w->sender = true;
	begin_round(f, tp, w);
	f->s.cwnd = tp->snd_cwnd;
	COUNT(flows);
}

SEC("struct_ops/formosa_release")
void BPF_PROG(formosa_release, struct sock *sk)
{
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	if (w) /* another controller follows: it forces no ACKs */
		w->sender = w->thin = false;
}

SEC("struct_ops/formosa_pkts_acked")
void BPF_PROG(formosa_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	bool first = !f->s.rtt_last; /* what the handshake told may be seconds, if its segments were lost */

	/*
	 * The RTT is that of the flagged packet, which an ACK covers last. Not so of one that closes gaps, nor,
	 * with a probe out beyond W, of one that does not cover that: they tell how long we waited.
	 */
	if (sends_options(w) && (in_recovery(inet_csk(sk)) ||
				 (tp->packets_out && tp->data_segs_out - w->segs > w->budget)))
		return;
	if (!rtt_sample(&f->s, tp, sample, 0))
		return;
	f->srtt_us = first ? f->s.rtt_last : ((u64)7 * f->srtt_us + f->s.rtt_last) / 8;
}

SEC("struct_ops/formosa_cong_control")
void BPF_PROG(formosa_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct inet_connection_sock *icsk = inet_csk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	u32 percent = 100, limit = window_limit(tp);

	if (!f->w) /* before init: the ACK of our SYN, where a route names the controller */
		return;
	f->s.ack_stamp = tp->tcp_mstamp;
	if (sends_options(w)) {
		f->peer_queue_us = w->queue_us;
		law_by_rounds(f, tp, icsk, w);
		f->w = w->budget = min(f->w, limit);
		cwnd_write(&f->s, tp, window_by_rounds(f, tp, w));
	} else {
		law_by_acks(f, tp, icsk, w);
		f->w = min(f->w, limit);
		cwnd_write(&f->s, tp, window_by_acks(f, tp));
		percent = f->w < f->ssthresh ? 200 : 120; /* as the stack: ACKs are the clock */
	}
	f->delivered = tp->delivered;
	if (f->srtt_us) /* 2^20 * 2^16 * 10^6 * 2^8 < 2^64 */
		pace(sk, mul_div((u64)f->w * min(tp->mss_cache, 65535) * 10000, percent, f->srtt_us));
}

SEC("struct_ops/formosa_ssthresh")
u32 BPF_PROG(formosa_ssthresh, struct sock *sk)
{
	struct formosa *f = inet_csk_ca(sk);

	COUNT(losses);
	f->w_saved = f->w;
	f->ssthresh_saved = f->ssthresh;
	f->w = f->w_last = f->ssthresh = max((u64)f->w * loss_beta_q8 >> 8, W_MIN);
	return f->w;
}

SEC("struct_ops/formosa_set_state")
void BPF_PROG(formosa_set_state, struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w;

	if (state == TCP_CA_Loss) {
		COUNT(timeouts);
		f->w = f->w_last = 1;
	} else if (state != TCP_CA_Recovery) {
		return;
	}
	w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	begin_round(f, tp, w); /* repairs go out now ... */
	if (state == TCP_CA_Recovery) /* ... and no more than W: no ACK need follow */
		cwnd_write(&f->s, tp, sends_options(w) ? window_by_rounds(f, tp, w) : window_by_acks(f, tp));
}

SEC("struct_ops/formosa_undo_cwnd")
u32 BPF_PROG(formosa_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	COUNT(undos);
	f->w = f->w_last = max(f->w, f->w_saved);
	f->ssthresh = max(f->ssthresh, f->ssthresh_saved);
	if (w)
		w->budget = f->w;
	return undone_window(tp);
}

SEC("struct_ops/formosa_cwnd_event")
void BPF_PROG(formosa_cwnd_event, struct sock *sk, enum tcp_ca_event ev)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct formosa *f = inet_csk_ca(sk);
	struct wire *w;
	u32 halvings;

	if (!idle_ended(&f->s, tp, ev))
		return;
	COUNT(idle_restarts);
	halvings = min((tp->tcp_mstamp - f->s.ack_stamp) / 1000000, 31);
	if (halvings && f->w > 10) {
		f->ssthresh = max(f->ssthresh, f->w - f->w / 4);
		f->w = max(f->w >> halvings, 10);
	}
	f->w_last = f->w;
	w = bpf_sk_storage_get(&wires, sk, NULL, 0);
	begin_round(f, tp, w);
	cwnd_write(&f->s, tp, sends_options(w) ? window_by_rounds(f, tp, w) : window_by_acks(f, tp));
}

/*
 * Runs for the segment that PARSE_HDR_OPT_CB has just noted, before its data is queued. The kernel
 * then sends an ACK once it is: with this segment covered.
 */
SEC("struct_ops/formosa_in_ack_event")
void BPF_PROG(formosa_in_ack_event, struct sock *sk, u32 flags)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct wire *w = bpf_sk_storage_get(&wires, sk, NULL, 0);

	if (!w || !w->receiving)
		return;
	w->thin = true;
	if (w->due > 1) { /* first: an ACK that is sent clears what is pending */
		bpf_tcp_send_ack(sk, tcp_sk(sk)->rcv_nxt);
		w->due = 1; /* even where thinning does not see our ACKs: IPsec, extension headers */
	}
	if (w->due)
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
}

/* --- options ----------------------------------------------------------------------------------- */

enum {
	WRITE = BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG, PARSE = BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG,
	IPPROTO_TCP_ = 6, TCP_CONGESTION_ = 13, TCP_SAVE_SYN_ = 27, TCPOPT_SACK = 5,
	ENOSPC = 28, FIN = 1, SYN = 2, RST = 4, ACK = 16, ECE = 64,
};

struct tcp_header {
	__be16 source, dest;
	__be32 seq, ack;
	u8 offset, flags; /* header length in words << 4 */
	__be16 window;
	u16 check, urgent;
};

/* Fill an option of ours from the header at hand, or from the SYN: its length, below 0 if absent. */
static inline int find_option(struct bpf_sock_ops *ops, void *option, u32 size, __be16 exid, u64 flags)
{
	struct hello_option *o = option;

	o->kind = OPTION_KIND;
	o->len = sizeof(*o); /* of what is compared: kind and ExID */
	o->exid = exid;
	return bpf_load_hdr_opt(ops, option, size, flags);
}

static inline bool says_hello(struct bpf_sock_ops *ops, u64 flags)
{
	struct hello_option o;

	return find_option(ops, &o, sizeof(o), HELLO_EXID, flags) == sizeof(o);
}

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

/* May this socket's controller become ours? It may be so already; another one that was chosen for the socket stays. */
static inline bool may_receive(struct bpf_sock_ops *ops)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tcp_of(ops);

	return icsk && (!is_chosen(icsk) || is_ours(ops));
}

/* Whose SYNs say hello shows in SYNs that are kept. The application may keep more of them. */
static inline void listens(struct bpf_sock_ops *ops)
{
	int keep = 0, one = 1;

	if (!may_receive(ops))
		return;
	if (!bpf_getsockopt(ops, IPPROTO_TCP_, TCP_SAVE_SYN_, &keep, sizeof(keep)) && !keep)
		bpf_setsockopt(ops, IPPROTO_TCP_, TCP_SAVE_SYN_, &one, sizeof(one));
	callbacks(ops, WRITE);
}

/* Does a connection that is opened here say hello? */
static inline bool greets(struct bpf_sock_ops *ops)
{
	return is_ours(ops) || (hello && may_receive(ops));
}

/* After the handshake: both ends have said hello. */
static inline void established(struct bpf_sock_ops *ops)
{
	struct wire *w = wire_of(ops, BPF_SK_STORAGE_GET_F_CREATE);

	if (!w)
		return;
	w->peer = true;
	COUNT(peers);
	callbacks(ops, WRITE | PARSE);
}

/*
 * Is a hello to be written? The third SYN goes without: a middlebox may have dropped the others
 * for their option. A SYN-ACK answers a hello, but not one of which a SYN cookie keeps no record.
 */
static inline bool hello_due(struct bpf_sock_ops *ops)
{
	struct tcp_sock *tp;

	if (ops->skb_tcp_flags & ACK)
		return ops->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE &&
		       says_hello(ops, BPF_LOAD_HDR_OPT_TCP_SYN);
	tp = tcp_of(ops);
	return tp && ((struct inet_connection_sock *)tp)->icsk_retransmits < 2 && greets(ops);
}

static inline void reserve(struct bpf_sock_ops *ops)
{
	const struct wire *w;

	if (ops->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS && ops->skb_tcp_flags & SYN) {
		if (hello_due(ops))
			bpf_reserve_hdr_opt(ops, sizeof(struct hello_option), 0);
		return;
	}
	w = wire_of(ops, 0);
	if (!w)
		return;
	if (sends_options(w) && (ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || ops->skb_len))
		bpf_reserve_hdr_opt(ops, sizeof(struct data_option), 0);
	if (w->receiving)
		bpf_reserve_hdr_opt(ops, sizeof(struct answer_option), 0);
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

static inline void write_data(struct bpf_sock_ops *ops, struct wire *w, u32 seq, u32 payload)
{
	struct tcp_sock *tp = tcp_of(ops);
	u32 sent = ops->data_segs_out - w->segs, end = seq + payload;
	struct data_option o = {
		.kind = OPTION_KIND,
		.len = sizeof(o),
		.exid = DATA_EXID,
		.flags = sent ? 0 : DATA_A,
		.round = w->round,
		.srtt = bpf_htons(min(w->srtt_us / 64, 65535)),
		.stamp = bpf_htonl((u32)(bpf_ktime_get_ns() / 1000)),
	};

	if (tp && ((s32)(tp->write_seq - end) < (s32)tp->mss_cache ||
		   (s32)(tp->snd_una + tp->snd_wnd - end) < (s32)tp->mss_cache))
		o.flags |= DATA_T;
	if (sent >= w->budget || (!sent && before(seq, ops->snd_nxt)))
		o.flags |= DATA_P;
	if (!bpf_store_hdr_opt(ops, &o, sizeof(o), 0))
		COUNT(options_sent);
}

static inline void write_answer(struct bpf_sock_ops *ops, const struct wire *w)
{
	struct answer_option o = {
		.kind = OPTION_KIND,
		.len = sizeof(o),
		.exid = ANSWER_EXID,
		.signal = (w->signal & ANSWER_SIGNAL) | (w->due ? ANSWER_F : 0),
		.round = w->last_round,
		.queue = bpf_htons(min(estimate_queue(&w->in) / 64, 65535)),
	};

	bpf_store_hdr_opt(ops, &o, sizeof(o), 0);
}

static inline void write(struct bpf_sock_ops *ops)
{
	struct hello_option greeting = { OPTION_KIND, sizeof(greeting), HELLO_EXID };
	struct tcp_header h;
	struct wire *w;
	u32 payload;

	if (ops->skb_tcp_flags & SYN) {
		if (hello_due(ops)) /* the room may be another program's */
			bpf_store_hdr_opt(ops, &greeting, sizeof(greeting), 0);
		return;
	}
	w = wire_of(ops, 0);
	if (!w || !header(ops, &h, &payload))
		return;
	if (payload && sends_options(w))
		write_data(ops, w, bpf_ntohl(h.seq), payload);
	if (w->receiving)
		write_answer(ops, w);
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

/* The sender hears its receiver. */
static inline void heard(struct wire *w, const struct answer_option *o)
{
	u8 ahead = (o->signal - w->signal_seen) & ANSWER_SIGNAL;

	COUNT(answers_seen);
	w->heard = true;
	w->echo = o->round;
	w->queue_us = bpf_ntohs(o->queue) * 64;
	if (ahead && ahead < 8) {
		w->signal_seen = o->signal & ANSWER_SIGNAL;
		w->signalled = true;
	}
}

/* Only a controller can have the kernel ACK at once. False where this one cannot be the socket's: the sender falls back. */
static inline bool start_receiving(struct bpf_sock_ops *ops, struct wire *w)
{
	w->receiving = true; /* the controller's init looks at it */
	if (!w->sender)
		w->receiving = may_receive(ops) && !bpf_setsockopt(ops, IPPROTO_TCP_, TCP_CONGESTION_,
								   (void *)asymcc_name, sizeof(asymcc_name));
	w->end = w->last_ack = ops->rcv_nxt;
	return w->receiving;
}

/* The receiver measures a packet, and decides whether it is to be answered at once. */
static inline void received(struct bpf_sock_ops *ops, struct wire *w, const struct data_option *o,
			    u32 seq, u32 payload)
{
	u32 end = seq + payload, now_us = bpf_ktime_get_ns() / 1000, mss = 0;
	u32 d = now_us - bpf_ntohl(o->stamp);
	struct tcp_sock *tp = tcp_of(ops);
	bool first = !w->receiving;

	COUNT(options_seen);
	if (first && !start_receiving(ops, w))
		return;
	w->optioned = true;
	if (!before(ops->rcv_nxt, end)) { /* here already: the sender has not heard of it */
		w->due = 2;
		return;
	}
	if (before(w->end, ops->rcv_nxt)) /* what came without an option, or with an old ACK */
		w->end = ops->rcv_nxt;
	if (before(w->end, seq)) { /* a new gap */
		w->nacks = nack_dup;
		w->gaps = true;
	}
	if (before(w->end, end))
		w->end = end;
	if (tp)
		mss = ((struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;
	if (!w->in.seeded || (u32)(d - w->d0 + D_MAX_US / 2) > D_MAX_US) { /* clocks drift apart */
		w->d0 = d;
		w->in.seeded = false;
	}
	estimate_sample(&w->in, (s32)(d - w->d0), mul_div(payload + mss - 1, 1, mss), now_us);
	if (o->flags & (DATA_T | DATA_P))
		w->due = o->flags & DATA_P ? 2 : 1;
	w->peer_srtt_us = bpf_ntohs(o->srtt) * 64;
	if (!first && (signed char)(o->round - w->last_round) <= 0)
		return;
	w->last_round = o->round;
	w->due = max(w->due, 1);
	if (estimate_round(&w->in, w->peer_srtt_us)) {
		w->signal++;
		COUNT(signals_sent);
	}
}

static inline void parse(struct bpf_sock_ops *ops)
{
	struct wire *w = wire_of(ops, 0);
	struct answer_option answer;
	struct data_option data;
	struct tcp_header h;
	u32 payload;
	int len;

	if (!w || !w->peer || !header(ops, &h, &payload) || !acceptable(ops, &h))
		return;
	len = find_option(ops, &answer, sizeof(answer), ANSWER_EXID, 0);
	if (len == sizeof(answer))
		heard(w, &answer);
	else if (len >= 0 || len == -ENOSPC)
		COUNT(options_bad);
	if (!payload)
		return;
	len = find_option(ops, &data, sizeof(data), DATA_EXID, 0);
	if (len == sizeof(data))
		received(ops, w, &data, bpf_ntohl(h.seq), payload);
	else if (len >= 0 || len == -ENOSPC)
		COUNT(options_bad);
}

SEC("sockops")
int formosa_sockops(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		listens(ops);
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (ops->sk) /* a socket that is connected anew */
			bpf_sk_storage_delete(&wires, ops->sk);
		break;
	case BPF_SOCK_OPS_TIMEOUT_INIT: /* of a SYN that will leave: a route, too, has given its controller by now */
		if (greets(ops))
			callbacks(ops, WRITE);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		if (greets(ops) && says_hello(ops, 0))
			established(ops);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (may_receive(ops) && says_hello(ops, BPF_LOAD_HDR_OPT_TCP_SYN))
			established(ops);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		reserve(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write(ops);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		parse(ops);
		break;
	}
	return 1;
}

/* --- thinning ------------------------------------------------------------------------------------ */

#define PURE_ACK_MAX (40 + 60)     /* longest IP and TCP headers without extensions */
#define SILENCE_NS 500000000ULL    /* an ACK passes after this or 2 RTTs without one */

/* TCP header of a pure ACK, or false. */
static inline bool pure_ack(struct __sk_buff *skb, struct tcp_header *h)
{
	u8 ip[10];
	u32 at;

	if (skb->len > PURE_ACK_MAX || bpf_skb_load_bytes(skb, 0, ip, sizeof(ip)))
		return false;
	if (ip[0] >> 4 == 4 && ip[9] == IPPROTO_TCP_)
		at = (ip[0] & 15) * 4;
	else if (ip[0] >> 4 == 6 && ip[6] == IPPROTO_TCP_)
		at = 40;
	else
		return false;
	return !bpf_skb_load_bytes(skb, at, h, sizeof(*h)) && !(h->flags & (SYN | FIN | RST)) &&
	       skb->len == at + (h->offset >> 4) * 4;
}

/*
 * Data came that is here already: its sender has not heard our ACK. Then the first SACK block lies below
 * the ACK (RFC 2883). The kernel writes SACK first, or behind the timestamps.
 */
static inline bool reports_duplicate(struct __sk_buff *skb, const struct tcp_header *h, u32 ack)
{
	u32 header = (h->offset >> 4) * 4, at = skb->len - header + sizeof(*h);
	u8 kind;
	__be32 left;

	for (int i = 0; i < 2; i++, at += 12) {
		if (bpf_skb_load_bytes(skb, at + 2, &kind, 1))
			return false;
		if (kind == TCPOPT_SACK && !bpf_skb_load_bytes(skb, at + 4, &left, sizeof(left)))
			return before(bpf_ntohl(left), ack);
	}
	return false;
}

/* Why must this ACK pass? It goes on the wire if it tells what the sender has to know now. */
static inline bool must_pass(struct wire *w, const struct tcp_sock *tp, u32 ack, u32 right, u64 now)
{
	u64 silence = max(2000ULL * w->peer_srtt_us, SILENCE_NS);
	u32 two = 2 * ((const struct inet_connection_sock *)tp)->icsk_ack.rcv_mss;

	if (w->due || before(w->end, ack) || (ack != w->last_ack && !w->optioned)) /* data came without options */
		return true;
	if (w->gaps && ack == w->end) { /* the last one has closed */
		w->gaps = false;
		return true;
	}
	if (before(ack, w->end)) {
		if (w->nacks) {
			w->nacks--;
			COUNT(nacks);
			return true;
		}
	} else if (ack == w->last_ack && right == w->last_right) {
		return true; /* said before: somebody asked, or sent what is here already */
	}
	if (before(w->passed_right, right) && before(w->passed_right, w->end + two))
		return true; /* the window that the sender knows is used up */
	return now - w->passed_ns > silence;
}

SEC("cgroup_skb/egress")
int formosa_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct tcp_header h;
	struct tcp_sock *tp;
	struct wire *w;
	u32 ack, right;
	bool pass;
	u64 now;

	if (!sk || !pure_ack(skb, &h))
		return 1;
	sk = bpf_sk_fullsock(sk);
	w = sk ? bpf_sk_storage_get(&wires, sk, NULL, 0) : NULL;
	if (!w || !w->thin)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	now = bpf_ktime_get_ns();
	ack = bpf_ntohl(h.ack);
	right = tp->rcv_wup + tp->rcv_wnd;
	pass = must_pass(w, tp, ack, right, now) || h.flags & ECE || reports_duplicate(skb, &h, ack) ||
	       before(bpf_ntohl(h.seq), tp->snd_una); /* keepalive, window probe */
	w->last_ack = ack;
	w->last_right = right;
	w->optioned = false;
	if (!pass) {
		COUNT(acks_suppressed);
		return 0;
	}
	COUNT(acks_sent);
	if (w->due)
		w->due--;
	w->passed_right = right;
	w->passed_ns = now;
	return 1;
}

SEC(".struct_ops")
struct tcp_congestion_ops formosa = {
	.init = (void *)formosa_init,
	.release = (void *)formosa_release,
	.pkts_acked = (void *)formosa_pkts_acked,
	.in_ack_event = (void *)formosa_in_ack_event,
	.cong_control = (void *)formosa_cong_control,
	.ssthresh = (void *)formosa_ssthresh,
	.set_state = (void *)formosa_set_state,
	.undo_cwnd = (void *)formosa_undo_cwnd,
	.cwnd_event = (void *)formosa_cwnd_event,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "formosa",
};
