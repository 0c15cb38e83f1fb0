# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymlab: a virtual-time lab for TCP congestion control on asymmetric paths."""

import importlib
import os

# Users' PATHs lack the folders of tc, depmod and ip.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


# But for the end of a line, what would move a terminal's cursor or change how it looks.
CONTROLS = {c: "?" for c in (*range(32), *range(127, 160)) if c != 10}


def printable(text: str) -> str:
    return text.translate(CONTROLS)


class LabError(Exception):
    """Something the user can mend: the message says what, where and how. One line, whatever it tells of.

    `kind` is one of guest/protocol.py's if a run failed by it: who goes on by it asks this, not the words.
    """

    def __init__(self, text: str, kind: str = ""):
        super().__init__(printable(text.replace("\n", " ")))
        self.kind = kind


# Scripts use these. The guest imports this package too, and has nothing of what they need.
API = ("Run", "connections", "find", "flows", "programs", "run_scenario", "runs")


def __getattr__(name: str):
    if name in API:
        return getattr(importlib.import_module(".run.api", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *API})
