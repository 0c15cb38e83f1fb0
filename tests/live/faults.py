# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Each command of asymcc with a fault at each of its system calls: killed, no memory, no descriptor, unable to write.

    python -m faults [--command NAME ...] [--fault NAME ...] [--part I/N] [--points N] [--resume FILE]

It runs as root, on this machine's kernel, in namespaces of its own; nobody else may load anything meanwhile. After each
fault:
  - all or nothing is done, and success is said of all only;
  - what is killed or told of as left half done, `unload` or `thin --off` clears;
  - what is for a time ends, at the latest by its guard, and all is as it was;
  - what is left without its controller, `doctor` names until then;
  - programs of others in the same cgroup, and the default before, are as they were.
The last line has the counts; the exit code is 1 if anything failed. With --resume an interrupted run goes on where it
ended, as long as asymcc, its objects and the other options are the same.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.live.cgroups import remove_cgroup
from tests.live.harness import ASYMCC, CGROUP2, ROOT, STATE
from tests.live.resume import Progress
from tests.live.sources import FOREIGN, HALVES, build_halves

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
CC, OTHER, ORIGINAL = "faulty", "faulty2", "original"
THINNING = {"thin_egress", "thin_ingress"}
KINDS = {"ingress": 0, "egress": 1, "sock_ops": 3}  # enum bpf_attach_type
NS = f"""
umount -l -a -t cgroup2
mount -t cgroup2 none {{mount}}
mount --make-rprivate /
mount -t bpf none /sys/fs/bpf
mkdir -p {STATE}
mount -t tmpfs -o mode=755,size=64k none {STATE}
ip link set lo up
ip link add d0 type veth peer name d1
ip addr add 10.77.0.1/24 dev d0
ip link set d0 up
ip link set d1 up
exec "$@"
"""

# brk() has no error to give: it returns the end that is. malloc() then asks mmap().
# The faults, and the system calls that can have them: all calls, or a pattern of what strace shows.
FAULTS = {
    "killed": ("signal=SIGKILL", r""),
    "ENOMEM": (
        "error=ENOMEM",
        r"(mmap|openat|read|getdents64|socket|sendto|bpf|getsockopt|fstat|setns|timer_create|epoll_\w+|perf_event_open|clone\w*)\(",
    ),
    "EMFILE": (
        "error=EMFILE",
        r"(openat|socket|epoll_create1|perf_event_open|fcntl)\(|bpf\(BPF_(\w+_GET_FD_BY_ID|\w+_LOAD|MAP_CREATE|LINK_CREATE|RAW_TRACEPOINT_OPEN|BTF_LOAD)",
    ),
    "EIO": (
        "error=EIO",
        r"(read|pread64|write|openat|rename\w*|unlink\w*|getdents64|fstat\w*|newfstatat|recvfrom|recvmsg|flock|mkdir)\(",
    ),
    "ENOSPC": ("error=ENOSPC", r"(write|rename\w*|mkdir|ftruncate)\(|openat\(.*O_CREAT"),
}
GUARD_S = 20  # until what a guard does must be done
PROGRESS_S = 20  # between two lines that tell how far it is
OURS = re.compile(rf"/proc/|/sys/kernel/btf|{STATE}|objects-of-faults")


def sh(*argv, check: bool = True, **kw) -> subprocess.CompletedProcess:
    return subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=60, check=check, **kw)


def asymcc(*argv, check: bool = True) -> subprocess.CompletedProcess:
    return sh(ASYMCC, *argv, check=check)


@dataclasses.dataclass
class Command:
    before: list[str]  # commands, and the one that is tried
    argv: str
    changes: bool = True
    replaced: bool = False  # between out and in there is nothing: half done is told, and doctor names it
    guarded: bool = False  # it changes something for a time; a process of its own, which has no fault, sees to the end


