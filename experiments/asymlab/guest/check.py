# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Whether this machine can run the job, and whether the network that was built is the job's."""

import itertools
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from . import tunnels
from .controllers import cgroup_mount, in_cgroup
from .job import Bottleneck, Delays, Discipline, End, Job, Probe, Propagation, Red, Train, Tunnel
from .net import Namespaces, datagrams, offloads_on, stripper, wanted_offloads
from .netlink import Queue, cake, dualpi2, gred, netem, slot_us
from .player import BYTES, Packet, Player
from .protocol import ECHO_PAYLOAD, Check, ip_udp
from .system import SO_TIMESTAMPNS, Failure

PROBE_PORT = 7
LARGEST = 1 << 16  # bytes: no datagram is cut
TRAINS = 8  # at most: loss may leave fewer than two packets of one, and those tell no rate
RATE_OFF = 0.015  # a share: a train measures to within 0.4 %, and a rate that is wrong by 2 % is found
TICK_US = 0.064  # tc counts times so
TOOLS = ("tc", "asymcc")
NO_QDISC = "kernel without qdisc {} (CONFIG_NET_SCH_{})"
NO_NETEM = NO_QDISC.format("netem", "NETEM")
QDISCS = {  # as one of each is made
    "tbf": "rate 1mbit burst 2000 limit 10000",
    "netem": "delay 1ms",
    "gred": "setup vqs 1 default 0",
    "cake": "bandwidth 1mbit",
    **dict.fromkeys(("codel", "fq_codel", "pie", "prio", "fq", "dualpi2"), ""),
}
# The bursts over a link with a trace.
SHY, BOLD = 1480, 1530  # bytes of one packet, or of several: an opportunity has 1500
BURSTS, AGAIN = 4, 5
BURST_MIN, BURST_MAX, BURST_NS = 4, 2000, 100_000_000  # packets, and the time that they shall take
FULL = 3  # more packets than the queue holds
EARLY_NS, LATE_NS = 50_000, 500_000  # the kernel's clocks are read one after the other; packets of one time share a CPU
READ_NS = 20_000_000  # for all counters
MARKS = ("measure", "end")
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
ETHERNET = 14
Stamped = tuple[bytes, int, Any]  # payload, the kernel's receive time in ns, sender


# --- requirements --------------------------------------------------------------------------


def missing(job: Job, ns: Namespaces, objects: str) -> list[str]:
    """The job's needs that this machine lacks: a list of sentences, empty if it can run."""
    if os.geteuid() != 0:
        return ["not root: namespaces and BPF need it"]
    if lacks := _tools_missing(job):
        return lacks
    ns.add("probe")
    if job.strips:
        with ns.enter("probe"):
            p = subprocess.run(["nft", "-f", "-"], input=stripper("lo", [253], False), capture_output=True, text=True)
        if p.returncode:
            lacks.append("kernel whose nf_tables cannot strip TCP options (CONFIG_NF_TABLES, Linux 5.18)")
    if in_cgroup(job, objects) and not cgroup_mount():
        lacks.append("no cgroup2 is mounted; `mount -t cgroup2 none /sys/fs/cgroup` does it where systemd does not")
    if job.tunnels:
        try:
            ns.tell("probe", partial(tunnels.made, job.tunnels[0]))
        except Failure as e:
            lacks.append(f"kernel without CONFIG_{tunnels.OPTION[job.tunnels[0].kind]}: {e}")
    return lacks + _controllers_missing(job, ns)


def _tools_missing(job: Job) -> list[str]:
    tools = {
        *TOOLS,
        *(c.loader for c in job.controllers),
        *(["nft"] if job.strips or job.rewrites or job.codepoints else []),
    }
    lacks = [f"{tool}: not installed" for tool in sorted(tools) if not shutil.which(tool)]
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        lacks.append("kernel without BTF (CONFIG_DEBUG_INFO_BTF): no struct_ops, no tracing")
    return lacks


