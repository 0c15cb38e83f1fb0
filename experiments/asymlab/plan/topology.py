# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From a scenario and a seed to a job: all that the agent needs to know, with nothing left open.

    source_i --- left ======= right --- sink_i        forward: left to right

    source_i --- sw1 === wire1 --- sw2 === wire2 --- sw3 --- sink_i

The bottleneck queues (tbf + pfifo, or tbf + gred) stand at the switches, the propagation delays (netem) one node
behind them: on a chain at the wires, on a dumbbell, which needs none, at the far switch. No TCP
socket feeds either directly: else TCP's small-queue limit would hide the queue. One source and one
sink host per [[flows]] entry, each on the switch of its choice.

A job is plain JSON:
    seed, duration_s, measure_from_s, bin_ms, trace_state, traffic, capture, audit
    nodes       {name, sysctls}
    must_have   sysctls that the kernel must know
    links       {a, b, mtu}; an end is {node, dev, addr, mac, shape} and its shape that of the
                direction leaving it: {rate_bps, burst_bytes, queue_packets} or {delay_us, loss, reorder} or {};
                the first with red: {packet_bytes, limit_bytes, min_bytes, max_bytes, probability, burst, weight_log, ecn} if it has one,
                the second with duplicate and jitter_us if it has them
    strips      middleboxes: {node, dev the packets come in by, kinds, syn}
    rewrites    others, if there are any: {node, dev, kind, offset, value}
    routes      {node, dst, via, dev, attrs}
    controllers {name, object or null, set, loader: asymcc or bpftool}
    flows       {id, src, dst, src_addr, dst_addr, controller, start_s, stop_s, resume_s}
    background  UDP at a constant bit rate: {id, src, dst, src_addr, dst_addr, payload_bytes, period_ns, start_s, stop_s,
                hops: the names of those it crosses}
    changes     while flows run: {at_s, controller, set} of parameters, {at_s, controller, command, set: all its parameters}, or
                {at_s, path}: a list of {node, dev, shape} or {node, dev, mtu}
    verify      there and true where receivers compare what arrives
    watch       the hops from left to right: {name, forward, reverse}, each direction {dev, rate_bps}
    probes      self-checks to make: ends, expected base RTT, and the train of each direction, or null
                where an earlier probe has sent it: {packets, bytes, skip, rate_bps}, no packets where none would tell; jitter_us,
                by which an RTT may differ, where there is any
    payload_share  payload over IP bytes of a full data packet
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

from .. import LabError
from ..controllers import LINUX
from ..guest.agent import IP_UDP
from ..paths import BUILD
from .scenario import BIN_MS, Background, Case, Change, Direction, Flow, Red, Scenario

BUFFER_MAX = 64 << 20  # bytes a socket may buffer each way: only Reno in an unlimited queue comes to it

COMMON = {
    "net.ipv6.conf.all.disable_ipv6": 1,
    "net.ipv6.conf.default.disable_ipv6": 1,
    "net.ipv4.tcp_no_metrics_save": 1,
    "net.ipv4.tcp_ecn": 0,
    "net.ipv4.tcp_rmem": f"4096 {BUFFER_MAX // 4} {BUFFER_MAX}",
    "net.ipv4.tcp_wmem": f"4096 {1 << 20} {BUFFER_MAX}",
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
}
PROFILES = {
    # What a current distribution does.
    "linux": {},
    # Closer to the papers' simulators: 40-byte ACKs, no RACK, no tail-loss probe.
    "ns2": {
        "net.ipv4.tcp_timestamps": 0,
        "net.ipv4.tcp_recovery": 0,
        "net.ipv4.tcp_early_retrans": 0,
        "net.ipv4.tcp_comp_sack_nr": 0,
        "net.ipv4.tcp_backlog_ack_defer": 0,
        "net.ipv4.tcp_autocorking": 0,
    },
}
# The same without SACK: recovery by partial ACKs, one loss a round trip (RFC 6582).
PROFILES["newreno"] = PROFILES["ns2"] | {"net.ipv4.tcp_sack": 0}
DIRECTIONS = ("forward", "reverse")
ACK_MTU = 120  # route MTU of a direction that carries ACKs only, so that its bucket can be this small
# Bytes that a flow which will stop may hold unsent: they still go out, and without a limit they are
# megabytes. A few packets keep it from running dry: an ACK wakes it when half of them are left.
NOTSENT = 8192


