# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin` on this machine's own kernel: every byte of stock senders arrives, with fewer ACKs; and its command."""

from __future__ import annotations

import os

import pytest

from exchanges import (
    BOTH_CLIENT,
    BOTH_SERVER,
    HALF_CLIENT,
    HALF_SERVER,
    MANY_CLIENT,
    MANY_SERVER,
    SINK,
    SOURCE,
    exchange,
)
from harness import asymcc, listed, needs_cgroup2, refused, run, values
from harness import pytestmark as live

pytestmark = [*live, needs_cgroup2]


@pytest.fixture
def thinned(joined):
    """A cgroup that the test is in. Its removal takes the programs along."""
    asymcc("thin", "--cgroup", joined, "--set", "acks_per_rtt=2")
    return joined


def programs(cgroup) -> list[str]:
    """Names of those that are attached."""
    return [line.split()[-1] for line in run("bpftool", "cgroup", "show", cgroup).stdout.splitlines()[1:]]


def ratio() -> float:
    """Of all pure ACKs of downloads, those that passed."""
    n = values("thin", "counters")
    return n["acks_sent"] / (n["acks_sent"] + n["acks_suppressed"])


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_bytes_arrive_with_fewer_acks(cc, pair, thinned):
    with exchange(pair, SINK, SOURCE, cc, n=10_000_000):
        pass
    assert ratio() < 0.6 and values("thin", "counters")["stalls"] == 0


@pytest.mark.parametrize(
    "server, client, n",
    [(HALF_SERVER, HALF_CLIENT, 3_000_000), (BOTH_SERVER, BOTH_CLIENT, 3_000_000), (MANY_SERVER, MANY_CLIENT, 200_000)],
    ids=["one half closed", "both at once", "200 connections"],
)
def test_each_shape_of_a_connection(server, client, n, pair, thinned):
    with exchange(pair, server, client, "cubic", n=n):
        pass
    assert values("thin", "counters")["acks_suppressed"] > 0


def test_losses_both_ways(pair, thinned, objects):
    for ns in (pair.client, pair.server):
        pair.on_arrival(ns, objects / "liar.bpf.o", "mark_and_lose")
    with exchange(pair, SINK, SOURCE, "cubic", n=1_000_000):
        pass


def test_a_receiver_that_sleeps(pair, thinned):
    """Its window closes, and opens again."""
    with exchange(pair, SINK, SOURCE, "cubic", n=2_000_000, RCVBUF=30_000, ASLEEP=1):
        pass


def test_values_change_while_it_runs(thinned):
    assert values("thin")["acks_per_rtt"] == 2
    said = asymcc("thin", "--cgroup", thinned, "--reverse", 300, "--max", 32, "--set", "acks_per_rtt=8")
    assert said == f"ACKs of connections in {thinned} are thinned, with other values\n"
    now = values("thin")
    assert (now["reverse_kbit"], now["max_packets"], now["acks_per_rtt"]) == (300, 32, 8)
    assert sorted(programs(thinned)) == ["thin_egress", "thin_ingress"]


def test_off(thinned):
    assert asymcc("thin", "--off", "--cgroup", thinned) == f"ACKs are no longer thinned in {thinned}\n"
    assert programs(thinned) == []
    assert refused("thin", "--off", "--cgroup", thinned).endswith(f"no ACKs are thinned in {thinned}\n")


def test_off_everywhere_leaves_what_is_not_ours(thinned, foreign):
    asymcc("thin", "--off")  # `foreign` looks for its own
    assert programs(thinned) == []


def test_no_two_in_a_row(thinned):
    below = thinned / "below"
    below.mkdir()
    try:
        said = refused("thin", "--cgroup", below)
        assert f"`asymcc thin --off --cgroup {thinned}` first" in said and programs(below) == []
    finally:
        os.rmdir(below)


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--cgroup", "/nonexistent"], "--cgroup /nonexistent: there is none"),
        (["--cgroup", "/proc"], "not a directory of cgroup2"),
        (["--max", "1"], "--max 1: expected an integer from 2 to 256"),
        (["--reverse", "fast"], "--reverse fast: expected an integer"),
        (["--set", "speed=1"], "thin has no parameter speed"),
        (["--set", "acks_per_rtt=1"], "out of range"),
        (["--off", "--max", "4"], "--off takes no values"),
        (["--off", "--cgroup", "/nonexistent"], "--cgroup /nonexistent: No such file"),
        (["--cgroup", ""], "--cgroup: its value is empty"),
    ],
)
def test_refusals(argv, says, joined):
    code = 2 if says.startswith(("--max", "--reverse", "--cgroup: ")) else 1
    assert says in refused("thin", *argv, code=code)
    assert programs(joined) == []


def test_list_shows_where(thinned):
    assert listed("thin")["cgroups"] == [str(thinned)]


def test_metrics(thinned, alias):
    """A line for each counter of each load, which `show` has, too."""
    name = alias()
    asymcc("load", "fast", "--as", name)
    said = asymcc("metrics")
    assert said.startswith("# TYPE asymcc_events counter\n# HELP asymcc_events ") and said.endswith("\n# EOF\n")
    for counter, value in values(name, "counters").items():
        line = f'asymcc_events_total{{controller="{name}",object="fast",cgroup="",event="{counter}"}} {value}\n'
        assert said.count(line) == 1
    for counter in values("thin", "counters"):
        assert f'{{controller="thin",object="thin",cgroup="{thinned}",event="{counter}"}} ' in said
