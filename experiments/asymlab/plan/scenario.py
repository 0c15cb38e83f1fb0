# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Scenario files: what a user writes (TOML), checked, and expanded into cases.

A scenario is a path with shaped directions (a dumbbell, or a chain of hops), controllers, flows, and
durations. `sweep` gives lists of values for dotted keys, `sweep.points` lists of tables for keys that change
together, and `sweep.pairs` controllers of which each meets each, itself too, as the first two flows; the product of all makes the cases. `sets` changes keys for the quick and the full suite.
Quantities carry their unit: "100mbit", "20ms", "1%".
"""

from __future__ import annotations

import copy
import itertools
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from collections.abc import Iterable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from .. import LabError
from ..guest.agent import FLOW_PORT, NAME, SYSCTL, VALUE

RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
TIME_UNITS = {"us": 1, "ms": 10**3, "s": 10**6}
SETS = ("quick", "full")
PAIR = ("flows.0.controller", "flows.1.controller")
FILE_MAX, SEEDS_MAX, RUNS_MAX = 1 << 20, 1000, 20_000  # bytes; of each case; of a file
FLOWS_MAX = 65536 - FLOW_PORT
DEEPEST = 8  # a key's parts: path.hops.0.forward.red.min has six
BIN_MS = 100  # of the traces' series; windows are whole bins


def _short(value: Any) -> str:
    """As written, but for what would fill the screen."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        text = "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."


def _quantity(units: dict[str, float], example: str):
    def parse(value: Any) -> int:
        if isinstance(value, str):
            m = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)", value.strip())
            if m and m[2] in units and math.isfinite(number := float(m[1]) * units[m[2]]):
                return round(number)
        raise ValueError(f"{_short(value)} is not a quantity such as {example!r} (units: {', '.join(units)})")

    return BeforeValidator(parse)


def _fraction(value: Any) -> float:
    if isinstance(value, str) and (m := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)\s*%", value.strip())):
        return float(m[1]) / 100
    raise ValueError(f"{_short(value)} is not a share such as '0.1%'")


def _value(value: Any) -> int | str:
    if isinstance(value, str) and re.fullmatch(VALUE, value) or type(value) is int and -(2**63) <= value < 2**64:
        return value
    raise ValueError(f"{_short(value)} is neither a whole number nor a word")


Rate = Annotated[int, _quantity(RATE_UNITS, "10mbit"), Field(ge=1000, le=10**11)]  # bit/s
Time = Annotated[int, _quantity(TIME_UNITS, "20ms"), Field(ge=0, le=10**11)]  # us
Share = Annotated[float, BeforeValidator(_fraction), Field(ge=0, lt=1)]
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Value = Annotated[int | str, BeforeValidator(_value)]  # of a parameter


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Strip(Model):
    """A middlebox that overwrites TCP options with NOPs."""

    kinds: list[Annotated[int, Field(ge=2, le=255)]] = Field(min_length=1)  # option kinds; 0 and 1 are padding
    syn: bool  # in SYN segments, too


class Rewrite(Model):
    """A middlebox that writes 16 bits into a TCP option, wherever it comes by: an MSS (kind 2, offset 2) only if that makes it less."""

    kind: int = Field(ge=2, le=255)
    offset: int = Field(ge=2, le=38)  # bytes from the option's first
    value: int = Field(ge=0, le=0xFFFF)


class Red(Model):
    """Random early detection: of what comes to a queue whose average length lies above `min`, some is marked (ECN) or dropped.

    Such a queue counts bytes, its limit too: a packet stands for as many as the direction's packets have, `mtu` with
    data in it, else those of a pure ACK.
    """

    min: int = Field(ge=2)  # packets
    max: int = Field(ge=3)  # from here on everything is
    probability: Share = Field(gt=0)  # just below max
    ecn: bool = False  # packets that may be marked are not dropped
    weight: float = Field(
        0.002, ge=1e-4, le=0.5
    )  # of the newest length in the average: that of RED's authors and of ns-2

    @property
    def weight_log(self) -> int:
        """n of the nearest weight 2^-n: the kernel has no others."""
        return round(-math.log2(self.weight))

    @model_validator(mode="after")
    def _order(self):
        if self.min >= self.max:
            raise ValueError("min must be less than max")
        return self


