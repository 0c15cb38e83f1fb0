# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACC+SA, both halves, on this machine's own kernel, on a path that marks each ACK: the bytes arrive, and none waits
for a timer."""

from __future__ import annotations

import pytest

from tests.live.exchanges import counted, exchange
from tests.live.harness import asymcc, needs_cgroup2
from tests.live.harness import pytestmark as live
from tests.live.pairs import listening
from tests.live.peers.raw import CWR, ECE, SYN
from tests.live.rawtcp import Peer, watching
from tests.live.test_strangers_live import BEFORE, HELLO, PORT, neighbour

pytestmark = [*live, needs_cgroup2]


@pytest.fixture
def accsa(loaded, joined):
    """Its registered name, both halves in place."""
    name = loaded("accsa", "--cgroup", joined)
    return name


@pytest.fixture
def marked(pair, objects):
    """Packets that come to the client are marked, if they may be."""
    pair.on_arrival(pair.client, objects / "liar.bpf.o", "mark")
    return pair


def test_dk_grows_to_half_a_window(marked, accsa):
    """Over 8 MB: of the first 2, slow start and its loss may have every other packet acknowledged."""
    with exchange(marked, "digest", "send", accsa, n=8_000_000):
        pass
    n = counted(accsa)
    assert n["peers"] == 2 and n["fallbacks"] == n["options_bad"] == n["timeouts"] == 0
    assert n["marks"] > 0 and n["doublings"] > 3 and n["acks_sent"] < n["options_seen"] / 3


@pytest.mark.parametrize("outside", ["server", "client"])
def test_one_end_is_outside_the_cgroup(outside, marked, accsa):
    """One says hello, and the other does not know the word: the kernel's Reno."""
    with exchange(marked, "digest", "send", accsa, outside=outside):
        pass
    n = counted(accsa)
    assert n["peers"] == n["options_sent"] == n["acks_suppressed"] == n["marks"] == 0 and n["fallbacks"] > 0


@pytest.mark.parametrize(
    "server, client, n",
    [("half_server", "half", 200_000), ("both_server", "both", 500_000), ("many_server", "many", 20_000)],
    ids=["half", "both", "many"],
)
def test_every_byte_arrives(server, client, n, marked, accsa):
    """The machine drops packets of twenty connections at a time, whatever the controller: there a timeout proves
    nothing."""
    with exchange(marked, server, client, accsa, n=n):
        pass
    assert counted(accsa)["timeouts"] == 0 or server == "many_server"


@pytest.mark.parametrize("size", [1, 1447, 1448, 14480, 14481, 100_000])
def test_a_tail_waits_for_nothing(size, marked, accsa):
    with exchange(marked, "digest", "send", accsa, n=size):
        pass
    assert counted(accsa)["timeouts"] == 0


def test_losses_in_both_directions(pair, objects, accsa):
    for ns in (pair.client, pair.server):
        pair.on_arrival(ns, objects / "liar.bpf.o", "mark_and_lose")
    with exchange(pair, "digest", "send", accsa, n=500_000):
        pass
    assert counted(accsa)["losses"] > 0


@pytest.mark.parametrize("order", [("formosa", "accsa"), ("accsa", "formosa")], ids=" ".join)
def test_beside_formosa_in_one_cgroup(order, pair, alias, joined):
    """Either speaks on its own connections, and changes nothing of the other's."""
    names = {}
    for kind in order:
        names[kind] = alias()
        asymcc("load", kind, "--as", names[kind], "--cgroup", joined)
    for kind in (*order, *order):
        with exchange(pair, "digest", "send", names[kind], server_cc="", n=500_000):
            pass
    for kind in order:
        n = counted(names[kind])
        assert n["peers"] == n["flows"] == 4 and n["fallbacks"] == n["options_bad"] == 0, kind
        assert n["options_sent"] > 0 and n["options_seen"] > 500 and n["acks_sent"] > 0, kind


@pytest.mark.parametrize("ecn, marked, agreed", [(0, False, False), (2, True, False), (2, False, True)])
def test_other_connections_have_the_ecn_that_they_had(ecn, marked, agreed, pair, accsa):
    """A SYN that asks for ECN without our hello: by a host's tcp_ecn, and refused if it is marked itself, as DCTCP's
    is."""
    pair.sh(pair.server, "sysctl", "-qw", f"net.ipv4.tcp_ecn={ecn}")
    neighbour(pair, pair.server, "10.9.0.7")
    with watching(pair, pair.client) as port, listening(pair, port=PORT, role="idle"):
        for hello in (b"", HELLO["accsa"]):
            peer = Peer(port, ("10.9.0.7", 999 + len(hello)), ("10.9.0.2", PORT))
            synack = peer.connect(BEFORE + hello, flags=SYN | ECE | CWR, ecn=2 * marked)
            peer.reset()
            assert bool(synack.flags & ECE) == (agreed or bool(hello))
