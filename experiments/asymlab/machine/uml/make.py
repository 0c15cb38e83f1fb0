# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Builds the kernel. The same source gives the same bytes, whoever builds it and where."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ... import LabError
from ...shell import sh
from . import edits
from .source import Source

CONFIG = Path(__file__).with_name("lab.config")
# Settings that some kernels have not: new ones the first (CONFIG_SYSCTL says it there), those before 6.17 the second.
NOT_ALL = {"CONFIG_PROC_SYSCTL", "CONFIG_NET_SCH_DUALPI2"}
STEP = re.compile(r"^  ([A-Z]+) +(\S+)$", re.M)  # as make says it: a tool, and the file that it makes
SETTING = re.compile(r"^(CONFIG_\w+)=(.+)$", re.M)
FILES = 840  # that are compiled, about
CPU_MINUTES = 5
BUILD_LIMIT_S = 2 * 3600
TELL_S = 20
HERE = "/proc/self/cwd"  # a tree's place, for the compiler: no command names the tree, so a copy builds nothing anew
OPTIONS = [  # for make
    "ARCH=um",
    f"KAFLAGS=-fdebug-prefix-map={HERE}=.",
    # BTF has types and functions. It needs no place of a variable, statement or macro, and nobody reads the warnings:
    # a quarter of the compiler's time, and the same instructions.
    f"KCFLAGS=-fdebug-prefix-map={HERE}=. -fno-var-tracking -gno-statement-frontiers -gno-column-info"
    " -ftrack-macro-expansion=0 -Wno-all -Wno-extra",
    "HOSTCFLAGS=-O0",  # the build's own tools: they take longer to compile than they run
    *("KBUILD_BUILD_TIMESTAMP=2026-01-01", "KBUILD_BUILD_USER=lab", "KBUILD_BUILD_HOST=lab"),
    *("KBUILD_BUILD_VERSION=1", "LOCALVERSION="),
    "RUSTC=false",  # the configuration is in the kernel, and a compiler's version that it does not need would be
]
TIME = "time_travel_time"  # the kernel's variable: its virtual time, in ns


@dataclass(frozen=True)
class Built:
    linux: bytes
    release: str  # as uname -r
    words: str  # for its command line
    time_at: int  # the address of TIME
    config: bytes  # what it was built with


def made_of() -> str:
    """A hash of what shapes every kernel besides its source and the compiler. Comments shape none."""
    changes = [{k: v for k, v in vars(e).items() if k != "why"} for e in edits.EDITS]
    parts = [changes, SETTING.findall(CONFIG.read_text()), OPTIONS]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def build(source: Source, say) -> Built:
    """LabError with the compiler's first complaint. make builds only what has changed."""
    tree = source.tree
    edits.apply(tree)
    make = ["make", "-C", str(tree), *OPTIONS]
    log = tree / ".asymlab.log"
    log.unlink(missing_ok=True)
    settings = tree / ".asymlab.config"  # a later line counts
    settings.write_text(CONFIG.read_text() + source.settings)
    _make([*make, f"KCONFIG_ALLCONFIG={settings}", "allnoconfig"], log, say)
    _refuse_config(tree)
    if lost := _lost(tree, source.settings):
        say(f"--config: this kernel has no {', '.join(lost)}")
    if not (tree / "linux").exists():
        say(f"building Linux as a process: about {CPU_MINUTES} minutes of one core, {FILES} files")
    # One more than cores: a step that waits leaves none idle.
    _make([*make, f"-j{len(os.sched_getaffinity(0)) + 1}", "linux"], log, say)
    sh("strip", "-o", tree / ".linux.stripped", tree / "linux")
    at = re.search(rf"^([0-9a-f]+) \w {TIME}$", sh("nm", tree / "linux"), re.M)
    if not at:
        raise LabError(f"{tree}: built without {TIME}: no virtual time")
    release, usage = (sh(tree / ".linux.stripped", option).strip() for option in ("--version", "--help"))
    # From 6.16 on its processes need not be traced, which halves the cost of their system calls.
    words = "seccomp=on" if "seccomp=" in usage else ""
    config = (tree / ".config").read_bytes()
    return Built((tree / ".linux.stripped").read_bytes(), release, words, int(at[1], 16), config)


def progress(log: str) -> str:
    """How many files are compiled, and the step that make is at: after the last file it still links for long."""
    steps = STEP.findall(log)
    count = sum(tool == "CC" for tool, _ in steps)
    return f"compiled {count} file{'s' * (count != 1)}, at {' '.join(steps[-1]) if steps else 'the configuration'}"


def _refuse_config(tree: Path) -> None:
    """LabError if the source does not know a setting of the lab's, or does not take it."""
    if lost := [k for k in _lost(tree, CONFIG.read_text()) if k not in NOT_ALL]:
        raise LabError(f"{tree}: the source does not take {', '.join(lost)}")


def _lost(tree: Path, settings: str) -> list[str]:
    """Those of these settings that are not on in a tree that is configured."""
    wanted, has = (dict(SETTING.findall(text)) for text in (settings, (tree / ".config").read_text()))
    return [k for k, v in wanted.items() if v == "y" and has.get(k) != "y"]


def _make(argv: list[str], log: Path, say) -> None:
    """Run make; its words are added to the log, and progress is told now and then."""
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "CCACHE_DIR")}
    env |= {"LC_ALL": "C", "PWD": HERE}  # gcc takes this name of its folder
    began = last_report = time.monotonic()
    with open(log, "ab") as out:
        p = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env)
        try:
            while p.poll() is None:
                time.sleep(0.2)
                now = time.monotonic()
                if now - began > BUILD_LIMIT_S:
                    raise LabError(f"{argv[2]}: not built in {BUILD_LIMIT_S // 3600} hours; the log is {log}")
                if now - last_report > TELL_S:
                    last_report = now
                    say(f"{progress(log.read_text(errors='replace'))}, {now - began:.0f} s")
        finally:
            if p.poll() is None:
                p.terminate()
                p.wait()
    if p.returncode:
        text = log.read_text(errors="replace").splitlines()
        lines = [line for pattern in ("[Ee]rror:|No space", r"\*\*\*", "") for line in text if re.search(pattern, line)]
        word = lines[0] if lines else f"exit {p.returncode}"
        raise LabError(f"{argv[2]}: make failed: {word.strip()[:300]}; the log is {log}. --engine qemu needs no build")
