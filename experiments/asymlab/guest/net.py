# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The job's network: namespaces, links, shaping, middleboxes, routes."""

import contextlib
import ctypes
import fcntl
import json
import math
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Collection
from functools import partial

from . import netlink, tunnels
from .job import (
    Bottleneck,
    Cake,
    Codepoint,
    Delays,
    Discipline,
    End,
    Job,
    NewMtu,
    NewShape,
    Propagation,
    Rewrite,
    Shape,
)
from .system import LIBC, Failure, completed, mount, sh

FOLDER, HOME = "/run/netns", "/proc/self/ns/net"
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_SHARED, MNT_DETACH = 1 << 12, 1 << 14, 1 << 20, 2
SIOCETHTOOL = 0x8946
OFFLOADS = {  # what to ask the kernel, and what to tell it
    "tcp-segmentation-offload": (0x1E, 0x1F),
    "generic-segmentation-offload": (0x23, 0x24),
    "generic-receive-offload": (0x2B, 0x2C),
}
# How fast RED's average falls in an idle queue. tc counts that time in ticks of 64 ns, the kernel in us; and tc means
# a power of e where the kernel takes one of 2. The bandwidth that tc asks for serves nothing else.
RED_IDLE = 1000 / 64 / math.log(2)
SEGMENTS = "segments of {} bytes out and {} in"
TIMES = ("target", "interval", "tupdate")
ROOM = 1000  # packets that a queue has more than ever wait in it
UNDER_WAY = 1_000_000  # packets on a way, at most
ECN = {
    "bleached": "{ip} ecn != not-ect {ip} ecn set not-ect",
    "remarked": "{ip} ecn ect1 {ip} ecn set ect0",
    "marked": "numgen inc mod 100 == 0 {ip} ecn set ce",
}
MIDDLEBOX = (
    "add table {ip} lab\n"
    "add chain {ip} lab middlebox {{ type filter hook {hook} priority 0; }}\n"
    "add rule {ip} lab middlebox iifname {dev} {rule}\n"
)
TENTATIVE, LOOK_S = 0x40, 0.01  # an address before its link is known to be up
REPORTED_S = 1.1  # a second, and some ticks


class Namespaces:
    """The job's nodes as network namespaces; gone with `close`, whatever happened.

    Made and removed as `ip netns` does, and seen by it. But a process for each takes 3 million instructions.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.nodes: list[str] = []
        self.home = os.open(HOME, os.O_RDONLY)

    def name(self, node: str) -> str:
        return self.prefix + node

    def add(self, node: str) -> None:
        name = self.name(node)
        try:
            _share_folder()
            os.close(os.open(f"{FOLDER}/{name}", os.O_CREAT | os.O_EXCL, 0))
            self.nodes.append(name)
            if LIBC.unshare(CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            try:
                mount(HOME, f"{FOLDER}/{name}", flags=MS_BIND)
            finally:
                join(self.home, HOME)
        except OSError as e:
            raise Failure(f"namespace {name}: {e.strerror}") from None

    def path(self, node: str) -> str:
        return f"{FOLDER}/{self.name(node)}"

    def open(self, node: str) -> int:
        return os.open(self.path(node), os.O_RDONLY | os.O_CLOEXEC)

    def enter(self, node: str) -> "_Inside":
        return _Inside(self, node)

    def tell(self, node: str, requests: Callable[[], list[netlink.Request]]) -> None:
        """The kernel, of a node's links, addresses and routes. Made within the node: there devices have numbers."""
        with self.enter(node), netlink.Netlink() as kernel:
            kernel.ask(node, requests())

    def tc(self, node: str, commands: list[str]) -> None:
        """All in one process; Failure names the command that failed, which tc tells by its line."""
        argv = ["tc", "-n", self.name(node), "-batch", "-"]
        p = completed(argv, "\n".join(commands) + "\n")
        if p.returncode:
            words = p.stderr.strip().replace("\n", "; ")
            line = re.search(r"; Command failed -:(\d+)$", words)
            what = f"tc {commands[int(line[1]) - 1]}" if line else " ".join(argv)
            raise Failure(f"{node}: {what}: {words[: line.start()] if line else words}")

    def queues(self, ends: list[End]) -> dict[str, list[netlink.Queue]]:
        """Those of each device."""
        of: dict[str, list[netlink.Queue]] = {}
        for node in dict.fromkeys(end.node for end in ends):
            with self.enter(node), netlink.Netlink() as kernel:
                queues = kernel.queues()
                of |= {end.dev: queues[netlink.index_of(end.dev)] for end in ends if end.node == node}
        return of

    def options(self, end: End) -> dict[str, dict]:
        """The options of an end's queues, by their kind, as tc tells them."""
        queues = json.loads(sh("tc", "-n", self.name(end.node), "-d", "-j", "qdisc", "show", "dev", end.dev))
        return {queue["kind"]: queue["options"] for queue in queues}

    def remove(self, node: str) -> None:
        self.nodes.remove(name := self.name(node))
        remove_namespace(name)

    def close(self) -> None:
        while self.nodes:
            remove_namespace(self.nodes.pop())


