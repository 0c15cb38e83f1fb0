# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Flows, by iperf3 or by senders and receivers of our own, and background traffic."""

import contextlib
import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from .job import Background as Load
from .job import Flow, Job
from .net import Namespaces
from .protocol import COMPARE_BYTES, FLOW_PORT, Fault
from .system import LIBC, Failure, die_with_us

SERVER_PORT = 5201
WAKE_BYTES = 128 << 10  # a receiver wakes for this much, not for every packet: half the guest's work
LARGE = 64 * WAKE_BYTES  # of a receive buffer at its start
REQUEST_BYTES = 100
REPLIES_MAX = 1 << 14
UNSENT_BYTES = 4096  # fewer than this wait to be sent when a flow closes: the FIN goes with the last of them
CLOSED_EVERY_S = 1e-3  # it looks whether the FIN is acknowledged
PATTERN_BYTES = 65521  # a prime: no packet's length divides it
SYS_PIDFD_GETFD = 438
PR_SET_TIMERSLACK = 29


def sockets_of(pid: int) -> Iterator[socket.socket]:
    """The open sockets of another process, each shared with us while the caller looks at it."""
    process = os.pidfd_open(pid)
    try:
        for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
            if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                fd = LIBC.syscall(SYS_PIDFD_GETFD, process, int(name), 0)
                if fd >= 0:
                    with socket.socket(fileno=fd) as s:
                        yield s
    except FileNotFoundError:
        pass  # it ends, or closes one
    finally:
        os.close(process)


class Forked:
    """A function in a process of its own, which stops before it begins, until SIGCONT. Used as a Popen is."""

    def __init__(self, work: Callable[..., None], *args: Any):
        out, into = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_us()
                os.kill(os.getpid(), signal.SIGSTOP)
                work(*args)
            except BaseException as e:
                os.write(into, str(e).encode())
            finally:
                os._exit(1)
        os.close(into)
        self.stdout: IO[bytes] = open(out, "rb")
        os.waitpid(self.pid, os.WUNTRACED)

    def poll(self, options: int = os.WNOHANG) -> int | None:
        if self.returncode is None and os.waitpid(self.pid, options)[0]:
            self.returncode = 1
        return self.returncode

    def wait(self) -> int | None:
        return self.poll(0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen | Forked


def words_of(process: Process) -> str:
    """What a process that has ended said."""
    return process.stdout.read().decode().strip().replace("\n", "; ") if process.stdout else ""


# --- flows ---------------------------------------------------------------------------------


class Traffic:
    """iperf3 pairs; a flow that stops is frozen, so that its connection stays and sends no new data."""

    def __init__(self, job: Job, ns: Namespaces, objects: str):
        self.job, self.ns, self.objects = job, ns, objects
        self.processes: list[Process] = []
        self.clients: dict[int, Process] = {}
        self.servers: dict[int, Process] = {}
        self.tallies: dict[int, Tally] = {}
        self.replies: dict[int, Replies] = {}
        self.endings: dict[int, Ending] = {}

    def _iperf3(self, node: str, flow: Flow, *options: str, errors: int = subprocess.DEVNULL) -> Process:
        argv = ["iperf3", *options, "--interval", "0", "--port", str(SERVER_PORT + flow.id)]
        with self.ns.enter(node):
            p = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LD_PRELOAD": f"{self.objects}/patient.so"},
            )
        self.processes.append(p)
        return p

    def serve(self) -> None:
        for flow in self.job.flows:
            self.servers[flow.id] = self._iperf3(flow.dst, flow, "--server", "--one-off")

    def start(self, flow: Flow) -> None:
        to = ["--client", flow.dst_addr, "--bind", flow.src_addr, "--cport", str(FLOW_PORT + flow.id)]
        # Random data takes 2.6 million instructions at each end.
        how = ["--time", "86400", "--repeating-payload"]
        self.clients[flow.id] = self._iperf3(flow.src, flow, *to, *how, errors=subprocess.PIPE)

    def calm(self, flow: Flow) -> None:
        """Let the receiver's data socket collect WAKE_BYTES before it wakes its reader."""
        with self.ns.enter(flow.dst):
            wake_bytes = _wakes_for(WAKE_BYTES)
        for s in sockets_of(self.servers[flow.id].pid):
            try:
                if s.getpeername()[1] == FLOW_PORT + flow.id:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)
            except OSError:
                pass  # a listener has no peer

    def stop(self, flow: Flow) -> None:
        self.clients[flow.id].send_signal(signal.SIGSTOP)

    def resume(self, flow: Flow) -> None:
        self.clients[flow.id].send_signal(signal.SIGCONT)

    def check(self) -> None:
        """A client never ends by itself: one that did says why."""
        for number, p in self.clients.items():
            if p.poll() is not None:
                raise Failure(f"flow {number}: {self.job.traffic} ended: {words_of(p)}", Fault.FLOW)

    def close(self) -> None:
        for p in self.processes:
            if p.poll() is None:  # closed with a reset: an orphan would hold namespace and controller for minutes
                for s in sockets_of(p.pid):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            p.kill()
        for p in self.processes:
            p.wait()
            if p.stdout:
                p.stdout.close()
        self.processes = []


