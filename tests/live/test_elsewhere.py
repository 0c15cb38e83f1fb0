# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Things in another network namespace, or moved there: commands tell them, and those that act everywhere act there."""

from __future__ import annotations

import json

import pytest

from tests.live.harness import ASYMCC, CGROUP2, asymcc, program, pytestmark, run  # noqa: F401
from tests.live.pairs import enter


def alone(tmp_path, *argv, namespaces=(), check=True):
    """asymcc where it sees these network namespaces alone, and no cgroup: other tests thin, too."""
    (tmp_path / "netns").mkdir(exist_ok=True)
    binds = "".join(f"touch netns/{ns}; mount --bind /run/netns/{ns} netns/{ns}; " for ns in namespaces)
    hide = "".join(f"mount -t tmpfs none {path}; " for path in CGROUP2)
    script = f'{binds}{hide}mount --rbind netns /run/netns; "$@"; exit $?'
    return run(
        *"unshare -mpf --mount-proc sh -c".split(), script, "sh", ASYMCC, *argv, cwd=tmp_path, check=check, timeout=30
    )


@pytest.fixture
def elsewhere(pair):
    """The client's device thins."""
    run(*enter(pair.client), ASYMCC, "thin", "--dev", pair.dev_c, "--reverse", "200kbit")
    return f"dev {pair.dev_c} in netns {pair.client}"


def thins(pair, ns: str, dev: str) -> bool:
    return run(*enter(ns), ASYMCC, "thin", "--off", "--dev", dev).stdout.startswith("ACKs are no longer")


def test_each_command_tells_of_a_device_elsewhere(elsewhere, pair):
    assert f"  forwarded ACKs that leave by {elsewhere}: 0 sent, 0 dropped; not after a reboot\n" in asymcc("status")
    place = {"device": pair.dev_c, "netns": f"netns {pair.client}"}
    for command, key in (["status", "--json"], "thinned"), (["top", "--json", "--interval", "0"], "thinning"):
        devices = [t for t in json.loads(asymcc(*command))[key] if t.get("device") == pair.dev_c]
        assert [t | place for t in devices] == devices and len(devices) == 1
    assert f"forwarded ACKs that leave by {elsewhere} are thinned" in run(ASYMCC, "doctor", check=False).stdout
    assert elsewhere in asymcc("list")
    labels = f'object="thin_router",device="{pair.dev_c}",netns="netns {pair.client}"'
    assert labels in asymcc("metrics", "--interval", "0")


def test_off_ends_it_everywhere(elsewhere, pair, tmp_path):
    output = alone(tmp_path, "thin", "--off", namespaces=[pair.client], check=False).stdout
    assert output == f"ACKs are no longer thinned in {elsewhere}\n" and not thins(pair, pair.client, pair.dev_c)


@pytest.mark.parametrize("name", ["itself", "renamed"])
def test_a_device_that_moved_is_found(name, pair, tmp_path):
    dev = f"{pair.dev_c[:12]}_r" if name == "renamed" else pair.dev_c
    run(*enter(pair.server), ASYMCC, "thin", "--dev", pair.dev_s)
    run("ip", "-n", pair.server, "link", "set", pair.dev_s, "netns", pair.client, "name", dev + "x")
    place = f"dev {dev}x in netns {pair.client}"
    output = run(*enter(pair.server), ASYMCC, "thin", "--off", "--dev", f"{dev}x").stdout
    assert output == f"no ACKs are thinned at dev {dev}x, but at {place}\n"
    assert place in alone(tmp_path, "status", namespaces=[pair.client]).stdout
    output = alone(tmp_path, "thin", "--off", namespaces=[pair.client], check=False).stdout
    assert output == f"ACKs are no longer thinned in {place}\n"


def test_what_cannot_be_entered_is_said_not_to_be_seen(elsewhere, tmp_path):
    """The namespace has a name in another mount namespace alone."""
    done = alone(tmp_path, "thin", "--off", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "of asymcc run in a network namespace or a cgroup that cannot be seen from here" in done.stderr
    unseen = json.loads(alone(tmp_path, "status", "--json").stdout)["unseen"]
    assert "some of asymcc run in a network namespace or a cgroup that cannot be seen" in {u["text"] for u in unseen}
    for command in "list", "doctor", "metrics":
        assert "cannot be seen from here" in alone(tmp_path, command, check=False).stderr
