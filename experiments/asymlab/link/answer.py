# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The answer of runs on a link: a table, the best by a rule, and the commands to use it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from shlex import quote

from rich.table import Table

from .. import LabError
from ..controllers import LINUX
from ..plan import objects
from ..table import left, right, terminal
from .path import AFTER, OTHERS, THIN, Link, parameters, presets, reverse_kbit, split
from .row import HALF, QUESTIONS, UNKNOWN, Beside, Replies, Row, Upload

ALIKE = 0.02  # differences up to this do not count
ROUGHLY = 0.1  # nor do these beside an upload, where one run differs more from the next
FAIR = 0.9  # Jain index: as if one flow of ten had nothing
MOST = "the best has the most goodput{}; of those within {}, the least RTT; of those within {:.0%} of that, {}"
LEAST = "what asks least of you"
FAIRLY = f", among those with a Jain index of {FAIR} or more, if there are any"
SHARING = (
    f"not advised is what has less than {HALF:.0%} of what CUBIC has in its place, or leaves others less than "
    f"{HALF:.0%} of what CUBIC leaves them; it is asked no more"
)
COLUMNS = ("goodput Mbit/s", "RTT ms", "above the base", "retransmitted", "ACKs' link")
SHORT = dict(zip((*QUESTIONS, AFTER), ("alone", "upload", "beside", "four", "replies", "later")))
PAIRS = ("with an upload", "beside CUBIC", "four each", "reply ms", "fails")
GROWS = 0.2  # a flow whose goodput grows by more of its mean has not arrived
LOSSES = 30  # fewer random ones: where they fall decides
ROOM = 0.5  # ACKs that take less of their link than this have room: chance decides between them and fewer


def best(rows: list[Row], alone: bool = False) -> Row:
    """By the rule; of equals the first. `alone`: as if each had the link for itself."""
    fair = [r for r in rows if r.jain >= FAIR] or rows
    lacks = shortfalls(fair, alone)
    enough = [r for r, lack in zip(fair, lacks) if lack <= max(1.0, min(lacks))]
    least = min(r.rtt for r in enough)
    return min((r for r in enough if r.rtt <= least * (1 + ALIKE)), key=lambda r: r.asks)


def shortfalls(rows: list[Row], alone: bool) -> list[float]:
    """By how much each has less than the most, alone and beside an upload: the larger, in differences that count."""
    most = max(r.goodput for r in rows)
    uploads = [] if alone else [r.upload for r in rows if r.upload]
    beside = max((u.own for u in uploads), default=0)

    def lack(value: float, of: float, alike: float) -> float:
        return (1 - value / of) / alike if of else 0.0

    return [
        max(lack(r.goodput, most, ALIKE), lack(r.upload.own, beside, ROUGHLY) if uploads and r.upload else 0.0)
        for r in rows
    ]


def rule(link: Link) -> str:
    where, within = "", f"{ALIKE:.0%} of it"
    if not link.alone:
        where, within = ", alone and beside an upload", f"{ALIKE:.0%} of it, beside an upload {ROUGHLY:.0%}"
    return f"Rule: {MOST.format(where, within, ALIKE, LEAST)}{FAIRLY if link.flows > 1 else ''}."


def contenders(rows: list[Row]) -> list[Row]:
    """Those that may be advised still: none has failed, and CUBIC, which cannot, is not better by the rule."""
    left = [r for r in senders(rows) if r.serves]
    others = [r for r in left if r.name == OTHERS]
    return [r for r in left if r.name == OTHERS or not others or best([*others, r]) is r]


def table(link: Link, rows: list[Row]) -> Table:
    rows_shown: list[list[str]] = []
    columns = (*COLUMNS, *(["Jain"] if link.flows > 1 else []), *([] if link.alone else PAIRS))
    for row in rows:
        if not row.run.valid:
            rows_shown.append([called(link, row), "invalid"])
            continue
        rtt = (f"{row.rtt * 1e3:.1f}", f"+{row.rtt * 1e3 - link.rtt_us / 1e3:.1f}") if row.rtt < 1e9 else ("-", "-")
        numbers = [
            f"{row.goodput / 1e6:.3f}",
            *rtt,
            str(row.retransmits),
            f"{row.way_back:.0%}",
            *([f"{row.jain:.3f}"] if link.flows > 1 else []),
            *([] if link.alone else cells(row)),
        ]
        rows_shown.append([called(link, row), *numbers])
    return terminal(left("controller") + right(*columns), rows_shown)