def _share_folder() -> None:
    """A mount of its own whose mounts and unmounts all see: what is removed here stays nowhere else."""
    os.makedirs(FOLDER, exist_ok=True)
    try:
        mount("", FOLDER, flags=MS_SHARED | MS_REC)
    except OSError:
        mount(FOLDER, FOLDER, flags=MS_BIND | MS_REC)
        mount("", FOLDER, flags=MS_SHARED | MS_REC)


def remove_namespace(name: str) -> None:
    LIBC.umount2(f"{FOLDER}/{name}".encode(), MNT_DETACH)
    os.unlink(f"{FOLDER}/{name}")


def join(fd: int, path: str) -> None:
    """The network namespace that is open there becomes this thread's."""
    if LIBC.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


class _Inside:
    """`with namespaces.enter(node)`: sockets, processes and /proc/sys of that node."""

    def __init__(self, namespaces: Namespaces, node: str):
        self.home, self.path = namespaces.home, namespaces.path(node)

    def __enter__(self) -> None:
        fd = os.open(self.path, os.O_RDONLY)
        join(fd, self.path)
        os.close(fd)

    def __exit__(self, *_: object) -> None:
        join(self.home, HOME)


def write_sysctls(values: dict) -> dict[str, list[str] | None]:
    """Set those the kernel has; returns what each is afterwards (None: not on this kernel)."""
    after: dict[str, list[str] | None] = {}
    for key, value in values.items():
        path = "/proc/sys/" + key.replace(".", "/")
        try:
            with open(path, "w") as f:
                f.write(str(value))
            with open(path) as f:
                after[key] = f.read().split()
        except FileNotFoundError:
            after[key] = None
        except OSError as e:
            raise Failure(f"sysctl {key}={value}: {e.strerror}") from None
    return after


# --- shaping -------------------------------------------------------------------------------


def qdisc_commands(dev: str, shape: Shape, verb: str = "add") -> list[str]:
    """tc commands for one direction of a link; with the verb "change", for another shape of the same kind."""
    if isinstance(shape, Bottleneck):
        return _bottleneck(dev, shape, verb)
    if isinstance(shape, Propagation):
        return _propagation(dev, shape, verb)
    if isinstance(shape, Delays):
        return _played(dev, UNDER_WAY, verb)  # delayer.py tells each packet's time
    return []


def _played(dev: str, room: int, verb: str) -> list[str]:
    """A program at the root tells when each packet leaves; so many wait at most."""
    return [
        f"qdisc {verb} dev {dev} root handle 1: prio bands 2 priomap {'0 ' * 16}".rstrip(),
        f"qdisc {verb} dev {dev} parent 1:1 handle 10: fq limit {room} flow_limit {room} orphan_mask 0 "
        "timer_slack 0 horizon 4200s horizon_drop",
    ]


