# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From a scenario and a seed to a job (guest/job.py).

    source_i --- left ======= right --- sink_i        forward: left to right

    source_i --- sw1 === wire1 --- sw2 === wire2 --- sw3 --- sink_i

The bottleneck queues (tbf + pfifo, or tbf + gred) stand at the switches, the propagation delays (netem) one node
behind them: on a chain at the wires, on a dumbbell, which needs none, at the far switch. Delays by a trace have a node
more, between the two. No TCP socket feeds any of them directly: else TCP's small-queue limit would hide the queue. One
source and one sink host per [[flows]] entry, each on the switch of its choice.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from .. import LabError
from ..controllers import LINUX, built_in
from ..guest import job
from ..guest.programs import WithPrograms
from ..guest.protocol import ECHO_PAYLOAD, ip_udp
from ..paths import BUILD, BUILT
from . import hosting, shapes, subflows, tunnels
from . import scenario as plan
from .crossing import TIMESTAMPS, Background, Flow
from .model import ACCEPTING, TCP_ECN
from .network import Network
from .objects import SUFFIX, File, data, no_such, shown
from .scenario import BIN_MS, Case, Scenario

COMMON: job.Sysctls = {
    "net.ipv4.tcp_no_metrics_save": 1,
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
}
# By the version of IP. Nothing is asked of neighbours and routers, and no address but the lab's is made.
OF_IP: dict[int, job.Sysctls] = {
    4: {"net.ipv6.conf.all.disable_ipv6": 1, "net.ipv6.conf.default.disable_ipv6": 1},
    6: {
        "net.ipv6.conf.default.accept_dad": 0,
        "net.ipv6.conf.default.accept_ra": 0,
        "net.ipv6.conf.default.router_solicitations": 0,
        "net.ipv6.conf.default.mldv2_unsolicited_report_interval": (1 << 31) - 1,
        "net.ipv6.conf.default.addr_gen_mode": 1,
    },
}
BUFFER_MAX = 64 << 20  # bytes a socket may buffer each way: only Reno in an unlimited queue comes to it
PROFILES: dict[str, job.Sysctls] = {
    # Linux as it is out of the box, with 1 GB of memory or more: the guest, which has less, would choose less.
    "linux": {TCP_ECN: 2, "net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"},
    # The same without a limit by buffers.
    "tuned": {
        TCP_ECN: 0,
        "net.ipv4.tcp_rmem": f"4096 {BUFFER_MAX // 4} {BUFFER_MAX}",
        "net.ipv4.tcp_wmem": f"4096 {1 << 20} {BUFFER_MAX}",
    },
}
# Closer to the papers' simulators: 40-byte ACKs, no RACK, no tail-loss probe.
PROFILES["ns2"] = PROFILES["tuned"] | {
    TIMESTAMPS: 0,
    "net.ipv4.tcp_recovery": 0,
    "net.ipv4.tcp_early_retrans": 0,
    "net.ipv4.tcp_comp_sack_nr": 0,
    "net.ipv4.tcp_backlog_ack_defer": 0,
    "net.ipv4.tcp_autocorking": 0,
}
# The same without SACK: recovery by partial ACKs, one loss a round trip (RFC 6582).
PROFILES["newreno"] = PROFILES["ns2"] | {"net.ipv4.tcp_sack": 0}
# Its other variant, which no packaged kernel has: only the first partial ACK of a recovery restarts the timer.
PROFILES["impatient"] = PROFILES["newreno"] | {"net.ipv4.tcp_newreno_impatient": 1}
# Reno's own recovery (RFC 2581), which none has either: the first new ACK ends it. Each further loss of a window takes
# three more duplicate ACKs, or the timer.
PROFILES["classic"] = PROFILES["newreno"] | {"net.ipv4.tcp_reno_classic": 1}
ENGINE = {"impatient": "uml", "classic": "uml"}  # the one whose kernel has what a profile needs
DIRECTIONS = ("forward", "reverse")
# Bytes that a flow which will stop may hold unsent: they still go out, and without a limit they are
# megabytes. A few packets keep it from running dry: an ACK wakes it when half of them are left.
NOTSENT = 8192


def header_bytes(scenario: Scenario) -> int:
    """IP and TCP header of a data packet, bytes, and a tunnel's; a pure ACK is the same without payload."""
    sysctls = PROFILES[scenario.profile] | scenario.sysctls
    own = 40 if sysctls.get(TIMESTAMPS) == 0 else 52
    return own + more_bytes(scenario) + tunnels.adds(scenario.path.tunnel)


