// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/fib_rules.h>

#include "kernel/netlink.h"
#include "kernel/route_lookup.h"
#include "kernel/route_message.h"

#define TOS_MASK 0xfc /* without ECN's bits */
#define WAYS_MAX 4096 /* addresses of one prefix that are asked for */

static int take(const struct nlmsghdr *h, void *ctx)
{
	struct nlmsghdr **to = ctx;

	free(*to);
	*to = malloc(h->nlmsg_len);
	if (!*to)
		return -ENOMEM;
	memcpy(*to, h, h->nlmsg_len);
	return 0;
}

/* A connection's socket has these beside its ends. */
static void add_socket(struct request *q, const struct connection *c)
{
	q->r.rtm_tos = c->tos & TOS_MASK;
	request_add(q, RTA_SPORT, &c->port, sizeof(c->port));
	request_add(q, RTA_DPORT, &c->peer_port, sizeof(c->peer_port));
	request_add(q, RTA_UID, &c->uid, sizeof(c->uid));
	if (c->mark)
		request_add(q, RTA_MARK, &c->mark, sizeof(c->mark));
	if (c->device)
		request_add(q, RTA_OIF, &c->device, sizeof(c->device));
}

/*
 * The answer for an address: the way that a packet from `src` (NULL: not known yet) takes, or of that the FIB's route;
 * `c`: a packet of that connection, NULL: of a plain socket.
 */
static int
ask(int family, const void *addr, const void *src, __u32 flags, const struct connection *c, struct nlmsghdr **answer)
{
	const __u8 tcp = IPPROTO_TCP;
	struct request *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	request_begin(q, RTM_GETROUTE, 0);
	q->r.rtm_family = family;
	q->r.rtm_dst_len = address_bits(family);
	q->r.rtm_flags = flags;
	request_add(q, RTA_DST, addr, address_bits(family) / 8);
	request_add(q, RTA_IP_PROTO, &tcp, sizeof(tcp));
	if (src) {
		q->r.rtm_src_len = address_bits(family);
		request_add(q, RTA_SRC, src, address_bits(family) / 8);
	}
	if (c)
		add_socket(q, c);
	err = request_send(q, take, answer);
	free(q);
	if (err)
		return err;
	if (!*answer)
		return -ENETUNREACH;
	return rtm(*answer)->rtm_family == family ? 0 : -EBADMSG;
}

static bool is_in(const unsigned char *addr, const unsigned char *prefix, unsigned int len)
{
	for (unsigned int i = 0; i < len; i++)
		if ((addr[i / 8] ^ prefix[i / 8]) & (0x80 >> i % 8))
			return false;
	return true;
}

bool prefix_has(const struct prefix *p, const unsigned char *addr)
{
	return is_in(addr, p->addr, p->len);
}

/* The FIB's route for an address. */
static int
ask_route(int family, const unsigned char *addr, const void *src, const struct connection *c, struct nlmsghdr **answer)
{
	int err = ask(family, addr, src, RTM_F_FIB_MATCH | RTM_F_LOOKUP_TABLE, c, answer), len;
	const unsigned char *dst;

	if (err)
		return err;
	dst = route_dst(*answer);
	len = rtm(*answer)->rtm_dst_len;
	if (len > (dst ? (int)address_bits(family) : 0))
		return -EBADMSG;
	return is_in(addr, dst, len) ? 0 : -ENETUNREACH;
}

/* The route that a connection to the address takes: as connect() does, asked again with the source that came out of it. */
static int ask_as_connect(int family, const unsigned char *addr, struct nlmsghdr **answer)
{
	struct nlmsghdr *way = NULL;
	const struct rtattr *src;
	int err = ask(family, addr, NULL, 0, NULL, &way);

	if (!err) {
		src = route_attr(way, RTA_PREFSRC, address_bits(family) / 8);
		err = ask_route(family, addr, src ? RTA_DATA(src) : NULL, NULL, answer);
	}
	free(way);
	return err;
}

