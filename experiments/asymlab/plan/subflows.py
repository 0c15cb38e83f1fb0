# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The second subflow of a flow of MPTCP: from another address by the same path, or by another hop.

The network is topology.py's, which needs this module: so its types have no names here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..guest import job
from ..guest.protocol import FLOW_PORT
from .crossing import Flow


def add(built: Any, flow: Flow, source: job.End) -> None:
    """To the last flow. Its port is the only one that its host may choose."""
    first, number = built.flows[-1], len(built.flows)
    if flow.second_hop:
        addr, far = _by_another_hop(built, flow, flow.second_hop)
    else:
        addr, far = built.network.second(source), None
    second = replace(first, id=number, src_addr=addr, dst_addr=far or first.dst_addr, subflow=True)
    built.flows[-1:] = [replace(first, second=addr, second_at=far), second]
    at = next(i for i, node in enumerate(built.nodes) if node.name == source.node)
    ports: job.Sysctls = {"net.ipv4.ip_local_port_range": f"{FLOW_PORT + number} {FLOW_PORT + number}"}
    built.nodes[at] = replace(built.nodes[at], sysctls=built.nodes[at].sysctls | ports)


def _by_another_hop(built: Any, flow: Flow, hop: int) -> tuple[str, str]:
    """More links of its hosts, with routes to each other. The addresses of its source and its sink there."""
    src, dst = built.flows[-1].src, built.flows[-1].dst
    forward = flow.direction == "forward"
    pair = (src, dst) if forward else (dst, src)
    ends = built.hops.add_hosts(*pair, range(hop, hop + 1), flow.extra_delay, built.s.offloads)
    for end, to in (ends, ends[::-1]):
        built.network.aside(end, to)
    addr = {end.node: end.addr for end in ends}
    ways = ("forward", "reverse") if forward else ("reverse", "forward")
    built.probes.append(built.probe(flow.model_copy(update={"hop": hop}), src, dst, addr, *ways))
    return addr[src], addr[dst]
