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
#include "kernel/ifb.h"
#include "kernel/netlink.h"
#include "kernel/probe.h"
#include "kernel/process.h"
#include "object/verifier.h"
#include "uses/state.h"
#include "uses/thinning.h"
#include "uses/uplink.h"
#include "uses/uplinks.h"
#include "view/output.h"

#define ACK_SHARE 0.05  /* of the rate, which thinning leaves to ACKs */
#define CHANGE 0.002    /* a smaller one of the rate is not told */
#define SHARE_CHANGE 0.1 /* nor this one to thinning */
#define DOWN_LEAST 1e5
#define DOWN_MOST 1e10  /* bit/s */
#define BLIND_S 1      /* s without an answer to any TCP, after which one probes */
#define PROBES 2        /* in a tick */
#define BUSY 0.25       /* of the rate that is known, or ... */
#define LEAST_BUSY 1e5  /* ... bits in a second: less makes no queue */
#define RTT_CHANGE 0.1  /* nor this one of the RTT */
#define RTT_LEAST 0.01
#define RTT_MOST 1      /* s: a far end that answers late makes CAKE's queues no longer than by this */

#define PATIENCE 10 /* times the margin, in RTTs: so much more may wait in CAKE, and windows fill a rate that rises */

#define OWN_QDISC "clsact" /* of a record's DOWN */

/* --- its traces in the system ----------------------------------------------------------------------------------- */

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

static int fail_ifb(const char *verb, const struct device *d, int err)
{
	if (err == -ENOENT)
		return fail("--down: this kernel lacks CONFIG_IFB, CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_MATCHALL or "
			    "CONFIG_NET_ACT_MIRRED (OpenWrt: kmod-ifb, kmod-sched)");
	return fail("--down: cannot %s an ifb for %s: %s", verb, d->place, netlink_error(err));
}

/* Filters of somebody for what arrives would see it no more. */
static int check_ingress(struct uplink *u)
{
	bool qdisc, filters;
	int err = ingress_look(u->device.index, &qdisc, &filters);

	if (err)
		return fail("cannot read the filters of %s: %s", u->device.place, netlink_error(err));
	if (filters)
		return fail("--down: somebody has set filters for what arrives by %s (SQM, perhaps): end that, or "
			    "`tc filter del dev %s ingress`",
			    u->device.place, u->dev);
	u->made_qdisc = !qdisc;
	return 0;
}

int uplink_clear(const struct device *d)
{
	struct record w = {};
	struct root_qdisc q;
	int nr = 0, err = root_qdisc_read(d->index, &q), there = state_peek(state_uplink(d->index), &w);

	if (err)
		return fail("cannot read the qdisc of %s: %s", d->place, netlink_error(err));
	if (there)
		nr = thinning_detach(d->place);
	if (nr < 0)
		return -1;
	if (there > 0 && *w.down) {
		err = ifb_remove(d->index, !strcmp(w.down, OWN_QDISC));
		if (err)
			return fail_ifb("remove", d, err);
	}
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
	if (!seen || !told || bpf_map__value_size(seen) != UPLINK_WAYS * sizeof(struct uplink_seen) ||
	    bpf_map__value_size(told) != UPLINK_WAYS * sizeof(struct uplink_told))
		return fail("%s: it is of another asymcc: build both anew", u->meter.path ? u->meter.path : UPLINK);
	if (set_number(&u->meter, "ethernet", u->device.ethernet) || set_number(&u->meter, "overhead", u->overhead) ||
	    set_number(&u->meter, "mpu", u->mpu) || set_number(&u->meter, "down", u->ways > UPLINK_DOWN) ||
	    set_number(&u->meter, "reflector", ntohl(u->reflector.s_addr)))
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
	if (u->ways > UPLINK_DOWN)
		snprintf(w.down, sizeof(w.down), "%s", u->made_qdisc ? OWN_QDISC : "ifb");
	snprintf(w.text, sizeof(w.text), "%s", u->device.place + strlen(ON_DEVICE));
	return state_write(state_uplink(u->device.index), &w);
}