class Direction(Model):
    """One direction of a hop: a bottleneck (drop-tail, or RED), then a middlebox, then a propagation delay with random loss, reordering and duplication."""

    rate: Rate
    delay: Time
    queue: int = Field(ge=1, le=1_000_000)  # packets
    red: Red | None = None
    loss: Share = 0.0
    reorder: Share = 0.0  # of the packets that are spared the delay, and so overtake
    duplicate: Share = 0.0  # of the packets that come twice
    jitter: Time = 0  # each packet's delay is uniform in delay -+ this: within it packets overtake
    strip: Strip | None = None
    rewrite: list[Rewrite] = Field([], max_length=8)

    @model_validator(mode="after")
    def _red_fits(self):
        if self.red and self.red.max > self.queue:
            raise ValueError(f"red.max: must be at most the queue ({self.queue})")
        return self

    @model_validator(mode="after")
    def _something_to_overtake(self):
        if self.reorder and not self.delay:
            raise ValueError("reorder needs a delay that packets are spared")
        return self

    @model_validator(mode="after")
    def _no_negative_delay(self):
        if self.jitter > self.delay:
            raise ValueError("jitter must be at most the delay")
        return self


class Hop(Model):
    """Between two switches."""

    forward: Direction
    reverse: Direction


class PathSpec(Model):
    """What lies between the hosts: one hop, or a chain of them. Packets of `mtu` bytes (IP) go forward; ACKs come back."""

    mtu: int = Field(1500, ge=200, le=9000)
    forward: Direction | None = None
    reverse: Direction | None = None
    hops: list[Hop] | None = Field(None, min_length=2, max_length=8)

    @model_validator(mode="after")
    def _one_form(self):
        if [self.forward is None, self.reverse is None] != [self.hops is not None] * 2:
            raise ValueError("must have either forward and reverse, or a list of hops")
        return self

    @model_validator(mode="after")
    def _red_averages_fit(self):
        for direction in (d for hop in self.chain for d in (hop.forward, hop.reverse) if d.red):
            red = direction.red
            if direction.queue * self.mtu >= 2**32:  # the kernel's limit, in bytes
                raise ValueError(f"queue: {direction.queue} packets of {self.mtu} bytes are too many for one with red")
            if (red.max * self.mtu).bit_length() + red.weight_log >= 32:  # bits of the kernel's average
                raise ValueError(
                    f"red.max: {red.max} packets are too many for a weight of {red.weight}: take a larger weight"
                )
        return self

    @property
    def chain(self) -> list[Hop]:
        """The hops from left to right, in either form."""
        return self.hops or [Hop(forward=self.forward, reverse=self.reverse)]


class Flow(Model):
    """`count` equal flows from one source host to one sink host."""

    controller: Name = Field(max_length=15)
    count: int = Field(1, ge=1, le=200)
    start: Time = 0
    stop: Time | None = None  # sends no new data from here on
    resume: Time | None = None  # and again from here on
    direction: Literal["forward", "reverse"] = "forward"
    enter: int | None = None  # the switch that the source hangs on, from 1 at the left; None: the first on its way
    leave: int | None = None  # the sink's; None: the last on its way
    ack: Literal["every", "delayed"] = "every"  # ACK per packet, or the kernel's delayed ACK
    extra_delay: Time = 0  # of this host's access link, each way

    @model_validator(mode="after")
    def _order(self):
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("stop must come after start")
        if self.resume is not None and (self.stop is None or self.resume <= self.stop):
            raise ValueError("resume must come after stop")
        return self


class Background(Model):
    """UDP datagrams at a constant bit rate from a host of its own to another, at the ends of its way."""

    rate: Rate  # of IP packets
    packet: int = Field(ge=64, le=9000)  # IP bytes
    direction: Literal["forward", "reverse"] = "forward"
    start: Time = 0
    stop: Time | None = None
    enter: int | None = None  # switches, as a flow's
    leave: int | None = None

    @model_validator(mode="after")
    def _order(self):
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("stop must come after start")
        return self


PATH_KEYS = ("rate", "delay", "loss", "mtu")