def qdiscs_missing(job: Job, ns: Namespaces) -> list[str]:
    """Told once a network is refused: to try them takes a process."""
    shapes = [shape for _, shape in job.shapes]
    queues = [s for s in shapes if isinstance(s, Bottleneck)]
    played = any(s.trace for s in queues) or any(isinstance(s, Delays) for s in shapes)
    needed = {
        "tbf": any(not (s.cake or s.trace) for s in queues),
        "gred": any(s.red for s in queues),
        "cake": any(s.cake for s in queues),
        "prio": played,
        "fq": played,
        "netem": any(isinstance(s, Propagation) and s != Propagation(0, 0.0, 0.0) for s in shapes),
    }
    needed |= {s.discipline.kind: True for s in queues if s.discipline}
    tried = [(kind, how) for kind, how in QDISCS.items() if needed.get(kind)]
    text = "".join(f"qdisc replace dev lo root {kind} {how}\n" for kind, how in tried)
    p = subprocess.run(
        ["tc", "-n", ns.name("probe"), "-force", "-batch", "-"], input=text, capture_output=True, text=True
    )
    failed = {int(line) for line in re.findall(r"^Command failed -:(\d+)$", p.stderr, re.MULTILINE)}
    return [NO_QDISC.format(kind, kind.upper()) for line, (kind, _) in enumerate(tried, 1) if line in failed]


def _controllers_missing(job: Job, ns: Namespaces) -> list[str]:
    lacks = []
    loaded = {c.name for c in job.controllers if c.object}
    with ns.enter("probe"):
        s = socket.socket()
        for name in sorted({f.controller for f in job.flows} - loaded):
            try:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError:
                lacks.append(f"kernel without controller {name} (CONFIG_TCP_CONG_{name.upper()})")
        s.close()
    return lacks


# --- probes --------------------------------------------------------------------------------


def stamped_receive(sock: socket.socket) -> Stamped | None:
    """The next datagram; None after the time limit."""
    try:
        data, control, _, peer = sock.recvmsg(LARGEST, 128)
    except TimeoutError:
        return None
    sec, nsec = struct.unpack("qq", control[0][2])
    return data, sec * 10**9 + nsec, peer


def probe_sockets(ns: Namespaces, probe: Probe) -> list[socket.socket]:
    pair = []
    for node, addr in ((probe.src, probe.src_addr), (probe.dst, probe.dst_addr)):
        with ns.enter(node):
            s = datagrams(addr)
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        s.bind((addr, PROBE_PORT))
        s.settimeout(probe.timeout_s)
        pair.append(s)
    return pair


def expect(sock: socket.socket, number: int) -> Stamped | None:
    """The datagram of that number: others are late, or come twice."""
    while (got := stamped_receive(sock)) and struct.unpack_from("<I", got[0])[0] != number:
        pass
    return got


