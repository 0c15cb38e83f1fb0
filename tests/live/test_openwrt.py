# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
packaging/openwrt on a router: the files that its Makefile installs, and its init script with the real asymcc.

OpenWrt's own scripts and daemons run where OPENWRT names a folder of clones (openwrt/real.sh says which); else a small
stand-in of our own, which has no procd, calls the init script.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import homes
from tests.live.harness import ROOT, program, run
from tests.live.harness import pytestmark as live

pytestmark = [*live]
HERE = ROOT / "tests" / "live" / "openwrt"
SOURCES = os.environ.get("OPENWRT")
# Process 1 of the router's system: its files above this machine's, which stay as they are.
SYSTEM = """
mount -t tmpfs none "$1" && mkdir "$1/up" "$1/work" "$1/root" && cp -r "$2" "$1/below"
mount -t overlay none -o "lowerdir=$1/below:/,upperdir=$1/up,workdir=$1/work" "$1/root"
for at in proc dev; do mount --rbind /$at "$1/root/$at"; done
mount -t sysfs none "$1/root/sys"
mount -t tmpfs none "$1/root/run" && mkdir -p "$1/root/run/lock"
exec chroot "$1/root" sh -c "echo ready; exec sleep 1000"
"""


class Router:
    """Its system. wan0 is the uplink, and spare another device."""

    def __init__(self, home: homes.Home, pid: int):
        self.home, self.pid = home, pid

    def enter(self, *argv) -> list:
        return ["nsenter", "-t", self.pid, "--mount", "--net", "--root", "--wd", *argv]

    def sh(self, command: str, **keys):
        return run(*self.enter("sh", "-c", command), **keys)

    def init(self, what: str) -> str:
        """The words of the init script, called as OpenWrt calls it."""
        done = self.sh(f"/etc/init.d/asymcc {what}")
        return done.stdout + done.stderr

    def configure(self, **devices: dict) -> None:
        text = ""
        for device, options in devices.items():
            text += "config thin\n" + "".join(f"\toption {k} '{v}'\n" for k, v in {"device": device, **options}.items())
        self.sh("cat >/etc/config/asymcc", input=text)

    def thinned(self) -> dict[str, int]:
        """The rate that is told, in bit/s, of each device."""
        counts = {}
        for device in ("wan0", "spare"):
            shown = self.sh(f"asymcc show thin --dev {device} --json", check=False)
            if shown.returncode == 0:
                counts[device] = {p["name"]: p["value"] for p in json.loads(shown.stdout)["parameters"]}["reverse_kbit"]
        return counts

    def spare(self) -> None:
        run("ip", "-n", self.home.router, *"link add spare type veth peer name away".split())


@contextlib.contextmanager
def started(home: homes.Home, root: Path, mount: Path) -> Iterator[Router]:
    mount.mkdir()
    with program("ip", "netns", "exec", home.router, "unshare", "--mount", "sh", "-ec", SYSTEM, "sh", mount, root) as p:
        assert p.stdout.readline() == "ready\n", p.stderr.read()
        yield Router(home, p.pid)


@pytest.fixture(scope="module", params=["stand-in", "OpenWrt"])
def system(request, tmp_path_factory) -> Iterator[Router]:
    out = tmp_path_factory.mktemp("openwrt")
    if request.param == "stand-in":
        shutil.copytree(HERE / "root", out / "root")
    elif not SOURCES:
        pytest.skip("OPENWRT names no folder of OpenWrt's sources")
    else:
        run(HERE / "real.sh", SOURCES, out / "root")
    run("make", "-C", ROOT / "packaging/openwrt/asymcc", f"TOPDIR={HERE}", f"OUT={out}")
    with homes.home() as home, started(home, out / "root", out / "system") as router, contextlib.ExitStack() as stack:
        if request.param == "OpenWrt":
            stack.enter_context(program(*router.enter("ubusd")))
            stack.enter_context(program(*router.enter("procd", "-S")))
            router.sh("until [ -S /var/run/ubus.sock ]; do sleep 0.1; done; ubus -t 10 wait_for service")
        yield router


@pytest.fixture
def router(system) -> Iterator[Router]:
    """It thins nothing before and after, and has no device spare."""
    yield system
    system.init("stop")
    run("ip", "-n", system.home.router, "link", "del", "spare", check=False)
    assert system.thinned() == {}


def test_as_it_is_installed_it_thins_nothing(router):
    assert router.init("start") == ""
    assert router.thinned() == {}


