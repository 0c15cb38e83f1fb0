# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc use` and `unuse`: defaults, routes, cgroups; given to connections and taken back."""

from __future__ import annotations

import errno
import json
import re

import pytest

from tests.live.cgroups import talking, within
from tests.live.harness import ASYMCC, asymcc, endpoint, listed, program, pytestmark, refused, run, saying, values  # noqa: F401
from tests.live.pairs import (
    ALLOWED,
    PLAIN,
    controller_of,
    default,
    enter,
    inside,
    listening,
    refused_inside,
    routes,
    set_default,
    steady,
)
from tests.shared import wait_for

THERE = {"address": "10.9.0.2", "port": 7400}
ACCEPT, TELL = endpoint("accept", **THERE), endpoint("tell", **THERE)


def test_default_and_back(loaded, pair):
    name, other = loaded("fast"), loaded("fast")
    set_default(pair, PLAIN)
    assert inside(pair, "use", name, "--default").splitlines()[0] == f"{name} is used by default"
    assert default(pair) == name and listed(name)["used_by"] == [
        {"netns": f"netns {pair.client}", "default": True, "routes": [], "sockets": 0}
    ]
    with listening(pair):
        assert controller_of(pair) == name
    inside(pair, "use", name, "--default")  # again: nothing new
    inside(pair, "use", other, "--default")
    line = f"{name} is not the default of this network namespace\n"
    assert inside(pair, "unuse", name, "--default") == line and default(pair) == other
    inside(pair, "unuse", other, "--default")
    assert default(pair) == PLAIN  # that before both
    assert asymcc("unuse", other) == f"{other} is no default, on no route and in no cgroup\n"


@pytest.mark.parametrize(
    "options", [["--cgroup", "/nonexistent"], ["--cgroup", "/proc"], ["--route", "203.0.113.0/24"]]
)
def test_a_refused_use_forgets_no_original(options, loaded, pair):
    original, first, second = loaded("fast"), loaded("fast"), loaded("fast")
    set_default(pair, original)
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
def test_a_killed_use_forgets_no_original(options, calls, loaded, pair, trip):
    """A use of a second controller is killed at each step there and, as its cgroup is refused, back; then `unuse`."""
    original, first, second = loaded("fast"), loaded("fast"), loaded("fast")
    set_default(pair, original)
    for call in calls:
        inside(pair, "use", first, "--default")
        done = run(
            *enter(pair.client), ASYMCC, "use", second, "--default", *options, env=trip(*call.split()), check=False
        )
        assert default(pair) in (first, second) and done.returncode in (-9, 137)
        run(*enter(pair.client), ASYMCC, "unuse", default(pair), "--default", env=trip("unlinkat", 1), check=False)
        assert default(pair) == original


def test_a_default_that_was_set_by_others_is_no_ones_past(loaded, pair):
    name, theirs = loaded("fast"), loaded("fast")
    set_default(pair, PLAIN)
    inside(pair, "use", name, "--default")
    set_default(pair, theirs)
    inside(pair, "use", name, "--default")
    asymcc("unuse", name)  # from another namespace
    assert default(pair) == theirs
    asymcc("unload", theirs, "--drain")
    assert default(pair) in ("cubic", "reno", PLAIN)  # what it was before is not known


@pytest.fixture
def restricted(loaded, pair):
    """The default of the client's namespace, which it may not have again once it has another.

    The kernel counts a use for each time that it refuses to make it the default: asymcc does not ask, and it can go.
    """
    name = loaded("fast")
    set_default(pair, name)
    ALLOWED.write_text(" ".join(c for c in ALLOWED.read_text().split() if c != name))
    yield name
    set_default(pair, PLAIN)
    asymcc("unload", name)
    wait_for(lambda: listed(name) is None)


def test_a_default_that_cannot_come_back_is_told_before_and_after(restricted, loaded, pair):
    """`use` says so, and `unuse` which one it is instead."""
    name = loaded("fast")
    output = inside(pair, "use", name, "--default")
    assert f"note: `unuse` cannot set it back to {restricted}, the default before: this network namespace may" in output
    done = run(*enter(pair.client), ASYMCC, "unuse", name)
    assert default(pair) not in (name, restricted) and done.stdout == f"{name} taken back in 1 place\n"
    line = (
        f"asymcc: --default: it is {default(pair)} now, and not {restricted} as before: this network namespace may not"
    )
    assert done.stderr.startswith(line) and done.stderr.endswith(
        "add it to net.ipv4.tcp_allowed_congestion_control of the first one\n"
    )


