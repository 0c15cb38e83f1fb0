# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`load --replace` and `unload --drain`: under traffic, with cgroups, refused."""

from __future__ import annotations

import contextlib
import json
import re
import time

from tests.live.harness import (  # noqa: F401
    ASYMCC,
    asymcc,
    endpoint,
    kernel_has,
    listed,
    program,
    pytestmark,
    refused,
    run,
    saying,
    values,
)
from tests.live.pairs import PLAIN, controller_of, default, inside, listening, routes, set_default, steady


def test_replaced_under_traffic(loaded, pair):
    """The flow that runs keeps the old program and its values; new ones, by default, route or name, get the new."""
    name = loaded("fast", "--set", "alpha=33")
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


def test_replacing_nothing_is_a_load_and_a_bad_one_changes_nothing(loaded, tmp_path):
    name = loaded("fast", "--replace", "--set", "alpha=7")
    assert "out of range" in refused("load", "fast", "--as", name, "--replace", "--set", "alpha=65537")
    (tmp_path / "fast.bpf.o").write_bytes(b"no object")
    refused("load", "fast", "--as", name, "--replace", "--objects", tmp_path)
    assert values(name)["alpha"] == 7 and not listed(name)["unloading"]
    assert "--replace" in refused("load", "fast", "--as", name)


def test_drain_waits_for_replaced_builds_too(loaded, pair):
    name = loaded("fast")
    with contextlib.ExitStack() as until_closed:
        send = until_closed.enter_context(steady(pair, name))
        send(1000)
        asymcc("load", "fast", "--as", name, "--replace")
        assert "1 socket keeps it" in asymcc("unload", name, "--drain", "--seconds", "1")
        asymcc("load", "fast", "--as", name)
        with program(ASYMCC, "unload", name, "--drain") as drain:
            assert drain.stdout.readline() == f"{name}: waiting for 1 socket\n" and send(1000) == name
            assert ":7401, ESTABLISHED, netns " in drain.stdout.readline()
            until_closed.close()
            assert drain.wait(timeout=30) == 0 and drain.stdout.read() == f"{name} unloaded\n"


def test_replacement_that_its_cgroup_refuses_changes_nothing(halves, alias, cgroup):
    a, b, other = alias(), alias(), cgroup.child()
    asymcc("load", halves, "--as", a, "--cgroup", cgroup.child().path)
    asymcc("load", halves, "--as", b, "--cgroup", other.path)
    before = listed(a)
    assert f"asymcc unload {b}" in refused("load", halves, "--as", a, "--replace", "--cgroup", other.path)
    assert listed(a) == before


def test_unload_that_the_kernel_refuses_claims_nothing(halves, cgroup, trip):
    asymcc("load", halves, "--cgroup", cgroup.path)
    before = cgroup.names()
    for options in ([], ["--drain"]):
        done = run(ASYMCC, "unload", halves, *options, env=trip("bpf_map_delete_elem", 1, 95), check=False)
        assert done.returncode == 1 and not done.stdout and "BPF link" in done.stderr
        assert kernel_has(halves) and cgroup.names() == before


def test_replaced_with_its_halves(halves, cgroup):
    """The new one's programs take the places of the old one's, and no others."""
    asymcc("load", halves, "--cgroup", cgroup.path)
    before = {p["id"] for p in cgroup.programs()}
    asymcc("load", halves, "--replace")
    after = {p["id"] for p in cgroup.programs()}
    assert len(after) == len(before) and not after & before
    assert listed(halves)["cgroups"] == [str(cgroup.path)]


def test_drain_waits_for_the_last_connection(loaded, pair):
    name = loaded("fast")
    set_default(pair, PLAIN)
    inside(pair, "use", name, "--default", "--route", "10.9.0.0/24")
    with contextlib.ExitStack() as until_closed:
        send = until_closed.enter_context(steady(pair))
        assert send(1000) == name
        line = refused("unload", name)
        assert f"default of netns {pair.client}, route 10.9.0.0/24" in line and "--drain" in line
        with program(ASYMCC, "unload", name, "--drain") as drain:
            assert drain.stdout.readline() == f"{name}: waiting for 1 socket\n"
            assert ":7401, ESTABLISHED, netns " in drain.stdout.readline()
            assert default(pair) == PLAIN and not any("congctl" in r for r in routes(pair)) and not kernel_has(name)
            assert send(100_000) == name and drain.poll() is None
            until_closed.close()
            assert drain.wait(timeout=30) == 0
            places = f"default of netns {pair.client}, route 10.9.0.0/24 in netns {pair.client}"
            assert drain.stdout.read() == f"{name} unloaded; taken back from {places}\n"
    assert listed(name) is None


def test_drain_waits_no_longer_than_it_is_told(loaded, pair):
    name = loaded("fast")
    with steady(pair, name) as send:
        output = asymcc("unload", name, "--drain", "--seconds", "0")
        assert output.startswith(f"{name} unloaded; 1 socket keeps it until closed\n  ") and send(1000) == name