def more_bytes(scenario: Scenario) -> int:
    """Bytes that an IP header has beyond IPv4's."""
    return 20 if scenario.ip == 6 else 0


# --- controllers ---------------------------------------------------------------------------

KERNEL = "kernel"  # the loader of what a kernel of the user's has, built in or as a module
INSMOD: Literal["insmod"] = "insmod"  # of a module that is given by its file


def objects_needed(case: Case) -> dict[str, str | None]:
    """Controller name -> BPF object it comes from (None: the kernel has it). LabError if neither; it names the file."""
    scenario, objects = case.scenario, dict[str, str | None]()
    built = built_in(BUILT)
    for key, name in scenario.senders:
        settings = scenario.controllers.get(name, {})
        obj = settings.get("object", name)
        if settings.get("loader") == KERNEL:
            objects[name] = None
            continue
        if file := case.files.get(name):
            objects[name] = f"{name}:{file.chosen}" if file.chosen else name
            continue
        if obj == name and obj in built and obj in LINUX:
            raise case.wrong(f"{key}.controller: {obj!r} is both Linux's and {BUILT}/{obj}.bpf.o: rename the object")
        if obj in built:
            objects[name] = str(obj)
        elif obj == name and name in LINUX:
            objects[name] = None
        else:
            where = f"{key}.controller" if obj == name else f"controllers.{name}.object"
            raise case.wrong(f"{where}: {no_such(str(obj), [*built, *LINUX])}")
    return objects


def _controller(name: str, obj: str | None, given: dict[str, Any], module: bool) -> job.Controller:
    values = {k: v for k, v in given.items() if k not in ("object", "loader")}
    if module:
        if "loader" in given:
            raise LabError(f"controllers.{name}.loader: the kernel itself loads a module: leave the key out")
        return job.Controller(name, obj, values, INSMOD)
    loader = given.get("loader", "asymcc")
    if loader not in ("asymcc", "bpftool", KERNEL):
        raise LabError(f"controllers.{name}.loader: {loader!r} is neither 'asymcc', 'bpftool' nor '{KERNEL}'")
    if loader == KERNEL:
        if "object" in given:
            raise LabError(f"controllers.{name}: has either an object or the loader '{KERNEL}'")
        return job.Controller(name, None, values, "asymcc")
    if loader == "bpftool" and (obj != name or values):
        raise LabError(
            f"controllers.{name}: bpftool registers an object as it is, with no other name and no parameters"
        )
    return job.Controller(name, obj, values, loader)


def _of_controllers(case: Case, controllers: list[job.Controller]) -> Iterator[job.SetParameters | job.Command]:
    known = {c.name: c for c in controllers}
    for i, change in enumerate(case.scenario.changes):
        if not change.controller:
            continue
        c = known[change.controller]
        values: job.Parameters = {**(change.set or {})}
        if not change.command:
            yield job.SetParameters(change.at / 1e6, c.name, values)
        elif c.object and c.loader == "asymcc":
            yield job.Command(change.at / 1e6, c.name, change.command, c.set | values)
        else:
            raise case.wrong(f"changes.{i}.command: {c.name} is not one that asymcc loads")


# --- the network ---------------------------------------------------------------------------


Place = tuple[int, str]  # hop, from 1 on; direction


