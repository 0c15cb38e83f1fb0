# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Peers that misbehave toward this machine's kernel, all at once in a namespace of this process's own (`unshare -n`): how
far each controller lets them go, as JSON.

    python -m tests.live.peers.attacks CONTROLLER... [--rounds N] [--attack NAME]... [--both]

A round is what a peer does after all has arrived that the kernel could send: round trips of some ms, the same for all.
"""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.live.peers.raw import ACK, ECE, KERNEL, M32, PATTERN, Device, End, Random, Tun, less, stream

MSS, WINDOW = 1400, 1 << 17  # bytes
ROUND_S = 0.010  # at least
CHUNK = PATTERN * 4
SNDBUF = 2 << 20


class Flow(End):
    """A peer, and the kernel's socket of the same connection."""

    def __init__(self, tun: Device, family: int, port: int, to: int, name: str, attack: str, **keys) -> None:
        self.socket: socket.socket | None = None
        super().__init__(tun, family, port, to, **keys)
        self.name, self.attack, self.beside = name, attack, ""
        self.written = self.stalled = 0
        self.acked = 0  # the last ACK sent
        self.low, self.most, self.late, self.info = 1 << 32, 0, 0, b""
        self.random = Random(attack)
        self.told = 0  # marks, by a liar
        self.ticked = time.monotonic_ns() // 1_000_000

    def tick(self) -> None:
        """An honest clock is on time: one that lags hides a queue (forward.bpf.h), whatever the attack."""
        now = time.monotonic_ns() // 1_000_000
        self.clock += now - self.ticked
        self.ticked = now

    def accept(self, s: socket.socket) -> None:
        s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SNDBUF)
        self.socket, self.acked = s, self.first

    def send(self, *argv, **keys) -> None:
        super().send(*argv, **keys)
        if self.socket:
            self.watch()

    def watch(self) -> None:
        self.info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        (cwnd,) = struct.unpack_from("=I", self.info, 80)
        self.low, self.most, self.late = min(self.low, cwnd), max(self.most, cwnd), max(self.late, cwnd)

    def fill(self) -> None:
        try:
            while not self.closed:
                at = self.written % len(PATTERN)
                self.written += self.socket.send(CHUNK[at:])
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    def acks(self, size: int, upto: int | None = None) -> Iterator[int]:
        """The places to acknowledge next, each `size` bytes."""
        end = self.next if upto is None else upto
        while less(self.acked, end):
            self.acked = self.acked + size & M32 if less(self.acked + size & M32, end) else end
            yield self.acked

    def honest(self) -> None:
        for ack in self.acks(2 * self.mss):
            self.send(ack=ack)

    @property
    def law(self) -> str:
        """The controller that it has now."""
        return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()

    def result(self) -> dict:
        (retransmits,) = struct.unpack_from("=I", self.info, 100)
        (mss,) = struct.unpack_from("=I", self.info, 16)
        (segments,) = struct.unpack_from("=I", self.info, 156)
        return {
            "controller": self.name,
            "attack": self.attack,
            "beside": self.beside,
            "family": 6 if self.family == socket.AF_INET6 else 4,
            "low": self.low,
            "most": self.most,
            "late": self.late,
            "arrived": self.arrived,
            "right": not self.wrong,
            "open": not self.closed,
            "law": self.law,
            "flight": self.window // mss,
            "segments": segments,
            "retransmits": retransmits,
        }


ATTACKS: dict[str, tuple[Callable[[Flow, int], None], float, dict]] = {}


def attack(round_s: float = ROUND_S, **keys):
    def put(f):
        ATTACKS[f.__name__] = f, round_s, keys
        return f

    return put


@attack()
def honest(f: Flow, k: int) -> None:
    f.honest()


