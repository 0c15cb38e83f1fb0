# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Connections whose every byte is checked, between the ends of a pair, and what controller and kernel then tell."""

from __future__ import annotations

import contextlib
import json
import sys

from tests.live.cgroups import HOME, within
from tests.live.harness import asymcc, program, run

BYTES = 2_000_000
# What goes each way is told by its place, so that a byte out of place is a byte wrong.
COMMON = """
import hashlib, signal, socket, sys, time
signal.alarm(60)
def stream(n):
    return b"".join(hashlib.sha256(i.to_bytes(8, "big")).digest() for i in range(n // 32 + 1))[:n]
def take(s, n, pause=0.0):
    got = b""
    while len(got) < n:
        part = s.recv(65536)
        if not part:
            break
        got += part
        time.sleep(pause)
    return got
address, port, n, cc = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
"""
LISTEN = (
    COMMON
    + """
l = socket.socket(family)
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if cc: l.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
if RCVBUF: l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RCVBUF)
l.bind((address, port)); l.listen(256); print("ready", flush=True)
"""
)
CONNECT = (
    COMMON
    + """
def connect():
    s = socket.socket(family)
    if cc: s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    s.connect((address, port))
    return s
"""
)
# takes every connection and reads of none: it outlives a peer that resets
IDLE = (
    LISTEN
    + """
sys.stdin.read()
"""
)
# client sends n bytes; the server answers with their digest
SINK = (
    LISTEN
    + """
s, _ = l.accept()
time.sleep(ASLEEP)
got = take(s, n)
s.sendall(hashlib.sha256(got).digest())
s.recv(1)
"""
)
SOURCE = (
    CONNECT
    + """
s = connect()
s.sendall(stream(n))
assert take(s, 32) == hashlib.sha256(stream(n)).digest()
print("right", flush=True)
if STAY: sys.stdin.read()
"""
)
# the client closes its half and gets n bytes
HALF_SERVER = (
    LISTEN
    + """
s, _ = l.accept()
assert take(s, 1 << 30) == b"get"
s.sendall(stream(n))
s.close()
"""
)
HALF_CLIENT = (
    CONNECT
    + """
s = connect()
s.sendall(b"get")
s.shutdown(socket.SHUT_WR)
assert take(s, 1 << 30) == stream(n)
print("right", flush=True)
"""
)
# both send n bytes at once
BOTH_SERVER = (
    LISTEN
    + """
import threading
s, _ = l.accept()
t = threading.Thread(target=s.sendall, args=(stream(n),)); t.start()
assert take(s, n) == stream(n)
t.join()
s.recv(1)
"""
)
BOTH_CLIENT = (
    CONNECT
    + """
import threading
s = connect()
t = threading.Thread(target=s.sendall, args=(stream(n),)); t.start()
assert take(s, n) == stream(n)
t.join()
print("right", flush=True)
"""
)
# 200 connections, each as above in small; twenty at a time
MANY_SERVER = (
    LISTEN
    + """
import threading
def serve(s):
    got = take(s, n)
    s.sendall(hashlib.sha256(got).digest())
    s.recv(1)
    s.close()
for i in range(CONNECTIONS):
    s, _ = l.accept()
    threading.Thread(target=serve, args=(s,), daemon=True).start()
time.sleep(60)
"""
)
MANY_CLIENT = (
    CONNECT
    + """
from concurrent.futures import ThreadPoolExecutor
data = stream(n)
def one(i):
    with connect() as s:
        s.sendall(data)
        return take(s, 32) == hashlib.sha256(data).digest()
with ThreadPoolExecutor(20) as pool:
    assert all(pool.map(one, range(CONNECTIONS)))
print("right", flush=True)
"""
)


@contextlib.contextmanager
def exchange(
    pair,
    server: str,
    client: str,
    cc: str,
    server_cc: str | None = None,
    n: int = BYTES,
    outside: str = "",
    **constants,
):
    """Runs both ends till the client has found all bytes right; inside, the connection may still be open."""
    values = {"RCVBUF": 0, "ASLEEP": 0, "STAY": False, "CONNECTIONS": 200} | constants
    head = "".join(f"{k} = {v!r}\n" for k, v in values.items())
    args = ("10.9.0.2", 7300, n)
    leave = within(HOME)
    server_cc = cc if server_cc is None else server_cc
    enter = ("ip", "netns", "exec")
    python = (sys.executable, "-c")
    with program(*leave * (outside == "server"), *enter, pair.server, *python, head + server, *args, server_cc) as s:
        assert s.stdout.readline() == "ready\n", s.stderr.read()
        with program(*leave * (outside == "client"), *enter, pair.client, *python, head + client, *args, cc) as c:
            assert c.stdout.readline() == "right\n", c.stderr.read() or "more than a minute"
            yield


def counted(name: str) -> dict[str, int]:
    return {c["name"]: c["value"] for c in json.loads(asymcc("show", name, "--json"))["counters"]}


def connections(pair, ns: str) -> str:
    """What `ss` tells of the test's connections there."""
    return pair.sh(ns, "ss", "-tinHO", "sport", "=", ":7300").stdout


@contextlib.contextmanager
def sockets_in_storage(name: str, objects, tmp_path):
    """A function that counts the sockets which have an entry in the instance's storage."""
    ops = next(row["map_id"] for row in json.loads(asymcc("list", "--json")) if row["name"] == name)
    maps = json.loads(run("bpftool", "-j", "map", "list").stdout)
    btf = next(m["btf_id"] for m in maps if m["id"] == ops)
    wires = next(m["id"] for m in maps if m["type"] == "sk_storage" and m.get("btf_id") == btf)
    run("mount", "-t", "bpf", "none", tmp_path)
    try:
        run("bpftool", "iter", "pin", objects / "storages.bpf.o", tmp_path / "storages")
        yield lambda: dict(map(int, line.split()) for line in (tmp_path / "storages").read_text().splitlines())[wires]
    finally:
        run("umount", tmp_path)
