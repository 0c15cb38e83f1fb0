// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "registry.h"
#include "state.h"
#include "use.h"

static struct {
	const char *name;
	bool force, drain;
	long seconds;               /* -1: without end */
} args = { .seconds = -1 };

/* What there is of it. */
struct found {
	struct registry registry;
	struct netns_list users;
	struct attachments all, mine;
	char *where;                /* who uses it: users_text() */
};

/*
 * How many sockets run a controller of that name, whichever build; 0 only if no build of it is left in the kernel. -1:
 * not known.
 */
static int sockets_left(unsigned int *left)
{
	struct netns_list users;
	struct registry r = {};
	int there = -1;

	if (!netns_read(&users) && !registry_read(&r)) {
		there = !!registry_find(&r, args.name);
		*left = there ? count_sockets(&users, args.name) : 0;
	}
	netns_free(&users);
	registry_free(&r);
	return there;
}

/* Until the last connection that runs it has ended, but no longer than --seconds. */
static int wait_for_sockets(unsigned int *left)
{
	for (long waited = 0;; waited++) {
		int there = sockets_left(left);

		if (there <= 0 || (args.seconds >= 0 && waited >= args.seconds))
			return there < 0 ? -1 : 0;
		if (waited == 1) { /* not for one that is about to go */
			printf("%s: waiting for %u socket%s\n", args.name, *left, *left == 1 ? "" : "s");
			fflush(stdout);
		}
		sleep(1);
	}
}

/* It is out of the kernel: so shall its programs be; with --drain, as soon as nothing runs it. */
static int take_programs(const struct attachments *mine, unsigned int *sockets)
{
	int err;

	if (!args.drain)
		return attachments_detach(mine) || sockets_left(sockets) < 0 ? -1 : 0;
	state_unlock(); /* others need not wait as long */
	err = wait_for_sockets(sockets);
	if (state_lock())
		exit(EXIT_FAILURE);
	return attachments_detach(mine) || err ? -1 : 0;
}

/* "fast unloaded; detached from /sys/fs/cgroup; 2 sockets keep it until closed" */
static void print_unloaded(const struct found *f, bool detached, unsigned int sockets)
{
	struct netns_list now = {};
	char *still = NULL;

	printf("%s unloaded", args.name);
	if (detached && f->mine.nr) {
		printf("; detached from ");
		attachments_print(&f->mine, 0, NULL);
	}
	if (*f->where && args.drain)
		printf("; taken back from %s", f->where);
	else if (*f->where && !netns_read(&now))
		still = users_text(&now, &f->all, args.name, false);
	if (still && *still)
		printf("; still %s", still);
	if (sockets)
		printf("; %u socket%s it until closed", sockets, sockets == 1 ? " keeps" : "s keep");
	putchar('\n');
	netns_free(&now);
	free(still);
}

static int unload_registered(const struct found *f, const struct registered *reg)
{
	unsigned int sockets = 0;
	int left, err;

	if (*f->where && !args.force && !args.drain)
		return fail("%s is still given to connections: %s: take it back first (`asymcc unuse %s`), or use "
			    "--drain, or --force",
			    args.name, f->where, args.name);
	/* routes always: the kernel does not tell those of a controller that is gone */
	if (*f->where && unuse_all(&f->all, args.name, !args.drain, &left) < 0 && !args.force)
		return -1;
	/* after this no new connection can take it */
	if (registry_remove(reg))
		return -1;
	err = take_programs(&f->mine, &sockets);
	print_unloaded(f, !err, sockets);
	return err;
}

/* A load was killed before it registered anything, or the struct_ops was taken out alone. */
static int unload_left_over(const struct found *f, const struct registered *reg)
{
	if (attachments_detach(&f->mine))
		return -1;
	printf("%s %s; its programs were left over and are detached from ", args.name,
	       reg ? "is unloaded already" : "is not registered");
	attachments_print(&f->mine, 0, NULL);
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
	if (f->mine.nr || *f->where)
		return err;
	return reg ? fail("%s is unloaded already; it stays until its users end (%u sockets)", args.name,
			  count_sockets(&f->users, args.name))
		   : fail("%s is not registered; `asymcc list` shows what is", args.name);
}

/* Of the object of that name, as args.name. */
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
	struct words object;
	int there = state_read(file, &object), available;

	if (there <= 0)
		return there;
	available = controller_available(args.name);
	if (available < 0 || (!available && register_again(object.word[0])))
		return -1;
	return state_remove(file);
}

static int unload_locked(struct found *f)
{
	if (finish_replacement() || registry_read(&f->registry) || attachments_read(&f->all) ||
	    attachments_read(&f->mine) || netns_read(&f->users))
		return -1;
	netns_warn(&f->users);
	attachments_keep(&f->mine, args.name, NULL);
	f->where = users_text(&f->users, &f->all, args.name, false);
	return f->where ? unload_found(f) : fail("out of memory");
}

static int unload(void)
{
	struct found f = {};
	int err = state_lock();

	if (!err)
		err = unload_locked(&f);
	state_unlock();
	free(f.where);
	attachments_free(&f.all);
	attachments_free(&f.mine);
	netns_free(&f.users);
	registry_free(&f.registry);
	return err;
}

static const struct opt words[] = { { .arg = "NAME", .cc = &args.name }, {} };
static const struct opt opts[] = {
	{ "force", 'f', NULL, "unload although something names it", .flag = &args.force },
	{ "drain", 'd', NULL, "take back every use, and wait for the last connection", .flag = &args.drain },
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
	.about = "It is refused while a default, a route or a cgroup names the controller. With --drain those are "
		 "taken back as by `unuse`, and the command waits until the last connection has ended, of replaced "
		 "builds as well. With --force only routes are. Connections keep the program they have until they are "
		 "closed.\n"
		 "It removes what a killed `load` left, too.",
};
