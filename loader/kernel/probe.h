/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests for a host's time by ICMP. Nobody reads the answers here: a packet socket's filter sees them. */
#ifndef PROBE_H
#define PROBE_H

#include <netinet/in.h>

#include <linux/types.h>

/* A socket for those to the address by the device of that index, or -errno. `number`: the first, which nobody can guess. */
int probe_open(struct in_addr to, int index, __u32 *number);
/* `number` comes back in the answer. One that does not leave is missed by nobody. */
void probe_send(int fd, __u32 number);

#endif
