# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The objects under test: those of bpf/, as the loader shows them."""

from __future__ import annotations

import json

from ..machine.shell import sh
from ..paths import BUILD, REPO


def names() -> list[str]:
    return sorted(p.name.removesuffix(".bpf.c") for p in REPO.glob("bpf/[cr]*/*.bpf.c"))


def shown(name: str) -> dict:
    return json.loads(sh(BUILD / "asymcc", "--objects", BUILD, "show", name, "--json"))
