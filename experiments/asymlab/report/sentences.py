# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Verdicts: what became of claims, and in words why.

A verdict follows from the judged claim (judged.py), its cause (claim.py), and the verdicts of the checks that show
it. All its words are made here, and nowhere read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import comb

from .claim import CAUSE, Cause, Ceiling
from .judged import SYMBOLS, Judged

FAILED, HELD, OPEN = ("not reproduced", "fails"), ("reproduced", "holds"), ("not reproduced", "inconclusive")
MEASURED = {"paper": "measured in the paper's set-up", "another": "measured by another set-up"}
GUESS, UNEXPLAINED = "guess", "unexplained"
CAUSES = (*MEASURED.values(), GUESS, UNEXPLAINED)  # the words for how a cause is known
CHANCE = 0.05  # the largest p of a test that tells two sets of runs apart


# A verdict has these of its claim. low..high is the 95 % interval of our value over the seeds.
OF_CLAIM = ("id", "paper", "source", "claim", "paper_value", "value", "low", "high", "verdict")
OF_RUNS = ("runs", "n", "seeds", "distinct", "sampled", "check", "preset", "family")


Causes = Mapping[str, Cause]  # by the id of the claim


def verdicts(claims: Iterable[Judged], causes: Causes) -> list[dict]:
    """A paper's verdicts: OF_CLAIM, `reason` in words, OF_RUNS, `cause` (of one that failed: of CAUSES), `worst`."""
    claims = list(claims)
    rows = {c.id: c for c in claims}
    return [verdict(c, causes.get(c.id), rows) for c in claims]


def verdict(c: Judged, known: Cause | None, rows: Mapping[str, Judged]) -> dict:
    reason, cause = (c.unmeasured, "") if c.unmeasured else why(c, known, rows)
    parts = [reason, *(() if c.unmeasured else c.left_out.values()), UNEXPLAINED * (cause == UNEXPLAINED)]
    reason = "; ".join(filter(None, parts))
    of = {name: getattr(c, name) for name in OF_CLAIM} | {"reason": reason}
    return of | {name: getattr(c, name) for name in OF_RUNS} | {"cause": cause, "worst": c.worst}


def why(c: Judged, known: Cause | None, rows: Mapping[str, Judged]) -> tuple[str, str]:
    """(why a claim failed or is open, as far as it is known; of CAUSES, or none)."""
    parts, cause = [], ""
    if not c.inside:
        parts += [f"{c.missed} of {c.n} runs miss it"] if c.worst and c.n > 1 else []
        parts += [c.note, *explained(c, known, rows)]
    elif c.straddled and known:
        parts += explained(c, known, rows)
    if settles(c):
        cause = caused(c, known, rows) if known else UNEXPLAINED * (c.verdict in FAILED)
    if c.straddled and not c.sampled:
        parts.append(f"its values lie on both sides of {c.straddled[0]:.4g}")
    elif c.straddled:
        seeds = f"`asymlab suite {c.paper} --seeds {2 * len({s.seed for s in c.samples})}`"
        parts.append(f"the 95 % interval holds {c.straddled[0]:.4g}; more seeds: {seeds}")
    return "; ".join(filter(None, parts)), cause


def settles(c: Judged) -> bool:
    """A claim whose cause is to be told, with how it is known."""
    return c.source != CAUSE and c.verdict in (*FAILED, "inconclusive")


def explained(c: Judged, known: Cause | None, rows: Mapping[str, Judged]) -> list[str]:
    """The cause, if it is known, or else what the mean misses."""
    if not known:
        return [missed(c)]
    return [settled(c, known, rows) if settles(c) else known.why]


def missed(c: Judged) -> str:
    """Which bound the mean is beyond; nothing if it is inside."""
    least, most = c.bounds
    if c.value is None or c.inside:
        return ""
    side, bound = ("below", least) if c.value < least else ("above", most)
    shown = f"{c.value:.4g}"
    return f"{shown} is just the bound" if shown == f"{bound:.4g}" else f"{shown} is {side} {bound:.4g}"


