# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The properties that each object must have, and the law that one alone has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from ... import LabError, controllers
from ...controller import need
from ...paths import near
from .outcome import Outcome, Result, Skip
from .setup import BDP, CHANGE, END, LOSS, PAUSE, RESUME, Setup
from .view import RunView

NO_NETEM = "want of netem (CONFIG_NET_SCH_NETEM)"
NOT_LIVE = "no parameter of it may change while flows run"
NOT_OURS = "a file's own name, which bpftool would register it by"
NO_LAW = "want of a law in its record"


def insns(shown: dict) -> dict[str, int]:
    return {p["name"]: p["verified_insns"] for p in shown["programs"]}


def loads(v: RunView) -> None:
    need(all(n > 0 for n in insns(v.shown).values()) and insns(v.shown), "no program of it is in the kernel")


def registers(v: RunView) -> None:
    had = len(v.acks("clean")) if v.known.file else v.count("flows")  # a counter that ours have
    need(v.shown["registered"] and had, "no connection has had it")
    need(
        not v.known.halves or v.count("peers"),
        "its programs are attached to the cgroup of both ends, and neither end has heard the other's option",
    )


def registers_bare(v: RunView) -> None:
    if v.known.file:
        raise Skip(NOT_OURS)
    v.flow("bare")
    need(v.count("flows", v.name) >= 1, "no connection has had it")


def bulk(v: RunView) -> None:
    # In real time other load makes the path look wrong.
    wrong = [row.wrong for row in v.run.self_check if row.wrong and v.run.record["where"] == "lab"]
    need(not wrong, "the path is not as it was set up: " + "; ".join(wrong))
    role = "bare" if v.setup.bare else "clean"
    got = v.rate(role, 1.5, PAUSE)
    need(got >= v.share * v.full, f"{got / 1e6:.2f} of {v.full / 1e6:.2f} Mbit/s before the pause")
    for role in v.roles:
        acks = v.acks(role)
        need(len(acks), f"{role}: no ACK")
        low, high = int(acks["cwnd"].min()), int(acks["cwnd"].max())
        need(1 <= low and high < 10_000, f"{role}: windows from {low} to {high}")
        goodput = v.run.goodput[v.run.goodput["flow"] == v.flow(role)]
        bytes_agree(role, acks, goodput, v.mss, v.run.job.bin_ms / 1e3)


def bytes_agree(role: str, acks: np.ndarray, goodput: np.ndarray, mss: float, bin_s: float) -> None:
    """Sender and receiver agree on what is delivered, but for a flight: at the last ACK, and at the last segment.

    By the sender's own counter and how far the receiver was: neither misses what a kernel does not show to the tracer
    (docs/operating.md).
    """
    slack = (2 * int(acks["cwnd"].max()) + 8) * mss
    known = goodput["t"][1:] + bin_s <= acks["t"][-1]  # a bin's bytes are all there when the next one begins
    arrived, delivered = int(goodput["bytes"][:-1][known].sum()), int(acks["delivered"][-1]) * mss
    need(
        arrived <= delivered + slack,
        f"{role}: {arrived} bytes had arrived at the last ACK, {delivered:.0f} were delivered",
    )
    before = acks["delivered"][acks["t"] <= goodput["t"][-1]]
    arrived, delivered = int(goodput["bytes"].sum()), int(before[-1]) * mss if len(before) else 0
    need(
        delivered <= arrived + slack,
        f"{role}: {delivered:.0f} bytes were delivered before the last segment, {arrived} arrived",
    )


def loss(v: RunView) -> None:
    reno = math.sqrt(1.5 / LOSS) / BDP * v.full
    seconds = [v.rate("lossy", t, t + 1) for t in range(1, END)]
    need(min(seconds) > 0.1 * reno, f"{min(seconds) / 1e6:.2f} Mbit/s in one second")
    need(np.mean(seconds) > 0.4 * reno, f"{np.mean(seconds) / 1e6:.2f} Mbit/s, Reno should have {reno / 1e6:.2f}")


