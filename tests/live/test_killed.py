# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Commands that are killed, that lack descriptors, or whose state files others lay in the way of."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.live.harness import ASYMCC, STATE, asymcc, kernel_has, needs_cgroup2, pytestmark, run  # noqa: F401
from tests.live.pairs import PLAIN, default, enter, inside, routes, set_default, steady


@pytest.mark.parametrize(
    "function, call",
    [
        ("renameat", 1),
        ("write", 1),
        ("write", 2),
        ("bpf_prog_attach_opts", 1),
        ("bpf_prog_detach2", 1),
        ("bpf_map_delete_elem", 1),
        ("bpf_map__attach_struct_ops", 1),
        *(("send", n) for n in range(1, 13)),
    ],
)
def test_killed_anywhere_it_can_be_cleaned_up(function, call, alias, pair, cgroup, trip):
    """use, replace and drain, killed at some call: flows go on, `doctor` names what is left, `unload --drain` cleans
    it."""
    name = alias()
    set_default(pair, PLAIN)
    before = routes(pair)
    asymcc("load", "fast", "--as", name)
    with steady(pair, name) as send:
        killed = 0
        for argv in (
            ["use", name, "--default", "--route", "10.9.0.0/24", "--cgroup", cgroup.path],
            ["load", "fast", "--as", name, "--replace"],
            ["unload", name, "--drain", "--seconds", "0"],
        ):
            done = run(*enter(pair.client), ASYMCC, *argv, env=trip(function, call), check=False)
            assert done.returncode in (-9, 0, 1, 137), done.stderr
            killed += done.returncode in (-9, 137)
            assert send(1000) == name
        run(ASYMCC, "unload", name, "--drain", "--seconds", "0", check=False)
        assert send(1000) == name
    assert not kernel_has(name) and default(pair) == PLAIN and cgroup.names() == []
    asymcc("load", "fast", "--as", name)  # the kernel shows a route's controller only while it is registered
    assert routes(pair) == before and [f.name for f in STATE.glob(f"*{name}")] == [f"loaded-{name}"]
    asymcc("unload", name)
    assert not list(STATE.glob(f"*{name}"))
    assert not [
        r
        for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
        if r["check"] == name and r["state"] == "bad"
    ]
    assert killed


def test_success_is_said_only_of_what_is_done(halves, cgroup, tmp_path):
    """Taken back and out with too few descriptors: with each more of them it gets a step further."""
    shutil.copy(ASYMCC.parent / "use.bpf.o", tmp_path)
    at = "--cgroup", cgroup.path
    for argv in (["unload", halves, "--drain", "--seconds", "0"], ["unuse", halves], ["unuse", halves, *at]):
        refusals = 0
        for limit in range(4, 40):
            asymcc("load", halves, *at)
            asymcc("use", halves, *at)
            done = run("prlimit", f"--nofile={limit}", ASYMCC, *argv, check=False)
            names = cgroup.names()
            assert done.returncode in (0, 1) and ("asymcc_use" not in names if done.returncode == 0 else done.stderr), (
                limit,
                done,
                names,
            )
            if argv[0] == "unload":
                assert done.returncode or not (names or kernel_has(halves)), (limit, done, names)
            run(ASYMCC, "unload", halves, "--drain", "--seconds", "0", check=False)
            assert cgroup.names() == [] and not kernel_has(halves)
            if done.returncode == 0:
                break
            refusals += 1
        assert refusals > 1 and done.returncode == 0


def test_a_namespace_that_cannot_be_looked_into_is_told(alias, pair):
    """With too few descriptors for it, no command takes it for one that does not use the controller."""
    name, lines = alias(), []
    asymcc("load", "fast", "--as", name)
    inside(pair, "use", name, "--default")
    for limit in range(4, 20):
        for argv in (["list", "--json"], ["unload", name]):
            done = run("prlimit", f"--nofile={limit}", ASYMCC, *argv, check=False)
            assert kernel_has(name), (limit, done)
            assert done.returncode == 1 and done.stderr.count("\n") == 1 or f"netns {pair.client}" in done.stdout, (
                limit,
                done,
            )
            lines.append("cannot look into every network namespace: Too many open files" in done.stderr)
    assert any(lines[0::2]) and f"default of netns {pair.client}" in done.stderr


@needs_cgroup2
@pytest.mark.parametrize("wrong", ["a symlink", "another's", "writable"])
def test_a_state_folder_that_is_not_roots_alone_is_refused(wrong, loaded, tmp_path):
    name = loaded("fast")
    make = {
        "a symlink": f"ln -s {tmp_path} /run/asymcc",
        "another's": "mkdir /run/asymcc && chown 65534 /run/asymcc",
        "writable": "mkdir -m 1777 /run/asymcc",
    }[wrong]
    done = run(
        "unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && {make} && exec {ASYMCC} unload {name}", check=False
    )
    assert done.returncode == 1 and "/run/asymcc" in done.stderr and done.stderr.count("\n") == 1 and kernel_has(name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_the_half_written_file_is_named(pair, loaded):
    use = f"{ASYMCC} use {loaded('fast')} --default"
    script = f"mount -t tmpfs -o mode=755 none /run/asymcc && mkdir /run/asymcc/.part && {use}"
    done = run(*enter(pair.client), "unshare", "-m", "sh", "-c", script, check=False)
    assert done.returncode == 1 and done.stderr == "asymcc: /run/asymcc/.part is no regular file: remove it\n"


def test_what_lies_in_the_state_folders_way_is_not_written_to(alias, pair, tmp_path):
    name, victim = alias(), tmp_path / "victim"
    victim.write_text("as it was")
    asymcc("load", "fast", "--as", name)
    script = (
        f"mount -t tmpfs -o mode=755 none /run/asymcc && ln -s {victim} /run/asymcc/.part && "
        f"{ASYMCC} use {name} --default && cat /run/asymcc/default-*"
    )
    done = run(*enter(pair.client), "unshare", "-m", "sh", "-c", script)
    assert f" {name} " in done.stdout and victim.read_text() == "as it was"
