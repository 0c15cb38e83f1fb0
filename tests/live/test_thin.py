# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin` on this machine's own kernel: every byte of stock senders arrives, with fewer ACKs; and its command."""

from __future__ import annotations

import errno
import json
import os

import pytest

from asymlab.paths import BUILT
from asymlab.plan import objects
from tests.live import homes
from tests.live.clients.path import GATEWAY, NET, SERVER, Link, asymmetric, running
from tests.live.exchanges import exchange
from tests.live.harness import ASYMCC, asymcc, endpoint, kernel_has, listed, needs_cgroup2, refused, run, saying, values
from tests.live.harness import pytestmark as live

pytestmark = [*live, needs_cgroup2]


@pytest.fixture
def thinned(joined):
    """A cgroup that the test is in."""
    asymcc("thin", "--cgroup", joined, "--set", "acks_per_rtt=2", "--set", "waits_only=0")
    return joined


def programs(cgroup) -> list[str]:
    """Names of those that are attached."""
    return [line.split()[-1] for line in run("bpftool", "cgroup", "show", cgroup).stdout.splitlines()[1:]]


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_bytes_arrive_with_fewer_acks(cc, pair, thinned):
    """How many fewer depends on this machine's load: the lab tells."""
    with exchange(pair, "digest", "send", cc, n=10_000_000):
        pass
    assert values("thin", "counters")["acks_suppressed"] > 0


@pytest.mark.parametrize(
    "server, client, n",
    [("half_server", "half", 3_000_000), ("both_server", "both", 3_000_000)],
    ids=["one half closed", "both at once"],
)
def test_each_shape_of_a_connection(server, client, n, pair, thinned):
    """Data that leaves as well keeps ACKs from being dropped."""
    with exchange(pair, server, client, "cubic", n=n):
        pass
    counted = values("thin", "counters")
    assert counted["acks_suppressed"] + counted["acks_beside"] > 0


@pytest.mark.skipif(not kernel_has("bbr"), reason="this kernel has no bbr")
def test_each_hole_of_a_queue_that_overflows_is_told(joined):
    """BBR's start sends twice as fast as the link: each second packet is lost, so the receiver has hundreds of holes.
    A hole that the sender does not hear of costs a needless retransmission, and many of them a timeout."""
    asymcc("thin", "--cgroup", joined, "--reverse", "200kbit")
    link, there = Link(50_000_000, 200_000, 250_000, 20_000, 0.020), {"address": SERVER, "port": homes.PORT}
    with asymmetric(link) as path, running(*endpoint("serve", path.server, **there), ready="ready"):
        path.sh(path.server, "ip", "route", "change", NET, "via", GATEWAY, "congctl", "bbr")
        fetched = path.sh(path.client, *endpoint("fetch", **there, n=20_000_000))
        tcp = counters_of(path.sh(path.server, "cat", "/proc/net/netstat"))
        (queue,) = json.loads(path.sh(path.router, "tc", "-s", "-j", "qdisc", "show", "dev", "west"))
    assert fetched.split()[0] == "20000000" and values("thin", "counters")["acks_suppressed"] > 1000
    assert queue["drops"] > 200, "the start did not overflow the queue"
    assert tcp["TCPTimeouts"] == 0 and tcp["TCPDSACKRecv"] <= queue["drops"] / 20


def counters_of(netstat: str) -> dict[str, int]:
    """A line of names, and below it their numbers."""
    rows = [line.split()[1:] for line in netstat.splitlines()]
    return {
        name: int(n) for names, ns in zip(rows[::2], rows[1::2], strict=True) for name, n in zip(names, ns, strict=True)
    }


def test_losses_both_ways(pair, thinned, objects):
    for ns in (pair.client, pair.server):
        pair.on_arrival(ns, objects / "liar.bpf.o", "mark_and_lose")
    with exchange(pair, "digest", "send", "cubic", n=1_000_000):
        pass


def test_a_receiver_that_sleeps(pair, thinned):
    """Its window closes, and opens again."""
    with exchange(pair, "digest", "send", "cubic", n=2_000_000, at_server={"rcvbuf": 30_000, "asleep": 1}):
        pass


def test_values_change_while_it_runs(thinned):
    assert values("thin")["acks_per_rtt"] == 2
    output = asymcc("thin", "--cgroup", thinned, "--reverse", "300kbit", "--max", 32, "--set", "acks_per_rtt=8")
    assert output == f"ACKs of connections in {thinned} are thinned, with other values\n"
    now = values("thin")
    assert (now["reverse_kbit"], now["max_packets"], now["acks_per_rtt"]) == (300, 32, 8)
    assert sorted(programs(thinned)) == ["thin_egress", "thin_ingress"]