USES = "--default --route 10.77.0.0/24 --route 10.77.0.64/26 --cgroup {cgroup}"
THIN = "thin --cgroup {cgroup}"
LOAD = f"load {CC} --cgroup {{cgroup}}"
COMMANDS = {
    "load": Command([], LOAD),
    "load --replace": Command([LOAD, f"use {CC} {USES}"], f"load {CC} --replace --set tiny=9", replaced=True),
    "set": Command([LOAD], f"set {CC} live=7"),
    "use": Command([LOAD], f"use {CC} {USES}"),
    "use --existing": Command([LOAD], f"use {CC} {USES} --existing"),
    "use --default": Command([LOAD], f"use {CC} --default"),
    "use of another": Command([LOAD, f"load fast --as {OTHER}", f"use {CC} {USES}"], f"use {OTHER} {USES}"),
    "unuse": Command([LOAD, f"use {CC} {USES}"], f"unuse {CC}"),
    "unuse of places": Command([LOAD, f"use {CC} {USES}"], f"unuse {CC} {USES}"),
    "try": Command([LOAD], f"try {CC} {USES} --seconds 1 --before 0", changes=False, guarded=True),
    "unload": Command([LOAD], f"unload {CC}"),
    "unload --drain": Command([LOAD, f"use {CC} {USES}"], f"unload {CC} --drain --seconds 0"),
    "unload --switch": Command([LOAD, f"use {CC} {USES}"], f"unload {CC} --switch reno --seconds 0"),
    "unload --force": Command([LOAD, f"use {CC} --cgroup {{cgroup}}"], f"unload {CC} --force"),
    "thin": Command([], "thin --cgroup {cgroup} --max 9"),
    "thin --off": Command([THIN], "thin --off --cgroup {cgroup}"),
    "list": Command([LOAD, f"use {CC} {USES}"], "list --json", changes=False),
    "show": Command([LOAD, f"use {CC} {USES}"], f"show {CC} --json", changes=False),
    "doctor": Command([LOAD, f"use {CC} {USES}"], "doctor", changes=False),
    "status": Command([LOAD, THIN, f"use {CC} {USES}"], "status --json", changes=False),
    "top": Command([LOAD], "top --once", changes=False),
    "metrics": Command([LOAD, THIN], "metrics", changes=False),
    "trace": Command([LOAD], "trace --seconds 0 -o {trace}", changes=False),
}


class World:
    """The state that the commands change, looked at without asymcc."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cgroup = Path(CGROUP2[0]) / "bulk"
        self.cgroup.mkdir()
        self.fd = os.open(self.cgroup, os.O_RDONLY)
        self.bpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
        self.words = {"cgroup": self.cgroup, "trace": folder / "trace.out"}
        asymcc("load", "fast", "--as", ORIGINAL)
        DEFAULT.write_text(ORIGINAL)
        self.foreign()
        self.theirs = self.programs()

    def foreign(self) -> None:
        build_halves(self.folder, "theirs", FOREIGN)
        sh("bpftool", "prog", "loadall", self.folder / "theirs.bpf.o", "/sys/fs/bpf/theirs")
        for prog, kind in (("t_opts", "sock_ops"), ("t_sent_packets_", "egress"), ("foreign", "ingress")):
            sh("bpftool", "cgroup", "attach", self.cgroup, kind, "pinned", f"/sys/fs/bpf/theirs/{prog}", "multi")
        shutil.rmtree("/sys/fs/bpf/theirs", ignore_errors=True)
        (self.folder / "theirs.bpf.o").unlink()

    def programs(self) -> dict[tuple[str, int], str]:
        """The programs that are attached: hook and id, and the program's name."""
        places = {}
        for kind, number in KINDS.items():
            ids, n = (ctypes.c_uint32 * 64)(), ctypes.c_uint32(64)
            assert self.bpf.bpf_prog_query(self.fd, number, 0, None, ids, ctypes.byref(n)) == 0
            for i in ids[: n.value]:
                prog = self.bpf.bpf_prog_get_fd_by_id(i)
                info, size = ctypes.create_string_buffer(256), ctypes.c_uint32(256)
                assert prog >= 0 and self.bpf.bpf_obj_get_info_by_fd(prog, info, ctypes.byref(size)) == 0
                os.close(prog)
                places[kind, i] = info.raw[64:80].split(b"\0")[0].decode()
        return places

    def own(self) -> list[str]:
        return sorted(name for key, name in self.programs().items() if key not in self.theirs)

    def routes(self) -> list[str]:
        return [
            " ".join(line.split()) for v in ("-4", "-6") for line in sh("ip", v, "route", "show").stdout.splitlines()
        ]

    def state(self) -> list[str]:
        return sorted(f.name for f in STATE.iterdir() if f.name.startswith(("replacing-", "try-")))

    def look(self, parameter: bool = False) -> tuple:
        names = AVAILABLE.read_text().split()
        values = None
        if parameter and CC in names:
            values = {p["name"]: p["value"] for p in json.loads(asymcc("show", CC, "--json").stdout)["parameters"]}
        return (
            sorted(n for n in names if n in (CC, OTHER)),
            DEFAULT.read_text().strip(),
            self.routes(),
            self.own(),
            self.state(),
            values,
        )

    def argv(self, command: str) -> list[str]:
        return command.format(**self.words).split()

    def clean(self, routes: bool = True) -> list[str]:
        """Cleans up as anybody would, and tells what is wrong afterwards."""
        wrong = []
        for name in (CC, OTHER):
            if name == CC or name in AVAILABLE.read_text() or self.own():
                asymcc("unload", name, "--drain", "--seconds", "0", check=False)
        if THINNING & set(self.own()):
            asymcc("thin", "--off", check=False)
        names, default, _, own, state, _ = self.look()
        if names or default != ORIGINAL or own or state:
            wrong.append(f"`unload --drain`, or `thin --off`, leaves {names} {default} {own} {state}")
            self.force(own)
        if not routes:
            return wrong
        for name in (CC, OTHER):  # a route's controller is seen only while it is registered
            asymcc("load", "fast", "--as", name)
        if any("congctl" in r or "proto 171" in r for r in self.routes()):
            wrong.append(f"`unload --drain` leaves routes: {self.routes()}")
        for name in (CC, OTHER):
            asymcc("unload", name, "--drain", "--seconds", "0")
        return wrong

    def force(self, own: list[str]) -> None:
        DEFAULT.write_text(ORIGINAL)
        for kind, prog in self.programs().keys() - self.theirs.keys():
            sh("bpftool", "cgroup", "detach", self.cgroup, kind, "id", prog)
        for f in STATE.iterdir():
            f.unlink()


