# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which controller fits your link, in some two minutes: `asymlab link`.

Each controller has the link for itself, in a run of the lab. In two more runs it shares the link with CUBIC: it begins
with CUBIC, and after it. A controller that starves there, or starves CUBIC, is advised only with --alone. The best ones
run beside CUBIC for longer (engine `uml`): some win slowly. NAME:PRESET is a controller with one of its presets, as
`asymcc load NAME --preset PRESET` sets it. NAME+thin is a sender NAME whose receiver thins its ACKs, as `asymcc thin`
does. With --loss Fusion has its preset `radio`, unless you name the controllers. The answer is a table, a picture, and
the commands to use the best at the sender, and at the receiver. For the other direction of the same line run it again,
with --rate and --reverse exchanged. --like NAME takes the numbers of a link that somebody has published, and says who;
--like list tells their names.

Rates and times have units, as in scenario files: 50mbit, 80ms. The command writes a scenario file into
build/link, beside the picture: `asymlab run` repeats it, and you may change it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace

from .. import LabError
from ..console import console
from ..machine.image import Image
from ..paths import BUILD, near
from ..plan import scenario
from ..plan.toml import toml
from ..results.store import CPU_LIMIT, Run
from ..run import cost
from ..run.tasks import Task, plan_runs
from . import path, real
from .answer import Beside, Row, advised, table, words
from .path import AFTER, BESIDE, MTU, OTHERS, THIN, Link
from .picture import picture

FOLDER = BUILD / "link"

Execute = Callable[[list[Task]], dict[str, Run] | None]


OPTIONS = ("rate", "trace", "reverse", "rtt", "jitter", "queue", "loss", "flows", "duration", "alone")


def asked(args: Namespace) -> Link:
    """The link of a command line."""
    given = {key: value for key in OPTIONS if (value := getattr(args, key)) is not None}
    if args.rate and args.trace:
        raise LabError("--rate, --trace: a link has one of both")
    if given.get("queue"):
        given |= {"back_queue": 0, "pie": ""}
    if args.like:
        return real.find(args.like).link(args.upload, given | ({"rate": ""} if args.trace else {}))
    if args.upload:
        raise LabError("--upload: goes with --like; without, exchange --rate and --reverse")
    for one, what in ((args.rate or args.trace, "--rate or --trace"), (args.rtt, "--rtt")):
        if not one:
            raise LabError(f"{what} is missing; or take a link of real life by --like NAME")
    return Link(**{"rate": "", **given})


def plan(link: Link, controllers: list[str], guest: Image) -> list[Task]:
    """The runs, by a scenario file of their own."""
    packet = cost.QEMU.packet
    if guest.engine == "qemu" and link.pps > (most := CPU_LIMIT * 1e9 * guest.clock_factor / packet):
        raise LabError(
            f"--rate {link.rate}: the guest's CPU carries {most * 8 * MTU / 1e9:.2g} Gbit/s at most, at some "
            f"{packet:.0f} instructions a packet: take a lower --rate, or --engine uml"
        )
    tasks = written(link.name, path.tree(link, path.points(link, path.names(controllers, link))), guest)
    console.print(f"link: {link.said()}")
    if link.like:
        console.print(f"like {link.like}: {'; '.join(real.LINKS[link.like].sources)}")
    console.print(f"runs of {link.duration_s:g} s, of which the last {link.measured_s:g} s are measured")
    for note in link.notes():
        console.print(f"note: {note}")
    return tasks


def written(name: str, tree: dict, guest: Image) -> list[Task]:
    """The runs of a scenario, which lies in a file of that name."""
    text = toml(tree)
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.toml"
    file.write_text(text)
    return plan_runs(scenario.load(file), guest)


def met(runs: dict[str, Run], name: str) -> Beside | None:
    """A controller's runs beside CUBIC, by their titles."""
    reference = runs.get(OTHERS + BESIDE)
    both = tuple(runs[name + where] for where in (BESIDE, AFTER) if name + where in runs and name != OTHERS)
    return Beside(both, reference) if reference and not name.endswith(THIN) else None


def lasting(link: Link, rows: list[Row], guest: Image, execute: Execute) -> list[Row]:
    """The rows, those with longer runs beside CUBIC that would be advised else: from the first on, until one shares."""
    tried: list[str] = []
    while link.lasting and guest.engine == "uml" and (first := advised(rows)) and not first.later:
        if first.name == OTHERS:
            break
        tried.append(first.name)
        console.print(f"whether {first.name} shares the link in runs of {link.lasting.duration_s:g} s:")
        tree = path.tree(link.lasting, path.meetings(link.lasting, tried))
        tasks = written(f"{link.name}-later", tree, guest)
        done = execute(tasks) or {}
        runs = {t.case.scenario.title: done[t.key] for t in tasks}
        rows = [replace(row, later=met(runs, row.name)) if row.name in tried else row for row in rows]
    return rows


def answer(link: Link, tasks: list[Task], done: dict[str, Run], guest: Image, execute: Execute) -> None:
    """Tell it, and draw it. `execute` makes the runs that it takes besides."""
    runs = {t.case.scenario.title: done[t.key] for t in tasks}
    rows = [Row(name, runs[name], met(runs, name)) for name in runs if not name.endswith((BESIDE, AFTER))]
    rows = lasting(link, rows, guest, execute)
    console.print(table(link, rows))
    for line in words(link, rows):
        console.print(line)
    file = FOLDER / f"{link.name}.png"
    file.write_bytes(picture(link, [r for r in rows if r.run.valid and r.rtt < float("inf")]))
    console.print(f"\npicture: {near(file)}\nscenario: {near(tasks[0].case.file)}")