class Hops:
    """The routers from left to right, with the queues and delays between them."""

    def __init__(self, s: Scenario, network: Network, seed: int, clock_factor: int, node_us: int) -> None:
        self.s, self.network, self.seed, self.clock_factor = s, network, seed, clock_factor
        self.node_us = node_us if s.path.node_delay is None else s.path.node_delay
        self.specs = {
            (k, d): self._delayed(getattr(hop, d)) for k, hop in enumerate(s.path.chain, 1) for d in DIRECTIONS
        }
        self.count = len(s.path.chain)
        self.dumbbell = self.count == 1
        self.switches = ["left", "right"] if self.dumbbell else [f"sw{k}" for k in range(1, self.count + 2)]
        self.trunk = self.switches[:1]
        loads: list[Flow | Background] = [*s.flows, *s.background]
        # Others carry ACKs only. Programs ask and answer.
        self.carrying: set[Place] = {(k, load.direction) for load in loads for k in self.span(load)}
        for flow in s.flows:
            if flow.reply:  # requests go the other way
                self.carrying.update((k, "forward") for k in self.span(flow))
                self.carrying.update((k, "reverse") for k in self.span(flow))
        if s.programs:
            self.carrying = {*self.specs}
        self.carrying.update((flow.second_hop, flow.direction) for flow in s.flows if flow.second_hop)
        self.queues: dict[Place, job.Bottleneck] = {}
        self.usual: dict[Place, int] = {}  # bytes of a packet
        self.queue_ends: dict[Place, job.End] = {}
        self.delay_ends: dict[Place, list[tuple[job.End, int]]] = {}  # each with its extra delay
        self.watch: list[job.Hop] = []
        self.strips: list[job.Strip] = []
        self.rewrites: list[job.Rewrite] = []
        self.codepoints: list[job.Codepoint] = []
        self.policers: list[job.Policer] = []
        for k, (left, right) in enumerate(pairwise(self.switches), 1):
            self._add(k, left, right)
        if s.path.tunnel:
            network.tunnel(s.path.tunnel, self.trunk)

    def _delayed(self, spec: plan.Direction) -> plan.Direction:
        return spec.model_copy(update={"delay": spec.delay + self.node_us})

    def span(self, flow: Flow | Background) -> range:
        """The hops that it crosses."""
        low, high = sorted(self.s.switches(flow))
        return range(low, high)

    def _add(self, k: int, left: str, right: str) -> None:
        ends = self.network.ends
        for d in DIRECTIONS:
            spec, largest, usual = self.specs[k, d], self.s.path.mtu, self.s.path.mtu
            if (k, d) not in self.carrying and not spec.trace:
                small = tunnels.room(self.s.path.tunnel, shapes.ACK_MTU + more_bytes(self.s))
                least = shapes.ICMP_BYTES[self.s.ip] if any(change.mtu for change in self.s.changes) else 0
                ack = max(shapes.ack_packet(spec.rate, largest, self.clock_factor, small), least)
                largest, usual = min(largest, ack), header_bytes(self.s)
            self.queues[k, d] = shapes.bottleneck(spec, largest, usual, self.clock_factor)
            self.usual[k, d] = usual
        way = self._way(k, left, right)
        shapes_of = [self._shapes(k, d, len(way)) for d in DIRECTIONS]
        for (a, b), forward, reverse in zip(pairwise(way), shapes_of[0], shapes_of[1][::-1]):
            self.network.link(a, b, forward, reverse)
        self.trunk += way[1:]
        self.queue_ends[k, "forward"], self.queue_ends[k, "reverse"] = ends[left, way[1]], ends[right, way[-2]]
        self.delay_ends[k, "forward"] = [] if self.dumbbell else [(ends[way[-2], right], 0)]
        self.delay_ends[k, "reverse"] = [] if self.dumbbell else [(ends[way[1], left], 0)]
        watched = (job.Watched(self.queue_ends[k, d].dev, self._mean_rate(k, d)) for d in DIRECTIONS)
        self.watch.append(job.Hop(f"hop {k}", *watched))
        self._add_middleboxes(k, {"forward": ends[way[1], left], "reverse": ends[way[-2], right]})

    def _way(self, k: int, left: str, right: str) -> list[str]:
        """The nodes of a hop: its switches, and what is between them."""
        far = [f"far{k}"] if any(self.specs[k, d].delay_trace for d in DIRECTIONS) else []
        wire = [] if self.dumbbell else [f"wire{k}"]
        return [left, *far, *wire, right]

    def _shapes(self, k: int, d: str, nodes: int) -> list[job.Shape]:
        """Those of a direction's links, in the order in which a packet passes them."""
        spec, seed = self.specs[k, d], random.Random(f"{self.seed} {k} {d}").getrandbits(64) | 1
        wire = [] if self.dumbbell else [shapes.propagation(spec)]
        far = [shapes.delays(spec, seed)] if nodes > 2 + len(wire) else []
        return [self.queues[k, d], *far, *wire]

    def _mean_rate(self, k: int, d: str) -> int:
        """While the run measures, bit/s of its usual packets."""
        trace, run = self.specs[k, d].trace, self.s.run
        if trace:
            return trace.rate_between(run.measure_from / 1e3, run.duration / 1e3)
        return self.queues[k, d].passes_bps(self.usual[k, d])

    def _add_middleboxes(self, k: int, entries: dict[str, job.End]) -> None:
        """At the ends that a direction comes in by."""
        for direction, entry in entries.items():
            spec = self.specs[k, direction]
            if spec.policer:
                behind = self.queue_ends[k, direction].dev
                policer = job.Policer(entry.node, entry.dev, behind, spec.policer.rate, spec.policer.burst)
                self.policers.append(policer)
            if spec.strip:
                self.strips.append(job.Strip(entry.node, entry.dev, **spec.strip.model_dump()))
            if spec.ecn_codepoint:
                self.codepoints.append(job.Codepoint(entry.node, entry.dev, spec.ecn_codepoint))
            self.rewrites += [job.Rewrite(entry.node, entry.dev, **r.model_dump()) for r in spec.rewrite]

    def add_hosts(
        self, left: str, right: str, crossed: range, extra: int = 0, offloads: bool = False
    ) -> tuple[job.End, job.End]:
        """Link the two to their switches, and route between them. Their ends of the links."""
        link, ends = self.network.link, self.network.ends
        first, last = self.switches[crossed[0] - 1], self.switches[crossed[-1]]
        slot_us = self.s.coalesce if offloads else 0
        to_left, to_right = (
            shapes.propagation(self.specs[1, d], extra, slot_us)
            if self.dumbbell
            else job.Propagation(extra, 0.0, 0.0, slot_us=slot_us)
            for d in ("reverse", "forward")
        )
        segment = self.s.segment if offloads else None
        link(left, first, job.Unshaped(), to_left, offloads, segment)
        link(right, last, job.Unshaped(), to_right, offloads, segment)
        if self.dumbbell:
            self.delay_ends[1, "forward"].append((ends[last, right], extra))
            self.delay_ends[1, "reverse"].append((ends[first, left], extra))
        at_left, at_right = ends[left, first], ends[right, last]
        for a, b in pairwise(self.trunk[self.trunk.index(first) : self.trunk.index(last) + 1]):
            self.network.route(a, b, at_right)
            self.network.route(b, a, at_left)
        return at_left, at_right

    def changes(self) -> Iterator[job.ChangePath]:
        """The devices' shapes after each change, those before it included."""
        specs, queues = dict(self.specs), dict(self.queues)
        for change in sorted((c for c in self.s.changes if c.of_path), key=lambda c: c.at):
            assert change.direction
            place, new = (change.hop, change.direction), change.of_path
            specs[place] = specs[place].model_copy(update={key: value for key, value in new.items() if key != "mtu"})
            if "delay" in new:
                specs[place] = self._delayed(specs[place])
            at = self.queue_ends[place]
            path: list[job.NewShape | job.NewMtu] = []
            if change.rate is not None:
                burst = shapes.bucket(change.rate, queues[place].packet_bytes, self.clock_factor)
                queues[place] = replace(queues[place], rate_bps=change.rate, burst_bytes=burst)
                path.append(job.NewShape(at.node, at.dev, queues[place]))
            if change.mtu is not None:
                path.append(job.NewMtu(at.node, at.dev, change.mtu))
            if "delay" in new or "loss" in new:
                path += [
                    job.NewShape(end.node, end.dev, shapes.propagation(specs[place], extra, _slot_us(end)))
                    for end, extra in self.delay_ends[place]
                ]
            yield job.ChangePath(change.at / 1e6, path)


