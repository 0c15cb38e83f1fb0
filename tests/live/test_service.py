# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Controllers in service on this machine's own kernel: given to connections and taken back, changed, replaced, drained, killed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_loader import (  # noqa: F401
    ASYMCC,
    alias,
    asymcc,
    cgroup,
    halves,
    kernel_has,
    listed,
    needs_cgroup2,
    needs_clang,
    pair,
    program,
    pytestmark,
    refused,
    run,
    transfer,
    trip,
    unique,
    values,
)

STATE = Path("/run/asymcc")
CC = "import socket,sys\ns=socket.create_connection((sys.argv[1], int(sys.argv[2])))\nprint(s.getsockopt(6, 13, 16).rstrip(bytes(1)).decode())"
ACCEPT = """
import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
while True:
    s, _ = l.accept()
    print(s.getsockopt(6, 13, 16).rstrip(bytes(1)).decode(), flush=True)
"""
# Connects, says so, sends what it is told to on stdin: "N" bytes, then tells its controller.
STEADY = """
import socket, sys
s = socket.socket()
if sys.argv[3] != "-": s.setsockopt(6, 13, sys.argv[3].encode())
s.connect((sys.argv[1], int(sys.argv[2])))
print("open", flush=True)
for line in sys.stdin:
    s.sendall(b"x" * int(line))
    print(s.getsockopt(6, 13, 16).rstrip(bytes(1)).decode(), flush=True)
"""
SINK = """
import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
s, _ = l.accept()
n = 0
while d := s.recv(65536):
    n += len(d)
    print(n, flush=True)
"""


def default(pair) -> str:  # noqa: F811
    return pair.sh(pair.client, "sysctl", "-n", "net.ipv4.tcp_congestion_control").stdout.strip()


def enter(ns: str) -> tuple[str, str]:
    return "nsenter", f"--net=/run/netns/{ns}"


def inside(pair, *argv) -> str:  # noqa: F811
    """asymcc in the client's namespace; not by `ip netns exec`, which hides cgroups."""
    return run(*enter(pair.client), ASYMCC, *argv).stdout


def refused_inside(pair, *argv) -> str:  # noqa: F811
    done = run(*enter(pair.client), ASYMCC, *argv, check=False)
    assert done.returncode == 1 and done.stderr.startswith("asymcc: ") and done.stderr.count("\n") == 1, (
        done.stdout + done.stderr
    )
    return done.stderr


def routes(pair) -> list[str]:  # noqa: F811
    return [
        " ".join(line.split())
        for v in ("-4", "-6")
        for line in pair.sh(pair.client, "ip", v, "route", "show").stdout.splitlines()
        if not line.startswith("fe80")
    ]


@contextlib.contextmanager
def listening(pair, address="10.9.0.2", port=7400, script=ACCEPT):  # noqa: F811
    with program("ip", "netns", "exec", pair.server, sys.executable, "-c", script, address, port) as p:
        assert p.stdout.readline() == "ready\n", p.stderr.read()
        yield p


def controller_of(pair, address="10.9.0.2", port=7400) -> str:  # noqa: F811
    return pair.sh(pair.client, sys.executable, "-c", CC, address, port).stdout.strip()


@contextlib.contextmanager
def steady(pair, cc="-"):  # noqa: F811
    """A connection that is open: send(n) returns its controller once all n bytes have arrived."""
    with listening(pair, port=7401, script=SINK) as sink:
        with program("ip", "netns", "exec", pair.client, sys.executable, "-c", STEADY, "10.9.0.2", 7401, cc) as p:
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


# --- use, unuse


def test_default_and_back(alias, pair):  # noqa: F811
    name, other = alias(), alias()
    asymcc("load", "fast", "--as", name)
    asymcc("load", "fast", "--as", other)
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    assert inside(pair, "use", name, "--default") == f"{name} is used by default\n"
    assert default(pair) == name and listed(name)["used_by"] == [
        {"netns": f"netns {pair.client}", "default": True, "routes": [], "sockets": 0}
    ]
    with listening(pair):
        assert controller_of(pair) == name
    inside(pair, "use", name, "--default")  # again: nothing new
    inside(pair, "use", other, "--default")
    assert "not the default" in refused_inside(pair, "unuse", name, "--default") and default(pair) == other
    inside(pair, "unuse", other, "--default")
    assert default(pair) == "reno"  # that before both
    assert "no default, on no route" in refused("unuse", other)


@pytest.mark.parametrize(
    "options", [["--cgroup", "/nonexistent"], ["--cgroup", "/proc"], ["--route", "203.0.113.0/24"]]
)
def test_a_refused_use_forgets_no_original(options, alias, pair):  # noqa: F811
    original, first, second = alias(), alias(), alias()
    for n in (original, first, second):
        asymcc("load", "fast", "--as", n)
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={original}")
    refused_inside(pair, "use", first, "--default", *options)
    assert default(pair) == original
    inside(pair, "use", first, "--default")
    refused_inside(pair, "use", second, "--default", *options)
    refused_inside(pair, "use", first, "--default", *options)
    assert default(pair) == first
    inside(pair, "unuse", first, "--default")
    assert default(pair) == original


