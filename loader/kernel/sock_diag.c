// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sock_diag.h>

#include "kernel/sock_diag.h"
#include "kernel/netlink.h"

const struct rtattr *flow_attr(const struct inet_diag_msg *m, size_t len, int type)
{
	return netlink_attr(m + 1, len - sizeof(*m), type, 0);
}

const char *flow_controller(const struct inet_diag_msg *m, size_t len)
{
	const struct rtattr *a = flow_attr(m, len, INET_DIAG_CONG);

	return a && memchr(RTA_DATA(a), 0, RTA_PAYLOAD(a)) ? RTA_DATA(a) : NULL;
}

void connection_read(struct connection *c, const struct inet_diag_msg *m, size_t len)
{
	const struct inet_diag_sockid *id = &m->id;
	bool v6 = m->idiag_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)id->idiag_dst);
	int first = m->idiag_family == AF_INET6 && !v6 ? 3 : 0;
	const struct rtattr *mark = netlink_attr(m + 1, len - sizeof(*m), INET_DIAG_MARK, sizeof(__u32));
	const struct rtattr *tos =
		netlink_attr(m + 1, len - sizeof(*m), v6 ? INET_DIAG_TCLASS : INET_DIAG_TOS, sizeof(__u8));

	*c = (struct connection){
		.cookie = (__u64)id->idiag_cookie[1] << 32 | id->idiag_cookie[0],
		.family = v6 ? AF_INET6 : AF_INET,
		.port = id->idiag_sport,
		.peer_port = id->idiag_dport,
		.device = id->idiag_if,
		.mark = mark ? *(__u32 *)RTA_DATA(mark) : 0,
		.uid = m->idiag_uid,
		.tos = tos ? *(__u8 *)RTA_DATA(tos) : 0,
	};
	memcpy(c->local, &id->idiag_src[first], v6 ? 16 : 4);
	memcpy(c->peer, &id->idiag_dst[first], v6 ? 16 : 4);
}

struct watcher {
	int (*seen)(const struct inet_diag_msg *m, size_t len, void *ctx);
	void *ctx;
};

static int tell(const struct nlmsghdr *h, void *ctx)
{
	const struct watcher *w = ctx;

	return w->seen(NLMSG_DATA(h), h->nlmsg_len - NLMSG_HDRLEN, w->ctx);
}

static int each_of(int fd, int family, __u32 states, __u8 ext, struct watcher *w)
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
	const struct answer answer = { SOCK_DIAG_BY_FAMILY, sizeof(struct inet_diag_msg), tell, w };

	return netlink_ask(fd, &req.h, &answer);
}

int flows_each(__u32 states, __u8 ext, int (*seen)(const struct inet_diag_msg *m, size_t len, void *ctx), void *ctx)
{
	struct watcher w = { seen, ctx };
	int err, fd = netlink_open(NETLINK_SOCK_DIAG);

	if (fd < 0)
		return fd;
	err = each_of(fd, AF_INET, states, ext, &w);
	if (!err)
		err = each_of(fd, AF_INET6, states, ext, &w);
	close(fd);
	return err;
}
