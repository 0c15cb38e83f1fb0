# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The parts of a controller's record. The records are in controllers/, a file each."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from . import LabError

# The looks of controllers whose record has none: a name always gets the same one.
CYCLE = [
    {"color": color, "marker": marker, "linestyle": line}
    for color, marker, line in product(
        ("#3B5998", "#B5483A", "#4E8B5B", "#8A5FA8", "#A9762F"),
        ("1", "2", "3", "4", "|", "_"),
        ((0, (2, 2)), (0, (7, 2, 2, 2))),
    )
]


class View(Protocol):
    """A law's view of a run: a flow for each role, on a hop of its own (conformance/kernels/setup.py).

    `acks` has the sender's TCP at each ACK, `states` the controller's own variables before it, by their names in C.
    Both end when the check changes live parameters, and so do `cuts`: the law holds by the values of the set-up.
    """

    roles: list[str]  # of bare, clean, lossy, marked
    change: float  # s: when live parameters change; a law looks at what comes before
    mss: int  # bytes of data in a full packet

    def acks(self, role: str) -> Any: ...
    def states(self, role: str) -> Any: ...
    def queue(self, role: str, start: float, end: float) -> float:
        """Mean length of the queue, packets."""

    def hop(self, role: str) -> dict:
        """The packets that passed: {forward, reverse}, each {packets, drops, ...}."""

    def cuts(self) -> Iterator[tuple[Any, int, Any]]:
        """Each fast recovery, clean and lossy: TCP at the ACK that began it, ssthresh and the variables after it."""

    def count(self, counter: str) -> int: ...


@dataclass
class Law:
    """A truth about this controller alone. `holds` raises LabError where it is not: need() does."""

    says: str
    holds: Callable[[View], None]
    far: bool = False  # it shows on a path with a delay only
    marked: bool = False  # it needs a flow whose ACKs meet a RED queue that marks


@dataclass
class Controller:
    """All that the project knows of a controller, beside its source."""

    name: str  # in scenarios: one of bpf/, one of Linux's own, or an instance of one with other parameters
    label: str = ""  # in figures; its name if there is none
    look: dict[str, Any] = field(default_factory=dict)  # in figures, as matplotlib has it: color, marker, linestyle
    linux: bool = False  # Linux has it
    law: Law | None = None

    # How the kernel check sets it up.
    fitting: dict[str, int] = field(default_factory=dict)  # parameters that fit a path of 50 packets
    changed: dict[str, int] = field(default_factory=dict)  # live parameters that must make its queue twice as long
    queues: dict[str, int] = field(default_factory=dict)  # packets, by role, where the usual ones are too short
    sysctls: dict[str, int] = field(default_factory=dict)

    # Rules of the host's fuzzing that its law does not keep: the command that breaks it, and its words.
    bends: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        self.label = self.label or self.name
        self.look = self.look or CYCLE[zlib.crc32(self.name.encode()) % len(CYCLE)]


# --- what laws are made of -----------------------------------------------------------------


def need(holds: Any, words: str) -> None:
    if not holds:
        raise LabError(words)


def queue_between(low: float, high: float) -> Callable[[View], None]:
    def holds(v: View) -> None:
        queue = v.queue("clean", 2, v.change)
        need(low <= queue <= high, f"{queue:.1f} packets")

    return holds


def cuts_to(law: Callable[[Any, Any], float], least: int = 3, off: int = 2) -> Callable[[View], None]:
    """ssthresh after a loss is law(TCP before it, variables after it); an ACK in between may have moved it by one."""

    def holds(v: View) -> None:
        seen = 0
        for ack, after, state in v.cuts():
            seen += 1
            need(abs(after - law(ack, state)) <= off, f"from {ack['cwnd']} to {after}, not {law(ack, state):.0f}")
        need(seen >= least, f"{seen} losses")

    return holds


def half(ack: Any, state: Any) -> float:
    return ack["cwnd"] / 2


def without_the_queue(ack: Any, state: Any) -> float:
    """W RTTmin / RTT, RTT being the last before the loss."""
    return ack["cwnd"] * min(state["rtt_min"] / state["rtt_last"], 1)
