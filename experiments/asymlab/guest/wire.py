# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Dataclasses as JSON: an object for each, a member for each field. One with a default is left out while it is empty.

A reader believes nobody: the agent is what root runs. Each member is there, is known, and is of its field's type; a
text matches its pattern. Else there is a Failure of one line, which says where in the object.
"""

import json
import math
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from .system import Failure


class Matching(NamedTuple):
    """In an Annotated type: a text, or a number's text, is in full this."""

    pattern: str


WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def dump(value: Any) -> Any:
    """A dataclass, or a list of them, as JSON has it."""
    if is_dataclass(value):
        members = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: dump(member) for f, member in members if member or _required(f)}
    return [dump(v) for v in value] if isinstance(value, list) else value


def load(kind: Any, text: str, where: str) -> Any:
    """A `kind` from a text; `where`: what it is called in a Failure."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise Failure(f"{where}: not JSON ({type(e).__name__})") from None
    return read(kind, value, where)


def read(kind: Any, value: Any, where: str) -> Any:
    """A `kind` from its JSON."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind, value, where)
    form, args = get_origin(kind), get_args(kind)
    if form is Annotated:
        return _matching(read(args[0], value, where), args[1].pattern, where)
    if form is Literal:
        return _matching(_plain(str, value, where), "|".join(args), where)
    if form in (Union, UnionType):
        return _one_of(args, value, where)
    if form is list:
        return [read(args[0], v, f"{where}.{i}") for i, v in enumerate(_plain(list, value, where))]
    if form is dict:
        members = _plain(dict, value, where).items()
        return {read(args[0], k, where): read(args[1], v, f"{where}.{_short(k)}") for k, v in members}
    return _plain(kind, value, where)


def _short(value: object) -> str:
    return repr(value)[:60]


def _required(f: Field) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


@cache
def _members(kind: type) -> tuple[dict[str, Any], set[str]]:
    """Name -> type of its fields; and the names of those that must be there."""
    return get_type_hints(kind, include_extras=True), {f.name for f in fields(kind) if _required(f)}


def learn(kind: Any) -> None:
    """Keeps ahead of time what read() keeps of a type and of those in it."""
    if isinstance(kind, type) and is_dataclass(kind):
        for member in _members(kind)[0].values():
            learn(member)
    for inner in get_args(kind):
        learn(inner)
    if get_origin(kind) is Annotated:
        re.compile(get_args(kind)[1].pattern)


def _object(kind: type, value: Any, where: str) -> Any:
    types, required = _members(kind)
    members = _plain(dict, value, where)
    for key in sorted(members.keys() - types.keys()):
        raise Failure(f"{where}: {_short(key)} is no member of it")
    for key in sorted(required - members.keys()):
        raise Failure(f"{where}: {key!r} is missing")
    return kind(**{key: read(types[key], member, f"{where}.{key}") for key, member in members.items()})


def _one_of(kinds: tuple, value: Any, where: str) -> Any:
    """The value of a type or None, of plain types, or of dataclasses. Their members' names tell the nearest one."""
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(k for k in kinds if k is not NoneType)
    if len(kinds) == 1:
        return read(kinds[0], value, where)
    if not is_dataclass(kinds[0]):
        return _plain(kinds, value, where)
    keys = _plain(dict, value, where).keys()

    def strangeness(kind: type) -> int:
        types, required = _members(kind)
        return len(required - keys) + len(keys - types.keys())

    return _object(min(kinds, key=strangeness), value, where)


def _plain(kind: type | tuple[type, ...], value: Any, where: str) -> Any:
    """A member of JSON itself. A whole number is a number, too; true and false are none."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    good = type(value) in kinds or type(value) is int and float in kinds
    if not good or type(value) is float and not math.isfinite(value):
        raise Failure(f"{where}: {_short(value)}: must be {' or '.join(WORDS[k] for k in kinds)}")
    return value


def _matching(value: Any, pattern: str, where: str) -> Any:
    if not re.fullmatch(pattern, str(value)):
        raise Failure(f"{where}: {_short(value)}: must match {pattern}")
    return value
