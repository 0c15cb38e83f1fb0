# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The pages of what is published: README.md of each part and of all, and report.html, which one can cite.

The same parts give the same pages: no clock enters.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from .. import LabError
from ..paths import REPO
from .html import environment, interval, number, word
from .part import Part
from .sentences import counts
from .verdicts import SYMBOLS

COMMIT = "commit that made them, and repeats them to the byte"
REGISTERED = "claims, bounds, seeds and durations, committed before the runs"
CHANGED = "changed after the runs"
UNEXPLAINED = "without a measured cause"


def lines(part: Part) -> dict[str, str]:
    """Where a part's runs come from, a line each."""
    a = part.about
    return {
        COMMIT: a.commit,
        REGISTERED: ", ".join(a.registered) or "unknown",
        CHANGED: "; ".join(a.changed) or "nothing",
        "kernel": ", ".join(a.kernel),
        "image": ", ".join(a.image),
        "qemu": ", ".join(a.qemu),
    } | {name: ", ".join(digests) for name, digests in a.objects.items()}


def cell(text: str) -> str:
    """For a list or a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


# --- README.md --------------------------------------------------------------------------


def front(parts: list[Part]) -> str:
    """README.md of some parts."""
    said = [
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
        "A run explains a claim if the cause is turned off in it, and the claim comes true, "
        "or if a rival has all that the link carries in it.",
        "",
        "[report.html](report.html) has all of it on one page that can be printed and cited, with the method, the "
        "threats to validity, and for each row the command that repeats it. Open it in a browser, from a clone.",
        "",
        f"| paper | {' | '.join([*SYMBOLS, UNEXPLAINED])} |",
        "| --- |" + " ---: |" * (len(SYMBOLS) + 1),
    ]
    for one in parts:
        said.append(f"| [{one.name}]({quote(one.name)}/README.md) | {cells([one])} |")
    return "\n".join([*said, f"| all | {cells(parts)} |"]) + "\n"


def cells(parts: list[Part]) -> str:
    of = counts(v["verdict"] for one in parts for v in one.verdicts)
    return " | ".join(map(str, [*of.values(), sum(one.unexplained for one in parts)]))


def readme(part: Part) -> str:
    """README.md of a part."""
    told = [
        f"# {part.title}: verdicts",
        "",
        f"{part.about.date}, {len(part.runs)} runs of the {part.about.set} set. "
        f"{', '.join(f'{n} {word}' for word, n in part.counts.items())}.",
        "",
        *(f"- {cell(what)}: {cell(value)}" for what, value in lines(part).items()),
        "",
        "`ours` is the mean over the seeds, of ratios the geometric mean, with its 95 % interval; n counts runs. "
        "*Worst run*: the value is that of the worst run, which decides. *Each run alike*: all runs have this value. "
        "Verdicts over the same scenarios are one family: they are not independent. Each claim's bounds are in "
        "[claims.json](claims.json), the value of each of its runs in [samples.csv](samples.csv). Every run's key, "
        "hash and command are in [runs.csv](runs.csv); the figures' data lie in [figures](figures). `make experiments "
        f"SUITE={part.name}` makes the report, `asymlab publish {part.name}` this page.",
        "",
        *taken_over(part),
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
        told.append(f"| {' | '.join(map(cell, row))} |")
    told += ["", "## Figures", "", *(f"![{name}](figures/{quote(name)}.png)\n" for name in part.drawn)]
    return "\n".join(told).rstrip("\n") + "\n"


def taken_over(part: Part) -> list[str]:
    """That some rows have no values of single runs."""
    if not (n := sum(c.taken_over is not None for c in part.claims)):
        return []
    return [
        f"Of {n} of the {len(part.claims)} rows the mean and the interval are taken over, without the values of single "
        "runs (`taken_over` in claims.json). The next publishing of such a row replaces them.",
        "",
    ]


# --- the page ------------------------------------------------------------------------------


def page(found: list[Part]) -> str:
    """report.html of some parts."""
    verdicts = [v for p in found for v in p.verdicts]
    engines = sorted({engine for p in found for engine in p.about.qemu})
    return (
        environment()
        .get_template("published.html.j2")
        .render(
            parts=found,
            cited=cited(),
            date=max((p.about.date for p in found), default=""),
            commits=list(dict.fromkeys(p.about.commit for p in found)),
            kernels=sorted({kernel for p in found for kernel in p.about.kernel}),
            engines=engines,
            process=any("process" in engine for engine in engines),
            emulated=any("QEMU" in engine for engine in engines),
            counts=counts(v["verdict"] for v in verdicts),
            unexplained=UNEXPLAINED,
            one_run=sum(v["n"] == 1 for v in verdicts),
            labels={COMMIT: "Commit", REGISTERED: "Claims registered", CHANGED: "Changed afterwards"},
            lines=lines,
            figures=figures,
            repeat=lambda part, v: shlex.join(["asymlab", "repeat", part.name, v["id"]]),
        )
    )


def figures(part: Part) -> list[dict]:
    """Name, size and words of each figure, and the file with its data."""
    from PIL import Image

    found = []
    for name, folder in part.drawn.items():
        file = folder / f"{name}.png"
        data = file.with_suffix(".csv") if file.with_suffix(".csv").exists() else file.with_suffix(".parquet")
        try:
            with Image.open(file) as picture:
                width, height = picture.size
            alt = words(data)
        except (OSError, ValueError, LookupError, TypeError, csv.Error) as e:  # Arrow's errors are among them
            raise LabError(f"{file}: no figure with its data ({e}); `asymlab publish` makes them") from None
        found.append({"name": name, "width": width, "height": height, "data": data.name, "alt": alt})
    return found


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
