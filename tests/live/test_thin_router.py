# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc thin --dev` on this machine's own kernel: a router with NAT, stock hosts behind it; and its command."""

from __future__ import annotations

import json

import pytest

from tests.live import fuzz_router, homes
from tests.live.harness import ASYMCC, endpoint, other, refusal, run, saying
from tests.live.harness import pytestmark as live

pytestmark = [*live]


@pytest.fixture(scope="module")
def home():
    with homes.home() as h:
        yield h


@pytest.fixture
def router(home):
    """It thins nothing before and after."""
    yield home
    home.asymcc("thin", "--off", "--dev", "wan0")
    assert attached(home) == []


EGRESS = 47


def attached(home) -> list[str]:
    """Names of the programs on wan0, others' too."""
    words = home.sh(home.router, *other("tcx", "wan0")).stdout.split()
    (net,) = json.loads(home.sh(home.router, "bpftool", "-j", "net", "show", "dev", "wan0").stdout)
    names = [json.loads(run("bpftool", "-j", "prog", "show", "id", i).stdout)["name"] for i in words[1::2]]
    return names + [p["name"] for p in net["tc"]]


def counters(home) -> dict[str, int]:
    shown = json.loads(home.asymcc("show", "thin", "--dev", "wan0", "--json").stdout)
    assert shown["devices"] == ["wan0"] and shown["cgroups"] == []
    return {c["name"]: c["value"] for c in shown["counters"]}


def refused(home, *argv, code=1) -> str:
    return refusal(home.asymcc(*argv, check=False), code)


@pytest.mark.parametrize("address", [homes.SERVER, homes.SERVER6], ids=["IPv4 behind NAT", "IPv6"])
@pytest.mark.parametrize("options", [["--reverse", "100kbit"], ["--set", "waits_only=0"]], ids=["rate", "no rate"])
def test_all_that_hosts_download_arrives(router, options, address):
    router.asymcc("thin", "--dev", "wan0", *options)
    with router.serving(address):
        assert [got for got, _ in router.downloads(2_000_000, address)] == [2_000_000] * 3
    assert counters(router)["acks_suppressed"] > 100


def test_what_the_router_itself_downloads_passes(router):
    """`asymcc thin --cgroup` is for that."""
    router.asymcc("thin", "--dev", "wan0", "--reverse", "100kbit")
    itself = homes.Home(router.router, router.server, [router.router])
    with router.serving():
        assert itself.downloads(1_000_000)[0][0] == 1_000_000
    assert counters(router)["acks_suppressed"] == 0


def test_what_is_no_tcp_passes(router):
    router.asymcc("thin", "--dev", "wan0", "--reverse", "1kbit")
    with saying("ready", *endpoint("datagrams_server", router.server, port=9, n=30)) as server:
        router.sh(router.hosts[0], *endpoint("datagrams", address=homes.SERVER, port=9, n=30))
        assert server.communicate(timeout=30)[0] == "30\n"
    assert set(counters(router).values()) == {0}


def test_its_life(router):
    output = router.asymcc("thin", "--dev", "wan0", "--reverse", "300kbit").stdout
    assert output == "forwarded ACKs that leave by dev wan0 are thinned\n"
    assert sorted(attached(router)) == ["thin_egress", "thin_ingress"]
    output = router.asymcc("thin", "--dev", "wan0", "--reverse", "200kbit", "--atm", "--max", 32).stdout
    assert output == "forwarded ACKs that leave by dev wan0 are thinned, with other values\n"
    shown = json.loads(router.asymcc("show", "thin", "--dev", "wan0", "--json").stdout)
    now = {p["name"]: p["value"] for p in shown["parameters"]}
    assert (now["reverse_kbit"], now["atm"], now["max_packets"], now["ethernet"]) == (200, 1, 32, 1)
    assert "forwarded ACKs that leave by dev wan0 are thinned" in router.asymcc("doctor", check=False).stdout
    assert (
        '{controller="thin",object="thin_router",device="wan0",event="acks_sent"} 0\n'
        in router.asymcc("metrics").stdout
    )
    place = {"device": "wan0", "netns": f"netns {router.router}"}
    assert place | {"acks_sent": 0, "acks_dropped": 0} in json.loads(router.asymcc("top", "--json").stdout)["thinning"]
    assert router.asymcc("thin", "--off", "--dev", "wan0").stdout == "ACKs are no longer thinned in dev wan0\n"
    assert attached(router) == []
    assert router.asymcc("thin", "--off", "--dev", "wan0").stdout == "no ACKs are thinned at dev wan0\n"


def test_other_programs_stay_and_still_run(router, objects):
    """One that marks and loses packets, as a filter of clsact."""
    router.sh(router.router, *"tc qdisc add dev wan0 clsact".split())
    try:
        arrives = "tc filter add dev wan0 ingress bpf direct-action obj".split()
        router.sh(router.router, *arrives, objects / "liar.bpf.o", "sec", "mark_and_lose")
        before = attached(router)
        router.asymcc("thin", "--dev", "wan0", "--reverse", "100kbit")
        with router.serving():
            assert [got for got, _ in router.downloads(500_000)] == [500_000] * 3
        router.asymcc("thin", "--off", "--dev", "wan0")
        assert attached(router) == before and "clsact" in router.sh(router.router, "tc", "qdisc").stdout
    finally:
        router.sh(router.router, *"tc qdisc del dev wan0 clsact".split())


