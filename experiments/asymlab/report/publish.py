# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report made small enough to be kept in a repository.

README.md      date, provenance, and the verdict table of each paper
verdicts.json  the same for machines
runs.csv       each run: its key in the store, the hash of its results, the command that repeats it
figures/       of each figure the PNG, in few colours, and its data

The tables of the papers' pages beside the folder are filled from it (tables.py).
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from .. import LabError
from ..console import console
from ..paths import REPO
from . import reasons, tables
from .html import interval, number
from .verdicts import SYMBOLS

COLOURS = 64  # of a PNG; a third of the size, and the eye sees no difference
CSV_MAX = 150_000  # bytes; larger tables are kept as Parquet


def publish(report: Path, folder: Path) -> None:
    """Replace `folder` by what a report holds. LabError if there is none, or the folder is something else."""
    try:
        verdicts = json.loads((report / "verdicts.json").read_text())
        results = json.loads((report / "results.json").read_text())
        if results.get("format") != 1:
            raise LabError(f"{report}: its results.json is of another version; `asymlab suite` writes it anew")
        names = sorted(file.stem for file in (report / "figures").glob("*.png"))
        written = {
            "verdicts.json": json.dumps(verdicts, indent=1) + "\n",
            "runs.csv": runs_table(results["runs"]),
            "README.md": readme(verdicts, results, names),
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        raise LabError(f"{report}: no report of a suite ({e}); `asymlab suite` writes one") from None
    if folder.exists() and any(folder.iterdir()) and not (folder / "runs.csv").exists():
        raise LabError(f"{folder}: holds something else than published results; name an empty folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".publish-") as scratch:
            new = Path(scratch, "new")
            (new / "figures").mkdir(parents=True)
            for name, text in written.items():
                (new / name).write_text(text)
            for name in names:
                keep_figure(report / "figures", name, new / "figures")
            pages = tables.pages(new, folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
        for page, text in pages.items():
            page.write_text(text)
        for line in reasons.outdated((r["command"], r["provenance"]["result_sha256"]) for r in results["runs"]):
            if pages:
                console.print(line)
    except OSError as e:
        raise LabError(f"{e.filename or folder}: {e.strerror}") from None


def runs_table(runs: list[dict]) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("run", "key", "result_sha256", "valid", "command"))
    rows.writerows(
        (r["name"], r["key"], r["provenance"]["result_sha256"], int(not r["invalid"]), r["command"]) for r in runs
    )
    return out.getvalue()


def keep_figure(source: Path, name: str, folder: Path) -> None:
    from PIL import Image

    with Image.open(source / f"{name}.png") as picture:
        small = picture.convert("RGB").resize(
            (picture.width * 2 // 3, picture.height * 2 // 3), Image.Resampling.LANCZOS
        )
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
    table = source / f"{name}.csv"
    if table.stat().st_size > CSV_MAX:
        table = source / f"{name}.parquet"
    shutil.copyfile(table, folder / table.name)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def readme(verdicts: list[dict], results: dict, figures: list[str]) -> str:
    runs = results["runs"]
    about = {what: ", ".join(sorted({r["provenance"][what] for r in runs})) for what in ("kernel", "image", "qemu")}
    objects: dict[str, set[str]] = {}
    for r in runs:
        for name, digest in r["provenance"]["objects"].items():
            objects.setdefault(name, set()).add(digest)
    about |= {name: ", ".join(sorted(digests)) for name, digests in sorted(objects.items())}
    commit = subprocess.run(
        ["git", "-C", REPO, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    about = {"commit that made them, and repeats them to the byte": commit or "unknown"} | about
    counts = Counter(v["verdict"] for v in verdicts)
    lines = [
        "# What the suites gave",
        "",
        f"{datetime.date.today().isoformat()}, {len(runs)} runs of the {results['set']} set. "
        + ", ".join(f"{counts[name]} {name}" for name in SYMBOLS)
        + ".",
        "",
        *(f"- {cell(what)}: {cell(value)}" for what, value in about.items()),
        "",
        "`ours` is the mean over the seeds, with its 95 % interval; n counts runs. Every run's key, hash and command "
        "are in [runs.csv](runs.csv); the figures' data lie beside them in [figures](figures). "
        "Written by `asymlab publish` from a report; `make experiments SUITE=all` makes that.",
        "",
    ]
    for paper in dict.fromkeys(v["paper"] for v in verdicts):
        lines += [
            f"## {paper}",
            "",
            "| | claim | paper | ours | 95 % interval | n | verdict |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for v in verdicts:
            if v["paper"] == paper:
                said = f"{SYMBOLS[v['verdict']]} {v['verdict']}" + (f": {v['reason']}" if v["reason"] else "")
                lines.append(
                    "| "
                    + " | ".join(
                        cell(x)
                        for x in (
                            v["id"],
                            f"{v['source']}: {v['claim']}",
                            number(v["paper_value"]),
                            number(v["value"]),
                            interval(v),
                            str(v["n"]),
                            said,
                        )
                    )
                    + " |"
                )
        lines.append("")
    lines += ["## Figures", "", *(f"![{name}](figures/{quote(name)}.png)\n" for name in figures)]
    return "\n".join(lines).rstrip("\n") + "\n"
