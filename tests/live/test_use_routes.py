# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc use --route`: the route that connections take, in whichever table; what it had; routes that lose it."""

from __future__ import annotations

import json

import pytest

from tests.live.harness import ASYMCC, STATE, asymcc, listed, pytestmark, run  # noqa: F401
from tests.live.pairs import enter, inside, refused_inside


def ip(pair, *argv) -> str:
    return pair.sh(pair.client, "ip", *" ".join(argv).split()).stdout


def all_routes(pair) -> list[str]:
    lines = [line for v in ("-4", "-6") for line in ip(pair, v, "route show table all").splitlines()]
    return sorted(
        " ".join(x.replace("linkdown", "").split())
        for x in lines
        if "table local" not in x and "fe80" not in x and "ff00" not in x
    )


def taken(pair, address: str, *options: str) -> str:
    """The route that the kernel takes for it."""
    return " ".join(ip(pair, "route get fibmatch", address, *options).split())


def remembered(*names: str) -> list[str]:
    """The notes about routes that were given one of them."""
    return [f.name for f in STATE.glob("route-*") if set(names) & set(f.read_text().split())]


@pytest.fixture
def tunnel(pair):
    """wg-quick does it so: all goes through a device, by a table of its own, but for the tunnel's own packets."""
    ip(pair, "tuntap add wg0 mode tun")
    ip(pair, "link set wg0 up")
    ip(pair, "route add default via 10.9.0.2")
    for v, address in (("-4", "10.200.0.2/32"), ("-6", "fd0a::2/128")):
        ip(pair, v, "addr add", address, "dev wg0")
        ip(pair, v, "route add default dev wg0 table 51820")
        ip(pair, v, "rule add not fwmark 51820 table 51820")
        ip(pair, v, "rule add table main suppress_prefixlength 0")
    return pair


@pytest.mark.parametrize(
    "prefix, address",
    [("default", "198.51.100.1"), ("203.0.113.0/24", "203.0.113.9"), ("2001:db8::/32", "2001:db8::9")],
)
def test_the_table_is_that_of_the_route_that_connections_take(prefix, address, alias, tunnel):
    """And the tunnel's own packets keep their way."""
    name, before = alias(), all_routes(tunnel)
    asymcc("load", "fast", "--as", name)
    outside = taken(tunnel, "203.0.113.9", "mark 51820")
    inside(tunnel, "use", name, "--route", prefix)
    now = taken(tunnel, address)
    assert "dev wg0" in now and "table 51820" in now and f"congctl {name}" in now
    assert taken(tunnel, "203.0.113.9", "mark 51820") == outside and "wg0" not in outside
    assert "table 51820" in listed(name)["used_by"][0]["routes"][0]
    inside(tunnel, "unuse", name, "--route", prefix)
    assert all_routes(tunnel) == before


def test_a_tunnels_endpoint_is_reached_as_before(loaded, tunnel):
    """The prefix is its address, /32."""
    name = loaded("fast")
    outside = taken(tunnel, "203.0.113.9", "mark 51820")
    inside(tunnel, "use", name, "--route", "203.0.113.9")
    assert taken(tunnel, "203.0.113.9", "mark 51820") == outside
    assert name in taken(tunnel, "203.0.113.9")


def test_no_route_is_made_that_a_rule_would_not_hide(loaded, pair):
    """The default is hidden from what goes to a table of its own; a longer route would not be."""
    name = loaded("fast")
    ip(pair, "route add default via 10.9.0.2")
    ip(pair, "route add default via 10.9.0.3 table 77")
    ip(pair, "rule add fwmark 7 table 77")
    ip(pair, "rule add table main suppress_prefixlength 0")
    before, marked = all_routes(pair), taken(pair, "203.0.113.9", "mark 7")
    line = refused_inside(pair, "use", name, "--route", "203.0.113.0/24")
    assert "suppress_prefixlength" in line and "hides default" in line
    assert all_routes(pair) == before and taken(pair, "203.0.113.9", "mark 7") == marked
    inside(pair, "use", name, "--route", "default")  # of the route itself the way stays
    assert name in taken(pair, "203.0.113.9") and taken(pair, "203.0.113.9", "mark 7") == marked


