// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program of a test's own, which does what its first word says. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static void tell(const char *what, long result)
{
	printf("%s %s\n", what, result < 0 ? strerror(errno) : "yes");
}

/* It tells its identity, and tries what is closed to it. */
static void world(void)
{
	char name[64] = "";
	FILE *status = fopen("/proc/self/status", "r");

	gethostname(name, sizeof(name));
	printf("host %s\nuser %d\npid %d\n", name, getuid(), getpid());
	for (char line[256]; status && fgets(line, sizeof(line), status);)
		if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10))
			fputs(line, stdout);
	tell("lab", open("/dev/asymlab", O_RDWR));
	tell("results", open("/tmp/out/agent.json", O_WRONLY | O_CREAT, 0600));
	tell("root", open("/mine", O_WRONLY | O_CREAT, 0600));
	tell("others", open("/proc/3/status", O_RDONLY));
	tell("mknod", mknod("/tmp/device", S_IFCHR | 0600, 0x0afe));
	tell("chroot", chroot("/tmp"));
	tell("setuid", setuid(0));
	tell("tmp", open("/tmp/mine", O_WRONLY | O_CREAT, 0600));
	tell("null", open("/dev/null", O_RDWR));
}

static volatile sig_atomic_t over;

static void ring(int number)
{
	over = number;
}

/* It waits 10 ms without a wait, and tells how long that took by the clock and by the CPU's counter. */
static void busy(const char *how)
{
	struct timespec begin, end;
	unsigned int cpu;
	unsigned long long counter = __rdtsc();

	clock_gettime(CLOCK_MONOTONIC, &begin);
	signal(SIGALRM, ring);
	ualarm(10000, 0);
	while (!over)
		if (!strcmp(how, "yield"))
			sched_yield();
		else if (!strcmp(how, "poll"))
			poll(NULL, 0, 0);
		else if (!strcmp(how, "call"))
			syscall(SYS_getppid);
		else
			__rdtscp(&cpu);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld %lld %llu\n", (long long)begin.tv_sec,
	       (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec, __rdtsc() - counter);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "world"))
		world();
	else if (!strcmp(what, "exit"))
		return fputs("it ends here\n", stderr), atoi(argv[2]);
	else if (!strcmp(what, "abort"))
		abort();
	else if (!strcmp(what, "sleep"))
		sleep(atoi(argv[2]));
	else if (!strcmp(what, "print"))
		puts(argv[2]);
	else if (!strcmp(what, "busy"))
		busy(argv[2]);
	else if (!strcmp(what, "endless"))
		for (char words[4096] = "";;)
			if (write(1, words, sizeof(words)) < 0)
				return 1;
	if (!strcmp(what, "spin"))
		for (;;)
			__asm__ volatile("");
	return 0;
}