def test_no_trial_begins_where_it_could_not_end(restricted, loaded, pair):
    name = loaded("fast")
    done = run(*enter(pair.client), ASYMCC, "try", name, *"--default --seconds 3 --before 0".split(), check=False)
    assert done.returncode == 1 and f"a trial could not end with {restricted}, the default now" in done.stderr
    assert default(pair) == restricted


@pytest.mark.parametrize("address, prefix", [("10.9.0.2", "10.9.0.0/24"), ("fd09::2", "fd09::/64")])
def test_route_of_a_prefix(address, prefix, loaded, pair):
    name = loaded("fast")
    before = routes(pair)
    assert inside(pair, "use", name, "--route", prefix).splitlines()[0] == f"{name} is used on route {prefix}"
    assert [r for r in routes(pair) if f"congctl {name}" in r and r.startswith(prefix)] and len(routes(pair)) == len(
        before
    )
    assert listed(name)["used_by"][0]["routes"][0].startswith(prefix) and f"route {prefix}" in asymcc("list")
    with listening(pair, address):
        assert controller_of(pair, address) == name
        inside(pair, "unuse", name, "--route", prefix)
        assert controller_of(pair, address) != name
    assert routes(pair) == before


def test_route_that_is_made_and_removed(loaded, pair):
    """Within a prefix that has a route; the other attributes of existing ones stay, several next hops as well."""
    name = loaded("fast")
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
    words = inside(pair, "use", name, *uses)
    assert (
        "203.0.113.7 (made for it)" in words
        and "fd09::2/128 (made for it)" in words
        and words.count("made for it") == 2
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


def test_cgroup(loaded, pair, cgroup):
    """A program that connects or accepts there has it; others do not; a second one takes its place."""
    name, other = loaded("fast"), loaded("fast")
    client = (*within(cgroup.path), *TELL)
    assert asymcc("use", name, "--cgroup", cgroup.path).splitlines()[0] == f"{name} is used in cgroup {cgroup.path}"
    assert (
        cgroup.names() == ["asymcc_use"]
        and listed(name)["used_in"] == [str(cgroup.path)]
        and f"cgroup {cgroup.path}" in asymcc("list")
    )
    with saying("ready", *enter(pair.server), *within(cgroup.path), *ACCEPT) as p:
        assert controller_of(pair) != name and p.stdout.readline() == f"{name}\n"
        assert run(*enter(pair.client), *client).stdout == f"{name}\n"
        asymcc("use", other, "--cgroup", cgroup.path)
        assert cgroup.names() == ["asymcc_use"] and not listed(name)["used_in"]
        assert run(*enter(pair.client), *client).stdout == f"{other}\n"
    assert asymcc("unuse", name, "--cgroup", cgroup.path) == f"{name} is not used in cgroup {cgroup.path}\n"
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


def test_a_program_that_would_never_be_found_again_is_not_attached(alias, cgroup, trip):
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


def test_a_cgroup_comes_before_a_route_and_that_before_the_socket(loaded, pair, cgroup):
    by_cgroup, by_route = loaded("fast"), loaded("fast")
    inside(pair, "use", by_route, "--route", "10.9.0.0/24")
    run(*enter(pair.server), ASYMCC, "use", by_route, "--route", "10.9.0.0/24")
    asymcc("use", by_cgroup, "--cgroup", cgroup.path)
    chosen = endpoint("tell", **THERE, cc="reno")
    with listening(pair) as outside:
        assert pair.sh(pair.client, *chosen).stdout.strip() == by_route
        assert outside.stdout.readline().strip() == by_route
        assert run(*enter(pair.client), *within(cgroup.path), *chosen).stdout.strip() == by_cgroup
    with saying("ready", *enter(pair.server), *within(cgroup.path), *ACCEPT) as p:
        assert controller_of(pair) == by_route and p.stdout.readline().strip() == by_cgroup


def test_formosa_by_cgroup_has_both_halves(loaded, pair, cgroup):
    """The SYN carries its option although the application knows nothing of it."""
    name = loaded("formosa", "--cgroup", cgroup.path)
    asymcc("use", name, "--cgroup", cgroup.path)
    with saying("ready", *enter(pair.server), *within(cgroup.path), *ACCEPT):
        assert run(*enter(pair.client), *within(cgroup.path), *TELL).stdout.strip() == name
    assert values(name, "counters")["peers"] == 2


def test_a_cgroup_whose_controller_is_gone_harms_nobody(loaded, pair, cgroup):
    name = loaded("fast")
    asymcc("use", name, "--cgroup", cgroup.path)
    asymcc("unload", name, "--force")
    with listening(pair):
        run(*enter(pair.client), *within(cgroup.path), *TELL)
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
def test_wrong_uses(argv, words, loaded, pair):
    name = loaded("fast")
    before = routes(pair), default(pair)
    for options in (argv, ["--default", "--route", "10.9.0.0/24", *argv]) if argv else (argv,):  # all or none
        line = refused_inside(pair, "use", name, *options)
        assert all(w in line for w in words)
        assert (routes(pair), default(pair)) == before


def test_what_fails_late_is_taken_back(loaded, pair, cgroup):
    """The last of four places cannot be had: the others are as before, with what they had before."""
    first, second = loaded("fast"), loaded("fast")
    inside(pair, "use", first, "--default", "--route", "10.9.0.0/24", "--cgroup", cgroup.path)
    before = routes(pair), default(pair), listed(first)["used_in"]
    for name in (first, second):
        refused_inside(
            pair,
            *f"use {name} --default --route 10.9.0.0/24 --route 10.9.0.0/24 --route fd09::/64 --cgroup".split(),
            cgroup.path,
            "--cgroup",
            "/nosuch",
        )
        assert (routes(pair), default(pair), listed(first)["used_in"]) == before and cgroup.names() == ["asymcc_use"]
        refused_inside(pair, "unuse", first, "--default", "--cgroup", "/nosuch")
        assert (routes(pair), default(pair), listed(first)["used_in"]) == before
    output = inside(pair, "unuse", first, "--default", "--route", "203.0.113.0/24", "--cgroup", cgroup.path)
    assert output.splitlines() == [
        f"{first} is on no route to just 203.0.113.0/24",
        f"{first} taken back by default, in cgroup {cgroup.path}",
    ]
    asymcc("unload", first, "--drain")


def test_routes_that_the_kernel_cannot_tell_apart_are_let_alone(loaded, pair):
    name = loaded("fast")
    pair.sh(pair.client, "ip", "route", "add", "198.51.100.0/24", "via", "10.9.0.2")
    pair.sh(pair.client, "ip", "route", "append", "198.51.100.0/24", "via", "10.9.0.3")
    before = routes(pair)
    assert (
        "several routes" in refused_inside(pair, "use", name, "--route", "198.51.100.0/24") and routes(pair) == before
    )


def test_a_made_route_is_like_the_one_it_stands_for(loaded, pair):
    name = loaded("fast")
    pair.sh(pair.client, "ip", "addr", "add", "10.9.0.77/24", "dev", pair.dev_c)
    default_route = f"default via 172.16.0.1 dev {pair.dev_c} onlink src 10.9.0.77 mtu 1400 initcwnd 20"
    pair.sh(pair.client, "ip", "route", "add", *default_route.split())
    before = routes(pair)
    inside(pair, "use", name, "--route", "203.0.113.0/24")
    (route,) = [r for r in routes(pair) if r.startswith("203.0.113.0/24")]
    kept = ("via 172.16.0.1", "onlink", "src 10.9.0.77", "mtu 1400", "initcwnd 20", f"congctl {name}", "proto 171")
    assert all(w in route for w in kept)
    inside(pair, "unuse", name)
    assert routes(pair) == before


def test_a_route_of_many_hops_hides_no_other(loaded, pair):
    name = loaded("fast")
    hops = " ".join(f"nexthop via 10.9.0.{2 + i % 250} weight 1" for i in range(250))
    pair.sh(pair.client, "ip", "route", "add", "10.0.0.0/16", *hops.split())
    inside(pair, "use", name, "--route", "10.9.0.0/24")
    assert listed(name)["used_by"][0]["routes"] == ["10.9.0.0/24"]


def test_a_hop_that_is_down_is_named_and_hinders_nothing_else(loaded, pair):
    name = loaded("fast")
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


def test_made_routes_of_one_that_others_took_out_are_named(loaded, pair):
    name = loaded("fast")
    inside(pair, "use", name, "--route", "10.9.0.64/26")
    run("bpftool", "struct_ops", "unregister", "id", listed(name)["map_id"])
    rows = [r for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout) if "10.9.0.64/26" in r["text"]]
    assert len(rows) == 1 and rows[0]["state"] == "bad" and "ip route del" in rows[0]["mend"]
    asymcc("load", "fast", "--as", name)  # it is there again
    asymcc("unload", name, "--drain")
    assert not any("10.9.0.64" in r for r in routes(pair))