def _bottleneck(dev: str, shape: Bottleneck, verb: str) -> list[str]:
    if shape.trace:  # player.py tells each packet's time, and drops what finds the queue full
        return _played(dev, shape.queue_packets + ROOM, verb)
    if shape.cake:  # with an overhead it counts from the IP header on
        return [f"qdisc {verb} dev {dev} root handle 1: cake bandwidth {shape.rate_bps}bit {_cake(shape.cake)}"]
    rate = (
        f"qdisc {verb} dev {dev} root handle 1: stab overhead -14 linklayer ethernet "
        f"tbf rate {shape.rate_bps}bit burst {shape.burst_bytes} limit 1000000000"
    )
    if shape.discipline:  # a changed tbf leaves it as it is
        if shape.discipline.kind == "dualpi2":  # tc does not know it: _own_queues()
            return [rate]
        return [rate, *([f"qdisc add dev {dev} parent 1:1 handle 10: {_words(shape.discipline)}"] * (verb == "add"))]
    if not (red := shape.red):  # a changed tbf has given the queue its own limit
        return [rate, f"qdisc {verb} dev {dev} parent 1:1 handle 10: pfifo limit {shape.queue_packets}"]
    # Not the kernel's red: under tbf, which only peeks, it never learns that it is idle, and its average stays.
    queue = f"dev {dev} parent 1:1 handle 10: gred"
    return [
        rate,
        *([f"qdisc add {queue} setup vqs 1 default 0"] if verb == "add" else []),
        f"qdisc change {queue} vq 0 prio 1 limit {red.limit_bytes} min {red.min_bytes} max {red.max_bytes} "
        f"avpkt {red.packet_bytes} burst {red.burst} bandwidth {round(shape.rate_bps * RED_IDLE)}bit "
        f"probability {red.probability:.10f}{' ecn' if red.ecn else ''}",
    ]


def _cake(cake: Cake) -> str:
    """Its options, as words of tc."""
    filters = ("" if cake.ack_filter else "no-") + "ack-filter" + ("-aggressive" if cake.aggressive else "")
    more = [f"mpu {cake.mpu}"] if cake.mpu else []
    return " ".join([f"overhead {cake.overhead}", filters, *more, *filter(None, (cake.framing, cake.isolation))])


def _words(discipline: Discipline) -> str:
    """The words that tc takes."""
    options = [f"{key} {value}{'us' if key in TIMES else ''}" for key, value in discipline.options.items()]
    marks = [] if discipline.kind == "fq" else ["ecn" if discipline.ecn else "noecn"]
    return " ".join([discipline.kind, *options, *marks])


def loss_model(shape: Propagation) -> tuple[float, float]:
    """Gilbert's: the odds that a burst of losses begins with the next packet, and that one ends."""
    return shape.loss / (shape.loss_burst * (1 - shape.loss)), 1 / shape.loss_burst


def _propagation(dev: str, shape: Propagation, verb: str) -> list[str]:
    if verb == "add" and not (shape.delay_us or shape.loss or shape.duplicate):
        return []  # with slots they come later (coalesce)
    # With a rate, be it so high that it costs nothing, netem lets no packet overtake the one before it.
    ordered = "" if shape.disorder else " rate 100gbit"
    jitter = f" {shape.jitter_us}us{ordered}" if shape.jitter_us else ""
    begin, end = loss_model(shape) if shape.loss_burst else (0.0, 0.0)
    bursts = f" loss gemodel {100 * begin:.10f}% {100 * end:.10f}%" if shape.loss_burst else ""
    shares = {"loss random": 0.0 if bursts else shape.loss, "duplicate": shape.duplicate, "reorder": shape.reorder}
    odds = bursts + "".join(f" {what} {100 * share:.10f}%" for what, share in shares.items() if share)
    slot = f" slot {shape.slot_us}us {shape.slot_us}us" if shape.slot_us and verb == "change" else ""
    verb = "replace" if verb == "change" else verb
    return [f"qdisc {verb} dev {dev} root handle 1: netem limit 1000000 delay {shape.delay_us}us{jitter}{odds}{slot}"]


def ethtool(dev: str, command: int, value: int = 0) -> int:
    """A value that the kernel's ethtool tells, or is told, of a device here.

    Not by the program of that name, which costs a mount and two starts.
    """
    data = ctypes.create_string_buffer(struct.pack("II", command, value), 8)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP16x", dev.encode(), ctypes.addressof(data)))
    except OSError as e:
        raise Failure(f"{dev}: ethtool command {command:#x}: {e.strerror}") from None
    return struct.unpack("II", data.raw)[1]


def wanted_offloads(end: End) -> list[str]:
    """No device hands on a large segment: its own kernel cuts it as it leaves, as a network card does."""
    sizes = [SEGMENTS.format(end.segment_bytes, end.segment_bytes)] if end.segment_bytes else []
    return [*list(OFFLOADS)[1:], *sizes] if end.offloads else []


def coalesce(job: Job, ns: Namespaces) -> None:
    """From now on hosts with offloads get packets in groups. Before, the rates of links are measured."""
    for end in job.ends:
        if isinstance(end.shape, Propagation) and end.shape.slot_us:
            ns.tc(end.node, qdisc_commands(end.dev, end.shape, "change"))


