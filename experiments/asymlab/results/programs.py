# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The programs of a run: what became of each, and the numbers of their results by a path."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ..guest.programs import OUTPUT_MAX, Program, WithPrograms

RESULT_MAX = 1 << 20  # bytes of a standard output that is read as a result
WORDS_MAX = 200  # characters of a program's last line
NUMBERS_MAX, NUMBER_MAX = 300, 1e100  # of a result, what is compared; sums, squares and differences of such are finite
NO_NAME = ("resolve host", "Name or service not known", "name resolution", "host not found", "No address associated")
OF_LIST: dict[str, Callable[[list[float]], Any]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "mean": np.mean,
    **{f"p{share}": partial(np.percentile, q=share) for share in (5, 50, 95, 99)},
}


def of_run(job: WithPrograms, zero_ns: int, files: dict[str, bytes], times: str) -> tuple[dict[str, dict], list[str]]:
    """Each program's part of the record; and what is wrong with them. `times`: the file that has these."""
    known = json.loads(files[times])
    if known.keys() != {program.name for program in job.programs}:
        raise ValueError("of other programs")
    records, wrong = {}, []
    for program in job.programs:
        times_of = known[program.name]
        exit, running = times_of.get("exit"), times_of["running"]
        record = {
            "host": program.host,
            "run": program.run,
            "start_s": (int(times_of["start_ns"]) - zero_ns) / 1e9,
            "end_s": None if running else (int(times_of["end_ns"]) - zero_ns) / 1e9,
            "exit": None if running else int(exit),
            "result": None,
        }
        out, err = files[f"{program.name}.out"], files[f"{program.name}.err"]
        reason = unlike(program, record, last_line(err) or last_line(out), job.duration_s)
        if not reason and program.result != "none":
            try:
                record["result"] = read_result(out, program.result)
                reason = error_of(record["result"]) if program.ends == 0 else ""
            except ValueError as e:
                reason = f"its standard output is no result ({e})"
        if reason:
            wrong.append(f"program {program.name}: {reason}")
        records[program.name] = record
    return records, [*wrong, *_dropped(job, known)]


def _dropped(job: WithPrograms, known: dict[str, dict]) -> Iterator[str]:
    """The hosts whose programs use a port of the lab's own (guest/programs/connections.py)."""
    hosts: dict[str, list[str]] = {}
    for program in job.programs:
        hosts.setdefault(program.host, []).append(program.name)
    for names in hosts.values():
        if packets := int(known[names[0]].get("dropped", 0)):
            yield f"program {' or '.join(names)}: takes a port of the lab's flows or loads ({packets} packets dropped)"


def unlike(program: Program, record: dict, words: str, duration_s: float) -> str:
    """How it ended otherwise than it should; empty if it did not."""
    exit, ends = record["exit"], program.ends
    told = program.stop_s is not None and record["end_s"] is not None and record["end_s"] >= program.stop_s
    if ends == "any" or exit == ends or ends == "running" and (exit is None or told):
        return ""
    if exit is None:
        return f'still runs at {duration_s:g} s; if it should, its `ends` is "running" or "any"'
    at = f" at {record['end_s']:.3f} s"
    if exit == -signal.SIGXFSZ:
        return f"more than {OUTPUT_MAX >> 20} MB of output{at}"
    ended = f"signal {-exit}" if exit < 0 else f"exit {exit}"
    named = "; names are those of [hosts]" if any(hint in words for hint in NO_NAME) else ""
    ended += " (the kernel ends a program so if memory is short)" if exit == -signal.SIGKILL else ""
    expected = f", not {ends if ends == 'running' else f'exit {ends}'}" if ends else ""
    return ended + at + expected + (f" ({words})" if words else "") + named


def error_of(result: Any) -> str:
    """The failure that a result tells: iperf3 with -J ends with 0 then."""
    told = result.get("error") if isinstance(result, dict) else None
    return f"its result is an error ({printable(told)})" if told and isinstance(told, str) else ""


def last_line(output: bytes) -> str:
    lines = output[-4096:].decode(errors="replace").strip().splitlines()
    words = printable(lines[-1]) if lines else ""
    return words if any(map(str.isalnum, words)) else ""


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:WORDS_MAX])


def read_result(output: bytes, kind: str) -> Any:
    """ValueError if it is no JSON."""
    if len(output) > RESULT_MAX:
        raise ValueError(f"{len(output)} bytes, more than {RESULT_MAX}")

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no number of JSON")

    def measure(kind: type, word: str) -> int | float:
        if abs(float(word)) >= NUMBER_MAX:
            raise ValueError(f"{word:.20} is beyond {NUMBER_MAX:g}")
        return kind(word)

    try:
        text = output.decode()
        parts = text.splitlines() if kind == "lines" else [text]
        read = partial(
            json.loads, parse_constant=refuse, parse_int=partial(measure, int), parse_float=partial(measure, float)
        )
        values = [read(part) for part in parts if part.strip() or kind == "json"]
        json.dumps(values, ensure_ascii=False).encode()  # half a character is none
    except RecursionError:
        raise ValueError("too deep") from None
    return values if kind == "lines" else values[0]


def number(programs: dict[str, dict], path: str) -> float:
    """A number by its path: `page.took`, `page.exit`, `client.result.end.sum_received.bytes`.

    A list has its values by their places from 0 on, and min, max, sum, mean, p5, p50, p95, p99 of all of them:
    `page.result.max.time_total`. LookupError if there is no such number."""
    name, _, rest = path.partition(".")
    if name not in programs:
        raise LookupError(f"no program {name!r}; there are {', '.join(programs) or 'none'}")
    record = programs[name]
    return _number(record | {"took": took(record)}, rest.split(".") if rest else ["took"], path)


def numbers(record: dict) -> dict[str, float]:
    """Its numbers by their paths, without its name. A list has its p50 and p95 alone."""
    paths = {"took": took(record), "exit": record["exit"]}
    return {path: float(value) for path, value in paths.items() if value is not None} | dict(
        islice(_leaves(record.get("result"), "result"), NUMBERS_MAX)
    )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}")
    elif isinstance(value, list) and value:
        places: dict[str, list[float]] = {}
        for member in value:
            for rest, number in _leaves(member, ""):
                places.setdefault(rest, []).append(number)
        for rest, values in places.items():
            if len(values) == len(value):
                yield from ((f"{path}.{share}{rest}", float(OF_LIST[share](values))) for share in ("p50", "p95"))
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < NUMBER_MAX:
        yield path, float(value)


def took(record: dict) -> float | None:
    return None if record["end_s"] is None else record["end_s"] - record["start_s"]


def _number(value: Any, parts: list[str], path: str) -> float:
    if not parts:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise LookupError(f"programs.{path}: is no number")
        return float(value)
    first, *rest = parts
    if isinstance(value, list) and first in OF_LIST and value:
        return float(OF_LIST[first]([_number(one, rest, path) for one in value]))
    if isinstance(value, list) and first.isdecimal() and int(first) < len(value):
        return _number(value[int(first)], rest, path)
    if isinstance(value, dict) and first in value:
        return _number(value[first], rest, path)
    there = ", ".join(map(str, value)) if isinstance(value, dict) else "none"
    raise LookupError(f"programs.{path}: there is no {first!r}; there are {there:.200}")
