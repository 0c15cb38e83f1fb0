# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Functions for scripts and notebooks (`import asymlab`): run a scenario, find runs, tabulate flows."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import LabError
from ..machine import vm
from ..machine.image import DEFAULT_KERNEL, current_image, engine_of, label_of
from ..paths import BUILD, brought
from ..plan import scenario, toml
from ..plan.base import CASE
from ..plan.objects import is_file
from ..results.frame import connections, flows, programs
from ..results.store import Run, find, runs
from .execute import execute
from .tasks import plan_runs

__all__ = ["Run", "connections", "find", "flows", "programs", "run_scenario", "runs"]
SCENARIOS = BUILD / "scenarios"  # those given as text: the command in a run's record names its file


def run_scenario(
    source: Path | str | dict,
    *,
    seeds: Iterable[int] | None = None,
    which: str = "quick",
    image: str = DEFAULT_KERNEL,
    engine: str | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    folder: Path | None = None,
) -> list[Run]:
    """The runs of a scenario, in the order of its sweep; those that the store holds are taken from there.

    source: a file, the text of a scenario (more than one line), or its tree (what tomllib makes of a file). seeds:
    instead of those of the set `which`, "quick" or "full". image, engine, jobs, fresh: as for `asymlab run`, and as it
    does this raises LabError. folder: where names of files in a text or a tree begin [here].
    """
    if which not in scenario.SETS:
        raise LabError(f"which={which!r}: is one of {', '.join(scenario.SETS)}")
    chosen = None if seeds is None else tuple(seeds)
    if wrong := [s for s in chosen or () if type(s) is not int or not 0 < s < 2**63]:
        raise LabError(f"seeds: {wrong[0]!r}: must be whole numbers from 1 to 2^63 - 1")
    if isinstance(source, dict) or isinstance(source, str) and "\n" in source:
        file = _kept(source, (folder or Path()).resolve())
    else:
        file = brought(Path(source))
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


def _kept(source: str | dict, folder: Path) -> Path:
    """The scenario as a file, with whole names of files: the command in a run's record repeats it from anywhere."""
    try:
        tree = tomllib.loads(source) if isinstance(source, str) else source
        whole = _whole("", tree, folder)
        text = source if isinstance(source, str) and whole == tree else toml.plain(whole)
        text.encode()
    except tomllib.TOMLDecodeError:
        text = str(source)  # whoever loads it says where
    except (TypeError, ValueError, RecursionError) as e:
        raise LabError(f"scenario: no tree of TOML: {e}") from None
    file = SCENARIOS / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    return file


def _whole(key: str, value: Any, folder: Path) -> Any:
    """A value, with the names of files in it made absolute."""
    if isinstance(value, dict):
        return {name: _whole(f"{key}.{name}", below, folder) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(key, below, folder) for below in value]
    last, name = key.rpartition(".")[2], os.fspath(value) if isinstance(value, os.PathLike) else value
    if last == "base" and key.startswith(".cases.") and CASE.fullmatch(str(name)):
        return name  # of the same text
    always, if_there = ("trace", "delay_trace", "base"), ("controller", "object")
    if isinstance(name, str) and (last in always or last in if_there and is_file(name)):
        return str(folder / name)
    return name
