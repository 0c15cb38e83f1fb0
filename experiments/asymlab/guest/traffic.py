# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Flows and background traffic: each end of a connection is a thread of the agent's, which waits in the kernel.

A thread calls the kernel once for as much as it will take: a receiver for a gigabyte, a sender for two megabytes. The
kernel's own loop then reads each packet as it comes, as a program would that reads at once. So the window, the ACKs and
the buffer's growth are those of such a program, and a packet costs no system call.
"""

import _thread
import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from typing import Any

from .job import Background as Load
from .job import Flow, Job
from .net import Namespaces, datagrams
from .netlink import family
from .protocol import COMPARE_BYTES, FLOW_PORT, Fault, is_v6
from .subflows import IPPROTO_MPTCP
from .system import LIBC, Failure

SERVER_PORT = 5201
WAKE_BYTES = 128 << 10  # a receiver wakes for this much, not for every packet: half the guest's work
LARGE = 64 * WAKE_BYTES  # of a receive buffer at its start
BLOCK_BYTES = 128 << 10  # that a sender hands over in one piece; the last packet of each says PSH
BLOCKS = 16  # in one system call
READ_BYTES = 1 << 30  # in one system call
WRITE_EVERY_NS = 10**7  # of a program that limits its flow
REQUEST_BYTES = 100
REPLIES_MAX = 1 << 14
UNSENT_BYTES = 4096  # fewer than this wait to be sent when a flow closes: the FIN goes with the last of them
CLOSED_EVERY_S = 1e-3  # it looks whether the FIN is acknowledged
PATTERN_BYTES = 65521  # a prime: no packet's length divides it
PRIME = (1 << 30) - 35
PR_SET_TIMERSLACK = 29
STACK_BYTES = 64 << 10  # of a thread; in a guest all of it is there from the start
INTERRUPT = signal.SIGUSR1
ASK_AGAIN_S = 1e-3


# --- threads -------------------------------------------------------------------------------


def _nothing(*_: object) -> None:
    """The signal has done its work when it has interrupted a system call."""


class Ended(BaseException):
    """Raised in a worker that is to end."""


class Worker:
    """A function in a thread of its own; it may be held, also within a system call (`call`), and goes on."""

    def __init__(self, work: Callable[..., None], *args: Any):
        self.work, self.args = work, args
        self.go, self.rests = threading.Event(), threading.Event()
        self.thread = 0
        self.closing = self.over = False
        self.error = ""

    def start(self) -> None:
        if signal.getsignal(INTERRUPT) is not _nothing:
            signal.signal(INTERRUPT, _nothing)
            threading.stack_size(STACK_BYTES)
        self.go.set()
        self.thread = _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self.work(self, *self.args)
            self.error = "nothing more to do"
        except Ended:
            pass
        except OSError as e:
            self.error = e.strerror or str(e)
        except BaseException as e:
            self.error = str(e)
        finally:
            self.over = True
            self.rests.set()

    def _interrupt(self) -> None:
        """Until it rests, or is over. A signal that finds it outside of a system call is lost, hence again."""
        while not self.rests.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(self.thread, INTERRUPT)
            self.rests.wait(ASK_AGAIN_S)

    def stop(self) -> None:
        if self.thread:
            self.go.clear()
            self._interrupt()

    def resume(self) -> None:
        if not self.thread:
            return self.start()
        if not self.over:
            self.rests.clear()
        self.go.set()

    def close(self) -> None:
        if self.thread and not self.over:
            self.stop()
            self.closing = True
            self.resume()
            while not self.over:
                time.sleep(ASK_AGAIN_S)

    # The worker alone calls these.

    def hold(self) -> None:
        """Rest while the worker is stopped."""
        while not self.go.is_set():
            self.rests.set()
            self.go.wait()
        if self.closing:
            raise Ended

    def call(self, function: Callable[..., int], *args: Any) -> int:
        """A system call that may be interrupted, again and again until it is made. OSError."""
        while True:
            self.hold()
            if (value := function(*args)) >= 0:
                return value
            if (error := ctypes.get_errno()) != errno.EINTR:
                raise OSError(error, os.strerror(error))

    def send(self, s: socket.socket, data: Any, size: int) -> None:
        """All of a buffer."""
        at = ctypes.addressof(data)
        while size:
            sent = self.call(LIBC.send, s.fileno(), ctypes.c_void_p(at), size, 0)
            at, size = at + sent, size - sent

    def drop(self, s: socket.socket, size: int) -> int:
        """Wait for so many bytes, or the end; they go nowhere. Returns how many came: fewer if interrupted."""
        return self.call(LIBC.recv, s.fileno(), None, size, socket.MSG_TRUNC | socket.MSG_WAITALL)

    def poll(self, s: socket.socket, what: int, limit_ms: int) -> None:
        self.call(LIBC.poll, ctypes.create_string_buffer(struct.pack("ihh", s.fileno(), what, 0)), 1, limit_ms)

    def sleep_until(self, t_ns: int) -> None:
        until = ctypes.create_string_buffer(struct.pack("qq", *divmod(t_ns, 10**9)))
        while True:
            self.hold()
            if LIBC.clock_nanosleep(time.CLOCK_MONOTONIC, 1, until, None) != errno.EINTR:
                return

    def wait(self) -> None:
        """For its end."""
        while True:
            self.call(LIBC.pause)


# --- flows ---------------------------------------------------------------------------------


class Traffic:
    """The ends of all flows; a flow that stops is held, so that its connection stays and sends no new data."""

    def __init__(self, job: Job, ns: Namespaces):
        self.job, self.ns = job, ns
        self.sockets: list[socket.socket] = []
        self.sources: dict[int, Worker] = {}
        self.sinks: dict[int, Worker] = {}
        self.tallies: dict[int, Tally] = {}
        self.replies: dict[int, list[tuple[int, int]]] = {}
        self.endings: dict[int, Ending] = {}

    def serve(self) -> None:
        """Receivers listen."""
        for flow in self.job.flows:
            if flow.subflow:
                continue
            work, *more = self._sink(flow)
            with self.ns.enter(flow.dst):
                listener = self._socket(flow, flow.dst_addr)
                wakes = 1 if flow.reply_bytes else wakes_for(COMPARE_BYTES if self.job.verify else WAKE_BYTES)
            listener.bind(("" if flow.second_at else flow.dst_addr, SERVER_PORT + flow.id))
            listener.listen(1)
            self.sinks[flow.id] = worker = Worker(self._accepted, listener, wakes, work, flow, *more)
            worker.start()

    def _sink(self, flow: Flow) -> tuple[Any, ...]:
        """The receiver's work, and what it takes besides its connection and its flow."""
        if flow.reply_bytes:
            replies: list[tuple[int, int]] = []
            self.replies[flow.id] = replies
            return asking_sink, replies
        if self.job.verify:
            self.tallies[flow.id] = tally = Tally()
            return comparing_sink, tally
        return (sink,)

    def _source(self, flow: Flow) -> tuple[Any, ...]:
        if flow.reply_bytes:
            return (answering_source,)
        if flow.size_bytes:
            self.endings[flow.id] = ending = Ending()
            return sized_source, ending
        if flow.write_bytes:
            return (writing_source,)
        return (telling_source if self.job.verify else source,)

    def _socket(self, flow: Flow, addr: str) -> socket.socket:
        protocol = IPPROTO_MPTCP if flow.second else 0
        self.sockets.append(s := socket.socket(family(addr), socket.SOCK_STREAM, protocol))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return s

    def _accepted(self, worker: Worker, listener: socket.socket, wakes: int, work: Callable[..., None], *args) -> None:
        fd = worker.call(LIBC.accept4, listener.fileno(), None, None, socket.SOCK_CLOEXEC)
        self.sockets.append(s := socket.socket(fileno=fd))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wakes)
        work(worker, s, *args)

    def _connected(self, worker: Worker, s: socket.socket, work: Callable[..., None], flow: Flow, *args) -> None:
        to = _packed(flow.dst_addr, SERVER_PORT + flow.id)
        worker.call(LIBC.connect, s.fileno(), to, len(to))
        work(worker, s, flow, *args)

    def start(self, flow: Flow) -> None:
        """From its SYN on."""
        with self.ns.enter(flow.src):
            s = self._socket(flow, flow.src_addr)
        s.bind((flow.src_addr, FLOW_PORT + flow.id))
        work, *more = self._source(flow)
        self.sources[flow.id] = worker = Worker(self._connected, s, work, flow, *more)
        worker.start()

    def stop(self, flow: Flow) -> None:
        self.sources[flow.id].stop()

    def resume(self, flow: Flow) -> None:
        self.sources[flow.id].resume()

    def check(self) -> None:
        """A sender never ends by itself: one that did says why."""
        for number, worker in self.sources.items():
            if worker.over:
                raise Failure(f"flow {number}: its sender ended: {worker.error}", Fault.FLOW)

    def close(self) -> None:
        for worker in (*self.sources.values(), *self.sinks.values()):
            worker.close()
        for s in self.sockets:  # with a reset: an orphan would hold namespace and controller for minutes
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        self.sources, self.sinks, self.sockets = {}, {}, []


