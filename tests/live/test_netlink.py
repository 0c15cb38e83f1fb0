# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The lab's rtnetlink: what it makes is what `ip` makes, and what it reads is what `tc` reads."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from asymlab.guest import netlink
from asymlab.guest.net import Namespaces
from asymlab.guest.system import Failure
from tests.live.harness import pytestmark, run  # noqa: F401

MACS = {"x0": "02:00:00:00:00:01", "x1": "02:00:00:00:00:02"}
ROUTES = [("default", "congctl reno quickack 1"), ("10.7.0.0/16", "mtu lock 125 advmss 960"), ("10.8.4.0/30", "")]


@pytest.fixture
def spaces() -> Iterator[Namespaces]:
    """Four: two for us, and two for `ip`."""
    with closing(Namespaces(f"tn{os.getpid()}-")) as ns:
        for node in ("a", "b", "c", "d"):
            ns.add(node)
        yield ns


def ours(ns: Namespaces) -> None:
    fds = [ns.open(node) for node in ("a", "b")]
    devices = [netlink.Device(dev, MACS[dev], fd) for dev, fd in zip(MACS, fds)]
    ns.tell("a", lambda: [netlink.new_pair(*devices, 1400)])
    for fd in fds:
        os.close(fd)
    for node, dev, here, there in (("a", "x0", 1, 2), ("b", "x1", 2, 1)):
        mac = MACS["x1" if dev == "x0" else "x0"]
        ns.tell(
            node,
            lambda: [
                netlink.one_packet_at_once(dev),
                netlink.set_up("lo"),
                netlink.set_up(dev),
                netlink.add_address(dev, f"10.1.2.{here}", 30),
                netlink.set_neighbour(dev, f"10.1.2.{there}", mac),
                *(netlink.add_route(dst, f"10.1.2.{there}", dev, words) for dst, words in ROUTES),
            ],
        )


def theirs(ns: Namespaces) -> None:
    pair = [
        f"name {dev} netns {ns.name(node)} mtu 1400 address {MACS[dev]}" for node, dev in (("c", "x0"), ("d", "x1"))
    ]
    run("ip", "link", "add", *pair[0].split(), "type", "veth", "peer", *pair[1].split())
    for node, dev, here, there in (("c", "x0", 1, 2), ("d", "x1", 2, 1)):
        mac = MACS["x1" if dev == "x0" else "x0"]
        batch = [
            f"link set {dev} gso_max_segs 1",
            "link set lo up",
            f"link set {dev} up",
            f"addr add 10.1.2.{here}/30 dev {dev}",
            f"neigh replace 10.1.2.{there} lladdr {mac} dev {dev} nud permanent",
            *(f"route add {dst} via 10.1.2.{there} dev {dev} {words}" for dst, words in ROUTES),
        ]
        run("ip", "-n", ns.name(node), "-batch", "-", input="\n".join(batch))


def routes_of(ns: Namespaces, node: str) -> list:
    """All that `ip` shows of a node, without what each has of its own, and without IPv6, which takes its time."""
    shows = (["-d", "link"], ["-4", "-d", "addr"], ["-4", "-d", "route"], ["-4", "neigh"])
    of = [json.loads(run("ip", "-n", ns.name(node), "-j", *show, "show").stdout) for show in shows]
    of.append(json.loads(run("ip", "-n", ns.name(node), "-j", *"-4 route show table all".split()).stdout))
    own = ("ifindex", "link_index", "link_netnsid", "operstate", "flags")
    return [[{k: v for k, v in entry.items() if k not in own} for entry in entries] for entries in of]


def test_it_makes_what_ip_makes(spaces):
    ours(spaces)
    theirs(spaces)
    for mine, his in (("a", "c"), ("b", "d")):
        assert routes_of(spaces, mine) == routes_of(spaces, his)
    assert '"congestion":"reno"' in json.dumps(routes_of(spaces, "a")).replace(" ", "")


