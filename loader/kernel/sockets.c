// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <linux/tcp.h>

#include "kernel/clock.h"
#include "kernel/sock_diag.h"
#include "kernel/process.h"
#include "kernel/sockets.h"
#include "kernel/netlink.h"
#include "kernel/netns.h"
#include "view/output.h"

#define SSTHRESH_INFINITE 0x7fffffff
#define PRINTED 10 /* of sockets that keep a controller: the rest are counted */

/* By their numbers in the kernel. */
static const char *const states[] = {
	[1] = "ESTABLISHED", [2] = "SYN_SENT",   [3] = "SYN_RECV", [4] = "FIN_WAIT1", [5] = "FIN_WAIT2",
	[7] = "CLOSE",       [8] = "CLOSE_WAIT", [9] = "LAST_ACK", [10] = "LISTEN",   [11] = "CLOSING",
};
#define NR_STATES (sizeof(states) / sizeof(states[0]))
#define LISTEN 10
/* In which data may flow or be acknowledged: ESTABLISHED, FIN_WAIT1, CLOSE_WAIT, LAST_ACK and CLOSING. */
#define FLOWING (1U << 1 | 1U << 4 | 1U << 8 | 1U << 9 | 1U << 11)

/* Kernels differ in how much of tcp_info they have: what is not there stays NAN, or 0 in `i`. */
static void measure(struct flow *f, const void *data, size_t len)
{
	double *value = f->value;
	struct tcp_info i = {};
	__u32 sent;

#define VALUE(field) (len >= offsetof(struct tcp_info, field) + sizeof(i.field) ? (double)i.field : NAN)
	memcpy(&i, data, len < sizeof(i) ? len : sizeof(i));
	sent = i.tcpi_data_segs_out;
	value[GOODPUT] = NAN;
	value[CWND] = VALUE(tcpi_snd_cwnd);
	value[SRTT] = i.tcpi_rtt ? i.tcpi_rtt / 1e6 : NAN;
	value[ACKS] = sent ? (double)(i.tcpi_segs_in - i.tcpi_data_segs_in) / sent : NAN;
	value[RETRANS] = VALUE(tcpi_total_retrans);
	value[LOST] = VALUE(tcpi_lost);
	value[SSTHRESH] = i.tcpi_snd_ssthresh < SSTHRESH_INFINITE ? VALUE(tcpi_snd_ssthresh) : NAN;
	value[PACING] = i.tcpi_pacing_rate != ~0ULL ? 8 * VALUE(tcpi_pacing_rate) : NAN;
	value[DELIVERY] = sent ? 8 * VALUE(tcpi_delivery_rate) : NAN;
	value[BYTES_ACKED] = VALUE(tcpi_bytes_acked);
	value[BYTES_RECEIVED] = VALUE(tcpi_bytes_received);
	f->segments = VALUE(tcpi_data_segs_out);
#undef VALUE
	f->sends = i.tcpi_unacked || i.tcpi_notsent_bytes;
}

static int by_cookie(const void *a, const void *b)
{
	const struct flow *x = a, *y = b;

	return (x->cookie > y->cookie) - (x->cookie < y->cookie);
}

/* A socket that was not there at the look before, or not as such a flow, has no rate yet. */
static void compare(struct flow *f, const struct flows *before)
{
	const struct flow *past = before->nr ? bsearch(f, before->at, before->nr, sizeof(*f), by_cookie) : NULL;
	double acked;

	f->seconds = f->resent = NAN;
	if (!past || f->seen <= past->seen)
		return;
	acked = f->value[BYTES_ACKED] - past->value[BYTES_ACKED];
	f->seconds = (f->seen - past->seen) / (double)NS_PER_S;
	f->resent = f->value[RETRANS] - past->value[RETRANS];
	f->value[GOODPUT] = 8 * acked / f->seconds;
	f->sends |= acked > 0;
}

