# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lab on this machine's own kernel: `--on host` leaves nothing behind, and believes no job."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.conformance.kernels import check
from asymlab.guest import agent
from asymlab.guest import check as requirements
from asymlab.guest.controllers import cgroup_mount
from asymlab.guest.host import HostRecord, Relay
from asymlab.guest.job import Bottleneck, ChangePath, End, Link, NewShape, Node, Propagation, SetParameters
from asymlab.guest.net import Namespaces, add_nodes, build_network
from asymlab.guest.protocol import Fault
from asymlab.guest.system import Failure
from asymlab.plan import scenario, topology
from asymlab.run.host import execute_on_host
from asymlab.run.tasks import plan_on_host
from tests.scenarios import FAST, FORMOSA, PLAIN, alpha
from tests.shared import BUILD, REPO, asymlab, compile_job, one_line, some_job, wait_for

NEAR = {"forward": {"delay": "0ms"}, "reverse": {"delay": "0ms"}}  # it works without netem


def registered() -> set[int]:
    listed = subprocess.run([BUILD / "asymcc", "list", "--json"], capture_output=True, text=True, check=True)
    return {c["map_id"] for c in json.loads(listed.stdout) if c["map_id"]}


@pytest.mark.root
@pytest.mark.parametrize("after", [0.2, 0.6, 1.0, 1.5, 2.5])
def test_host_is_left_as_it_was_whenever_the_signal_comes(scenario_file, after):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    file = scenario_file(FAST, NEAR, run={"duration": "20s"})
    before = registered()
    p = subprocess.Popen(
        [sys.executable, "-m", "asymlab", "run", str(file), "--on", "host"], stderr=subprocess.PIPE, text=True, cwd=REPO
    )
    time.sleep(after)
    p.send_signal(signal.SIGTERM)
    _, errors = p.communicate(timeout=60)
    assert p.returncode != 0 and "Traceback" not in errors
    assert "asymlab-" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for _ in range(
        50
    ):  # the kernel frees a program some time after its last socket; other tests ask an asymcc of theirs something
        if registered() <= before and subprocess.run(["pgrep", "-x", "asymcc"]).returncode == 1:
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"still there: {registered() - before}, or an asymcc that runs")
    assert not list((BUILD / "tmp").glob("host-*"))


HYSTART = Path("/sys/module/tcp_cubic/parameters/hystart_low_window")


def descendants(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [
            p
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for p in (int(child), *descendants(int(child)))
        ]
    return []


@pytest.mark.root
@pytest.mark.parametrize("moment", ["parameter", "flows"])
def test_what_a_killed_run_leaves_the_next_takes_back(scenario_file, moment):
    """Agent and asymlab are killed, each time with a module's parameter changed; under flows also with a cgroup, an
    object by asymcc, one by bpftool."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    was, before = HYSTART.read_text(), registered()
    others: dict = {}
    if moment == "flows":
        others = {
            "flows": [{"controller": "formosa"}, {"controller": "nreno"}],
            "controllers": {"nreno": {"loader": "bpftool"}},
        }
    cubic = {"flow": {"controller": "cubic"}, "controllers": {"cubic": {"hystart_low_window": int(was) + 1}}}
    file = scenario_file(NEAR, cubic, others, run={"duration": "60s"})
    p = subprocess.Popen(
        [sys.executable, "-m", "asymlab", "run", str(file), "--on", "host"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=REPO,
    )
    threads = lambda: [len(os.listdir(f"/proc/{pid}/task")) for pid in descendants(p.pid)]  # noqa: E731
    try:
        # Under way a flow has two threads of the agent's: its ends.
        wait_for(lambda: HYSTART.read_text() != was and (moment == "parameter" or max(threads(), default=0) > 6))
        ours, *children = descendants(p.pid)
    finally:
        p.kill()
    os.kill(ours, signal.SIGKILL)
    p.wait()
    assert HYSTART.read_text() != was, "else there is nothing to take back"
    wait_for(lambda: not [pid for pid in children if Path(f"/proc/{pid}").exists()])
    if moment == "flows":
        assert (
            len(registered() - before) == 2
            and "asymlab-" in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        )
    times = {"duration": "1s", "measure_from": "0s"}
    again = asymlab("run", scenario_file(NEAR, run=times, name="next.toml"), "--on", "host")
    assert again.returncode == 0, again.stderr
    assert HYSTART.read_text() == was
    assert (
        registered() == before
        and "asymlab-" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    )
    if mount := cgroup_mount():
        assert not list(Path(mount).glob("asymlab-*"))
    assert os.listdir(HostRecord.FOLDER) == ["lock"]


NONE = Propagation(0, 0.0, 0.0)
RELAY = [sys.executable, "-m", "asymlab.run.relay"]


@pytest.fixture
def relay():
    """Two nodes with a link that has 20 ms one way, and none back."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ends = [
        End(node, f"{node}-dev", f"10.77.1.{n}", f"02:00:00:00:01:0{n}", Propagation(delay, 0.0, 0.0))
        for n, node, delay in ((1, "a", 20_000), (2, "b", 0))
    ]
    nodes = [Node(end.node, {}) for end in ends]
    job = some_job(nodes=nodes, links=[Link(*ends, 1500)])
    ns = Namespaces(f"relay-{os.getpid()}-")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(ns.close)
        add_nodes(job, ns)
        one = Relay(RELAY, job, ns)
        cleanup.callback(one.close)
        build_network(job, ns, one.devices)
        yield one, job, ns
    assert not Path(f"/proc/{one.process.pid}").exists()