static int place_cake(struct uplink *u, enum uplink_way way, unsigned int index)
{
	struct uplink_shaper *s = &u->shaper[way];
	int err = cake_make(index, s->law.rate, RTT_LEAST, u->overhead, u->mpu, way == UPLINK_DOWN);

	if (err)
		return fail_cake("set", &u->device, err);
	s->index = index;
	s->stands = true;
	s->told = s->law.rate;
	s->told_rtt = RTT_LEAST;
	return 0;
}

/* Nothing arrives by an ifb that has no CAKE yet. */
static int place_down(struct uplink *u)
{
	unsigned int ifb;
	int err = ifb_make(u->device.index, &ifb);

	if (err)
		return fail_ifb("make", &u->device, err);
	if (place_cake(u, UPLINK_DOWN, ifb))
		return -1;
	err = ifb_lead(u->device.index, ifb);
	return err ? fail_ifb("lead to", &u->device, err) : 0;
}

static int place(struct uplink *u)
{
	if (write_record(u)) /* before anything stands that it tells of */
		return -1;
	if (place_cake(u, UPLINK_UP, u->device.index) || (u->ways > UPLINK_DOWN && place_down(u)))
		return -1;
	u->netlink = netlink_open(NETLINK_ROUTE);
	if (u->netlink < 0)
		return fail("netlink: %s", strerror(-u->netlink));
	u->probe = u->reflector.s_addr ? probe_open(u->reflector, u->device.index, &u->probes) : -1;
	if (u->reflector.s_addr && u->probe < 0)
		return fail("--probe: %s", strerror(-u->probe));
	return open_thinning(u);
}

int uplink_begin(struct uplink *u, bool killed)
{
	int err = uplinks_forget_gone();

	if (err)
		return -1;
	if (killed) {
		err = uplink_clear(&u->device);
		if (err > 0)
			print("the last `asymcc uplink --dev %s` was killed: what it left is taken away\n", u->dev);
		fflush(stdout); /* before a child has it, too */
	} else {
		err = check_root(u);
	}
	if (err < 0 || (u->ways > UPLINK_DOWN && check_ingress(u)))
		return -1;
	uplink_law_begin(&u->shaper[UPLINK_UP].law, u->least, u->most, u->rate);
	uplink_law_begin(&u->shaper[UPLINK_DOWN].law, DOWN_LEAST, DOWN_MOST, 0);
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
	if (u->ways > UPLINK_DOWN) {
		int left = ifb_remove(u->device.index, u->made_qdisc);

		err = left ? fail_ifb("remove", &u->device, left) : err;
	}
	if (u->shaper[UPLINK_UP].stands) {
		int gone = cake_remove(u->device.index);

		if (gone && gone != -ENODEV && gone != -ENOENT && gone != -EINVAL) /* another took its place */
			err = fail_cake("remove", &u->device, gone);
	}
	memset(u->shaper, 0, sizeof(u->shaper));
	u->thins = false;
	return state_remove(state_uplink(u->device.index)) || err ? -1 : 0;
}