@pytest.mark.parametrize("main", [[], ["route add default via 10.9.0.2"]])
def test_a_route_that_connections_do_not_take_is_refused(main, loaded, pair):
    """The table is a VRF's, or one that a rule gives to others."""
    name = loaded("fast")
    for command in (*main, "route add 198.51.100.0/24 via 10.9.0.2 table 10", "rule add fwmark 7 table 10"):
        ip(pair, command)
    before = all_routes(pair)
    line = refused_inside(pair, "use", name, "--default", "--route", "198.51.100.0/24")
    assert "198.51.100.0/24 table 10" in line and ("take default there" if main else "no route") in line
    assert all_routes(pair) == before and not remembered(name)


def test_a_default_that_longer_routes_hide_is_refused(loaded, pair):
    """OpenVPN does it so."""
    name = loaded("fast")
    for prefix in ("default", "0.0.0.0/1", "128.0.0.0/1"):
        ip(pair, "route add", prefix, "via 10.9.0.2")
    before = all_routes(pair)
    assert "longer routes take all of it" in refused_inside(pair, "use", name, "--route", "default")
    assert all_routes(pair) == before
    ip(pair, "route del 128.0.0.0/1")
    inside(pair, "use", name, "--route", "default")
    assert name in taken(pair, "198.51.100.1") and name not in taken(pair, "10.0.0.1")


def test_a_rule_by_source_is_followed(loaded, pair):
    """connect() asks again with the source address that it has chosen."""
    name = loaded("fast")
    ip(pair, "route add default via 10.9.0.2")
    ip(pair, "route add default via 10.9.0.3 table 77")
    ip(pair, "rule add from 10.9.0.1 table 77")
    inside(pair, "use", name, "--route", "203.0.113.0/24")
    assert name in ip(pair, "route show table 77") and name not in ip(pair, "route show")


@pytest.mark.parametrize("had", ["congctl reno", "congctl lock reno mtu lock 1400", "mtu lock 1400", ""])
@pytest.mark.parametrize("prefix, via", [("198.51.100.0/24", "10.9.0.2"), ("2001:db8::/32", "fd09::2")])
def test_a_route_gets_back_what_it_had(prefix, via, had, loaded, pair):
    """After a second controller as well, and after a use that was refused."""
    first, second = loaded("fast"), loaded("fast")
    ip(pair, "route add", prefix, "via", via, had)
    before = all_routes(pair)
    inside(pair, "use", first, "--route", prefix)
    refused_inside(pair, "use", second, "--route", prefix, "--cgroup", "/nosuch")
    inside(pair, "use", second, "--route", prefix)
    assert ("congctl lock" in taken(pair, prefix.replace("/24", "").replace("/32", "1"))) == ("congctl lock" in had)
    inside(pair, "unuse", second, "--route", prefix)
    assert all_routes(pair) == before
    inside(pair, "use", first, "--route", prefix)
    asymcc("unload", first, "--drain")
    assert all_routes(pair) == before and not remembered(first, second)


def test_a_lock_goes_with_its_controller(loaded, pair):
    """One that was written by hand; without a value a lock forbids sockets their choice for nothing."""
    name = loaded("fast")
    ip(pair, "route add 198.51.100.0/24 via 10.9.0.2 congctl lock", name)
    inside(pair, "unuse", name)
    inside(pair, "use", name, "--route", "198.51.100.0/24")
    assert f"congctl {name}" in ip(pair, "route show 198.51.100.0/24")


def test_what_a_route_had_is_gone_meanwhile(loaded, pair):
    name, theirs = loaded("fast"), loaded("fast")
    ip(pair, "route add 198.51.100.0/24 via 10.9.0.2 congctl", theirs)
    inside(pair, "use", name, "--route", "198.51.100.0/24")
    asymcc("unload", theirs, "--drain")
    inside(pair, "unuse", name)
    assert "congctl" not in ip(pair, "route show 198.51.100.0/24")


def test_routes_that_lose_it_are_told(loaded, pair):
    """One that was made for it is removed, as systemd-networkd does; another is written anew, as by DHCP."""
    name = loaded("fast")
    ip(pair, "route add default via 10.9.0.2")
    inside(pair, "use", name, "--route", "default", "--route", "203.0.113.0/24")

    def lost() -> set[str]:
        routes_ = {r["route"] for r in listed(name)["lost"]}
        doctor = json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
        lines = [r for r in doctor if r["check"] == name and "was given it, and is gone" in r["text"]]
        assert all(r["state"] == "bad" and f"asymcc use {name} --route " in r["mend"] for r in lines)
        assert all(f"lost: route {route}" in asymcc("list") for route in routes_)
        assert {r["text"].split()[1] for r in lines} == routes_
        return routes_

    assert lost() == set()
    ip(pair, "route del 203.0.113.0/24")
    assert lost() == {"203.0.113.0/24"}
    ip(pair, "route replace default via 10.9.0.2")
    assert lost() == {"203.0.113.0/24", "default"}
    inside(pair, "use", name, "--route", "default")
    assert lost() == {"203.0.113.0/24"}
    inside(pair, "unuse", name, "--route", "203.0.113.0/24")
    assert lost() == set() and name in ip(pair, "route show default")
    ip(pair, "route del default")
    assert lost() == {"default"}
    asymcc("unload", name, "--drain")
    assert not remembered(name)
    asymcc("load", "fast", "--as", name)
    assert lost() == set() and not remembered(name)


