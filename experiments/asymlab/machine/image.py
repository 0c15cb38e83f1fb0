# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Images: what a guest is made of.

An image is a folder build/image/NAME. Its manifest.json has name, version and sha256 of every part: the kernel
(vmlinux), the initramfs (base.cpio: modules, tools, loader, tracer, agent) and each of its files. Besides it has
    of the engine qemu: memory      of a guest that has booted and waits for its job
                        devices     the state of all else in it
    of the engine uml:  linux       the kernel, a program of this machine
                        root.cpio   the initramfs; a package has it compressed, root.cpio.gz
    of both:            vmlinux.h   the kernel's types, for sources of controllers

The controllers are not in it: each run brings those it needs (vm.py), so that adding one changes no other run.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import LabError
from ..paths import BROUGHT_IMAGES, BUILT, COMMAND, GUEST, IMAGES, INSTALLED
from . import boot, qemu
from .arch import NATIVE, Arch, by_label, named
from .files import found, sha256
from .uml import make

DEFAULT_KERNEL = "6.12"
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,99}")  # an image's name, which is its folder's
# An infinitely fast CPU takes no time for a packet, and an RTT is then exactly a number of a clock's ticks. In qemu a
# lone packet and its ACK take 2 us, those of bursts up to 17, 3 more than in uml on average (1 Gbit/s, 10 ms).
NODE_US = 3
UML = "-uml"  # how the names of that engine's images end


@dataclass(frozen=True)
class Image:
    """An image that is ready to boot."""

    folder: Path
    arch: Arch
    kernel: str
    engine: str  # qemu or uml
    hash: str  # over the parts that the guest is made of (HASHED)
    sha256: dict[str, str]  # of its files
    clock_factor: int  # instructions a nanosecond of the guest; uml, whose CPU is faster than any, plans as qemu does
    words: str = ""  # uml: for the kernel's command line
    time_at: int = 0  # uml: where the kernel's memory has its clock
    covers: bool = False  # uml: it tells which branches a run reaches (uml/coverage.py)

    @property
    def node_us(self) -> int:
        """The time that a hop's nodes take for a packet, each way, beside their CPU's."""
        return NODE_US if self.engine == "uml" else 0

    @property
    def types(self) -> Path:
        """The folder of the kernel's vmlinux.h."""
        return self.folder

    def has_type(self, name: str) -> bool:
        """Whether the kernel has a structure of this name, so what it belongs to."""
        return f"struct {name} {{" in (self.types / HEADER).read_text()

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def devices(self) -> Path:
        return self.folder / "devices"

    def verify(self) -> None:
        """LabError if a file is not what the manifest says. A file that has not changed since is not read again."""
        for name, digest in self.sha256.items():
            file = self.folder / name
            try:
                if _sha256_once(file, (s := found(file).stat()).st_ino, s.st_mtime_ns, s.st_size) != digest:
                    raise LabError(f"{file}: not what its manifest says; `asymlab image` makes it anew")
            except OSError as e:
                raise LabError(f"{file}: {e.strerror}") from None


@cache
def _sha256_once(file: Path, *_: int) -> str:
    return sha256(file)


# The parts that a run's result depends on. Not `devices`: the file has the time of its making.
HASHED = {"qemu": ("vmlinux", "base.cpio", "memory"), "uml": ("vmlinux", "base.cpio")}
FILES = {"qemu": {"memory": "memory", "devices": "devices"}, "uml": {"linux": "vmlinux", "root.cpio": "base.cpio"}}


TRACER = BUILT / "trace.bpf.o"
HEADER = "vmlinux.h"


def guest_modules() -> list[Path]:
    return sorted(GUEST.glob("*.py"))


def of_this_tree(arch: Arch) -> dict[str, Path]:
    """The parts of an image that are built from this tree."""
    return {f.name: f for f in (arch.built / "asymcc", TRACER, *guest_modules())}


def arch_of(manifest: dict) -> Arch:
    return named(manifest.get("arch", NATIVE.name))


def making(kernel: str, modules: Path | None, name: str | None, faster: bool, arch: Arch) -> str:
    """The command that makes an image of the engine qemu, in any folder."""
    words = ["asymlab", "image", "--kernel", kernel if modules is None else str(Path(kernel).resolve())]
    words += ["--modules", str(modules.resolve())] if modules else []
    words += ["--name", name] if name else []
    words += [] if faster else ["--clock", "1"]
    return shlex.join(words + ([] if arch is NATIVE else ["--arch", arch.name]))


