// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "route.h"

#define BUFFER 65536
#define DEFAULT_METRIC_V6 1024

/* A message that is being made; it has room for any that the kernel sent, and a controller's name more. */
struct request {
	struct nlmsghdr h;
	struct rtmsg r;
	char attrs[BUFFER];
};

static unsigned int bits(int family)
{
	return family == AF_INET ? 32 : 128;
}

int prefix_parse(struct prefix *p, const char *text)
{
	char addr[INET6_ADDRSTRLEN], rest;
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	unsigned int len = 0;

	memset(p, 0, sizeof(*p));
	p->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (!strcmp(text, "default"))
		return 0;
	if (n >= sizeof(addr))
		goto bad;
	memcpy(addr, text, n);
	addr[n] = 0;
	len = bits(p->family);
	if (inet_pton(p->family, addr, p->addr) != 1 || (slash && sscanf(slash + 1, "%3u%c", &len, &rest) != 1) ||
	    len > bits(p->family))
		goto bad;
	p->len = len;
	for (unsigned int i = len; i < bits(p->family); i++)
		if (p->addr[i / 8] & (0x80 >> i % 8))
			return fail("--route %s: the address has bits set beyond the first %u", text, len);
	return 0;
bad:
	return fail("--route %s: expected ADDRESS/LENGTH (198.51.100.0/24, 2001:db8::/32), or `default`", text);
}

