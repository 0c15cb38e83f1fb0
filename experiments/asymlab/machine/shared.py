# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The memory by which a job comes into a guest and its results go out: a file that both map."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Protocol

from .. import LabError
from ..guest.protocol import HEADER, JOB, RESULTS, STATUS, Fault
from ..guest.wire import dump
from ..results.store import FILES
from .watched import WORDS_MAX

Answer = tuple[dict[str, bytes], dict[str, float | int | str | None]]  # the guest's files, and what it took


class Ended(Protocol):
    """A machine that has ended."""

    @property
    def folder(self) -> Path: ...

    def complaint(self) -> str: ...


def lay_out(file: Path, size_mb: int, job: object, objects: dict[str, bytes]) -> None:
    """The shared memory of a run that begins."""
    try:
        with open(file, "wb") as f:
            f.write(pack(job, objects))
            f.truncate(size_mb << 20)
    except OSError as e:
        raise LabError(f"{file.parent}: {e.strerror}") from None


def pack(job: object, objects: dict[str, bytes]) -> bytes:
    """The job (a dataclass) and its objects, as the guest takes them from the shared memory."""
    bring = io.BytesIO()
    with tarfile.open(fileobj=bring, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in {"job.json": json.dumps(dump(job), sort_keys=True).encode(), **objects}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return HEADER.pack(JOB, bring.tell()) + bring.getvalue()


def results(machine: Ended, most: dict[str, int] = FILES) -> dict[str, bytes]:
    """The files that the guest hands out: of these names, and at most of these sizes."""
    with open(machine.folder / "shared", "rb") as f:
        magic, length = HEADER.unpack(f.read(HEADER.size))
        if magic != RESULTS or length > os.path.getsize(f.name):
            raise LabError(f"virtual machine: ended without results: {machine.complaint()}", Fault.MACHINE)
        try:
            files = unpack(f.read(length), most)
            error = failed(files.pop(STATUS))
        except (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
            raise LabError(f"virtual machine: its results are damaged ({type(e).__name__})", Fault.MACHINE) from None
    if error:
        raise error
    return files


def failed(status: bytes) -> LabError | None:
    """An agent's reason for a run that it could not make."""
    answer = json.loads(status)
    if answer["ok"] is True:
        return None
    kind = answer.get("kind", "")
    return LabError(" ".join(str(answer.get("error", "")).split())[:WORDS_MAX], kind if kind in {*Fault} else "")


def unpack(data: bytes, most: dict[str, int] = FILES) -> dict[str, bytes]:
    """The agent's files in a plain tar, each once. LabError for other names, other kinds, or sizes that cannot be."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for m in tar:
            if (
                m.name in files
                or m.size > {STATUS: 1 << 20, **most}.get(m.name, -1)
                or m.type not in (tarfile.REGTYPE, tarfile.AREGTYPE)
                or m.issparse()
            ):
                raise LabError(
                    f"virtual machine: {m.name[:40]!r} of {m.size} bytes, type {m.type!r}, is no result of an agent"
                )
            if content := tar.extractfile(m):
                files[m.name] = content.read()
    return files
