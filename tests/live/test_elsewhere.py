# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Things in another network namespace, or moved there: commands tell them, and those that act everywhere act there."""

from __future__ import annotations

import contextlib
import errno
import json
import time

import pytest

from tests.live.harness import ASYMCC, CGROUP2, asymcc, kernel_has, named_command, refusal, run, saying, unique
from tests.live.harness import pytestmark as pytestmark
from tests.live.pairs import enter

HIDDEN = " in a network namespace or a cgroup that cannot be seen from here"


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
    assert HIDDEN in done.stderr
    unseen = json.loads(alone(tmp_path, "status", "--json").stdout)["unseen"]
    assert "some of asymcc run in a network namespace or a cgroup that cannot be seen from here" in {
        u["text"] for u in unseen
    }
    for command in "list", "doctor", "metrics":
        assert HIDDEN in alone(tmp_path, command, check=False).stderr


def test_nobody_waits_for_what_runs_out_of_sight(elsewhere, tmp_path, trip):
    """Only after a detach may it be one that is about to go. The first wait would be the command's end here."""
    for command in ["list"], ["status"], ["doctor"], ["metrics", "--interval", "0"]:
        done = alone(tmp_path, *command, env=trip("usleep", 1), check=False)
        assert done.returncode in (0, 1) and HIDDEN in done.stderr, done


@pytest.mark.parametrize("command", [["status"], ["doctor"], ["list"], ["metrics", "--interval", "0"]], ids="-".join)
def test_what_cannot_be_told_is_not_called_hidden(command, tmp_path, trip):
    """Other walks over all programs come before that one."""
    line = "asymcc: cannot read which programs of asymcc run elsewhere: Cannot allocate memory\n"
    for nth in range(1, 100):
        done = alone(tmp_path, *command, env=trip("FIRST_PROG_ID", nth, errno.ENOMEM), check=False)
        if line in done.stderr:
            break
    assert done.returncode == 1 and HIDDEN not in done.stdout + done.stderr
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
        assert done.returncode == 0 and HIDDEN in done.stderr
        assert "has only a part of its programs" not in done.stdout
        stopped = alone(tmp_path, "thin", "--off", namespaces=[pair.client], env=env, check=False)
        assert stopped.returncode == 1 and HIDDEN in stopped.stderr
        break
    assert named


FOUR = "setpriv --bounding-set=-all,+bpf,+perfmon,+net_admin,+sys_admin --inh-caps=-all".split()
VIEWS = {"a PID namespace": "unshare -pf --mount-proc".split(), "four capabilities": FOUR}


def default_of_a_process(name: str):
    """In a network namespace of its own; the process has all that root may."""
    script = f"sysctl -qw net.ipv4.tcp_congestion_control={name}; echo ready; exec sleep 100"
    return saying("ready", *"unshare -n sh -ec".split(), script)


@pytest.mark.parametrize("view", VIEWS)
def test_a_default_out_of_sight_is_told_and_keeps_the_controller(view, loaded):
    name, words = loaded("fast"), "other network namespaces cannot be seen from here"
    with default_of_a_process(name):
        here = [*VIEWS[view], ASYMCC]
        unseen = {row["name"]: row["text"] for row in json.loads(run(*here, "status", "--json").stdout)["unseen"]}
        assert words in unseen["namespaces"] and unseen[name].startswith(f"1 use of {name} cannot be seen from here")
        for command in ["list"], ["metrics", "--interval", "0"]:
            stderr = run(*here, *command).stderr
            assert words in stderr and f"1 use of {name} cannot be seen from here" in stderr
        rows = json.loads(run(*here, "doctor", "--json", check=False).stdout)
        assert {"namespaces", name} <= {row["check"] for row in rows if "cannot be seen from here" in row["text"]}
        assert not any(row["check"] == name and row["text"].endswith("used by nobody") for row in rows)
        done = run(*here, "unuse", name)
        assert words in done.stderr and done.stdout.endswith("in no cgroup that can be seen from here\n")
        line = refusal(run(*here, "unload", name, check=False))
        assert words in line and "the kernel counts 1 use more" in line and kernel_has(name)
        assert f"1 use of {name} cannot" in run(*here, "unload", name, "--force").stderr and not kernel_has(name)


@pytest.mark.parametrize("view", VIEWS)
def test_what_nobody_uses_is_unloaded_though_not_all_is_seen(view, loaded):
    """The kernel's own count tells."""
    name = loaded("fast")
    done = run(*VIEWS[view], ASYMCC, "unload", name)
    assert done.stdout == f"{name} unloaded\n" and not kernel_has(name)


def test_a_namespace_that_a_mount_alone_holds_is_seen(loaded, tmp_path):
    name, place = loaded("fast"), tmp_path / "a b"
    place.touch()
    script = f"""
unshare -n sh -c 'sysctl -qw net.ipv4.tcp_congestion_control={name}; mount --bind /proc/self/ns/net "{place}"'
{ASYMCC} unload {name} && exit 3
{ASYMCC} unload {name} --drain"""
    done = run(*"unshare -m sh -c".split(), script)
    assert f"asymcc: {name} is still given to connections: default of {place}: take it back" in done.stderr
    assert done.stdout == f"{name} unloaded; taken back from default of {place}\n"


def test_what_only_a_descriptor_holds_is_told(loaded):
    """No process is in it, and no file leads there."""
    name = loaded("fast")
    within = f"sysctl -qw net.ipv4.tcp_congestion_control={name}; exec 3</proc/self/ns/net; echo ready; "
    script = f"exec 4</proc/self/ns/net; exec unshare -n sh -ec '{within} exec nsenter --net=/proc/self/fd/4 sleep 100'"
    with saying("ready", "sh", "-ec", script) as p:
        while "sleep" not in open(f"/proc/{p.pid}/comm").read():
            time.sleep(0.01)
        told = f"1 use of {name} cannot be seen from here"
        assert told in {row["name"]: row["text"] for row in json.loads(asymcc("status", "--json"))["unseen"]}[name]
        done = run(ASYMCC, "unload", name)
        assert told in done.stderr and done.stdout == f"{name} unloaded\n"
