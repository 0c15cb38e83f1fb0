# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Dotted keys of a scenario: `flows.ack` is that of every entry, `flows.0.ack` that of the first one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .groups import Wrong

DEEPEST = 8  # a key's parts: path.hops.0.forward.red.min has six


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    try:
        if key.count(".") >= DEEPEST:
            raise IndexError
        _put(tree, key, value)
    except (AttributeError, IndexError, TypeError):
        raise Wrong(key, "no such place in the scenario") from None


def _put(tree: Any, key: str, value: Any) -> None:
    head, _, rest = key.partition(".")
    if isinstance(tree, list):
        one = numbered(head)
        for item in [tree[int(head)]] if one else tree:
            _put(item, rest if one else key, value)
    elif rest:
        _put(tree.setdefault(head, {}), rest, value)
    else:
        tree[head] = value


def remove(tree: Any, key: str) -> bool:
    """Whether it was there. The last part may have dots itself: sweep.path.mtu, sysctls.net.ipv4.tcp_sack."""
    head, _, rest = key.partition(".")
    if isinstance(tree, list):
        if not numbered(head):
            return any([remove(item, key) for item in tree])
        if int(head) >= len(tree):
            return False
        if rest:
            return remove(tree[int(head)], rest)
        del tree[int(head)]
        return True
    if not isinstance(tree, dict):
        return False
    if key in tree:
        del tree[key]
        return True
    return bool(rest) and head in tree and remove(tree[head], rest)


def stands(tree: Any, key: str) -> bool:
    """Whether a tree has it, as remove() looks; or `flows.ack` for flows.0.ack."""
    head, _, rest = key.partition(".")
    if isinstance(tree, list):
        return bool(numbered(head)) and int(head) < len(tree) and (not rest or stands(tree[int(head)], rest))
    if not isinstance(tree, dict):
        return False
    return key in tree or bool(rest) and (stands(tree.get(head), rest) or bool(numbered(head)) and stands(tree, rest))


def covers(dotted: str, key: str) -> bool:
    """Whether the value of a dotted key holds that of another: flows.ack that of flows.0.ack."""
    left = dotted.split(".")
    for part in key.split("."):
        if left and part == left[0]:
            del left[0]
        elif not (left and numbered(part)):
            break
    return not left


def leaves(table: dict[str, Any], place: str = "") -> Iterator[str]:
    """The dotted keys of all values that are no tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{place}{key}.")
        else:
            yield f"{place}{key}"


def numbered(part: str) -> re.Match[str] | None:
    """It is an entry's number."""
    return re.fullmatch("[0-9]{1,3}", part)
