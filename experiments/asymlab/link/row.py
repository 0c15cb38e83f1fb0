# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One controller's runs, and its part there of what CUBIC has in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..controllers import LINUX
from ..plan import objects
from ..results.metrics import reply_times
from ..results.store import Run
from .path import AFTER, BESIDE, FOUR, MTU, REPLIES, THIN, UPLOAD, split

HALF = 0.5
NEAR = (
    1.5  # within this factor of HALF another run may decide otherwise: Fusion had 45 % in one run and 62 % in another
)
MUCH, WIDER = 0.3, 1.2  # of the largest buffer, where packets take twice their length; a window's, of what is in flight
FULL = 0.95  # of a full link: less has a cause

# The questions to a controller, by the end of its runs' titles.
QUESTIONS = {
    "": "alone",
    UPLOAD: "an upload beside it",
    BESIDE: "CUBIC beside it",
    FOUR: "four beside four of CUBIC",
    REPLIES: "short replies",
}


UNKNOWN = (0.0, 0.0)  # parts by runs that are not valid


@dataclass(frozen=True)
class Pair:
    """A run of a controller, and one with CUBIC in its place."""

    run: Run
    reference: Run

    @property
    def invalid(self) -> list[str]:
        return invalid(self.run, self.reference)


class Upload(Pair):
    """Downloads while CUBIC uploads. Bit/s of a flow."""

    @property
    def flows(self) -> int:
        return len(self.reference.metrics["flows"]) - 1

    @property
    def own(self) -> float:
        return mean_rate(self.run, 0, -1)

    @property
    def left(self) -> float:
        """The rate of the upload."""
        return mean_rate(self.run, -1)

    def kept(self, alone: Run) -> float:
        """The smaller part: the downloads' of what they have alone, or the upload's of a full uplink."""
        uplink = self.run.job.watch[0].reverse.rate_bps * self.run.job.payload_share
        return min(part(self.flows * self.own, goodput(alone)), part(self.left, uplink))

    @property
    def parts(self) -> tuple[float, float]:
        """Its own and the upload's, of what they have with CUBIC's downloads."""
        return part(self.own, mean_rate(self.reference, 0, -1)), part(self.left, mean_rate(self.reference, -1))


class Replies(Pair):
    """Short replies over a connection each."""

    @property
    def mean_s(self) -> float:
        return mean_reply(self.run)

    @property
    def parts(self) -> tuple[float, float]:
        """Its speed, of CUBIC's; nobody else is there."""
        return part(mean_reply(self.reference), self.mean_s), 1.0


def mean_reply(run: Run) -> float:
    """Over the whole run, seconds."""
    replies = run.record["agent"]["replies"]
    times = [time for flow in run.job.flows for time in reply_times(flow, run.job, replies.get(str(flow.id), []))]
    return sum(times) / len(times) / 1e9


def invalid(*runs: Run) -> list[str]:
    return [reason for run in runs for reason in run.record["invalid"]]


def part(value: float, of: float) -> float:
    return value / of if of else 1.0


@dataclass(frozen=True)
class Beside:
    """A controller's flows beside as many of CUBIC. Rates are a flow's, bit/s, and the least of the runs."""

    runs: tuple[Run, ...]  # it begins with CUBIC, and after it; of CUBIC none
    reference: Run  # CUBIC beside CUBIC

    @property
    def flows(self) -> int:
        return len(self.reference.metrics["flows"]) // 2

    @property
    def own(self) -> float:
        return min((mean_rate(run, 0, self.flows) for run in self.runs), default=self.usual)

    @property
    def left(self) -> float:
        """CUBIC's mean rate."""
        return min((mean_rate(run, self.flows) for run in self.runs), default=self.usual)

    @property
    def usual(self) -> float:
        """The rate that CUBIC leaves to a second CUBIC: chance decides which of the two has more."""
        return mean_rate(self.reference, 0)

    @property
    def leaves(self) -> float:
        """To CUBIC, of what CUBIC leaves CUBIC."""
        return part(self.left, self.usual)

    @property
    def invalid(self) -> list[str]:
        return invalid(*self.runs, self.reference)


def mean_rate(run: Run, first: int, end: int | None = None) -> float:
    rates = [f["goodput_bps"] for f in run.metrics["flows"][first:end]]
    return sum(rates) / len(rates)


def goodput(run: Run) -> float:
    """Bit/s, in order at the receivers, but no more than passed the link meanwhile.

    Data that had passed before, and waited behind a gap, count for another time.
    """
    return min(run.metrics["goodput_bps"], min(run.metrics["utilisation"], 1) * full(run))