def cells(row: Row) -> list[str]:
    """Its own Mbit/s and those of others, for each that it was asked."""

    def cell(of: Upload | Beside | Replies | None) -> str:
        if not of:
            return ""
        if of.invalid:
            return "invalid"
        if isinstance(of, Replies):
            return f"{of.mean_s * 1e3:.0f}"
        others = of.left * (of.flows if isinstance(of, Beside) else 1)
        return f"{of.flows * of.own / 1e6:.3g} / {others / 1e6:.3g}"

    asked = (row.upload, row.beside, row.four, row.replies)
    return [*(cell(of) for of in asked), ", ".join(SHORT[where] for where in row.fails())]


def called(link: Link, row: Row) -> str:
    given = ", ".join(f"{key} {value}" for key, value in parameters(link, row.name).items())
    return f"{row.name} ({given})" if given else row.name


# --- in words ------------------------------------------------------------------------------


def at_sender(link: Link, name: str) -> list[str]:
    """The commands that give all new connections this controller."""
    base, preset = split(name)
    use = f"asymcc use {quote(objects.shown(base)['name'] if objects.is_file(base) else base)} --default"
    if base in LINUX:
        return [use if base in ("cubic", "reno") else f"modprobe -q tcp_{base}; {use}"]
    given = f" --preset {preset}" if preset else ""
    known = presets(base)[preset] if preset else {}
    given += "".join(f" --set {key}={value}" for key, value in parameters(link, name).items() if key not in known)
    built = re.sub("[.]c(?=:|$)", ".o", base) if objects.is_file(base) else base
    return [f"asymcc load {quote(built)}{given} && {use}"]


def thin_line(link: Link) -> str:
    kbit = reverse_kbit(link)
    return f"asymcc thin --reverse {kbit}kbit" if kbit % 1000 else f"asymcc thin --reverse {kbit // 1000}mbit"


def numbers(row: Row) -> str:
    return f"{row.goodput / 1e6:.3g} Mbit/s at an RTT of {row.rtt * 1e3:.0f} ms"


def senders(rows: list[Row]) -> list[Row]:
    return [r for r in rows if r.run.valid and not r.name.endswith(THIN)]


def advised(rows: list[Row]) -> Row | None:
    """For the sender; None: none of them."""
    able = contenders(rows)
    return best(able) if able else None


def sending(link: Link, rows: list[Row]) -> list[str]:
    """For whoever runs the sender."""
    who = "If your machine sends the data (an upload, a server)"
    tried = senders(rows)
    if not tried:
        return [f"{who}: no run to choose from."]
    if not (first := advised(tried)):
        return [f"{who}: none of these; keep what you have.", *if_alone(link, tried, None)]
    ends = ", at both ends" if first.asks == 2 else ""
    lines = [f"{who}: {called(link, first)}, {numbers(first)}{ends}."]
    if first.name == OTHERS:
        helps = "nothing helps here: keep CUBIC" if len(tried) > 1 else "keep CUBIC"
        lines = [f"{who}: {helps}, {numbers(first)}.", "If another was chosen:", *indented(at_sender(link, OTHERS))]
    elif first.asks == 2:
        lines += ["At the receiver:", *indented([f"asymcc load {quote(first.base)}"])]
        lines += ["At the sender:", *indented(at_sender(link, first.name))]
    else:
        lines += indented(at_sender(link, first.name))
    return [*lines, *if_alone(link, tried, first)]


def if_alone(link: Link, tried: list[Row], advised: Row | None) -> list[str]:
    """The controller that would serve better if nobody shared the link."""
    first = best(tried, alone=True)
    if first is advised:
        return []
    only = "Only if nothing else ever uses the link, one transfer at a time"
    return [f"{only}: {called(link, first)}, {numbers(first)}; --alone advises it."]


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
        if (u := plain.upload) and (v := thinned.upload) and not (u.invalid or v.invalid):
            with_upload = f"{u.own / 1e6:.3g} Mbit/s and the upload {u.left / 1e6:.3g}"
            lines.append(f"Beside an upload: {with_upload}; with fewer ACKs {v.own / 1e6:.3g} and {v.left / 1e6:.3g}.")
        if plain.way_back < ROOM:
            lines.append(f"Leave it: all ACKs take {plain.way_back:.0%} of their link, so they have room.")
        elif best([plain, thinned]) is plain:
            lines.append("Leave it: it is not better by the rule.")
        else:
            lines += ["It is better by the rule:", *indented([thin_line(link)])]
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def routing(rows: list[Row], shaped: Upload) -> list[str]:
    """For whoever runs the router ahead of the modem."""
    who, without = "If the router ahead of the modem is yours", Upload(shaped.reference, shaped.reference)
    if shaped.invalid:
        return [f"{who}: `asymcc uplink` there was tried, and its run is invalid: {'; '.join(shaped.invalid)}"]
    alone = next(row.usual for row in rows if row.usual)
    told, plain = (f"{u.flows * u.own / 1e6:.3g} Mbit/s and an upload {u.left / 1e6:.3g}" for u in (shaped, without))
    if shaped.kept(alone) < HALF:
        return [f"{who}: `asymcc uplink` there does not help: a download by CUBIC has {told}, without {plain}."]
    return [f"{who}: `asymcc uplink --dev DEVICE` there. A download by CUBIC then has {told}, without {plain}."]


