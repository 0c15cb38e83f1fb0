# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is published of a paper, read back; and report.html, the page of all of it that one can cite.

The same parts give the same page: no clock enters.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..paths import REPO
from . import papers, reasons, records
from .html import environment
from .verdicts import SYMBOLS, counts

COMMIT = "commit that made them, and repeats them to the byte"
REGISTERED = "claims, bounds, seeds and durations, committed before the runs"
CHANGED = "changed after the runs"
OPEN = ("not reproduced", "inconclusive")
UNEXPLAINED = "without a measured cause"
COLUMNS = ("run", "key", "result_sha256", "valid", "command")  # of runs.csv


@dataclass(frozen=True)
class Part:
    """A paper's folder, as publish.py writes it."""

    folder: Path
    date: str
    which: str  # the set of its runs
    about: dict[str, str]  # provenance, as in README.md
    verdicts: list[dict]
    runs: list[dict[str, str]]  # by COLUMNS

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def title(self) -> str:
        return papers.about(self.name)[0]

    @property
    def subject(self) -> str:
        return papers.about(self.name)[1]

    @property
    def objects(self) -> dict[str, str]:
        """Hash of each controller's object."""
        return {name.removesuffix(".bpf.o"): text for name, text in self.about.items() if name.endswith(".bpf.o")}

    @property
    def counts(self) -> dict[str, int]:
        return counts(v["verdict"] for v in self.verdicts)

    @property
    def unexplained(self) -> int:
        """Claims, not reproduced or inconclusive, that no run with their cause turned off explains."""
        return sum(v["verdict"] in OPEN and v.get("cause") != "measured" for v in self.verdicts)

    @property
    def hash(self) -> str:
        """Of all its results."""
        return reasons.results_hash(r["result_sha256"] for r in self.runs)

    @property
    def figures(self) -> list[dict]:
        """Name, size and words of each, and the file with its data."""
        from PIL import Image

        found = []
        for file in sorted((self.folder / "figures").glob("*.png")):
            data = file.with_suffix(".csv") if file.with_suffix(".csv").exists() else file.with_suffix(".parquet")
            try:
                with Image.open(file) as picture:
                    width, height = picture.size
                alt = words(data)
            except (OSError, ValueError, LookupError) as e:  # Arrow's errors are among them
                raise LabError(f"{file}: no figure with its data ({e}); `asymlab publish` makes them") from None
            found.append({"name": file.stem, "width": width, "height": height, "data": data.name, "alt": alt})
        return found


def cell(text: str) -> str:
    """For a list or a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def read(folder: Path) -> Part:
    """LabError if it is none."""
    try:
        text = (folder / "README.md").read_text()
        said = re.search(r"^(\d{4}-\d\d-\d\d), \d+ runs of the (\w+) set\.", text, re.MULTILINE)
        if not said:
            raise ValueError("README.md: neither date nor set")
        about = {
            what: value.replace("&lt;", "<").replace("\\|", "|")
            for what, value in re.findall(r"^- (.+?): (.*)$", text, re.MULTILINE)
        }
        verdicts, runs = records.verdicts(folder), records.runs(folder, COLUMNS)
        if missing := [what for what in (COMMIT, REGISTERED, CHANGED, "kernel", "image", "qemu") if what not in about]:
            raise ValueError(f"README.md: no {missing[0]}")
        if not runs:
            raise ValueError("runs.csv: no run")
        for v in verdicts:
            SYMBOLS[v["verdict"]]
            if missing := [
                what for what in ("id", "source", "claim", "value", "low", "high", "n", "runs") if what not in v
            ]:
                raise ValueError(f"verdicts.json: {v.get('id')}: no {missing[0]}")
        return Part(folder, said[1], said[2], about, verdicts, runs)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise LabError(f"{folder}: no published results ({e}); `asymlab publish` makes them") from None


def parts(results: Path) -> list[Part]:
    """All of a folder."""
    return [read(file.parent) for file in sorted(results.glob("*/runs.csv"))]


# --- the page ------------------------------------------------------------------------------


def page(found: list[Part]) -> str:
    """report.html of some parts."""
    of = {what: sorted({value for p in found for value in p.about[what].split(", ")}) for what in ("kernel", "qemu")}
    verdicts = [v for p in found for v in p.verdicts]
    return (
        environment()
        .get_template("published.html.j2")
        .render(
            parts=found,
            cited=cited(),
            date=max((p.date for p in found), default=""),
            commits=list(dict.fromkeys(p.about[COMMIT] for p in found)),
            kernels=of["kernel"],
            qemus=of["qemu"],
            counts=counts(v["verdict"] for v in verdicts),
            unexplained=UNEXPLAINED,
            one_run=sum(v["n"] == 1 for v in verdicts),
            labels={COMMIT: "Commit", REGISTERED: "Claims registered", CHANGED: "Changed afterwards"},
            repeat=lambda part, v: shlex.join(["asymlab", "repeat", part.name, v["id"]]),
        )
    )


def cited() -> dict[str, str]:
    """Title, version and authors, as CITATION.cff has them."""
    import yaml

    said = yaml.safe_load((REPO / "CITATION.cff").read_text())
    names = [a.get("name") or f"{a['given-names']} {a['family-names']}" for a in said["authors"]]
    return {"title": said["title"], "version": str(said["version"]), "authors": ", ".join(names)}


def words(data: Path) -> str:
    """What a figure shows, for those who do not see it: of each panel its axes and series, by the figure's data."""
    panels: dict[tuple[str, str], dict[str, None]] = {}
    for row in table(data):
        axes = " over ".join(plain(row[axis]) for axis in ("y_axis", "x_axis") if row[axis])
        series = panels.setdefault((plain(row["panel"]), axes), {})
        if not re.fullmatch(r"series \d+|(horizontal|vertical) line", row["series"]):
            series[plain(row["series"])] = None
    said = []
    for (panel, axes), series in panels.items():
        named = re.sub(r"^panel \d+$", "", panel)
        shown = f"{named} ({axes})" if named and axes else named or axes
        said.append(": ".join(filter(None, (shown, "; ".join(series)))))
    return ". ".join(said) + "."


def table(data: Path) -> Iterator[dict[str, str]]:
    """Rows of a figure's data (figuredata.py), as far as they are words."""
    if data.suffix == ".csv":
        with data.open(newline="") as rows:
            yield from csv.DictReader(rows)
    else:
        import pyarrow.parquet

        columns = ["panel", "x_axis", "y_axis", "series"]
        rows = pyarrow.parquet.read_table(data, columns=columns)
        yield from rows.group_by(columns, use_threads=False).aggregate([]).to_pylist()  # each once


def plain(text: str) -> str:
    """Without the marks of formulas."""
    return " ".join(re.sub(r"[${}\\]", "", re.sub(r"\\sqrt\{([^}]*)\}", r"sqrt(\1)", text)).split())
