# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs, many connections, and many loads: each controller on this machine's kernel, as an operator uses it.

`make test` has a short form; `make check-clients` all of it, and prints times beside cubic's.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
import shutil
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.live import homes
from tests.live.clients.path import GATEWAY, NET, SERVER, Link, Path3, asymmetric
from tests.live.clients.servers import IMAGES, NGINX, SCRIPTS, SMALL, SSH, SSHD, STYLES, WEB, contents, ssh, web
from tests.live.exchanges import exchange, sockets_in_storage
from tests.live.harness import ASYMCC, ROOT, asymcc, endpoint, expect, listed, needs_cgroup2, program, run, values
from tests.live.harness import pytestmark as live
from tests.live.pairs import listening

FULL = os.environ.get("CLIENTS") == "full"
FIVE = ["fast", "fusion", "taichung", "formosa", "pseudorate"]
# By default these begin with one packet or two; with the kernel's ten, short connections tell what that costs.
BEGIN = [f"{name} init_cwnd=0" for name in ("fast", "formosa")]
# A stock sender to a client that drops ACKs.
THINNED = ["cubic thinned"]
ROUNDS, FLOWS, LOADS = (2, 1000, {"unload": 200, "replace": 50}) if FULL else (1, 200, {"unload": 5, "replace": 5})
BIG, MEDIUM = (10_000_000, 3_000_000) if FULL else (300_000, 200_000)  # bytes
# FAST's packets in the queue, well below the room there is: 100 packets toward a client, 40 in a pair, shared by all
# flows
PATIENCE = {"path": ("--set", "alpha=20"), "pair": ("--set", "alpha=5"), "many": ("--set", "alpha=1")}
PAGE = ["env", "-C", ROOT, sys.executable, "-m", "tests.live.clients.page"]
pytestmark = [*live, needs_cgroup2]


@functools.cache
def has_halves(name: str) -> bool:
    return bool(json.loads(asymcc("show", name, "--json"))["cgroup_programs"])


def load(name: str, cc: str, cgroup: Path, where: str, *more) -> None:
    downloads = ("--set", "hello=1") if name == "formosa" and where == "path" else ()
    asymcc(
        "load",
        name,
        "--as",
        cc,
        *(("--cgroup", cgroup) if has_halves(name) else ()),
        *(PATIENCE[where] if name == "fast" else ()),
        *downloads,
        *more,
    )


def counted(cc: str) -> dict[str, int]:
    return values(cc, "counters")


def belongings(cc: str) -> int:
    """BTF id of what is loaded now: its maps and programs share it."""
    return json.loads(run("bpftool", "-j", "map", "show", "id", listed(cc)["map_id"]).stdout)["btf_id"]


def remains(ids) -> list[str]:
    """Maps and programs of these loads that are still there. The kernel frees them a little later."""
    for _ in range(100):
        there = [
            f"{what} {x['id']} {x.get('name')}"
            for what in ("map", "prog")
            for x in json.loads(run("bpftool", "-j", what, "list").stdout)
            if x.get("btf_id") in ids
        ]
        if not there:
            break
        time.sleep(0.1)
    return there


@pytest.fixture
def quiet_kernel():
    """Nothing in the kernel's log that says it is broken."""

    def bad() -> collections.Counter:
        return collections.Counter(
            line
            for line in run("dmesg").stdout.splitlines()
            if re.search(r"WARNING:|BUG:|Oops|refcount_t|lockup|stall", line)
        )

    before = bad()
    yield
    assert not bad() - before


# --- programs


@contextlib.contextmanager
def controllers_seen(path, port: int):
    """The controllers of the server's connections on that port, as `ss` has them all the time."""
    known = set(Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split())
    seen, done = collections.Counter(), threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            for line in path.sh(path.server, "ss", "-tinHO", "sport", "=", f":{port}").splitlines():
                seen.update(known & set(line.split()))

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield seen
    finally:
        done.set()
        watch.join()


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def curl_big(path, tmp, www, options):
    path.sh(path.client, "curl", "-sSf", "-o", tmp / "big", f"http://{SERVER}:{WEB}/big")
    assert digest(tmp / "big") == digest(www / "big")


