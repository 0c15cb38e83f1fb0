// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reno's window, but all of it leaves at once, as soon as all of the one before is answered. */
#include "reno.h"

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(ssthresh, struct sock *sk)
{
	__u32 *window = own(sk);

	*window = *window > 4 ? *window / 2 : 2;
	return *window;
}

SEC("struct_ops/control")
void BPF_PROG(control, struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_of(sk);
	__u32 *window = own(sk), flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;

	if (flight > 2) {
		tp->snd_cwnd = flight;
		return;
	}
	*window = *window ? *window + 1 : 10;
	tp->snd_cwnd = *window;
}

SENDER(bursts, .cong_control = (void *)control)