@pytest.mark.parametrize("second", ["prepend default via 10.9.0.2", "add default via 10.9.0.2 metric 10"])
def test_a_second_route_that_connections_take_is_told(second, loaded, pair):
    """The first has the controller still."""
    name = loaded("fast")
    ip(pair, "route add default via 10.9.0.2 metric", "20" if "metric" in second else "0")
    inside(pair, "use", name, "--route", "default")

    def note_of() -> list[dict]:
        doctor = json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
        return [r for r in doctor if r["check"] == name and r["state"] == "bad"]

    assert note_of() == []
    ip(pair, "route append default via 10.9.0.2 metric 30")
    assert note_of() == []
    ip(pair, "route", second)
    assert name not in taken(pair, "198.51.100.1")
    (line,) = note_of()
    assert line["text"].startswith("route default") and line["text"].endswith(f"in netns {pair.client}, without it")
    if line["mend"].startswith("give one of them a metric of its own, then "):
        ip(pair, "route add default via 10.9.0.2 metric 5")
        ip(pair, "route del default via 10.9.0.2 metric 0")
    inside(pair, "use", name, "--route", "default")
    assert note_of() == [] and name in taken(pair, "198.51.100.1")


@pytest.mark.parametrize("had", ["", "congctl reno"])
def test_a_second_route_that_others_add_hinders_no_unuse(had, loaded, pair):
    """systemd-networkd does so with its own when it starts again."""
    name = loaded("fast")
    ip(pair, "route add default via 10.9.0.2", had)
    before = all_routes(pair)
    inside(pair, "use", name, "--route", "default")
    ip(pair, "route append default via 10.9.0.2")
    assert len(all_routes(pair)) == len(before) + 1 and name in taken(pair, "198.51.100.1")
    inside(pair, "unuse", name)
    assert set(before) <= set(all_routes(pair)) and not any(name in r for r in all_routes(pair))
    assert ("reno" in taken(pair, "198.51.100.1")) == ("reno" in had)
    asymcc("unload", name)


@pytest.mark.parametrize("call", ["unlinkat 1", "write 1", "renameat 1"])
def test_a_killed_use_forgets_nothing_of_a_route(call, loaded, pair, trip):
    first, second = loaded("fast"), loaded("fast")
    ip(pair, "route add 198.51.100.0/24 via 10.9.0.2 congctl reno")
    before = all_routes(pair)
    inside(pair, "use", first, "--route", "198.51.100.0/24")
    done = run(
        *("nsenter", f"--net=/run/netns/{pair.client}", ASYMCC, "use", second, "--route", "198.51.100.0/24"),
        env=trip(*call.split()),
        check=False,
    )
    assert done.returncode in (-9, 137)
    for name in (first, second):
        run(ASYMCC, "unload", name, "--drain", check=False)
    assert all_routes(pair) == before and not remembered(first, second)


def test_an_answer_of_the_kernel_is_lost(loaded, pair, tmp_path):
    """To the change of a route: all is done, and told, or nothing."""
    name, log, before = loaded("fast"), tmp_path / "log", all_routes(pair)
    argv = ASYMCC, "use", name, "--route", "10.9.0.0/24"
    run(*enter(pair.client), "strace", "-qq", "-e", "trace=recvfrom", "-o", log, *argv)
    inside(pair, "unuse", name)
    answers = [i for i, line in enumerate(log.read_text().splitlines(), 1) if "NLMSG_ERROR" in line]
    assert answers
    for nth in answers:
        inject = "-e", "trace=recvfrom", "-e", f"inject=recvfrom:error=EIO:when={nth}"
        done = run(*enter(pair.client), "strace", "-qq", "-o", "/dev/null", *inject, *argv, check=False)
        has = any(f"congctl {name}" in r for r in all_routes(pair))
        assert has == (done.returncode == 0), done.stderr
        if has:
            inside(pair, "unuse", name)
        assert all_routes(pair) == before and not remembered(name)
