# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The system calls that a guest of the engine uml may make of the host: a seccomp filter for bubblewrap.

All others do not exist for it (ENOSYS): no sockets, no namespaces, no mounts, no BPF, no io_uring, no keys, no modules.
Its own programs' calls never come here: their kernel takes them before the filter (PTRACE_SYSEMU), or traps them by a
filter of its own, whose answer counts for more than ours (SECCOMP_RET_TRAP, from 6.16 on). But one that they make
through the vsyscall page is the host's: gettimeofday and time are none that a guest has.
"""

from __future__ import annotations

import os
import struct

# x86-64's numbers, by what a kernel that is a process needs them for.
ALLOWED = {
    "memory": {"mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28, "memfd_create": 319},
    "files": {
        **{"read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "pread64": 17},
        **{"pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "fcntl": 72, "flock": 73, "fsync": 74},
        **{"ftruncate": 77, "getcwd": 79, "chdir": 80, "rename": 82, "mkdir": 83, "rmdir": 84, "unlink": 87},
        **{"readlink": 89, "fchmod": 91, "umask": 95, "statfs": 137, "fstatfs": 138, "getdents64": 217, "openat": 257},
        **{"newfstatat": 262, "unlinkat": 263, "readlinkat": 267, "faccessat": 269, "fallocate": 285, "ioctl": 16},
        **{"faccessat2": 439, "dup": 32, "dup2": 33, "dup3": 292, "close_range": 436},
    },
    "its consoles and its processes' signals": {
        **{"poll": 7, "pipe": 22, "select": 23, "socketpair": 53, "sendmsg": 46, "recvmsg": 47, "epoll_create": 213},
        **{"epoll_wait": 232, "epoll_ctl": 233, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281, "eventfd": 284},
        **{"eventfd2": 290, "epoll_create1": 291, "pipe2": 293, "signalfd4": 289},
    },
    "processes": {
        **{"vfork": 58, "execve": 59, "exit": 60, "wait4": 61, "kill": 62, "ptrace": 101, "setsid": 112, "prctl": 157},
        **{"getpid": 39, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "gettid": 186},
        **{"personality": 135, "arch_prctl": 158, "tkill": 200, "futex": 202, "sched_yield": 24, "exit_group": 231},
        **{"sched_getaffinity": 204, "set_tid_address": 218, "tgkill": 234, "waitid": 247, "set_robust_list": 273},
        **{"prlimit64": 302, "getrlimit": 97, "uname": 63, "seccomp": 317, "getrandom": 318, "execveat": 322},
        **{"rseq": 334},
    },
    "signals": {
        **{"rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pause": 34, "rt_sigpending": 127},
        **{"rt_sigtimedwait": 128, "rt_sigsuspend": 130, "sigaltstack": 131, "restart_syscall": 219},
    },
    "time, which it may ask for but does not": {
        **{"nanosleep": 35, "getitimer": 36, "setitimer": 38, "timer_create": 222, "timer_settime": 223},
        **{"timer_gettime": 224, "timer_delete": 226, "clock_gettime": 228, "clock_getres": 229},
        **{"clock_nanosleep": 230},
    },
}
# Landlock keeps nobody from changing a file's mode, owner, times and attributes, nor from memory that processes share.
UNKEPT = {
    **{"shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "mq_open": 240},
    **{"chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "fchmodat": 268},
    **{"fchmodat2": 452, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188},
    **{"lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199},
}
# A compiler behind Landlock is refused these as well, for no namespace keeps them in. It needs none of them.
REFUSED = UNKEPT | {
    **{"socket": 41, "ptrace": 101, "mount": 165, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272},
    **{"perf_event_open": 298, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321},
    **{"userfaultfd": 323, "io_uring_setup": 425, "clone3": 435, "setpriority": 141, "sched_setparam": 142},
    **{"sched_setscheduler": 144, "sched_setaffinity": 203, "ioprio_set": 251, "migrate_pages": 256},
    **{"move_pages": 279, "kcmp": 312, "sched_setattr": 314, "pidfd_open": 434, "process_madvise": 440},
}
CLONE = 56  # but not into namespaces of its own, where it would have a root's ways into the host's kernel
PRLIMIT = 302  # of itself: Landlock keeps it from no other process of its user
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET

# linux/seccomp.h, linux/filter.h, linux/audit.h
NR, ARCH, FIRST = 0, 4, 16  # in struct seccomp_data; the low half of the first argument
LOAD, EQUAL, NOT_BELOW, ANY_OF, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
X86_64, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, NO_SUCH_CALL, NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x50000 | 38, 0x50000 | 1


def filter_program(without: dict[str, int]) -> bytes:
    """A guest's, which has these calls no more."""
    numbers = {n for calls in ALLOWED.values() for n in calls.values()}
    return _program(numbers - set(without.values()), ALLOW, NO_SUCH_CALL)


def compiler_program() -> bytes:
    return _program(set(REFUSED.values()), NO_SUCH_CALL, ALLOW)


def _program(numbers: set[int], then: int, otherwise: int) -> bytes:
    """struct sock_filter, one after the other: code, steps if true, steps if false, value."""
    steps = [(LOAD, 0, 0, ARCH), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, KILL)]
    steps += [(LOAD, 0, 0, NR), (NOT_BELOW, 0, 1, X32), (RETURN, 0, 0, NO_SUCH_CALL)]
    steps += [(EQUAL, 0, 4, CLONE), (LOAD, 0, 0, FIRST), (ANY_OF, 0, 1, NEW_NAMESPACES)]
    steps += [(RETURN, 0, 0, NOT_PERMITTED), (RETURN, 0, 0, ALLOW)]
    steps += [(EQUAL, 0, 4, PRLIMIT), (LOAD, 0, 0, FIRST), (EQUAL, 1, 0, 0)]
    steps += [(RETURN, 0, 0, NOT_PERMITTED), (RETURN, 0, 0, ALLOW)]
    steps += [(EQUAL, len(numbers) - i, 0, n) for i, n in enumerate(sorted(numbers))]
    steps += [(RETURN, 0, 0, otherwise), (RETURN, 0, 0, then)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def filter_file(program: bytes) -> int:
    """A file descriptor with it, for a command that inherits it. The caller closes it."""
    fd = os.memfd_create("syscalls")
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
