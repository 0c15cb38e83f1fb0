# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The command `asymlab`: for each of its commands the options, then what it does."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from . import LabError
from .commands.published import add_publish, add_repeat, add_report
from .conformance.explore import explore
from .conformance.kernels import check
from .conformance.kernels.outcome import KERNELS
from .conformance.packetdrill import packetdrill
from .conformance.selftests import selftests
from .console import console
from .dossier import board, dossier
from .link import link, real
from .link.path import DEFAULT
from .machine.arch import ARCHES, NATIVE, named
from .machine.boot import CLOCK_FACTOR
from .machine.build import build_image, build_uml_image
from .machine.image import DEFAULT_KERNEL
from .options import (
    add,
    add_case_options,
    add_engine_option,
    add_lab_options,
    add_machine_options,
    cases_of,
    given_file,
    image_of,
    percent,
    positive,
    run_lab,
    runs_on,
    seeds,
)
from .paths import BUILD, EXPERIMENTS, INSTALLED, REPORT
from .plan import objects, reference, scenario, synthetic
from .profile import bench, profile
from .report import bisect, compare, pages, papers, report, suite, terminal
from .results import pcapng, xplot
from .run.host import execute_on_host
from .run.summary import print_runs
from .run.tasks import plan_on_host, plan_runs

# --- image --------------------------------------------------------------------------------


def add_image(commands) -> None:
    p = add(commands, "image", do_image, "make the guest: a packaged kernel, or one of your own, with the lab's tools")
    p.add_argument(
        "--kernel", default=DEFAULT_KERNEL, help="series (6.1, 6.12), package name, or a vmlinuz file [%(default)s]"
    )
    p.add_argument("--modules", type=Path, help="with a vmlinuz: the folder that holds its kernel/ modules")
    p.add_argument("--tree", type=Path, metavar="FOLDER", help="engine uml: a kernel's source of your own to build")
    p.add_argument("--name", help="what to call the image [the series or file name]")
    p.add_argument(
        "--config", type=given_file, metavar="FILE", help="engine uml: settings of the kernel besides the lab's"
    )
    p.add_argument("--fresh", action="store_true", help="engine uml: take no kernel that you built in another tree")
    add_engine_option(p, "qemu")
    p.add_argument("--arch", choices=ARCHES, default=NATIVE.name, help="whose kernel and programs it has [%(default)s]")
    p.add_argument(
        "--clock",
        type=int,
        choices=(1, CLOCK_FACTOR),
        default=CLOCK_FACTOR,
        help="clock factor: 10^9 instructions a second, or ten times as many if the kernel takes it [%(default)s]",
    )


def do_image(args) -> None:
    qemu_alone = {"--modules": args.modules, "--arch": args.arch != NATIVE.name, "--clock": args.clock != CLOCK_FACTOR}
    if args.engine == "uml":
        if given := [option for option, value in qemu_alone.items() if value]:
            raise LabError(f"{given[0]}: is for the engine qemu")
        build_uml_image(args.kernel, args.tree, args.name, fresh=args.fresh, config=args.config)
        return
    if args.fresh:
        raise LabError("--fresh: is for the engine uml, which builds its kernel")
    if args.config:
        raise LabError("--config: is for the engine uml, which builds its kernel")
    if args.tree:
        raise LabError("--tree: is for the engine uml, which builds its kernel; give --kernel VMLINUZ --modules DIR")
    build_image(args.kernel, args.modules, args.name, faster=args.clock > 1, arch=named(args.arch))


# --- run ----------------------------------------------------------------------------------


