# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Faults of one line that are planted in our laws: how many paths does `asymlab explore` draw until it finds one?

`python -m tests.lab.planted` searches for each, by draws alone and guided, and prints the table of docs/testing.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from asymlab.conformance.explore import explore
from asymlab.conformance.explore.guide import GENERATION, Guide
from asymlab.machine import image
from tests.live.harness import compile_bpf
from tests.shared import LAB, REPO

PATCHES = Path(__file__).parent
LAWS = {"rounding": "bbr3", "least": "fast", "mss": "formosa", "undo": "pseudorate"}  # where a fault is planted
SEED, PATHS = 57, 96


def planted(fault: str, folder: Path) -> Path:
    """The law's object, with the fault."""
    subprocess.run(["cp", "-r", REPO / "bpf", folder], check=True)
    with open(PATCHES / f"{fault}.patch") as patch:
        subprocess.run(["patch", "-p1", "--fuzz=0", "--quiet"], stdin=patch, cwd=folder, check=True)
    law = LAWS[fault]
    compile_bpf(folder / "bpf" / "controllers" / f"{law}.bpf.c", folder / f"{law}.bpf.o", folder / "bpf")
    return folder / f"{law}.bpf.o"


def drawn(paths: explore.Paths) -> Iterator[explore.Generation]:
    trees = [*paths.drawn(PATHS).items()]
    yield from (dict(trees[first : first + GENERATION]) for first in range(0, PATHS, GENERATION))


def first(generations: Iterator[explore.Generation], guest: image.Image, guide: Guide) -> str:
    """The number of paths until the first that breaks something, and what it breaks."""
    for trees, broken in explore.search(generations, None, guest, guide, explore.Tally()):
        order = [*trees]
        if broken:
            name, what = min(broken, key=lambda one: order.index(one[0]))
            return f"{int(name.partition('-')[2]) + 1} ({what.invariant})"
    return f"none in {PATHS}"


def main() -> None:
    guest = image.open_image(LAB)
    print("| fault | law | by draws alone | guided |\n| --- | --- | --- | --- |")
    for fault in sys.argv[1:] or LAWS:
        with tempfile.TemporaryDirectory() as folder:
            paths, guide = explore.Paths(SEED, [str(planted(fault, Path(folder)))], guest), Guide()
            alone, guided = first(drawn(paths), guest, Guide()), first(paths.guided(PATHS, guide), guest, guide)
        print(f"| {fault} | {LAWS[fault]} | {alone} | {guided} |", flush=True)
