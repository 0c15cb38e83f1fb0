# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report made small enough to be kept in a repository, each paper on its own. A report of some cases (`asymlab suite
--only`) replaces the rows that they measure, and leaves the others (merge.py).

README.md               the papers, and what became of their claims
report.html             all of it on one page, with the method: to be cited (published.py)
NAME/README.md          date, provenance, and the verdicts of a paper
NAME/verdicts.json      the same for machines
NAME/runs.csv           each run: its key in the store, the hash of its results, the command that repeats it
NAME/figures/           of each figure the PNG, in few colours, and its data

The tables of the papers' pages beside the folder are filled from it (tables.py).
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

from .. import LabError
from ..console import console
from . import merge, papers, published, reasons, records, tables
from .found import Found, found, runs_of, seeds
from .html import interval, number, word
from .published import COLUMNS, UNEXPLAINED, Part, cell
from .verdicts import SYMBOLS, counts

COLOURS = 64  # of a PNG; a third of the size, and the eye sees no difference
CSV_MAX = 150_000  # bytes; larger tables are kept as Parquet


def publish(report: Path, folder: Path, names: list[str] | None = None) -> None:
    """Replace the named papers in `folder` by what a report holds of them; without names all that it has runs of.

    LabError if it has none of one, the folder holds something else, or a quick set or fewer seeds would replace more.
    """
    if folder.exists() and any(folder.iterdir()) and not list(folder.glob("*/runs.csv")):
        raise LabError(f"{folder}: holds something else than published results; name an empty folder")
    try:
        verdicts, results = records.verdicts(report), records.results(report)
        if results.get("format") != 1:
            raise LabError(f"{report}: its results.json is of another version; `asymlab suite` writes it anew")
        there = [paper for paper in papers.names() if runs_of(paper, results)]
        if missing := [name for name in names or [] if name not in there]:
            raise LabError(f"{report}: has no run of {missing[0]}; `asymlab suite {missing[0]}` makes them")
        parts = [part(paper, verdicts, results, report, folder) for paper in names or there]
        texts = [files(one) for one in parts]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        raise LabError(f"{report}: no report of a suite ({e}); `asymlab suite` writes one") from None
    try:
        write(parts, texts, folder)
    except OSError as e:
        raise LabError(f"{e.filename or folder}: {e.strerror}") from None


def part(paper: str, verdicts: list[dict], results: dict, report: Path, folder: Path) -> Found:
    """What is to be kept of a paper; LabError if it may not replace what `folder` has."""
    new = found(paper, verdicts, results, report / "figures")
    if not (folder / paper).exists():
        if results.get("only"):
            raise LabError(f"{report}: of some cases, and {folder} has no {paper}; `asymlab suite {paper}` makes all")
        return new
    old = published.read(folder / paper)
    replaceable(old, paper, results, report)
    return merge.merged(old, new, report) if results.get("only") else new


def replaceable(old: Part, paper: str, results: dict, report: Path) -> None:
    """LabError if a report has less of a paper than what is published of it."""
    mend = f"`asymlab suite {paper}` makes a full report, --to names another folder"
    if results["set"] != "full" and old.which == "full":
        raise LabError(f"{report}: of the {results['set']} set, and {old.folder} is of the full one; {mend}")
    before, now = (seeds(runs) for runs in ([r["run"] for r in old.runs], [r["name"] for r in runs_of(paper, results)]))
    for case, count in now.items():
        if count < before[case]:
            raise LabError(f"{report}: {count} of the {before[case]} seeds of {case} that {old.folder} has; {mend}")


def files(part: Found) -> dict[str, str]:
    """The text of each file that is kept of a paper."""
    return {
        "verdicts.json": json.dumps(part.verdicts, indent=1) + "\n",
        "runs.csv": runs_table(part.runs),
        "README.md": readme(part),
    }


def write(parts: list[Found], texts: list[dict[str, str]], folder: Path) -> None:
    """All or nothing: a folder for each part, the folder's page, the tables of the papers' pages."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".publish-") as scratch:
        new = Path(scratch, "new")
        if folder.exists():
            shutil.copytree(folder, new)
        for one, of in zip(parts, texts, strict=True):
            place = new / one.paper
            shutil.rmtree(place, ignore_errors=True)
            (place / "figures").mkdir(parents=True)
            for name, source in one.figures.items():
                keep_figure(source, name, place / "figures")
            for name, text in of.items():
                (place / name).write_text(text)
        write_front(new)
        pages = tables.pages(new, folder.parent, [one.paper for one in parts])
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    for page, text in pages.items():
        page.write_text(text)
    for one in parts:
        if line := reasons.outdated(one.paper, folder):
            console.print(line)


def runs_table(runs: list[dict[str, str]]) -> str:
    out = io.StringIO()
    rows = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    rows.writeheader()
    rows.writerows(runs)
    return out.getvalue()


def keep_figure(source: Path, name: str, folder: Path) -> None:
    """Small, in few colours. One that is kept already is copied as it is."""
    from PIL import Image

    if (source.parent / "runs.csv").exists():
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
    """The pages of all parts, from the parts that lie in a folder."""
    if not (parts := published.parts(folder)):
        raise LabError(f"{folder}: no published results; `asymlab publish` makes them")
    for name, text in (("README.md", front(parts)), ("report.html", published.page(parts))):
        (folder / name).write_text(text)


def front(parts: list[Part]) -> str:
    """README.md of some parts."""
    lines = [
        "# What the suites gave",
        "",
        "Each paper's page has its verdicts, figures, provenance, and the command that repeats each run to the byte.",
        "A claim is *reproduced* if the whole 95 % interval of our value lies within its bounds, *not reproduced* if "
        "the whole interval lies outside, and *inconclusive* otherwise.",
        "A check *holds*, *fails* or is *undecided*, by the same rule.",
        "Checks are about our own code, a cause turned off, what any sender passes, something that the paper does not "
        "say, or a single short run.",
        "A claim about every run is decided by its worst run.",
        f"*{UNEXPLAINED.capitalize()}* counts the claims that are not reproduced, or inconclusive, and not explained.",
        "A run explains a claim if the cause is turned off in it, and the claim comes true.",
        "",
        "[report.html](report.html) has all of it on one page that can be printed and cited, with the method, the "
        "threats to validity, and for each row the command that repeats it. Open it in a browser, from a clone.",
        "",
        f"| paper | {' | '.join([*SYMBOLS, UNEXPLAINED])} |",
        "| --- |" + " ---: |" * (len(SYMBOLS) + 1),
    ]
    for one in parts:
        lines.append(f"| [{one.name}]({quote(one.name)}/README.md) | {cells([one])} |")
    return "\n".join([*lines, f"| all | {cells(parts)} |"]) + "\n"


def cells(parts: list[Part]) -> str:
    of = counts(v["verdict"] for one in parts for v in one.verdicts)
    return " | ".join(map(str, [*of.values(), sum(one.unexplained for one in parts)]))


def readme(part: Found) -> str:
    said = ", ".join(f"{n} {word}" for word, n in counts(v["verdict"] for v in part.verdicts).items())
    lines = [
        f"# {papers.about(part.paper)[0]}: verdicts",
        "",
        f"{datetime.date.today().isoformat()}, {len(part.runs)} runs of the {part.which} set. {said}.",
        "",
        *(f"- {cell(what)}: {cell(value)}" for what, value in part.about.items()),
        "",
        "`ours` is the mean over the seeds, of ratios the geometric mean, with its 95 % interval; n counts runs. "
        "*Worst run*: the value is that of the worst run, which decides. *Each run alike*: all runs have this value. "
        "Verdicts over the same scenarios are one family: they are not independent. Every run's key, hash and command "
        "are in [runs.csv](runs.csv); the figures' data lie in [figures](figures). `make experiments "
        f"SUITE={part.paper}` makes the report, `asymlab publish {part.paper}` this page.",
        "",
        "| | claim | scenarios | paper | ours | 95 % interval | n | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for v in part.verdicts:
        row = (
            v["id"],
            f"{v['source']}: {v['claim']}",
            v["family"],
            number(v["paper_value"]),
            number(v["value"]),
            interval(v),
            str(v["n"]),
            word(v) + (f": {v['reason']}" if v["reason"] else ""),
        )
        lines.append(f"| {' | '.join(map(cell, row))} |")
    lines += ["", "## Figures", "", *(f"![{name}](figures/{quote(name)}.png)\n" for name in part.figures)]
    return "\n".join(lines).rstrip("\n") + "\n"
