# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/kernels.json, and the table of docs/kernels.md that is made of it."""

from __future__ import annotations

import json

from ... import LabError
from ...paths import REPO
from .outcome import KERNELS, SHORT_IDLE, Column, Skip, deaf
from .properties import NOT_LIVE

RECORD, PAGE = REPO / "docs" / "kernels.json", REPO / "docs" / "kernels.md"
BEGIN, ENDING = "<!-- asymlab check-kernels --record -->", "<!-- end -->"


def recorded() -> dict:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def keep(columns: list[Column], before: dict) -> None:
    """Both are written, or neither."""
    made = record(columns, before)
    text = put_into(PAGE.read_text(), table(made))
    RECORD.write_text(json.dumps(made, indent=1) + "\n")
    PAGE.write_text(text)


def record(columns: list[Column], recorded: dict) -> dict:
    """The record, with these kernels' results in place of their old ones."""
    kernels, rows = (
        dict(recorded.get("kernels", {})),
        {name: dict(of) for name, of in recorded.get("objects", {}).items()},
    )
    for column in columns:
        if column.results:
            kernels[column.label] = {"release": column.release, "package": column.package}
        for name, result in column.results.items():
            rows.setdefault(name, {})[column.label] = {
                "release": column.release,
                "verified_insns": sum(result.insns.values()),
                "programs": result.insns,
                "passed": sum(o is None for o in result.outcomes.values()),
                "skipped": {what: str(o) for what, o in result.outcomes.items() if isinstance(o, Skip)},
                "failed": {what: o for what, o in result.outcomes.items() if isinstance(o, str)},
            }
    return {
        "kernels": {label: kernels[label] for label in (*KERNELS, *sorted(kernels)) if label in kernels},
        "objects": dict(sorted(rows.items())),
    }


def table(recorded: dict) -> str:
    """A table of each object on each kernel: how many of the properties hold, and the verifier's count."""
    kernels = recorded["kernels"]
    lines = [
        "| object | " + " | ".join(k["release"] for k in kernels.values()) + " |",
        "| --- |" + " ---: |" * len(kernels),
    ]
    for name, on in recorded["objects"].items():
        cells = []
        for label in kernels:
            if one := on.get(label):
                failed = "".join(f"; not: {what}" for what in one["failed"])
                cells.append(f"{one['passed']}/{one['passed'] + len(one['failed'])}{failed}, {one['verified_insns']:,}")
            else:
                cells.append("-")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for name, on in recorded["objects"].items():
        for label, one in on.items():
            for what, why in one["skipped"].items():
                if why != NOT_LIVE:
                    short = f"the law of `{name}`" if what.startswith("law") else what
                    reasons.setdefault((kernels[label]["release"], why), {})[short] = None
    notes = [f"Not tried on {release}, for {why}: {', '.join(what)}." for (release, why), what in reasons.items()]
    notes += [f"On {k['release']} {SHORT_IDLE}." for k in kernels.values() if deaf(k["release"])]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def put_into(text: str, made: str) -> str:
    """The page with the table between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(ENDING)
    if not begin or not end:
        raise LabError(f"{PAGE}: no place for the table, which is between {BEGIN!r} and {ENDING!r}")
    return f"{before}{BEGIN}\n{made}\n{ENDING}{after}"
