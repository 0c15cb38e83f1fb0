# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Verdicts: what became of claims, and in words why.

A verdict follows from the judged claim (judged.py), its cause (claim.py), and the verdicts of the checks that show
it. All its words are made here, and nowhere read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from .claim import CAUSE, Cause, Ceiling
from .judged import SYMBOLS, Judged

FAILED, HELD = ("not reproduced", "fails"), ("reproduced", "holds")


# A verdict has these of its claim. low..high is the 95 % interval of our value over the seeds.
OF_CLAIM = ("id", "paper", "source", "claim", "paper_value", "value", "low", "high", "verdict")
OF_RUNS = ("runs", "n", "seeds", "distinct", "sampled", "check", "family")


Causes = Mapping[str, Cause]  # by the id of the claim


def verdicts(claims: Iterable[Judged], causes: Causes) -> list[dict]:
    """A paper's verdicts: OF_CLAIM, `reason` in words, OF_RUNS, `cause` (of one that failed: measured, a guess, or not
    found), `worst`."""
    claims = list(claims)
    became = {c.id: c.verdict for c in claims}
    return [verdict(c, causes.get(c.id), became) for c in claims]


def verdict(c: Judged, known: Cause | None, became: dict[str, str]) -> dict:
    reason, cause = (c.unmeasured, "") if c.unmeasured else why(c, known, became)
    parts = [reason, *(() if c.unmeasured else c.left_out.values()), "cause not found" * (cause == "not found")]
    reason = "; ".join(filter(None, parts))
    of = {name: getattr(c, name) for name in OF_CLAIM} | {"reason": reason}
    return of | {name: getattr(c, name) for name in OF_RUNS} | {"cause": cause, "worst": c.worst}


def why(c: Judged, known: Cause | None, became: dict[str, str]) -> tuple[str, str]:
    """(why a claim failed or is open, as far as it is known; its cause: measured, a guess, not found, or none)."""
    parts, cause = [], ""
    if not c.inside:
        parts += [f"{c.missed} of {c.n} runs miss it"] if c.worst and c.n > 1 else []
        parts += [c.note, *explained(c, known, became)]
    elif c.straddled and known:
        parts += explained(c, known, became)
    if settles(c):
        cause = caused(known, became) if known else "not found" * (c.verdict in FAILED)
    if c.straddled and not c.sampled:
        parts.append(f"its values lie on both sides of {c.straddled[0]:.4g}")
    elif c.straddled:
        seeds = f"`asymlab suite {c.paper} --seeds {2 * len({s.seed for s in c.samples})}`"
        parts.append(f"the 95 % interval holds {c.straddled[0]:.4g}; more seeds: {seeds}")
    return "; ".join(filter(None, parts)), cause


def settles(c: Judged) -> bool:
    """A claim whose cause is to be told, with how it is known."""
    return c.source != CAUSE and c.verdict in (*FAILED, "inconclusive")


def explained(c: Judged, known: Cause | None, became: dict[str, str]) -> list[str]:
    """The cause, if it is known, or else what the mean misses."""
    if not known:
        return [missed(c)]
    return [settled(known, became) if settles(c) else known.why]


def missed(c: Judged) -> str:
    """Which bound the mean is beyond; nothing if it is inside."""
    least, most = c.bounds
    if c.value is None or c.inside:
        return ""
    return f"{c.value:.4g} is below {least:.4g}" if c.value < least else f"{c.value:.4g} is above {most:.4g}"


def caused(cause: Cause, became: dict[str, str]) -> str:
    """A cause is measured if all checks hold in which it is turned off."""
    shown = {became.get(id) for id in cause.shown_by}
    return "measured" if shown and shown <= set(HELD) else "a guess"


def settled(cause: Cause, became: dict[str, str]) -> str:
    """A cause, with a word on how it is known."""
    where = " and ".join(cause.shown_by)
    full = isinstance(cause, Ceiling)
    if caused(cause, became) == "measured":
        return f"{cause.why} (measured: {where if full else f'turned off in {where}, and it comes true'})"
    if {became.get(id) for id in cause.shown_by} & set(FAILED):
        how = f"{where} fails" if full else f"with it turned off ({where}) it does not come true"
        return f"a guess, as {how}: {cause.why}"
    return f"a guess: {cause.why}"  # nobody turned it off, not in this set, or that is undecided


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


def by_measured(verdicts: list[dict]) -> tuple[list[str], list[str]]:
    """The papers with a row that was measured, and those without any."""
    papers = list(dict.fromkeys(v["paper"] for v in verdicts))
    measured = {v["paper"] for v in verdicts if v["verdict"] != "not measured"}
    return [p for p in papers if p in measured], [p for p in papers if p not in measured]
