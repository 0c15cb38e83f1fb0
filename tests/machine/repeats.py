# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Does the lab repeat to the byte? Short runs again and again: half of them while all cores are busy with other things,
and half by an image that was made a second time, with all that is in it.

    python -m tests.machine.repeats COUNT SECOND [--kernel 6.12] [--file SCENARIO] [--resume FILE]

SECOND is the build folder of the second image. No run comes from the store, and none goes there. The first run of each
case is what the others are compared with: all files that the agent left, and the number of instructions. Exit code 1
if any differs. With --resume an interrupted check goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from asymlab import LabError
from asymlab.machine import image, vm
from asymlab.machine.files import sha256
from asymlab.paths import BUILD, EXPERIMENTS
from asymlab.plan import scenario
from asymlab.run.local import cores, own_core
from asymlab.run.tasks import Task, plan_runs
from tests.live.resume import Progress

BUSY = "setpriv --pdeathsig KILL prlimit --cpu=600".split() + [sys.executable, "-c", "while True: sum(range(100000))"]
EXECUTED = "instructions"


def second_image(folder: Path, kernel: str, first: image.Image) -> image.Image:
    """SystemExit if it, or an object that a run brings along, is not what the first one is."""
    second = image.open_image(kernel, (folder / "image").resolve())
    objects = [f.name for f in BUILD.glob("*.bpf.o") if sha256(f) != sha256(folder / f.name)]
    if objects or second.hash != first.hash:
        sys.exit(f"made twice, and not the same: {', '.join(objects) or f'images {first.hash} and {second.hash}'}")
    return second


@contextlib.contextmanager
def load(wanted: bool) -> Iterator[None]:
    """Each core has something else to do, and one core has more of it."""
    busy = [subprocess.Popen(BUSY) for _ in range(len(cores()) + 1)] if wanted else []
    try:
        yield
    finally:
        for p in busy:
            p.kill()
            p.wait()


def result(task: Task, guest: image.Image) -> dict[str, str]:
    """The files that the run left, by name."""
    with own_core() as core:
        files, took = vm.run(guest, task.job, task.objects, core)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return hashes | {EXECUTED: str(took.get("executed"))}  # uml's engine counts none


def circumstances(number: int, cases: int) -> tuple[bool, bool]:
    """Repeats a run: beside a load, and by the second image. Four rounds of all cases have each combination once."""
    again = number // cases
    return bool(again % 2), bool(again // 2 % 2)


def repeat(count: int, tasks: list[Task], images: tuple[image.Image, image.Image], progress: Progress) -> int:
    """How many are identical."""
    same = 0
    for number in range(count):
        task = tasks[number % len(tasks)]
        busy, second = circumstances(number, len(tasks))
        if str(number) not in progress.done:
            with load(busy):
                try:
                    outcome = result(task, images[second])
                except LabError as e:
                    outcome = {"failed": str(e)}
            progress.note(str(number), outcome)
        outcome, first = progress.done[str(number)], progress.done[str(number % len(tasks))]
        other = [name for name in outcome.keys() | first.keys() if outcome.get(name) != first.get(name)]
        same += not other and EXECUTED in outcome
        if other or EXECUTED not in outcome:
            where = ", beside a load" * busy + ", second image" * second
            fault = outcome.get("failed") or "others: " + ", ".join(sorted(other))
            print(f"run {number + 1}: {task.name}{where}: {fault}")
        if (number + 1) % len(tasks) == 0 or number + 1 == count:
            print(f"{same} of {number + 1} identical", flush=True)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("second", type=Path, metavar="SECOND", help="build folder of the second image")
    parser.add_argument("--kernel", default=image.DEFAULT_KERNEL, help="image of both folders [%(default)s]")
    parser.add_argument("--file", type=Path, default=EXPERIMENTS / "bench" / "cases.toml:repeats", help="other runs")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="what is done is kept there")
    args = parser.parse_args()
    if args.count < 1:
        parser.error("COUNT must be 1 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the same command goes on from here"))
    began = time.monotonic()
    try:
        image.check_current(args.kernel)
        first = image.open_image(args.kernel)
        images = first, second_image(args.second, args.kernel, first)
        tasks = plan_runs(scenario.load(args.file), first)
    except LabError as e:
        sys.exit(str(e))
    progress = Progress(args.resume, (os.path.realpath(args.second), *(t.key for t in tasks)), [])
    print(f"two images of {first.kernel}, {first.hash[:12]} both, and all objects twice: the same", flush=True)
    same = repeat(args.count, tasks, images, progress)
    busy, by_second = (sum(how) for how in zip(*(circumstances(n, len(tasks)) for n in range(args.count))))
    summary = f"{busy} beside a load, {by_second} by the second image; {time.monotonic() - began:.0f} s since the start"
    print(f"{same} of {args.count} identical: {summary}")
    progress.finish()
    sys.exit(same != args.count)


if __name__ == "__main__":
    main()
