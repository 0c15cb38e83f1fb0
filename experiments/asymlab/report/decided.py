# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What decides a paper's verdicts: the runs of its scenarios, and of each claim the runs, the measure and the bounds.
Sentences, causes, titles and comments do not, so they may change after the runs.

A commit's own files tell it, in a process that ends with its answer: what they define is not left behind.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from .. import LabError
from ..paths import EXPERIMENTS
from ..plan import base
from ..run import registered
from . import papers

LIMIT_S = 60
PACKAGE = "asymlab_papers_"  # begins the module names of papers.module()
PLAIN = (str, int, float, bool, type(None))


def differs(commit: str, paper: str) -> bool:
    """Did this commit change what decides? Yes, if that cannot be told."""
    return not (now := _at(commit, paper)) or now != _at(f"{commit}^", paper)


@cache
def _at(commit: str, paper: str) -> str:
    """The hash of what decides at a commit; "" if that cannot be told."""
    where = papers.PAPERS.relative_to(registered.REPO)
    with tempfile.TemporaryDirectory() as scratch:
        if not registered.unpack(commit, where.parts[0], Path(scratch)):
            return ""
        # One seed for the order of sets, so that the same files give the same words.
        env = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(EXPERIMENTS)}
        argv = [sys.executable, "-B", "-m", "asymlab.report.decided", str(Path(scratch, where)), paper]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=LIMIT_S, env=env)
        except subprocess.TimeoutExpired:
            return ""
    return hashlib.sha256(done.stdout).hexdigest() if done.returncode == 0 else ""


# --- in that process -------------------------------------------------------------------------


def told(paper: str) -> dict[str, Any]:
    """What decides, of the folder papers.PAPERS."""
    return {"scenarios": sorted(_trees(papers.scenarios(paper))), "claims": _claims(paper)}


def _claims(paper: str) -> Any:
    """Of each claim what decides; of claims that the lab of today does not understand their whole source."""
    try:
        return {
            c.id: {"bounds": c.bounds, "worst": c.worst, "check": c.check, "value": _told(c.value, [])}
            for c in papers.claims(paper)
        }
    except Exception:  # whatever such a file may do
        files = sorted((papers.PAPERS / paper).glob("*.py"))
        return {file.name: ast.dump(ast.parse(file.read_text())) for file in files if file.name != "figures.py"}


def _trees(files: Iterable[Path]) -> Iterator[str]:
    """Each scenario together with its bases. Titles are words."""
    for file in files:
        tree = {key: value for key, value in base.read(file).tree.items() if key != "title"}
        yield json.dumps(tree, sort_keys=True, default=str)


def _told(value: Any, above: list[Any]) -> Any:
    """A value with all that it is made of, as JSON has it. `above`: the values that it is a part of."""
    if isinstance(value, PLAIN):
        return value
    if any(value is other for other in above):
        return "above"
    above = [*above, value]
    if isinstance(value, FunctionType):
        return _function(value, above)
    if isinstance(value, dict):
        return {repr(key): _told(one, above) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_told(one, above) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(_told(getattr(value, f.name), above) for f in fields(value))]
    if hasattr(value, "__dict__") and not hasattr(value, "__name__"):  # an object; others have a name: types, modules
        return [type(value).__name__, _told(vars(value), above)]
    return getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or repr(value)


def _function(f: FunctionType, above: list[Any]) -> list[Any]:
    """What it holds, and if a paper's folder defines it what it does. The lab's own have their names."""
    holds = [[cell.cell_contents for cell in f.__closure__ or ()], f.__defaults__, f.__kwdefaults__]
    if not f.__module__.startswith(PACKAGE):
        return [f.__module__, f.__qualname__, _told(holds, above)]
    known = {name: f.__globals__[name] for name in sorted(set(_names(f.__code__))) if name in f.__globals__}
    return [_code(f.__code__, f.__doc__), _told(holds, above), _told(known, above)]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)


def _code(code: CodeType, doc: str | None = None) -> list[Any]:
    """What it does, without where it stands and how it is described."""
    values = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts if one != doc]
    return [code.co_code.hex(), code.co_names, values]


if __name__ == "__main__":
    papers.PAPERS = Path(sys.argv[1])
    try:
        print(json.dumps(told(sys.argv[2])))
    except LabError as e:
        sys.exit(str(e))
