# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A scenario's keys, their bounds and defaults, and what must fit together.

docs/scenarios.md has these descriptions as tables: `asymlab reference --record` renews them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ..guest.protocol import FLOW_PORT
from . import groups, tunnels
from .branch import Branch
from .crossing import Ack, Background, Crossing, Flow, check_sysctls
from .opportunities import BYTES, LENGTH_MAX
from .programs import HOSTS_MAX, PROGRAMS_MAX, Host, Pack, Program
from .programs import check as check_programs
from .quantities import Name, Rate, Share, Sysctl, Time, Value, short
from .queues import (
    RULES,
    Cake,
    Codel,
    DelayTrace,
    DualPi2,
    Fq,
    FqCodel,
    Model,
    Pie,
    Policer,
    Red,
    Rewrite,
    Strip,
    Trace,
    Uplink,
    or_word,
)
from .reasons import ID, TITLE

PORTS = 65536 - FLOW_PORT
SECOND_HOPS = 30  # flows with links for a second subflow: each link has a number below 256
IPV6_MTU = 1280  # the least
SEGMENT, SEGMENT_MAX = 65536, 8 * 65535  # the kernel's own, and the most that it takes
TCP_ECN = "net.ipv4.tcp_ecn"
ASKING = {False: 0, True: 1, "accurate": 3}  # its values
ACCEPTING: dict[int | str, int] = {0: 5, 1: 4, 2: 5, 3: 3}  # who asks for as much, and accepts AccECN as well
Ecn = Annotated[bool | Literal["accurate"], *or_word("accurate")]
ROUNDED = 0.02  # of RED's probability, at most, in the kernel
RETURN_MIN = 0.015  # share of probes: fewer, and more often than not none of 50 comes back
BIN_MS = 100  # of the traces' series; windows are whole bins


class Direction(Model):
    """One direction of a hop. A packet passes the bottleneck's queue, the policer, the middleboxes and the propagation
    delay. Losses, reordering and duplication happen with the delay."""

    rate: Rate = Field(
        description="Rate of the bottleneck, in bits of IP packets per second. With `trace` it is not given."
    )
    delay: Time = Field(description="Propagation delay, one way.")
    queue: int = Field(
        ge=1, le=1_000_000, description="Limit of the queue, in packets. A packet that finds it full is dropped."
    )
    red: Red | None = Field(None, description="The queue uses random early detection.")
    cake: Cake | None = Field(None, description="The queue is CAKE, as Linux has it.")
    codel: Codel | None = Field(None, description="The queue has CoDel.")
    fq_codel: FqCodel | None = Field(None, description="Each flow has a queue with CoDel.")
    pie: Pie | None = Field(None, description="The queue has PIE.")
    fq: Fq | None = Field(None, description="Each flow has a queue.")
    dualpi2: DualPi2 | None = Field(None, description="The queue is DualPI2: two of them, one for L4S.")
    trace: Trace = Field(
        None,
        description="In place of `rate`: the name of a [file](#a-link-that-changes-all-the-time) in Mahimahi's format, "
        "or a table [`trace`](#trace). A name begins at the folder of the scenario.",
        json_schema_extra={"without": "none"},
    )
    delay_trace: DelayTrace = Field(
        None,
        description="The name of a file with [more delay and loss](#delays-and-losses-that-change), which change.",
        json_schema_extra={"without": "none"},
    )
    loss: Share = Field(0.0, description="Share of packets that are lost at random, behind the queue.")
    loss_burst: float | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Losses come in bursts of so many packets on average (Gilbert's model), and `loss` is still the "
        "share of all. On a path of one hop each entry of `flows` has bursts of its own.",
        json_schema_extra={"without": "each packet for itself"},
    )
    reorder: Share = Field(
        0.0, description="Share of packets that skip the delay, and so overtake others. It needs a delay."
    )
    duplicate: Share = Field(0.0, description="Share of packets that arrive twice.")
    jitter: Time = Field(
        0,
        description="The delay of each packet is drawn evenly from `delay` minus this to `delay` plus this. "
        "Packets keep their order: none overtakes the one before it. At most `delay`.",
    )
    disorder: bool = Field(
        False,
        description="With `jitter`: packets do not keep their order, and one that is delayed less overtakes others.",
    )
    policer: Policer | None = Field(
        None, description="A policer behind the queue, which drops what is above its own rate and burst."
    )
    strip: Strip | None = Field(None, description="A middlebox that takes TCP options away.")
    ecn_codepoint: Literal["bleached", "remarked", "marked"] | None = Field(
        None,
        description="The router behind the queue changes the ECN field. `bleached`: ECT and CE become Not-ECT. "
        "`remarked`: ECT(1) becomes ECT(0). `marked`: one packet of 100 becomes CE.",
    )
    rewrite: list[Rewrite] = Field([], max_length=8, description="Middleboxes that write into TCP options.")

    @model_validator(mode="after")
    def _red_fits(self) -> Self:
        rules = [rule for rule in RULES if getattr(self, rule)]
        if len(rules) > 1:
            raise ValueError(f"must have either {rules[0]} or {rules[1]}")
        if self.trace and rules:
            raise ValueError(f"a link with a trace has a queue that drops what finds it full, no {rules[0]}")
        if self.red and self.red.max > self.queue:
            raise ValueError(f"red.max: must be at most the queue ({self.queue})")
        return self

    @model_validator(mode="after")
    def _something_to_overtake(self) -> Self:
        if self.reorder and not self.delay:
            raise ValueError("reorder needs a delay that packets are spared")
        return self

    @model_validator(mode="after")
    def _losses_leave_gaps(self) -> Self:
        if self.loss_burst and not 0 < self.loss <= self.loss_burst / (self.loss_burst + 1):
            raise ValueError("loss_burst needs a loss that leaves a packet between two bursts")
        if self.disorder and not self.jitter:
            raise ValueError("disorder needs jitter")
        return self

    @model_validator(mode="after")
    def _no_negative_delay(self) -> Self:
        if self.jitter > self.delay:
            raise ValueError("jitter must be at most the delay")
        return self


