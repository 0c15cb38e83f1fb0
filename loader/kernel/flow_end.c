// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>

#include "kernel/flow_end.h"
#include "view/text.h"

int flow_end_parse(struct trace_flow_end *end, const char *text)
{
	char address[INET6_ADDRSTRLEN], rest;
	unsigned int port = 0;
	struct in_addr v4;
	bool good = false;

	*end = (struct trace_flow_end){};
	if (sscanf(text, "[%45[0-9a-fA-F:.]]:%5u%c", address, &port, &rest) == 2) {
		good = inet_pton(AF_INET6, address, end->address) == 1;
	} else if (sscanf(text, "%15[0-9.]:%5u%c", address, &port, &rest) == 2) {
		good = inet_pton(AF_INET, address, &v4) == 1;
		if (good)
			trace_map_v4(end, v4.s_addr);
	}
	end->port = port;
	if (good && port && port <= 65535)
		return 0;
	return fail("--flow %s: expected ADDRESS:PORT, or [ADDRESS]:PORT for IPv6", text);
}
