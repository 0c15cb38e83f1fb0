# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kernels that the user has built: another tree takes one, and only the right one. The source is a toy's, its package,
its build and all else are real."""

from __future__ import annotations

import io
import lzma
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest

from asymlab.conformance.source import of_release
from asymlab.machine import kernel
from asymlab.machine.files import sha256
from asymlab.machine.uml import edits, kept, make, source
from tests.machine.test_uml import tree
from tests.shared import asymlab, one_line

apply = edits.apply
TOY = """\
#include <stdio.h>
long time_travel_time = %d;
int main(int n, char **words) { return puts(words[1][2] == 'v' ? "9.9.1" : "seccomp=") < 0; }
"""
MAKEFILE = """\
allnoconfig: ; cp $(KCONFIG_ALLCONFIG) .config
linux: toy.c ; $(CC) -o $@ $<
"""
COMPILED = """
Documentation/Kconfig arch/arm/Kconfig arch/x86/um/asm.h drivers/base/core.c drivers/gpu/drm/Kconfig drivers/net/dummy.c
drivers/net/ethernet/Makefile include/sound/a.h net/core/dev.c sound/pci/Kconfig tools/bpf/resolve_btfids/main.c
""".split()
NOT_COMPILED = """
Documentation/a.rst arch/arm/kernel/a.S drivers/gpu/drm/a.c drivers/net/ethernet/a.h samples/a.c sound/pci/a.c
tools/testing/selftests/net/a.sh
""".split()


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """Makes a package of a kernel's source, of this content, in a suite of its own."""
    suite, state = tmp_path / "suite", tmp_path / "state"
    suite.mkdir()
    state.mkdir()
    (state / "suite.list").write_text(f"deb [trusted=yes] copy:{suite} ./\n")
    options = [*kernel.own_state(state), "-o", f"Dir::Etc::sourcelist={state}/suite.list"]
    options += ["-o", "Dir::Etc::sourceparts=-", "-o", "Dir::State::status=/dev/null"]
    monkeypatch.setattr(source, "suites", lambda *_: [("suite", "", options)])

    def make(number: int) -> None:
        sources = {"Makefile": MAKEFILE, "toy.c": TOY % number, **dict.fromkeys((*COMPILED, *NOT_COMPILED), "")}
        files = tree(tmp_path / f"source{number}", **sources)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(files, "linux-source-9.9")
        root = tmp_path / f"package{number}"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "usr/src").mkdir(parents=True)
        (root / "usr/src/linux-source-9.9.tar.xz").write_bytes(lzma.compress(archive.getvalue()))
        control = "Package: linux-source-9.9\nVersion: 9.9.1-1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        (root / "DEBIAN" / "control").write_text(control)
        deb = suite / "linux-source-9.9_9.9.1-1_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, capture_output=True)
        entry = f"{control}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {sha256(deb)}\n"
        (suite / "Packages").write_text(entry)
        kernel.update(options)

    make(1)
    return make


@pytest.fixture
def in_tree(tmp_path, monkeypatch, packaged):
    """The kernel as a tree gets it: what it is, and what was said."""
    monkeypatch.setattr(kept, "KERNELS", tmp_path / "kernels")

    def get(name: str, fresh: bool = False, settings: str = ""):
        monkeypatch.setattr(source, "TREES", tmp_path / name)
        lines: list[str] = []
        return kept.kernel(replace(source.find("9.9", lines.append), settings=settings), lines.append, fresh), lines

    return get


def built(lines) -> bool:
    """Its source was fetched, and the kernel built; or neither."""
    downloaded, compiled = (any(line.startswith(word) for line in lines) for word in ("downloading", "building"))
    assert downloaded == compiled
    return compiled


def test_another_tree_takes_the_kernel_and_says_so(tmp_path, in_tree):
    first, lines = in_tree("one")
    assert built(lines) and first.release == "9.9.1" and first.words == "seccomp=on"
    second, lines = in_tree("two")
    (file,) = kept.KERNELS.iterdir()
    assert lines == [f"takes Linux 9.9.1-1 as a process from {file}: --fresh builds it"]
    assert second == first and not (tmp_path / "two").exists()
    third, lines = in_tree("three", fresh=True)
    assert built(lines) and third == first


