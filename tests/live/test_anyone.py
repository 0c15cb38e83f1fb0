# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Objects of other loaders, by their paths. Each source of tests/anyone has one trait that asymcc's own lack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.harness import ASYMCC, BTF, ROOT, asymcc, compile_bpf, kernel_has, refused, run, values
from tests.live.harness import pytestmark as pytestmark
from tests.live.sources import build

SOURCES = ROOT / "tests" / "anyone"


@pytest.fixture(scope="module")
def objects(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("anyone")
    (folder / "vmlinux.h").write_text(run("bpftool", "btf", "dump", "file", BTF, "format", "c").stdout)
    (folder / "fixed.h").write_text((SOURCES / "fixed.h").read_text())
    for source in SOURCES.glob("*.bpf.c"):
        copy = folder / source.name
        copy.write_text(source.read_text())
        compile_bpf(copy, folder / source.name.replace(".bpf.c", ".bpf.o"))
    return folder


def taken(spec: str, name: str) -> str:
    """The line of `load` about it; the kernel had it, and has it no more."""
    line = asymcc("load", spec, "--as", name)
    try:
        assert kernel_has(name)
    finally:
        asymcc("unload", name)
    assert not kernel_has(name)
    return line


@pytest.mark.parametrize(
    "spec",
    ["link", "several.bpf.o:few", "several.bpf.o:many", "several.bpf.o:nameless", "map", "kfunc", "constant", "beside"],
)
def test_it_is_loaded(objects, alias, spec):
    """`nameless` takes the name that it is given."""
    line = taken(f"{objects}/{spec if ':' in spec else f'{spec}.bpf.o'}", alias())
    assert ("left out: beside_sockops, beside_kprobe\n" in line) == (spec == "beside"), line
    assert ("note: " in line) == (spec == "beside")


def test_its_constants_are_parameters(objects, alias):
    name, file = alias(), f"{objects}/parameters.bpf.o"
    shown = json.loads(asymcc("show", file, "--json"))
    assert (shown["name"], shown["object"]) == ("by_value", file)
    assert [(p["name"], p["value"], p["min"], p["max"], p["declared"]) for p in shown["parameters"]] == [
        ("window", 10, 0, 2**32 - 1, False),
        ("less", 0, -(2**15), 2**15 - 1, False),
        ("twice", 0, 0, 1, False),
        ("beyond", 2**40, 0, 2**63 - 1, False),
    ]
    asymcc("load", file, "--as", name, "--set", "window=12", "--set", "less=-300", "--set", "twice=1")
    assert values(name) == {"window": 12, "less": -300, "twice": 1, "beyond": 2**40}
    asymcc("unload", name)
    assert "takes 0 to 1" in refused("load", file, "--set", "twice=2")
    assert "has no parameter table" in refused("load", file, "--set", "table=2")


def test_one_of_several_is_chosen(objects):
    file = f"{objects}/several.bpf.o"
    assert refused("load", file).endswith(" has 3 controllers, choose one by FILE:NAME; it has: few, many, nameless\n")
    assert f"{file} has no controller none; it has: few, many, nameless" in refused("load", f"{file}:none")
    assert 'registers as "", which is no name' in refused("load", f"{file}:nameless")


def test_paths_begin_here(objects):
    """With a '/' or without one; a name without ".o" is still that of a built one."""
    for spec in ("link.bpf.o", "./link.bpf.o"):
        done = run(ASYMCC, "show", spec, cwd=objects)
        assert done.stdout.startswith(f"{spec}: registers as by_link; its defaults:\n")
    assert "no controller link in" in refused("load", "link")


def test_what_is_none_is_told(objects, tmp_path):
    """One line: what, where, how to mend it."""
    (tmp_path / "text.o").write_text("no object")
    files = {
        "/bin/true": "not of BPF: build it with `clang -target bpf -g -O2 -c`",
        f"{tmp_path}/text.o": "it is no ELF file: build it with `clang -target bpf -g -O2 -c`",
        f"{tmp_path}/lost.o": "No such file or directory",
        f"{ASYMCC.parent}/thin.bpf.o": "is not a controller: it has no tcp_congestion_ops in section .struct_ops",
    }
    for file, why in files.items():
        assert file in (line := refused("load", file)) and why in line, line
    for section in ("tc", "unknown/kind", ""):
        build(tmp_path, "stray", **{'SEC("struct_ops/t_avoid")': f'SEC("{section}")' if section else ""})
        line = f"stray.bpf.o: tiny_ops has t_avoid, which stands in section {section or '.text'}: "
        assert line + 'write SEC("struct_ops/t_avoid") before it' in refused("load", tmp_path / "stray.bpf.o")
    bare = tmp_path / "bare.o"
    run("llvm-objcopy", "--remove-section=.BTF", "--remove-section=.BTF.ext", objects / "link.bpf.o", bare)
    assert refused("load", bare) == f"asymcc: {bare} has no BTF: build it with clang -g\n"


def test_libbpf_tells_why_it_cannot_read_one(objects, tmp_path):
    """It says so at a level of which it prints nothing. Here the section of its constants has another name."""
    file = tmp_path / "odd.bpf.o"
    file.write_bytes((objects / "constant.bpf.o").read_bytes().replace(b".rodata.cst32\0", b".elsewhere.32\0"))
    words = refused("load", file)
    assert f"{file}: not a BPF object that libbpf " in words and "'.rodata': failed to determine size" in words, words


def test_a_program_that_no_member_names_is_left_out(objects, alias):
    """Also where it would not pass the verifier: beside_unnamed has no type there."""
    name = alias()
    asymcc("load", f"{objects}/beside.bpf.o", "--as", name)
    assert len(json.loads(asymcc("show", name, "--json"))["programs"]) == 3
    asymcc("unload", name)
