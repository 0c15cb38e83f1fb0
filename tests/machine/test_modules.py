# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab image` of a kernel that somebody else gave: its files reach nothing outside their folder."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.machine import kernel, modules
from asymlab.machine.cpio import Cpio
from tests.shared import BUILD, asymlab, one_line

KERNEL = b"\x7fELF" + bytes(60) + b"\0.BTF\0"
RELEASE = "6.99.1-mine"
TCP, VETH = "kernel/net/ipv4/tcp_mine.ko", "kernel/drivers/net/veth.ko"


@pytest.fixture
def folder(tmp_path) -> Path:
    """The modules of a kernel, with an index."""
    place = tmp_path / "lib" / "modules" / RELEASE
    for name in (TCP, VETH):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"\x7fELF of " + name.encode())
    (place / "modules.dep").write_text(f"{TCP}:\n{VETH}: {TCP}\n")
    (place / "modules.builtin").write_text("kernel/net/ipv4/tcp_cubic.ko\n")
    return place


def image(folder: Path) -> subprocess.CompletedProcess:
    file = folder.parents[2] / "vmlinux"
    file.write_bytes(KERNEL)
    return asymlab("image", "--kernel", file, "--modules", folder, "--name", "hostile")


def refused(folder: Path, *words: str) -> None:
    one_line(image(folder), *words)
    assert not (BUILD / "image" / "hostile").exists()


@pytest.mark.parametrize(
    "name", ["{0}/victim.ko.xz", "../../../victim.ko.xz", "kernel/../../../../victim.ko.xz", "victim"]
)
def test_an_index_names_no_file_elsewhere(folder, tmp_path, name):
    """With an absolute name, the uncompressed file once took the place of what was there."""
    (tmp_path / "victim.ko.xz").write_bytes(lzma.compress(b"other words"))
    (tmp_path / "victim.ko").write_text("of the user")
    (folder / "victim").write_text("no module")
    with (folder / "modules.dep").open("a") as index:
        index.write(f"{TCP}: {name.format(tmp_path)}\n")
    refused(folder, f"{folder}/modules.dep: '{name.format(tmp_path)}' is no module of this folder")
    assert (tmp_path / "victim.ko").read_text() == "of the user"


@pytest.mark.parametrize("name", [TCP, "modules.dep", "modules.builtin", "modules.order"])
def test_a_link_that_leads_out_is_not_followed(folder, tmp_path, name):
    """The file would be in the image."""
    (tmp_path / "secret").write_text(f"{TCP}:\n{VETH}:\n")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    refused(folder, f"{folder / name}: a link that leads out of {folder}")


def test_a_link_inside_is_followed(folder):
    (folder / TCP).rename(folder / "kernel" / "mine.ko")
    (folder / TCP).symlink_to("../../mine.ko")
    cpio = Cpio()
    modules.add_modules(cpio, kernel.Kernel(RELEASE, "user", folder, folder))
    assert cpio.entries[f"lib/modules/{RELEASE}/{TCP}"][1] == b"\x7fELF of " + TCP.encode()
    assert f"lib/modules/{RELEASE}/modules.dep.bin" in cpio.entries


def test_without_an_index_it_is_made(folder):
    (folder / "modules.dep").unlink()
    assert modules.needed_modules(kernel.Kernel(RELEASE, "user", folder, folder)) == [VETH, TCP]
    assert not (folder / "modules.dep").exists()


def test_neither_a_fifo_nor_a_file_of_any_size_is_read(folder, tmp_path):
    (folder / TCP).unlink()
    os.mkfifo(folder / TCP)
    refused(folder, f"{folder / TCP}: not a regular file")
    (folder / TCP).unlink()
    with (folder / TCP).open("wb") as file:
        file.truncate(20 << 30)
    refused(folder, f"{folder / TCP}: {20 << 30} bytes, more than")
    fifo = tmp_path / "vmlinuz"
    os.mkfifo(fifo)
    one_line(asymlab("image", "--kernel", fifo, "--modules", folder), f"{fifo}: not a regular file")


def tool(*argv: str):
    return lambda data: subprocess.run(argv, input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress, tool("zstd", "-qc"), tool("lz4", "-lqc")])
def test_a_small_file_gives_no_more_than_it_may(pack):
    assert kernel.decompress(pack(bytes(100_000)), Path("it"), 100_000) == bytes(100_000)
    with pytest.raises(LabError, match="^it: more than 99999 bytes, uncompressed$"):
        kernel.decompress(pack(bytes(100_000)), Path("it"), 99_999)


def test_the_folder_is_called_by_the_release(folder, tmp_path):
    other = folder.rename(tmp_path / "-b")
    refused_name = asymlab("image", "--kernel", tmp_path / "none", "--modules", other)
    one_line(refused_name, f"--modules {other}: the folder must have the kernel's release for its name")