def _packed(addr: str, port: int) -> bytes:
    """The address as connect() takes it."""
    of, to = family(addr), socket.inet_pton(family(addr), addr)
    return (
        struct.pack("=H", of) + struct.pack("!H", port) + (bytes(4) + to + bytes(4) if is_v6(addr) else to + bytes(8))
    )


def wakes_for(wanted: int) -> int:
    """Bytes for which a receiver of this namespace wakes: a small buffer grows by what is read of each round trip, less
    what waits unread (tcp_rcv_space_adjust()), so there it reads at once, as any program does."""
    with open("/proc/sys/net/ipv4/tcp_rmem") as f:
        _, start, _ = map(int, f.read().split())
    return wanted if start >= LARGE else 1


def source(worker: Worker, s: socket.socket, flow: Flow) -> None:
    """A flow's sender: data without end."""
    block = ctypes.create_string_buffer(BLOCK_BYTES)
    piece = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(block), BLOCK_BYTES))
    message = struct.pack("QQQQ32x", 0, 0, ctypes.addressof(piece), 1)
    messages = ctypes.create_string_buffer(message * BLOCKS)
    while True:
        worker.call(LIBC.sendmmsg, s.fileno(), messages, BLOCKS, 0)


def writing_source(worker: Worker, s: socket.socket, flow: Flow) -> None:
    """A sender that its program limits: so many bytes each 10 ms. After a full buffer or a pause it writes no more."""
    assert flow.write_bytes
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    block, due = ctypes.create_string_buffer(flow.write_bytes), time.monotonic_ns()
    while True:
        worker.send(s, block, flow.write_bytes)
        due = max(due + WRITE_EVERY_NS, time.monotonic_ns())
        worker.sleep_until(due)


