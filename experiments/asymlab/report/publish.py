# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report made small enough to be kept in a repository, each paper on its own. Of a report of some cases (`asymlab
suite --only`) each row takes the runs that it does not have, and the others stay (part.py).

NAME/part.json          date, set, and where the runs come from
NAME/claims.json        each claim of a paper with its bounds
NAME/samples.csv        of each claim the value that each run has
NAME/runs.csv           each run: its key in the store, the hash of its results, the command that repeats it
NAME/figures/           of each figure the PNG, in few colours, and its data

All else is written from these, and never read:

README.md               the papers, and what became of their claims
report.html             all of it on one page, with the method: to be cited
NAME/README.md          date, provenance, and the verdicts of a paper
NAME/verdicts.json      the verdicts for programs, and for `asymlab repeat --from` of earlier commits

The tables of the papers' pages beside the folder are filled from it (tables.py).
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from .. import LabError
from ..console import console
from . import papers, part, published, records, tables
from .part import DAMAGED, Part

COLOURS = 64  # of a PNG; a third of the size, and the eye sees no difference
CSV_MAX = 150_000  # bytes; larger tables are kept as Parquet


def publish(report: Path, folder: Path, names: list[str] | None = None) -> None:
    """Replace the named papers in `folder` by what a report holds of them; without names all that it has runs of.

    LabError if it has none of one, the folder holds something else, or a quick set or fewer seeds would replace more.
    """
    if folder.exists() and any(folder.iterdir()) and not list(folder.glob("*/runs.csv")):
        raise LabError(f"{folder}: holds something else than published results; name an empty folder")
    try:
        results, claims = records.results(report), records.claims(report)
        there = sorted(paper for paper, keys in results["papers"].items() if keys)
        if missing := [name for name in names or [] if name not in there]:
            raise LabError(f"{report}: has no run of {missing[0]}; `asymlab suite {missing[0]}` makes them")
        new = [
            kept(part.of_report(paper, claims, results, report / "figures"), results, report, folder)
            for paper in names or there
        ]
        texts = [data(one) | pages(one) for one in new]
    except DAMAGED as e:
        raise LabError(f"{report}: no report of a suite ({e}); `asymlab suite` writes one") from None
    try:
        write(new, texts, folder)
    except OSError as e:
        raise LabError(f"{e.filename or folder}: {e.strerror}") from None


def kept(new: Part, results: dict, report: Path, folder: Path) -> Part:
    """What is to be kept of a paper; LabError if it may not replace what `folder` has."""
    there, some = folder / new.name, bool(results.get("only"))
    if not there.exists():
        if some:
            raise LabError(
                f"{report}: of some cases, and {folder} has no {new.name}; `asymlab suite {new.name}` makes all"
            )
        return new
    old = part.read(there)
    part.replaceable(old, new, there, report, some)
    return part.union(old, new, there, report) if some else new


def data(one: Part) -> dict[str, str]:
    """The text of each file that a part is read from."""
    about = json.dumps(one.about.model_dump(), indent=1, ensure_ascii=False) + "\n"
    return {"part.json": about, **records.text_of(one.claims), "runs.csv": records.table(records.RUNS, one.runs)}


def pages(one: Part) -> dict[str, str]:
    """The text of each file that is written from a part."""
    return {"README.md": published.readme(one), "verdicts.json": json.dumps(one.verdicts, indent=1) + "\n"}


def write(parts: list[Part], texts: list[dict[str, str]], folder: Path) -> None:
    """All or nothing: a folder for each part, the folder's page, the tables of the papers' pages."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".publish-") as scratch:
        new = Path(scratch, "new")
        if folder.exists():
            shutil.copytree(folder, new)
        for one, of in zip(parts, texts, strict=True):
            place = new / one.name
            shutil.rmtree(place, ignore_errors=True)
            (place / "figures").mkdir(parents=True)
            for name, source in one.drawn.items():
                keep_figure(source, name, place / "figures")
            for name, text in of.items():
                (place / name).write_text(text)
        write_front(new)
        filled = tables.pages(new, folder.parent, [one.name for one in parts])
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    for page, text in filled.items():
        page.write_text(text)
    for one in parts:
        if line := papers.outdated(one.name, one.hash):
            console.print(line)


def keep_figure(source: Path, name: str, folder: Path) -> None:
    """Small, in few colours. One that is kept already is copied as it is."""
    from PIL import Image

    if (source.parent / "part.json").exists():
        for file in source.glob(f"{name}.*"):
            shutil.copyfile(file, folder / file.name)
        return
    with Image.open(source / f"{name}.png") as picture:
        small = picture.convert("RGB").resize(
            (picture.width * 2 // 3, picture.height * 2 // 3), Image.Resampling.LANCZOS
        )
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
    table = source / f"{name}.csv"
    if table.stat().st_size > CSV_MAX:
        table = source / f"{name}.parquet"
    shutil.copyfile(table, folder / table.name)


def write_front(folder: Path) -> None:
    """All pages, from the parts that lie in a folder."""
    if not (parts := part.parts(folder)):
        raise LabError(f"{folder}: no published results; `asymlab publish` makes them")
    texts = {folder / "README.md": published.front(parts), folder / "report.html": published.page(parts)}
    for one in parts:
        texts |= {folder / one.name / name: text for name, text in pages(one).items()}
    for file, text in texts.items():
        file.write_text(text)
