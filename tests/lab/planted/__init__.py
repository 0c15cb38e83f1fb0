# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Faults of one line that are planted in our laws: how many paths does `asymlab explore` draw until it finds one?

`python -m tests.lab.planted` searches for each, and prints the table of docs/testing.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from asymlab.conformance.explore import explore
from asymlab.machine import image
from tests.live.harness import compile_bpf
from tests.shared import LAB, REPO

PATCHES = Path(__file__).parent
LAWS = {  # where a fault is planted
    "growth": "fusion",
    "least": "fast",
    "mss": "formosa",
    "rounding": "bbr3",
    "undo": "pseudorate",
}
SEED, PATHS = 57, 96
PART = 16  # paths between two looks at what they broke


def planted(fault: str, folder: Path) -> Path:
    """The law's object, with the fault."""
    subprocess.run(["cp", "-r", REPO / "bpf", folder], check=True)
    with open(PATCHES / f"{fault}.patch") as patch:
        subprocess.run(["patch", "-p1", "--fuzz=0", "--quiet"], stdin=patch, cwd=folder, check=True)
    law = LAWS[fault]
    compile_bpf(folder / "bpf" / "controllers" / f"{law}.bpf.c", folder / f"{law}.bpf.o", folder / "bpf")
    return folder / f"{law}.bpf.o"


def first(paths: explore.Paths, guest: image.Image) -> str:
    """The number of paths until the first that breaks something, and what it breaks."""
    for number in range(0, PATHS, PART):
        trees = paths.drawn(PART, number)
        if broken := explore.search(trees, None, guest, explore.Tally()):
            order = [*trees]
            name, what = min(broken, key=lambda one: order.index(one[0]))
            return f"{int(name.partition('-')[2]) + 1}, `{what.invariant}`"
    return "none"


def main() -> None:
    guest = image.open_image(LAB)
    print("| fault | law | paths |\n| --- | --- | --- |")
    for fault in sys.argv[1:] or LAWS:
        with tempfile.TemporaryDirectory() as folder:
            paths = explore.Paths(SEED, [str(planted(fault, Path(folder)))], guest)
            print(f"| {fault} | {LAWS[fault]} | {first(paths, guest)} |", flush=True)
