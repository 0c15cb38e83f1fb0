# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Fuzzes controllers, guided by coverage: stream.h makes commands of bytes, rules.h tells what holds after each. And
`uplink`, the meter and the law of `asymcc uplink`: strangers.c has its steps and its rules.

    python -m host.fuzz [--seconds N] [--seed N] [CONTROLLER ...]    each controller
    python -m host.fuzz --keep [CONTROLLER ...]                      what was found becomes the corpus: as few
                                                                     inputs as cover the same
    python -m host.fuzz --replay build/host/NAME.fail                one stream again

Inputs begin from tests/algorithms/host/corpus/NAME.txt, one a line in hex; new ones are kept in build/fuzz/NAME. An
input that fails becomes a stream of commands, which is made as short as it can be and written to build/host/NAME.fail.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import forwarded
from .driver import HERE, OUT, TOP, build, controllers

CORPUS = HERE / "corpus"
FOUND = TOP / "build" / "fuzz"
SHARED = TOP / "bpf" / "sender.bpf.h"  # of all; others are counted with each controller that includes them
LONGEST = 512  # bytes of an input
UPLINK = "uplink"  # no controller


def targets() -> list[str]:
    return [*controllers(), UPLINK]


def program(name: str, source: Path | None = None) -> Path:
    """For `uplink` the source is a folder: a tree with changes."""
    if name != UPLINK:
        return build(name, source)
    return forwarded.build("strangers", True, *([source, source / "host"] if source else []))


# --- runs ---------------------------------------------------------------------------------


def corpus(name: str) -> list[Path]:
    """A controller's inputs as libFuzzer takes them: a folder with a file each, if it has any."""
    packed, folder = CORPUS / f"{name}.txt", FOUND / "corpus" / name
    if not packed.exists():
        return []
    with tempfile.TemporaryDirectory(dir=OUT) as made:
        for number, line in enumerate(packed.read_text().split("\n")[:-1]):
            Path(made, f"{number:04}").write_bytes(bytes.fromhex(line))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
    return [folder]


@dataclass
class Run:
    """One run of libFuzzer with a controller."""

    name: str
    binary: Path
    fixed: tuple[str, ...]
    executions: int
    words: str  # of libFuzzer and the sanitizers
    failed: bool
    profile: Path
    crash: Path  # the input that failed


def fuzz(
    name: str, *options: str, fixed: tuple[str, ...] = (), source: Path | None = None, found: Path | None = None
) -> Run:
    """libFuzzer with these options from the corpus; new inputs go to `found`. Parameters in `fixed` ("NAME=VALUE")
    stay."""
    binary, found = program(name, source), found or FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    crash, profile = found.with_suffix(".crash"), found.with_suffix(".profraw")
    crash.unlink(missing_ok=True)
    ran = subprocess.run(
        [
            binary,
            *fixed,
            *options,
            f"-exact_artifact_path={crash}",
            f"-max_len={LONGEST}",
            "-len_control=1",
            "-timeout=20",
            "-print_final_stats=1",
            found,
            *corpus(name),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "LLVM_PROFILE_FILE": str(profile)},
    )
    executions = re.search(r"number_of_executed_units: +(\d+)", ran.stderr)
    return Run(
        name, binary, fixed, int(executions[1]) if executions else 0, ran.stderr, ran.returncode != 0, profile, crash
    )


# --- coverage -----------------------------------------------------------------------------


@dataclass
class Branches:
    """How many ways out of a source's conditions there are, how many were taken, and where the others are."""

    name: str
    count: int
    covered: int
    missed: list[str]

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.count

    def __str__(self) -> str:
        return f"{self.name:16} {self.covered:4} of {self.count:4} branches {self.percent:6.1f} %"


def parts(name: str) -> list[Path]:
    """A controller's sources: NAME.bpf.c, the headers in NAME/ beside it, and those of bpf/ that serve not all."""
    if name == UPLINK:
        return [TOP / "bpf" / "tools" / "uplink.bpf.c", TOP / "loader" / "uses" / "uplink_law.c"]
    source = controllers()[name]
    own = [source, *sorted((source.parent / name).glob("*.bpf.h"))]
    text = "".join(path.read_text() for path in own)
    shared = ("wire.bpf.h", "ack_filter.bpf.h", "slowstart.bpf.h", "fair.bpf.h")
    return own + [TOP / "bpf" / header for header in shared if f'{header}"' in text]


def branches(sources: list[Path], runs: list[Run]) -> Branches:
    """The branches of these sources that these runs took, named by the first source."""
    profile = FOUND / f"{sources[0].name}.profdata"
    subprocess.run(["llvm-profdata", "merge", "-o", profile, *(run.profile for run in runs)], check=True)
    first, *more = [run.binary for run in runs]
    told = subprocess.run(
        [
            *("llvm-cov", "export", f"-instr-profile={profile}", first),
            *(f"-object={binary}" for binary in more),
            *sources,
        ],
        check=True,
        capture_output=True,
    )
    files = {Path(file["filename"]): file for file in json.loads(told.stdout)["data"][0]["files"]}
    missed = [
        f"{path.name}:{line}: never {way}: {path.read_text().splitlines()[line - 1].strip()}"
        for path, file in files.items()
        for line, _, _, _, yes, no, *_ in file["branches"]
        for way, count in (("true", yes), ("false", no))
        if not count
    ]
    sums = [sum(file["summary"]["branches"][what] for file in files.values()) for what in ("count", "covered")]
    return Branches(sources[0].name, *sums, missed)


