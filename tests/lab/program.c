// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program of a test's own, which does what its first word says. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* It tells its identity, and what it may. */
static void world(void)
{
	char name[64] = "";
	FILE *status = fopen("/proc/self/status", "r");
	struct rlimit data;

	gethostname(name, sizeof(name));
	printf("host %s\nuser %d\npid %d\n", name, getuid(), getpid());
	for (char line[256]; status && fgets(line, sizeof(line), status);)
		if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10))
			fputs(line, stdout);
	printf("tmp %d\n", open("/tmp/mine", O_WRONLY | O_CREAT, 0600) >= 0);
	printf("shm %d\n", shm_open("/mine", O_RDWR | O_CREAT, 0600) >= 0);
	printf("null %d\n", open("/dev/null", O_RDWR) >= 0);
	printf("gpu %d\n", open("/dev/dri/card0", O_RDWR) >= 0);
	getrlimit(RLIMIT_DATA, &data);
	printf("data %lu\n", data.rlim_cur);
	printf("uring %d\n", syscall(SYS_io_uring_setup, 1, calloc(1, 120)) >= 0);
}

static void tell(const char *what, long result)
{
	if (result >= 0 || (errno != EPERM && errno != EACCES && errno != ENOENT && errno != ENOSYS && errno != ESRCH &&
			    errno != EROFS && errno != ENXIO && errno != ENOSPC))
		printf("did: %s\n", what);
}

/* It tries to get out of its world, or to be more than it is. EINVAL, too, means that only its words were wrong. */
static void escape(void)
{
	struct timespec past = { .tv_sec = 1 };
	struct rlimit more = { RLIM_INFINITY, RLIM_INFINITY };
	struct sched_param first = { .sched_priority = 1 };
	struct ifreq down = { .ifr_name = "lo" };
	unsigned int array[16] = { 2, 4, 4, 1 }; /* of type, key, value and room */
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(event) };
	int net = socket(AF_INET, SOCK_DGRAM, 0), other;

	tell("open the lab's device", open("/dev/asymlab", O_RDWR));
	tell("read the job", open("/lab/job.json", O_RDONLY));
	tell("write results", open("/tmp/out/agent.json", O_WRONLY));
	tell("write into its pack", open("/mine", O_WRONLY | O_CREAT, 0600));
	tell("write its program", open("/usr/bin/mine", O_WRONLY));
	tell("see another process", open("/proc/3/status", O_RDONLY));
	tell("read the first process", open("/proc/1/mem", O_RDWR));
	tell("see the first process's root", open("/proc/1/root/lab", O_RDONLY));
	tell("trace the first process", ptrace(PTRACE_SEIZE, 1, 0, 0));
	tell("make a device", mknod("/tmp/device", S_IFCHR | 0600, makedev(1, 1)));
	tell("mount", mount("none", "/tmp", "tmpfs", 0, ""));
	tell("unmount", umount("/tmp"));
	tell("leave its root", chroot("/tmp"));
	tell("be root", setuid(0));
	tell("be root's group", setgid(0));
	other = open("/proc/1/ns/net", O_RDONLY);
	tell("join a network", other < 0 ? other : setns(other, CLONE_NEWNET));
	tell("make a network", unshare(CLONE_NEWNET));
	tell("make a user namespace", unshare(CLONE_NEWUSER));
	tell("set the clock", clock_settime(CLOCK_REALTIME, &past));
	tell("set the name of its host", sethostname("root", 4));
	tell("load a program into the kernel", syscall(SYS_bpf, 0, array, sizeof(array)));
	tell("count the kernel's events", syscall(SYS_perf_event_open, &event, -1, 0, -1, 0));
	tell("load a module", syscall(SYS_init_module, "", 0L, ""));
	tell("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
	tell("open ports of the machine", ioperm(0x80, 1, 1));
	tell("read the kernel's memory", open("/proc/kcore", O_RDONLY));
	tell("change the kernel", open("/proc/sys/kernel/core_pattern", O_WRONLY));
	tell("change its network", open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY));
	tell("take down a device", ioctl(net, SIOCSIFFLAGS, &down));
	tell("listen to all packets", socket(AF_PACKET, SOCK_RAW, 0));
	tell("write whole packets", socket(AF_INET, SOCK_RAW, 255));
	tell("raise its limits", setrlimit(RLIMIT_FSIZE, &more));
	tell("go before others", sched_setscheduler(0, SCHED_FIFO, &first));
	puts("tried all");
}

/* It asks the host for its time by the page that old programs call, and the kernel for its host's name. */
static void host(void)
{
	long (*now)(struct timeval *, void *) = (void *)0xffffffffff600000;
	long (*seconds)(long *) = (void *)0xffffffffff600400;
	struct timeval tv = { 0 };
	char words[256];
	FILE *cpu = fopen("/proc/cpuinfo", "r");

	while (cpu && fgets(words, sizeof(words), cpu))
		fputs(words, stdout);
	fflush(stdout);
	printf("%d ", now(&tv, 0) == 0);
	printf("%lld %lld %d\n", (long long)tv.tv_sec, (long long)tv.tv_usec, seconds(0) > 0);
}

/* It takes memory until there is none, with so many helpers. */
static int eat(int helpers)
{
	size_t taken = 0;

	while (helpers-- > 0 && fork())
		;
	for (char *more; (more = malloc(1 << 20)); taken++)
		memset(more, 1, 1 << 20);
	return fprintf(stderr, "no memory after %zu MB\n", taken) < 0 ? 0 : 9;
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

static struct sockaddr_in place(const char *addr, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	inet_aton(addr, &a.sin_addr);
	return a;
}

/* It sends without end, of TCP or UDP, to an address and a port from a port. */
static int send_on(int type, const char *addr, const char *port, const char *from)
{
	struct sockaddr_in to = place(addr, port), own = place("0.0.0.0", from);
	int s = socket(AF_INET, type, 0), one = 1;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (void *)&own, sizeof(own)) || connect(s, (void *)&to, sizeof(to)))
		return 1;
	for (char words[1000] = "";; usleep(100))
		send(s, words, sizeof(words), 0);
}

/* It takes in what comes to a port of TCP, one connection after the other. */
static int serve(const char *port)
{
	struct sockaddr_in own = place("0.0.0.0", port);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(s, (void *)&own, sizeof(own)) || listen(s, 1))
		return 1;
	for (char words[4096];;)
		for (int one = accept(s, NULL, NULL); read(one, words, sizeof(words)) > 0;)
			;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "world"))
		world();
	else if (!strcmp(what, "escape"))
		escape();
	else if (!strcmp(what, "host"))
		host();
	else if (!strcmp(what, "eat"))
		return eat(atoi(argv[2]));
	else if (!strcmp(what, "exit"))
		return fputs("it ends here\n", stderr), atoi(argv[2]);
	else if (!strcmp(what, "abort"))
		abort();
	else if (!strcmp(what, "sleep"))
		sleep(atoi(argv[2]));
	else if (!strcmp(what, "tcp") || !strcmp(what, "udp"))
		return send_on(*what == 't' ? SOCK_STREAM : SOCK_DGRAM, argv[2], argv[3], argv[4]);
	else if (!strcmp(what, "serve"))
		return serve(argv[2]);
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
