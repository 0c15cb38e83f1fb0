# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""TCP Formosa, both halves, on this machine's own kernel: whatever path and peer do, the bytes arrive."""

from __future__ import annotations

import pytest

from tests.live.exchanges import BYTES, connections, counted, exchange, sockets_in_storage
from tests.live.harness import ROOT, asymcc, endpoint, expect, kernel_has, needs_cgroup2, run, saying
from tests.live.harness import pytestmark as live
from tests.live.pairs import default, listening
from tests.live.peers.raw import SYN
from tests.live.rawtcp import watching

pytestmark = [*live, needs_cgroup2]


@pytest.fixture
def formosa(loaded, joined):
    """Its registered name, both halves in place."""
    return loaded("formosa", "--cgroup", joined)


def test_one_ack_a_round(pair, formosa):
    with exchange(pair, "digest", "send", formosa):
        pass
    n = counted(formosa)
    assert n["peers"] == 2 and n["fallbacks"] == 0 and n["options_bad"] == 0
    assert 0.9 * n["rounds"] <= n["acks_sent"] <= 1.3 * n["rounds"] + 10
    # how many ACKs the kernel would send depends on this machine's load: the lab tells
    assert n["acks_sent"] < n["options_seen"] / 4 and n["acks_suppressed"] > 0


@pytest.mark.parametrize("outside", ["server", "client"])
def test_one_end_is_outside_the_cgroup(outside, pair, formosa):
    """One says hello, and the other does not know the word: no options, the law alone."""
    with exchange(pair, "digest", "send", formosa, outside=outside):
        pass
    n = counted(formosa)
    assert n["peers"] == n["options_sent"] == n["acks_suppressed"] == 0 and n["rounds"] > 10


def test_alone(pair):
    """Registered by bpftool: no options, and a peer that knows nothing of it."""
    if kernel_has("formosa"):
        pytest.skip("formosa is registered on this machine")
    run("bpftool", "struct_ops", "register", ROOT / "build" / "formosa.bpf.o")
    try:
        with exchange(pair, "digest", "send", "formosa", server_cc="cubic"):
            n = counted("formosa")
            assert n["peers"] == n["options_sent"] == 0 and n["rounds"] > 10
    finally:
        run("bpftool", "struct_ops", "unregister", "name", "formosa")


def test_receiver_is_switched(pair, formosa, objects, tmp_path):
    """The listener asks for nothing: its end of a Formosa connection runs Formosa, with the window that it had."""
    with (
        exchange(pair, "digest", "send", formosa, server_cc="", at_client={"stay": 1}),
        sockets_in_storage(formosa, objects, tmp_path) as open_now,
    ):
        line = connections(pair, pair.server)
        assert f" {formosa} " in line and " cwnd:10 " in line
        assert open_now() == 2
    assert counted(formosa)["acks_suppressed"] > 100


@pytest.mark.parametrize(
    "server_cc, own, hello", [("cubic", "", False), ("", "cubic", True)], ids=["listener", "connection"]
)
def test_an_application_that_chose_its_controller_keeps_it(server_cc, own, hello, pair, formosa):
    """Whatever its peer says: its window, its ACKs are as without Formosa, and the peer falls back. A listener that
    chose answers no hello."""
    ends = {"at_server": {"own": own}, "at_client": {"stay": 1}}
    with exchange(pair, "digest", "send", formosa, server_cc=server_cc, **ends):
        line = connections(pair, pair.server)
        assert " cubic " in line and " cwnd:10 " in line
    n = counted(formosa)
    assert n["flows"] == 1 and n["acks_sent"] == n["acks_suppressed"] == n["answers_seen"] == 0
    assert n["fallbacks"] == hello and n["peers"] == 2 * hello and (n["options_seen"] > 0) == hello


