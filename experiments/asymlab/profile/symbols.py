# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The map of a guest's kernel: its own functions (of an image), modules and BPF programs (of one run)."""

from __future__ import annotations

import bisect
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..guest.job import Refusals
from ..machine import vm
from ..machine.image import Image
from ..paths import BUILD

TEXT_AT = 0xFFFFFFFF80000000  # virtual less physical address of a kernel that is not randomised
DIRECT = 0xFFFF888000000000  # where it maps all memory
DATA = ("modules", "bpf_kallsyms", "__start_BTF", "__stop_BTF", "init_top_pgt")
VDSO = ("vdso_image_64", "vdso64_image")  # as older kernels call it, and newer ones
CODE = ("bpf_ksym_del", "kernel_restart")
# Asked in a guest of its own, by the job that runs commands: the run that is counted does nothing of this.
ASK = f"""
for line in open('/proc/kallsyms'):
    address, kind, name, *module = line.split()
    if not module and (kind in 'tTwW' or name in {DATA + VDSO}):
        print(address, name)
"""


@dataclass(frozen=True)
class Range:
    start: int
    end: int
    kind: str  # module or bpf
    part: str  # the module or program; "trampolines" for all of them
    name: str  # of the function


class Kernel:
    """The image's kernel: its functions, and where what changes hangs in."""

    def __init__(self, image: Image) -> None:
        addresses = _asked(image)
        self.at = {name: address for address, name in addresses if name in DATA + VDSO + CODE}
        vdso = next((name for name in VDSO if name in self.at), VDSO[-1])
        if lacks := [name for name in (*DATA, vdso, *CODE) if name not in self.at]:
            raise LabError(f"kernel {image.kernel}: cannot be profiled: it has no symbol {lacks[0]}")
        functions = {address: name for address, name in reversed(addresses) if name not in DATA + VDSO}
        self.starts = sorted(functions)
        self.names = [_plain(functions[a]) for a in self.starts]
        self.memory = image.memory
        self.vdso_at = self.at[vdso]
        btf = self._booted(self.at["__start_BTF"], self.at["__stop_BTF"])
        self.module, self.ksym = _offsets(btf, "module"), _offsets(btf, "bpf_ksym")

    def function(self, address: int) -> str:
        i = bisect.bisect_right(self.starts, address) - 1
        return self.names[i] if i >= 0 else "unknown"

    @property
    def end(self) -> int:
        return self.starts[-1] + 4096

    def _booted(self, start: int, end: int) -> bytes:
        """A part of the kernel's own memory, as the image has it."""
        with open(self.memory, "rb") as f:
            f.seek(start - TEXT_AT)
            return f.read(end - start)

    def vdso(self) -> bytes:
        """The library that the kernel gives to each program."""
        data, size = struct.unpack("<QQ", self._booted(self.vdso_at, self.vdso_at + 16))
        return self._booted(data, data + size)


def _plain(name: str) -> str:
    """A function, without the parts that the compiler made of it."""
    return name.split(".")[0] if not name.startswith(".") else name


