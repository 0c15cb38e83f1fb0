// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uses/cgroups.h"
#include "kernel/clock.h"
#include "command.h"
#include "kernel/sockets.h"
#include "uses/socket_move.h"
#include "kernel/registry.h"
#include "uses/state.h"
#include "uses/users.h"
#include "uses/uses.h"

static struct {
	const char *name, *to;
	bool force, drain;
	long seconds;               /* -1: without end */
} args = { .seconds = -1 };

/* All that there is of it. */
struct found {
	struct registry registry;
	struct users users;
	struct attachments all, mine;
	char *where;                /* who uses it: users_text() */
};

/* The sockets that keep it, whichever build. */
static struct {
	struct sockets sockets;
	bool there;                 /* a build of it is left in the kernel */
	size_t nr;
	/* of them: listeners that took it as a default. They keep its memory alone: what they accept takes the default of now */
	size_t idle;
	struct move move;
	bool can_move;
} kept;

/* A kernel that does not tell the sockets, which is said once, still tells when none is left. */
static int find_kept(void)
{
	struct registry r = {};
	static bool said;
	int err;

	kept.sockets.name = args.name;
	if (sockets_read(&kept.sockets) && *kept.sockets.error && !said) {
		fail("%s", kept.sockets.error);
		said = true;
	}
	err = registry_read(&r);
	kept.there = registry_find(&r, args.name);
	kept.nr = kept.sockets.flows.nr + kept.sockets.others.nr;
	registry_free(&r);
	return err;
}

static size_t listeners(void)
{
	size_t nr = 0;

	for (size_t i = 0; i < kept.sockets.others.nr; i++)
		nr += kept.sockets.others.at[i].listens;
	return nr;
}

/* A listener gives what it chose to all that it accepts: it gets what its namespace has as default now. */
static int move_listeners(const struct netns_id *id, void *ctx)
{
	struct move *m = ctx;

	(void)id;
	if (netns_default(m->rule.to))
		return -1;
	return *m->rule.to ? move_run(m) : 0;
}

/* With --switch all sockets; else the listeners that chose it. */
static int move_kept(void)
{
	struct move_rule *r = &kept.move.rule;
	int err;

	snprintf(r->from, sizeof(r->from), "%s", args.name);
	r->what = args.to ? MOVE_CONNECTIONS | MOVE_LISTENERS : MOVE_LISTENERS | MOVE_CHOSEN;
	if (args.to)
		snprintf(r->to, sizeof(r->to), "%s", args.to);
	err = args.to ? move_run_all(&kept.move) : netns_each(move_listeners, &kept.move);
	if (err || find_kept())
		return -1;
	kept.idle = args.to ? 0 : listeners();
	return 0;
}

/* The command waits for listeners that the kernel cannot move, which is said once. */
static int free_listeners(void)
{
	static bool tried;

	if (!kept.can_move && !tried)
		kept.can_move = !move_open(&kept.move);
	tried = true;
	return kept.can_move ? move_kept() : 0;
}

static void print_waiting(void)
{
	size_t nr = kept.nr - kept.idle;

	if (nr)
		printf("%s: waiting for %zu socket%s\n", args.name, nr, nr == 1 ? "" : "s");
	else
		printf("%s: waiting for a socket that is not connected, or a network namespace that cannot be seen: the "
		       "kernel does not tell which\n",
		       args.name);
	print_sockets(&kept.sockets, true);
	fflush(stdout);
}

/* Until the last connection that runs it has ended, but no longer than --seconds. */
static int wait_for_sockets(void)
{
	__u64 end = ns_after(args.seconds), next;
	sigset_t none;

	sigemptyset(&none);
	for (int looks = 0;; looks++) {
		if (find_kept() || ((args.to ? !looks : listeners() > kept.idle) && free_listeners()))
			return -1;
		if (!kept.there || (kept.idle && kept.nr == kept.idle) || now_ns() >= end)
			return 0;
		if (looks == 2) /* not for one that is about to go */
			print_waiting();
		next = now_ns() + (looks ? NS_PER_S : 50 * NS_PER_MS); /* that the kernel takes to let it go */
		wait_till(next < end ? next : end, &none);
	}
}

/* It is out of the kernel: so shall its programs be; with --drain, as soon as nothing runs it. */
static int take_programs(const struct attachments *mine)
{
	int err;

	if (!args.drain)
		return attachments_detach(mine) || find_kept() ? -1 : 0;
	state_unlock(); /* others need not wait as long */
	err = wait_for_sockets();
	if (state_lock())
		exit(EXIT_FAILURE);
	return attachments_detach(mine) || err ? -1 : 0;
}