def trips(job, ns, count: int = 5) -> tuple[float, float]:
    """The shortest way there, and back, ms."""
    sockets = []
    for end in job.ends:
        with ns.enter(end.node):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((end.addr, 7))
        s.settimeout(2)
        sockets.append(s)
    least = []
    for source, sink, end in ((*sockets, job.links[0].b), (*sockets[::-1], job.links[0].a)):
        took = []
        for _ in range(count):
            sent = time.monotonic()
            source.sendto(b"x" * 1000, (end.addr, 7))
            sink.recv(2000)
            took.append(1e3 * (time.monotonic() - sent))
        least.append(min(took))
    for s in sockets:
        s.close()
    return least[0], least[1]


@pytest.mark.root
def test_a_link_without_netem_has_its_delays_and_those_that_changes_give_it(relay):
    one, job, ns = relay
    there, back = trips(job, ns)
    assert 20 <= there < 22 and back < 2
    a, b = job.ends
    queue = NewShape(b.node, b.dev, Bottleneck(10**6, 1500, 1500, 10))
    slower = [NewShape(end.node, end.dev, Propagation(30_000, 0.0, 0.0)) for end in (a, b)]
    assert one.take([*slower, queue]) == [queue]
    there, back = trips(job, ns)
    assert 30 <= there < 32 and 30 <= back < 32


def datagrams_that_come(job, ns, count: int) -> list[int]:
    """Sends so many at once."""
    a, b = job.ends
    sockets = []
    for end in (a, b):
        with ns.enter(end.node):
            sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].bind((end.addr, 7))
    source, sink = sockets
    sink.settimeout(0.5)
    for number in range(count):
        source.sendto(number.to_bytes(2), (b.addr, 7))
    came = []
    with contextlib.suppress(TimeoutError):
        while len(came) < count:
            came.append(int.from_bytes(sink.recv(2)))
    for s in sockets:
        s.close()
    return came


@pytest.mark.root
def test_a_link_without_netem_loses_and_delays_by_chance(relay):
    one, job, ns = relay
    a, _ = job.ends
    assert datagrams_that_come(job, ns, 200) == list(range(200))
    one.take([NewShape(a.node, a.dev, Propagation(20_000, 0.0, 0.0, jitter_us=10_000))])
    least = sorted(trips(job, ns, 1)[0] for _ in range(30))
    assert 10 <= least[0] < 14 and 26 < least[-1] and least[-4] < 32  # a busy machine is late for a few
    assert datagrams_that_come(job, ns, 200) == list(range(200)), "none overtakes"
    one.take([NewShape(a.node, a.dev, Propagation(0, 0.5, 0.0))])
    came = datagrams_that_come(job, ns, 200)
    assert 60 < len(came) < 140 and came == sorted(came)


