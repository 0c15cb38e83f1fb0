# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run of a set that was not made (`asymlab suite --only`).

A claim reads the runs of several cases, and is not measured if one of them is absent. Unknown stands for a number of an
absent run. A value computed from it is Unknown. A decision by it, or its conversion to a number, raises Missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..results.store import Run

if TYPE_CHECKING:
    from ..run.tasks import Task


class Missing(Exception):
    """Something is to be decided by a run that was not made."""


class Unknown:
    """A number, a table or a text that nobody measured."""

    def _unknown(self, *args: Any, **kw: Any) -> Unknown:
        return self

    def _missing(self, *args: Any, **kw: Any) -> Any:
        raise Missing

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    __getitem__ = __call__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _unknown
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _unknown
    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _unknown
    __neg__ = __pos__ = __abs__ = __round__ = _unknown
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _unknown
    __bool__ = __float__ = __int__ = __index__ = __len__ = __iter__ = __contains__ = __array__ = _missing
    __hash__ = None


class _Record(dict):
    def __missing__(self, key: str) -> Unknown:
        return Unknown()


class Absent(Run):
    """It knows what it would run, and no result."""

    @classmethod
    def of(cls, task: Task) -> Absent:
        about = {"key": task.key, "identity": task.identity, "invalid": []}
        return cls(Path(), _Record(task.about("lab") | about))

    def _table(self, name: str) -> Any:
        return Unknown()

    def capture(self, side: str) -> Any:
        return Unknown()

    def state(self, flow: int) -> Any:
        return Unknown()
