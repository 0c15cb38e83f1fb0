# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc uplink` on this machine's own kernel: it refuses in one line, and leaves what others have set."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.live import homes
from tests.live.harness import ASYMCC, program, refusal
from tests.live.harness import pytestmark as live

pytestmark = [*live]


@pytest.fixture(scope="module")
def home():
    with homes.home(hosts=1) as h:
        yield h


@pytest.fixture
def router(home):
    """Its uplink has no queue of anybody's, before and after."""
    home.sh(home.router, "tc", "qdisc", "del", "dev", "wan0", "root", check=False)
    yield home
    assert uplinks(home) == [] and root(home) == "noqueue" and thinned(home) == []


@pytest.fixture
def cake(router):
    checks = json.loads(router.asymcc("doctor", "--json", check=False).stdout)
    (state,) = [row["state"] for row in checks if row["check"] == "CAKE"]
    return state == "ok"


@pytest.fixture
def with_cake(cake):
    if not cake:
        pytest.skip("this kernel has no CAKE")


def uplinks(home) -> list[dict]:
    return json.loads(home.asymcc("status", "--json").stdout)["uplinks"]


def thinned(home) -> list[str]:
    rows = json.loads(home.asymcc("status", "--json").stdout)["thinned"]
    return [row["device"] for row in rows if row.get("device") == "wan0" and row["netns"] == f"netns {home.router}"]


def root(home) -> str:
    told = home.sh(home.router, "tc", "-j", "qdisc", "show", "dev", "wan0", "root").stdout
    return json.loads(told)[0]["kind"]


def refused(home, *argv, code: int = 1) -> str:
    return refusal(home.asymcc("uplink", *argv, check=False), code)


def running(home, *argv):
    return program("nsenter", f"--net=/run/netns/{home.router}", ASYMCC, "uplink", "--dev", "wan0", *argv)


def test_a_kernel_without_cake_is_named_and_nothing_stays(router, cake):
    if cake:
        pytest.skip("this kernel has CAKE")
    assert refused(router, "--dev", "wan0").startswith("asymcc: this kernel has no CAKE: it needs CONFIG_NET_SCH_CAKE")
    doctor = router.asymcc("doctor", check=False).stdout
    assert "not there: no `asymcc uplink`: a kernel with CONFIG_NET_SCH_CAKE" in doctor


@pytest.mark.parametrize("words", ["handle 1: tbf rate 1mbit burst 3000 limit 5000", "handle a5cc: pfifo"])
def test_a_qdisc_that_somebody_has_set_stays(router, words):
    kind = words.split()[2]
    router.sh(router.router, "tc", "qdisc", "add", "dev", "wan0", "root", *words.split())
    said = refused(router, "--dev", "wan0")
    assert f"--dev wan0: somebody has set a qdisc there, {kind} {words.split()[1]}" in said and root(router) == kind
    assert "there is no `asymcc uplink`" in router.asymcc("uplink", "--dev", "wan0", "--off").stdout
    assert root(router) == kind
    router.sh(router.router, "tc", "qdisc", "del", "dev", "wan0", "root")


def test_it_leaves_thinning_to_the_command_that_thins(router):
    router.asymcc("thin", "--dev", "wan0", "--reverse", "200kbit")
    assert "`asymcc thin` is there already: `asymcc thin --off --dev wan0` first" in refused(router, "--dev", "wan0")
    assert thinned(router) == ["wan0"]
    router.asymcc("thin", "--off", "--dev", "wan0")