def test_it_makes_ipv6_as_well(spaces):
    ours(spaces)
    spaces.tell(
        "a",
        lambda: [
            netlink.add_address("x0", "fd77::1:1", 112),
            netlink.set_neighbour("x0", "fd77::1:2", MACS["x1"]),
            netlink.add_route("fd77::9:0/112", "fd77::1:2", "x0", "congctl reno quickack 1"),
            netlink.add_route("default", "fd77::1:2", "x0", "mtu 1300"),
        ],
    )

    def shown(*what: str) -> list[dict]:
        return json.loads(run("ip", "-n", spaces.name("a"), "-6", "-j", *what).stdout)

    routes = {r["dst"]: r for r in shown("route") if "gateway" in r}
    assert {r["gateway"] for r in routes.values()} == {"fd77::1:2"} and set(routes) == {"fd77::9:0/112", "default"}
    assert routes["default"]["metrics"] == [{"mtu": 1300}]
    assert routes["fd77::9:0/112"]["metrics"] == [{"quickack": 1, "congestion": "reno"}]
    (address,) = (a for a in shown("addr", "show", "dev", "x0")[0]["addr_info"] if a["scope"] == "global")
    assert (address["local"], address["prefixlen"], address.get("nodad")) == ("fd77::1:1", 112, True)
    assert {"dst": "fd77::1:2", "lladdr": MACS["x1"]}.items() <= next(
        n for n in shown("neigh") if "lladdr" in n
    ).items()


def test_a_refusal_names_the_command_and_has_the_kernels_words(spaces):
    ours(spaces)
    with pytest.raises(Failure, match=r"^a: ip addr add 10.1.2.1/30 dev x0: \w"):
        spaces.tell("a", lambda: [netlink.set_up("lo"), netlink.add_address("x0", "10.1.2.1", 30)])
    with pytest.raises(Failure, match=r"^a: ip route add 10.9.0.0/16 via 192.0.2.1 dev x0: .*[a-z]{4}"):
        spaces.tell("a", lambda: [netlink.add_route("10.9.0.0/16", "192.0.2.1", "x0", "")])
    with pytest.raises(Failure, match="^x7: "):
        spaces.tell("a", lambda: [netlink.set_up("x7")])
    for addr, mac, refused in (
        ("300.1.1.1", MACS["x1"], "300.1.1.1: not an IP address"),
        ("10.1.2.2", "02:0:00:00:00:000", "02:0:00:00:00:000: not a MAC"),
    ):
        with pytest.raises(Failure, match=f"^{refused}"):
            spaces.tell("a", lambda: [netlink.set_neighbour("x0", addr, mac)])  # noqa: B023
    for words in ("mtu", "mtu lock", "hoplimit 3", "mtu many"):
        with pytest.raises(Failure, match=f"dev x0 {words}: not understood"):
            spaces.tell("a", lambda: [netlink.add_route("default", "10.1.2.2", "x0", words)])  # noqa: B023


def test_a_route_is_replaced(spaces):
    ours(spaces)
    spaces.tell("a", lambda: [netlink.add_route("10.7.0.0/16", "10.1.2.2", "x0", "mtu 600", replace=True)])
    (route,) = json.loads(run("ip", "-n", spaces.name("a"), "-j", "route", "show", "10.7.0.0/16").stdout)
    assert route["metrics"] == [{"mtu": 600}]


def test_it_reads_what_tc_reads(spaces):
    ours(spaces)
    run("tc", "-n", spaces.name("a"), *"qdisc add dev x0 root handle 1: tbf rate 1mbit burst 2000 limit 90000".split())
    run("tc", "-n", spaces.name("a"), *"qdisc add dev x0 parent 1:1 handle 10: pfifo limit 7".split())
    with spaces.enter("a"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(3):
            s.sendto(bytes(900), ("10.1.2.2", 9))
    time.sleep(0.2)  # nothing waits any more
    queues, later = [], None
    while queues != later:  # the kernel itself sends a packet of IPv6 now and then
        with spaces.enter("a"), netlink.Netlink() as kernel:
            queues = kernel.queues()[netlink.index_of("x0")]
            seen = json.loads(run("tc", "-n", spaces.name("a"), "-s", "-j", "qdisc", "show", "dev", "x0").stdout)
            later = kernel.queues()[netlink.index_of("x0")]
    assert [q.kind for q in queues] == [q["kind"] for q in seen] == ["tbf", "pfifo"]
    assert [q.root for q in queues] == [True, False] and queues[0].counters["packets"] >= 3
    assert [q.counters for q in queues] == [{k: q[k] for k in queues[0].counters} for q in seen]
    assert int.from_bytes(queues[1].options[:4], "little") == 7