# --- what fails ---------------------------------------------------------------------------


def failure(binary: Path, lines: list[str]) -> str | None:
    """The rule that a stream breaks, or the sanitizers' words; None if it holds."""
    ran = subprocess.run([binary, "judge"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    return (ran.stderr or ran.stdout.splitlines()[-1]) if ran.returncode else None


def lines_of(run: Run) -> list[str]:
    """The stream that the input stands for which failed."""
    return subprocess.run(
        [run.binary, *run.fixed, "lines", run.crash], capture_output=True, text=True
    ).stdout.splitlines()


def kind(words: str | None) -> str:
    """A failure's rule, or the sanitizer's name for it, without the numbers."""
    return re.sub(r"0x[0-9a-f]+|\d+", "N", (words or "").partition("\n")[0].partition(": ")[0])


def shortest(binary: Path, lines: list[str], patience: int = 300) -> list[str]:
    """Leaves out what the same failure does not need, long parts first."""
    wanted, part = kind(failure(binary, lines)), len(lines)
    while part and patience:
        at, before = 0, len(lines)
        while at < len(lines) and patience:
            fewer = lines[:at] + lines[at + part :]
            patience -= 1
            if fewer and kind(failure(binary, fewer)) == wanted:
                lines = fewer
            else:
                at += part
        if part > 1 or len(lines) == before:  # a line may have been needed only for one that is gone
            part //= 2
    return lines


def explain(run: Run) -> str:
    """The shortest stream that fails too, and how to see it again."""
    if run.name == UPLINK:
        return f"{run.words[-4000:]}\nagain: make fuzz REPLAY={run.crash}"
    lines = lines_of(run) if run.crash.exists() else []
    if not failure(run.binary, lines):
        return run.words[-4000:]
    lines = shortest(run.binary, lines)
    path = OUT / f"{run.name}.fail"
    path.write_text("\n".join(lines) + "\n")
    again = f"make fuzz REPLAY={path.relative_to(TOP)}"
    return f"{failure(run.binary, lines)}\n{run.name}, {len(lines)} commands; again: {again}"


# --- the command --------------------------------------------------------------------------


def search(names: list[str], seconds: float, seed: int) -> bool:
    """Each CPU fuzzes one controller at a time; one that ends early leaves its time to nobody."""
    jobs = min(os.cpu_count() or 1, len(names))
    each = max(1, int(seconds * jobs / len(names)))
    began = time.monotonic()

    def one(name: str) -> Run:
        run = fuzz(name, f"-max_total_time={each}", f"-seed={seed}")
        state = "FAILED" if run.failed else branches(parts(name), [run])
        print(f"{time.monotonic() - began:6.0f} s {name:14} {run.executions:11,} executions  {state}", flush=True)
        return run

    print(f"seed {seed}")
    with ThreadPoolExecutor(jobs) as pool:
        runs = [*pool.map(one, names)]
    print(f"{sum(run.executions for run in runs):,} executions")
    for run in runs:
        if run.failed:
            print(explain(run))
    return not any(run.failed for run in runs)


def keep(name: str) -> None:
    """Writes the fewest inputs of corpus and finds that cover the same."""
    with tempfile.TemporaryDirectory() as folder:
        old = [*corpus(name), *(path for path in [FOUND / name] if path.exists())]
        subprocess.run(
            [program(name), "-merge=1", "-use_counters=0", f"-max_len={LONGEST}", folder, *old],
            check=True,
            capture_output=True,
        )
        inputs = sorted({path.read_bytes() for path in Path(folder).iterdir()}, key=lambda one: (len(one), one))
    (CORPUS / f"{name}.txt").write_text("".join(one.hex() + "\n" for one in inputs))
    print(f"{name:14} {len(inputs):4} inputs {sum(map(len, inputs)):6} bytes", flush=True)


def replay(path: Path) -> bool:
    """The stream with its answers, and what it breaks."""
    if path.stem == UPLINK:
        ran = subprocess.run([program(UPLINK), path])
    else:
        ran = subprocess.run([build(path.stem), "judge"], input=path.read_text(), text=True)
    print("holds" if not ran.returncode else "fails")
    return not ran.returncode


def main() -> bool:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("controllers", nargs="*", metavar="CONTROLLER", default=targets())
    words.add_argument("--seconds", type=float, default=300, help="for all controllers together")
    words.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    words.add_argument("--keep", action="store_true")
    words.add_argument("--replay", type=Path, metavar="FILE")
    args = words.parse_args()
    if args.replay:
        return replay(args.replay)
    if args.keep:
        return not any([keep(name) for name in args.controllers])
    return search(args.controllers, args.seconds, args.seed)


if __name__ == "__main__":
    sys.exit(not main())
