// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "args.h"
#include "kernel/cake.h"
#include "kernel/clock.h"
#include "kernel/netlink.h"
#include "kernel/process.h"
#include "object/verifier.h"
#include "uses/state.h"
#include "uses/thinning.h"
#include "uses/uplink.h"
#include "view/output.h"

#define ACK_SHARE 0.05  /* of the rate, which thinning leaves to ACKs */
#define CHANGE 0.002    /* a smaller one of the rate is not told */
#define SHARE_CHANGE 0.1 /* nor this one to thinning */
#define RTT_CHANGE 0.1  /* nor this one of the RTT */
#define RTT_LEAST 0.01
#define RTT_MOST 1      /* s: a far end that answers late makes CAKE's queues no longer than by this */

const char *const uplink_causes[UPLINK_CAUSES] = {
	[UPLINK_SEARCH] = "search", [UPLINK_IDLE] = "idle",       [UPLINK_GROWTH] = "growth", [UPLINK_QUEUE] = "queue",
	[UPLINK_LOSS] = "loss",     [UPLINK_SILENCE] = "silence", [UPLINK_DRAIN] = "drain",   [UPLINK_PATH] = "path",
};

/* --- its traces in the system ----------------------------------------------------------------------------------- */

pid_t uplink_of(unsigned int index, bool *killed)
{
	struct record w;
	int there = state_peek(state_uplink(index), &w);
	unsigned long long start;
	pid_t pid;

	*killed = false;
	if (there <= 0)
		return there;
	pid = strtol(w.pid, NULL, 10);
	start = pid > 0 ? process_start(pid) : 0;
	*killed = !start || start != strtoull(w.start, NULL, 10);
	return pid > 0 ? pid : 1;
}

struct uplinks {
	void (*look)(const struct uplink_state *state, void *ctx);
	void *ctx;
};

/* The words to its meter; all is zero if they are gone, with the process. */
static void read_told(const struct record *w, struct uplink_told *now)
{
	int fd = bpf_map_get_fd_by_id(strtoul(w->map, NULL, 10));
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	const __u32 zero = 0;

	if (fd < 0)
		return;
	/* its number may be another's by now */
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != sizeof(*now) ||
	    !ends_with(info.name, ".data") || bpf_map_lookup_elem(fd, &zero, now) || now->cause >= UPLINK_CAUSES)
		memset(now, 0, sizeof(*now));
	close(fd);
}

/* A device takes with it what a process has left there. */
static bool is_gone(const char *index)
{
	char name[IF_NAMESIZE];

	return !if_indextoname(strtoul(index, NULL, 10), name);
}

static void forget_gone(const char *index, const struct record *w, void *ctx)
{
	int *err = ctx;
	bool killed;

	(void)w;
	if (uplink_of(strtoul(index, NULL, 10), &killed) > 0 && killed && is_gone(index))
		*err |= state_remove(state_uplink(strtoul(index, NULL, 10)));
}

static void look_at(const char *index, const struct record *w, void *ctx)
{
	const struct uplinks *all = ctx;
	struct uplink_state s = {};
	struct root_qdisc q = {};
	bool killed;
	pid_t pid = uplink_of(strtoul(index, NULL, 10), &killed);
	int err = root_qdisc_read(strtoul(index, NULL, 10), &q);

	if (pid <= 0 || (killed && is_gone(index)))
		return;
	snprintf(s.dev, sizeof(s.dev), "%.15s", w->text);
	if (!killed)
		read_told(w, &s.now);
	if (err || !q.ours)
		snprintf(s.text, sizeof(s.text), killed ? "`asymcc uplink` was killed" : "process %d begins, or ends",
			 pid);
	else if (killed)
		snprintf(s.text, sizeof(s.text), "`asymcc uplink` was killed: CAKE stays at %.2f Mbit/s", q.rate / 1e6);
	else if (q.rate > 9e9)
		snprintf(s.text, sizeof(s.text), "process %d has not yet seen a queue in the modem", pid);
	else if (!s.now.rate)
		snprintf(s.text, sizeof(s.text), "shaped to %.2f Mbit/s by process %d", q.rate / 1e6, pid);
	else
		snprintf(s.text, sizeof(s.text),
			 "shaped to %.2f Mbit/s by process %d, the modem's queue %.1f ms, by %s", q.rate / 1e6, pid,
			 s.now.queue_ns / 1e6, uplink_causes[s.now.cause]);
	if (killed)
		snprintf(s.mend, sizeof(s.mend), "asymcc uplink --dev %.15s, or with --off", w->text);
	all->look(&s, all->ctx);
}

