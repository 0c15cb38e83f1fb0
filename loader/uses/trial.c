// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uses/cgroups.h"
#include "kernel/clock.h"
#include "uses/default.h"
#include "kernel/netns.h"
#include "object/object.h"
#include "uses/routes.h"
#include "uses/state.h"
#include "uses/trial.h"

#define GRACE 10 /* s, that the command has to end it itself */
#define RETRY 5 /* s: another command may keep the lock */
#define RETRIES 20
#define SYSTEMD "systemd"
#define BOOTED "/run/systemd/system" /* sd_booted(3) */

extern char **environ;

/* "$" begins a variable in a command line of systemd's. In memory that stays. */
static char *escaped(const char *text)
{
	char *out = malloc(2 * strlen(text) + 1), *to = out;

	for (; out && *text; text++) {
		if (*text == '$')
			*to++ = '$';
		*to++ = *text;
	}
	if (out)
		*to = 0;
	return out;
}

/* Quietly; returns whether it has succeeded. */
static bool run(char *const argv[])
{
	posix_spawn_file_actions_t quiet;
	posix_spawnattr_t attr;
	sigset_t none;
	int status = -1;
	pid_t pid;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&quiet);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_RDWR, 0);
	signal(SIGCHLD, SIG_DFL);
	if (!posix_spawnp(&pid, argv[0], &quiet, &attr, argv, environ))
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	posix_spawn_file_actions_destroy(&quiet);
	posix_spawnattr_destroy(&attr);
	return !status;
}

static void stop_timer(const char *cc)
{
	char unit[64];
	char *const argv[] = { "systemctl", "stop", unit, NULL };

	snprintf(unit, sizeof(unit), "asymcc-try-%s.timer", cc);
	run(argv);
}

/* A timer that systemd keeps: it needs neither us nor our session. */
static bool guard_by_systemd(const char *cc, long seconds)
{
	char unit[64], after[40], self[PATH_MAX] = "", *dir = realpath(object_dir(), NULL);
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	bool there = !access(BOOTED, F_OK) && n > 0 && dir;

	snprintf(unit, sizeof(unit), "--unit=asymcc-try-%s", cc);
	snprintf(after, sizeof(after), "--on-active=%ld", seconds + GRACE);
	if (there) {
		char *const argv[] = {
			"systemd-run",
			"--quiet",
			"--collect",
			unit,
			after,
			"--timer-property=AccuracySec=1s",
			"--property=Restart=on-failure",
			"--property=RestartSec=5s",
			"--property=StartLimitBurst=20",
			"--property=StartLimitIntervalSec=1h",
			"--description=asymcc: the end of a trial",
			"--",
			escaped(self),
			"try",
			"--objects",
			escaped(dir),
			"--end",
			(char *)cc,
			NULL
		};

		stop_timer(cc); /* of a trial that was killed before it changed anything, or that `unload` has ended */
		there = run(argv);
	}
	free(dir);
	return there;
}

/* Till the command ends, however that is, or its time is over. */
static void guard(int command, const char *cc, const char *id, long seconds)
{
	struct pollfd p = { .fd = command, .events = POLLIN };
	__u64 end = ns_after(seconds + GRACE), now;
	int tries = RETRIES;

	while ((now = now_ns()) < end && poll(&p, 1, (end - now) / NS_PER_MS + 1) <= 0)
		;
	while (trial_end(cc, id) < 0 && tries--)
		sleep(RETRY);
}

/* A process of its own session, which nobody waits for. */
static int guard_by_process(const char *cc, const char *id, long seconds)
{
	int command = syscall(SYS_pidfd_open, getpid(), 0), status = -1;
	pid_t pid;

	fflush(NULL);
	signal(SIGCHLD, SIG_DFL);
	pid = command < 0 ? -1 : fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		state_unlock(); /* the command has it still */
		if (setsid() < 0 || null < 0)
			_exit(1);
		pid = fork();
		if (pid)
			_exit(pid < 0);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		for (int sig = 1; sig < NSIG; sig++)
			signal(sig, SIG_IGN);
		signal(SIGCHLD, SIG_DFL); /* objects are tried in a child */
		guard(command, cc, id, seconds);
		_exit(0);
	}
	if (command >= 0)
		close(command);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? fail("try: no process can be made that would end it: %s", strerror(errno)) : 0;
}