def add_run(commands) -> None:
    p = add(commands, "run", do_run, "run a scenario file")
    add_case_options(p)
    p.add_argument("--repeat", type=seeds, help="seeds from --seed (or 1) on, this many")
    p.add_argument(
        "--on",
        choices=("lab", "host"),
        default="lab",
        help="lab: in virtual time; host: in namespaces of this machine's kernel, as root [%(default)s]",
    )
    packets = "also run it with captures of all hops, and keep their packets there, a pcapng file a run"
    p.add_argument("--pcapng", type=Path, metavar="DIR", help=packets)
    p.add_argument("--xplot", type=Path, metavar="DIR", help="write a file for xplot there, for each flow")
    p.add_argument("--no-pages", dest="run_pages", action="store_false", help="draw no page for each run")
    add_lab_options(p)


def do_run(args) -> None:
    cases = cases_of(args, args.repeat)
    if args.on == "host":
        alone = ("jobs", "fresh", "dry_run", "shard", "scheduler", "canary", "pcapng", "xplot")
        if given := [o for o in alone if getattr(args, o)]:
            raise LabError(f"--{given[0].replace('_', '-')}: is for runs in the lab, not for --on host")
        print_runs([execute_on_host(t) for t in plan_on_host(cases)], {})
        return
    guest = image_of(args)
    tasks = plan_runs(cases, guest)
    captured = plan_runs(cases_of(args, args.repeat, {"run.capture": True}), guest) if args.pcapng else []
    if done := run_lab(args, list({t.key: t for t in (*tasks, *captured)}.values()), guest):
        runs = [done[t.key] for t in tasks]
        print_runs(runs, pages.up_to_date(runs, args.jobs) if args.run_pages else {})
        for run, task in zip(runs, captured):
            console.print(pcapng.write(run, done[task.key], args.pcapng))
        for run in runs if args.xplot else ():
            console.print(xplot.write(run, args.xplot))


# --- link ---------------------------------------------------------------------------------


def add_link(commands) -> None:
    p = add(commands, "link", do_link, "which controller fits your link: a table, a picture, a command", link.__doc__)
    p.add_argument("--rate", help="of the bottleneck, toward the receiver of the data: 50mbit")
    p.add_argument("--trace", metavar="FILE", help="in place of --rate: what `asymlab trace` writes, or Mahimahi's")
    p.add_argument("--reverse", metavar="RATE", help="of the ACKs' direction [as --rate]")
    p.add_argument("--rtt", metavar="TIME", help="with empty queues: 80ms")
    p.add_argument("--jitter", metavar="TIME", help="by which each way takes more or less, in order [0s]")
    p.add_argument("--like", metavar="NAME", help="a link of real life; the other options change it; `list`: tell them")
    p.add_argument("--upload", action="store_true", help="with --like: the data go toward the net")
    p.add_argument(
        "--queue", type=positive, metavar="PACKETS", help="limit of both queues [one bandwidth-delay product]"
    )
    p.add_argument("--loss", metavar="SHARE", help="of the data, at random: 0.1%% [0%%]")
    p.add_argument("--flows", type=positive, default=1, help="of each controller, at a time [%(default)s]")
    p.add_argument("--alone", action="store_true", help="nobody else uses the link: try nothing beside CUBIC")
    p.add_argument("--duration", metavar="TIME", help="of a run, virtual [as much as two minutes allow]")
    tried = "a controller of bpf/, Linux's own, or a file such as ./mine.bpf.o, with :PRESET and +thin behind it or not"
    tried += f" [{' '.join(DEFAULT)}]"
    p.add_argument("controllers", nargs="*", metavar="CONTROLLER", help=tried)
    add_lab_options(p)


def do_link(args) -> None:
    if args.like == "list":
        return console.print(real.table(), *real.sources(), sep="\n")
    mine = link.asked(args)
    guest = image_of(args)
    tasks = link.plan(mine, args.controllers, guest)
    if done := run_lab(args, tasks, guest):
        link.answer(mine, tasks, done, guest, lambda more: run_lab(args, more, guest))


# --- profile ------------------------------------------------------------------------------


