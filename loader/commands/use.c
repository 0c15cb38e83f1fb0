// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "command.h"
#include "uses/state.h"
#include "uses/open_sockets.h"
#include "kernel/registry.h"

static struct uses args;
static bool existing;

/* NOTE() of a controller from BPF; nothing where we may change the default, but not read the kernel's maps. */
static void print_note(void)
{
	const struct registered *reg;
	struct registry r = {};
	struct btf *btf = NULL;
	__u32 id;

	if (bpf_map_get_next_id(0, &id))
		return;
	reg = registry_read(&r) ? NULL : registry_find(&r, args.cc);
	if (reg)
		btf = btf__load_from_kernel_by_id(reg->btf_id);
	if (btf)
		note_print(btf);
	btf__free(btf);
	registry_free(&r);
}

static int use_locked(struct move *m)
{
	int err = -1, there = controller_available(args.cc);

	if (!there)
		fail("%s is not loaded: `asymcc load %s` first (`asymcc list` shows what is there)", args.cc, args.cc);
	else if (there > 0 && !netns_default(m->rule.or_from))
		err = uses_make(&args);
	if (!err)
		uses_print(&args, "is used");
	if (!err && existing)
		err = open_sockets_move(m, &args);
	if (!err)
		print_note();
	if (!err && args.by_default && !controller_may_be_default(m->rule.or_from))
		printf("note: `unuse` cannot set it back to %s, the default before: " MAY_NOT_HAVE "\n",
		       m->rule.or_from);
	return err;
}

static int use(void)
{
	struct move m = {};
	int err = -1;

	if (!args.by_default && !args.routes.nr && !args.cgroups.nr)
		fail("use %s: for which connections? --default, --route PREFIX or --cgroup PATH", args.cc);
	else if (existing && args.share_text)
		fail("--share is of new connections: leave out --existing");
	else if (!uses_parse(&args) && !(existing && move_open(&m)) && !state_lock())
		err = use_locked(&m);
	state_unlock();
	move_close(&m);
	uses_free(&args);
	return err;
}

static const struct opt words[] = { USES_WORDS(args), {} };
static const struct opt opts[] = {
	USES_OPTS(args), SHARE_OPTS(args), { "existing", 'e', NULL, "to open connections, too", .flag = &existing }, {}
};

const struct command cmd_use = {
	.name = "use",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = use,
	.summary = "give a loaded controller to new connections",
	.about =
		"--default: those of this network namespace (sysctl net.ipv4.tcp_congestion_control).\n"
		"--route: those to a prefix (the congctl of the route that they take there now, in whichever table); "
		"if that is of a shorter prefix, one is made like it.\n"
		"--cgroup: those that processes of a cgroup open or accept.\n"
		"A cgroup comes before a route, a route before what the socket itself chose before it was connected, "
		"that before the default. All uses named are made, or none.\n"
		"--share 10%: a tenth of the cgroup's new connections, by a hash of the socket; `status`, `top` and `metrics` "
		"compare those that have ended with the rest. --stop-if-worse 20%: new connections take it no more as soon as "
		"the whole 95 % interval of the goodput lies below that of the rest by 20 %.\n"
		"--existing: open connections take it as well. With --default those of this network namespace take it "
		"whose controller came from the default, or is the one that was the default until now; with --route "
		"those to the prefix that no longer route takes, with --cgroup all of the cgroup's. They keep their window, "
		"and lose no data.",
};
