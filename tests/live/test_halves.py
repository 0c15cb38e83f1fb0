# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Controllers with programs for a cgroup: load, list, show, unload, killed, beside programs of others."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess

import pytest

from tests.live.cgroups import shown, talking, written_name
from tests.live.harness import (  # noqa: F401
    ASYMCC,
    CGROUP2,
    asymcc,
    kernel_has,
    listed,
    program,
    pytestmark,
    refused,
    refused_env,
    run,
    values,
)
from tests.live.pairs import PLAIN, set_default
from tests.live.sources import HALVES, PROGRAMS, build_halves


def test_life_of_halves(halves, cgroup):
    path = str(cgroup.path)
    assert shown(halves) == ([], sorted(PROGRAMS)) and "t_opts" in asymcc("show", halves)
    assert (
        asymcc("load", halves, "--cgroup", path, "--set", "tiny=4")
        == f"{halves} registered (tiny=4), with programs in {path}\n"
    )
    assert {(p["name"], p["attach_type"], p["attach_flags"]) for p in cgroup.programs()} == {
        ("t_opts", "cgroup_sock_ops", "multi"),
        ("t_sent_packets_", "cgroup_inet_egress", "multi"),
    }
    assert kernel_has(halves) and shown(halves) == ([path], sorted(PROGRAMS))
    assert f"programs in {path}\n" in asymcc("list")
    text = asymcc("show", halves).splitlines()
    assert f"  t_opts           {path}" in text and f"  t_sent_packets_  {path}" in text
    assert "with tiny=4, not 3" in refused("load", halves, "--cgroup", path)
    same = ["load", halves, "--set", "tiny=4"]
    assert asymcc(*same) == asymcc(*same, "--cgroup", path) == f"{halves} is registered already\n"
    line = refused(*same, "--cgroup", cgroup.child().path)
    assert "registered already" in line and "without its programs in" in line

    before = values(halves, "counters")
    assert set(before) == {"events", "sent"}, "counters of the halves alone"
    with talking(cgroup, halves) as say:
        say(10_000)
        assert f"; programs in {path}\n" in asymcc("list")
    after = values(halves, "counters")
    assert after["events"] - before["events"] >= 2 and after["sent"] - before["sent"] >= 6
    assert values(halves)["tiny"] == 4 and "asymcc_name" not in values(halves)

    assert asymcc("unload", halves) == f"{halves} unloaded; detached from {path}\n"
    assert not kernel_has(halves) and cgroup.names() == [] and listed(halves)["cgroups"] == []
    assert asymcc("unload", halves) == f"{halves} is not registered\n"


def test_show_of_one_without_halves(loaded):
    assert shown("fast") == ([], []) and "cgroup" not in asymcc("show", "fast")
    name = loaded("fast")
    assert shown(name) == ([], []) and listed(name)["cgroups"] == []
    assert "cgroup" not in asymcc("show", name)


def test_name_that_is_written(halves, loaded, cgroup):
    other = loaded(halves, "--cgroup", cgroup.path)
    assert written_name(cgroup) == other
    assert shown(other) == ([str(cgroup.path)], sorted(PROGRAMS)) and shown(halves)[0] == []
    asymcc("unload", other)
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert written_name(cgroup) == halves


@pytest.mark.parametrize("section", ["sockops", "cgroup_skb/egress", "cgroup_skb/ingress"])
def test_object_with_one_half(section, tmp_path, alias, cgroup):
    name = alias()
    context = {"sockops": "bpf_sock_ops", "cgroup_skb/egress": "__sk_buff", "cgroup_skb/ingress": "__sk_buff"}[section]
    build_halves(
        tmp_path,
        name,
        f'const volatile char asymcc_name[16] = ""; SEC("{section}") int one(struct {context} *ctx) {{ return 1; }}',
    )
    asymcc("load", name, "--objects", tmp_path, "--cgroup", cgroup.path)
    assert cgroup.names() == ["one"]
    assert asymcc("unload", name) == f"{name} unloaded; detached from {cgroup.path}\n", (
        "no map is shared, no object known"
    )
    assert cgroup.names() == []


ROOT_OF_ITS_OWN = """
set -e
umount -l -a -t cgroup2
mount -t cgroup2 none {mount}
test -e {mount}/cgroup.events    # not in the machine's root
test $(grep -c ' cgroup2 ' /proc/self/mounts) = 1
exec {asymcc} load {name}
"""


