# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP Formosa, both halves, on this machine's own kernel: whatever path and peer do, the bytes arrive."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

import rawtcp
from harness import ROOT, asymcc, kernel_has, program, run, unique
from harness import pytestmark as live

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
for i in range(200):
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
    assert all(pool.map(one, range(200)))
print("right", flush=True)
"""
)


MOUNT = next(
    (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"), ""
)
HOME = MOUNT + next(
    (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), ""
)
pytestmark = [*live, pytest.mark.skipif(not MOUNT, reason="no cgroup2 is mounted")]


@pytest.fixture
def cgroup():
    """A cgroup of the test's own; the test and what it starts are in it."""
    if not MOUNT:
        pytest.skip("no cgroup2 is mounted")
    path = Path(MOUNT) / unique("asymcc-test-")
    path.mkdir()
    try:
        Path(path, "cgroup.procs").write_text(str(os.getpid()))
        yield path
    finally:
        Path(HOME, "cgroup.procs").write_text(str(os.getpid()))
        path.rmdir()


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    """Folder with the tests' own BPF objects."""
    out = tmp_path_factory.mktemp("objects")
    machine = os.uname().machine
    for name in ("liar", "storages"):
        run(
            "clang",
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-mcpu=v3",
            "-D__TARGET_ARCH_x86",
            f"-I{ROOT}/bpf",
            "-idirafter",
            f"/usr/include/{machine}-linux-gnu",
            "-c",
            f"{ROOT}/tests/live/{name}.bpf.c",
            "-o",
            out / f"{name}.bpf.o",
        )
    return out


@pytest.fixture
def formosa(alias, cgroup):
    """Its registered name, both halves in place."""
    name = alias()
    asymcc("load", "formosa", "--as", name, "--cgroup", cgroup)
    return name


def counted(name: str) -> dict[str, int]:
    return {c["name"]: c["value"] for c in json.loads(asymcc("show", name, "--json"))["counters"]}


