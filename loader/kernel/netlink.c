// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "kernel/netlink.h"

#define BUFFER 65536
#define ATTR_MAX 0xffff /* bytes, with its head */
#define ANSWER_S 5 /* the kernel answers within send() and recv(): what takes longer was lost */

static time_t till; /* CLOCK_MONOTONIC, s; 0: no limit */
static __u32 seq;

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

void netlink_limit(unsigned int seconds)
{
	till = seconds ? now() + seconds : 0;
}

static bool late(void)
{
	return till && now() > till;
}

int netlink_open(int protocol)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	const struct timeval patience = { .tv_sec = ANSWER_S };
	int err, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	/* whoever is not the one we are connected to is refused: nobody can fill our buffer */
	if (fd >= 0 && !connect(fd, (const void *)&kernel, sizeof(kernel)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return fd;
	err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* The kernel's error at the end of a dump, or to a request. */
static int outcome(const struct nlmsghdr *h)
{
	int err = 0;

	if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(err)))
		memcpy(&err, NLMSG_DATA(h), sizeof(err));
	else if (h->nlmsg_type == NLMSG_ERROR)
		return -EBADMSG;
	return err > 0 ? -EBADMSG : err;
}

int netlink_parse(
	const void *buf, size_t size, const struct nlmsghdr *request, const struct answer *a, bool *last, bool *torn)
{
	const struct nlmsghdr *h = buf;
	int err = 0, left = size;

	for (; !*last && !err && NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_seq != request->nlmsg_seq || h->nlmsg_pid != request->nlmsg_pid)
			continue;
		*torn |= h->nlmsg_flags & NLM_F_DUMP_INTR;
		*last = h->nlmsg_type == NLMSG_DONE || !(h->nlmsg_flags & NLM_F_MULTI);
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
			err = outcome(h);
		else if (h->nlmsg_type != a->type || h->nlmsg_len < NLMSG_LENGTH(a->head))
			err = -EBADMSG;
		else if (a->seen)
			err = a->seen(h, a->ctx);
	}
	return err;
}

int netlink_ask(int fd, struct nlmsghdr *request, const struct answer *a)
{
	static char buf[BUFFER] __attribute__((aligned(8)));
	struct sockaddr_nl from = {};
	socklen_t len = sizeof(from);
	bool last = false, torn = false;
	int err = 0;

	if (getsockname(fd, (void *)&from, &len))
		return -errno;
	if (late())
		return -ETIME;
	if (request->nlmsg_len < NLMSG_HDRLEN)
		return -EMSGSIZE;
	request->nlmsg_pid = from.nl_pid;
	request->nlmsg_seq = ++seq;
	if (send(fd, request, request->nlmsg_len, 0) < 0)
		return -errno;
	while (!last && !err) {
		ssize_t size;

		len = sizeof(from);
		size = recvfrom(fd, buf, sizeof(buf), MSG_TRUNC, (void *)&from, &len);
		if (size < 0)
			err = -errno;
		else if (len != sizeof(from) || from.nl_pid)
			; /* sent before we were connected */
		else if ((size_t)size > sizeof(buf))
			err = -EMSGSIZE;
		else
			err = netlink_parse(buf, size, request, a, &last, &torn);
		if (!last && !err && late())
			err = -ETIME;
	}
	return !err && torn ? -EINTR : err;
}

const char *netlink_error(int err)
{
	switch (-err) {
	case EINTR:
		return "what is there changes all the time";
	case ETIME:
		return "there is too much to be read in time";
	case EAGAIN:
		return "the kernel does not answer";
	default:
		return strerror(-err);
	}
}

struct rtattr *netlink_add(struct nlmsghdr *h, size_t room, int type, const void *data, size_t size)
{
	size_t begin = NLMSG_ALIGN(h->nlmsg_len);
	struct rtattr *a = (void *)((char *)h + begin);

	if (!h->nlmsg_len || size > ATTR_MAX - RTA_LENGTH(0) || begin + RTA_SPACE(size) > room) {
		h->nlmsg_len = 0;
		return NULL;
	}
	a->rta_type = type;
	a->rta_len = RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(a), data, size);
	h->nlmsg_len = begin + RTA_ALIGN(a->rta_len);
	return a;
}

bool netlink_nest_end(struct nlmsghdr *h, struct rtattr *nest)
{
	size_t size = nest && h->nlmsg_len ? (char *)h + h->nlmsg_len - (char *)nest : 0;

	if (!size || size > ATTR_MAX) {
		h->nlmsg_len = 0;
		return false;
	}
	nest->rta_len = size;
	return true;
}

const struct rtattr *netlink_attr(const void *attrs, size_t size, int type, size_t least)
{
	int left = size;

	for (const struct rtattr *a = attrs; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return RTA_PAYLOAD(a) >= least ? a : NULL;
	return NULL;
}