def add_profile(commands) -> None:
    about = "exact instruction counts of a run: of a data packet, and fixed"
    p = add(commands, "profile", do_profile, about, profile.__doc__)
    add_case_options(p)
    p.add_argument(
        "--short", metavar="TIME", help="duration of the second run [halfway from the last change to the end]"
    )
    p.add_argument("--top", type=positive, default=20, metavar="N", help="parts of each kind to show [%(default)s]")
    p.add_argument("--csv", type=Path, metavar="FILE", help="write all parts, modules by function")
    add_machine_options(p, fresh=False, engine="qemu")


def do_profile(args) -> None:
    case = profile.one(cases_of(args))
    short = profile.one(cases_of(args, settings={"run.duration": args.short or f"{profile.shorter(case)}us"}))
    made = profile.profile(case, short, image_of(args), args.jobs)
    profile.show(made, args.top)
    if args.csv:
        profile.write_csv(made, args.csv)


def add_bench(commands) -> None:
    about = "what each controller costs: exact instructions of an ACK in its own code"
    p = add(commands, "bench", do_bench, about, bench.__doc__)
    p.add_argument(
        "controllers",
        nargs="*",
        metavar="CONTROLLER",
        help="these, or ./mine.bpf.o [all of experiments/bench/ack.toml]",
    )
    add_machine_options(p, fresh=False, engine="qemu")


def do_bench(args) -> None:
    usual, l4s = (EXPERIMENTS / "bench" / name for name in ("ack.toml", "ack-l4s.toml"))
    files = [name for name in args.controllers if objects.is_file(name)]
    names = [name for name in args.controllers if name not in files]
    if modules := [name for name in files if objects.parsed(name).module]:
        raise LabError(f"{modules[0]}: the instructions of a module are not counted apart from those of the kernel")
    home = {case.scenario.flows[0].controller: file for file in (usual, l4s) for case in scenario.load(file)}
    if unknown := sorted(set(names) - home.keys()):
        raise LabError(f"{unknown[0]}: no controller of {usual}; there are {', '.join(sorted(home))}, and files")
    guest, costs = image_of(args), []
    if files:
        costs = bench.bench(bench.of_files(files, usual), guest, [], args.jobs)
    for file in (usual, l4s):
        wanted = [name for name in names if home[name] == file]
        if wanted or not args.controllers and file == usual:
            costs += bench.bench(file, guest, wanted, args.jobs)
    console.print(bench.table(costs))


# --- reference ----------------------------------------------------------------------------


def add_reference(commands) -> None:
    p = add(commands, "reference", do_reference, "every key that a scenario file may have, as in docs/scenarios.md")
    p.add_argument("--record", action="store_true", help="write them into docs/scenarios.md instead")


def do_reference(args) -> None:
    reference.record() if args.record else print(reference.tables())


# --- traces -------------------------------------------------------------------------------


def add_trace(commands) -> None:
    about = "write a trace of a link that a scenario's `trace` would make (docs/scenarios.md), in Mahimahi's format"
    p = add(commands, "trace", do_trace, about)
    p.add_argument("kind", choices=synthetic.KINDS, help="the model")
    p.add_argument("rate", help="its mean, such as 10mbit")
    p.add_argument("length", help="such as 60s; from then on the trace begins anew")
    p.add_argument("--seed", type=int, default=1, help="another one makes another trace [1]")


def do_trace(args) -> None:
    for line in scenario.synthesize(args.kind, args.rate, args.length, args.seed).lines():
        print(line)


# --- suite --------------------------------------------------------------------------------


def add_suite(commands) -> None:
    p = add(commands, "suite", do_suite, "run papers' experiments, check their claims, write the report")
    names = f"full suites ({', '.join(papers.names())}, all); none: the quick set of each"
    p.add_argument("names", nargs="*", metavar="NAME", help=names)
    p.add_argument("--seeds", type=seeds, help="seeds of each case, instead of the set's number")
    p.add_argument("--first-seed", type=seeds, default=1, help="the first of them: others are fresh samples [1]")
    some = "only the cases whose name fits, such as 'FU-9 *'; repeatable. Such a report is not published"
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help=some)
    p.add_argument("--report", type=Path, default=REPORT, metavar="DIR", help="where the report goes [build/report]")
    p.add_argument("--rows", action="store_true", help="print each verdict, instead of a line for each paper")
    without = "no page for each run in the report: drawing them takes half a second each"
    p.add_argument("--no-pages", dest="run_pages", action="store_false", help=without)
    add_lab_options(p)


