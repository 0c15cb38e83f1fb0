# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Refusals of asymcc, and the words of its tables: words, options, values, help, completion, manual page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.harness import ASYMCC, BTF, NOBODY, asymcc, kernel_has, open_to_all, pytestmark, refused, run  # noqa: F401


@pytest.mark.parametrize(
    "argv, words",
    [
        (["load", "nosuch"], ["nosuch", "fast"]),
        (["show", "nosuch"], ["nosuch", "fast"]),
        (["load", "fast", "--as", "NAME", "--set", "alpah=3"], ["no parameter alpah", "alpha, gamma_q8"]),
        (["load", "fast", "--as", "NAME", "--set", "alph=3"], ["no parameter alph;"]),
        (["load", "fast", "--as", "NAME", "--set", "flows=3"], ["no parameter flows"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=65537"], ["out of range", "0 to 65536 packets"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=-1"], ["out of range"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=99999999999999999999"], ["out of range"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha=3x"], ["not an integer"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha="], ["not an integer"]),
        (["load", "fast", "--as", "NAME", "--set", "alpha"], ["param=value"]),
    ],
)
def test_wrong_values(alias, argv, words):
    name = alias()
    line = refused(*[name if a == "NAME" else a for a in argv])
    for w in words:
        assert w in line
    assert not kernel_has(name)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nosuch"],
        ["load"],
        ["load", "a", "b"],
        ["list", "x"],
        ["load", "fast", "--as"],
        ["load", "fast", "--nosuch"],
        ["list", "--as", "x"],
        ["trace", "--ports", "9-5", "-o", "/dev/null"],
        ["trace", "--bin-ms", "0", "-o", "/dev/null"],
    ],
)
def test_usage(argv):
    refused(*argv, code=2)


def test_help_comes_from_the_tables():
    text = asymcc("--help")
    for command in ("list", "load", "show", "unload", "trace"):
        assert command in text
        assert "--objects" in asymcc(command, "--help")
    assert "--set PARAM=VALUE" in asymcc("load", "--help") and "--set" not in asymcc("list", "--help")
    assert asymcc("--version").startswith("asymcc ")


@pytest.mark.parametrize("argv", ["thin --revers 1mbit", "thin --revers=1mbit", "list --jso", "--vers"])
def test_a_name_of_an_option_is_written_whole(argv):
    """Its begin may be that of two in the next version."""
    line = refused(*argv.split(), code=2)
    assert re.fullmatch(r"asymcc: unknown option --\w+: write --(reverse|json|version)\n", line)


def test_short_options_in_one_word_are_no_begin_of_a_long_one():
    assert asymcc("thin", "--atm", "-oh").startswith("asymcc thin [options]: ")


def test_objects_folder(tmp_path, alias):
    shutil.copy(ASYMCC.parent / "fast.bpf.o", tmp_path / "other.bpf.o")
    rows = {r["name"]: r for r in json.loads(asymcc("--objects", tmp_path, "list", "--json"))}
    assert rows["other"]["built"] and not rows.get("fast", {}).get("built")
    env = os.environ | {"ASYMCC_OBJECTS": str(tmp_path)}
    assert "other" in asymcc("list", env=env)
    name = alias()
    asymcc("load", "other", "--objects", tmp_path, "--as", name)
    assert kernel_has(name)
    (tmp_path / "broken.bpf.o").write_bytes(b"\x7fELF nonsense")
    assert "not a BPF object" in refused("load", "broken", "--objects", tmp_path)
    assert "other" in asymcc("--objects", tmp_path, "list")


def test_objects_that_cannot_be_read_are_told_and_hide_no_other(tmp_path):
    shutil.copy(ASYMCC.parent / "fast.bpf.o", tmp_path)
    (tmp_path / "folder.bpf.o").mkdir()
    for objects, why in ((tmp_path, "folder.bpf.o: not a regular file"), (tmp_path / "fast.bpf.o", "Not a directory")):
        done = run(ASYMCC, "--objects", objects, "list", check=False)
        assert done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1
        assert done.stdout.startswith("NAME ") and ("\nfast " in done.stdout) == (objects == tmp_path)


