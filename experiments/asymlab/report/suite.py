# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A suite: a paper's scenario files, its claims, their verdicts.

Each folder of experiments/papers that has a claims.py is one: its *.toml are the scenarios, claims.py has
`claims(results)`, which yields a Verdict for each claim, and figures.py `figures(results)`, which yields Figures.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType

from .. import LabError
from ..machine import vm
from ..machine.image import Image
from ..paths import EXPERIMENTS
from ..plan import scenario
from ..results.store import Run
from ..run import runner
from . import report

PAPERS = EXPERIMENTS / "papers"
BENCH = EXPERIMENTS / "bench" / "five-flows.toml"

# Student's t, two-sided 95 %, for 1..30 degrees of freedom; 1.96 beyond.
T95 = (
    12.71,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)


@dataclass(frozen=True)
class Verdict:
    """What became of one claim. low..high is the 95 % interval of our value over the seeds."""

    id: str
    paper: str
    source: str  # where the paper says it
    claim: str  # with the inequality that decides
    paper_value: float | None
    value: float | None
    low: float | None
    high: float | None
    verdict: str  # "reproduced", "not reproduced", "not measured"
    reason: str
    runs: list[str]  # keys in the store
    n: int = 0  # valid runs that the value was taken from
    straddles: bool = False  # the interval holds a bound of the claim: other seeds might judge otherwise


def interval(samples: list[float]) -> tuple[float, float, float]:
    """(mean, low, high) with the 95 % confidence interval; a single sample is its own interval."""
    mean = statistics.fmean(samples)
    if len(samples) < 2:
        return mean, mean, mean
    t = T95[len(samples) - 2] if len(samples) <= len(T95) + 1 else 1.96
    half = t * statistics.stdev(samples) / math.sqrt(len(samples))
    return mean, mean - half, mean + half


class Results:
    """The finished runs of a paper, by scenario id and point."""

    def __init__(self, paper: str, found: list[tuple[runner.Task, Run]]):
        self.paper = paper
        self.found = found

    def all(self, id: str, **point) -> list[Run]:
        """Runs of a scenario, one a seed; keyword `a__b` filters on the swept key `a.b`. Invalid ones too."""
        wanted = {k.replace("__", "."): v for k, v in point.items()}
        return [
            r
            for t, r in self.found
            if t.case.scenario.id == id and all(t.case.point.get(k) == v for k, v in wanted.items())
        ]

    def valid(self, id: str, **point) -> list[Run]:
        return [r for r in self.all(id, **point) if r.valid]

    def points(self, id: str, key: str, **point) -> list:
        """The values of a swept key, in the file's order, at which there are valid runs."""
        wanted = {k.replace("__", "."): v for k, v in point.items()}
        return list(
            dict.fromkeys(
                t.case.point[key]
                for t, r in self.found
                if t.case.scenario.id == id
                and key in t.case.point
                and r.valid
                and all(t.case.point.get(k) == v for k, v in wanted.items())
            )
        )

    def judge(
        self,
        id: str,
        source: str,
        claim: str,
        paper_value: float | None,
        runs: list[Run],
        measure,
        at_least: float = -math.inf,
        at_most: float = math.inf,
        why: str = "",
        worst: bool = False,
    ) -> Verdict:
        """Reproduced if the mean of measure(run) over the valid runs lies in [at_least, at_most].

        worst: the largest value decides instead, or the smallest if there is no at_most: for claims about every
        run, or every one of several set-ups.
        why: explains a failure that is understood. Invalid runs are left out and named.
        """
        used = [r for r in runs if r.valid]
        dropped = [f"{r.record['name']} is invalid: {r.record['invalid'][0]}" for r in runs if not r.valid]

        def unknown(reason: str) -> Verdict:
            return Verdict(
                id,
                self.paper,
                source,
                claim,
                paper_value,
                None,
                None,
                None,
                "not measured",
                reason,
                [r.record["key"] for r in runs],
            )

        if not used:
            return unknown(dropped[0] if dropped else "not in this set")
        if worst and dropped:  # it may be the worst
            return unknown(dropped[0])
        try:
            samples = [measure(r) for r in used]
        except (ValueError, IndexError, ZeroDivisionError) as e:  # a run without what is to be measured
            return unknown(f"{used[0].record['name']} and others of its kind: nothing to measure ({e})")
        if not all(map(math.isfinite, samples)):
            return unknown("a run has nothing to measure")
        mean, low, high = interval([(max if at_most < math.inf else min)(samples)] if worst else samples)
        good = at_least <= mean <= at_most
        reasons = [] if good else [why or f"{mean:.4g} is outside [{at_least:.4g}, {at_most:.4g}]"]
        straddled = [bound for bound in (at_least, at_most) if low < bound < high]
        if straddled:
            reasons.append(f"the 95 % interval holds {straddled[0]:.4g}; more seeds: {self.with_seeds(used)}")
        reasons += dropped
        return Verdict(
            id,
            self.paper,
            source,
            claim,
            paper_value,
            mean,
            low,
            high,
            "reproduced" if good else "not reproduced",
            "; ".join(reasons),
            [r.record["key"] for r in used],
            len(used),
            bool(straddled),
        )

    def with_seeds(self, runs: list[Run]) -> str:
        """The command that doubles the seeds of these runs."""
        return f"`asymlab suite {self.paper} --seeds {2 * len({r.record['seed'] for r in runs})}`"

    def not_measured(self, id: str, source: str, claim: str, reason: str) -> Verdict:
        """Of a claim about something that is not here."""
        return Verdict(id, self.paper, source, claim, None, None, None, None, "not measured", reason, [])


