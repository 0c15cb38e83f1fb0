# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run on a line of a terminal, with the self-check of its set-up."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..console import console
from ..guest.protocol import Check
from ..paths import near
from ..plan.branch import DRAW
from ..results.breakdown import completion, directions, times
from ..results.connections import largest, name_of
from ..results.programs import took
from ..results.record import lateness
from ..results.store import Run
from ..table import left, right, terminal

COLUMNS = [
    *left("run"),
    *right("goodput Mbit/s", "utilisation", "Jain", "RTT ms p50", "p95", "of flow"),
    *right("ACKs/packet", "ACKs' link", "retransmits", "timeouts"),
]
FLOWS_SHOWN = 40  # of a run
# Numbers of the self-check: how many of its unit make the one that is shown.
SHOWN = {Check.BASE_RTT: (1e3, "ms"), Check.FORWARD_RATE: (1e6, "Mbit/s"), Check.REVERSE_RATE: (1e6, "Mbit/s")}


def ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def print_flows(runs: list[Run]) -> None:
    """A line a flow: who got what of its direction. The goodput of a flow with a size is that of its own time."""
    rows: list[tuple[str, ...]] = []
    sized = any(flow.size_bytes for run in runs for flow in run.job.flows)
    two_way = any(len(directions(run)) > 1 for run in runs)
    for run in runs:
        name, flows, ways = run.record["name"], run.metrics["flows"], directions(run)
        way_of = {f["flow"]: way for way in ways for f in way.flows}
        for f in flows[:FLOWS_SHOWN]:
            way = way_of[f["flow"]]
            rtt, done = f["rtt_s"] or {}, completion(run, f["flow"])
            goodput = done.goodput_bps if done else f["goodput_bps"]
            row = (
                name,
                str(f["flow"]),
                f["controller"],
                *([way.name] if two_way else []),
                f"{goodput / 1e6:.3f}",
                f"{f['goodput_bps'] / way.goodput_bps:.1%}" if way.goodput_bps and not done else "-",
                ms(rtt.get("p50")),
                ms(rtt.get("p95")),
                str(f["retransmits"]),
                *([seconds(done.seconds if done else None)] if sized else []),
            )
            rows.append(row)
        if len(flows) > FLOWS_SHOWN:
            rows.append((name, "", f"and {len(flows) - FLOWS_SHOWN} more: its page has them"))
    if rows:
        who = [*left("run"), *right("flow"), *left("controller", *(["direction"] if two_way else []))]
        got = right("goodput Mbit/s", "share", "RTT ms p50", "p95", "retransmits", *(["done after s"] if sized else []))
        console.print(terminal([*who, *got], rows))


TIME_COLUMNS = [*left("run", "controller", "of"), *right("done", "p50 s", "p95", "p99")]


def print_times(runs: list[Run]) -> None:
    """A line for the flows with a size, and for the replies, of each controller."""
    rows = [
        (
            run.record["name"],
            of.controller,
            of.what,
            of.done,
            *(seconds(of.seconds.get(p)) for p in ("p50", "p95", "p99")),
        )
        for run in runs
        for of in times(run)
    ]
    if rows:
        console.print(terminal(TIME_COLUMNS, rows))


PROGRAM_COLUMNS = [*left("run", "program", "host"), *right("starts s", "ends s", "took s"), *left("end")]


def end_of(record: dict) -> str:
    """A program's, in words."""
    code = record["exit"]
    return "runs" if code is None else f"signal {-code}" if code < 0 else f"exit {code}"


def print_programs(runs: list[Run]) -> None:
    """A line a program."""
    rows = [
        (run.record["name"], name, of["host"], *map(seconds, (of["start_s"], of["end_s"], took(of))), end_of(of))
        for run in runs
        for name, of in run.programs.items()
    ]
    if rows:
        console.print(terminal(PROGRAM_COLUMNS, rows))


CONNECTION_COLUMNS = [
    *left("run", "connection", "protocol"),
    *right("starts s", "ends s", "MB", "goodput Mbit/s", "RTT ms p50", "queue ms", "retransmits"),
]
CONNECTIONS_SHOWN = 10  # of a run


def print_connections(runs: list[Run]) -> None:
    """A line for each direction of the programs' connections that carries the most."""
    rows: list[tuple[str, ...]] = []
    for run in runs:
        for of in largest(run.connections, CONNECTIONS_SHOWN):
            sent_again = of.get("retransmits")
            row = (
                *(run.record["name"], name_of(of), of["protocol"], seconds(of["start_s"]), seconds(of["end_s"])),
                *(f"{of['bytes'] / 1e6:.3f}", f"{of['goodput_bps'] / 1e6:.3f}", ms(of.get("rtt_s", {}).get("p50"))),
                *(ms(of["queue_delay_mean_s"]), "-" if sent_again is None else str(sent_again)),
            )
            rows.append(row)
        if (more := len(run.connections) - CONNECTIONS_SHOWN) > 0:
            rows.append((run.record["name"], f"and {more} more: its page has them"))
    if rows:
        console.print(terminal(CONNECTION_COLUMNS, rows))


def acks_line(runs: list[Run]) -> str:
    """When the receivers sent their ACKs: no host acknowledges every packet."""
    every = flows = 0
    for job in (run.job for run in runs):
        quick = {route.node for route in job.routes if "quickack 1" in route.attrs}
        every += sum(flow.dst in quick for flow in job.flows)
        flows += len(job.flows)
    if not flows:
        return "no flow of the lab's own: the measures are those of the link"
    if every == flows:
        return "ACKs: one for every packet, as no host sends them (ack)"
    delayed = "ACKs: delayed, as Linux sends them"
    return f"{delayed}, and one for every packet at {every} of {flows} flows (ack)" if every else delayed


