# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller on several kernels, as KTAP on standard output: `asymlab check-kernels`.

On each kernel each object has a machine of its own, so that what one breaks no other feels; on this machine's own kernel a few share
a run in namespaces, as root, and what needs netem is skipped where the kernel lacks it. A run has a hop for each thing to be seen:

    bare    registered by bpftool alone, as it is; the flow pauses and goes on
    clean   registered by the loader, under another name; its live parameters change while the flow runs
    lossy   the same controller where each hundredth packet is lost
    marked  ACC+SA alone, whose law needs marks on its ACKs

And the verifier must refuse the objects of tests/verifier, which have a fault each.

What the verifier looked at (verified_insns, all programs of an object) is compared with docs/kernels.json, which `--record` writes,
with README's table.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .. import LabError
from ..guest import agent
from ..machine import image, vm
from ..paths import BUILD, REPO
from ..plan import scenario
from ..results import metrics, store
from ..run import runner

KERNELS = ("6.1", "6.12", "newest", "running")
RECORD, README = REPO / "docs" / "kernels.json", REPO / "README.md"
BEGIN, ENDING = "<!-- asymlab check-kernels --record -->", "<!-- end -->"
WALL_LIMIT_S = 600  # of a machine that takes some ten seconds on a core of its own
GROWTH = 1.1
HOST_HOPS = 8

RATE, DELAY_MS, LOSS, BDP = 5e6, 40, 0.01, 50  # bit/s, one way, share, packets of 1000 bytes that the path holds
PAUSE, RESUME, CHANGE, END = 3, 6.5, 5, 10  # s
QUEUES = {"bare": 50, "clean": 100, "lossy": 100, "marked": 100}  # packets; but for
DEEPER = {
    ("fast", "bare"): 1500,  # its 1000 must fit
    ("pseudorate", "clean"): 400,
}  # it rests only after an overshoot without loss
FITTING = {"fast": {"alpha": 20}}
CHANGED = {"fast": {"alpha": 60}, "pseudorate": {"n_queue": 20}}  # the queue tells; others rise by a quarter, or fall
FAR = ("bpf_vegas", "ctcp", "taichung")  # their laws show on a path with a delay only
EXTRA = {"accsa": 'sysctls = { "net.ipv4.tcp_timestamps" = 0 }\n'}
MARKED = '{ rate = "50kbit", delay = "40ms", queue = 10, red = { min = 4, max = 8, probability = "10%", ecn = true } }'


NO_NETEM = "want of netem (CONFIG_NET_SCH_NETEM)"
SHORT_IDLE = (
    "the controllers do not hear the end of an idle time that is shorter than a retransmission timeout: "
    "from Linux 7.1 on a member of its own tells it"
)
NOT_LIVE = "no parameter of it may change while flows run"


class Skip(Exception):
    """A property that cannot be tested here; the message says why."""


def need(holds, words: str) -> None:
    if not holds:
        raise LabError(words)


# --- what runs -----------------------------------------------------------------------------


def objects() -> list[str]:
    return sorted(p.name.removesuffix(".bpf.c") for p in REPO.glob("bpf/**/*.bpf.c"))


def alias(name: str) -> str:
    return f"{name}_2"


@dataclass(frozen=True)
class Facts:
    """Of an object, as the loader shows it."""

    live: dict[str, int]  # parameters that may change while flows run, and what they change to
    halves: bool  # it has programs for a cgroup, of which two instances in one would clash


