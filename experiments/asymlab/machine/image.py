# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Images: what a guest is made of.

An image is a folder build/image/NAME with
    memory          of a guest that has booted and waits for its job
    devices         the state of all else in it
    manifest.json   name, version and sha256 of every part: the kernel (vmlinux), the initramfs (base.cpio: modules,
                    tools, loader, tracer, agent) and each of its files

The controllers are not in it: each run brings those it needs (vm.py), so that adding one changes no other run.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..paths import BUILD, GUEST, IMAGES
from . import boot, qemu
from .arch import NATIVE, Arch, by_label, named
from .files import sha256

DEFAULT_KERNEL = "6.12"


@dataclass(frozen=True)
class Image:
    """An image that is ready to boot."""

    folder: Path
    arch: Arch
    kernel: str
    hash: str  # over vmlinux, base.cpio and the memory of the booted machine: what the guest is made of
    devices_sha256: str  # not among them: the file has the time of its making
    clock_factor: int  # instructions a nanosecond of the guest

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def devices(self) -> Path:
        return self.folder / "devices"


def guest_objects(arch: Arch) -> tuple[Path, Path]:
    return BUILD / "trace.bpf.o", arch.built / "patient.so"


def guest_modules() -> list[Path]:
    return sorted(GUEST.glob("*.py"))


def of_this_tree(arch: Arch) -> dict[str, Path]:
    """The parts of an image that are built from this tree."""
    return {f.name: f for f in (arch.built / "asymcc", *guest_objects(arch), *guest_modules())}


def arch_of(manifest: dict) -> Arch:
    return named(manifest.get("arch", NATIVE.name))


def making(kernel: str, modules: Path | None, name: str | None, faster: bool, arch: Arch) -> str:
    """The command that makes an image, in any folder."""
    words = ["asymlab", "image", "--kernel", kernel if modules is None else str(Path(kernel).resolve())]
    words += ["--modules", str(modules.resolve())] if modules else []
    words += ["--name", name] if name else []
    words += [] if faster else ["--clock", "1"]
    return shlex.join(words + ([] if arch is NATIVE else ["--arch", arch.name]))


def by_name(label: str) -> str:
    """The command that makes an image which has its name from its kernel."""
    arch = by_label(label)
    return making(label if arch is NATIVE else label.removesuffix(f"-{arch.name}"), None, None, True, arch)


def check_current(label: str) -> None:
    """LabError if the tree has changed since the image was made: its runs would be of the old code."""
    manifest = json.loads((IMAGES / label / "manifest.json").read_text())
    arch = arch_of(manifest)
    renew = f"`build/venv/bin/{manifest.get('made_by') or by_name(label)}` renews it"
    if manifest["qemu"] != qemu.version(arch):
        raise LabError(f"image {label}: booted by another QEMU than this machine's; {renew}")
    if manifest["booted_by"] != boot.booted_by(arch, manifest["kernel"], manifest.get("clock_factor", 1)):
        raise LabError(f"image {label}: booted in another way than this tree's; {renew}")
    parts = manifest["parts"]
    for name, file in of_this_tree(arch).items():
        if not file.exists() or parts.get(name, {}).get("sha256") != sha256(file):
            built = f"image {label}: made with another {name} than this tree's"
            raise LabError(f"{built}; `make build{arch.option}`, then {renew}")


def open_image(label: str = DEFAULT_KERNEL) -> Image:
    folder = IMAGES / label
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        parts = manifest["parts"]
        digest = hashlib.sha256("".join(parts[name]["sha256"] for name in ("vmlinux", "base.cpio", "memory")).encode())
        return Image(
            folder,
            arch_of(manifest),
            manifest["kernel"],
            digest.hexdigest(),
            manifest["devices"],
            manifest.get("clock_factor", 1),
        )
    except (OSError, ValueError, KeyError):
        made = sorted(p.parent.name for p in IMAGES.glob("*/manifest.json"))
        raise LabError(
            f"image {label}: not made ({'there are: ' + ', '.join(made) if made else 'none yet'}); "
            f"`{by_name(label)}` makes it"
        ) from None


def current_image(label: str = DEFAULT_KERNEL) -> Image:
    guest = open_image(label)
    check_current(label)
    return guest
