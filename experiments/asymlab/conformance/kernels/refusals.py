# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Objects that the verifier must refuse: those of tests/verifier."""

from __future__ import annotations

import json
import re

from ... import LabError
from ...guest import audit
from ...guest.job import Refusals
from ...guest.system import Failure
from ...machine import image, vm
from ...paths import BUILT, REPO
from .outcome import Column, Outcome, Result
from .setup import WALL_LIMIT_S


def refused() -> dict[str, str]:
    """The objects of tests/verifier, a fault each, and the verifier's words for it: a regular expression."""
    found = {
        p.name.removesuffix(".bpf.c"): re.findall(r"refused: (.*) \*/", p.read_text())
        for p in sorted((REPO / "tests" / "verifier").glob("*.bpf.c"))
    }
    if lacking := [
        name for name, words in found.items() if not words or not (BUILT / "verifier" / f"{name}.bpf.o").exists()
    ]:
        raise LabError(
            f"tests/verifier/{lacking[0]}.bpf.c: "
            + ("not built; run `make check-kernels`" if found[lacking[0]] else "no words of the verifier")
        )
    return {name: words[0] for name, words in found.items()}


def attempts(objects: str) -> dict[str, list[str]]:
    """How to load each from this folder: what traces by bpftool, for the loader's own tracer is no argument of it."""
    return {
        name: ["bpftool", "prog", "loadall", f"{objects}/{name}.bpf.o", f"/sys/fs/bpf/refused_{name}"]
        if name.startswith("trace_")
        else ["asymcc", "--objects", objects, "load", name, "--as", "refused", "-v"]
        for name in refused()
    }


def were_refused(said: dict[str, dict]) -> Result:
    def outcome(name: str, words: str) -> Outcome:
        one = said[name]
        if one["left"] or one["code"] != (255 if name.startswith("trace_") else 1):
            return f"exit {one['code']}, in the kernel: {', '.join(one['left']) or 'nothing'}"
        return None if re.search(words, one["words"]) else f"not {words!r}: {one['words'][-600:]}"

    return Result({f"refuses {name}": outcome(name, words) for name, words in refused().items()})


def refusals(column: Column) -> Result:
    try:
        return refused_in_guest(column.image) if column.image else refused_here()
    except (LabError, Failure) as e:
        return Result({"runs": str(e)})


def refused_in_guest(made: image.Image) -> Result:
    objects = {f"refused/{name}.bpf.o": (BUILT / "verifier" / f"{name}.bpf.o").read_bytes() for name in refused()}
    files, _ = vm.run(made, Refusals(1, attempts("/lab/refused")), objects, limit_s=WALL_LIMIT_S)
    return were_refused(json.loads(files["agent.json"]))


def refused_here() -> Result:
    found = {
        name: [str(BUILT / argv[0]) if argv[0] == "asymcc" else argv[0], *argv[1:]]
        for name, argv in attempts(str(BUILT / "verifier")).items()
    }
    return were_refused(audit.refusals(Refusals(1, found)))
