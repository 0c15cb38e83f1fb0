# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The answer of runs on a link: a table, the best by a rule, and the commands to use it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from rich.table import Table

from .. import LabError
from ..controllers import LINUX
from ..plan import objects
from ..results.store import Run
from ..table import left, right, terminal
from .path import MTU, OTHERS, THIN, Link, parameters, presets, reverse_kbit, split

ALIKE = 0.02  # differences up to this do not count
FAIR = 0.9  # Jain index: as if one flow of ten had nothing
RULE = (
    f"the best has the most goodput; of those within {ALIKE:.0%} of it, the least RTT; of those within {ALIKE:.0%} of "
    "that, what asks least of you"
)
FAIRLY = f", among those with a Jain index of {FAIR} or more, if there are any"
HALF = 0.5
NEAR = (
    1.5  # within this factor of HALF another run may decide otherwise: Fusion had 45 % in one run and 62 % in another
)
SHARING = (
    f"only with --alone is advised what has less than {HALF:.0%} of its fair share beside CUBIC, or leaves it less "
    f"than {HALF:.0%} of what CUBIC does, begun with it or after it"
)
COLUMNS = ("goodput Mbit/s", "of the link", "RTT ms", "above the base", "retransmitted", "ACKs/packet", "ACKs' link")
BESIDE_COLUMNS = ("beside CUBIC Mbit/s", "CUBIC's", "shares")
GROWS = 0.2  # a flow whose goodput grows by more of its mean has not arrived
LOSSES = 30  # fewer random ones: where they fall decides
MUCH, WIDER = 0.3, 1.2  # of the largest buffer, where packets take twice their length; a window's, of what is in flight
FULL = 0.95  # of a full link: less has a cause
ROOM = 0.5  # ACKs that take less of their link than this have room: chance decides between them and fewer


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
        return self.left / self.usual if self.usual else 1.0

    @property
    def invalid(self) -> list[str]:
        return [reason for run in (*self.runs, self.reference) for reason in run.record["invalid"]]


def mean_rate(run: Run, first: int, end: int | None = None) -> float:
    rates = [f["goodput_bps"] for f in run.metrics["flows"][first:end]]
    return sum(rates) / len(rates)


@dataclass(frozen=True)
class Row:
    """The outcome of one controller."""

    name: str
    run: Run
    beside: Beside | None = None  # not tried
    later: Beside | None = None  # in longer runs, of what would be advised

    def gets(self, met: Beside) -> float:
        """Its part of its max-min fair share beside CUBIC: of an equal part, or of its rate alone if that is less."""
        fair = min(full(self.run) / 2, self.goodput) / met.flows
        return met.own / fair if fair else 1.0

    def meets(self, met: Beside | None) -> bool:
        """Whether both have enough. CUBIC has: the others are measured by it."""
        if not met or not met.runs:
            return True
        return not met.invalid and self.gets(met) >= HALF and met.leaves >= HALF

    @property
    def shares(self) -> bool:
        """Whether it may meet others."""
        return self.meets(self.beside) and self.meets(self.later)

    @property
    def least(self) -> float:
        """The smaller of both shares, in the longest runs that there are."""
        met = self.later or self.beside
        return min(self.gets(met), met.leaves) if met and met.runs and not met.invalid else 1.0

    @property
    def near(self) -> bool:
        """Whether chance decided about shares()."""
        return HALF / NEAR < self.least < HALF * NEAR

    @property
    def base(self) -> str:
        return split(self.name)[0]

    @property
    def goodput(self) -> float:
        """Bit/s, in order at the receivers, but no more than passed the link meanwhile.

        Data that had passed before, and waited behind a gap, count for another time.
        """
        return min(self.run.metrics["goodput_bps"], min(self.run.metrics["utilisation"], 1) * full(self.run))

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


def best(rows: list[Row]) -> Row:
    """By RULE; of equals the first."""
    fair = [r for r in rows if r.jain >= FAIR] or rows
    most = max(r.goodput for r in fair)
    full = [r for r in fair if r.goodput >= most * (1 - ALIKE)]
    least = min(r.rtt for r in full)
    return min((r for r in full if r.rtt <= least * (1 + ALIKE)), key=lambda r: r.asks)


