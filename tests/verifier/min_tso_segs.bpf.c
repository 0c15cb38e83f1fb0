// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A write to the namespace's settings. refused: only read is supported|no write support */
#include "refused.h"

HOOK32(min_tso_segs)
{
	((struct sock___net *)sk)->__sk_common.skc_net.net->ipv4.sysctl_tcp_min_tso_segs = 1;
	return 1;
}
OPS(.min_tso_segs = (void *)refused_min_tso_segs,);
