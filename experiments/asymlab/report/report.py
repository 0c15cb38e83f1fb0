# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report: build/report/index.html (can be read without the rest), figures/ with their data, runs/ with a page of
each run; results.json, claims.json, samples.csv, verdicts.json (records.py), verdicts.csv.

The same runs give the same bytes: no clock and no user's settings enter.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from .. import LabError
from ..needs import check_extra
from ..results import store
from ..results.breakdown import ONE_WAY, directions
from ..results.store import Run
from ..run import registered
from . import figuredata, measures, pages, papers, records
from .drawing import Figure, style
from .html import environment, natural
from .judged import Judged, Results
from .sentences import by_measured, counts

CONTENTS = {
    *("index.html", "verdicts.json", "verdicts.csv", "claims.json", "samples.csv", "results.json", "figures", "runs")
}
SMALL = (2.4, 1.6)  # inches
COLUMNS = (
    *("paper", "id", "source", "claim", "paper_value", "value", "low", "high", "n", "seeds", "distinct"),
    *("verdict", "check", "family", "reason"),
)


def longest_rtt(run: Run, which: str) -> float | None:
    return max((f["rtt_s"][which] for f in run.metrics["flows"] if f["rtt_s"]), default=None)


def ordered(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda r: (r.record["id"], natural(r.record["name"]), r.record["key"]))


def provenance(runs: list[Run]) -> dict[str, str]:
    """Kernel, image and QEMU of the runs, as written in their identities."""
    identities = [r.record["identity"] for r in runs]
    origins = {
        "kernel": {i["kernel"] for i in identities},
        "image": {i["image"][:12] for i in identities},
        "qemu": {store.engine(i) for i in identities},
    }
    return {what: ", ".join(sorted(values)) or "unknown" for what, values in origins.items()}


def figures_of(paper, results: Results) -> list[Figure]:
    """The figures of a paper's figures.py for which there are runs; it learns nothing of invalid ones."""
    valid = type(results)(results.paper, [(task, run) for task, run in results.found if run.valid])
    with style():
        drawings = [draw(valid) for draw in paper.FIGURES]
    return [figure for figure in drawings if figure]


def drawn(figure: Figure) -> dict[str, bytes]:
    """The figure as SVG and PNG, without date and version, and its data as CSV."""
    with style():
        return {
            "svg": saved(figure, "svg", metadata={"Date": None, "Creator": None}),
            "png": saved(figure, "png", dpi=150),
            "csv": figuredata.as_csv(figure.figure),
        }


def saved(figure: Figure, kind: str, **options) -> bytes:
    out = io.BytesIO()
    options = {"metadata": {"Software": None}} | options
    figure.figure.savefig(out, format=kind, facecolor="white", **options)
    return out.getvalue()


def small(figure: Figure) -> bytes:
    """A PNG of the curves of its first part, without words. The figure is of no use afterwards."""
    figure.figure.set_layout_engine("none")
    figure.figure.set_size_inches(SMALL)
    figure.figure.suptitle("")
    for first in figure.figure.axes[:1]:
        for other in (*figure.figure.axes[1:], *first.child_axes):
            other.remove()
        first.set(title="", xlabel="", ylabel="", position=(0.02, 0.03, 0.96, 0.94))
        first.set_title("", loc="left")
        first.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
        for words in (*first.texts, *filter(None, [first.get_legend()])):
            words.remove()
    with style():
        return saved(figure, "png", dpi=150)


def page(
    verdicts: list[dict],
    parts: list[dict],
    others: list[str],
    runs: list[Run],
    links: dict[str, str],
    which: str,
    speed: dict[str, str],
) -> str:
    """index.html. `parts`: what it shows of each paper. `others`: titles of those that were not run. `links`: to a
    run's page, by key."""
    runs = ordered(runs)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            parts=parts,
            others=others,
            counts=counts(v["verdict"] for v in verdicts),
            runs=runs,
            pages=links,
            numbers={r.record["key"]: (i, r.record["name"]) for i, r in enumerate(runs, 1)},
            scenarios=[(id, list(group)) for id, group in groupby(runs, key=lambda r: r.record["id"])],
            which=which,
            directions=directions,
            about=provenance(runs),
            speed=speed,
            wall_s=sum(r.record["wall_s"] for r in runs),
            virtual_s=sum(r.job.duration_s for r in runs),
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
            **by_direction(run),
        },
        "times": measures.times(run),
        "provenance": {
            "kernel": identity["kernel"],
            "image": identity["image"],
            "image_name": run.record.get("image_name", ""),
            "qemu": store.engine(identity),
            "objects": identity["objects"],
            "result_sha256": run.record["result_sha256"],
            "registered": run.record.get("registered", ""),
        },
    }


def by_direction(run: Run) -> dict[str, float]:
    """The sums of each direction, if there are two: NAME WAY."""
    ways = directions(run)
    return {f"{name} {way.name}": getattr(way, name) for way in ways if len(ways) > 1 for name in ONE_WAY}


def check(folder: Path) -> None:
    """A report replaces its folder: refuse one that holds anything else."""
    check_extra("report")
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
    only: list[str] | None = None,
    speed: dict[str, str] | None = None,
    *,
    folder: Path,
    claims: Iterable[Judged] = (),
    of: Mapping[str, list[str]] | None = None,
    image_name: str = "",
    run_pages: bool = True,
) -> None:
    """Replace the folder by a new report, whole. `only`: patterns of the cases, if the set was not run whole.
    `speed`: further measurements of the lab itself, label -> text. `of`: the keys of each paper's runs."""
    check(folder)
    results = {
        "format": 1,
        "set": which,
        "only": only or [],
        "commit": registered.head(),
        "image_name": image_name,
        "papers": dict(of or {}),
        "runs": [summary(r) for r in ordered(runs)],
    }
    files = {
        "verdicts.json": (json.dumps(verdicts, indent=1) + "\n").encode(),
        "verdicts.csv": records.table(COLUMNS, verdicts).encode(),
        "results.json": (json.dumps(results, indent=1) + "\n").encode(),
    } | {name: text.encode() for name, text in records.text_of(list(claims)).items()}
    shown: dict[str, list] = {v["paper"]: [] for v in verdicts}
    images_of: list[dict[str, bytes]] = []
    cached = pages.up_to_date(
        runs if run_pages else [],
        in_report=True,
        meanwhile=lambda: images_of.extend(drawn(figure) for _, figure in figures),
    )
    for (paper, figure), images in zip(figures, images_of):
        files |= {f"figures/{figure.id}.{kind}": data for kind, data in images.items()}
        shown.setdefault(paper, []).append((figure, images["svg"]))
    parts: list[dict] = []
    for paper, drawings in sorted(shown.items(), key=lambda item: item[0] == "matrix"):  # the last
        title, subject = papers.about(paper)
        of_paper = [v for v in verdicts if v["paper"] == paper]
        part = {"paper": paper, "title": title, "subject": subject, "figures": drawings, "verdicts": of_paper}
        first = small(drawings[0][0]) if drawings else b""
        parts.append(part | {"small": first, "counts": counts(v["verdict"] for v in of_paper)})
    _, others = by_measured(verdicts)
    left = [paper for paper in others if not shown[paper]]
    titles = [papers.about(paper)[0] for paper in left]
    parts = [part for part in parts if part["paper"] not in left]
    links = {key: f"runs/{key}.html" for key in cached}
    files["index.html"] = page(verdicts, parts, titles, runs, links, which, speed or {}).encode()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".report-") as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            for kind in ("figures", "runs"):
                (new / kind).mkdir(parents=True)
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
