# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the tables behind docs/choosing.md: build/venv/bin/python experiments/choosing/table.py [NAME ...]

NAME is a sweep of this folder, alone, beside, loss, jitter, acks; or `real`, the links of real life; `trials`, the
advice on ten of these in other runs; `controllers`, the table of the README. `pages` writes all of them, and what
`asymlab link` gives, into measured.md, docs/choosing.md and README.md. It runs what the store does not hold: all of it
takes some hours by the engine qemu, and some 50 minutes of a core by uml.

In a sweep a cell has goodput in Mbit/s, then the mean RTT above the empty path's in ms; beside CUBIC it has what CUBIC
has instead.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

from asymlab import controllers
from asymlab.commands.link import link_options
from asymlab.link import answer, link, path, real
from asymlab.link.path import OTHERS, THIN, UPLOAD, Link
from asymlab.link.row import Row, mean_rate
from asymlab.options import image_of, run_lab
from asymlab.paths import BUILD, REPO
from asymlab.plan import scenario
from asymlab.plan.toml import toml
from asymlab.report import columns
from asymlab.results.store import Run
from asymlab.run.tasks import plan_runs
from asymlab.table import left, markdown, right

HERE = Path(__file__).parent
SWEEPS = ("alone", "beside", "loss", "jitter", "acks")
PAGES = (HERE / "measured.md", REPO / "docs" / "choosing.md", REPO / "README.md")
SCRIPT = "build/venv/bin/python experiments/choosing/table.py "
# A command of a page, and all behind it up to the next one or the next heading. In a block of code its output stands
# below it there.
OUTPUT = re.compile(rf"^(    (?:{SCRIPT}|build/venv/bin/asymlab )(.+)\n\n)((?:(?!    |#).*\n)*)", re.M)
SAMPLE = re.compile(r"^(    build/venv/bin/asymlab (link .+)\n)((?:    link: .*\n)(?:    .*\n|\n(?=    ))*)", re.M)
SHOWN = re.compile("link: | |Reasons?|In runs|If |Only |From |Beside |Leave |It is |$")
MARKED = re.compile(r"(<!-- table\.py (\w+) -->\n)(.*?)(<!-- end of table -->\n)", re.DOTALL)

# Ten of the links, of each kind one or two; what a trial changes; and how much of the best is enough.
TRIED = (
    *("docsis-3.0", "cable-cox", "cable-5", "gpon", "adsl2+"),
    *("lte", "mobile-verizon", "5g", "leo", "geo-viasat"),
)
TRIALS = ("another seed", "four flows", "an upload", "for long")
SEED, ENOUGH = 2, 0.9
OURS = ("fast", "formosa", "fusion", "taichung", "pseudorate", "bbr3", "bbr")


# --- the sweeps ------------------------------------------------------------------------------


def cell(run: Run) -> str:
    if not run.valid:
        return "invalid"
    first, *others = run.metrics["flows"]
    if others:
        return f"{first['goodput_bps'] / 1e6:.3g} / {others[0]['goodput_bps'] / 1e6:.3g}"
    row = Row(first["controller"], run)
    return f"{row.goodput / 1e6:.3g}, {1e3 * row.rtt - run.job.probes[0].base_rtt_us / 1e3:.0f}"


def sweep(name: str) -> str:
    return columns.table(columns.runs(HERE / f"cases.toml:{name}"), cell, lambda name: controllers.of(name).label)


# --- one link --------------------------------------------------------------------------------


def asked(words: str) -> argparse.Namespace:
    """The options of `asymlab link WORDS`."""
    parser = argparse.ArgumentParser()
    link_options(parser)
    return parser.parse_args(shlex.split(words))


@cache
def tried(words: str) -> tuple[Link, list[Row]]:
    """A link, and what each controller has there."""
    args = asked(words)
    one, guest = link.asked(args), image_of(args)
    tasks = link.plan(one, args.controllers, guest)
    rows = link.outcome(one, args.controllers, tasks, guest, lambda more: run_lab(args, more, guest))
    assert rows, "run_lab makes all runs unless an option says otherwise"
    return one, rows


def label(name: str) -> str:
    base, preset = path.split(name)
    return controllers.of(base).label + (f", `{preset}`" if preset else "") + (", thinned" if THIN in name else "")


def queue_ms(one: Link, row: Row) -> float:
    return 1e3 * row.rtt - one.rtt_us / 1e3


def of_link(words: str) -> str:
    """A column for each controller; then the advice."""
    one, rows = tried(words)
    lines = {"Mbit/s": [f"{row.goodput / 1e6:.3g}" for row in rows], "queue": [f"{queue_ms(one, r):.0f}" for r in rows]}
    if not one.alone:
        lines |= zip(answer.PAIRS, zip(*map(answer.cells, rows)))
    table = markdown(left("") + right(*(label(row.name) for row in rows)), [[k, *v] for k, v in lines.items()])
    later = [(row, row.later) for row in rows if row.later]
    lasting = (
        [f"In runs of {one.lasting.duration_s:g} s {line}" for line in answer.sharing(later)] if one.lasting else []
    )
    return "\n".join([*table, "", answer.sending(one, rows)[0], *lasting])


# --- links of real life ----------------------------------------------------------------------


def real_links() -> dict[str, tuple[Link, list[Row]]]:
    return {name: tried(f"--like {name}") for name in real.LINKS}


def advice(rows: list[Row]) -> Row:
    """CUBIC if nothing is better."""
    first = answer.advised(rows)
    assert first, "CUBIC is tried, and cannot fail"
    return first


def verdict(rows: list[Row], name: str) -> str:
    row = next(row for row in rows if row.name == name)
    if row is advice(rows):
        return "advised"
    return ", ".join(answer.SHORT[where] for where in row.fails()) or "behind"


