/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The TCP sockets of all network namespaces, by controller, and what they did between two looks. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <arpa/inet.h>
#include <stdio.h>

#include <linux/types.h>

#include "view/text.h"

#define END_LEN (INET6_ADDRSTRLEN + sizeof("[]:65535"))

/* The values of each flow, the most telling first: a narrow terminal cuts the rest. */
enum { GOODPUT, CWND, SRTT, ACKS, RETRANS, LOST, SSTHRESH, PACING, DELIVERY, BYTES_ACKED, BYTES_RECEIVED, NR_VALUES };

struct flow {
	char cc[CC_NAME_LEN];
	char local[END_LEN], peer[END_LEN];
	const char *netns;            /* NULL: not known */
	bool own;                     /* it is the namespace we run in */
	const char *state;
	bool listens;
	bool sends;                   /* it has sent since the look before, or has something to send */
	int family; /* of the peer; IPv4 in IPv6 counts as IPv4 */
	unsigned char peer_address[16];
	__u64 cgroup; /* its number; 0: not known */
	__u64 cookie, seen;           /* the kernel's number for the socket; when we looked at it, ns */
	__u32 inode;                  /* 0: no process has it */
	double seconds, resent; /* since the look before, and what it sent again in them; NAN: it was not seen */
	double segments; /* with data, that it has sent */
	double value[NR_VALUES]; /* NAN: not known */
};

struct flows {
	struct flow *at;
	size_t nr, room;
};

struct sockets {
	const char *name; /* the only controller of interest, or NULL */
	struct flows flows; /* sockets in states in which data flow or are acknowledged */
	struct flows others; /* that have the controller `name`, in other states */
	struct flows before; /* flows of the look before, by cookie */
	char **netns; /* names, of the namespaces met */
	int nr_netns;
	const char *here; /* name of the one being looked at; NULL: not known */
	bool at_home, met_home; /* this one, or any so far, is our own */
	int nr_unread; /* that could not be read, or not to the end; the first one's error */
	char unread[400], error[400];
};

/*
 * All sockets anew. Without the right to enter namespaces, those of our own. A failure is told in l->error. The second
 * look tells rates.
 */
int sockets_read(struct sockets *l);
void sockets_free(struct sockets *l);

/* The flows of one controller. */
struct group {
	const struct flow *flow;
	size_t nr, shown;
	double goodput, retrans; /* goodput: NAN: not known */
	double jain; /* of those that send; NAN: none does */
};
/* Those from `at` on that have one controller. */
struct group group_from(const struct sockets *l, size_t at);

/* The first few, a line each, listeners first: process, addresses, state, namespace. Flows come last, or not at all. */
void print_sockets(const struct sockets *l, bool with_flows);

#endif
