# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names that stand in the files of a report, or of published results, and become a part of a path or a program's word.

Somebody else may have written such a file. So each kind of name has one type here, and a file with another is refused.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from ..machine.image import LABEL
from ..results.store import KEY


def _named(pattern: str, noun: str) -> AfterValidator:
    """Refuse a text that does not fit the pattern in full."""

    def checked(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text[:40]!r} is no {noun}")
        return text

    return AfterValidator(checked)


SuiteName = Annotated[str, _named("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "name of a suite: letters, digits, - and _")]
ImageLabel = Annotated[str, _named(LABEL.pattern, "name of an image: letters, digits and . + _ -")]
Commit = Annotated[str, _named("[0-9a-f]{7,64}[+]?", "commit: 7 hexadecimal digits or more; + if files had changed")]
RunKey = Annotated[str, _named(KEY.pattern, "key of a run: 32 hexadecimal digits")]
Digest = Annotated[str, _named("[0-9a-f]{64}", "SHA-256: 64 hexadecimal digits")]
