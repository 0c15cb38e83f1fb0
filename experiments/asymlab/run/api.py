# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What `import asymlab` offers to scripts and notebooks, beside LabError: run a scenario, find runs, tabulate flows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from .. import LabError
from ..machine import vm
from ..machine.image import DEFAULT_KERNEL, current_image, engine_of, label_of
from ..paths import BUILD
from ..plan import scenario
from ..results.frame import flows
from ..results.store import Run, find, runs
from .execute import execute
from .tasks import plan_runs

__all__ = ["Run", "find", "flows", "run_scenario", "runs"]
SCENARIOS = BUILD / "scenarios"  # those given as text: the command in a run's record names its file


def run_scenario(
    source: Path | str,
    *,
    seeds: Iterable[int] | None = None,
    which: str = "quick",
    image: str = DEFAULT_KERNEL,
    engine: str | None = None,
    jobs: int | None = None,
    fresh: bool = False,
) -> list[Run]:
    """The runs of a scenario, in the order of its sweep; those that the store holds are taken from there.

    source: a file, or the text of a scenario (more than one line). seeds: instead of those of the set `which`, "quick"
    or "full". image, engine, jobs, fresh: as for `asymlab run`, and as it does this raises LabError.
    """
    if which not in scenario.SETS:
        raise LabError(f"which={which!r}: is one of {', '.join(scenario.SETS)}")
    chosen = None if seeds is None else tuple(seeds)
    if wrong := [s for s in chosen or () if type(s) is not int or not 0 < s < 2**63]:
        raise LabError(f"seeds: {wrong[0]!r}: must be whole numbers from 1 to 2^63 - 1")
    file = _kept(source) if isinstance(source, str) and "\n" in source else Path(source)
    cases = scenario.load(file, which, chosen)
    if not any(case.seeds for case in cases):
        raise LabError(f"{file}: no runs in the {which} set: `which` takes another, `seeds` runs of each case")
    engine = engine or os.environ.get("ASYMLAB_ENGINE")
    if engine not in (None, *vm.ENGINES):
        raise LabError(f"engine={engine!r}: is one of {', '.join(vm.ENGINES)}")
    guest = current_image(label_of(image, engine or engine_of(image)))
    tasks = plan_runs(cases, guest)
    done = execute(tasks, guest, jobs, fresh)
    return [done[t.key] for t in tasks]


def _kept(text: str) -> Path:
    file = SCENARIOS / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    return file
