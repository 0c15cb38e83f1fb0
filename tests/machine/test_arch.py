# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Guests of two architectures: kernels' files, names of images, what QEMU and the kernel are told."""

from __future__ import annotations

import gzip
import json
import lzma
import pickle
import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from asymlab import LabError
from asymlab.machine import boot, image, kernel, qemu
from asymlab.machine.arch import AMD64, ARCHES, ARM64, NATIVE, by_label, named
from asymlab.machine.root import Here
from asymlab.shell import sh
from tests.hostile import COUNT, changed, one_line_or_none

ARM64_IMAGE = b"MZ" + bytes(54) + b"ARM\x64" + bytes(4) + b"\x9f\xeb\x01\0\x18\0\0\0" + bytes(100)


def zboot(payload: bytes) -> bytes:
    return b"MZ\0\0zimg" + struct.pack("<II", 64, len(payload)) + bytes(48) + payload + bytes(8)


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda image: zboot(gzip.compress(image))])
def test_an_arm64_kernel_comes_out_of_its_file(tmp_path, pack):
    (tmp_path / "vmlinuz").write_bytes(pack(ARM64_IMAGE))
    assert kernel.extract_vmlinux(tmp_path / "vmlinuz") == ARM64_IMAGE


def test_an_arm64_kernel_without_btf(tmp_path):
    (tmp_path / "vmlinuz").write_bytes(ARM64_IMAGE.replace(b"\x9f\xeb", b"\0\0"))
    with pytest.raises(LabError, match="without BTF"):
        kernel.extract_vmlinux(tmp_path / "vmlinuz")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd], ids=["gzip", "xz", "zstd"])
def test_a_damaged_kernel_image(tmp_path, pack):
    file, whole, rng = tmp_path / "vmlinuz", zboot(pack(ARM64_IMAGE)), random.Random("zimg")
    file.write_bytes(whole)
    assert kernel.extract_vmlinux(file) == ARM64_IMAGE
    for _ in range(COUNT):
        file.write_bytes(changed(whole, rng, False))
        one_line_or_none(lambda: kernel.extract_vmlinux(file))


def test_names():
    assert {by_label(ARM64.label(series)) for series in ("6.1", "newest")} == {ARM64}
    assert by_label(AMD64.label("6.1")) is by_label("my-kernel") is AMD64
    with pytest.raises(LabError, match="architecture riscv64: there are amd64, arm64"):
        named("riscv64")
    for arch in ARCHES.values():
        assert pickle.loads(pickle.dumps(arch)) is arch


def test_an_image_that_is_not_made_names_the_command_that_makes_it():
    with pytest.raises(LabError, match="`asymlab image --kernel 5.0 --arch arm64` makes it"):
        image.open_image("5.0-arm64")


@pytest.mark.parametrize("label", ["vmlinuz-6.12.9-amd64", "linux-image-6.12.117+deb13-cloud-amd64", "6.1"])
def test_the_name_of_an_image_is_told_whole(label, tmp_path, monkeypatch):
    """Debian's own kernels end with the name of the architecture."""
    monkeypatch.setattr(image, "IMAGES", tmp_path)
    with pytest.raises(LabError, match=f"`asymlab image --kernel {re.escape(label)}` makes it"):
        image.open_image(label)


def test_an_image_of_ones_own_kernel_is_renewed_by_the_command_that_made_it(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "IMAGES", tmp_path)
    monkeypatch.chdir(tmp_path)
    made_by = image.making("a/vmlinuz-6.12.9-amd64", Path("mod ules/6.12.9-amd64"), "mine", False, NATIVE)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/manifest.json").write_text(
        json.dumps({"kernel": "6.12.9-amd64", "qemu": None, "parts": {}, "made_by": made_by})
    )
    with pytest.raises(LabError) as error:
        image.check_current("mine")
    assert str(error.value).endswith(
        f"`build/venv/bin/asymlab image --kernel {tmp_path}/a/vmlinuz-6.12.9-amd64 --modules "
        f"'{tmp_path}/mod ules/6.12.9-amd64' --name mine --clock 1` renews it"
    )


def test_what_is_told_differs_only_where_it_must():
    """Job and seed reach both alike, and none of the files' places is a part of a run's identity."""
    argv = {arch: qemu.arguments(arch, "6.12.1", 7, "", False, "", "", "") for arch in ARCHES.values()}
    assert not any("build" in word for words in argv.values() for word in words)
    for words in argv.values():
        assert words[words.index("-seed") + 1] == "7" and words[words.index("-icount") + 1] == qemu.ICOUNT
    assert sum("ivshmem" in word for word in argv[AMD64]) == 0 and sum("ivshmem" in word for word in argv[ARM64]) == 1
    lines = {arch: set(boot.append(arch).split()) for arch in argv}
    own = "console=ttyAMA0 initcall_blacklist=virtio_pci_driver_init"
    assert lines[ARM64] - lines[AMD64] == set(own.split())
    assert lines[AMD64] - lines[ARM64] == {"console=ttyS0", "tsc=reliable", "no_timer_check"}


def test_the_way_to_the_clock_is_a_part_of_the_image():
    for arch in ARCHES.values():
        assert boot.booted_by(arch, "6.12.1", 1) != boot.booted_by(arch, "6.12.1", 10)


def test_each_part_of_a_guest_has_its_package_and_version(tmp_path):
    """dpkg says it so of one file, also of those that a merged /usr has moved."""
    here = Here()
    files = [here.tool("tc"), here.python(), *map(here.resolved, here.libraries(here.tool("bpftool")).values())]
    for file in files:
        package = next(
            listing.stdout.split(":")[0]
            for path in (str(file), str(file).removeprefix("/usr"))
            if (listing := subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)).returncode == 0
        )
        assert here.package(file) == sh("dpkg-query", "-W", "-f", "${Package} ${Version}", package)
    assert here.package(tmp_path / "mine") == "-"
