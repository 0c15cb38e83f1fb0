// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A number for a pointer. refused: invalid mem access '(scalar|inv)' */
#include "refused.h"

HOOK(in_ack_event, u32 flags) { *(volatile u32 *)(unsigned long)flags = 1; }
OPS(.in_ack_event = (void *)refused_in_ack_event,);
