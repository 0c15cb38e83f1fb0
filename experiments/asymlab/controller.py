# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a controller's record is made of. The records are in controllers/."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from itertools import product

# The looks of controllers whose record has none: a name always gets the same one.
CYCLE = [
    {"color": color, "marker": marker, "linestyle": line}
    for color, marker, line in product(
        ("#3B5998", "#B5483A", "#4E8B5B", "#8A5FA8", "#A9762F"),
        ("1", "2", "3", "4", "|", "_"),
        ((0, (2, 2)), (0, (7, 2, 2, 2))),
    )
]


@dataclass
class Controller:
    """All that the project knows of a controller, beside its source."""

    name: str  # in scenarios: a file of bpf/, one of Linux's own, or an instance of either with other parameters
    label: str = ""  # in figures; its name if there is none
    look: dict = field(default_factory=dict)  # in figures, in matplotlib's words: color, marker, linestyle
    linux: bool = False  # Linux has it

    def __post_init__(self) -> None:
        self.label = self.label or self.name
        self.look = self.look or CYCLE[zlib.crc32(self.name.encode()) % len(CYCLE)]
