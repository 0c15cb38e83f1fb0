# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`load --replace` and `unload --drain`: under traffic, with cgroups, refused."""

from __future__ import annotations

import contextlib
import json
import time

from harness import (  # noqa: F401
    ASYMCC,
    asymcc,
    kernel_has,
    listed,
    needs_cgroup2,
    needs_clang,
    program,
    pytestmark,
    refused,
    run,
    values,
)
from pairs import controller_of, default, inside, listening, routes, steady


def test_replaced_under_traffic(alias, pair):
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


def test_replacing_nothing_is_a_load_and_a_bad_one_changes_nothing(alias, tmp_path):
    name = alias()
    asymcc("load", "fast", "--as", name, "--replace", "--set", "alpha=7")
    assert "out of range" in refused("load", "fast", "--as", name, "--replace", "--set", "alpha=0")
    (tmp_path / "fast.bpf.o").write_bytes(b"no object")
    refused("load", "fast", "--as", name, "--replace", "--objects", tmp_path)
    assert values(name)["alpha"] == 7 and not listed(name)["unloading"]
    assert "--replace" in refused("load", "fast", "--as", name)


def test_drain_waits_for_replaced_builds_too(alias, pair):
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
def test_replacement_that_its_cgroup_refuses_changes_nothing(halves, alias, cgroup):
    a, b, other = alias(), alias(), cgroup.child()
    asymcc("load", halves, "--as", a, "--cgroup", cgroup.child().path)
    asymcc("load", halves, "--as", b, "--cgroup", other.path)
    before = listed(a)
    assert f"asymcc unload {b}" in refused("load", halves, "--as", a, "--replace", "--cgroup", other.path)
    assert listed(a) == before


@needs_clang
@needs_cgroup2
def test_unload_that_the_kernel_refuses_claims_nothing(halves, cgroup, trip):
    asymcc("load", halves, "--cgroup", cgroup.path)
    before = cgroup.names()
    for options in ([], ["--drain"]):
        done = run(ASYMCC, "unload", halves, *options, env=trip("bpf_map_delete_elem", 1, 95), check=False)
        assert done.returncode == 1 and not done.stdout and "BPF link" in done.stderr
        assert kernel_has(halves) and cgroup.names() == before


@needs_clang
@needs_cgroup2
def test_replaced_with_its_halves(halves, cgroup):
    """Where the old one's programs were, the new one's are, and only those."""
    asymcc("load", halves, "--cgroup", cgroup.path)
    before = {p["id"] for p in cgroup.programs()}
    asymcc("load", halves, "--replace")
    after = {p["id"] for p in cgroup.programs()}
    assert len(after) == len(before) and not after & before
    assert listed(halves)["cgroups"] == [str(cgroup.path)]


def test_drain_waits_for_the_last_connection(alias, pair):
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
            places = f"default of netns {pair.client}, route 10.9.0.0/24 in netns {pair.client}"
            assert drain.stdout.read() == f"{name} unloaded; taken back from {places}\n"
    assert listed(name) is None


def test_drain_waits_no_longer_than_it_is_told(alias, pair):
    name = alias()
    asymcc("load", "fast", "--as", name)
    with steady(pair, name) as send:
        said = asymcc("unload", name, "--drain", "--seconds", "0")
        assert said == f"{name} unloaded; 1 socket keeps it until closed\n" and send(1000) == name
