# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tunnels between two nodes: their devices, and what WireGuard must be told."""

import os
import socket
import struct

from .job import Tunnel
from .netlink import GENERIC, NESTED, Netlink, Request, add_address, attribute, new_device, one_packet_at_once, set_up

LOCAL = {"ipip": 2, "gre": 6}  # the attribute of the outer source; the next one is that of the destination
OPTION = {"ipip": "NET_IPIP", "gre": "NET_IPGRE", "wireguard": "WIREGUARD"}
SET_DEVICE, PORT = 1, 51820
WG_NAME, WG_PRIVATE, WG_PORT, WG_PEERS, PEER_KEY, PEER_ENDPOINT, PEER_ALLOWED = 2, 3, 6, 8, 1, 4, 9
# The ends' private keys, and the public ones (RFC 7748) that follow from them. They protect nothing.
PRIVATE = bytes([1] * 32), bytes([2] * 32)
PUBLIC = (
    bytes.fromhex("a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209"),
    bytes.fromhex("ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d59"),
)
FALLBACK = "/proc/sys/net/core/fb_tunnels_only_for_init_net"


def none_unasked() -> None:
    """No namespace gets tunnels that nobody asked for, tunl0 and others."""
    if os.path.exists(FALLBACK):
        with open(FALLBACK, "w") as f:
            f.write("2")


def made(tunnel: Tunnel) -> list[Request]:
    """For a node's device; all else asks for its number."""
    own, words = b"", ""
    if first := LOCAL.get(tunnel.kind):
        own = attribute(first, socket.inet_aton(tunnel.local)) + attribute(first + 1, socket.inet_aton(tunnel.remote))
        words = f" local {tunnel.local} remote {tunnel.remote}"
    return [new_device(tunnel.dev, tunnel.mtu, tunnel.kind, own, words)]


def ready(tunnel: Tunnel) -> list[Request]:
    return [one_packet_at_once(tunnel.dev), set_up(tunnel.dev), add_address(tunnel.dev, tunnel.addr, 30)]


def tell_keys(tunnel: Tunnel) -> None:
    """WireGuard, in the node's namespace: its key, and its peer, to whom all goes."""
    if tunnel.kind != "wireguard":
        return
    far = 1 - tunnel.number
    everything = attribute(1, struct.pack("H", socket.AF_INET)) + attribute(2, bytes(4)) + attribute(3, b"\0")
    endpoint = struct.pack("=H", socket.AF_INET) + struct.pack("!H", PORT) + socket.inet_aton(tunnel.remote) + bytes(8)
    peer = attribute(PEER_KEY, PUBLIC[far]) + attribute(PEER_ENDPOINT, endpoint)
    peer += attribute(PEER_ALLOWED | NESTED, attribute(NESTED, everything))
    body = struct.pack("BBxx", SET_DEVICE, 1) + attribute(WG_NAME, tunnel.dev.encode() + b"\0")
    body += attribute(WG_PRIVATE, PRIVATE[tunnel.number]) + attribute(WG_PORT, struct.pack("H", PORT))
    body += attribute(WG_PEERS | NESTED, attribute(NESTED, peer))
    with Netlink(GENERIC) as kernel:
        what = f"set {tunnel.dev} peer {tunnel.remote}"
        kernel.ask(tunnel.node, [Request(what, kernel.family("wireguard"), 0, body, "wg")])


def came(dev: str) -> int:
    """Packets that came out of a device, in its node's namespace."""
    with open("/proc/thread-self/net/dev") as f:
        (line,) = (line for line in f if line.strip().startswith(f"{dev}:"))
    return int(line.split()[2])
