# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the sweeps behind docs/choosing.md as tables: build/venv/bin/python experiments/choosing/table.py [NAME ...]

NAME is a scenario of this folder: alone, beside, loss, jitter, acks. A cell has goodput in Mbit/s, then the mean RTT
above the empty path's in ms; beside CUBIC it has what CUBIC has instead. It runs what the store does not hold; all of
it takes some hours by the engine qemu.
"""

from __future__ import annotations

import sys
from pathlib import Path

from asymlab import LabError, controllers
from asymlab.link.answer import Row
from asymlab.machine.image import DEFAULT_KERNEL, current_image, engine_of, label_of
from asymlab.plan import scenario
from asymlab.results.store import Run
from asymlab.run.execute import execute
from asymlab.run.tasks import plan_runs

HERE = Path(__file__).parent
NAMES = ("alone", "beside", "loss", "jitter", "acks")


def cell(run: Run) -> str:
    if not run.valid:
        return "invalid"
    first, *others = run.metrics["flows"]
    if others:
        return f"{first['goodput_bps'] / 1e6:.3g} / {others[0]['goodput_bps'] / 1e6:.3g}"
    row = Row(first["controller"], run)
    return f"{row.goodput / 1e6:.3g}, {1e3 * row.rtt - run.job.probes[0].base_rtt_us / 1e3:.0f}"


def table(name: str) -> str:
    """In Markdown: a row a path, a column a controller."""
    guest = current_image(label_of(DEFAULT_KERNEL, engine_of(DEFAULT_KERNEL)))
    tasks = plan_runs(scenario.load(HERE / f"{name}.toml"), guest)
    done = execute(tasks, guest)
    cells: dict[str, dict[str, str]] = {}
    for t in tasks:
        tried = t.case.scenario.flows[0].controller
        cells.setdefault(t.case.scenario.title, {})[controllers.of(tried).label] = cell(done[t.key])
    columns = list(next(iter(cells.values())))
    lines = [["path", *columns], ["---", *["---:"] * len(columns)]]
    lines += [[path, *(row[c] for c in columns)] for path, row in cells.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(names: list[str]) -> None:
    for name in names:
        if name not in NAMES:
            sys.exit(f"table.py: {name}: there are {', '.join(NAMES)}")
    try:
        for name in names or NAMES:
            print(f"{name}\n\n{table(name)}\n")
    except LabError as e:
        sys.exit(f"table.py: {e}")


if __name__ == "__main__":
    main(sys.argv[1:])