@pytest.mark.root
def test_a_link_without_netem_tells_how_late_it_is(relay):
    one, job, ns = relay
    assert one.late()["packets"] < 10  # the kernel itself sends a packet of IPv6 now and then
    trips(job, ns, 50)
    late = one.late()
    assert 100 <= late["packets"] < 120 and 0 < late["mean_us"] <= late["p99_us"] <= late["max_us"] < 100_000
    assert one.late()["packets"] < 10


@pytest.mark.root
def test_a_link_without_netem_carries_fifty_megabits(relay):
    _, job, ns = relay
    a, b = job.ends
    with ns.enter(b.node):
        server = socket.create_server((b.addr, 8))
    with ns.enter(a.node):
        client = socket.create_connection((b.addr, 8))
    taker, _ = server.accept()
    sender = threading.Thread(target=client.sendall, args=(bytes(12_500_000),), daemon=True)
    began, count = time.monotonic(), 0
    sender.start()
    while count < 12_500_000:
        count += len(taker.recv(1 << 16))
    assert time.monotonic() - began < 2
    for s in (client, taker, server):
        s.close()


@pytest.mark.root
def test_what_a_link_without_netem_has_not_is_refused(relay):
    _, job, ns = relay
    (link,) = job.links
    jitter = Propagation(1000, 0.0, 0.0, jitter_us=5, disorder=True)
    shapes = (Propagation(1000, 0.1, 0.0, loss_burst=3.0), jitter, Propagation(0, 0.0, 0.0, 0.2))
    for shape in shapes:
        worse = replace(job, links=[replace(link, a=replace(link.a, shape=shape))])
        changed = replace(job, changes=[ChangePath(1.0, [NewShape(link.a.node, link.a.dev, shape)])])
        for refused in (worse, changed):
            with pytest.raises(Failure, match="kernel without qdisc netem .*, and the lab's own links have delay, "):
                Relay(RELAY, refused, ns)