def papers() -> list[str]:
    return sorted(p.parent.name for p in PAPERS.glob("*/claims.py"))


def module(paper: str, name: str) -> ModuleType:
    file = PAPERS / paper / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"asymlab_papers_{paper}_{name}", file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def speed(image: Image, runs: list[Run], bench: Run) -> dict[str, str]:
    """What the lab itself took, measured when the runs were made."""
    wall, virtual = (sum(r.record["wall_s"] for r in runs), sum(r.job["duration_s"] for r in runs))
    return {
        "boot to first packet, median": f"{statistics.median(r.record['boot_s'] or math.nan for r in runs):.1f} s",
        bench.record["title"]: f"{bench.record['wall_s']:.1f} s on one core, boot included",
        "all runs, one core": f"{wall:.0f} s for {virtual:.0f} virtual seconds ({virtual / wall:.1f} to 1)",
        "image": f"{sum(f.stat().st_blocks for f in image.folder.iterdir()) * 512 / 1e6:.0f} MB on disk",
        "memory of a machine": f"{vm.MEMORY_MB} MB",
    }


@dataclass(frozen=True)
class Plan:
    """The runs of some suites."""

    which: str  # the set
    tasks: dict[str, list[runner.Task]]  # by paper
    bench: runner.Task

    @property
    def all(self) -> list[runner.Task]:
        """Each once."""
        return list({t.key: t for ts in (*self.tasks.values(), [self.bench]) for t in ts}.values())


def plan(names: list[str], image: Image, seeds: int | None = None) -> Plan:
    """No name: the quick set of every paper. `seeds`: of each case that is in the set, instead of the set's number."""
    which = "full" if names else "quick"
    known = papers()
    for name in names:
        if name not in (*known, "all"):
            raise LabError(f"suite {name}: there are {', '.join(known)}, all")

    def cases(file) -> list[scenario.Case]:
        found = scenario.load(file, which)
        return [replace(c, seeds=tuple(range(1, seeds + 1))) for c in found if c.seeds] if seeds else found

    tasks = {
        p: [t for file in sorted((PAPERS / p).glob("*.toml")) for t in runner.plan(cases(file), image)]
        for p in known
        if not names or "all" in names or p in names
    }
    return Plan(which, tasks, runner.plan(scenario.load(BENCH, which), image)[0])


def judge(made: Plan, done: dict[str, Run], image: Image, folder: Path) -> list[Verdict]:
    """Judge the runs, write the report."""
    verdicts, figures = [], []
    for paper, mine in made.tasks.items():
        results = Results(paper, [(t, done[t.key]) for t in mine])
        verdicts += module(paper, "claims").claims(results)
        figures += [(paper, f) for f in report.figures_of(module(paper, "figures"), results)]
    runs = list(done.values())
    report.write(
        [asdict(v) for v in verdicts],
        figures,
        runs,
        made.which,
        speed(image, runs, done[made.bench.key]),
        folder=folder,
    )
    return verdicts
