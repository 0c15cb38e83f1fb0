# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that change the kernel beside asymcc: `others.py ROLE ARGUMENT...`, where a role is a function below."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import socket
import struct
import subprocess
import sys

DEFAULT = "/proc/sys/net/ipv4/tcp_congestion_control"


def ready(word: str = "ready") -> None:
    print(word, flush=True)


def link(file: str, name: str, pin: str = "") -> None:
    """Registers a controller by a link, as newer loaders do; pins the link, or holds it."""
    libbpf, pointer = ctypes.CDLL("libbpf.so.1"), ctypes.c_void_p
    for function in ("bpf_object__open", "bpf_object__find_map_by_name", "bpf_map__attach_struct_ops"):
        getattr(libbpf, function).restype = pointer
    opened = pointer(libbpf.bpf_object__open(file.encode()))
    ops = pointer(libbpf.bpf_object__find_map_by_name(opened, name.encode()))
    assert not libbpf.bpf_map__set_map_flags(ops, 1 << 13)  # BPF_F_LINK
    assert not libbpf.bpf_object__load(opened) and libbpf.bpf_map__attach_struct_ops(ops)
    fd = libbpf.bpf_link_create(libbpf.bpf_map__fd(ops), 0, 44, None)  # BPF_STRUCT_OPS
    assert fd >= 0, fd
    if pin:
        assert not libbpf.bpf_obj_pin(fd, pin.encode())
    ready("linked")
    sys.stdin.read()


def tcx(device: str, taken: str = "") -> None:
    """The programs on a device, "HOOK ID", ingress first; or takes one out. Debian's bpftool knows no tcx."""

    def bpf(call: int, attr) -> int:
        return ctypes.CDLL(None, use_errno=True).syscall(321, call, attr, len(attr))

    index = socket.if_nametoindex(device)
    for hook in (46, 47):
        ids = ctypes.create_string_buffer(256)
        query = struct.pack("<IIIIQII", index, hook, 0, 0, ctypes.addressof(ids), 64, 0)
        attr = ctypes.create_string_buffer(query, 64)
        assert not bpf(16, attr)
        for (number,) in list(struct.iter_unpack("<I", ids.raw))[: struct.unpack_from("<I", attr.raw, 24)[0]]:
            print(hook, number)
            if taken and int(taken) == hook:
                fd = bpf(13, ctypes.create_string_buffer(struct.pack("<I", number), 64))
                assert not bpf(9, ctypes.create_string_buffer(struct.pack("<III", index, fd, hook), 64))


def attr(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def forge() -> None:
    """Many routes, so that reading them takes a while, and meanwhile messages to all who listen to netlink here.

    A kernel could have sent some of them, and none would send the others. Each would do harm of its own kind: an error,
    an early end, a controller and a route that nobody has, lengths that lie.
    """
    routes = "".join(f"route add 10.{i // 250}.{i % 250}.0/24 dev lo congctl reno\n" for i in range(2000))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "-batch", "-"], input=routes, text=True, check=True)
    rtmsg = struct.pack("=8BI", 2, 32, 0, 0, 254, 3, 0, 1, 0)
    diag = bytes([2, 1, 0, 0]) + bytes(68)
    naming = attr(8, attr(16, b"ctcp\0"))
    bodies = [
        *((2, struct.pack("=i", -1) + bytes(16)), (3, bytes(4)), (2, b"")),
        *((24, rtmsg + attr(1, b"") + naming), (24, rtmsg + attr(1, b"\xc0\x00\x02\x01") + naming)),
        *((24, b""), (24, rtmsg + attr(12, b"x") + naming)),
        *((20, diag + attr(4, b"ctcp\0")), (20, diag + attr(4, b"no end of this name")), (20, b"")),
    ]
    sockets = {family: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) for family in (0, 4)}
    ready()
    for kind, body in itertools.cycle(bodies):
        with open("/proc/net/netlink") as file:
            rows = [line.split()[1:3] for line in file.read().splitlines()[1:]]
        for family, portid in (map(int, row) for row in rows):
            if portid and family in sockets and portid != sockets[family].getsockname()[0]:
                message = struct.pack("=IHHII", 16 + len(body), kind, 2, 0, portid) + body
                with contextlib.suppress(OSError):
                    sockets[family].sendto(message, (portid, 0))


def hoard(name: str) -> None:
    """Two routes of which a next hop is down, so that nobody can change them; and the default."""
    for near, far, address in (("v0", "v1", "10.9.0.1"), ("v2", "v3", "10.8.0.1")):
        for line in (
            f"link add {near} type veth peer name {far}",
            f"addr add {address}/24 dev {near}",
            f"link set {far} up",
            f"link set {near} up",
        ):
            subprocess.run(["ip", *line.split()], check=True)
    for prefix in ("198.51.100.0/24", "203.0.113.0/24"):
        hops = "nexthop via 10.9.0.2 nexthop via 10.8.0.2"
        subprocess.run(["ip", "route", "add", prefix, "congctl", name, *hops.split()], check=True)
    subprocess.run(["ip", "link", "set", "v2", "down"], check=True)
    with open(DEFAULT, "w") as file:
        file.write(name)
    ready()
    sys.stdin.read()


if __name__ == "__main__":
    {"link": link, "tcx": tcx, "forge": forge, "hoard": hoard}[sys.argv[1]](*sys.argv[2:])
