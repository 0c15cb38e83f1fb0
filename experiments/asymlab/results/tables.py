# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tables of a stored run, read back: as they were stored, and no larger than memory holds.

A Parquet file of a megabyte may stand for gigabytes. So its size in memory is computed before any of it is read.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .. import LabError
from ..reading import read as read_file
from . import trace

FILE_MAX = 1 << 30  # bytes
PLAIN_MAX = 128 << 20  # bytes in memory that any table may take
GROWTH_MAX = 50  # times its file, for larger ones: what a run leaves grows by less than ten
NAME_BYTES = 64  # of a device's name in memory
WRONG = (OSError, ValueError, LookupError, TypeError, MemoryError)  # Arrow's errors are among them


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each table of a folder."""
    return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.parquet"))}


def read(folder: Path, name: str, digest: str | None) -> np.ndarray:
    """A table; LabError unless it is small enough, and has this digest. None: its run was stored without one."""
    file = folder / f"{name}.parquet"
    try:
        data = read_file(file, FILE_MAX)
        if digest not in (None, hashlib.sha256(data).hexdigest()):
            raise ValueError("it was changed after it was stored")
        _check(data)
        return trace.read(folder, name)
    except WRONG as e:
        reason = "more than memory holds" if isinstance(e, MemoryError) else e
        raise LabError(f"{file}: no table of a run ({reason}); remove its folder, the run will be repeated") from None


def _text(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(plain) or pa.types.is_large_string(plain)


def _check(data: bytes) -> None:
    """ValueError if it would take too much memory."""
    file = pq.ParquetFile(pa.BufferReader(data))
    width = 0
    for column in file.schema_arrow:
        if column.name == "dev":
            if not _text(column.type):
                raise ValueError("column 'dev' has no names")
            width += NAME_BYTES
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            width += column.type.bit_width // 8
        else:
            raise ValueError(f"column {column.name[:40]!r} has no numbers")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    size = max(file.metadata.num_rows * width, sum(group.total_byte_size for group in groups))
    if size > max(PLAIN_MAX, GROWTH_MAX * len(data)):
        raise ValueError(f"{len(data)} bytes that would take {size} in memory")
    if "dev" in file.schema_arrow.names:  # one long name may stand in each row
        devices = pq.read_table(pa.BufferReader(data), columns=["dev"], read_dictionary=["dev"])
        for chunk in devices["dev"].chunks:
            if any(len(name or "") > NAME_BYTES // 4 for name in chunk.dictionary.to_pylist()):
                raise ValueError("a device with a long name")
