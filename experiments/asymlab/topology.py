# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From a scenario and a seed to a job: all that the agent needs to know, with nothing left open.

    source_i --- left ======= right --- sink_i        forward: left to right

The bottleneck queues (tbf + pfifo) stand at left (forward) and right (reverse), the propagation
delays (netem) one hop behind them, where no TCP socket feeds them: else TCP's small-queue limit
would hide the queue. One source and one sink host per [[flows]] entry.

A job is plain JSON:
    seed, duration_s, measure_from_s, bin_ms
    nodes       {name, sysctls}
    links       {a, b, mtu}; an end is {node, dev, addr, mac, shape} and its shape that of the
                direction leaving it: {rate_bps, burst_bytes, queue_packets} or {delay_us, loss} or {}
    routes      {node, dst, via, dev, attrs}
    controllers {name, object or null, set, loader: asymcc or bpftool}
    flows       {id, group, src, dst, src_addr, dst_addr, controller, start_s, stop_s}
    watch       the two bottleneck directions: device and rate
    probes      self-checks to make: ends, expected base RTT, the rates to be found
    payload_share  payload over IP bytes of a full data packet
"""

from __future__ import annotations

import random
from pathlib import Path

from . import LabError
from .paths import BUILD
from .scenario import BIN_MS, Case, Direction, Scenario

KERNEL_CONTROLLERS = ("reno", "cubic", "vegas", "westwood", "highspeed", "bic", "bbr", "htcp", "illinois", "veno",
                      "dctcp", "hybla", "lp", "nv", "scalable", "yeah", "cdg")
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
ACK_MTU = 120  # route MTU of a direction that carries ACKs only, so that its bucket can be this small


def header_bytes(scenario: Scenario) -> int:
    """IP and TCP header of a data packet, bytes; a pure ACK is the same without payload."""
    return 40 if scenario.profile == "ns2" else 52


def _shape(direction: Direction, largest: int) -> dict:
    # Two packets: with one, a timer that fires late loses the credit above it, and with it rate.
    return {"rate_bps": direction.rate, "burst_bytes": 2 * largest, "queue_packets": direction.queue,
            "probe_bytes": largest}


def objects_needed(scenario: Scenario) -> dict[str, str | None]:
    """Controller name -> BPF object it comes from (None: the kernel has it). LabError if neither."""
    found = {}
    for i, flow in enumerate(scenario.flows):
        name = flow.controller
        obj = scenario.controllers.get(name, {}).get("object", name)
        if (BUILD / f"{obj}.bpf.o").exists() and obj != "trace":
            found[name] = obj
        elif obj == name and name in KERNEL_CONTROLLERS:
            found[name] = None
        else:
            built = sorted(p.name.removesuffix(".bpf.o") for p in BUILD.glob("*.bpf.o"))
            known = [b for b in built if b != "trace"] + list(KERNEL_CONTROLLERS)
            raise LabError(f"flows.{i}.controller: no controller {obj!r}; there are {', '.join(known)}")
    return found


def _controller(file: Path, name: str, obj: str | None, given: dict) -> dict:
    values = {k: v for k, v in given.items() if k not in ("object", "loader")}
    loader = given.get("loader", "asymcc")
    if loader not in ("asymcc", "bpftool"):
        raise LabError(f"{file}: controllers.{name}.loader: {loader!r} is neither 'asymcc' nor 'bpftool'")
    if loader == "bpftool" and (obj != name or values):
        raise LabError(f"{file}: controllers.{name}: bpftool registers an object as it is, with no other name and no parameters")
    return {"name": name, "object": obj, "set": values, "loader": loader}


def compile_job(case: Case, seed: int) -> dict:
    s = case.scenario
    try:
        objects = objects_needed(s)
    except LabError as e:
        raise LabError(f"{case.file}: {e}") from None
    rng = random.Random(seed)
    two_way = {f.direction for f in s.flows} == {"forward", "reverse"}
    data = s.flows[0].direction
    size = {"forward": s.path.mtu, "reverse": s.path.mtu}
    if not two_way:
        size["reverse" if data == "forward" else "forward"] = ACK_MTU
    nodes = [{"name": n, "sysctls": {**COMMON, **PROFILES[s.profile], "net.ipv4.ip_forward": 1}} for n in ("left", "right")]
    links, routes, probes = [], [], []

    def link(a: str, b: str, ab: dict, ba: dict) -> tuple[dict, dict]:
        k = len(links) + 1
        ends = [{"node": n, "dev": f"{n}-{m}", "addr": f"10.77.{k}.{i}", "mac": f"02:00:00:00:{k:02x}:{i:02x}", "shape": shape}
                for i, n, m, shape in ((1, a, b, ab), (2, b, a, ba))]
        links.append({"a": ends[0], "b": ends[1], "mtu": s.path.mtu})
        return ends[0], ends[1]

    fwd, rev = s.path.forward, s.path.reverse
    shapes = {"forward": _shape(fwd, size["forward"]), "reverse": _shape(rev, size["reverse"])}
    left, right = link("left", "right", shapes["forward"], shapes["reverse"])
    flows = []
    for group, flow in enumerate(s.flows):
        src, dst = f"src{group}", f"dst{group}"
        nodes += [{"name": n, "sysctls": {**COMMON, **PROFILES[s.profile]}} for n in (src, dst)]
        extra = flow.extra_delay
        to_right = {"delay_us": fwd.delay + extra, "loss": fwd.loss}
        to_left = {"delay_us": rev.delay + extra, "loss": rev.loss}
        a, b = (src, dst) if flow.direction == "forward" else (dst, src)
        at_left, left_a = link(a, "left", {}, to_left)
        at_right, right_b = link(b, "right", {}, to_right)
        host = {a: at_left, b: at_right}
        for router, via, far in (("left", right, right_b), ("right", left, left_a)):
            end = left if router == "left" else right
            routes.append({"node": router, "dst": far["addr"].rsplit(".", 1)[0] + ".0/30", "via": via["addr"], "dev": end["dev"], "attrs": ""})
        for node, gateway in ((a, left_a), (b, right_b)):
            attrs = []
            if node == src:  # from the handshake on; iperf3's own option comes after the first segment
                attrs.append(f"congctl {flow.controller}")
            if node == dst:
                if flow.ack == "every":
                    attrs.append("quickack 1")
                if not two_way:
                    attrs.append(f"mtu lock {ACK_MTU} advmss {s.path.mtu - 40}")
            routes.append({"node": node, "dst": "default", "via": gateway["addr"], "dev": host[node]["dev"], "attrs": " ".join(attrs)})
        for _ in range(flow.count):
            flows.append({"id": len(flows), "group": group, "src": src, "dst": dst, "src_addr": host[src]["addr"],
                          "dst_addr": host[dst]["addr"], "controller": flow.controller,
                          "start_s": (flow.start + rng.random() * s.run.start_jitter) / 1e6,
                          "stop_s": None if flow.stop is None else flow.stop / 1e6})
        there, back = (fwd, rev) if flow.direction == "forward" else (rev, fwd)
        kinds = ("forward", "reverse") if flow.direction == "forward" else ("reverse", "forward")
        base = there.delay + back.delay + 2 * extra  # a small probe passes a full bucket at once
        slowest = max(8e6 * shape["probe_bytes"] / shape["rate_bps"] for shape in shapes.values())
        probes.append({"src": src, "dst": dst, "src_addr": host[src]["addr"], "dst_addr": host[dst]["addr"], "base_rtt_us": base,
                       "timeout_s": 1 + (4 * base + 16 * slowest) / 1e6, "forward": shapes[kinds[0]], "reverse": shapes[kinds[1]]})
    return {
        "seed": seed, "duration_s": s.run.duration / 1e6, "measure_from_s": s.run.measure_from / 1e6, "bin_ms": BIN_MS,
        "nodes": nodes, "links": links, "routes": routes, "flows": flows,
        "controllers": [_controller(case.file, name, obj, s.controllers.get(name, {})) for name, obj in sorted(objects.items())],
        "watch": {"forward": {"dev": left["dev"], "rate_bps": fwd.rate}, "reverse": {"dev": right["dev"], "rate_bps": rev.rate}},
        "probes": probes, "payload_share": 1 - header_bytes(s) / s.path.mtu,
    }


def job_objects(job: dict) -> list[Path]:
    """The BPF objects that a job brings along."""
    return [BUILD / f"{name}.bpf.o" for name in sorted({c["object"] for c in job["controllers"] if c["object"]})]
