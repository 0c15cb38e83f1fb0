# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report: build/report/index.html (can be read without the rest), figures/ with their data, runs/ with a page of
each run, verdicts.json, results.json (what `asymlab compare` reads).

The same runs give the same bytes: no clock and no user's settings enter.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from .. import LabError
from ..paths import REPORT, TEMPLATES
from ..results.store import Run
from ..run import runner
from . import figuredata

if TYPE_CHECKING:  # matplotlib takes half a second; only who draws pays
    import jinja2
    import matplotlib.figure

    from .suite import Results, Verdict

SYMBOLS = {"reproduced": "✓", "not reproduced": "✗", "not measured": "–"}
CONTENTS = {"index.html", "verdicts.json", "results.json", "figures", "runs"}
TERMINAL = {"reproduced": "green", "not reproduced": "bold red", "not measured": "dim"}

STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "asymlab",
    "svg.fonttype": "path",
}
PAPERS = {
    "fast": "FAST TCP in asymmetric networks",
    "fusion": "TCP-Fusion",
    "taichung": "TCP-Taichung",
    "pseudorate": "Pseudo-rate TCP",
    "formosa": "TCP Formosa",
    "matrix": "Competition matrix",
}


@dataclass(frozen=True)
class Figure:
    id: str  # file name, unique among all papers
    title: str
    caption: str
    figure: matplotlib.figure.Figure


@contextmanager
def style() -> Iterator[None]:
    """Draw and save inside this: the report's look, whatever the user's matplotlibrc says."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def thin(t, y, points: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """A long series in `points` points that draw alike: lowest and highest of each stretch."""
    t, y = np.asarray(t), np.asarray(y)
    if len(y) <= points:
        return t, y
    edges = np.linspace(0, len(y), points // 2 + 1).astype(int)
    keep = sorted({i for a, b in zip(edges, edges[1:]) for i in (a + y[a:b].argmin(), a + y[a:b].argmax())})
    return t[keep], y[keep]


# --- the page -----------------------------------------------------------------------------


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def interval(v: dict) -> str:
    """Of a verdict's value; empty if there was one run only."""
    return "" if v["value"] is None or v["low"] == v["high"] else f"{number(v['low'])} to {number(v['high'])}"


def longest_rtt(run: Run, which: str) -> float | None:
    return max((f["rtt_s"][which] for f in run.metrics["flows"] if f["rtt_s"]), default=None)


def natural(text: str) -> list:
    """Sort key by which 2mbit comes before 10mbit."""
    return [
        (0, float(part), "") if i % 2 else (1, 0, part) for i, part in enumerate(re.split(r"(\d+(?:\.\d+)?)", text))
    ]


def ordered(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda r: (r.record["id"], natural(r.record["name"]), r.record["key"]))


def provenance(runs: list[Run]) -> dict[str, str]:
    """Kernel, image and QEMU of the runs, as written in their identities."""
    identities = [r.record["identity"] for r in runs]
    found = {
        "kernel": {i["kernel"] for i in identities},
        "image": {i["image"][:12] for i in identities},
        "qemu": {i["qemu"]["version"] for i in identities},
    }
    return {what: ", ".join(sorted(values)) or "unknown" for what, values in found.items()}


def figures_of(paper, results: Results) -> list[Figure]:
    """What a paper's figures.py draws; of invalid runs it learns nothing."""
    return paper.figures(type(results)(results.paper, [(task, run) for task, run in results.found if run.valid]))


def drawn(figure: Figure) -> dict[str, bytes]:
    """The figure as SVG and PNG, without date and version, and its data as CSV and Parquet."""
    files = {}
    with style():
        for kind, options in (
            ("svg", {"metadata": {"Date": None, "Creator": None}}),
            ("png", {"dpi": 150, "metadata": {"Software": None}}),
        ):
            out = io.BytesIO()
            figure.figure.savefig(out, format=kind, facecolor="white", **options)
            files[kind] = out.getvalue()
        return files | figuredata.files(figure.figure)


def environment() -> jinja2.Environment:
    """Of all pages."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.filters |= {
        "number": number,
        "interval": interval,
        "base64": lambda data: base64.b64encode(data).decode(),
        "fixed": lambda value, digits=3, scale=1: "–" if value is None else f"{value * scale:.{digits}f}",
        "groupby_kept": grouped,
    }
    env.globals |= {"symbols": SYMBOLS}
    return env


def grouped(items: list[dict], key: str) -> list[tuple[str, list[dict]]]:
    """By the key's value, in the order of its first appearance."""
    found: dict[str, list[dict]] = {}
    for item in items:
        found.setdefault(item[key], []).append(item)
    return list(found.items())