def test_a_device_that_goes_takes_it_along(router):
    ip = ["ip", "-n", router.router, "link"]
    run(*ip, "add", "wan9", "type", "veth", "peer", "name", "gone")
    router.asymcc("thin", "--dev", "wan9")
    run(*ip, "del", "wan9")
    assert "wan9" not in router.asymcc("list").stdout
    assert router.asymcc("thin", "--off", "--dev", "wan9").stdout == "no ACKs are thinned at dev wan9\n"


def test_an_altname_is_the_device(router):
    run("ip", "-n", router.router, "link", "property", "add", "dev", "wan0", "altname", "uplink")
    try:
        for end in ("", ", with other values", ", with other values"):
            output = router.asymcc("thin", "--dev", "uplink", "--reverse", "100kbit").stdout
            assert output == f"forwarded ACKs that leave by dev wan0 are thinned{end}\n"
        assert sorted(attached(router)) == ["thin_egress", "thin_ingress"]
        shown = router.asymcc("show", "thin", "--dev", "uplink", "--json").stdout
        assert json.loads(shown)["devices"] == ["wan0"]
        output = router.asymcc("thin", "--off", "--dev", "uplink").stdout
        assert output == "ACKs are no longer thinned in dev wan0\n" and attached(router) == []
    finally:
        run("ip", "-n", router.router, "link", "property", "del", "dev", "wan0", "altname", "uplink")


def test_what_thins_out_of_sight_is_told(router, tmp_path):
    """The device goes to a namespace that no process is in, and that a mount of another mount namespace holds."""
    hidden = tmp_path / "netns"
    script = f"""
        mount -t tmpfs none {tmp_path}
        ip link add wan9 type veth peer name gone; {ASYMCC} thin --dev wan9 || exit 9
        unshare -m sh -c 'touch {hidden}; unshare --net={hidden} true; ip link set wan9 netns {hidden}
                          touch {tmp_path}/gone; exec sleep 60' >&- 2>&- &
        until [ -e {tmp_path}/gone ]; do sleep 0.05; done
        {ASYMCC} thin --off --dev wan9; echo $?; {ASYMCC} thin --off --cgroup /; echo $?
        nsenter --mount=/proc/$!/ns/mnt nsenter --net={hidden} {ASYMCC} thin --off --dev wan9; kill $!
    """
    done = run("nsenter", f"--net=/run/netns/{router.router}", "unshare", "-m", "sh", "-c", script)
    assert done.stdout.splitlines()[1:] == ["1", "1", "ACKs are no longer thinned in dev wan9"]
    assert done.stderr.count("in a network namespace or a cgroup that cannot be seen from here\n") == 2


def test_a_device_with_plain_ip(router):
    ip = ["ip", "-n", router.router]
    run(*ip, "tuntap", "add", "tun9", "mode", "tun")
    try:
        router.asymcc("thin", "--dev", "tun9")
        shown = json.loads(router.asymcc("show", "thin", "--dev", "tun9", "--json").stdout)
        assert [p["value"] for p in shown["parameters"] if p["name"] == "ethernet"] == [0]
        router.asymcc("thin", "--off", "--dev", "tun9")
    finally:
        run(*ip, "link", "del", "tun9")


def test_half_of_it_is_found(router):
    """It is like one of a command that was killed."""
    router.asymcc("thin", "--dev", "wan0")
    router.sh(router.router, *other("tcx", "wan0", EGRESS))
    assert attached(router) == ["thin_ingress"]
    done = router.asymcc("doctor", check=False)
    assert done.returncode == 1 and "dev wan0 has only a part of its programs" in done.stdout
    assert "`asymcc thin --off --dev wan0` first" in refused(router, "thin", "--dev", "wan0")


def test_without_the_kernels_btf(router):
    """OpenWrt's kernels have none."""
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && shift && exec "$@"', "sh", "-"]
    inside = ["nsenter", f"--net=/run/netns/{router.router}", *hide, ASYMCC]
    output = run(*inside, "thin", "--dev", "wan0", "--reverse", "100kbit").stdout
    assert output == "forwarded ACKs that leave by dev wan0 are thinned\n"
    run(*inside, "thin", "--off", "--dev", "wan0")
    assert attached(router) == []


def test_only_plain_acks_are_dropped(tmp_path):
    """`make fuzz-router` has 10^8 packets."""
    packets, dropped, refused = fuzz_router.fuzz(fuzz_router.build(tmp_path), 1, 100_000)
    assert packets == 100_000 and dropped > 1000 and refused < 1000


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--dev", "lo"], "--dev lo: it leads nowhere"),
        (["--dev", "none0"], "--dev none0: this network namespace has no such device"),
        (["--dev", "s0"], "--dev s0: this network namespace has no such device"),  # the server's
        (["--dev", "a-name-that-is-too-long"], "has no such device"),
        (["--dev", "wan0", "--cgroup", "/sys/fs/cgroup"], "one at a time"),
        (["--dev", "wan0", "--set", "ethernet=0"], "--set ethernet: only asymcc sets it"),
        (["--dev", "wan0", "--set", "made_clsact=1"], "--set made_clsact: only asymcc sets it"),
        (["--dev", "wan0", "--set", "speed=1"], "thin has no parameter speed"),
        (["--dev", "wan0", "--off", "--atm"], "--off takes no values"),
    ],
)
def test_refusals(argv, says, router):
    assert says in refused(router, "thin", *argv)
    assert attached(router) == []