def fault(pair, ns: str, what: str, objects) -> None:
    """From now on, on what comes in there."""
    dev = pair.dev_c if ns == pair.client else pair.dev_s
    pair.sh(ns, "tc", "qdisc", "add", "dev", dev, "clsact")
    pair.sh(
        ns,
        "tc",
        "filter",
        "add",
        "dev",
        dev,
        "ingress",
        "bpf",
        "direct-action",
        "obj",
        objects / "liar.bpf.o",
        "sec",
        what,
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
    values = {"RCVBUF": 0, "ASLEEP": 0, "STAY": False} | constants
    head = "".join(f"{k} = {v!r}\n" for k, v in values.items())
    args = ("10.9.0.2", 7300, n)
    leave = ("sh", "-c", f'echo $$ >{HOME}/cgroup.procs && exec "$@"', "sh")
    server_cc = cc if server_cc is None else server_cc
    with program(
        *(leave if outside == "server" else ()),
        "ip",
        "netns",
        "exec",
        pair.server,
        sys.executable,
        "-c",
        head + server,
        *args,
        server_cc,
    ) as s:
        assert s.stdout.readline() == "ready\n", s.stderr.read()
        with program(
            *(leave if outside == "client" else ()),
            "ip",
            "netns",
            "exec",
            pair.client,
            sys.executable,
            "-c",
            head + client,
            *args,
            cc,
        ) as c:
            assert c.stdout.readline() == "right\n", c.stderr.read() or "more than a minute"
            yield


def test_one_ack_a_round(pair, formosa):
    with exchange(pair, SINK, SOURCE, formosa):
        pass
    n = counted(formosa)
    assert n["peers"] == 2 and n["fallbacks"] == 0 and n["options_bad"] == 0
    assert 0.9 * n["rounds"] <= n["acks_sent"] <= 1.3 * n["rounds"] + 10
    assert n["acks_sent"] < n["options_seen"] / 4 and n["acks_suppressed"] > n["options_seen"] / 4


@pytest.mark.parametrize("outside", ["server", "client"])
def test_one_end_is_outside_the_cgroup(outside, pair, formosa):
    """One says hello, and the other does not know the word: no options, the law alone."""
    with exchange(pair, SINK, SOURCE, formosa, outside=outside):
        pass
    n = counted(formosa)
    assert n["peers"] == n["options_sent"] == n["acks_suppressed"] == 0 and n["rounds"] > 10


def test_alone(pair):
    """Registered by bpftool: no options, and a peer that knows nothing of it."""
    if kernel_has("formosa"):
        pytest.skip("formosa is registered on this machine")
    run("bpftool", "struct_ops", "register", ROOT / "build" / "formosa.bpf.o")
    try:
        with exchange(pair, SINK, SOURCE, "formosa", server_cc="cubic"):
            n = counted("formosa")
            assert n["peers"] == n["options_sent"] == 0 and n["rounds"] > 10
    finally:
        run("bpftool", "struct_ops", "unregister", "name", "formosa")


def connections(pair, ns: str) -> str:
    """What `ss` tells of the test's connections there."""
    return pair.sh(ns, "ss", "-tinHO", "sport", "=", ":7300").stdout


def test_receiver_is_switched(pair, formosa, objects, tmp_path):
    """The listener asks for nothing: its end of a Formosa connection runs Formosa, with the window that it had."""
    with (
        exchange(pair, SINK, SOURCE, formosa, server_cc="", STAY=True),
        sockets_in_storage(formosa, objects, tmp_path) as open_now,
    ):
        assert f" {formosa} " in connections(pair, pair.server)
        assert open_now.read_text() == 2 * "socket\n"
    assert counted(formosa)["acks_suppressed"] > 100


CHOOSES = SINK.replace(
    "s, _ = l.accept()", "s, _ = l.accept(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'cubic')"
)


@pytest.mark.parametrize(
    "server, server_cc, hello", [(SINK, "cubic", False), (CHOOSES, "", True)], ids=["listener", "connection"]
)
def test_an_application_that_chose_its_controller_keeps_it(server, server_cc, hello, pair, formosa):
    """Whatever its peer says: its window, its ACKs are as without Formosa, and the peer falls back. A listener that
    chose answers no hello."""
    with exchange(pair, server, SOURCE, formosa, server_cc=server_cc, STAY=True):
        line = connections(pair, pair.server)
        assert " cubic " in line and " cwnd:10 " in line
    n = counted(formosa)
    assert n["flows"] == 1 and n["acks_sent"] == n["acks_suppressed"] == n["answers_seen"] == 0
    assert n["fallbacks"] == hello and n["peers"] == 2 * hello and (n["options_seen"] > 0) == hello


DOWNLOAD_SERVER = (
    LISTEN
    + """
s, _ = l.accept()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, SENDER.encode())
s.sendall(stream(n))
s.recv(1)
"""
)
DOWNLOAD = (
    CONNECT
    + """
s = connect()
assert take(s, n) == stream(n)
print("right", flush=True)
"""
)


@pytest.mark.parametrize("hello, cc, says", [(0, "", False), (1, "", True), (1, "cubic", False)])
def test_who_only_downloads_says_hello_if_that_is_asked_for(hello, cc, says, pair, alias, cgroup):
    """From a server that sends by Formosa, over no controller of his choice or one of it."""
    name = alias()
    asymcc("load", "formosa", "--as", name, "--cgroup", cgroup, "--set", f"hello={hello}")
    with watching(pair, pair.server) as port:
        with exchange(pair, DOWNLOAD_SERVER, DOWNLOAD, cc, server_cc="", n=BYTES // 4, SENDER=name):
            pass
        syns = [*iter(lambda: port.receive(0.1, flags=rawtcp.SYN), None)]
    n = counted(name)
    assert [s.option(253, b"\xf0\xa0") is not None for s in syns] == [says]
    assert n["peers"] == 2 * says and (n["options_sent"] > 0) == (n["acks_suppressed"] > 0) == says


@contextlib.contextmanager
def watching(pair, ns: str):
    """What comes to the namespace from the other, and a way to send there."""
    mine, other = ((pair.server, pair.dev_s), (pair.client, pair.dev_c))[:: 1 if ns == pair.server else -1]
    mac = json.loads(pair.sh(other[0], "ip", "-j", "link", "show", other[1]).stdout)[0]["address"]
    port = rawtcp.Port(*mine, mac)
    try:
        yield port
    finally:
        port.close()


@pytest.mark.parametrize("what", ["strip", "strip_data"])
def test_data_options_are_stripped(what, pair, formosa, objects):
    fault(pair, pair.server, what, objects)
    with exchange(pair, SINK, SOURCE, formosa):
        pass
    n = counted(formosa)
    assert n["options_seen"] <= 1 and n["acks_suppressed"] == 0  # the server's answer goes the other way
    assert n["fallbacks"] == (what == "strip_data") and n["rounds"] > 10


def test_answers_are_stripped(pair, formosa, objects):
    fault(pair, pair.client, "strip_answer", objects)
    with exchange(pair, SINK, SOURCE, formosa):
        pass
    n = counted(formosa)
    assert n["fallbacks"] == 1 and n["options_seen"] < 100, (
        "the sender stops writing options, the receiver stops thinning"
    )


@pytest.mark.parametrize(
    "what", ["wild_srtt", "wild_stamp", "wild_round", "no_round", "wrong_length", "garbage", "lose_data"]
)
def test_wild_data_options(what, pair, formosa, objects):
    fault(pair, pair.server, what, objects)
    with exchange(pair, SINK, SOURCE, formosa, n=BYTES // 10):
        pass


@pytest.mark.parametrize("what", ["signals", "echoes", "wrong_length", "garbage", "lose_acks"])
def test_wild_answers(what, pair, formosa, objects):
    fault(pair, pair.client, what, objects)
    with exchange(pair, SINK, SOURCE, formosa, n=BYTES // 10):
        pass
    assert counted(formosa)["options_seen"] >= 4


def test_a_closed_window_opens(pair, formosa):
    """The receiver sleeps till the sender has filled its buffer and stopped."""
    with exchange(pair, SINK, SOURCE, formosa, RCVBUF=20_000, ASLEEP=1.0):
        pass
    assert counted(formosa)["options_seen"] > 100


def test_half_closed(pair, formosa):
    with exchange(pair, HALF_SERVER, HALF_CLIENT, formosa):
        pass
    n = counted(formosa)
    assert n["acks_sent"] < n["options_seen"] / 4, "the half that is closed thins its ACKs too"


def test_both_ways_at_once(pair, formosa):
    with exchange(pair, BOTH_SERVER, BOTH_CLIENT, formosa):
        pass
    assert counted(formosa)["fallbacks"] == 0


@contextlib.contextmanager
def sockets_in_storage(name: str, objects, tmp_path):
    """A file with one line for each socket that has an entry in the instance's storage."""
    ops = next(row["map_id"] for row in json.loads(asymcc("list", "--json")) if row["name"] == name)
    maps = json.loads(run("bpftool", "-j", "map", "list").stdout)
    btf = next(m["btf_id"] for m in maps if m["id"] == ops)
    wires = next(m["id"] for m in maps if m["type"] == "sk_storage" and m.get("btf_id") == btf)
    run("mount", "-t", "bpf", "none", tmp_path)
    try:
        run("bpftool", "iter", "pin", objects / "storages.bpf.o", tmp_path / "left", "map", "id", wires)
        yield tmp_path / "left"
    finally:
        run("umount", tmp_path)


def test_many_connections_leave_nothing(pair, formosa, objects, tmp_path):
    with exchange(pair, MANY_SERVER, MANY_CLIENT, formosa, n=20_000):
        pass
    assert counted(formosa)["peers"] == 400
    with sockets_in_storage(formosa, objects, tmp_path) as left:
        assert left.read_text() == ""


def test_unload_with_open_connections(pair, formosa):
    """What runs goes on, without options; new connections get another controller."""
    source = SOURCE.replace(
        "s.sendall(stream(n))",
        "s.sendall(stream(n)[:n // 2]); print('half', flush=True); sys.stdin.readline(); s.sendall(stream(n)[n // 2:])",
    )
    head = "RCVBUF = 0\nASLEEP = 0\nSTAY = False\n"
    args = ("10.9.0.2", 7300, BYTES, formosa)
    with program("ip", "netns", "exec", pair.server, sys.executable, "-c", head + SINK, *args) as s:
        assert s.stdout.readline() == "ready\n", s.stderr.read()
        with program("ip", "netns", "exec", pair.client, sys.executable, "-c", head + source, *args) as c:
            assert c.stdout.readline() == "half\n", c.stderr.read()
            asymcc("unload", formosa)
            c.stdin.write("\n")
            c.stdin.flush()
            assert c.stdout.readline() == "right\n", c.stderr.read()
