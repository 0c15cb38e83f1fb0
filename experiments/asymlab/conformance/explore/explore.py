# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random scenarios, and what must hold in each whatever it is: `asymlab explore`.

A seed and a number draw a scenario: path, flows, controllers with parameters, what changes under way. It is a plain
file, build/explore/SEED-NUMBER.toml, and its run one of the lab's: it repeats to the byte. Each run is judged:

    content   every byte that arrived is the one that was sent there
    broken    no connection ends
    command   no command of asymcc fails that may be given then
    machine   the guest neither hangs nor dies
    silence   no flow is without progress for longer than silence_limit() says
    close     no connection closes later than its FIN's ACK takes
    window    1 <= cwnd <= 2^20 packets, which grow by what is delivered at most (not Hybla's,
              Westwood's nor Formosa's), and pacing rates between 1 byte/s
              and 10 GB/s (large packets: more)
    link      no direction carries more than its rate allows
    rtt       no sample is shorter than the path
    floor     a flow alone on a clean path uses as much of it as its law promises: floor_of()
    pace      the stack paces by what window and round trip ask for
    repair    a recovery begins with a retransmission
    early     no packet is lost before RACK's window, or three behind it
    sample    no RTT is older than what it is of
    undo      a reduction that is taken back leaves the window as it was
    backoff   each timeout of a silence is twice the one before; takes run.capture
    acks      receivers acknowledge each second packet, and each out of order
    uplink    `asymcc uplink` keeps to the bounds that it is told, and looks at the queue to the end
    left      the kernel has none of the controllers' programs at the end
    log       and has said nothing of a WARNING or a BUG

A run whose set-up failed its self-check is counted apart: it judges the lab. A scenario that breaks one is
shrunk: the smallest that breaks the same is build/explore/INVARIANT-CONTROLLER-SEED-NUMBER.toml, and `asymlab run FILE`
repeats it. On an image that tells which branches a run reaches (experiments/kernels/coverage.config) paths that reach
new ones are kept and varied. The exit code is 1 if one breaks, and 2 for an error.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ... import LabError
from ...console import console
from ...controllers import built_in
from ...machine import image
from ...machine.kernel import ACCURATE_ECN, series
from ...paths import BUILD, BUILT, REPO
from ...plan import groups, objects, scenario
from ...plan.scenario import Case
from ...plan.toml import toml
from ...plan.topology import DIRECTIONS
from ...results import store
from ...run import local
from ...run.cost import survey
from ...run.tasks import has_dualpi2, plan_runs
from .draw import OBJECT, Facts, draw, facts, with_uplink
from .guide import ROUND, Guide
from .invariants import BROKEN, INVARIANTS, Broken, floor_of, judge
from .shrink import shrink
from .silence import all_arrived, silence_limit
from .view import View

FOLDER = BUILD / "explore"
WALL_LIMIT_S = 600  # of a run that takes some seconds
SHRINK_RUNS = 80  # at most, for one failure


def written(tree: dict, name: str) -> Case:
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.toml"
    file.write_text(toml(tree))
    (case,) = scenario.load(file)
    return case


def attempt(guest: image.Image, case: Case) -> store.Run | LabError:
    """One run, or what kept it from being one."""
    tasks = plan_runs([case], guest)
    if done := survey(tasks).done:
        return done[tasks[0].key]
    with contextlib.closing(local.runs(tasks, guest, 1, lambda _: None, WALL_LIMIT_S, go_on=True)) as under_way:
        return next(under_way)[1]


def repeat_line(file: Path, guest: image.Image) -> str:
    name = [] if guest.folder.name == image.DEFAULT_KERNEL else ["--image", guest.folder.name]
    return shlex.join(["asymlab", "run", str(file.relative_to(REPO) if file.is_relative_to(REPO) else file), *name])


