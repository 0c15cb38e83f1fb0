# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The hosts of programs on a planned network, and the programs in the job.

The network is topology.py's, which needs this module: so its types have no names here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..guest import job
from ..guest.programs import Program, WithPrograms
from . import shapes
from .crossing import Flow
from .programs import Host, pack_of, switch_of

UNPRIVILEGED = "net.ipv4.ip_unprivileged_port_start"  # programs have no capabilities


def add_hosts(built: Any) -> dict[str, job.End]:
    """Each host's end of its link, by the host's name."""
    s, last = built.s, built.hops.count + 1
    ends = {}
    for i, (name, host) in enumerate(s.hosts.items()):
        if host.flows is not None:
            ends[name] = _of_flows(built, host, last)
            continue
        node = f"host{i}"
        sysctls = {**built.of_host, UNPRIVILEGED: 0, **s.host_sysctls, **host.sysctls}
        built.nodes.append(job.Node(node, sysctls))
        ends[name] = end = _link(built.hops, node, switch_of(host, last), host.extra_delay)
        controller = [f"congctl {host.controller}"] if host.controller else []
        built.network.way_out(end, controller + ["quickack 1"] * ((host.ack or s.ack) == "every"))
    if s.programs:
        built.probes.append(_probe(built, ends))
    return ends


def _of_flows(built: Any, host: Host, last: int) -> job.End:
    """The end of a host that flows have already."""
    source, _ = built.s.switches(built.s.flows[host.flows])
    end = built.hosts[host.flows][switch_of(host, last) != source]
    at = next(i for i, node in enumerate(built.nodes) if node.name == end.node)
    built.nodes[at] = replace(built.nodes[at], sysctls={**built.nodes[at].sysctls, UNPRIVILEGED: 0})
    if host.controller:
        built.network.amend_way_out(end, [f"congctl {host.controller}"])
    return end


def _link(hops: Any, node: str, number: int, extra: int) -> job.End:
    """A host on the switch of that number, to which all others have a route. Its end of the link."""
    switch, ends = hops.switches[number - 1], hops.network.ends
    slot_us = hops.s.coalesce if hops.s.offloads else 0
    way = "reverse" if number == 1 else "forward"
    to_host = (
        shapes.propagation(hops.specs[1, way], extra, slot_us)
        if hops.dumbbell
        else job.Propagation(extra, 0.0, 0.0, slot_us=slot_us)
    )
    hops.network.link(node, switch, job.Unshaped(), to_host, hops.s.offloads, hops.s.segment)
    if hops.dumbbell:
        hops.delay_ends[1, way].append((ends[switch, node], extra))
    at = hops.trunk.index(switch)
    for i, (a, b) in enumerate(pairwise(hops.trunk)):
        hops.network.route(*((a, b) if i < at else (b, a)), ends[node, switch])
    return ends[node, switch]


def _probe(built: Any, ends: dict[str, job.End]) -> job.Probe:
    """Between the leftmost host and the rightmost."""

    def place(of: tuple[str, Host]) -> int:
        return switch_of(of[1], built.hops.count + 1)

    hosts = built.s.hosts.items()
    left, right = min(hosts, key=place), max(hosts, key=place)
    addr = {ends[name].node: ends[name].addr for name, _ in (left, right)}
    src, dst = addr
    flow = Flow(controller="reno", enter=place(left), leave=place(right))
    probe = built.probe(flow, src, dst, addr, "forward", "reverse")
    extra = sum(
        host.extra_delay if host.flows is None else built.s.flows[host.flows].extra_delay for _, host in (left, right)
    )
    return replace(probe, base_rtt_us=probe.base_rtt_us + extra)


def with_programs(planned: job.Job, s: Any, ends: dict[str, job.End]) -> WithPrograms:
    names = {name: end.addr for name, end in ends.items()}
    return WithPrograms(**vars(planned), programs=list(_programs(s, ends)), names=names)


def _programs(s: Any, ends: dict[str, job.End]) -> Iterator[Program]:
    for i, program in enumerate(s.programs):
        yield Program(
            name=program.name,
            node=ends[program.host].node,
            host=program.host,
            pack=pack_of(i, program, s),
            run=program.run,
            env=program.env,
            start_s=program.start / 1e6,
            stop_s=None if program.stop is None else program.stop / 1e6,
            ends=program.ends,
            result=program.result,
        )
