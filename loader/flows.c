// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "flows.h"

const struct rtattr *flow_attr(const struct inet_diag_msg *m, size_t len, int type)
{
	int left = len - sizeof(*m);
	const struct rtattr *a;

	for (a = (const struct rtattr *)(m + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type)
			return a;
	return NULL;
}

static int each_of(int family, __u32 states, __u8 ext,
		   int (*seen)(const struct inet_diag_msg *m, size_t len, void *ctx), void *ctx)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} req = {
		.h = {
			.nlmsg_len = sizeof(req),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.r = {
			.sdiag_family = family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = ext,
			.idiag_states = states,
		},
	};
	static char buf[65536] __attribute__((aligned(8)));
	int err = 0, fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	bool done = false;

	if (fd < 0 || send(fd, &req, sizeof(req), 0) < 0)
		err = -errno;
	while (!done && !err) {
		ssize_t len = recv(fd, buf, sizeof(buf), 0);
		const struct nlmsghdr *h = (const void *)buf;

		if (len <= 0) {
			err = len ? -errno : -EIO;
			break;
		}
		for (; !done && !err && NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			done = h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR;
			if (h->nlmsg_type == NLMSG_ERROR)
				err = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			else if (!done)
				err = seen(NLMSG_DATA(h), h->nlmsg_len - NLMSG_HDRLEN, ctx);
		}
	}
	if (fd >= 0)
		close(fd);
	return err;
}

int flows_each(__u32 states, __u8 ext, int (*seen)(const struct inet_diag_msg *m, size_t len, void *ctx), void *ctx)
{
	int err = each_of(AF_INET, states, ext, seen, ctx);

	return err ? err : each_of(AF_INET6, states, ext, seen, ctx);
}