@dataclass
class Tally:
    """The outcome."""

    runs: int = 0
    invalid: list[str] = field(default_factory=list)  # the lab's own: a line each
    broken: list[str] = field(default_factory=list)
    counts: Counter = field(
        default_factory=Counter
    )  # by invariant; "silence judged", "close judged" and "floor judged" say how often there was a limit
    reached: dict[str, str] = field(default_factory=dict)  # by paths, as coverage.told()
    branches: int = 0  # of all

    def line(self) -> str:
        n = self.counts
        found = ", ".join(f"{name} {n[name]}" for name in (*INVARIANTS, *dict.fromkeys(BROKEN.values())) if n[name])
        return (
            f"{self.runs} paths, {len(self.invalid)} invalid by the lab itself, "
            f"{len(self.broken)} failures{': ' + found if found else ''}; {n['flows']} flows, "
            f"{n['silence judged']} with a limit to silence, {n['close judged']} that closed, "
            f"{n['floor judged']} with a floor" + (f"; {self.branches} branches" if self.branches else "")
        )


def look(tally: Tally, name: str, case: Case, result: store.Run | LabError) -> list[Broken]:
    """Count a run's verdict."""
    tally.runs += 1
    found = judge(case, result)
    if isinstance(result, LabError):
        wrong = "" if found else str(result)
    else:
        wrong = "; ".join(result.record["invalid"])
    if wrong:
        tally.invalid.append(f"{name}: {wrong}")
        console.print(f"invalid: {tally.invalid[-1]}")
    elif not isinstance(result, LabError):
        v = View(case, result)
        tally.counts["flows"] += len(result.job.flows)
        # Had it frozen half-way with nothing dropped from there on, it would be seen.
        tally.counts["silence judged"] += sum(
            silence_limit(v, job, flow, v.end, v.end) < (v.end - job.start_s) / 2 for job, flow in v.flows()
        )
        tally.counts["close judged"] += sum(all_arrived(v, job) is not None for job, _ in v.flows())
        tally.counts["floor judged"] += floor_of(v) is not None
        if word := result.record.get("coverage"):
            tally.reached[name] = word
    for broken in found:
        tally.counts[broken.invariant] += 1
        tally.broken.append(f"{name}: {broken.invariant} ({broken.controller}): {broken.words}")
        console.print(tally.broken[-1])
    return found


def smallest(tree: dict, name: str, broken: Broken, guest: image.Image) -> Path:
    """The file of the smallest scenario found that breaks the same."""

    def again(less: dict) -> list[Broken]:
        case = written(less, f"{name}-try")
        return judge(case, attempt(guest, case))

    less = shrink(tree, broken.invariant, again, SHRINK_RUNS)
    (FOLDER / f"{name}-try.toml").unlink(missing_ok=True)
    return written(less | {"title": f"breaks {broken.invariant}"}, name).file


def run_all(cases: dict[str, Case], jobs: int | None, guest: image.Image, tally: Tally) -> Iterator[tuple[str, Broken]]:
    """Judge each case by its name. A run of the store is not made again."""
    tasks = {task.key: (name, task) for name, case in cases.items() for task in plan_runs([case], guest)}
    work = survey([task for _, task in tasks.values()])
    console.print(work.line(local.places(jobs)))
    left = [
        task for _, task in tasks.values() if task.key not in work.done
    ]  # as drawn, so that those that have ended are a sample of all
    under_way = local.runs(left, guest, jobs, lambda _: None, WALL_LIMIT_S, go_on=True)
    with contextlib.closing(under_way):
        for key, result in itertools.chain(work.done.items(), ((task.key, result) for task, result in under_way)):
            name, task = tasks[key]
            for broken in look(tally, name, task.case, result):
                yield name, broken
            if not tally.runs % 20:
                console.print(tally.line())


Trees = dict[str, dict]  # scenarios by their names


def search(trees: Trees, jobs: int | None, guest: image.Image, tally: Tally) -> list[tuple[str, Broken]]:
    """The invariants that each breaks."""
    return list(run_all({name: written(tree, name) for name, tree in trees.items()}, jobs, guest, tally))


def explore(rounds: Iterable[Trees], jobs: int | None, guest: image.Image, tally: Tally) -> Tally:
    """Judge scenarios, a round after the other, and shrink the first of each kind of failure."""
    shrunk = set()
    for trees in rounds:
        for name, one in search(trees, jobs, guest, tally):
            if (one.invariant, one.controller) not in shrunk:
                shrunk.add((one.invariant, one.controller))
                file = smallest(trees[name], f"{one.invariant}-{one.controller}-{name}", one, guest)
                words = f"{name}: {one.invariant} ({one.controller}), the smallest found"
                console.print(f"{words}: {repeat_line(file, guest)}")
    console.print(tally.line())
    return tally


