// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * In the cage in place of a guest's kernel: what a guest could do that has broken out of its kernel. It names what it did.
 * Built with SECRET (a file), LINUX (its own place), FOLDER, PORT and PID of the user who runs the lab, and CAGED where it is; or with LOOP alone:
 * it makes no progress.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef LOOP
static void tell(const char *what, int done)
{
	if (done)
		printf("did: %s\n", what);
}

static int reads(const char *file)
{
	char byte;
	int fd = open(file, O_RDONLY);

	return fd >= 0 && read(fd, &byte, 1) == 1;
}

static int processes(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int n = 0;

	while (proc && (entry = readdir(proc)))
		n += atoi(entry->d_name) > 0;
	return n;
}

/* Whether a child ends as it should. */
static int done_by(pid_t child)
{
	int status;

	if (!child)
		_exit(0);
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
}

/* 20 is i386's getpid. */
static void call_as_i386(void)
{
	long number = 20;

	__asm__ volatile("int $0x80" : "+a"(number) : : "memory");
	if (number != getpid())
		abort();
}

/* Ways into the host's kernel that no kernel of a guest needs. */
static void try_calls(void)
{
	char ring[120] = {};
	pid_t child;

	tell("open a socket", socket(AF_INET, SOCK_STREAM, 0) >= 0);
	tell("keep a key", syscall(SYS_add_key, "user", "mine", "x", 1, -3) >= 0);
	tell("begin an io_uring", syscall(SYS_io_uring_setup, 1, ring) >= 0);
	tell("fork into a namespace", done_by(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)));
	tell("make a namespace", !unshare(CLONE_NEWUSER));
	child = fork();
	if (!child)
		call_as_i386();
	tell("call as i386", done_by(child));
	tell("fork", done_by(fork())); /* which it may */
}
#endif

int main(void)
{
#ifdef LOOP
	for (;;)
		;
#else
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = { htonl(INADDR_LOOPBACK) }
	};
	int tcp = socket(AF_INET, SOCK_STREAM, 0);

	tell("read a file of the user", reads(SECRET));
	tell("read a file of the host", reads("/etc/passwd"));
	tell("write into a folder of the user", open(FOLDER "/mine", O_CREAT | O_WRONLY, 0600) >= 0);
	tell("write the kernel of all guests", open(LINUX, O_WRONLY) >= 0);
	tell("change the mode of the initramfs", !fchmod(open("root.cpio", O_RDONLY), 0644));
	tell("write the initramfs of all guests", open("root.cpio", O_WRONLY) >= 0);
	tell("connect to a port of the host", tcp >= 0 && !connect(tcp, (void *)&to, sizeof(to)));
	tell("signal a process of the user", !kill(PID, 0));
	tell("trace a process of the user", !ptrace(PTRACE_ATTACH, PID, 0, 0));
	tell("see processes of the host", processes() > 2); /* the cage's own first one, and this */
#ifdef CAGED /* outside root would do it */
	/* Root's test with a cage that fails must not hide the host's files. */
	tell("mount", !mount("none", "/tmp", "tmpfs", 0, NULL) && !umount2("/tmp", MNT_DETACH));
#endif
	tell("become root", !setuid(0));
	try_calls();
	tell("read what it may read", reads("root.cpio")); /* so the tries are tries */
	puts("tried all");
	return 0;
#endif
}
