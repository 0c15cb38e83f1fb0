# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The job: all that the agent needs to know of an experiment, with nothing left open.

The host builds it (plan/topology.py), the agent runs it. Between them it is JSON (wire.py).

Names of fields end in their unit: _s, _ms, _us, _ns; _bps for bit/s of IP packets; _bytes; _packets.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from .protocol import NAME, OBJECT, SYSCTL, VALUE, is_v6
from .wire import Matching

Name = Annotated[str, Matching(NAME)]
Device = Annotated[str, Matching("[a-z0-9-]{1,15}")]
Address = Annotated[str, Matching(r"[0-9.]{7,15}|[0-9a-f:]{2,39}")]
Mac = Annotated[str, Matching("[0-9a-f:]{17}")]
Sysctls = dict[Annotated[str, Matching(SYSCTL)], Annotated[int | str, Matching("[ -~]{1,200}")]]
Parameters = dict[Name, Annotated[int | str, Matching(VALUE)]]


# --- the network ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A network namespace."""

    name: Name
    sysctls: Sysctls


@dataclass(frozen=True)
class Red:
    """Random early detection, as the kernel counts it."""

    packet_bytes: int  # of the direction's usual packet
    limit_bytes: int
    min_bytes: int
    max_bytes: int
    probability: float
    burst: int  # packets that tc derives the weight from
    weight_log: int  # n of the weight 2^-n that comes of it
    ecn: bool


