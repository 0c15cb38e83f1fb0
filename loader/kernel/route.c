// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/netlink.h"
#include "kernel/route.h"
#include "kernel/route_message.h"

#define KEPT_MAX (64 << 20) /* bytes, of the routes of one namespace */
#define DEFAULT_METRIC_V6 1024
#define TICKS 100 /* USER_HZ, in which rta_cacheinfo counts */
#define DUMP_TRIES 5
#define CC_LOCK (1U << RTAX_CC_ALGO)

static __u32 number(const struct nlmsghdr *h, int type, __u32 missing)
{
	const struct rtattr *a = route_attr(h, type, sizeof(__u32));

	return a ? *(__u32 *)RTA_DATA(a) : missing;
}

const void *route_dst(const struct nlmsghdr *h)
{
	const struct rtattr *a = route_attr(h, RTA_DST, address_bits(rtm(h)->rtm_family) / 8);

	return a ? RTA_DATA(a) : NULL;
}

static void read_cc(struct route *route)
{
	const struct rtattr *metrics = route_attr(route->message, RTA_METRICS, 0);
	const struct rtattr *cc =
		metrics ? netlink_attr(RTA_DATA(metrics), RTA_PAYLOAD(metrics), RTAX_CC_ALGO, 0) : NULL;

	if (cc)
		snprintf(route->cc, sizeof(route->cc), "%.*s", (int)RTA_PAYLOAD(cc), (char *)RTA_DATA(cc));
}

static __u32 table_of(const struct nlmsghdr *h)
{
	return number(h, RTA_TABLE, rtm(h)->rtm_table);
}

static int print_prefix(char text[ROUTE_TEXT], int family, const void *dst, unsigned int len)
{
	char addr[INET6_ADDRSTRLEN];

	if (!dst)
		return snprintf(text, ROUTE_TEXT, family == AF_INET ? "default" : "::/0");
	inet_ntop(family, dst, addr, sizeof(addr));
	return snprintf(text, ROUTE_TEXT, "%s/%u", addr, len);
}

bool route_text_is_to(const char *text, const struct prefix *p)
{
	char prefix[ROUTE_TEXT];
	size_t n;

	print_prefix(prefix, p->family, p->len ? p->addr : NULL, p->len);
	n = strlen(prefix);
	return !strncmp(text, prefix, n) && (!text[n] || text[n] == ' ');
}

__u32 route_table(const struct route *r)
{
	return table_of(r->message);
}

static void write_text(struct route *route)
{
	const struct rtmsg *r = rtm(route->message);
	__u32 table = table_of(route->message);
	__u32 metric = number(route->message, RTA_PRIORITY, 0),
	      usual = r->rtm_family == AF_INET ? 0 : DEFAULT_METRIC_V6;
	int n = print_prefix(route->text, r->rtm_family, route_dst(route->message), r->rtm_dst_len);

	if (table != RT_TABLE_MAIN)
		n += snprintf(route->text + n, sizeof(route->text) - n, " table %u", table);
	if (metric != usual)
		n += snprintf(route->text + n, sizeof(route->text) - n, " metric %u", metric);
	if (r->rtm_tos)
		snprintf(route->text + n, sizeof(route->text) - n, " tos 0x%02x", r->rtm_tos);
}

void route_read(struct route *r)
{
	read_cc(r);
	write_text(r);
}

bool route_is_to(const struct route *r, const struct prefix *p)
{
	const void *dst = route_dst(r->message);

	if (rtm(r->message)->rtm_dst_len != p->len)
		return false;
	return dst ? !memcmp(dst, p->addr, address_bits(p->family) / 8) : !p->len;
}

/* The kernel tells routes apart by this when it replaces one; without padding. */
struct key {
	__u32 table, metric, len, tos;
	__u8 dst[16];
};

static struct key key_of(const struct nlmsghdr *h)
{
	const struct rtmsg *r = rtm(h);
	const void *dst = route_dst(h);
	struct key k = { table_of(h), number(h, RTA_PRIORITY, 0), r->rtm_dst_len, r->rtm_tos, {} };

	if (dst)
		memcpy(k.dst, dst, address_bits(r->rtm_family) / 8);
	return k;
}

/* A dump of one family. */
struct reading {
	struct routes *routes;
	const struct prefix *only;
	int family;
	struct key last;  /* of the route before, as those of one key follow one another */
	bool any, kept;   /* there was one; it is the last of `routes` */
	size_t size;
};

