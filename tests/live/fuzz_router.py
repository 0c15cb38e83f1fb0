# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Very many packets for `asymcc thin --dev` in this machine's kernel, as root: is nothing dropped but plain ACKs?

    python -m tests.live.fuzz_router COUNT [--resume FILE]

Prints how many there were, and how many were dropped; exit code 1 if one was that is no plain ACK. With --resume an
interrupted run goes on.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from tests.live.harness import ROOT, compile_bpf, run
from tests.live.resume import Progress

HERE = ROOT / "tests" / "live"
PART = 500_000  # packets of a seed


def build(folder: Path) -> list[Path]:
    """The command, and the object that it takes."""
    files = [folder / "fuzz_router", folder / "fuzz_router.bpf.o"]
    run("cc", *"-O2 -Wall -Wextra -D_GNU_SOURCE -o".split(), files[0], HERE / "fuzz_router.c", "-lbpf")
    compile_bpf(HERE / "fuzz_router.bpf.c", files[1])
    return files


def fuzz(files: list[Path], seed: int, count: int) -> tuple[int, int, int]:
    """Packets, those that were dropped, and those that the kernel refuses to a test."""
    done = subprocess.run([*map(str, files), str(seed), str(count)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    packets, dropped, refused = map(int, done.stdout.split())
    return packets, dropped, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--resume", type=Path)
    args = parser.parse_args()
    sources = [*ROOT.glob("bpf/*.h"), *ROOT.glob("bpf/tools/thin*"), *HERE.glob("fuzz_router.*")]
    progress = Progress(args.resume, [PART], sources)
    with tempfile.TemporaryDirectory() as folder:
        files = build(Path(folder))
        for seed in range(-(-args.count // PART)):
            if str(seed) not in progress.done:
                progress.note(str(seed), fuzz(files, seed, PART))
    packets, dropped, refused = map(sum, zip(*progress.done.values(), strict=True))
    print(f"{packets} packets: {dropped} dropped, all of them plain ACKs; {refused} are none that a device delivers")
    progress.finish()


if __name__ == "__main__":
    main()