@pytest.mark.parametrize(
    "text, kbit",
    [("0.2mbit", 200), ("1.5mbit", 1500), ("1.5 mbit", 1500), ("2500bit", 3), ("0.0104gbit", 10400), ("007kbit", 7)],
)
def test_rates_are_written_as_in_the_lab(text, kbit, joined):
    asymcc("thin", "--cgroup", joined, "--reverse", text)
    assert values("thin")["reverse_kbit"] == kbit


def test_what_the_link_adds(joined):
    asymcc("thin", "--cgroup", joined, "--reverse", "1mbit", "--overhead", -4, "--mpu", 64, "--atm")
    now = values("thin")
    assert (now["overhead"], now["mpu"], now["atm"]) == (-4, 64, 1)
    asymcc("thin", "--cgroup", joined, "--set", "atm=0", "--overhead", 18)
    now = values("thin")
    assert (now["overhead"], now["mpu"], now["atm"], now["reverse_kbit"]) == (18, 64, 0, 1000)


def test_off(thinned):
    assert asymcc("thin", "--off", "--cgroup", thinned) == f"ACKs are no longer thinned in {thinned}\n"
    assert programs(thinned) == []
    assert asymcc("thin", "--off", "--cgroup", thinned) == f"no ACKs are thinned in {thinned}\n"


def test_off_again_waits_for_what_is_on_its_way_out(thinned):
    """Somebody holds the programs for a moment, as the kernel does on a busy machine."""
    ids = [p["id"] for p in json.loads(run("bpftool", "-j", "cgroup", "show", thinned).stdout)]
    pins = "mount -t bpf none /mnt; for i; do bpftool prog pin id $i /mnt/$i; done; echo ready; exec sleep 1.5"
    with saying("ready", *"unshare -m sh -c".split(), pins, "sh", *ids):
        asymcc("thin", "--off", "--cgroup", thinned)
        assert asymcc("thin", "--off", "--cgroup", thinned) == f"no ACKs are thinned in {thinned}\n"


def test_off_everywhere_leaves_what_is_not_ours(thinned, foreign):
    # It sees none of other tests' network namespaces, and says so. `foreign` looks for its own.
    run(*"unshare -mpf --mount-proc sh -c".split(), f"mount -t tmpfs none /run/netns; {ASYMCC} thin --off; true")
    assert programs(thinned) == []


def test_no_two_in_a_row(thinned):
    below = thinned / "below"
    below.mkdir()
    try:
        output = refused("thin", "--cgroup", below)
        assert f"`asymcc thin --off --cgroup {thinned}` first" in output and programs(below) == []
    finally:
        os.rmdir(below)


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--cgroup", "/nonexistent"], "--cgroup /nonexistent: there is none"),
        (["--cgroup", "/proc"], "not a directory of cgroup2"),
        (["--max", "1"], "--max 1: expected an integer from 2 to 256"),
        (["--reverse", "fast"], "--reverse fast: expected a rate such as 200kbit"),
        (["--reverse", "200"], "--reverse 200: expected a rate"),
        (["--reverse", "0mbit"], "--reverse 0mbit: expected a rate"),
        (["--reverse", "0.9kbit"], "--reverse 0.9kbit: expected a rate"),
        (["--reverse", "1.mbit"], "--reverse 1.mbit: expected a rate"),
        (["--reverse", ".5mbit"], "--reverse .5mbit: expected a rate"),
        (["--reverse", "1e3kbit"], "--reverse 1e3kbit: expected a rate"),
        (["--reverse", "-1mbit"], "--reverse -1mbit: expected a rate"),
        (["--reverse", "10.1gbit"], "from 1kbit to 10gbit"),
        (["--overhead", "-65"], "--overhead -65: expected an integer from -64 to 256"),
        (["--mpu", "257"], "--mpu 257: expected an integer from 0 to 256"),
        (["--off", "--atm"], "--off takes no values"),
        (["--set", "speed=1"], "thin has no parameter speed"),
        (["--set", "acks_per_rtt=1"], "out of range"),
        (["--off", "--max", "4"], "--off takes no values"),
        (["--off", "--cgroup", "/nonexistent"], "--cgroup /nonexistent: No such file"),
        (["--cgroup", ""], "--cgroup: its value is empty"),
    ],
)
def test_refusals(argv, says, joined):
    code = 2 if says.startswith(("--max", "--reverse", "--overhead", "--mpu", "--cgroup: ", "from 1kbit")) else 1
    assert says in refused("thin", *argv, code=code)
    assert programs(joined) == []


