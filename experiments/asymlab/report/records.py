# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""results.json, verdicts.json and runs.csv as they are read back: each value is of its kind, or ValueError names it.

A file of another version may lack a member: who needs it misses it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..reading import read

SIZE_MAX = 256 << 20  # bytes


class Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class Verdict(Record):
    id: str = ""
    paper: str = ""
    source: str = ""
    claim: str = ""
    paper_value: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    reason: str = ""
    runs: list[str] = []
    n: int = 0
    check: bool = False
    family: str = ""
    cause: str = ""
    worst: bool = False


class Provenance(Record):
    kernel: str = ""
    image: str = ""
    qemu: str = ""
    result_sha256: str = ""
    registered: str = ""
    objects: dict[str, str] = {}


class Run(Record):
    name: str = ""
    case: str = ""
    seed: int = 0
    key: str = ""
    invalid: list[str] = []
    command: str = ""
    metrics: dict[str, float | None] = {}
    provenance: Provenance = Provenance()


class Results(Record):
    format: int
    set: str = ""
    commit: str | None = None
    runs: list[Run] = []


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return _json(folder / "verdicts.json", TypeAdapter(list[Verdict]))


def results(folder: Path) -> dict[str, Any]:
    return _json(folder / "results.json", TypeAdapter(Results))


def _json(file: Path, kind: TypeAdapter) -> Any:
    try:
        found = json.loads(read(file, SIZE_MAX), parse_int=_int, parse_float=_float, parse_constant=_float)
        json.dumps(found, ensure_ascii=False).encode()  # half a character is none
        kind.validate_python(found)
        return found
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(map(str, first["loc"]))[:80] or "all of it"
        raise ValueError(f"{file.name}: not a report's results: {place}: {first['msg']}") from None
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{file.name}: not JSON: {e}") from None


def _int(text: str) -> int:
    if len(text) > 18:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is no number")
    return value


def runs(folder: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """runs.csv: of each row these columns."""
    try:
        rows = list(csv.DictReader(io.StringIO(read(folder / "runs.csv", SIZE_MAX).decode(), newline="")))
    except (csv.Error, ValueError) as e:
        raise ValueError(f"runs.csv: {e}") from None
    for number, row in enumerate(rows, 1):
        if lacks := [column for column in columns if not isinstance(row.get(column), str)]:
            raise ValueError(f"runs.csv: row {number}: no {lacks[0]}")
    return [{column: row[column] for column in columns} for row in rows]
