# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""KTAP version 1: what was found, as tests in tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...machine.kernel import series
from .outcome import SHORT_IDLE, Column, Outcome, Result, Skip, deaf

GROWTH = 1.1


@dataclass
class Test:
    what: str
    outcome: Outcome = None
    inner: list[Test] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def growth(column: Column, result: Result, was: dict | None) -> tuple[Outcome, str]:
    """Whether the verifier has much more to look at than was recorded, and the numbers."""
    total = sum(result.insns.values())
    if not was or not total:
        return Skip("nothing is recorded" if total else "not loaded"), f"verified_insns {total}"
    before, said = was["verified_insns"], f"verified_insns {total} ({total - was['verified_insns']:+})"
    if series(column.release) != series(was["release"]):
        return Skip(f"recorded on {was['release']}"), said
    return (f"{before} are recorded: more than {GROWTH - 1:.0%} above" if total > GROWTH * before else None), said


def of_object(name: str, column: Column, result: Result, was: dict | None) -> Test:
    grown, said = growth(column, result, was)
    inner = [Test(what, outcome) for what, outcome in result.outcomes.items()]
    inner.append(Test("is not much more work for the verifier", grown, notes=[said]))
    failed = result.failed + isinstance(grown, str)
    said = ": ".join(filter(None, (f"{failed} of {len(inner)} failed", result.where)))
    return Test(name, said if failed else None, inner)


def of_column(column: Column, recorded: dict) -> Test:
    if column.skip or column.error:
        return Test(column.title, Skip(column.skip) if column.skip else column.error)
    inner = [
        of_object(name, column, result, recorded.get("objects", {}).get(name, {}).get(column.label))
        for name, result in sorted(column.results.items())
    ]
    inner += [Test(name, Skip(why)) for name, why in sorted(column.newer.items())]
    if refused := column.refused:
        tests = [Test(what, outcome) for what, outcome in refused.outcomes.items()]
        inner.append(Test("the verifier", f"{refused.failed} faults taken" if refused.failed else None, tests))
    bad = [test.what for test in inner if isinstance(test.outcome, str)]
    notes = [note for note in (column.note, SHORT_IDLE if deaf(column.release) else "") if note]
    return Test(column.title, ", ".join(bad) + " failed" if bad else None, inner, notes)


def tell(tests: list[Test], write: Callable[[str], None], depth: int = 0, head: Test | None = None) -> None:
    pad = "  " * depth
    write(f"{pad}KTAP version 1")
    if head:
        write(f"{pad}# Subtest: {head.what}")
    write(f"{pad}1..{len(tests)}")
    for note in head.notes if head else ():
        write(f"{pad}# {note}")
    for number, test in enumerate(tests, 1):
        if test.inner:
            tell(test.inner, write, depth + 1, test)
        failed = isinstance(test.outcome, str)
        for line in [*([] if test.inner else test.notes), *([str(test.outcome)] if failed else [])]:
            write(f"{pad}# {' '.join(line.split())}")
        skip = f" # SKIP {test.outcome}" if isinstance(test.outcome, Skip) else ""
        write(f"{pad}{'not ok' if failed else 'ok'} {number} {test.what}{skip}")


def ktap(columns: list[Column], recorded: dict, write: Callable[[str], None]) -> bool:
    """The KTAP of all; true if nothing failed."""
    tests = [of_column(column, recorded) for column in columns]
    tell(tests, write)
    return not any(isinstance(test.outcome, str) for test in tests)
