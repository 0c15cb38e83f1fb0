# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files: their hashes, holes in them, and folders for a while."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import shutil
import tempfile
import zlib
from pathlib import Path

from .. import LabError
from ..paths import BUILD, ELSEWHERE


def found(path: Path) -> Path:
    """The file, or what a package has in its place: the same compressed."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if not path.exists() and packed.exists() else path


def content_of(path: Path) -> io.BufferedIOBase:
    """To read a file that may be compressed."""
    file = found(path)
    return open(file, "rb") if file == path else gzip.open(file)


def sha256(path: Path) -> str:
    """The hash of its content; "" if it is damaged so that there is none."""
    try:
        with content_of(path) as f:
            return hashlib.file_digest(f, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return ""


def write_sparse(file: Path, data: bytes, block: int = 1 << 16) -> None:
    """With holes for blocks of zeros, most of a booted machine's memory."""
    with open(file, "wb") as f:
        for at in range(0, len(data), block):
            part = data[at : at + block]
            if part.count(0) == len(part):
                f.seek(at + len(part))
            else:
                f.write(part)
        f.truncate(len(data))


@contextlib.contextmanager
def scratch(prefix: str):
    """A folder for one run's files, gone afterwards; those of runs that were killed go with the next one's."""
    folder = BUILD / "tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".lock", "w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            for old in folder.glob(f"{prefix}*"):
                with contextlib.suppress(OSError), open(old / ".lock") as theirs:  # who lives holds it
                    fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(old, ignore_errors=True)
            tmp = tempfile.TemporaryDirectory(dir=folder, prefix=prefix)
            lock = open(Path(tmp.name, ".lock"), "w")
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}{ELSEWHERE}") from None
    with lock, tmp as name:
        yield Path(name)
