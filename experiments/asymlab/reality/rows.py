# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The runs of the page of `asymlab reality`, and how far apart they were expected: reality.jsonl, kinds.toml."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .. import LabError, reading
from ..report import jsonl
from ..report.records import first_error
from ..results.record import Agent
from ..results.store import Run
from ..run.tasks import Task

FEW = 10  # packets sent again: fewer are counted as so many
Where = Literal["live", "uml", "qemu"]
LIVE: Where = "live"


class Row(BaseModel):
    """A run: a line of reality.jsonl."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    case: str  # its name
    id: str
    title: str  # of its point
    on: Where
    kernel: str
    seed: int
    scenario: str  # its hash
    registered: str
    goodputs: list[float] = Field(min_length=1)  # of each flow, Mbit/s
    rtt: float  # of the first flow, ms
    p95: float
    queue: float  # mean wait of what leaves the forward queue, ms
    again: int  # packets of all flows
    done: float | None  # of a first flow with a size, s
    late: tuple[float, float] | None  # 99 % and all of the packets of the live links, ms
    wrong: str  # "": the run is valid

    @property
    def goodput(self) -> float:
        return sum(self.goodputs)

    @property
    def share(self) -> float:
        """The first flow's, %."""
        return 100 * self.goodputs[0] / max(self.goodput, 1e-9)


class Kind(BaseModel):
    """Scenarios of one kind, and how far live and lab were expected to be apart."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    title: str
    cases: list[str]  # their ids
    goodput: float | None = None
    rtt: float | None = None
    share: float | None = None
    again: float | None = None
    done: float | None = None


def row(run: Run, task: Task, title: str, on: Where, scenario: str) -> Row:
    """Another case may have the same run, by another name."""
    record, agent = run.record, Agent.model_validate(run.record["agent"])
    flows = record["metrics"]["flows"]
    first = flows[0]
    return Row(
        case=task.case.name,
        id=task.case.scenario.id,
        title=title,
        on=on,
        kernel=agent.kernel,
        seed=record["seed"],
        scenario=scenario,
        registered=record["registered"],
        goodputs=[short(flow["goodput_bps"] / 1e6) for flow in flows],
        rtt=short(1e3 * first["rtt_s"].get("mean", 0.0)),
        p95=short(1e3 * first["rtt_s"].get("p95", 0.0)),
        queue=short(1e3 * record["metrics"]["forward"]["queue_delay_mean_s"]),
        again=sum(flow["retransmits"] for flow in flows),
        done=short(first["done_s"]) if first.get("done_s") else None,
        late=(agent.late.p99_us / 1e3, agent.late.max_us / 1e3) if agent.late else None,
        wrong="; ".join(record["invalid"]),
    )


def short(value: float) -> float:
    return float(f"{value:.5g}")


def read(file: Path) -> list[Row]:
    return jsonl.read(file, Row, "run")


def kinds(file: Path) -> list[Kind]:
    """How far apart live and lab were expected; nothing without the file."""
    if not file.exists():
        return []
    try:
        tree = tomllib.loads(reading.read(file, jsonl.SIZE_MAX).decode())
        return list(TypeAdapter(dict[str, Kind]).validate_python(tree).values())
    except (OSError, ValueError, RecursionError) as e:
        why = first_error(e) if isinstance(e, ValidationError) else str(e).splitlines()[0]
        raise LabError(f"{file}: {why}") from None


# --- how far apart ---------------------------------------------------------------------------


def apart(a: float, b: float) -> float:
    """How far one over the other is from 1."""
    return abs(a / b - 1) if b else 0.0


def factor(a: float, b: float) -> float:
    over = max(a, FEW) / max(b, FEW)
    return max(over, 1 / over)


Measure = Callable[[Row], float | None]
# For each: its name in kinds.toml, its column, what is measured, how two are compared, and how that is written.
MEASURES: tuple[tuple[str, str, Measure, Callable[[float, float], float], str], ...] = (
    ("goodput", "goodput", lambda r: r.goodput, apart, "{:.1%}"),
    ("rtt", "mean RTT", lambda r: r.rtt, apart, "{:.1%}"),
    ("rtt", "RTT, p95", lambda r: r.p95, apart, "{:.1%}"),
    ("share", "share", lambda r: r.share if len(r.goodputs) > 1 else None, lambda a, b: abs(a - b), "{:.1f} points"),
    ("again", "sent again", lambda r: r.again, factor, "x {:.2f}"),
    ("done", "completion", lambda r: r.done, apart, "{:.1%}"),
)


def mean(rows: Iterable[Row], measure: Measure) -> float | None:
    values = [value for one in rows if (value := measure(one)) is not None]
    return statistics.fmean(values) if values else None
