# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The runs that published rows rest on, made again: does each have the same bytes?

Only the same kernel, image, QEMU and controllers give the same bytes. The command says first what differs here, with
the commit of the published runs. In a checkout of that commit, --from names the folder of what it gave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import LabError
from ..console import console
from ..machine.image import Image
from ..plan import scenario
from ..results import store
from ..run import registered
from ..run.tasks import Task, plan_runs
from . import papers, resample
from .part import Part
from .records import PublishedRun


def chosen(part: Part, claims: list[str], image: Image) -> list[PublishedRun]:
    """The published runs of the named rows, those that they compare with as well; without names all of the part."""
    if not claims:
        return part.runs
    rows, names = {c.id: c for c in part.claims}, set()
    for claim in claims:
        if claim not in rows:
            raise LabError(f"{part.name}: no row {claim!r}; there are {', '.join(rows) or 'none'}")
        of_row = set(rows[claim].runs)
        if not of_row or of_row - {run.name for run in part.runs}:
            raise LabError(f"{part.name}: the runs of {claim} are not published")
        names |= of_row
    here = [claim for claim in papers.claims(part.name) if claim.id in claims]
    read = {case.name for case in resample.cases_of(part.name, here, image)}
    return [run for run in part.runs if run.name in names or run.name.rpartition(" seed ")[0] in read]


@dataclass(frozen=True)
class Plan:
    """The same runs here."""

    part: Part
    image: Image
    pairs: list[tuple[PublishedRun, Task]]

    @property
    def tasks(self) -> list[Task]:
        """Each once."""
        return list({task.key: task for _, task in self.pairs}.values())

    def kept(self) -> int:
        """How many the store has."""
        return sum((store.STORE / task.key).exists() for task in self.tasks)

    def differences(self) -> list[str]:
        """The things that determine a run's bytes and are not as published."""
        here = {"kernel": {self.image.kernel}, "image": {self.image.hash}, "qemu": set()}
        for _, task in self.pairs:
            here["qemu"].add(store.engine(task.identity))
            for name, digest in task.identity["objects"].items():
                here.setdefault(name, set()).add(digest)
        about = self.part.about
        of = {"kernel": about.kernel, "image": about.image, "qemu": about.qemu} | about.objects
        published = {what: set(of.get(what, ["none"])) for what in here}
        return [
            f"{what}: published {short(published[what])}, here {short(values)}"
            for what, values in here.items()
            if not values <= published[what]
        ]

    def say_differences(self) -> None:
        if lines := self.differences():
            for line in lines:
                console.print(line)
            console.print(f"so runs may differ; those published are of commit {self.part.about.commit}")

    def same(self, done: dict[str, store.Run], kept: int) -> bool:
        """Say which runs have other bytes than published. `kept`: how many the store had before."""
        differ = 0
        for published, task in self.pairs:
            new = done[task.key].record["result_sha256"]
            if not new.startswith(published.result):
                differ += 1
                console.print(f"{published.name}: published {published.result[:12]}, here {new[:12]}")
        from_store = f" ({kept} from the store; --fresh makes them again)" if kept else ""
        if not differ:
            console.print(f"{len(self.pairs)} run{'s' * (len(self.pairs) > 1)}, all the same bytes{from_store}")
            return True
        console.print(
            f"{differ} of {len(self.pairs)} differ{from_store}: "
            f"published by commit {self.part.about.commit}, image {short(set(self.part.about.image))}; "
            f"here commit {registered.head() or 'unknown'}, image {self.image.hash[:12]}"
        )
        return False


def plan(part: Part, runs: list[PublishedRun], image: Image) -> Plan:
    """LabError if this tree has not the scenario of one."""
    cases = {c.name: c for file in papers.scenarios(part.name) for c in scenario.load(file, part.about.set)}
    pairs = []
    for run in runs:
        name, _, seed = run.name.rpartition(" seed ")
        if name not in cases or not seed.isdecimal():
            raise LabError(f"{run.name}: no run of this tree's scenarios; commit {part.about.commit} has it")
        pairs += [(run, task) for task in plan_runs([replace(cases[name], seeds=(int(seed),))], image)]
    return Plan(part, image, pairs)


def short(values: set[str]) -> str:
    """Hashes by their first digits."""
    return ", ".join(sorted(v[:12] if len(v) == 64 else v for v in values))