@pytest.mark.parametrize("hello, cc, says", [(0, "", False), (1, "", True), (1, "cubic", False)])
def test_who_only_downloads_says_hello_if_that_is_asked_for(hello, cc, says, pair, loaded, joined):
    """From a server that sends by Formosa, over no controller of his choice or one of it."""
    name = loaded("formosa", "--cgroup", joined, "--set", f"hello={hello}")
    with watching(pair, pair.server) as port:
        sender = {"sender": name}
        with exchange(pair, "download_server", "download", cc, server_cc="", n=BYTES // 4, at_server=sender):
            pass
        syns = [*iter(lambda: port.receive(0.1, flags=SYN), None)]
    n = counted(name)
    assert [s.option(253, b"\xf0\xa0") is not None for s in syns] == [says]
    assert n["peers"] == 2 * says and (n["options_sent"] > 0) == (n["acks_suppressed"] > 0) == says


@pytest.mark.parametrize("what", ["strip", "strip_data"])
def test_data_options_are_stripped(what, pair, formosa, objects):
    pair.on_arrival(pair.server, objects / "liar.bpf.o", what)
    with exchange(pair, "digest", "send", formosa):
        pass
    n = counted(formosa)
    assert n["options_seen"] <= 1 and n["acks_suppressed"] == 0  # the server's answer goes the other way
    assert n["fallbacks"] == (what == "strip_data") and n["rounds"] > 10


def test_answers_are_stripped(pair, formosa, objects):
    pair.on_arrival(pair.client, objects / "liar.bpf.o", "strip_answer")
    with exchange(pair, "digest", "send", formosa):
        pass
    n = counted(formosa)
    assert n["fallbacks"] == 1 and n["options_seen"] < 100, (
        "the sender stops writing options, the receiver stops thinning"
    )


@pytest.mark.parametrize(
    "what", ["wild_srtt", "wild_stamp", "wild_round", "no_round", "wrong_length", "garbage", "lose_data"]
)
def test_wild_data_options(what, pair, formosa, objects):
    pair.on_arrival(pair.server, objects / "liar.bpf.o", what)
    with exchange(pair, "digest", "send", formosa, n=BYTES // 10):
        pass


@pytest.mark.parametrize("what", ["signals", "echoes", "wrong_length", "garbage", "lose_acks"])
def test_wild_answers(what, pair, formosa, objects):
    pair.on_arrival(pair.client, objects / "liar.bpf.o", what)
    with exchange(pair, "digest", "send", formosa, n=BYTES // 10):
        pass
    assert counted(formosa)["options_seen"] >= 4


def test_a_closed_window_opens(pair, formosa):
    """The receiver sleeps till the sender has filled its buffer and stopped."""
    with exchange(pair, "digest", "send", formosa, at_server={"rcvbuf": 20_000, "asleep": 1}):
        pass
    assert counted(formosa)["options_seen"] > 100


def test_half_closed(pair, formosa):
    with exchange(pair, "half_server", "half", formosa):
        pass
    n = counted(formosa)
    assert n["acks_sent"] < n["options_seen"] / 4, "the half that is closed thins its ACKs too"


def test_both_ways_at_once(pair, formosa):
    with exchange(pair, "both_server", "both", formosa):
        pass
    assert counted(formosa)["fallbacks"] == 0


def test_many_connections_leave_nothing(pair, formosa, objects, tmp_path):
    with exchange(pair, "many_server", "many", formosa, n=20_000):
        pass
    assert counted(formosa)["peers"] == 400
    with sockets_in_storage(formosa, objects, tmp_path) as entries:
        assert entries() == 0


def test_unload_with_open_connections(pair, formosa):
    """Open connections go on, without options; new ones get another controller."""
    there = {"address": "10.9.0.2", "port": 7300, "n": BYTES, "cc": formosa}
    source = endpoint("send", pair.client, **there, wait="half")
    with listening(pair, port=7300, role="digest", n=BYTES, cc=formosa):
        with saying("half", *source) as c:
            asymcc("unload", formosa)
            expect(c, "right", "go on")


@pytest.mark.parametrize(
    "what, runs, flows, fallbacks",
    [("choose", "reno", 0, 0), ("ask", None, 1, 1)],
    ids=["it chooses another controller", "it takes the callbacks away"],
)
def test_another_program_of_the_cgroup_has_the_last_word(
    what, runs, flows, fallbacks, pair, formosa, joined, last_word
):
    """The hellos are said, and no option follows: all bytes arrive, by the other controller or by the law alone. The
    other end has the default."""
    last_word(what, joined)
    with exchange(pair, "digest", "send", formosa, server_cc="", at_client={"stay": 1}):
        assert f" {runs or default(pair)} " in connections(pair, pair.server)
    n = counted(formosa)
    assert n["peers"] == 2 and n["flows"] == flows and n["fallbacks"] == fallbacks
    assert n["options_sent"] == n["answers_seen"] == n["acks_suppressed"] == n["acks_sent"] == 0