class Hop(Model):
    """One hop of a chain, between two switches. Switch 1 is at the left; hop 1 leads from switch 1 to switch 2.

    Any value of `forward` or `reverse` may be a list: then the entry stands for as many hops, and each takes one value.
    """

    count: int = Field(
        default=1, ge=1, le=groups.HOPS_MAX, description="The entry stands for this many equal hops in a row."
    )
    forward: Direction = Field(description="From left to right.")
    reverse: Direction = Field(description="From right to left.")


class PathSpec(Model):
    """The network between the hosts: either one hop (`forward` and `reverse`), or a chain of them (`hops`)."""

    mtu: int = Field(1500, ge=200, le=9000, description="Size of the largest IP packet, in bytes.")
    tunnel: tunnels.Kind | None = Field(
        None,
        description="An IPv4 tunnel from the first switch to the last. `mtu` is of outer packets. `wireguard`: `qemu`.",
    )
    node_delay: Time | None = Field(
        None,
        description="Time that the nodes of a hop take for a packet, each way. It comes on top of `delay`. "
        "Default: 0 in the engine `qemu`, 3us in `uml`.",
    )
    forward: Direction | None = Field(None, description="From left to right: the way of the data by default.")
    reverse: Direction | None = Field(None, description="From right to left: the way of the ACKs by default.")
    hops: list[Hop] | None = Field(
        None, min_length=2, max_length=groups.HOPS_MAX, description="The hops from left to right."
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if [self.forward is None, self.reverse is None] != [self.hops is not None] * 2:
            raise ValueError("must have either forward and reverse, or a list of hops")
        return self

    @model_validator(mode="after")
    def _queues_fit(self) -> Self:
        for direction in (d for hop in self.chain for d in (hop.forward, hop.reverse)):
            if direction.policer and direction.policer.burst < self.mtu:
                raise ValueError(
                    f"policer.burst: {direction.policer.burst} bytes pass no packet of the mtu, {self.mtu}"
                )
            if direction.trace:
                wait = direction.trace.longest_ms(direction.queue * math.ceil(self.mtu / BYTES))
                if wait > LENGTH_MAX:
                    raise ValueError(f"queue: in one of {direction.queue} packets a packet waits {wait // 1000} s")
            if not (red := direction.red):
                continue
            if direction.queue * self.mtu >= 2**32:  # the kernel's limit, in bytes
                raise ValueError(f"queue: {direction.queue} packets of {self.mtu} bytes are too many for one with red")
            if (red.max * self.mtu).bit_length() + red.weight_log >= 32:  # bits of the kernel's average
                raise ValueError(
                    f"red.max: {red.max} packets are too many for a weight of {red.weight}: take a larger weight"
                )
            if (kept := red.in_kernel(self.mtu)) < (1 - ROUNDED) * red.probability:
                raise ValueError(
                    f"red.probability: {red.probability:.4g} would be {kept:.4g} in the kernel, which counts whole "
                    f"2^-32 a byte between min and max: take a larger one, or a smaller max"
                )
        return self

    @property
    def chain(self) -> list[Hop]:
        """The hops from left to right, in either form."""
        if self.forward and self.reverse:
            return [Hop(forward=self.forward, reverse=self.reverse)]
        return self.hops or []


PATH_KEYS = ("rate", "delay", "loss", "mtu")


class Change(Model):
    """Changes while flows run. A change is of a controller (`controller` with `set`, `command` or both) or of the
    path (`direction` with one or more of `rate`, `delay`, `loss`, `mtu`)."""

    at: Time = Field(description="When.")
    controller: Name | None = Field(None, description="The controller, by the name that flows use.")
    set: dict[Name, Annotated[int, Field(ge=-(2**63), lt=2**64)]] | None = Field(
        None,
        min_length=1,
        description="New values of parameters. Without a command only those that `asymcc show` calls live.",
    )
    command: Literal["replace", "unload", "drain", "load", "use", "unuse"] | None = Field(
        None,
        description="`replace` loads the controller anew under its name, with `set` over its parameters. "
        "`unload` takes it out by force; open connections keep it. `drain` takes its uses back first. "
        "`load` loads it again after one of these. `use` gives it to new connections, and `unuse` takes that back.",
    )
    hop: int = Field(1, ge=1, description="The hop that changes, from 1 at the left.")
    direction: Literal["forward", "reverse"] | None = Field(None, description="The direction of the hop that changes.")
    rate: Rate | None = Field(None, description="New rate of the bottleneck.")
    delay: Time | None = Field(None, description="New propagation delay.")
    loss: Share | None = Field(None, description="New share of packets that are lost.")
    mtu: int | None = Field(
        None,
        ge=552,
        le=9000,
        description="New size of the largest packet in bytes, at most the path's `mtu`. Hosts learn it by ICMP, "
        "and they do not believe sizes below 552.",
    )

    @property
    def of_path(self) -> dict[str, int | float]:
        return {key: getattr(self, key) for key in PATH_KEYS if getattr(self, key) is not None}

    @model_validator(mode="after")
    def _one_form(self) -> Self:
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


def _half(run: dict[str, Any]) -> int:
    """Half of the duration, in whole bins."""
    return run.get("duration", 0) // 2 // (BIN_MS * 1000) * (BIN_MS * 1000)


class Run(Model):
    """How long, and what is kept."""

    duration: Time = Field(ge=10**6, description=f"Length of the run: at least 1s, a multiple of {BIN_MS}ms.")
    measure_from: Time = Field(
        default_factory=_half,
        description=f"Metrics count from here to the end. A multiple of {BIN_MS}ms. "
        "In that time a link passes a data packet at least.",
        json_schema_extra={"without": "half of `duration`"},
    )
    start_jitter: Time = Field(
        10_000, description="Each flow starts later by a time drawn evenly from 0 to this. The seed decides."
    )
    trace_state: bool = Field(False, description="Keep the controllers' own variables at each ACK.")
    trace_every: Time = Field(
        0,
        le=10**6,
        description="Keep one ACK of each flow at most in so long, and what all of them acknowledged: for runs of "
        'hours, thousands of flows and 10 Gbit/s. At most 1s, in whole ms; `"0s"`: keep each ACK.',
    )
    traffic: Literal["plain"] = Field("plain", description="Connections of data alone. There is no other kind.")
    verify: bool = Field(False, description="Receivers compare each byte with what was sent.")
    capture: bool = Field(
        False,
        description="Keep the headers of all packets as they leave the queues, in `forward.pcap` and `reverse.pcap`; "
        "of the second hop in `forward-2.pcap`, and so on.",
    )
    audit: bool = Field(False, description="Look at the end for what controllers left in the kernel, and its warnings.")
    branch: Branch | None = Field(None, description="Many runs with one beginning: engine `uml`, fast on Linux 6.12.")

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.measure_from >= self.duration:
            raise ValueError("measure_from must come before duration")
        if self.measure_from % (BIN_MS * 1000) or self.duration % (BIN_MS * 1000):
            raise ValueError(f"measure_from and duration must be multiples of {BIN_MS}ms")
        if self.trace_every % 1000:
            raise ValueError("trace_every must be a multiple of 1ms")
        if self.branch and self.branch.at >= self.duration:
            raise ValueError("branch.at must come before duration")
        return self


class Scenario(Model):
    """The keys of the file itself."""

    title: str = Field(
        min_length=1, max_length=200, pattern=TITLE, description="The scenario in one line of at most 200 characters."
    )
    id: str = Field(
        max_length=40,
        pattern=ID,
        description="Short name, of capitals, digits and hyphens. The names of runs begin with it.",
    )
    ip: Literal[4, 6] = Field(4, description="Version of IP of all hosts and flows.")
    offloads: bool = Field(
        False,
        description="The hosts of flows have TSO and GRO: TCP hands over large segments, which are cut as they leave, "
        "and takes packets that come at once as one. Without, a packet is a packet.",
    )
    coalesce: Time = Field(
        0,
        le=10_000,
        description="With `offloads`: a host gets what comes in such a time at once, as from a network card that "
        "interrupts so often. At most 10ms.",
    )
    segment: int | None = Field(
        None,
        ge=8192,
        le=SEGMENT_MAX,
        description="With `offloads`: bytes of the largest segment that TCP hands over, and that GRO makes. More than "
        "65536 is BIG TCP, for `ip = 6`.",
        json_schema_extra={"without": "65536"},
    )
    profile: Literal["linux", "tuned", "ns2", "newreno", "impatient", "classic"] = Field(
        "linux",
        description="How TCP is set ([how](#the-hosts)). `linux` is a host out of the box. `tuned` has socket buffers "
        "that limit no path of the lab. The others are closer to simulators; the last two: engine `uml`.",
    )
    ack: Ack = Field(
        "delayed",
        description="When receivers send ACKs. `delayed`: as Linux does, mostly one for two packets. `every`: one for "
        "every packet, as papers' simulators do; no host does.",
    )
    sysctls: dict[str, Sysctl] = Field(
        {},
        description="Settings of the hosts, over those of the profile. The keys are those of a network namespace, "
        'in quotes: `"net.ipv4.tcp_sack" = 0`.',
    )
    ecn: Ecn | None = Field(
        None,
        description="Whether the hosts ask for ECN, and accept it. `accurate`: for AccECN (RFC 9768), which Linux has "
        "from 7.0 on. Receivers of a controller that asks for ECT(1), as `prague` does, accept AccECN, "
        "unless this is false or `sysctls` has `tcp_ecn`.",
        json_schema_extra={"without": "as the profile says"},
    )
    path: PathSpec = Field(description="The network between the hosts.")
    controllers: dict[Name, dict[Name, Value]] = Field(
        {}, description="Parameters of each controller, by its name: `[controllers.NAME]`."
    )
    thin: dict[Name, Value] | None = Field(
        None,
        description="The receivers thin their ACKs, as `asymcc thin` does, with these parameters. With `at` = `router` "
        "the router before them does, as `asymcc thin --dev`.",
    )
    uplink: Uplink | None = Field(
        None,
        description="`asymcc uplink` shapes the way from right to left, and thins its ACKs "
        "([how](thinning.md#an-uplink-whose-rate-nobody-knows)).",
    )
    flows: list[Flow] = Field(
        [], max_length=groups.FLOWS_MAX, description="The TCP flows. There is at least one, or a program."
    )
    background: list[Background] = Field([], max_length=groups.LOADS_MAX, description="UDP beside the flows.")
    packs: dict[Name, Pack] = Field({}, description="Files for programs: `[packs.NAME]`.")
    hosts: dict[Name, Host] = Field({}, max_length=HOSTS_MAX, description="Hosts of programs: `[hosts.NAME]`.")
    programs: list[Program] = Field(
        [], max_length=PROGRAMS_MAX, description="Real programs, beside the flows or alone ([Programs](programs.md))."
    )
    changes: list[Change] = Field([], description="Changes while flows run.")
    run: Run = Field(description="How long it takes, and what is measured and kept.")

    @property
    def thinned_at(self) -> int | str:
        return (self.thin or {}).get("at", "host")

    @model_validator(mode="after")
    def _uplink_has_a_place(self) -> Self:
        if self.uplink and self.uplink.at == "router" and len(self.path.chain) < 2:
            raise ValueError("uplink.at: a router stands between two hops, and this path has one: give `host`")
        if self.uplink and self.uplink.probe and self.ip != 4:
            raise ValueError("uplink.probe: it asks by ICMP of IPv4: give `ip = 4`")
        rival = self.uplink is not None and self.uplink.law != "asymcc"
        if self.uplink and (not self.flows or (self.thin is not None and not rival)):
            raise ValueError("uplink: it thins ACKs itself, for flows: give `flows`, and no `thin`")
        if self.uplink and rival:
            self.uplink.check_rival(self.path.chain[-1].reverse.cake is not None and self.ip == 4)
        return self

    @property
    def senders(self) -> list[tuple[str, str]]:
        """The keys of its controllers, and their names."""
        flows = [(f"flows.{i}", flow.controller) for i, flow in enumerate(self.flows)]
        return flows + [(f"hosts.{name}", host.controller) for name, host in self.hosts.items() if host.controller]

    @property
    def host_sysctls(self) -> dict[str, int | str]:
        """The hosts' settings over the profile's."""
        asked = {} if self.ecn is None else {TCP_ECN: ASKING[self.ecn]}
        return asked | self.sysctls

    def access_delay(self, flow: Flow) -> int:
        """Delay of the links between the path and its hosts, which may be another entry's; each way, us."""
        return flow.extra_delay if flow.hosts_of is None else self.flows[flow.hosts_of].extra_delay

    def switches(self, flow: Crossing) -> tuple[int, int]:
        """Those that its source and its sink hang on."""
        first, last = (1, len(self.path.chain) + 1) if flow.hop is None else (flow.hop, flow.hop + 1)
        if flow.direction == "reverse":
            first, last = last, first
        return (first if flow.enter is None else flow.enter, last if flow.leave is None else flow.leave)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.thinned_at not in ("host", "router"):
            raise ValueError(f"thin.at: expected host or router, not {short(self.thinned_at)}")
        check_sysctls("sysctls", self.sysctls)
        check_programs(self)
        tunnels.check(self)
        return self

    @model_validator(mode="after")
    def _coalesced_by_hosts(self) -> Self:
        for key in ("coalesce", "segment"):
            if getattr(self, key) and not self.offloads:
                raise ValueError(f"{key}: needs offloads = true")
        if self.segment and self.segment > SEGMENT and self.ip == 4:
            raise ValueError(f"segment: more than {SEGMENT} bytes need ip = 6")
        return self

    @model_validator(mode="after")
    def _ipv6_has_room(self) -> Self:
        if self.ip == 6 and any(flow.subflows > 1 for flow in self.flows):
            raise ValueError("flows.subflows: takes ip = 4")
        if self.ip == 6:
            sizes = [("path.mtu", self.path.mtu), *((f"changes.{i}.mtu", c.mtu) for i, c in enumerate(self.changes))]
            for key, mtu in sizes:
                if mtu is not None and mtu < IPV6_MTU:
                    raise ValueError(f"{key}: {mtu} bytes are fewer than the {IPV6_MTU} of IPv6")
        return self

    @model_validator(mode="after")
    def _all_begins_before_the_end(self) -> Self:
        if (count := sum(flow.count * flow.subflows for flow in self.flows)) > PORTS:
            raise ValueError(f"flows: {count} are more than there are ports for ({PORTS})")
        for i, flow in enumerate(self.flows):
            if flow.reply and self.run.verify:
                raise ValueError(f"flows.{i}.reply: cannot be with run.verify")
            if flow.size and (flow.reply or flow.stop is not None):
                raise ValueError(f"flows.{i}.size: cannot be with reply or stop")
            if flow.app_rate and (flow.reply or flow.size or self.run.verify):
                raise ValueError(f"flows.{i}.app_rate: cannot be with reply, size or run.verify")
            within, key = (self.run.start_jitter, "run.start_jitter")
            if flow.start_within is not None:
                within, key = flow.start_within, f"flows.{i}.start_within"
            begun = flow.start + within
            if flow.stop is not None and begun > flow.stop:
                raise ValueError(f"{key}: a flow may start after its stop")
            if begun >= self.run.duration > flow.start:
                raise ValueError(f"{key}: a flow may start after run.duration")
            if max(begun, flow.stop or 0, flow.resume or 0) >= self.run.duration:
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
        return self

    @model_validator(mode="after")
    def _all_have_a_way(self) -> Self:
        last = len(self.path.chain) + 1
        if sum(flow.second_hop is not None for flow in self.flows) > SECOND_HOPS:
            raise ValueError(f"flows.second_hop: more than {SECOND_HOPS} flows have one")
        named: list[tuple[str, Crossing]] = [
            *((f"flows.{i}", flow) for i, flow in enumerate(self.flows)),
            *((f"background.{i}", load) for i, load in enumerate(self.background)),
        ]
        for name, flow in named:
            for key in ("hop", "second_hop"):
                if (hop := getattr(flow, key, None)) and hop >= last:
                    raise ValueError(f"{name}.{key}: no hop {hop}; there are 1 to {last - 1}")
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
    def _something_to_measure(self) -> Self:
        """A link that passes no packet of the data has no utilisation; nor has any link that is silent."""
        begin, end = self.run.measure_from, self.run.duration
        carrying = {
            (k, flow.direction)
            for flow in (*self.flows, *self.background)
            for k in range(min(self.switches(flow)), max(self.switches(flow)))
        }
        for k, hop in enumerate(self.path.chain, 1):
            for side, way in (("forward", hop.forward), ("reverse", hop.reverse)):
                changed = [c.rate for c in self.changes if c.rate and (c.hop, c.direction) == (k, side)]
                rate = way.trace.rate_between(begin / 1e3, end / 1e3) if way.trace else max(way.rate, *changed, 0)
                packets = rate * (end - begin) / 8e6 / self.path.mtu
                if not rate or (k, side) in carrying and packets < 1:
                    place = f"path.hops.{k - 1}" if self.path.hops else "path"
                    raise ValueError(
                        f"run: {place}.{side} passes {packets:.1f} packets of {self.path.mtu} bytes from "
                        "measure_from to duration: measure for longer, or at another time"
                    )
        return self

    @model_validator(mode="after")
    def _probes_come_back(self) -> Self:
        """The self-check takes the median of some round trips."""
        for i, flow in enumerate(self.flows):
            low, high = sorted(self.switches(flow))
            ways = [way for hop in self.path.chain[low - 1 : high - 1] for way in (hop.forward, hop.reverse)]
            if (back := math.prod(1 - way.loss for way in ways)) < RETURN_MIN:
                raise ValueError(f"flows.{i}: {back:.2%} of round trips succeed; the self-check needs {RETURN_MIN:.1%}")
            if math.prod(1 - way.reorder for way in ways) < 0.5:
                raise ValueError(f"flows.{i}: most round trips are reordered: the self-check would not find its RTT")
        return self

    @model_validator(mode="after")
    def _hosts_are_an_entrys(self) -> Self:
        for i, flow in enumerate(self.flows):
            if flow.hosts_of is None:
                continue
            other = self.flows[flow.hosts_of] if flow.hosts_of < i else None
            if not other or other.hosts_of is not None or self.switches(other) != self.switches(flow)[::-1]:
                raise ValueError(
                    f"flows.{i}.hosts_of: {flow.hosts_of} must be an earlier entry with hosts of its own, which sends "
                    "the other way between the same switches"
                )
            for key in ("extra_delay", "stop"):
                if getattr(flow, key):
                    raise ValueError(f"flows.{i}.{key}: takes hosts of its own, not hosts_of")
        return self

    @model_validator(mode="after")
    def _changes_fit(self) -> Self:
        """In their order: what is loaded can be unloaded, and the path stays one that could have been written."""
        out: set[str | None] = set()
        for i, change in sorted(enumerate(self.changes), key=lambda c: c[1].at):
            if name := change.controller:
                if (change.command == "load") != (name in out):
                    raise ValueError(f"changes.{i}: {name} is {'not ' * (name in out)}loaded then")
                if change.command in ("unload", "drain"):
                    out.add(name)
                elif change.command == "load":
                    out.remove(name)
            if change.of_path and change.hop > len(self.path.chain):
                raise ValueError(f"changes.{i}.hop: no hop {change.hop}; there are 1 to {len(self.path.chain)}")
            if change.mtu and change.mtu > self.path.mtu:
                raise ValueError(f"changes.{i}.mtu: {change.mtu} bytes are more than the path's mtu, {self.path.mtu}")
            if change.rate and getattr(self.path.chain[change.hop - 1], str(change.direction)).trace:
                raise ValueError(f"changes.{i}.rate: the direction has a trace")
            if change.delay is not None and change.direction:
                direction = getattr(self.path.chain[change.hop - 1], change.direction)
                if change.delay < max(direction.jitter, direction.reorder > 0):
                    raise ValueError(f"changes.{i}.delay: the direction's jitter or reorder needs more")
        return self
