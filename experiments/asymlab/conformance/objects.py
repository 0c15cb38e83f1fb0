# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A built object, as the loader shows it."""

from __future__ import annotations

import json

from ..machine.shell import sh
from ..paths import BUILD


def shown(name: str) -> dict:
    return json.loads(sh(BUILD / "asymcc", "--objects", BUILD, "show", name, "--json"))
