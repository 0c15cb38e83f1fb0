# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Paths in the place of controllers' names: each gets a name, which the run calls it by."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from ..controllers import LINUX
from ..paths import BUILT
from .groups import Wrong
from .objects import SUFFIX, File, file_of, is_file

NAME_MAX = 15


def named(tree: dict[str, Any], folder: Callable[[str], Path]) -> tuple[dict[str, Any], dict[str, File]]:
    """The scenario with names alone, and the files that they stand for. `folder`: where a key's value is written.

    A flow's path is called by its file, or by the controller chosen in it. `[controllers.NAME]` with a path as its
    `object` has its name already.
    """
    controllers = tree.get("controllers")
    own = controllers if isinstance(controllers, dict) else {}
    files: dict[str, File] = {}
    plain = dict(tree)
    if any(isinstance(given, dict) and is_file(given.get("object")) for given in own.values()):
        plain["controllers"] = own = dict(own)
    for name, given in own.items():
        if isinstance(given, dict) and is_file(given.get("object")):
            key = f"controllers.{name}.object"
            if name in _others():
                raise Wrong(key, f"{name!r} is the name of another controller: choose one that is free")
            files[name] = _file(key, given["object"], folder)
            own[name] = given | {"object": name}
    called: dict[File, str] = {}
    taken = {*own, *_others()}
    for section in ("flows", "changes"):
        entries = tree.get(section)
        if not isinstance(entries, list):
            continue
        plain[section] = entries = list(entries)
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict) or not is_file(entry.get("controller")):
                continue
            file = _file(f"{section}.{i}.controller", entry["controller"], folder)
            if file not in called:
                if file.module and file.call in taken:
                    raise Wrong(f"{section}.{i}.controller", f"a module called {file.call!r}, as another is: rename it")
                called[file] = _free(file.call, taken)
                taken.add(called[file])
                files[called[file]] = file
            entries[i] = entry | {"controller": called[file]}
    return plain, files


def _others() -> set[str]:
    """Linux's, and the names of all that is built: an object lies beside them in a run."""
    return {*LINUX, *(file.name.removesuffix(SUFFIX) for file in BUILT.glob(f"*{SUFFIX}"))}


def _file(key: str, controller: str, folder: Callable[[str], Path]) -> File:
    try:
        return file_of(controller, folder(key))
    except ValueError as e:
        raise Wrong(key, str(e)) from None


def _free(name: str, taken: set[str]) -> str:
    """That name, or with a number behind it."""
    tries = (f"{name[: NAME_MAX - len(end)]}{end}" for end in (f"_{n}" if n else "" for n in count() if n != 1))
    return next(one for one in tries if one not in taken)
