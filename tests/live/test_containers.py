# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Containers against root's commands: an unprivileged user owns a network namespace, and asymcc looks into all."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from asymlab.guest.host import HostRecord
from tests.live.harness import ASYMCC, NOBODY, asymcc, kernel_has, listed, other, run, saying, unique
from tests.live.harness import pytestmark as pytestmark

OWNER = (*NOBODY, *"unshare --user --map-root-user --net --kill-child".split())


def test_forged_netlink_messages_are_not_heard():
    with saying("ready", *OWNER, *other("forge")):
        for _ in range(30):
            done = run(ASYMCC, "list", "--json")
            (forged,) = [row for row in json.loads(done.stdout) if row["name"] == "ctcp"]
            assert forged["used_by"] == [] and not done.stderr
            top = run(ASYMCC, "top", "ctcp", "--json", check=False)  # nobody has it, and the kernel neither
            assert top.stderr == "asymcc: no congestion control ctcp: neither the kernel has it now, nor a socket\n"


def test_a_container_cannot_keep_root_from_unloading(loaded):  # noqa: F811
    name = loaded("fast")
    with saying("ready", *OWNER, *other("hoard", name)):
        owner = listed(name)["used_by"][0]["netns"]
        unused = run(ASYMCC, "unuse", name, check=False)
        assert unused.returncode == 1 and f"{owner}: {name} may still be used there" in unused.stderr
        assert not listed(name)["used_by"][0]["default"] and len(listed(name)["used_by"][0]["routes"]) == 2
        unloaded = run(ASYMCC, "unload", name, "--drain", "--seconds", 5)
        assert f"{owner}: {name} may still be used there" in unloaded.stderr and not kernel_has(name)
    assert listed(name) is None


def test_a_namespace_that_cannot_be_read_hides_no_other(loaded, trip):  # noqa: F811
    """And the exit code tells that something is missing."""

    def in_part(*argv, call: int) -> str:
        done = run(ASYMCC, *argv, env=trip("send", call, errno.ECONNREFUSED), check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert re.fullmatch(r"asymcc: .*(host|netns \S+|pid \d+)\b.*: Connection refused.*\n", done.stderr), done.stderr
        return done.stdout

    name = loaded("fast")
    with saying("ready", *OWNER, *other("hoard", name)):
        rows = json.loads(asymcc("list", "--json"))
        for call in (1, 4, 7):  # two kinds of sockets, and two of routes with a question before, a namespace
            assert [row["name"] for row in json.loads(in_part("list", "--json", call=call))] == [
                row["name"] for row in rows
            ]
            assert name in in_part("list", call=call)
        assert not json.loads(in_part("top", "--json", "--interval", 0, call=3))["all_namespaces"]
        assert "refused" not in in_part("top", "--once", "--interval", 0, call=3)
        assert (
            "cannot be read"
            in run(ASYMCC, "unload", name, "--drain", "--seconds", 5, env=trip("send", 6, errno.ECONNREFUSED)).stderr
        )
        assert not kernel_has(name)


def test_a_namespace_that_cannot_be_read_keeps_no_run_of_the_lab_from_its_controllers(loaded, trip, monkeypatch):  # noqa: F811
    name = loaded("fast")
    here = {"PATH": f"{ASYMCC.parent}:{os.environ['PATH']}"}
    for key, value in (trip("send", 1, errno.ECONNREFUSED) | here).items():
        monkeypatch.setenv(key, value)
    assert HostRecord.registered()[name] > 0


def test_names_do_not_command_the_terminal(alias):  # noqa: F811
    name, ns = alias(), unique("\033[2J\u00e9")
    asymcc("load", "fast", "--as", name)
    try:
        run("ip", "netns", "add", ns)
        run("ip", "netns", "exec", ns, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}")
        shown = asymcc("list") + asymcc("list", "--json")
        assert shown.isascii() and shown.replace("\n", "").isprintable() and "netns ?[2J??" in shown
    finally:
        run("ip", "netns", "del", ns)


ODD = b'a\033[2J"\\b \xff\xc2\x9b\x7f \xc3\xa9'  # steers the terminal, ends a string, is no UTF-8; and one letter
ODD_TEXT, ODD_JSON = 'a?[2J"\\b ???? \u00e9', 'a\033[2J"\\b \ufffd\x9b\x7f \u00e9'


def test_names_of_cgroups_are_quoted_for_who_reads_them(alias, cgroup):  # noqa: F811
    """A cgroup may be called anything but "a/b": text, JSON and OpenMetrics each have their rules."""
    name, path = alias(), os.fsencode(cgroup.path) + b"/" + ODD
    os.mkdir(path)

    def output_of(*argv) -> str:
        done = subprocess.run([ASYMCC, *argv], capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        text = (done.stdout + done.stderr).decode()  # UTF-8
        assert not [c for c in text if c < " " and c != "\n" or "\x7f" <= c < "\xa0"]
        return text

    texts = [output_of("thin", "--cgroup", path), output_of("load", "formosa", "--as", name, "--cgroup", path)]
    texts += [output_of("use", name, "--cgroup", path), output_of("list"), output_of("show", name), output_of("top")]
    for text in texts:
        assert ODD_TEXT in text
    for argv in ["list"], ["show", name], ["top", "--interval", "0"], ["doctor"]:
        output = json.loads(output_of(*argv, "--json"))
        assert argv == ["doctor"] or f"{cgroup.path}/{ODD_JSON}" in strings(output)
    samples = [s for family in text_string_to_metric_families(output_of("metrics")) for s in family.samples]
    odd = {s.labels["cgroup"] for s in samples if s.labels.get("controller") == "thin"}
    assert odd == {f"{cgroup.path}/" + 'a\ufffd[2J"\\b \ufffd\ufffd\ufffd\ufffd \u00e9'}
    line = subprocess.run([ASYMCC, "unload", name], capture_output=True, timeout=60).stderr.decode()
    assert ODD_TEXT in line and "\033" not in line
    texts = [output_of("unload", name, "--drain"), output_of("thin", "--off", "--cgroup", path)]
    for text in texts:
        assert ODD_TEXT in text
    os.rmdir(path)


def strings(tree) -> set[str]:
    """All that are values in it."""
    if isinstance(tree, dict):
        return strings(list(tree.values()))
    return {tree} if isinstance(tree, str) else set().union(*map(strings, tree)) if isinstance(tree, list) else set()


@pytest.mark.parametrize(
    "command", [["list"], ["list", "--json"], ["doctor"], ["show", "nosuch"], ["load", "nosuch", "-v"]]
)
def test_names_of_objects_do_not_command_the_terminal(command, tmp_path):
    for name in (b"\033[2J", b"a\nboo", b"\xff"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name + b".bpf.o")).write_bytes(b"no object")
    done = subprocess.run([ASYMCC, "--objects", tmp_path, *command], capture_output=True, timeout=60)
    text = (done.stdout + done.stderr).decode()
    assert text and "\033" not in text and "\nboo" not in text
