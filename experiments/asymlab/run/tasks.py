# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tasks: a case with a seed is one run, with all that determines its result."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..guest.job import Job
from ..machine import vm
from ..machine.image import DEFAULT_KERNEL, UML, Image
from ..machine.kernel import ACCURATE_ECN, DUALPI2, series
from ..paths import REPO
from ..plan import objects
from ..plan.base import named
from ..plan.scenario import Case
from ..plan.topology import DIRECTIONS, ENGINE, job_objects, objects_needed, plan_job
from ..results import store
from . import registered


@dataclass(frozen=True)
class Task:
    case: Case
    seed: int
    job: Job
    objects: dict[str, bytes]
    identity: dict
    key: str
    image: str = DEFAULT_KERNEL

    @property
    def name(self) -> str:
        return f"{self.case.name} seed {self.seed}"

    @property
    def packets(self) -> int:
        """Data packets that the run will carry at most, counted at each hop.

        A slow ACK path is no bound: an ACK may stand for many packets.
        """
        path, directions = self.case.scenario.path, {f.direction for f in self.case.scenario.flows}
        rate = sum(getattr(hop, direction).rate for hop in path.chain for direction in sorted(directions))
        return round(self.job.duration_s * rate / path.mtu / 8)

    def about(self, where: str) -> dict:
        s = self.case.scenario
        file = self.case.file.resolve()
        if file.is_relative_to(REPO):
            file = file.relative_to(REPO)
        point = [f"{k}={v}" for k, v in self.case.point.items()]
        command = [
            "asymlab",
            "run",
            named(file, self.case.source.case),
            "--set",
            self.case.which,
            "--seed",
            str(self.seed),
        ]
        command += [word for p in point for word in ("--at", p)]
        if where == "lab":
            kernel = self.image.removesuffix(UML)
            command += ["--engine", "qemu" if kernel == self.image else "uml"]
            command += ["--image", kernel] if kernel != DEFAULT_KERNEL else []
        return {
            "id": s.id,
            "title": s.title,
            "name": self.name,
            "point": self.case.point,
            "seed": self.seed,
            "where": where,
            "command": shlex.join(command),
        }

    def made(self, where: str) -> dict:
        """about() of a run that is made now. A run that was found keeps the commit of its own claims."""
        commit = registered.commit(self.case.file.resolve().parent)
        return self.about(where) | {"registered": commit, "image_name": self.image if where == "lab" else ""}


def has_profile(case: Case, engine: str) -> bool:
    """Whether this engine's kernel, or with "" this machine's, has the case's profile."""
    return ENGINE.get(case.scenario.profile, engine) == engine


def has_dualpi2(image: Image) -> bool:
    """True for kernels that the lab builds: packaged ones have no DualPI2."""
    return image.engine == "uml" and series(image.kernel) >= DUALPI2


def has_queues(case: Case, image: Image) -> bool:
    """Whether an image has the case's queues."""
    dualpi2 = any(getattr(hop, way).dualpi2 for hop in case.scenario.path.chain for way in DIRECTIONS)
    return not dualpi2 or has_dualpi2(image)


def _refuse_profiles(cases: list[Case], engine: str) -> None:
    for case in cases:
        if not has_profile(case, engine):
            profile = case.scenario.profile
            raise LabError(
                f"{case.file}: profile {profile!r}: packaged kernels have it not; take --engine {ENGINE[profile]}"
            )


def _refuse_ecn(cases: list[Case], release: str) -> None:
    for case in cases:
        if case.scenario.ecn == "accurate" and series(release) < ACCURATE_ECN:
            first = ".".join(map(str, ACCURATE_ECN))
            raise case.wrong(f"ecn: Linux {release} has no AccECN, {first} is the first that has; take another --image")


def _refuse_old(cases: list[Case], release: str, types: Path | None) -> None:
    for case in cases:
        for name, obj in objects_needed(case).items():
            file = case.files.get(name)
            has_needs = obj and not (file and file.module)
            needed = objects.needed_by(objects.told(file or str(obj), types)) if has_needs else ()
            if needed > series(release):
                first = ".".join(map(str, needed))
                raise case.wrong(
                    f"controller: {name} needs Linux {first} or later, and {release} is older; take another --image"
                )


def asking(case: Case, types: Path | None) -> list[str]:
    """The controllers given by their files that ask for L4S. `types`: as in objects.data()."""
    return [name for name, file in case.files.items() if not file.module and objects.told(file, types)["l4s"]]


def _refuse_modules(cases: list[Case], engine: str, release: str) -> None:
    """`engine`: "" for this machine, whose kernel keeps what it is given."""
    for case in cases:
        for name, file in case.files.items():
            if not file.module:
                continue
            if not engine:
                raise case.wrong(
                    f"controller: {file}: a module is not for --on host: load it yourself, and name it with "
                    f'`loader = "kernel"`'
                )
            if engine == "uml":
                raise case.wrong(f"controller: {file}: the kernel of uml takes no modules; take --engine qemu")
            built, has = objects.kernel_of(file)
            if built != release:
                raise case.wrong(f"controller: {file} was built for Linux {built}, and the image has {release}")
            # The kernel passes over those that it does not know.
            if unknown := sorted(case.scenario.controllers.get(name, {}).keys() - has - {"object", "loader"}):
                there = ", ".join(sorted(has)) or "none"
                raise case.wrong(f"controllers.{name}.{unknown[0]}: {file} has no such parameter; it has {there}")


def plan_runs(cases: list[Case], image: Image, any_profile: bool = False) -> list[Task]:
    """The runs of the cases, each once. `any_profile`: those as well that the image's kernel cannot run."""
    tasks: dict[str, Task] = {}
    if not any_profile:
        _refuse_profiles(cases, image.engine)
    _refuse_ecn(cases, image.kernel)
    _refuse_modules(cases, image.engine, image.kernel)
    _refuse_old(cases, image.kernel, image.types)
    for case in cases:
        l4s = asking(case, image.types)
        for seed in case.seeds:
            job = plan_job(case, seed, image.clock_factor, image.node_us, l4s)
            objects = vm.read_objects(job, case.files, image)
            identity = vm.identity(image, job, objects)
            key = store.key_of(identity)
            tasks.setdefault(key, Task(case, seed, job, objects, identity, key, image.folder.name))
    return list(tasks.values())


def plan_on_host(cases: list[Case]) -> list[Task]:
    """The same runs for this machine's kernel."""
    _refuse_profiles(cases, "")
    _refuse_ecn(cases, os.uname().release)
    _refuse_modules(cases, "", os.uname().release)
    _refuse_old(cases, os.uname().release, None)
    tasks = []
    for case in cases:
        l4s = asking(case, None)
        for seed in case.seeds:
            job = plan_job(case, seed, asking=l4s)
            tasks.append(Task(case, seed, job, job_objects(job, case.files, None), {}, ""))
    return tasks


Started = Callable[[Task], None]