@dataclasses.dataclass(frozen=True)
class Point:
    """The `nth` call of one system call."""

    name: str
    nth: int
    text: str


def strace(argv: list[str], *options: str) -> subprocess.CompletedProcess:
    return sh("strace", "-qq", *options, ASYMCC, *argv, check=False)


def points(world: World, argv: list[str], *options: str) -> list[Point]:
    """The command's system calls from the first that opens something of ours; those before are the dynamic linker's."""
    log = world.folder / "strace"
    done = strace(argv, *options, "-s", "100", "-e", "trace=all", "-o", str(log))
    assert done.returncode == 0, done
    seen: collections.Counter[str] = collections.Counter()
    places = []
    for line in log.read_text().splitlines():
        call = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if not call or call[1] in ("exit_group", "execve"):
            continue
        seen[call[1]] += 1
        if places or OURS.search(line):
            places.append(Point(call[1], seen[call[1]], line[call.start(1) :][:100]))
    # libbpf reads the kernel's types in a thousand pieces: the first and the last are enough
    alike = [list(g) for _, g in itertools.groupby(places, lambda p: p.text.split(",")[0] if p.name == "read" else p)]
    return [p for g in alike for p in (g if len(g) < 4 else (g[0], g[-1]))]


class Trial:
    """One command: what it does without a fault, and with each."""

    def __init__(self, world: World, name: str):
        self.world, self.name, self.command = world, name, COMMANDS[name]
        self.argv = world.argv(self.command.argv)
        self.parameter = name in ("set", "load --replace")
        self.uses_routes = any("--route" in c for c in (*self.command.before, self.command.argv))
        self.prepare()
        self.before = world.look(self.parameter)
        self.options = [] if self.command.guarded else ["-f", "--seccomp-bpf"]  # a guard is not followed
        self.points = points(world, self.argv, *self.options)
        self.after = world.look(self.parameter)
        assert (self.before == self.after) != self.command.changes, (name, self.before, self.after)
        self.words = self.output()
        assert not world.clean()
        self.prepare()
        self.told_half = 0

    def prepare(self) -> None:
        for command in self.command.before:
            asymcc(*self.world.argv(command))

    def output(self) -> str:
        """The words of a command that looks, when nothing has changed, but for numbers that count up."""
        if self.command.changes or self.name == "trace":
            return ""
        self.world.clean()
        self.prepare()
        return re.sub(r"\d+", "N", asymcc(*self.argv, check=False).stdout)

    def named_by_doctor(self) -> bool:
        done = asymcc("doctor", "--json", check=False)
        bad = any(r["state"] == "bad" and r["check"] in (CC, "thin") for r in json.loads(done.stdout))
        return bad and done.returncode == 1

    def judge(self, done: subprocess.CompletedProcess) -> tuple[list[str], tuple]:
        killed = done.returncode in (-9, 137)
        now = self.world.look(self.parameter)
        wrong = []
        if not killed and done.returncode not in (0, 1, 2):
            wrong.append(f"exit code {done.returncode}")
        if done.returncode == 0 and now != self.after:
            wrong.append(f"success, but {now} instead of {self.after}")
        if done.returncode == 0 and self.words and re.sub(r"\d+", "N", done.stdout) != self.words:
            wrong.append(f"success, but it says {done.stdout}")
        if not killed and done.returncode and not done.stderr.startswith("asymcc: ") and self.name != "doctor":
            wrong.append("failure without a reason")
        half = now not in (self.before, self.after)
        if half and self.command.guarded:
            wrong.append(f"after {GUARD_S} s it is not as it was: {now}")
        if half and not killed:
            self.told_half += 1
        registered, _, _, own, state, _ = now
        remains = own if THINNING - set(own) else [name for name in own if name not in THINNING]
        if CC not in registered and (remains or state) and not self.named_by_doctor():
            wrong.append(f"doctor does not name {own} {state}")
        return wrong, now

    def wait_for_guard(self) -> None:
        end = time.monotonic() + GUARD_S
        while (self.world.state() or self.world.look(self.parameter) != self.before) and time.monotonic() < end:
            time.sleep(0.02)

    def fault(self, options: list[str], around=contextlib.nullcontext) -> list[str]:
        """It finds what the command needs, and leaves the same."""
        with around():
            done = strace(self.argv, *self.options, *options) if options else asymcc(*self.argv, check=False)
            if self.command.guarded:
                self.wait_for_guard()
        wrong, now = self.judge(done)
        if now != self.before:
            wrong += self.world.clean(self.uses_routes)
            self.prepare()
        if {k: v for k, v in self.world.programs().items() if k in self.world.theirs} != self.world.theirs:
            sys.exit(f"{self.name}: programs of others were detached")
        return [f"{w} (exit code {done.returncode}: {done.stderr.strip()[:300]})" for w in wrong]