class Change(Model):
    """What happens while flows run: to parameters of a controller (`set`: those that `asymcc show` calls live), by a command, or to the path."""

    at: Time
    controller: Name | None = None
    set: dict[Name, Annotated[int, Field(ge=-(2**63), lt=2**64)]] | None = Field(None, min_length=1)
    # replace: loaded anew under its name, with `set` over its parameters; unload: by force, sockets keep it; drain: uses are
    # taken back first; load: again, after one of these; use, unuse: for the new connections of the run's cgroup.
    command: Literal["replace", "unload", "drain", "load", "use", "unuse"] | None = None
    hop: int = Field(1, ge=1)
    direction: Literal["forward", "reverse"] | None = None
    rate: Rate | None = None
    delay: Time | None = None
    loss: Share | None = None
    mtu: int | None = Field(
        None, ge=552, le=9000
    )  # of the hop: hosts learn it by ICMP; shorter ones they do not believe

    @property
    def of_path(self) -> dict[str, int | float]:
        return {key: getattr(self, key) for key in PATH_KEYS if getattr(self, key) is not None}

    @model_validator(mode="after")
    def _one_form(self):
        if self.of_path and (self.controller or self.set or self.command):
            raise ValueError("changes either a controller or the path")
        if self.of_path and not self.direction:
            raise ValueError(f"{next(iter(self.of_path))}: needs a direction")
        if not self.of_path and (not self.controller or not (self.set or self.command)):
            raise ValueError(
                f"must have controller and set, controller and command, or direction and one of {', '.join(PATH_KEYS)}"
            )
        if self.set and self.command not in (None, "replace", "load"):
            raise ValueError(f"set: {self.command} takes no parameters")
        return self


class Run(Model):
    duration: Time = Field(ge=10**6)
    measure_from: Time
    start_jitter: Time = 10_000  # starts are delayed by uniform [0, this), drawn from the seed
    trace_state: bool = False  # keep the controllers' private state at each ACK, too
    traffic: Literal["iperf3", "plain"] = (
        "iperf3"  # plain: connections of data alone; iperf3 talks before, over the same path
    )
    verify: bool = False  # each receiver compares what arrives with what was sent, byte by byte; plain traffic only
    capture: bool = False  # keep the headers of all packets as they leave the first hop's queues, too
    audit: bool = False  # look at the end whether the controllers left anything in the kernel

    @model_validator(mode="after")
    def _order(self):
        if self.measure_from >= self.duration:
            raise ValueError("measure_from must come before duration")
        if self.measure_from % (BIN_MS * 1000) or self.duration % (BIN_MS * 1000):
            raise ValueError(f"measure_from and duration must be multiples of {BIN_MS}ms")
        if self.verify and self.traffic != "plain":
            raise ValueError('verify: needs traffic = "plain"')
        return self


def _sysctl(value: Any) -> int | str:
    if isinstance(value, dict):
        raise ValueError('a key with dots must be quoted, as in "net.ipv4.tcp_early_retrans" = 3')
    if (
        isinstance(value, str)
        and re.fullmatch("[ -~]{1,200}", value)
        or type(value) is int
        and -(2**63) <= value < 2**64
    ):
        return value
    raise ValueError(f"{_short(value)} is neither a number nor a text")