@pytest.mark.root
def test_a_link_that_gets_its_delay_by_a_change_is_the_labs_too():
    """Without netem it is refused, or made, before the run."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    a, b = (End(node, f"{node}-dev", f"10.77.1.{n}", f"02:00:00:00:01:0{n}", NONE) for n, node in ((1, "a"), (2, "b")))
    slower = ChangePath(1.0, [NewShape(a.node, a.dev, Propagation(20_000, 0.0, 0.0))])
    job = some_job(nodes=[Node(end.node, {}) for end in (a, b)], links=[Link(a, b, 1500)], changes=[slower])
    ns = Namespaces(f"later-{os.getpid()}-")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(ns.close)
        ns.add("probe")
        assert bool(requirements.qdiscs_missing(job, ns)) == bool(requirements.qdiscs_missing(delayed(job), ns))
        add_nodes(job, ns)
        one = Relay(RELAY, job, ns)
        cleanup.callback(one.close)
        build_network(job, ns, one.devices)
        assert max(trips(job, ns)) < 2
        assert one.take(slower.path) == []
        there, back = trips(job, ns)
        assert 20 <= there < 22 and back < 2


def delayed(job):
    (link,) = job.links
    return replace(job, links=[replace(link, a=replace(link.a, shape=Propagation(20_000, 0.0, 0.0)))])


@pytest.mark.root
def test_a_run_whose_links_end_is_told_so(relay):
    one, job, _ = relay
    one.check()
    one.process.kill()
    one.process.wait()
    slower = [NewShape(job.ends[0].node, job.ends[0].dev, Propagation(30_000, 0.0, 0.0))]
    for what in (one.check, lambda: one.take(slower)):
        with pytest.raises(Failure, match="^the program of the lab's own links has ended$"):
            what()


@pytest.mark.parametrize("program, words", [(["true"], "the program of the lab"), (["echo", "no room"], "no room")])
def test_links_that_end_before_they_are_told_anything(monkeypatch, program, words):
    class Ended(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.wait()

    monkeypatch.setattr(subprocess, "Popen", Ended)
    with pytest.raises(Failure, match=f"{requirements.NO_NETEM[:26]}.*; {words}"):
        Relay(program, some_job(), Namespaces("none-"))


@pytest.mark.root
def test_a_namespace_that_is_none_is_named():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ends = [("/proc/self/ns/uts", "x", "02:00:00:00:01:01", 1500)]
    p = subprocess.run(RELAY, input=f"{json.dumps(ends)}\n", capture_output=True, text=True, timeout=20)
    assert (p.stdout, p.stderr) == ("/proc/self/ns/uts: Invalid argument\n", "")


@pytest.mark.root
def test_what_failed_comes_with_its_kind(scenario_file):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    [task] = plan_on_host(scenario.load(scenario_file(NEAR, FAST, alpha(20))))
    changed = replace(task.job, changes=[SetParameters(1.0, "fast", {"alpha": 65537})])
    with pytest.raises(LabError, match="alpha=65537: out of range") as e:
        execute_on_host(replace(task, job=changed))
    assert e.value.kind == Fault.SET


@pytest.mark.root
def test_a_job_of_a_stranger_is_refused(scenario_file, tmp_path):
    """The agent is what root runs: it believes nobody's names."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    target = tmp_path / "file"
    target.write_text("mine")
    job = compile_job(scenario.load(scenario_file(NEAR, flow={"controller": "cubic"}))[0], 1)
    up = "../../../.." + str(target)

    def refused(where: str, **wrong):
        (tmp_path / "job.json").write_text(json.dumps(job | wrong))
        p = subprocess.run(
            [sys.executable, "-P", "-m", agent.__name__, tmp_path / "job.json", tmp_path, BUILD],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"},
        )
        one_line(p, f"job.{where}", "must match")
        assert target.read_text() == "mine"

    (cubic,) = job["controllers"]
    refused("controllers.0.set: '../../", controllers=[cubic | {"set": {up: "text"}}])
    refused("controllers.0.set.'x': 'a\\nb'", controllers=[cubic | {"set": {"x": "a\nb"}}])
    refused("controllers.0.name: '../../e'", controllers=[cubic | {"name": "../../e"}])
    refused("controllers.0.object: '../fast'", controllers=[cubic | {"object": "../fast"}])
    refused("controllers.0.loader: 'sh'", controllers=[cubic | {"loader": "sh"}])
    refused("flows.0.controller: ", flows=[job["flows"][0] | {"controller": "reno via 10.0.0.1"}])
    refused("changes.0.set: '--all'", changes=[{"at_s": 1, "controller": "reno", "set": {"--all": 1}}])
    refused("nodes.0.name: '../x'", nodes=[job["nodes"][0] | {"name": "../x"}])
    refused("nodes.0.sysctls: ", nodes=[job["nodes"][0] | {"sysctls": {"kernel.core_pattern": "x"}}])
    refused("routes.0.attrs: ", routes=[job["routes"][0] | {"attrs": "mtu 600\nlink del lo"}])


