# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller on several kernels, as KTAP on standard output: `asymlab check-kernels`.

In a guest each object has a machine of its own, so that what one breaks no other feels. On this machine's own kernel
a few share a run in namespaces, as root; what needs netem is skipped where the kernel lacks it. A run has a hop for
each thing to be seen:

    bare    registered by bpftool alone, as it is; the flow pauses and goes on
    clean   registered by the loader, under another name; its live parameters change while the flow runs
    lossy   the same controller where each hundredth packet is lost
    marked  the same controller where a RED queue marks ACKs, if its law needs that

Each object must hold what all must, and the law of its record (asymlab/controllers). One without a law is checked for
the rest, and the output says so. If none is named, the verifier must also refuse the objects of tests/verifier,
which have a fault each.

The check compares the verifier's work (verified_insns, all programs of an object) with docs/kernels.json. `--record`
writes that file, and the table of docs/kernels.md.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ... import LabError
from ...controllers import built_in
from ...guest.protocol import Fault
from ...machine import image
from ...machine.arch import by_label
from ...machine.build import build_image
from ...machine.kernel import newest, series
from ...needs import building
from ...paths import BUILT, INSTALLED
from ...plan import objects
from ...results import store
from ...run import local
from ...run.host import execute_on_host
from ...run.tasks import Task, plan_on_host, plan_runs
from . import table
from .ktap import ktap
from .outcome import KERNELS, Column, Result
from .properties import NO_NETEM, broken, judge
from .refusals import refusals
from .setup import WALL_LIMIT_S, Facts, Setup, facts
from .view import RunView

HOST_HOPS = 8
# The property at fault where a run failed by this, and the set-up that does without.
AT_FAULT: dict[str, tuple[str, dict[str, Any]]] = {
    Fault.REGISTER: ("registers by bpftool alone", {"bare": False}),
    Fault.SET: ("live parameters change", {"change": False}),
}


def guest(label: str, say) -> tuple[image.Image, Column]:
    """A kernel's image, made if there is none of this tree, and its column."""
    arch = by_label(label)
    wanted = series = label.removesuffix(f"-{arch.name}")
    column = Column(label)
    if series == "newest":
        wanted, suite = newest(arch, say)
        series, column.note = ".".join(re.findall(r"\d+", wanted)[:2]), f"{wanted} of {suite}"
    name = arch.label(series)
    try:
        image.check_current(name)
        made = image.open_image(name)
        if wanted != series and f"linux-image-{made.kernel}" != wanted:
            raise LabError("of an older one")
    except (LabError, OSError, ValueError, KeyError):
        build_image(wanted, label=name, say=say, arch=arch)
        made = image.open_image(name)
    parts = json.loads((made.folder / "manifest.json").read_text())["parts"]
    column.image, column.release, column.package = made, made.kernel, parts["vmlinux"]["version"].split()[-1]
    return made, column


def without(setup: Setup, error: LabError, faults: dict[str, str]) -> Setup | None:
    """The set-up that does without what went wrong, which is noted; None if there is none."""
    what, less = AT_FAULT.get(error.kind, ("", {}))
    if not less or what in faults:
        return None
    faults[what] = str(error)
    return replace(setup, **less)


def fitting(names: list[str], known: dict[str, Facts], column: Column) -> list[str]:
    """Those that do not say that they need a newer kernel; why the others are left out goes into the column."""
    for name in names:
        if known[name].needs > series(column.release):
            column.newer[name] = f"it needs Linux {'.'.join(map(str, known[name].needs))} or later"
    return [name for name in names if name not in column.newer]