def test_devices_are_thinned_as_the_file_says(router):
    """Reload gives new values; a device that is off in the file, or no more in it, is thinned no more."""
    router.spare()
    router.configure(wan0={"enabled": 1, "reverse": "100kbit"}, spare={"enabled": 1, "reverse": "300kbit", "atm": 1})
    router.init("start")
    assert router.thinned() == {"wan0": 100, "spare": 300}
    with router.home.serving():
        assert [got for got, _ in router.home.downloads(1_000_000)] == [1_000_000] * 3
    counters = json.loads(router.sh("asymcc show thin --dev wan0 --json").stdout)["counters"]
    assert {c["name"]: c["value"] for c in counters}["acks_suppressed"] > 100

    router.configure(wan0={"enabled": 1, "reverse": "200kbit"}, spare={"enabled": 0})
    router.init("reload")
    assert router.thinned() == {"wan0": 200}
    router.configure(spare={"enabled": 1})
    router.init("reload")
    assert router.thinned() == {"spare": 0}
    router.init("stop")
    assert router.thinned() == {}


def test_values_that_are_refused_leave_what_was(router):
    """And stop takes it away."""
    router.configure(wan0={"enabled": 1, "reverse": "100kbit"})
    router.init("start")
    router.configure(wan0={"enabled": 1, "reverse": "fast"})
    assert "asymcc: --reverse fast: expected a rate" in router.init("reload")
    assert router.thinned() == {"wan0": 100}
    router.init("stop")
    assert router.thinned() == {}


def test_a_device_that_is_not_there_is_told(router):
    """The others are thinned; it is, when it has come and an interface is up."""
    router.configure(spare={"enabled": 1, "reverse": "300kbit"}, wan0={"enabled": 1, "reverse": "100kbit"})
    assert "asymcc: no device spare: " in router.init("start")
    assert router.thinned() == {"wan0": 100}
    router.spare()
    router.init("reload")
    assert router.thinned() == {"wan0": 100, "spare": 300}
    run("ip", "-n", router.home.router, "link", "del", "spare")
    assert "no device spare" in router.init("reload")


@pytest.mark.parametrize("system", ["stand-in"], indirect=True)
def test_an_uplink_is_begun_as_the_file_says(router):
    """The stand-in waits for its first words, which name a kernel without CAKE."""
    options = ("enabled '1'", "device '{}'", "least '1mbit'", "most '{}'")
    text = "config uplink\n" + "".join(f"\toption {option}\n" for option in options)
    router.sh("cat >/etc/config/asymcc", input=text.format("none0", "2mbit"))
    assert router.init("start") == ""
    router.spare()
    router.sh("cat >/etc/config/asymcc", input=text.format("spare", "500kbit"))
    assert "--least 1000kbit is more than --most 500kbit" in router.init("reload")
    router.sh("cat >/etc/config/asymcc", input=text.format("spare", "2mbit"))
    checks = json.loads(router.sh("asymcc doctor --json", check=False).stdout)
    (cake,) = [row["state"] for row in checks if row["check"] == "CAKE"]
    assert ("the rate is searched for" if cake == "ok" else "this kernel has no CAKE") in router.init("reload")


def test_stop_leaves_what_others_thin(router):
    router.configure(wan0={"enabled": 1})
    router.spare()
    router.sh("asymcc thin --dev spare --reverse 50kbit")
    router.init("start")
    router.init("stop")
    assert router.thinned() == {"spare": 50}


@pytest.mark.skipif(not SOURCES, reason="OPENWRT names no folder of OpenWrt's sources")
@pytest.mark.parametrize("system", ["OpenWrt"], indirect=True)
def test_procd_calls_it(router):
    """After a change of the configuration, and when an interface comes up whose device is new."""

    def soon(rates: dict) -> None:
        for _ in range(100):
            if router.thinned() == rates:
                return
            time.sleep(0.1)
        assert router.thinned() == rates

    def event(name: str, data: dict) -> None:
        router.sh(f"ubus call service event '{json.dumps({'type': name, 'data': data})}'")

    router.configure(wan0={"enabled": 1, "reverse": "100kbit"})
    router.init("start")
    assert "asymcc" in router.sh("ubus call service list").stdout
    soon({"wan0": 100})
    router.sh("uci set asymcc.@thin[0].reverse=150kbit; uci commit asymcc")
    event("config.change", {"package": "asymcc"})
    soon({"wan0": 150})
    router.configure(wan0={"enabled": 1, "reverse": "150kbit"}, spare={"enabled": 1, "reverse": "300kbit"})
    router.spare()
    event("interface.wan6.up", {"interface": "wan6"})
    soon({"wan0": 150, "spare": 300})
    router.init("stop")
    soon({})
    assert "asymcc" not in router.sh("ubus call service list").stdout