int uplinks_each(void (*look)(const struct uplink_state *state, void *ctx), void *ctx)
{
	struct uplinks all = { look, ctx };

	return state_each_uplink(look_at, &all);
}

static int fail_cake(const char *verb, const struct device *d, int err)
{
	if (err == -ENOENT)
		return fail("this kernel has no CAKE: it needs CONFIG_NET_SCH_CAKE, or the module sch_cake (OpenWrt: "
			    "kmod-sched-cake)");
	if (err == -EPERM)
		return fail("cannot %s CAKE on %s: not permitted: run it as root (it needs CAP_NET_ADMIN)", verb,
			    d->place);
	if (err == -ENODEV)
		return fail("cannot %s CAKE on %s: the device is gone", verb, d->place);
	return fail("cannot %s CAKE on %s: %s", verb, d->place, netlink_error(err));
}

/* Only what the kernel itself chose comes again when CAKE goes: what somebody set stays where it is. */
static int check_root(const struct uplink *u)
{
	struct root_qdisc q;
	int err = root_qdisc_read(u->device.index, &q);

	if (err)
		return fail("cannot read the qdisc of %s: %s", u->device.place, netlink_error(err));
	if (q.handle && !q.ours)
		return fail(
			"--dev %s: somebody has set a qdisc there, %s %x: (SQM or NetworkManager, perhaps): end that, or "
			"`tc qdisc del dev %s root`",
			u->dev, q.kind, q.handle >> 16, u->dev);
	return 0;
}

int uplink_clear(const struct device *d)
{
	struct root_qdisc q;
	int nr = 0, err = root_qdisc_read(d->index, &q);
	bool killed;

	if (err)
		return fail("cannot read the qdisc of %s: %s", d->place, netlink_error(err));
	if (uplink_of(d->index, &killed))
		nr = thinning_detach(d->place);
	if (nr < 0)
		return -1;
	if (q.ours) {
		err = cake_remove(d->index);
		if (err)
			return fail_cake("remove", d, err);
	}
	return state_remove(state_uplink(d->index)) ? -1 : nr || q.ours;
}

/* --- programs --------------------------------------------------------------------------------------------------- */

static int fail_meter(const char *what)
{
	return fail("cannot measure: %s: %s", what, strerror(errno));
}

static int set_number(struct object *o, const char *name, long value)
{
	char text[60];

	snprintf(text, sizeof(text), "%s=%ld", name, value);
	return object_set(o, text);
}

/* The packet socket takes packets of its device from bind() on, and then its filter stands already. */
static int open_tap(struct uplink *u)
{
	const struct sockaddr_ll at = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = u->device.index
	};
	struct bpf_program *p = bpf_object__find_program_by_name(u->meter.bpf, UPLINK);
	int prog = p ? bpf_program__fd(p) : -1;

	u->tap = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (u->tap < 0)
		return fail_meter("packet socket");
	if (setsockopt(u->tap, SOL_SOCKET, SO_ATTACH_BPF, &prog, sizeof(prog)))
		return fail_meter("its filter");
	return bind(u->tap, (const void *)&at, sizeof(at)) ? fail_meter("bind") : 0;
}

static struct bpf_map *section_of(const struct object *o, const char *name)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, o->bpf)
		if (ends_with(bpf_map__name(map), name))
			return map;
	return NULL;
}

