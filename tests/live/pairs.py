# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two namespaces joined by a bottleneck, what runs in them, and connections between them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

from tests.live.harness import ASYMCC, endpoint, refusal, run, saying, unique


@dataclasses.dataclass
class Pair:
    """Two namespaces joined by a veth pair; the first one's side is a 20 Mbit/s bottleneck."""

    client: str
    server: str
    dev_c: str
    dev_s: str

    def sh(self, ns: str, *argv, **kw):
        return run("ip", "netns", "exec", ns, *argv, **kw)

    def qdisc(self, ns: str, dev: str) -> dict:
        return next(
            q for q in json.loads(self.sh(ns, "tc", "-s", "-j", "qdisc", "show", "dev", dev).stdout) if q.get("root")
        )

    def on_arrival(self, ns: str, program: Path, section: str) -> None:
        """A classifier, from now on, on what comes in there."""
        dev = self.dev_c if ns == self.client else self.dev_s
        self.sh(ns, "tc", "qdisc", "add", "dev", dev, "clsact")
        arrives = f"tc filter add dev {dev} ingress bpf direct-action"
        self.sh(ns, *arrives.split(), "obj", program, "sec", section)


def enter(ns: str) -> tuple[str, str]:
    return "nsenter", f"--net=/run/netns/{ns}"


def ip(*lines: str, before: str = "", after: str = "", within: tuple[str, ...] = ()) -> None:
    """Words of `ip`, in one go: a process for each would take most of a short test's time."""
    batch = "\n".join(lines)
    run(*within, "sh", "-ec", f"{before}\nip -batch - <<.\n{batch}\n.\n{after}")


@contextlib.contextmanager
def joined_ends():
    """A pair that is set up."""
    p = Pair(unique("tc"), unique("ts"), unique("c"), unique("s"))
    ends = (p.client, p.dev_c, 1, "20mbit"), (p.server, p.dev_s, 2, "100mbit")
    veth = f"link add {p.dev_c} netns {p.client} type veth peer name {p.dev_s} netns {p.server}"
    try:
        ip(f"netns add {p.client}", f"netns add {p.server}", veth)
        for ns, dev, end, rate in ends:
            ip(
                f"addr add 10.9.0.{end}/24 dev {dev}",
                f"addr add fd09::{end}/64 dev {dev} nodad",
                "link set lo up",
                f"link set {dev} up",
                before=f"echo 0 >/proc/sys/net/ipv6/conf/{dev}/router_solicitations",
                after=f"ethtool -K {dev} tso off gso off gro off\n"
                f"tc qdisc add dev {dev} root tbf rate {rate} burst 3000 limit 60000",
                within=enter(ns),
            )
        yield p
    finally:
        ip(*(f"netns del {ns}" for ns in (p.client, p.server) if Path("/run/netns", ns).exists()))


def transfer(p: Pair, address: str, port: int, size: int, cc: str) -> None:
    with listening(p, address, port, "digest", n=size) as server:
        p.sh(p.client, *endpoint("send", address=address, port=port, n=size, cc=cc))
        assert server.wait(timeout=30) == 0, server.stderr.read()


@contextlib.contextmanager
def held_open(p: Pair, cc: str, address: str = "10.9.0.2"):
    """A connection of the client that stays open."""
    sender = endpoint("send", p.client, address=address, port=7100, n=1000, cc=cc, stay=1)
    with listening(p, address, 7100, "digest", n=1000), saying("right", *sender):
        yield


# One of the kernel's own. A namespace may have it as its default, whatever this machine restricts.
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
PLAIN = ALLOWED.read_text().split()[0]


def set_default(pair, name: str) -> None:
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}")


def default(pair) -> str:
    return pair.sh(pair.client, "sysctl", "-n", "net.ipv4.tcp_congestion_control").stdout.strip()


def inside(pair, *argv) -> str:
    """asymcc in the client's namespace; not by `ip netns exec`, which hides cgroups."""
    return run(*enter(pair.client), ASYMCC, *argv).stdout


def refused_inside(pair, *argv) -> str:
    return refusal(run(*enter(pair.client), ASYMCC, *argv, check=False))


def routes(pair) -> list[str]:
    return [
        " ".join(line.replace("linkdown", "").split())  # told until the link is seen to be up
        for v in ("-4", "-6")
        for line in pair.sh(pair.client, "ip", v, "route", "show").stdout.splitlines()
        if not line.startswith("fe80")
    ]


@contextlib.contextmanager
def listening(pair, address="10.9.0.2", port=7400, role="accept", **options):
    with saying("ready", *endpoint(role, pair.server, address=address, port=port, **options)) as p:
        yield p


def controller_of(pair, address="10.9.0.2", port=7400) -> str:
    return pair.sh(pair.client, *endpoint("tell", address=address, port=port)).stdout.strip()


@contextlib.contextmanager
def steady(pair, cc="", address="10.9.0.2"):
    """A connection that is open: send(n) returns its controller once all n bytes have arrived."""
    sender = endpoint("steady", pair.client, address=address, port=7401, cc=cc)
    with (
        listening(pair, address.removeprefix("::ffff:"), port=7401, role="count") as sink,
        saying("open", *sender) as p,
    ):
        total = 0

        def send(n: int) -> str:
            nonlocal total
            total += n
            p.stdin.write(f"{n}\n")
            p.stdin.flush()
            name = p.stdout.readline().strip()
            while int(sink.stdout.readline()) < total:
                pass
            return name

        yield send
