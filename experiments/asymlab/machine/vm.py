# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One experiment in one virtual machine, by either engine: the contract that both keep.

    qemu    the distribution's own kernel, 10^10 instructions a second, exact costs (on_qemu.py)
    uml     a kernel that is built as a process of this machine, an infinitely fast CPU (on_uml.py)

Both take the same job and objects, and hand out the same files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Protocol

from .. import LabError
from ..guest.job import Job, Refusals
from ..guest.programs import PACKS, WithPrograms
from ..guest.wire import dump
from ..paths import BUILT
from ..plan import objects as plan_objects
from ..plan.objects import SUFFIX, File
from ..plan.opportunities import TRACES
from ..plan.programs import Contents
from ..plan.topology import job_objects
from ..results.store import TABLES_HASH
from . import on_qemu, on_uml, packs
from .cpio import content
from .image import Image
from .shared import Answer

WALL_LIMIT_S = 1800


class Engine(Protocol):
    """The functions that a module of an engine has."""

    def maps_max_mb(self, job: Job | Refusals) -> int: ...

    def identity(self, image: Image, job: Job, maps: int) -> dict: ...

    def run(
        self,
        image: Image,
        job: Job | Refusals,
        objects: dict[str, bytes],
        maps: int,
        core: int | None,
        limit_s: float,
        started,
    ) -> Answer: ...


ENGINES: dict[str, Engine] = {"qemu": on_qemu, "uml": on_uml}


def read_objects(job: Job, files: dict[str, File], image: Image, programs: Iterable[Contents] = ()) -> dict[str, bytes]:
    """The files that a job brings along, read once: those that are hashed are those that run. `programs`: the packs of
    a job that has some."""
    objects = job_objects(job, files, image.types)
    return objects | packs.archives(programs) if isinstance(job, WithPrograms) else objects


class NoRoom(LabError):
    """A guest has too little memory for the maps of anyone's objects."""


def maps_mb(image: Image, job: Job | Refusals, objects: dict[str, bytes]) -> int:
    """The memory that the maps of anyone's objects take, ours take little; and packs, twice while they are unpacked.

    NoRoom if that is too much."""
    anyones = {name: data for name, data in objects.items() if name.endswith(SUFFIX) and not (BUILT / name).exists()}
    sizes = {name: plan_objects.maps_mb(data) for name, data in anyones.items()}
    unpacked = {name: 2 * len(data) >> 20 for name, data in objects.items() if name.endswith(packs.SUFFIX)}
    most, total = ENGINES[image.engine].maps_max_mb(job), sum([*sizes.values(), *unpacked.values()])
    if total > most:
        maps = [f"{name} has maps of {mb} MB" for name, mb in sizes.items() if mb]
        each = ", ".join(maps + [f"{name} takes {mb} MB" for name, mb in unpacked.items()])
        flows = len(job.flows) if isinstance(job, Job) else 0
        beside = f" beside {flows} flows" if flows > 1 else ""
        raise NoRoom(f"{each}: a guest of {image.engine} has room for {most} MB{beside}: make them smaller")
    return total


def identity(image: Image, job: Job, objects: dict[str, bytes]) -> dict:
    """All that determines a run's result, as hashes."""
    return {
        "image": image.hash,
        "kernel": image.kernel,
        **ENGINES[image.engine].identity(image, job, maps_mb(image, job, objects)),
        "tables": TABLES_HASH,
        "objects": {name: hashlib.sha256(data).hexdigest() for name, data in objects.items()},
        "job": dump(job),
        **({"packages": packages(job, objects)} if isinstance(job, WithPrograms) else {}),
    }


def packages(job: WithPrograms, objects: dict[str, bytes]) -> dict[str, list[str]]:
    """The names and versions of Debian's packages in each pack."""
    names = sorted({program.pack for program in job.programs})
    notes = {name: content(objects[f"{name}{packs.SUFFIX}"], f"{PACKS[1:]}/{name}.json") for name in names}
    return {name: json.loads(note)["packages"] for name, note in notes.items()}


def run(
    image: Image,
    job: Job | Refusals,
    objects: dict[str, bytes],
    core: int | None = None,
    limit_s: float = WALL_LIMIT_S,
    started=None,
) -> Answer:
    """Run the job in a machine of its own. `started` gets the process.

    Returns the files that the agent left, and what the run took: of the host wall_s in all and boot_s up to the first
    packet; the instructions that it `executed`, where the engine counts them (qemu).
    Raises LabError: with the agent's message, or with the reason why the machine did not make it.
    """
    return ENGINES[image.engine].run(image, job, objects, maps_mb(image, job, objects), core, limit_s, started)


class Place:
    """A core, and the machines there, one after the other. `many`: jobs that bring no files but our own, and traces of
    links, follow each other in one of uml's, and so do branches of one run. Any other job has a machine of its own, as
    all of qemu's do."""

    def __init__(self, image: Image, core: int, started, many: bool):
        self.image, self.core, self.started = image, core, started
        serves = many and image.engine == "uml" and on_uml.keeps_addresses()
        self.server = on_uml.Server(image, core, started) if serves else None

    def run(self, job: Job | Refusals, objects: dict[str, bytes], limit_s: float) -> Answer:
        """The files that the agent left, and what the run took: see run()."""
        branch = isinstance(job, Job) and job.branch and not any(name.endswith(packs.SUFFIX) for name in objects)
        if self.server and (branch or all(map(_is_ours, objects.items()))):
            return self.server.run(job, objects, maps_mb(self.image, job, objects), limit_s)
        return run(self.image, job, objects, self.core, limit_s, self.started)

    def close(self) -> None:
        if self.server:
            self.server.close()


def _is_ours(file: tuple[str, bytes]) -> bool:
    """A trace is numbers that the lab has packed, and the kernel runs nothing of it."""
    name, data = file
    if name.startswith(f"{TRACES.name}/"):
        return True
    return name.endswith(SUFFIX) and (BUILT / name).is_file() and (BUILT / name).read_bytes() == data
