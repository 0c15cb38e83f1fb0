# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A view of an object's run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ... import controller
from ...paths import REPO, near
from ...results import metrics, store
from .outcome import Skip
from .setup import CHANGE, RATE, Facts, Setup, alias


@dataclass
class RunView(controller.View):
    """An object's part of a run."""

    name: str
    setup: Setup
    run: store.Run
    known: Facts
    lacks: dict[str, str] = field(default_factory=dict)  # hop's role: why it is not there
    until: float = math.inf  # s: what comes later is not seen
    shown: dict = field(init=False)
    roles: list[str] = field(init=False)
    mss: int = field(init=False)
    change: float = CHANGE

    def __post_init__(self) -> None:
        self.roles = [role for name, role in self.setup.roles() if name == self.name]
        self.mss = round(1000 * self.run.job.payload_share)
        self.shown = self.run.record["agent"]["controllers"][alias(self.name)]

    def flow(self, role: str) -> int:
        if role not in self.roles:
            raise Skip(self.lacks.get(role, "it needs what failed above"))
        return self.setup.roles().index((self.name, role))

    @property
    def where(self) -> str:
        return f"scenario {near(self.setup.file)}, run {near(self.run.folder)}"

    def of_law(self) -> RunView:
        """The ACKs that the law may look at: all, or those before the check itself changes parameters."""
        return replace(self, until=self.change) if self.setup.change and self.known.live else self

    def rate(self, role: str, start: float, end: float) -> float:
        """Delivered, bit/s: by the sender's counter, which has what waits behind a hole at the receiver, too."""
        acks = self.acks(role)
        before = np.searchsorted(acks["t"], (start, end), side="right") - 1
        first, last = (int(acks["delivered"][k]) if k >= 0 else 0 for k in before)
        return (last - first) * self.mss * 8 / (end - start)

    @property
    def full(self) -> float:
        return RATE * self.run.job.payload_share

    @property
    def share(self) -> float:
        """The share of the full rate that it must have on a path of its own within two seconds: its rivals grow
        more slowly, and of anyone's nothing is known."""
        return 0.5 if self.known.file or (REPO / "bpf" / "rivals" / f"{self.name}.bpf.c").exists() else 0.9

    def acks(self, role: str) -> np.ndarray:
        return self._seen(self.run.acks[self.run.acks["flow"] == self.flow(role)])

    def states(self, role: str) -> np.ndarray | None:
        """None if it keeps no state."""
        return self._seen(self.run.state(self.flow(role))) if self.shown["state"] else None

    def _seen(self, rows: np.ndarray) -> np.ndarray:
        return rows[rows["t"] < self.until]

    def hop(self, role: str) -> dict:
        return self.run.metrics["hops"][self.flow(role)]

    def queue(self, role: str, start: float, end: float) -> float:
        dev = self.run.job.watch[self.flow(role)].forward.dev
        window = metrics.link_window(self.run.links, dev, start, end)
        return metrics.link_metrics(window, RATE, end - start)["queue_mean"]

    def cuts(self) -> Iterator[tuple[np.void, int, np.void | None]]:
        for role in ("clean", "lossy"):
            if role in self.roles:
                acks, states = self.acks(role), self.states(role)
                for k in np.flatnonzero((acks["ca_state"][1:] == 3) & (acks["ca_state"][:-1] < 2)):
                    yield acks[k], int(acks[k + 1]["ssthresh"]), None if states is None else states[k + 1]

    def counters(self, name: str) -> dict[str, int]:
        return {c["name"]: c["value"] for c in self.run.record["agent"]["controllers"][name]["counters"]}

    def count(self, what: str, name: str = "") -> int:
        """A counter of it, or of its bare load's."""
        known = self.counters(name or alias(self.name))
        controller.need(what in known, f"its source declares no COUNTER({what}, ...)")
        return known[what]