def sink(worker: Worker, s: socket.socket, flow: Flow) -> None:
    """Its receiver: data is dropped in the kernel."""
    while worker.drop(s, READ_BYTES):
        pass
    worker.wait()  # a FIN of its own would acknowledge the sender's


class Tally:
    """The comparisons of a flow's receiver."""

    def __init__(self) -> None:
        self.bytes, self.wrong_at = 0, -1

    def told(self) -> dict[str, int | None]:
        return {"bytes": self.bytes, "wrong_at": None if self.wrong_at < 0 else self.wrong_at}


def pattern(flow: Flow, size: int) -> bytes:
    """A flow's data: four bytes in a row tell which position of the first PATTERN_BYTES that is, from any of which so
    many bytes follow. They are digits of 1 / PRIME."""
    digits = PATTERN_BYTES + flow.id
    data = ((1 << 8 * digits) // PRIME).to_bytes(digits, "big")[flow.id :]
    return data * (1 + -(-size // PATTERN_BYTES))


def _tell(worker: Worker, s: socket.socket, flow: Flow, size: int | None) -> None:
    """Send so much of the pattern, or all that is ever taken."""
    data = pattern(flow, BLOCK_BYTES)
    buffer = ctypes.create_string_buffer(data, len(data))
    start, position = ctypes.addressof(buffer), 0
    while size is None or position < size:
        at = ctypes.c_void_p(start + position % PATTERN_BYTES)
        left = BLOCK_BYTES if size is None else min(BLOCK_BYTES, size - position)
        position += worker.call(LIBC.send, s.fileno(), at, left, 0)


def telling_source(worker: Worker, s: socket.socket, flow: Flow) -> None:
    """source(), with data that can be checked."""
    _tell(worker, s, flow, None)


class Ending:
    """When a flow's sender closed its connection, and for how long that took, ns."""

    closed = took = 0

    def told(self) -> tuple[int, int] | None:
        return (self.closed, self.took) if self.took else None


def sized_source(worker: Worker, s: socket.socket, flow: Flow, ending: Ending) -> None:
    """telling_source(), with an end. The FIN goes when nearly all is sent, as the tracer sees no ACK after it.
    The socket stays: one that is closed for good cannot be ended with a reset."""
    _tell(worker, s, flow, flow.size_bytes)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    worker.poll(s, select.POLLOUT, -1)
    s.shutdown(socket.SHUT_WR)
    closed, unacknowledged = time.monotonic_ns(), bytearray(4)
    while not fcntl.ioctl(s, termios.TIOCOUTQ, unacknowledged) and any(unacknowledged):
        worker.sleep_until(time.monotonic_ns() + int(CLOSED_EVERY_S * 1e9))
    ending.closed, ending.took = closed, time.monotonic_ns() - closed
    worker.wait()


def comparing_sink(worker: Worker, s: socket.socket, flow: Flow, tally: Tally) -> None:
    """sink(), for every byte. Twice a second it reads the bytes that are too few to wake it."""
    data, block = pattern(flow, PATTERN_BYTES), ctypes.create_string_buffer(PATTERN_BYTES)
    at_once = s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
    while True:
        if not at_once:
            worker.poll(s, select.POLLIN, 500)
        try:
            got = worker.call(LIBC.recv, s.fileno(), block, PATTERN_BYTES, 0 if at_once else socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        if not got:
            worker.wait()
        at = tally.bytes % PATTERN_BYTES
        came, sent = ctypes.string_at(block, got), data[at : at + got]
        if came != sent and tally.wrong_at < 0:
            tally.wrong_at = tally.bytes + next(i for i in range(got) if came[i] != sent[i])
        tally.bytes += got


def answering_source(worker: Worker, s: socket.socket, flow: Flow) -> None:
    """A flow's sender: so many bytes for each request."""
    assert flow.reply_bytes
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    block, left = ctypes.create_string_buffer(flow.reply_bytes), REQUEST_BYTES
    while got := worker.drop(s, left):
        left -= got
        if not left:
            worker.send(s, block, flow.reply_bytes)
            left = REQUEST_BYTES


def asking_sink(worker: Worker, s: socket.socket, flow: Flow, replies: list[tuple[int, int]]) -> None:
    """Its receiver: when a reply is whole, it asks for the next, or when that is due. When it has asked, and how long
    each took, ns."""
    assert flow.reply_bytes
    if flow.every_s:
        LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    request, due = ctypes.create_string_buffer(REQUEST_BYTES), time.monotonic_ns()
    while len(replies) < REPLIES_MAX:
        asked, left = time.monotonic_ns(), flow.reply_bytes
        worker.send(s, request, REQUEST_BYTES)
        while left:
            if not (got := worker.drop(s, left)):
                return
            left -= got
        replies.append((asked, time.monotonic_ns() - asked))
        if flow.every_s:
            due += int(flow.every_s * 1e9)
            worker.sleep_until(due)
    worker.wait()


# --- background ----------------------------------------------------------------------------


def constant_rate(worker: Worker, load: Load, sock: socket.socket) -> None:
    """Datagrams of one size, one every period_ns from now on, without end."""
    LIBC.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    datagram, due = bytes(load.payload_bytes), time.monotonic_ns()
    while True:
        try:
            worker.call(LIBC.send, sock.fileno(), datagram, len(datagram), 0)
        except OSError as e:
            # ENOBUFS: the path has dropped this one before it left. EMSGSIZE: ICMP told of a smaller MTU; the next
            # ones go in fragments.
            if e.errno not in (errno.ENOBUFS, errno.EMSGSIZE):
                raise
        due += load.period_ns
        worker.sleep_until(due)


class Background:
    """UDP senders at a constant bit rate.

    Nobody reads at the far end: its full buffer drops the datagrams, which wakes no process.
    """

    def __init__(self, job: Job, ns: Namespaces):
        self.sockets: list[socket.socket] = []
        self.senders: dict[int, Worker] = {}
        for load in job.background:
            with ns.enter(load.dst):
                void = datagrams(load.dst_addr)
            void.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
            void.bind((load.dst_addr, SERVER_PORT))
            with ns.enter(load.src):
                sock = datagrams(load.dst_addr)
                sock.connect((load.dst_addr, SERVER_PORT))
            self.sockets += [void, sock]
            self.senders[load.id] = Worker(constant_rate, load, sock)

    def start(self, load: Load) -> None:
        self.senders[load.id].start()

    def stop(self, load: Load) -> None:
        self.senders[load.id].stop()

    def check(self) -> None:
        for number, worker in self.senders.items():
            if worker.over:
                raise Failure(f"background {number} ended: {worker.error}")

    def close(self) -> None:
        for worker in self.senders.values():
            worker.close()
        for s in self.sockets:
            s.close()
        self.sockets, self.senders = [], {}
