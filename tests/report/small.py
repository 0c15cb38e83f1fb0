# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report of one row and two runs, for the tests of what is published."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from asymlab.report import figuredata, records
from asymlab.report.judged import Judged, Sample

PROVENANCE = {
    "kernel": "6.12.9",
    "image": "ab" * 32,
    "qemu": "QEMU emulator version 7.2",
    "objects": {"fast.bpf.o": "cd" * 32},
    "result_sha256": "ef" * 32,
    "registered": "0123456789ab",
}


def run(case: str, seed: int, **more) -> dict:
    """A run as a report's results.json has it."""
    return {
        "name": f"{case} seed {seed}",
        "case": case,
        "seed": seed,
        "key": f"{case}{seed}".encode().hex().ljust(32, "0")[:32],
        "invalid": [],
        "command": f"asymlab run experiments/papers/fast/x.toml --seed {seed}",
        "metrics": dict.fromkeys(records.Metrics.model_fields),
        "provenance": PROVENANCE,
    } | more


RUN = run("X-1 reno", 1)
RUNS = [RUN, run("X-1 reno", 2, invalid=["CPU"])]


def claim(id: str, runs: list[dict], *values: float | None, **more) -> Judged:
    """With such a value for each run; 2.5 if none is given, which misses the bound."""
    found = values or [2.5] * len(runs)
    about = {"paper": "fast", "source": "Fig. 1", "claim": "goodput < 3 | 4", "paper_value": 2, "at_most": 2}
    samples = [Sample(r["seed"], r["key"], value) for r, value in zip(runs, found, strict=True)]
    return Judged(**{"id": id, "family": id, "samples": samples} | about | more)


CLAIM = claim("X-1", RUNS[:1], left_out={RUNS[1]["key"]: "X-1 reno seed 2 is invalid: CPU"})


def write(folder: Path, claims: list[Judged], runs: list[dict], paper: str = "fast", **more) -> Path:
    """A report's data."""
    for name, text in records.text_of(claims).items():
        (folder / name).write_text(text)
    results = {"format": 1, "set": "full", "only": [], "commit": "00aa11bb22cc", "image_name": "6.12", "runs": runs}
    results |= {"papers": {paper: [r["key"] for r in runs]}} | more
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "verdicts.json").write_text(json.dumps([{"id": c.id, "verdict": c.verdict} for c in claims]))
    return folder


def write_report(folder: Path) -> Path:
    (folder / "figures").mkdir(parents=True)
    Image.effect_noise((300, 150), 60).convert("RGB").save(folder / "figures" / "fast-one.png")
    point = ("Alone", "", "Mbit/s", "FAST", "", 1.0, 2.0, None, None)
    for name, points in (("fast-one", 1), ("fast-two", 10_000), ("fusion-one", 1)):
        rows = [figuredata.COLUMNS, *[point] * points]
        (folder / "figures" / f"{name}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    Image.new("RGB", (300, 150)).save(folder / "figures" / "fast-two.png")
    Image.new("RGB", (300, 150)).save(folder / "figures" / "fusion-one.png")  # of another paper
    return write(folder, [CLAIM], RUNS)


def repack(folder: Path, change: Callable[[dict], object]) -> None:
    """Change what a published part holds."""
    file = folder / records.DATA
    data = json.loads(lzma.decompress(file.read_bytes()))
    change(data)
    file.write_bytes(lzma.compress(json.dumps(data).encode()))


def everything(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
