# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The arm64 package on an arm64 system with dpkg and the libraries that it depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymlab.machine.arch import ARM64
from asymlab.machine.cpio import Cpio
from asymlab.machine.kernel import fetch_kernel
from asymlab.machine.root import Unpacked
from asymlab.plan import objects
from tests.arm64.small_guest import needs_arm64, run, system
from tests.shared import BUILD

pytestmark = needs_arm64


def pack(root: Unpacked) -> Cpio:
    """All that dpkg calls and knows, and libbpf, is at its place."""
    cpio = system(Path(__file__).with_name("package.sh"), root)
    tools = [root.tool(name) for name in ("dpkg", "dpkg-deb", "dpkg-query", "dpkg-split", "tar", "start-stop-daemon")]
    libraries = {}
    for file in [*tools, BUILD / "arm64/asymcc"]:
        if file in tools:
            cpio.file(str(file.relative_to(root.folder)), root.resolved(file).read_bytes(), 0o755)
        libraries |= root.libraries(root.resolved(file))
    for name, library in libraries.items():
        cpio.file(name, root.resolved(library).read_bytes(), 0o755)
    cpio.file("usr/sbin/ldconfig", b"#!/bin/busybox sh\n", 0o755)
    for file in [root.admin / "status", *(root.admin / "info").glob("*.list"), root.admin / "info/format"]:
        cpio.file(str(file.relative_to(root.folder)), file.read_bytes())
    for folder in ("updates", "triggers"):
        cpio.dir(f"var/lib/dpkg/{folder}")
    package = max(BUILD.glob("asymcc_*_arm64.deb"), key=lambda file: file.stat().st_mtime)
    cpio.file("asymcc.deb", package.read_bytes())
    return cpio


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> str:
    """On the console."""
    return run(tmp_path_factory.mktemp("package"), fetch_kernel("6.1", ARM64, print), pack(Unpacked(ARM64)), 512)


def test_it_installs_with_what_it_depends_on(output):
    assert "Status: install ok installed" in output and "Architecture: arm64" in output, output


def test_each_controller_loads(output):
    """On the oldest kernel, but for those that say that they need a newer one."""
    assert "END" in output and "FAILED" not in output, output
    assert output.count(" registered") >= len(objects.built_for((6, 1))), output


def test_purge_leaves_nothing(output):
    gone = output.rpartition("Purging configuration files")[2]
    assert [f"{path}: No such file" in gone for path in ("/usr/lib/asymcc", "/usr/sbin/asymcc", "/etc/asymcc")] == [
        True
    ] * 3
