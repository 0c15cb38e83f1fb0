# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report: build/report/index.html (one file that needs no other), figures/, verdicts.json.

The same runs give the same bytes: no clock and no user's settings enter.
"""

from __future__ import annotations

import base64
import io
import json
import re
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from . import LabError, runner
from .paths import PACKAGE, REPORT
from .store import Run

if TYPE_CHECKING:  # matplotlib takes half a second; only who draws pays
    import matplotlib.figure

    from .suite import Verdict

SYMBOLS = {"reproduced": "✓", "not reproduced": "✗", "not measured": "–"}
TERMINAL = {"reproduced": "green", "not reproduced": "bold red", "not measured": "dim"}

# Okabe and Ito's palette: distinct to all kinds of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
# Others, for more than eight.
INDIGO, WINE, TEAL, BROWN, GREY, ROSE, OLIVE = "#332288", "#882255", "#00695C", "#7A5C00", "#666666", "#CC6677", "#8C8C1A"
STYLE = {
    "font.size": 10, "axes.titlesize": 10, "axes.titlelocation": "left", "legend.fontsize": 9, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "lines.linewidth": 1.4, "lines.markersize": 6, "figure.constrained_layout.use": True,
    "svg.hashsalt": "asymlab", "svg.fonttype": "path",
}
# A controller looks the same in every figure, and differs from the others in more than colour.
LOOKS = {
    "fast": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "reno": {"color": VERMILLION, "marker": "s", "linestyle": "--"},
    "cubic": {"color": GREEN, "marker": "^", "linestyle": "-."},
    "vegas": {"color": PURPLE, "marker": "D", "linestyle": (0, (1, 1))},
    "westwood": {"color": SKY, "marker": "v", "linestyle": (0, (6, 2))},
    "highspeed": {"color": GREY, "marker": "<", "linestyle": (0, (6, 1, 1, 1, 1, 1))},
    "bic": {"color": ORANGE, "marker": ">", "linestyle": (0, (3, 1))},
    "fusion": {"color": INDIGO, "marker": "P", "linestyle": "-"},
    "taichung": {"color": WINE, "marker": "X", "linestyle": "-"},
    "pseudorate": {"color": TEAL, "marker": "h", "linestyle": "-"},
    "literal": {"color": BROWN, "marker": "p", "linestyle": (0, (4, 1, 1, 1))},
    "formosa": {"color": BLACK, "marker": "*", "linestyle": "-"},
    "netsum": {"color": ROSE, "marker": "H", "linestyle": (0, (4, 2))},
    "bbr": {"color": OLIVE, "marker": "d", "linestyle": (0, (2, 1, 1, 1))},
}
NAMES = {"fast": "FAST", "reno": "Reno", "cubic": "CUBIC", "vegas": "Vegas", "westwood": "Westwood+", "highspeed": "HighSpeed",
         "bic": "BIC", "fusion": "Fusion", "taichung": "Taichung", "pseudorate": "Pseudo-rate", "literal": "Pseudo-rate as printed",
         "formosa": "Formosa", "netsum": "Formosa, literal sum", "bbr": "BBR"}


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
    return [(0, float(part), "") if i % 2 else (1, 0, part) for i, part in enumerate(re.split(r"(\d+(?:\.\d+)?)", text))]


def ordered(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda r: (r.record["id"], natural(r.record["name"]), r.record["key"]))


def provenance(runs: list[Run]) -> dict[str, str]:
    """Kernel, image and QEMU of the runs, as written in their identities."""
    identities = [r.record["identity"] for r in runs]
    found = {"kernel": {i["kernel"] for i in identities}, "image": {i["image"][:12] for i in identities},
             "qemu": {i["qemu"]["version"] for i in identities}}
    return {what: ", ".join(sorted(values)) or "unknown" for what, values in found.items()}


def drawn(figure: Figure) -> dict[str, bytes]:
    """The figure as SVG and PNG, without date and version."""
    files = {}
    with style():
        for kind, options in (("svg", {"metadata": {"Date": None, "Creator": None}}), ("png", {"dpi": 150, "metadata": {"Software": None}})):
            out = io.BytesIO()
            figure.figure.savefig(out, format=kind, facecolor="white", **options)
            files[kind] = out.getvalue()
    return files


def page(verdicts: list[dict], figures: list[tuple[str, Figure, bytes]], runs: list[Run], which: str, speed: dict[str, str]) -> str:
    """index.html. `figures`: (paper, figure, its SVG)."""
    import jinja2

    env = jinja2.Environment(loader=jinja2.FileSystemLoader(PACKAGE / "templates"), autoescape=True, trim_blocks=True,
                             lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    env.filters |= {
        "number": number, "interval": interval, "base64": lambda data: base64.b64encode(data).decode(),
        "fixed": lambda value, digits=3, scale=1: "–" if value is None else f"{value * scale:.{digits}f}",
    }
    runs = ordered(runs)
    counts = Counter(v["verdict"] for v in verdicts)
    return env.get_template("report.html.j2").render(
        verdicts=verdicts, papers=list(dict.fromkeys(v["paper"] for v in verdicts)), symbols=SYMBOLS,
        counts={name: counts[name] for name in SYMBOLS}, figures=figures, runs=runs,
        numbers={r.record["key"]: (i, r.record["name"]) for i, r in enumerate(runs, 1)},
        scenarios=[(id, list(mine)) for id, mine in groupby(runs, key=lambda r: r.record["id"])],
        which=which, longest_rtt=longest_rtt, about=provenance(runs), speed=speed,
        wall_s=sum(r.record["wall_s"] for r in runs), virtual_s=sum(r.job["duration_s"] for r in runs))


def write(verdicts: list[dict], figures: list[tuple[str, Figure]], runs: list[Run], which: str,
          speed: dict[str, str] | None = None) -> None:
    """Replace build/report by a new one, whole. `speed`: further measurements of the lab itself, label -> text."""
    files = {"verdicts.json": (json.dumps(verdicts, indent=1) + "\n").encode()}
    shown = []
    for paper, figure in figures:
        images = drawn(figure)
        files |= {f"figures/{figure.id}.{kind}": data for kind, data in images.items()}
        shown.append((paper, figure, images["svg"]))
    files["index.html"] = page(verdicts, shown, runs, which, speed or {}).encode()
    try:
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=REPORT.parent, prefix=".report-") as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            (new / "figures").mkdir(parents=True)
            for name, data in files.items():
                (new / name).write_bytes(data)
            if REPORT.exists():
                REPORT.rename(old)
            try:
                new.rename(REPORT)
            except BaseException:
                if old.exists():
                    old.rename(REPORT)
                raise
    except OSError as e:
        raise LabError(f"{REPORT}: {e.strerror}; the runs are kept, the same command writes it anew") from None


# --- the terminal -------------------------------------------------------------------------


def print_verdicts(verdicts: list[Verdict], wall_s: float) -> None:
    """The verdicts as a table, their counts, and where the report is."""
    table = Table(box=None, header_style="bold", padding=(0, 1))
    for column, justify in (("", "left"), ("claim", "left"), ("paper", "right"), ("measured", "right"), ("verdict", "left")):
        table.add_column(column, justify=justify, no_wrap=column in ("", "paper", "verdict"))
    for v in verdicts:
        claim = Text(f"{v.source}: {v.claim}")
        if v.reason:
            claim.append(f"\n{v.reason}", style="italic")
        table.add_row(Text(v.id), claim, number(v.paper_value), "\n".join(filter(None, (number(v.value), interval(vars(v))))),
                      Text(f"{SYMBOLS[v.verdict]} {v.verdict}", style=TERMINAL[v.verdict]))
    runner.console.print(table)
    counts = Counter(v.verdict for v in verdicts)
    file = REPORT / "index.html"
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    runner.console.print(f"{', '.join(f'{counts[name]} {name}' for name in SYMBOLS)}; {wall_s:.0f} s", markup=False)
    runner.console.print(f"report: {file}", markup=False)