int route_of(const struct connection *c, struct route *r)
{
	int err;

	*r = (struct route){ .alone = true };
	err = ask_route(c->family, c->peer, c->local, c, &r->message);
	if (!err)
		route_read(r);
	free(r->message);
	r->message = NULL;
	return err;
}

/* The first address beyond `len` bits of this one; false: it was the last. */
static bool step_over(unsigned char *addr, int family, unsigned int len)
{
	for (unsigned int i = len; i < address_bits(family); i++)
		addr[i / 8] &= ~(0x80 >> i % 8);
	while (len--) {
		addr[len / 8] ^= 0x80 >> len % 8;
		if (addr[len / 8] & (0x80 >> len % 8))
			return true;
	}
	return false;
}

/* Connections go to 1.0.0.0 to 223.255.255.255, and of all of IPv6 to 2000::/3. */
static void first_of(const struct prefix *p, unsigned char addr[16])
{
	memcpy(addr, p->addr, sizeof(p->addr));
	if (p->family == AF_INET && p->len < 8 && !addr[0])
		addr[0] = 1;
	else if (p->family == AF_INET6 && p->len < 3 && !addr[0])
		addr[0] = 0x20;
}

static bool is_beyond(const struct prefix *p, const unsigned char *addr)
{
	if (!is_in(addr, p->addr, p->len))
		return true;
	return p->family == AF_INET ? addr[0] >= 224 && p->addr[0] < 224 : p->len < 3 && addr[0] >= 0x40 && !p->addr[0];
}

int route_find(const struct prefix *p, struct route *r)
{
	unsigned char addr[16];
	int err = -ENOTUNIQ;

	*r = (struct route){ .alone = true };
	first_of(p, addr);
	for (int i = 0; i < WAYS_MAX; i++) {
		err = ask_as_connect(p->family, addr, &r->message);
		if (err || rtm(r->message)->rtm_dst_len <= p->len)
			break;
		err = -ENOTUNIQ; /* a longer route has the address: what has the next? */
		if (!step_over(addr, p->family, rtm(r->message)->rtm_dst_len) || is_beyond(p, addr))
			break;
	}
	if (!err && rtm(r->message)->rtm_type != RTN_UNICAST)
		err = -ENETUNREACH;
	if (r->message)
		route_read(r);
	if (!err)
		return 0;
	free(r->message);
	r->message = NULL;
	return err;
}

/* A question to rules: do they hide routes as short as `lo` of the table, and not those of `hi`? */
struct hiding {
	__u32 table;
	int lo, hi;
	bool found;
};

static int see_rule(const struct nlmsghdr *h, void *ctx)
{
	const struct fib_rule_hdr *rule = NLMSG_DATA(h);
	const char *attrs = (const char *)rule + NLMSG_ALIGN(sizeof(*rule));
	size_t size = h->nlmsg_len - NLMSG_LENGTH(sizeof(*rule));
	const struct rtattr *table = netlink_attr(attrs, size, FRA_TABLE, sizeof(__u32));
	const struct rtattr *hidden = netlink_attr(attrs, size, FRA_SUPPRESS_PREFIXLEN, sizeof(__u32));
	struct hiding *s = ctx;
	int len = hidden ? *(int *)RTA_DATA(hidden) : -1;

	if ((table ? *(__u32 *)RTA_DATA(table) : rule->table) == s->table)
		s->found |= len >= s->lo && len < s->hi;
	return 0;
}

int route_check_like(const struct prefix *p, const struct route *like)
{
	const struct rtmsg *r = rtm(like->message);
	struct hiding s = { .table = route_table(like), .lo = r->rtm_dst_len, .hi = p->len };
	struct request *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	request_begin(q, RTM_GETRULE, NLM_F_DUMP);
	q->r.rtm_family = p->family;
	err = request_send(q, see_rule, &s);
	free(q);
	if (err == -EOPNOTSUPP || err == -EAFNOSUPPORT) /* this kernel has no rules */
		err = 0;
	if (err)
		return err;
	return s.found ? -EXDEV : r->rtm_src_len ? -EMEDIUMTYPE : 0;
}
