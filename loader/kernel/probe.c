// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/icmp.h>

#include "kernel/probe.h"

int probe_open(struct in_addr to, int index, __u32 *number)
{
	const struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = to };
	const struct icmp_filter all = { ~0U }; /* no answer is kept */
	int err, fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);

	if (fd >= 0 && getrandom(number, sizeof(*number), 0) == sizeof(*number) &&
	    !setsockopt(fd, SOL_RAW, ICMP_FILTER, &all, sizeof(all)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)) &&
	    !connect(fd, (const void *)&address, sizeof(address)))
		return fd;
	err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

void probe_send(int fd, __u32 number)
{
	struct {
		struct icmphdr h;
		__be32 stamps[3];
	} p = { .h = { .type = ICMP_TIMESTAMP, .un = { .gateway = htonl(number) } } };
	const __be16 *words = (const void *)&p;
	__u32 sum = 0;

	for (size_t i = 0; i < sizeof(p) / sizeof(*words); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	p.h.checksum = ~((sum & 0xffff) + (sum >> 16));
	if (send(fd, &p, sizeof(p), 0) < 0)
		return;
}
