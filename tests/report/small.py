# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A report of one row and two runs, for the tests of what is published."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from asymlab.report import figuredata

RUN = {
    "name": "X-1 reno seed 1",
    "case": "X-1 reno",
    "seed": 1,
    "key": "k" * 32,
    "invalid": [],
    "command": "asymlab run experiments/papers/fast/x.toml --seed 1",
    "metrics": {},
    "provenance": {
        "kernel": "6.12.9",
        "image": "ab" * 32,
        "qemu": "QEMU emulator version 7.2",
        "objects": {"fast.bpf.o": "cd" * 32},
        "result_sha256": "ef" * 32,
        "registered": "0123456789ab",
    },
}
VERDICT = {
    "id": "X-1",
    "paper": "fast",
    "source": "Fig. 1",
    "claim": "goodput < 3 | 4",
    "paper_value": 2,
    "value": 2.5,
    "low": 2.25,
    "high": 2.75,
    "verdict": "not reproduced",
    "reason": "a queue",
    "runs": ["k" * 32],
    "n": 3,
    "check": False,
    "family": "X-1",
}


def write_report(folder: Path) -> Path:
    (folder / "figures").mkdir(parents=True)
    (folder / "verdicts.json").write_text(json.dumps([VERDICT]))
    (folder / "results.json").write_text(
        json.dumps(
            {
                "format": 1,
                "set": "full",
                "commit": "00aa11bb22cc",
                "runs": [RUN, RUN | {"key": "l" * 32, "invalid": ["CPU"]}],
            }
        )
    )
    Image.effect_noise((300, 150), 60).convert("RGB").save(folder / "figures" / "fast-one.png")
    point = ("Alone", "", "Mbit/s", "FAST", "", 1.0, 2.0, None, None)
    for name, points in (("fast-one", 1), ("fast-two", 10_000), ("fusion-one", 1)):
        rows = [figuredata.COLUMNS, *[point] * points]
        (folder / "figures" / f"{name}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        (folder / "figures" / f"{name}.parquet").write_bytes(figuredata.parquet([point] * points))
    Image.new("RGB", (300, 150)).save(folder / "figures" / "fast-two.png")
    Image.new("RGB", (300, 150)).save(folder / "figures" / "fusion-one.png")  # of another paper
    return folder


def everything(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
