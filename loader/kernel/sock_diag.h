/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP sockets, as sock_diag tells them. */
#ifndef SOCK_DIAG_H
#define SOCK_DIAG_H

#include <stddef.h>

#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>

/*
 * Calls `seen` for each TCP socket, IPv4 and IPv6, of the namespace the thread is in, with the attributes
 * of `ext`, a mask as in inet_diag_req_v2. `seen` may tell an error to end it. Returns 0 or -errno;
 * -ENOENT: the kernel has no tcp_diag.
 */
int flows_each(__u32 states, __u8 ext, int (*seen)(const struct inet_diag_msg *m, size_t len, void *ctx), void *ctx);

/* An attribute of the message, NULL if it has none of that type. */
const struct rtattr *flow_attr(const struct inet_diag_msg *m, size_t len, int type);
/* The socket's controller, NULL if it has none: TIME_WAIT and the like. */
const char *flow_controller(const struct inet_diag_msg *m, size_t len);

/* All that decides which route a connection takes. IPv4 in IPv6 counts as IPv4. */
struct connection {
	__u64 cookie;               /* the kernel's number for the socket */
	int family;
	unsigned char local[16], peer[16];
	__be16 port, peer_port;
	__u32 device, mark, uid;    /* 0: of none, or root's */
	__u8 tos;
};

#define CONNECTION_EXT (1 << (INET_DIAG_TOS - 1) | 1 << (INET_DIAG_TCLASS - 1))
/* The message was asked for with CONNECTION_EXT. */
void connection_read(struct connection *c, const struct inet_diag_msg *m, size_t len);

#endif
