# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Random scenarios, and what must hold in each whatever it is: `asymlab explore`.

A seed and a number draw a scenario: path, flows, controllers with parameters, what changes under way. It is a plain file,
build/explore/SEED-NUMBER.toml, and its run one of the lab's: it repeats to the byte. Of each run is judged:

    content   every byte that arrived is the one that was sent there
    broken    no connection ends
    command   no command of asymcc fails that may be given then
    machine   the guest neither hangs nor dies
    silence   no flow is without progress for longer than silence_limit() says
    window    1 <= cwnd <= 2^20 packets, and pacing rates between 1 byte/s and 10 GB/s
    link      no direction carries more than its rate allows
    rtt       no sample is shorter than the path
    floor     a flow alone on a clean path uses as much of it as its law promises: floor_of()
    left      the kernel has none of the controllers' programs at the end
    log       and has said nothing of a WARNING or a BUG

A run whose set-up failed its self-check is counted apart: it judges the lab. What breaks is shrunk: the smallest scenario found that
breaks the same is build/explore/INVARIANT-CONTROLLER-SEED-NUMBER.toml, and `asymlab run FILE` repeats it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import random
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from .. import LabError
from ..guest import agent
from ..machine import image
from ..paths import BUILD, REPO
from ..plan import scenario, topology
from ..plan.scenario import Case, Direction, Flow, Scenario
from ..results import metrics, store
from ..run import runner
from ..run.runner import console

FOLDER = BUILD / "explore"
WALL_LIMIT_S = 600  # of a run that takes some seconds
PACKETS = 2000  # a run's, about: some second of a core
SHRINK_RUNS = 80  # at most, for one failure
UNPACED = (1 << 64) - 1
# Alone in a cgroup: both answer for the ACKs of the same sockets.
APART = ("formosa", "accsa")
KERNELS_OWN = (
    "reno",
    "cubic",
    "vegas",
    "westwood",
    "highspeed",
    "bic",
    "bbr",
    "htcp",
    "illinois",
    "veno",
    "dctcp",
    "hybla",
    "lp",
    "nv",
    "scalable",
    "yeah",
    "cdg",
)
LOG = re.compile(r"WARNING|BUG|Oops|refcount|struct_ops|use-after|deadlock|hung|stall|leak", re.I)


# --- what is drawn -------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """Of an object, as the loader shows it: parameters, each a dictionary."""

    parameters: tuple[dict, ...]

    @property
    def live(self) -> list[dict]:
        return [p for p in self.parameters if p["live"]]


def facts(name: str) -> Facts:
    shown = json.loads(image.run(BUILD / "asymcc", "--objects", topology.BUILD, "show", name, "--json"))
    return Facts(tuple(shown["parameters"]))


def objects() -> list[str]:
    return sorted(p.name.removesuffix(".bpf.c") for p in REPO.glob("bpf/**/*.bpf.c"))


