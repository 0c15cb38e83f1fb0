# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The parts that the tests on this machine's own kernel share: what they need of it, and how they run asymcc."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASYMCC = ROOT / "build" / "asymcc"
BTF = Path("/sys/kernel/btf/vmlinux")
STATE = Path("/run/asymcc")
ENDS, OTHERS = (Path(__file__).with_name(name) for name in ("ends.py", "others.py"))


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not BTF.exists() or b"bpf_struct_ops_tcp_congestion_ops" not in BTF.read_bytes():
        return "this kernel takes no congestion control from BPF"
    if not ASYMCC.exists() or not (ASYMCC.parent / "fast.bpf.o").exists():
        return "build/asymcc or build/fast.bpf.o is not built: run make"
    if not shutil.which("clang"):
        return "needs clang, as the build does"
    return None


pytestmark = [pytest.mark.root, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


CGROUP2 = [
    line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"
]

needs_cgroup2 = pytest.mark.skipif(not CGROUP2, reason="no cgroup2 is mounted")


def compile_bpf(source: Path, out: Path, headers: Path = ROOT / "bpf") -> None:
    """An object of the tests' own; it may include what is in bpf/."""
    places = f"-I{headers}", f"-ffile-prefix-map={ROOT}=.", f"-idirafter/usr/include/{os.uname().machine}-linux-gnu"
    run("clang", *"-g -O2 -target bpf -mcpu=v3".split(), *places, "-c", source, "-o", out)


def run(*argv, check=True, timeout=60, **kw) -> subprocess.CompletedProcess:
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=timeout, **kw)
    assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def asymcc(*argv, **kw) -> str:
    return run(ASYMCC, *argv, **kw).stdout


def named_command(text: str) -> list[str]:
    """The words of a command that asymcc names, for its build here."""
    return [str(ASYMCC) if word == "asymcc" else word for word in text.split()]


def refusal(done: subprocess.CompletedProcess, code: int = 1) -> str:
    """The one line on stderr of a command that must fail."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("asymcc: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def refused(*argv, code=1) -> str:
    return refusal(run(ASYMCC, *argv, check=False), code)


def refused_env(env, *argv) -> list[str]:
    done = run(ASYMCC, *argv, env=env, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr.splitlines()


def listed(name: str) -> dict | None:
    rows = [r for r in json.loads(asymcc("list", "--json")) if r["name"] == name]
    return rows[-1] if rows else None


def kernel_has(name: str) -> bool:
    return name in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def values(name: str, what: str = "parameters") -> dict[str, int]:
    return {v["name"]: v["value"] for v in json.loads(asymcc("show", name, "--json"))[what]}


NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups".split()


def open_to_all(folder: Path, *files: Path) -> None:
    """These files there. pytest's folders are closed to others."""
    for file in files:
        shutil.copy(file, folder)
    for place in (folder, *folder.parents):
        if place != Path("/tmp") and Path("/tmp") in place.parents:
            place.chmod(0o755)


def endpoint(role: str, ns: str = "", **options) -> list:
    """The command line of a role of ends.py, in a network namespace."""
    there = ("ip", "netns", "exec", ns) if ns else ()
    return [*there, sys.executable, ENDS, role, *(f"{name}={value}" for name, value in options.items())]


def other(role: str, *words) -> list:
    """The command line of a role of others.py. Its text goes along: a user who may not read this tree runs it too."""
    return [sys.executable, "-c", OTHERS.read_text(), role, *words]


serial = itertools.count()


def unique(prefix: str) -> str:
    return f"{prefix}{os.getpid() % 100000}_{next(serial)}"


@contextlib.contextmanager
def program(*argv, **keys):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    p = subprocess.Popen([str(a) for a in argv], text=True, **(pipes | keys))
    try:
        yield p
    finally:
        p.kill()
        p.communicate()


def expect(p: subprocess.Popen, word: str, line: str = "") -> None:
    """The program says this word next; before that, it is told a line."""
    if line:
        p.stdin.write(f"{line}\n")
        p.stdin.flush()
    answer = p.stdout.readline()
    assert answer == f"{word}\n", answer + (p.stderr.read() if not answer else "")


@contextlib.contextmanager
def saying(word: str, *argv, **keys):
    """A program that has said this word."""
    with program(*argv, **keys) as p:
        expect(p, word)
        yield p
