// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * uplink.bpf.c and the law that it tells, without a device: the whole of `asymcc uplink` but CAKE.
 *
 * Reads the records of router.c that are packets, and
 *     'B'   begins anew: u64 rate, bit/s, 0: none is told
 *     'T'   a tick: u64 time in us. A line answers it: rate, capacity, the queue in ms, number of the cause
 */
#include "router.h"

#include <tools/uplink.bpf.c>

#undef min /* the loader has none */
#undef max
#include "uses/uplink_law.c"

static struct uplink_law law;

static void tick(u64 now_us)
{
	struct uplink_view v;
	double none;

	uplink_law_view(&v, &seen[UPLINK_UP], now_us * 1000);
	none = uplink_law_tick(&law, &v);
	told[UPLINK_UP].rebase_ns += none * 1e9;
	told[UPLINK_UP].capacity = law.capacity;
	printf("%.0f %.0f %.2f %d\n", law.rate, law.capacity, 1e3 * law.queue, (int)law.cause);
	fflush(stdout);
}

int main(void)
{
	struct __sk_buff skb;
	u64 number;
	char what;

	while (input(&what, 1)) {
		if (what == 'E' || what == 'I') {
			skb = take_packet();
			skb.pkt_type = what == 'E' ? OUTGOING : 0;
			uplink(&skb);
			continue;
		}
		if (!input(&number, sizeof(number)))
			exit(2);
		if (what == 'T') {
			tick(number);
			continue;
		}
		memset(entries, 0, sizeof(entries));
		memset(seen, 0, sizeof(seen));
		memset(told, 0, sizeof(told));
		uplink_law_begin(&law, 1e5, 1e10, number);
	}
	return 0;
}
