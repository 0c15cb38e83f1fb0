# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A run on a line of a terminal, with the self-check of its set-up."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from ..console import console
from ..results.store import Run

COLUMNS = (
    *("run", "goodput Mbit/s", "utilisation", "Jain", "RTT ms p50", "p95"),
    *("ACKs/packet", "reverse use", "retransmits", "timeouts"),
)


def ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"


def print_runs(runs: list[Run]) -> None:
    """A line a run, and its set-up self-check."""
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "run" else "right")
    for run in runs:
        m = run.metrics
        rtt = [f["rtt_s"] for f in m["flows"] if f["rtt_s"]]
        where = f" ({m['busiest']})" if len(m["hops"]) > 1 else ""
        table.add_row(
            run.record["name"],
            f"{m['goodput_bps'] / 1e6:.3f}",
            f"{m['utilisation']:.3f}{where}",
            f"{m['jain']:.4f}",
            ms(max((r["p50"] for r in rtt), default=None)),
            ms(max((r["p95"] for r in rtt), default=None)),
            f"{m['acks_per_data_packet']:.3f}",
            f"{m['reverse_utilisation']:.3f}",
            str(sum(f["retransmits"] for f in m["flows"])),
            str(m["timeouts"]),
        )
    console.print(table)
    for run in runs:
        folder = run.folder.relative_to(Path.cwd()) if run.folder.is_relative_to(Path.cwd()) else run.folder
        console.print(f"{run.record['name']}: {check_line(run)}")
        console.print(f"{run.record['name']}: result_sha256 {run.record['result_sha256']}")
        console.print(f"{run.record['name']}: kept in {folder}")


def check_line(run: Run) -> str:
    """The set-up self-check in one line."""
    rows, agent = run.record["agent"]["self_check"], run.record["agent"]
    parts = []
    for row in rows:
        if isinstance(row["measured"], str):
            parts.append(f"{row['what'].rpartition(',')[0]} {row['measured']}")
        elif isinstance(row["measured"], float):
            what = row["what"].rpartition(",")
            scale, unit = (1e3, "ms") if what[2] == " us" else (1e6, "Mbit/s")
            parts.append(f"{what[0]} {row['measured'] / scale:.2f} {unit} ({row['expected'] / scale:.2f})")
    queues = all(r["ok"] for r in rows if r["what"].startswith("queue"))
    offloads = next(r["measured"] for r in rows if r["what"].startswith("offloads"))
    parts += [
        f"queue limits {'as set' if queues else 'WRONG'}",
        f"offloads {'off' if not offloads else 'ON: ' + ', '.join(offloads)}",
        f"CPU {100 * max(agent['cpu_busy'], 0):.0f} % busy",
    ]
    verdict = "valid" if run.valid else "INVALID: " + "; ".join(run.record["invalid"])
    return f"set-up: {', '.join(parts)}: {verdict}"