def test_root_is_the_default(halves, cgroup):
    """In a cgroup namespace, whose root is the test's own cgroup."""
    script = ROOT_OF_ITS_OWN.format(mount=CGROUP2[0], asymcc=ASYMCC, name=halves)
    done = run(*cgroup.sh('exec unshare -C -m sh -c "$0"'), script)
    assert done.stdout == f"{halves} registered, with programs in {CGROUP2[0]}\n"
    assert shown(halves)[0] == [str(cgroup.path)] and set(cgroup.names()) == PROGRAMS
    asymcc("unload", halves)
    assert cgroup.names() == []


def test_no_cgroup2(halves):
    done = run("unshare", "-m", "sh", "-c", f"umount -l -a -t cgroup2; exec {ASYMCC} load {halves}", check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "mount -t cgroup2" in done.stderr and f"bpftool struct_ops register {halves}.bpf.o" in done.stderr
    assert not kernel_has(halves)
    for argv in (f"load fast --as {halves}", "list", f"show {halves}", f"unload {halves}"):  # these need none
        run(
            "unshare",
            "-m",
            "sh",
            "-c",
            f"umount -l -a -t cgroup2; exec {ASYMCC} {argv}",
            env=os.environ | {"ASYMCC_OBJECTS": str(ASYMCC.parent)},
        )
    assert not kernel_has(halves)


def test_wrong_cgroups(halves, alias, cgroup, tmp_path):
    nowhere = cgroup.path / "nowhere"
    line = refused("load", halves, "--cgroup", nowhere)
    assert str(nowhere) in line and "mkdir" in line and CGROUP2[0] in line
    for wrong in (tmp_path, cgroup.path / "cgroup.procs", "/proc"):
        line = refused("load", halves, "--cgroup", wrong)
        assert str(wrong) in line and "not a directory of cgroup2" in line and CGROUP2[0] in line
    line = refused("load", "fast", "--objects", ASYMCC.parent, "--as", alias(), "--cgroup", cgroup.path)
    assert "fast has no programs for a cgroup that asymcc would find again" in line
    assert "--cgroup" in asymcc("load", "--help")
    assert cgroup.names() == [] and not kernel_has(halves)


def test_load_that_fails_leaves_nothing(halves, cgroup, tmp_path, trip):
    def programs_of() -> bool:
        return bool(cgroup.names()) or kernel_has(halves)

    line = refused("load", halves, "--as", "reno", "--cgroup", cgroup.path)
    assert "congestion control of that name" in line and not programs_of()
    for call in (1, 2):
        (line,) = refused_env(trip("bpf_prog_attach", call, errno.E2BIG), "load", halves, "--cgroup", cgroup.path)
        assert sorted(PROGRAMS)[call - 1] in line and str(cgroup.path) in line and "full" in line and not programs_of()
    (line,) = refused_env(trip("bpf_map__attach_struct_ops", 1, errno.EBUSY), "load", halves, "--cgroup", cgroup.path)
    assert "cannot register" in line and not programs_of()
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert programs_of()


def test_cgroup_of_one_who_admits_no_other(halves, tmp_path, alias, cgroup):
    name = alias()
    build_halves(tmp_path, name, 'SEC("sockops") int foreign(struct bpf_sock_ops *ops) { return 1; }')
    script = f"""mount -t bpf none /mnt && bpftool prog loadall {tmp_path / name}.bpf.o /mnt/progs &&
        bpftool cgroup attach {cgroup.path} sock_ops pinned /mnt/progs/foreign"""
    run("unshare", "-m", "sh", "-c", script)
    for where in (cgroup, cgroup.child()):
        line = refused("load", halves, "--cgroup", where.path)
        assert "t_opts" in line and str(where.path) in line and "admits no other" in line
        assert cgroup.names() == ["foreign"] and not kernel_has(halves)


def test_second_instance(halves, alias, cgroup):
    """Two on one connection are refused; two beside each other do not touch each other."""
    first, beside = cgroup.child(), cgroup.child()
    a, b = alias(), alias()
    asymcc("load", halves, "--as", a, "--cgroup", first.path)
    for where in (first, first.child(), cgroup):
        line = refused("load", halves, "--as", b, "--cgroup", where.path)
        assert f"asymcc unload {a}" in line and "--cgroup" in line
        assert not kernel_has(b) and cgroup.names() == [] and set(first.names()) == PROGRAMS
    asymcc("load", halves, "--as", b, "--cgroup", beside.path)
    assert shown(a)[0] == [str(first.path)] and shown(b)[0] == [str(beside.path)]
    assert asymcc("unload", halves) == f"{halves} is not registered\n", "the object's own name is nobody's"
    with talking(first, a) as say:
        say(1000)
    assert values(a, "counters")["events"] > 0 and values(b, "counters") == {"events": 0, "sent": 0}
    asymcc("unload", a)
    assert first.names() == [] and set(beside.names()) == PROGRAMS and shown(b)[0] == [str(beside.path)]
    asymcc("unload", b)
    assert beside.names() == []


def test_unload_under_an_open_connection(halves, alias, cgroup):
    other = alias()
    asymcc("load", halves, "--cgroup", cgroup.path)
    with talking(cgroup, halves) as say:
        say(100_000)
        lines = asymcc("unload", halves).splitlines()
        assert lines[0] == f"{halves} unloaded; detached from {cgroup.path}; 1 socket keeps it until closed"
        assert cgroup.names() == [] and listed(halves)["unloading"] and shown(halves) == ([], sorted(PROGRAMS))
        say(100_000)
        assert asymcc("unload", halves).startswith(f"{halves} is unloaded already; 1 socket keeps it until closed\n")
        asymcc("load", halves, "--as", other, "--cgroup", cgroup.path)  # the cgroup is free again
        say(100_000)


def test_unload_that_is_refused_detaches_nothing(halves, cgroup, pair, trip):
    asymcc("load", halves, "--cgroup", cgroup.path)
    set_default(pair, halves)
    assert "default of" in refused("unload", halves) and set(cgroup.names()) == PROGRAMS
    set_default(pair, PLAIN)
    (line,) = refused_env(trip("bpf_map_delete_elem", 1, errno.EOPNOTSUPP), "unload", halves)
    assert "BPF link" in line and kernel_has(halves) and set(cgroup.names()) == PROGRAMS


def test_unload_says_what_it_could_not_detach(halves, cgroup, trip):
    asymcc("load", halves, "--cgroup", cgroup.path)
    (line,) = refused_env(trip("bpf_prog_detach2", 1, errno.EBUSY), "unload", halves)
    assert f"t_opts stays attached to {cgroup.path}: Device or resource busy" in line
    assert not kernel_has(halves) and cgroup.names() == ["t_opts"]
    assert (
        asymcc("unload", halves)
        == f"{halves} is not registered; its programs were left over and are detached from {cgroup.path}\n"
    )
    assert cgroup.names() == []


@pytest.mark.parametrize(
    "function, call, remains",
    [("bpf_prog_attach", 1, set()), ("bpf_prog_attach", 2, {"t_opts"}), ("bpf_map__attach_struct_ops", 1, PROGRAMS)],
)
def test_load_that_is_killed(function, call, remains, halves, alias, cgroup, trip):
    """At each step; by an alias, beside another live instance and another's left-overs."""
    first, beside, apart = cgroup.child(), cgroup.child(), cgroup.child()
    a, b, c = alias(), alias(), alias()
    asymcc("load", halves, "--as", b, "--cgroup", beside.path)
    for name, where in ((a, first), (c, apart)):
        done = run(ASYMCC, "load", halves, "--as", name, "--cgroup", where.path, env=trip(function, call), check=False)
        assert done.returncode == -signal.SIGKILL and not kernel_has(name) and set(where.names()) == remains
    if not remains:
        assert asymcc("unload", a) == f"{a} is not registered\n"
        return
    assert f"asymcc unload {a}" in refused("load", halves, "--as", alias(), "--cgroup", first.path)
    assert asymcc("unload", halves) == f"{halves} is not registered\n", "these have their names written in them"
    line = f"{a} is not registered; its programs were left over and are detached from {first.path}\n"
    assert asymcc("unload", a) == line and first.names() == []
    assert set(beside.names()) == PROGRAMS and shown(b)[0] == [str(beside.path)] and set(apart.names()) == remains
    asymcc("load", halves, "--as", a, "--cgroup", first.path)


def test_struct_ops_alone_unregistered(halves, cgroup):
    """By bpftool; with a connection open the controller is still known, without one only by what is attached."""

    def unregister() -> None:
        run("bpftool", "struct_ops", "unregister", "id", listed(halves)["map_id"])

    asymcc("load", halves, "--cgroup", cgroup.path)
    with talking(cgroup, halves) as say:
        say(1000)
        unregister()
        assert set(cgroup.names()) == PROGRAMS and listed(halves)["unloading"]
        assert (
            asymcc("unload", halves)
            == f"{halves} is unloaded already; its programs were left over and are detached from {cgroup.path}\n"
        )
        assert cgroup.names() == []
        say(1000)
    asymcc("load", halves, "--cgroup", cgroup.path)
    unregister()
    assert set(cgroup.names()) == PROGRAMS and shown(halves) == ([str(cgroup.path)], sorted(PROGRAMS))
    assert f"asymcc unload {halves}" in refused("load", halves, "--cgroup", cgroup.path)
    assert "left over" in asymcc("unload", halves) and cgroup.names() == []


def test_programs_of_others_stay_whatever_they_are_called(halves, alias, cgroup, foreign, trip):
    """`unload` of what was loaded, of what was killed half way, and of what never was."""

    def own() -> set[str]:
        return {p["name"] for p in cgroup.programs() if p not in foreign}

    nothing = asymcc("unload", halves), asymcc("unload", halves, "--drain", "--seconds", "0")
    assert nothing == (f"{halves} is not registered\n",) * 2
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert own() == PROGRAMS
    asymcc("unload", halves)
    run(ASYMCC, "load", halves, "--cgroup", cgroup.path, env=trip("bpf_map__attach_struct_ops", 1), check=False)
    assert own() == PROGRAMS
    asymcc("unload", halves)
    assert own() == set()


def test_halves_that_could_not_be_told_from_others_are_not_loaded(tmp_path, alias, cgroup, monkeypatch):
    monkeypatch.setenv("ASYMCC_OBJECTS", str(tmp_path))
    name = alias()
    build_halves(tmp_path, name, HALVES.replace('const volatile char asymcc_name[16] = "";', ""))
    assert "asymcc_name[16]" in refused("load", name, "--cgroup", cgroup.path)
    assert cgroup.names() == [] and not kernel_has(name)
    assert "left out: t_opts, t_sent_packets_" in asymcc("load", name) and cgroup.names() == []


def test_sender_alone(halves, tmp_path, cgroup):
    run("bpftool", "struct_ops", "register", tmp_path / f"{halves}.bpf.o")
    assert shown(halves) == ([], sorted(PROGRAMS)) and values(halves, "counters") == {}
    assert "only the sender is in place" in asymcc("show", halves)
    assert asymcc("unload", halves) == f"{halves} unloaded\n"
    asymcc("load", halves, "--cgroup", cgroup.path)
    assert "only the sender" not in asymcc("show", halves)


def test_loads_wait_for_each_other(halves, cgroup):
    asymcc("load", halves, "--cgroup", cgroup.path)  # makes the folder of the lock, if nothing has
    asymcc("unload", halves)
    fd = os.open("/run/asymcc/lock", os.O_RDWR)
    assert os.fstat(fd).st_mode & 0o777 == 0o600, "others cannot hold it"
    fcntl.flock(fd, fcntl.LOCK_EX)
    with program(ASYMCC, "load", halves, "--cgroup", cgroup.path) as p:
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(1)
        assert cgroup.names() == [] and not kernel_has(halves)
        os.close(fd)
        assert p.wait(60) == 0
    assert set(cgroup.names()) == PROGRAMS and kernel_has(halves)


def test_programs_are_attached_only_if_they_would_be_found_again(halves, cgroup, trip):
    """If libbpf's probe of the kernel fails, it leaves out the name that is written into them."""
    for call in range(1, 17):
        env = trip("MAP_CREATE", call, errno.EMFILE)
        done = run(ASYMCC, "load", halves, "--cgroup", cgroup.path, env=env, check=False)
        if not done.returncode:
            assert "tiny" in values(halves) and "events" in values(halves, "counters"), (call, done)
            asymcc("unload", halves)
        assert cgroup.programs() == [] and not kernel_has(halves), (call, done)
