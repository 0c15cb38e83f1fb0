/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One end of a connection, as `trace --flow` names it. */
#ifndef FLOW_END_H
#define FLOW_END_H

#include "tools/trace.h"

/* ADDRESS:PORT, or [ADDRESS]:PORT for IPv6. -1 with a message. */
int flow_end_parse(struct trace_flow_end *end, const char *text);

#endif
