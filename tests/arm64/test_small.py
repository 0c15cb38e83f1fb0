# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The static asymcc in a small arm64 system: 128 MB, busybox, an init script, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asymlab.machine.arch import ARM64
from asymlab.machine.cpio import Cpio
from asymlab.machine.kernel import decompress, fetch_kernel
from asymlab.machine.root import Unpacked
from tests.arm64.small_guest import needs_arm64, run, system
from tests.shared import BUILD, REPO

pytestmark = needs_arm64

MEMORY_MB = 128


def pack(root: Unpacked, modules: Path) -> Cpio:
    """The system's files, and in /rig those of the path that it is tried on."""
    cpio = system(Path(__file__).with_name("small.sh"), root)
    cpio.file("bin/asymcc", (BUILD / "arm64/static/asymcc").read_bytes(), 0o755)
    for name in ("thin", "thin_router", "use", "fast"):
        cpio.file(f"lib/asymcc/{name}.bpf.o", (BUILD / f"{name}.bpf.o").read_bytes())
    cpio.file("etc/init.d/asymcc", (REPO / "packaging/asymcc.init").read_bytes(), 0o755)
    cpio.file("etc/asymcc/thin.conf", b"THIN='--reverse 60kbit --overhead 14'\n")
    cpio.file("etc/asymcc/fast.conf", b"LOAD='--set alpha=20'\nUSE=--default\n")
    for tool in ("ip", "tc"):
        file = root.resolved(root.tool(tool))
        cpio.file(f"rig/{tool}", file.read_bytes(), 0o755)
        for name, library in root.libraries(file).items():
            name = "ld.so" if "ld-linux" in name else Path(name).name
            cpio.file(f"rig/{name}", root.resolved(library).read_bytes(), 0o755)
    for module in ("veth", "sch_netem"):
        (packed,) = modules.rglob(f"{module}.ko*")
        data = packed.read_bytes()
        cpio.file(f"rig/{module}.ko", data if packed.suffix == ".ko" else decompress(data, packed))
    return cpio


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> str:
    """On the console."""
    kernel = fetch_kernel("6.12", ARM64, print)
    return run(tmp_path_factory.mktemp("small"), kernel, pack(Unpacked(ARM64), kernel.modules), MEMORY_MB)


@pytest.fixture(scope="module")
def downloads(output) -> dict[str, tuple[float, int]]:
    """Seconds, and packets that left, of each."""
    results = re.findall(r"^RESULT (\S+) from (\S+) to (\S+) packets (\d+)", output, re.M)
    print(
        "\n".join(
            f"{what}: {float(end) - float(begin):.2f} s, {packets} packets" for what, begin, end, packets in results
        )
    )
    return {what: (float(end) - float(begin), int(packets)) for what, begin, end, packets in results}


def test_it_is_whole(output):
    assert "END" in output and "FAILED" not in output, output


def test_the_init_script_puts_a_controller_into_service_and_takes_it_back(output):
    for words in (
        "fast registered (alpha=20 packets)",
        "fast is used by default",
        "ACKs of connections in /sys/fs/cgroup are thinned",
        "fast unloaded; taken back from default of host",
        "ACKs are no longer thinned in /sys/fs/cgroup",
    ):
        assert f"\n{words}\n" in output, output


def test_a_kernel_without_btf_is_told(output):
    """OpenWrt's kernels have none: here its file is hidden."""
    assert (
        "\nasymcc: cannot thin: this kernel gives no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF=y"
        in output
    )


@pytest.mark.parametrize(
    "names", [("before", "thinned", "after"), ("routed", "routed-thinned", "routed-after")], ids=["host", "router"]
)
def test_acks_are_thinned_in_between(downloads, names):
    """4 MB at 10 Mbit/s, and an ACK for each second packet wants 220 kbit/s of 60; its own, and of a host behind it."""
    before, thinned, after = (downloads[what] for what in names)
    assert thinned[1] < 0.6 * before[1] and thinned[0] < 0.6 * before[0]
    assert after[1] == pytest.approx(before[1], rel=0.05) and after[0] == pytest.approx(before[0], rel=0.05)