def do_suite(args) -> None:
    guest = image_of(args)
    if not args.shard and not args.dry_run:
        report.check(args.report)  # before hours of runs
    began = time.monotonic()
    made = suite.plan(args.names, guest, args.seeds, args.first_seed, args.only)
    if done := run_lab(args, made.all, guest):
        verdicts = suite.judge(made, done, guest, args.report, args.run_pages)
        show = terminal.print_verdicts if args.rows else terminal.print_papers
        show(verdicts, time.monotonic() - began, args.report)


# --- dossier ------------------------------------------------------------------------------


def add_dossier(commands) -> None:
    about = "a controller by what RFC 9743 asks: a page with its answers beside those of CUBIC, Reno and BBR"
    p = add(commands, "dossier", do_dossier, about, dossier.__doc__)
    p.add_argument("name", metavar="NAME", help="a controller of bpf/, one of Linux's own, or a file: ./mine.bpf.o")
    p.add_argument("--seeds", type=seeds, help="of each question [3]")
    p.add_argument("--to", type=Path, metavar="DIR", help="where it goes [build/dossier/NAME]")
    add_lab_options(p)


def do_dossier(args) -> None:
    guest = image_of(args)
    made = dossier.plan(args.name, guest, args.seeds, args.to)
    if done := run_lab(args, made.tasks, guest):
        dossier.write(made, done)


def add_board(commands) -> None:
    about = "the dossiers of many controllers on a kernel, as one table"
    p = add(commands, "board", do_board, about, board.__doc__)
    p.add_argument("names", nargs="*", metavar="NAME", help="as of `dossier` [all that are built, and Linux's own]")
    p.add_argument("--seeds", type=seeds, help="of each question [3]")
    p.add_argument("--to", type=Path, metavar="DIR", default=board.FOLDER, help="where it goes [build/board]")
    add_lab_options(p)


def do_board(args) -> None:
    guest = image_of(args)
    board.read(args.to / "board.jsonl")  # before hours of runs
    made = board.plan(args.names, guest, args.seeds)
    if done := run_lab(args, made.tasks, guest):
        board.write(made, done, guest, args.to)


# --- check-kernels ------------------------------------------------------------------------


def add_check_kernels(commands) -> None:
    p = add(
        commands,
        "check-kernels",
        do_check_kernels,
        "every controller on several kernels, as KTAP: exit code 1 if anything fails",
        check.__doc__,
    )
    p.add_argument("names", nargs="*", metavar="OBJECT", help="these only: of bpf/, or files such as ./mine.bpf.o")
    p.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="KERNEL",
        help="a series, `newest` of the distribution's, or `running`, this machine's own, as root; "
        f"repeatable [{', '.join(KERNELS)}]",
    )
    add_machine_options(p, image=False)
    p.add_argument("--record", action="store_true", help="write docs/kernels.json and the table of docs/kernels.md")


def do_check_kernels(args) -> int:
    return not check.check(args.kernel, args.names, args.jobs, args.fresh, args.record)


# --- explore ------------------------------------------------------------------------------


def add_explore(commands) -> None:
    p = add(
        commands,
        "explore",
        do_explore,
        "random paths, flows, controllers and commands, and what must hold in each: exit code 1 if something breaks",
        explore.__doc__,
    )
    p.add_argument(
        "files", nargs="*", type=given_file, metavar="FILE", help="judge these scenarios instead of drawn ones"
    )
    p.add_argument("--seed", type=positive, default=1, help="of what is drawn [%(default)s]")
    p.add_argument("--count", type=positive, default=20, help="scenarios [%(default)s]")
    p.add_argument(
        "--controller", action="append", default=[], metavar="NAME", help="these of bpf/, or files; repeatable [all]"
    )
    add_machine_options(p, fresh=False)