class Scenario(Model):
    title: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")  # a line
    id: str = Field(max_length=40, pattern=r"^[A-Z0-9-]+$")
    profile: Literal["linux", "ns2", "newreno"] = "linux"
    sysctls: dict[str, Annotated[int | str, BeforeValidator(_sysctl)]] = {}  # of the hosts, over the profile's
    path: PathSpec
    controllers: dict[Name, dict[Name, Value]] = {}
    flows: list[Flow] = Field(min_length=1, max_length=60)
    background: list[Background] = Field([], max_length=8)
    changes: list[Change] = []
    run: Run

    def switches(self, flow: Flow | Background) -> tuple[int, int]:
        """Those that its source and its sink hang on."""
        first, last = 1, len(self.path.chain) + 1
        if flow.direction == "reverse":
            first, last = last, first
        return (first if flow.enter is None else flow.enter, last if flow.leave is None else flow.leave)

    @model_validator(mode="after")
    def _sysctls_are_a_namespaces(self):
        for key in self.sysctls:
            if not re.fullmatch(SYSCTL, key):
                raise ValueError(f"sysctls.{key}: not a key such as 'net.ipv4.tcp_early_retrans'")
        return self

    @model_validator(mode="after")
    def _flows_fit(self):
        last = len(self.path.chain) + 1
        if (count := sum(flow.count for flow in self.flows)) > FLOWS_MAX:
            raise ValueError(f"flows: {count} are more than there are ports for ({FLOWS_MAX})")
        for i, flow in enumerate(self.flows):
            if max(flow.start, flow.stop or 0, flow.resume or 0) >= self.run.duration:
                raise ValueError(f"flows.{i}: starts, stops or resumes after run.duration")
        for i, load in enumerate(self.background):
            if max(load.start, load.stop or 0) >= self.run.duration:
                raise ValueError(f"background.{i}: starts or stops after run.duration")
            if load.packet > self.path.mtu:
                raise ValueError(
                    f"background.{i}.packet: {load.packet} bytes are more than the path's mtu, {self.path.mtu}"
                )
        for i, change in enumerate(self.changes):
            if change.at >= self.run.duration:
                raise ValueError(f"changes.{i}: comes after run.duration")
            if change.controller and change.controller not in {flow.controller for flow in self.flows}:
                raise ValueError(f"changes.{i}.controller: no flow has {change.controller}")
        named = [
            *((f"flows.{i}", flow) for i, flow in enumerate(self.flows)),
            *((f"background.{i}", load) for i, load in enumerate(self.background)),
        ]
        for name, flow in named:
            enter, leave = self.switches(flow)
            for key, switch in (("enter", enter), ("leave", leave)):
                if not 1 <= switch <= last:
                    raise ValueError(f"{name}.{key}: no switch {switch}; there are 1 to {last}")
            if enter == leave or (enter < leave) != (flow.direction == "forward"):
                order = "below" if flow.direction == "forward" else "above"
                raise ValueError(
                    f"{name}.enter: {enter} must be {order} leave ({leave}) where the direction is {flow.direction}"
                )
        return self

    @model_validator(mode="after")
    def _changes_fit(self):
        """In their order: what is loaded can be unloaded, and the path stays one that could have been written."""
        out: set[str] = set()
        for i, change in sorted(enumerate(self.changes), key=lambda c: c[1].at):
            if change.controller and (change.command == "load") != (change.controller in out):
                raise ValueError(
                    f"changes.{i}: {change.controller} is {'not ' * (change.controller in out)}loaded then"
                )
            if change.command in ("unload", "drain"):
                out.add(change.controller)
            out -= {change.controller} if change.command == "load" else set()
            if change.of_path and change.hop > len(self.path.chain):
                raise ValueError(f"changes.{i}.hop: no hop {change.hop}; there are 1 to {len(self.path.chain)}")
            if change.mtu and change.mtu > self.path.mtu:
                raise ValueError(f"changes.{i}.mtu: {change.mtu} bytes are more than the path's mtu, {self.path.mtu}")
            if change.delay is not None:
                direction = getattr(self.path.chain[change.hop - 1], change.direction)
                if change.delay < max(direction.jitter, direction.reorder > 0):
                    raise ValueError(f"changes.{i}.delay: the direction's jitter or reorder needs more")
        return self


@dataclass(frozen=True)
class Case:
    """One point of a scenario's sweep."""

    scenario: Scenario
    point: dict[str, Any]  # the swept keys and this point's values, as written; of `points` the first key
    file: Path
    which: str  # the set it was taken from
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        return " ".join([self.scenario.id] + [str(v) for v in self.point.values()])


def _set(tree: dict, key: str, value: Any) -> None:
    """Set a dotted key; `flows.controller` means that of every flow, `flows.0.controller` of the first; `path.hops` likewise."""
    head, _, rest = key.partition(".")
    if isinstance(tree, list):
        numbered = re.fullmatch("[0-9]{1,3}", head)
        for item in [tree[int(head)]] if numbered else tree:
            _set(item, rest if numbered else key, value)
    elif rest:
        _set(tree.setdefault(head, {}), rest, value)
    else:
        tree[head] = value


def _wrong(file: Path, key: str, reason: str) -> LabError:
    return LabError(f"{file}: {key if len(key) <= 60 else key[:57] + '...'}: {reason}" if key else f"{file}: {reason}")