static int open_meter(struct uplink *u)
{
	int err = object_open(&u->meter, UPLINK);
	const struct bpf_map *seen = err ? NULL : section_of(&u->meter, ".bss"),
			     *told = err ? NULL : section_of(&u->meter, ".data");

	if (err)
		return -1;
	if (!seen || !told || bpf_map__value_size(seen) != sizeof(struct uplink_seen) ||
	    bpf_map__value_size(told) != sizeof(struct uplink_told))
		return fail("%s: it is of another asymcc: build both anew", u->meter.path ? u->meter.path : UPLINK);
	if (set_number(&u->meter, "ethernet", u->device.ethernet) || set_number(&u->meter, "overhead", u->overhead) ||
	    set_number(&u->meter, "mpu", u->mpu))
		return -1;
	err = verifier_load(u->meter.bpf);
	if (err)
		return fail("cannot measure: %s: %s", strerror(-err),
			    err == -EPERM ? "run it as root (it needs CAP_BPF and CAP_NET_ADMIN)" : libbpf_complaint());
	return open_tap(u);
}

static int open_thinning(struct uplink *u)
{
	if (object_open(&u->thin, THIN_ROUTER))
		return -1;
	snprintf(u->thin.ops_name, sizeof(u->thin.ops_name), THIN); /* for messages */
	if (set_number(&u->thin, "overhead", u->overhead) || set_number(&u->thin, "mpu", u->mpu))
		return -1;
	if (thinning_attach(&u->device, &u->thin))
		return -1;
	u->thins = true;
	return 0;
}

/* The section's other variables keep what they have. */
static int tell_thinning(const struct uplink *u, long kbit)
{
	const struct var *v = vars_find(&u->thin.params, "reverse_kbit", strlen("reverse_kbit"));
	const struct bpf_map *map = section_of(&u->thin, ".data");
	int fd = map ? bpf_map__fd(map) : -1, err;
	void *bytes = map ? malloc(bpf_map__value_size(map)) : NULL;
	const __u32 zero = 0;

	err = !bytes || !v || bpf_map_lookup_elem(fd, &zero, bytes);
	if (!err) {
		var_set(v, bytes, kbit);
		err = bpf_map_update_elem(fd, &zero, bytes, BPF_ANY);
	}
	free(bytes);
	return err ? fail("cannot tell thinning the rate: %s", strerror(errno)) : 0;
}

/* --- begin and end ---------------------------------------------------------------------------------------------- */

static int write_record(const struct uplink *u)
{
	const struct bpf_map *told = section_of(&u->meter, ".data");
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	struct record w = {};

	if (bpf_obj_get_info_by_fd(bpf_map__fd(told), &info, &len))
		return fail_meter("its settings");
	snprintf(w.map, sizeof(w.map), "%u", info.id);
	snprintf(w.pid, sizeof(w.pid), "%d", getpid());
	snprintf(w.start, sizeof(w.start), "%llu", process_start(getpid()));
	snprintf(w.text, sizeof(w.text), "%s", u->device.place + strlen(ON_DEVICE));
	return state_write(state_uplink(u->device.index), &w);
}

static int place(struct uplink *u)
{
	int err;

	if (write_record(u)) /* before anything stands that it tells of */
		return -1;
	err = cake_make(u->device.index, u->law.rate, RTT_LEAST, u->overhead, u->mpu);
	if (err)
		return fail_cake("set", &u->device, err);
	u->shapes = true;
	u->told = u->law.rate;
	u->told_rtt = RTT_LEAST;
	u->netlink = netlink_open(NETLINK_ROUTE);
	if (u->netlink < 0)
		return fail("netlink: %s", strerror(-u->netlink));
	return open_thinning(u);
}

int uplink_begin(struct uplink *u, bool killed)
{
	int err, gone = 0;

	if (state_each_uplink(forget_gone, &gone) || gone)
		return -1;
	if (killed) {
		err = uplink_clear(&u->device);
		if (err > 0)
			print("the last `asymcc uplink --dev %s` was killed: what it left is taken away\n", u->dev);
		fflush(stdout); /* before a child has it, too */
	} else {
		err = check_root(u);
	}
	if (err < 0)
		return -1;
	uplink_law_begin(&u->law, u->least, u->most, u->rate);
	err = open_meter(u) || place(u) ? -1 : 0;
	if (err)
		uplink_end(u);
	return err;
}