def base_rtt(src: socket.socket, dst: socket.socket, probe: Probe) -> float | None:
    """The middle one of some round trips of a small datagram, us; None if none came back.

    Fewer than half are shorter if packets overtake.
    """
    took: list[int] = []
    for i in range(50):
        time.sleep(probe.pause_s)
        datagram = struct.pack("<I", i).ljust(ECHO_PAYLOAD, b"\0")
        sent = time.time_ns()
        src.sendto(datagram, (probe.dst_addr, PROBE_PORT))
        there = expect(dst, i)
        if not there:
            continue
        back = time.time_ns()
        dst.sendto(datagram, there[2])
        here = expect(src, i)
        if here:
            took.append((here[1] - back) + (there[1] - sent))
        if len(took) == probe.trips:
            break
    return sorted(took)[len(took) // 2] / 1000 if took else None


def link_rate(
    sender: socket.socket, receiver: socket.socket, to: str, train: Train, single: bool = False
) -> tuple[float, float]:
    """IP bit/s of a back-to-back train's arrivals, at least and at most; 0 if none came.

    They are apart if packets were lost or came twice: those took their time at the slowest queue, or never did. Behind
    a `single` queue, that is always full before it drops, each that was lost did, and no copy. Packets that overtook
    count as lost. The median of the gaps tells if some come early and overtake none.
    """
    for i in range(train.packets):
        sender.sendto(struct.pack("<I", i).ljust(train.bytes - ip_udp(to), b"\0"), (to, PROBE_PORT))
    came: dict[int, int] = {}  # number: when first
    copies: list[int] = []  # when they came
    while len(came) < train.packets and (got := stamped_receive(receiver)):
        if len(got[0]) == train.bytes - ip_udp(to):
            (number,) = struct.unpack_from("<I", got[0])
            if number in came:
                copies.append(got[1])
            came.setdefault(number, got[1])
    # From the last on, those that no earlier packet follows, be it one of the first that are skipped.
    kept, lowest = [], train.packets
    for number, at in reversed(came.items()):
        if number < lowest:
            lowest = number
            if number >= train.skip:
                kept.append((number, at))
    if len(kept) < 2:
        return 0.0, 0.0
    if train.early:
        gaps = sorted(t1 - t0 for (n1, t1), (n0, t0) in zip(kept, kept[1:]) if n1 == n0 + 1)
        rate = train.bytes * 8e9 / gaps[len(gaps) // 2] if gaps else 0.0
        return rate, rate
    rates = []
    # One at an end may be late: the copy of one that was lost, where a later hop sent both one after the other.
    ends = 2 if len(came) < train.packets and len(kept) > 3 else 1
    for begin, end in itertools.product(range(len(kept) - ends, len(kept)), range(ends)):
        (first, t0), (last, t1) = kept[begin], kept[end]
        least = begin - end
        most = least if train.lost_before else last - first
        if single:
            least = most
        else:
            most += sum(t0 < at < t1 for at in copies)
        rates += [packets * train.bytes * 8e9 / (t1 - t0) for packets in (least, most)]
    return min(rates), max(rates)


# --- the self-check ------------------------------------------------------------------------


def self_check(job: Job, ns: Namespaces, players: list[Player], relayed: Sequence[str] = ()) -> list[dict]:
    """Measures the network before any flow runs; each entry: what, expected, measured, ok. `relayed`: devices that have
    no netem."""
    peers = {end.dev: peer for link in job.links for end, peer in (link.ends, link.ends[::-1])}
    rows = [_check_trace(ns, player, peers[player.end.dev]) for player in players]
    queues = [(end, end.shape) for end in job.ends if isinstance(end.shape, Bottleneck)]
    single = len(job.watch) == 1 and not any(shape.drops_early for _, shape in queues)
    for number, probe in enumerate(job.probes):
        if number:  # trains have emptied the buckets
            time.sleep(max(8 * shape.burst_bytes / shape.rate_bps for _, shape in queues))
        rows += _check_probe(ns, probe, single)
    chances = [
        (end, end.shape)
        for end in job.ends
        if isinstance(end.shape, Propagation) and end.shape.by_chance and end.dev not in relayed
    ]
    disciplines = ns.queues([end for end, _ in (*queues, *chances)])
    for end, shape in queues:
        if shape.trace:
            continue
        if shape.discipline and shape.discipline.kind == "dualpi2":
            rows.append(_check_dualpi2(disciplines[end.dev], end, shape.discipline))
        elif shape.red:
            rows.append(_check_red(ns, disciplines[end.dev], end, shape.red))
        elif shape.discipline:
            rows.append(_check_rule(ns, end, shape.discipline))
        else:
            rows.append((_check_cake if shape.cake else _check_queue)(disciplines[end.dev], end, shape))
    rows += [_check_netem(disciplines[end.dev], end, shape) for end, shape in chances]
    rows += [_check_tunnel(ns, tunnel) for tunnel in job.tunnels]
    on = [f"{end.dev} {what}" for end in job.ends for what in offloads_on(ns, end)]
    wanted = [f"{end.dev} {what}" for end in job.ends for what in wanted_offloads(end)]
    return [*rows, _row(Check.OFFLOADS, "", wanted, on, on == wanted)]


def _check_tunnel(ns: Namespaces, tunnel: Tunnel) -> dict:
    """Whether the probes came by it."""
    with ns.enter(tunnel.node):
        came = tunnels.came(tunnel.dev)
    return _row(Check.TUNNEL, tunnel.dev, 1, came, came > 0)


def check_slots(job: Job, ns: Namespaces) -> list[dict]:
    """The time between two groups of packets."""
    slotted = [(end, end.shape) for end in job.ends if isinstance(end.shape, Propagation) and end.shape.slot_us]
    queues = ns.queues([end for end, _ in slotted])
    times = [next((slot_us(q.options) for q in queues[end.dev] if q.kind == "netem"), 0.0) for end, _ in slotted]
    return [
        _row(Check.SLOTS, end.dev, shape.slot_us, us, _near(us, shape.slot_us))
        for us, (end, shape) in zip(times, slotted)
    ]


def _row(kind: Check, of: str, expected: Any, measured: Any, ok: bool) -> dict:
    return {"what": kind.what(of), "expected": expected, "measured": measured, "ok": ok}


def _rate(sender: socket.socket, receiver: socket.socket, to: str, train: Train, single: bool) -> tuple[float, float]:
    """The first that a train tells; where packets come early the median, as a short queue's train has few gaps."""
    rates = filter(any, (link_rate(sender, receiver, to, train, single) for _ in range(TRAINS)))
    if not train.early:
        return next(rates, (0.0, 0.0))
    ordered = sorted(rates)
    return ordered[len(ordered) // 2] if ordered else (0.0, 0.0)


def _check_probe(ns: Namespaces, probe: Probe, single: bool) -> list[dict]:
    """`single`: as in link_rate()."""
    src, dst = probe_sockets(ns, probe)
    between, expected, rtt = f"{probe.src}-{probe.dst}", probe.base_rtt_us, base_rtt(src, dst, probe)
    off = max(500, 0.01 * expected) + probe.jitter_us
    good = rtt is not None and -off <= rtt - expected <= off + probe.wait_us
    rows = [_row(Check.BASE_RTT, between, expected, rtt, good)]
    for kind, train, sender, receiver, to in (
        (Check.FORWARD_RATE, probe.forward, src, dst, probe.dst_addr),
        (Check.REVERSE_RATE, probe.reverse, dst, src, probe.src_addr),
    ):
        if train and train.packets:
            low, high = _rate(sender, receiver, to, train, single)
            good = low <= (1 + RATE_OFF) * train.rate_bps and high >= (1 - RATE_OFF) * train.rate_bps
            rows.append(_row(kind, between, train.rate_bps, high, good))
        elif train:
            why = "jitter would be measured" if probe.jitter_us else "the queue is too short for a train"
            why = "a trace is on the way" if probe.wait_us else why
            rows.append(_row(kind, between, train.rate_bps, f"not measured: {why}", True))
    src.close()
    dst.close()
    return rows


def _check_red(ns: Namespaces, queues: list[Queue], end: End, red: Red) -> dict:
    """No train tells odds, as with netem: the kernel tells its settings."""
    wanted = _as_tc_tells(red)
    first = ns.options(end).get("gred", {"vqs": [{}]})["vqs"][0]
    measured = {key: value for key, value in first.items() if key in wanted}
    same = measured == wanted
    wanted["probability"] = red.probability
    measured["probability"] = next((gred(q.options) for q in queues if q.kind == "gred"), 0.0)
    return _row(Check.RED, end.dev, wanted, measured, same and _near(measured["probability"], red.probability))


def _check_rule(ns: Namespaces, end: End, rule: Discipline) -> dict:
    """A queue with a rule when to drop."""
    queue = ns.options(end)
    wanted = {**rule.options, **({} if rule.kind == "fq" else {"ecn": rule.ecn})}
    options = {key: queue.get(rule.kind, {}).get(key, False) for key in wanted}
    return _row(Check.DISCIPLINE, end.dev, wanted, options, all(_near(options[key], wanted[key]) for key in wanted))


def _check_dualpi2(queues: list[Queue], end: End, wanted: Discipline) -> dict:
    options = next((dualpi2(q.options) for q in queues if q.kind == "dualpi2"), {})
    return _row(Check.DISCIPLINE, end.dev, wanted.options, options, options == wanted.options)


def _check_cake(queues: list[Queue], end: End, shape: Bottleneck) -> dict:
    assert shape.cake
    wanted = {"rate_bps": shape.rate_bps // 8 * 8, **asdict(shape.cake)}  # the kernel counts bytes a second
    options = next((cake(q.options) for q in queues if q.kind == "cake"), {})
    return _row(Check.CAKE, end.dev, wanted, options, options == wanted)


def _near(value: float, wanted: float, unit: float = 2**-32) -> bool:
    """The kernel counts odds, and tc counts times, in units of their own."""
    return abs(value - wanted) <= max(0.002 * wanted, unit)


def _check_netem(queues: list[Queue], end: End, shape: Propagation) -> dict:
    """The odds and times that netem was given: chance decides by them.

    No train tells them: a share p is known to 2 %, twice of three times, after 2500 / p packets.
    """
    wanted = {
        "delay_us": shape.delay_us,
        "jitter_us": shape.jitter_us,
        "loss": shape.loss,
        "burst": shape.loss_burst,
        "reorder": shape.reorder,
        "duplicate": shape.duplicate,
    }
    options = next((netem(q.options) for q in queues if q.kind == "netem"), dict.fromkeys(wanted, 0.0))
    if options.get("begin"):  # a burst is as long, and a pause between two, as a chain of two states stays in each
        options |= {"loss": options["begin"] / (options["begin"] + options["end"]), "burst": 1 / options["end"]}
    measured = {key: options.get(key, 0.0) for key in wanted}
    units = {"delay_us": TICK_US, "jitter_us": TICK_US}
    near = all(_near(measured[key], wanted[key], units.get(key, 2**-32)) for key in wanted)
    return _row(Check.NETEM, end.dev, wanted, measured, near)


def _check_queue(queues: list[Queue], end: End, shape: Bottleneck) -> dict:
    limits = [struct.unpack_from("I", q.options)[0] for q in queues if q.kind == "pfifo"]
    limit = limits[0] if limits else None
    return _row(Check.QUEUE, end.dev, shape.queue_packets, limit, limit == shape.queue_packets)


def _as_tc_tells(red: Red) -> dict:
    return {
        "limit": red.limit_bytes,
        "min": red.min_bytes,
        "max": red.max_bytes,
        "ewma": red.weight_log,
        "ecn": red.ecn,
    }


# --- links with a trace --------------------------------------------------------------------


def _check_trace(ns: Namespaces, player: Player, peer: End) -> dict:
    """How many packets of bursts were sent, leave when the trace says so, and are dropped when the queue is full.

    Packets of these sizes take another opportunity if one has 2 % more bytes, or less. Bursts begin at odd times: a
    clock that is wrong by as much comes between two milliseconds.
    """
    pieces = -(-BOLD // player.shape.packet_bytes)
    bursts = [
        _burst(ns, player, peer, size // pieces, (number * 17 % 23 + 7) / 1000)
        for size in (SHY, BOLD)
        for number in range(BURSTS)
    ]
    sent, good = (sum(counts) for counts in zip(*bursts))
    return _row(Check.TRACE, player.end.dev, sent, good, sent == good)


def _burst(ns: Namespaces, player: Player, peer: End, size: int, after_s: float) -> tuple[int, int]:
    """Packets that were sent back to back, and those of them that did as the trace says."""
    sender, receiver = neighbours(ns, player.end, peer)
    for _ in range(AGAIN):
        time.sleep(after_s)
        begun = time.monotonic_ns() - player.zero_ns
        whole = player.trace.leave([Packet(begun, size)] * min(player.shape.queue_packets, BURST_MAX))
        count = sum(1 for at in whole if at is not None and at <= begun + BURST_NS)
        count = max(count, min(len(whole), BURST_MIN)) + (FULL if len(whole) == player.shape.queue_packets else 0)
        times = [begun]
        for i in range(count):
            sender.sendto(struct.pack("<I", i).ljust(size - ip_udp(peer.addr), b"\0"), (peer.addr, PROBE_PORT))
            times.append(time.monotonic_ns() - player.zero_ns)
        wanted, other = (player.trace.leave([Packet(t, size) for t in of]) for of in (times[:-1], times[1:]))
        last = max(at for at in wanted if at is not None)
        receiver.settimeout(max(0.0, (last - times[-1]) / 1e9) + 0.2)
        to_trace = time.time_ns() - time.monotonic_ns() + player.zero_ns
        came: dict[int, int] = {}
        while len(came) < count - wanted.count(None) and (got := stamped_receive(receiver)):
            came.setdefault(struct.unpack_from("<I", got[0])[0], got[1] - to_trace)
        if wanted == other:  # else an opportunity came while a packet was sent: it may have been before or after
            break
    sender.close()
    receiver.close()
    return count, sum(as_wanted(at, came.get(i)) for i, at in enumerate(wanted))


def as_wanted(wanted: int | None, came: int | None) -> bool:
    if wanted is None or came is None:
        return wanted == came
    return -EARLY_NS <= came - wanted <= LATE_NS


def neighbours(ns: Namespaces, end: End, peer: End) -> tuple[socket.socket, socket.socket]:
    """Sockets at both ends of a link: nothing but the link is between them."""
    pair = []
    for at in (end, peer):
        with ns.enter(at.node):
            s = datagrams(at.addr)
        for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
            s.setsockopt(socket.SOL_SOCKET, option, 64 << 20)
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        s.bind((at.addr, PROBE_PORT))
        pair.append(s)
    return pair[0], pair[1]


def carried(players: list[Player], zero_ns: int, marks: dict[str, dict]) -> list[dict]:
    """After the flows: a link has carried no more than its trace allows. It may carry less: nobody may have sent."""
    rows = []
    for player in players:
        (begin, before), (end, after) = ((marks[m]["t_ns"] - zero_ns, marks[m]["qdisc"][player.end.dev]) for m in MARKS)
        packets, ethernet = after["packets"] - before["packets"], after["bytes"] - before["bytes"]
        count = player.trace.before(end + READ_NS) - player.trace.before(begin)
        most, carried = count * BYTES + player.shape.packet_bytes, ethernet - ETHERNET * packets
        rows.append(_row(Check.CARRIED, player.end.dev, most, carried, carried <= most))
    return rows