@dataclass
class Paths:
    """The scenarios of a seed, for a kernel and for controllers, by their numbers."""

    seed: int
    controllers: list[str]
    guest: image.Image
    uplink: bool = False  # each has one
    wanted: dict[str, str] = field(init=False)
    known: dict[str, Facts] = field(init=False)

    def __post_init__(self) -> None:
        there = built_in(BUILT)
        self.wanted = objects.called(self.controllers or there)
        self.known = {name: facts(self.wanted.get(name, name)) for name in dict.fromkeys((*there, *self.wanted))}

    def draw(self, number: int) -> dict:
        tree = draw(self.seed, number, [*self.wanted], self.known)
        return with_uplink(tree, self.seed, number) if self.uplink else tree

    def fitted(self, tree: dict) -> dict:
        """On a kernel without AccECN the same path has ECN, and CUBIC in place of what needs a newer kernel; where it
        has DualPI2, that in place of other queues that mark."""
        kernel = self.guest.kernel
        if series(kernel) < ACCURATE_ECN and "ecn" in tree:
            tree = tree | {"ecn": True}
        if has_dualpi2(self.guest):
            tree = with_dualpi2(tree)
        newer = set(built_in(BUILT)) - {*objects.built_for(series(kernel)), *self.controllers}
        return with_files(without_newer(tree, newer), self.wanted)

    def drawn(self, count: int, first: int = 0) -> Trees:
        return {f"{self.seed}-{number}": self.fitted(self.draw(number)) for number in range(first, first + count)}

    def rounds(self, count: int, tally: Tally) -> Iterator[Trees]:
        """All, a round after the other; guided by what those before have reached, which the tally has by then."""
        guide = Guide()
        for first in range(0, count, ROUND):
            paths = {}
            for number in range(first, min(first + ROUND, count)):
                rng = random.Random(f"{self.seed} {number} guide")
                paths[f"{self.seed}-{number}"] = guide.path(self.draw(number), rng, self.known)
            yield {name: self.fitted(tree) for name, tree in paths.items()}
            for name, tree in paths.items():  # in the order of their numbers
                if name in tally.reached:
                    guide.learn(tree, tally.reached.pop(name))
            tally.branches = int(guide.reached.sum())


def with_dualpi2(tree: dict) -> dict:
    """In place of CoDel and PIE that mark."""

    def way(of: dict) -> dict:
        for kind in ("codel", "pie"):
            if of.get(kind, {}).get("ecn"):
                return {k: v for k, v in of.items() if k != kind} | {"dualpi2": {"target": of[kind]["target"]}}
        return of

    def hop(of: dict) -> dict:
        return of | {direction: way(of[direction]) for direction in DIRECTIONS}

    path = tree["path"]
    return tree | {"path": path | {"hops": [*map(hop, path["hops"])]} if "hops" in path else hop(path)}


def without_newer(tree: dict, newer: set[str]) -> dict:
    """CUBIC in place of these, without their parameters and changes."""
    flows = [f | ({"controller": "cubic"} if f["controller"] in newer else {}) for f in tree["flows"]]
    given = {name: values for name, values in tree.get("controllers", {}).items() if name not in newer}
    changes = [change for change in tree.get("changes", []) if change.get("controller") not in newer]
    return tree | {"flows": flows, "controllers": given, "changes": changes}


def with_files(tree: dict, wanted: dict[str, str]) -> dict:
    """The scenarios that were drawn with names, with the files that they stand for."""
    used = sorted({flow["controller"] for flow in tree["flows"]})
    files = {name: {OBJECT: wanted[name]} for name in used if objects.is_file(wanted.get(name))}
    given = tree.get("controllers", {})
    return tree | {"controllers": given | {name: file | given.get(name, {}) for name, file in files.items()}}


def read(files: list[Path]) -> Trees:
    """Scenarios that somebody wrote, each with one case."""
    trees = {}
    for file in files:
        cases = scenario.load(file)
        if len(cases) != 1:
            raise LabError(f"{file}: sweep: one case is judged")
        if not (cases[0].scenario.run.verify and cases[0].scenario.run.audit):
            raise LabError(f"{file}: run: needs verify = true and audit = true to be judged")
        trees[file.stem], _ = groups.expand(cases[0].source.tree)
    return trees