def do_explore(args) -> int:
    guest = image_of(args)
    trees = explore.read(args.files) if args.files else explore.drawn(args.seed, args.count, args.controller, guest)
    return bool(explore.explore(trees, args.jobs, guest).broken)


# --- the kernel's own tests ---------------------------------------------------------------


def add_test_options(p: argparse.ArgumentParser, keep: str) -> None:
    p.add_argument("--repeat", type=positive, default=1, help="runs of each, which must have the same bytes [1]")
    p.add_argument("--limit", type=positive, default=packetdrill.LIMIT_S, metavar="S", help="wall time [%(default)s]")
    p.add_argument("--keep", type=Path, metavar="DIR", help=keep)
    add_machine_options(p, image=False, fresh=False)
    add_engine_option(p, "uml")


def add_packetdrill(commands) -> None:
    about = "the kernel's own TCP tests, packetdrill scripts, in virtual time: exit code 1 if any does not pass"
    p = add(commands, "packetdrill", do_own_tests, about, packetdrill.__doc__)
    which = f"a script, or a folder of some (*.pkt) [{packetdrill.SELFTESTS} of the kernel's source]"
    p.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT", help=which)
    where = f"the program, which you build (docs/testing.md) [{packetdrill.BINARY}, or that of PATH]"
    p.add_argument("--packetdrill", type=Path, metavar="FILE", help=where)
    p.add_argument("--image", help=f"of the engine uml, its kernel with CONFIG_TUN [{packetdrill.LABEL}]")
    us = "--tolerance_usecs of each script [1: it takes no 0]"
    p.add_argument("--tolerance", type=positive, default=1, metavar="US", help=us)
    p.add_argument("--needs", action="store_true", help="of each that fails by a time: the tolerance it passes with")
    p.add_argument("--controller", action="append", default=[], metavar="NAME", help="of bpf/, or a file: loaded first")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results for machines")
    add_test_options(p, "write what packetdrill says, each packet with its time")


def add_selftests(commands) -> None:
    about = "the kernel's own tests of BPF congestion control, in virtual time: exit code 1 if any does not pass"
    p = add(commands, "selftests", do_own_tests, about, selftests.__doc__)
    where = "source of a kernel [that of the image's package, which is fetched where it is not unpacked]"
    p.add_argument("tree", nargs="?", type=Path, metavar="TREE", help=where)
    only = f"of {selftests.FOLDER}/prog_tests [{' '.join(selftests.TESTS)}]"
    p.add_argument("--test", action="append", metavar="NAME", help=only)
    p.add_argument("--image", default=selftests.LABEL, help="of the engine uml [%(default)s]")
    add_test_options(p, "write what each run says")


def do_own_tests(args) -> int:
    if args.engine != "uml":
        raise LabError(f"{args.command}: is for the engine uml, where a program takes no time")
    return not {"packetdrill": packetdrill.drill, "selftests": selftests.selftests}[args.command](args)


# --- compare ------------------------------------------------------------------------------


def add_compare(commands) -> None:
    about = "two kernels, versions or controllers side by side, and the first ACK at which they part"
    p = add(commands, "compare", do_compare, about, compare.__doc__)
    p.add_argument("sides", nargs="+", type=Path, metavar="A B | FILE", help="two folders; with --image a scenario")
    p.add_argument(
        "--image", action="append", default=[], metavar="IMAGE", help="twice: compare the scenario on these images"
    )
    add_case_options(p, file=False)
    p.add_argument("--repeat", type=seeds, default=3, help="seeds of each case of the scenario [%(default)s]")
    p.add_argument(
        "--tolerance", type=percent, default=percent("5"), metavar="PERCENT", help="of metrics with one seed [5]"
    )
    p.add_argument("--all", dest="everything", action="store_true", help="show metrics that are the same as well")
    p.add_argument("--html", type=Path, metavar="FILE", help="write the comparison as a page")
    p.add_argument("--json", type=Path, metavar="FILE", help="write it for machines")
    add_machine_options(p, image=False)
    add_engine_option(p, None)


