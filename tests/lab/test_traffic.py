# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ends of flows, on this machine's loopback: no namespaces, no root."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import replace

import pytest

from asymlab.guest import traffic
from asymlab.guest.job import Background as Load
from asymlab.guest.system import Failure
from asymlab.guest.traffic import Background, Traffic
from tests.shared import some_flow, some_job

BYTES_ACKED = 120  # in struct tcp_info
FLOW = replace(some_flow(0, "reno"), src_addr="127.0.0.1", dst_addr="127.0.0.1")


class Here:
    """This namespace, for all nodes."""

    def enter(self, node):
        return contextlib.nullcontext()


@pytest.fixture
def flows(monkeypatch):
    """A Traffic of one flow that has these members; it listens."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(traffic, "SERVER_PORT", one.getsockname()[1])
        monkeypatch.setattr(traffic, "FLOW_PORT", other.getsockname()[1])
    all_of_them = []

    def make(verify=False, **members):
        flow = replace(FLOW, **members)
        all_of_them.append(Traffic(some_job(flows=[flow], verify=verify), Here()))
        all_of_them[-1].serve()
        return all_of_them[-1], flow

    yield make
    for one in all_of_them:
        one.close()


def connection(t):
    """The sender's."""
    (s,) = (s for s in t.sockets if s.getsockname()[1] == traffic.FLOW_PORT and s.fileno() >= 0)
    return s


def acked(t):
    info = connection(t).getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("<Q", info, BYTES_ACKED)[0]


def until(condition, limit_s=20):
    end = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def test_a_flow_sends_stops_within_a_call_and_goes_on(flows):
    t, flow = flows()
    t.start(flow)
    until(lambda: acked(t) > 1 << 20)
    t.stop(flow)
    assert t.sources[0].rests.is_set()
    time.sleep(0.2)  # what was in the buffer is sent
    before = acked(t)
    time.sleep(0.2)
    assert acked(t) == before
    t.check()
    t.resume(flow)
    until(lambda: acked(t) > before + (1 << 20))


def test_what_is_closed_leaves_no_thread_and_no_connection(flows):
    t, flow = flows()
    t.start(flow)
    until(lambda: acked(t) > 1 << 20)
    workers = [*t.sources.values(), *t.sinks.values()]
    t.close()
    assert all(worker.over for worker in workers)
    with open("/proc/net/tcp") as f:
        assert f":{traffic.FLOW_PORT:04X} " not in f.read()


def test_a_sender_that_ends_says_why(flows):
    t, flow = flows()
    t.sinks[0].close()
    t.sockets.pop(0).close()  # the listener
    t.start(flow)
    until(lambda: t.sources[0].over)
    with pytest.raises(Failure, match="flow 0: its sender ended: Connection refused"):
        t.check()


@pytest.mark.parametrize("wrong_at", [None, 0, 70_000])
def test_a_receiver_tells_where_the_first_wrong_byte_is(flows, wrong_at):
    t, flow = flows(verify=True)
    data = bytearray(traffic.pattern(flow, 2 * traffic.PATTERN_BYTES))
    if wrong_at is not None:
        for at in (wrong_at, 150_000):
            data[at] ^= 1
    with socket.create_connection(("127.0.0.1", traffic.SERVER_PORT), timeout=10) as s:
        s.sendall(data)
        until(lambda: t.tallies[0].bytes == len(data))
    assert t.tallies[0].told() == {"bytes": len(data), "wrong_at": wrong_at}


def test_four_bytes_tell_the_position():
    data = traffic.pattern(replace(FLOW, id=3), traffic.PATTERN_BYTES)
    assert len({data[at : at + 4] for at in range(traffic.PATTERN_BYTES)}) == traffic.PATTERN_BYTES
    assert data[traffic.PATTERN_BYTES :] == data[: traffic.PATTERN_BYTES]
    assert traffic.pattern(replace(FLOW, id=4), 4)[:1000] == data[1:1001]


def test_a_receiver_that_wakes_for_each_byte_does_not_ask_whether_there_are_some(flows, monkeypatch):
    monkeypatch.delattr(traffic.Worker, "poll")
    t, flow = flows(verify=True)
    t.start(flow)
    until(lambda: t.tallies[0].bytes > 1 << 20)


@pytest.mark.parametrize("taken", [0, 65_492, 65_520])
def test_a_sender_tells_the_same_wherever_a_call_ends(flows, monkeypatch, taken):
    """The kernel takes so much of the first block; the next one begins there."""
    whole, first = traffic.Worker.call, [taken] if taken else []

    def call(worker, function, *args):
        if function is traffic.LIBC.send and first:
            args = (*args[:2], first.pop(), *args[3:])
        return whole(worker, function, *args)

    monkeypatch.setattr(traffic.Worker, "call", call)
    t, flow = flows(verify=True)
    t.start(flow)
    until(lambda: t.tallies[0].bytes > 1 << 20)
    assert t.tallies[0].told()["wrong_at"] is None


def test_what_a_sender_tells_is_what_a_receiver_compares(flows):
    t, flow = flows(verify=True, size_bytes=3_000_001)
    t.start(flow)
    closed, took = until(lambda: t.endings[0].told())
    assert t.tallies[0].told() == {"bytes": 3_000_001, "wrong_at": None} and closed > 0 < took
    t.check()  # it is not over: its socket stays


def test_a_program_limits_its_flow(flows):
    t, flow = flows(write_bytes=1000)
    began = time.monotonic_ns()
    t.start(flow)
    time.sleep(0.5)
    info = connection(t).getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    (sent,) = struct.unpack_from("Q", info, 120)  # tcpi_bytes_acked
    assert 1000 <= sent <= 1000 * (2 + (time.monotonic_ns() - began) // 10**7)


def test_requests_and_their_replies(flows):
    t, flow = flows(reply_bytes=300_000)
    t.start(flow)
    until(lambda: len(t.replies[0]) > 5)
    t.check()
    (asked, took), (next_asked, _) = t.replies[0][:2]
    assert 0 < took <= next_asked - asked


def test_a_load_has_its_rate(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.2", 0))
        monkeypatch.setattr(traffic, "SERVER_PORT", far.getsockname()[1])
        load = Load(0, "src0", "dst0", "127.0.0.1", "127.0.0.2", 100, 10**6, 0.0, None, [])
        background = object.__new__(Background)
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect(far.getsockname())
        background.sockets, background.senders = [sock], {0: traffic.Worker(traffic.constant_rate, load, sock)}
        began = time.monotonic_ns()
        background.start(load)
        for _ in range(100):
            far.recv(1000)
        assert time.monotonic_ns() - began >= 99 * load.period_ns
        background.check()
        background.stop(load)
        far.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while far.recv(1000):
                pass
        time.sleep(0.05)
        with pytest.raises(BlockingIOError):
            far.recv(1000)
        background.close()
