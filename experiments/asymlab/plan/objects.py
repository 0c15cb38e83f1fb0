# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Controllers that are files: the built ones, by their names, and anyone's, by the paths of their files.

    fast                built of bpf/controllers or bpf/rivals
    ./mine.bpf.o        an object; ./mine.bpf.o:NAME where it has several
    ./mine.bpf.c        a source, compiled as ours are, with the types of the kernel that it is to run on
    ./tcp_mine.ko       a module of the kernel that it is to run on

asymcc tells what an object is and has. A module tells its kernel alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import LabError
from ..controllers import built_in
from ..guest.protocol import NAME
from ..needs import building
from ..paths import BUILT, REPO, near
from ..reading import read
from ..shell import sh
from .compiler import OBJECT_MAX, compiled
from .quantities import file_name
from .reasons import did_you_mean

SUFFIX, MODULE, THIN = ".bpf.o", ".ko", "thin"
PATH = re.compile(r"(.+\.(?:o|c|ko))(?::([A-Za-z_][\w.]{0,62}))?")
# Numbers of linux/bpf.h: a map that grows with its use; kinds whose size is in bytes; kinds that keep their keys.
NO_PREALLOC, RINGS, HASHES = 1, (27, 31), (1, 5, 9, 10)
HASHED = 64  # bytes of the kernel's own for each entry of these
DATA = re.compile(r"\.(?:data|rodata|bss)(?:\..*)?")  # sections that become maps
RESOLVED_MAX = 32  # names and arrays that a type is made of, as libbpf has it
VERMAGIC, PARMTYPE = re.compile(rb"\0vermagic=([!-~]{1,64}) "), re.compile(rb"\0parmtype=(\w{1,64}):")


@dataclass(frozen=True)
class File:
    """Anyone's object, source, or module."""

    path: Path
    chosen: str = ""  # the controller in it; "": the only one

    @property
    def module(self) -> bool:
        return self.path.suffix == MODULE

    @property
    def call(self) -> str:
        """A name for the controller: letters, digits and '_', 15 at most. A module's registers by a
        name of its own, which by custom is that of its file."""
        name = self.chosen or self.path.name.partition(".")[0]
        return re.sub("[^a-z0-9_]", "_", (name.removeprefix("tcp_") if self.module else name).lower())[:15] or "mine"

    @property
    def brought(self) -> str:
        """The end of its file's name in a run."""
        return MODULE if self.module else SUFFIX

    def __str__(self) -> str:
        return f"{self.path}:{self.chosen}" if self.chosen else str(self.path)


def is_file(controller: object) -> bool:
    """Whether a controller is given by a path: one has a '/', or ends with .o, .c or .ko."""
    return isinstance(controller, str) and ("/" in controller or bool(PATH.fullmatch(controller)))


def file_of(controller: str, folder: Path) -> File:
    """The file that a path names from the folder. ValueError if there is no such file."""
    found = PATH.fullmatch(file_name(controller))
    if not found:
        raise ValueError(
            f"{controller[:60]!r} is neither an object (.bpf.o) nor a source (.bpf.c), which :NAME may follow, nor a "
            f"module ({MODULE})"
        )
    path = Path(folder, found[1]).resolve()
    if not path.is_file():
        raise ValueError(f"{controller[:60]!r}: no such file: {path}")
    if path.name.startswith(("-", "@")):  # clang hands a name on to parts of its own, and each reads such words
        raise ValueError(f"{controller[:60]!r}: a name that begins with '-' or '@' is an option of compilers: rename")
    file = File(path, found[2] or "")
    if file.module and file.chosen:
        raise ValueError(f"{controller[:60]!r}: a module has no :NAME, all that it registers is there")
    return file


def parsed(controller: str) -> File:
    """A path of a command line. LabError if there is no such file."""
    try:
        return file_of(controller, Path.cwd())
    except ValueError as e:
        raise LabError(str(e)) from None


def data(file: File, types: Path | None) -> bytes:
    """The object. `types`: the folder of a kernel's vmlinux.h; None: this machine's kernel. LabError if it is none."""
    made = compiled(file.path, types) if file.path.suffix == ".c" else read(file.path, OBJECT_MAX)
    if file.module:
        kernel_of(file)
    else:
        _look(made, file)
    return made


def kernel_of(module: File) -> tuple[str, set[str]]:
    """The release of the kernel that a module was built for, and the module's parameters. LabError if it is none."""
    data = read(module.path, OBJECT_MAX)
    found = VERMAGIC.search(data) if data.startswith(b"\x7fELF") else None
    if not found:
        raise LabError(f"{module}: not a kernel module: it tells no kernel that it was built for (vermagic)")
    return found[1].decode(), {name.decode() for name in PARMTYPE.findall(data)}


def shown(controller: str) -> dict:
    """asymcc's words on a controller, or `thin`, by a name or a path. A source is compiled for this machine."""
    return told(file_of(controller, Path.cwd()) if is_file(controller) else controller, None)


def told(controller: str | File, types: Path | None) -> dict:
    """shown() for the kernel of `types`, as data() takes them."""
    if isinstance(controller, File):
        if controller.module:
            raise LabError(f"{controller}: what a module has is not known: a scenario runs it (docs/scenarios.md)")
        return _look(data(controller, types), controller)
    path = BUILT / f"{controller}{SUFFIX}"
    return _of_built(path, path.stat().st_mtime_ns if path.exists() else 0)


