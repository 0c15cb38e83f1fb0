# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The command `asymlab`."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from pathlib import Path

from rich.table import Table

from . import LabError
from .conformance.explore import explore
from .conformance.kernels import check
from .machine import image
from .paths import REPORT
from .plan import reference, scenario
from .report import compare, papers, publish, report, suite, terminal
from .results.store import Run
from .run import runner
from .run.runner import console


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def seed(text: str) -> int:
    value = positive(text)
    if value >= 2**63:
        raise argparse.ArgumentTypeError("must be below 2^63")
    return value


def seeds(text: str) -> int:
    value = positive(text)
    if value > scenario.SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"must be {scenario.SEEDS_MAX} or less")
    return value


def one_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError("must be I/N, I from 1 to N, which is below 100000")
    return int(found[1]), int(found[2])


def sha256(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError("must be the result_sha256 of a canary run, 64 hexadecimal digits")
    return text


def percent(text: str) -> float:
    value = float(text.removesuffix("%"))
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError("must be a percentage, 0 or more and below 100")
    return value / 100


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="asymlab", description="A virtual-time lab for TCP congestion control on asymmetric paths."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    p = commands.add_parser("image", help="make the guest: a packaged kernel, or one of your own, with the lab's tools")
    p.add_argument(
        "--kernel",
        default=image.DEFAULT_KERNEL,
        help="series (6.1, 6.12), package name, or a vmlinuz file [%(default)s]",
    )
    p.add_argument("--modules", type=Path, help="with a vmlinuz: the folder that holds its kernel/ modules")
    p.add_argument("--name", help="what to call the image [the series or file name]")

    def lab_options(p):
        p.add_argument("--jobs", type=positive, help="virtual machines at a time [one per core]")
        p.add_argument("--image", default=image.DEFAULT_KERNEL, help="image to boot [%(default)s]")
        p.add_argument("--fresh", action="store_true", help="repeat runs even if the store holds them")
        p.add_argument("--dry-run", action="store_true", help="say what would run and what it would cost, run nothing")
        p.add_argument(
            "--shard",
            type=one_of,
            metavar="I/N",
            help="only this part of the runs, and only into the store: for job arrays",
        )
        p.add_argument(
            "--scheduler", metavar="ADDRESS", help="run on the workers of this Dask scheduler (tcp://HOST:8786)"
        )
        p.add_argument(
            "--canary",
            type=sha256,
            metavar="HASH",
            help="what those workers' canary run must give [what it gives here]",
        )

    p = commands.add_parser("run", help="run a scenario file")
    p.add_argument("file", type=Path)
    p.add_argument("--seed", type=seed, help="one seed instead of the set's")
    p.add_argument("--repeat", type=seeds, help="seeds from --seed (or 1) on, this many")
    p.add_argument(
        "--set", dest="which", choices=scenario.SETS, default="quick", help="which of the file's sets [%(default)s]"
    )
    p.add_argument("--at", action="append", default=[], metavar="KEY=VALUE", help="only this point of the sweep")
    p.add_argument(
        "--on",
        choices=("lab", "host"),
        default="lab",
        help="lab: in virtual time; host: in namespaces of this machine's kernel, as root [%(default)s]",
    )
    lab_options(p)

    p = commands.add_parser("reference", help="every key that a scenario file may have, as in docs/scenarios.md")
    p.add_argument("--record", action="store_true", help="write them into docs/scenarios.md instead")

    p = commands.add_parser("suite", help="run papers' experiments, check their claims, write the report")
    p.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"full suites ({', '.join(papers.names())}, all); none: the quick set of each",
    )
    p.add_argument("--seeds", type=seeds, help="seeds of each case, instead of the set's number")
    p.add_argument("--report", type=Path, default=REPORT, metavar="DIR", help="where the report goes [build/report]")
    p.add_argument("--rows", action="store_true", help="print each verdict, instead of a line for each paper")
    lab_options(p)

    p = commands.add_parser(
        "check-kernels",
        help="every controller on several kernels, as KTAP: exit code 1 if anything fails",
        description=check.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("names", nargs="*", metavar="OBJECT", help="these only")
    p.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="KERNEL",
        help=f"a series, `newest` of the distribution's, or `running`, this machine's own, as root; repeatable [{', '.join(check.KERNELS)}]",
    )
    p.add_argument("--jobs", type=positive, help="virtual machines at a time [one per core]")
    p.add_argument("--fresh", action="store_true", help="repeat runs even if the store holds them")
    p.add_argument("--record", action="store_true", help="write docs/kernels.json and the table of docs/kernels.md")

    p = commands.add_parser(
        "explore",
        help="random paths, flows, controllers and commands, and what must hold in each: exit code 1 if something breaks",
        description=explore.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("files", nargs="*", type=Path, metavar="FILE", help="judge these scenarios instead of drawn ones")
    p.add_argument("--seed", type=positive, default=1, help="of what is drawn [%(default)s]")
    p.add_argument("--count", type=positive, default=20, help="scenarios [%(default)s]")
    p.add_argument(
        "--controller", action="append", default=[], metavar="NAME", help="try these, files of bpf/; repeatable [all]"
    )
    p.add_argument("--jobs", type=positive, help="virtual machines at a time [one per core]")
    p.add_argument("--image", default=image.DEFAULT_KERNEL, help="image to boot [%(default)s]")

    p = commands.add_parser(
        "compare",
        help="two reports side by side: exit code 0 if they are the same, 1 if they differ, 2 if they cannot be read",
        description=compare.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("a", type=Path, metavar="A", help="folder of a report (suite --report)")
    p.add_argument("b", type=Path, metavar="B", help="folder of another")
    p.add_argument(
        "--tolerance", type=percent, default=percent("5"), metavar="PERCENT", help="of metrics with one seed [5]"
    )
    p.add_argument("--all", dest="everything", action="store_true", help="show metrics that are the same as well")
    p.add_argument("--html", type=Path, metavar="FILE", help="write the comparison as a page")
    p.add_argument("--json", type=Path, metavar="FILE", help="write it for machines")

    p = commands.add_parser(
        "publish",
        help="keep what a report says in a folder small enough for a repository",
        description=publish.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("folder", type=Path, metavar="DIR", help="replaced, as docs/results")
    p.add_argument("--report", type=Path, default=REPORT, metavar="DIR", help="folder of the report [build/report]")
    return top


def cases_of(args) -> list[scenario.Case]:
    seeds = None
    if args.seed or args.repeat:
        first = args.seed or 1
        seeds = tuple(range(first, first + (args.repeat or 1)))
    cases = scenario.load(args.file, args.which, seeds)
    if not any(case.seeds for case in cases):
        raise LabError(
            f"{args.file}: no runs in the {args.which} set; --set takes another, --seed one run of each case"
        )
    for item in args.at:
        key, _, value = item.partition("=")
        swept = list(dict.fromkeys(k for c in cases for k in c.point))
        if key not in swept:
            raise LabError(f"--at {item}: {args.file} sweeps {', '.join(swept) or 'nothing'}")
        values = {str(c.point[key]): None for c in cases if key in c.point}
        chosen = [c for c in cases if key in c.point and str(c.point[key]) == value]
        if not chosen:
            raise LabError(f"--at {item}: values are {', '.join(values)}")
        cases = chosen
    return cases


def ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"


def print_runs(runs: list[Run]) -> None:
    """A line a run, and its set-up self-check."""
    table = Table(box=None, header_style="bold")
    for column in (
        "run",
        "goodput Mbit/s",
        "utilisation",
        "Jain",
        "RTT ms p50",
        "p95",
        "ACKs/packet",
        "reverse use",
        "retransmits",
        "timeouts",
        "kept in",
    ):
        table.add_column(column, justify="left" if column in ("run", "kept in") else "right")
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
            str(run.folder.relative_to(Path.cwd()) if run.folder.is_relative_to(Path.cwd()) else run.folder),
        )
    console.print(table)
    for run in runs:
        console.print(f"{run.record['name']}: {check_line(run)}")


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
        f"CPU {100 * agent['cpu_busy']:.0f} % busy",
    ]
    verdict = "valid" if run.valid else "INVALID: " + "; ".join(run.record["invalid"])
    return f"set-up: {', '.join(parts)}: {verdict}"


def run_lab(args, tasks: list[runner.Task], guest: image.Image) -> dict[str, Run] | None:
    """The runs, or None if the options ask for less than all of them."""
    if args.dry_run:
        if args.shard:
            tasks = runner.shard(tasks, *args.shard)
        work = runner.survey(tasks, args.fresh)
        console.print(work.table())
        console.print(work.line(runner.places(args.jobs)))
        return None
    options = (guest, args.jobs, args.fresh, args.scheduler, args.canary)
    if args.shard:
        runner.execute_shard(tasks, args.shard, *options)
        return None
    return runner.execute(tasks, *options)


def main() -> None:
    args = parser().parse_args()
    os.umask(0o022)

    def stop(*_):
        raise KeyboardInterrupt

    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
    try:
        if args.command == "image":
            image.build_image(args.kernel, args.modules, args.name)
        elif args.command == "run":
            cases = cases_of(args)
            if args.on == "host":
                if given := [
                    o for o in ("jobs", "fresh", "dry_run", "shard", "scheduler", "canary") if getattr(args, o)
                ]:
                    raise LabError(f"--{given[0].replace('_', '-')}: is for runs in the lab, not for --on host")
                tasks = runner.plan_host(cases)
                print_runs([runner.execute_on_host(t) for t in tasks])
            else:
                guest = image.open_image(args.image)
                image.check_current(args.image)
                tasks = runner.plan(cases, guest)
                if done := run_lab(args, tasks, guest):
                    print_runs([done[t.key] for t in tasks])
        elif args.command == "reference":
            reference.record() if args.record else print(reference.tables())
        elif args.command == "suite":
            guest = image.open_image(args.image)
            image.check_current(args.image)
            if not args.shard and not args.dry_run:
                report.check(args.report)  # before hours of runs
            began = time.monotonic()
            made = suite.plan(args.names, guest, args.seeds)
            if done := run_lab(args, made.all, guest):
                verdicts = suite.judge(made, done, guest, args.report)
                show = terminal.print_verdicts if args.rows else terminal.print_papers
                show(verdicts, time.monotonic() - began, args.report)
        elif args.command == "check-kernels":
            sys.exit(0 if check.check(args.kernel, args.names, args.jobs, args.fresh, args.record) else 1)
        elif args.command == "explore":
            guest = image.open_image(args.image)
            image.check_current(args.image)
            trees = explore.read(args.files) if args.files else explore.drawn(args.seed, args.count, args.controller)
            sys.exit(1 if explore.explore(trees, args.jobs, guest).broken else 0)
        elif args.command == "publish":
            publish.publish(args.report, args.folder)
        elif args.command == "compare":
            sys.exit(0 if compare.run(args.a, args.b, args.tolerance, args.everything, args.html, args.json) else 1)
    except LabError as e:
        print(f"asymlab: {e}", file=sys.stderr)
        sys.exit(2 if args.command == "compare" else 1)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as e:
        sys.exit(f"asymlab: {e.filename or 'system'}: {e.strerror or e}")
    except KeyboardInterrupt:
        console.print(
            "asymlab: interrupted"
            + (
                "; finished runs are kept, the same command goes on from there"
                if getattr(args, "on", "lab") == "lab"
                else ""
            )
        )
        sys.exit(130)