@contextlib.contextmanager
def a_listener(pair, cc=""):
    there = {"address": "10.9.0.1", "port": 7402}
    with saying("ready", *endpoint("accept", pair.client, **there, cc=cc)) as p:

        def accepts_with() -> str:
            pair.sh(pair.server, *endpoint("tell", **there))
            return p.stdout.readline().strip()

        accepts_with.line = rf"  python[.\d]* \(pid {p.pid}\): 10.9.0.1:7402, LISTEN, netns {pair.client}\n"
        yield accepts_with


def test_drain_gives_listeners_that_chose_it_the_default(loaded, pair):
    """Such a listener would give it to all that it accepts, for ever."""
    name = loaded("fast")
    set_default(pair, PLAIN)
    with a_listener(pair, name) as accepts_with:
        assert accepts_with() == name
        assert re.fullmatch(rf"no established .*\n1 socket has {name} in .*:\n{accepts_with.line}", asymcc("top", name))
        output = asymcc("unload", name, "--drain")
        assert output == f"{name} unloaded; 1 socket is given the default\n"
        assert accepts_with() == PLAIN and listed(name) is None


def test_drain_ends_beside_a_listener_that_took_it_by_default(loaded, pair):
    """A connection that it accepts follows the default: it is named, not waited for, and stays free to follow."""
    name, later = loaded("fast"), loaded("fast")
    set_default(pair, PLAIN)
    inside(pair, "use", name, "--default")
    with a_listener(pair) as accepts_with:
        assert accepts_with() == name
        output = asymcc("unload", name, "--drain")
        keeps = "1 listener keeps its memory until closed, and gives it to none"
        assert re.fullmatch(
            rf"{name} unloaded; taken back from default of netns {pair.client}; {keeps}\n{accepts_with.line}", output
        )
        assert accepts_with() == PLAIN
        inside(pair, "use", later, "--default")
        assert accepts_with() == later
        assert asymcc("unload", name, "--switch", PLAIN) == f"{name} unloaded; 1 socket is given {PLAIN}\n"
        assert listed(name) is None and accepts_with() == PLAIN
        asymcc("unload", later, "--drain")


def test_what_keeps_it_is_named(loaded, pair):
    name = loaded("fast")
    with steady(pair, name) as send:
        send(1000)
        line = rf"  python[.\d]* \(pid \d+\): 10.9.0.1:\d+ to 10.9.0.2:7401, ESTABLISHED, netns {pair.client}\n"
        output = asymcc("unload", name, "--drain", "--seconds", "2")
        expected = rf"{name}: waiting for 1 socket\n{line}{name} unloaded; 1 socket keeps it until closed\n{line}"
        assert re.fullmatch(expected, output)
        again = rf"{name} is unloaded already; 1 socket keeps it until closed\n{line}"
        assert re.fullmatch(again, asymcc("unload", name))


@contextlib.contextmanager
def busy(pair, n: int, cc: str):
    """Yields what ends it, and says how much was sent, how much arrived and which controllers there are then."""
    with saying("open", *endpoint("busy", pair.client, connections=n, cc=cc)) as p:

        def stop() -> list[str]:
            return p.communicate("\n", timeout=120)[0].split()

        yield stop


def test_switch_moves_connections_and_loses_no_byte(alias, pair):
    name, n = alias(), 500
    asymcc("load", "fast", "--as", name)
    with busy(pair, n, name) as stop:
        time.sleep(0.5)
        output = asymcc("unload", name, "--switch", "cubic")
        assert output == f"{name} unloaded; {2 * n} sockets are given cubic\n"
        assert listed(name) is None
        time.sleep(0.5)
        sent, got, *controllers = stop()
    assert sent == got and int(sent) > 1_000_000 and controllers == ["cubic"]


def test_switch_to_what_cannot_be_changes_nothing(loaded):
    name = loaded("fast")
    assert "not loaded" in refused("unload", name, "--switch", "nosuch")
    assert "the one that goes" in refused("unload", name, "--switch", name)
    assert kernel_has(name)


def test_switch_where_the_kernel_cannot(loaded, pair, trip):
    """One line says so; with --drain alone listeners are waited for, as there is nothing else to do."""
    name = loaded("fast")
    with a_listener(pair, name):
        done = run(ASYMCC, "unload", name, "--switch", "reno", env=trip("LINK_CREATE", 1, 95), check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and "this kernel cannot" in done.stderr
        assert kernel_has(name) and not done.stdout
        done = run(ASYMCC, "unload", name, "--drain", "--seconds", 1, env=trip("LINK_CREATE", 1, 95), check=False)
        assert done.returncode == 0 and done.stderr.count("\n") == 1 and "this kernel cannot" in done.stderr
        assert "1 socket keeps it until closed" in done.stdout and ", LISTEN" in done.stdout
