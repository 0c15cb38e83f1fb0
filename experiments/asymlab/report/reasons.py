# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Why claims are not reproduced, as far as it is known: experiments/papers/NAME/reasons.toml.

results = "…"           hash of the paper's published results, for which the `published` texts were written

[[reason]]
claims = ["FO-3a"]      ids of verdicts, * for any part; the first reason that fits counts. It is shown where the mean
                        misses the bounds. Where the mean is inside and the interval is not, the id must stand in full
why = "…"               the cause in words, shown over any runs; it has no number
shown_by = ["FO-3a-F"]  verdicts over runs in which this cause is turned off. If they all hold, the cause is measured;
                        if one does not, or none is named, it is called a guess
published = "…"         what the published runs showed, with numbers: shown over the same runs only
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from .. import LabError
from . import papers

REFERENCE = re.compile(r"\b(RFC|section|Fig\.|Table|equation|claim) [\w.-]+")  # a number that nobody measured


class Reason(BaseModel):
    model_config = ConfigDict(extra="forbid")
    claims: list[str]
    why: str = ""
    shown_by: list[str] = []
    published: str = ""

    @field_validator("why")
    @classmethod
    def words_only(cls, text: str) -> str:
        if found := re.search(r"\S*\d\S*", REFERENCE.sub("", text)):
            raise ValueError(f"{found[0]} is a number: it belongs under `published`")
        return text


class Reasons(BaseModel):
    model_config = ConfigDict(extra="forbid")
    results: str = ""
    reason: list[Reason] = []

    def of(self, claim: str) -> Reason | None:
        return next((r for r in self.reason if any(fnmatchcase(claim, id) for id in r.claims)), None)

    def names(self, claim: str) -> bool:
        """Does a reason name this claim in full? One that is open though its mean is inside has no other."""
        reason = self.of(claim)
        return bool(reason and claim in reason.claims)


def load(paper: str) -> Reasons:
    """Of a paper; none if it has no such file."""
    file = papers.PAPERS / paper / "reasons.toml"
    try:
        return Reasons.model_validate(tomllib.loads(file.read_text()))
    except FileNotFoundError:
        return Reasons()
    except ValidationError as e:
        first = e.errors()[0]
        raise LabError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (OSError, ValueError) as e:
        raise LabError(f"{file}: {e}") from None


def results_hash(hashes: Iterable[str]) -> str:
    """Of the results of a paper's runs, by their result_sha256."""
    return hashlib.sha256("\n".join(sorted(set(hashes))).encode()).hexdigest()


def outdated(paper: str, found: str) -> str:
    """What there is to do about a paper's texts that were written for other results than those of this hash."""
    if load(paper).results in ("", found):
        return ""
    return (
        f"{papers.PAPERS / paper / 'reasons.toml'}: its `published` texts are of other results; "
        f'read them and docs/{paper}.md again, then set results = "{found}"'
    )