def _asked(image: Image) -> list[tuple[int, str]]:
    """The symbols that a boot's own job tells. They are kept beside other output: the job takes ten seconds."""
    kept = BUILD / "profile" / f"symbols-{image.hash[:16]}"
    if not kept.exists():
        files, _ = vm.run(image, Refusals(1, {"symbols": ["python3", "-ISB", "-c", ASK]}), {})
        said = json.loads(files["agent.json"])["symbols"]
        if said["code"]:
            raise LabError(f"image {image.folder.name}: its symbols: {said['words'].strip().splitlines()[-1]}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(said["words"])
    return [(int(a, 16), name) for a, name in (line.split() for line in kept.read_text().splitlines() if line)]


# --- modules: the kernel's own list of them -----------------------------------------------

BTF_HEADER = struct.Struct("<HBBIIIII")
# Bytes behind the three words of a BTF type: per kind a fixed number, or one for each of its `vlen` parts.
FIXED = {1: 4, 3: 12, 14: 4, 17: 4}
EACH = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
STRUCT = 4


def _offsets(btf: bytes, wanted: str) -> dict[str, int]:
    """The offsets of a structure's members, in bytes."""
    magic, _, _, header, types_at, types_len, strings_at, _ = BTF_HEADER.unpack_from(btf)
    if magic != 0xEB9F:
        raise LabError("kernel: its BTF is not where its symbols say")

    def text(at: int) -> str:
        start = header + strings_at + at
        return btf[start : btf.index(b"\0", start)].decode()

    at, end = header + types_at, header + types_at + types_len
    while at < end:
        name, info, _ = struct.unpack_from("<III", btf, at)
        kind, parts = info >> 24 & 31, info & 0xFFFF
        at += 12
        if kind == STRUCT and text(name) == wanted:
            members = (struct.unpack_from("<III", btf, at + 12 * i) for i in range(parts))
            return {text(n): (bits & 0xFFFFFF if info >> 31 else bits) // 8 for n, _, bits in members}
        at += FIXED.get(kind, 0) + EACH.get(kind, 0) * parts
    raise LabError(f"kernel: its BTF has no struct {wanted}")


class Memory:
    """A guest's, by the kernel's addresses, after its end."""

    def __init__(self, kernel: Kernel, file: Path) -> None:
        self.file = file.open("rb")
        self.tables = kernel.at["init_top_pgt"] - TEXT_AT

    def _physical(self, address: int) -> int:
        if DIRECT <= address < TEXT_AT:
            return address - DIRECT
        table = self.tables
        for shift in (39, 30, 21, 12):
            self.file.seek(table + (address >> shift & 511) * 8)
            (entry,) = struct.unpack("<Q", self.file.read(8))
            if not entry & 1:
                raise LabError(f"guest: nothing is mapped at {address:#x}")
            table = entry & 0xFFFFFFFFFF000
            if shift == 12 or entry & 0x80:  # a page, or a large one
                return (table & -(1 << shift)) + (address & (1 << shift) - 1)
        raise AssertionError

    def read(self, address: int, length: int) -> bytes:
        parts = []
        while length:
            part = min(length, 4096 - address % 4096)
            self.file.seek(self._physical(address))
            parts.append(self.file.read(part))
            address, length = address + part, length - part
        return b"".join(parts)

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")


ELF_SYMBOL = struct.Struct("<IBBHQQ")
FUNCTION = 2
TEXT_END = 256  # bytes of a function without a size


def modules(kernel: Kernel, memory: Memory) -> list[Range]:
    """The functions of all modules that the kernel has at the end."""
    found, head = [], kernel.at["modules"]
    entry = memory.word(head)
    while entry != head:
        module = entry - kernel.module["list"]
        name = memory.read(module + kernel.module["name"], 56).split(b"\0")[0].decode()
        table = memory.word(module + kernel.module["kallsyms"])
        symbols, count = struct.unpack("<QI", memory.read(table, 12))
        strings = memory.word(table + 16)
        for text, info, _, section, start, size in ELF_SYMBOL.iter_unpack(
            memory.read(symbols, count * ELF_SYMBOL.size)
        ):
            if info & 15 == FUNCTION and section and start:
                function = memory.read(strings + text, 128).split(b"\0")[0].decode(errors="replace")
                found.append(Range(start, start + (size or TEXT_END), "module", name, _plain(function)))
        entry = memory.word(entry)
    return found


# --- BPF ----------------------------------------------------------------------------------

KSYM = struct.Struct("<QQQ128s")  # count.c: struct symbol


def bpf(file: Path) -> dict[int, list[Range]]:
    """Programs, and pieces of code that call programs, by the age in which they were there."""
    ages: dict[int, list[Range]] = {}
    for age, start, end, raw in KSYM.iter_unpack(file.read_bytes()):
        name = raw.split(b"\0")[0].decode(errors="replace")
        if name.startswith("bpf_prog_"):
            code = Range(start, end, "bpf", name.split("_", 3)[-1], name)
        else:
            code = Range(start, end, "bpf", "trampolines", name)
        ages.setdefault(age, []).append(code)
    return ages