def _tables(file: Path, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if not isinstance(value, dict):
            raise _wrong(file, key, "must be a table")


def _explain(file: Path, error: ValidationError) -> LabError:
    first = error.errors()[0]
    reason = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    return _wrong(
        file, ".".join(str(part) for part in first["loc"] if part != "[key]"), reason
    )  # what Scenario itself finds names its key


def load(file: Path, which: str = "quick", seeds: tuple[int, ...] | None = None) -> list[Case]:
    """The cases of a scenario file. LabError (one line: file, key, reason) for anything wrong in it."""
    try:
        with open(file, "rb") as opened:
            data = opened.read(FILE_MAX + 1)
        if len(data) > FILE_MAX:
            raise LabError(f"{file}: more than {FILE_MAX} bytes are no scenario")
        try:
            tree = tomllib.loads(data.decode())
        except ValueError as e:  # of tomllib, of decode(), of a number of thousands of digits
            raise LabError(f"{file}: not TOML: {e}") from None
        return _cases(file, tree, which, seeds)
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None
    except RecursionError:
        raise LabError(f"{file}: tables or lists too deep in each other") from None


def _axes(file: Path, sweep: dict[str, Any]) -> list[list[tuple[dict[str, Any], Iterable[str]]]]:
    """Of each swept key, or of what changes together, its settings: ({key: value, ...}, the keys that name the point)."""
    axes, runs = [], 1
    for key, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise _wrong(file, f"sweep.{key}", "must be a list of values")
        if key == "points" and not all(isinstance(v, dict) and v for v in values):
            raise _wrong(file, "sweep.points", "must be a list of tables")
        runs *= len(values) * (len(values) + 1) // 2 if key == "pairs" else len(values)
        if runs > RUNS_MAX:
            raise _wrong(file, f"sweep.{key}", f"with it there are more than {RUNS_MAX} runs")
        if key == "points":
            axes.append([(v, list(v)[:1]) for v in values])
        elif key == "pairs":
            axes.append([(dict(zip(PAIR, two)), PAIR) for two in itertools.combinations_with_replacement(values, 2)])
        else:
            axes.append([({key: v}, [key]) for v in values])
    return axes


def _cases(file: Path, tree: dict[str, Any], which: str, seeds: tuple[int, ...] | None) -> list[Case]:
    sweep, sets = tree.pop("sweep", {}), tree.pop("sets", {})
    _tables(file, {"sweep": sweep, "sets": sets})
    _tables(file, {f"sets.{name}": value for name, value in sets.items()})
    if unknown := sorted(set(sets) - set(SETS)):
        raise _wrong(file, f"sets.{unknown[0]}", f"unknown key (sets are {', '.join(SETS)})")
    changes = dict(sets.get(which, {}))
    count = changes.pop("seeds", 1)
    if type(count) is not int or not 0 <= count <= SEEDS_MAX:
        raise _wrong(file, f"sets.{which}.seeds", f"must be a number up to {SEEDS_MAX}, 0 for no runs in this set")
    _tables(file, {f"sets.{which}.sweep": changes.get("sweep", {})})
    axes = _axes(file, {**sweep, **changes.pop("sweep", {})})
    if math.prod(map(len, axes)) * len(seeds or range(count)) > RUNS_MAX:
        raise LabError(
            f"{file}: more than {RUNS_MAX} runs: {len(seeds or range(count))} seeds of {math.prod(map(len, axes))} cases"
        )
    cases = []
    for chosen in itertools.product(*axes):
        one, point, settings = copy.deepcopy(tree), {}, dict(changes)
        for setting, names in chosen:
            settings |= setting
            point |= {name: setting[name] for name in names}
        for key, value in settings.items():
            try:
                if key.count(".") >= DEEPEST:
                    raise IndexError
                _set(one, key, copy.deepcopy(value))
            except (AttributeError, IndexError, TypeError):
                raise _wrong(file, key, "no such place in the scenario") from None
        try:
            scenario = Scenario.model_validate(one)
        except ValidationError as e:
            raise _explain(file, e) from None
        cases.append(Case(scenario, point, file, which, seeds or tuple(range(1, count + 1))))
    used = {flow.controller for case in cases for flow in case.scenario.flows}
    if unused := sorted({name for case in cases for name in case.scenario.controllers} - used):
        raise _wrong(file, f"controllers.{unused[0]}", "no flow uses it")
    return cases