class PlainTraffic(Traffic):
    """Senders and receivers of our own: nothing but the data crosses the path, and a flow starts with its SYN."""

    def serve(self) -> None:
        if self.job.verify:
            self.tallies = {flow.id: Tally() for flow in self.job.flows}
        for flow in self.job.flows:
            if flow.reply_bytes:
                self.replies[flow.id] = replies = Replies()
                self.servers[flow.id] = self._fork(flow.dst, asking_sink, flow, replies)
                self.clients[flow.id] = self._fork(flow.src, answering_source, flow)
            else:
                tally = self.tallies.get(flow.id)
                self.servers[flow.id] = self._fork(
                    flow.dst, *((comparing_sink, flow, tally) if tally else (sink, flow))
                )
                if flow.size_bytes:
                    self.endings[flow.id] = ending = Ending()
                    self.clients[flow.id] = self._fork(flow.src, sized_source, flow, ending)
                else:
                    self.clients[flow.id] = self._fork(flow.src, telling_source if tally else source, flow)
            self.servers[flow.id].send_signal(signal.SIGCONT)

    def _fork(self, node: str, work: Callable[..., None], *args: Any) -> Forked:
        with self.ns.enter(node):
            p = Forked(work, *args)
        self.processes.append(p)
        return p

    def start(self, flow: Flow) -> None:
        self.resume(flow)

    def calm(self, flow: Flow) -> None:
        """It is from the start."""


@contextlib.contextmanager
def _connected(flow: Flow) -> Iterator[socket.socket]:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((flow.src_addr, FLOW_PORT + flow.id))
        s.connect((flow.dst_addr, SERVER_PORT + flow.id))
        yield s


@contextlib.contextmanager
def _accepted(flow: Flow, wake_bytes: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((flow.dst_addr, SERVER_PORT + flow.id))
        listener.listen(1)
        s, _ = listener.accept()
        with s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _wakes_for(wake_bytes))
            yield s


def _wakes_for(wanted: int) -> int:
    """Bytes for which a receiver of this namespace wakes: a small buffer grows by what is read of each round trip, less
    what waits unread (tcp_rcv_space_adjust()), so there it reads at once, as any program does."""
    with open("/proc/sys/net/ipv4/tcp_rmem") as f:
        _, start, _ = map(int, f.read().split())
    return wanted if start >= LARGE else 1


def source(flow: Flow) -> None:
    """A flow's sender: data without end."""
    with _connected(flow) as s:
        block = bytes(WAKE_BYTES)
        while True:
            s.sendall(block)


def sink(flow: Flow) -> None:
    """Its receiver: data is dropped in the kernel."""
    with _accepted(flow, WAKE_BYTES) as s:
        while s.recv(1 << 20, socket.MSG_TRUNC):
            pass
        signal.pause()  # a FIN of its own would acknowledge the sender's


class Tally:
    """What a flow's receiver has compared; it writes, we read."""

    def __init__(self) -> None:
        self.fields = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")  # bytes; where the first wrong one was, or -1
        self.fields[1] = -1

    def told(self) -> dict[str, int | None]:
        compared, wrong_at = self.fields[:2]
        return {"bytes": compared, "wrong_at": None if wrong_at < 0 else wrong_at}


def pattern(flow: Flow, repeats: int) -> memoryview:
    """A flow's data: the byte at each position tells, with those around it, which position that is."""
    once = bytes(i * i * 2654435761 >> 16 & 255 for i in range(flow.id, flow.id + PATTERN_BYTES))
    return memoryview(once * repeats)


def telling_source(flow: Flow) -> None:
    """As source(), and what it sends can be checked."""
    data, position = pattern(flow, 3), 0
    with _connected(flow) as s:
        while True:
            at = position % PATTERN_BYTES
            position += s.send(data[at : at + WAKE_BYTES])


class Ending:
    """When a flow's sender closed its connection, and for how long that took, ns; it writes, we read."""

    def __init__(self) -> None:
        self.fields = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    def told(self) -> tuple[int, int] | None:
        closed, took = self.fields[:2]
        return (closed, took) if took else None


