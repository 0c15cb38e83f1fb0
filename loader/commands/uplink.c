// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* CAKE ahead of a modem, at a rate that is found and followed, and ACKs thinned by it. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "kernel/clock.h"
#include "kernel/process.h"
#include "uses/state.h"
#include "uses/thinning.h"
#include "uses/uplink.h"
#include "uses/uplinks.h"
#include "view/output.h"

#define LEAST_KBIT 100
#define PATIENCE 10 /* s, that one that runs has to end */

static struct {
	const char *dev, *log, *probe;
	long rate, least, most, overhead, mpu;
	bool down, off;
} args = { .least = LEAST_KBIT, .most = RATE_MAX_KBIT };

/* Waits till it has put back what stood there. */
static int stop_process(pid_t pid)
{
	unsigned long long start = process_start(pid);
	__u64 end = ns_after(PATIENCE);

	kill(pid, SIGTERM);
	while (start && process_start(pid) == start && now_ns() < end)
		usleep(20000);
	return start && process_start(pid) == start ? fail("--off: process %d does not end", pid) : 0;
}

/* The lock is not held while one ends that runs: it takes it, too. */
static int stop(const struct device *d)
{
	bool killed, ended = false;
	int nr = 0;
	pid_t pid;

	for (;;) {
		if (state_lock())
			return -1;
		pid = uplink_of(d->index, &killed);
		if (pid >= 0 && (!pid || killed))
			nr = uplink_clear(d);
		state_unlock();
		if (pid < 0 || nr < 0)
			return -1;
		if (!pid || killed)
			break;
		if (stop_process(pid))
			return -1;
		ended = true;
	}
	print("%s\n",
	      nr || killed || ended ? "the uplink is as it was before" : "there is no `asymcc uplink` on this device");
	return 0;
}

static int begin_locked(struct uplink *u)
{
	struct attachments all = {};
	struct thinning t;
	bool killed, thinned = false;
	pid_t pid = uplink_of(u->device.index, &killed);
	int i = 0, err = pid < 0 ? -1 : 0;

	if (pid > 0 && !killed)
		return fail(
			"--dev %s: `asymcc uplink` runs there already (process %d): `asymcc uplink --dev %s --off` ends it",
			u->dev, pid, u->dev);
	if (!err && !killed)
		err = attachments_read(&all);
	while (!err && thinning_next(&all, &i, &t))
		thinned |= !strcmp(t.cgroup, u->device.place);
	attachments_free(&all);
	if (thinned)
		return fail("--dev %s: `asymcc thin` is there already: `asymcc thin --off --dev %s` first", u->dev,
			    u->dev);
	return err ? -1 : uplink_begin(u, killed);
}

static int start(struct uplink *u)
{
	int err = state_lock() ? -1 : begin_locked(u);

	state_unlock();
	if (err)
		return -1;
	print("%s: the rate is searched for and followed; Ctrl-C ends it\n", printable(u->device.place));
	fflush(stdout);
	err = uplink_run(u);
	if (state_lock() || uplink_end(u))
		err = -1;
	state_unlock();
	return err;
}

static int uplink(void)
{
	struct uplink u = UPLINK_NOWHERE;
	sigset_t signals;
	int err;

	if (!args.dev)
		return fail("uplink: --dev DEVICE is missing: the device that leads to the modem");
	if (args.least > args.most)
		return fail("--least %ldkbit is more than --most %ldkbit", args.least, args.most);
	if (args.off &&
	    (args.down || args.probe || args.log || args.rate || args.least != LEAST_KBIT ||
	     args.most != RATE_MAX_KBIT))
		return fail("--off takes no values");
	if (args.rate && (args.rate < args.least || args.rate > args.most))
		return fail("--rate %ldkbit is not from --least to --most, %ldkbit to %ldkbit", args.rate, args.least,
			    args.most);
	u.dev = args.dev;
	u.rate = 1e3 * args.rate;
	u.least = 1e3 * args.least;
	u.most = 1e3 * args.most;
	u.overhead = args.overhead;
	u.mpu = args.mpu;
	u.ways = args.down ? UPLINK_WAYS : 1;
	if (args.probe && inet_pton(AF_INET, args.probe, &u.reflector) != 1)
		return fail("--probe %s: not an IPv4 address such as 192.0.2.1", args.probe);
	if (device_find(&u.device, args.dev))
		return -1;
	if (args.log && !args.off) {
		u.log = fopen(args.log, "ae");
		if (!u.log)
			return fail("--log %s: %s", args.log, strerror(errno));
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGPIPE); /* who reads the log may go, and files have limits */
	sigaddset(&signals, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	err = args.off ? stop(&u.device) : start(&u);
	uplink_close(&u);
	return err;
}

static const struct opt opts[] = {
	{ "dev", 'd', "DEVICE", "the device by which packets leave for the modem", .text = &args.dev },
	{ "rate", 'r', "RATE", "where it begins, such as 20mbit (else it searches)", .kbit = &args.rate },
	{ "least", 'l', "RATE", "it never shapes to less (100kbit)", .kbit = &args.least },
	{ "most", 'm', "RATE", "it never shapes to more (10gbit)", .kbit = &args.most },
	{ "down", 'w', NULL, "what arrives is shaped as well, by an ifb", .flag = &args.down },
	{ "probe", 'b', "ADDRESS",
	  "this host is asked for ICMP's timestamps while packets leave and no TCP tells how long they wait",
	  .text = &args.probe },
	{ "overhead", 'e', "N", "bytes that each packet takes of the uplink beside IP, as of CAKE",
	  .number = &args.overhead, .min = -64, .max = 256 },
	{ "mpu", 'p', "N", "bytes that each packet takes there at least, as of CAKE", .number = &args.mpu, .max = 256 },
	{ "log", 'g', "FILE", "a line each 40 ms: seconds, rate, capacity (bit/s), the modem's queue (ms), cause",
	  .text = &args.log },
	{ "off", 'o', NULL, "end the one that runs, or take away what a killed one left", .flag = &args.off },
	{}
};

const struct command cmd_uplink = {
	.name = "uplink",
	.opts = opts,
	.objects = true,
	.run = uplink,
	.summary = "keep the queue of a modem short, and its uplink full: its rate is found",
	.about =
		"It puts the kernel's CAKE on the device, at a rate that it finds and follows, and thins ACKs to a twentieth "
		"of that. How long packets wait in the modem it sees from the timestamps of TCP connections that pass.\n"
		"It runs until SIGINT or SIGTERM; then what stood there is there again. A qdisc that somebody has set is "
		"not replaced. If it is killed, CAKE stays at the last rate; the same command again, or --off, clears that.\n"
		"--down keeps the queue at the modem's far end short in the same way, at a rate of its own.\n"
		"The kernel needs CAKE, and what `thin --dev` needs; for --down also ifb, matchall and mirred.",
};
