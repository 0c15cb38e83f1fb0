/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages about routes and rules, to the kernel and from it. */
#ifndef ROUTE_MESSAGE_H
#define ROUTE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/rtnetlink.h>

#define ATTRS_MAX 65536

/* A message that is being made. */
struct request {
	struct nlmsghdr h;
	struct rtmsg r;
	char attrs[ATTRS_MAX];
};

static inline struct rtmsg *rtm(const struct nlmsghdr *h)
{
	return NLMSG_DATA(h);
}

/* It is netlink_attr() for a route's message. */
const struct rtattr *route_attr(const struct nlmsghdr *h, int type, size_t least);

void request_begin(struct request *q, int type, int flags);
/* It is netlink_add(). */
struct rtattr *request_add(struct request *q, int type, const void *data, size_t size);
/* A socket to read routes by. -errno */
int routes_open(void);
/* -errno */
int request_ask(int fd, struct request *q, int (*seen)(const struct nlmsghdr *h, void *ctx), void *ctx);
/* The same, by a socket of its own. */
int request_send(struct request *q, int (*seen)(const struct nlmsghdr *h, void *ctx), void *ctx);

#endif