def test_where_it_thins_is_told(thinned):
    assert listed("thin")["cgroups"] == [str(thinned)]
    assert f"thin             ACKs of connections in {thinned} are thinned\n" in asymcc("doctor")
    [there] = [t for t in json.loads(asymcc("top", "--json"))["thinning"] if t["cgroup"] == str(thinned)]
    sent, dropped = (values("thin", "counters")[name] for name in ("acks_sent", "acks_suppressed"))
    assert there == {"cgroup": str(thinned), "acks_sent": sent, "acks_dropped": dropped}
    assert f"ACKs thinned in {thinned}: {sent} sent, {dropped} dropped\n" in asymcc("top", "--once")


def test_top_tells_new_numbers(pair, thinned):
    with exchange(pair, "digest", "send", "cubic", n=3_000_000):
        pass
    [there] = [t for t in json.loads(asymcc("top", "--json"))["thinning"] if t["cgroup"] == str(thinned)]
    assert there["acks_dropped"] == values("thin", "counters")["acks_suppressed"] > 0


def test_of_several_cgroups_one_is_shown(thinned, cgroup):
    asymcc("thin", "--cgroup", cgroup.path, "--max", 7)
    assert "several places: choose one with --cgroup or --dev, such as `asymcc show thin --" in refused("show", "thin")
    for path, most in ((thinned, 16), (cgroup.path, 7)):
        shown = json.loads(asymcc("show", "thin", "--cgroup", path, "--json"))
        assert shown["cgroups"] == [str(path)]
        assert [p["value"] for p in shown["parameters"] if p["name"] == "max_packets"] == [most]
    for built in (json.loads(asymcc("show", BUILT / "thin.bpf.o", "--json")), objects.shown(objects.THIN)):
        assert (built["name"], built["registered"], built["cgroups"]) == ("thin", False, [])
    assert "no ACKs are thinned there" in refused("show", "thin", "--cgroup", "/sys/fs/cgroup")
    assert "only `asymcc show thin` takes it" in refused("show", "fast", "--cgroup", thinned)


def test_no_controller_takes_its_name(thinned):
    assert "--as thin: programs of that name" in refused("load", "fast", "--as", "thin")
    assert "`asymcc thin --off` ends the thinning" in refused("unload", "thin")
    assert sorted(programs(thinned)) == ["thin_egress", "thin_ingress"]


def test_half_of_it_is_found(thinned):
    """It is like one of a command that was killed."""
    attached = json.loads(run("bpftool", "-j", "cgroup", "show", thinned).stdout)
    (egress,) = (p["id"] for p in attached if p["name"] == "thin_egress")  # others of the name may be on their way out
    run("bpftool", "cgroup", "detach", thinned, "egress", "id", egress)
    done = run(ASYMCC, "doctor", check=False)
    assert done.returncode == 1 and f"{thinned} has only a part of its programs" in done.stdout
    assert f"`asymcc thin --off --cgroup {thinned}` first" in refused("thin", "--cgroup", thinned)
    asymcc("thin", "--off", "--cgroup", thinned)
    assert programs(thinned) == []


@pytest.mark.parametrize("call", ["MAP_CREATE", "PROG_BIND_MAP"])
def test_it_starts_only_if_it_can_be_stopped(call, joined, trip):
    """libbpf asks whether the kernel binds maps. If that fails the name goes with the command that wrote it."""
    refusals = 0
    for nth in range(1, 13):
        done = run(ASYMCC, "thin", "--cgroup", joined, env=trip(call, nth, errno.ENOMEM), check=False)
        refusals += done.returncode == 1
        if not done.returncode:
            assert values("thin")["acks_per_rtt"] and values("thin", "counters"), (nth, done)
            asymcc("thin", "--off", "--cgroup", joined)
        assert programs(joined) == [], (nth, done)
    assert refusals


def test_metrics(thinned, loaded):
    """A line for each counter of each load, which `show` has, too."""
    name = loaded("fast")
    output = asymcc("metrics")
    assert "\n# TYPE asymcc_events counter\n# HELP asymcc_events " in output and output.endswith("\n# EOF\n")
    for counter, value in values(name, "counters").items():
        line = f'asymcc_events_total{{controller="{name}",object="fast",cgroup="",event="{counter}"}} {value}\n'
        assert output.count(line) == 1
    for counter in values("thin", "counters"):
        assert f'{{controller="thin",object="thin",cgroup="{thinned}",event="{counter}"}} ' in output