def test_default_meets_the_instance_that_is_loaded_now(loaded, pair):
    name = loaded("fast")
    inside(pair, "use", name, "--default")
    asymcc("unload", name, "--force")
    asymcc("load", "fast", "--as", name, "--set", "alpha=99")
    with listening(pair):
        assert controller_of(pair) == name and values(name, "counters")["flows"] == 1
    asymcc("unload", name, "--drain")


def test_nothing_is_its_own_past(pair):
    set_default(pair, PLAIN)
    inside(pair, "use", PLAIN, "--default")
    done = run(*enter(pair.client), ASYMCC, "unuse", PLAIN, "--default", check=False)
    assert (done.returncode == 0) == (default(pair) != PLAIN)


def test_use_of_what_is_not_loaded(pair):
    assert "asymcc load nosuch" in refused_inside(pair, "use", "nosuch", "--default")


def test_kernels_own_controllers_can_be_used(pair):
    inside(pair, "use", "reno", "--route", "10.9.0.0/24")
    assert any("congctl reno" in r for r in routes(pair))
    inside(pair, "unuse", "reno", "--route", "10.9.0.0/24")


def test_many_routes(loaded, pair):
    """More than one netlink message of them: none is missed."""
    name = loaded("fast")
    batch = "".join(f"route add 100.{i // 250}.{i % 250}.0/24 via 10.9.0.2\n" for i in range(3000))
    pair.sh(pair.client, "ip", "-batch", "-", input=batch)
    inside(pair, "use", name, "--route", "100.11.249.0/24", "--route", "100.0.0.0/24")
    assert len(listed(name)["used_by"][0]["routes"]) == 2
    assert "2 places" in asymcc("unuse", name) and len(routes(pair)) > 3000


