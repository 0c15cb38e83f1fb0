// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The sample is the stack's. refused: only read is supported */
#include "refused.h"

HOOK(pkts_acked, struct ack_sample *sample) { sample->rtt_us = 1; }
OPS(.pkts_acked = (void *)refused_pkts_acked,);