@attack()
def divided(f: Flow, k: int) -> None:
    """One ACK a byte for the first fifty, then four a segment."""
    for ack in f.acks(1, f.acked + 50 & M32 if less(f.acked + 50 & M32, f.next) else f.next):
        f.send(ack=ack)
    for ack in f.acks(f.mss // 4):
        f.send(ack=ack)


@attack()
def early(f: Flow, k: int) -> None:
    """Acknowledges what is under way: a round trip of nothing, four times a round."""
    for _ in range(4):
        f.honest()
        f.fill()
        f.tun.drain()


@attack()
def optimistic(f: Flow, k: int) -> None:
    """Also what the kernel has not sent."""
    for ahead in (1, f.mss, 100 * f.mss, 1 << 30):
        f.send(ack=f.next + ahead)
    if k % 2:
        f.honest()


@attack()
def duplicates(f: Flow, k: int) -> None:
    """Four duplicates after each ACK of a round, its RTT flat."""
    f.honest()
    for _ in range(4):
        f.send(ack=f.acked)


@attack(sack=False)
def duplicates_no_sack(f: Flow, k: int) -> None:
    f.honest()
    for _ in range(4):
        f.send(ack=f.acked)


@attack(sack=False)
def flood(f: Flow, k: int) -> None:
    """Fifty duplicates before each round's first ACK."""
    for _ in range(50):
        f.send(ack=f.acked)
    f.honest()


@attack()
def holes(f: Flow, k: int) -> None:
    """Each round's first packet seems lost: all behind it is SACKed before it is acknowledged."""
    for end in range(2, 12):
        if less(f.acked + end * f.mss & M32, f.next):
            f.send(ack=f.acked, options=f.sacks((f.acked + f.mss, f.acked + end * f.mss)))
    f.honest()


@attack()
def spoofed(f: Flow, k: int) -> None:
    """Each fourth round begins with three duplicates that tell of a hole, as a third one may send. No packet is
    missing, the RTT is flat."""
    if k % 4 == 3:
        for end in (2, 3, 4):
            f.send(ack=f.acked, options=f.sacks((f.acked + f.mss, f.acked + end * f.mss)))
    f.honest()


@attack(round_s=0.040, sack=False, stamps=False, window=1 << 19)
def spoofed_plainly(f: Flow, k: int) -> None:
    """The same toward a sender whom nothing tells that it repaired in vain."""
    if k % 4 == 3:
        for _ in range(3):
            f.send(ack=f.acked)
    f.honest()


@attack()
def reneging(f: Flow, k: int) -> None:
    """SACKs all but the first packet, and then knows nothing of it."""
    if less(f.acked + 2 * f.mss & M32, f.next):
        f.send(ack=f.acked, options=f.sacks((f.acked + f.mss, f.next)))
        for _ in range(3):
            f.send(ack=f.acked)
    if k % 8 == 7:
        f.honest()


@attack()
def undone(f: Flow, k: int) -> None:
    """Losses that a D-SACK then takes back."""
    begin = f.acked
    for end in range(2, 8):
        if less(begin + end * f.mss & M32, f.next):
            f.send(ack=begin, options=f.sacks((begin + f.mss, begin + end * f.mss)))
    f.tun.drain()
    f.honest()
    for _ in range(4):
        f.send(ack=f.acked, options=f.sacks((begin, begin + f.mss)))


@attack(sack=False)
def undone_by_stamps(f: Flow, k: int) -> None:
    """Losses taken back by a TSecr from before the retransmission."""
    old = f.tsval
    for _ in range(5):
        f.send(ack=f.acked)
    f.tun.drain()
    for ack in f.acks(2 * f.mss):
        f.send(ack=ack, tsecr=old - 1)


@attack()
def lying_stamps(f: Flow, k: int) -> None:
    """TSecr of the future, of the past, and none; TSval that jumps."""
    f.clock += (1, 1 << 20, 1 << 30)[k % 3]
    for n, ack in enumerate(f.acks(2 * f.mss)):
        f.send(ack=ack, tsecr=(f.tsval + 100000, f.tsval - 100000, 0, f.tsval + (1 << 31), f.tsval)[(n + k) % 5])
    f.send(ack=f.acked, tsecr=f.tsval + 1000)


@attack()
def hidden_queue(f: Flow, k: int) -> None:
    """The RTT grows, and the TSval is as much older: a queue of data looks like one of ACKs. It never goes back, or
    PAWS drops the ACK."""
    if k % 4 == 3:
        f.clock -= 30
        f.honest()
        f.clock += 30


@attack()
def shut_window(f: Flow, k: int) -> None:
    """The window closes and opens, to nothing, to a byte, to all."""
    for n, ack in enumerate(f.acks(2 * f.mss)):
        f.send(ack=ack, window=(0, f.window, 128, 1 << 16)[(n + k) % 4])
    f.send(ack=f.acked, window=(0, f.window)[k % 2])


@attack(ecn=True)
def echoes(f: Flow, k: int) -> None:
    """Each ACK tells of a mark."""
    for ack in f.acks(2 * f.mss):
        f.send(ACK | ECE, ack=ack)


@attack()
def uneven(f: Flow, k: int) -> None:
    """Round trips of nothing, then of eight rounds."""
    if k % 8 < 4:
        early(f, k)
    elif k % 8 == 7:
        f.honest()


@attack(mss=88, window=1 << 16)
def crumbs(f: Flow, k: int) -> None:
    """The least MSS, every second packet SACKed, then all."""
    blocks = [(f.acked + (2 * i + 1) * f.mss, f.acked + (2 * i + 2) * f.mss) for i in range(3)]
    if less(blocks[-1][1] & M32, f.next):
        for i in range(3):
            f.send(ack=f.acked, options=f.sacks(*blocks[: i + 1]))
    for ack in f.acks(4 * f.mss):
        f.send(ack=ack)


@attack()
def anything(f: Flow, k: int) -> None:
    """All of these at random."""
    names = [
        name for name in ATTACKS if name not in ("anything", "honest", "crumbs", "echoes", "sender", "early", "uneven")
    ]
    ATTACKS[names[f.random.below(len(names))]][0](f, k)


@attack()
def sender(f: Flow, k: int) -> None:
    """A sender's attack: data beyond the window, old, overlapping, urgent, without ACK, of wild stamps; and honest as
    receiver."""
    for seq, flags in (
        (f.seq + (1 << 30), ACK),
        (f.seq - 70000, ACK),
        (f.seq + 5000, ACK),
        (f.seq + 4000, ACK | 32),
        (f.seq + 1, 0),
        (f.seq - 1, ACK | 2),
    ):
        f.send(flags, seq=seq, payload=stream(k, 100 + 13 * (k % 7)), tsecr=f.tsval + 2 * f.random.below(1 << 31))
    f.honest()


# --- lies of a peer with AccECN, RFC 9768: what it tells, in place of End.as_it_is() ----------------------

LIES: dict[str, Callable[[Flow], tuple[int, ...]]] = {}
FIRST = 5, 1, 0, 1  # ACE, and the bytes of ECT(1), CE and ECT(0), before anything has come


def lie(f):
    LIES[f.__name__] = f
    return f


def packets(f: Flow) -> int:
    return -(-f.arrived // f.mss)


@lie
def all_marked(f: Flow) -> tuple[int, ...]:
    return FIRST[0] + packets(f), 1, f.arrived, 1


@lie
def all_marked_by_bits(f: Flow) -> tuple[int, ...]:
    """And no option, as where a middlebox has taken it."""
    return (FIRST[0] + packets(f),)


@lie
def all_marked_by_bytes(f: Flow) -> tuple[int, ...]:
    """The option says so, and the three bits none."""
    return FIRST[0], 1, f.arrived, 1


@lie
def one_more(f: Flow) -> tuple[int, ...]:
    """With each ACK, duplicates too."""
    f.told += 1
    return f.told, 1 + f.arrived, f.told * f.mss, 1


@lie
def one_less(f: Flow) -> tuple[int, ...]:
    """Counters that go back: the bits are those of seven more."""
    f.told -= 1
    return f.told, 1 + f.arrived, f.told * f.mss, 1


@lie
def no_marks_no_bytes(f: Flow) -> tuple[int, ...]:
    """Nothing ever comes, by the counters."""
    return FIRST


@lie
def nothing(f: Flow) -> tuple[int, ...]:
    return 0, 0, 0, 0


@lie
def another_field(f: Flow) -> tuple[int, ...]:
    """Data came as ECT(1) by one ACK, as ECT(0) by the next."""
    f.told += 1
    return (FIRST[0], 1 + f.arrived, 0, 1) if f.told % 2 else (FIRST[0], 1, 0, 1 + f.arrived)


@lie
def wild_bits(f: Flow) -> tuple[int, ...]:
    return f.random.below(8), 1 + f.arrived, 0, 1


@lie
def wild_bytes(f: Flow) -> tuple[int, ...]:
    return FIRST[0], *(f.random.below(1 << 24) for _ in range(3))


@lie
def wild(f: Flow) -> tuple[int, ...]:
    return f.random.below(8), *(f.random.below(1 << 24) for _ in range(3))


# --- all of them ------------------------------------------------------------------------------------------


def listen(names: list[str]) -> dict[tuple[str, int], socket.socket]:
    listeners = {}
    for i, name in enumerate(names):
        for family in KERNEL:
            s = socket.socket(family)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            s.bind((KERNEL[family], 8000 + i))
            s.listen(64)
            s.setblocking(False)
            listeners[name, family] = s
    return listeners


def connect(tun: Device, listeners: dict, name: str, attack_name: str, family: int, **keys) -> Flow:
    port = 10000 + len(tun.ends)
    listener = listeners[name, family]
    flow = Flow(
        tun,
        family,
        port,
        listener.getsockname()[1],
        name,
        attack_name,
        **({"mss": MSS, "window": WINDOW} | ATTACKS[attack_name][2] | keys),
    )
    for wait in range(5000):
        tun.drain()
        with contextlib.suppress(BlockingIOError):
            flow.accept(listener.accept()[0])
            return flow
        time.sleep(0.001)
        if wait % 500 == 499 and not flow.open:
            flow.call()  # a packet may be lost here, too
    raise SystemExit(f"{name}: no connection")


def run(flows: list[Flow], rounds: int, round_s: float) -> None:
    tun = flows[0].tun
    for k in range(rounds):
        due = time.monotonic() + round_s
        for f in flows:
            f.fill()
        time.sleep(max(due - time.monotonic(), 0))
        tun.drain()
        for f in flows:
            f.late = f.late if k > rounds // 2 else 0
            f.tick()
            if not f.closed:
                ATTACKS[f.attack][0](f, k)


def play(
    tun: Device,
    listeners: dict,
    names: list[str],
    attack_name: str,
    rounds: int,
    turn: int = 0,
    both: bool = False,
    lie: str = "",
    **keys,
) -> list[dict]:
    """A flow of each controller, and an honest one beside it; `both`: over IPv4 and IPv6, not by turns."""
    flows = []
    for i, name in enumerate(names):
        for family in KERNEL if both else [list(KERNEL)[(turn + i) % 2]]:
            flows.append(connect(tun, listeners, name, attack_name, family, **keys))
            if lie:
                flows[-1].tell = partial(LIES[lie], flows[-1])
        flows.append(connect(tun, listeners, name, "honest", family, **keys, window=1 << 15))
        flows[-1].beside = lie or attack_name
    run(flows, rounds, ATTACKS[attack_name][1])
    results = [f.result() for f in flows]
    for f in flows:
        f.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        f.socket.close()
    return results


def main() -> None:
    import argparse  # a guest has none

    parser = argparse.ArgumentParser()
    parser.add_argument("controllers", nargs="+")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--attack", action="append", choices=ATTACKS)
    parser.add_argument("--both", action="store_true", help="over IPv4 and IPv6, not by turns")
    args = parser.parse_args()
    tun, listeners, results = Tun(), listen(args.controllers), []
    for n, attack_name in enumerate(args.attack or ATTACKS):
        results += play(tun, listeners, args.controllers, attack_name, args.rounds, n, args.both)
    print(json.dumps({"flows": results, "sent": tun.sent, "received": tun.received}))


if __name__ == "__main__":
    main()