static long boot_seconds(void)
{
	return boot_ns() / NS_PER_S;
}

static int write_record(const struct trial *t, const char *cc, long seconds)
{
	struct record record = {};

	snprintf(record.guard, CC_NAME_LEN, t->by_systemd ? SYSTEMD : "process");
	snprintf(record.end, CC_NAME_LEN, "%ld", boot_seconds() + seconds);
	memcpy(record.id, t->id, CC_NAME_LEN);
	return state_write(state_try(cc), &record);
}

/* Is it this trial, or is it all the same which it is? Returns as state_read() does. */
static int read_record(const char *cc, const char *id, struct record *r)
{
	int known = state_read(state_try(cc), r);

	return known > 0 && id && strcmp(r->id, id) ? 0 : known;
}

int trial_refuse_second(const char *cc)
{
	struct record record;
	int under_way = state_peek(state_try(cc), &record);

	return under_way > 0 ? fail("a trial of %s is under way: `asymcc try %s --end` ends it", cc, cc) : under_way;
}

static int begin_locked(struct trial *t, const char *cc, long seconds)
{
	static char text[80];

	if (trial_refuse_second(cc))
		return -1;
	snprintf(t->id, CC_NAME_LEN, "%x-%lx", getpid(), boot_seconds());
	t->by_systemd = guard_by_systemd(cc, seconds);
	if (!t->by_systemd && guard_by_process(cc, t->id, seconds))
		return -1;
	if (t->by_systemd)
		snprintf(text, sizeof(text), "the timer asymcc-try-%s of systemd", cc);
	else
		snprintf(text, sizeof(text), "a process of its own");
	t->guard = text;
	return write_record(t, cc, seconds);
}

int trial_begin(struct trial *t, const char *cc, long seconds)
{
	int err = state_lock() ? -1 : begin_locked(t, cc, seconds);

	state_unlock();
	if (err && t->by_systemd)
		stop_timer(cc);
	return err;
}

struct ending {
	const char *cc;
	int left;
};

static int end_in(const struct netns_id *id, void *ctx)
{
	struct ending *e = ctx;

	return default_end(e->cc, id->name, &e->left) | routes_end(e->cc, id->name, &e->left);
}

static int end_locked(const char *cc, const char *id, bool *by_systemd)
{
	struct ending e = { .cc = cc };
	struct attachments all = {};
	struct record record;
	int known = read_record(cc, id, &record), err;

	*by_systemd = false;
	if (known <= 0)
		return known;
	err = netns_each(end_in, &e);
	if (attachments_read(&all) || cgroups_end(&all, cc))
		err = -1;
	attachments_free(&all);
	if (!err)
		err = state_remove(state_try(cc));
	*by_systemd = !err && !strcmp(record.guard, SYSTEMD);
	return err ? -1 : e.left;
}

static int make_locked(const struct trial *t, const struct uses *u, long seconds)
{
	struct record record;
	int known = read_record(u->cc, t->id, &record);

	if (known <= 0)
		return known < 0 ? -1 : fail("try %s: the trial was ended meanwhile", u->cc);
	if (write_record(t, u->cc, seconds))
		return -1;
	return uses_make(u); /* what was done, and its answer lost, trial_end() undoes */
}

int trial_make(const struct trial *t, const struct uses *u, long seconds)
{
	int err = state_lock() ? -1 : make_locked(t, u, seconds);

	state_unlock();
	return err;
}

int trial_end(const char *cc, const char *id)
{
	bool by_systemd = false;
	int left = state_lock() ? -1 : end_locked(cc, id, &by_systemd);

	state_unlock();
	if (by_systemd)
		stop_timer(cc);
	return left;
}

struct trials {
	void (*look)(const char *cc, bool by_systemd, long over, void *ctx);
	void *ctx;
	long now;
};

static void look_at(const char *cc, const struct record *w, void *ctx)
{
	const struct trials *t = ctx;

	if (is_name(cc))
		t->look(cc, !strcmp(w->guard, SYSTEMD), t->now - strtol(w->end, NULL, 10), t->ctx);
}

int trials_each(void (*look)(const char *cc, bool by_systemd, long over, void *ctx), void *ctx)
{
	struct trials t = { look, ctx, boot_seconds() };

	return state_each(STATE_TRY, look_at, &t);
}
