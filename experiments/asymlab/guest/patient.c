// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preloaded into iperf3.
 *
 * Until its server says that the test runs, a client (up to 3.15) asks for sockets to read from or to write to, and writes
 * to none: it polls for a round trip, 10^10 instructions a second. Here who could write and did not waits for something to
 * read. And iperf3 dies with its parent: to say so between fork() and exec(), Python would copy its page tables.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <unistd.h>

static bool wrote, could_write; /* since the last select(), and by it */

static __attribute__((constructor)) void die_with_us(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

ssize_t write(int fd, const void *data, size_t len)
{
	static typeof(write) *next;

	if (!next)
		next = dlsym(RTLD_NEXT, "write");
	wrote = true;
	return next(fd, data, len);
}

static int ready_in(const fd_set *set, int n)
{
	int ready = 0;

	for (int fd = 0; set && fd < n; fd++)
		ready += FD_ISSET(fd, set) != 0;
	return ready;
}

int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *limit)
{
	struct timespec ts, *until = NULL;
	int ready;

	if (limit) {
		ts = (struct timespec){ limit->tv_sec, limit->tv_usec * 1000 };
		until = &ts;
	}
	if (out && could_write && !wrote)
		FD_ZERO(out);
	wrote = false;
	ready = pselect(n, in, out, except, until, NULL);
	could_write = ready > 0 && ready == ready_in(out, n);
	return ready;
}
