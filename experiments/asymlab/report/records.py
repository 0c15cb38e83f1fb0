# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is read back of a report, and of published results: each value is of its kind, or ValueError names it.

claims.json     a record of each claim (verdicts.py)
samples.csv     of each claim the value that each run has; empty if it is not known
results.json    the runs of a report
part.json       of published results where they come from
runs.csv        their runs: key in the store, hash of the results, command that repeats each
verdicts.json   the words of a report's verdicts
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..reading import read
from .names import Commit, Digest, ImageLabel, RunKey, SuiteName
from .verdicts import SYMBOLS, Judged, Sample

SAMPLES = ("claim", "seed", "key", "value")  # columns
RUNS = ("run", "key", "result_sha256", "valid", "command")
SIZE_MAX = 256 << 20  # bytes


class Record(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class Verdict(Record):
    id: str
    verdict: str = Field(pattern=f"^({'|'.join(SYMBOLS)})$")


class Provenance(Record):
    kernel: str
    image: str
    image_name: ImageLabel | Literal[""] = ""
    qemu: str
    result_sha256: Digest
    registered: Commit | Literal[""] = ""
    objects: dict[str, str]


class Metrics(Record):
    goodput_bps: float | None
    utilisation: float | None
    jain: float | None
    rtt_p50_s: float | None
    rtt_p95_s: float | None
    acks_per_data_packet: float | None
    retransmits: float | None
    timeouts: float | None


class Run(Record):
    name: str
    case: str
    seed: int
    key: RunKey
    invalid: list[str]
    command: str
    metrics: Metrics
    provenance: Provenance


class Results(Record):
    format: Literal[1]
    set: Literal["quick", "full"]
    only: list[str] = []
    commit: Commit | Literal[""] | None = None
    image_name: ImageLabel | Literal[""] = ""
    papers: dict[SuiteName, list[RunKey]] = {}  # keys of each one's runs
    runs: list[Run]


class About(BaseModel):
    """Where the runs of a published part come from. A part that is made in steps may have several of each."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: Literal[1] = 1
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    set: Literal["quick", "full"]
    commits: list[Commit]  # that made the runs
    registered: list[Commit]  # that had the claims then
    changed: list[str]  # what changed of the claims afterwards
    image_name: ImageLabel
    kernel: list[str]
    image: list[str]
    qemu: list[str]
    objects: dict[str, list[str]]

    @property
    def commit(self) -> str:
        """All of them, in words."""
        return ", ".join(self.commits) or "unknown"


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return _json(folder / "verdicts.json", TypeAdapter(list[Verdict]))[0]


def results(folder: Path) -> dict[str, Any]:
    return _json(folder / "results.json", TypeAdapter(Results))[0]


def about(folder: Path) -> About:
    return _json(folder / "part.json", TypeAdapter(About))[1]


def claims(folder: Path) -> list[Judged]:
    """With their samples."""
    made = _json(folder / "claims.json", TypeAdapter(list[Judged]))[1]
    found = {c.id: c for c in made}
    if len(found) < len(made):
        raise ValueError("claims.json: two claims have one id")
    for number, row in enumerate(rows(folder / "samples.csv", SAMPLES), 1):
        try:
            value = _float(row["value"]) if row["value"] else None
            found[row["claim"]].samples.append(Sample(_int(row["seed"]), row["key"], value))
        except KeyError as e:
            raise ValueError(f"samples.csv: row {number}: no claim {e}") from None
        except ValueError as e:
            raise ValueError(f"samples.csv: row {number}: {e}") from None
    for c in made:
        if len(c.values) < c.n and not c.taken_over:
            raise ValueError(f"samples.csv: {c.id}: a run has no value")
        if not all(math.isfinite(end) for end in c.interval if end is not None):
            raise ValueError(f"samples.csv: {c.id}: no interval")
    return made


def text_of(claims: list[Judged]) -> dict[str, str]:
    """claims.json, a line each, and samples.csv."""
    kept = ",\n".join(json.dumps(c.model_dump(exclude_defaults=True)) for c in claims)
    samples = [dict(zip(SAMPLES, (c.id, *sample), strict=True)) for c in claims for sample in c.samples]
    return {"claims.json": f"[\n{kept}\n]\n", "samples.csv": table(SAMPLES, samples)}


def _json(file: Path, kind: TypeAdapter) -> tuple[Any, Any]:
    """(what the file has, the same as its kind)"""
    try:
        found = json.loads(read(file, SIZE_MAX), parse_int=_int, parse_float=_float, parse_constant=_float)
        json.dumps(found, ensure_ascii=False).encode()  # half a character is none
        return found, kind.validate_python(found)
    except ValidationError as e:
        raise ValueError(f"{file.name}: not a report's results: {first_error(e)}") from None
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{file.name}: not JSON: {e}") from None


def first_error(e: ValidationError) -> str:
    """The place, and the fault."""
    first = e.errors()[0]
    place = ".".join(map(str, first["loc"]))[:80] or "all of it"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def _int(text: str) -> int:
    if len(text) > 18:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is no number")
    return value


def runs(folder: Path) -> list[dict[str, str]]:
    return rows(folder / "runs.csv", RUNS)


def rows(file: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Of each row of a table these columns."""
    try:
        found = list(csv.DictReader(io.StringIO(read(file, SIZE_MAX).decode(), newline="")))
    except (csv.Error, ValueError) as e:
        raise ValueError(f"{file.name}: {e}") from None
    for number, row in enumerate(found, 1):
        if lacks := [column for column in columns if not isinstance(row.get(column), str)]:
            raise ValueError(f"{file.name}: row {number}: no {lacks[0]}")
    return [{column: row[column] for column in columns} for row in found]


def table(columns: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> str:
    """As CSV."""
    out = io.StringIO()
    made = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    made.writeheader()
    made.writerows(rows)
    return out.getvalue()
