# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Verdicts: what became of claims, and in words why.

A verdict follows from the claim's record and its samples (verdicts.py), reasons.toml, and the verdicts of the checks
that show a cause. All its words are made here, and nowhere read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from .reasons import Reason, Reasons
from .verdicts import SYMBOLS, Claim

CAUSE = "cause"  # source of a claim over runs in which a cause is turned off
FAILED, HELD = ("not reproduced", "fails"), ("reproduced", "holds")


# What a verdict has of its claim. low..high is the 95 % interval of our value over the seeds.
OF_CLAIM = ("id", "paper", "source", "claim", "paper_value", "value", "low", "high", "verdict")
OF_RUNS = ("runs", "n", "check", "family")


def verdicts(claims: Iterable[Claim], known: Reasons, quoted: Collection[str] = ()) -> list[dict]:
    """Of a paper's claims: OF_CLAIM, `reason` in words, OF_RUNS, `cause` (of one that failed: measured, a guess, or not
    found), `worst`. `quoted`: the ids over whose runs the `published` texts of reasons.toml were written."""
    claims = list(claims)
    became = {c.id: c.verdict for c in claims}
    return [verdict(c, known, c.id in quoted, became) for c in claims]


def verdict(c: Claim, known: Reasons, quoted: bool, became: dict[str, str]) -> dict:
    reason, cause = (c.unmeasured, "") if c.unmeasured else why(c, known, quoted, became)
    said = [reason, *(() if c.unmeasured else c.left_out.values()), "cause not found" * (cause == "not found")]
    reason = "; ".join(filter(None, said))
    of = {name: getattr(c, name) for name in OF_CLAIM} | {"reason": reason}
    return of | {name: getattr(c, name) for name in OF_RUNS} | {"cause": cause, "worst": c.worst}


def why(c: Claim, known: Reasons, quoted: bool, became: dict[str, str]) -> tuple[str, str]:
    """(why a claim failed or is open, as far as it is known; its cause: measured, a guess, not found, or none)."""
    said, cause, reason = [], "", known.of(c.id)
    if not c.inside:
        said += [f"{c.missed} of {c.n} runs miss it"] if c.worst and c.n > 1 else []
        said += [c.note, *explained(c, reason, quoted, became)]
    elif c.straddled and known.names(c.id):
        said += explained(c, reason, quoted, became)
    if c.source != CAUSE and c.verdict in (*FAILED, "inconclusive"):
        if reason and reason.why and (not c.inside or known.names(c.id)):
            cause = caused(reason, became)
        elif c.verdict in FAILED:
            cause = "not found"
    if c.straddled:
        seeds = f"`asymlab suite {c.paper} --seeds {2 * len({s.seed for s in c.samples})}`"
        said.append(f"the 95 % interval holds {c.straddled[0]:.4g}; more seeds: {seeds}")
    return "; ".join(filter(None, said)), cause


def explained(c: Claim, reason: Reason | None, quoted: bool, became: dict[str, str]) -> list[str]:
    """The cause, if it is known, or else what the mean misses; and what the published runs showed."""
    words = by = missed(c)
    if reason and reason.why:
        settles = c.source != CAUSE and c.verdict in (*FAILED, "inconclusive")
        words = by = settled(reason, became) if settles else reason.why
    if not reason or not reason.published:
        return [by]
    if quoted:
        return [words if reason.why else "", reason.published]
    return [by, f"published reason: see docs/{c.paper}.md"]


def missed(c: Claim) -> str:
    """Which bound the mean is beyond; nothing if it is inside."""
    least, most = c.bounds
    if c.value is None or c.inside:
        return ""
    return f"{c.value:.4g} is below {least:.4g}" if c.value < least else f"{c.value:.4g} is above {most:.4g}"


def caused(reason: Reason, became: dict[str, str]) -> str:
    """A cause is measured if all checks hold in which it is turned off."""
    shown = {became.get(id) for id in reason.shown_by}
    return "measured" if shown and shown <= set(HELD) else "a guess"


def settled(reason: Reason, became: dict[str, str]) -> str:
    """A cause, with a word on how it is known."""
    where = " and ".join(reason.shown_by)
    if caused(reason, became) == "measured":
        return f"{reason.why} (measured: turned off in {where}, and it comes true)"
    if {became.get(id) for id in reason.shown_by} & set(FAILED):
        return f"a guess, as with it turned off ({where}) it does not come true: {reason.why}"
    return f"a guess: {reason.why}"  # nobody turned it off, not in this set, or that is undecided


def counts(words: Iterable[str]) -> dict[str, int]:
    """How many verdicts have each word, in the order of SYMBOLS."""
    found = Counter(words)
    return {word: found[word] for word in SYMBOLS}
