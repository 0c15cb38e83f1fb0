# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files of rows, a line of JSON for each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from .. import LabError, reading
from .records import first_error

SIZE_MAX = 16 << 20  # bytes
R = TypeVar("R", bound=BaseModel)


def read(file: Path, model: type[R], what: str) -> list[R]:
    """The rows that are there; LabError names the first line that is none."""
    rows: list[R] = []
    if file.exists():
        try:
            for line in reading.read(file, SIZE_MAX).decode().splitlines():
                rows.append(model.model_validate_json(line))
        except (OSError, ValueError, RecursionError) as e:
            why = first_error(e) if isinstance(e, ValidationError) else type(e).__name__
            raise LabError(f"{file}: line {len(rows) + 1} is no {what} ({why}); remove the file") from None
    return rows


def write(file: Path, rows: Iterable[BaseModel]) -> None:
    """In place of what is there, at once: an interruption loses none of them."""
    part = file.with_suffix(".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text("".join(json.dumps(one.model_dump()) + "\n" for one in rows))
        part.replace(file)
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