def do_compare(args) -> int:
    if len(args.image) not in (0, 2) or len(args.sides) != (1 if args.image else 2):
        raise LabError("compare: takes two folders, or one scenario and --image twice")
    if args.image:
        args.file = given_file(str(args.sides[0]))
        cases = cases_of(args, args.repeat)
        a, b = (compare.of_runs(label, args.file.name, runs_on(label, cases, args)) for label in args.image)
    else:
        a, b = (compare.load(folder) for folder in args.sides)
    return compare.run(a, b, args.tolerance, args.everything, args.html, args.json)


def add_bisect(commands) -> None:
    about = "which of two kernels another one is like, by a scenario's results: exit code 0 good, 1 bad, 125 neither"
    p = add(commands, "bisect", do_bisect, about, bisect.__doc__)
    add_case_options(p)
    p.add_argument("now", metavar="IMAGE", help="the kernel's image (`asymlab image --tree ... --name IMAGE`)")
    p.add_argument("--good", required=True, metavar="IMAGE", help="of a kernel that is good")
    p.add_argument("--bad", required=True, metavar="IMAGE", help="of one that is bad")
    p.add_argument("--by", choices=compare.METRICS, help="the metric that decides [that which tells them best apart]")
    p.add_argument("--repeat", type=seeds, default=3, help="seeds of each case [%(default)s]")
    add_machine_options(p, image=False)
    add_engine_option(p, None)


def do_bisect(args) -> int:
    cases = cases_of(args, args.repeat)
    good, bad, now = (runs_on(label, cases, args) for label in (args.good, args.bad, args.now))
    return bisect.judge(bisect.measure(good, bad, args.by), now)


# --- all of them --------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="asymlab",
        description="A virtual-time lab for TCP congestion control on asymmetric paths.",
        epilog=f"What is called build/ here is {BUILD}; ASYMLAB_HOME names another." if INSTALLED else None,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add_command in (
        *(
            add_image,
            add_run,
            add_link,
            add_dossier,
            add_board,
            add_profile,
            add_bench,
            add_reference,
            add_trace,
            add_suite,
        ),
        *(
            add_check_kernels,
            add_packetdrill,
            add_selftests,
            add_explore,
            add_compare,
            add_bisect,
            add_publish,
            add_repeat,
            add_report,
        ),
    ):
        add_command(commands)
    return top


def main() -> None:
    try:
        args, others = parser().parse_known_args()
        if others:
            args.parser.error(f"unrecognized arguments: {' '.join(others)}")
    except SystemExit as e:  # argparse's 2 would be a bad kernel
        sys.exit(bisect.WRONG if e.code and sys.argv[1:2] == ["bisect"] else e.code)
    # Where 1 says that something differs, or is bad.
    failed = {"compare": 2, "repeat": 2, "bisect": bisect.WRONG}.get(args.command, 1)
    os.umask(0o022)

    def stop(*_):
        raise KeyboardInterrupt

    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, stop)
    try:
        if code := args.do(args):
            sys.exit(code)
    except LabError as e:
        print(f"asymlab: {e}", file=sys.stderr)
        sys.exit(failed)
    except BrokenPipeError:
        sys.exit(failed)
    except OSError as e:
        print(f"asymlab: {e.filename or 'system'}: {e.strerror or e}", file=sys.stderr)
        sys.exit(failed)
    except KeyboardInterrupt:
        kept = "; finished runs are kept, the same command goes on from there"
        keeps = getattr(args, "on", "lab") == "lab" and args.command not in ("packetdrill", "selftests")
        console.print(f"asymlab: interrupted{kept if keeps else ''}")
        sys.exit(130)
