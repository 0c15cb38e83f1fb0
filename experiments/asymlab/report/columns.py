# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tables for pages, of scenarios with a title for each path: a row a path, a column a controller. For scripts
named table.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .. import LabError
from ..machine.image import DEFAULT_KERNEL, current_image, engine_of, label_of
from ..plan import scenario
from ..results.store import Run
from ..run.execute import execute
from ..run.tasks import plan_runs
from ..table import left, markdown, right


def runs(file: Path, jobs: int | None = None) -> dict[tuple[str, str], Run]:
    """By title and first controller. Those that the store does not hold are run."""
    guest = current_image(label_of(DEFAULT_KERNEL, engine_of(DEFAULT_KERNEL)))
    tasks = plan_runs(scenario.load(file), guest)
    done = execute(tasks, guest, jobs=jobs)
    return {(t.case.scenario.title, t.case.scenario.flows[0].controller): done[t.key] for t in tasks}


def table(found: dict[tuple[str, str], Run], cell: Callable[[Run], str], named: Callable[[str], str] = str) -> str:
    """In Markdown."""
    titles, columns = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    rows = [[title, *(cell(found[title, c]) for c in columns)] for title in titles]
    return "\n".join(markdown(left("path") + right(*map(named, columns)), rows))


def tell(
    wanted: list[str], known: Sequence[str], of: Callable[[str], str], more: Mapping[str, Callable[[], None]] = {}
) -> None:
    """Print the tables that a command line names, or all of them; more: what else it may name."""
    for name in wanted:
        if name not in (*known, *more):
            sys.exit(f"table.py: {name}: there are {', '.join((*known, *more))}")
    try:
        for name in wanted or known:
            if name in more:
                more[name]()
            else:
                print(f"{name}\n\n{of(name)}\n")
    except LabError as e:
        sys.exit(f"table.py: {e}")