void uplink_close(struct uplink *u)
{
	if (u->tap >= 0)
		close(u->tap);
	if (u->probe >= 0)
		close(u->probe);
	if (u->netlink >= 0)
		close(u->netlink);
	if (u->log)
		fclose(u->log);
	object_close(&u->meter);
	object_close(&u->thin);
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

static void note_tick(struct uplink *u, enum uplink_way way, double none)
{
	const struct uplink_law *l = &u->shaper[way].law;
	struct uplink_told *now = &u->now[way];

	now->rate = l->rate;
	now->capacity = l->capacity;
	now->cause = l->cause;
	now->ticks[now->cause]++;
	now->queue_ns = fmax(l->queue, 0) * 1e9;
	now->rebase_ns += none * 1e9;
}

static int tell_meter(struct uplink *u)
{
	const __u32 zero = 0;

	return bpf_map_update_elem(bpf_map__fd(section_of(&u->meter, ".data")), &zero, u->now, BPF_ANY)
		       ? fail_meter("its settings")
		       : 0;
}

/* A full disk ends the log, and not the shaping. */
static void log_tick(struct uplink *u, __u64 at_ns)
{
	const struct uplink_law *l = &u->shaper[UPLINK_UP].law;

	if (!u->log)
		return;
	fprintf(u->log, "%.3f %.0f %.0f %.2f %s\n", at_ns / 1e9, l->rate, l->capacity, u->now[UPLINK_UP].queue_ns / 1e6,
		uplink_causes[l->cause]);
	if (!fflush(u->log))
		return;
	fail("--log: %s: the log ends here, and the shaping goes on", strerror(errno));
	fclose(u->log);
	u->log = NULL;
}

/* Values that hardly changed are not told anew. */
static int obey(struct uplink *u, struct uplink_shaper *s, double rtt)
{
	double rate = s->law.rate;
	int err;

	rtt = fmin(fmax(rtt, RTT_LEAST), RTT_MOST);
	if (fabs(rate - s->told) <= CHANGE * s->told && fabs(rtt - s->told_rtt) <= RTT_CHANGE * s->told_rtt)
		return 0;
	err = cake_change(u->netlink, s->index, rate, rtt);
	if (err)
		return fail_cake("change", &u->device, err);
	s->told = rate;
	s->told_rtt = rtt;
	return 0;
}

static int share(struct uplink *u)
{
	const struct uplink_law *l = &u->shaper[UPLINK_UP].law;

	if (l->searches || fabs(l->rate - u->shared) <= SHARE_CHANGE * u->shared)
		return 0;
	u->shared = l->rate;
	return tell_thinning(u, fmax(lround(ACK_SHARE * l->rate / 1e3), 1));
}

static bool is_blind(const struct uplink *u, const struct uplink_seen *seen, const struct uplink_view *v, __u64 now)
{
	const struct uplink_law *l = &u->shaper[UPLINK_UP].law;
	double bits = 0;

	for (int i = LAW_BINS / 2; i < LAW_BINS; i++)
		bits += 8.0 * v->bins[i].bytes;
	return now > seen->heard_ns + BLIND_S * NS_PER_S && bits > (l->searches ? LEAST_BUSY : BUSY * l->rate);
}

/* `*due`: when it should be. Those of a time in which the process was stopped are not made up for. */
static int tick(struct uplink *u, __u64 *due)
{
	static struct uplink_seen seen[UPLINK_WAYS];
	static struct uplink_view v;
	const __u32 zero = 0;
	__u64 now = now_ns();

	if (now > *due + (__u64)(LAW_TICK * NS_PER_S))
		*due = now;
	if (bpf_map_lookup_elem(bpf_map__fd(section_of(&u->meter, ".bss")), &zero, seen))
		return fail_meter("its table");
	for (int i = 0; i < u->ways; i++) {
		seen[i].rtt_ns = seen[UPLINK_UP].rtt_ns;
		uplink_law_view(&v, &seen[i], now);
		note_tick(u, i, uplink_law_tick(&u->shaper[i].law, &v));
		if (obey(u, &u->shaper[i], v.rtt * (1 + PATIENCE * u->shaper[i].law.margin)))
			return -1;
		if (i == UPLINK_UP)
			u->blind = u->probe >= 0 && is_blind(u, seen, &v, now);
	}
	if (tell_meter(u) || share(u))
		return -1;
	log_tick(u, now);
	return 0;
}

/* Probes leave meanwhile, if they have to. A signal, or -1. */
static int rest_till(struct uplink *u, __u64 end, const sigset_t *stop)
{
	int signal = 0;

	for (int i = PROBES; u->blind && i && signal <= 0; i--) {
		probe_send(u->probe, ++u->probes);
		signal = wait_till(end - (i - 1) * (__u64)(LAW_TICK * NS_PER_S / PROBES), stop);
	}
	return u->blind ? signal : wait_till(end, stop);
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
		if (rest_till(u, next, &stop) > 0)
			return 0;
		for (int i = 0; i < u->ways && !err; i++)
			err = cake_look(u->netlink, u->shaper[i].index, &q);
		if (err == -ENOENT || err == -EINVAL)
			return fail("another has taken CAKE from %s: SQM or NetworkManager, perhaps", u->device.place);
		if (err)
			return fail_cake("read", &u->device, err);
		err = tick(u, &next);
	}
	return -1;
}
