# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tunnels: what they add to a packet, and what cannot be beside one. Its ends are the first switch and the last."""

from __future__ import annotations

from typing import Any, Literal, get_args

Kind = Literal["ipip", "gre", "wireguard"]
HEADERS: dict[Kind, int] = {"ipip": 20, "gre": 24, "wireguard": 60}  # bytes of a full packet: IPv4 and its own
UNIT = {"wireguard": 16}  # it fills up to whole ones, as far as its MTU goes
HANDSHAKE = {"wireguard": 176}  # bytes of the largest packet of its own

assert tuple(HEADERS) == get_args(Kind)


def adds(kind: Kind | None) -> int:
    """Bytes, to a full packet."""
    return HEADERS[kind] if kind else 0


def outer(kind: Kind | None, size: int) -> int:
    """Bytes on the path of a packet of so many; of a full one, which is not filled up, they may be more."""
    return size + -size % UNIT.get(kind or "", 1) + adds(kind)


def room(kind: Kind | None, size: int) -> int:
    """Bytes that a queue of small packets must pass for one of so many."""
    return max(outer(kind, size), HANDSHAKE.get(kind or "", 0))


def inner(kind: Kind | None, size: int) -> int:
    """The largest packet that has at most so many bytes on the path."""
    return (size - adds(kind)) // (unit := UNIT.get(kind or "", 1)) * unit


def check(s: Any) -> None:
    """ValueError for what cannot be beside the tunnel of a scenario."""
    kind, last = s.path.tunnel, len(s.path.chain) + 1
    if not kind:
        return
    if s.ip == 6:
        raise ValueError("path.tunnel: takes ip = 4")
    for way in (way for hop in s.path.chain for way in (hop.forward, hop.reverse)):
        if hidden := [key for key in ("strip", "rewrite") if getattr(way, key)]:
            raise ValueError(f"path.tunnel: hides TCP's options from a middlebox: give no {hidden[0]}")
    if any(change.mtu for change in s.changes):
        raise ValueError("path.tunnel: has an MTU of its own: give no change of mtu")
    if s.uplink and s.uplink.probe:
        raise ValueError("path.tunnel: hides the hosts from a router: give no uplink.probe")
    if any({*s.switches(load)} != {1, last} for load in (*s.flows, *s.background)) or any(
        isinstance(host.at, int) and host.at not in (1, last) for host in s.hosts.values()
    ):
        raise ValueError("path.tunnel: leads from the first switch to the last: all flows, loads and hosts take it")
    for i, load in enumerate(s.background):
        if load.packet > (most := s.path.mtu - adds(kind)):
            raise ValueError(f"background.{i}.packet: {load.packet} bytes are more than the tunnel's mtu, {most}")
