# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Outcomes: of a property, of an object on a kernel, of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...machine.image import Image
from ...machine.kernel import series

KERNELS = ("6.1", "6.12", "newest", "running")
SHORT_IDLE = "`bpf_vegas` does not hear the end of a short idle time: from Linux 7.1 on a member of its own tells it"


class Skip(Exception):
    """A property that cannot be tested here; the message says why."""


Outcome = str | Skip | None  # of a property: what is wrong, why it was not tried, or nothing


@dataclass
class Result:
    """The outcomes of one object on one kernel."""

    outcomes: dict[str, Outcome]
    insns: dict[str, int] = field(default_factory=dict)
    where: str = ""  # its scenario, and the folder of its run

    @property
    def failed(self) -> int:
        return sum(isinstance(o, str) for o in self.outcomes.values())


@dataclass
class Column:
    """A kernel, and what was found on it."""

    label: str
    release: str = ""
    package: str = ""
    note: str = ""
    skip: str = ""  # why nothing of it was tried
    error: str = ""  # or could be
    results: dict[str, Result] = field(default_factory=dict)
    newer: dict[str, str] = field(default_factory=dict)  # objects that need a newer kernel: why they were not tried
    image: Image | None = None  # none on this machine's own kernel
    refused: Result | None = None  # what the verifier should not take

    @property
    def title(self) -> str:
        return f"{self.release} ({self.package or 'this machine'})" if self.release else self.label


def deaf(release: str) -> bool:
    return series(release) >= (7, 1)
