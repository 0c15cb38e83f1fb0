# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""MPTCP: from where a flow has a second subflow. The kernel's own path manager makes it."""

import socket
import struct

from .job import Flow, Job
from .net import Namespaces
from .netlink import GENERIC, NESTED, Netlink, Request, attribute

IPPROTO_MPTCP = 262
ADD_ADDRESS, SET_LIMITS = 1, 5
ADDRESS, RECEIVED, SUBFLOWS = 1, 2, 3  # attributes of these
FAMILY, ADDRESS_V4, FLAGS, SIGNAL, BEGINS = 1, 3, 6, 1, 2


def allow(job: Job, ns: Namespaces) -> None:
    for flow in job.flows:
        for node in (flow.src, flow.dst) if flow.second else ():
            with ns.enter(node), Netlink(GENERIC) as kernel:
                kernel.ask(node, _requests(kernel.family("mptcp_pm"), flow, node))


def _requests(number: int, flow: Flow, node: str) -> list[Request]:
    """By a path of its own the sink tells its second address, and the source's route chooses the way to it."""
    told = struct.pack("I", 1 if flow.second_at else 0)
    limits = struct.pack("BBxx", SET_LIMITS, 1) + attribute(RECEIVED, told) + attribute(SUBFLOWS, b"\1\0\0\0")
    requests = [Request("limits set subflows 1", number, 0, limits, "ip mptcp")]
    teller, addr, flags = (flow.dst, flow.second_at, SIGNAL) if flow.second_at else (flow.src, flow.second, BEGINS)
    if node == teller and addr:
        own = attribute(FAMILY, struct.pack("H", socket.AF_INET)) + attribute(ADDRESS_V4, socket.inet_aton(addr))
        own += attribute(FLAGS, struct.pack("I", flags))
        body = struct.pack("BBxx", ADD_ADDRESS, 1) + attribute(ADDRESS | NESTED, own)
        requests.append(Request(f"endpoint add {addr}", number, 0, body, "ip mptcp"))
    return requests
