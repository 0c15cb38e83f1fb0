# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc status: what is loaded and used, what of it lasts, and what others changed."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
from datetime import datetime

import pytest

from tests.live.harness import ASYMCC, NOBODY, STATE, asymcc, listed, named_command, needs_cgroup2, pytestmark, run  # noqa: F401
from tests.live.pairs import PLAIN, enter, held_open, inside, set_default


def status(*before) -> dict[str, list]:
    return json.loads(run(*before, ASYMCC, "status", "--json").stdout)


def texts(section: list[dict], name: str) -> list[str]:
    return [row["text"] for row in section if row["name"] == name]


def test_what_is_loaded_and_who_uses_it_by_which_way(alias, pair, cgroup):
    name = alias()
    asymcc("load", "fast", "--as", name, "--set", "alpha=30")
    inside(pair, "use", name, "--default", "--route", "10.9.0.0/24", "--cgroup", cgroup.path)
    asymcc("thin", "--cgroup", cgroup.path)
    with held_open(pair, name):
        seen = status()
    (loaded,) = [row for row in seen["loaded"] if row["name"] == name]
    assert loaded["object"] == "fast" and loaded["file"] == str(ASYMCC.parent / "fast.bpf.o")
    assert loaded["values"] == {"alpha": 30} and not loaded["after_reboot"]
    assert -5 < time.time() - datetime.fromisoformat(loaded["since"]).timestamp() < 60
    uses = {row["by"]: row for row in seen["used"] if row["name"] == name}
    ns = f"netns {pair.client}"
    assert uses["default"]["netns"] == uses["route"]["netns"] == uses["connections"]["netns"] == ns
    assert uses["route"]["where"] == "10.9.0.0/24" and uses["cgroup"]["where"] == str(cgroup.path)
    assert uses["connections"]["connections"] == 1
    assert [row["after_reboot"] for row in uses.values()] == [False, False, None, False]
    (thinned,) = [row for row in seen["thinned"] if row.get("cgroup") == str(cgroup.path)]
    assert thinned["whole"] and not texts(seen["others"], name)
    text = asymcc("status")
    assert f"  {name}: 1 socket" not in text and f"  {name}: route 10.9.0.0/24 in {ns}; not after a reboot\n" in text


def test_what_another_program_registered_is_told_as_such(alias, tmp_path):
    """By the same name, where asymcc had loaded one before."""
    name = alias()
    shutil.copy(ASYMCC.parent / "fast.bpf.o", tmp_path / "mine.bpf.o")
    asymcc("load", tmp_path / "mine.bpf.o", "--as", name)
    (ours,) = [row for row in status()["loaded"] if row["name"] == name]
    assert ours["file"] == str(tmp_path / "mine.bpf.o")
    map_id = listed(name)["map_id"]
    run("bpftool", "struct_ops", "unregister", "id", map_id)
    image = (ASYMCC.parent / "fast.bpf.o").read_bytes()
    (tmp_path / "theirs.bpf.o").write_bytes(image.replace(b"fast".ljust(16, b"\0"), name.encode().ljust(16, b"\0")))
    run("bpftool", "struct_ops", "register", tmp_path / "theirs.bpf.o")
    (theirs,) = [row for row in status()["loaded"] if row["name"] == name]
    assert theirs["file"] is None and theirs["object"] == "fast"
    assert f"  {name}: object fast, not loaded by asymcc, since " in asymcc("status")


