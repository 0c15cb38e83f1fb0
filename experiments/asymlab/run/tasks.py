# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tasks: a case with a seed is one run, with all that determines its result."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
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
from ..plan.quantities import short
from ..plan.reasons import did_you_mean
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
        path, directions = self.case.scenario.path, {str(f.direction) for f in self.case.scenario.flows}
        if self.case.scenario.programs:
            directions = {*DIRECTIONS}
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
        if where == "host":
            command += ["--on", "host"]
        else:
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


def without(case: Case, image: Image) -> str:
    """The part of a network that an image's kernel is built without, and which has it; "" if it has all."""
    s = case.scenario
    if any(getattr(hop, way).dualpi2 for hop in s.path.chain for way in DIRECTIONS) and not has_dualpi2(image):
        first = ".".join(map(str, DUALPI2))
        return f"dualpi2: takes --engine uml and Linux {first} or later, and this is {image.kernel}"
    for key, asked, of in (
        ("path.tunnel: wireguard", s.path.tunnel == "wireguard", "wg_peer"),
        ("flows.subflows", any(f.subflows > 1 for f in s.flows), "mptcp_pm_data"),
    ):  # costly: the lab's own kernel of uml is built without
        if asked and image.engine == "uml" and not image.has_type(of):
            return f"{key}: this kernel of uml is built without; take --engine qemu"
    return ""


def _refuse_profiles(cases: list[Case], engine: str) -> None:
    for case in cases:
        if not has_profile(case, engine):
            profile = case.scenario.profile
            raise case.wrong(f"profile: {profile!r}: packaged kernels have it not; take --engine {ENGINE[profile]}")


def _refuse_ecn(cases: list[Case], release: str) -> None:
    for case in cases:
        if case.scenario.ecn == "accurate" and series(release) < ACCURATE_ECN:
            first = ".".join(map(str, ACCURATE_ECN))
            raise case.wrong(f"ecn: Linux {release} has no AccECN, {first} is the first that has; take another --image")


def _refuse_network(cases: list[Case], image: Image) -> None:
    for case in cases:
        if words := without(case, image):
            raise case.wrong(words)


def _known(case: Case, types: Path | None) -> dict[str, dict]:
    """asymcc's words on each controller. The kernel alone knows what those that it has take."""
    known = {}
    for name, obj in objects_needed(case).items():
        file = case.files.get(name)
        if obj and not (file and file.module):
            known[name] = objects.told(file or str(obj), types)
    return known


def _refuse_controllers(cases: list[Case], release: str, types: Path | None) -> None:
    """Those that the kernel is too old for."""
    for case in cases:
        for name, about in _known(case, types).items():
            if (needed := objects.needed_by(about)) > series(release):
                first = ".".join(map(str, needed))
                raise case.wrong(
                    f"controller: {name} needs Linux {first} or later, and {release} is older; take another --image"
                )


def _refuse_parameters(case: Case, types: Path | None) -> None:
    """Those that an object has not, or does not take."""
    s, known = case.scenario, _known(case, types)
    for name in known.keys() & s.controllers.keys():
        given = {key: value for key, value in s.controllers[name].items() if key not in ("object", "loader")}
        _refuse_values(case, f"controllers.{name}", name, known[name], given)
    for i, change in enumerate(s.changes):
        if change.set and change.controller in known:
            about = known[change.controller]
            _refuse_values(case, f"changes.{i}.set", change.controller, about, change.set)
            fixed = [p["name"] for p in about["parameters"] if not p["live"] and p["name"] in change.set]
            if fixed and not change.command:
                raise case.wrong(
                    f"changes.{i}.set.{fixed[0]}: {change.controller} reads it only as it is loaded: "
                    '`command = "replace"` beside it loads it anew'
                )
    if s.thin is not None:
        given = {key: value for key, value in s.thin.items() if key != "at"}
        _refuse_values(case, "thin", "thin", objects.shown(objects.THIN), given)


def _refuse_values(case: Case, place: str, name: str, about: dict, given: Mapping[str, int | str]) -> None:
    has = {parameter["name"]: parameter for parameter in about["parameters"]}
    for key, value in given.items():
        if key not in has:
            like = did_you_mean(key, has) or f"; it has {', '.join(has) or 'none'}"
            raise case.wrong(f"{place}.{key}: {name} has no such parameter{like}")
        low, high, unit = (has[key][what] for what in ("min", "max", "unit"))
        if isinstance(value, str) or not low <= value <= high:
            bounds = f"{low} to {high} {unit}".removesuffix(" -")
            raise case.wrong(f"{place}.{key}: must be a whole number, {bounds}, not {short(value)}")


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


def _refuse_engine(cases: list[Case], engine: str) -> None:
    """`engine`: "" for this machine, where a program could do all that root can."""
    for case in cases:
        if case.scenario.programs and not engine:
            raise case.wrong("programs: run in a guest alone, not with --on host")
        if case.scenario.run.branch and engine != "uml":
            raise case.wrong("run.branch: takes --engine uml, whose kernel goes back")


def _refuse_kernel(cases: list[Case], image: Image) -> None:
    """Those that need what the image's kernel has not."""
    _refuse_profiles(cases, image.engine)
    _refuse_ecn(cases, image.kernel)
    _refuse_network(cases, image)
    _refuse_controllers(cases, image.kernel, image.types)


def lack(case: Case, image: Image) -> str:
    """Why the image's kernel cannot run a case, and which can; "" if it can."""
    try:
        _refuse_kernel([case], image)
    except LabError as e:
        return str(e)
    return ""


def plan_runs(cases: list[Case], image: Image, any_kernel: bool = False) -> list[Task]:
    """The runs of the cases, each once. `any_kernel`: those as well that the image's kernel cannot run."""
    tasks: dict[str, Task] = {}
    if not any_kernel:
        _refuse_kernel(cases, image)
    _refuse_engine(cases, image.engine)
    _refuse_modules(cases, image.engine, image.kernel)
    for case in cases:
        _refuse_parameters(case, image.types)
        l4s = asking(case, image.types)
        for seed in case.seeds:
            job = plan_job(case, seed, image.clock_factor, image.node_us, l4s)
            objects = vm.read_objects(job, case.files, image, case.packs)
            try:
                identity = vm.identity(image, job, objects)
            except vm.NoRoom as e:
                raise case.wrong(f"controller: {e}") from None
            key = store.key_of(identity)
            tasks.setdefault(key, Task(case, seed, job, objects, identity, key, image.folder.name))
    return list(tasks.values())


def plan_on_host(cases: list[Case]) -> list[Task]:
    """The same runs for this machine's kernel."""
    _refuse_profiles(cases, "")
    _refuse_engine(cases, "")
    _refuse_ecn(cases, os.uname().release)
    _refuse_modules(cases, "", os.uname().release)
    _refuse_controllers(cases, os.uname().release, None)
    tasks = []
    for case in cases:
        _refuse_parameters(case, None)
        l4s = asking(case, None)
        for seed in case.seeds:
            job = plan_job(case, seed, asking=l4s)
            tasks.append(Task(case, seed, job, job_objects(job, case.files, None), {}, ""))
    return tasks


Started = Callable[[Task], None]
