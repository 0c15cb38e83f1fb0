# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The evaluation that RFC 9743 (BCP 133) asks for of a new congestion control: `asymlab dossier`.

NAME is a controller of bpf/, one of Linux's own, or a file: ./mine.bpf.o, ./mine.bpf.c. Some hundred runs of it stand
beside those of CUBIC, Reno and BBR on the same paths and seeds, which the store keeps for the next dossier. Each
question of experiments/dossier/headings.py has a bound that was there before the runs, and each answer a word by the
95 % interval over the seeds: holds, fails, or undecided. The rivals are asked the same. A dossier says
which questions the lab cannot answer.

The answer is a page (index.html), a text (dossier.md), and data (dossier.json) in build/dossier/NAME, with the
scenarios that `asymlab run` repeats.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from .. import LabError
from ..console import console
from ..controllers import LINUX
from ..machine.image import Image
from ..needs import check_extra
from ..paths import BUILD, near
from ..plan import base, objects, scenario
from ..plan.toml import inline
from ..report import report
from ..report.judged import Judged
from ..results.store import Run
from ..run.tasks import plan_runs, without
from . import page
from .absolute import Absolute
from .answers import SCENARIOS, Plan, Section, called, judged, questions

FOLDER = BUILD / "dossier"


def plan(name: str, guest: Image, seeds: int | None, to: Path | None) -> Plan:
    check_extra("report")
    name = objects.absolute(name, LINUX)
    return of(name, questions().RIVALS, guest, seeds, to or FOLDER / called(name))


def of(name: str, rivals: tuple[str, ...], guest: Image, seeds: int | None, folder: Path) -> Plan:
    """Its scenarios, written as files over those of experiments/dossier, and their runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = [_file(source, folder, [name, *rivals]) for source in base.sources(SCENARIOS / "cases.toml")]
    except OSError as e:
        raise LabError(f"{e.filename or folder}: {e.strerror}") from None
    chosen = tuple(range(1, seeds + 1)) if seeds else None
    # Each file by itself: what is one run may be a case of two.
    cases = ([case for case in scenario.load(file, seeds=chosen) if not without(case, guest)] for file in files)
    return Plan(name, guest.engine, rivals, folder, [task for mine in cases for task in plan_runs(mine, guest)])


def _file(source: base.Source, folder: Path, names: list[str]) -> Path:
    """A scenario that begins with another, and has these controllers in the place of those that it sweeps."""
    tree = source.tree
    key = next(key for key in tree["sweep"] if key in ("flows.controller", "flows.0.controller"))
    lines = [
        f"base = {inline(os.path.relpath(source.name, folder.resolve()))}",
        f"title = {inline(tree['title'])}",
        f"id = {inline(tree['id'])}",
        "",
        "[sweep]",
        f"{inline(key)} = {inline(list(dict.fromkeys(names)))}",
    ]
    file = folder / f"{source.case}.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def write(made: Plan, done: dict[str, Run]) -> None:
    """Print the answers, and write the page, the text and the data."""
    sections = judged(made, done)
    runs = list({task.key: done[task.key] for task in made.tasks}.values())
    about = report.provenance(runs)
    files = {
        "index.html": page.html(made, sections, about).encode(),
        "dossier.md": page.text(made, sections, about).encode(),
        "dossier.json": (json.dumps(data(made, sections, about), indent=1) + "\n").encode(),
        "answers.png": page.picture(made, sections),
    }
    try:
        with tempfile.TemporaryDirectory(dir=made.folder, prefix=".new-") as scratch:
            for name, content in files.items():
                Path(scratch, name).write_bytes(content)
            for name in files:
                shutil.move(Path(scratch, name), made.folder / name)
    except OSError as e:
        raise LabError(f"{made.folder}: {e.strerror}; the runs are kept, the same command writes it anew") from None
    console.print(page.table(made, sections))
    console.print("ms: mean delay of the busiest queue")
    counted = Counter(answer.own.verdict for section in sections for answer in section.answers)
    console.print(", ".join(f"{count} {word}" for word, count in counted.most_common()))
    console.print(f"page: {near(made.folder / 'index.html')}")


def data(made: Plan, sections: list[Section], about: dict) -> dict:
    """dossier.json."""

    def of(row: Judged, plain: Absolute | None) -> dict:
        return {
            "verdict": row.verdict,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "runs": {s.key: s.value for s in row.samples},
            "why": row.unmeasured,
            "absolute": plain.numbers if plain else {},
        }

    return {
        "controller": made.name,
        "rfc": "RFC 9743",
        "made_of": about,
        "sections": [
            {
                "section": s.section,
                "title": s.title,
                "verdict": s.word(made.name),
                "not_answered": s.left,
                "questions": [
                    {
                        "id": a.own.id,
                        "question": a.own.claim,
                        "at_least": a.own.at_least,
                        "at_most": a.own.at_most,
                        "scenarios": a.files,
                        "answers": {name: of(row, a.absolute[name]) for name, row in a.rows.items()},
                    }
                    for a in s.answers
                ],
            }
            for s in sections
        ],
    }