@pytest.mark.parametrize("end", ["use", "unuse"])
@pytest.mark.parametrize("way", ["default", "route", "route's controller", "program", "cgroup"])
def test_what_others_change_is_told_until_it_is_taken_back(way, end, alias, pair, cgroup):
    """By sysctl, as systemd-networkd and NetworkManager do with routes, by bpftool, by a restart of a service. The mend
    acts in the namespace, wherever it is run."""
    name = alias()
    asymcc("load", "fast", "--as", name)
    use = {
        "default": ["--default"],
        "route": ["--route", "198.51.100.0/24"],
        "route's controller": ["--route", "10.9.0.0/24"],
    }.get(way, ["--cgroup", str(cgroup.path)])
    pair.sh(pair.client, "ip", "route", "add", "default", "via", "10.9.0.2")
    inside(pair, "use", name, *use)
    assert texts(status()["others"], name) == []
    if way == "default":
        set_default(pair, PLAIN)
    elif way == "route":
        pair.sh(pair.client, "ip", "route", "del", "198.51.100.0/24")
    elif way == "route's controller":
        same = f"10.9.0.0/24 dev {pair.dev_c} proto kernel scope link src 10.9.0.1 congctl reno"
        pair.sh(pair.client, "ip", "route", "change", *same.split())
    elif way == "program":
        (prog,) = cgroup.programs()
        run("bpftool", "cgroup", "detach", cgroup.path, "sock_ops", "id", prog["id"])
    else:
        cgroup.path.rmdir()
    ns = f"netns {pair.client}"
    expected = {
        "default": f"it was made the default of {ns}, which has {PLAIN} now",
        "route": f"route 198.51.100.0/24 in {ns} was given it, and is gone, or was written anew without it",
        "route's controller": f"route 10.9.0.0/24 in {ns} was given it, and has another now: reno",
        "program": f"cgroup {cgroup.path} was given it, and has it no more",
        "cgroup": f"cgroup {cgroup.path} was given it, and was removed since, as by a restart of its service",
    }[way]
    ((text, mend),) = [(row["text"], row["mend"]) for row in status()["others"] if row["name"] == name]
    assert text == expected
    cgroup.path.mkdir(exist_ok=True)
    again, back = mend.split(", or ")
    if end == "use":
        run(*named_command(again.removesuffix(" when it is there again").removesuffix(" again")))
    else:
        run(*named_command(back.partition(";")[0]))
    assert texts(status()["others"], name) == []
    asymcc("unload", name, *["--drain"] * (end == "use"))


@needs_cgroup2
def test_a_program_of_somebody_else_that_has_the_last_word_is_named(loaded, cgroup, last_word):
    name = loaded("fast")
    asymcc("use", name, "--cgroup", cgroup.path)
    last_word("choose", cgroup.path)
    (text,) = texts(status()["others"], name)
    assert str(cgroup.path) in text and "runs after asymcc_use" in text


def test_a_use_of_another_in_the_same_cgroup_is_no_loss(loaded, cgroup):
    one, other = loaded("fast"), loaded("fast")
    asymcc("use", one, "--cgroup", cgroup.path)
    asymcc("use", other, "--cgroup", cgroup.path)
    others = status()["others"]
    assert texts(others, one) == texts(others, other) == []
    assert [f.read_text().split() for f in STATE.glob("cgroup-*") if str(cgroup.path) in f.read_text()] == [
        [other, str(cgroup.path)]
    ]
    asymcc("unload", other, "--drain", "--seconds", "0")
    assert not [f for f in STATE.glob("cgroup-*") if str(cgroup.path) in f.read_text()]


UNITS = """
ip link set lo up
ip addr add 192.0.2.1/32 dev lo
mount -t tmpfs none /etc
mkdir -p /etc/systemd/system/multi-user.target.wants /etc/asymcc
mount -t tmpfs -o mode=755 none /run/asymcc
cd /etc/systemd/system/multi-user.target.wants
"""


def test_what_lasts_is_what_the_enabled_units_say(alias, cgroup):
    """In a namespace whose first process is the machine's, so that it is the one that units serve."""
    kept, by_hand, idle = alias(), alias(), alias()
    asymcc("load", "fast", "--as", kept)
    asymcc("load", "fast", "--as", by_hand)
    use = f"--route 192.0.2.0/24 --cgroup={cgroup.path} -r 2001:db8::/32"
    script = (
        UNITS
        + f"""
ln -s /lib/asymcc@.service asymcc@{kept}.service
ln -s /lib/asymcc@.service asymcc@wrong.service
ln -s /lib/asymcc-thin.service .
echo 'LOAD=--set alpha=30\nUSE="{use}"' >/etc/asymcc/{kept}.conf
echo 'USE=--cgroup {cgroup.path} --share 10% -w 20%' >/etc/asymcc/{idle}.conf
echo 'USE=--default elsewhere' >/etc/asymcc/wrong.conf
echo 'THIN=--max 8 -c {cgroup.path}' >/etc/asymcc/thin.conf
ip route add 192.0.2.0/24 dev lo
{ASYMCC} use {kept} --route 192.0.2.0/24 --cgroup {cgroup.path} --default >&2
{ASYMCC} thin --cgroup {cgroup.path} >&2
{ASYMCC} status --json
"""
    )
    done = run(*"unshare --fork --pid --mount --net --mount-proc sh -ec".split(), script)
    seen = json.loads(done.stdout)
    assert [row["after_reboot"] for row in seen["loaded"] if row["name"] == kept] == [True]
    assert [row["after_reboot"] for row in seen["loaded"] if row["name"] == by_hand] == [False]
    assert {row["by"]: row["after_reboot"] for row in seen["used"] if row["name"] == kept} == {
        "default": False,
        "route": True,
        "cgroup": True,
    }
    assert [row["after_reboot"] for row in seen["thinned"] if row["cgroup"] == str(cgroup.path)] == [True]
    (unit,) = texts(seen["boot"], kept)
    assert unit == f"asymcc@{kept}.service: load {kept} --set alpha=30; use {use}; not so now: --route 2001:db8::/32"
    (no_unit,) = [row for row in seen["boot"] if row["name"] == idle]
    assert no_unit["text"] == f"nothing starts what /etc/asymcc/{idle}.conf says"
    assert no_unit["mend"] == f"systemctl enable asymcc@{idle}.service"
    assert texts(seen["boot"], "wrong") == ["/etc/asymcc/wrong.conf: its USE is wrong"]
    assert "use takes no name" in done.stderr
    assert texts(seen["boot"], "thin") == [f"asymcc-thin.service: thin --max 8 -c {cgroup.path}"]


