# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Faults of one line that are planted in our laws, and in the kernel's TCP: how many paths does `asymlab explore` draw
until it finds one?

`python -m tests.lab.planted [FAULT ...]` searches for each, and prints the table of docs/testing.md. For the kernel's
it builds one, of the source that `asymlab image --engine uml` has unpacked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from asymlab import LabError
from asymlab.conformance.explore import explore
from asymlab.machine import build, image
from asymlab.paths import BUILD
from tests.live.harness import compile_bpf
from tests.shared import LAB, REPO

PATCHES = Path(__file__).parent
KERNEL = sorted(patch.stem for patch in (PATCHES / "kernel").glob("*.patch"))
LAWS = {  # where a fault is planted
    "growth": "fusion",
    "least": "fast",
    "mss": "formosa",
    "rounding": "bbr3",
    "twice": "taichung",
    "undone": "pseudorate",
}
SEED, PATHS = 57, 96


def patched(fault: Path, folder: Path, *options: str) -> None:
    with open(fault) as patch:
        subprocess.run(["patch", "-p1", "--fuzz=0", "--quiet", *options], stdin=patch, cwd=folder, check=True)


def planted(fault: str, folder: Path) -> Path:
    """The law's object, with the fault."""
    subprocess.run(["cp", "-r", REPO / "bpf", folder], check=True)
    patched(PATCHES / f"{fault}.patch", folder)
    law = LAWS[fault]
    compile_bpf(folder / "bpf" / "controllers" / f"{law}.bpf.c", folder / f"{law}.bpf.o", folder / "bpf")
    return folder / f"{law}.bpf.o"


def source() -> Path:
    """The tree of the lab's kernel."""
    trees = sorted((BUILD / "uml").glob("linux-source-6.12_*/.config"))
    if not trees:
        raise LabError("no source of a kernel; `asymlab image --engine uml --kernel 6.12 --fresh` unpacks it")
    return trees[-1].parent


def kernel(folder: Path, *faults: str, config: Path | None = None) -> image.Image:
    """An image of the lab's kernel with the faults."""
    subprocess.run(["cp", "-a", source(), folder / "tree"], check=True)
    for fault in faults:
        patched(PATCHES / "kernel" / f"{fault}.patch", folder / "tree")
    return image.open_image(build.build_uml_image(tree=folder / "tree", label="planted", config=config).name)


def first(paths: explore.Paths) -> str:
    """The number of paths until the first that breaks something, and what it breaks."""
    tally = explore.Tally()
    for trees in paths.rounds(PATHS, tally):
        if broken := explore.search(trees, None, paths.guest, tally):
            order = [*trees]
            name, what = min(broken, key=lambda one: order.index(one[0]))
            return f"{int(name.partition('-')[2]) + 1}, `{what.invariant}`"
    return "none"


def drawn(fault: str, folder: Path) -> explore.Paths:
    """Paths of the law, or of all laws on the kernel."""
    if fault in LAWS:
        return explore.Paths(SEED, [str(planted(fault, folder))], image.open_image(LAB))
    return explore.Paths(SEED, [], kernel(folder, fault))


def main() -> None:
    print("| fault | in | paths |\n| --- | --- | --- |")
    for fault in sys.argv[1:] or [*LAWS, *KERNEL]:
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {fault} | {LAWS.get(fault, 'kernel')} | {first(drawn(fault, Path(folder)))} |", flush=True)
