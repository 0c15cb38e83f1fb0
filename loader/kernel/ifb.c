// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/tc_act/tc_mirred.h>

#include "kernel/device.h"
#include "kernel/ifb.h"
#include "kernel/netlink.h"

#define KIND "ifb"
#define CLSACT "clsact"
#define MATCHALL "matchall"
#define MIRRED "mirred"
#define PRIORITY 12 /* behind the thinning's filters */
#define PARENT TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)

/* A request about a link, a qdisc or a filter. */
struct request {
	struct nlmsghdr h;
	union {
		struct ifinfomsg link;
		struct tcmsg tc;
	};
	char attrs[256];
};

static struct rtattr *add(struct request *q, int type, const void *data, size_t size)
{
	return netlink_add(&q->h, sizeof(*q), type, data, size);
}

static struct rtattr *nest(struct request *q, int type)
{
	return add(q, type | NLA_F_NESTED, NULL, 0);
}

static void begin_link(struct request *q, int type, int flags, unsigned int ifb)
{
	*q = (struct request){
		.h = { .nlmsg_len = NLMSG_LENGTH(sizeof(q->link)),
		       .nlmsg_type = type,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags },
		.link = { .ifi_family = AF_UNSPEC, .ifi_index = ifb },
	};
}

static void begin_tc(struct request *q, int type, int flags, unsigned int index, __u32 parent)
{
	*q = (struct request){
		.h = { .nlmsg_len = NLMSG_LENGTH(sizeof(q->tc)),
		       .nlmsg_type = type,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags },
		.tc = { .tcm_family = AF_UNSPEC, .tcm_ifindex = index, .tcm_parent = parent },
	};
}

static int tell(struct request *q)
{
	int fd = netlink_open(NETLINK_ROUTE),
	    err = fd < 0 ? fd : netlink_ask(fd, &q->h, &(struct answer){ NLMSG_ERROR, 0, NULL, NULL });

	if (fd >= 0)
		close(fd);
	return err;
}

static const char *name_of(unsigned int index)
{
	static char name[IF_NAMESIZE];

	snprintf(name, sizeof(name), "asymcc-%x", index);
	return name;
}

unsigned int ifb_of(unsigned int index)
{
	return if_nametoindex(name_of(index));
}

static int make_link(const char *name)
{
	struct rtattr *info;
	struct request q;

	begin_link(&q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	q.link.ifi_flags = q.link.ifi_change = IFF_UP;
	add(&q, IFLA_IFNAME, name, strlen(name) + 1);
	info = nest(&q, IFLA_LINKINFO);
	add(&q, IFLA_INFO_KIND, KIND, sizeof(KIND));
	netlink_nest_end(&q.h, info);
	return tell(&q);
}

/* There may be one already, of somebody's. */
static int make_qdisc(unsigned int index)
{
	struct request q;
	int err;

	begin_tc(&q, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, index, TC_H_CLSACT);
	q.tc.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
	add(&q, TCA_KIND, CLSACT, sizeof(CLSACT));
	err = tell(&q);
	return err == -EEXIST ? 0 : err;
}

static void name_filter(struct request *q)
{
	q->tc.tcm_info = TC_H_MAKE(PRIORITY << 16, htons(ETH_P_ALL));
	add(q, TCA_KIND, MATCHALL, sizeof(MATCHALL));
}

static int make_filter(unsigned int index, unsigned int ifb)
{
	const struct tc_mirred redirect = { .action = TC_ACT_STOLEN, .eaction = TCA_EGRESS_REDIR, .ifindex = ifb };
	struct rtattr *options, *actions, *first, *values;
	struct request q;

	begin_tc(&q, RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, index, PARENT);
	name_filter(&q);
	options = nest(&q, TCA_OPTIONS);
	actions = nest(&q, TCA_MATCHALL_ACT);
	first = nest(&q, 1);
	add(&q, TCA_ACT_KIND, MIRRED, sizeof(MIRRED));
	values = nest(&q, TCA_ACT_OPTIONS);
	add(&q, TCA_MIRRED_PARMS, &redirect, sizeof(redirect));
	netlink_nest_end(&q.h, values);
	netlink_nest_end(&q.h, first);
	netlink_nest_end(&q.h, actions);
	netlink_nest_end(&q.h, options);
	return tell(&q);
}

static int note_filter(const struct nlmsghdr *h, void *ctx)
{
	(void)h;
	*(bool *)ctx = true;
	return 0;
}

static int note_qdisc(const struct nlmsghdr *h, void *ctx)
{
	const struct tcmsg *t = NLMSG_DATA(h);
	struct tcmsg *wanted = ctx;

	if (t->tcm_ifindex == wanted->tcm_ifindex && t->tcm_parent == TC_H_INGRESS)
		wanted->tcm_handle = t->tcm_handle;
	return 0;
}

static int dump(struct request *q, const struct answer *a)
{
	int fd = netlink_open(NETLINK_ROUTE), err = fd < 0 ? fd : netlink_ask(fd, &q->h, a);

	if (fd >= 0)
		close(fd);
	return err;
}

int ingress_look(unsigned int index, bool *qdisc, bool *filters)
{
	struct tcmsg there = { .tcm_ifindex = index };
	struct request q;
	int err;

	*qdisc = *filters = false;
	begin_tc(&q, RTM_GETQDISC, NLM_F_DUMP, index, 0);
	err = dump(&q, &(struct answer){ RTM_NEWQDISC, sizeof(struct tcmsg), note_qdisc, &there });
	*qdisc = there.tcm_handle;
	if (err || !*qdisc)
		return err;
	begin_tc(&q, RTM_GETTFILTER, NLM_F_DUMP, index, PARENT);
	return dump(&q, &(struct answer){ RTM_NEWTFILTER, sizeof(struct tcmsg), note_filter, filters });
}

static int error_of(int err)
{
	return err == -EOPNOTSUPP ? -ENOENT : err;
}

int ifb_make(unsigned int index, unsigned int *ifb)
{
	int err = make_link(name_of(index));

	*ifb = err ? 0 : ifb_of(index);
	return error_of(err);
}

int ifb_lead(unsigned int index, unsigned int ifb)
{
	int err = make_qdisc(index);

	return error_of(err ? err : make_filter(index, ifb));
}

/* The filter goes first: what has nowhere to go is dropped. */
int ifb_remove(unsigned int index, bool qdisc)
{
	struct request q;
	int err;

	begin_tc(&q, RTM_DELTFILTER, 0, index, PARENT);
	name_filter(&q);
	err = tell(&q);
	if (err && err != -ENOENT && err != -EINVAL && err != -ENODEV)
		return err;
	if (qdisc)
		device_drop_clsact(index);
	begin_link(&q, RTM_DELLINK, 0, ifb_of(index));
	return q.link.ifi_index ? tell(&q) : 0;
}
