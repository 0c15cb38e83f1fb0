# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Objects that are damaged: each is a line of `asymcc doctor`, and no command dies of one. Nothing is loaded here."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.loader.fuzz.loader_mutants import BTF_MAGIC, BUILD, doctor, run

FAST = (BUILD / "fast.bpf.o").read_bytes() if (BUILD / "fast.bpf.o").exists() else b""
pytestmark = pytest.mark.skipif(not FAST, reason="build/fast.bpf.o is not built: run make")


def test_no_damaged_object_is_the_end_of_doctor():
    assert run(600, seed=5) > 100


def words_of_btf(data: bytes, at: slice) -> list[bytes]:
    """The object with each word of a part of its types, in turn, set to what is no type and no string."""
    start = data.index(BTF_MAGIC)
    head = int.from_bytes(data[start + 4 : start + 8], "little")
    return [data[:n] + b"\xff\xff\xff\x7f" + data[n + 4 :] for n in range(start + head, len(data), 4)][at]


def test_types_that_there_are_none_of():
    files = words_of_btf(FAST, slice(0, 400))
    states = doctor({f"w{n}": data for n, data in enumerate(files)})
    assert sum(text != "" for text in states.values()) > 10


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF", FAST[:64], FAST[: len(FAST) // 2], b"\0" * 5000, b"\x7fELF" + b"\xff" * 5000],
    ids=["empty", "magic", "head", "half", "zeros", "ones"],
)
def test_what_is_no_object_is_told(data):
    assert doctor({"fast": FAST, "bad": data}) == {"fast": "", "bad": "its object cannot be read"}


def test_names_in_an_object_do_not_command_the_terminal(tmp_path):
    assert b"\0undo_cwnd\0" in FAST
    (tmp_path / "evil.bpf.o").write_bytes(FAST.replace(b"\0undo_cwnd\0", b"\0\x1b[2J_cwnd\0"))
    done = subprocess.run([BUILD / "asymcc", "doctor", "--objects", tmp_path], capture_output=True, timeout=60)
    assert b"\x1b" not in done.stdout + done.stderr and b"evil" in done.stdout


def test_neither_a_fifo_nor_a_file_of_any_size_is_read(tmp_path):
    """Each command ends with one line that names the file; it was waited for, or took gigabytes."""
    os.mkfifo(tmp_path / "fifo.bpf.o")
    with (tmp_path / "vast.bpf.o").open("wb") as file:
        file.truncate(20 << 30)

    def asymcc(*argv) -> str:
        done = subprocess.run([BUILD / "asymcc", *argv], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        return done.stderr

    vast = "too large: it has 21474836480 bytes, and the limit is {limit}"
    for name, why in (("fifo", "not a regular file"), ("vast", vast)):
        file = f"{tmp_path}/{name}.bpf.o"
        unread = f"asymcc: cannot read {file}: {why.format(limit=16 << 20)}\n"
        assert asymcc("show", name, "--objects", tmp_path) == unread
        unread_btf = f"asymcc: --btf {file}: {why.format(limit=1 << 30)}\n"
        assert asymcc("trace", "--btf", file, "-o", tmp_path / "out") == unread_btf
        assert unread in asymcc("doctor", "--objects", tmp_path)
    assert "fifo.bpf.o: not a regular file\n" in asymcc("list", "--objects", tmp_path)
    assert not (tmp_path / "out").exists()