int uplink_end(struct uplink *u)
{
	int err = 0;

	if (u->thins)
		err = thinning_detach(u->device.place) < 0 ? -1 : 0;
	if (u->shapes) {
		int gone = cake_remove(u->device.index);

		if (gone && gone != -ENODEV && gone != -ENOENT && gone != -EINVAL) /* another took its place */
			err = fail_cake("remove", &u->device, gone);
	}
	u->thins = u->shapes = false;
	return state_remove(state_uplink(u->device.index)) || err ? -1 : 0;
}

void uplink_close(struct uplink *u)
{
	if (u->tap >= 0)
		close(u->tap);
	if (u->netlink >= 0)
		close(u->netlink);
	if (u->log)
		fclose(u->log);
	object_close(&u->meter);
	object_close(&u->thin);
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

static int tell_meter(struct uplink *u, double none)
{
	struct uplink_told *now = &u->now;
	const __u32 zero = 0;

	now->rate = u->law.rate;
	now->capacity = u->law.capacity;
	now->cause = u->law.cause;
	now->ticks[now->cause]++;
	now->queue_ns = fmax(u->law.queue, 0) * 1e9;
	now->rebase_ns = none * 1e9;
	now->rebases += none > 0;
	return bpf_map_update_elem(bpf_map__fd(section_of(&u->meter, ".data")), &zero, now, BPF_ANY)
		       ? fail_meter("its settings")
		       : 0;
}

/* A full disk ends the log, and not the shaping. */
static void log_tick(struct uplink *u, __u64 at_ns)
{
	if (!u->log)
		return;
	fprintf(u->log, "%.3f %.0f %.0f %.2f %s\n", at_ns / 1e9, u->law.rate, u->law.capacity, u->now.queue_ns / 1e6,
		uplink_causes[u->law.cause]);
	if (!fflush(u->log))
		return;
	fail("--log: %s: the log ends here, and the shaping goes on", strerror(errno));
	fclose(u->log);
	u->log = NULL;
}

/* Values that hardly changed are not told anew. */
static int obey(struct uplink *u, double rtt)
{
	double rate = u->law.rate;
	int err;

	rtt = fmin(fmax(rtt, RTT_LEAST), RTT_MOST);
	if (fabs(rate - u->told) > CHANGE * u->told || fabs(rtt - u->told_rtt) > RTT_CHANGE * u->told_rtt) {
		err = cake_change(u->netlink, u->device.index, rate, rtt);
		if (err)
			return fail_cake("change", &u->device, err);
		u->told = rate;
		u->told_rtt = rtt;
	}
	if (u->law.searches || fabs(rate - u->shared) <= SHARE_CHANGE * u->shared)
		return 0;
	u->shared = rate;
	return tell_thinning(u, fmax(lround(ACK_SHARE * rate / 1e3), 1));
}

/* `*due`: when it should be. Those of a time in which the process was stopped are not made up for. */
static int tick(struct uplink *u, __u64 *due)
{
	static struct uplink_seen seen;
	static struct uplink_view v;
	const __u32 zero = 0;
	__u64 now = now_ns();
	double none;

	if (now > *due + (__u64)(LAW_TICK * NS_PER_S))
		*due = now;
	if (bpf_map_lookup_elem(bpf_map__fd(section_of(&u->meter, ".bss")), &zero, &seen))
		return fail_meter("its table");
	uplink_law_view(&v, &seen, now);
	none = uplink_law_tick(&u->law, &v);
	if (tell_meter(u, none) || obey(u, v.rtt))
		return -1;
	log_tick(u, now);
	return 0;
}

int uplink_run(struct uplink *u)
{
	struct root_qdisc q;
	int err = 0;
	__u64 next = now_ns();
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	while (!err) {
		next += LAW_TICK * NS_PER_S;
		if (wait_till(next, &stop) > 0)
			return 0;
		err = cake_look(u->netlink, u->device.index, &q);
		if (err == -ENOENT || err == -EINVAL)
			return fail("another has taken CAKE from %s: SQM or NetworkManager, perhaps", u->device.place);
		if (err)
			return fail_cake("read", &u->device, err);
		err = tick(u, &next);
	}
	return -1;
}
