# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ends of the connections of these tests: one program, `ends.py ROLE NAME=VALUE...`.

A role is a function below, and its names are the function's parameters. A server says `ready`, or its port where it has
chosen that itself, once it listens. endpoint() of harness.py gives the command line.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import hashlib
import json
import os
import random
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator

PART = 65536
DEFAULT = "/proc/sys/net/ipv4/tcp_congestion_control"


def say(*words: object) -> None:
    print(*words, flush=True)


def unsent(s: socket.socket) -> bool:
    """Some bytes are not yet acknowledged."""
    return any(fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))


def new_socket(address: str, cc: str) -> socket.socket:
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    if cc:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    return s


def controller(s: socket.socket) -> str:
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)).decode()


def connected(address: str, port: int, cc: str = "") -> socket.socket:
    s = new_socket(address, cc)
    s.connect((address, port))
    return s


def listener(address: str, port: int, cc: str = "", backlog: int = 256, rcvbuf: int = 0) -> socket.socket:
    s = new_socket(address, cc)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if rcvbuf:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    s.bind((address, port))
    s.listen(backlog)
    say("ready" if port else s.getsockname()[1])
    return s


def many_files() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def stream(n: int) -> bytes:
    """Each byte follows from its place, so a byte out of place is a byte wrong."""
    return b"".join(hashlib.sha256(i.to_bytes(8, "big")).digest() for i in range(n // 32 + 1))[:n]


def parts(s: socket.socket) -> Iterator[bytes]:
    while part := s.recv(PART):
        yield part


def take(s: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n and (part := s.recv(PART)):
        data += part
    return data


# --- one connection ------------------------------------------------------------------------


def tell(address: str, port: int, cc: str = "") -> None:
    """Connects, and says its controller."""
    say(controller(connected(address, port, cc)))


def accept(address: str, port: int, cc: str = "") -> None:
    """Says the controller of each connection that it accepts."""
    server = listener(address, port, cc)
    while True:
        s, _ = server.accept()
        say(controller(s))
        s.close()


def count(address: str, port: int) -> None:
    """Says how many bytes have come so far."""
    s, _ = listener(address, port).accept()
    total = 0
    for part in parts(s):
        total += len(part)
        say(total)


def drain(address: str, port: int) -> None:
    """Reads one connection after the other to its end."""
    server = listener(address, port, backlog=1000)
    while True:
        s, _ = server.accept()
        for _ in parts(s):
            pass
        s.close()


def steady(address: str, port: int, cc: str = "") -> None:
    """Sends as many bytes as each line on stdin says, and says its controller."""
    s = connected(address, port, cc)
    say("open")
    for line in sys.stdin:
        s.sendall(b"x" * int(line))
        say(controller(s))


def flood(address: str, port: int, cc: str, patience: int = 0) -> None:
    """Sends for ever, or till nothing more is taken for so many seconds: then it closes."""
    s = connected(address, port, cc)
    say("open")
    s.settimeout(patience or None)
    with contextlib.suppress(TimeoutError):
        while True:
            s.send(bytes(PART))
    s.close()
    say("closed")
    sys.stdin.read()


def idle(address: str, port: int) -> None:
    """Takes every connection and reads of none, so it outlives a peer that resets."""
    server, kept = listener(address, port), []
    while True:
        kept.append(server.accept())


def tally(address: str, port: int) -> None:
    """Tells its peer how many bytes came."""
    s, _ = listener(address, port).accept()
    s.sendall(b"%d" % sum(map(len, parts(s))))


def two_parts(address: str, port: int, cc: str) -> None:
    """Sends until it is told to stop, pauses once all has arrived, and sends again. Exits by what did not arrive."""
    s = connected(address, port, cc)
    say("connected")
    part, sent = b"x" * PART, 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        s.sendall(part)
        sent += len(part)
    while unsent(s):
        time.sleep(0.01)
    time.sleep(0.6)
    for _ in range(24):
        s.sendall(part)
        sent += len(part)
    s.shutdown(socket.SHUT_WR)
    sys.exit(sent - int(s.makefile().read()))


def echo(address: str, port: int) -> None:
    s, _ = listener(address, port).accept()
    for part in parts(s):
        s.sendall(part)


def talk(address: str, port: int, cc: str) -> None:
    """Sends as many bytes as each line on stdin says, and reads them again."""
    s = connected(address, port, cc)
    s.settimeout(10)
    say("open")
    for line in sys.stdin:
        n = int(line)
        s.sendall(b"x" * n)
        assert len(take(s, n)) == n
        say("echoed")


def pong(address: str, port: int) -> None:
    s, _ = listener(address, port).accept()
    for _ in range(200):
        s.recv(4)
        s.sendall(b"pong")
    say(sum(map(len, parts(s))))


def ping(address: str, port: int) -> None:
    """Small segments, and then a close behind many bytes."""
    s = new_socket(address, "")
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.connect((address, port))
    for _ in range(200):
        s.sendall(b"ping")
        s.recv(4)
    s.sendall(b"x" * 100_000)
    s.close()


# --- every byte is checked -----------------------------------------------------------------


def minute() -> None:
    """A connection that stands still ends the test."""
    signal.alarm(60)


def accepted(*where) -> socket.socket:
    minute()
    return listener(*where).accept()[0]


def digest(
    address: str, port: int, n: int, cc: str = "", own: str = "", backlog: int = 256, rcvbuf: int = 0, asleep: float = 0
) -> None:
    """Answers n bytes with their digest. `own`: the controller that the connection chooses itself."""
    s = accepted(address, port, cc, backlog, rcvbuf)
    if own:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, own.encode())
    time.sleep(asleep)
    s.sendall(hashlib.sha256(take(s, n)).digest())
    s.recv(1)


def send(address: str, port: int, n: int, cc: str = "", stay: int = 0, wait: str = "") -> None:
    """Sends n bytes and compares the digest. `wait`: for a line on stdin, `before` all bytes or `half` way."""
    minute()
    s, data = connected(address, port, cc), stream(n)
    first = {"": n, "half": n // 2, "before": 0}[wait]
    s.sendall(data[:first])
    if wait:
        say("half" if first else f"open {s.getsockname()[1]}")
        sys.stdin.readline()
    s.sendall(data[first:])
    assert take(s, 32) == hashlib.sha256(data).digest()
    say("right")
    if stay:
        sys.stdin.read()


def send_only(address: str, port: int, n: int, cc: str = "") -> None:
    minute()
    s = connected(address, port, cc)
    s.sendall(stream(n))
    s.shutdown(socket.SHUT_WR)
    take(s, 1)
    say("right")
    sys.stdin.read()


def half_server(address: str, port: int, n: int, cc: str = "") -> None:
    """Sends n bytes to a client that has closed its half."""
    s = accepted(address, port, cc)
    assert take(s, 1 << 30) == b"get"
    s.sendall(stream(n))
    s.close()


def half(address: str, port: int, n: int, cc: str = "") -> None:
    minute()
    s = connected(address, port, cc)
    s.sendall(b"get")
    s.shutdown(socket.SHUT_WR)
    assert take(s, 1 << 30) == stream(n)
    say("right")


def both_ways(s: socket.socket, n: int) -> None:
    sender = threading.Thread(target=s.sendall, args=(stream(n),))
    sender.start()
    assert take(s, n) == stream(n)
    sender.join()


def both_server(address: str, port: int, n: int, cc: str = "") -> None:
    s = accepted(address, port, cc)
    both_ways(s, n)
    s.recv(1)


def both(address: str, port: int, n: int, cc: str = "") -> None:
    """Both ends send n bytes at once."""
    minute()
    both_ways(connected(address, port, cc), n)
    say("right")


def download_server(address: str, port: int, n: int, sender: str, cc: str = "") -> None:
    s = accepted(address, port, cc)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sender.encode())
    s.sendall(stream(n))
    s.recv(1)


def download(address: str, port: int, n: int, cc: str = "") -> None:
    minute()
    assert take(connected(address, port, cc), n) == stream(n)
    say("right")


# --- many connections ----------------------------------------------------------------------


def many(address: str, port: int, n: int, cc: str = "", connections: int = 200) -> None:
    """Opens and closes connections, twenty at a time."""
    from concurrent.futures import ThreadPoolExecutor

    minute()
    data = stream(n)
    expected = hashlib.sha256(data).digest()

    def one(_: int) -> bool:
        with connected(address, port, cc) as s:
            s.sendall(data)
            return take(s, 32) == expected

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(one, range(connections)))
    say("right")


def many_server(address: str, port: int, n: int, cc: str = "") -> None:
    """Answers n bytes of each connection with their digest, however many are open."""
    many_files()
    server = listener(address, port, cc, backlog=4096)
    events, open_ones = select.epoll(), {}
    events.register(server, select.EPOLLIN)
    while True:
        for fd, _ in events.poll():
            if fd == server.fileno():
                s, _ = server.accept()
                open_ones[s.fileno()] = [s, 0, hashlib.sha256()]
                events.register(s, select.EPOLLIN)
                continue
            one = open_ones[fd]
            part = one[0].recv(PART)
            one[1] += len(part)
            one[2].update(part)
            if not part:
                del open_ones[fd]
                one[0].close()
            elif one[1] == n:
                one[0].sendall(one[2].digest())


def at_once(address: str, port: int, n: int, cc: str, connections: int) -> None:
    """All are open before the first byte, and till the last one's answer."""
    many_files()
    events, open_ones = select.epoll(), {}
    for i in range(connections):
        s = connected(address, port, cc)
        s.setblocking(False)
        data = random.Random(i).randbytes(n)
        open_ones[s.fileno()] = [s, memoryview(data), hashlib.sha256(data).digest()]
    say("open")
    sys.stdin.readline()
    for fd in open_ones:
        events.register(fd, select.EPOLLOUT)
    right = 0
    while right < connections:
        for fd, _ in events.poll():
            one = open_ones[fd]
            if one[1]:
                one[1] = one[1][one[0].send(one[1]) :]
                if not one[1]:
                    events.modify(fd, select.EPOLLIN)
            else:
                assert one[0].recv(64) == one[2], "other bytes came there"
                events.unregister(fd)
                right += 1
    say("right")
    sys.stdin.readline()


def churn_server(address: str, port: int) -> None:
    """Listens anew for each connection: Formosa speaks to none that listened before it was loaded."""

    def serve(s: socket.socket) -> None:
        have = hashlib.sha256()
        for part in parts(s):
            have.update(part)
        s.sendall(have.digest())
        s.close()

    say("ready")
    for _ in sys.stdin:
        with socket.create_server((address, port)) as server:
            say("listens")
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
        say("accepted")


class Flow(threading.Thread):
    """It sends until it may no longer."""

    def __init__(self, s: socket.socket, data: bytes) -> None:
        super().__init__(daemon=True)
        self.s, self.go, self.right, self.data = s, True, False, data
        self.start()

    def run(self) -> None:
        sent, turns = hashlib.sha256(), 0
        while self.go or turns < 10:
            self.s.sendall(self.data)
            sent.update(self.data)
            turns += 1
        self.s.shutdown(socket.SHUT_WR)
        self.right = self.s.recv(64) == sent.digest()
        self.s.close()


def churn(address: str, port: int, cc: str) -> None:
    """A line `new` begins one more flow, `end` ends the oldest."""
    flows, noise = [], random.Random(1)
    for line in sys.stdin:
        if line == "new\n":
            s = new_socket(address, cc)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
            s.connect((address, port))
            flows.append(Flow(s, noise.randbytes(10007)))
            say("open")
        else:
            flow = flows.pop(0)
            flow.go = False
            flow.join(60)
            say("right" if flow.right else "wrong")


def open_each(address: str, port: int, n: int, connections: int) -> None:
    """Connections one after another, each sends n bytes and ends: the controllers of all, by name."""
    names = collections.Counter()
    for _ in range(connections):
        s = connected(address, port)
        s.sendall(bytes(n))
        names[controller(s)] += 1
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
        s.close()
    say(json.dumps(names))


def accept_each(address: str, port: int, connections: int) -> None:
    """The other side of open_each: it sends 2000 bytes on each."""
    server = listener(address, port, backlog=1000)
    names = collections.Counter()
    for _ in range(connections):
        s, _ = server.accept()
        names[controller(s)] += 1
        s.sendall(b"x" * 2000)
        for _ in parts(s):
            pass
        s.close()
    say(json.dumps(names))


def take_all(ends: str, cc: str = "", greeting: str = "") -> None:
    """Listens at each ADDRESS/PORT, greets who connects, and stays when they close (CLOSE_WAIT)."""
    many_files()
    poll, sockets = select.epoll(), {}
    for end in ends.split(","):
        address, port = end.rsplit("/", 1)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        server = socket.create_server((address, int(port)), family=family, backlog=2000)
        if cc:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        sockets[server.fileno()] = server
        poll.register(server, select.EPOLLIN)
    servers = set(sockets)
    say("ready")
    while True:
        for fd, _ in poll.poll():
            if fd in servers:
                s = sockets[fd].accept()[0]
                s.send(greeting.encode())
                sockets[s.fileno()] = s
                poll.register(s, select.EPOLLIN)
            elif not sockets[fd].recv(PART):
                poll.unregister(fd)


def give_all(ends: str) -> None:
    """Connects to each ADDRESS/PORT/CONTROLLER/BYTES. A number on stdin closes that one's half."""
    many_files()
    sockets = []
    for end in ends.split(","):
        address, port, cc, size = end.rsplit("/", 3)
        s = connected(address, int(port), cc)
        s.sendall(b"x" * int(size))
        sockets.append(s)
    while any(map(unsent, sockets)):
        time.sleep(0.01)
    say("idle")
    for line in sys.stdin:
        sockets[int(line)].shutdown(socket.SHUT_WR)
        say("closed")


def busy(connections: int, cc: str) -> None:
    """Connections within a namespace, in both directions at once, until told to end: no byte is lost or comes twice."""
    many_files()
    server = socket.create_server(("127.0.0.1", 0), backlog=4096)
    block, ends = bytes(range(251)) * 9, []
    for _ in range(connections):
        s = connected(*server.getsockname(), cc)
        t = server.accept()[0]
        t.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        ends += [(s, t), (t, s)]
    sent, received = [0] * len(ends), [0] * len(ends)
    for s, _ in ends:
        s.setblocking(False)
    say("open")
    stop = selectors.DefaultSelector()
    stop.register(sys.stdin, selectors.EVENT_READ)
    ending = False
    while not ending or sent != received:
        ending = ending or bool(stop.select(0))
        for i, (s, t) in enumerate(ends):
            try:
                if not ending:
                    sent[i] += s.send(block[sent[i] % 251 :])
            except BlockingIOError:
                pass
            try:
                part = t.recv(PART)
            except BlockingIOError:
                continue
            at = received[i] % 251
            assert part == (block * (len(part) // len(block) + 2))[at : at + len(part)]
            received[i] += len(part)
    say(sum(sent), sum(received), *sorted({controller(s) for s, _ in ends}))


def serve(address: str, port: int) -> None:
    """Sends as many bytes to each as it asks for."""
    server = listener(address, port)

    def one(s: socket.socket) -> None:
        s.sendall(bytes(int(s.recv(20))))
        s.close()

    while True:
        threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()


def fetch(address: str, port: int, n: int) -> None:
    """Says how many bytes came, and in which time."""
    s = connected(address, port)
    began = time.monotonic()
    s.sendall(str(n).encode())
    say(sum(map(len, parts(s))), time.monotonic() - began)


# --- others --------------------------------------------------------------------------------


def dual_server(port: int, n: int) -> None:
    """Answers n bytes of each connection, all in sockets of IPv6."""
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    say("ready")
    while True:
        s, _ = server.accept()
        assert len(take(s, n)) == n
        s.sendall(b"!")
        s.recv(1)
        s.close()


def ask_from(address: str, port: int, n: int, own: int) -> None:
    """Asks from a port of its own."""
    source = "fd09::1" if ":" in address else "10.9.0.1", own
    s = socket.create_connection((address, port), source_address=source)
    s.sendall(b"x" * n)
    s.recv(1)


def chatter(port: int) -> None:
    """Two ends of this process talk byte by byte, until its parent is gone."""
    server = socket.create_server(("127.0.0.1", port))
    ends = connected("127.0.0.1", port), server.accept()[0]
    for s in ends:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while os.getppid() != 1:
        for s, t in (ends, ends[::-1]):
            s.sendall(b"x")
            t.recv(1)


def datagrams_server(port: int, n: int) -> None:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    s.settimeout(20)
    say("ready")
    say(len([s.recv(99) for _ in range(n)]))


def datagrams(address: str, port: int, n: int) -> None:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(n):
        s.sendto(bytes(20), (address, port))


def container() -> None:
    """Says the namespace's default and a new connection's controller, again for each line on stdin."""
    subprocess.run(["/bin/ip", "link", "set", "lo", "up"], check=True)
    server = socket.create_server(("127.0.0.1", 7420))
    for _ in sys.stdin:
        with open(DEFAULT) as file:
            say(file.read().strip(), controller(connected(*server.getsockname())))


def main() -> None:
    role, *words = sys.argv[1:]
    act: Callable[..., None] = globals()[role]
    kinds = {"int": int, "float": float, "str": str}
    options = dict(word.split("=", 1) for word in words)
    act(**{name: kinds[act.__annotations__[name]](value) for name, value in options.items()})


if __name__ == "__main__":
    main()