static int keep(const struct nlmsghdr *h, void *ctx)
{
	const struct rtmsg *r = rtm(h);
	struct route route = {}, *room;
	struct reading *d = ctx;
	struct routes *l = d->routes;
	struct key key;

	if (r->rtm_family != d->family || r->rtm_type != RTN_UNICAST || r->rtm_flags & RTM_F_CLONED)
		return 0;
	key = key_of(h);
	route.alone = !d->any || memcmp(&key, &d->last, sizeof(key));
	if (!route.alone && d->kept)
		l->route[l->nr - 1].alone = false;
	d->any = true;
	d->kept = false;
	d->last = key;
	route.message = (void *)h;
	if (d->only && !route_is_to(&route, d->only))
		return 0;
	read_cc(&route);
	if (!d->only && !*route.cc && r->rtm_protocol != RTPROT_ASYMCC)
		return 0;
	d->size += h->nlmsg_len;
	if (d->size > KEPT_MAX)
		return -ENOBUFS;
	room = realloc(l->route, (l->nr + 1) * sizeof(*room));
	if (!room)
		return -ENOMEM;
	l->route = room;
	route.message = malloc(h->nlmsg_len);
	if (!route.message)
		return -ENOMEM;
	memcpy(route.message, h, h->nlmsg_len);
	write_text(&route);
	room[l->nr++] = route;
	d->kept = true;
	return 0;
}

/* The routes of one family. Those that change meanwhile may be told twice or not at all: then anew. */
static int dump(int fd, struct request *q, struct routes *r, const struct prefix *only, int family)
{
	int err = -EINTR, nr = r->nr;

	for (int i = 0; err == -EINTR && i < DUMP_TRIES; i++) {
		struct reading d = { .routes = r, .only = only, .family = family };

		routes_cut(r, nr);
		memset(q, 0, sizeof(*q));
		request_begin(q, RTM_GETROUTE, NLM_F_DUMP);
		q->r.rtm_family = family;
		err = request_ask(fd, q, keep, &d);
	}
	return err == -EOPNOTSUPP || err == -EAFNOSUPPORT ? 0 : err; /* no IPv6 here */
}

int routes_get(struct routes *r, const struct prefix *only)
{
	static const int both[] = { AF_INET, AF_INET6 };
	struct request *q = calloc(1, sizeof(*q));
	int fd = q ? routes_open() : -ENOMEM, err = fd < 0 ? fd : 0;

	memset(r, 0, sizeof(*r));
	for (int i = 0; !err && i < 2; i++)
		if (!only || both[i] == only->family)
			err = dump(fd, q, r, only, both[i]);
	if (fd >= 0)
		close(fd);
	free(q);
	if (err)
		routes_free(r);
	return err;
}

int routes_read(struct routes *r, const struct prefix *only)
{
	int err = routes_get(r, only);

	return err ? fail("cannot read the routes: %s", netlink_error(err)) : 0;
}

void routes_cut(struct routes *r, int nr)
{
	while (r->nr > nr)
		free(r->route[--r->nr].message);
}

void routes_keep_table(struct routes *r, __u32 table)
{
	int nr = 0;

	for (int i = 0; i < r->nr; i++) {
		if (route_table(&r->route[i]) == table)
			r->route[nr++] = r->route[i];
		else
			free(r->route[i].message);
	}
	r->nr = nr;
}

void routes_free(struct routes *r)
{
	routes_cut(r, 0);
	free(r->route);
	memset(r, 0, sizeof(*r));
}

bool route_is_ours(const struct route *r)
{
	return rtm(r->message)->rtm_protocol == RTPROT_ASYMCC;
}

bool route_is_advertised(const struct route *r)
{
	return rtm(r->message)->rtm_protocol == RTPROT_RA;
}

/* The route's metrics, but for the controller, and then that. */
static void add_metrics(struct request *q, const struct rtattr *old, const char *cc)
{
	struct rtattr *nest = request_add(q, RTA_METRICS, NULL, 0);
	int left = old ? RTA_PAYLOAD(old) : 0;

	for (const struct rtattr *a = old ? RTA_DATA(old) : NULL; a && RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type != RTAX_CC_ALGO)
			request_add(q, a->rta_type, RTA_DATA(a), RTA_PAYLOAD(a));
	if (cc)
		request_add(q, RTAX_CC_ALGO, cc, strlen(cc) + 1);
	if (netlink_nest_end(&q->h, nest) && nest->rta_len == RTA_LENGTH(0))
		q->h.nlmsg_len -= RTA_LENGTH(0);
}