def words(link: Link, rows: list[Row], shaped: Upload | None = None) -> list[str]:
    """The answer. `shaped`: what `asymcc uplink` does for CUBIC and an upload. LabError if no run is valid."""
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
            "in flight. With larger net.ipv4.tcp_rmem at the receiver and tcp_wmem at the sender it is more: --tuned."
        )
    first = advised(valid)
    lasts = not (link.lasting and first and first.name != OTHERS and not first.later)
    told += [rule(link), *company(link, valid), not_looked_at(link, lasts)]
    router = ["", *routing(valid, shaped)] if shaped else []
    return [*told, "", *sending(link, valid), "", *receiving(link, valid), *router]


def not_looked_at(link: Link, lasts: bool) -> str:
    """The open questions. `lasts`: there are longer runs of what is advised, or it needs none."""
    options = {
        "whether it still shares the link later (--engine uml)": not lasts,
        "a rate that changes (--trace)": not link.trace,
        "jitter (--jitter)": not link.jitter_us,
        "more jitter (--jitter)": bool(link.jitter_us) and not link.jitter,
        "random loss (--loss)": not link.loss_share,
        "queues of other lengths (--queue)": True,
        "AQM": not link.pie,
        "several flows (--flows)": link.flows == 1 and link.alone,
        "the traffic of others": link.alone,
        "data in both directions": link.alone,
        "short flows": link.alone,
        "ECN": True,
    }
    return f"Not looked at: {', '.join(what for what, left_out in options.items() if left_out)}."


def company(link: Link, rows: list[Row]) -> list[str]:
    """The controllers that serve for all, and those that do not."""
    if link.alone:
        return ["Each had the link for itself, as --alone says; many of them starve, or are starved, beside others."]
    told = [f"Rule: {SHARING}."]
    told += [decided(rows)]
    longest = link.duration_s
    if link.lasting and (later := [(r, r.later) for r in rows if r.later]):
        longest = link.lasting.duration_s
        told += [f"In runs of {longest:g} s {line}" for line in sharing(later)]
    if near := [f"{r.name} ({r.least:.0%})" for r in senders(rows) if r.near]:
        longer = math.ceil(4 * longest)
        told.append(
            f"Near the limit, {HALF:.0%}, so chance decides: {', '.join(near)}. --duration {longer}s tells more."
        )
    return told


def decided(rows: list[Row]) -> str:
    """In one line which question left out whom, and what there was."""
    told = []
    for where, about in (*QUESTIONS.items(), (AFTER, "CUBIC beside it for long")):
        failed = [f"{r.name} {lacks(r, where)}" for r in senders(rows) if where in r.fails()]
        told += [f"{about} ({', '.join(failed)})"] if failed else []
    left = contenders(rows)
    if behind := [r.name for r in senders(rows) if r.serves and r not in left]:
        told.append(f"the rule, by which CUBIC is better ({', '.join(behind)})")
    if not told:
        return "No controller failed a question."
    return f"Reasons, in parts of what is there with CUBIC: {'; '.join(told)}."


def lacks(row: Row, where: str) -> str:
    parts = row.met(where)
    if not parts or parts == UNKNOWN:
        return "not known, invalid"
    own, left = parts
    return f"has {own:.0%}" if own <= left else f"leaves {left:.0%}"


Met = list[tuple[Row, Beside]]


def sharing(rows: Met) -> Iterator[str]:
    for r, met in rows:
        if AFTER not in r.fails():
            own, left = (met.flows * rate / 1e6 for rate in (met.own, met.left))
            yield f"{r.name} has {own:.3g} Mbit/s beside CUBIC's {left:.3g}."
