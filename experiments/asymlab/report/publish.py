# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report made small enough to be kept in a repository, each paper on its own.

NAME/results.json.xz    claims, runs, and the value of each claim for each run (records.py)
NAME/README.md          its page: date, provenance, and the verdicts
NAME/figures/           the figures that a page beside the folder shows, in few colours; --figures draws them anew
README.md               the papers, and what became of their claims

The pages are written from the data, and never read. `asymlab report --published` makes one page of all. The tables of
the papers' pages beside the folder are filled from it (tables.py).
"""

from __future__ import annotations

import io
import shutil
import tempfile
import warnings
from pathlib import Path

from .. import LabError
from ..reading import read
from . import part, published, records, tables
from .part import DAMAGED, Part
from .records import DATA

PIXELS_MAX = 16 << 20  # the largest that is published was drawn with 1.5 million
COLOURS = 64  # of a PNG; a third of the size, and the eye sees little difference


def publish(report: Path, folder: Path, names: list[str] | None = None, figures: bool = False) -> None:
    """Replace the named papers in `folder` by what a report holds of them; without names all that it has runs of.

    figures: those that pages show as well. LabError if it has no run of one, the folder holds something else, the
    report is of some cases, or a quick set or fewer seeds would replace more.
    """
    if folder.exists() and any(folder.iterdir()) and not list(folder.glob(f"*/{DATA}")):
        raise LabError(f"{folder}: holds something else than published results; name an empty folder")
    try:
        results, claims = records.results(report), records.claims(report)
        there = sorted(paper for paper, keys in results["papers"].items() if keys)
        if missing := [name for name in names or [] if name not in there]:
            raise LabError(f"{report}: has no run of {missing[0]}; `asymlab suite {missing[0]}` makes them")
        if results.get("only"):
            raise LabError(f"{report}: of some cases; `asymlab suite {(names or there)[0]}` makes all")
        new = [part.of_report(paper, claims, results, report / "figures") for paper in names or there]
        for one in new:
            if (folder / one.name).exists():
                part.replaceable(part.read(folder / one.name), one, folder / one.name, report)
        texts = [data(one) for one in new]
    except DAMAGED as e:
        raise LabError(f"{report}: no report of a suite ({e}); `asymlab suite` writes one") from None
    try:
        write(new, texts, folder, report / "figures", figures)
    except OSError as e:
        raise LabError(f"{e.filename or folder}: {e.strerror}") from None


def data(one: Part) -> bytes:
    """The file that a part is read from."""
    return records.packed(one.about, one.claims, one.runs, one.points)


def write(parts: list[Part], texts: list[bytes], folder: Path, drawn: Path, anew: bool) -> None:
    """All or nothing: a folder for each part, the folder's page, the tables of the papers' pages."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".publish-") as scratch:
        new = Path(scratch, "new")
        if folder.exists():
            shutil.copytree(folder, new)
        for one, text in zip(parts, texts, strict=True):
            place, before = new / one.name, folder / one.name / "figures"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            (place / DATA).write_bytes(text)
            for name in published.shown(one.name, folder):
                keep_figure(name, drawn, before, place / "figures", anew)
        write_front(new)
        filled = tables.pages(new, folder.parent, [one.name for one in parts])
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    for page, words in filled.items():
        page.write_text(words)


def keep_figure(name: str, drawn: Path, before: Path, to: Path, anew: bool) -> None:
    """The one that is there, or the report's in few colours."""
    from PIL import Image

    to.mkdir(exist_ok=True)
    if (before / f"{name}.png").exists() and not anew:
        shutil.copyfile(before / f"{name}.png", to / f"{name}.png")
        return
    file = drawn / f"{name}.png"
    data = io.BytesIO(read(file, records.FIGURE_MAX))
    try:
        with warnings.catch_warnings(action="error"), Image.open(data, formats=["PNG"]) as picture:
            if picture.width * picture.height > PIXELS_MAX:
                raise ValueError(f"more than {PIXELS_MAX} pixels")
            size = (max(picture.width * 2 // 3, 1), max(picture.height * 2 // 3, 1))
            small = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    except Exception as e:  # a library's, of any kind: the file may be anything
        raise LabError(f"{file}: no PNG of a figure: {str(e).partition(' <')[0]}") from None
    # by coverage, so that eight lines differ; a mean of each colour's pixels, so that the pale grid stays
    few = small.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(to / f"{name}.png", optimize=True)


def write_front(folder: Path) -> None:
    """All pages, from the parts that lie in a folder."""
    for file, text in pages(folder).items():
        file.write_text(text)


def pages(folder: Path) -> dict[Path, str]:
    """The text of each page."""
    if not (parts := part.parts(folder)):
        raise LabError(f"{folder}: no published results; `asymlab publish` makes them")
    texts = {folder / "README.md": published.front(parts)}
    for one in parts:
        figures = sorted(file.stem for file in (folder / one.name / "figures").glob("*.png"))
        texts[folder / one.name / "README.md"] = published.readme(one, figures)
    return texts
