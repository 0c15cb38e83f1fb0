# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""On a worker of a Dask scheduler: images that it has or gets, and runs.

It gets runs once it has made of a short one, the canary, what the client makes of it (cluster.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import zlib
from pathlib import Path

from .. import LabError
from ..guest.programs import kind_of
from ..guest.wire import load
from ..machine import qemu, vm
from ..machine.files import content_of, sha256, write_sparse
from ..machine.image import FILES, Image, names, open_image
from ..paths import IMAGES
from .local import own_core

# The greatest sizes of images' files.
IMAGE_FILES = {"memory": qemu.MEMORY_MB << 20, "devices": 64 << 20, "manifest.json": 16 << 20} | {
    "linux": 256 << 20,
    "root.cpio": 512 << 20,
}


class NoImage(LabError):
    """The worker has not got the image yet."""


verified: set[tuple[Path, str]] = set()


def find_image(wanted: str) -> Image:
    """The image of that hash. Its files are read once: what a manifest says is not enough."""
    for name in names():
        try:
            image = open_image(name)
        except LabError:  # it is being made
            continue
        if image.hash != wanted:
            continue
        if (image.folder, wanted) not in verified:
            parts = json.loads((image.folder / "manifest.json").read_text())["parts"]
            for file, part in FILES[image.engine].items():
                if part in parts and sha256(image.folder / file) != parts[part]["sha256"]:
                    raise LabError(f"{image.folder}: not what its manifest says; remove it, or make it anew")
            verified.add((image.folder, wanted))
        return image
    raise NoImage(f"no image {wanted[:12]} in {IMAGES}")


def pack_image(guest: Image) -> dict[str, tuple[int, bytes]]:
    """The files of an image to send: size, and deflated."""
    data = {}
    for name in (*guest.sha256, "manifest.json"):
        with content_of(guest.folder / name) as file:
            data[name] = file.read()
    return {name: (len(d), zlib.compress(d, 1)) for name, d in data.items()}


def take_image(wanted: str, files: dict[str, tuple[int, bytes]]) -> None:
    """Keep an image that was sent."""
    if not re.fullmatch("[0-9a-f]{64}", wanted) or any(
        size > IMAGE_FILES.get(name, -1) for name, (size, _) in files.items()
    ):
        raise LabError("what was sent is no image")
    IMAGES.mkdir(parents=True, exist_ok=True)
    part = tempfile.mkdtemp(dir=IMAGES, prefix=".part-")
    try:
        for name, (size, data) in files.items():
            write_sparse(Path(part, name), zlib.decompressobj().decompress(data, size))
            os.chmod(Path(part, name), 0o755 if name == "linux" else 0o644)
        os.chmod(part, 0o755)
        if not (IMAGES / wanted[:16]).exists():  # else a neighbour was faster
            os.rename(part, IMAGES / wanted[:16])
    finally:
        shutil.rmtree(part, ignore_errors=True)


def kill_when_unwanted(p: subprocess.Popen) -> None:
    """Dask stops no thread: this ends a virtual machine when its run was given up, or client or scheduler are gone."""
    import distributed  # only who asks for workers pays for Dask
    from distributed.core import Status

    worker = distributed.get_worker()
    key = worker.get_current_task()

    def watch() -> None:
        while p.poll() is None:
            task = worker.state.tasks.get(key)
            if task is None or task.state != "executing" or worker.status in (Status.closing, Status.closed):
                p.kill()
            time.sleep(0.2)

    threading.Thread(target=watch, daemon=True).start()


def compute(image_hash: str, packed: str, objects: dict[str, bytes]) -> dict:
    """A run: the files it left, what it was made of, and where."""
    image = find_image(image_hash)
    job = load(kind_of(json.loads(packed)), packed, "job")
    with own_core() as core:
        files, took = vm.run(image, job, objects, core=core, started=kill_when_unwanted)
    return {"files": files, "took": took, "identity": vm.identity(image, job, objects), "host": socket.gethostname()}
