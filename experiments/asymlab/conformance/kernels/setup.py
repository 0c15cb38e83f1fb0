# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The scenario of an object's run: it has a hop for each thing to be seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ... import controllers
from ...paths import BUILD
from ...plan import objects, scenario
from ...plan.toml import inline

RATE, DELAY_MS, LOSS, BDP = 5e6, 40, 0.01, 50  # bit/s, one way, share, packets of 1000 bytes that the path holds
PAUSE, RESUME, CHANGE, END = 3, 6.5, 5, 10  # s
WALL_LIMIT_S = 600  # of a machine that takes some ten seconds on a core of its own
QUEUES = {"bare": 50, "clean": 100, "lossy": 100, "marked": 100}  # packets; a record's `queues` come first
MARKED = '{ rate = "50kbit", delay = "40ms", queue = 10, red = { min = 4, max = 8, probability = "10%", ecn = true } }'


def alias(name: str) -> str:
    return f"{name}_2"


@dataclass(frozen=True)
class Facts:
    """Facts of an object, as the loader shows them."""

    live: dict[str, int]  # parameters that may change while flows run, and what they change to
    halves: bool  # it has programs for a cgroup, of which two instances in one would clash
    file: str = ""  # whose path it was given by, if it was
    needs: tuple[int, ...] = ()  # the first Linux that takes it


def facts(name: str, controller: str = "") -> Facts:
    """Live parameters change as the record says; others rise by a quarter, or fall. `controller`: whose name it is."""
    controller = controller or name
    shown, record = objects.shown(controller), controllers.of(name)
    live = {}
    for p in shown["parameters"]:
        if p["live"]:
            value = record.fitting.get(p["name"], p["value"])
            step = max(value // 4, 1)
            live[p["name"]] = record.changed.get(p["name"], value + step if value + step <= p["max"] else value - step)
    file = controller if objects.is_file(controller) else ""
    return Facts(live, bool(shown["cgroup_programs"]), file, objects.needed_by(shown))


@dataclass(frozen=True)
class Setup:
    """A run: who is in it, and what of it this kernel can do."""

    names: tuple[str, ...]
    delay: bool = True  # netem: delay, loss and RED come with it
    bare: bool = True
    change: bool = True

    def roles(self) -> list[tuple[str, str]]:
        """(object, hop's role) of each flow, in order."""
        found = []
        for name in self.names:
            law = controllers.of(name).law
            there = {"bare": self.bare, "clean": True, "lossy": self.delay}
            there["marked"] = self.delay and law is not None and law.marked
            found += [(name, role) for role in there if there[role]]
        return found

    def text(self, known: dict[str, Facts]) -> str:
        delay = f"{DELAY_MS if self.delay else 0}ms"
        even = f'{{ rate = "{RATE:.0f}bit", delay = "{delay}", queue = 100 }}'
        roles = self.roles()
        hops = [self.hop(name, role, delay, even) for name, role in roles]
        if len(roles) == 1:  # a chain has two hops at least
            hops.append(f"[[path.hops]]\nforward = {even}\nreverse = {even}\n")
        sysctls = {key: value for name in self.names for key, value in controllers.of(name).sysctls.items()}
        return "\n".join(
            [
                f'title = "{" and ".join(self.names)}: does all of it work on this kernel?"\nid = "KERNELS"',
                'ack = "every"\n',
                *([f"sysctls = {inline(sysctls)}\n"] if sysctls else []),
                "[path]\nmtu = 1000\n",
                *hops,
                *(self.flow(k, name, role) for k, (name, role) in enumerate(roles, 1)),
                *(part for name in self.names for part in self.controller(name, known[name])),
                f'[run]\nduration = "{END}s"\nmeasure_from = "1s"',
                'trace_state = true\ntraffic = "plain"\naudit = true\n',
            ]
        )

    @staticmethod
    def hop(name: str, role: str, delay: str, even: str) -> str:
        queue = controllers.of(name).queues.get(role, QUEUES[role])
        loss = f', loss = "{LOSS:.0%}"' if role == "lossy" else ""
        return (
            f'[[path.hops]]\nforward = {{ rate = "{RATE:.0f}bit", delay = "{delay}", queue = {queue}{loss} }}\n'
            f"reverse = {MARKED if role == 'marked' else even}\n"
        )

    @staticmethod
    def flow(k: int, name: str, role: str) -> str:
        text = f'[[flows]]\ncontroller = "{name if role == "bare" else alias(name)}"\nenter = {k}\nleave = {k + 1}\n'
        return text + (f'stop = "{PAUSE}s"\nresume = "{RESUME}s"\n' if role == "bare" else "")

    def controller(self, name: str, known: Facts) -> Iterator[str]:
        fitting = "".join(f"{k} = {v}\n" for k, v in controllers.of(name).fitting.items())
        yield f"[controllers.{alias(name)}]\nobject = {inline(known.file or name)}\n{fitting}"
        if self.bare and known.file:  # bpftool would call it as it calls itself
            yield f"[controllers.{name}]\nobject = {inline(known.file)}\n"
        elif self.bare:
            yield f'[controllers.{name}]\nloader = "bpftool"\n'
        if self.change and known.live:
            yield f'[[changes]]\nat = "{CHANGE}s"\ncontroller = "{alias(name)}"\nset = {inline(known.live)}\n'

    @property
    def file(self) -> Path:
        """In build/kernels, so that `asymlab run` repeats it."""
        less = [
            what for what, there in (("near", self.delay), ("loader", self.bare), ("fixed", self.change)) if not there
        ]
        return BUILD / "kernels" / f"{'-'.join([*self.names, *less])}.toml"

    def cases(self, known: dict[str, Facts]) -> list[scenario.Case]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text(known))
        return scenario.load(self.file)
