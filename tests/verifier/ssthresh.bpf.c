// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Half in, half beyond the private state. refused: beyond the member of tcp_sock|no write support to tcp_sock */
#define OWN_ssthresh
#include "refused.h"

HOOK32(ssthresh)
{
	*(u64 *)((char *)inet_csk_ca(sk) + CA_PRIV_BYTES - 4) = 1;
	return 2;
}
OPS();