def curl_small(path, tmp, www, options):
    """A connection for each."""
    urls = [f"http://{SERVER}:{WEB}/small{i}" for i in range(SMALL)]
    path.sh(path.client, "curl", "-sSf", "-H", "Connection: close", "--remote-name-all", "--output-dir", tmp, *urls)
    for i in range(SMALL):
        assert digest(tmp / f"small{i}") == digest(www / f"small{i}")


def scp(path, tmp, www, options):
    path.sh(path.client, "scp", *options, f"root@{SERVER}:{www}/medium", tmp / "copied")
    assert digest(tmp / "copied") == digest(www / "medium")


def ssh_cat(path, tmp, www, options):
    got = path.sh(
        path.client, "sh", "-c", '"$@" | sha256sum', "sh", "ssh", *options, f"root@{SERVER}", "cat", www / "medium"
    )
    assert got.split()[0] == digest(www / "medium")


def browser(path, tmp, www, options) -> float:
    """Every file of the page, whole, drawn, run and applied; gives the time to the page's load event."""
    page = json.loads(path.sh(path.client, *PAGE, f"http://{SERVER}:{WEB}/page/index.html"))
    sizes = {f"/page/{f.name}": f.stat().st_size for f in (www / "page").iterdir()}
    assert {name: decoded for name, _, decoded in page["files"]} == sizes and len(
        sizes
    ) == 1 + IMAGES + SCRIPTS + STYLES
    assert all(transferred > decoded for _, transferred, decoded in page["files"]), "from the server, not from a cache"
    assert (page["images"], page["scripts"], page["styles"]) == (IMAGES, SCRIPTS, str(STYLES + 1))
    return page["seconds"]


# by name: client, port, connections, bytes
PROGRAMS = {
    f"curl {BIG / 1e6:g} MB": (curl_big, WEB, 1, BIG),
    f"curl {SMALL} x 20 kB": (curl_small, WEB, SMALL, SMALL * 20_000),
    f"scp {MEDIUM / 1e6:g} MB": (scp, SSH, 1, MEDIUM),
}
if FULL:
    PROGRAMS |= {f"ssh cat {MEDIUM / 1e6:g} MB": (ssh_cat, SSH, 1, MEDIUM), "page in Chromium": (browser, WEB, 2, 0)}
MISSING = [
    what
    for what, there in (
        ("nginx", NGINX),
        ("sshd", SSHD),
        ("curl", shutil.which("curl")),
        ("chromium", not FULL or shutil.which("chromium") and shutil.which("chromedriver")),
    )
    if not there
]