class Draw:
    """One random scenario, as the tree of its file."""

    def __init__(self, rng: random.Random, first: str, known: dict[str, Facts]):
        self.rng, self.known = rng, known
        self.calm = self.chance(0.2)  # one flow on a clean path: a law's own ground
        rate = self.log(30e3, 1e6 if self.calm else 5e6)
        mtu = self.of((296, 576, 1000) if rate < 200e3 else (1000, 1500) if rate > 1e6 else (576, 1000, 1500))
        count = 1 if self.calm else self.of((1,) * 8 + (2, 2, 3))
        # Packets of data go both ways where flows do: those take their time, too.
        self.duration = int(min(max(PACKETS / (rate / 8 / mtu) / count, 8), 24))
        self.tree = {"title": "drawn", "id": "EXPLORE", "profile": self.of(("linux", "linux", "ns2", "newreno"))}
        if self.chance(0.2):
            self.tree["sysctls"] = {"net.ipv4.tcp_ecn": 1}
        hops = [self.hop(rate if k == 0 else min(rate * self.log(0.5, 4), 5e6), mtu, count) for k in range(count)]
        self.tree["path"] = {"mtu": mtu} | (hops[0] if count == 1 else {"hops": hops})
        self.tree["flows"] = self.flows(first, count)
        self.tree["controllers"] = {
            name: given
            for name in dict.fromkeys(f["controller"] for f in self.tree["flows"])
            if name in known and (given := self.parameters(known[name].parameters))
        }
        if self.odd(0.12):
            self.tree["background"] = [
                {
                    "rate": self.kbit(rate * self.log(0.02, 0.5)),
                    "packet": self.of((100, mtu)),
                    "direction": self.direction(),
                    "start": self.time(0, 0.5),
                }
            ]
        self.tree["changes"] = self.changes(hops)
        self.tree["run"] = {
            "duration": f"{self.duration}s",
            "measure_from": f"{max(self.duration // 4, 1)}s",
            "traffic": "plain",
            "verify": True,
            "audit": True,
        }

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def odd(self, p: float) -> bool:
        return not self.calm and self.chance(p)

    def of(self, choices):
        return self.rng.choice(choices)

    def log(self, low: float, high: float) -> float:
        return math.exp(self.rng.uniform(math.log(low), math.log(high)))

    @staticmethod
    def kbit(rate: float) -> str:
        return f"{max(round(rate / 1000), 2)}kbit"

    def share(self, low: float, high: float) -> str:
        return f"{100 * self.log(low, high):.2g}%"

    def time(self, low: float, high: float) -> str:
        """A moment, in shares of the duration."""
        return f"{round(self.rng.uniform(low, high) * self.duration, 1)}s"

    def direction(self, forward: float = 0.7) -> str:
        return "forward" if self.chance(forward) else "reverse"

    def own_ground(self, rate: float, mtu: int) -> dict:
        """A hop whose queue is about what it holds, with a way back for every ACK: where floor_of() asks for something."""
        delays = [round(self.log(1, 60)) for _ in range(2)]
        holds = rate * sum(delays) / 8000 / mtu
        return {
            d: {"rate": self.kbit(r), "delay": f"{delay}ms", "queue": max(round(holds * self.rng.uniform(0.5, 1.5)), 8)}
            for d, r, delay in zip(topology.DIRECTIONS, (rate, rate / self.of((1, 4))), delays)
        }

    def hop(self, rate: float, mtu: int, count: int) -> dict:
        if self.calm:
            return self.own_ground(rate, mtu)
        asymmetry = 1 if self.chance(0.3) else self.log(1, 200)
        return {
            d: self.one_way(r, mtu, count) for d, r in (("forward", rate), ("reverse", max(rate / asymmetry, 2000)))
        }

    def one_way(self, rate: float, mtu: int, count: int) -> dict:
        delay = 0 if self.chance(0.1) else round(self.log(1, 300) / count)
        longest = self.of((0.3, 0.3, 1, 4))  # seconds that a full queue takes to leave, be it of data or of ACKs
        queue = max(min(round(self.log(1, 500)), round(longest * rate / 8 / self.of((mtu, 60)))), 1)
        found = {"rate": self.kbit(rate), "delay": f"{delay}ms", "queue": queue}
        if self.odd(0.25):
            found["loss"] = self.share(1e-4, 0.1)
        if delay and self.odd(0.12):
            found["reorder"] = self.share(1e-3, 0.1)
        if self.odd(0.12):
            found["duplicate"] = self.share(1e-3, 0.05)
        if delay > 1 and self.odd(0.12):
            found["jitter"] = f"{self.rng.randint(1, delay // 2)}ms"
        if queue >= 8 and self.odd(0.1):
            low = self.rng.randint(2, queue // 2)
            found["red"] = {
                "min": low,
                "max": self.rng.randint(low + 1, queue),
                "probability": self.share(0.02, 0.5),
                "ecn": self.chance(0.5),
            }
        if self.odd(0.08):
            found["strip"] = {"kinds": [self.of((2, 4, 5, 8, 253, 254))], "syn": self.chance(0.5)}
        if self.odd(0.08):
            found["rewrite"] = [
                self.of(
                    (
                        {"kind": 2, "offset": 2, "value": self.rng.randint(100, 1460)},
                        {"kind": 253, "offset": self.of((2, 4, 6, 8)), "value": self.rng.randint(0, 65535)},
                    )
                )
            ]
        return found

    def flows(self, first: str, count: int) -> list[dict]:
        found: list[dict] = []
        for i in range(1 if self.calm else self.of((1,) * 9 + (2,) * 6 + (3,) * 3 + (4,) * 2)):
            taken = {f["controller"] for f in found}
            others = [n for n in self.known if not (n in APART and taken & {*APART} - {n})]
            name = first if not i or self.chance(0.4) else self.of(others if self.chance(0.5) else KERNELS_OWN)
            flow = {
                "controller": name,
                "direction": "forward" if self.calm else self.direction(0.85 if not i else 0.6),
                "start": self.time(0, 0.3) if i or self.odd(0.3) else "0s",
            }
            if self.chance(0.4):
                flow["ack"] = "delayed"
            if self.chance(0.15):
                flow["extra_delay"] = f"{round(self.log(1, 50))}ms"
            if self.odd(0.2):
                flow["stop"] = self.time(0.4, 0.6)
                if self.chance(0.7):
                    flow["resume"] = self.time(0.65, 0.8)
            if count > 1 and self.chance(0.25):
                ends = sorted(self.rng.sample(range(1, count + 2), 2), reverse=flow["direction"] == "reverse")
                flow |= {"enter": ends[0], "leave": ends[1]}
            found.append(flow)
        return found

    def value(self, p: dict) -> int:
        return self.of(
            (
                p["min"],
                p["max"],
                round(self.log(max(p["min"], 1), max(p["max"], 1))),
                max(p["min"], p["value"] // 2),
                min(p["max"], 2 * p["value"]),
            )
        )

    def parameters(self, of: tuple[dict, ...] | list[dict]) -> dict[str, int]:
        chosen = self.rng.sample(list(of), 0 if self.calm else min(len(of), self.of((0, 0, 1, 2, 3))))
        return {p["name"]: self.value(p) for p in chosen}

    def changes(self, hops: list[dict]) -> list[dict]:
        found, out = [], set()
        mine = sorted({f["controller"] for f in self.tree["flows"]} & set(self.known))
        for at in sorted(
            round(self.rng.uniform(0.1, 0.8) * self.duration, 1)
            for _ in range(0 if self.calm else self.of((0, 0, 1, 1, 2, 3)))
        ):
            change = self.path_change(hops) if self.chance(0.5) else self.controller_change(self.of(mine), out)
            if change:
                found.append({"at": f"{at}s"} | change)
        return found

    def path_change(self, hops: list[dict]) -> dict:
        k, name = self.rng.randrange(len(hops)), self.direction()
        old = hops[k][name]
        rate, delay = (float(old[key].rstrip("kbitms")) for key in ("rate", "delay"))
        what = self.of(("rate", "delay", "delay", "loss", "mtu"))
        new = {
            "rate": self.kbit(min(1000 * rate * self.log(0.2, 4), 5e6)),
            "delay": f"{round(min(max(delay, 2) * self.log(0.5, 4), 300))}ms",
            "loss": self.share(1e-3, 0.1),
            "mtu": self.rng.randint(552, 1500),
        }
        return {"hop": k + 1, "direction": name, what: new[what]}

    def controller_change(self, name: str, out: set[str]) -> dict | None:
        if name in out:
            out.remove(name)
            return {"controller": name, "command": "load"}
        what = self.of(("set", "replace", "unload", "drain", "use"))
        change = {"controller": name} | ({} if what == "set" else {"command": what})
        if what in ("set", "replace"):
            given = self.parameters(self.known[name].live if what == "set" else self.known[name].parameters)
            if what == "set" and not given:
                return None
            return change | ({"set": given} if given else {})
        if what in ("unload", "drain"):
            out.add(name)
        return change


def bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def inline(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{bare(k)} = {inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


def toml(tree: dict) -> str:
    """A scenario's tree as its file."""
    tables = [
        ("[sysctls]", tree.get("sysctls", {})),
        ("[path]", {k: v for k, v in tree["path"].items() if k != "hops"}),
        *(("[[path.hops]]", hop) for hop in tree["path"].get("hops", ())),
        *((f"[controllers.{name}]", given) for name, given in tree.get("controllers", {}).items()),
        *((f"[[{what}]]", item) for what in ("flows", "background", "changes") for item in tree.get(what, ())),
        ("[run]", tree["run"]),
    ]
    lines = [f"{key} = {inline(tree[key])}" for key in ("title", "id", "profile") if key in tree]
    for heading, values in tables:
        if values:
            lines += ["", heading, *(f"{bare(k)} = {inline(v)}" for k, v in values.items())]
    return "\n".join(lines) + "\n"


def valid(tree: dict) -> bool:
    try:
        Scenario.model_validate(tree)
    except ValidationError:
        return False
    return True


def draw(seed: int, number: int, names: list[str], known: dict[str, Facts]) -> dict:
    """The number-th scenario of a seed; names are tried in turn."""
    rng = random.Random(f"{seed} {number}")
    while True:
        tree = Draw(rng, names[number % len(names)], known).tree
        if valid(tree):
            return tree | {"title": f"path {number} of seed {seed}"}


# --- what must hold ------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    invariant: str
    controller: str  # whose flow, or that of the first
    words: str


@dataclass
class View:
    """A run beside the scenario it is of."""

    case: Case
    run: store.Run
    phases: dict[tuple[int, str], list[tuple[float, Direction]]] = field(
        init=False
    )  # of a hop's direction: from when on which

    def __post_init__(self) -> None:
        s = self.scenario
        self.phases = {
            (k, d): [(0.0, getattr(hop, d))] for k, hop in enumerate(s.path.chain, 1) for d in topology.DIRECTIONS
        }
        for change in sorted((c for c in s.changes if c.of_path), key=lambda c: c.at):
            mine = self.phases[change.hop, change.direction]
            new = {key: value for key, value in change.of_path.items() if key != "mtu"}
            mine.append((change.at / 1e6, mine[-1][1].model_copy(update=new)))

    @property
    def scenario(self) -> Scenario:
        return self.case.scenario

    @property
    def end(self) -> float:
        return self.run.job["duration_s"]

    def flows(self) -> Iterator[tuple[dict, Flow]]:
        """The job's flows, each with its entry."""
        entries = [flow for flow in self.scenario.flows for _ in range(flow.count)]
        return zip(self.run.job["flows"], entries)

    def crossed(self, flow: Flow) -> range:
        low, high = sorted(self.scenario.switches(flow))
        return range(low, high)

    def both_ways(self, flow: Flow) -> list[tuple[int, str]]:
        return [(k, d) for k in self.crossed(flow) for d in topology.DIRECTIONS]

    def loaded(self, place: tuple[int, str]) -> bool:
        """Does it carry more than ACKs?"""
        return any(
            f.direction == place[1] and place[0] in self.crossed(f)
            for f in (*self.scenario.flows, *self.scenario.background)
        )

    def packet(self, place: tuple[int, str]) -> int:
        return self.scenario.path.mtu if self.loaded(place) else topology.ACK_MTU

    def links(self, place: tuple[int, str]) -> np.ndarray:
        return self.run.links[self.run.links["dev"] == self.run.job["watch"][place[0] - 1][place[1]]["dev"]]

    def drops(self, place: tuple[int, str]) -> np.ndarray:
        """The times of the bins in which its queue dropped something."""
        rows = self.links(place)
        return rows["t"][np.diff(rows["drops"].astype("i8"), prepend=0) > 0]


def content(v: View) -> Iterator[tuple[str, str]]:
    for flow, _ in v.flows():
        told = v.run.record["agent"]["verified"][str(flow["id"])]
        acks = v.run.acks[v.run.acks["flow"] == flow["id"]]
        if told["wrong_at"] is not None:
            yield flow["controller"], f"flow {flow['id']}: byte {told['wrong_at']} is not the one that was sent"
        acked, waits = (
            int(acks["acked"].astype("u8").sum()),
            agent.COMPARE_BYTES + 2 * int(acks["cwnd"].max(initial=0)) * v.scenario.path.mtu,
        )
        if acked > told["bytes"] + waits:  # what its reader has not been woken for, and what came since
            yield flow["controller"], f"flow {flow['id']}: {acked} bytes are acknowledged, {told['bytes']} were read"


def round_trip(v: View, flow: Flow) -> float:
    """The longest there was, s: each delay at its longest behind a queue as long as any was, and a delayed ACK's 0.2 s."""
    total = 0.2 + 2 * flow.extra_delay / 1e6
    for place in v.both_ways(flow):
        directions = [d for _, d in v.phases[place]]
        queued = (
            (int(v.links(place)["qlen_max"].max(initial=0)) + 3) * v.packet(place) * 8 / min(d.rate for d in directions)
        )
        total += max(d.delay + d.jitter for d in directions) / 1e6 + queued
    return total


def tries_lost(v: View, flow: Flow, since: float, until: float) -> int:
    """How many tries in a row may have been lost in a silence.

    Of those that a queue dropped the next comes a timeout later, each twice the one before, the first at least 0.2 s and the shortest round trip: so
    many drops that far apart there were, whosever. Random loss, p both ways, takes k tries with p^k < 10^-4; a shorter MTU one, until ICMP tells.
    """
    through, base = 1.0, 2 * flow.extra_delay / 1e6
    drops: set[float] = set()
    for place in v.both_ways(flow):
        through *= 1 - max(d.loss for _, d in v.phases[place])
        base += min(d.delay for _, d in v.phases[place]) / 1e6
        drops |= {float(t) for t in v.drops(place) if since - 0.2 <= t < until}
    lost, due, step = 0, -math.inf, max(0.2, base)
    for t in sorted(drops):
        if t >= due:
            lost, due, step = lost + 1, t + step, 2 * step
    if through < 1:
        lost += math.ceil(math.log(1e-4) / math.log(1 - through))
    return lost + any(c.mtu for c in v.scenario.changes)


def silence_limit(v: View, flow: Flow, since: float, until: float) -> float:
    """For how long a flow may have been without progress then, s.

    A timeout T is at most three round trips R (srtt + 4 rttvar, of a first sample), at least the SYN's 1 s; n tries in a row may be lost
    (tries_lost), and what began the silence: T + 2T + ... and the round trip of the one that arrives, T (2^(n+1) - 1) + R.
    """
    longest = round_trip(v, flow)
    return max(1, 3 * longest) * (2.0 ** (tries_lost(v, flow, since, until) + 1) - 1) + longest


def active(v: View, job: dict) -> list[tuple[float, float]]:
    """When it had data to send."""
    first = (job["start_s"], v.end if job["stop_s"] is None else job["stop_s"])
    return [first] + ([(job["resume_s"], v.end)] if job["resume_s"] is not None else [])


def silences(v: View) -> Iterator[tuple[dict, float, float, float]]:
    """Of each flow's times of activity: (flow, since, until, limit) of its longest silence."""
    bin_s = v.run.job["bin_ms"] / 1e3
    for job, flow in v.flows():
        rows = v.run.goodput[(v.run.goodput["flow"] == job["id"]) & (v.run.goodput["bytes"] > 0)]
        for start, end in active(v, job):
            moments = [start, *(float(t) + bin_s for t in sorted(rows["t"]) if start <= t and t + bin_s < end), end]
            since, until = max(zip(moments, moments[1:]), key=lambda gap: gap[1] - gap[0])
            yield job, since, until, silence_limit(v, flow, since, until)


def silence(v: View) -> Iterator[tuple[str, str]]:
    for job, since, until, limit in silences(v):
        if until - since > limit:
            yield (
                job["controller"],
                f"flow {job['id']}: nothing arrived from {since:.1f} to {until:.1f} s, at most {limit:.1f} s may be",
            )


def window(v: View) -> Iterator[tuple[str, str]]:
    for flow, _ in v.flows():
        acks = v.run.acks[v.run.acks["flow"] == flow["id"]]
        wrong = acks[(acks["cwnd"] < 1) | (acks["cwnd"] > 1 << 20)]
        if len(wrong):
            yield flow["controller"], f"flow {flow['id']}: cwnd {wrong['cwnd'][0]} at {wrong['t'][0]:.3f} s"
        wrong = acks[
            (acks["srtt_us"] > 0) & ((acks["pacing"] == 0) | ((acks["pacing"] > 10**10) & (acks["pacing"] < UNPACED)))
        ]
        if len(wrong):  # before the first sample of an RTT the stack divides by nothing
            yield (
                flow["controller"],
                f"flow {flow['id']}: pacing at {wrong['pacing'][0]} bytes/s at {wrong['t'][0]:.3f} s",
            )


def allowed(phases: list[tuple[float, Direction]], start: float, end: float) -> float:
    """Bits of a rate that changes."""
    turns = [max(t, start) for t, _ in phases[1:]] + [end]
    return sum(max(min(until, end) - max(since, start), 0) * d.rate for (since, d), until in zip(phases, turns))


def link(v: View) -> Iterator[tuple[str, str]]:
    """In each second; a bin tells of packets at its edge, a bucket holds two packets."""
    for k, watched in enumerate(v.run.job["watch"], 1):
        for d in topology.DIRECTIONS:
            for second in range(int(v.end)):
                rows = metrics.link_window(v.run.links, watched[d]["dev"], second, second + 1)
                bits = 8 * float((rows["bytes"] - metrics.ETHERNET * rows["packets"]).sum())
                most = 1.002 * allowed(v.phases[k, d], second, second + 1) + 8 * 4 * v.packet((k, d))
                if bits > most:
                    yield (
                        v.scenario.flows[0].controller,
                        f"hop {k} {d}: {bits:.0f} bits in second {second}, {most:.0f} may pass",
                    )
                    break


def rtt(v: View) -> Iterator[tuple[str, str]]:
    """
    Timestamps count in ms: a sample from them may be one short. What reordering spares the delay is, on a single hop, spared the host's
    extra delay too: one netem makes both.
    """
    for job, flow in v.flows():
        base = 0
        for d in topology.DIRECTIONS:
            ways = [v.phases[k, d] for k in v.crossed(flow)]
            spared = len(v.scenario.path.chain) == 1 and ways[0][0][1].reorder
            base += (0 if spared else flow.extra_delay) + sum(
                min(0 if w.reorder else w.delay - w.jitter for _, w in way) for way in ways
            )
        acks = v.run.acks[(v.run.acks["flow"] == job["id"]) & (v.run.acks["rtt_us"] > 0)]
        short = acks[acks["rtt_us"].astype("i8") < base - 1000]
        if len(short):
            yield (
                job["controller"],
                f"flow {job['id']}: RTT {short['rtt_us'][0]} us at {short['t'][0]:.3f} s, the path has {base}",
            )


def clean(v: View) -> bool:
    """One flow from the start to the end, nothing random, nothing changes, default parameters and options: laws' own ground."""
    s = v.scenario
    plain = all(
        not (d.loss or d.reorder or d.duplicate or d.jitter or d.red or d.strip or d.rewrite)
        for hop in s.path.chain
        for d in (hop.forward, hop.reverse)
    )
    return (
        plain
        and len(s.flows) == 1
        and s.flows[0].count == 1
        and s.flows[0].stop is None
        and not s.background
        and not s.changes
        and not s.controllers
        and s.profile != "newreno"
    )


def floor_of(v: View) -> tuple[float, str] | None:
    """Share of the slowest hop that a flow alone should have in the second half of a run, and why; None where nothing is promised.

    The path is clean, its queue at least half of what the path holds (and 8 packets), the way back fast enough for an ACK a packet, and
    there is time: an additive increase needs a round trip a packet to fill path and queue. Then a law that halves (or takes less) at a loss keeps
    3/4 of the link at worst: (1 + 1/2) BDP / 2. Of that two thirds are asked for, since recovery from the overshoot of slow start
    is the stack's and takes its time.
    """
    if not clean(v):
        return None
    flow = v.scenario.flows[0]
    back = "reverse" if flow.direction == "forward" else "forward"
    hops = [(v.phases[k, flow.direction][0][1], v.phases[k, back][0][1]) for k in v.crossed(flow)]
    slowest = min((there for there, _ in hops), key=lambda d: d.rate)
    bits = 8 * v.scenario.path.mtu
    base = sum(there.delay + here.delay for there, here in hops) / 1e6 + 2 * flow.extra_delay / 1e6
    holds = slowest.rate * base / bits
    ack_rate = min(here.rate / (8 * topology.header_bytes(v.scenario)) for _, here in hops)
    if min(there.queue for there, _ in hops) < max(holds / 2, 8) or ack_rate < 1.2 * slowest.rate / bits:
        return None
    full = base + slowest.queue * bits / slowest.rate
    if (holds + slowest.queue) * full > v.end / 2 - flow.start / 1e6:
        return None
    return 0.5, "two thirds of the 3/4 that halving leaves"


def floor(v: View) -> Iterator[tuple[str, str]]:
    if not (asked := floor_of(v)):
        return
    least, why = asked
    flow = v.scenario.flows[0]
    slowest = min(v.phases[k, flow.direction][0][1].rate for k in v.crossed(flow))
    rows = v.run.goodput[(v.run.goodput["flow"] == 0) & (v.run.goodput["t"] >= v.end / 2)]
    share = float(rows["bytes"].sum()) * 8 / (v.end / 2) / (slowest * v.run.job["payload_share"])
    if share < least:
        yield flow.controller, f"{share:.2f} of the link in the second half, {least} is the least ({why})"


def left(v: View) -> Iterator[tuple[str, str]]:
    if rest := v.run.record["agent"]["left"]:
        yield v.scenario.flows[0].controller, "still in the kernel: " + ", ".join(rest)


def log(v: View) -> Iterator[tuple[str, str]]:
    for line in v.run.record["agent"]["kernel_log"]:
        if LOG.search(line):
            yield v.scenario.flows[0].controller, line


INVARIANTS: dict[str, Callable[[View], Iterator[tuple[str, str]]]] = {
    f.__name__: f for f in (content, silence, window, link, rtt, floor, left, log)
}
# What a run that left no results broke, by what it said last.
WORDS = (
    ("broken", re.compile(r"flow \d+: plain ended")),
    ("command", re.compile(r"asymcc (?:--objects \S+ )?(?:load|set|use|unuse|unload)\b")),
    ("machine", re.compile(r"virtual machine: (?:no end|ended without|talks)|^agent: ")),
)


def judge(case: Case, result: store.Run | LabError) -> list[Broken]:
    """What it broke. A run that its self-check calls invalid is not judged."""
    first = case.scenario.flows[0].controller
    if isinstance(result, LabError):
        return [Broken(name, first, str(result)) for name, words in WORDS if words.search(str(result))][:1]
    if not result.valid:
        return []
    v = View(case, result)
    return [Broken(name, controller, words) for name, holds in INVARIANTS.items() for controller, words in holds(v)]


# --- the smallest scenario -----------------------------------------------------------------


def without(tree: dict, *keys) -> dict:
    found = copy.deepcopy(tree)
    place = found
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    return found


def replaced(tree: dict, value, *keys) -> dict:
    found = copy.deepcopy(tree)
    place = found
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return found


def tidy(tree: dict) -> dict:
    """Without what belongs to flows that are no more."""
    names = {f["controller"] for f in tree["flows"]}
    tree = copy.deepcopy(tree)
    tree["controllers"] = {
        name: given for name, given in tree.get("controllers", {}).items() if name in names and given
    }
    tree["changes"] = [c for c in tree.get("changes", []) if c.get("controller", next(iter(names))) in names]
    return {key: value for key, value in tree.items() if value not in ({}, [])}


ROUND = re.compile(r"([0-9.]+)([a-z%]+)")


def rounder(text: str) -> str | None:
    """The quantity with one digit, if it has more."""
    number, unit = ROUND.fullmatch(text).groups()
    short = f"{float(f'{float(number):.0e}'):g}{unit}"
    return short if short != text and float(number) else None


def simpler(tree: dict) -> Iterator[dict]:
    """Smaller scenarios, the boldest steps first."""
    for i in range(len(tree["flows"])):
        if len(tree["flows"]) > 1:
            yield without(tree, "flows", i)
    for what in ("background", "changes"):
        for i in range(len(tree.get(what, []))):
            yield without(tree, what, i)
    hops = tree["path"].get("hops")
    for k in range(len(hops or [])):
        less = without(tree, "path", "hops", k)
        less["changes"] = [c for c in less.get("changes", []) if "hop" not in c]
        less["flows"] = [
            {key: value for key, value in f.items() if key not in ("enter", "leave")} for f in less["flows"]
        ]
        if len(less["path"]["hops"]) == 1:
            less["path"] = {"mtu": less["path"]["mtu"]} | less["path"]["hops"][0]
        yield less
    ways = [("path", *(("hops", k) if hops else ()), d) for k in range(len(hops or [0])) for d in topology.DIRECTIONS]
    seconds = int(tree["run"]["duration"].rstrip("s"))
    for shorter in (seconds // 2, seconds - 2):
        if shorter >= 2:
            less = replaced(tree, f"{shorter}s", "run", "duration")
            yield replaced(less, f"{max(shorter // 4, 1)}s", "run", "measure_from")
    for way in ways:
        for key in ("loss", "reorder", "duplicate", "jitter", "red", "strip", "rewrite"):
            place = tree
            for step in way:
                place = place[step]
            if key in place:
                yield without(tree, *way, key)
    for what in ("sysctls", "profile"):
        if what in tree:
            yield without(tree, what)
    for name, given in tree.get("controllers", {}).items():
        for key in given:
            yield without(tree, "controllers", name, key)
    for i, flow in enumerate(tree["flows"]):
        for key in ("resume", "stop", "extra_delay", "ack", "enter", "leave", "start", "direction"):
            if key in flow:
                yield without(tree, "flows", i, key)
    for way in ways:
        place = tree
        for step in way:
            place = place[step]
        for key in ("rate", "delay", "loss", "jitter", "reorder", "duplicate"):
            if key in place and (short := rounder(place[key])):
                yield replaced(tree, short, *way, key)
        if (queue := int(f"{place['queue']:.0e}".split("e")[0]) * 10 ** (len(str(place["queue"])) - 1)) != place[
            "queue"
        ]:
            yield replaced(tree, queue, *way, "queue")


def size(tree: dict) -> int:
    return len(json.dumps(tree))


def shrink(tree: dict, invariant: str, attempt: Callable[[dict], list[Broken]], runs: int = SHRINK_RUNS) -> dict:
    """The smallest tree found that still breaks it."""
    tried, best = {toml(tree)}, tree
    progress = True
    while progress:
        progress = False
        for less in map(tidy, simpler(best)):
            if toml(less) in tried or not valid(less):
                continue
            if not runs:
                return best
            runs -= 1
            tried.add(toml(less))
            if any(b.invariant == invariant for b in attempt(less)):
                best, progress = less, True
                break
    return best


# --- doing it ------------------------------------------------------------------------------


def written(tree: dict, name: str) -> Case:
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.toml"
    file.write_text(toml(tree))
    (case,) = scenario.load(file)
    return case


def attempt(guest: image.Image, case: Case) -> store.Run | LabError:
    """One run, or what kept it from being one."""
    tasks = runner.plan([case], guest)
    if done := runner.survey(tasks).done:
        return done[tasks[0].key]
    with contextlib.closing(runner.runs(tasks, guest, 1, lambda _: None, WALL_LIMIT_S, go_on=True)) as under_way:
        return next(under_way)[1]


def repeat_line(file: Path, guest: image.Image) -> str:
    name = [] if guest.folder.name == image.DEFAULT_KERNEL else ["--image", guest.folder.name]
    return shlex.join(["asymlab", "run", str(file.relative_to(REPO) if file.is_relative_to(REPO) else file), *name])


@dataclass
class Tally:
    """What came out."""

    runs: int = 0
    invalid: list[str] = field(default_factory=list)  # the lab's own: a line each
    broken: list[str] = field(default_factory=list)
    counts: Counter = field(
        default_factory=Counter
    )  # by invariant; "silence judged" and "floor judged" say how often there was a limit

    def line(self) -> str:
        found = ", ".join(
            f"{name} {self.counts[name]}" for name in (*INVARIANTS, *(name for name, _ in WORDS)) if self.counts[name]
        )
        return (
            f"{self.runs} paths, {len(self.invalid)} invalid by the lab itself, {len(self.broken)} failures{': ' + found if found else ''}; "
            f"{self.counts['flows']} flows, {self.counts['silence judged']} with a limit to silence, {self.counts['floor judged']} with a floor"
        )


def look(tally: Tally, name: str, case: Case, result: store.Run | LabError) -> list[Broken]:
    """Count a run's verdict."""
    tally.runs += 1
    found = judge(case, result)
    if isinstance(result, LabError) and not found:
        tally.invalid.append(f"{name}: {result}")
    elif not isinstance(result, LabError) and not result.valid:
        tally.invalid.append(f"{name}: {'; '.join(result.record['invalid'])}")
    if tally.invalid and tally.invalid[-1].startswith(f"{name}:"):
        console.print(f"invalid: {tally.invalid[-1]}")
    elif not isinstance(result, LabError):
        v = View(case, result)
        tally.counts["flows"] += len(result.job["flows"])
        # Had it frozen half-way with nothing dropped from there on, it would be seen.
        tally.counts["silence judged"] += sum(
            silence_limit(v, flow, v.end, v.end) < (v.end - job["start_s"]) / 2 for job, flow in v.flows()
        )
        tally.counts["floor judged"] += floor_of(v) is not None
    for broken in found:
        tally.counts[broken.invariant] += 1
        tally.broken.append(f"{name}: {broken.invariant} ({broken.controller}): {broken.words}")
        console.print(tally.broken[-1])
    return found


def smallest(tree: dict, name: str, broken: Broken, guest: image.Image) -> Path:
    """The file of the smallest scenario found that breaks the same."""

    def again(less: dict) -> list[Broken]:
        case = written(less, f"{name}-try")
        return judge(case, attempt(guest, case))

    less = shrink(tree, broken.invariant, again)
    (FOLDER / f"{name}-try.toml").unlink(missing_ok=True)
    return written(less | {"title": f"breaks {broken.invariant}"}, name).file


def run_all(cases: dict[str, Case], jobs: int | None, guest: image.Image, tally: Tally) -> Iterator[tuple[str, Broken]]:
    """Judge each case by its name. What is in the store is not run again."""
    tasks = {task.key: (name, task) for name, case in cases.items() for task in runner.plan([case], guest)}
    work = runner.survey([task for _, task in tasks.values()])
    console.print(work.line(runner.places(jobs)))
    left = [
        task for _, task in tasks.values() if task.key not in work.done
    ]  # as drawn, so that those that have ended are a sample of all
    under_way = runner.runs(left, guest, jobs, lambda _: None, WALL_LIMIT_S, go_on=True)
    with contextlib.closing(under_way):
        for key, result in itertools.chain(work.done.items(), ((task.key, result) for task, result in under_way)):
            name, task = tasks[key]
            for broken in look(tally, name, task.case, result):
                yield name, broken
            if not tally.runs % 20:
                console.print(tally.line())


def explore(trees: dict[str, dict], jobs: int | None, guest: image.Image) -> Tally:
    """Judge scenarios by their names, and shrink the first of each kind of failure."""
    tally, shrunk = Tally(), set()
    for name, broken in list(run_all({name: written(tree, name) for name, tree in trees.items()}, jobs, guest, tally)):
        if (broken.invariant, broken.controller) not in shrunk:
            shrunk.add((broken.invariant, broken.controller))
            file = smallest(trees[name], f"{broken.invariant}-{broken.controller}-{name}", broken, guest)
            console.print(
                f"{name}: {broken.invariant} ({broken.controller}), the smallest found: {repeat_line(file, guest)}"
            )
    console.print(tally.line())
    return tally


def drawn(seed: int, count: int, controllers: list[str]) -> dict[str, dict]:
    names = controllers or objects()
    known = {name: facts(name) for name in dict.fromkeys((*objects(), *names))}
    return {f"{seed}-{number}": draw(seed, number, names, known) for number in range(count)}


def read(files: list[Path]) -> dict[str, dict]:
    """Scenarios that somebody wrote, each with one case."""
    trees = {}
    for file in files:
        cases = scenario.load(file)
        if len(cases) != 1:
            raise LabError(f"{file}: sweep: one case is judged")
        if not (cases[0].scenario.run.verify and cases[0].scenario.run.audit):
            raise LabError(f"{file}: run: needs verify = true and audit = true to be judged")
        trees[file.stem] = tomllib.loads(file.read_text())
    return trees