@pytest.mark.root
def test_on_host_as_root(scenario_file):
    """The same agent on the running kernel, with its netem or without."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    slower = {"at": "2s", "direction": "forward", "delay": "30ms"}
    p = asymlab("run", scenario_file(FAST, alpha(20), changes=[slower]), "--on", "host")
    assert re.match(r".* seed 1: \d+ s on this machine, after its set-up\n", p.stderr), p
    assert p.returncode == 0 and re.search(r"base RTT src0-dst0 4\d\.\d+ ms \(40\.00\), forward rate", p.stderr), p
    assert "asymlab-" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    folder, page = (re.search(rf"{words} (.+)", p.stderr)[1] for words in ("kept in", "figures and numbers in"))
    record, shown = json.loads((REPO / folder / "run.json").read_text()), (REPO / page).read_text()
    devices = record["agent"].get("relay", [])
    netem = subprocess.run("unshare -n tc qdisc add dev lo root netem".split(), capture_output=True)
    assert bool(devices) == bool(netem.returncode) == ("by the lab's own links" in p.stderr)
    assert ", ".join(devices) in shown and f"{os.uname().release}, this machine's own" in shown
    assert record["command"].endswith(" --on host")


def cgroups() -> set[str]:
    return {d for d in os.listdir(cgroup_mount()) if d.startswith("asymlab-")}


@pytest.mark.root
@pytest.mark.parametrize("after", [None, 1.0, 2.5])
def test_on_a_host_the_runs_cgroup_is_gone_afterwards(scenario_file, after):
    """At the end, and at a signal."""
    if os.geteuid() != 0 or not cgroup_mount():
        pytest.skip("needs root and cgroup2")
    file = scenario_file(FORMOSA, PLAIN, NEAR)
    if after is None:
        p = asymlab("run", file, "--on", "host")
        assert p.returncode == 0, p.stderr
    else:
        p = subprocess.Popen(
            ["timeout", "--signal", "TERM", str(after), "build/venv/bin/asymlab", "run", str(file), "--on", "host"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPO,
        )
        _, errors = p.communicate(timeout=60)
        assert p.returncode and "Traceback" not in errors
    assert not cgroups()


@pytest.mark.root
def test_a_host_without_cgroup2_is_told_so(scenario_file, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    monkeypatch.setattr(requirements, "cgroup_mount", lambda: None)
    monkeypatch.setenv("PATH", f"{REPO}/build:{os.environ['PATH']}")
    ns = Namespaces(f"asymlab-test-{os.getpid()}-")
    try:
        lacks = requirements.missing(
            topology.plan_job(scenario.load(scenario_file(FORMOSA))[0], 1), ns, str(REPO / "build")
        )
    finally:
        ns.close()
    assert any(line.startswith("no cgroup2 is mounted") for line in lacks)


@pytest.mark.root
@pytest.mark.skipif(bool(check.why_not_here()), reason=check.why_not_here() or "-")
def test_the_running_kernel():
    made = check.on_host(["nreno"], {"nreno": check.facts("nreno")}, lambda _: None)
    assert (
        not [o for o in made.results["nreno"].outcomes.values() if isinstance(o, str)]
        and made.release == os.uname().release
        and min(made.results["nreno"].insns.values()) > 0
    )
    assert (
        "nreno" not in (available := open("/proc/sys/net/ipv4/tcp_available_congestion_control").read()).split()
        and "nreno_2" not in available
    )


# --- set-up --------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.parametrize(
    "commands, words",
    [
        (["qdisc add dev lo root pfifo", "qdisc add dev lo root nosuch"], "x: tc qdisc add dev lo root nosuch: "),
        (["qdisc add dev lo root tbf rate x"], 'tbf rate x: tbf: illegal value for "rate"'),
    ],
)
def test_a_command_that_fails_is_named(commands, words):
    """Though one process runs all those of a node."""
    with contextlib.closing(Namespaces(f"asymlab-{os.getpid()}-")) as ns:
        ns.add("x")
        with pytest.raises(Failure) as e:
            ns.tc("x", commands)
    assert words in str(e.value) and "\n" not in str(e.value)


@pytest.mark.root
def test_namespaces_are_those_of_ip_netns():
    def listed() -> list[str]:
        text = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        return [line.split()[0] for line in text.splitlines() if line.startswith(prefix)]

    prefix = f"asymlab-{os.getpid()}-"
    with contextlib.closing(Namespaces(prefix)) as ns:
        ns.add("x")
        subprocess.run(["ip", "-n", f"{prefix}x", "link", "set", "lo", "up"], check=True)
        assert listed() == [f"{prefix}x"]
        with pytest.raises(Failure, match=f"namespace {prefix}x: File exists"):
            ns.add("x")
    assert listed() == []