@pytest.fixture(scope="module")
def www(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "www"
    contents(folder, BIG, MEDIUM)
    return folder


@pytest.fixture(scope="module")
def times():
    """By program and controller; printed at the end."""
    times = collections.defaultdict(list)
    yield times
    if not FULL:
        return
    head = f"| | {' | '.join(PROGRAMS)} |\n| --- |{' ---: |' * len(PROGRAMS)}"
    print(f"\n\nseconds, mean of {ROUNDS} (ratio to cubic)\n\n{head}")
    for name in ("cubic", *THINNED, *FIVE, *BEGIN):
        cells = []
        for what in PROGRAMS:
            own, cubic = (statistics.mean(times[what, n] or [float("nan")]) for n in (name, "cubic"))
            cells.append(f"{own:.2f} ({own / cubic:.2f})" if times[what, name] else "")
        print(f"| {name} | {' | '.join(cells)} |")


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; `make check-clients` does it")
@pytest.mark.parametrize("name", ["cubic", *THINNED, *FIVE, *BEGIN] if FULL else THINNED + FIVE)
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_programs(turn, name, www, times, tmp_path, alias, joined):
    """Over 20 Mbit/s toward the client and 0.25 Mbit/s toward the server, 20 ms there and back."""
    cc, (controller, *sets) = "cubic", name.split()
    if name in THINNED:
        asymcc("thin", "--cgroup", joined, "--reverse", "250kbit")
    elif name != "cubic":
        cc = alias()
        load(controller, cc, joined, "path", *(f"--set={value}" for value in sets))
    with asymmetric() as path:
        if cc == "cubic":
            path.sh(path.server, "ip", "route", "change", NET, "via", GATEWAY, "congctl", cc)
        else:
            path.sh(path.server, ASYMCC, "use", cc, "--route", NET)
        with web(path, tmp_path, www), ssh(path, tmp_path) as options:
            flows = 0
            for what, (client, port, connections, size) in PROGRAMS.items():
                if name in BEGIN and connections == 1:
                    continue
                with controllers_seen(path, port) as seen:
                    start = time.monotonic()
                    numbers = client(path, tmp_path, www, options)
                    took = time.monotonic() - start
                assert set(seen) == {cc}, what
                times[what, name].append(numbers or took)
                assert 8 * size / took < Link.forward, "more than the link carries: it was not in the way"
                flows += connections
        if cc != "cubic":
            ends = 1 + has_halves(controller)
            assert counted(cc)["flows"] >= ends * flows and counted(cc).get("peers", 2 * flows) >= 2 * flows
            asymcc("unload", cc, "--drain", "--seconds", 60)
            assert listed(cc) is None and "congctl" not in path.sh(path.server, "ip", "route")
        if name in THINNED:
            assert values("thin", "counters")["acks_suppressed"] > 0
            asymcc("thin", "--off", "--cgroup", joined)


@pytest.mark.skipif(not FULL or bool(MISSING), reason="`make check-clients` runs it")
@pytest.mark.parametrize("cc", ["cubic", "bbr"])
def test_programs_behind_a_router(cc, www, tmp_path):
    """Three stock hosts at once, behind one with NAT and an uplink of 100 kbit/s: whole, thinned or not; seconds."""
    print(f"\n\n{cc}, 20 Mbit/s and 100 kbit/s; seconds from the same start\n")
    with homes.home() as home:
        path = Path3(home.hosts[0], home.router, home.server)
        path.sh(path.server, "ip", "route", "change", "203.0.113.0/24", "dev", "s0", "congctl", cc)
        path.sh(path.server, "ip", "addr", "add", f"{SERVER}/32", "dev", "s0")
        path.sh(path.router, "ip", "route", "add", SERVER, "via", homes.SERVER)
        with web(path, tmp_path, www), ssh(path, tmp_path) as options:
            for thin in ([], ["--reverse", "100kbit"], []):
                home.asymcc("thin", "--dev", "wan0", *(thin or ["--off"]))
                clients = [curl_big, scp, browser]
                with ThreadPoolExecutor() as pool:
                    start = time.monotonic()
                    running = [
                        pool.submit(client, dataclasses.replace(path, client=host), tmp_path, www, options)
                        for client, host in zip(clients, home.hosts, strict=True)
                    ]
                    for client, done in zip(clients, running, strict=True):
                        done.add_done_callback(functools.partial(report, client.__name__, start))
                    for done in running:
                        done.result()
                print("thinned" if thin else "all ACKs")


def report(what: str, start: float, done) -> None:
    print(f"{what} {time.monotonic() - start:.1f}", end=", ")


def test_the_browsers_script_finds_what_it_imports():
    """The full form alone opens pages."""
    done = run(*PAGE, check=False)
    assert done.returncode == 1 and done.stderr == "usage: page.py URL\n"


# --- many connections


@contextlib.contextmanager
def in_pair(pair, server: str, client: str, at_server: dict, at_client: dict):
    """Both ends."""
    with listening(pair, role=server, **at_server) as s:
        argv = endpoint(client, pair.client, address="10.9.0.2", port=7400, **at_server, **at_client)
        with program(*argv) as c:
            yield s, c


def widen(pair) -> None:
    """200 Mbit/s each way, and room for all handshakes at once."""
    for ns, dev in ((pair.client, pair.dev_c), (pair.server, pair.dev_s)):
        pair.sh(ns, *f"tc qdisc change dev {dev} root tbf rate 200mbit burst 100000 limit 1500000".split())
        pair.sh(ns, "sysctl", "-qw", "net.core.somaxconn=4096", "net.ipv4.tcp_max_syn_backlog=4096")


@pytest.mark.parametrize("name", FIVE)
def test_many_connections(name, pair, alias, joined, objects, tmp_path, quiet_kernel):
    """All at once; nothing is left of them."""
    widen(pair)
    cc = alias()
    load(name, cc, joined, "many")
    own = belongings(cc)
    storage = sockets_in_storage(cc, objects, tmp_path) if name == "formosa" else contextlib.nullcontext()
    with storage as entries:
        with in_pair(pair, "many_server", "at_once", {"n": 30_000}, {"cc": cc, "connections": FLOWS}) as (_, client):
            expect(client, "open")
            established = pair.sh(pair.client, "ss", "-tinHO", "state", "established").stdout.splitlines()
            assert len(established) == FLOWS and all(f" {cc} " in line for line in established)
            expect(client, "right", "go")
            assert len(pair.sh(pair.client, "ss", "-tnH", "state", "established").stdout.splitlines()) == FLOWS
            if entries:
                assert entries() == 2 * FLOWS
        if entries:
            for _ in range(100):
                if entries() == 0:
                    break
                time.sleep(0.1)
            assert entries() == 0
    n = counted(cc)
    assert n["flows"] >= FLOWS and n.get("peers", 0) == (2 * FLOWS if name == "formosa" else 0)
    asymcc("unload", cc)
    assert remains({own}) == [] and listed(cc) is None


def test_many_connections_whose_acks_are_thinned(pair, joined, quiet_kernel):
    """Opened and closed, twenty at a time."""
    widen(pair)
    asymcc("thin", "--cgroup", joined, "--set", "acks_per_rtt=2", "--set", "waits_only=0")
    with exchange(pair, "many_server", "many", "cubic", n=200_000, at_client={"connections": FLOWS}):
        pass
    assert counted("thin")["acks_suppressed"] > 0
    asymcc("thin", "--off", "--cgroup", joined)
    assert run("bpftool", "cgroup", "show", joined).stdout == ""


# --- many loads


def new_flow(server, client, cc: str, ends: int) -> None:
    """It is the instance's from its handshake on."""
    before = counted(cc)["flows"]
    expect(server, "listens", "listen")
    expect(client, "open", "new")
    expect(server, "accepted")
    assert counted(cc)["flows"] == before + ends


@pytest.mark.parametrize("how", LOADS)
@pytest.mark.parametrize("name", FIVE)
def test_many_loads(name, how, pair, alias, joined, quiet_kernel):
    """The flow of the instance before goes on, a new one is the new instance's, and at the end nothing is left."""
    pair.sh(pair.client, *f"tc qdisc change dev {pair.dev_c} root tbf rate 100mbit burst 3000 limit 60000".split())
    cc, own = alias(), set()
    with in_pair(pair, "churn_server", "churn", {}, {"cc": cc}) as (server, client):
        for turn in range(LOADS[how]):
            load(name, cc, joined, "pair", *(("--replace",) if turn and how == "replace" else ()))
            own.add(belongings(cc))
            new_flow(server, client, cc, 1 + has_halves(name))
            if turn:
                expect(client, "right", "end")
            if how == "unload":
                asymcc("unload", cc)
        expect(client, "right", "end")
        if how == "replace":
            asymcc("unload", cc)
    assert len(own) == LOADS[how] and remains(own) == [] and listed(cc) is None
