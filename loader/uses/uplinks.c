// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A file of each `asymcc uplink` that runs or was killed, and the words to its meter. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "args.h"
#include "kernel/cake.h"
#include "kernel/ifb.h"
#include "kernel/process.h"
#include "uses/state.h"
#include "uses/uplinks.h"
#include "view/text.h"

const char *const uplink_causes[UPLINK_CAUSES] = {
	[UPLINK_SEARCH] = "search", [UPLINK_IDLE] = "idle",       [UPLINK_GROWTH] = "growth", [UPLINK_QUEUE] = "queue",
	[UPLINK_LOSS] = "loss",     [UPLINK_SILENCE] = "silence", [UPLINK_DRAIN] = "drain",   [UPLINK_PATH] = "path",
};

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
static void read_told(const struct record *w, struct uplink_told now[UPLINK_WAYS])
{
	int fd = bpf_map_get_fd_by_id(strtoul(w->map, NULL, 10));
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	const __u32 zero = 0;

	if (fd < 0)
		return;
	/* its number may be another's by now */
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != UPLINK_WAYS * sizeof(*now) ||
	    !ends_with(info.name, ".data") || bpf_map_lookup_elem(fd, &zero, now) ||
	    now[UPLINK_UP].cause >= UPLINK_CAUSES || now[UPLINK_DOWN].cause >= UPLINK_CAUSES)
		memset(now, 0, UPLINK_WAYS * sizeof(*now));
	close(fd);
}

/* A device takes with it what a process has left there. */
static bool is_gone(const char *index)
{
	char name[IF_NAMESIZE];

	return !if_indextoname(strtoul(index, NULL, 10), name);
}

static void describe(struct uplink_state *s, pid_t pid, bool killed, unsigned int index)
{
	const char *what = s->way == UPLINK_DOWN ? "what arrives is " : "";
	struct root_qdisc q = {};
	int err = root_qdisc_read(index, &q);

	if (err || !q.ours)
		snprintf(s->text, sizeof(s->text), killed ? "`asymcc uplink` was killed" : "process %d begins, or ends",
			 pid);
	else if (killed)
		snprintf(s->text, sizeof(s->text), "`asymcc uplink` was killed: CAKE stays at %.2f Mbit/s",
			 q.rate / 1e6);
	else if (q.rate > 9e9)
		snprintf(s->text, sizeof(s->text), "process %d has not yet seen a queue in the modem%s", pid,
			 s->way == UPLINK_DOWN ? "'s far end" : "");
	else if (!s->now.rate)
		snprintf(s->text, sizeof(s->text), "%sshaped to %.2f Mbit/s by process %d", what, q.rate / 1e6, pid);
	else
		snprintf(s->text, sizeof(s->text),
			 "%sshaped to %.2f Mbit/s by process %d, the modem's queue %.1f ms, by %s", what, q.rate / 1e6,
			 pid, s->now.queue_ns / 1e6, uplink_causes[s->now.cause]);
}

static void look_at(const char *index, const struct record *w, void *ctx)
{
	unsigned int device = strtoul(index, NULL, 10), at[UPLINK_WAYS] = { device };
	struct uplink_told now[UPLINK_WAYS] = {};
	const struct uplinks *all = ctx;
	bool killed;
	pid_t pid = uplink_of(device, &killed);

	if (pid <= 0 || (killed && is_gone(index)))
		return;
	if (!killed)
		read_told(w, now);
	at[UPLINK_DOWN] = *w->down ? ifb_of(device) : 0;
	for (int i = 0; i < (*w->down ? UPLINK_WAYS : 1); i++) {
		struct uplink_state s = { .way = i, .now = now[i] };

		snprintf(s.dev, sizeof(s.dev), "%.15s", w->text);
		describe(&s, pid, killed, at[i]);
		if (killed)
			snprintf(s.mend, sizeof(s.mend), "asymcc uplink --dev %.15s, or with --off", w->text);
		all->look(&s, all->ctx);
	}
}

int uplinks_each(void (*look)(const struct uplink_state *state, void *ctx), void *ctx)
{
	struct uplinks all = { look, ctx };

	return state_each_uplink(look_at, &all);
}

static void forget_gone(const char *index, const struct record *w, void *ctx)
{
	unsigned int device = strtoul(index, NULL, 10);
	int *err = ctx;
	bool killed;

	if (uplink_of(device, &killed) <= 0 || !killed || !is_gone(index))
		return;
	if (*w->down) /* but for its ifb */
		ifb_remove(device, false);
	*err |= state_remove(state_uplink(device));
}

int uplinks_forget_gone(void)
{
	int err = 0;

	return state_each_uplink(forget_gone, &err) || err ? -1 : 0;
}
