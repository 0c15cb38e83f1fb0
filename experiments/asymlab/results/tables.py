# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of a run, as NumPy's archives: NAME.npz has an array for each column, `numpy.load` reads it.

They are read back as they were stored, and no larger than memory holds: an archive of a megabyte may stand for
gigabytes, so each size is known before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import io
import re
import zlib
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from .. import LabError
from ..reading import read as read_file
from .trace import STATE_COLUMNS, TABLES

FILE_MAX = 1 << 30  # bytes
PLAIN_MAX = 128 << 20  # bytes in memory that any table may take
GROWTH_MAX = 50  # times its file, for larger ones: what a run leaves grows by less than ten
DEVICE = np.dtype("U16")
LEVEL = 1  # of deflate: a run waits for it
WRONG = (OSError, ValueError, LookupError, TypeError, MemoryError, RuntimeError, BadZipFile, zlib.error)


def write(tables: dict[str, np.ndarray], folder: Path) -> None:
    """The same tables make the same bytes."""
    for name, rows in tables.items():
        with ZipFile(folder / f"{name}.npz", "w") as archive:
            for column in rows.dtype.names or ():
                array = io.BytesIO()
                npy.write_array(array, np.ascontiguousarray(rows[column]), version=(1, 0), allow_pickle=False)
                archive.writestr(ZipInfo(f"{column}.npy"), array.getvalue(), ZIP_DEFLATED, LEVEL)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each table of a folder."""
    return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.npz"))}


def read(folder: Path, name: str, digest: str | None = None) -> np.ndarray:
    """A table as a structured array; LabError unless it is small enough, and has this digest, if there is one."""
    file = folder / f"{name}.npz"
    try:
        data = read_file(file, FILE_MAX)
        if digest not in (None, hashlib.sha256(data).hexdigest()):
            raise ValueError("it was changed after it was stored")
        columns = _columns(data)
        for column in TABLES.get(name, STATE_COLUMNS):
            if column not in columns:
                raise ValueError(f"no column {column!r}")
    except WRONG as e:
        reason = "more than memory holds" if isinstance(e, MemoryError) else e
        raise LabError(f"{file}: no table of a run ({reason}); remove its folder, the run will be repeated") from None
    rows = np.empty(len(columns["t"]), [(column, values.dtype) for column, values in columns.items()])
    for column, values in columns.items():
        rows[column] = values
    return rows


def _columns(data: bytes) -> dict[str, np.ndarray]:
    with ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if size > max(PLAIN_MAX, GROWTH_MAX * len(data)):
            raise ValueError(f"{len(data)} bytes that would take {size} in memory")
        columns = {}
        for member in members:
            column = member.filename.removesuffix(".npy")
            if not re.fullmatch("[a-z0-9_]{1,64}", column) or member.compress_type != ZIP_DEFLATED:
                raise ValueError(f"a column {member.filename[:40]!r}")
            with archive.open(member) as file:
                columns[column] = _column(column, file.read(member.file_size))  # no more, whatever it unpacks to
    if len(columns) < len(members) or len({len(values) for values in columns.values()}) > 1:
        raise ValueError("columns of one name, or of several lengths")
    return columns


def _column(name: str, data: bytes) -> np.ndarray:
    """The column that write() packed. NumPy's own reader would make room for as many rows as the header says."""
    file = io.BytesIO(data)
    if npy.read_magic(file) != (1, 0):
        raise ValueError(f"column {name!r} of another format")
    shape, _, dtype = npy.read_array_header_1_0(file)
    if name == "dev":
        if dtype != DEVICE:
            raise ValueError("column 'dev' has no names")
    elif dtype.kind not in "iuf":
        raise ValueError(f"column {name!r} has no numbers")
    values = np.frombuffer(data, dtype, offset=file.tell())
    if shape != values.shape:
        raise ValueError(f"column {name!r} is cut off")
    if name == "dev" and (values.view("u4") > 126).any():
        raise ValueError("column 'dev' has no names of devices")
    return values
