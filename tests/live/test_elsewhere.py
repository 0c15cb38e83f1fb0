# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Things in another network namespace, or moved there: commands tell them, and those that act everywhere act there."""

from __future__ import annotations

import contextlib
import errno
import json

import pytest

from tests.live.harness import ASYMCC, CGROUP2, asymcc, named_command, pytestmark, refusal, run, saying, unique  # noqa: F401
from tests.live.pairs import enter


def alone(tmp_path, *argv, namespaces=(), check=True, within=None, env=None):
    """asymcc where it sees these network namespaces alone, and no cgroup: other tests thin, too."""
    (tmp_path / "netns").mkdir(exist_ok=True)
    binds = "".join(f"touch netns/{ns}; mount --bind /run/netns/{ns} netns/{ns}; " for ns in namespaces)
    hide = "".join(f"mount -t tmpfs none {path}; " for path in CGROUP2)
    script = f'{binds}{hide}mount --rbind netns /run/netns; "$@"; exit $?'
    there = enter(within) if within else ()
    command = [*there, *"unshare -mpf --mount-proc sh -c".split(), script, "sh", ASYMCC, *argv]
    return run(*command, cwd=tmp_path, check=check, timeout=30, env=env)


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


@contextlib.contextmanager
def thinning_in(place: str, pair, env=None):
    """A device that thins in a namespace that has a name, that a process has, or that is the machine's first. Yields
    its name, and a command that enters a namespace which it is not in."""
    dev = unique("e")
    script = f"ip link add {dev} type veth peer name {dev}p; {ASYMCC} thin --dev {dev} >&2; echo ready; exec sleep 100"
    ways = {"a process": ["unshare", "-n"], "a name": enter(pair.client), "host": []}
    try:
        with saying("ready", *ways[place], "sh", "-c", script, env=env):
            yield dev, enter(pair.server)
    finally:
        for way in ways.values():
            run(*way, "ip", "link", "del", dev, check=False)


PLACES = ["a name", "a process", "host"]


@pytest.mark.parametrize("place", PLACES)
def test_the_command_that_is_named_shows_it(place, pair):
    with thinning_in(place, pair) as (dev, away):
        line = refusal(run(*away, ASYMCC, "show", "thin", "--dev", dev, check=False))
        assert line.startswith(f"asymcc: --dev {dev}: no ACKs are thinned there, but at dev {dev} in ")
        assert json.loads(run(*named_command(line.split("`")[1]), "--json").stdout)["devices"][0].startswith(dev)


@pytest.mark.parametrize("place", PLACES)
def test_the_mend_of_a_part_works(place, pair, trip):
    with thinning_in(place, pair, env=trip("bpf_prog_attach", 2)) as (dev, away):
        rows = json.loads(run(*away, ASYMCC, "doctor", "--json", check=False).stdout)
        (mend,) = [r["mend"] for r in rows if r["text"].startswith(f"dev {dev} in ") and "part of its" in r["text"]]
        command, _, rest = mend.partition(",")
        assert run(*named_command(command)).stdout.startswith("ACKs are no longer thinned in ")
        assert rest == " then thin there again"


def test_of_several_the_own_is_named(elsewhere, pair, tmp_path):
    run(*enter(pair.server), ASYMCC, "thin", "--dev", pair.dev_s)
    line = refusal(
        alone(tmp_path, "show", "thin", namespaces=[pair.client, pair.server], within=pair.server, check=False)
    )
    assert f"such as `asymcc show thin --dev {pair.dev_s}`" in line


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
    assert "some of asymcc run in a network namespace or a cgroup that cannot be seen from here" in {
        u["text"] for u in unseen
    }
    for command in "list", "doctor", "metrics":
        assert "cannot be seen from here" in alone(tmp_path, command, check=False).stderr


def test_nobody_waits_for_what_runs_out_of_sight(elsewhere, tmp_path, trip):
    """Only after a detach may it be one that is about to go. The first wait would be the command's end here."""
    for command in ["list"], ["status"], ["doctor"], ["metrics", "--interval", "0"]:
        done = alone(tmp_path, *command, env=trip("usleep", 1), check=False)
        assert done.returncode in (0, 1) and "cannot be seen from here" in done.stderr, done


@pytest.mark.parametrize("command", [["status"], ["doctor"], ["list"], ["metrics", "--interval", "0"]], ids="-".join)
def test_what_cannot_be_told_is_not_called_hidden(command, tmp_path, trip):
    """Other walks over all programs come before that one."""
    line = "asymcc: cannot read which programs of asymcc run elsewhere: Cannot allocate memory\n"
    for nth in range(1, 100):
        done = alone(tmp_path, *command, env=trip("FIRST_PROG_ID", nth, errno.ENOMEM), check=False)
        if line in done.stderr:
            break
    assert done.returncode == 1 and "cannot be seen from here" not in done.stdout + done.stderr
    words = "whether some of asymcc run elsewhere is not known (the reason is on standard error)"
    assert (words in done.stdout) == (command[0] in ("status", "doctor"))


def test_a_namespace_that_cannot_be_read_is_named_and_hinders_nothing(elsewhere, pair, tmp_path, trip):
    """Each device is asked in turn: those of the own namespace first, and one of them ends the command."""
    named = 0
    for nth in range(1, 30):
        env = trip("TCX_QUERY", nth, errno.EIO)
        done = alone(tmp_path, "status", namespaces=[pair.client], env=env, check=False)
        if f" in netns {pair.client}: Input/output error" not in done.stderr:
            continue
        named += 1
        assert done.returncode == 0 and "cannot be seen from here" in done.stderr
        assert "has only a part of its programs" not in done.stdout
        stopped = alone(tmp_path, "thin", "--off", namespaces=[pair.client], env=env, check=False)
        assert stopped.returncode == 1 and "cannot be seen from here" in stopped.stderr
        break
    assert named
