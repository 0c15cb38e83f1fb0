# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Draws scenarios."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache

from pydantic import ValidationError

from ...controllers import LINUX
from ...plan import objects, scenario
from ...plan.groups import Wrong
from ...plan.model import IPV6_MTU
from ...plan.queues import ANYWHERE, ISOLATIONS
from ...plan.synthetic import KINDS
from ...plan.topology import DIRECTIONS

OBJECT = "object"  # the key of [controllers.NAME] that is no parameter
PACKETS = 2000  # a run's, about: some second of a core
# Settings of a host that differs from the rest.
SENDERS = (
    {"net.ipv4.tcp_wmem": "4096 8192 65536"},
    {"net.ipv4.tcp_frto": 0},
    {"net.ipv4.tcp_early_retrans": 0},
    {"net.ipv4.tcp_recovery": 0},
    {"net.ipv4.tcp_slow_start_after_idle": 0},
)
RECEIVERS = (
    {"net.ipv4.tcp_sack": 0},
    {"net.ipv4.tcp_dsack": 0},
    {"net.ipv4.tcp_window_scaling": 0},
    {"net.ipv4.tcp_rmem": "4096 16384 65536"},
)


@dataclass(frozen=True)
class Facts:
    """Facts of an object, as the loader shows them."""

    parameters: tuple[dict, ...]
    alone: bool = False  # in a cgroup: it answers for the ACKs of the cgroup's sockets

    @property
    def live(self) -> list[dict]:
        return [p for p in self.parameters if p["live"]]


@cache
def facts(name: str) -> Facts:
    """Facts of a name, or of a path. Parameters without bounds of their own are left as they are."""
    shown = objects.shown(name)
    return Facts(tuple(p for p in shown["parameters"] if p["declared"]), bool(shown["cgroup_programs"]))