def rows_of(run: Run) -> Iterator[tuple[str, ...]]:
    """A line for each direction that has data; what is of the whole run stands in the first."""
    m = run.metrics
    where = f" ({m['busiest']})" if len(m["hops"]) > 1 else ""
    for at, way in enumerate(directions(run)):
        yield (
            f"{run.record['name']} {way.name}".rstrip(),
            f"{way.goodput_bps / 1e6:.3f}" if way.flows else "-",
            f"{way.utilisation:.3f}{where}",
            f"{way.jain:.4f}",
            ms(way.rtt_s.get("p50")),
            ms(way.rtt_s.get("p95")),
            str(way.slowest["flow"]),
            f"{m['acks_per_data_packet']:.3f}" if at == 0 else "",
            f"{way.ack_utilisation:.3f}",
            str(way.retransmits),
            str(m["timeouts"]) if at == 0 else "",
        )


DRAWS = {
    "goodput Mbit/s": lambda way: way.goodput_bps / 1e6,
    "Jain": lambda way: way.jain,
    "RTT ms p50": lambda way: way.rtt_s.get("p50", math.nan) * 1e3,
    "retransmits": lambda way: way.retransmits,
}
DRAW_COLUMNS = [
    *left("run", "of a draw"),
    *right("draws", "least", "by draw", "5 %", "median", "95 %", "most", "by draw"),
]


def print_draws(runs: list[Run]) -> list[Run]:
    """A line for each measure, over the draws of a branch. Returns the runs that have no other draws beside them."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        place = {key: value for key, value in run.record["point"].items() if key != DRAW}
        of = json.dumps([run.record["id"], place, run.record["seed"]]) if DRAW in run.record["point"] else run.key
        groups.setdefault(of, []).append(run)
    rows = [row for group in groups.values() if len(group) > 1 for row in draws_of(group)]
    if rows:
        console.print(terminal(DRAW_COLUMNS, rows))
        console.print(f"--at {DRAW}=N makes one of them")
    return [group[0] for group in groups.values() if len(group) == 1]


def draws_of(group: list[Run]) -> Iterator[tuple[str, ...]]:
    """The draws of a branch, a line a direction and measure: the first draw that has the least, and the most."""
    draws = [str(run.record["point"][DRAW]) for run in group]
    for ways in zip(*map(directions, group)):
        name = f"{group[0].record['id']} seed {group[0].record['seed']} {ways[0].name}".rstrip()
        for what, of in DRAWS.items():
            values = np.array([of(way) for way in ways], float)
            least, low, median, high, most = (f"{value:.4g}" for value in np.percentile(values, [0, 5, 50, 95, 100]))
            least_by, most_by = draws[int(values.argmin())], draws[int(values.argmax())]
            yield name, what, str(len(group)), least, least_by, low, median, high, most, most_by


def print_runs(runs: list[Run], pages: dict[str, Path]) -> None:
    """A line a run and direction, a line of each of its flows, its set-up self-check and its page, if there is one."""
    console.print(acks_line(runs))
    console.print(terminal(COLUMNS, [row for run in runs for row in rows_of(run)]))
    print_flows(runs)
    print_times(runs)
    print_programs(runs)
    print_connections(runs)
    for run in runs:
        console.print(f"{run.record['name']}: {check_line(run)}")
        console.print(f"{run.record['name']}: result_sha256 {run.record['result_sha256']}")
        if page := pages.get(run.key):
            console.print(f"{run.record['name']}: figures and numbers in {near(page)}")
        console.print(f"{run.record['name']}: kept in {near(run.folder)}")


def check_line(run: Run) -> str:
    """The set-up self-check in one line."""
    rows = run.self_check
    parts = []
    for row in (row for row in rows if row.kind in SHOWN):
        scale, unit = SHOWN[row.kind]
        numbers = [n / scale for n in (row.measured, row.expected) if isinstance(n, int | float)]
        text = f"{numbers[0]:.2f} {unit} ({numbers[1]:.2f})" if len(numbers) == 2 else row.measured or "not measured"
        parts.append(f"{row.kind.value[0]} {row.of} {text}")
    queues = all(row.ok for row in rows if row.kind in (Check.QUEUE, Check.RED, Check.CAKE, Check.DISCIPLINE))
    if traces := [row.ok for row in rows if row.kind in (Check.TRACE, Check.CARRIED, Check.DELAYS)]:
        parts.append(f"packets {'at the times of' if all(traces) else 'NOT by'} the trace")
    offload_row = next((row for row in rows if row.kind == Check.OFFLOADS), None)
    on = ", ".join(map(str, offload_row.measured)) if offload_row and isinstance(offload_row.measured, list) else ""
    offloads = "as set" if offload_row and offload_row.ok and on else f"ON: {on}" if on else "off"
    if run.record["agent"].get("relay"):
        parts.append("delays by the lab's own links, as this kernel has no netem")
    if late := lateness(run.record["agent"].get("marks", {})):
        parts.append(f"late by {late.p99_us / 1e3:g} ms (99 %), {late.max_us / 1e3:g} at most")
    parts += [
        f"queue limits {'as set' if queues else 'WRONG'}",
        f"offloads {offloads}",
        f"CPU {100 * max(run.record['agent']['cpu_busy'], 0):.0f} % busy",
    ]
    verdict = "valid" if run.valid else "INVALID: " + "; ".join(run.record["invalid"])
    return f"set-up: {', '.join(parts)}: {verdict}"
