# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kinds of values that a scenario has: quantities with their unit, names, and what is passed on as it is."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from ..guest.protocol import NAME, VALUE

RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
TIME_UNITS = {"us": 1, "ms": 10**3, "s": 10**6}
UNITS = {"rate": RATE_UNITS, "time": TIME_UNITS}
RATE_MIN, RATE_MAX = 1000, 10**11  # bit/s
TIME_MAX = 10**11  # us
FILE_NAME_MAX = 400


def short(value: Any) -> str:
    """The value as written, but for one that would fill the screen."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        text = "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."


def file_name(value: Any) -> str:
    """A file's name, which may be a stranger's. ValueError: a line of a terminal has no room for it, or shows it as
    something else."""
    if isinstance(value, str) and value.strip() and len(value) <= FILE_NAME_MAX and value.isprintable():
        return value
    raise ValueError(f"must be the name of a file, of at most {FILE_NAME_MAX} printable characters, not {short(value)}")


def quantity(value: Any, units: dict[str, int], example: str, word: str = "") -> int:
    """A number of the smallest unit. ValueError if it is none; `word`: what else might stand there."""
    if isinstance(value, str):
        m = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)", value.strip())
        if m and m[2] in units and math.isfinite(number := float(m[1]) * units[m[2]]):
            return round(number)
    instead = f", nor {word!r}" if word else ""
    raise ValueError(f"{short(value)} is not a quantity such as {example!r} (units: {', '.join(units)}){instead}")


def _quantity(units: dict[str, int], example: str) -> BeforeValidator:
    return BeforeValidator(lambda value: quantity(value, units, example))


def _fraction(value: Any) -> float:
    if isinstance(value, str) and (m := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)\s*%", value.strip())):
        return float(m[1]) / 100
    raise ValueError(f"{short(value)} is not a share such as '0.1%'")


def _is_integer(value: Any) -> bool:
    """One of TOML's that the kernel takes; true and false are none."""
    return type(value) is int and -(2**63) <= value < 2**64


def _value(value: Any) -> int | str:
    if isinstance(value, str) and re.fullmatch(VALUE, value) or _is_integer(value):
        return value
    raise ValueError(f"{short(value)} is neither a whole number nor a word")


def _sysctl(value: Any) -> int | str:
    if isinstance(value, dict):
        raise ValueError('a key with dots must be quoted, as in "net.ipv4.tcp_early_retrans" = 3')
    if isinstance(value, str) and re.fullmatch("[ -~]{1,200}", value) or _is_integer(value):
        return value
    raise ValueError(f"{short(value)} is neither a number nor a text")


def written(kind: str | None, value: Any) -> str:
    """A number as the file has it, if it is a quantity of this kind."""
    if kind in UNITS and isinstance(value, int):
        unit = next(u for u in reversed(UNITS[kind]) if value % UNITS[kind][u] == 0)
        return f"{value // UNITS[kind][unit]}{unit}" if value else f"0{unit}"
    return f"{value * 100:g}%" if kind == "share" else str(value)


def _written(kind: str) -> WithJsonSchema:
    """The file has a text of this kind: plan/reference.py reads it from the schema."""
    return WithJsonSchema({"type": "string", "format": kind})


Rate = Annotated[int, _quantity(RATE_UNITS, "10mbit"), Field(ge=RATE_MIN, le=RATE_MAX), _written("rate")]  # bit/s
Time = Annotated[int, _quantity(TIME_UNITS, "20ms"), Field(ge=0, le=TIME_MAX), _written("time")]  # us
Share = Annotated[float, BeforeValidator(_fraction), Field(ge=0, lt=1), _written("share")]
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Value = Annotated[int | str, BeforeValidator(_value)]  # of a parameter
Sysctl = Annotated[int | str, BeforeValidator(_sysctl)]