class Draw:
    """One random scenario, as the tree of its file."""

    def __init__(self, rng: random.Random, first: str, known: dict[str, Facts]):
        self.rng, self.known = rng, known
        self.calm = self.chance(0.2)  # one flow on a clean path: a law's own ground
        rate = self.log(30e3, 1e6 if self.calm else 5e6)
        self.ip = 6 if self.chance(0.15) else 4
        sizes = (296, 576, 1000) if rate < 200e3 else (1000, 1500, 1500, 9000) if rate > 1e6 else (576, 1000, 1500)
        mtu = self.of(sizes if self.ip == 4 else (IPV6_MTU, 1500))
        count = 1 if self.calm else self.of((1,) * 8 + (2, 2, 3))
        # Packets of data go both ways where flows do: those take their time, too.
        self.duration = int(min(max(PACKETS / (rate / 8 / mtu) / count, 8), 24))
        self.tree = {"title": "drawn", "id": "EXPLORE", "profile": self.of(("linux", "tuned", "ns2", "newreno"))}
        if self.ip == 6:
            self.tree["ip"] = 6
        if self.chance(0.25):
            self.tree["ecn"] = self.of((True, True, "accurate"))
        if self.chance(0.15):
            self.tree["offloads"] = True
            if self.odd(0.5):
                self.tree["coalesce"] = f"{self.rng.randint(1, 10)}ms"
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
            "capture": True,
        }
        self.endings(rate)
        if self.chance(0.25):
            self.tree["thin"] = self.thin(hops)
        self.hosts()
        if self.odd(0.3):
            self.tree["flows"].append(self.upload())

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
        """A hop where floor_of() asks for something: its queue is about what it holds, and every ACK has a way back."""
        delays = [round(self.log(1, 60)) for _ in range(2)]
        holds = rate * sum(delays) / 8000 / mtu
        return {
            d: {"rate": self.kbit(r), "delay": f"{delay}ms", "queue": max(round(holds * self.rng.uniform(0.5, 1.5)), 8)}
            for d, r, delay in zip(DIRECTIONS, (rate, rate / self.of((1, 4))), delays)
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
            if self.chance(0.3):
                found["loss_burst"] = round(self.log(1.2, 8), 1)
        if delay and self.odd(0.12):
            found["reorder"] = self.share(1e-3, 0.1)
        if self.odd(0.12):
            found["duplicate"] = self.share(1e-3, 0.05)
        if delay > 1 and self.odd(0.12):
            found["jitter"] = f"{self.rng.randint(1, delay // 2)}ms"
            if self.chance(0.3):
                found["disorder"] = True
        if self.odd(0.08):
            burst = max(round(self.log(mtu, 40 * mtu)), mtu)
            found["policer"] = {"rate": self.kbit(max(rate * self.log(0.3, 1), burst / 10)), "burst": burst}
        if self.odd(0.25):
            found |= self.rule(queue)
        elif self.odd(0.08):
            kind, rate_of, seed = self.of(KINDS), found.pop("rate"), self.rng.randrange(1000)
            found["trace"] = {"kind": kind, "rate": rate_of, "length": f"{self.duration}s", "seed": seed}
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

    def rule(self, queue: int) -> dict:
        """The queue's rule, besides that it drops packets when it is full."""
        kind = self.of((*(["red"] if queue >= 8 else []), "cake", "cake", *ANYWHERE))
        rule: dict = {}
        if kind == "red":
            low = self.rng.randint(2, queue // 2)
            rule = {"min": low, "max": self.rng.randint(low + 1, queue), "probability": self.share(0.02, 0.5)}
        if kind == "cake":
            rule = {
                "ack_filter": self.of((False, True, "aggressive")),
                "overhead": self.of((0, self.rng.randint(1, 50))),
                "mpu": self.of((0, 64)),
                "framing": self.of(("plain", "plain", "atm", "ptm")),
                "isolation": self.of(ISOLATIONS),
            }
        if kind in ("codel", "fq_codel"):
            rule = {"target": f"{round(self.log(1, 50))}ms", "interval": f"{round(self.log(50, 500))}ms"}
        if kind == "pie":
            rule = {"target": f"{round(self.log(5, 100))}ms"}
        if kind == "fq":
            rule = {"flow_limit": max(round(queue * self.log(0.1, 1)), 1)}
        return {kind: rule | ({"ecn": self.chance(0.5)} if kind not in ("cake", "fq") else {})}

    def flows(self, first: str, count: int) -> list[dict]:
        found: list[dict] = []
        for i in range(1 if self.calm else self.of((1,) * 9 + (2,) * 6 + (3,) * 3 + (4,) * 2)):
            taken = {f["controller"] for f in found}
            alone = {n for n in self.known if self.known[n].alone}
            others = [n for n in self.known if not (n in alone and taken & alone - {n})]
            name = first if not i or self.chance(0.4) else self.of(others if self.chance(0.5) else LINUX)
            flow = {
                "controller": name,
                "direction": "forward" if self.calm else self.direction(0.85 if not i else 0.6),
                "start": self.time(0, 0.3) if i or self.odd(0.3) else "0s",
            }
            if self.chance(0.6):
                flow["ack"] = "every"
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

    def upload(self) -> dict:
        """Data against the first flow's, often between the same hosts: its ACKs wait behind them."""
        first = self.tree["flows"][0]
        way = {"forward": "reverse", "reverse": "forward"}[first["direction"]]
        ends = {"enter": first["leave"], "leave": first["enter"]} if "enter" in first else {}
        flow = {"controller": self.of(("cubic", first["controller"])), "direction": way, "start": self.time(0, 0.4)}
        if self.chance(0.3):
            flow["count"] = 4
        return flow | ({"hosts_of": 0} if self.chance(0.5) else ends)

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
        found: list[dict] = []
        out: set[str] = set()
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
        rate, delay = rate_of(old), float(old["delay"].removesuffix("ms"))
        what = self.of((*(() if "trace" in old else ("rate",)), "delay", "delay", "loss", "mtu"))
        new = {
            "rate": self.kbit(min(rate * self.log(0.2, 4), 5e6)),
            "delay": f"{round(min(max(delay, 2) * self.log(0.5, 4), 300))}ms",
            "loss": self.share(1e-3, 0.1),
            "mtu": self.rng.randint(552 if self.ip == 4 else IPV6_MTU, 1500),
        }
        return {"hop": k + 1, "direction": name, what: new[what]}

    def endings(self, rate: float) -> None:
        """Flows that close their connection, most of them under way."""
        for flow in self.tree["flows"]:
            if "stop" not in flow and self.odd(0.3):
                flow["size"] = round(rate / 8 * self.duration * self.log(0.01, 0.8))

    def hosts(self) -> None:
        """How large the segments of all are, and what single ones have of their own."""
        if "offloads" in self.tree and self.odd(0.5):
            self.tree["segment"] = self.of((8192, 20_000, 65_536) if self.ip == 4 else (8192, 131_072, 524_280))
        for flow in self.tree["flows"]:
            for key, choices in (("source_sysctls", SENDERS), ("sink_sysctls", RECEIVERS)):
                if self.odd(0.08):
                    flow[key] = self.of(choices)

    def thin(self, hops: list[dict]) -> dict[str, int]:
        """Its defaults where a law's own ground is; elsewhere some, and often a rate about the path's."""
        given = {"thins": 1} | self.parameters(facts("thin").parameters)
        if self.odd(0.5):
            slowest = min(rate_of(hop["reverse"]) for hop in hops)
            given["reverse_kbit"] = max(round(slowest / 1000 * self.log(0.3, 2)), 1)
        return given

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


def rate_of(way: dict) -> float:
    """A direction's rate, bit/s; of one with a trace its mean."""
    return 1000 * float(way.get("trace", way)["rate"].removesuffix("kbit"))


def with_uplink(tree: dict, seed: int, number: int) -> dict:
    """The same path, with `asymcc uplink` on the first entry's right host, in place of `thin`.

    Its bounds are drawn apart, so that they change no other draw."""
    rng = random.Random(f"{seed} {number} uplink")
    rate = min(rate_of(hop["reverse"]) for hop in tree["path"].get("hops", [tree["path"]]))
    given: dict = {"at": "host", "least": Draw.kbit(rate / 10), "down": rng.random() < 0.3}
    if rng.random() < 0.3:
        given["most"] = Draw.kbit(2 * rate)
    if rng.random() < 0.3:
        given["rate"] = Draw.kbit(rate * rng.uniform(0.3, 2))
    return {key: value for key, value in tree.items() if key != "thin"} | {"uplink": given}


def valid(tree: dict) -> bool:
    given = tree.get("controllers", {})
    plain = {k: {p: v for p, v in values.items() if p != OBJECT} for k, values in given.items()}
    try:  # what an object's path is, plan/anyone.py knows
        scenario.of_tree(tree | {"controllers": plain})
    except (ValidationError, Wrong):
        return False
    return True


def draw(seed: int, number: int, names: list[str], known: dict[str, Facts]) -> dict:
    """The number-th scenario of a seed; names are tried in turn."""
    rng = random.Random(f"{seed} {number}")
    while True:
        tree = Draw(rng, names[number % len(names)], known).tree
        if valid(tree):
            return tree | {"title": f"path {number} of seed {seed}"}
