# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Process 1 of a guest that runs one program, as packetdrill: takes its words and files, runs it in a network namespace
of its own, hands out what it says."""

import os
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from types import FrameType
from typing import Annotated

from ..controllers import Controllers, Record
from ..init import LIBC, OUT, RB_POWER_OFF, answer, seed_random, shared_memory, take_job
from ..job import Controller
from ..system import Failure, mount
from ..wire import Matching, load

CLONE_NEWNET = 0x40000000
PR_SET_TIMERSLACK = 29  # of 50 us else, by which each sleep ends late
PACKETDRILL, TUN = "packetdrill", "/dev/net/tun"
PROGRAMS = "/lab/bin"  # before those of /usr/bin
SCRIPTS = "/lab/scripts"
MOUNTS = (("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/tmp"), ("bpf", "/sys/fs/bpf"))
CGROUPS = "cgroup2", "/sys/fs/cgroup"  # controllers with programs for one


@dataclass(frozen=True)
class Script:
    """A job."""

    seed: int
    folder: Annotated[str, Matching(r"[^\0]{1,4000}")]  # in SCRIPTS
    argv: list[str]
    limit_s: int  # of virtual time
    controllers: list[Controller]


def run(script: Script) -> None:
    """Its exit code, and what it says on both of its outputs, each as a file. Failure if the kernel cannot run it."""
    seed_random(script.seed)
    if script.argv[0] == PACKETDRILL and not os.path.exists(TUN):
        raise Failure("its kernel has no CONFIG_TUN; docs/testing.md tells how to make one that has it")
    LIBC.unshare(CLONE_NEWNET)
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # ns; programs inherit it
    controllers = Controllers("/lab", None, [], Record())
    controllers.load(script.controllers)
    env = {"PATH": f"{PROGRAMS}:/usr/bin", "HOME": "/", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
    with open(f"{OUT}/stdout", "wb") as out, open(f"{OUT}/stderr", "wb") as err:
        child = subprocess.Popen(script.argv, cwd=f"{SCRIPTS}/{script.folder}", env=env, stdout=out, stderr=err)

        def too_long(_: int, __: FrameType | None) -> None:  # not by wait(timeout): it looks at the clock meanwhile
            child.kill()

        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(script.limit_s)
        code = child.wait()
    with open(f"{OUT}/code", "w") as f:
        f.write(str(code))


def serve() -> None:
    for kind, target in (*MOUNTS, CGROUPS):
        os.makedirs(target, exist_ok=True)
        mount(kind, target, kind)
    console = os.open("/dev/console", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(console, fd)
    os.environ.update(PATH="/usr/bin", HOME="/", PYTHONHASHSEED="0", LC_ALL="C")
    os.mkdir(OUT)
    if (shared := shared_memory()) is None:
        return
    text = take_job(shared)
    os.makedirs(SCRIPTS, exist_ok=True)
    for folder, _, names in os.walk(SCRIPTS):
        for name in names:
            os.chmod(f"{folder}/{name}", 0o755)
    answer(shared, lambda: run(load(Script, text, "job")))


def main() -> None:
    try:
        serve()
    except BaseException:
        traceback.print_exc()
    LIBC.reboot(RB_POWER_OFF)


def python() -> None:
    """Scripts call it as `python3 FILE WORDS...`: the guest's standard library has no files."""
    sys.argv = sys.argv[1:]
    with open(sys.argv[0], "rb") as file:
        exec(compile(file.read(), sys.argv[0], "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