def test_without_rights_it_tells_what_it_could_not_see(alias, pair):
    name = alias()
    asymcc("load", "fast", "--as", name)
    inside(pair, "use", name, "--route", "10.9.0.0/24")
    nobody = [*enter(pair.client), *NOBODY, "--bounding-set=-all"]
    with held_open(pair, name):
        seen = status(*nobody)
        text = run(*nobody, ASYMCC, "status").stdout
    for section in "loaded", "shares", "thinned", "others":
        assert f"{section}: not seen: it needs root\n" in text
    assert seen["loaded"] == [] and {row["name"] for row in seen["unseen"]} == {"programs", "namespaces"}
    assert [(row["by"], row["where"], row["connections"]) for row in seen["used"] if row["name"] == name] == [
        ("route", "10.9.0.0/24", None),
        ("connections", None, 1),
    ]


def test_the_kernels_own_default_is_nobodys_use(pair):
    """A route by hand names it; its own defaults and connections are there without anybody."""
    run("ip", "-n", pair.client, "route", "replace", "198.51.100.0/24", "via", "10.9.0.2", "congctl", PLAIN)
    rows = [(row["by"], row["netns"]) for row in status()["used"] if row["name"] == PLAIN and row["by"] == "default"]
    assert rows == []
    rows = [row["by"] for row in status()["used"] if row["netns"] == f"netns {pair.client}"]
    assert rows == ["route"]


def test_it_changes_nothing_and_an_idle_machine_has_one_screen():
    before = {f.name: f.stat().st_mtime_ns for f in STATE.glob("*")}
    text = asymcc("status")
    assert {f.name: f.stat().st_mtime_ns for f in STATE.glob("*")} == before
    left = text.count("; unloaded, it stays until its users end\n")  # by other trials on this kernel
    assert text.count("\n") - left <= 24 and "unseen: nothing" in text


@pytest.mark.parametrize("kind", ["route", "default", "try"])
def test_a_damaged_record_is_named_and_hides_nothing_else(kind):
    cookie = socket.socket(socket.AF_UNIX).getsockopt(socket.SOL_SOCKET, 71, 8)  # SO_NETNS_COOKIE
    name = {"route": "route-%d-10.0.0.0+8", "default": "default-%d", "try": "try-zz%.0s"}[kind]
    file = f"/run/asymcc/{name % int.from_bytes(cookie, sys.byteorder)}"
    for command, code in (("status", 1), ("metrics --interval 0", 0), ("list", int(kind != "try"))):
        place = f"mount -t tmpfs none /run && mkdir -m 755 -p /run/asymcc && echo '!!' >'{file}' && {ASYMCC} {command}"
        done = run("unshare", "-m", "sh", "-c", place, check=False)
        unseen = [line for line in done.stderr.splitlines() if "cannot be seen from here" not in line]
        assert unseen == [f"asymcc: {file} is damaged: remove it"] * (command == "status" or kind != "try")
        last = {"status": "unseen: ", "metrics --interval 0": "# EOF\n", "list": "\nfast "}[command]
        assert done.returncode == code and last in done.stdout


def test_a_file_that_is_none_holds_nothing_up(tmp_path):
    """A FIFO would wait for a writer for ever."""
    place = (
        "mount -t tmpfs none /run && mkdir -p /run/asymcc && mkfifo /run/asymcc/try-x && mkdir /run/asymcc/default-1"
    )
    for command in "status", "doctor":
        done = run("unshare", "-m", "sh", "-c", f"{place} && timeout 20 {ASYMCC} {command}", check=False)
        assert done.returncode == 1 and "asymcc: /run/asymcc/try-x is no regular file: remove it\n" in done.stderr