@pytest.mark.parametrize(
    "options, calls",
    [
        ([], ["unlinkat 1", "write 1", "renameat 1", "write 2"]),
        (["--cgroup", "/nonexistent"], ["write 2", "unlinkat 2", "write 3", "renameat 2", "write 4"]),
    ],
)
def test_a_killed_use_forgets_no_original(options, calls, alias, pair, trip):  # noqa: F811
    """Of a second controller, at each step there and, as its cgroup is refused, back; then of `unuse`."""
    original, first, second = alias(), alias(), alias()
    for n in (original, first, second):
        asymcc("load", "fast", "--as", n)
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={original}")
    for call in calls:
        inside(pair, "use", first, "--default")
        done = run(
            *enter(pair.client), ASYMCC, "use", second, "--default", *options, env=trip(*call.split()), check=False
        )
        assert default(pair) in (first, second) and done.returncode in (-9, 137)
        run(*enter(pair.client), ASYMCC, "unuse", default(pair), "--default", env=trip("unlinkat", 1), check=False)
        assert default(pair) == original


def test_a_default_that_was_set_by_others_is_no_ones_past(alias, pair):  # noqa: F811
    name, theirs = alias(), alias()
    for n in (name, theirs):
        asymcc("load", "fast", "--as", n)
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    inside(pair, "use", name, "--default")
    pair.sh(pair.client, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={theirs}")
    inside(pair, "use", name, "--default")
    asymcc("unuse", name)  # from another namespace
    assert default(pair) == theirs
    asymcc("unload", theirs, "--drain")
    assert default(pair) in ("cubic", "reno")  # what it was before is not known


@pytest.mark.parametrize("address, prefix", [("10.9.0.2", "10.9.0.0/24"), ("fd09::2", "fd09::/64")])
def test_route_of_a_prefix(address, prefix, alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    before = routes(pair)
    assert inside(pair, "use", name, "--route", prefix) == f"{name} is used on route {prefix}\n"
    assert [r for r in routes(pair) if f"congctl {name}" in r and r.startswith(prefix)] and len(routes(pair)) == len(
        before
    )
    assert listed(name)["used_by"][0]["routes"][0].startswith(prefix) and f"route {prefix}" in asymcc("list")
    with listening(pair, address):
        assert controller_of(pair, address) == name
        inside(pair, "unuse", name, "--route", prefix)
        assert controller_of(pair, address) != name
    assert routes(pair) == before


def test_route_that_is_made_and_removed(alias, pair):  # noqa: F811
    """Within a prefix that has a route; the other attributes of existing ones stay, several next hops as well."""
    name = alias()
    asymcc("load", "fast", "--as", name)
    for route in (
        "198.51.100.0/24 via 10.9.0.2 mtu 1400 initcwnd 20",
        "198.18.0.0/15 nexthop via 10.9.0.2 weight 2 nexthop via 10.9.0.3",
        "default via 10.9.0.2 metric 7",
        "default via 10.9.0.3 metric 8",
    ):
        pair.sh(pair.client, "ip", "route", "add", *route.split())
    before = routes(pair)
    uses = [
        x for p in ("198.51.100.0/24", "198.18.0.0/15", "default", "203.0.113.7", "fd09::2/128") for x in ("--route", p)
    ]
    said = inside(pair, "use", name, *uses)
    assert (
        "203.0.113.7 (made for it)" in said and "fd09::2/128 (made for it)" in said and said.count("made for it") == 2
    )
    now = routes(pair)
    assert sum(f"congctl {name}" in r for r in now) == 6 and any("mtu 1400 initcwnd 20" in r and name in r for r in now)
    assert (
        f"default via 10.9.0.2 dev {pair.dev_c} metric 7 congctl {name}" in now
        and f"default via 10.9.0.3 dev {pair.dev_c} metric 8 congctl {name}" in now
    )
    with listening(pair, "fd09::2"):
        assert controller_of(pair, "fd09::2") == name
    assert "taken back in 6 places" in asymcc("unuse", name)
    assert routes(pair) == before


@needs_cgroup2
def test_cgroup(alias, pair, cgroup):  # noqa: F811
    """Who connects and who accepts there has it; others do not; a second one takes its place."""
    name, other = alias(), alias()
    for n in (name, other):
        asymcc("load", "fast", "--as", n)
    here = f"echo $$ > {cgroup.path}/cgroup.procs && exec "
    client = ["sh", "-c", here + f"{sys.executable} -c '{CC}' 10.9.0.2 7400"]
    assert asymcc("use", name, "--cgroup", cgroup.path) == f"{name} is used in cgroup {cgroup.path}\n"
    assert (
        cgroup.names() == ["asymcc_use"]
        and listed(name)["used_in"] == [str(cgroup.path)]
        and f"cgroup {cgroup.path}" in asymcc("list")
    )
    with program(*enter(pair.server), "sh", "-c", here + f"{sys.executable} -c '{ACCEPT}' 10.9.0.2 7400") as p:
        assert p.stdout.readline() == "ready\n"
        assert controller_of(pair) != name and p.stdout.readline() == f"{name}\n"
        assert run(*enter(pair.client), *client).stdout == f"{name}\n"
        asymcc("use", other, "--cgroup", cgroup.path)
        assert cgroup.names() == ["asymcc_use"] and not listed(name)["used_in"]
        assert run(*enter(pair.client), *client).stdout == f"{other}\n"
    assert "not used there" in refused("unuse", name, "--cgroup", cgroup.path)
    below = cgroup.path / "below"
    below.mkdir()
    try:
        assert "the upper one would win" in refused("use", name, "--cgroup", below)
        asymcc("unuse", other)
        asymcc("use", name, "--cgroup", below)
        assert "the upper one would win" in refused("use", other, "--cgroup", cgroup.path)
        asymcc("unuse", name, "--cgroup", below)
    finally:
        below.rmdir()
    assert cgroup.names() == []


@needs_cgroup2
def test_a_program_that_would_never_be_found_again_is_not_attached(alias, cgroup, trip):  # noqa: F811
    """libbpf goes on where the kernel refuses BTF; `list` and `unuse` know a program by that."""
    name, refusals = alias(), 0
    asymcc("load", "fast", "--as", name)
    for call in range(1, 30):
        done = run(ASYMCC, "use", name, "--cgroup", cgroup.path, env=trip("BTF_LOAD", call, errno.ENOMEM), check=False)
        assert (done.returncode, cgroup.names()) in ((0, ["asymcc_use"]), (1, [])), (call, done)
        if done.returncode == 0:
            assert listed(name)["used_in"] == [str(cgroup.path)], call
            asymcc("unuse", name)
        refusals += done.returncode
        assert cgroup.names() == []
    assert refusals


@needs_cgroup2
def test_a_cgroup_comes_before_a_route_and_that_before_the_socket(alias, pair, cgroup):  # noqa: F811
    by_cgroup, by_route = alias(), alias()
    for n in (by_cgroup, by_route):
        asymcc("load", "fast", "--as", n)
    inside(pair, "use", by_route, "--route", "10.9.0.0/24")
    run(*enter(pair.server), ASYMCC, "use", by_route, "--route", "10.9.0.0/24")
    asymcc("use", by_cgroup, "--cgroup", cgroup.path)
    chosen = CC.replace("s=socket.create_connection(", "s=socket.socket()\ns.setsockopt(6, 13, b'reno')\ns.connect(")
    here = f'echo $$ > {cgroup.path}/cgroup.procs && exec {sys.executable} -c "$0" 10.9.0.2 7400'
    with listening(pair) as outside:
        assert pair.sh(pair.client, sys.executable, "-c", chosen, "10.9.0.2", 7400).stdout.strip() == by_route
        assert outside.stdout.readline().strip() == by_route
        assert run(*enter(pair.client), "sh", "-c", here, chosen).stdout.strip() == by_cgroup
    with program(*enter(pair.server), "sh", "-c", here, ACCEPT) as p:
        assert (
            p.stdout.readline() == "ready\n"
            and controller_of(pair) == by_route
            and p.stdout.readline().strip() == by_cgroup
        )


@needs_cgroup2
def test_formosa_by_cgroup_has_both_halves(alias, pair, cgroup):  # noqa: F811
    """The SYN carries its option although the application knows nothing of it."""
    name = alias()
    asymcc("load", "formosa", "--as", name, "--cgroup", cgroup.path)
    asymcc("use", name, "--cgroup", cgroup.path)
    here = f'echo $$ > {cgroup.path}/cgroup.procs && exec {sys.executable} -c "$0" 10.9.0.2 7400'
    with program(*enter(pair.server), "sh", "-c", here, ACCEPT) as p:
        assert p.stdout.readline() == "ready\n"
        assert run(*enter(pair.client), "sh", "-c", here, CC).stdout.strip() == name
    assert values(name, "counters")["peers"] == 2


@needs_cgroup2
def test_a_cgroup_whose_controller_is_gone_harms_nobody(alias, pair, cgroup):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    asymcc("use", name, "--cgroup", cgroup.path)
    asymcc("unload", name, "--force")
    with listening(pair):
        run(
            *enter(pair.client),
            "sh",
            "-c",
            f"echo $$ > {cgroup.path}/cgroup.procs && exec {sys.executable} -c '{CC}' 10.9.0.2 7400",
        )
    line = next(r for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout) if r["check"] == name)
    assert line["state"] == "bad" and f"asymcc unuse {name}" in line["mend"]
    assert f"asymcc unuse {name}" in refused("unload", name)
    asymcc("unload", name, "--drain")
    assert cgroup.names() == []


@pytest.mark.parametrize(
    "argv, words",
    [
        ([], ["--default, --route PREFIX or --cgroup PATH"]),
        (["--route", "10.9.0.1/24"], ["bits set beyond"]),
        (["--route", "10.9.0.0/33"], ["ADDRESS/LENGTH"]),
        (["--route", "10.9.0/24"], ["ADDRESS/LENGTH"]),
        (["--route", "example.org"], ["ADDRESS/LENGTH"]),
        (["--route", "203.0.113.0/24"], ["no route leads there"]),
        (["--cgroup", "/nosuch"], ["/nosuch", "mkdir"]),
        (["--cgroup", "/proc"], ["not a directory of cgroup2"]),
    ],
)
def test_wrong_uses(argv, words, alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    before = routes(pair), default(pair)
    for options in (argv, ["--default", "--route", "10.9.0.0/24", *argv]) if argv else (argv,):  # all or none
        line = refused_inside(pair, "use", name, *options)
        assert all(w in line for w in words)
        assert (routes(pair), default(pair)) == before


def test_what_fails_late_is_taken_back(alias, pair, cgroup):  # noqa: F811
    """Of four places the last cannot be had: the others are as before, with what they had before."""
    first, second = alias(), alias()
    for n in (first, second):
        asymcc("load", "fast", "--as", n)
    inside(pair, "use", first, "--default", "--route", "10.9.0.0/24", "--cgroup", cgroup.path)
    before = routes(pair), default(pair), listed(first)["used_in"]
    for name in (first, second):
        refused_inside(
            pair,
            "use",
            name,
            "--default",
            "--route",
            "10.9.0.0/24",
            "--route",
            "10.9.0.0/24",
            "--route",
            "fd09::/64",
            "--cgroup",
            cgroup.path,
            "--cgroup",
            "/nosuch",
        )
        assert (routes(pair), default(pair), listed(first)["used_in"]) == before and cgroup.names() == ["asymcc_use"]
        refused_inside(pair, "unuse", first, "--default", "--route", "203.0.113.0/24")
        assert (routes(pair), default(pair), listed(first)["used_in"]) == before
    asymcc("unload", first, "--drain")


def test_routes_that_the_kernel_cannot_tell_apart_are_let_alone(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    pair.sh(pair.client, "ip", "route", "add", "198.51.100.0/24", "via", "10.9.0.2")
    pair.sh(pair.client, "ip", "route", "append", "198.51.100.0/24", "via", "10.9.0.3")
    before = routes(pair)
    assert (
        "several routes" in refused_inside(pair, "use", name, "--route", "198.51.100.0/24") and routes(pair) == before
    )


def test_a_made_route_is_like_the_one_it_stands_for(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    pair.sh(pair.client, "ip", "addr", "add", "10.9.0.77/24", "dev", pair.dev_c)
    pair.sh(
        pair.client,
        "ip",
        "route",
        "add",
        "default",
        "via",
        "172.16.0.1",
        "dev",
        pair.dev_c,
        "onlink",
        "src",
        "10.9.0.77",
        "mtu",
        "1400",
        "initcwnd",
        "20",
    )
    before = routes(pair)
    inside(pair, "use", name, "--route", "203.0.113.0/24")
    (made,) = [r for r in routes(pair) if r.startswith("203.0.113.0/24")]
    assert all(
        w in made
        for w in (
            "via 172.16.0.1",
            "onlink",
            "src 10.9.0.77",
            "mtu 1400",
            "initcwnd 20",
            f"congctl {name}",
            "proto 171",
        )
    )
    inside(pair, "unuse", name)
    assert routes(pair) == before


def test_a_route_of_many_hops_hides_no_other(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    hops = " ".join(f"nexthop via 10.9.0.{2 + i % 250} weight 1" for i in range(250))
    pair.sh(pair.client, "ip", "route", "add", "10.0.0.0/16", *hops.split())
    inside(pair, "use", name, "--route", "10.9.0.0/24")
    assert listed(name)["used_by"][0]["routes"] == ["10.9.0.0/24"]


def test_a_hop_that_is_down_is_named_and_hinders_nothing_else(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    pair.sh(pair.client, "ip", "link", "add", "down0", "type", "veth", "peer", "name", "down1")
    pair.sh(pair.client, "ip", "addr", "add", "10.8.0.1/24", "dev", "down0")
    for dev in ("down0", "down1"):
        pair.sh(pair.client, "ip", "link", "set", dev, "up")
    pair.sh(
        pair.client, "ip", "route", "add", "198.18.0.0/15", "nexthop", "via", "10.9.0.2", "nexthop", "via", "10.8.0.2"
    )
    inside(pair, "use", name, "--route", "198.18.0.0/15", "--route", "10.9.0.0/24", "--default")
    pair.sh(pair.client, "ip", "link", "set", "down0", "down")
    assert "a next hop is down" in refused("unload", name, "--drain")
    assert [r for r in routes(pair) if name in r] == [
        r for r in routes(pair) if r.startswith("198.18.0.0/15")
    ] and default(pair) != name
    pair.sh(pair.client, "ip", "link", "set", "down0", "up")
    asymcc("unload", name, "--drain")


def test_made_routes_of_one_that_others_took_out_are_named(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    inside(pair, "use", name, "--route", "10.9.0.64/26")
    run("bpftool", "struct_ops", "unregister", "id", listed(name)["map_id"])
    rows = [r for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout) if "10.9.0.64/26" in r["text"]]
    assert len(rows) == 1 and rows[0]["state"] == "bad" and "ip route del" in rows[0]["mend"]
    asymcc("load", "fast", "--as", name)  # it is there again
    asymcc("unload", name, "--drain")
    assert not any("10.9.0.64" in r for r in routes(pair))


def test_default_meets_the_instance_that_is_loaded_now(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    inside(pair, "use", name, "--default")
    asymcc("unload", name, "--force")
    asymcc("load", "fast", "--as", name, "--set", "alpha=99")
    with listening(pair):
        assert controller_of(pair) == name and values(name, "counters")["flows"] == 1
    asymcc("unload", name, "--drain")


def test_nothing_is_its_own_past(pair):  # noqa: F811
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    inside(pair, "use", "reno", "--default")
    done = run(*enter(pair.client), ASYMCC, "unuse", "reno", "--default", check=False)
    assert (done.returncode == 0) == (default(pair) != "reno")


def test_use_of_what_is_not_loaded(pair):  # noqa: F811
    assert "asymcc load nosuch" in refused_inside(pair, "use", "nosuch", "--default")


def test_kernels_own_controllers_can_be_used(pair):  # noqa: F811
    inside(pair, "use", "reno", "--route", "10.9.0.0/24")
    assert any("congctl reno" in r for r in routes(pair))
    inside(pair, "unuse", "reno", "--route", "10.9.0.0/24")


def test_many_routes(alias, pair):  # noqa: F811
    """More than one netlink message of them: none is missed."""
    name = alias()
    asymcc("load", "fast", "--as", name)
    batch = "".join(f"route add 100.{i // 250}.{i % 250}.0/24 via 10.9.0.2\n" for i in range(3000))
    pair.sh(pair.client, "ip", "-batch", "-", input=batch)
    inside(pair, "use", name, "--route", "100.11.249.0/24", "--route", "100.0.0.0/24")
    assert len(listed(name)["used_by"][0]["routes"]) == 2
    assert "2 places" in asymcc("unuse", name) and len(routes(pair)) > 3000


# --- set


def test_set_reaches_flows_under_way(alias, pair):  # noqa: F811
    """FAST with alpha 1 barely moves its window; with alpha 300, set while it runs, its queue grows to that."""
    name = alias()
    asymcc("load", "fast", "--as", name, "--set", "alpha=1")
    with steady(pair, name) as send:
        send(200_000)
        assert (
            asymcc("set", name, "alpha=30", "gamma_q8=200")
            == f"{name}: alpha=30 packets (was 1)\n{name}: gamma_q8=200 1/256 (was 128)\n"
        )
        assert values(name)["alpha"] == 30 and values(name)["gamma_q8"] == 200
        send(6_000_000)
        info = pair.sh(pair.client, "ss", "-tinH", "dport = :7401").stdout
        assert int(info.split("cwnd:")[1].split()[0]) > 20, info


def test_set_changes_all_or_nothing(alias):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name, "--set", "alpha=50")
    for words, what in (
        (["alpha=60", "gamma_q8=0"], "out of range"),
        (["alpha=60", "nosuch=1"], "no parameter nosuch"),
        (["alpha=60", "alpha_mode=1"], "constant of the loaded program"),
        (["alpha=x"], "not an integer"),
        (["alpha"], "param=value"),
    ):
        assert what in refused("set", name, *words)
    assert values(name)["alpha"] == 50
    assert f"asymcc load fast --as {name} --replace --set alpha_mode=1 --set alpha=50" in refused(
        "set", name, "alpha_mode=1"
    )
    assert "not registered" in refused("set", "nosuch", "alpha=1")
    refused("set", name, code=2)


def test_what_is_live_is_what_show_says():
    """Each live parameter of each controller takes a new value while it is loaded; no other does."""
    for row in json.loads(asymcc("list", "--json")):
        if not row["built"] or row["name"] != row["object"]:
            continue
        name = unique("v")
        asymcc(
            "load",
            row["object"],
            "--as",
            name,
            *(
                ("--cgroup", make_cgroup(name))
                if json.loads(asymcc("show", row["object"], "--json"))["cgroup_programs"]
                else ()
            ),
        )
        try:
            for p in json.loads(asymcc("show", name, "--json"))["parameters"]:
                new = p["min"] if p["value"] != p["min"] else p["min"] + 1
                if p["live"]:
                    asymcc("set", name, f"{p['name']}={new}")
                    assert values(name)[p["name"]] == new
                else:
                    assert "--replace" in refused("set", name, f"{p['name']}={new}")
        finally:
            asymcc("unload", name)
            remove_cgroup(name)


def make_cgroup(name: str) -> Path:
    mount = next(
        line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"
    )
    path = Path(mount, name)
    path.mkdir()
    return path


def remove_cgroup(name: str) -> None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2" and (path := Path(line.split()[1], name)).exists():
            path.rmdir()


# --- replace, drain


def test_replaced_under_traffic(alias, pair):  # noqa: F811
    """The flow that runs keeps the old program and its values; new ones, by default, route or name, get the new."""
    name = alias()
    asymcc("load", "fast", "--as", name, "--set", "alpha=33")
    inside(pair, "use", name, "--default", "--route", "fd09::/64")
    with steady(pair) as send:
        assert send(300_000) == name
        assert "alpha=44" in asymcc("load", "fast", "--as", name, "--replace", "--set", "alpha=44")
        old = next(r for r in json.loads(asymcc("list", "--json")) if r["name"] == name and r["unloading"])
        assert values(name)["alpha"] == 44 and values(name, "counters")["flows"] == 0
        assert send(300_000) == name and values(name, "counters")["flows"] == 0
        with listening(pair), listening(pair, "fd09::2"):
            assert controller_of(pair) == name and values(name, "counters")["flows"] == 1
            assert controller_of(pair, "fd09::2") == name and values(name, "counters")["flows"] == 2
        assert send(300_000) == name
    deadline = time.monotonic() + 20
    while [
        r for r in json.loads(asymcc("list", "--json")) if r["map_id"] == old["map_id"]
    ] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [
        r for r in json.loads(asymcc("list", "--json")) if r["map_id"] == old["map_id"]
    ]  # gone with its last socket
    asymcc("unload", name, "--drain")


def test_replacing_nothing_is_a_load_and_a_bad_one_changes_nothing(alias, tmp_path):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name, "--replace", "--set", "alpha=7")
    assert "out of range" in refused("load", "fast", "--as", name, "--replace", "--set", "alpha=0")
    (tmp_path / "fast.bpf.o").write_bytes(b"no object")
    refused("load", "fast", "--as", name, "--replace", "--objects", tmp_path)
    assert values(name)["alpha"] == 7 and not listed(name)["unloading"]
    assert "--replace" in refused("load", "fast", "--as", name)


def test_drain_waits_for_replaced_builds_too(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    with contextlib.ExitStack() as until_closed:
        send = until_closed.enter_context(steady(pair, name))
        send(1000)
        asymcc("load", "fast", "--as", name, "--replace")
        assert "1 socket keeps it" in asymcc("unload", name, "--drain", "--seconds", "1")
        asymcc("load", "fast", "--as", name)
        with program(ASYMCC, "unload", name, "--drain") as drain:
            assert drain.stdout.readline() == f"{name}: waiting for 1 socket\n" and send(1000) == name
            until_closed.close()
            assert drain.wait(timeout=30) == 0 and drain.stdout.read() == f"{name} unloaded\n"


@needs_clang
@needs_cgroup2
def test_replacement_that_its_cgroup_refuses_changes_nothing(halves, alias, cgroup):  # noqa: F811
    a, b, other = alias(), alias(), cgroup.child()
    asymcc("load", halves, "--as", a, "--cgroup", cgroup.child().path)
    asymcc("load", halves, "--as", b, "--cgroup", other.path)
    before = listed(a)
    assert f"asymcc unload {b}" in refused("load", halves, "--as", a, "--replace", "--cgroup", other.path)
    assert listed(a) == before


@needs_clang
@needs_cgroup2
def test_unload_that_the_kernel_refuses_claims_nothing(halves, cgroup, trip):  # noqa: F811
    asymcc("load", halves, "--cgroup", cgroup.path)
    before = cgroup.names()
    for options in ([], ["--drain"]):
        done = run(ASYMCC, "unload", halves, *options, env=trip("bpf_map_delete_elem", 1, 95), check=False)
        assert done.returncode == 1 and not done.stdout and "BPF link" in done.stderr
        assert kernel_has(halves) and cgroup.names() == before


@needs_clang
@needs_cgroup2
def test_replaced_with_its_halves(halves, cgroup):  # noqa: F811
    """Where the old one's programs were, the new one's are, and only those."""
    asymcc("load", halves, "--cgroup", cgroup.path)
    before = {p["id"] for p in cgroup.programs()}
    asymcc("load", halves, "--replace")
    after = {p["id"] for p in cgroup.programs()}
    assert len(after) == len(before) and not after & before
    assert listed(halves)["cgroups"] == [str(cgroup.path)]


def test_drain_waits_for_the_last_connection(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    inside(pair, "use", name, "--default", "--route", "10.9.0.0/24")
    with contextlib.ExitStack() as until_closed:
        send = until_closed.enter_context(steady(pair))
        assert send(1000) == name
        line = refused("unload", name)
        assert f"default of netns {pair.client}, route 10.9.0.0/24" in line and "--drain" in line
        with program(ASYMCC, "unload", name, "--drain") as drain:
            assert drain.stdout.readline() == f"{name}: waiting for 1 socket\n"
            assert default(pair) == "reno" and not any("congctl" in r for r in routes(pair)) and not kernel_has(name)
            assert send(100_000) == name and drain.poll() is None
            until_closed.close()
            assert drain.wait(timeout=30) == 0
            assert (
                drain.stdout.read()
                == f"{name} unloaded; taken back from default of netns {pair.client}, route 10.9.0.0/24 in netns {pair.client}\n"
            )
    assert listed(name) is None


def test_drain_waits_no_longer_than_it_is_told(alias, pair):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    with steady(pair, name) as send:
        said = asymcc("unload", name, "--drain", "--seconds", "0")
        assert said == f"{name} unloaded; 1 socket keeps it until closed\n" and send(1000) == name


# --- killed


@needs_cgroup2
@pytest.mark.parametrize(
    "function, call",
    [
        ("renameat", 1),
        ("write", 1),
        ("write", 2),
        ("bpf_prog_attach_opts", 1),
        ("bpf_prog_detach2", 1),
        ("bpf_map_delete_elem", 1),
        ("bpf_map__attach_struct_ops", 1),
        *(("send", n) for n in range(1, 13)),
    ],
)
def test_killed_anywhere_it_can_be_cleaned_up(function, call, alias, pair, cgroup, trip):  # noqa: F811
    """use, replace and drain, killed at some call: flows go on, `doctor` names what is left, `unload --drain` cleans it."""
    name = alias()
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    before = routes(pair)
    asymcc("load", "fast", "--as", name)
    with steady(pair, name) as send:
        killed = 0
        for argv in (
            ["use", name, "--default", "--route", "10.9.0.0/24", "--cgroup", cgroup.path],
            ["load", "fast", "--as", name, "--replace"],
            ["unload", name, "--drain", "--seconds", "0"],
        ):
            done = run(*enter(pair.client), ASYMCC, *argv, env=trip(function, call), check=False)
            assert done.returncode in (-9, 0, 1, 137), done.stderr
            killed += done.returncode in (-9, 137)
            assert send(1000) == name
        run(ASYMCC, "unload", name, "--drain", "--seconds", "0", check=False)
        assert send(1000) == name
    assert not kernel_has(name) and default(pair) == "reno" and cgroup.names() == []
    asymcc("load", "fast", "--as", name)  # the kernel shows a route's controller only while it is registered
    assert routes(pair) == before and not list(STATE.glob(f"*{name}"))
    asymcc("unload", name)
    assert not [
        r
        for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
        if r["check"] == name and r["state"] == "bad"
    ]
    assert killed


@needs_clang
@needs_cgroup2
def test_success_is_said_only_of_what_is_done(halves, cgroup, tmp_path):  # noqa: F811
    """Taken back and out with too few descriptors: with each more of them it gets a step further."""
    shutil.copy(ASYMCC.parent / "use.bpf.o", tmp_path)
    at = "--cgroup", cgroup.path
    for argv in (["unload", halves, "--drain", "--seconds", "0"], ["unuse", halves], ["unuse", halves, *at]):
        refusals = 0
        for limit in range(4, 40):
            asymcc("load", halves, *at)
            asymcc("use", halves, *at)
            done = run("prlimit", f"--nofile={limit}", ASYMCC, *argv, check=False)
            left = cgroup.names()
            assert done.returncode in (0, 1) and ("asymcc_use" not in left if done.returncode == 0 else done.stderr), (
                limit,
                done,
                left,
            )
            if argv[0] == "unload":
                assert done.returncode or not (left or kernel_has(halves)), (limit, done, left)
            run(ASYMCC, "unload", halves, "--drain", "--seconds", "0", check=False)
            assert cgroup.names() == [] and not kernel_has(halves)
            if done.returncode == 0:
                break
            refusals += 1
        assert refusals > 1 and done.returncode == 0


def test_a_namespace_that_cannot_be_looked_into_is_told(alias, pair):  # noqa: F811
    """With too few descriptors for it, no command takes it for one that does not use the controller."""
    name, told = alias(), []
    asymcc("load", "fast", "--as", name)
    inside(pair, "use", name, "--default")
    for limit in range(4, 20):
        for argv in (["list", "--json"], ["unload", name]):
            done = run("prlimit", f"--nofile={limit}", ASYMCC, *argv, check=False)
            assert kernel_has(name), (limit, done)
            assert done.returncode == 1 and done.stderr.count("\n") == 1 or f"netns {pair.client}" in done.stdout, (limit, done)
            told.append("cannot look into every network namespace: Too many open files" in done.stderr)
    assert any(told[0::2]) and f"default of netns {pair.client}" in done.stderr


def test_doctor_names_originals_of_namespaces_that_are_gone(alias, pair):  # noqa: F811
    """And of none that is there, with a name or by a process alone."""

    def strangers() -> list[str]:
        return [
            r["mend"]
            for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
            if r["check"] == name and "not found" in r["text"] and r["state"] == "note"
        ]

    name = alias()
    asymcc("load", "fast", "--as", name)
    inside(pair, "use", name, "--default")
    with program("unshare", "-n", "sh", "-c", f"{ASYMCC} use {name} --default && read line") as p:
        assert p.stdout.readline() == f"{name} is used by default\n" and strangers() == []
    (line,) = strangers()
    file = Path(line.removeprefix("rm ").split(",")[0])
    assert file.parent == STATE and file.name.startswith("default-")
    file.unlink()
    assert strangers() == []


@needs_clang
@needs_cgroup2
@pytest.mark.parametrize("wrong", ["a symlink", "another's", "writable"])
def test_a_state_folder_that_is_not_roots_alone_is_refused(wrong, alias, tmp_path):  # noqa: F811
    name = alias()
    asymcc("load", "fast", "--as", name)
    make = {
        "a symlink": f"ln -s {tmp_path} /run/asymcc",
        "another's": "mkdir /run/asymcc && chown 65534 /run/asymcc",
        "writable": "mkdir -m 1777 /run/asymcc",
    }[wrong]
    done = run(
        "unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && {make} && exec {ASYMCC} unload {name}", check=False
    )
    assert done.returncode == 1 and "/run/asymcc" in done.stderr and done.stderr.count("\n") == 1 and kernel_has(name)
    assert list(tmp_path.iterdir()) == []


def test_what_lies_in_the_state_folders_way_is_not_written_to(alias, pair, tmp_path):  # noqa: F811
    name, victim = alias(), tmp_path / "victim"
    victim.write_text("as it was")
    asymcc("load", "fast", "--as", name)
    script = f"mount -t tmpfs -o mode=755 none /run/asymcc && ln -s {victim} /run/asymcc/.part && {ASYMCC} use {name} --default && cat /run/asymcc/default-*"
    done = run(*enter(pair.client), "unshare", "-m", "sh", "-c", script)
    assert f" {name} " in done.stdout and victim.read_text() == "as it was"


# --- doctor, and the command line's tables


def test_doctor_of_this_machine():
    done = run(ASYMCC, "doctor", "--json", check=False)
    checks = {r["check"]: r for r in json.loads(done.stdout)}
    assert {"kernel", "BTF", "JIT", "capabilities", "cgroup2", "libbpf", "objects"} <= checks.keys()
    assert checks["BTF"]["state"] == "ok" and checks["kernel"]["text"] == os.uname().release
    assert done.returncode == any(r["state"] == "bad" for r in checks.values())
    assert run(ASYMCC, "doctor", check=False).stdout.count("\n") == len(json.loads(done.stdout))


def test_doctor_without_rights():
    done = run("setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all", ASYMCC, "doctor", check=False)
    assert done.returncode == 1 and "missing: CAP_BPF" in done.stdout and "run it as root" in done.stdout


def test_doctor_without_objects(tmp_path):
    done = run(ASYMCC, "doctor", "--objects", tmp_path, check=False)
    assert done.returncode == 1 and f"none in {tmp_path}" in done.stdout


def test_completion_knows_commands_and_options():
    script = asymcc("completion")

    def complete(*words: str) -> set[str]:
        ask = f"{script}\nCOMP_WORDS=({' '.join(words)} {'' if words[-1] else chr(39) * 2}); COMP_CWORD={len(words) - 1}; _asymcc; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return set(
            subprocess.run(
                ["bash", "-c", ask],
                capture_output=True,
                text=True,
                check=True,
                env={"PATH": f"{ASYMCC.parent}:{os.environ['PATH']}"},
            ).stdout.split()
        )

    assert complete("asymcc", "un") == {"unuse", "unload"}
    assert complete("asymcc", "use", "--") == {"--default", "--route", "--cgroup", "--objects", "--verbose", "--help"}
    assert "fast" in complete("asymcc", "load", "fa")


def test_manual_has_every_command_and_option():
    page = asymcc("manual")
    for command in ("list", "load", "show", "set", "use", "unuse", "unload", "top", "trace", "doctor"):
        assert f'.SS "asymcc {command}' in page
        for line in asymcc(command, "--help").splitlines():
            if line.startswith("  -") and not any(o in line for o in ("--help", "--objects", "--verbose")):
                assert line.split()[1].replace("-", "\\-") in page, line
