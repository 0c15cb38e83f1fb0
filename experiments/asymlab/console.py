# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Messages to the user's terminal."""

from __future__ import annotations

import os

from rich.console import Console
from rich.segment import Segment

from . import printable


class PlainConsole(Console):
    """Shows names and reasons as they are: no markup, and no control character of anybody's gets to the terminal."""

    def __init__(self, **options):
        super().__init__(**options, highlight=False, markup=False, emoji=False)

    def render(self, *args, **kw):
        for segment in super().render(*args, **kw):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


console = PlainConsole(stderr=True, soft_wrap=not os.isatty(2), width=None if os.isatty(2) else 160)