def of_real() -> str:
    """The advice on each, beside what CUBIC has; and what each controller fails."""
    numbers, fails = [], []
    for name, (one, rows) in real_links().items():
        first, usual = advice(rows), next(row for row in rows if row.name == OTHERS)
        about = [name, f"{one.rate_bps / 1e6:.3g}, {one.reverse_bps / 1e6:.3g}", f"{one.rtt_us / 1e3:g}"]
        shown = [f"{r.goodput / 1e6:.3g}, {queue_ms(one, r):.0f}" for r in (first, usual)]
        uploads = [answer.cells(r)[0] for r in (first, usual)]
        best = answer.best(answer.senders(rows), alone=True)
        numbers.append([*about, "none" if first is usual else label(first.name), *shown, *uploads, label(best.name)])
        fails.append([name, *(verdict(rows, c) for c in OURS)])
    head = left("link") + right("down, up", "RTT") + left("advised")
    head += right("alone", "CUBIC", "with an upload", "CUBIC") + left("if nobody shares it")
    words = markdown(left("link", *map(label, OURS)), fails)
    return "\n".join([*markdown(head, numbers), "", *words])


def of_controllers() -> str:
    """In how many of these links each serves, and where it fails."""
    rows_of = [rows for _, rows in real_links().values()]
    lines = []
    for name in OURS:
        own = [next(row for row in rows if row.name == name) for rows in rows_of]
        fails = Counter(answer.SHORT[where] for row in own for where in row.fails())
        best = sum(row is advice(rows) for row, rows in zip(own, rows_of))
        counts = [str(sum(row.serves for row in own)), str(best)]
        lines.append([f"`{name}`", *counts, ", ".join(f"{what} {n}" for what, n in fails.most_common())])
    head = left("controller") + right(f"serves on, of {len(rows_of)}", "advised on") + left("fails on")
    return "\n".join(markdown(head, lines))


# --- the advice in other runs ----------------------------------------------------------------


def trial_point(one: Link, changed: Link, name: str, where: str) -> dict:
    """A run on the changed link. All that the advice sets stays as it is for the link."""
    given = {key: value for key, value in path.point(one, name).items() if key.startswith("controllers.")}
    return path.point(changed, name, where) | given


def trial_runs(one: Link, names: list[str]) -> dict[str, dict[str, float]]:
    """Goodput in each trial of each of these, bit/s of a flow."""
    links = {"another seed": one, "four flows": replace(one, flows=4), "an upload": one, "for long": one.lasting or one}
    found = {}
    for trial, changed in links.items():
        where = UPLOAD if trial == "an upload" else ""
        args = asked(f"--like {one.like}")
        tree = path.tree(changed, [trial_point(one, changed, name, where) for name in names])
        file = link.FOLDER / f"{one.name}-trial.toml"
        file.write_text(toml(tree))
        tasks = plan_runs(scenario.load(file, seeds=(SEED,)), image_of(args))
        done = run_lab(args, tasks, image_of(args)) or {}
        rates = [mean_rate(done[t.key], 0, -1 if where else None) for t in tasks]
        found[trial] = dict(zip(names, rates, strict=True))
    return found


def of_trials() -> str:
    """The advised one's part of the best that serves there."""
    lines, parts = [], []
    for name in TRIED:
        one, rows = tried(f"--like {name}")
        first = advice(rows).name
        found = trial_runs(one, [row.name for row in answer.senders(rows) if row.serves])
        own = [found[trial][first] / max(found[trial].values()) for trial in TRIALS]
        parts += own
        lines.append([name, label(first), *(f"{part:.2f}" for part in own)])
    enough = sum(part >= ENOUGH for part in parts)
    table = markdown(left("link", "advised") + right(*TRIALS), lines)
    mean = f"{enough} of {len(parts)} trials have {ENOUGH} or more; the mean is {fmean(parts):.2f}."
    return "\n".join([*table, "", mean])


# --- pages -----------------------------------------------------------------------------------

TABLES = {"real": of_real, "trials": of_trials, "controllers": of_controllers}


def of_name(name: str) -> str:
    return TABLES[name]() if name in TABLES else sweep(name)


def output(words: str) -> str:
    """The output of a command of a page: `link ...` of asymlab, or a name of this script."""
    return of_link(words.removeprefix("link ")) if words.startswith("link ") else of_name(words)


def printed(words: str) -> str:
    """The lines that `asymlab link` prints once the store has all its runs, indented; rules and notes are left out."""
    tried(words.removeprefix("link "))
    command = [BUILD / "venv" / "bin" / "asymlab", *shlex.split(words), "--engine", "uml"]
    lines = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True).stderr.splitlines()
    parts = [line.rstrip() if SHOWN.match(line) else "..." for line in lines]
    kept = [line for line, before in zip(parts, ["", *parts]) if line != before]
    return "".join(f"    {line}".rstrip() + "\n" for line in kept[: kept.index("...", -2)]).rstrip("\n") + "\n"


def filled(page: Path, text: str) -> str:
    """A page with its tables made anew."""
    if page.name == "measured.md":
        return OUTPUT.sub(lambda found: f"{found[1]}{output(found[2])}\n\n", text + "\n").rstrip("\n") + "\n"
    text = MARKED.sub(lambda found: f"{found[1]}{of_name(found[2])}\n{found[4]}", text)
    return SAMPLE.sub(lambda found: found[1] + printed(found[2]), text)


def pages() -> None:
    for page in PAGES:
        page.write_text(filled(page, page.read_text()))


def main(names: list[str]) -> None:
    columns.tell(names, (*SWEEPS, *TABLES), of_name, {"pages": pages})


if __name__ == "__main__":
    main(sys.argv[1:])
