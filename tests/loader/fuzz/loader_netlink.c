// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: answers by netlink, as routes and as sockets; and the requests that are made of a route. Nothing is sent. */
#include "kernel/netlink.c"
#define netlink_open(protocol) (-EPERM)
#include "kernel/sock_diag.c"
#include "view/text.c"
#include "view/output.c"
#include "args.c"
#include "object/variables.c"
#include "kernel/clock.c"
#include "kernel/sockets.c"
#include "kernel/process.c"
#include "kernel/bpf_link.c"
#include "kernel/registry.c"
#include "object/verifier.c"
#include "kernel/netns.c"
#include "kernel/route.c"
#include "kernel/route_lookup.c"
#include "kernel/route_message.c"
#include "uses/users.c"

/* In memory of just that size. The numbers that it answers are no secret here. */
static void answer_with(const unsigned char *data, size_t size, const struct answer *a)
{
	struct nlmsghdr request;
	bool last = false, torn = false;
	void *copy;

	if (size < sizeof(request))
		return;
	memcpy(&request, data, sizeof(request));
	copy = malloc(size);
	memcpy(copy, data, size);
	netlink_parse(copy, size, &request, a, &last, &torn);
	free(copy);
}

static void routes(const unsigned char *data, size_t size, int family, const struct prefix *only)
{
	struct routes r = {};
	struct reading d = { .routes = &r, .only = only, .family = family };

	answer_with(data, size, &(struct answer){ RTM_NEWROUTE, sizeof(struct rtmsg), keep, &d });
	for (int i = 0; i < r.nr; i++) {
		route_is_ours(&r.route[i]);
		route_set(&r.route[i], "fuzz");
		route_delete(&r.route[i]);
		change(r.route[i].message, RTM_NEWROUTE, 0, "fuzz", &(struct prefix){ .family = family });
	}
	routes_free(&r);
}

/* In memory of just that size. */
static void attributes(const unsigned char *data, size_t size)
{
	size_t room = NLMSG_HDRLEN + (size ? data[0] : 0);
	struct nlmsghdr *h = calloc(1, room);
	struct rtattr *nest;

	h->nlmsg_len = NLMSG_HDRLEN;
	nest = netlink_add(h, room, 1, NULL, 0);
	for (size_t i = 1; i < size && i + data[i] < size; i += 1 + data[i])
		netlink_add(h, room, 2, data + i + 1, data[i]);
	netlink_nest_end(h, nest);
	free(h);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static const struct prefix all[] = { { .family = AF_INET }, { .family = AF_INET6 } };
	struct netns ns = {};
	struct sockets l = {};
	struct nlmsghdr *way = NULL;

	attributes(data, size);
	for (int i = 0; i < 2; i++) {
		routes(data, size, all[i].family, NULL);
		routes(data, size, all[i].family, &all[i]);
	}
	answer_with(data, size, &(struct answer){ RTM_NEWROUTE, sizeof(struct rtmsg), take, &way });
	free(way);
	answer_with(data, size,
		    &(struct answer){ SOCK_DIAG_BY_FAMILY, sizeof(struct inet_diag_msg), tell,
				      &(struct watcher){ count_socket, &ns } });
	free(ns.use);
	answer_with(data, size,
		    &(struct answer){ SOCK_DIAG_BY_FAMILY, sizeof(struct inet_diag_msg), tell,
				      &(struct watcher){ add_flow, &l } });
	sockets_free(&l);
	return 0;
}
