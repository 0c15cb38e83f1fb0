# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What runs on a link say: a table, the best by a rule, and the commands to use it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rich.table import Table

from .. import LabError
from ..conformance import objects
from ..controllers import LINUX
from ..results.store import Run
from .path import THIN, Link, parameters, presets, reverse_kbit, split

ALIKE = 0.02  # differences up to this do not count
FAIR = 0.9  # Jain index: as if one flow of ten had nothing
RULE = (
    f"the best has the most goodput; of those within {ALIKE:.0%} of it, the least RTT; of those within {ALIKE:.0%} of "
    "that, what asks least of you"
)
FAIRLY = f", among those with a Jain index of {FAIR} or more, if there are any"
COLUMNS = ("goodput Mbit/s", "of the link", "RTT ms", "above the base", "retransmitted", "ACKs/packet", "ACKs' link")
GROWS = 0.2  # a flow whose goodput grows by more of its mean has not arrived
LOSSES = 30  # fewer random ones: where they fall decides
ROOM = 0.5  # ACKs that take less of their link than this have room: chance decides between them and fewer


@dataclass(frozen=True)
class Row:
    """What became of one controller."""

    name: str
    run: Run

    @property
    def base(self) -> str:
        return split(self.name)[0]

    @property
    def goodput(self) -> float:
        """Bit/s, in order at the receivers, but no more than passed the link meanwhile.

        What had passed before, and waited behind a gap, is of another time.
        """
        passed = min(self.run.metrics["utilisation"], 1) * self.run.job["payload_share"]
        return min(self.run.metrics["goodput_bps"], passed * self.run.job["watch"][0]["forward"]["rate_bps"])

    @property
    def growth(self) -> float:
        """Of the first flow's goodput, from the first to the last of the measured time, over its mean."""
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
    def asks(self) -> int:
        """Of the user: nothing but what Linux has, something at one end, something at both."""
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
    shown = Table(box=None, header_style="bold")
    columns = (*COLUMNS, *(["Jain"] if link.flows > 1 else []))
    for column in ("controller", *columns):
        shown.add_column(column, justify="left" if column == "controller" else "right")
    for row in rows:
        if not row.run.valid:
            shown.add_row(called(link, row), "invalid")
            continue
        rtt = (f"{row.rtt * 1e3:.1f}", f"+{row.rtt * 1e3 - link.rtt_us / 1e3:.1f}") if row.rtt < 1e9 else ("-", "-")
        numbers = [
            f"{row.goodput / 1e6:.3f}",
            f"{row.goodput / most(link, row.run):.1%}",
            *rtt,
            str(row.retransmits),
            f"{row.run.metrics['acks_per_data_packet']:.3f}",
            f"{row.way_back:.0%}",
            *([f"{row.jain:.3f}"] if link.flows > 1 else []),
        ]
        shown.add_row(called(link, row), *numbers)
    return shown


def most(link: Link, run: Run) -> float:
    """Goodput of a full link, bit/s."""
    return link.rate_bps * run.job["payload_share"]


def called(link: Link, row: Row) -> str:
    given = ", ".join(f"{key} {value}" for key, value in parameters(link, row.name).items())
    return f"{row.name} ({given})" if given else row.name


# --- in words ------------------------------------------------------------------------------


def at_sender(link: Link, name: str) -> list[str]:
    """The commands that give all new connections this controller."""
    base, preset = split(name)
    use = f"asymcc use {base} --default"
    if base in LINUX:
        return [use if base in ("cubic", "reno") else f"modprobe -q tcp_{base}; {use}"]
    given = f" --preset {preset}" if preset else ""
    known = presets(base)[preset] if preset else {}
    given += "".join(f" --set {key}={value}" for key, value in parameters(link, name).items() if key not in known)
    return [f"asymcc load {base}{given} && {use}"]


def thin_line(link: Link) -> str:
    kbit = reverse_kbit(link)
    return f"asymcc thin --reverse {kbit}kbit" if kbit % 1000 else f"asymcc thin --reverse {kbit // 1000}mbit"


def numbers(row: Row) -> str:
    return f"{row.goodput / 1e6:.3g} Mbit/s at an RTT of {row.rtt * 1e3:.0f} ms"


def sending(link: Link, rows: list[Row]) -> list[str]:
    """For whoever runs the sender."""
    tried = [r for r in rows if not r.name.endswith(THIN)]
    if not tried:
        return ["If your machine sends the data: no run to choose from."]
    first = best(tried)
    ends = ", at both ends" if first.asks == 2 else ""
    lines = [f"If your machine sends the data (an upload, a server): {called(link, first)}, {numbers(first)}{ends}."]
    if first.name == "cubic":
        return [*lines, "Linux has it by default. If another was chosen:", *indented(at_sender(link, "cubic"))]
    if first.asks == 2:
        return [
            *lines,
            "At the receiver:",
            *indented([f"asymcc load {first.base}"]),
            "At the sender:",
            *indented(at_sender(link, first.name)),
        ]
    return [*lines, *indented(at_sender(link, first.name))]


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
    rule = f"Rule: {RULE}{FAIRLY if link.flows > 1 else ''}."
    alone = "Each had the link for itself; README.md says which do badly beside others."
    return [*told, rule, alone, "", *sending(link, valid), "", *receiving(link, valid)]