def offloads_on(ns: Namespaces, end: End) -> list[str]:
    with ns.enter(end.node):
        on = [what for what, (ask, _) in OFFLOADS.items() if ethtool(end.dev, ask)]
        if end.segment_bytes:
            with netlink.Netlink() as kernel:
                on.append(SEGMENTS.format(*kernel.segments(end.dev)))
        return on


def datagrams(addr: str) -> socket.socket:
    """A socket for those from or to an address."""
    return socket.socket(netlink.family(addr), socket.SOCK_DGRAM)


# --- middleboxes ---------------------------------------------------------------------------


def stripper(dev: str, kinds: list[int], syn: bool, ip: str = "ip") -> str:
    """nft commands: options of these kinds become NOPs in what comes in by a device."""
    return "".join(
        MIDDLEBOX.format(
            ip=ip, hook="forward", dev=dev, rule=f"{'' if syn else 'tcp flags & syn == 0 '}reset tcp option {kind}"
        )
        for kind in kinds
    )


def rewriter(rewrite: Rewrite, ip: str) -> str:
    """nft commands: 16 bits of an option are others in what comes in by a device."""
    rule = f"tcp option @{rewrite.kind},{8 * rewrite.offset},16 set {rewrite.value}"
    return MIDDLEBOX.format(ip=ip, hook="forward", dev=rewrite.dev, rule=rule)


def recoder(codepoint: Codepoint, ip: str, hook: str) -> str:
    """nft commands: the ECN field is another in what comes in by a device. nft mends IPv4's checksum."""
    return MIDDLEBOX.format(ip=ip, hook=hook, dev=codepoint.dev, rule=ECN[codepoint.how].format(ip=ip))


# --- the whole -----------------------------------------------------------------------------


def add_nodes(job: Job, ns: Namespaces) -> dict[str, dict]:
    """Namespaces with their sysctls. Returns the sysctls as they are."""
    sysctls = {}
    for node in job.nodes:
        ns.add(node.name)
        with ns.enter(node.name):
            sysctls[node.name] = write_sysctls(node.sysctls)
    for key in job.must_have:
        if any(values.get(key, "") is None for values in sysctls.values()):
            raise Failure(f"sysctl {key}: kernel {os.uname().release} has none in a network namespace")
    return sysctls


def build_network(job: Job, ns: Namespaces, there: Collection[str]) -> None:
    """Links, shaping, addresses, routes, middleboxes. The devices that are there get no pair and no delay."""
    _build_links(job, ns, there)
    ip = "ip6" if job.v6 else "ip"
    for strip in job.strips:
        with ns.enter(strip.node):
            sh("nft", "-f", "-", text=stripper(strip.dev, strip.kinds, strip.syn, ip))
    for rewrite in job.rewrites:
        with ns.enter(rewrite.node):
            sh("nft", "-f", "-", text=rewriter(rewrite, ip))
    for codepoint in job.codepoints:
        with ns.enter(codepoint.node):
            # A tunnel's outer packets end at the node.
            sh("nft", "-f", "-", text=recoder(codepoint, ip, "prerouting" if job.tunnels else "forward"))


def _build_links(job: Job, ns: Namespaces, there: Collection[str]) -> None:
    """The pairs of devices, then for each node its addresses and routes, then its queues."""
    with contextlib.ExitStack() as files:
        fds = {node.name: ns.open(node.name) for node in job.nodes}
        for fd in fds.values():
            files.callback(os.close, fd)
        devices = {end.dev: netlink.Device(end.dev, end.mac, fds[end.node]) for end in job.ends}
        links = [link for link in job.links if link.a.dev not in there]
        pairs = [netlink.new_pair(devices[link.a.dev], devices[link.b.dev], link.mtu) for link in links]
        ns.tell(job.nodes[0].name, lambda: pairs)
    _build_tunnels(job, ns)
    for node in job.nodes:
        ns.tell(node.name, partial(_node_requests, job, node.name))
        ends = [end for end in job.ends if end.node == node.name]
        if tc := [command for end in ends for command in _queue_commands(end, end.dev in there)]:
            ns.tc(node.name, tc)
        if any(_dualpi2(end) for end in job.ends if end.node == node.name):
            ns.tell(node.name, partial(_own_queues, job, node.name))
    for end in job.ends:
        with ns.enter(end.node):
            for what, (_, tell) in OFFLOADS.items():
                ethtool(end.dev, tell, int(what in wanted_offloads(end)))
    if job.v6:
        _wait_for_addresses(job, ns)