def sized_source(flow: Flow, ending: Ending) -> None:
    """As telling_source(), with an end. The FIN goes when nearly all is sent, as the tracer sees no ACK after it.
    The socket stays: one that is closed for good cannot be ended with a reset."""
    assert flow.size_bytes
    data, position = pattern(flow, 3), 0
    with _connected(flow) as s:
        while position < flow.size_bytes:
            at = position % PATTERN_BYTES
            position += s.send(data[at : at + min(WAKE_BYTES, flow.size_bytes - position)])
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        sent = select.poll()
        sent.register(s, select.POLLOUT)
        sent.poll()
        s.shutdown(socket.SHUT_WR)
        closed, unacknowledged = time.monotonic_ns(), bytearray(4)
        while not fcntl.ioctl(s, termios.TIOCOUTQ, unacknowledged) and any(unacknowledged):
            time.sleep(CLOSED_EVERY_S)
        ending.fields[:2] = memoryview(struct.pack("qq", closed, time.monotonic_ns() - closed)).cast("q")
        signal.pause()


def comparing_sink(flow: Flow, tally: Tally) -> None:
    """As sink(), for every byte. What waits for fewer than it wakes for is read twice a second."""
    data, block = pattern(flow, 2), memoryview(bytearray(PATTERN_BYTES))
    with _accepted(flow, COMPARE_BYTES) as s:
        ready = select.poll()
        ready.register(s, select.POLLIN)
        while True:
            ready.poll(500)
            try:
                got = s.recv_into(block, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            if not got:
                signal.pause()
            position = tally.fields[0]
            at = position % PATTERN_BYTES
            if block[:got] != data[at : at + got] and tally.fields[1] < 0:
                tally.fields[1] = position + next(i for i in range(got) if block[i] != data[at + i])
            tally.fields[0] = position + got


class Replies:
    """When a flow's receiver has asked, and how long each whole reply took, ns; it writes, we read."""

    def __init__(self) -> None:
        self.fields = memoryview(mmap.mmap(-1, 16 * REPLIES_MAX)).cast("q")

    def told(self) -> list[tuple[int, int]]:
        pairs = zip(self.fields[::2], self.fields[1::2], strict=True)
        return [(asked, took) for asked, took in pairs if took]


def answering_source(flow: Flow) -> None:
    """A flow's sender: so many bytes for each request."""
    assert flow.reply_bytes
    with _connected(flow) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        block = bytes(flow.reply_bytes)
        while s.recv(REQUEST_BYTES, socket.MSG_WAITALL):
            s.sendall(block)


def asking_sink(flow: Flow, replies: Replies) -> None:
    """Its receiver: when a reply is whole, it asks for the next."""
    assert flow.reply_bytes
    request = bytes(REQUEST_BYTES)
    with _accepted(flow, 1) as s:
        for i in range(0, 2 * REPLIES_MAX, 2):
            asked, left = time.monotonic_ns(), flow.reply_bytes
            s.sendall(request)
            while left:
                got = s.recv(min(left, 1 << 20), socket.MSG_TRUNC)
                if not got:
                    return
                left -= len(got)
            replies.fields[i : i + 2] = memoryview(struct.pack("qq", asked, time.monotonic_ns() - asked)).cast("q")
        signal.pause()


# --- background ----------------------------------------------------------------------------


def constant_rate(load: Load, sock: socket.socket) -> None:
    """Datagrams of one size, one every period_ns from now on, without end."""
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    datagram, due = bytes(load.payload_bytes), time.monotonic_ns()
    while True:
        try:
            sock.send(datagram)
        except OSError as e:
            # ENOBUFS: the path has dropped this one before it left. EMSGSIZE: ICMP told of a smaller MTU; the next
            # ones go in fragments.
            if e.errno not in (errno.ENOBUFS, errno.EMSGSIZE):
                raise
        due += load.period_ns
        if (left := due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)


class Background:
    """UDP senders at a constant bit rate.

    Nobody reads at the far end: its full buffer drops the datagrams, which wakes no process.
    """

    def __init__(self, job: Job, ns: Namespaces):
        self.sockets: list[socket.socket] = []
        self.senders: dict[int, Forked] = {}
        for load in job.background:
            with ns.enter(load.dst):
                void = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            void.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            void.bind((load.dst_addr, SERVER_PORT))
            with ns.enter(load.src):
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sock.connect((load.dst_addr, SERVER_PORT))
                self.sockets += [void, sock]
                self.senders[load.id] = Forked(constant_rate, load, sock)

    def start(self, load: Load) -> None:
        self.senders[load.id].send_signal(signal.SIGCONT)

    def stop(self, load: Load) -> None:
        self.senders[load.id].send_signal(signal.SIGSTOP)

    def check(self) -> None:
        for number, p in self.senders.items():
            if p.poll() is not None:
                raise Failure(f"background {number} ended: {words_of(p)}")

    def close(self) -> None:
        for p in self.senders.values():
            p.kill()
            p.wait()
            p.stdout.close()
        for s in self.sockets:
            s.close()
        self.sockets, self.senders = [], {}
