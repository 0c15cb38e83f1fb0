# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files that somebody else gave, damaged at random: who reads them says so in one line, or takes them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from asymlab import LabError

COUNT = 120
VALUES = (None, True, -1, 10**400, 1e300, float("nan"), "", "\ud800", "\0", "9" * 5000, [], {}, [[]], {"x": {}})
BYTES = (b"", b"\xff\xfe", b"\0" * 100, b"[" * 100_000, b"{}", b"3", b'"\\ud800"', b"[[]]", b"NaN", b"9" * 5000)


def places(tree, path=()) -> Iterator[tuple]:
    """Visits each value of a tree."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from places(tree[key], (*path, key))


def changed(data: bytes, rng: random.Random, tree: bool) -> bytes:
    """Other bytes, or another value somewhere in the tree."""
    if rng.random() < 0.2:
        return rng.choice(BYTES)
    if not tree or rng.random() < 0.2:
        at = rng.randrange(len(data))
        return data[:at] + rng.choice((b"", b"\0", b"\xff", b'"', b",", b"\n", b"x" * 200_000)) + data[at + 1 :]
    content = json.loads(data)
    *path, last = rng.choice(list(places(content)))
    where = content
    for key in path:
        where = where[key]
    if rng.random() < 0.2:
        del where[last]
    else:
        where[last] = rng.choice(VALUES)
    return json.dumps(content).encode()


def one_line_or_none(what) -> None:
    try:
        what()
    except LabError as e:
        assert "\n" not in str(e)
        str(e).encode()
    except OSError:
        pass  # the command tells it in one line
