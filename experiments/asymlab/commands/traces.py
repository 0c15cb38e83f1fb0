# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A scenario's keys, and traces of links for it."""

from __future__ import annotations

import argparse

from ..options import Command
from ..plan import reference, scenario, synthetic


def reference_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--record", action="store_true", help="write them into docs/scenarios.md instead")


def do_reference(args) -> None:
    reference.record() if args.record else print(reference.tables())


def trace_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("kind", choices=synthetic.KINDS, help="the model")
    p.add_argument("rate", help="its mean, such as 10mbit")
    p.add_argument("length", help="such as 60s; from then on the trace begins anew")
    p.add_argument("--delay", action="store_true", help="of `leo`: the delays and losses that go with it instead")
    p.add_argument("--seed", type=int, default=1, help="another one makes another trace [1]")


def do_trace(args) -> None:
    for line in scenario.synthesize(args.kind, args.rate, args.length, args.seed, args.delay).lines():
        print(line)


COMMANDS = (Command("reference", reference_options, do_reference), Command("trace", trace_options, do_trace))