/* The end of a connection as `trace --flow` takes it. */
static void end_text(char text[END_LEN], int family, const void *address, __be16 port)
{
	char a[INET6_ADDRSTRLEN] = "?";

	inet_ntop(family, address, a, sizeof(a));
	snprintf(text, END_LEN, family == AF_INET6 ? "[%s]:%d" : "%s:%d", a, ntohs(port));
}

static struct flow *add(struct flows *some)
{
	struct flow *at;

	if (some->nr == some->room) {
		at = realloc(some->at, (2 * some->room + 64) * sizeof(*at));
		if (!at)
			return NULL;
		some->at = at;
		some->room = 2 * some->room + 64;
	}
	return &some->at[some->nr++];
}

static int add_flow(const struct inet_diag_msg *m, size_t len, void *ctx)
{
	const struct rtattr *info = flow_attr(m, len, INET_DIAG_INFO);
	const char *cc = flow_controller(m, len);
	const struct rtattr *cgroup = netlink_attr(m + 1, len - sizeof(*m), INET_DIAG_CGROUP_ID, sizeof(__u64));
	struct connection c;
	struct sockets *l = ctx;
	struct flow *f;
	bool flowing;

	if (m->idiag_state >= NR_STATES || !states[m->idiag_state])
		return 0;
	flowing = FLOWING >> m->idiag_state & 1;
	if (!cc || (l->name && strcmp(cc, l->name)) || (!l->name && !flowing))
		return 0;
	f = add(flowing ? &l->flows : &l->others);
	if (!f)
		return -ENOMEM;
	*f = (struct flow){
		.state = states[m->idiag_state],
		.listens = m->idiag_state == LISTEN,
		.netns = l->here,
		.own = l->at_home,
		.seen = now_ns(),
		.cookie = m->id.idiag_cookie[0] | (__u64)m->id.idiag_cookie[1] << 32,
		.inode = m->idiag_inode,
	};
	connection_read(&c, m, len);
	f->family = c.family;
	memcpy(f->peer_address, c.peer, sizeof(f->peer_address));
	if (cgroup)
		memcpy(&f->cgroup, RTA_DATA(cgroup), sizeof(f->cgroup));
	snprintf(f->cc, sizeof(f->cc), "%s", cc);
	end_text(f->local, m->idiag_family, m->id.idiag_src, m->id.idiag_sport);
	end_text(f->peer, m->idiag_family, m->id.idiag_dst, m->id.idiag_dport);
	measure(f, info ? RTA_DATA(info) : "", info ? RTA_PAYLOAD(info) : 0);
	if (flowing)
		compare(f, &l->before);
	return 0;
}

static int add_flows(struct sockets *l)
{
	int err =
		flows_each(l->name ? ~0U : FLOWING, 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1), add_flow, l);

	if (err == -ENOENT)
		snprintf(l->error, sizeof(l->error), "this kernel tells nothing of its connections: modprobe tcp_diag");
	else if (err)
		snprintf(l->error, sizeof(l->error), "cannot see the connections of %s: %s",
			 l->here ? l->here : "this network namespace", netlink_error(err));
	return err;
}

static int look_into(const struct netns_id *id, void *ctx)
{
	struct sockets *l = ctx;
	char **names = realloc(l->netns, (l->nr_netns + 1) * sizeof(*names));
	int err;

	if (names)
		l->netns = names;
	if (!names || !(names[l->nr_netns] = strdup(id->name))) {
		snprintf(l->error, sizeof(l->error), "out of memory");
		return -1;
	}
	l->here = names[l->nr_netns++];
	l->at_home = id->own;
	l->met_home |= l->at_home;
	err = add_flows(l);
	if (err && err != -ENOENT && err != -ENOMEM && !id->own) { /* another's, who shall not blind us to the rest */
		if (!l->nr_unread++)
			memcpy(l->unread, l->error, sizeof(l->unread));
		l->error[0] = 0;
		err = 0;
	}
	return err;
}