static const struct rtattr *find(const struct nlmsghdr *h, int type)
{
	const struct rtmsg *r = NLMSG_DATA(h);
	int left = RTM_PAYLOAD(h);

	for (const struct rtattr *a = RTM_RTA(r); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

static __u32 number(const struct nlmsghdr *h, int type, __u32 missing)
{
	const struct rtattr *a = find(h, type);

	return a && RTA_PAYLOAD(a) >= sizeof(__u32) ? *(__u32 *)RTA_DATA(a) : missing;
}

static void read_cc(struct route *route)
{
	const struct rtattr *metrics = find(route->message, RTA_METRICS);
	int left = metrics ? RTA_PAYLOAD(metrics) : 0;

	for (const struct rtattr *a = metrics ? RTA_DATA(metrics) : NULL; a && RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == RTAX_CC_ALGO)
			snprintf(route->cc, sizeof(route->cc), "%.*s", (int)RTA_PAYLOAD(a), (char *)RTA_DATA(a));
}

static void write_text(struct route *route)
{
	const struct rtmsg *r = NLMSG_DATA(route->message);
	const struct rtattr *dst = find(route->message, RTA_DST);
	__u32 table = number(route->message, RTA_TABLE, r->rtm_table);
	__u32 metric = number(route->message, RTA_PRIORITY, 0), usual = r->rtm_family == AF_INET ? 0 : DEFAULT_METRIC_V6;
	char addr[INET6_ADDRSTRLEN] = "";
	int n;

	if (dst)
		inet_ntop(r->rtm_family, RTA_DATA(dst), addr, sizeof(addr));
	if (*addr)
		n = snprintf(route->text, sizeof(route->text), "%s/%u", addr, r->rtm_dst_len);
	else
		n = snprintf(route->text, sizeof(route->text), r->rtm_family == AF_INET ? "default" : "::/0");
	if (table != RT_TABLE_MAIN)
		n += snprintf(route->text + n, sizeof(route->text) - n, " table %u", table);
	if (metric != usual)
		snprintf(route->text + n, sizeof(route->text) - n, " metric %u", metric);
}

static bool is_to(const struct nlmsghdr *h, const struct prefix *p)
{
	const struct rtmsg *r = NLMSG_DATA(h);
	const struct rtattr *dst = find(h, RTA_DST);

	if (number(h, RTA_TABLE, r->rtm_table) != RT_TABLE_MAIN || r->rtm_dst_len != p->len || r->rtm_tos)
		return false;
	return dst ? !memcmp(RTA_DATA(dst), p->addr, bits(p->family) / 8) : !p->len;
}

static int keep(struct routes *l, const struct nlmsghdr *h, const struct prefix *only)
{
	const struct rtmsg *r = NLMSG_DATA(h);
	struct route route = {}, *room;

	if (h->nlmsg_type != RTM_NEWROUTE || r->rtm_type != RTN_UNICAST || r->rtm_flags & RTM_F_CLONED ||
	    (only && !is_to(h, only)))
		return 0;
	route.message = malloc(h->nlmsg_len);
	if (!route.message)
		return -ENOMEM;
	memcpy(route.message, h, h->nlmsg_len);
	read_cc(&route);
	if (!only && !*route.cc) {
		free(route.message);
		return 0;
	}
	write_text(&route);
	room = realloc(l->route, (l->nr + 1) * sizeof(*room));
	if (!room) {
		free(route.message);
		return -ENOMEM;
	}
	l->route = room;
	room[l->nr++] = route;
	return 0;
}

/* Send a request and give each message of the answer to `keep`, or the one that a `get` asked for to *answer. */
static int talk(struct request *q, struct routes *l, const struct prefix *only, struct nlmsghdr **answer)
{
	static char buf[BUFFER] __attribute__((aligned(8)));
	int err = 0, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	bool done = false;

	if (fd < 0 || send(fd, q, q->h.nlmsg_len, 0) < 0) {
		err = -errno;
		goto cleanup;
	}
	while (!done && !err) {
		ssize_t len = recv(fd, buf, sizeof(buf), MSG_TRUNC);
		const struct nlmsghdr *h = (const void *)buf;

		if (len <= 0 || len > (ssize_t)sizeof(buf)) {
			err = len < 0 ? -errno : -EIO;
			break;
		}
		for (; !done && !err && NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			done = h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR;
			if (h->nlmsg_type == NLMSG_ERROR) {
				err = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			} else if (answer && !done) {
				*answer = malloc(h->nlmsg_len);
				if (*answer)
					memcpy(*answer, h, h->nlmsg_len);
				done = true;
			} else if (l && !done) {
				err = keep(l, h, only);
			}
		}
	}
cleanup:
	if (fd >= 0)
		close(fd);
	return err;
}

static void begin(struct request *q, int type, int flags)
{
	q->h = (struct nlmsghdr){ .nlmsg_len = NLMSG_LENGTH(sizeof(q->r)), .nlmsg_type = type,
				  .nlmsg_flags = NLM_F_REQUEST | flags };
}

static struct rtattr *add(struct request *q, int type, const void *data, size_t size)
{
	struct rtattr *a = (void *)((char *)q + NLMSG_ALIGN(q->h.nlmsg_len));

	if ((char *)a + RTA_SPACE(size) > (char *)(q + 1))
		return NULL;
	a->rta_type = type;
	a->rta_len = RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(a), data, size);
	q->h.nlmsg_len = NLMSG_ALIGN(q->h.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

int routes_read(struct routes *r, const struct prefix *only)
{
	static const int both[] = { AF_INET, AF_INET6 };
	struct request *q = calloc(1, sizeof(*q));
	int err = q ? 0 : -ENOMEM;

	memset(r, 0, sizeof(*r));
	for (int i = 0; !err && i < 2; i++) {
		if (only && both[i] != only->family)
			continue;
		begin(q, RTM_GETROUTE, NLM_F_DUMP);
		q->r.rtm_family = both[i];
		err = talk(q, r, only, NULL);
		if (err == -EOPNOTSUPP || err == -EAFNOSUPPORT)
			err = 0; /* no IPv6 here */
	}
	free(q);
	return err ? fail("cannot read the routes: %s", strerror(-err)) : 0;
}

void routes_free(struct routes *r)
{
	for (int i = 0; i < r->nr; i++)
		free(r->route[i].message);
	free(r->route);
	memset(r, 0, sizeof(*r));
}

bool route_is_ours(const struct route *r)
{
	return ((struct rtmsg *)NLMSG_DATA(r->message))->rtm_protocol == RTPROT_ASYMCC;
}

/* The route's metrics, but for the controller, and then that. */
static void add_metrics(struct request *q, const struct rtattr *old, const char *cc)
{
	struct rtattr *nest = add(q, RTA_METRICS, NULL, 0);
	int left = old ? RTA_PAYLOAD(old) : 0;

	for (const struct rtattr *a = old ? RTA_DATA(old) : NULL; a && RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type != RTAX_CC_ALGO)
			add(q, a->rta_type, RTA_DATA(a), RTA_PAYLOAD(a));
	if (cc)
		add(q, RTAX_CC_ALGO, cc, strlen(cc) + 1);
	nest->rta_len = (char *)q + q->h.nlmsg_len - (char *)nest;
	if (nest->rta_len == RTA_LENGTH(0))
		q->h.nlmsg_len -= RTA_ALIGN(nest->rta_len);
}

/* What the kernel says of a next hop's state, it does not take back. */
static void clear_state(struct rtattr *multipath)
{
	struct rtnexthop *n = RTA_DATA(multipath);
	int left = RTA_PAYLOAD(multipath);

	for (; RTNH_OK(n, left); left -= RTNH_ALIGN(n->rtnh_len), n = RTNH_NEXT(n))
		n->rtnh_flags &= RTNH_F_ONLINK | RTNH_F_PERVASIVE;
}

/* A change of the route as the kernel told it. */
static int change(const struct route *r, int type, int flags, const char *cc)
{
	struct request *q = calloc(1, sizeof(*q));
	bool by_object = number(r->message, RTA_NH_ID, 0);
	int err, left = RTM_PAYLOAD(r->message);
	struct rtattr *copy;

	if (!q)
		return -ENOMEM;
	begin(q, type, flags | NLM_F_ACK);
	q->r = *(struct rtmsg *)NLMSG_DATA(r->message);
	q->r.rtm_flags &= RTNH_F_ONLINK | RTNH_F_PERVASIVE;
	for (const struct rtattr *a = RTM_RTA(NLMSG_DATA(r->message)); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		int what = a->rta_type & NLA_TYPE_MASK;

		if (what == RTA_METRICS || what == RTA_CACHEINFO ||
		    (by_object && (what == RTA_GATEWAY || what == RTA_VIA || what == RTA_OIF || what == RTA_MULTIPATH)))
			continue;
		copy = add(q, a->rta_type, RTA_DATA(a), RTA_PAYLOAD(a));
		if (copy && what == RTA_MULTIPATH)
			clear_state(copy);
	}
	add_metrics(q, find(r->message, RTA_METRICS), cc);
	err = talk(q, NULL, NULL, NULL);
	free(q);
	return err;
}

int route_set(const struct route *r, const char *cc)
{
	return change(r, RTM_NEWROUTE, NLM_F_REPLACE, cc);
}

int route_delete(const struct route *r)
{
	return change(r, RTM_DELROUTE, 0, *r->cc ? r->cc : NULL);
}

int route_make(const struct prefix *p, const char *cc)
{
	static const int taken[] = { RTA_GATEWAY, RTA_VIA, RTA_OIF };
	struct request *q = calloc(1, sizeof(*q));
	struct nlmsghdr *way = NULL;
	const struct rtattr *a;
	const struct rtmsg *r;
	int err;

	if (!q)
		return -ENOMEM;
	begin(q, RTM_GETROUTE, 0);
	q->r.rtm_family = p->family;
	q->r.rtm_dst_len = bits(p->family);
	add(q, RTA_DST, p->addr, bits(p->family) / 8);
	err = talk(q, NULL, NULL, &way);
	if (!err && !way)
		err = -ENOMEM;
	if (err)
		goto cleanup;
	r = NLMSG_DATA(way);
	if (r->rtm_type != RTN_UNICAST) {
		err = -ENETUNREACH;
		goto cleanup;
	}
	memset(q, 0, sizeof(*q));
	begin(q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK);
	q->r = (struct rtmsg){ .rtm_family = p->family, .rtm_dst_len = p->len, .rtm_table = RT_TABLE_MAIN,
			       .rtm_protocol = RTPROT_ASYMCC, .rtm_type = RTN_UNICAST, .rtm_scope = RT_SCOPE_LINK };
	add(q, RTA_DST, p->addr, bits(p->family) / 8);
	for (int i = 0; i < 3; i++) {
		a = find(way, taken[i]);
		if (!a)
			continue;
		add(q, a->rta_type, RTA_DATA(a), RTA_PAYLOAD(a));
		if (taken[i] != RTA_OIF)
			q->r.rtm_scope = RT_SCOPE_UNIVERSE;
	}
	add_metrics(q, NULL, cc);
	err = talk(q, NULL, NULL, NULL);
cleanup:
	free(way);
	free(q);
	return err;
}