def _build_tunnels(job: Job, ns: Namespaces) -> None:
    for tunnel in job.tunnels:
        ns.tell(tunnel.node, partial(tunnels.made, tunnel))
        ns.tell(tunnel.node, partial(tunnels.ready, tunnel))
        with ns.enter(tunnel.node):
            tunnels.tell_keys(tunnel)
            for _, tell in OFFLOADS.values():
                ethtool(tunnel.dev, tell)


def _queue_commands(end: End, there: bool) -> list[str]:
    """A device that is there already has a queue of the host's choice, which would hold packets back."""
    if there and not isinstance(end.shape, Bottleneck):
        return [f"qdisc replace dev {end.dev} root pfifo limit 10000"]
    return qdisc_commands(end.dev, end.shape)


def _dualpi2(end: End) -> Discipline | None:
    rule = end.shape.discipline if isinstance(end.shape, Bottleneck) else None
    return rule if rule and rule.kind == "dualpi2" else None


def _own_queues(job: Job, node: str) -> list[netlink.Request]:
    """Those that tc does not know."""
    queues = [(end.dev, _dualpi2(end)) for end in job.ends if end.node == node]
    return [netlink.add_dualpi2(dev, queue.options) for dev, queue in queues if queue]


def _wait_for_addresses(job: Job, ns: Namespaces) -> None:
    """Those of IPv6 serve once their link is known to be up, and the kernel looks at links once a second. Then it
    reports their multicast groups: no such report may be among packets that are looked at."""
    for node in job.nodes:
        with ns.enter(node.name):
            while _tentative():
                time.sleep(LOOK_S)
    time.sleep(REPORTED_S)


def _tentative() -> bool:
    with open("/proc/thread-self/net/if_inet6") as f:
        return any(int(line.split()[4], 16) & TENTATIVE for line in f)


def _node_requests(job: Job, node: str) -> list[netlink.Request]:
    """All of a node, but its queues."""
    ends = [
        (end, peer) for a, b in (link.ends for link in job.links) for end, peer in ((a, b), (b, a)) if end.node == node
    ]
    requests = [netlink.one_packet_at_once(end.dev) for end, _ in ends if not end.offloads] + [netlink.set_up("lo")]
    requests += [netlink.set_segments(end.dev, end.segment_bytes) for end, _ in ends if end.segment_bytes]
    for end, peer in ends:
        requests += [
            netlink.set_up(end.dev),
            netlink.add_address(end.dev, end.addr, 112 if job.v6 else 30),
            netlink.set_neighbour(end.dev, peer.addr, peer.mac),
        ]
        by_one = (flow for flow in job.flows if flow.src_addr == end.addr and not flow.second_at)
        requests += [netlink.add_address(end.dev, flow.second, 32) for flow in by_one if flow.second]
    return requests + [netlink.add_route(r.dst, r.via, r.dev, r.attrs) for r in job.routes if r.node == node]


def send_ect1(job: Job, ns: Namespaces, objects: str) -> None:
    """A user's own way to send ECT(1): docs/prague.md."""
    for dev in job.ect1:
        add = f"filter add dev {dev} egress bpf direct-action object-file {objects}/ect1.bpf.o section tc"
        ns.tc(job.node_of(dev), [f"qdisc add dev {dev} clsact", add])


def change_path(job: Job, ns: Namespaces, path: list[NewShape | NewMtu]) -> None:
    """Devices get another shape, and the routes that leave by them another MTU.

    Not the devices themselves: their MTU binds what they take in, too.
    """
    for new in path:
        if isinstance(new, NewMtu):
            ns.tell(new.node, partial(_mtu_requests, job, new))
        else:
            ns.tc(new.node, qdisc_commands(new.dev, new.shape, "change"))


def _mtu_requests(job: Job, new: NewMtu) -> list[netlink.Request]:
    routes = [r for r in job.routes if (r.node, r.dev) == (new.node, new.dev)]
    return [netlink.add_route(r.dst, r.via, r.dev, f"mtu {new.mtu}", replace=True) for r in routes]