def caused(c: Judged, cause: Cause, rows: Mapping[str, Judged]) -> str:
    """A cause is measured if all checks hold in which it is turned off, and their runs differ from the claim's."""
    shown = {rows[id].verdict if id in rows else "" for id in cause.shown_by}
    if not shown or not shown <= set(HELD) or powerless(c, cause, rows):
        return GUESS
    return MEASURED[cause.set_up]


def settled(c: Judged, cause: Cause, rows: Mapping[str, Judged]) -> str:
    """A cause, with a word on how it is known."""
    where = " and ".join(cause.shown_by)
    full = isinstance(cause, Ceiling)
    if (word := caused(c, cause, rows)) != GUESS:
        return f"{cause.why} ({word}: {where if full else f'turned off in {where}, and it comes true'})"
    if any(rows[id].verdict in FAILED for id in cause.shown_by if id in rows):
        how = f"{where} fails" if full else f"with it turned off ({where}) it does not come true"
        return f"a guess, as {how}: {cause.why}"
    if weak := powerless(c, cause, rows):
        return f"a guess, as {weak}: {cause.why}"
    return f"a guess: {cause.why}"  # nobody turned it off, not in this set, or that is undecided


def powerless(c: Judged, cause: Cause, rows: Mapping[str, Judged]) -> str:
    """Why a check that holds tells nothing: chance may tell its runs from the claim's; empty if it cannot.

    Only a check of the same bounds measures the same. Fisher's exact test compares how many worst runs miss them;
    intervals of means must not overlap.
    """
    for id in () if isinstance(cause, Ceiling) else cause.shown_by:
        check = rows.get(id)
        if not check or check.verdict not in HELD or (check.bounds, check.worst) != (c.bounds, c.worst):
            continue
        if c.worst and (p := fisher(c.missed, c.n, check.missed, check.n)) > CHANCE:
            return f"{id} cannot tell: there {check.missed} of {check.n} runs miss it, by chance with p = {p:.2f}"
        ours, theirs = ([end for end in one.interval if end is not None] for one in (c, check))
        if not c.worst and max(min(ours), min(theirs)) <= min(max(ours), max(theirs)):
            return f"{id} cannot tell: its interval and this one overlap"
    return ""


def fisher(missed: int, runs: int, others_missed: int, others: int) -> float:
    """One-sided p of Fisher's exact test: that so few of the others miss, if all are alike."""
    every = missed + others_missed
    ways = (comb(others, k) * comb(runs, every - k) for k in range(others_missed + 1))
    return sum(ways) / comb(runs + others, every)


def counts(words: Iterable[str]) -> dict[str, int]:
    """How many verdicts have each word, in the order of SYMBOLS."""
    numbers = Counter(words)
    return {word: numbers[word] for word in SYMBOLS}


def clusters(verdicts: Iterable[dict]) -> int:
    """How many groups of claims there are: those of a scenario share runs, or a controller and a path."""
    groups: list[set[str]] = []
    for v in verdicts:
        if not v["check"] and v["verdict"] != "not measured":
            group = {f"{v['paper']} {id}" for id in v["family"].split()}
            shared = [other for other in groups if other & group]
            groups = [other for other in groups if not other & group] + [group.union(*shared)]
    return len(groups)


def unsampled(verdicts: Iterable[dict]) -> int:
    """The claims of several runs that are no sample."""
    return sum(not v["check"] and v["n"] > 1 and not v["sampled"] for v in verdicts)


def by_cause(verdicts: Iterable[dict]) -> dict[str, int]:
    """How many claims that are not reproduced, or inconclusive, have each word of CAUSES."""
    numbers = Counter(v["cause"] or UNEXPLAINED for v in verdicts if v["verdict"] in OPEN)
    return {word: numbers[word] for word in CAUSES}


def by_measured(verdicts: list[dict]) -> tuple[list[str], list[str]]:
    """The papers with a row that was measured, and those without any."""
    papers = list(dict.fromkeys(v["paper"] for v in verdicts))
    measured = {v["paper"] for v in verdicts if v["verdict"] != "not measured"}
    return [p for p in papers if p in measured], [p for p in papers if p not in measured]