def idle(v: RunView) -> None:
    need(v.rate("bare", PAUSE + 2.5, RESUME) == 0, "it sends in the pause")
    counted = v.counters(v.name)  # the kernel's Reno has taken over where accsa has no peer
    need(counted.get("idle_restarts", 1) or counted.get("fallbacks"), "it does not notice that the pause ends")
    got = v.rate("bare", 8, END)
    need(got >= v.share * v.full, f"{got / 1e6:.2f} of {v.full / 1e6:.2f} Mbit/s after it")


def live(v: RunView) -> None:
    if not v.known.live:
        raise Skip(NOT_LIVE)
    values = {p["name"]: p["value"] for p in v.shown["parameters"]}
    wrong = [f"{k} is {values[k]}, not {value}" for k, value in v.known.live.items() if values[k] != value]
    need(not wrong, "; ".join(wrong))
    if controllers.of(v.name).changed:
        before, after = v.queue("clean", 3, CHANGE), v.queue("clean", 8, END)
        need(after > 2 * before, f"the queue was {before:.1f} packets and is {after:.1f}")
    need(v.rate("clean", 8, END) >= 0.9 * v.full, f"{v.rate('clean', 8, END) / 1e6:.2f} Mbit/s afterwards")


def traced(v: RunView) -> None:
    said = v.run.record["agent"]["traced"]
    need(re.search(r"lost 0\b", said), said)
    for role in v.roles:
        acks, states = v.acks(role), v.states(role)
        need(len(acks) > 100, f"{role}: {len(acks)} ACKs")
        wrong = states is not None and len(states) != len(acks)
        need(not wrong, f"{role}: {len(acks)} ACKs, and the state at {0 if states is None else len(states)}")


def leaves_nothing(v: RunView) -> None:
    agent = v.run.record["agent"]
    need(agent["loaded"], "nothing was seen in the kernel")
    need(not agent["left"], "still in the kernel: " + ", ".join(agent["left"]))


PROPERTIES: list[tuple[str, Callable[[RunView], None]]] = [
    ("loads", loads),
    ("registers by asymcc load", registers),
    ("registers by bpftool alone", registers_bare),
    ("carries a bulk transfer", bulk),
    ("survives 1 % loss", loss),
    ("goes on after an idle pause", idle),
    ("live parameters change", live),
    ("is traced without loss", traced),
    ("leaves nothing behind", leaves_nothing),
]


def law(v: RunView) -> None:
    """Its own, as the record has it."""
    own = controllers.of(v.name).law
    if not own:
        raise Skip(NO_LAW)
    if own.far and not v.setup.delay:
        raise Skip(NO_NETEM)
    own.holds(v.of_law())


def all_of(name: str) -> list[tuple[str, Callable[[RunView], None]]]:
    own = controllers.of(name).law
    return [*PROPERTIES, (f"law: {own.says}" if own else "law", law)]


def broken(name: str, why: str, setup: Setup) -> Result:
    """Nothing could be seen: the first property says why."""
    outcomes: dict[str, Outcome] = dict.fromkeys((what for what, _ in all_of(name)), "not tried: there is no run")
    return Result(outcomes | {next(iter(outcomes)): why}, where=f"scenario {near(setup.file)}")


def judge(v: RunView, faults: dict[str, str]) -> Result:
    outcomes: dict[str, Outcome] = {}
    for what, holds in all_of(v.name):
        try:
            outcomes[what] = faults.get(what) or holds(v)
        except Skip as e:
            outcomes[what] = e
        except (LabError, LookupError, ValueError) as e:  # the last two: what should be there is not
            outcomes[what] = str(e) if isinstance(e, LabError) else f"{type(e).__name__}: {e}"
    return Result(outcomes, insns(v.shown), v.where)