@contextlib.contextmanager
def full():
    """/run/asymcc takes not one byte more."""
    with (STATE / "zeros").open("wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(4096))
    yield
    (STATE / "zeros").unlink()


@contextlib.contextmanager
def read_only():
    sh("mount", "-o", "remount,ro", STATE)
    yield
    sh("mount", "-o", "remount,rw", STATE)


def cases(trial: Trial, faults: list[str]) -> list[tuple[str, list[str], object]]:
    places: list[tuple[str, list[str], object]] = []
    for fault in faults:
        if fault in FAULTS:
            action, calls = FAULTS[fault]
            places += [
                (
                    f"{fault} at call {i}, {p.text}",
                    ["-o", "/dev/null", "-e", f"trace={p.name}", "-e", f"inject={p.name}:{action}:when={p.nth}"],
                    contextlib.nullcontext,
                )
                for i, p in enumerate(trial.points)
                if re.match(calls, p.text)
            ]
        elif trial.command.changes or trial.command.guarded:
            places.append((f"{STATE} {fault}", [], {"full": full, "read-only": read_only}[fault]))
    return places


def sample(places: list, n: int | None) -> list:
    """So many of them, evenly."""
    return places if n is None or len(places) <= n else [places[i * len(places) // n] for i in range(n)]


def try_command(trial: Trial, places: list, progress: Progress) -> None:
    """Each fault that has not been tried before."""
    name = trial.name
    tried, trial.told_half, wrong, _ = progress.done.get(name, (0, 0, 0, False))
    reported_at = time.monotonic()
    for i, (what, options, around) in enumerate(places[tried:], tried + 1):
        for w in trial.fault(options, around):
            print(f"{name}: {what}\n    {w}", flush=True)
            wrong += 1
        progress.note(name, (i, trial.told_half, wrong, False))
        if time.monotonic() > reported_at + PROGRESS_S:
            print(f"{name}: {i} of {len(places)} faults", flush=True)
            reported_at = time.monotonic()
    wrong += len(trial.world.clean())
    progress.note(name, (len(places), trial.told_half, wrong, True))
    calls = f"{len(trial.points)} system calls, {len(places)} faults"
    print(f"{name}: {calls}, {trial.told_half} told half done, {wrong} failures", flush=True)


def inside(args: argparse.Namespace, folder: Path) -> int:
    world = World(folder)
    part, parts = map(int, args.part.split("/"))
    options = (args.command, args.fault, args.part, args.points)
    progress = Progress(args.resume, options, [ASYMCC, *ASYMCC.parent.glob("*.bpf.o")])
    for name in args.command:
        if name in progress.done and progress.done[name][-1]:
            print(f"{name}: done before", flush=True)
            continue
        trial = Trial(world, name)
        try_command(trial, sample(cases(trial, args.fault), args.points)[part - 1 :: parts], progress)
    tried, _, wrong, _ = map(sum, zip(*(progress.done[name] for name in args.command)))
    print(f"{len(args.command)} commands, {tried} faults, {wrong} failures")
    progress.finish()
    return wrong > 0


CGROUP, FOLDER = "asymcc-faults-", "objects-of-faults-"  # a run's id follows


def clean_up(run: int | str) -> None:
    for name in (CC, OTHER, ORIGINAL):
        asymcc("unload", name, "--drain", "--seconds", "0", check=False)
    remove_cgroup(Path(CGROUP2[0], f"{CGROUP}{run}"))


def clean_up_after_killed() -> None:
    for remains in Path(CGROUP2[0]).glob(f"{CGROUP}*"):
        run = remains.name.removeprefix(CGROUP)
        if not Path("/proc", run).exists():
            clean_up(run)
            for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}{run}-*"):
                shutil.rmtree(folder)


def outside(argv: list[str]) -> int:
    """Again, in namespaces of its own: then what there is to look at is ours, and the same each time."""
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: sys.exit("terminated"))
    clean_up_after_killed()
    cgroup = Path(CGROUP2[0], f"{CGROUP}{os.getpid()}")
    cgroup.mkdir()
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-") as folder:
        objects = Path(folder)
        build_halves(
            objects,
            CC,
            HALVES.replace("COUNTER(sent", 'TUNABLE(u32, live, 1, 0, 9, "-", "a live one");\nCOUNTER(sent').replace(
                "COUNT(events);", "COUNT(events); events += live;"
            ),
        )
        for name in ("fast", "use", "move", "trace", "thin"):
            shutil.copy(ASYMCC.parent / f"{name}.bpf.o", objects)
        inner = [
            *"setpriv --pdeathsig KILL unshare -C -m -n -p -f --kill-child --mount-proc sh -ec".split(),
            NS.format(mount=CGROUP2[0]),
            "sh",
            sys.executable,
            "-m",
            "tests.live.faults",
            "--inside",
            folder,
            *argv,
        ]
        try:
            return subprocess.run(
                ["sh", "-c", f'echo $$ >{cgroup}/cgroup.procs && exec "$@"', "sh", *inner],
                check=False,
                env=os.environ | {"ASYMCC_OBJECTS": folder},
                cwd=ROOT,
            ).returncode
        finally:
            clean_up(os.getpid())


def main() -> int:
    every = [*FAULTS, "full", "read-only"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", action="append", choices=list(COMMANDS), help="these only")
    parser.add_argument("--fault", action="append", choices=every, help="these only")
    parser.add_argument("--part", default="1/1", help="every Nth fault, from the Ith on")
    parser.add_argument("--points", type=int, help="so many faults of each command, evenly chosen")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="what is done is kept there")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.command = args.command or list(COMMANDS)
    args.fault = args.fault or every
    return inside(args, args.inside) if args.inside else outside(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