def facts(name: str) -> Facts:
    shown = json.loads(image.run(BUILD / "asymcc", "--objects", BUILD, "show", name, "--json"))
    live = {}
    for p in shown["parameters"]:
        if p["live"]:
            value = FITTING.get(name, {}).get(p["name"], p["value"])
            step = max(value // 4, 1)
            live[p["name"]] = CHANGED.get(name, {}).get(
                p["name"], value + step if value + step <= p["max"] else value - step
            )
    return Facts(live, bool(shown["cgroup_programs"]))


@dataclass(frozen=True)
class Setup:
    """A run: who is in it, and what of it this kernel can do."""

    names: tuple[str, ...]
    delay: bool = True  # netem: delay, loss and RED come with it
    bare: bool = True
    change: bool = True

    def roles(self) -> list[tuple[str, str]]:
        """(object, hop's role) of each flow, in order."""
        return [
            (name, role)
            for name in self.names
            for role, there in (
                ("bare", self.bare),
                ("clean", True),
                ("lossy", self.delay),
                ("marked", self.delay and name == "accsa"),
            )
            if there
        ]

    def text(self, known: dict[str, Facts]) -> str:
        delay = f"{DELAY_MS if self.delay else 0}ms"
        even = f'{{ rate = "{RATE:.0f}bit", delay = "{delay}", queue = 100 }}'
        parts = [
            f'title = "{" and ".join(self.names)}: does all of it work on this kernel?"\nid = "KERNELS"\n',
            *(EXTRA.get(name, "") for name in self.names),
            "[path]\nmtu = 1000\n",
        ]
        roles = self.roles()
        for name, role in roles:
            queue = DEEPER.get((name, role), QUEUES[role])
            loss = f', loss = "{LOSS:.0%}"' if role == "lossy" else ""
            parts.append(
                f'[[path.hops]]\nforward = {{ rate = "{RATE:.0f}bit", delay = "{delay}", queue = {queue}{loss} }}\n'
                f"reverse = {MARKED if role == 'marked' else even}\n"
            )
        if len(roles) == 1:  # a chain has two hops at least
            parts.append(f"[[path.hops]]\nforward = {even}\nreverse = {even}\n")
        for k, (name, role) in enumerate(roles, 1):
            parts.append(
                f'[[flows]]\ncontroller = "{name if role == "bare" else alias(name)}"\nenter = {k}\nleave = {k + 1}\n'
                + (f'stop = "{PAUSE}s"\nresume = "{RESUME}s"\n' if role == "bare" else "")
            )
        for name in self.names:
            fitting = "".join(f"{k} = {v}\n" for k, v in FITTING.get(name, {}).items())
            parts.append(f'[controllers.{alias(name)}]\nobject = "{name}"\n{fitting}')
            if self.bare:
                parts.append(f'[controllers.{name}]\nloader = "bpftool"\n')
            if self.change and known[name].live:
                changed = ", ".join(f"{k} = {v}" for k, v in known[name].live.items())
                parts.append(f'[[changes]]\nat = "{CHANGE}s"\ncontroller = "{alias(name)}"\nset = {{ {changed} }}\n')
        return "\n".join(
            [
                *parts,
                f'[run]\nduration = "{END}s"\nmeasure_from = "1s"\ntrace_state = true\ntraffic = "plain"\naudit = true\n',
            ]
        )

    def cases(self, known: dict[str, Facts]) -> list[scenario.Case]:
        """From a file in build/kernels, so that `asymlab run` repeats it."""
        less = [
            what for what, there in (("near", self.delay), ("loader", self.bare), ("fixed", self.change)) if not there
        ]
        file = BUILD / "kernels" / f"{'-'.join([*self.names, *less])}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text(known))
        return scenario.load(file)


# --- what is seen --------------------------------------------------------------------------


@dataclass
class View:
    """An object's part of a run."""

    name: str
    setup: Setup
    run: store.Run
    known: Facts
    lacks: dict[str, str] = field(default_factory=dict)  # hop's role: why it is not there
    shown: dict = field(init=False)

    def __post_init__(self) -> None:
        self.shown = self.run.record["agent"]["controllers"][alias(self.name)]

    def flow(self, role: str) -> int:
        if (self.name, role) not in self.setup.roles():
            raise Skip(self.lacks.get(role, "it needs what failed above"))
        return self.setup.roles().index((self.name, role))

    def rate(self, role: str, start: float, end: float) -> float:
        """Goodput, bit/s."""
        g = self.run.goodput[self.run.goodput["flow"] == self.flow(role)]
        return float(g["bytes"][(g["t"] >= start - 1e-9) & (g["t"] < end - 1e-9)].sum() * 8 / (end - start))

    @property
    def full(self) -> float:
        return RATE * self.run.job["payload_share"]

    @property
    def share(self) -> float:
        """Of the full rate, what it must have of a path of its own within two seconds: its rivals grow more slowly."""
        return 0.5 if (REPO / "bpf" / "rivals" / f"{self.name}.bpf.c").exists() else 0.9

    def acks(self, role: str) -> np.ndarray:
        return self.run.acks[self.run.acks["flow"] == self.flow(role)]

    def queue(self, role: str, start: float, end: float) -> float:
        """Mean length, packets."""
        dev = self.run.job["watch"][self.flow(role)]["forward"]["dev"]
        return metrics.link_metrics(metrics.link_window(self.run.links, dev, start, end), RATE, end - start)[
            "queue_mean"
        ]

    def recoveries(self) -> Iterator[tuple[np.ndarray, np.ndarray | None, int]]:
        """ACKs, states if it keeps any, and where among them a fast recovery begins, of each."""
        for role in ("clean", "lossy"):
            if (self.name, role) in self.setup.roles():
                acks, states = self.acks(role), self.run.state(self.flow(role)) if self.shown["state"] else None
                for k in np.flatnonzero((acks["ca_state"][1:] == 3) & (acks["ca_state"][:-1] < 2)):
                    yield acks, states, int(k)

    def cuts(self) -> Iterator[tuple[np.void, int]]:
        """TCP at the ACK that began a recovery, and ssthresh after it."""
        for acks, _, k in self.recoveries():
            yield acks[k], int(acks[k + 1]["ssthresh"])

    def cuts_and_states(self) -> Iterator[tuple[np.void, int, np.void]]:
        """And what the controller remembers after it."""
        for acks, states, k in self.recoveries():
            yield acks[k], int(acks[k + 1]["ssthresh"]), states[k + 1]

    def counters(self, name: str) -> dict[str, int]:
        return {c["name"]: c["value"] for c in self.run.record["agent"]["controllers"][name]["counters"]}

    def count(self, what: str) -> int:
        return self.counters(alias(self.name))[what]


def insns(shown: dict) -> dict[str, int]:
    return {p["name"]: p["verified_insns"] for p in shown["programs"]}


# --- what must hold ------------------------------------------------------------------------


def loads(v: View) -> None:
    need(all(n > 0 for n in insns(v.shown).values()) and insns(v.shown), "no program of it is in the kernel")


def registers(v: View) -> None:
    need(v.shown["registered"] and v.count("flows") >= 1, "no connection has had it")
    need(
        not v.known.halves or v.count("peers"),
        "its programs are attached to the cgroup of both ends, and neither end has heard the other's option",
    )


def registers_bare(v: View) -> None:
    v.flow("bare")
    need(v.counters(v.name)["flows"] >= 1, "no connection has had it")


def bulk(v: View) -> None:
    wrong = [
        f"{row['what']}: expected {row['expected']}, measured {row['measured']}"
        for row in v.run.record["agent"]["self_check"]
        if not row["ok"] and v.run.record["where"] == "lab"
    ]  # in real time other load makes such
    need(not wrong, "the path is not as it was set up: " + "; ".join(wrong))
    role = "bare" if v.setup.bare else "clean"
    got = v.rate(role, 1.5, PAUSE)
    need(got >= v.share * v.full, f"{got / 1e6:.2f} of {v.full / 1e6:.2f} Mbit/s before the pause")
    for name, role in v.setup.roles():
        if name == v.name:
            acks, flow = v.acks(role), v.flow(role)
            need(len(acks), f"{role}: no ACK")
            low, high = int(acks["cwnd"].min()), int(acks["cwnd"].max())
            need(1 <= low and high < 10_000, f"{role}: windows from {low} to {high}")
            bytes_agree(
                role,
                acks,
                v.run.goodput[v.run.goodput["flow"] == flow],
                1000 * v.run.job["payload_share"],
                v.run.job["bin_ms"] / 1e3,
            )


def bytes_agree(role: str, acks: np.ndarray, goodput: np.ndarray, mss: float, bin_s: float) -> None:
    """What had arrived before the last ACK is delivered but for a flight, and what was delivered before the last segment has arrived.

    By the sender's own counter and how far the receiver was: neither misses what a kernel does not show to the tracer (docs/clients.md).
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


def loss(v: View) -> None:
    reno = math.sqrt(1.5 / LOSS) / BDP * v.full
    seconds = [v.rate("lossy", t, t + 1) for t in range(1, END)]
    need(min(seconds) > 0.1 * reno, f"{min(seconds) / 1e6:.2f} Mbit/s in one second")
    need(np.mean(seconds) > 0.4 * reno, f"{np.mean(seconds) / 1e6:.2f} Mbit/s, Reno should have {reno / 1e6:.2f}")


def idle(v: View) -> None:
    need(v.rate("bare", PAUSE + 2.5, RESUME) == 0, "it sends in the pause")
    got = v.rate("bare", 8, END)
    need(got >= v.share * v.full, f"{got / 1e6:.2f} of {v.full / 1e6:.2f} Mbit/s after it")


def live(v: View) -> None:
    if not v.known.live:
        raise Skip(NOT_LIVE)
    values = {p["name"]: p["value"] for p in v.shown["parameters"]}
    wrong = [f"{k} is {values[k]}, not {value}" for k, value in v.known.live.items() if values[k] != value]
    need(not wrong, "; ".join(wrong))
    if v.name in CHANGED:
        before, after = v.queue("clean", 3, CHANGE), v.queue("clean", 8, END)
        need(after > 2 * before, f"the queue was {before:.1f} packets and is {after:.1f}")
    need(v.rate("clean", 8, END) >= 0.9 * v.full, f"{v.rate('clean', 8, END) / 1e6:.2f} Mbit/s afterwards")


def traced(v: View) -> None:
    said = v.run.record["agent"]["traced"]
    need(re.search(r"lost 0\b", said), said)
    for name, role in v.setup.roles():
        if name == v.name:
            acks, state = v.acks(role), v.run.state(v.flow(role)) if v.shown["state"] else None
            need(len(acks) > 100, f"{role}: {len(acks)} ACKs")
            need(
                state is None or len(state) == len(acks),
                f"{role}: {len(acks)} ACKs, and the state at {0 if state is None else len(state)}",
            )


def leaves_nothing(v: View) -> None:
    agent = v.run.record["agent"]
    need(agent["loaded"], "nothing was seen in the kernel")
    need(not agent["left"], "still in the kernel: " + ", ".join(agent["left"]))


# --- their own laws ------------------------------------------------------------------------


def queue_between(low: float, high: float) -> Callable[[View], None]:
    def law(v: View) -> None:
        queue = v.queue("clean", 2, CHANGE)
        need(low <= queue <= high, f"{queue:.1f} packets")

    return law


def cuts_to(law: Callable[[int], float], least: int = 3, off: int = 2) -> Callable[[View], None]:
    """ssthresh after a loss, by the window before; an ACK may have moved it by one in between."""

    def holds(v: View) -> None:
        cuts = [(int(ack["cwnd"]), after) for ack, after in v.cuts()]
        need(len(cuts) >= least, f"{len(cuts)} losses")
        wrong = [(cwnd, after) for cwnd, after in cuts if abs(after - law(cwnd)) > off]
        need(not wrong, "; ".join(f"from {cwnd} to {after}" for cwnd, after in wrong[:3]))

    return holds


def takes_out_the_queue(at_most_half: bool) -> Callable[[View], None]:
    """W RTTmin / RTT is left, RTT being the last before the loss."""

    def holds(v: View) -> None:
        seen = 0
        for ack, after, state in v.cuts_and_states():
            law = ack["cwnd"] * min(state["rtt_min"] / state["rtt_last"], 1)
            law = max(law, ack["cwnd"] / 2) if at_most_half else law
            need(abs(after - law) <= 2, f"from {ack['cwnd']} to {after}, not {law:.0f}")
            seen += 1
        need(seen >= 3, f"{seen} losses")

    return holds


def halves(cwnd: int) -> float:
    return cwnd / 2


def bic(cwnd: int) -> float:
    return cwnd * 819 / 1024 if cwnd > 14 else cwnd / 2


def highspeed(v: View) -> None:
    """By the row of the window; in slow start by that of the last one beyond it, which may be the first: a half."""
    rows, seen = ((38, 128), (118, 112), (221, 104), (347, 98), (495, 93), (10_000, 84)), 0
    for ack, after in v.cuts():
        cwnd = int(ack["cwnd"])
        laws = [
            cwnd - cwnd * next(part for top, part in rows if cwnd <= top) / 256,
            *([cwnd / 2] if cwnd < ack["ssthresh"] else []),
        ]
        need(min(abs(after - law) for law in laws) <= 3, f"from {cwnd} to {after}, not {laws[0]:.0f}")
        seen += 1
    need(seen >= 3, f"{seen} losses")


def vegas(v: View) -> None:
    """While it has more than 4 packets queued it comes down by one a round trip; then it keeps 2 to 4."""
    acks = v.acks("clean")
    acks = acks[acks["rtt_us"] > 0]
    queued = acks["cwnd"] * (1 - acks["rtt_us"].min() / acks["rtt_us"])
    late = np.flatnonzero(acks["t"] > 3)
    above = late[: np.argmin(queued[late] > 5) if (queued[late] <= 5).any() else len(late)]
    if len(above) > 1:
        rounds = float((np.diff(acks["t"][above]) * 1e6 / acks["rtt_us"][above][1:]).sum())
        fell = int(acks["cwnd"][above[0]]) - int(acks["cwnd"][above[-1]])
        need(0.8 * rounds - 2 <= fell <= 1.1 * rounds + 2, f"{fell} packets in {rounds:.0f} round trips")
    rest = queued[late[len(above) :]]
    need(len(above) > 1 or len(rest), "no samples of the RTT")
    need(not len(rest) or 1 <= rest.mean() <= 5, f"{rest.mean() if len(rest) else 0:.1f} packets queued at rest")


def compound(v: View) -> None:
    state, acks = v.run.state(v.flow("clean")), v.acks("clean")
    quiet = np.flatnonzero((acks["ca_state"][1:] == 0) & (acks["ca_state"][:-1] == 0)) + 1
    same = ((state["cwnd_q20"] + state["dwnd_q20"])[quiet] >> 20) == acks["cwnd"][quiet]
    need(same.mean() > 0.9, f"cwnd + dwnd is the window at {same.mean():.0%} of the ACKs")
    need(v.count("increases"), f"dwnd could grow {v.count('increases')} times")
    cuts_to(halves)(v)


def adaptive(v: View) -> None:
    """Wbase = W / (1 + c), c being what the state has after the loss."""
    seen = 0
    for ack, after, state in v.cuts_and_states():
        law = ack["cwnd"] / (1 + state["c_q16"] / 65536)
        need(abs(after - law) <= 2, f"from {ack['cwnd']} to {after}, not {law:.0f}")
        seen += 1
    need(seen >= 3, f"{seen} losses")


def westwood(v: View) -> None:
    """After a recovery ssthresh is the estimate, bytes a tick, by the shortest RTT in whole ticks, of which a second has one of these numbers."""
    mss, seen, fits = round(1000 * v.run.job["payload_share"]), [], {100, 250, 300, 1000}
    for role in ("clean", "lossy"):
        if (v.name, role) in v.setup.roles():
            acks, states = v.acks(role), v.run.state(v.flow(role))
            for k in np.flatnonzero((acks["ca_state"][1:] == 0) & (acks["ca_state"][:-1] == 3)) + 1:
                after, rate, rtt = int(acks[k]["ssthresh"]), int(states[k]["estimate"]), int(states[k]["rtt_min"])
                seen.append(f"{after} packets by {rate} bytes a tick and {rtt} us")
                fits = {hz for hz in fits if abs(after - max(rate * math.ceil(rtt * hz / 1e6) / mss, 2)) <= 2}
    need(len(seen) >= 2, f"{len(seen)} recoveries")
    need(fits, "; ".join(seen[:3]))


def formosa(v: View) -> None:
    state = v.run.state(v.flow("clean"))
    need((state["cwnd"] <= state["w"] + state["w_last"]).all(), "the window is more than the last two rounds'")
    before = state[state["t"] < CHANGE]
    cut = np.flatnonzero(np.diff(before["peer_signals"].astype(int)) != 0)
    to_eighth = before["w"][cut + 1] == before["w"][cut] - np.maximum(before["w"][cut] // 8, 1)
    need(to_eighth.sum() >= 3, f"{to_eighth.sum()} of {len(cut)} signals took an eighth")
    drops = v.run.metrics["hops"][v.flow("clean")]["forward"]["drops"]
    need(not drops, f"{drops} packets dropped by a queue that its signals should keep short")


def marked(v: View) -> None:
    hop = v.run.metrics["hops"][v.flow("marked")]
    need(
        v.count("marks") > 10 and v.count("doublings") > 5,
        f"{v.count('marks')} marks, {v.count('doublings')} doublings",
    )
    share = hop["reverse"]["packets"] / hop["forward"]["packets"]
    need(share < 0.5, f"{share:.2f} ACKs a packet")


LAWS: dict[str, tuple[str, Callable[[View], None]]] = {
    "accsa": ("marks thin its ACKs", marked),
    "areno": ("a loss leaves W/(1+c)", adaptive),
    "bpf_bic": ("a loss leaves 819/1024", cuts_to(bic)),
    "bpf_highspeed": ("a loss leaves 1-b(w)", highspeed),
    "bpf_vegas": ("2 to 4 packets are queued, or one less each round trip", vegas),
    "bpf_westwood": ("a loss leaves rate by RTTmin", westwood),
    "ctcp": ("both windows make one, and a loss halves it", compound),
    "fast": ("alpha packets are queued", queue_between(17, 23)),
    "formosa": ("a signal takes an eighth, before the queue drops", formosa),
    "fusion": ("a loss takes out what was queued, at most half", takes_out_the_queue(True)),
    "nreno": ("a loss halves", cuts_to(halves)),
    "pseudorate": ("N_queue packets are queued", queue_between(1, 5)),
    "taichung": ("a loss takes out what was queued", takes_out_the_queue(False)),
    "vegas95": ("1 to 3 packets are queued", queue_between(0.5, 4)),
}


# --- kernels -------------------------------------------------------------------------------

Outcome = str | Skip | None  # of a property: what is wrong, why it was not tried, or nothing
PROPERTIES: list[tuple[str, Callable[[View], None]]] = [
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
# What the agent's words say of the property at fault, and the set-up that does without.
AT_FAULT = [
    (re.compile(r"bpftool struct_ops register"), "registers by bpftool alone", {"bare": False}),
    (re.compile(r"asymcc set "), "live parameters change", {"change": False}),
]


@dataclass
class Result:
    """Of one object on one kernel."""

    outcomes: dict[str, Outcome]
    insns: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        return sum(isinstance(o, str) for o in self.outcomes.values())


def names_of(name: str) -> list[str]:
    return [what for what, _ in PROPERTIES] + [f"law: {LAWS[name][0]}"]


def broken(name: str, why: str) -> Result:
    """Nothing could be seen: the first property says why."""
    first, *rest = names_of(name)
    return Result({first: why} | {what: "not tried: there is no run" for what in rest})


def judge(v: View, faults: dict[str, str]) -> Result:
    outcomes: dict[str, Outcome] = {}
    for what, holds in [*PROPERTIES, (f"law: {LAWS[v.name][0]}", LAWS[v.name][1])]:
        try:
            if what.startswith("law") and v.name in FAR and not v.setup.delay:
                raise Skip(NO_NETEM)
            outcomes[what] = faults.get(what) or holds(v)
        except Skip as e:
            outcomes[what] = e
        except (LabError, LookupError, ValueError) as e:  # the last two: what should be there is not
            outcomes[what] = str(e) if isinstance(e, LabError) else f"{type(e).__name__}: {e}"
    return Result(outcomes, insns(v.shown))


@dataclass
class Column:
    """A kernel, and what was found on it."""

    label: str
    release: str = ""
    package: str = ""
    note: str = ""
    skip: str = ""  # why nothing of it was tried
    error: str = ""  # or could be
    results: dict[str, Result] = field(default_factory=dict)
    image: image.Image | None = None  # none on this machine's own kernel
    refused: Result | None = None  # what the verifier should not take

    @property
    def title(self) -> str:
        return f"{self.release} ({self.package or 'this machine'})" if self.release else self.label


def newest(say) -> tuple[str, str]:
    """The newest of the kernels that the configured mirror's suites have: package and suite."""
    cache, found = BUILD / "apt", []
    source = image.apt_source(cache)
    debian = source.origin == "Debian"
    for suite in image.DEBIAN_SUITES if debian else (source.codename, f"{source.codename}-updates"):
        options = image.apt_options(source, suite, cache)
        say(f"looking for kernels in {suite}")
        try:
            image.run("apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update")
            text = image.run(
                "apt-cache",
                *options,
                "show",
                "--no-all-versions",
                "linux-image-cloud-amd64" if debian else "linux-image-virtual",
            )
        except LabError as e:
            if re.search(r"Release file|404|Not Found|No packages found", str(e)):
                continue  # the mirror does not carry this suite
            raise
        package = re.search(r"linux-image-[0-9][^ ,)]*", text)[0]
        found.append((tuple(map(int, re.findall(r"\d+", package.split("+")[0]))), package, suite))
    if not found:
        raise LabError("no kernel in the package source")
    return max(found)[1:]


def guest(label: str, say) -> tuple[image.Image, Column]:
    """A kernel's image, made if there is none of this tree, and its column."""
    column, wanted, name = Column(label), label, label
    if label == "newest":
        wanted, suite = newest(say)
        name, column.note = ".".join(re.findall(r"\d+", wanted)[:2]), f"{wanted} of {suite}"
    try:
        image.check_current(name)
        made = image.open_image(name)
        if wanted != name and f"linux-image-{made.kernel}" != wanted:
            raise LabError("of an older one")
    except (LabError, OSError, ValueError, KeyError):
        image.build_image(wanted, label=name, say=say)
        made = image.open_image(name)
    parts = json.loads((made.folder / "manifest.json").read_text())["parts"]
    column.image, column.release, column.package = made, made.kernel, parts["vmlinux"]["version"].split()[-1]
    return made, column


def without(setup: Setup, error: LabError, faults: dict[str, str]) -> Setup | None:
    """The set-up that does without what went wrong, which is noted; None if there is none."""
    for pattern, what, less in AT_FAULT:
        if pattern.search(str(error)) and what not in faults:
            faults[what] = str(error)
            return replace(setup, **less)
    return None


def in_guest(label: str, names: list[str], known: dict[str, Facts], jobs: int | None, fresh: bool, say) -> Column:
    try:
        made, column = guest(label, say)
    except LabError as e:
        return Column(label, error=str(e))
    setups, faults = {name: Setup((name,)) for name in names}, {name: {} for name in names}
    while setups:
        tasks = {name: runner.plan(setup.cases(known), made)[0] for name, setup in setups.items()}
        owner = {task.key: name for name, task in tasks.items()}
        found = [(task, run) for task in tasks.values() if not fresh and (run := store.find(task.key))]
        stored = {task.key for task, _ in found}
        left = [task for task in tasks.values() if task.key not in stored]
        again = {}
        for task, run in itertools.chain(
            found, runner.runs(left, made, jobs, lambda _: None, WALL_LIMIT_S, go_on=True)
        ):
            name = owner[task.key]
            if isinstance(run, store.Run):
                took = "in the store" if task.key in stored else f"{run.record['wall_s']:.0f} s"
                say(f"{column.release}: {name} ({took})")
                column.results[name] = judge(View(name, setups[name], run, known[name]), faults[name])
                continue
            say(f"{column.release}: {name}: {run}")
            if less := without(setups[name], run, faults[name]):
                again[name] = less
            else:
                column.results[name] = broken(name, str(run))
        setups = again
    return column


def why_not_here() -> str:
    btf = Path("/sys/kernel/btf/vmlinux")
    if os.geteuid() != 0:
        return "not root"
    if not btf.exists() or b"bpf_struct_ops_tcp_congestion_ops" not in btf.read_bytes():
        return "this kernel takes no congestion control from BPF"
    return ""


def on_host(names: list[str], known: dict[str, Facts], say) -> Column:
    """In real time, so what fails is tried once more, alone: other load may have been the cause."""
    column = Column("running", os.uname().release, skip=why_not_here())
    if column.skip:
        return column
    netem = not subprocess.run(
        [*"unshare --net tc qdisc add dev lo root netem delay 1ms".split()], capture_output=True
    ).returncode
    taken = set(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split())

    def attempt(*group: str) -> dict[str, Result]:
        setup, faults = Setup(group, netem, not taken & set(group)), {}
        lacks = {} if netem else dict.fromkeys(("lossy", "marked"), NO_NETEM)
        lacks |= {} if setup.bare else {"bare": "a controller of this name is in service here"}
        while True:
            say(f"{column.release}: {', '.join(group)}")
            try:
                run = runner.execute_on_host(runner.plan_host(setup.cases(known))[0])
                return {name: judge(View(name, setup, run, known[name], lacks), faults) for name in group}
            except LabError as e:
                less = without(setup, e, faults) if len(group) == 1 else None
                if not less:
                    return {name: broken(name, str(e)) for name in group}
                setup = less

    # As many as a chain has hops for; who has programs for the cgroup has it alone.
    alone = [name for name in names if known[name].halves or name in taken]
    others, size = [name for name in names if name not in alone], HOST_HOPS // len(Setup(("",), netem).roles())
    for group in [*((name,) for name in alone), *(others[k : k + size] for k in range(0, len(others), size))]:
        column.results |= attempt(*group)
    for name, result in list(column.results.items()):
        if result.failed:
            column.results |= attempt(name)
    return column


# --- what the verifier refuses -------------------------------------------------------------


def refused() -> dict[str, str]:
    """The objects of tests/verifier, a fault each, and the verifier's words for it: a regular expression."""
    found = {
        p.name.removesuffix(".bpf.c"): re.search(r"refused: (.*) \*/", p.read_text())
        for p in sorted((REPO / "tests" / "verifier").glob("*.bpf.c"))
    }
    if lacking := [
        name for name, words in found.items() if not words or not (BUILD / "verifier" / f"{name}.bpf.o").exists()
    ]:
        raise LabError(
            f"tests/verifier/{lacking[0]}.bpf.c: "
            + ("not built; run `make check-kernels`" if found[lacking[0]] else "no words of the verifier")
        )
    return {name: words[1] for name, words in found.items()}


def attempts(objects: str) -> dict[str, list[str]]:
    """How to load each from this folder: what traces by bpftool, for the loader's own tracer is no argument of it."""
    return {
        name: ["bpftool", "prog", "loadall", f"{objects}/{name}.bpf.o", f"/sys/fs/bpf/refused_{name}"]
        if name.startswith("trace_")
        else ["asymcc", "--objects", objects, "load", name, "--as", "refused", "-v"]
        for name in refused()
    }


def were_refused(said: dict[str, dict]) -> Result:
    def outcome(name: str, words: str) -> Outcome:
        one = said[name]
        if one["left"] or one["code"] != (255 if name.startswith("trace_") else 1):
            return f"exit {one['code']}, in the kernel: {', '.join(one['left']) or 'nothing'}"
        return None if re.search(words, one["words"]) else f"not {words!r}: {one['words'][-600:]}"

    return Result({f"refuses {name}": outcome(name, words) for name, words in refused().items()})


def refusals(column: Column) -> Result:
    try:
        return refused_in_guest(column.image) if column.image else refused_here()
    except (LabError, agent.Failure) as e:
        return Result({"runs": str(e)})


def refused_in_guest(made: image.Image) -> Result:
    objects = {f"refused/{name}.bpf.o": (BUILD / "verifier" / f"{name}.bpf.o").read_bytes() for name in refused()}
    files, _ = vm.run(made, {"seed": 1, "refused": attempts("/lab/refused")}, objects, limit_s=WALL_LIMIT_S)
    return were_refused(json.loads(files["agent.json"]))


def refused_here() -> Result:
    found = {
        name: [str(BUILD / argv[0]) if argv[0] == "asymcc" else argv[0], *argv[1:]]
        for name, argv in attempts(str(BUILD / "verifier")).items()
    }
    return were_refused(agent.refusals(found))


# --- what is told --------------------------------------------------------------------------


def growth(column: Column, result: Result, was: dict | None) -> tuple[Outcome, str]:
    """Whether the verifier has much more to look at than was recorded, and the numbers."""
    total = sum(result.insns.values())
    if not was or not total:
        return Skip("nothing is recorded" if total else "not loaded"), f"verified_insns {total}"
    before, said = was["verified_insns"], f"verified_insns {total} ({total - was['verified_insns']:+})"
    if series(column.release) != series(was["release"]):
        return Skip(f"recorded on {was['release']}"), said
    return (f"{before} are recorded: more than {GROWTH - 1:.0%} above" if total > GROWTH * before else None), said


def series(release: str) -> str:
    return ".".join(release.split(".")[:2])


def deaf(release: str) -> bool:
    return tuple(map(int, re.findall(r"\d+", release)[:2])) >= (7, 1)


def ktap(columns: list[Column], recorded: dict, write: Callable[[str], None]) -> bool:
    """The KTAP of all; true if nothing failed."""

    def line(depth: int, number: int, what: str, outcome: Outcome) -> None:
        if isinstance(outcome, str):
            write("  " * depth + "# " + " ".join(outcome.split()))
        skip = f" # SKIP {outcome}" if isinstance(outcome, Skip) else ""
        write(f"{'  ' * depth}{'not ok' if isinstance(outcome, str) else 'ok'} {number} {what}{skip}")

    def head(depth: int, subtest: str, plan: int) -> None:
        write("  " * depth + "KTAP version 1")
        if subtest:
            write(f"{'  ' * depth}# Subtest: {subtest}")
        write(f"{'  ' * depth}1..{plan}")

    head(0, "", len(columns))
    fine = True
    for i, column in enumerate(columns, 1):
        if column.skip or column.error:
            line(0, i, column.title, Skip(column.skip) if column.skip else column.error)
            fine &= not column.error
            continue
        head(1, column.title, len(column.results) + bool(column.refused))
        for note in (column.note, SHORT_IDLE if deaf(column.release) else ""):
            if note:
                write(f"  # {note}")
        bad = []
        for j, (name, result) in enumerate(sorted(column.results.items()), 1):
            grown, said = growth(column, result, recorded.get("objects", {}).get(name, {}).get(column.label))
            head(2, name, len(result.outcomes) + 1)
            for n, (what, outcome) in enumerate(result.outcomes.items(), 1):
                line(2, n, what, outcome)
            write(f"    # {said}")
            line(2, len(result.outcomes) + 1, "is not much more work for the verifier", grown)
            failed = result.failed + isinstance(grown, str)
            bad += [name] if failed else []
            line(1, j, name, f"{failed} of {len(result.outcomes) + 1} failed" if failed else None)
        if column.refused:
            head(2, "the verifier", len(column.refused.outcomes))
            for n, (what, outcome) in enumerate(column.refused.outcomes.items(), 1):
                line(2, n, what, outcome)
            bad += ["the verifier"] if column.refused.failed else []
            line(
                1,
                len(column.results) + 1,
                "the verifier",
                f"{column.refused.failed} faults taken" if column.refused.failed else None,
            )
        line(0, i, column.title, ", ".join(bad) + " failed" if bad else None)
        fine &= not bad
    return fine


def record(columns: list[Column], recorded: dict) -> dict:
    """What was recorded, with these kernels' results in place of their old ones."""
    kernels, rows = (
        dict(recorded.get("kernels", {})),
        {name: dict(of) for name, of in recorded.get("objects", {}).items()},
    )
    for column in columns:
        if column.results:
            kernels[column.label] = {"release": column.release, "package": column.package}
        for name, result in column.results.items():
            rows.setdefault(name, {})[column.label] = {
                "release": column.release,
                "verified_insns": sum(result.insns.values()),
                "programs": result.insns,
                "passed": sum(o is None for o in result.outcomes.values()),
                "skipped": {what: str(o) for what, o in result.outcomes.items() if isinstance(o, Skip)},
                "failed": {what: o for what, o in result.outcomes.items() if isinstance(o, str)},
            }
    return {
        "kernels": {label: kernels[label] for label in (*KERNELS, *kernels) if label in kernels},
        "objects": dict(sorted(rows.items())),
    }


def table(recorded: dict) -> str:
    """README's: of each object on each kernel the properties that hold, of those that were tried, and what the verifier looked at."""
    kernels = recorded["kernels"]
    lines = [
        "| object | " + " | ".join(k["release"] for k in kernels.values()) + " |",
        "| --- |" + " ---: |" * len(kernels),
    ]
    for name, on in recorded["objects"].items():
        cells = []
        for label in kernels:
            if one := on.get(label):
                failed = "".join(f"; not: {what}" for what in one["failed"])
                cells.append(f"{one['passed']}/{one['passed'] + len(one['failed'])}{failed}, {one['verified_insns']:,}")
            else:
                cells.append("-")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for name, on in recorded["objects"].items():
        for label, one in on.items():
            for what, why in one["skipped"].items():
                if why != NOT_LIVE:
                    short = f"the law of `{name}`" if what.startswith("law") else what
                    reasons.setdefault((kernels[label]["release"], why), {})[short] = None
    notes = [f"Not tried on {release}, for {why}: {', '.join(what)}." for (release, why), what in reasons.items()]
    notes += [f"On {k['release']} {SHORT_IDLE}." for k in kernels.values() if deaf(k["release"])]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def put_into(text: str, made: str) -> str:
    """README with the table between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(ENDING)
    if not begin or not end:
        raise LabError(f"{README}: no place for the table, which is between {BEGIN!r} and {ENDING!r}")
    return f"{before}{BEGIN}\n{made}\n{ENDING}{after}"


def check(labels: list[str], names: list[str], jobs: int | None, fresh: bool, keep: bool) -> bool:
    """All of it; KTAP on standard output, progress on standard error. True if nothing failed."""
    there = objects()
    if unknown := [name for name in names if name not in there]:
        raise LabError(f"{unknown[0]}: no such object; there are {', '.join(there)}")
    names = names or there
    if missing := [name for name in names if not (BUILD / f"{name}.bpf.o").exists() or name not in LAWS]:
        raise LabError(
            f"{missing[0]}: "
            + ("not built; run `make build`" if missing[0] in LAWS else "asymlab/kernels.py knows no law of it")
        )
    known = {name: facts(name) for name in names}
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    columns = [
        on_host(names, known, say) if label == "running" else in_guest(label, names, known, jobs, fresh, say)
        for label in labels or KERNELS
    ]
    for column in columns:
        if not column.skip and not column.error:
            column.refused = refusals(column)
    fine = ktap(columns, recorded, lambda text: print(text, flush=True))
    if keep:
        made = record(columns, recorded)
        text = put_into(README.read_text(), table(made))
        RECORD.write_text(json.dumps(made, indent=1) + "\n")
        README.write_text(text)
        say(f"{RECORD} and the table in {README} are written")
    return fine