def table(link: Link, rows: list[Row]) -> Table:
    rows_shown: list[list[str]] = []
    columns = (*COLUMNS, *(["Jain"] if link.flows > 1 else []), *([] if link.alone else BESIDE_COLUMNS))
    for row in rows:
        if not row.run.valid:
            rows_shown.append([called(link, row), "invalid"])
            continue
        rtt = (f"{row.rtt * 1e3:.1f}", f"+{row.rtt * 1e3 - link.rtt_us / 1e3:.1f}") if row.rtt < 1e9 else ("-", "-")
        numbers = [
            f"{row.goodput / 1e6:.3f}",
            f"{row.goodput / full(row.run):.1%}",
            *rtt,
            str(row.retransmits),
            f"{row.run.metrics['acks_per_data_packet']:.3f}",
            f"{row.way_back:.0%}",
            *([f"{row.jain:.3f}"] if link.flows > 1 else []),
            *beside_cells(row),
        ]
        rows_shown.append([called(link, row), *numbers])
    return terminal(left("controller") + right(*columns), rows_shown)


def beside_cells(row: Row) -> list[str]:
    if not row.beside:
        return []
    if row.beside.invalid:
        return ["invalid"]
    each = row.beside.flows
    rates = [f"{each * rate / 1e6:.3f}" for rate in (row.beside.own, row.beside.left)]
    return [*rates, "yes" if row.shares else "no"]


def full(run: Run) -> float:
    """Goodput of a full link, bit/s."""
    return run.job.watch[0].forward.rate_bps * run.job.payload_share


def called(link: Link, row: Row) -> str:
    given = ", ".join(f"{key} {value}" for key, value in parameters(link, row.name).items())
    return f"{row.name} ({given})" if given else row.name


# --- in words ------------------------------------------------------------------------------


def at_sender(link: Link, name: str) -> list[str]:
    """The commands that give all new connections this controller."""
    base, preset = split(name)
    use = f"asymcc use {objects.shown(base)['name'] if objects.is_file(base) else base} --default"
    if base in LINUX:
        return [use if base in ("cubic", "reno") else f"modprobe -q tcp_{base}; {use}"]
    given = f" --preset {preset}" if preset else ""
    known = presets(base)[preset] if preset else {}
    given += "".join(f" --set {key}={value}" for key, value in parameters(link, name).items() if key not in known)
    built = re.sub("[.]c(?=:|$)", ".o", base) if objects.is_file(base) else base
    return [f"asymcc load {built}{given} && {use}"]


def thin_line(link: Link) -> str:
    kbit = reverse_kbit(link)
    return f"asymcc thin --reverse {kbit}kbit" if kbit % 1000 else f"asymcc thin --reverse {kbit // 1000}mbit"


def numbers(row: Row) -> str:
    return f"{row.goodput / 1e6:.3g} Mbit/s at an RTT of {row.rtt * 1e3:.0f} ms"


def senders(rows: list[Row]) -> list[Row]:
    return [r for r in rows if r.run.valid and not r.name.endswith(THIN)]


def advised(rows: list[Row]) -> Row | None:
    """For the sender; None: none of them."""
    able = [r for r in senders(rows) if r.shares]
    return best(able) if able else None


def sending(link: Link, rows: list[Row]) -> list[str]:
    """For whoever runs the sender."""
    who = "If your machine sends the data (an upload, a server)"
    tried = senders(rows)
    if not tried:
        return [f"{who}: no run to choose from."]
    if not (first := advised(tried)):
        return [f"{who}: none of these beside CUBIC.", *if_alone(link, tried, None)]
    ends = ", at both ends" if first.asks == 2 else ""
    lines = [f"{who}: {called(link, first)}, {numbers(first)}{ends}."]
    if first.name == "cubic":
        lines += ["Linux has it by default. If another was chosen:", *indented(at_sender(link, "cubic"))]
    elif first.asks == 2:
        lines += ["At the receiver:", *indented([f"asymcc load {first.base}"])]
        lines += ["At the sender:", *indented(at_sender(link, first.name))]
    else:
        lines += indented(at_sender(link, first.name))
    return [*lines, *if_alone(link, tried, first)]


def if_alone(link: Link, tried: list[Row], advised: Row | None) -> list[str]:
    """The controller that would serve better if nobody shared the link."""
    first = best(tried)
    if first is advised:
        return []
    return [f"Only if no other's traffic shares the link: {called(link, first)}, {numbers(first)}; --alone advises it."]


