# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two namespaces joined by a bottleneck, what runs in them, and connections between them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from pathlib import Path

from tests.live.harness import ASYMCC, program, run, unique


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


SERVER = """
import socket, sys
address, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind((address, port)); l.listen(); print("ready", flush=True)
s, _ = l.accept()
got = 0
while got < size:
    got += len(s.recv(65536))
s.sendall(b"!")
print(got, len(s.recv(1)), flush=True)
"""


CLIENT = """
import socket, sys
address, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
s = socket.socket(family)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[4].encode())
s.connect((address, port))
s.sendall(b"x" * size)
s.recv(1)
if len(sys.argv) > 5:
    print("idle", flush=True); sys.stdin.read()
"""


@contextlib.contextmanager
def server(p: Pair, address: str, port: int, size: int, under: tuple = ()):
    with program(*under, "ip", "netns", "exec", p.server, sys.executable, "-c", SERVER, address, port, size) as s:
        assert s.stdout.readline() == "ready\n", s.stderr.read()
        yield s


def transfer(p: Pair, address: str, port: int, size: int, cc: str) -> None:
    with server(p, address, port, size) as s:
        p.sh(p.client, sys.executable, "-c", CLIENT, address, port, size, cc)
        assert s.communicate(timeout=30)[0].split() == [str(size), "0"]


@contextlib.contextmanager
def held_open(p: Pair, cc: str, address: str = "10.9.0.2"):
    """A connection of the client that stays open."""
    with server(p, address, 7100, 1000):
        with program(
            "ip", "netns", "exec", p.client, sys.executable, "-c", CLIENT, address, 7100, 1000, cc, "stay"
        ) as c:
            assert c.stdout.readline() == "idle\n", c.stderr.read()
            yield


CC = (
    "import socket,sys\n"
    "s=socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
    "print(s.getsockopt(6, 13, 16).rstrip(bytes(1)).decode())"
)


ACCEPT = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
l = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print("ready", flush=True)
while True:
    s, _ = l.accept()
    print(s.getsockopt(6, 13, 16).rstrip(bytes(1)).decode(), flush=True)
"""


# Connects, says so, sends what it is told to on stdin: "N" bytes, then tells its controller.
STEADY = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
if sys.argv[3] != "-": s.setsockopt(6, 13, sys.argv[3].encode())
s.connect((sys.argv[1], int(sys.argv[2])))
print("open", flush=True)
for line in sys.stdin:
    s.sendall(b"x" * int(line))
    print(s.getsockopt(6, 13, 16).rstrip(bytes(1)).decode(), flush=True)
"""


SINK = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
l = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print("ready", flush=True)
s, _ = l.accept()
n = 0
while d := s.recv(65536):
    n += len(d)
    print(n, flush=True)
"""


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
    done = run(*enter(pair.client), ASYMCC, *argv, check=False)
    assert done.returncode == 1 and done.stderr.startswith("asymcc: ") and done.stderr.count("\n") == 1, (
        done.stdout + done.stderr
    )
    return done.stderr


def routes(pair) -> list[str]:
    return [
        " ".join(line.replace("linkdown", "").split())  # told until the link is seen to be up
        for v in ("-4", "-6")
        for line in pair.sh(pair.client, "ip", v, "route", "show").stdout.splitlines()
        if not line.startswith("fe80")
    ]


@contextlib.contextmanager
def listening(pair, address="10.9.0.2", port=7400, script=ACCEPT):
    with program("ip", "netns", "exec", pair.server, sys.executable, "-c", script, address, port) as p:
        assert p.stdout.readline() == "ready\n", p.stderr.read()
        yield p


def controller_of(pair, address="10.9.0.2", port=7400) -> str:
    return pair.sh(pair.client, sys.executable, "-c", CC, address, port).stdout.strip()


@contextlib.contextmanager
def steady(pair, cc="-", address="10.9.0.2"):
    """A connection that is open: send(n) returns its controller once all n bytes have arrived."""
    with listening(pair, address.removeprefix("::ffff:"), port=7401, script=SINK) as sink:
        with program("ip", "netns", "exec", pair.client, sys.executable, "-c", STEADY, address, 7401, cc) as p:
            assert p.stdout.readline() == "open\n", p.stderr.read()
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
