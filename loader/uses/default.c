// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "uses/default.h"
#include "kernel/netns.h"

/* A default that the kernel refuses with EPERM keeps a reference on its controller for ever: it is not tried. */
static int set_default(const char *cc)
{
	int err = 0, fd = open(DEFAULT_CC, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && !controller_may_be_default(cc) && controller_available(cc) > 0)
		err = -EPERM;
	else if (fd < 0 || write(fd, cc, strlen(cc)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/*
 * Makes another than `cc` the default: `before`, or, if that is not known or cannot be, one that this namespace may have. -1 with a
 * message.
 */
static int set_back(const char *cc, const char *before)
{
	char allowed[CC_NAME_LEN] = "";
	const char *const others[] = { "cubic", "reno", controller_allowed(cc, allowed) ? allowed : "" };
	bool known = is_name(before) && strcmp(before, NONE) && strcmp(before, cc);
	int refused = known ? set_default(before) : -ENOENT, err = refused, i = 0;

	for (; i < 3 && (err == -ENOENT || err == -EPERM || err == -EBUSY); i++)
		if (*others[i] && strcmp(others[i], cc))
			err = set_default(others[i]);
	if (err)
		return fail("--default: nothing else can be made the default in place of %s: %s", cc,
			    err == -EPERM ? MAY_NOT_HAVE : strerror(-err));
	if (known && i)
		fail("--default: it is %s now, and not %s as before: %s", others[i - 1], before,
		     refused == -ENOENT  ? "that is not loaded any more"
		     : refused == -EPERM ? MAY_NOT_HAVE
					 : strerror(-refused));
	return 0;
}

int default_use(const char *cc, bool by_trial, struct default_before *b)
{
	const char *file = state_default();
	int err;

	if (netns_default(b->now))
		return -1;
	if (!*b->now)
		return fail("--default: this network namespace has none");
	if (by_trial && !controller_may_be_default(b->now))
		return fail("--default: a trial could not end with %s, the default now: " MAY_NOT_HAVE, b->now);
	b->past.known = state_read(file, &b->past.record);
	if (b->past.known < 0)
		return -1;
	if ((strcmp(b->now, cc) || is_trial_of(&b->past.record, cc)) && /* a trial's is kept from now on */
	    given_remember(file, b->now, cc, by_trial, &b->past))
		return -1;
	err = set_default(cc); /* of that name it may have been an older instance */
	if (!err)
		return 0;
	if (strcmp(b->now, cc))
		given_restore(file, &b->past);
	if (err == -EPERM && !geteuid())
		return fail("--default %s: " MAY_NOT_HAVE, cc);
	if (err == -EPERM || err == -EACCES)
		return fail("--default: not permitted: run it as root (it needs CAP_NET_ADMIN)");
	return fail("--default: %s cannot be made the default: %s", cc, strerror(-err));
}

void default_undo(const char *cc, const struct default_before *b)
{
	if (strcmp(b->now, cc) && !set_back(cc, b->now))
		given_restore(state_default(), &b->past);
}

int default_end(const char *cc, const char *netns, int *left)
{
	const char *file = state_default();
	char now[CC_NAME_LEN];
	struct record given;
	int err = 0, known = state_read(file, &given);

	if (known <= 0 || !is_trial_of(&given, cc))
		return known < 0 ? -1 : 0;
	if (netns_default(now))
		return -1;
	if (!strcmp(now, cc)) {
		err = set_back(cc, given.before);
	} else if (strcmp(now, given.before)) {
		++*left;
		fail("the default of %s is %s by now: it stays", netns, now);
	}
	return err ? -1 : given_end_trial(file, &given);
}

int default_unuse(const char *cc, bool only_count)
{
	const char *file;
	char now[CC_NAME_LEN];
	struct record given;

	if (netns_default(now))
		return -1;
	file = state_default();
	if (state_read(file, &given) < 0)
		return -1;
	if (strcmp(now, cc) && strcmp(given.name, cc))
		return 0;
	if (only_count)
		return 1;
	if (strcmp(now, cc)) /* another has set it: what is remembered of it goes */
		return state_remove(file) ? -1 : 1;
	if (set_back(cc, is_given(&given, cc) ? given.original : "")) /* "": another has set it */
		return -1;
	return state_remove(file) ? -1 : 1;
}

struct renewal {
	const char *cc;
	bool failed;
};

static int renew_one(const struct netns_id *id, void *ctx)
{
	struct renewal *w = ctx;
	char now[CC_NAME_LEN];
	int err = 0;

	if (netns_default(now))
		w->failed = true;
	else if (!strcmp(now, w->cc))
		err = set_default(w->cc);
	if (err) {
		fail("%s stays the default of %s as it was loaded before: %s", w->cc, id->name, strerror(-err));
		w->failed = true;
	}
	return 0;
}

int defaults_renew(const char *cc)
{
	struct renewal w = { .cc = cc };

	return netns_each(renew_one, &w) || w.failed ? -1 : 0;
}
