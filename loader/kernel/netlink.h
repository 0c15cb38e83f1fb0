/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Questions to the kernel by netlink, in the namespace the thread is in. Its owner may be anybody, who may send to our
 * sockets: the kernel alone is heard, and no length is believed.
 */
#ifndef NETLINK_H
#define NETLINK_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

/* A socket that the kernel alone can send to, or -errno. */
int netlink_open(int protocol);

/*
 * An answer has messages of one type, that begin with a head of that size; -EBADMSG if it has others.
 */
struct answer {
	int type;
	size_t head;
	/* may tell an error to end it; NULL: what comes is of no interest */
	int (*seen)(const struct nlmsghdr *h, void *ctx);
	void *ctx;
};

/* Returns 0 or -errno: -EINTR if what is told changed meanwhile, -ETIME after netlink_limit(). */
int netlink_ask(int fd, struct nlmsghdr *request, const struct answer *a);

/* The messages in a buffer. `last`: the answer is complete; `torn`: what it tells changed meanwhile. */
int netlink_parse(
	const void *buf, size_t size, const struct nlmsghdr *request, const struct answer *a, bool *last, bool *torn);

/* Questions that are asked more than so many seconds from now, or take as long, are given up; 0: none is. */
void netlink_limit(unsigned int seconds);

/* It is strerror(), but in words of what was asked. */
const char *netlink_error(int err);

/*
 * Appends an attribute to a message that has room for `room` bytes with its head. NULL: it has none; then the message loses its length,
 * takes no more, and netlink_ask() tells -EMSGSIZE.
 */
struct rtattr *netlink_add(struct nlmsghdr *h, size_t room, int type, const void *data, size_t size);
/* The attributes that were added behind `nest` are its own. false: they are too much, or `nest` is NULL, as above. */
bool netlink_nest_end(struct nlmsghdr *h, struct rtattr *nest);

/* Among `size` bytes, the attribute of that type with a payload of `least` bytes or more; NULL: there is none. */
const struct rtattr *netlink_attr(const void *attrs, size_t size, int type, size_t least);

#endif
