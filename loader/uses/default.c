// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "uses/default.h"
#include "kernel/netns.h"

static int set_default(const char *cc)
{
	int err = 0, fd = open(DEFAULT_CC, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, cc, strlen(cc)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/*
 * Makes another than `cc` the default: `before`, or, if that is "" or cannot be, one that this namespace may have. -1 with a
 * message.
 */
static int set_back(const char *cc, const char *before)
{
	char allowed[CC_NAME_LEN] = "";
	const char *const others[] = { "cubic", "reno", controller_allowed(cc, allowed) ? allowed : "" };
	int refused = *before ? set_default(before) : -ENOENT, err = refused, i = 0;

	for (; i < 3 && (err == -ENOENT || err == -EPERM || err == -EBUSY); i++)
		if (*others[i] && strcmp(others[i], cc))
			err = set_default(others[i]);
	if (err)
		return fail("--default: nothing else can be made the default in place of %s: %s", cc,
			    err == -EPERM ? MAY_NOT_HAVE : strerror(-err));
	if (*before && i)
		fail("--default: it is %s now, and not %s as before: %s", others[i - 1], before,
		     refused == -ENOENT  ? "that is not loaded any more"
		     : refused == -EPERM ? MAY_NOT_HAVE
					 : strerror(-refused));
	return 0;
}

/* The default is as before: so is what is remembered of it. */
static int restore_state(const struct before *b)
{
	const char *file = state_default();

	if (!file)
		return -1;
	return b->known ? state_write(file, &b->state) : state_remove(file);
}

int default_use(const char *cc, struct before *b)
{
	const char *file = state_default();
	struct words next = {};
	int err;

	if (!file || netns_default(b->now))
		return -1;
	if (!*b->now)
		return fail("--default: this network namespace has none");
	b->known = state_read(file, &b->state);
	if (b->known < 0)
		return -1;
	if (*state_mark && !controller_may_return(b->now))
		return fail("--default: a trial could not end with %s, the default now: " MAY_NOT_HAVE, b->now);
	if (strcmp(b->now, cc) || (b->known && is_trial_of(&b->state, cc))) { /* a trial's is kept from now on */
		memcpy(next.word[0], is_given(&b->state, b->now) ? b->state.word[0] : b->now, CC_NAME_LEN);
		snprintf(next.word[1], CC_NAME_LEN, "%s", cc);
		memcpy(next.word[2], b->now, CC_NAME_LEN);
		snprintf(next.word[3], CC_NAME_LEN, "%s", state_mark);
		if (state_write(file, &next))
			return -1;
	}
	err = set_default(cc); /* of that name it may have been an older instance */
	if (!err)
		return 0;
	if (strcmp(b->now, cc))
		restore_state(b);
	if (err == -EPERM && !geteuid())
		return fail("--default %s: " MAY_NOT_HAVE, cc);
	if (err == -EPERM || err == -EACCES)
		return fail("--default: not permitted: run it as root (it needs CAP_NET_ADMIN)");
	return fail("--default: %s cannot be made the default: %s", cc, strerror(-err));
}

void default_undo(const char *cc, const struct before *b)
{
	if (strcmp(b->now, cc) && !set_back(cc, b->now))
		restore_state(b);
}

/* What is remembered of what a trial changed: as it was before it. */
static int forget_trial(const char *file, const struct words *state)
{
	struct words past = *state;

	if (!strcmp(state->word[0], state->word[2]))
		return state_remove(file);
	memcpy(past.word[1], state->word[2], CC_NAME_LEN);
	past.word[3][0] = 0;
	return state_write(file, &past);
}

int default_end(const char *cc, const char *netns, int *left)
{
	const char *file = state_default();
	char now[CC_NAME_LEN];
	struct words state;
	int err = 0, known = file ? state_read(file, &state) : -1;

	if (known <= 0 || !is_trial_of(&state, cc))
		return known < 0 ? -1 : 0;
	if (netns_default(now))
		return -1;
	if (!strcmp(now, cc))
		err = set_back(cc, state.word[2]);
	else if (strcmp(now, state.word[2]) && ++*left)
		fail("the default of %s is %s by now: it stays", netns, now);
	return err ? -1 : forget_trial(file, &state);
}

int default_unuse(const char *cc, bool only_count)
{
	const char *file;
	char now[CC_NAME_LEN];
	struct words state;

	if (netns_default(now))
		return -1;
	file = state_default();
	if (!file || state_read(file, &state) < 0)
		return -1;
	if (strcmp(now, cc) && strcmp(state.word[1], cc))
		return 0;
	if (only_count)
		return 1;
	if (strcmp(now, cc)) /* another has set it: what is remembered of it goes */
		return state_remove(file) ? -1 : 1;
	if (set_back(cc, is_given(&state, cc) ? state.word[0] : "")) /* "": another has set it */
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