static void print_kept(void)
{
	size_t nr = kept.there ? kept.nr - kept.idle : 0, idle = kept.there ? kept.idle : 0;

	if (nr)
		printf("; %zu socket%s it until closed", nr, nr == 1 ? " keeps" : "s keep");
	if (idle)
		printf("; %zu listener%s its memory until closed, and give%s it to none", idle,
		       idle == 1 ? " keeps" : "s keep", idle == 1 ? "s" : "");
	putchar('\n');
	if (nr + idle)
		print_sockets(&kept.sockets, true);
}

/* "fast unloaded; detached from /sys/fs/cgroup; 2 sockets keep it until closed" */
static void print_unloaded(const struct found *f, bool detached)
{
	struct users now = {};
	char *still = NULL;

	printf("%s unloaded", args.name);
	if (detached)
		attachments_print(&f->mine, 0, NULL, "; detached from ");
	if (*f->where && args.drain)
		printf("; taken back from %s", f->where);
	else if (*f->where && !users_read(&now))
		still = users_text(&now, &f->all, args.name, false);
	if (still && *still)
		printf("; still %s", still);
	if (kept.move.rule.moved)
		printf("; %u socket%s given %s", kept.move.rule.moved, kept.move.rule.moved == 1 ? " is" : "s are",
		       args.to ? args.to : "the default");
	if (kept.move.rule.refused)
		printf("; %u %s locked by a route", kept.move.rule.refused, kept.move.rule.refused == 1 ? "is" : "are");
	print_kept();
	users_free(&now);
	free(still);
}

static int unload_registered(const struct found *f, const struct registered *reg)
{
	int left, err;

	if (*f->where && !args.force && !args.drain)
		return fail("%s is still given to connections: %s: take it back first (`asymcc unuse %s`), or use "
			    "--drain, or --force",
			    args.name, f->where, args.name);
	/* routes always: the kernel does not tell those of a controller that is gone */
	if ((*f->where || users_lost(&f->users, args.name)) && unuse_all(&f->all, args.name, !args.drain, &left) < 0 &&
	    !args.force)
		return -1;
	if (cgroups_forget(&f->all, args.name) && !args.force)
		return -1;
	/* after this no new connection can take it */
	if (registry_remove(reg))
		return -1;
	state_remove(state_loaded(args.name));
	if (args.drain) /* all of it is taken back */
		state_remove(state_try(args.name));
	err = take_programs(&f->mine);
	print_unloaded(f, !err);
	return err;
}

/* A load was killed before it registered anything, or the struct_ops was taken out alone. */
static int unload_left_over(const struct found *f, const struct registered *reg)
{
	if (attachments_detach(&f->mine))
		return -1;
	printf("%s %s", args.name, reg ? "is unloaded already" : "is not registered");
	attachments_print(&f->mine, 0, NULL, "; its programs were left over and are detached from ");
	putchar('\n');
	return 0;
}

/* It is gone, or goes as soon as its sockets do; defaults and cgroups may still name it. */
static int unload_uses(const struct found *f)
{
	int left;

	if (!args.drain && !args.force)
		return fail("%s is not registered, but still given to connections: %s: `asymcc unuse %s` takes it back",
			    args.name, f->where, args.name);
	if (unuse_all(&f->all, args.name, false, &left) < 0)
		return -1;
	printf("%s is not registered; taken back from %s\n", args.name, f->where);
	return 0;
}

/* There is nothing to take out, which is no error. */
static int unload_gone(const struct found *f, const struct registered *reg)
{
	if (cgroups_forget(&f->all, args.name) || state_remove(state_loaded(args.name)) || (reg && find_kept()))
		return -1;
	printf("%s is %s", args.name, reg ? "unloaded already" : "not registered");
	print_kept();
	return 0;
}

static int unload_found(const struct found *f)
{
	const struct registered *reg = registry_find(&f->registry, args.name);
	int err = 0;

	if (reg && !reg->unloading)
		return unload_registered(f, reg);
	if (!reg && f->mine.nr && !strcmp(args.name, THIN))
		return fail(THIN " is not a controller: `asymcc thin --off` ends the thinning of ACKs");
	if (f->mine.nr)
		err = unload_left_over(f, reg);
	if (!err && *f->where)
		err = unload_uses(f);
	if (!err && reg && args.drain) {
		if (cgroups_forget(&f->all, args.name))
			return -1;
		err = take_programs(&f->mine);
		print_unloaded(f, false);
		return err;
	}
	if (f->mine.nr || *f->where)
		return err;
	return unload_gone(f, reg);
}