@pytest.mark.parametrize(
    "argv, words",
    [
        ([], "--dev DEVICE is missing"),
        (["--dev", "none0"], "no such device"),
        (["--dev", "lo"], "it leads nowhere"),
        (["--dev", "wan0", "--least", "2mbit", "--most", "1mbit"], "--least 2000kbit is more than --most 1000kbit"),
        (["--dev", "wan0", "--rate", "1mbit", "--most", "500kbit"], "--rate 1000kbit is not from --least to --most"),
        (["--dev", "wan0", "--off", "--rate", "1mbit"], "--off takes no values"),
        (["--dev", "wan0", "--off", "--down"], "--off takes no values"),
        (["--dev", "wan0", "--probe", "example.org"], "--probe example.org: not an IPv4 address such as 192.0.2.1"),
    ],
)
def test_what_it_refuses(router, argv, words):
    assert words in refused(router, *argv)


def test_it_shapes_till_it_is_ended(router, with_cake):
    with running(router, "--rate", "5mbit") as p:
        assert "the rate is searched for" in p.stdout.readline()
        (row,) = uplinks(router)
        assert row["name"] == "wan0" and row["text"].startswith("shaped to 5.00 Mbit/s by process")
        assert root(router) == "cake" and thinned(router) == ["wan0"]
        assert "runs there already" in refused(router, "--dev", "wan0")
        p.send_signal(signal.SIGTERM)
        assert p.wait(20) == 0


def test_what_a_killed_one_left_is_told_and_taken_over(router, with_cake):
    with running(router, "--rate", "5mbit") as p:
        p.stdout.readline()
    (row,) = uplinks(router)
    assert "was killed: CAKE stays at 5.00 Mbit/s" in row["text"] and root(router) == "cake"
    with running(router) as p:
        assert "was killed: what it left is taken away" in p.stdout.readline()
    assert "is as it was before" in router.asymcc("uplink", "--dev", "wan0", "--off").stdout


def test_off_ends_one_that_runs(router, with_cake):
    with running(router) as p:
        p.stdout.readline()
        assert "is as it was before" in router.asymcc("uplink", "--dev", "wan0", "--off").stdout
        assert p.wait(20) == 0


@pytest.fixture
def spare(router):
    """Makes a device anew. It is gone at the end."""

    def make():
        router.sh(router.router, *"ip link add spare type veth peer name away".split())
        router.sh(router.router, "ip", "link", "set", "spare", "up")

    yield make
    router.sh(router.router, "ip", "link", "del", "spare", check=False)


def test_a_device_that_goes_ends_it(router, with_cake, spare):
    spare()
    with program("nsenter", f"--net=/run/netns/{router.router}", ASYMCC, "uplink", "--dev", "spare") as p:
        p.stdout.readline()
        router.sh(router.router, "ip", "link", "del", "spare")
        assert p.wait(20) == 1 and "the device is gone" in p.stderr.read()


def test_nothing_is_told_of_one_that_was_killed_if_its_device_is_another(router, with_cake, spare):
    spare()
    argv = ["nsenter", f"--net=/run/netns/{router.router}", ASYMCC, "uplink", "--dev", "spare"]
    with program(*argv) as p:
        p.stdout.readline()
    router.sh(router.router, "ip", "link", "del", "spare")
    spare()
    assert uplinks(router) == []
    with program(*argv) as p:
        assert "the rate is searched for" in p.stdout.readline()
        p.send_signal(signal.SIGTERM)
        assert p.wait(20) == 0


def test_the_cake_of_another_stays(router, with_cake):
    router.sh(router.router, *"tc qdisc add dev wan0 root cake bandwidth 5mbit".split())
    assert "somebody has set a qdisc there, cake" in refused(router, "--dev", "wan0")
    assert root(router) == "cake"
    router.sh(router.router, *"tc qdisc del dev wan0 root".split())


def test_another_that_takes_its_place_ends_it(router, with_cake):
    with running(router) as p:
        p.stdout.readline()
        router.sh(router.router, "tc", "qdisc", "replace", "dev", "wan0", "root", "pfifo")
        assert p.wait(20) == 1 and "another has taken CAKE" in p.stderr.read()
    assert root(router) == "pfifo"
    time.sleep(0.1)
    router.sh(router.router, "tc", "qdisc", "del", "dev", "wan0", "root")
