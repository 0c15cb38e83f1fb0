# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Records of a report, and of published results, as they are read back: each value is of its kind, or ValueError names
it.

A report has these files:
claims.json     a record of each claim (judged.py)
samples.csv     of each claim the value that each run has; empty if it is not known
results.json    the runs of a report
verdicts.json   the words of a report's verdicts

Published results have one file, results.json.xz, compressed:
about           where the runs come from
runs            names, the first digits of the hash of each one's results, and which are invalid
claims          a record of each, with the numbers of its runs and their values
points          of figures, as far as tables of pages have them
"""

from __future__ import annotations

import csv
import io
import json
import lzma
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..reading import read
from .judged import SYMBOLS, Judged, Sample
from .names import Commit, Digest, ImageLabel, RunKey, SuiteName

SAMPLES = ("claim", "seed", "key", "value")  # columns
Point = tuple[float, float, float]  # value, low, high
SIZE_MAX = 32 << 20  # bytes of text; the largest published part has 0.3 MB
VALUES_MAX = 1 << 20  # in a text; that part has 15,000
OBJECTS_MAX = 1 << 17  # among them: one may take a kilobyte of memory
FIGURE_MAX = 4 << 20  # bytes of a PNG; the largest published one, in few colours, has 0.05 MB
DATA = "results.json.xz"
# lc, pb: a byte's high bits tell the next one in a text, and its position does not; 1.6 % smaller.
FOR_TEXT = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]
DATA_MAX = 4 << 20  # bytes of it
UNPACKING_MAX = 128 << 20  # bytes of memory beside the text; the highest preset takes 65 MB
DIGITS = 12  # of the hash of a run's results: chance does not give them twice


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


Number = Annotated[float, Field(ge=-1e100, le=1e100)]  # squares and differences of such are finite


class Metrics(Record):
    goodput_bps: Number | None
    utilisation: Number | None
    jain: Number | None
    rtt_p50_s: Number | None
    rtt_p95_s: Number | None
    acks_per_data_packet: Number | None
    retransmits: Number | None
    timeouts: Number | None


class Run(Record):
    name: str
    case: str
    seed: int
    key: RunKey
    invalid: list[str]
    command: str
    metrics: Metrics
    times: dict[str, Number] = {}  # and numbers of programs, by the words that measure them
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
    """The provenance of a published part's runs. A part that was made in steps may have several of each."""

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


class PublishedRun(NamedTuple):
    """A run that published rows rest on."""

    name: str
    result: str  # the first DIGITS of result_sha256
    valid: bool

    @property
    def seed(self) -> int:
        return _int(self.name.rpartition(" seed ")[2])


class Runs(BaseModel):
    """The runs in columns."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: list[str] = Field(min_length=1)
    result: str = Field(pattern=f"^([0-9a-f]{{{DIGITS}}})+$")  # one behind the other: a list is 6 % more of the file
    invalid: list[int]  # their numbers


class Values(BaseModel):
    """The numbers of a claim's runs, and the value that each has."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    runs: list[Annotated[int, Field(ge=0)]] = []
    values: list[float | None] = []