@dataclass(frozen=True)
class Cake:
    """CAKE, its own shaper included. tc-cake(8) says what a packet takes of its rate."""

    ack_filter: bool
    aggressive: bool = False  # the filter
    overhead: int = 0  # bytes of a packet beside its IP bytes
    mpu: int = 0  # the least bytes of a packet, with `overhead`
    framing: Literal["", "atm", "ptm"] = ""
    isolation: Literal["", "flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost"] = ""

    def takes(self, packet_bytes: int) -> int:
        """Bytes that a packet of so many IP bytes takes of the rate."""
        taken = max(packet_bytes + self.overhead, self.mpu)
        if self.framing == "atm":  # cells of 53 bytes hold 48
            return -(-taken // 48) * 53
        return taken + -(-taken // 64) if self.framing == "ptm" else taken  # a byte more for each 64


@dataclass(frozen=True)
class Discipline:
    """Another of the kernel's queues than a plain one, behind the bucket."""

    kind: Literal["codel", "fq_codel", "pie", "fq", "dualpi2"]
    options: dict[Name, int]  # as tc takes them, and of dualpi2 as the kernel does; times in us
    ecn: bool = False


@dataclass(frozen=True)
class Trace:
    """When a link may deliver (player.py). Its file comes with the objects."""

    file: Annotated[str, Matching("traces/[0-9a-f]{64}")]
    entries: int  # different times in it
    period_ms: int  # its last time, from which on it begins anew


@dataclass(frozen=True)
class Bottleneck:
    """A rate and its queue."""

    rate_bps: int  # of a trace, its highest mean of a second
    packet_bytes: int  # the largest that passes
    burst_bytes: int  # of the bucket
    queue_packets: int
    red: Red | None = None
    cake: Cake | None = None
    discipline: Discipline | None = None
    trace: Trace | None = None

    def passes_bps(self, packet_bytes: int) -> int:
        """Its rate in IP bytes, if all packets have so many."""
        return round(self.rate_bps * packet_bytes / self.cake.takes(packet_bytes)) if self.cake else self.rate_bps

    @property
    def drops_early(self) -> bool:
        """Before it is full, what has waited too long."""
        return bool(self.cake or self.discipline and self.discipline.kind != "fq")


@dataclass(frozen=True)
class Propagation:
    """A delay with loss, reordering and duplication; each of the three a share of the packets."""

    delay_us: int
    loss: float
    reorder: float
    duplicate: float = 0.0
    jitter_us: int = 0
    loss_burst: float = 0.0  # packets that are lost in a row on average; 0: each for itself
    disorder: bool = False  # packets overtake by their jitter
    slot_us: int = (
        0  # what comes in such a time is delivered at once, as a device does that interrupts its host so often
    )

    @property
    def by_chance(self) -> bool:
        """Whether chance decides about a packet."""
        return bool(self.loss or self.reorder or self.duplicate or self.jitter_us)


@dataclass(frozen=True)
class Delays:
    """A delay and losses that change over the time (delayer.py). Their file comes with the objects."""

    file: Annotated[str, Matching("traces/[0-9a-f]{64}")]
    entries: int  # parts of the time, and one for the end
    period_ms: int  # from which on it begins anew
    longest_us: int  # of the delays
    seed: int  # of the losses: 64 bits, not 0


@dataclass(frozen=True)
class Unshaped:
    """Nothing of these."""


Shape = Bottleneck | Propagation | Delays | Unshaped


@dataclass(frozen=True)
class End:
    """A node's end of a link, and the shape of what leaves by it."""

    node: Name
    dev: Device
    addr: Address
    mac: Mac
    shape: Shape
    offloads: bool = False  # its host hands over large segments, and takes what it gets at once as one
    segment_bytes: int = 0  # of the largest of these; 0: as the kernel has it


@dataclass(frozen=True)
class Link:
    a: End
    b: End
    mtu: int

    @property
    def ends(self) -> tuple[End, End]:
        return self.a, self.b


@dataclass(frozen=True)
class Tunnel:
    """A node's end of a tunnel: what leaves by its device goes to the other end as an outer packet."""

    node: Name
    dev: Device
    kind: Literal["ipip", "gre", "wireguard"]
    mtu: int
    addr: Address
    local: Address  # of the outer packets
    remote: Address
    number: int  # of its end, from 0 on


@dataclass(frozen=True)
class Route:
    node: Name
    dst: Annotated[str, Matching("default|[0-9a-f.:]{2,39}/[0-9]{1,3}")]
    via: Address
    dev: Device
    attrs: Annotated[str, Matching("[a-z0-9_ ]*")]  # more words of `ip route`


@dataclass(frozen=True)
class Strip:
    """A middlebox: TCP options of these kinds become NOPs in what comes in by a device."""

    node: Name
    dev: Device
    kinds: list[int]
    syn: bool  # in SYN segments, too


@dataclass(frozen=True)
class Rewrite:
    """A middlebox: 16 bits of a TCP option are others in what comes in by a device."""

    node: Name
    dev: Device
    kind: int
    offset: int  # bytes from the option's first
    value: int


@dataclass(frozen=True)
class Codepoint:
    """A router that changes the ECN field in what comes in by a device: ECT and CE go, ECT(1) becomes ECT(0), or one
    packet of a hundred becomes CE."""

    node: Name
    dev: Device
    how: Literal["bleached", "remarked", "marked"]


@dataclass(frozen=True)
class Policer:
    """Drops packets that come in by a device, behind the queue of its peer, above a rate and a burst."""

    node: Name
    dev: Device
    behind: Device
    rate_bps: int
    burst_bytes: int  # of IP packets


@dataclass(frozen=True)
class Uplink:
    """`asymcc uplink` on a device, in place of its queue."""

    dev: Device
    options: list[str]


@dataclass(frozen=True)
class Autorate:
    """The law of cake-autorate on the CAKE of a router's device."""

    dev: Device
    addr: Address  # from which it pings ...
    far: Address  # ... this one
    one_way: bool  # or half of the RTT
    base_bps: int
    least_bps: int
    most_bps: int


# --- what runs over it ---------------------------------------------------------------------


@dataclass(frozen=True)
class Controller:
    name: Name
    object: Annotated[str, Matching(OBJECT)] | None  # the file it comes from; None: the kernel has it
    set: Parameters
    loader: Literal["asymcc", "bpftool", "insmod"]  # the last of a module


@dataclass(frozen=True)
class Flow:
    id: int
    src: Name
    dst: Name
    src_addr: Address
    dst_addr: Address
    controller: Name
    start_s: float
    stop_s: float | None
    resume_s: float | None
    reply_bytes: int | None = None  # None: no requests
    size_bytes: int | None = None  # None: data without end
    every_s: float | None = None  # of requests; None: as soon as a reply is there
    write_bytes: int | None = None  # each 10 ms; None: as fast as the socket takes them
    second: Address | None = None  # from which it has a subflow of MPTCP; None: it is TCP
    subflow: bool = False  # it is this one, of the flow before it: the kernel makes it
    second_at: Address | None = None  # the sink's own address for it, by another path; None: the first one's


@dataclass(frozen=True)
class Background:
    """UDP datagrams at a constant bit rate."""

    id: int
    src: Name
    dst: Name
    src_addr: Address
    dst_addr: Address
    payload_bytes: int
    period_ns: int
    start_s: float
    stop_s: float | None
    hops: list[str]  # the names of those it crosses


# --- what changes meanwhile ----------------------------------------------------------------


@dataclass(frozen=True)
class SetParameters:
    at_s: float
    controller: Name
    set: Parameters


@dataclass(frozen=True)
class Command:
    """A command that a user may type; `set`: all parameters that the controller has from then on."""

    at_s: float
    controller: Name
    command: Literal["replace", "unload", "drain", "load", "use", "unuse"]
    set: Parameters


@dataclass(frozen=True)
class NewShape:
    node: Name
    dev: Device
    shape: Shape


@dataclass(frozen=True)
class NewMtu:
    node: Name
    dev: Device
    mtu: int


@dataclass(frozen=True)
class ChangePath:
    at_s: float
    path: list[NewShape | NewMtu]


# --- what is measured ----------------------------------------------------------------------


@dataclass(frozen=True)
class Watched:
    """A direction of a hop: the device of its bottleneck."""

    dev: Device
    rate_bps: int  # of a trace, its mean while the run measures


@dataclass(frozen=True)
class Hop:
    name: str
    forward: Watched
    reverse: Watched


@dataclass(frozen=True)
class Train:
    """Packets back to back, to measure a rate by."""

    packets: int  # 0: none would tell
    bytes: int
    skip: int  # the first ones, which full buckets pass at once
    rate_bps: int  # expected
    lost_before: bool = False  # what is lost was dropped before the slowest queue sent it
    early: bool = False  # a hop lets packets pass without its delay, which is no longer than a few of them take


@dataclass(frozen=True)
class Probe:
    """A self-check between two hosts."""

    src: Name
    dst: Name
    src_addr: Address
    dst_addr: Address
    base_rtt_us: int  # expected
    timeout_s: float
    pause_s: float  # until the buckets are full again after a datagram
    forward: Train | None  # None: an earlier probe measures the same way
    reverse: Train | None
    jitter_us: int = 0  # by which an RTT may differ
    wait_us: int = 0  # by which it may be longer, because a link has nothing to deliver with
    trips: int = 7  # of which the middle one counts


@dataclass(frozen=True)
class Branch:
    """From a moment on chance is another (machine/uml/rewind.c)."""

    at_s: float
    draw: int  # which, from 1 on: 32 bits


@dataclass(frozen=True)
class Job:
    seed: int
    duration_s: float
    measure_from_s: float
    bin_ms: int  # of the traces' series
    trace_state: bool  # the controllers' private state, too
    capture: bool  # headers of what leaves the first hop's queues
    audit: bool  # look for what the controllers leave in the kernel
    nodes: list[Node]
    must_have: list[str]  # sysctls that the kernel must know
    links: list[Link]
    strips: list[Strip]
    routes: list[Route]
    flows: list[Flow]
    background: list[Background]
    changes: list[SetParameters | Command | ChangePath]
    controllers: list[Controller]
    watch: list[Hop]  # from left to right
    probes: list[Probe]
    payload_share: float  # payload over IP bytes of a full data packet
    rewrites: list[Rewrite] = field(default_factory=list)
    verify: bool = False  # receivers compare what arrives
    trace_every_ms: int = 0  # of each flow one ACK at most in so long; 0: each
    thin: Parameters | None = None  # of `asymcc thin`, at all receivers; None: no ACKs are thinned
    thin_on: Device | None = None  # not there, but where a router's packets leave by this device
    policers: list[Policer] = field(default_factory=list)
    codepoints: list[Codepoint] = field(default_factory=list)
    tunnels: list[Tunnel] = field(default_factory=list)
    uplink: Uplink | Autorate | None = None
    ect1: list[Device] = field(default_factory=list)  # of hosts whose controllers send ECT(1): bpf/tools/ect1.bpf.c
    branch: Branch | None = None

    @property
    def ends(self) -> list[End]:
        return [end for link in self.links for end in link.ends]

    @property
    def v6(self) -> bool:
        return is_v6(self.links[0].a.addr)

    @property
    def shapes(self) -> list[tuple[Device, Shape]]:
        """Each device's, with those that changes give it."""
        changed = [new for change in self.changes if isinstance(change, ChangePath) for new in change.path]
        return [(of.dev, of.shape) for of in (*self.ends, *changed) if not isinstance(of, NewMtu)]

    def node_of(self, dev: Device) -> Name:
        return next(end.node for end in self.ends if end.dev == dev)


@dataclass(frozen=True)
class Refusals:
    """Instead of an experiment, in a guest: commands that the kernel shall refuse, by name."""

    seed: int
    refused: dict[Name, list[str]]
