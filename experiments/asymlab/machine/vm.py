# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One experiment in one virtual machine.

An image holds a machine that has booted and waits for its job, stopped at one certain
instruction (qemu.py): each run begins as a copy of it, its memory mapped copy-on-write.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import tarfile
import time
from pathlib import Path

from .. import LabError
from ..guest.job import Job, Refusals
from ..guest.protocol import HEADER, JOB, RESULTS, STATUS, Fault
from ..guest.wire import dump
from ..plan.topology import job_objects
from ..results.store import FILES, TABLES_HASH
from . import qemu
from .files import scratch, sha256
from .image import Image, open_image

WALL_LIMIT_S = 1800


def read_objects(job: Job) -> dict[str, bytes]:
    """The BPF objects that a job brings along, read once: what is hashed is what is run."""
    return {p.name: p.read_bytes() for p in job_objects(job)}


def identity(image: Image, job: Job, objects: dict[str, bytes]) -> dict:
    """All that determines a run's result, as hashes."""
    return {
        "image": image.hash,
        "kernel": image.kernel,
        "clock_factor": image.clock_factor,
        "qemu": qemu.version(image.arch),
        "arguments": qemu.arguments(image.arch, image.kernel, job.seed, "", False, "", "", ""),
        "tables": TABLES_HASH,
        "objects": {name: hashlib.sha256(data).hexdigest() for name, data in objects.items()},
        "job": dump(job),
    }


def run(
    image: Image,
    job: Job | Refusals,
    objects: dict[str, bytes],
    core: int | None = None,
    limit_s: float = WALL_LIMIT_S,
    started=None,
) -> tuple[dict[str, bytes], dict[str, float | int | None]]:
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
            return results(machine), {"executed": executed, "wall_s": wall_s, "boot_s": boot_s}


def lay_out(
    tmp: Path, image: Image, job: Job | Refusals, objects: dict[str, bytes], memory: Path | None = None
) -> list[str]:
    """A run's files, into its folder; returns QEMU's command. `memory`: a copy of the image's, to be written to."""
    try:
        shutil.copyfile(image.devices, tmp / "devices")  # QEMU would have it for itself
        if sha256(tmp / "devices") != image.devices_sha256:
            raise LabError(f"{image.devices}: not what its manifest says; `asymlab image` makes it anew")
        with open(tmp / "shared", "wb") as f:
            f.write(pack(job, objects))
            f.truncate(qemu.SHARED_MB << 20)
    except OSError as e:
        raise LabError(f"{tmp}: {e.strerror}") from None
    files = (str(memory or image.memory), memory is not None, f"{tmp}/devices", f"{tmp}/console", f"{tmp}/shared")
    return [image.arch.qemu, *qemu.arguments(image.arch, image.kernel, job.seed, *files)]


def make_ready(machine: qemu.Machine, image: Image) -> None:
    """As the image keeps it, and with the job."""
    machine.human(f"loadvm {qemu.READY}")
    if image.arch.plugs:
        share_memory(machine)


def pack(job: Job | Refusals, objects: dict[str, bytes]) -> bytes:
    """The job and its objects, as the guest takes them from the shared memory."""
    bring = io.BytesIO()
    with tarfile.open(fileobj=bring, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in {"job.json": json.dumps(dump(job), sort_keys=True).encode(), **objects}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return HEADER.pack(JOB, bring.tell()) + bring.getvalue()


def share_memory(machine: qemu.Machine) -> None:
    """Plugged in only now: a machine that is kept with it would bring all of its memory along."""
    backend = {"qom-type": "memory-backend-file", "id": "shared", "size": qemu.SHARED_MB << 20}
    machine.do("object-add", **backend, **{"mem-path": f"{machine.folder}/shared", "share": True})
    machine.do("device_add", driver="ivshmem-plain", memdev="shared", bus="pci.0", addr=qemu.SHARED_SLOT)


def results(machine: qemu.Machine) -> dict[str, bytes]:
    """What the guest hands out, as far as it is the agent's."""
    with open(machine.folder / "shared", "rb") as f:
        magic, length = HEADER.unpack(f.read(HEADER.size))
        if magic != RESULTS or length > qemu.SHARED_MB << 20:
            raise LabError(f"virtual machine: ended without results: {machine.complaint()}", Fault.MACHINE)
        try:
            files = unpack(f.read(length))
            error = failed(files.pop(STATUS))
        except (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
            raise LabError(f"virtual machine: its results are damaged ({type(e).__name__})", Fault.MACHINE) from None
    if error:
        raise error
    return files


def failed(status: bytes) -> LabError | None:
    """What an agent says of a run that it could not make."""
    said = json.loads(status)
    if said["ok"] is True:
        return None
    kind = said.get("kind", "")
    return LabError(" ".join(str(said.get("error", "")).split())[: qemu.WORDS_MAX], kind if kind in {*Fault} else "")


def unpack(data: bytes) -> dict[str, bytes]:
    """The agent's files in a plain tar, each once. LabError for other names, other kinds, or sizes that cannot be."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for m in tar:
            if (
                m.name in files
                or m.size > {STATUS: 1 << 20, **FILES}.get(m.name, -1)
                or m.type not in (tarfile.REGTYPE, tarfile.AREGTYPE)
                or m.issparse()
            ):
                raise LabError(
                    f"virtual machine: {m.name[:40]!r} of {m.size} bytes, type {m.type!r}, is no result of an agent"
                )
            if content := tar.extractfile(m):
                files[m.name] = content.read()
    return files
