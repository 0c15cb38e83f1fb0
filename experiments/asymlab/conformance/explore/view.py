# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A view of a run, beside the scenario it is of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...guest import job as planned
from ...guest.job import Bottleneck, Watched
from ...plan import topology
from ...plan.crossing import Crossing
from ...plan.scenario import Case, Direction, Flow, Scenario
from ...results import store


@dataclass
class View:
    """A run beside the scenario it is of."""

    case: Case
    run: store.Run
    phases: dict[tuple[int, str], list[tuple[float, Direction]]] = field(
        init=False
    )  # of a hop's direction: from when on which

    def __post_init__(self) -> None:
        s = self.scenario
        self.phases = {
            (k, d): [(0.0, getattr(hop, d))] for k, hop in enumerate(s.path.chain, 1) for d in topology.DIRECTIONS
        }
        for change in sorted((c for c in s.changes if c.of_path), key=lambda c: c.at):
            assert change.direction  # the models ask for it
            mine = self.phases[change.hop, change.direction]
            new = {key: value for key, value in change.of_path.items() if key != "mtu"}
            mine.append((change.at / 1e6, mine[-1][1].model_copy(update=new)))

    @property
    def scenario(self) -> Scenario:
        return self.case.scenario

    @property
    def end(self) -> float:
        return self.run.job.duration_s

    def flows(self) -> Iterator[tuple[planned.Flow, Flow]]:
        """The job's flows, each with its entry."""
        entries = [flow for flow in self.scenario.flows for _ in range(flow.count)]
        return zip(self.run.job.flows, entries)

    def law(self, job: planned.Flow) -> str:
        """The name of its controller's record: a file is taken for the one of its name."""
        file = self.case.files.get(job.controller)
        return file.call if file else job.controller

    def acks(self, job: planned.Flow) -> np.ndarray:
        return self.run.acks[self.run.acks["flow"] == job.id]

    def base_us(self, flow: Flow) -> int:
        """The shortest RTT that the path has.

        On a single hop one netem makes the path's delay and the host's extra delay: reordering spares a packet both.
        """
        base = 0
        for d in topology.DIRECTIONS:
            ways = [self.phases[k, d] for k in self.crossed(flow)]
            spared = len(self.scenario.path.chain) == 1 and ways[0][0][1].reorder
            base += (0 if spared else flow.extra_delay) + sum(
                min(0 if w.reorder else w.delay - w.jitter for _, w in way) for way in ways
            )
        return base

    def crossed(self, flow: Crossing) -> range:
        low, high = sorted(self.scenario.switches(flow))
        return range(low, high)

    def both_ways(self, flow: Flow) -> list[tuple[int, str]]:
        return [(k, d) for k in self.crossed(flow) for d in topology.DIRECTIONS]

    def loaded(self, place: tuple[int, str]) -> bool:
        """Does it carry more than ACKs?"""
        return any(
            f.direction == place[1] and place[0] in self.crossed(f)
            for f in (*self.scenario.flows, *self.scenario.background)
        )

    def packet(self, place: tuple[int, str]) -> int:
        """The largest that passes, bytes."""
        return self.queue(place).packet_bytes

    def watched(self, place: tuple[int, str]) -> Watched:
        hop = self.run.job.watch[place[0] - 1]
        return hop.forward if place[1] == "forward" else hop.reverse

    def links(self, place: tuple[int, str]) -> np.ndarray:
        return self.run.links[self.run.links["dev"] == self.watched(place).dev]

    def queue(self, place: tuple[int, str]) -> Bottleneck:
        """The bottleneck, as it is at the run's begin."""
        dev = self.watched(place).dev
        return next(e.shape for e in self.run.job.ends if e.dev == dev and isinstance(e.shape, Bottleneck))

    def drops(self, place: tuple[int, str]) -> np.ndarray:
        """The times of the bins in which its queue dropped something, or its policer may have."""
        rows = self.links(place)
        end = self.run.record["agent"]["marks"]["end"]["qdisc"][self.watched(place).dev]
        if end.get("policed"):
            return rows["t"]
        return rows["t"][np.diff(rows["drops"].astype("i8"), prepend=0) > 0]