static int by_controller_and_rate(const void *a, const void *b)
{
	const struct flow *x = a, *y = b;
	double dx = isnan(x->value[GOODPUT]) ? -1 : x->value[GOODPUT];
	double dy = isnan(y->value[GOODPUT]) ? -1 : y->value[GOODPUT];
	int d = strcmp(x->cc, y->cc);

	if (!d)
		d = (dx < dy) - (dx > dy);
	if (!d)
		d = strcmp(x->local, y->local);
	return d ? d : strcmp(x->peer, y->peer);
}

static void forget_names(struct sockets *l)
{
	for (int i = 0; i < l->nr_netns; i++)
		free(l->netns[i]);
	free(l->netns);
	l->netns = NULL;
	l->nr_netns = 0;
}

void sockets_free(struct sockets *l)
{
	forget_names(l);
	free(l->flows.at);
	free(l->others.at);
	free(l->before.at);
	l->flows = l->others = l->before = (struct flows){};
}

int sockets_read(struct sockets *l)
{
	struct flows reused = l->before;

	l->before = l->flows;
	l->flows = reused;
	l->flows.nr = l->others.nr = 0;
	if (l->before.nr)
		qsort(l->before.at, l->before.nr, sizeof(*l->before.at), by_cookie);
	forget_names(l);
	l->met_home = false;
	l->nr_unread = 0;
	if (netns_each(look_into, l))
		return -1;
	if (!l->met_home) {
		l->here = NULL;
		l->at_home = true;
		if (add_flows(l))
			return -1;
	}
	if (l->nr_unread > 1) {
		size_t len = strlen(l->unread);

		snprintf(l->unread + len, sizeof(l->unread) - len, "; nor those of %d more namespaces",
			 l->nr_unread - 1);
	}
	if (l->flows.nr)
		qsort(l->flows.at, l->flows.nr, sizeof(*l->flows.at), by_controller_and_rate);
	return 0;
}

struct group group_from(const struct sockets *l, size_t at)
{
	struct group g = { .flow = &l->flows.at[at], .goodput = NAN };
	double sum = 0, squares = 0;
	size_t known = 0, senders = 0;

	for (; at + g.nr < l->flows.nr && !strcmp(g.flow[g.nr].cc, g.flow->cc); g.nr++) {
		const struct flow *f = &g.flow[g.nr];

		g.retrans += isnan(f->value[RETRANS]) ? 0 : f->value[RETRANS];
		if (isnan(f->value[GOODPUT]))
			continue;
		known++;
		senders += f->sends;
		sum += f->value[GOODPUT];
		squares += f->value[GOODPUT] * f->value[GOODPUT];
	}
	if (known)
		g.goodput = sum;
	g.jain = squares > 0 ? sum * sum / (senders * squares) : NAN;
	return g;
}

static int listeners_first(const void *a, const void *b)
{
	const struct flow *x = a, *y = b;
	int d = y->listens - x->listens;

	return d ? d : strcmp(x->local, y->local);
}

static void print_socket(const struct flow *f, const struct socket_process *h)
{
	if (h->pid)
		print("  %s (pid %d): ", h->name, h->pid);
	else
		print("  %s: ", f->inode ? "a process not seen here" : "no process (closed, or not accepted yet)");
	print("%s", f->local);
	if (!f->listens)
		print(" to %s", f->peer);
	print(", %s", f->state);
	if (f->own)
		print("\n");
	else
		print(", %s\n", f->netns);
}

void print_sockets(const struct sockets *l, bool with_flows)
{
	size_t nr = 0, all = l->others.nr + (with_flows ? l->flows.nr : 0);
	const struct flow *some[PRINTED];
	struct socket_process h[PRINTED] = {};

	if (l->others.nr)
		qsort(l->others.at, l->others.nr, sizeof(*l->others.at), listeners_first);
	for (; nr < all && nr < PRINTED; nr++) {
		some[nr] = nr < l->others.nr ? &l->others.at[nr] : &l->flows.at[nr - l->others.nr];
		h[nr].inode = some[nr]->inode;
	}
	socket_processes_find(h, nr);
	for (size_t i = 0; i < nr; i++)
		print_socket(some[i], &h[i]);
	if (all > nr)
		print("  and %zu more\n", all - nr);
}
