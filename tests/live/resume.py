# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Long runs that can be interrupted: what is done stays in a file, and the next run goes on from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Progress:
    """The finished parts of a work that these words and files define. Without a file nothing stays."""

    def __init__(self, file: Path | None, words: Iterable[object], files: Iterable[Path]):
        made_of = hashlib.sha256(repr([str(w) for w in words]).encode())
        for path in sorted(files):
            made_of.update(hashlib.sha256(path.read_bytes()).digest())
        self.file, self.of = file, made_of.hexdigest()
        self.done: dict[str, Any] = {}
        if file and file.exists() and (content := json.loads(file.read_text()))["of"] == self.of:
            self.done = content["done"]

    def note(self, what: str, value: Any) -> None:
        self.done[what] = value
        if self.file:
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps({"of": self.of, "done": self.done}))
            part.replace(self.file)

    def finish(self) -> None:
        """All is done: the next run begins anew."""
        if self.file:
            self.file.unlink(missing_ok=True)