def page(
    verdicts: list[dict],
    figures: list[tuple[str, list[tuple[Figure, bytes]]]],
    runs: list[Run],
    pages: dict[str, str],
    which: str,
    speed: dict[str, str],
) -> str:
    """index.html. `figures`: of each paper (figure, its SVG); `pages`: link to a run's page, by key."""
    runs = ordered(runs)
    counts = Counter(v["verdict"] for v in verdicts)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            verdicts=verdicts,
            papers=list(dict.fromkeys(v["paper"] for v in verdicts)),
            names=PAPERS,
            counts={name: counts[name] for name in SYMBOLS},
            figures=figures,
            runs=runs,
            pages=pages,
            numbers={r.record["key"]: (i, r.record["name"]) for i, r in enumerate(runs, 1)},
            scenarios=[(id, list(mine)) for id, mine in groupby(runs, key=lambda r: r.record["id"])],
            which=which,
            longest_rtt=longest_rtt,
            about=provenance(runs),
            speed=speed,
            wall_s=sum(r.record["wall_s"] for r in runs),
            virtual_s=sum(r.job["duration_s"] for r in runs),
        )
    )


def summary(run: Run) -> dict:
    """A run in results.json."""
    m, identity = run.metrics, run.record["identity"]
    return {
        "name": run.record["name"],
        "case": run.record["name"].removesuffix(f" seed {run.record['seed']}"),
        "seed": run.record["seed"],
        "key": run.record["key"],
        "invalid": run.record["invalid"],
        "command": run.record["command"],
        "metrics": {
            "goodput_bps": m["goodput_bps"],
            "utilisation": m["utilisation"],
            "jain": m["jain"],
            "rtt_p50_s": longest_rtt(run, "p50"),
            "rtt_p95_s": longest_rtt(run, "p95"),
            "acks_per_data_packet": m["acks_per_data_packet"],
            "retransmits": sum(f["retransmits"] for f in m["flows"]),
            "timeouts": m["timeouts"],
        },
        "provenance": {
            "kernel": identity["kernel"],
            "image": identity["image"],
            "qemu": identity["qemu"]["version"],
            "objects": identity["objects"],
            "result_sha256": run.record["result_sha256"],
        },
    }


def check(folder: Path) -> None:
    """A report replaces its folder: refuse one that holds anything else."""
    try:
        others = sorted({file.name for file in folder.iterdir()} - CONTENTS) if folder.exists() else []
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}; name another folder for the report") from None
    if others:
        raise LabError(
            f"{folder}: holds {others[0]}, which is not of a report; name a new folder, or that of an old report"
        )


def write(
    verdicts: list[dict],
    figures: list[tuple[str, Figure]],
    runs: list[Run],
    which: str,
    speed: dict[str, str] | None = None,
    *,
    folder: Path,
) -> None:
    """Replace the folder by a new report, whole. `speed`: further measurements of the lab itself, label -> text."""
    from . import pages

    check(folder)
    files = {
        "verdicts.json": json.dumps(verdicts, indent=1) + "\n",
        "results.json": json.dumps({"format": 1, "set": which, "runs": [summary(r) for r in ordered(runs)]}, indent=1)
        + "\n",
    }
    files = {name: text.encode() for name, text in files.items()}
    shown: dict[str, list] = {}
    for paper, figure in figures:
        images = drawn(figure)
        files |= {f"figures/{figure.id}.{kind}": data for kind, data in images.items()}
        shown.setdefault(paper, []).append((figure, images["svg"]))
    by_paper = sorted(shown.items(), key=lambda item: item[0] == "matrix")  # the last
    cached = pages.up_to_date(runs)
    links = {key: f"runs/{key}.html" for key in cached}
    files["index.html"] = page(verdicts, by_paper, runs, links, which, speed or {}).encode()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".report-") as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            for part in ("figures", "runs"):
                (new / part).mkdir(parents=True)
            for name, data in files.items():
                (new / name).write_bytes(data)
            for key, link in links.items():
                share(cached[key], new / link)
            if folder.exists():
                folder.rename(old)
            try:
                new.rename(folder)
            except BaseException:
                if old.exists():
                    old.rename(folder)
                raise
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}; the runs are kept, the same command writes it anew") from None


def share(file: Path, copy: Path) -> None:
    """The same file in another place, without its bytes if that is possible."""
    try:
        os.link(file, copy)
    except OSError:
        shutil.copyfile(file, copy)


# --- the terminal -------------------------------------------------------------------------


def print_verdicts(verdicts: list[Verdict], wall_s: float, folder: Path = REPORT) -> None:
    """The verdicts as a table, their counts, and where the report is."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for column, justify in (
        ("", "left"),
        ("claim", "left"),
        ("paper", "right"),
        ("measured", "right"),
        ("verdict", "left"),
    ):
        table.add_column(column, justify=justify, no_wrap=column in ("", "paper", "verdict"))
    for v in verdicts:
        claim = Text(f"{v.source}: {v.claim}")
        if v.reason:
            claim.append(f"\n{v.reason}", style="italic")
        table.add_row(
            Text(v.id),
            claim,
            number(v.paper_value),
            "\n".join(filter(None, (number(v.value), interval(vars(v))))),
            Text(f"{SYMBOLS[v.verdict]} {v.verdict}", style=TERMINAL[v.verdict]),
        )
    runner.console.print(table)
    counts = Counter(v.verdict for v in verdicts)
    file = folder.resolve() / "index.html"
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    runner.console.print(f"{', '.join(f'{counts[name]} {name}' for name in SYMBOLS)}; {wall_s:.0f} s")
    runner.console.print(f"report: {file}")
