# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One run under a plugin that counts (count.c). It gives the bytes that it gives without, and the counts."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import LabError
from ..guest.job import Job
from ..machine import boot, on_qemu, qemu, shared, vm
from ..machine.files import scratch
from ..machine.image import Image
from ..paths import BUILD
from ..shell import sh
from .symbols import CODE, Kernel, Memory, Range, bpf, modules

SOURCE = Path(__file__).with_name("count.c")
BLOCK = np.dtype(
    [
        ("address", "<u8"),
        ("executed", "<u8"),
        ("instructions", "<u4"),
        ("age", "<u4"),
        ("code_len", "u1"),
        ("code", "V31"),
    ]
)


@dataclass(frozen=True)
class Counted:
    """The instructions of one run, from its first instruction to the guest's end."""

    blocks: np.ndarray  # of BLOCK: each address, age and code once
    modules: list[Range]
    bpf: dict[int, list[Range]]  # by the age in which they were there
    by_clock: int  # instructions, as QEMU's own clock counts them
    files: dict[str, bytes]  # that the agent left


def check(image: Image) -> None:
    """LabError for an image whose engine counts no instructions."""
    if image.engine != "qemu":
        raise LabError(f"image {image.folder.name}: the engine {image.engine} counts no instructions; take qemu's")


def plugin() -> Path:
    """Built where it is not there yet."""
    made = BUILD / "profile" / "count.so"
    if not made.exists() or made.stat().st_mtime < SOURCE.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        options = "-O2 -Wall -Wextra -Wno-unused-parameter -fPIC -shared -fvisibility=hidden"
        sh("gcc", *options.split(), "-o", made, SOURCE)
    return made


def count(image: Image, kernel: Kernel, job: Job, objects: dict[str, bytes], core: int | None = None) -> Counted:
    """LabError as of vm.run()."""
    with scratch("vm-") as tmp:
        sh("cp", "--sparse=always", image.memory, tmp / "memory")  # what it has at the end tells of modules
        argv = on_qemu.lay_out(tmp, image, job, objects, tmp / "memory")
        marks = "".join(f",mark={kernel.at[name]:#x}" for name in CODE)
        options = f"out={tmp},list={kernel.at['bpf_kallsyms']:#x},node={kernel.ksym['lnode']}{marks}"
        argv += ["-no-shutdown", "-plugin", f"{plugin()},{options}"]
        with contextlib.closing(qemu.Machine(argv, tmp, core)) as machine:
            on_qemu.make_ready(machine, image)
            began = machine.executed()
            machine.do("cont")
            machine.await_shutdown(vm.WALL_LIMIT_S)
            ended = machine.executed()
            files = shared.results(machine)
            machine.do("quit")
            machine.wait(boot.BOOT_LIMIT_S)
        blocks = merged(np.fromfile(tmp / "blocks", BLOCK))
        return Counted(blocks, modules(kernel, Memory(kernel, tmp / "memory")), bpf(tmp / "bpf"), ended - began, files)


def merged(blocks: np.ndarray) -> np.ndarray:
    """A block may have been translated often."""
    blocks = blocks[blocks["executed"] > 0]
    keys = np.rec.fromarrays([blocks["address"], blocks["age"], blocks["instructions"], blocks["code"].view("V31")])
    _, first, which = np.unique(keys.view("V47"), return_index=True, return_inverse=True)
    result = blocks[first]
    result["executed"] = 0
    np.add.at(result["executed"], which, blocks["executed"])
    return result