def making_uml(kernel: str, tree: Path | None, name: str | None, config: Path | None = None) -> str:
    """The command that makes an image of the engine uml."""
    words = ["asymlab", "image", "--engine", "uml"]
    words += ["--tree", str(tree.resolve())] if tree else ["--kernel", kernel]
    words += ["--config", str(config.resolve())] if config else []
    return shlex.join(words + (["--name", name] if name else []))


def label_of(label: str, engine: str) -> str:
    """An image's name, of that engine."""
    return f"{label.removesuffix(UML)}{UML}" if engine == "uml" else label


def engine_of(label: str) -> str:
    """The engine of an image that is asked for by name alone: the fast one if it is made."""
    return "uml" if is_made(label_of(label, "uml")) else "qemu"


def folder_of(label: str) -> Path:
    """The folder of an image: the package's own goes first, so that an upgrade needs no new one."""
    return BROUGHT_IMAGES / label if is_brought(label) else IMAGES / label


def is_brought(label: str) -> bool:
    """The package has it. A clone has none but those that are made in it."""
    return INSTALLED and (BROUGHT_IMAGES / label / "manifest.json").exists()


def is_made(label: str) -> bool:
    return (folder_of(label) / "manifest.json").exists()


def names() -> list[str]:
    """All images that there are."""
    return sorted({p.parent.name for images in (BROUGHT_IMAGES, IMAGES) for p in images.glob("[!.]*/manifest.json")})


def by_name(label: str) -> str:
    """The command that makes an image which has its name from its kernel."""
    if label.endswith(UML):
        return making_uml(label.removesuffix(UML), None, None)
    arch = by_label(label)
    return making(label if arch is NATIVE else label.removesuffix(f"-{arch.name}"), None, None, True, arch)


def check_current(label: str) -> None:
    """LabError if the tree has changed since the image was made: its runs would be of the old code."""
    if is_brought(label):
        return
    manifest = json.loads((IMAGES / label / "manifest.json").read_text())
    arch = arch_of(manifest)
    made_by = manifest.get("made_by") or by_name(label)
    renew = f"`{made_by.replace('asymlab', COMMAND, 1)}` renews it"
    if manifest.get("engine") == "uml":
        if manifest["built_by"] != make.made_of():
            raise LabError(f"image {label}: its kernel was built with other edits than this tree's; {renew}")
    elif manifest["qemu"] != qemu.version(arch):
        raise LabError(f"image {label}: booted by another QEMU than this machine's; {renew}")
    elif manifest["booted_by"] != boot.booted_by(arch, manifest["kernel"], manifest.get("clock_factor", 1)):
        raise LabError(f"image {label}: booted in another way than this tree's; {renew}")
    parts = manifest["parts"]
    for name, file in of_this_tree(arch).items():
        if not file.exists() or parts.get(name, {}).get("sha256") != sha256(file):
            built = f"image {label}: made with another {name} than this tree's"
            first = "" if INSTALLED else f"`make build{arch.option}`, then "
            raise LabError(f"{built}; {first}{renew}")


def open_image(label: str = DEFAULT_KERNEL, images: Path | None = None) -> Image:
    if not LABEL.fullmatch(label):  # a folder elsewhere may be a stranger's, and its kernel a program of his
        raise LabError(f"image {label[:40]!r}: a name has letters, digits and . + _ - only")
    folder = images / label if images else folder_of(label)
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        engine = manifest.get("engine", "qemu")
        digests = {name: part["sha256"] for name, part in manifest["parts"].items()}
        digests["devices"] = manifest.get("devices", "")
        return Image(
            folder,
            arch_of(manifest),
            manifest["kernel"],
            engine,
            hashlib.sha256("".join(digests[name] for name in HASHED[engine]).encode()).hexdigest(),
            {file: digests[part] for file, part in FILES[engine].items()},
            manifest.get("clock_factor", 1),
            manifest.get("words", ""),
            manifest.get("time_at", 0),
            manifest.get("covers", False),
        )
    except (OSError, ValueError, KeyError):
        there = f"there are: {', '.join(names())}" if names() else "none yet"
        raise LabError(f"image {label}: not made ({there}); `{by_name(label)}` makes it") from None


def current_image(label: str = DEFAULT_KERNEL) -> Image:
    guest = open_image(label)
    check_current(label)
    return guest
