# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The keys of a scenario as tables, from the models' own descriptions: the last part of docs/scenarios.md."""

from __future__ import annotations

import json
import re
from typing import Any

from .. import LabError
from ..paths import REPO
from ..table import Markup, left, markdown
from .branch import Branch
from .crossing import Background, Flow
from .model import Change, Direction, Hop, PathSpec, Run, Scenario
from .programs import Content, Host, Pack, Program
from .quantities import RATE_MAX, RATE_MIN, RATE_UNITS, TIME_MAX, TIME_UNITS, written
from .queues import Cake, Codel, DualPi2, Fq, FqCodel, Model, Pie, Policer, Red, Rewrite, Strip, Synthetic, Uplink

PAGE = REPO / "docs" / "scenarios.md"
BEGIN, ENDING = "<!-- asymlab reference --record -->", "<!-- end -->"
SECTIONS: dict[str, type[Model]] = {
    "The file": Scenario,
    "`[path]`": PathSpec,
    "`[[path.hops]]`": Hop,
    "`forward`, `reverse`": Direction,
    "`trace`": Synthetic,
    "`red`": Red,
    "`cake`": Cake,
    "`codel`": Codel,
    "`fq_codel`": FqCodel,
    "`pie`": Pie,
    "`fq`": Fq,
    "`dualpi2`": DualPi2,
    "`policer`": Policer,
    "`strip`": Strip,
    "`rewrite`": Rewrite,
    "`[uplink]`": Uplink,
    "`[[flows]]`": Flow,
    "`[[background]]`": Background,
    "`[packs.NAME]`": Pack,
    "`files`": Content,
    "`[hosts.NAME]`": Host,
    "`[[programs]]`": Program,
    "`[[changes]]`": Change,
    "`[run]`": Run,
    "`[run.branch]`": Branch,
}
HEADINGS = {model.__name__: heading for heading, model in SECTIONS.items()}
KINDS = {"rate": "rate", "time": "time", "share": "share", "hop": 'whole number, or `"each"`'}
NAME = r"^[a-z0-9_]+$"


def tables() -> str:
    """The part of the page that is made."""
    schema = Scenario.model_json_schema()
    parts = [quantities()]
    for heading, model in SECTIONS.items():
        own = schema if model is Scenario else schema["$defs"].get(model.__name__) or model.model_json_schema()
        required = own.get("required", [])
        told = Flow.model_fields if model is Background else ()  # what a load has in common with flows
        keys = sorted((key for key in own["properties"] if key not in told), key=lambda key: key not in required)
        rows = [row(key, own["properties"][key], key in required) for key in keys]
        lines = markdown(left("key", "value", "default", "meaning"), rows)
        parts.append("\n".join([f"### {heading}", "", sentences(own["description"]), "", *lines]))
    return "\n\n".join(parts)


def sentences(text: str) -> str:
    """A line each, as the pages have them."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(re.sub(r"(?<=[.!?]) (?=[A-Z`])", "\n", paragraph) for paragraph in paragraphs)


def quantities() -> str:
    """How a value with a unit is written."""
    rates = f"{RATE_MIN // RATE_UNITS['kbit']} kbit to {RATE_MAX // RATE_UNITS['gbit']} gbit, per second"
    rows = (
        ("rate", '`"10mbit"`, `"0.5mbit"`', ", ".join(RATE_UNITS), rates),
        ("time", '`"20ms"`, `"1.5s"`', ", ".join(TIME_UNITS), f"0 to {TIME_MAX // TIME_UNITS['s']} s"),
        ("share", '`"1%"`, `"0.01%"`, `"1e-4%"`', "%", "0 % to less than 100 %"),
    )
    return "\n".join(
        ["A value with a unit is a text:", "", *markdown(left("value", "examples", "units", "bounds"), rows)]
    )


def row(key: str, schema: dict[str, Any], required: bool) -> list[Markup]:
    cells = f"`{key}`", value(schema), "must be given" if required else default(schema), schema["description"]
    return [Markup(cell.replace("|", "\\|")) for cell in cells]


def value(schema: dict[str, Any]) -> str:
    """The values that may stand there, in words."""
    if "anyOf" in schema:
        return ", ".join(value(s) for s in schema["anyOf"] if s.get("type") != "null")
    if "$ref" in schema:
        return f"table {link(schema)}"
    if words := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{json.dumps(word)}`" for word in words)
    if schema["type"] == "array":
        items = schema["items"]
        return f"list of tables {link(items)}" if "$ref" in items else f"list: {value(items)}"
    if schema["type"] in ("integer", "number"):
        return {"integer": "whole number", "number": "number"}[schema["type"]] + bounds(schema)
    if schema["type"] == "string":
        return KINDS[schema["format"]] if "format" in schema else "name" if schema.get("pattern") == NAME else "text"
    return {"boolean": "`true` or `false`", "object": "table"}[schema["type"]]


def bounds(schema: dict[str, Any]) -> str:
    if "minimum" not in schema:
        return ""
    return f", {schema['minimum']} " + (f"to {schema['maximum']}" if "maximum" in schema else "or more")


def link(schema: dict[str, Any]) -> str:
    heading = HEADINGS[schema["$ref"].rpartition("/")[2]]
    return f"[{heading}](#{re.sub('[^a-z0-9_ -]', '', heading.lower()).replace(' ', '-')})"


def default(schema: dict[str, Any]) -> str:
    """The default, in the file's words."""
    if without := schema.get("without"):
        return without
    given = schema["default"]
    if given in (None, [], {}):
        return "none"
    if kind := schema.get("format"):
        given = written(kind, given)
    return f'`"{given}"`' if isinstance(given, str) else f"`{str(given).lower()}`"


def record() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(ENDING)
    if not begin or not end:
        raise LabError(f"{PAGE}: no place for the tables, which is between {BEGIN!r} and {ENDING!r}")
    PAGE.write_text(f"{before}{BEGIN}\n{tables()}\n{ENDING}{after}")
