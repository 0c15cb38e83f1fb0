# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc doctor`: this machine, other rights, and what was left."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.live.cgroups import Cgroup, within
from tests.live.harness import ASYMCC, STATE, asymcc, endpoint, listed, program, pytestmark, run  # noqa: F401
from tests.live.pairs import enter, inside, listening


def test_doctor_names_originals_of_namespaces_that_are_gone(loaded, pair):
    """And of none that is there, with a name or by a process alone."""

    def strangers() -> list[str]:
        return [
            r["mend"]
            for r in json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
            if r["check"] == name and "not found" in r["text"] and r["state"] == "note"
        ]

    name = loaded("fast")
    inside(pair, "use", name, "--default")
    with program("unshare", "-n", "sh", "-c", f"{ASYMCC} use {name} --default && read line") as p:
        assert p.stdout.readline() == f"{name} is used by default\n" and strangers() == []
    (line,) = strangers()
    file = Path(line.removeprefix("rm ").split(",")[0])
    assert file.parent == STATE and file.name.startswith("default-")
    file.unlink()
    assert strangers() == []


def test_doctor_of_this_machine():
    done = run(ASYMCC, "doctor", "--json", check=False)
    checks = {r["check"]: r for r in json.loads(done.stdout)}
    assert {"kernel", "BTF", "JIT", "capabilities", "cgroup2", "libbpf", "objects"} <= checks.keys()
    assert checks["BTF"]["state"] == "ok" and checks["kernel"]["text"] == os.uname().release
    assert done.returncode == any(r["state"] == "bad" for r in checks.values())
    assert run(ASYMCC, "doctor", check=False).stdout.count("\n") == len(json.loads(done.stdout))


def test_doctor_tells_where_the_kernels_configuration_is_missing(tmp_path):
    """Objects of others ask for it: libbpf looks into these two files."""
    files = [f"/boot/config-{os.uname().release}", "/proc/config.gz"]
    hide = "; ".join(f"[ ! -e {file} ] || mount --bind /dev/null {file}" for file in files)

    def seen(command: str) -> dict:
        done = run("unshare", "-m", "sh", "-c", f"{command}; {ASYMCC} doctor --json", check=False)
        (line,) = (r for r in json.loads(done.stdout) if r["check"] == "kernel's config")
        return line

    there = next((file for file in files if Path(file).exists()), None)
    assert seen("true")["text"] == there or there is None
    assert seen(hide)["state"] == "note" and all(file in seen(hide)["text"] for file in files)


def test_doctor_tells_of_frto_where_formosa_is_loaded(alias, pair):
    """In its namespace; of another controller it tells nothing."""

    def notes() -> list[str]:
        done = json.loads(inside(pair, "doctor", "--json"))
        return [r["check"] for r in done if r["state"] == "note" and r["mend"] == "sysctl -w net.ipv4.tcp_frto=0"]

    name, other = alias(), alias()
    asymcc("load", "fast", "--as", other)
    asymcc("load", "formosa", "--as", name)
    assert name in notes() and other not in notes()
    pair.sh(pair.client, "sysctl", "-qw", "net.ipv4.tcp_frto=0")
    assert name not in notes()


def test_doctor_without_rights():
    done = run("setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all", ASYMCC, "doctor", check=False)
    assert done.returncode == 1 and "missing: CAP_BPF" in done.stdout and "run it as root" in done.stdout


def test_doctor_without_objects(tmp_path):
    done = run(ASYMCC, "doctor", "--objects", tmp_path, check=False)
    assert done.returncode == 1 and f"none in {tmp_path}" in done.stdout


def test_who_has_the_last_word_in_a_cgroup_is_told(alias, pair, cgroup, last_word):
    """A program of somebody else, above ours or beside it, runs after it; one below runs before it, and is not told."""
    name = alias()
    ours = cgroup.child()
    below = ours.child()

    def lines() -> set[tuple[str, str]]:
        doctor = json.loads(run(ASYMCC, "doctor", "--json", check=False).stdout)
        notes = [r["text"] for r in doctor if r["check"] == name and "may choose another" in r["text"]]
        after = listed(name)["after"]
        for a in after:
            words = f"in {ours.path} program {a['program']} of {a['cgroup']} runs after"
            assert a["used_in"] == str(ours.path) and [n for n in notes if n.startswith(words)]
            assert f"after it in {ours.path} runs {a['program']} (program {a['id']}) of {a['cgroup']}" in asymcc("list")
        assert len(notes) == len(after)
        return {(a["program"], a["cgroup"]) for a in after}

    def chosen(by: Cgroup) -> str:
        with listening(pair):
            return run(
                *enter(pair.client), *within(by.path), *endpoint("tell", address="10.9.0.2", port=7400)
            ).stdout.strip()

    asymcc("load", "fast", "--as", name)
    asymcc("use", name, "--cgroup", ours.path)
    last_word("choose", below.path)
    assert lines() == set() and chosen(ours) == chosen(below) == name
    last_word("ask", ours.path)
    assert lines() == {("ask", str(ours.path))} and chosen(ours) == name
    last_word("choose", cgroup.path)
    assert lines() == {("ask", str(ours.path)), ("choose", str(cgroup.path))} and chosen(ours) == "reno"
