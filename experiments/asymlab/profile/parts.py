# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From blocks to the parts of a guest that they are of."""

from __future__ import annotations

import bisect
from collections import Counter
from typing import NamedTuple

from .counting import Counted
from .programs import Programs, guest_files
from .symbols import Kernel, Range

USER_END = 1 << 47
NO_NAME = "without a name: trampolines, starts of modules"


class Part(NamedTuple):
    kind: str  # kernel, module, bpf, user
    part: str  # function of the kernel, module, BPF program, user program
    function: str  # of a module; the BPF program's full name


class Code:
    """Ranges that do not overlap, by address."""

    def __init__(self, ranges: list[Range]) -> None:
        self.ranges = sorted(ranges, key=lambda r: r.start)
        self.starts = [r.start for r in self.ranges]

    def at(self, address: int) -> Range | None:
        i = bisect.bisect_right(self.starts, address) - 1
        return self.ranges[i] if i >= 0 and address < self.ranges[i].end else None


def of_run(counted: Counted, kernel: Kernel) -> Counter[Part]:
    """Instructions of each part; their sum is that of the blocks."""
    modules, bpf = Code(counted.modules), {age: Code(ranges) for age, ranges in counted.bpf.items()}
    nothing = Code([])
    found: Counter[Part] = Counter()
    user = []
    for address, executed, _, age, code_len, code in counted.blocks.tolist():
        if address < USER_END:
            user.append((address, bytes(code)[:code_len], executed))
        elif kernel.starts[0] <= address < kernel.end:
            name = kernel.function(address)
            found[Part("kernel", name, name)] += executed
        elif r := modules.at(address) or bpf.get(age, nothing).at(address):
            found[Part(r.kind, r.part, r.name)] += executed
        else:
            found[Part("bpf", NO_NAME, NO_NAME)] += executed
    programs = Programs(guest_files() | {"vdso": kernel.vdso()})
    for name, (_, _, executed) in zip(programs.name([(a, c) for a, c, _ in user]), user):
        found[Part("user", name, name)] += executed
    return found
