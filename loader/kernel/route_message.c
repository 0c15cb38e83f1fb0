// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <unistd.h>

#include "kernel/netlink.h"
#include "kernel/route_message.h"

const struct rtattr *route_attr(const struct nlmsghdr *h, int type, size_t least)
{
	return netlink_attr(RTM_RTA(rtm(h)), RTM_PAYLOAD(h), type, least);
}

void request_begin(struct request *q, int type, int flags)
{
	q->h = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(sizeof(q->r)), .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags
	};
}

struct rtattr *request_add(struct request *q, int type, const void *data, size_t size)
{
	return netlink_add(&q->h, sizeof(*q), type, data, size);
}

/*
 * The kernel fills messages as large as we have been seen to take: the first must not be too small for a route of many
 * hops.
 */
static void show_room(int fd)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} q = {
		.h = { .nlmsg_len = sizeof(q), .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST },
		.i = { .ifi_index = 1 }, /* lo */
	};

	netlink_ask(fd, &q.h, &(struct answer){ RTM_NEWLINK, sizeof(q.i), NULL, NULL });
}

int routes_open(void)
{
	int fd = netlink_open(NETLINK_ROUTE);

	if (fd >= 0)
		show_room(fd);
	return fd;
}

int request_ask(int fd, struct request *q, int (*seen)(const struct nlmsghdr *h, void *ctx), void *ctx)
{
	int answer = q->h.nlmsg_type == RTM_GETRULE ? RTM_NEWRULE : RTM_NEWROUTE; /* their heads are as long */

	return netlink_ask(fd, &q->h, &(struct answer){ answer, sizeof(struct rtmsg), seen, ctx });
}

int request_send(struct request *q, int (*seen)(const struct nlmsghdr *h, void *ctx), void *ctx)
{
	int err, fd = q->h.nlmsg_type == RTM_GETROUTE ? routes_open() : netlink_open(NETLINK_ROUTE);

	if (fd < 0)
		return fd;
	err = request_ask(fd, q, seen, ctx);
	close(fd);
	return err;
}