def test_existing_connections_follow_the_default(loaded, pair):
    """They get it as if they were opened now: not those that chose, nor those whose route names one; also twice."""
    first, second, chosen = loaded("fast"), loaded("fast"), loaded("fast")
    set_default(pair, PLAIN)
    with steady(pair) as send:
        assert send(1000) == PLAIN
        inside(pair, "use", first, "--default")
        assert send(1000) == PLAIN
        output = inside(pair, "use", first, "--default", "--existing")
        assert output.startswith(f"{first} is used by default\n{first}: 1 open connection is given it\n")
        assert send(1000) == first
        inside(pair, "use", second, "--default", "--existing")
        assert send(1000) == second
        # of the same name, but another build
        asymcc("load", "fast", "--as", second, "--replace")
        assert "1 open connection is given it" in inside(pair, "use", second, "--default", "--existing")
        assert "0 open connections are given it" in inside(pair, "use", second, "--default", "--existing")
        assert send(1000) == second and values(second, "counters")["flows"] == 1
    with steady(pair, chosen) as send:
        assert "0 open connections" in inside(pair, "use", first, "--default", "--existing")
        assert send(1000) == chosen
    inside(pair, "use", chosen, "--route", "10.9.0.0/24")
    with steady(pair) as send:
        assert send(1000) == chosen
        assert "0 open connections" in inside(pair, "use", second, "--default", "--existing")
        assert send(1000) == chosen
    for name in (first, second, chosen):
        asymcc("unload", name, "--drain")


def test_existing_connections_whose_route_got_another_meanwhile(loaded, pair):
    """An idle one has not looked its route up again."""
    name, other = loaded("fast"), loaded("fast")
    with steady(pair) as send:
        before = send(1000)
        inside(pair, "use", other, "--route", "10.9.0.0/24")
        assert "0 open connections" in inside(pair, "use", name, "--default", "--existing")
        assert send(1000) == before
    for n in (name, other):
        asymcc("unload", n, "--drain")


