# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The architectures that a guest may have, and all that differs between them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..guest.protocol import CLOCK_SET_UP, STOP, TIMER_PERIOD
from ..paths import BUILT


@dataclass(frozen=True, eq=False)
class Arch:
    name: str  # Debian's
    triplet: str  # of its libraries
    kernels: dict[str, str]  # by distribution, the package that depends on the newest
    qemu: str
    firmware: tuple[str, ...]  # that runs before the kernel, in /usr/share
    machine: str  # of QEMU
    cpu: Callable[[str], str]  # by the kernel's release
    plugs: bool  # the job's memory comes while the machine stands; else the machine is kept with it
    console: str
    words: str  # for the kernel
    # How a kernel learns that its counters run faster than they do:
    faster: str = ""  # words with {khz}, ...
    timer: tuple[str, ...] = ()  # ... the function that looks at a timer's variable, and that variable, ...
    tree: str = ""  # ... or what the device tree says besides, with {hz}
    counter_hz: int = 0  # of that tree's counter, by QEMU's clock

    def __reduce__(self):
        return named, (self.name,)

    @property
    def built(self) -> Path:
        """The folder of what is built for it."""
        return BUILT if self is NATIVE else BUILT / self.name

    @property
    def stop(self) -> str:
        return STOP[self.name]

    @property
    def option(self) -> str:
        """For `make`."""
        return "" if self is NATIVE else f" ARCH={self.name}"

    def label(self, kernel: str) -> str:
        """An image's name, where none is given."""
        return kernel if self is NATIVE else f"{kernel}-{self.name}"


NEEDS_CX16 = 6, 18


def _amd64_cpu(kernel: str) -> str:
    """Without cmpxchg16b, but from 6.18 on with it.

    QEMU 7.2 restores wrong flags when an interrupt comes at that instruction, and the kernel's allocator uses it where
    it can. But kmalloc_nolock() of 6.18 works with it only, and later kernels' BPF storage of sockets needs that.
    """
    version = re.match(r"(\d+)\.(\d+)", kernel)
    new = version and (int(version[1]), int(version[2])) >= NEEDS_CX16
    return f"qemu64,-rdrand,-rdseed,{'+' if new else '-'}cx16"


AMD64 = Arch(
    name="amd64",
    triplet="x86_64-linux-gnu",
    kernels={"Debian": "linux-image-cloud-amd64", "Ubuntu": "linux-image-virtual"},
    qemu="qemu-system-x86_64",
    firmware=("seabios/bios-256k.bin", "qemu/pvh.bin", "qemu/kvmvapic.bin"),
    machine="pc",
    cpu=_amd64_cpu,
    plugs=True,
    console="ttyS0",
    words="tsc=reliable no_timer_check",
    faster="tsc_early_khz={khz} pmtmr=0 hpet=disable",
    timer=(CLOCK_SET_UP, TIMER_PERIOD),
)

COUNTER_HZ = 10**8

ARM64 = Arch(
    name="arm64",
    triplet="aarch64-linux-gnu",
    kernels={"Debian": "linux-image-cloud-arm64", "Ubuntu": "linux-image-virtual"},
    qemu="qemu-system-aarch64",
    firmware=(),
    machine="virt,gic-version=3,its=off,dtb-randomness=off",
    cpu=lambda kernel: f"neoverse-n1,cntfrq={COUNTER_HZ}",
    plugs=False,  # a slot of PCI Express wants its driver, which waits five seconds
    console="ttyAMA0",
    # virtio's driver would map the job's memory before it sees that the device is none of its own, and QEMU restores no
    # machine in which memory that is shared is mapped.
    words="initcall_blacklist=virtio_pci_driver_init",
    # At each reset QEMU writes a tree to the lowest addresses: in a machine that is kept, nothing else may be there.
    tree="""/ {{
	timer {{ clock-frequency = <{hz}>; }};
	reserved-memory {{
		#address-cells = <2>; #size-cells = <2>; ranges;
		tree@40000000 {{ reg = <0 0x40000000 0 0x200000>; no-map; }};
	}};
}};
""",
    counter_hz=COUNTER_HZ,
)

ARCHES = {arch.name: arch for arch in (AMD64, ARM64)}
NATIVE = ARM64 if os.uname().machine == "aarch64" else AMD64


def named(name: str) -> Arch:
    if name not in ARCHES:
        raise LabError(f"architecture {name}: there are {', '.join(ARCHES)}")
    return ARCHES[name]


def by_label(label: str) -> Arch:
    """By an image's name."""
    return next((arch for arch in ARCHES.values() if label.endswith(f"-{arch.name}")), NATIVE)
