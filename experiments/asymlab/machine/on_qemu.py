# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run in QEMU: the distribution's own kernel, in virtual time.

An image holds a machine that has booted and waits for its job, stopped at one certain
instruction (qemu.py): each run begins as a copy of it, its memory mapped copy-on-write.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from .. import LabError
from ..guest.job import Job, Refusals
from ..results.store import files_of
from . import qemu, shared
from .files import scratch, sha256
from .image import Image, open_image
from .shared import Answer


def identity(image: Image, job: Job, maps: int) -> dict:
    """The parts of the engine that determine a run's result."""
    return {
        "clock_factor": image.clock_factor,
        "qemu": qemu.version(image.arch),
        "arguments": qemu.arguments(image.arch, image.kernel, job.seed, "", False, "", "", ""),
    }


def maps_max_mb(job: Job | Refusals) -> int:
    return qemu.MEMORY_MB // 2


def run(
    image: Image, job: Job | Refusals, objects: dict[str, bytes], maps: int, core: int | None, limit_s: float, started
) -> Answer:
    """Go on from the booted machine, run the job, power off. `started` gets the process.

    Returns the files that the agent left, and what the run took: the instructions that it executed, and of the host
    wall_s in all, boot_s up to the first packet.
    Raises LabError: with the agent's message, or with the reason why the machine did not make it.
    """
    with scratch("vm-") as tmp:
        argv = [*lay_out(tmp, image, job, objects), "-no-shutdown"]
        boot_s = None
        began = time.monotonic()

        def look() -> None:
            nonlocal boot_s
            if boot_s is None and "first packet" in machine.console():
                boot_s = round(time.monotonic() - began, 2)

        with contextlib.closing(qemu.Machine(argv, tmp, core, started)) as machine:
            make_ready(machine, image)
            before = machine.executed()
            machine.do("cont")
            machine.await_shutdown(limit_s, look)
            executed = machine.executed() - before
            if open_image(image.folder.name).hash != image.hash:
                raise LabError(f"image {image.folder.name}: made anew while a run used it; start again")
            wall_s = round(time.monotonic() - began, 2)
            return shared.results(machine, files_of(job)), {"executed": executed, "wall_s": wall_s, "boot_s": boot_s}


def lay_out(
    tmp: Path, image: Image, job: Job | Refusals, objects: dict[str, bytes], memory: Path | None = None
) -> list[str]:
    """A run's files, into its folder; returns QEMU's command. `memory`: a copy of the image's, to be written to."""
    try:
        shutil.copyfile(image.devices, tmp / "devices")  # QEMU would have it for itself
        if sha256(tmp / "devices") != image.sha256["devices"]:
            raise LabError(f"{image.devices}: not what its manifest says; `asymlab image` makes it anew")
    except OSError as e:
        raise LabError(f"{tmp}: {e.strerror}") from None
    shared.lay_out(tmp / "shared", qemu.SHARED_MB, job, objects)
    files = (str(memory or image.memory), memory is not None, f"{tmp}/devices", f"{tmp}/console", f"{tmp}/shared")
    return [image.arch.qemu, *qemu.arguments(image.arch, image.kernel, job.seed, *files)]


def make_ready(machine: qemu.Machine, image: Image) -> None:
    """The machine as the image keeps it, with the job."""
    machine.human(f"loadvm {qemu.READY}")
    if image.arch.plugs:
        share_memory(machine)


def share_memory(machine: qemu.Machine) -> None:
    """Plugged in only now: a machine that is kept with it would bring all of its memory along."""
    backend = {"qom-type": "memory-backend-file", "id": "shared", "size": qemu.SHARED_MB << 20}
    machine.do("object-add", **backend, **{"mem-path": f"{machine.folder}/shared", "share": True})
    machine.do("device_add", driver="ivshmem-plain", memdev="shared", bus="pci.0", addr=qemu.SHARED_SLOT)
