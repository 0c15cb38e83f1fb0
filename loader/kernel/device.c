// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <linux/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <bpf/bpf.h>

#include "args.h"
#include "kernel/device.h"
#include "kernel/netlink.h"
#include "kernel/registry.h"
#include "object/verifier.h"

/* They are in linux/bpf.h from 6.6 on. */
#define TCX_INGRESS 46
#define TCX_EGRESS 47
#define FIRST (1u << 3) /* BPF_F_BEFORE, of nobody */

#define PRIORITY 11 /* of the filters in clsact: lower ones come first */
#define HANDLE 1
#define MAX_PROGRAMS 64 /* as many the kernel takes */
#define NR_HOOKS 2

static const struct hook hooks[NR_HOOKS] = {
	{ BPF_PROG_TYPE_SCHED_CLS, TCX_INGRESS },
	{ BPF_PROG_TYPE_SCHED_CLS, TCX_EGRESS },
};

static enum bpf_tc_attach_point point_of(const struct hook *hook)
{
	return hook->attach == (enum bpf_attach_type)TCX_INGRESS ? BPF_TC_INGRESS : BPF_TC_EGRESS;
}

static const char *ending(const struct hook *hook)
{
	return point_of(hook) == BPF_TC_INGRESS ? "_ingress" : "_egress";
}

/* The programs at one hook; -EINVAL: the kernel has no tcx. */
static int tcx_programs(unsigned int index, const struct hook *hook, __u32 ids[MAX_PROGRAMS], __u32 *n)
{
	*n = MAX_PROGRAMS;
	return bpf_prog_query(index, hook->attach, 0, NULL, ids, n) ? -errno : 0;
}

/* Ours in the clsact. -ENOENT: there is none. */
static int filter_program(unsigned int index, const struct hook *hook, __u32 *id)
{
	LIBBPF_OPTS(bpf_tc_hook, at, .ifindex = index, .attach_point = point_of(hook));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);
	int err = bpf_tc_query(&at, &opts);

	*id = opts.prog_id;
	return err == -EINVAL ? -ENOENT : err; /* no clsact */
}

static int hardware(const char *name, unsigned short *type)
{
	struct ifreq r = {};
	int err, s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	err = s < 0 || ioctl(s, SIOCGIFHWADDR, &r) ? -errno : 0;
	*type = r.ifr_hwaddr.sa_family;
	if (s >= 0)
		close(s);
	return err;
}

unsigned int device_place(char place[DEVICE_PLACE], const char *name)
{
	unsigned int index = strlen(name) < IFNAMSIZ ? if_nametoindex(name) : 0;
	char own[IFNAMSIZ];

	if (index && if_indextoname(index, own))
		name = own;
	snprintf(place, DEVICE_PLACE, ON_DEVICE "%s", name);
	return index;
}

int device_find(struct device *d, const char *name)
{
	unsigned short type;
	__u32 ids[MAX_PROGRAMS], n;
	int err;

	*d = (struct device){};
	d->index = device_place(d->place, name);
	if (!d->index)
		return fail("--dev %s: this network namespace has no such device: `ip link` lists them", name);
	err = hardware(name, &type);
	if (err)
		return fail("--dev %s: %s", name, strerror(-err));
	d->ethernet = type == ARPHRD_ETHER;
	switch (type) {
	case ARPHRD_ETHER:
	case ARPHRD_PPP:
	case ARPHRD_RAWIP:
	case ARPHRD_NONE:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
	case ARPHRD_IPGRE:
	case ARPHRD_IP6GRE:
		break;
	case ARPHRD_LOOPBACK:
		return fail("--dev %s: it leads nowhere: give the device that leads to the slow uplink", name);
	default:
		return fail(
			"--dev %s: its packets are of a kind that is not known (%u): give one with Ethernet, PPP or "
			"plain IP",
			name, type);
	}
	d->clsact = tcx_programs(d->index, &hooks[0], ids, &n) == -EINVAL;
	return 0;
}

static struct bpf_program *program_at(const struct object *o, const struct hook *hook)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf)
		if (ends_with(bpf_program__name(p), ending(hook)))
			return p;
	return NULL;
}

static int attach_at(const struct device *d, const struct hook *hook, int prog)
{
	LIBBPF_OPTS(bpf_tc_hook, at, .ifindex = d->index, .attach_point = point_of(hook));
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = prog, .handle = HANDLE, .priority = PRIORITY);

	if (d->clsact)
		return bpf_tc_attach(&at, &opts);
	return bpf_prog_attach(prog, d->index, hook->attach, FIRST) ? -errno : 0;
}

static int detach_at(unsigned int index, bool clsact, const struct hook *hook, int prog)
{
	LIBBPF_OPTS(bpf_tc_hook, at, .ifindex = index, .attach_point = point_of(hook));
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = HANDLE, .priority = PRIORITY);

	if (clsact)
		return bpf_tc_detach(&at, &opts);
	return bpf_prog_detach2(prog, index, hook->attach) ? -errno : 0;
}

static int count_filter(const struct nlmsghdr *h, void *ctx)
{
	(void)h;
	++*(int *)ctx;
	return 0;
}