@pytest.mark.parametrize(
    "others",
    [
        ["route add 10.9.0.2/32 dev {0.dev_c}"],
        ["route add 10.9.0.0/24 dev {0.dev_c} table 77", "rule add dport 7401 table 77"],
    ],
)
def test_existing_connections_that_another_route_takes(others, loaded, pair):
    """A longer one, or one of another table: new connections there would not take the controller either."""
    name = loaded("fast")
    with steady(pair) as send:
        before = send(1000)
        for command in others:
            pair.sh(pair.client, "ip", *command.format(pair).split())
        output = inside(pair, "use", name, "--route", "10.9.0.0/24", "--existing").splitlines()[1]
        assert output == f"{name}: 0 open connections are given it" and send(1000) == before
        pair.sh(pair.client, "ip", *others[-1].format(pair).replace(" add ", " del ").split())
        output = inside(pair, "use", name, "--route", "10.9.0.0/24", "--existing").splitlines()[1]
        assert output == f"{name}: 1 open connection is given it" and send(1000) == name
    asymcc("unload", name, "--drain")


@pytest.mark.parametrize(
    ("prefix", "address", "moved"),
    [
        ("10.9.0.0/24", "10.9.0.2", True),
        ("10.9.0.2/32", "10.9.0.2", True),
        ("10.9.0.0/31", "10.9.0.2", False),
        ("10.9.0.0/24", "::ffff:10.9.0.2", True),
        ("fd09::/64", "10.9.0.2", False),
        ("fd09::/64", "fd09::2", True),
        ("fd09::2", "fd09::2", True),
        ("fd09::8/125", "fd09::2", False),
    ],
)
def test_existing_connections_to_a_prefix(prefix, address, moved, loaded, pair):
    name = loaded("fast")
    with steady(pair, address=address) as send:
        before = send(1000)
        output = inside(pair, "use", name, "--route", prefix, "--existing").splitlines()[1]
        assert output == f"{name}: {'1 open connection is' if moved else '0 open connections are'} given it"
        assert send(100_000) == (name if moved else before)
    asymcc("unload", name, "--drain")


def test_existing_connections_of_a_cgroup(loaded, cgroup):
    """And of those below it; not of others."""
    name = loaded("fast")
    other, child = cgroup.child(), cgroup.child()

    def sockets() -> int:
        rows = json.loads(asymcc("top", name, "--json", "--interval", 0))["controllers"]
        return len(rows[0]["flows"]) if rows else 0

    with talking(child, "reno") as say, talking(other, "reno") as say_other:
        say(1000)
        assert "2 open connections are given it" in asymcc("use", name, "--cgroup", child.path, "--existing")
        assert sockets() == 2
        asymcc("unuse", name, "--cgroup", child.path)
        assert "2 open connections are given it" in asymcc("use", name, "--cgroup", cgroup.path, "--existing")
        assert sockets() == 4
        say(100_000)
        say_other(100_000)
    asymcc("unload", name, "--drain")


def test_existing_where_the_kernel_cannot(loaded, pair, trip):
    name = loaded("fast")
    before = default(pair)
    argv = (*enter(pair.client), ASYMCC, "use", name, "--default", "--existing")
    done = run(*argv, env=trip("LINK_CREATE", 1, 95), check=False)
    assert done.returncode == 1 and not done.stdout and done.stderr.count("\n") == 1
    assert "this kernel cannot" in done.stderr and default(pair) == before


@pytest.mark.parametrize("uses", [["--default"], ["--default", "--route", "10.9.0.0/24"]])
def test_existing_when_the_moving_fails(uses, loaded, pair, trip):
    """One line says that the use stays, and how to take it back: new connections take it."""
    name = loaded("fast")
    before = default(pair), routes(pair)
    with steady(pair) as send:
        controller = send(1000)
        argv = (*enter(pair.client), ASYMCC, "use", name, *uses, "--existing")
        done = run(*argv, env=trip("ITER_CREATE", 1, errno.ENOMEM), check=False)
        assert done.returncode == 1 and done.stderr.startswith("asymcc: ") and done.stderr.count("\n") == 1
        assert send(1000) == controller
        undo = re.search(rf"new connections take {name} all the same: `asymcc (unuse .*)` takes it back", done.stderr)
        assert undo, done.stderr
        with listening(pair):
            assert controller_of(pair) == name
        inside(pair, *undo[1].split())
    assert (default(pair), routes(pair)) == before