@pytest.mark.parametrize("name", ["", " ", "a/b", "../fast", "a b", "sixteen_letters_", "f\u00e4st", "a\nb"])
def test_names_are_checked_before_anything_else(name, cgroup, foreign):
    at = ("--cgroup", cgroup.path)
    for argv in (
        ["unuse", name],
        ["unuse", name, *at],
        ["unuse", name, "--default"],
        ["use", name, *at],
        ["use", name, "--default"],
        ["unload", name],
        ["unload", name, "--drain"],
        ["unload", name, "--force"],
        ["unload", name, "--drain", "--seconds", "0"],
        # with a '/' it is the path of an object
        *([["load", name], ["load", name, *at], ["show", name]] if "/" not in name else []),
        *([["load", "fast", "--as", name], ["load", "fast", "--as", name, "--replace"]] if name else []),
        ["set", name, "alpha=1"],
        ["top", name, "--once"],
    ):
        assert "1 to 15 letters, digits, '_', '.' and '-'" in refused(*argv, code=2)
        assert cgroup.programs() == foreign


@pytest.mark.parametrize(
    "option", ["--cgroup", "--route", "--objects", "--set", "--as", "--output", "--link", "--flow"]
)
def test_no_option_takes_nothing(option):
    command = {"--route": "use", "--output": "trace", "--link": "trace", "--flow": "trace"}.get(option, "load")
    assert f"{option}: its value is empty" in refused(
        command, *([] if command == "trace" else ["fast"]), option, "", code=2
    )


@pytest.mark.parametrize(
    "argv", [["list"], ["show", "fast"], ["load", "fast"], ["unload", "fast"], ["trace", "-o", "/dev/null"]]
)
def test_not_root(argv, tmp_path):
    open_to_all(tmp_path, ASYMCC, ASYMCC.parent / "fast.bpf.o", ASYMCC.parent / "trace.bpf.o")
    done = run(*NOBODY, tmp_path / "asymcc", *argv, check=False)
    assert done.returncode == 1 and "root" in done.stderr and done.stderr.count("\n") == 1, done.stderr


no_other_btf = pytest.mark.skipif(
    any(Path("/boot").glob("vmlinux-*")), reason="libbpf would take the BTF of /boot/vmlinux-*"
)


@no_other_btf
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("argv", ["load fast", "list", "doctor", "thin --cgroup {cgroup}"])
def test_btf_that_cannot_be_opened_is_not_called_missing(argv, alias, cgroup):
    asymcc("load", "fast", "--as", alias())
    inject = "-P", BTF, "-e", "inject=openat:error=EMFILE"
    words = argv.format(cgroup=cgroup.path).split()
    done = run("strace", "-qq", "-o", "/dev/null", *inject, ASYMCC, *words, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 1 and f"cannot read this kernel's BTF ({BTF}): Too many open files" in output, output
    assert "CONFIG_DEBUG_INFO_BTF" not in output, output


@no_other_btf
def test_kernel_without_btf(alias):
    """Other controllers may be registered on this machine: the list then says that it cannot read them."""
    hidden = f"mount --bind /dev/null {BTF} && exec {ASYMCC}"
    done = run("unshare", "-m", "sh", "-c", f"{hidden} load fast", check=False)
    assert done.returncode == 1 and "no BTF" in done.stderr, done.stderr
    asymcc("load", "fast", "--as", alias())
    done = run("unshare", "-m", "sh", "-c", f"{hidden} list", check=False)
    assert done.returncode == 1 and "no BTF" in done.stderr, done.stderr
    assert re.search(r"^fast +yes +\? +\?$", done.stdout, re.M), done.stdout  # what is built


def test_completion_knows_commands_and_options():
    script = asymcc("completion")

    def complete(*words: str) -> set[str]:
        line = " ".join(word or "''" for word in words)
        ask = (
            f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _asymcc; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        return set(
            subprocess.run(
                ["bash", "-c", ask],
                capture_output=True,
                text=True,
                check=True,
                env={"PATH": f"{ASYMCC.parent}:{os.environ['PATH']}"},
            ).stdout.split()
        )

    assert complete("asymcc", "un") == {"unuse", "unload"}
    shares = "--share --stop-if-worse --least"
    options = f"--default --route --cgroup --existing {shares} --objects --verbose --help"
    assert complete("asymcc", "use", "--") == set(options.split())
    assert "fast" in complete("asymcc", "load", "fa")


def test_manual_has_every_command_and_option():
    page = asymcc("manual")
    for command in ("list", "load", "show", "set", "use", "unuse", "unload", "top", "trace", "doctor", "status", "try"):
        assert f'.SS "asymcc {command}' in page
        for line in asymcc(command, "--help").splitlines():
            if line.startswith("  -") and not any(o in line for o in ("--help", "--objects", "--verbose")):
                assert line.split()[1].replace("-", "\\-") in page, line