# --- the job -------------------------------------------------------------------------------


class Builder:
    """Adds the flows and loads of a scenario to its hops, and their hosts."""

    def __init__(self, s: Scenario, seed: int, clock_factor: int, node_us: int) -> None:
        self.s, self.rng = s, random.Random(seed)
        self.network = Network(s.path.mtu, s.ip)
        self.common = OF_IP[s.ip] | COMMON
        self.of_host = {**self.common, **PROFILES[s.profile]}
        self.hops = Hops(s, self.network, seed, clock_factor, node_us)
        # A router has no sockets to look a segment up for before it routes it.
        forwards = "net.ipv6.conf.all.forwarding" if s.ip == 6 else "net.ipv4.ip_forward"
        router = {forwards: 1, "net.ipv4.ip_early_demux": 0}
        self.nodes = [job.Node(n, {**self.of_host, **router}) for n in self.hops.trunk]
        self.flows: list[job.Flow] = []
        self.probes: list[job.Probe] = []
        self.trained: set[tuple[int, int]] = set()  # the ways whose rates a probe measures
        self.background: list[job.Background] = []
        self.hosts: list[tuple[job.End, job.End]] = []  # of each entry: source and sink
        for i, flow in enumerate(s.flows):
            self._add_flow(flow, f"src{i}", f"dst{i}")
        for i, load in enumerate(s.background):
            self._add_background(load, i, f"cbr{i}", f"void{i}")

    def _add_flow(self, flow: Flow, src: str, dst: str) -> None:
        s, crossed = self.s, self.hops.span(flow)
        data, ack = DIRECTIONS if flow.direction == "forward" else DIRECTIONS[::-1]
        if flow.hosts_of is None:
            stops: job.Sysctls = {} if flow.stop is None else {"net.ipv4.tcp_notsent_lowat": NOTSENT}
            self.nodes += [
                job.Node(src, {**self.of_host, **stops, **s.host_sysctls, **flow.source_sysctls}),
                job.Node(dst, {**self.of_host, **s.host_sysctls, **flow.sink_sysctls}),
            ]
            pair = (src, dst) if flow.direction == "forward" else (dst, src)
            ends = self.hops.add_hosts(*pair, crossed, flow.extra_delay, s.offloads)
            self.hosts.append(ends if flow.direction == "forward" else ends[::-1])
            way_out = self.network.way_out
        else:
            ends = self.hosts[flow.hosts_of][::-1]
            src, dst = (end.node for end in ends)
            self.hosts.append(ends)
            way_out = self.network.amend_way_out
        addr = {end.node: end.addr for end in ends}
        for end in ends:
            attrs = []
            if end.node == src:  # from the handshake on
                attrs.append(f"congctl {flow.controller}")
            if end.node == dst and (flow.ack or s.ack) == "every":
                attrs.append("quickack 1")
            most = min(self.hops.queues[k, ack].packet_bytes for k in (*crossed, flow.second_hop or crossed[0]))
            passes = tunnels.inner(s.path.tunnel, most)
            if end.node == dst and most < s.path.mtu and s.ip == 4:  # IPv6 has no route of less than 1280 bytes
                attrs.append(f"mtu lock {passes} advmss {s.path.mtu - 40}")  # a small bucket would never pass more
            way_out(end, attrs)
        self.probes.append(self.probe(flow, src, dst, addr, data, ack))
        within = s.run.start_jitter if flow.start_within is None else flow.start_within
        for _ in range(flow.count):
            start = (flow.start + self.rng.random() * within) / 1e6
            times = (start, _seconds(flow.stop), _seconds(flow.resume))
            entry = job.Flow(len(self.flows), src, dst, addr[src], addr[dst], flow.controller, *times)
            entry = replace(entry, reply_bytes=flow.reply, size_bytes=flow.size, every_s=_seconds(flow.every))
            entry = replace(entry, write_bytes=flow.app_rate and flow.app_rate // 800)
            self.flows.append(entry)
        if flow.subflows > 1:
            subflows.add(self, flow, ends[flow.direction == "reverse"])

    def probe(self, flow: Flow, src: str, dst: str, addr: dict[str, str], data: str, ack: str) -> job.Probe:
        s, crossed, specs = self.s, self.hops.span(flow), self.hops.specs
        # Full buckets pass a small probe at once.
        base = sum(specs[k, d].delay for k in crossed for d in DIRECTIONS) + 2 * self.s.access_delay(flow)
        trains, jitter = [], 0
        for d in (data, ack):
            train = shapes.train([self.hops.queues[k, d] for k in crossed])
            if any(self.hops.queues[k, d].drops_early for k in crossed) and not any(
                specs[k, d].loss or specs[k, d].reorder for k in crossed
            ):
                train = replace(train, lost_before=True)  # CAKE alone drops, what has waited too long
            size = tunnels.inner(s.path.tunnel, train.bytes)
            rate = round(train.rate_bps * size / tunnels.outer(s.path.tunnel, size))
            train = replace(train, bytes=size, rate_bps=rate)
            packet_us = 8e6 * train.bytes / train.rate_bps
            ahead = sum(specs[k, d].delay for k in crossed if specs[k, d].reorder)
            if 0 < ahead < 4 * packet_us:  # by more it overtakes, which is seen, unless four in a row do
                train = replace(train, early=True)
            own = sum(specs[k, d].jitter for k in crossed)
            # Either end may be off by it: by 1 % of the train's time together, each by a twentieth of a packet at most.
            most = min(10, train.packets - train.skip - 1) * packet_us / 200
            if own > most or any(specs[k, d].trace for k in crossed):
                train = replace(train, packets=0)  # it would measure the jitter; a trace has a check of its own
            trains.append(train)
            jitter += own
        gap = max(8e6 * t.bytes / t.rate_bps for t in trains)
        traces = [trace for k in crossed for d in DIRECTIONS if (trace := specs[k, d].trace)]
        reorders = any(specs[k, d].reorder for k in crossed for d in DIRECTIONS)
        wait = sum(trace.longest_gap_ms for trace in traces) * 1000
        known = self.s.switches(flow) in self.trained
        echo = tunnels.outer(s.path.tunnel, ECHO_PAYLOAD + ip_udp(addr[dst]))
        self.trained.add(self.s.switches(flow))
        return job.Probe(
            src=src,
            dst=dst,
            src_addr=addr[src],
            dst_addr=addr[dst],
            base_rtt_us=base,
            timeout_s=1 + (4 * base + 16 * gap + 2 * wait) / 1e6,
            pause_s=max(8 * echo / self.hops.queues[k, d].passes_bps(echo) for k in crossed for d in DIRECTIONS),
            forward=None if known else trains[0],
            reverse=None if known else trains[1],
            jitter_us=jitter,
            wait_us=wait,
            trips=21 if reorders else 7,
        )

    def _add_background(self, load: Background, i: int, src: str, dst: str) -> None:
        crossed = self.hops.span(load)
        self.nodes += [job.Node(n, self.common | PROFILES["tuned"]) for n in (src, dst)]
        pair = (src, dst) if load.direction == "forward" else (dst, src)
        ends = self.hops.add_hosts(*pair, crossed)
        for end in ends:
            self.network.way_out(end, [])
        addr = {end.node: end.addr for end in ends}
        self.background.append(
            job.Background(
                id=i,
                src=src,
                dst=dst,
                src_addr=addr[src],
                dst_addr=addr[dst],
                payload_bytes=load.packet - ip_udp(addr[dst]),
                period_ns=round(load.packet * 8e9 / load.rate),
                start_s=load.start / 1e6,
                stop_s=_seconds(load.stop),
                hops=[self.hops.watch[k - 1].name for k in crossed],
            )
        )


def _slot_us(end: job.End) -> int:
    return end.shape.slot_us if isinstance(end.shape, job.Propagation) else 0


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


def plan_job(case: Case, seed: int, clock_factor: int = 1, node_us: int = 0, asking: Collection[str] = ()) -> job.Job:
    """The machine that is to run it has clock_factor, 10^9 instructions a second (machine/boot.py); node_us, what the
    nodes of a hop take for a packet, each way, if the scenario does not say (node_delay). `asking`: controllers given
    by their files that ask for L4S, ECT(1) that is; of the built ones it is known.
    """
    s = case.scenario
    objects = sorted(objects_needed(case).items())
    try:
        modules = {name for name, file in case.files.items() if file.module}
        controllers = [_controller(name, o, s.controllers.get(name, {}), name in modules) for name, o in objects]
    except LabError as e:
        raise case.wrong(str(e)) from None
    built = Builder(s, seed, clock_factor, node_us)
    hosts = hosting.add_hosts(built)
    ours = {c.name for c in controllers if c.object and c.name not in case.files and shown(c.object)["l4s"]}
    settings = [s.host_sysctls, *(flow.own_sysctls for flow in s.flows), *(host.sysctls for host in s.hosts.values())]
    l4s = [flow for flow in built.flows if flow.controller in ours.union(asking)]
    planned = job.Job(
        seed=seed,
        duration_s=s.run.duration / 1e6,
        measure_from_s=s.run.measure_from / 1e6,
        bin_ms=BIN_MS,
        trace_state=s.run.trace_state,
        trace_every_ms=s.run.trace_every // 1000,
        capture=s.run.capture,
        audit=s.run.audit,
        nodes=_accepting(s, built.nodes, {flow.dst for flow in l4s}),
        must_have=sorted(set[str]().union(*settings)),
        links=built.network.links,
        strips=built.hops.strips,
        routes=built.network.routes,
        flows=built.flows,
        background=built.background,
        changes=[*_of_controllers(case, controllers), *built.hops.changes()],
        controllers=controllers,
        watch=built.hops.watch,
        probes=built.probes,
        payload_share=1 - header_bytes(s) / s.path.mtu,
        rewrites=built.hops.rewrites,
        verify=s.run.verify,
        thin=None if s.thin is None else {"thins": 1, **{k: v for k, v in s.thin.items() if k != "at"}},
        policers=built.hops.policers,
        codepoints=built.hops.codepoints,
        tunnels=built.network.tunnels,
        uplink=_uplink(built),
        ect1=_ect1(built, {flow.src for flow in l4s}),
        thin_on=built.hops.watch[-1].reverse.dev if s.thinned_at == "router" else None,
        branch=job.Branch(s.run.branch.at / 1e6, s.run.branch.draw) if s.run.branch else None,
    )
    return hosting.with_programs(planned, s, hosts) if s.programs else planned


def _accepting(s: Scenario, nodes: list[job.Node], sinks: set[str]) -> list[job.Node]:
    """The receivers of L4S accept AccECN, and ask for what they did ask for; but where the file says how it is."""
    if s.ecn is False or TCP_ECN in s.sysctls:
        return nodes
    sinks -= {f"dst{i}" for i, flow in enumerate(s.flows) if TCP_ECN in flow.sink_sysctls}

    def accepts(node: job.Node) -> job.Node:
        return replace(node, sysctls=node.sysctls | {TCP_ECN: ACCEPTING[node.sysctls[TCP_ECN]]})

    return [accepts(node) if node.name in sinks else node for node in nodes]


def _uplink(built: Builder) -> job.Uplink | job.Autorate | None:
    spec = built.s.uplink
    if spec is None:
        return None
    device = built.hops.watch[-1].reverse
    left, right = built.hosts[0] if built.s.flows[0].direction == "forward" else built.hosts[0][::-1]
    if spec.law != "asymcc" and spec.least and spec.most:
        (router,) = (link.b for link in built.network.links if link.a == right)
        bounds = device.rate_bps, spec.least, spec.most
        return job.Autorate(device.dev, router.addr, left.addr, spec.law == "autorate", *bounds)
    rates = {"--rate": spec.rate, "--least": spec.least, "--most": spec.most}
    options = [word for option, rate in rates.items() if rate for word in (option, f"{rate}bit")]
    options += ["--down"] * spec.down + ["--probe", left.addr] * spec.probe
    if spec.probe and spec.at == "router":  # by whose own address answers come back
        (end,) = (end for end in built.network.ends.values() if end.dev == device.dev)
        for a, b in pairwise(built.hops.trunk[:-1]):
            built.network.route(a, b, end)
    return job.Uplink(right.dev if spec.at == "host" else device.dev, options)


def _ect1(built: Builder, sources: set[str]) -> list[str]:
    """The devices of sources whose controllers send ECT(1)."""
    return sorted(end.dev for link in built.network.links for end in link.ends if end.node in sources)


def job_objects(planned: job.Job, files: dict[str, File], types: Path | None) -> dict[str, bytes]:
    """The files that a job brings along, by their names: BPF objects, modules, and traces of links. Sources are
    compiled (objects.data)."""
    needs = {"use": "use", "drain": "move"}  # of commands that need one besides
    names = {c.object for c in planned.controllers if c.object and c.name not in files}
    names |= {needs[c.command] for c in planned.changes if isinstance(c, job.Command) and c.command in needs}
    if planned.thin is not None:
        names.add("thin_router" if planned.thin_on else "thin")
    if isinstance(planned.uplink, job.Uplink):
        names |= {"uplink", "thin_router"}
    played = {end.shape.trace.file for end in planned.ends if isinstance(end.shape, job.Bottleneck) and end.shape.trace}
    delays = {end.shape.file for end in planned.ends if isinstance(end.shape, job.Delays)}
    names |= {name for name, needed in (("ect1", planned.ect1), ("player", played), ("delayer", delays)) if needed}
    if isinstance(planned, WithPrograms):
        names.add("connections")
    files_of = [BUILT / f"{name}{SUFFIX}" for name in names]
    content = {file.name: file.read_bytes() for file in files_of} | {
        name: (BUILD / name).read_bytes() for name in played | delays
    }
    return dict(
        sorted((content | {f"{name}{file.brought}": data(file, types) for name, file in files.items()}).items())
    )
