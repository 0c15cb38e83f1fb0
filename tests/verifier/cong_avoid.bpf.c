// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The private state by an index that the peer chooses. refused: variable .*access.*disallowed|unbounded|R[0-9].*var_off */
#define OWN_cong_avoid
#include "refused.h"

HOOK(cong_avoid, u32 ack, u32 acked) { ((u64 *)inet_csk_ca(sk))[acked & 7] = 1; }
OPS();