def needed_by(told: dict) -> tuple[int, ...]:
    """The first Linux that takes a controller, as its object says (NEEDS_LINUX) in shown(); (): it says nothing."""
    return tuple(map(int, told["needs"]["linux"].split("."))) if told["needs"] else ()


def needs(controller: str) -> tuple[int, ...]:
    return needed_by(shown(controller))


def built_for(series: tuple[int, ...]) -> list[str]:
    """The built controllers, but those that say that they need a newer Linux than this."""
    return [name for name in built_in(BUILT) if needs(name) <= series]


def absolute(controller: str, linux: tuple[str, ...] = ()) -> str:
    """A controller of a command line: a name that there is, or a path, made absolute. LabError for any other."""
    if is_file(controller):
        return str(parsed(controller))
    there = (*built_in(BUILT), *linux)
    if not there:
        raise LabError(f"{BUILT}: no controller is there; {building()}")
    if controller not in there:
        raise LabError(no_such(controller, there))
    return controller


def source_of(name: str) -> Path | None:
    """The source of one that is or could be built; None: there is none, as in an installation."""
    files = (REPO / "bpf" / folder / f"{name}.bpf.c" for folder in ("controllers", "rivals"))
    return next((file for file in files if re.fullmatch(NAME, name) and file.exists()), None)


def no_such(name: str, there: Iterable[str]) -> str:
    if source := source_of(name):
        return f"{near(source)} is not built; {building()}"
    mended = did_you_mean(name, there)
    return f"no controller {name[:40]!r}; there are {', '.join(there)}, and files (./mine{SUFFIX}){mended}"


def stale(names: Iterable[str]) -> list[str]:
    """A line for each built controller whose source has changed since."""
    told = []
    for name in sorted(names):
        source, built = source_of(name), BUILT / f"{name}{SUFFIX}"
        if source and built.exists() and source.stat().st_mtime > built.stat().st_mtime:
            told.append(f"{near(source)} is newer than {near(built)}, which runs; {building()}")
    return told


def called(controllers: list[str]) -> dict[str, str]:
    """Controllers of a command line, by a name for each: its own; of a path its file's, 13 characters at most."""
    found: dict[str, str] = {}
    for one in controllers:
        whole = absolute(one)
        base = file_of(whole, Path()).call[:13] if is_file(whole) else whole
        taken = {*found, *(built_in(BUILT) if is_file(whole) else ())}
        ends = ("", *(f"_{n}" for n in range(2, 100)))
        found[next(name for end in ends if (name := f"{base[: 13 - len(end)]}{end}") not in taken)] = whole
    return found


@cache
def maps_mb(made: bytes) -> int:
    """The memory that an object's maps take as soon as it is loaded, about. LabError if its types are damaged."""
    try:
        return _maps_bytes(made) >> 20
    except (ValueError, LookupError, TypeError, AttributeError):
        raise LabError("an object's types (BTF) are damaged: compile it again") from None


def _maps_bytes(made: bytes) -> int:
    with tempfile.NamedTemporaryFile() as file:
        file.write(made)
        file.flush()
        types = {t["id"]: t for t in json.loads(sh("bpftool", "-j", "btf", "dump", "file", file.name))["types"]}
    types[0] = {"name": "", "kind": "VOID", "size": 0}

    def size(number: int) -> int:
        count = 1
        for _ in range(RESOLVED_MAX):
            of = types[number]
            if of["kind"] == "PTR":
                return 8 * count
            if of["kind"] == "ARRAY":
                count *= of["nr_elems"]
            elif "size" in of:
                return of["size"] * count
            number = of.get("type_id", 0)  # a structure that is only declared has none: libbpf refuses the map
        raise ValueError("a type that is made of itself")

    def map_bytes(members: dict[str, dict]) -> int:
        number = {name: types.get(pointer.get("type_id"), {}).get("nr_elems", 0) for name, pointer in members.items()}
        if number.get("map_flags", 0) & NO_PREALLOC:
            return 0

        def part(name: str) -> int:
            given = f"{name}_size"
            return number[given] if given in number else size(members[name]["type_id"]) if name in members else 0

        kind = number.get("type")
        entry = 1 if kind in RINGS else _whole(part("value")) + (HASHED + _whole(part("key"))) * (kind in HASHES)
        return number.get("max_entries", 0) * entry

    total = 0
    for section in (t for t in types.values() if t["kind"] == "DATASEC"):
        if section["name"] == ".maps":
            structs = (types[types[var["type_id"]]["type_id"]].get("members", ()) for var in section["vars"])
            total += sum(map_bytes({m["name"]: types[m["type_id"]] for m in members}) for members in structs)
        elif DATA.fullmatch(section["name"]):
            total += sum(var["size"] for var in section["vars"])
    return total


def _whole(size: int) -> int:
    """A key or a value as the kernel lays it out."""
    return -(-size // 8) * 8


@cache
def _of_built(path: Path, changed_ns: int) -> dict:
    return json.loads(sh(BUILT / "asymcc", "show", path, "--json"))


@cache
def _look(made: bytes, file: File) -> dict:
    """asymcc's words on an object, with the user's words for where it comes from."""
    with tempfile.TemporaryDirectory() as tmp:
        copy = Path(tmp, f"{file.call}{SUFFIX}")
        copy.write_bytes(made)
        asked = f"{copy}:{file.chosen}" if file.chosen else str(copy)
        p = subprocess.run([BUILT / "asymcc", "show", asked, "--json"], capture_output=True, text=True)
        if p.returncode:
            raise LabError(p.stderr.strip().removeprefix("asymcc: ").replace(str(copy), str(file.path)))
        return json.loads(p.stdout)