def full(run: Run) -> float:
    """Goodput of a full link, bit/s."""
    return run.job.watch[0].forward.rate_bps * run.job.payload_share


@dataclass(frozen=True)
class Row:
    """The outcome of one controller."""

    name: str
    run: Run
    usual: Run | None = None  # CUBIC's in its place; this and what follows: None if it was not tried
    upload: Upload | None = None
    beside: Beside | None = None
    four: Beside | None = None
    replies: Replies | None = None
    later: Beside | None = None  # in longer runs, of what would be advised

    def gets(self, met: Beside) -> float:
        """Its part of its max-min fair share beside CUBIC: of an equal part, or of its rate alone if that is less."""
        return part(met.own, min(full(self.run) / 2, self.goodput) / met.flows)

    def met(self, where: str) -> tuple[float, float] | None:
        """Its own part and that of others, of what both have with CUBIC in its place. CUBIC itself has none."""
        if where == "":
            return (part(self.goodput, goodput(self.usual)), 1.0) if self.usual and self.usual.valid else None
        of = {UPLOAD: self.upload, BESIDE: self.beside, FOUR: self.four, REPLIES: self.replies, AFTER: self.later}[
            where
        ]
        if not of or (isinstance(of, Beside) and not of.runs):
            return None
        if of.invalid:
            return UNKNOWN
        return (self.gets(of), of.leaves) if isinstance(of, Beside) else of.parts

    def fails(self) -> Iterator[str]:
        """The questions in which it, or who is beside it, has too little. AFTER: in longer runs."""
        for where in (*QUESTIONS, AFTER):
            if (parts := self.met(where)) and min(parts) < HALF:
                yield where

    @property
    def serves(self) -> bool:
        """Whether it may be for all that a user does."""
        return not any(True for _ in self.fails())

    @property
    def least(self) -> float:
        """The smallest part, of CUBIC beside it in the longest runs that there are. Invalid runs do not count."""
        asked = [where for where in (*QUESTIONS, AFTER) if not (where == BESIDE and self.later)]
        parts = [min(parts) for where in asked if (parts := self.met(where)) and parts != UNKNOWN]
        return min(parts, default=1.0)

    @property
    def near(self) -> bool:
        """Whether chance decided about it."""
        return HALF / NEAR < self.least < HALF * NEAR

    @property
    def base(self) -> str:
        return split(self.name)[0]

    @property
    def goodput(self) -> float:
        return goodput(self.run)

    @property
    def growth(self) -> float:
        """The first flow's change of goodput over the measured time, by a straight-line fit, over its mean."""
        return self.run.metrics["flows"][0]["goodput_trend"]

    @property
    def rtt(self) -> float:
        """Mean over the flows, s."""
        found = [f["rtt_s"]["mean"] for f in self.run.metrics["flows"] if f["rtt_s"]]
        return sum(found) / len(found) if found else float("inf")

    @property
    def jain(self) -> float:
        return self.run.metrics["jain"]

    @property
    def retransmits(self) -> int:
        return sum(f["retransmits"] for f in self.run.metrics["flows"])

    @property
    def way_back(self) -> float:
        """Share of its rate that ACKs take."""
        return self.run.metrics["reverse_utilisation"]

    @property
    def held_by_buffers(self) -> bool:
        """Whether the hosts' socket buffers, not the controller, limit the first flow: it has much in flight, for the
        smaller of the two, and a larger window than that."""
        if self.goodput >= FULL * full(self.run):
            return False
        sysctls = self.run.job.nodes[0].sysctls
        most = min(int(str(sysctls[key]).split()[-1]) for key in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"))
        acks = self.run.acks
        acks = acks[(acks["flow"] == 0) & (acks["t"] >= self.run.job.measure_from_s)]
        if not len(acks):
            return False
        payload = self.run.job.payload_share * MTU
        in_flight = float(np.median(acks["in_flight"] * payload + acks["acked"]))
        return in_flight >= MUCH * most and float(np.median(acks["cwnd"])) * payload >= WIDER * in_flight

    @property
    def asks(self) -> int:
        """The user's work: 0 if Linux has all, 1 if one end needs something, 2 if both do."""
        at_sender = 0 if self.base in LINUX else 2 if both_ends(self.base) else 1
        return at_sender + self.name.endswith(THIN)


@cache
def both_ends(name: str) -> bool:
    return bool(objects.shown(name)["cgroup_programs"])
