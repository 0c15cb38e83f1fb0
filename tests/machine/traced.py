# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run whose kernel is traced: the calls of the host that it makes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from asymlab.cage import CAGE
from asymlab.machine import image, on_uml, vm
from asymlab.run.tasks import Task


def host_calls(guest: image.Image, task: Task, tmp_path: Path, monkeypatch) -> str:
    """From the boot on, in the words of strace. Not its processes' own: the kernel itself traces those."""
    monkeypatch.setenv(CAGE, "none")
    on_uml.cage.cache_clear()
    traced = replace(guest, folder=tmp_path / "image", sha256={})
    shutil.copytree(guest.folder, traced.folder)
    (traced.folder / "linux").write_text(f'#!/bin/sh\nexec strace -o {tmp_path}/calls {guest.folder}/linux "$@"\n')
    (traced.folder / "linux").chmod(0o755)
    files, _ = vm.run(traced, task.job, task.objects)
    on_uml.cage.cache_clear()
    assert "trace.bin" in files
    return (tmp_path / "calls").read_text()