def receiving(link: Link, rows: list[Row]) -> list[str]:
    """For whoever runs the receiver."""
    lines = [
        "If it receives the data (a download): the sender's controller counts, not yours. You can send fewer ACKs."
    ]
    pairs = [(r, plain) for r in rows for plain in rows if r.name == plain.name + THIN]
    if not pairs:
        return [*lines, f"That was not tried: name CONTROLLER{THIN}, the controller being the sender's."]
    for thinned, plain in pairs:
        lines.append(f"From a {plain.name} sender: {numbers(plain)}; with fewer ACKs {numbers(thinned)}.")
        if plain.way_back < ROOM:
            lines.append(f"Leave it: all ACKs take {plain.way_back:.0%} of their link, so they have room.")
        elif best([plain, thinned]) is plain:
            lines.append("Leave it: it is not better by the rule.")
        else:
            lines += ["It is better by the rule:", *indented([thin_line(link)])]
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def words(link: Link, rows: list[Row]) -> list[str]:
    """The answer. LabError if no run is valid."""
    valid = [r for r in rows if r.run.valid]
    told = [f"{r.name}: not ranked, invalid: {'; '.join(r.run.record['invalid'])}" for r in rows if not r.run.valid]
    if not valid:
        raise LabError(f"no run is valid: {told[0]}")
    few = [r.name for r in valid if link.loss_share and r.retransmits < LOSSES]
    if few:
        told.append(f"Chance decides much where losses are few, less than {LOSSES}: {', '.join(few)}.")
    growing = [r.name for r in valid if not link.loss_share and r.growth > GROWS]
    if growing:
        told.append(f"Still growing, so a longer --duration shows more: {', '.join(growing)}.")
    held = [r.name for r in valid if r.held_by_buffers]
    if held:
        told.append(
            f"The hosts' socket buffers, not the controller, limit {', '.join(held)}: Linux's defaults hold some 3 MB "
            "in flight. With larger net.ipv4.tcp_rmem at the receiver and tcp_wmem at the sender there is more."
        )
    rule = f"Rule: {RULE}{FAIRLY if link.flows > 1 else ''}."
    first = advised(valid)
    lasts = not (link.lasting and first and first.name != OTHERS and not first.later)
    told += [rule, *company(link, valid), not_looked_at(link, lasts)]
    return [*told, "", *sending(link, valid), "", *receiving(link, valid)]


def not_looked_at(link: Link, lasts: bool) -> str:
    """The open questions. `lasts`: there are longer runs of what is advised, or it needs none."""
    options = {
        "whether it still shares the link later (--engine uml)": not lasts,
        "a rate that changes (--trace)": not link.trace,
        "jitter (--jitter)": not link.jitter_us,
        "random loss (--loss)": not link.loss_share,
        "queues of other lengths (--queue)": True,
        "AQM": not link.pie,
        "several flows (--flows)": link.flows == 1,
        "the traffic of others": link.alone,
        "data in both directions": True,
        "short flows": True,
        "ECN": True,
    }
    return f"Not looked at: {', '.join(what for what, left_out in options.items() if left_out)}."


def company(link: Link, rows: list[Row]) -> list[str]:
    """The controllers that can share the link, and those that cannot."""
    if link.alone:
        return ["Each had the link for itself, as --alone says; many of them starve, or are starved, beside others."]
    told = [f"Rule: {SHARING}."]
    told += starved([(r, r.beside) for r in rows if r.beside])
    longest = link.duration_s
    if link.lasting and (later := [(r, r.later) for r in rows if r.later]):
        longest = link.lasting.duration_s
        told += [f"In runs of {longest:g} s {line}" for line in (*sharing(later), *starved(later))]
    if near := [f"{r.name} ({r.least:.0%})" for r in rows if r.near]:
        longer = math.ceil(4 * longest)
        told.append(f"Near the {HALF:.0%}, so chance decides: {', '.join(near)}. --duration {longer}s tells more.")
    return told


Met = list[tuple[Row, Beside]]


def sharing(rows: Met) -> Iterator[str]:
    for r, met in rows:
        if r.meets(met):
            own, left = (met.flows * rate / 1e6 for rate in (met.own, met.left))
            yield f"{r.name} has {own:.3g} Mbit/s beside CUBIC's {left:.3g}."


def starved(rows: Met) -> Iterator[str]:
    for r, met in rows:
        if met.invalid:
            yield f"{r.name} beside CUBIC: not known, invalid: {'; '.join(met.invalid)}"
    judged = [(r, met) for r, met in rows if not met.invalid and not r.meets(met)]
    if less := [f"{r.name} ({r.gets(met):.0%} of its fair share)" for r, met in judged if r.gets(met) < HALF]:
        yield f"CUBIC starves {', '.join(less)}."
    if less := [f"{r.name} ({met.leaves:.0%} of what CUBIC leaves it)" for r, met in judged if met.leaves < HALF]:
        yield f"CUBIC is starved by {', '.join(less)}."
