/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formosa's parameters and counters. Its two halves, and the parts of each, use them. */
#ifndef FORMOSA_VALUES_BPF_H
#define FORMOSA_VALUES_BPF_H

#include "declare.bpf.h"

TUNABLE(u32, delta_q8, 32, 1, 127, "1/256", "share that a signal takes from W, delta of (2); 32 = 1/8 [P]");
TUNABLE(u32, cut_mode, 0, 0, 1, "-",
	"a signal takes 0: delta [P], 1: no more than the queue that the receiver reports, and a packet");
TUNABLE(u32, cathresh, 2, 1, 1024, "packets", "added queue that makes a signal (5) [P]");
PARAM(u32, eta_q8, 128, 1, 255, "1/256", "weight of the old sftt in (4)");
PARAM(u32, ftt_norm, 1, 0, 1, "-", "1: L has gain 1 whatever eta is; 0: literal (4)");
PARAM(u32, q_mode, 1, 0, 2, "-", "Q is the 0: net sum of L, 1: sum of rises, 2: sum, not below 0");
TUNABLE(u32, cut_least, 0, 0, 64, "packets", "least that a signal takes, at most half of W; 0 [P]");
TUNABLE(u32, signal_hold, 0, 0, 4, "rounds",
	"after a cut in congestion avoidance further signals are old news for so long; 0: literal [P]");
TUNABLE(u32, loss_beta_q8, 128, 64, 255, "1/256", "share of W that is left after a loss");
PARAM(u32, nack_dup, 1, 1, 16, "ACKs",
      "reports of a new gap, 1 [P]; 3 where the sender's kernel waits for three (tcp_recovery=0)");
PARAM(u32, answers_max, 8, 1, 8, "ACKs",
      "a round asks for so many at most, for more than one where they are lost; 1 [P]");
PARAM(u32, noise_rounds, 0, 0, 65535, "rounds",
      "the forward delay's noise measures itself, makes no signal, and is forgotten in so many rounds; 0: off [P]");
PARAM(u32, fit_rtt, 0, 0, 1, "-", "1: W changes with the time that ACKs take, so that the rate does not; 0 [P]");
PARAM(u32, init_cwnd, 1, 0, 1024, "packets", "first W [P]; 0: the stack's");
NOTE("both ends must run it; flows that fill the queue (CUBIC, Reno) and uploads leave it little: for paths without them");

PRESET(two_way, "fit_rtt=1 noise_rounds=256", "an upload beside it, in whose queue its ACKs wait");
PARAM(u32, hello, 0, 0, 1, "-",
      "1: all SYNs say hello, so that downloads have an ACK a round; where options are filtered they cost 2 s or more");

COUNTER(flows, "connections started, receivers' too");
COUNTER(peers, "connections whose other end said that it is a Formosa receiver");
COUNTER(rounds, "rounds ended");
COUNTER(signals, "reductions by a congestion signal");
COUNTER(old_signals, "signals about packets that left before the last reduction");
COUNTER(limited_rounds, "rounds that carried too little for W to grow");
COUNTER(fits, "rounds after which W followed the time that ACKs take");
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

#endif