/* The object of that name, as args.name. */
static int register_again(const char *object)
{
	struct object o = {};
	int err = object_open_controller(&o, object, args.name) || registry_load(o.bpf) || object_register(&o);

	object_close(&o);
	return err ? fail("%s was being replaced when asymcc was killed: `asymcc load %s --as %s`, then unload it",
			  args.name, object, args.name)
		   : 0;
}

/*
 * A replacement was killed when the old one was out and the new one not in. Routes still have the name, which the
 * kernel tells only of a controller that is registered: so it is, for as long as it takes.
 */
static int finish_replacement(void)
{
	const char *file = state_replacing(args.name);
	struct record object;
	int there = state_read(file, &object), available;

	if (there <= 0)
		return there;
	available = controller_available(args.name);
	if (available < 0 || (!available && register_again(object.what)))
		return -1;
	return state_remove(file);
}

/* Something may have it as default where nobody here can look. */
static int check_unseen(const struct found *f)
{
	const struct registered *reg = registry_find(&f->registry, args.name);
	int nr = reg ? users_hidden(&f->users, &f->registry, reg) : 0;

	if (nr > 0 && netns_unseen() && !args.force && !args.drain)
		return fail("%s may be a default elsewhere: " NETNS_UNSEEN ", but the kernel counts %d use%s more: "
			    "unload it where `asymcc status` sees all, or use --drain, or --force",
			    args.name, netns_unseen(), nr, nr == 1 ? "" : "s");
	netns_warn_unseen();
	if (nr > 0)
		fail(HIDDEN_USES(nr), args.name);
	return nr < 0 ? -1 : 0;
}

static int unload_locked(struct found *f)
{
	if (finish_replacement() || registry_read(&f->registry) || attachments_read(&f->all) ||
	    attachments_read(&f->mine) || users_read(&f->users))
		return -1;
	users_warn(&f->users);
	if (f->users.records_unread || check_unseen(f))
		return -1;
	attachments_keep(&f->mine, args.name, NULL);
	f->where = users_text(&f->users, &f->all, args.name, false);
	return f->where ? unload_found(f) : fail("out of memory");
}

/* All that can fail of it fails before anything is changed. */
static int check_switch(void)
{
	int there = args.to ? controller_available(args.to) : 1;

	if (!args.to)
		return 0;
	if (there > 0 && strcmp(args.to, args.name)) {
		args.drain = true;
		kept.can_move = !move_open(&kept.move);
		return kept.can_move ? 0 : -1;
	}
	return there < 0 ? -1
			 : fail("--switch %s: %s", args.to,
				there ? "it is the one that goes" : "it is not loaded (`asymcc list` shows what is)");
}

static int unload(void)
{
	struct found f = {};
	int err = check_switch() || state_lock();

	if (!err)
		err = unload_locked(&f);
	state_unlock();
	sockets_free(&kept.sockets);
	move_close(&kept.move);
	free(f.where);
	attachments_free(&f.all);
	attachments_free(&f.mine);
	users_free(&f.users);
	registry_free(&f.registry);
	return err;
}

static const struct opt words[] = { { .arg = "NAME", .cc = &args.name }, {} };
static const struct opt opts[] = {
	{ "force", 'f', NULL, "unload although something names it", .flag = &args.force },
	{ "drain", 'd', NULL, "take back every use, and wait for the last connection", .flag = &args.drain },
	{ "switch", 'w', "CC", "as --drain, and give open connections and listeners CC at once", .cc = &args.to },
	{ "seconds", 't', "N", "with --drain: wait no longer; 0: not at all", .number = &args.seconds,
	  .max = SECONDS_MAX },
	{}
};

const struct command cmd_unload = {
	.name = "unload",
	.words = words,
	.opts = opts,
	.objects = true,
	.run = unload,
	.summary = "take a controller out of the kernel",
	.about =
		"It is refused while a default, a route or a cgroup names the controller. With --drain those are "
		"taken back as by `unuse`, listeners that chose it get the default, and the command waits until the "
		"last connection has ended, of replaced builds as well. With --switch open sockets get another "
		"controller, and nothing is waited for. With --force only routes are taken back. Connections keep the program they have until they are "
		"closed.\n"
		"It removes what a killed `load` left, too. If a controller is not loaded it says so.",
};