class Data(BaseModel):
    """results.json.xz."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    format: Literal[3]
    about: About
    runs: Runs
    claims: list[Judged]
    values: list[Values]  # one for each claim
    points: dict[str, Point]


def published(file: Path) -> tuple[About, list[Judged], list[PublishedRun], dict[str, Point]]:
    """The contents of a data file."""
    data: Data = _parsed(file.name, unpacked(file), TypeAdapter(Data))[1]
    invalid = set(data.runs.invalid)
    digits = data.runs.result
    results = [digits[at : at + DIGITS] for at in range(0, len(digits), DIGITS)]
    if len(results) != len(data.runs.name):
        raise ValueError(f"{file.name}: {len(data.runs.name)} runs, and hashes of {len(results)}")
    runs = [PublishedRun(name, results[at], at not in invalid) for at, name in enumerate(data.runs.name)]
    if twice := [id for id, times in Counter(c.id for c in data.claims).items() if times > 1]:
        raise ValueError(f"{file.name}: two claims have the id {twice[0]}")
    for c, column in zip(data.claims, data.values, strict=True):
        try:
            samples = zip((runs[number] for number in column.runs), column.values, strict=True)
            c.samples.extend(Sample(run.seed, run.name, value) for run, value in samples)
        except (LookupError, ValueError) as e:
            raise ValueError(f"{file.name}: the runs of {c.id}: {e}") from None
        check(c, file.name)
    return data.about, data.claims, runs, data.points


def unpacked(file: Path) -> bytes:
    """ValueError if it is damaged, or would take more than it may."""
    try:
        reader = lzma.LZMADecompressor(memlimit=UNPACKING_MAX)
        text = reader.decompress(read(file, DATA_MAX), max_length=SIZE_MAX)
    except lzma.LZMAError as e:
        raise ValueError(f"{file.name}: {e}") from None
    if not reader.eof:
        raise ValueError(f"{file.name}: cut off, or larger than {SIZE_MAX} bytes")
    return text


def packed(about: About, claims: list[Judged], runs: list[PublishedRun], points: dict[str, Point]) -> bytes:
    """The data file; the same data give the same bytes."""
    number = {run.name: at for at, run in enumerate(runs)}
    data = {
        "format": 3,
        "about": about.model_dump(),
        "runs": {
            "name": [run.name for run in runs],
            "result": "".join(run.result for run in runs),
            "invalid": [at for at, run in enumerate(runs) if not run.valid],
        },
        "claims": [c.model_dump(exclude_defaults=True) for c in claims],
        "values": [
            {"runs": [number[s.key] for s in c.samples], "values": [significant(s.value) for s in c.samples]}
            for c in claims
        ],
        "points": points,
    }
    return lzma.compress(json.dumps(data, separators=(",", ":")).encode(), filters=FOR_TEXT)


def significant(value: float | None) -> float | None:
    """Seven digits: more would be half of a file."""
    return value if value is None else float(f"{value:.7g}")


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return _json(folder / "verdicts.json", TypeAdapter(list[Verdict]))[0]


def results(folder: Path) -> dict[str, Any]:
    return _json(folder / "results.json", TypeAdapter(Results))[0]


def claims(folder: Path) -> list[Judged]:
    """With their samples."""
    judged = _json(folder / "claims.json", TypeAdapter(list[Judged]))[1]
    by_id = {c.id: c for c in judged}
    if len(by_id) < len(judged):
        raise ValueError("claims.json: two claims have one id")
    for number, row in enumerate(rows(folder / "samples.csv", SAMPLES), 1):
        try:
            value = _float(row["value"]) if row["value"] else None
            by_id[row["claim"]].samples.append(Sample(_int(row["seed"]), row["key"], value))
        except KeyError as e:
            raise ValueError(f"samples.csv: row {number}: no claim {e}") from None
        except ValueError as e:
            raise ValueError(f"samples.csv: row {number}: {e}") from None
    for c in judged:
        check(c, "samples.csv")
    return judged


def check(c: Judged, file: str) -> None:
    """ValueError unless its runs have values that give an interval."""
    if len(c.values) < c.n:
        raise ValueError(f"{file}: {c.id}: a run has no value")
    if not all(math.isfinite(end) for end in c.interval if end is not None):
        raise ValueError(f"{file}: {c.id}: no interval")


def text_of(claims: list[Judged]) -> dict[str, str]:
    """claims.json, a line each, and samples.csv."""
    kept = ",\n".join(json.dumps(c.model_dump(exclude_defaults=True)) for c in claims)
    samples = [dict(zip(SAMPLES, (c.id, *sample), strict=True)) for c in claims for sample in c.samples]
    return {"claims.json": f"[\n{kept}\n]\n", "samples.csv": table(SAMPLES, samples)}


def _json(file: Path, kind: TypeAdapter) -> tuple[Any, Any]:
    """(what the file has, the same as its kind)"""
    return _parsed(file.name, read(file, SIZE_MAX), kind)


def _parsed(name: str, text: bytes, kind: TypeAdapter) -> tuple[Any, Any]:
    try:
        few(text, b"{[,")
        value = json.loads(text, parse_int=_int, parse_float=_float, parse_constant=_float)
        whole = json.dumps(value, ensure_ascii=False).encode()  # half a character is none
        return value, kind.validate_json(whole)
    except ValidationError as e:
        raise ValueError(f"{name}: not a report's results: {first_error(e)}") from None
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{name}: not JSON: {e}") from None
    except MemoryError:
        raise ValueError(f"{name}: more than memory holds") from None


def few(text: bytes, marks: bytes) -> None:
    """ValueError if a text has too many values, before memory is taken for them. A value has a mark before it."""
    if text.count(b"{") > OBJECTS_MAX or sum(map(text.count, marks)) > VALUES_MAX:
        raise ValueError(f"more than {OBJECTS_MAX} objects, or {VALUES_MAX} values")


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


def rows(file: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """These columns of each row of a table."""
    try:
        text = read(file, SIZE_MAX)
        few(text, b",\r\n")
        table_rows = list(csv.DictReader(io.StringIO(text.decode(), newline="")))
    except (csv.Error, ValueError) as e:
        raise ValueError(f"{file.name}: {e}") from None
    for number, row in enumerate(table_rows, 1):
        if lacks := [column for column in columns if not isinstance(row.get(column), str)]:
            raise ValueError(f"{file.name}: row {number}: no {lacks[0]}")
    return [{column: row[column] for column in columns} for row in table_rows]


def table(columns: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> str:
    """The rows in CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
