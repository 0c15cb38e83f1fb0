# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The register of controllers: each file of this folder has RECORDS, and is found because it is here."""

from __future__ import annotations

import importlib
import pkgutil

from ..controller import Controller

REGISTER: dict[str, Controller] = {
    record.name: record
    for file in pkgutil.iter_modules(__path__)
    for record in importlib.import_module(f"{__name__}.{file.name}").RECORDS
}
LINUX = tuple(record.name for record in REGISTER.values() if record.linux)


def of(name: str) -> Controller:
    """Its record; one of defaults if it has none."""
    return REGISTER.get(name) or Controller(name)