/* Filters at one hook, whosever; -errno. */
static int filters(unsigned int index, const struct hook *hook)
{
	struct {
		struct nlmsghdr h;
		struct tcmsg t;
	} request = {
		.h = { .nlmsg_len = sizeof(request),
		       .nlmsg_type = RTM_GETTFILTER,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.t = { .tcm_family = AF_UNSPEC,
		       .tcm_ifindex = index,
		       .tcm_parent = point_of(hook) == BPF_TC_INGRESS ? 0xfffffff2 : 0xfffffff3 },
	};
	int n = 0, fd = netlink_open(NETLINK_ROUTE), err;
	const struct answer a = { RTM_NEWTFILTER, sizeof(struct tcmsg), count_filter, &n };

	if (fd < 0)
		return fd;
	err = netlink_ask(fd, &request.h, &a);
	close(fd);
	return err ? err : n;
}

void device_drop_clsact(unsigned int index)
{
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = index, .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (!filters(index, &hooks[0]) && !filters(index, &hooks[1]))
		bpf_tc_hook_destroy(&both);
}

static int fail_attach(const struct device *d, const char *what, int err)
{
	if (err == -EPERM)
		return fail("cannot thin on %s: not permitted: run it as root (it needs CAP_BPF and CAP_NET_ADMIN)",
			    d->place);
	if (err == -ENODEV)
		return fail("cannot thin on %s: it is gone", d->place);
	if (d->clsact && (err == -ENOENT || err == -EOPNOTSUPP))
		return fail("cannot thin on %s: this kernel has no %s: it needs CONFIG_NET_SCH_INGRESS and "
			    "CONFIG_NET_CLS_BPF, before 6.6",
			    d->place, what);
	return fail("cannot thin on %s: %s: %s", d->place, what, strerror(-err));
}

static int make_clsact(struct device *d, struct object *o)
{
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = d->index, .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	int err = bpf_tc_hook_create(&both);

	d->made_clsact = !err;
	if (err && err != -EEXIST)
		return fail_attach(d, "clsact", err);
	return d->made_clsact ? object_set(o, "made_clsact=1") : 0;
}

int device_load(struct device *d, struct object *o)
{
	int err = object_set(o, d->ethernet ? "ethernet=1" : "ethernet=0");

	if (!err && d->clsact)
		err = make_clsact(d, o);
	if (err)
		return err;
	err = registry_load(o->bpf);
	if (err == -EPERM && !verifier_verdict())
		return fail_attach(d, "load", err);
	return err ? fail("cannot thin: %s: %s", registry_load_error(err), libbpf_complaint()) : 0;
}

int device_attach(const struct device *d, const struct object *o)
{
	int err = 0, nr = 0;

	for (; nr < NR_HOOKS; nr++) {
		struct bpf_program *p = program_at(o, &hooks[nr]);

		err = p ? attach_at(d, &hooks[nr], bpf_program__fd(p)) : -ENOENT;
		if (err)
			break;
	}
	if (!err)
		return 0;
	fail_attach(d, ending(&hooks[nr]) + 1, err);
	while (nr-- > 0)
		detach_at(d->index, d->clsact, &hooks[nr], bpf_program__fd(program_at(o, &hooks[nr])));
	return -1;
}

void device_leave(const struct device *d)
{
	if (d->made_clsact)
		device_drop_clsact(d->index);
}

static int
look_at(const struct if_nameindex *dev, const char *where,
	int (*found)(const struct if_nameindex *, const struct hook *, __u32, void *), void *ctx)
{
	__u32 ids[MAX_PROGRAMS], n;
	int err;

	for (int i = 0; i < NR_HOOKS; i++) {
		err = tcx_programs(dev->if_index, &hooks[i], ids, &n);
		if (err == -EINVAL) {
			err = filter_program(dev->if_index, &hooks[i], ids);
			n = !err;
		}
		if (err == -ENOENT || err == -ENODEV)
			continue;
		if (err)
			return fail("cannot read what is attached to " ON_DEVICE "%s%s: %s", dev->if_name, where,
				    strerror(-err));
		for (__u32 k = 0; k < n; k++)
			if (found(dev, &hooks[i], ids[k], ctx))
				return -1;
	}
	return 0;
}

int devices_each(
	const char *where,
	int (*found)(const struct if_nameindex *dev, const struct hook *hook, __u32 prog_id, void *ctx), void *ctx)
{
	struct if_nameindex *all = if_nameindex();
	int err = 0;

	if (!all)
		return fail("cannot list network devices%s: %s", where, strerror(errno));
	for (int i = 0; all[i].if_index && !err; i++)
		err = look_at(&all[i], where, found, ctx);
	if_freenameindex(all);
	return err;
}

int device_detach(unsigned int index, const char *place, const struct hook *hook, __u32 prog_id, bool made_clsact)
{
	__u32 ids[MAX_PROGRAMS], n;
	bool clsact = tcx_programs(index, hook, ids, &n) == -EINVAL;
	int err, prog;

	prog = bpf_prog_get_fd_by_id(prog_id);
	if (prog < 0)
		return errno == ENOENT ? 0 : fail("cannot read BPF program %u: %s", prog_id, strerror(errno));
	err = detach_at(index, clsact, hook, prog);
	close(prog);
	if (err && err != -ENOENT && err != -ENODEV)
		return fail("%s stays attached: %s", place, strerror(-err));
	if (clsact && made_clsact)
		device_drop_clsact(index);
	return 0;
}
