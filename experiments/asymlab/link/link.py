# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which controller fits your link, in some two minutes: `asymlab link`.

Each controller has the link for itself, in a run of the lab. Then it is asked what users do: CUBIC uploads beside it;
it shares the link with CUBIC, begun with it and after it; four of its flows meet four of CUBIC; its replies are short.
A controller that has less than half of what CUBIC has there, or leaves others less than half, is not advised and not
asked the next; --alone asks nothing of this. The best one runs beside CUBIC for longer (engine `uml`): some win
slowly. NAME:PRESET is a controller with one of its presets, as `asymcc load NAME --preset PRESET` sets it. NAME+thin
is a sender NAME whose receiver thins its ACKs, as `asymcc thin` does. With --loss Fusion has its preset `radio`,
unless you name the controllers. If neither CUBIC nor the best keeps half of a download and half of an upload beside
it, one more run has `asymcc uplink` on the router ahead of the modem. The answer is a table, a picture, and the
commands to use the best at the sender, and at the receiver. For the other direction of the same line run it again,
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
from ..report.drawing import keep
from ..results.store import CPU_LIMIT, Run
from ..run import cost
from ..run.tasks import Task, plan_runs
from . import path, real
from .answer import advised, contenders, senders, table, words
from .path import AFTER, BESIDE, FOUR, MTU, OTHERS, REPLIES, THIN, UPLOAD, Link
from .picture import picture
from .row import HALF, QUESTIONS, Beside, Replies, Row, Upload, invalid

FOLDER = BUILD / "link"

Execute = Callable[[list[Task]], dict[str, Run] | None]


OPTIONS = ("rate", "trace", "reverse", "rtt", "jitter", "queue", "loss", "flows", "duration", "alone", "tuned")


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


def rows_of(runs: dict[str, Run], names: list[str]) -> list[Row]:
    """The rows by the runs there are, which their titles name."""

    def beside(name: str, *where: str) -> Beside | None:
        own = tuple(runs[name + end] for end in where if name + end in runs)
        reference = runs.get(OTHERS + where[0])
        if not reference or not own:
            return None
        return Beside(() if name == OTHERS else own, reference)

    def row(name: str) -> Row:
        pairs = [(runs.get(name + where), runs.get(OTHERS + where)) for where in (UPLOAD, REPLIES)]
        upload, replies = ((own, usual) if own and usual else None for own, usual in pairs)
        return Row(
            name,
            runs[name],
            runs.get(OTHERS),
            Upload(*upload) if upload else None,
            beside(name, BESIDE, AFTER),
            beside(name, FOUR),
            Replies(*replies) if replies else None,
        )

    return [row(name) for name in names]


# The question that leaves out most comes first.
STAGES = ((UPLOAD,), (BESIDE, AFTER), (FOUR, REPLIES))


def in_turn(tasks: list[Task], names: list[str], execute: Execute) -> list[Row] | None:
    """The rows of these. One that fails a question, or is behind CUBIC, is not asked the next."""
    of = {t.case.scenario.title: t for t in tasks}
    runs: dict[str, Run] = {}

    def ask(titles: list[str]) -> bool:
        fresh = [title for title in dict.fromkeys(titles) if title in of and title not in runs]
        done = execute([of[title] for title in fresh]) if fresh else {}
        runs.update({title: done[of[title].key] for title in fresh} if done else {})
        return done is not None

    if not ask([*names, OTHERS]):
        return None
    for where in STAGES:
        rows = rows_of(runs, names)
        # Before uploads the rule does not know the most.
        left = [row.name for row in (senders(rows) if where == STAGES[0] else contenders(rows)) if row.serves]
        thinned = [name for name in names if name.endswith(THIN)]
        if set(left) <= {OTHERS} and where != STAGES[0]:
            break
        if not any(name + w in of for w in where for name in names):
            break
        console.print(f"with {' and '.join(QUESTIONS[w] for w in where if w in QUESTIONS)}: {', '.join(left)}")
        if not ask([name + w for w in where for name in (OTHERS, *left, *thinned)]):
            return None
    return rows_of(runs, names)


def lasting(link: Link, rows: list[Row], guest: Image, execute: Execute) -> list[Row]:
    """The rows, those with longer runs beside CUBIC that would be advised else: from the first on, until one shares."""
    reference = next((row.beside.reference for row in rows if row.beside), None)
    while link.lasting and guest.engine == "uml" and (first := advised(rows)) and not first.later:
        if first.name == OTHERS or not reference:
            break
        console.print(f"whether {first.name} shares the link in a run of {link.lasting.duration_s:g} s:")
        tree = path.tree(link.lasting, [path.point(link.lasting, first.name, BESIDE)])
        tasks = written(f"{link.name}-later", tree, guest)
        if not (done := execute(tasks)):
            break
        later = Beside((done[tasks[0].key],), reference)
        rows = [replace(row, later=later) if row is first else row for row in rows]
    return rows


def shaped(link: Link, rows: list[Row], guest: Image, execute: Execute) -> Upload | None:
    """CUBIC with an upload and `asymcc uplink`, by a run of its own. None: no need, or nobody asks."""
    row = next((row for row in rows if row.upload and row.usual), None)
    if not row or not row.upload or not row.usual or invalid(row.usual, row.upload.reference):
        return None
    usual, first = row.upload.reference, advised(rows)
    ways = [Upload(usual, usual), *([first.upload] if first and first.upload else [])]
    if max(way.kept(row.usual) for way in ways) >= HALF:
        return None
    console.print(f"{OTHERS}{UPLOAD}, and `asymcc uplink` on the router:")
    tasks = written(f"{link.name}-uplink", path.shaped(link), guest)
    return Upload(done[tasks[0].key], usual) if (done := execute(tasks)) else None


def outcome(link: Link, controllers: list[str], tasks: list[Task], guest: Image, execute: Execute) -> list[Row] | None:
    """The rows, by the runs that it takes. None: `execute` has made none."""
    rows = in_turn(tasks, path.names(controllers, link), execute)
    return rows and lasting(link, rows, guest, execute)


def answer(link: Link, controllers: list[str], tasks: list[Task], guest: Image, execute: Execute) -> None:
    """Make the runs that it takes, tell it, and draw it."""
    if not (rows := outcome(link, controllers, tasks, guest, execute)):
        return
    console.print(table(link, rows))
    for line in words(link, rows, shaped(link, rows, guest, execute)):
        console.print(line)
    file = FOLDER / f"{link.name}.png"
    valid = [row for row in rows if row.run.valid and row.rtt < float("inf")]
    console.print(f"\n{keep(file, lambda: picture(link, valid))}\nscenario: {near(tasks[0].case.file)}")
