# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kernels that this user has built, for all trees: the next clone neither downloads a source nor builds it.

A kernel is kept under a hash of all that its bytes come from, beside a hash of what is kept. Only one whose source was
unpacked for it is kept or taken: where there is a tree somebody may have edited it, and it is built as it stands.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
from dataclasses import asdict
from pathlib import Path

from ...paths import CACHE
from ...shell import sh
from ..files import sha256
from . import edits, make, source
from .make import Built

KERNELS = CACHE / "kernels"
MOST = 8  # kernels; those made or taken last stay


def kernel(origin: source.Source, say, fresh: bool = False) -> Built:
    """The kernel of the packaged source: one that is kept, or built now. fresh: takes none that is kept."""
    if origin.there:
        return make.build(origin, say)
    key = _key(origin)
    file = KERNELS / f"linux-{origin.version}-{key[:16]}"
    if not fresh and (kept := _read(file, key, say)):
        with contextlib.suppress(OSError):
            os.utime(file)
        say(f"takes Linux {origin.version} as a process from {file}: --fresh builds it")
        return kept
    source.unpack(origin, say)
    built = make.build(origin, say)
    _keep(file, key, built, say)
    return built


def _key(origin: source.Source) -> str:
    """A hash of the source, our edits and all settings and the code that builds, compiler and tools, and the library
    that is linked in."""
    ours = [make.made_of(), inspect.getsource(edits.apply), inspect.getsource(make.build)]
    tools = [sh(tool, "--version") for tool in ("gcc", "ld", "pahole", "make", "flex", "bison", "strip")]
    libraries = [sha256(Path(sh("gcc", f"-print-file-name={name}").strip())) for name in ("libc.a", "libgcc.a")]
    return hashlib.sha256(
        json.dumps([origin.sha256, origin.settings, ours, tools, libraries], sort_keys=True).encode()
    ).hexdigest()


def _read(file: Path, key: str, say) -> Built | None:
    """None if there is none, or another than was kept under this name."""
    try:
        digest, _, content = file.read_bytes().partition(b"\n")
    except OSError:
        return None
    if digest != _digest(key, content):
        say(f"{file}: damaged; a kernel is built in its place")
        return None
    about, _, linux = content.partition(b"\n")
    members = json.loads(about)
    return Built(**members | {"linux": linux, "config": members["config"].encode()})


def _keep(file: Path, key: str, built: Built, say) -> None:
    """Whole, or not at all; what cannot be kept is built again another time."""
    content = json.dumps(asdict(built) | {"linux": "", "config": built.config.decode()}).encode() + b"\n" + built.linux
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(_digest(key, content) + b"\n" + content)
        part.replace(file)
        for old in sorted(file.parent.glob("linux-*"), key=lambda f: f.stat().st_mtime)[:-MOST]:
            old.unlink()
    except OSError as e:
        say(f"{file}: not kept for the next tree: {e.strerror}")
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).hexdigest().encode()