def header_bytes(scenario: Scenario) -> int:
    """IP and TCP header of a data packet, bytes; a pure ACK is the same without payload."""
    sysctls = PROFILES[scenario.profile] | scenario.sysctls
    return 40 if sysctls.get("net.ipv4.tcp_timestamps") == 0 else 52


def _tc_weight_log(min_packets: int, burst: int) -> int:
    """n of the weight 2^-n: tc asks for a burst, and takes the largest that lets one of so many packets pass (Floyd and Jacobson 1993, (3))."""
    return next(n for n in range(1, 32) if burst + 1 - min_packets <= (1 - (1 - 2**-n) ** burst) * 2**n)


def _red(red: Red, queue: int, packet: int) -> dict:
    """The kernel's RED counts bytes (those that tbf counts): thresholds and limit are multiples of the direction's usual packet."""
    wanted = red.weight_log
    burst = next(b for b in count(red.min) if _tc_weight_log(red.min, b) >= wanted)
    return {
        "packet_bytes": packet,
        "limit_bytes": queue * packet,
        "min_bytes": red.min * packet,
        "max_bytes": red.max * packet,
        "probability": red.probability,
        "burst": burst,
        "weight_log": _tc_weight_log(red.min, burst),
        "ecn": red.ecn,
    }


def _shape(direction: Direction, largest: int, usual: int) -> dict:
    # Two packets: with one, a timer that fires late loses the credit above it, and with it rate.
    shape = {"rate_bps": direction.rate, "burst_bytes": 2 * largest, "queue_packets": direction.queue}
    return shape | ({"red": _red(direction.red, direction.queue, usual)} if direction.red else {})


def _propagation(direction: Direction, extra: int = 0) -> dict:
    shape = {"delay_us": direction.delay + extra, "loss": direction.loss, "reorder": direction.reorder}
    return shape | {
        key: value for key, value in (("duplicate", direction.duplicate), ("jitter_us", direction.jitter)) if value
    }