/* `congctl lock` is of a controller: where there was none, or will be none, no lock stays. */
static void clear_lock(struct nlmsghdr *h)
{
	const struct rtattr *metrics = route_attr(h, RTA_METRICS, 0);
	const struct rtattr *lock =
		metrics ? netlink_attr(RTA_DATA(metrics), RTA_PAYLOAD(metrics), RTAX_LOCK, sizeof(__u32)) : NULL;

	if (lock)
		*(__u32 *)RTA_DATA(lock) &= ~CC_LOCK;
}

/* The kernel tells a next hop's state, and does not take it back. */
static void clear_state(struct rtattr *multipath)
{
	struct rtnexthop *n = RTA_DATA(multipath);
	int left = RTA_PAYLOAD(multipath);

	for (; left >= (int)sizeof(*n) && RTNH_OK(n, left); left -= RTNH_ALIGN(n->rtnh_len), n = RTNH_NEXT(n))
		n->rtnh_flags &= RTNH_F_ONLINK | RTNH_F_PERVASIVE;
}

static bool is_hop(int type)
{
	return type == RTA_GATEWAY || type == RTA_VIA || type == RTA_OIF || type == RTA_MULTIPATH;
}

static bool is_place(int type)
{
	return type == RTA_DST || type == RTA_SRC || type == RTA_TABLE || type == RTA_PRIORITY;
}

/*
 * The attributes that the kernel told of the route, but for those that it takes in another way; `to`: without its
 * prefix, table and metric.
 */
static void add_rest(struct request *q, const struct nlmsghdr *h, bool to)
{
	bool by_object = number(h, RTA_NH_ID, 0); /* then the kernel tells the hops, and takes none */
	int left = RTM_PAYLOAD(h);

	for (const struct rtattr *a = RTM_RTA(rtm(h)); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		int type = a->rta_type & NLA_TYPE_MASK;
		struct rtattr *copy;

		if (type == RTA_METRICS || type == RTA_CACHEINFO || (by_object && is_hop(type)) ||
		    (to && is_place(type)))
			continue;
		copy = request_add(q, a->rta_type, RTA_DATA(a), RTA_PAYLOAD(a));
		if (copy && type == RTA_MULTIPATH)
			clear_state(copy);
	}
}

/* A route that ends, ends as it would have. */
static void add_end(struct request *q, const struct nlmsghdr *h)
{
	const struct rtattr *a = route_attr(h, RTA_CACHEINFO, sizeof(struct rta_cacheinfo));
	const struct rta_cacheinfo *cache = a ? RTA_DATA(a) : NULL;
	__u32 seconds;

	if (!cache || cache->rta_expires <= 0)
		return;
	seconds = ((__u32)cache->rta_expires + TICKS - 1) / TICKS; /* the kernel's most is INT_MAX */
	request_add(q, RTA_EXPIRES, &seconds, sizeof(seconds));
}

/* A change of the route as the kernel told it; `to` not NULL: another route, to that prefix and in the same table, of ours. */
static int change(const struct nlmsghdr *h, int type, int flags, const char *cc, const struct prefix *to)
{
	struct request *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	request_begin(q, type, flags | NLM_F_ACK);
	q->r = *rtm(h);
	q->r.rtm_flags &= RTNH_F_ONLINK | RTNH_F_PERVASIVE;
	if (to) {
		__u32 table = table_of(h);

		q->r.rtm_dst_len = to->len;
		q->r.rtm_protocol = RTPROT_ASYMCC;
		q->r.rtm_src_len = q->r.rtm_tos = 0;
		request_add(q, RTA_DST, to->addr, address_bits(to->family) / 8);
		request_add(q, RTA_TABLE, &table, sizeof(table));
	}
	add_rest(q, h, to);
	if (!to)
		add_end(q, h);
	add_metrics(q, route_attr(h, RTA_METRICS, 0), cc);
	err = request_send(q, NULL, NULL);
	free(q);
	return err;
}

int route_set(const struct route *r, const char *cc)
{
	if (!r->alone)
		return -EMLINK;
	if (!cc || !*r->cc)
		clear_lock(r->message);
	return change(r->message, RTM_NEWROUTE, NLM_F_REPLACE, cc, NULL);
}

int route_renew(const struct route *r, const char *cc)
{
	int err = route_delete(r);

	if (err)
		return err;
	if (!cc)
		clear_lock(r->message);
	err = change(r->message, RTM_NEWROUTE, NLM_F_CREATE, cc, NULL); /* before the others, as it was */
	return err == -EEXIST ? 0 : err;
}

int route_delete(const struct route *r)
{
	return change(r->message, RTM_DELROUTE, 0, *r->cc ? r->cc : NULL, NULL);
}

int route_make(const struct prefix *p, const struct route *like, const char *cc)
{
	if (!*like->cc)
		clear_lock(like->message);
	return change(like->message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, cc, p);
}
