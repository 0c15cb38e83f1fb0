# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cost of a controller: the instructions of an ACK in its own code.

A BPF controller's code is its programs, and the way to them and back: trampolines, and the kernel's functions on entry
and exit. A controller of the kernel's has the functions of its module, or of its name. Functions of the kernel that
either calls are in neither: helpers of socket storage and options, and Reno's functions. Each controller has a run of
its own, which is counted twice (profile.py): the difference, over the ACKs that came in between, is a steady state,
losses included. The instructions of a data packet tell more if an ACK stands for many packets. Those of its receiver
are in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from ..machine.image import Image
from ..paths import BUILD
from ..plan import objects, scenario
from ..plan.scenario import Case
from ..plan.toml import inline
from ..results.store import Run
from .parts import Part
from .profile import Profile, profile, shorter

FOLDER = BUILD / "bench"
NAME_MAX = 15  # characters that the kernel keeps of a program's name; its symbols have all
# To a program of struct_ops and back. Kernels as old as 6.1 have no names for trampolines: they are missing there.
WAY = {("bpf", "trampolines"), ("kernel", "__bpf_prog_enter"), ("kernel", "__bpf_prog_exit")}
BUILT_IN = {"reno": "tcp_reno_", "cubic": "cubictcp_"}  # how the names of a controller's functions begin in the kernel


@dataclass(frozen=True)
class Cost:
    """Instructions of an ACK."""

    controller: str
    own: float  # in its own code
    way: float  # to it and back: of a BPF controller
    acks: int  # that it is measured over
    packets: int  # of data

    @property
    def all(self) -> float:
        return self.own + self.way

    @property
    def a_packet(self) -> float:
        return self.all * self.acks / self.packets


def cost(made: Profile, acks: int, controller: str, programs: set[str] | None) -> Cost:
    """acks: those between the ends of the two runs; programs: those of a BPF controller, None if the kernel has it."""

    def an_ack(mine: Callable[[Part], bool]) -> float:
        long, short = made.sums(lambda part: "mine" if mine(part) else "").get("mine", (0, 0))
        return (long - short) / acks

    if programs is None:
        return Cost(controller, an_ack(lambda p: _of_kernel(p, controller)), 0, acks, made.packets)
    own = an_ack(lambda p: p.kind == "bpf" and p.part[:NAME_MAX] in programs)
    way = an_ack(lambda p: (p.kind, p.part) in WAY)
    return Cost(controller, own, way, acks, made.packets)


def _of_kernel(part: Part, controller: str) -> bool:
    built_in = BUILT_IN.get(controller)
    if built_in:
        return part.kind == "kernel" and part.part.startswith(built_in) or part.part == f"tcp_{controller}"
    return part.kind == "module" and part.part == f"tcp_{controller}"


def _acks(run: Run) -> int:
    (hop,) = run.job.watch
    return int(run.links["pure_acks"][run.links["dev"] == hop.reverse.dev].sum())


def of_files(files: list[str], base: Path) -> Path:
    """A scenario as the base, whose sweep has these objects or sources."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = FOLDER / "files.toml"
    sweep = {"sweep": {"flows.controller": [objects.absolute(file) for file in files]}}
    lines = {"base": str(base), "without": ["controllers"], "title": "Files, as the others", "id": "ACK-FILES"}
    made.write_text("".join(f"{key} = {inline(value)}\n" for key, value in (lines | sweep).items()))
    return made


def bench(file: Path, image: Image, only: list[str], jobs: int | None = None) -> list[Cost]:
    """The cost of each case of the file, or of those controllers."""
    return [_of_case(case, file, image, jobs) for case in scenario.load(file) if _wanted(case, only)]


def _wanted(case: Case, only: list[str]) -> bool:
    return not only or case.scenario.flows[0].controller in only


def _of_case(case: Case, file: Path, image: Image, jobs: int | None) -> Cost:
    (short,) = (
        c for c in scenario.load(file, settings={"run.duration": f"{shorter(case)}us"}) if c.point == case.point
    )
    made = profile(case, short, image, jobs)
    (controller,) = made.long.run.job.controllers
    acks = _acks(made.long.run) - _acks(made.short.run)
    loaded = made.long.run.record["agent"]["controllers"].get(controller.name)
    return cost(made, acks, controller.name, {p["name"] for p in loaded["programs"]} if loaded else None)


def table(costs: list[Cost]) -> Table:
    """Each beside the kernel's own of that name, if it has one."""
    shown = Table(
        box=None, header_style="bold", title="\ninstructions of an ACK", title_justify="left", title_style="bold"
    )
    for column in ("controller", "own code", "way there", "all", "a packet", "of the kernel's own", "ACKs"):
        shown.add_column(column, justify="left" if column == "controller" else "right")
    native = {c.controller: c for c in costs if not c.way}
    for c in costs:
        beside = native.get(c.controller.removeprefix("bpf_")) if c.way else None
        ratio = f"{c.own / beside.own:.2f}; {c.all / beside.own:.2f} with the way" if beside and beside.own else ""
        way = f"{c.way:.0f}" if c.way else ""
        shown.add_row(c.controller, f"{c.own:.0f}", way, f"{c.all:.0f}", f"{c.a_packet:.0f}", ratio, f"{c.acks:,}")
    return shown