def _train(shapes: list[dict]) -> dict:
    """Packets to measure the slowest of several shapes by: as large as each passes, at most what each queue holds.

    A bucket of B bytes lets B + R t through in time t, several the least of these. So the slowest
    spaces the packets once its own bucket is empty and every smaller one has been caught up with.
    A short queue that counts bytes holds too few of the largest, but enough of its usual ones.
    """
    sizes = [min(s["burst_bytes"] for s in shapes) // 2, *(s["red"]["packet_bytes"] for s in shapes if "red" in s)]
    trains = [_train_of(shapes, size) for size in sorted(set(sizes), reverse=True) if size <= sizes[0]]
    return next((t for t in trains if t["packets"]), trains[0])


def _train_of(shapes: list[dict], size: int) -> dict:
    def held(s: dict) -> int:
        return s["red"]["limit_bytes"] // size + s["burst_bytes"] // size - 2 if "red" in s else s["queue_packets"]

    rate, burst = min((s["rate_bps"], s["burst_bytes"]) for s in shapes)
    passed = max(
        burst + rate * max(0, burst - s["burst_bytes"]) / (s["rate_bps"] - rate) if s["rate_bps"] > rate else burst
        for s in shapes
    )
    skip = math.ceil(passed / size) + 2
    packets = min(skip + 26, *map(held, shapes))
    dropped = any(
        packets**2 * size >> s["red"]["weight_log"] + 1 > s["red"]["min_bytes"] for s in shapes if "red" in s
    )  # its average would rise so far
    return {
        "packets": packets if packets >= skip + 4 and not dropped else 0,
        "bytes": size,
        "skip": skip,
        "rate_bps": rate,
    }


def objects_needed(scenario: Scenario) -> dict[str, str | None]:
    """Controller name -> BPF object it comes from (None: the kernel has it). LabError if neither."""
    found = {}
    built = sorted({p.name.removesuffix(".bpf.o") for p in BUILD.glob("*.bpf.o")} - {"trace", "use"})
    for i, flow in enumerate(scenario.flows):
        name = flow.controller
        obj = scenario.controllers.get(name, {}).get("object", name)
        if obj in built:
            found[name] = obj
        elif obj == name and name in LINUX:
            found[name] = None
        else:
            raise LabError(f"flows.{i}.controller: no controller {obj!r}; there are {', '.join([*built, *LINUX])}")
    return found


def _controller(file: Path, name: str, obj: str | None, given: dict) -> dict:
    values = {k: v for k, v in given.items() if k not in ("object", "loader")}
    loader = given.get("loader", "asymcc")
    if loader not in ("asymcc", "bpftool"):
        raise LabError(f"{file}: controllers.{name}.loader: {loader!r} is neither 'asymcc' nor 'bpftool'")
    if loader == "bpftool" and (obj != name or values):
        raise LabError(
            f"{file}: controllers.{name}: bpftool registers an object as it is, with no other name and no parameters"
        )
    return {"name": name, "object": obj, "set": values, "loader": loader}


def _of_controllers(file: Path, changes: list[Change], controllers: list[dict]) -> Iterator[dict]:
    known = {c["name"]: c for c in controllers}
    for i, change in enumerate(changes):
        if not change.controller:
            continue
        job = {"at_s": change.at / 1e6, "controller": change.controller, "set": change.set}
        if change.command:
            if not known[change.controller]["object"] or known[change.controller]["loader"] != "asymcc":
                raise LabError(f"{file}: changes.{i}.command: {change.controller} is not one that asymcc loads")
            job |= {"command": change.command, "set": known[change.controller]["set"] | (change.set or {})}
        yield job


def _of_path(s: Scenario, shapes: list[dict], shaped: dict) -> Iterator[dict]:
    """What each change makes of the devices' shapes, those before it included."""
    hops = {(k, d): getattr(hop, d) for k, hop in enumerate(s.path.chain, 1) for d in DIRECTIONS}
    queues = {(k, d): dict(shape[d]) for k, shape in enumerate(shapes, 1) for d in DIRECTIONS}
    for change in sorted((c for c in s.changes if c.of_path), key=lambda c: c.at):
        place, new = (change.hop, change.direction), change.of_path
        hops[place] = hops[place].model_copy(update={key: value for key, value in new.items() if key != "mtu"})
        queue, delays = shaped[place]
        path = []
        if "rate" in new:
            queues[place] |= {"rate_bps": change.rate}
            path.append({"node": queue["node"], "dev": queue["dev"], "shape": dict(queues[place])})
        if "mtu" in new:
            path.append({"node": queue["node"], "dev": queue["dev"], "mtu": change.mtu})
        if "delay" in new or "loss" in new:
            path += [
                {"node": end["node"], "dev": end["dev"], "shape": _propagation(hops[place], extra)}
                for end, extra in delays
            ]
        yield {"at_s": change.at / 1e6, "path": path}


def compile_job(case: Case, seed: int) -> dict:
    s = case.scenario
    try:
        objects = objects_needed(s)
    except LabError as e:
        raise case.wrong(str(e)) from None
    rng = random.Random(seed)
    hops = s.path.chain
    dumbbell = len(hops) == 1
    spans = [sorted(s.switches(f)) for f in (*s.flows, *s.background)]  # from which switch to which, left to right
    carried = [
        {f.direction for f, (low, high) in zip((*s.flows, *s.background), spans) if low <= k < high}
        for k in range(1, len(hops) + 1)
    ]
    links, routes, ends = [], [], {}  # ends: (node, neighbour) -> the node's end of their link

    def link(a: str, b: str, ab: dict, ba: dict) -> None:
        k = len(links) + 1  # at most 136: 8 hops of two links, 60 entries of two hosts
        ends[a, b], ends[b, a] = (
            {
                "node": n,
                "dev": f"{n}-{m}",
                "addr": f"10.77.{k}.{i}",
                "mac": f"02:00:00:00:{k:02x}:{i:02x}",
                "shape": shape,
            }
            for i, n, m, shape in ((1, a, b, ab), (2, b, a, ba))
        )
        links.append({"a": ends[a, b], "b": ends[b, a], "mtu": s.path.mtu})

    def route(node: str, via: str, to: dict) -> None:
        routes.append(
            {
                "node": node,
                "dst": to["addr"].rsplit(".", 1)[0] + ".0/30",
                "via": ends[via, node]["addr"],
                "dev": ends[node, via]["dev"],
                "attrs": "",
            }
        )

    switches = ["left", "right"] if dumbbell else [f"sw{k}" for k in range(1, len(hops) + 2)]
    trunk, shapes, watch, strips, rewrites = switches[:1], [], [], [], []  # trunk: every router from left to right
    shaped: dict[
        tuple[int, str], tuple[dict, list[tuple[dict, int]]]
    ] = {}  # (hop, direction): its queue's end; ends with its delay, each with extra
    for k, (hop, loads, (left, right)) in enumerate(zip(hops, carried, pairwise(switches)), 1):
        shape = {
            d: _shape(getattr(hop, d), *(s.path.mtu, s.path.mtu) if d in loads else (ACK_MTU, header_bytes(s)))
            for d in DIRECTIONS
        }
        way = [left, right] if dumbbell else [left, f"wire{k}", right]
        if dumbbell:
            link(left, right, shape["forward"], shape["reverse"])
        else:
            link(left, way[1], shape["forward"], _propagation(hop.reverse))
            link(way[1], right, _propagation(hop.forward), shape["reverse"])
        trunk += way[1:]
        shapes.append(shape)
        watch.append(
            {
                "name": f"hop {k}",
                "forward": {"dev": ends[left, way[1]]["dev"], "rate_bps": hop.forward.rate},
                "reverse": {"dev": ends[right, way[-2]]["dev"], "rate_bps": hop.reverse.rate},
            }
        )
        for direction, entry in ((hop.forward, ends[way[1], left]), (hop.reverse, ends[way[-2], right])):
            if direction.strip:
                strips.append({"node": entry["node"], "dev": entry["dev"], **direction.strip.model_dump()})
            rewrites += [{"node": entry["node"], "dev": entry["dev"], **r.model_dump()} for r in direction.rewrite]
        shaped[k, "forward"] = ends[left, way[1]], [] if dumbbell else [(ends[way[1], right], 0)]
        shaped[k, "reverse"] = ends[right, way[-2]], [] if dumbbell else [(ends[way[1], left], 0)]
    # A router has no sockets to look a segment up for before it routes it.
    router = {"net.ipv4.ip_forward": 1, "net.ipv4.ip_early_demux": 0}
    nodes = [{"name": n, "sysctls": {**COMMON, **PROFILES[s.profile], **router}} for n in trunk]

    def hosts(src: str, dst: str, flow: Flow | Background, low: int, high: int, extra: int = 0) -> tuple[dict, dict]:
        """Link the two to their switches, and route between them. Their ends of the links, the left one first."""
        left_host, right_host = (src, dst) if flow.direction == "forward" else (dst, src)
        first, last = switches[low - 1], switches[high - 1]
        behind = {
            d: _propagation(getattr(hops[0], d), extra)
            if dumbbell
            else {"delay_us": extra, "loss": 0.0, "reorder": 0.0}
            for d in DIRECTIONS
        }
        link(left_host, first, {}, behind["reverse"])
        link(right_host, last, {}, behind["forward"])
        if dumbbell:
            shaped[1, "forward"][1].append((ends[last, right_host], extra))
            shaped[1, "reverse"][1].append((ends[first, left_host], extra))
        at_left, at_right = ends[left_host, first], ends[right_host, last]
        for left, right in pairwise(trunk[trunk.index(first) : trunk.index(last) + 1]):
            route(left, right, at_right)
            route(right, left, at_left)
        return at_left, at_right

    def way_out(end: dict, attrs: list[str]) -> None:
        via = end["dev"].removeprefix(f"{end['node']}-")
        routes.append(
            {
                "node": end["node"],
                "dst": "default",
                "via": ends[via, end["node"]]["addr"],
                "dev": end["dev"],
                "attrs": " ".join(attrs),
            }
        )

    flows, probes, trained = [], [], set()
    for i, (flow, (low, high)) in enumerate(zip(s.flows, spans)):
        src, dst = f"src{i}", f"dst{i}"
        stops = {} if flow.stop is None else {"net.ipv4.tcp_notsent_lowat": NOTSENT}
        nodes += [
            {"name": n, "sysctls": {**COMMON, **PROFILES[s.profile], **own, **s.sysctls}}
            for n, own in ((src, stops), (dst, {}))
        ]
        data, ack = DIRECTIONS if flow.direction == "forward" else DIRECTIONS[::-1]
        at = hosts(src, dst, flow, low, high, flow.extra_delay)
        host = {end["node"]: end for end in at}
        crossed = range(low - 1, high - 1)
        for end in at:
            node, attrs = end["node"], []
            if node == src:  # from the handshake on; iperf3's own option comes after the first segment
                attrs.append(f"congctl {flow.controller}")
            if node == dst:
                if flow.ack == "every":
                    attrs.append("quickack 1")
                if any(ack not in carried[k] for k in crossed):  # a small bucket would never pass more
                    attrs.append(f"mtu lock {ACK_MTU} advmss {s.path.mtu - 40}")
            way_out(end, attrs)
        for _ in range(flow.count):
            flows.append(
                {
                    "id": len(flows),
                    "src": src,
                    "dst": dst,
                    "src_addr": host[src]["addr"],
                    "dst_addr": host[dst]["addr"],
                    "controller": flow.controller,
                    "start_s": (flow.start + rng.random() * s.run.start_jitter) / 1e6,
                    "stop_s": None if flow.stop is None else flow.stop / 1e6,
                    "resume_s": None if flow.resume is None else flow.resume / 1e6,
                }
            )
        # Full buckets pass a small probe at once.
        base = sum(hops[k].forward.delay + hops[k].reverse.delay for k in crossed) + 2 * flow.extra_delay
        trains = [_train([shapes[k][d] for k in crossed]) for d in (data, ack)]
        jitters = [sum(getattr(hops[k], d).jitter for k in crossed) for d in (data, ack)]
        trains = [
            train | {"packets": 0} if jitter else train for train, jitter in zip(trains, jitters)
        ]  # it would measure the jitter
        gap = max(8e6 * t["bytes"] / t["rate_bps"] for t in trains)
        known = s.switches(flow) in trained
        trained.add(s.switches(flow))
        probes.append(
            {
                "src": src,
                "dst": dst,
                "src_addr": host[src]["addr"],
                "dst_addr": host[dst]["addr"],
                "base_rtt_us": base,
                "timeout_s": 1 + (4 * base + 16 * gap) / 1e6,
                "forward": None if known else trains[0],
                "reverse": None if known else trains[1],
            }
            | ({"jitter_us": sum(jitters)} if any(jitters) else {})
        )
    background = []
    for i, (load, (low, high)) in enumerate(zip(s.background, spans[len(s.flows) :])):
        src, dst = f"cbr{i}", f"void{i}"
        nodes += [{"name": n, "sysctls": COMMON} for n in (src, dst)]
        at = hosts(src, dst, load, low, high)
        for end in at:
            way_out(end, [])
        addr = {end["node"]: end["addr"] for end in at}
        background.append(
            {
                "id": i,
                "src": src,
                "dst": dst,
                "src_addr": addr[src],
                "dst_addr": addr[dst],
                "payload_bytes": load.packet - IP_UDP,
                "period_ns": round(load.packet * 8e9 / load.rate),
                "start_s": load.start / 1e6,
                "stop_s": None if load.stop is None else load.stop / 1e6,
                "hops": [f"hop {k}" for k in range(low, high)],
            }
        )
    controllers = [
        _controller(case.file, name, obj, s.controllers.get(name, {})) for name, obj in sorted(objects.items())
    ]
    return {
        "seed": seed,
        "duration_s": s.run.duration / 1e6,
        "measure_from_s": s.run.measure_from / 1e6,
        "bin_ms": BIN_MS,
        "trace_state": s.run.trace_state,
        "traffic": s.run.traffic,
        "capture": s.run.capture,
        "audit": s.run.audit,
        "nodes": nodes,
        "must_have": sorted(s.sysctls),
        "links": links,
        "strips": strips,
        "routes": routes,
        "flows": flows,
        "background": background,
        "changes": [*_of_controllers(case.file, s.changes, controllers), *_of_path(s, shapes, shaped)],
        "controllers": controllers,
        "watch": watch,
        "probes": probes,
        "payload_share": 1 - header_bytes(s) / s.path.mtu,
        **({"rewrites": rewrites} if rewrites else {}),
        **({"verify": True} if s.run.verify else {}),
    }


def job_objects(job: dict) -> list[Path]:
    """The BPF objects that a job brings along."""
    names = {c["object"] for c in job["controllers"] if c["object"]} | {
        "use" for c in job["changes"] if c.get("command") == "use"
    }
    return [BUILD / f"{name}.bpf.o" for name in sorted(names)]
