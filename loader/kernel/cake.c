// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/pkt_sched.h>

#include "kernel/cake.h"
#include "kernel/netlink.h"

#define KIND "cake"
#define HANDLE 0xa5cc0000 /* a5cc: by it ours is known again */
#define INTERVAL 0.1      /* s, of CAKE's AQM at least, as its own */
#define TARGET 0.005      /* s, likewise */
#define TARGETS 4 /* in an RTT: CUBIC that goes back to 0.7 of its window keeps the rate by a queue of 0.43 RTT */
#define LOOPBACK 1 /* index of lo in each namespace */

/* A request about the root qdisc of a device. */
struct request {
	struct nlmsghdr h;
	struct tcmsg t;
	char attrs[256];
};

static void begin(struct request *q, int type, int flags, unsigned int index, __u32 handle)
{
	*q = (struct request){
		.h = { .nlmsg_len = NLMSG_LENGTH(sizeof(q->t)),
		       .nlmsg_type = type,
		       .nlmsg_flags = NLM_F_REQUEST | flags },
		.t = { .tcm_family = AF_UNSPEC, .tcm_ifindex = index, .tcm_handle = handle, .tcm_parent = TC_H_ROOT },
	};
}

static struct rtattr *add(struct request *q, int type, const void *data, size_t size)
{
	return netlink_add(&q->h, sizeof(*q), type, data, size);
}

static void add_rate(struct request *q, double rate, double rtt)
{
	__u64 bytes = rate / 8;
	__u32 interval = fmax(rtt, INTERVAL) * 1e6, target = fmax(rtt / TARGETS, TARGET) * 1e6;

	add(q, TCA_CAKE_BASE_RATE64, &bytes, sizeof(bytes));
	add(q, TCA_CAKE_RTT, &interval, sizeof(interval));
	add(q, TCA_CAKE_TARGET, &target, sizeof(target));
}

static int tell(int fd, struct request *q)
{
	return netlink_ask(fd, &q->h, &(struct answer){ NLMSG_ERROR, 0, NULL, NULL });
}

static int tell_once(struct request *q)
{
	int fd = netlink_open(NETLINK_ROUTE), err = fd < 0 ? fd : tell(fd, q);

	if (fd >= 0)
		close(fd);
	return err;
}

/* --- what stands there ------------------------------------------------------------------------------------------ */

struct look {
	unsigned int index;
	struct root_qdisc *q;
};

static void note_options(struct root_qdisc *q, const struct rtattr *options)
{
	const struct rtattr *a =
		!options ? NULL
			 : netlink_attr(RTA_DATA(options), RTA_PAYLOAD(options), TCA_CAKE_BASE_RATE64, sizeof(__u64));
	__u64 bytes = 0;

	if (a)
		memcpy(&bytes, RTA_DATA(a), sizeof(bytes));
	q->rate = 8.0 * bytes;
}

static int note(const struct nlmsghdr *h, void *ctx)
{
	const struct tcmsg *t = NLMSG_DATA(h);
	const void *attrs = (const char *)t + NLMSG_ALIGN(sizeof(*t));
	size_t size = h->nlmsg_len - NLMSG_SPACE(sizeof(*t));
	const struct rtattr *kind = netlink_attr(attrs, size, TCA_KIND, 1);
	const struct look *l = ctx;

	if ((unsigned int)t->tcm_ifindex != l->index || t->tcm_parent != TC_H_ROOT || !kind)
		return 0;
	*l->q = (struct root_qdisc){ .handle = t->tcm_handle };
	snprintf(l->q->kind, sizeof(l->q->kind), "%.*s", (int)RTA_PAYLOAD(kind), (const char *)RTA_DATA(kind));
	if (strcmp(l->q->kind, KIND))
		return 0;
	l->q->ours = t->tcm_handle == HANDLE;
	note_options(l->q, netlink_attr(attrs, size, TCA_OPTIONS, 0));
	return 0;
}

static int read_root(int fd, struct request *r, unsigned int index, struct root_qdisc *q)
{
	struct look l = { index, q };

	*q = (struct root_qdisc){};
	return netlink_ask(fd, &r->h, &(struct answer){ RTM_NEWQDISC, sizeof(struct tcmsg), note, &l });
}

int root_qdisc_read(unsigned int index, struct root_qdisc *q)
{
	int fd = netlink_open(NETLINK_ROUTE), err;
	struct request r;

	if (fd < 0)
		return fd;
	begin(&r, RTM_GETQDISC, NLM_F_DUMP, index, 0);
	err = read_root(fd, &r, index, q);
	close(fd);
	return err;
}

int cake_look(int fd, unsigned int index, struct root_qdisc *q)
{
	struct request r;
	int err;

	begin(&r, RTM_GETQDISC, NLM_F_ECHO, index, HANDLE);
	err = read_root(fd, &r, index, q);
	return !err && !q->ours ? -ENOENT : err;
}

/* --- ours ------------------------------------------------------------------------------------------------------- */

int cake_make(unsigned int index, double rate, double rtt, int overhead, int mpu, bool arrives)
{
	__s32 bytes = overhead;
	__u32 least = mpu, filter = arrives ? CAKE_ACK_NONE : CAKE_ACK_FILTER, ingress = arrives;
	struct rtattr *options;
	struct request q;

	begin(&q, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, index, HANDLE);
	add(&q, TCA_KIND, KIND, sizeof(KIND));
	options = add(&q, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);
	add_rate(&q, rate, rtt);
	add(&q, TCA_CAKE_OVERHEAD, &bytes, sizeof(bytes));
	add(&q, TCA_CAKE_MPU, &least, sizeof(least));
	add(&q, TCA_CAKE_ACK_FILTER, &filter, sizeof(filter));
	add(&q, TCA_CAKE_INGRESS, &ingress, sizeof(ingress));
	netlink_nest_end(&q.h, options);
	return tell_once(&q);
}

int cake_change(int fd, unsigned int index, double rate, double rtt)
{
	struct rtattr *options;
	struct request q;

	begin(&q, RTM_NEWQDISC, NLM_F_ACK, index, HANDLE);
	add(&q, TCA_KIND, KIND, sizeof(KIND));
	options = add(&q, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);
	add_rate(&q, rate, rtt);
	netlink_nest_end(&q.h, options);
	return tell(fd, &q);
}

int cake_remove(unsigned int index)
{
	struct request q;

	begin(&q, RTM_DELQDISC, NLM_F_ACK, index, HANDLE);
	return tell_once(&q);
}

int cake_there(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(unshare(CLONE_NEWNET) ? errno : -cake_make(LOOPBACK, 1e6, 0, 0, 0, false));
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EINTR;
	return WEXITSTATUS(status) == ENOENT ? 0 : WEXITSTATUS(status) ? -WEXITSTATUS(status) : 1;
}
