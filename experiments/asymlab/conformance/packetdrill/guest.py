# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A guest for one program, as packetdrill: the image's kernel, and an initramfs with it and what scripts call."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from ... import LabError
from ...guest.drill import PACKETDRILL, PROGRAMS, Script
from ...machine import shared
from ...machine.arch import NATIVE
from ...machine.build import BUNDLE, START, add_userland
from ...machine.cpio import Cpio, content
from ...machine.files import content_of, scratch, sha256
from ...machine.image import Image
from ...machine.kernel import is_elf
from ...machine.on_uml import MEMORY_MB, Process
from ...paths import GUEST

# Packetdrill and the scripts call these, beside Python: bash is `sh`, too.
TOOLS = "bash ip tc sysctl ethtool ifconfig nstat bpftool env cat chmod rm dd grep sed sleep".split()
MODULE = f"{GUEST.name}.drill"
INIT = BUNDLE + START + f"from {MODULE} import main\n\nmain()\n".encode()
PYTHON = BUNDLE + f"from {MODULE} import python\n\npython()\n".encode()
SHARED_MB = 64
# Packetdrill looks at the clock in a row to wait for the last 20 us before an event, and some times more before its
# packet is sent. The first 64 looks in a row take no time, later ones do (uml/edits.py).
EXACT = "free-looks=64"
OUTPUT_MAX = 16 << 20
FILES = {"code": 16, "stdout": OUTPUT_MAX, "stderr": OUTPUT_MAX}


def check_program(binary: Path) -> None:
    """LabError if it is none that a guest can run."""
    try:
        head = binary.read_bytes()[:20]
    except OSError as e:
        raise LabError(f"--packetdrill {binary}: {e.strerror}; docs/testing.md tells how to build it") from None
    if not is_elf(head) or head[18:20] != b"\x3e\0":
        raise LabError(f"--packetdrill {binary}: no program of amd64; docs/testing.md tells how to build it")


@contextlib.contextmanager
def guest(image: Image, binary: Path | None = None, name: str = PACKETDRILL) -> Generator[Image]:
    """The image with this initramfs in place of its own, which has the program by this name, or Python's alone."""
    cpio = Cpio()
    add_userland(cpio, {}, NATIVE, [*TOOLS, *([str(binary.resolve())] if binary else [])], [MODULE], INIT)
    if binary:
        cpio.entries[f"usr/bin/{name}"] = cpio.entries.pop(f"usr/bin/{binary.resolve().name}")
    cpio.link("usr/bin/sh", "bash")
    cpio.file(f"{PROGRAMS}/python3", PYTHON, 0o755)
    image.verify()
    config = f"boot/config-{image.kernel}"  # libbpf looks for it there
    with content_of(image.folder / "root.cpio") as own:
        cpio.file(config, content(own.read(), config))
    with scratch("drill-") as folder:
        (folder / "root.cpio").write_bytes(cpio.pack())
        (folder / "linux").symlink_to(image.folder / "linux")
        digests = image.sha256 | {"root.cpio": sha256(folder / "root.cpio")}
        yield replace(image, folder=folder, sha256=digests, words=f"{image.words} {EXACT}")


def run(
    image: Image, script: Script, files: dict[str, bytes], core: int | None, limit_s: float, started
) -> dict[str, bytes]:
    """One script in a machine of its own: FILES. LabError where it does not end, or the machine cannot run it."""
    with scratch("uml-") as tmp:
        shared.lay_out(tmp / "shared", SHARED_MB, script, files)
        with contextlib.closing(Process(image, tmp, core, started, MEMORY_MB)) as process:
            process.await_end(limit_s)
            return shared.results(process, FILES)