def test_what_it_is_not_compiled_of_is_not_unpacked_but_for_settings_and_the_kernel_s_tests(tmp_path, in_tree):
    in_tree("one")
    (folder,) = (tmp_path / "one").iterdir()
    assert [f for f in (*COMPILED, *NOT_COMPILED) if not (folder / f).exists()] == [*NOT_COMPILED]
    release = "9.9.1"
    tests = of_release(release)
    assert tests != folder and not [f for f in (*COMPILED, *NOT_COMPILED) if not (tests / f).exists()]
    assert of_release(release) == tests


@pytest.mark.parametrize("at", [0, 70, -1])
def test_one_with_another_byte_is_built_anew(in_tree, at):
    first, _ = in_tree("one")
    (file,) = kept.KERNELS.iterdir()
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    second, lines = in_tree("two")
    assert f"{file}: damaged; a kernel is built in its place" in lines and built(lines) and second == first
    third, lines = in_tree("three")
    assert not built(lines) and third == first


def test_one_of_another_name_is_none(in_tree, packaged):
    """Whole, but not what this name promises."""
    in_tree("one")
    (kernel,) = kept.KERNELS.iterdir()
    data = kernel.read_bytes()
    packaged(2)
    in_tree("two")
    (other,) = set(kept.KERNELS.iterdir()) - {kernel}
    other.write_bytes(data)
    assert built(in_tree("three")[1])


def changes(tmp_path):
    """A tree of ours may have these otherwise; and whether that shapes a kernel."""
    first, *rest = edits.EDITS
    comments, settings = tmp_path / "comments.config", tmp_path / "settings.config"
    comments.write_text("# Another word.\n" + make.CONFIG.read_text())
    settings.write_text(make.CONFIG.read_text() + "CONFIG_TUN=y\n")
    yield (edits, "EDITS", (replace(first, why="in other words"), *rest)), False
    yield (make, "CONFIG", comments), False
    yield (edits, "EDITS", (replace(first, text=f"{first.text}\n"), *rest)), True
    yield (edits, "apply", lambda tree: apply(tree)), True
    yield (make, "CONFIG", settings), True
    yield (make, "OPTIONS", [*make.OPTIONS, "V=1"]), True


def test_one_of_another_source_edit_or_compiler_is_none(tmp_path, in_tree, packaged, monkeypatch):
    first, _ = in_tree("one")
    for number, (changed, anew) in enumerate(changes(tmp_path)):
        with monkeypatch.context() as patch:
            patch.setattr(*changed)
            assert built(in_tree(f"change{number}")[1]) == anew, changed
    with monkeypatch.context() as patch:
        (tmp_path / "bin").mkdir()
        gcc = tmp_path / "bin" / "gcc"
        gcc.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo other || exec {shutil.which("gcc")} "$@"\n')
        gcc.chmod(0o755)
        patch.setenv("PATH", str(gcc.parent), prepend=":")
        assert built(in_tree("compiler")[1])
    assert built(in_tree("settings", settings="CONFIG_TUN=y\n")[1]) and not built(in_tree("plain")[1])
    packaged(2)  # of the same version
    other, lines = in_tree("source")
    assert built(lines) and other != first


def test_a_tree_that_is_there_is_built_as_it_stands_and_is_for_nobody_else(tmp_path, in_tree):
    first, _ = in_tree("one")
    (toy,) = (tmp_path / "one").glob("*/toy.c")
    toy.write_text(TOY % 3)
    edited, lines = in_tree("one")
    assert edited.linux != first.linux and not any(line.startswith("takes") for line in lines)
    assert in_tree("two")[0] == first


def test_a_folder_that_cannot_be_written_is_told_and_no_more(tmp_path, in_tree, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(kept, "KERNELS", tmp_path / "file" / "kernels")
    _, lines = in_tree("one")
    assert lines[-1].endswith(": not kept for the next tree: Not a directory") and built(lines)


def test_only_those_made_or_taken_last_stay(in_tree, monkeypatch):
    """With its settings each is another kernel."""
    monkeypatch.setattr(kept, "MOST", 2)
    for number, settings in enumerate(("A", "B", "A", "C")):
        in_tree(f"tree{number}", settings=settings)
    assert len([*kept.KERNELS.iterdir()]) == 2
    assert [built(in_tree(f"last{x}", settings=x)[1]) for x in "AC"] == [False, False]


def test_the_other_engine_builds_no_kernel():
    one_line(asymlab("image", "--engine", "qemu", "--fresh"), "--fresh: is for the engine uml")
