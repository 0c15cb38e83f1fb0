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
#define TICKS 100 /* USER_HZ, in which rta_cacheinfo counts */
#define DUMP_TRIES 5

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
	p->table = RT_TABLE_MAIN;
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

static __u32 table_of(const struct nlmsghdr *h)
{
	return number(h, RTA_TABLE, ((struct rtmsg *)NLMSG_DATA(h))->rtm_table);
}

static void write_text(struct route *route)
{
	const struct rtmsg *r = NLMSG_DATA(route->message);
	const struct rtattr *dst = find(route->message, RTA_DST);
	__u32 table = table_of(route->message);
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

	if (table_of(h) != p->table || r->rtm_dst_len != p->len)
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
	if (!only && !*route.cc && r->rtm_protocol != RTPROT_ASYMCC) {
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

/* What the kernel says at the end of a dump, or to a request. */
static int verdict(const struct nlmsghdr *h)
{
	if (h->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
	return NLMSG_PAYLOAD(h, 0) >= sizeof(int) ? *(int *)NLMSG_DATA(h) : 0;
}

/* Send a request on the socket; each message of the answer goes to keep(), or the first one to *answer. */
static int ask(int fd, struct request *q, struct routes *l, const struct prefix *only, struct nlmsghdr **answer)
{
	static char buf[BUFFER] __attribute__((aligned(8)));
	bool done = false, torn = false;
	int err = 0;

	if (send(fd, q, q->h.nlmsg_len, 0) < 0)
		return -errno;
	while (!done) {
		ssize_t len = recv(fd, buf, sizeof(buf), MSG_TRUNC);
		const struct nlmsghdr *h = (const void *)buf;

		if (len <= 0 || len > (ssize_t)sizeof(buf))
			return len < 0 ? -errno : -EMSGSIZE;
		for (; !done && NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			torn |= h->nlmsg_flags & NLM_F_DUMP_INTR;
			done = h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR;
			if (done) {
				err = err ? err : verdict(h);
			} else if (answer) {
				*answer = malloc(h->nlmsg_len);
				if (!*answer)
					return -ENOMEM;
				memcpy(*answer, h, h->nlmsg_len);
				done = true;
			} else if (l && !err) {
				err = keep(l, h, only);
			}
		}
	}
	return !err && torn ? -EINTR : err;
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

/* The kernel fills messages as large as we have been seen to take: the first must not be too small for a route of many hops. */
static void show_room(int fd)
{
	struct request *q = calloc(1, sizeof(*q));
	struct nlmsghdr *answer = NULL;

	if (!q)
		return;
	begin(q, RTM_GETLINK, 0);
	q->h.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg));
	((struct ifinfomsg *)NLMSG_DATA(&q->h))->ifi_index = 1; /* lo */
	ask(fd, q, NULL, NULL, &answer);
	free(answer);
	free(q);
}

static int talk(struct request *q, struct routes *l, const struct prefix *only, struct nlmsghdr **answer)
{
	int err, fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	if (l)
		show_room(fd);
	err = ask(fd, q, l, only, answer);
	close(fd);
	return err;
}

/* Of one family. Routes that change meanwhile may be told twice or not at all: then anew. */
static int dump(struct request *q, struct routes *r, const struct prefix *only, int family)
{
	int err = -EINTR, nr = r->nr;

	for (int i = 0; err == -EINTR && i < DUMP_TRIES; i++) {
		while (r->nr > nr)
			free(r->route[--r->nr].message);
		memset(q, 0, sizeof(*q));
		begin(q, RTM_GETROUTE, NLM_F_DUMP);
		q->r.rtm_family = family;
		err = talk(q, r, only, NULL);
	}
	return err == -EOPNOTSUPP || err == -EAFNOSUPPORT ? 0 : err; /* no IPv6 here */
}

int routes_read(struct routes *r, const struct prefix *only)
{
	static const int both[] = { AF_INET, AF_INET6 };
	struct request *q = calloc(1, sizeof(*q));
	int err = q ? 0 : -ENOMEM;

	memset(r, 0, sizeof(*r));
	for (int i = 0; !err && i < 2; i++)
		if (!only || both[i] == only->family)
			err = dump(q, r, only, both[i]);
	free(q);
	if (!err)
		return 0;
	routes_free(r);
	return fail("cannot read the routes: %s", strerror(-err));
}

/*
 * The kernel replaces the first route of a prefix, tos and metric, whichever was meant: is this one the only?
 * Then 1; 0 if not; -1 with a message.
 */
static int is_alone(const struct route *route)
{
	const struct rtmsg *m = NLMSG_DATA(route->message);
	const struct rtattr *dst = find(route->message, RTA_DST);
	struct prefix p = { .family = m->rtm_family, .len = m->rtm_dst_len, .table = table_of(route->message) };
	struct routes like;
	int nr = 0;

	if (dst)
		memcpy(p.addr, RTA_DATA(dst), bits(p.family) / 8);
	if (routes_read(&like, &p))
		return -1;
	for (int i = 0; i < like.nr; i++)
		nr += ((struct rtmsg *)NLMSG_DATA(like.route[i].message))->rtm_tos == m->rtm_tos &&
		      number(like.route[i].message, RTA_PRIORITY, 0) == number(route->message, RTA_PRIORITY, 0);
	routes_free(&like);
	return nr == 1;
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

/* A change of the route as the kernel told it; `to` not NULL: another route, to that prefix, of ours. */
static int change(const struct nlmsghdr *h, int type, int flags, const char *cc, const struct prefix *to)
{
	struct request *q = calloc(1, sizeof(*q));
	bool by_object = number(h, RTA_NH_ID, 0);
	const struct rtattr *cache = find(h, RTA_CACHEINFO);
	int err, left = RTM_PAYLOAD(h);
	struct rtattr *copy;

	if (!q)
		return -ENOMEM;
	begin(q, type, flags | NLM_F_ACK);
	q->r = *(struct rtmsg *)NLMSG_DATA(h);
	q->r.rtm_flags &= RTNH_F_ONLINK | RTNH_F_PERVASIVE;
	if (to) {
		q->r.rtm_dst_len = to->len;
		q->r.rtm_table = RT_TABLE_MAIN;
		q->r.rtm_protocol = RTPROT_ASYMCC;
		q->r.rtm_src_len = q->r.rtm_tos = 0;
		add(q, RTA_DST, to->addr, bits(to->family) / 8);
	}
	for (const struct rtattr *a = RTM_RTA(NLMSG_DATA(h)); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		int what = a->rta_type & NLA_TYPE_MASK;

		if (what == RTA_METRICS || what == RTA_CACHEINFO ||
		    (by_object && (what == RTA_GATEWAY || what == RTA_VIA || what == RTA_OIF || what == RTA_MULTIPATH)) ||
		    (to && (what == RTA_DST || what == RTA_SRC || what == RTA_TABLE || what == RTA_PRIORITY)))
			continue;
		copy = add(q, a->rta_type, RTA_DATA(a), RTA_PAYLOAD(a));
		if (copy && what == RTA_MULTIPATH)
			clear_state(copy);
	}
	if (cache && !to && ((struct rta_cacheinfo *)RTA_DATA(cache))->rta_expires > 0) {
		__u32 seconds = (((struct rta_cacheinfo *)RTA_DATA(cache))->rta_expires + TICKS - 1) / TICKS;

		add(q, RTA_EXPIRES, &seconds, sizeof(seconds));
	}
	add_metrics(q, find(h, RTA_METRICS), cc);
	err = talk(q, NULL, NULL, NULL);
	free(q);
	return err;
}

int route_set(const struct route *r, const char *cc)
{
	int alone = is_alone(r);

	return alone > 0 ? change(r->message, RTM_NEWROUTE, NLM_F_REPLACE, cc, NULL) : alone ? -EIO : -EMLINK;
}

int route_delete(const struct route *r)
{
	return change(r->message, RTM_DELROUTE, 0, *r->cc ? r->cc : NULL, NULL);
}

int route_make(const struct prefix *p, const char *cc)
{
	struct request *q = calloc(1, sizeof(*q));
	struct nlmsghdr *way = NULL;
	int err;

	if (!q)
		return -ENOMEM;
	begin(q, RTM_GETROUTE, 0);
	q->r.rtm_family = p->family;
	q->r.rtm_dst_len = bits(p->family);
	q->r.rtm_flags = RTM_F_FIB_MATCH; /* the route with all its attributes, not what came out of it */
	add(q, RTA_DST, p->addr, bits(p->family) / 8);
	err = talk(q, NULL, NULL, &way);
	if (!err && ((struct rtmsg *)NLMSG_DATA(way))->rtm_type != RTN_UNICAST)
		err = -ENETUNREACH;
	if (!err)
		err = change(way, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, cc, p);
	free(way);
	free(q);
	return err;
}
