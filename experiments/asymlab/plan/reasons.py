# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Why a scenario's value is refused, in words: what must stand there, with its unit, and what does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from ..guest.protocol import NAME
from .quantities import short, written

ID, TITLE = r"^[A-Z0-9-]+$", r"^[^\x00-\x1f\x7f-\x9f]*$"
PATTERNS = {
    ID: "must be of capitals, digits and hyphens alone",
    TITLE: "must be one line without control characters",
    f"^{NAME}$": "must be of small letters, digits and '_' alone",
}
BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "more than"),
    "less_than": ("lt", "less than"),
    "multiple_of": ("multiple_of", "a multiple of"),
}
KINDS = {
    "model_type": "a table",
    "dict_type": "a table",
    "list_type": "a list",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    **{f"int_{why}": "a whole number" for why in ("type", "parsing", "from_float")},
    **{f"float_{why}": "a number" for why in ("type", "parsing")},
}


def explained(error: ValidationError, model: type[BaseModel]) -> tuple[str, str]:
    """The key with dots, and the reason. A misspelt key goes before the one that is missing for it."""
    errors = error.errors()
    first = errors[0]
    if first["type"] == "missing":
        beside = (e for e in errors if e["type"] == "extra_forbidden" and e["loc"][:-1] == first["loc"][:-1])
        first = next(beside, first)
    # A reason that concerns the whole scenario names its key itself.
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")
    reason = _reason(dict(first), model)
    if not key:
        key, _, reason = reason.partition(": ")
    return key, reason


def _reason(error: dict[str, Any], model: type[BaseModel]) -> str:
    kind, given, context = error["type"], short(error["input"]), error.get("ctx", {})
    *table, key = error["loc"] or [""]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        there = (name for schema in _at(model, table) for name in schema.get("properties", ()))
        return f"unknown key{did_you_mean(str(key), there)}"
    if kind in BOUNDS:
        bound, words = BOUNDS[kind]
        unit = next((s["format"] for s in _at(model, error["loc"]) if "format" in s), None)
        value = given if isinstance(error["input"], str) else written(unit, error["input"])
        return f"must be {words} {written(unit, context[bound])}, not {value}"
    if kind in KINDS:
        return f"must be {KINDS[kind]}, not {given}"
    if kind == "string_pattern_mismatch" and context["pattern"] in PATTERNS:
        return f"{PATTERNS[context['pattern']]}{_better(error['input'], context['pattern'])}, not {given}"
    if kind in ("literal_error", "string_too_long"):
        words = re.sub("^(Input|String) should ", "must ", error["msg"])
        return f"{words}, not {given}"
    return error["msg"].removeprefix("Value error, ")


def did_you_mean(name: str, there: Iterable[str]) -> str:
    like = get_close_matches(name, list(there), 1)
    return f"; did you mean {like[0]}?" if like else ""


def _better(text: str, pattern: str) -> str:
    """An id that would do."""
    like = re.sub("[^A-Z0-9]+", "-", text.upper()).strip("-") if pattern == ID else ""
    return f", such as {like}" if like else ""


def _at(model: type[BaseModel], keys: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]:
    """The schema at a place; several, where a value may be of several kinds."""
    whole = _schema(model)
    at = [whole]
    for key in keys:
        at = [below for schema in at for below in _below(whole, schema, key)]
    return at


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _below(whole: dict[str, Any], schema: dict[str, Any], key: int | str) -> Iterator[dict[str, Any]]:
    below = schema.get("items")
    if not isinstance(key, int):  # of tables with names of the user's the schema has one for all
        named = next(iter(schema.get("patternProperties", {}).values()), None)
        below = schema.get("properties", {}).get(key, named)
    for one in below.get("anyOf", [below]) if below else ():
        yield whole["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
