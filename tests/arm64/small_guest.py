# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An arm64 machine whose first process is a script, and what it says on its console."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from asymlab.machine import boot, qemu
from asymlab.machine.arch import ARM64
from asymlab.machine.cpio import Cpio
from asymlab.machine.kernel import Kernel, extract_vmlinux
from asymlab.machine.root import Unpacked

needs_arm64 = pytest.mark.skipif("ARM64" not in os.environ, reason="`make check-arm64` builds what it needs")

LIMIT_S = 1800
DEVICES = {"console": (5, 1), "null": (1, 3), "zero": (1, 5), "urandom": (1, 9)}


def system(script: Path, root: Unpacked) -> Cpio:
    """Busybox and the script."""
    cpio = Cpio()
    for folder in ("proc", "sys", "run", "tmp", "sbin"):
        cpio.dir(folder)
    for name, number in DEVICES.items():
        cpio.device(f"dev/{name}", *number)
    cpio.file("init", script.read_bytes(), 0o755)
    cpio.file("bin/busybox", root.tool("busybox").read_bytes(), 0o755)
    return cpio


def run(folder: Path, kernel: Kernel, cpio: Cpio, memory_mb: int) -> str:
    (folder / "vmlinux").write_bytes(extract_vmlinux(kernel.vmlinuz))
    (folder / "base.cpio").write_bytes(cpio.pack())
    argv = [
        *f"{ARM64.qemu} -M {ARM64.machine} -cpu {ARM64.cpu(kernel.release)} -m {memory_mb}".split(),
        *f"-nodefaults -no-user-config -nic none -display none -no-reboot -icount {qemu.ICOUNT}".split(),
        *f"-rtc base=2026-01-01,clock=vm -seed 1 -serial file:{folder}/console".split(),
        *f"-kernel {folder}/vmlinux -initrd {folder}/base.cpio -append".split(),
        boot.append(ARM64),
    ]
    subprocess.run(argv, check=True, timeout=LIMIT_S)
    return (folder / "console").read_text(errors="replace")