def in_guest(label: str, names: list[str], known: dict[str, Facts], jobs: int | None, fresh: bool, say) -> Column:
    try:
        made, column = guest(label, say)
    except LabError as e:
        return Column(label, error=str(e))
    setups = {name: Setup((name,)) for name in fitting(names, known, column)}
    faults: dict[str, dict[str, str]] = {name: {} for name in setups}
    while setups:
        tasks = {name: plan_runs(setup.cases(known), made)[0] for name, setup in setups.items()}
        owner = {task.key: name for name, task in tasks.items()}
        found: list[tuple[Task, store.Run | LabError]] = [
            (task, held) for task in tasks.values() if not fresh and (held := store.held(task.key))
        ]
        stored = {task.key for task, _ in found}
        left = [task for task in tasks.values() if task.key not in stored]
        again = {}
        under_way = local.runs(left, made, jobs, lambda _: None, WALL_LIMIT_S, go_on=True)
        for task, run in itertools.chain(found, under_way):
            name = owner[task.key]
            if isinstance(run, store.Run):
                took = "in the store" if task.key in stored else f"{run.record['wall_s']:.0f} s"
                say(f"{column.release}: {name} ({took})")
                column.results[name] = judge(RunView(name, setups[name], run, known[name]), faults[name])
                continue
            say(f"{column.release}: {name}: {run}")
            if less := without(setups[name], run, faults[name]):
                again[name] = less
            else:
                column.results[name] = broken(name, str(run), setups[name])
        setups = again
    return column


def why_not_here() -> str:
    btf = Path("/sys/kernel/btf/vmlinux")
    if os.geteuid() != 0:
        return "not root"
    if not btf.exists() or b"bpf_struct_ops_tcp_congestion_ops" not in btf.read_bytes():
        return "this kernel takes no congestion control from BPF"
    return ""


def on_host(names: list[str], known: dict[str, Facts], say) -> Column:
    """In real time, so what fails is tried once more, alone: other load may have been the cause."""
    column = Column("running", os.uname().release, skip=why_not_here())
    if column.skip:
        return column
    netem = not subprocess.run(
        [*"unshare --net tc qdisc add dev lo root netem delay 1ms".split()], capture_output=True
    ).returncode
    names = fitting(names, known, column)
    taken = set(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split())

    def attempt(*group: str) -> dict[str, Result]:
        setup = Setup(group, netem, not taken & set(group))
        faults: dict[str, str] = {}
        lacks = {} if netem else dict.fromkeys(("lossy", "marked"), NO_NETEM)
        lacks |= {} if setup.bare else {"bare": "a controller of this name is in service here"}
        while True:
            say(f"{column.release}: {', '.join(group)}")
            try:
                run = execute_on_host(plan_on_host(setup.cases(known))[0])
                return {name: judge(RunView(name, setup, run, known[name], lacks), faults) for name in group}
            except LabError as e:
                less = without(setup, e, faults) if len(group) == 1 else None
                if not less:
                    return {name: broken(name, str(e), setup) for name in group}
                setup = less

    # A chain takes as many as it has hops for. A controller with programs for the cgroup has it alone.
    alone = [name for name in names if known[name].halves or name in taken]
    others, size = [name for name in names if name not in alone], HOST_HOPS // len(Setup(("",), netem).roles())
    for group in [*((name,) for name in alone), *(others[k : k + size] for k in range(0, len(others), size))]:
        column.results |= attempt(*group)
    for name, result in list(column.results.items()):
        if result.failed:
            column.results |= attempt(name)
    return column


def check(labels: list[str], names: list[str], jobs: int | None, fresh: bool, keep: bool) -> bool:
    """All of it; KTAP on standard output, progress on standard error. True if nothing failed."""
    wanted = objects.called(names or built_in(BUILT))
    if not wanted:
        raise LabError(f"{BUILT}: no controller is there; {building()}")
    known = {name: facts(name, controller) for name, controller in wanted.items()}
    if keep and (files := [known[name].file for name in wanted if known[name].file]):
        raise LabError(f"--record: {files[0]}: only controllers of bpf/ are recorded")
    chosen, names = bool(names), list(wanted)
    recorded = table.recorded()

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    columns = [
        on_host(names, known, say) if label == "running" else in_guest(label, names, known, jobs, fresh, say)
        for label in labels or KERNELS
    ]
    for column in columns:
        if not (column.skip or column.error or chosen or INSTALLED):  # these objects are this tree's tests
            column.refused = refusals(column)
    fine = ktap(columns, recorded, lambda text: print(text, flush=True))
    if keep:
        table.keep(columns, recorded)
        say(f"{table.RECORD} and the table in {table.PAGE} are written")
    return fine
