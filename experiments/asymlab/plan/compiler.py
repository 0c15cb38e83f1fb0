# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compiles anyone's source of a controller.

A source can ask the compiler for any file (.incbin) and for any amount of memory. So clang sits in a cage: it sees the
folder of the source, bpf/, the kernel's types, the system's headers and itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from signal import SIGXCPU, SIGXFSZ

from .. import LabError, printable, syscalls
from ..cage import WORDS, Cage, confined, kind
from ..needs import COMPILING, check
from ..paths import REPO
from ..reading import read
from ..shell import sh

RUNNING = Path("/sys/kernel/btf/vmlinux")  # types of this machine's kernel
BPF = REPO / "bpf"
HEADERS, HEADER = Path("/usr/include"), "vmlinux.h"
ERROR = re.compile(r"^(?:.*: )?(?:fatal )?error: .*|^LLVM ERROR: .*", re.M)
CRASHED = "PLEASE submit a bug report"  # and a dump of the compiler's own stack follows
SIGNED = re.compile(r"Cannot select: .* = s(?:div|rem)\b")
ELSEWHERE = re.compile(r"file not found|Could not find incbin file|Permission denied")
REDEFINED = re.compile(r"error: redefinition of (?:enumerator )?'(\w+)'")
# Linux's own controllers call their state so, and their modes. A kernel that has them built in has these among its
# types, and a source may have its own.
STATES = "bbr|bictcp|cdg|dctcp|hstcp|htcp|hybla|illinois|lp|tcpnv|vegas|veno|westwood|yeah"
PRIVATE = re.compile(rf"\b(?:(?:struct|enum) (?:{STATES}|(?:bbr|hybla)_\w+)|BBR_\w+)\b")
QUIET = {"LLVM_DISABLE_SYMBOLIZATION": "1"}  # at its end by a limit it would start a program
COMPILE_S = 120
MEMORY_MAX = 2 << 30
OBJECT_MAX = 64 << 20  # bytes; the largest of ours, with all debug information, has one
OUTPUT_MAX = 1 << 20  # bytes of the compiler's words that are read
WORDS_MAX = 4000  # characters of them that are shown, from the first error on
TARGETS = {"x86_64": "x86", "aarch64": "arm64"}  # as bpf_tracing.h has them
# Paths in the cage: this machine's files and folders.
SOURCE, TYPES, OURS = "/source", "/types", "/bpf"


def compiled(source: Path, types: Path | None) -> bytes:
    """The same bytes wherever the source lies. `types`: the folder of a kernel's vmlinux.h; None: this machine's
    kernel. LabError with the compiler's first complaint, behind all its words. It is compiled once, as long as neither
    it, nor a header beside it, nor the types change."""
    headers = sorted(filter(Path.is_file, source.parent.glob("*.h")))
    try:
        files = [source, *headers, *([types / HEADER] if types else ())]
        states = [(file, (s := file.stat()).st_ino, s.st_mtime_ns, s.st_size) for file in files]
    except OSError as e:
        raise LabError(f"{e.filename}: {e.strerror}") from None
    return _compiled(source, types, *states)


@cache
def _compiled(source: Path, types: Path | None, *_: tuple[Path, int, int, int]) -> bytes:
    check(COMPILING)
    with tempfile.TemporaryDirectory() as tmp:
        whole, bare, header = Path(tmp, "whole"), Path(tmp, "bare"), Path(tmp, HEADER)
        text = (types / HEADER).read_text() if types else _of_this_machine()
        header.write_text(text)
        code, words = _clang(source, header, whole)
        if twice := set(REDEFINED.findall(words)):
            renamed = PRIVATE.sub(lambda name: name[0] + "___kernel" * (name[0].split()[-1] in twice), text)
            if renamed != text:
                header.write_text(renamed)
                code, words = _clang(source, header, whole)
        check_compiled(source, "clang", code, words)
        code, words = _run(header, "llvm-strip", ["-g", "-", "-o", "-"], source, whole, bare)
        check_compiled(source, "llvm-strip", code, words)
        return read(bare, OBJECT_MAX)


def _clang(source: Path, header: Path, out: Path) -> tuple[int, str]:
    renamed = _cage() is Cage.BUBBLEWRAP
    ours, kernels, folder = (OURS, TYPES, SOURCE) if renamed else (str(BPF), str(header.parent), str(source.parent))
    flags = [f"@{ours}/cflags", f"-I{kernels}", f"-I{ours}", "-idirafter", f"{HEADERS}/{_machine()}-linux-gnu"]
    flags += [f"-D__TARGET_ARCH_{TARGETS[_machine()]}", "-fno-crash-diagnostics"]
    flags += [f"-ffile-prefix-map={place}=." for place in (kernels, ours, folder)]
    return _run(header, "clang", [*flags, "-c", source.name, "-o", "-"], source, Path("/dev/null"), out)


@cache
def _cage() -> Cage:
    return kind("a compiler", "compile the source elsewhere (an object, .bpf.o, needs no compiler)")


def _bubble(source: Path, header: Path) -> list[str]:
    """The command that a compiler's goes behind."""
    files = {SOURCE: source.parent, f"{TYPES}/{HEADER}": header, OURS: BPF, **_compilers()}
    return [
        *WORDS,
        *(word for place, file in files.items() for word in ("--ro-bind", str(file), place)),
        "--chdir",
        SOURCE,
    ]


@cache
def _compilers() -> dict[str, Path]:
    """The files of compilers, by their places in the cage."""
    tools = {str(_tool(name)): _tool(name).resolve() for name in ("clang", "llvm-strip")}
    own = sh("clang", "-print-resource-dir").strip()
    files = {str(HEADERS): HEADERS, own: Path(own).resolve(), **tools}
    for library in re.findall(r"(/\S+) \(0x", sh("ldd", *tools.values())):
        files[os.path.normpath(library)] = Path(library).resolve()
    return files


@cache
def _tool(name: str) -> Path:
    """Its place, with no link in the way but that of its name: libraries and headers are found from there."""
    file = sh(
        "clang", f"-print-prog-name={name}"
    ).strip()  # the program itself, where a wrapper (ccache) is in the PATH
    return Path(file).resolve().with_name(name)


def _run(header: Path, tool: str, options: list[str], source: Path, stdin: Path, stdout: Path) -> tuple[int, str]:
    """A tool's exit code, and its words. LabError in the words of its limits."""
    box, calls = [], syscalls.filter_file(syscalls.compiler_program())
    if _cage() is Cage.BUBBLEWRAP:
        box = _bubble(source, header)
    elif _cage() is Cage.LANDLOCK:
        folders = [source.parent, header.parent, BPF, HEADERS]
        box = confined(folders, _compilers().values(), [Path("/dev/null")], calls)
    argv = [*box, str(_tool(tool)), *options]
    limits = f"prlimit --as={MEMORY_MAX} --fsize={OBJECT_MAX} --cpu={COMPILE_S}:{COMPILE_S + 1} --core=0".split()
    with open(stdin, "rb") as into, open(stdout, "wb") as out, tempfile.TemporaryFile() as err:
        try:
            code = subprocess.run(
                [*limits, *argv],
                cwd=source.parent,
                env=QUIET | {"PATH": os.environ["PATH"]},
                stdin=into,
                stdout=out,
                stderr=err,
                pass_fds=[calls],
                timeout=COMPILE_S,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -SIGXCPU
        finally:
            os.close(calls)
        err.seek(0)
        words = err.read(OUTPUT_MAX).decode(errors="replace")
    ended_by = -code if code < 0 else code - 128  # behind the cage it is told as a shell would
    if ended_by == SIGXCPU:
        raise LabError(f"{source}: {tool} takes more than {COMPILE_S} s")
    if ended_by == SIGXFSZ:
        raise LabError(f"{source}: its object would have more than {OBJECT_MAX >> 20} MB")
    if "LLVM ERROR: out of memory" in words:
        raise LabError(f"{source}: {tool} needs more than {MEMORY_MAX >> 20} MB of memory for it")
    return code, words


def check_compiled(source: Path, compiler: str, code: int, words: str) -> None:
    """LabError with the compiler's first complaint, behind all its words."""
    if not code:
        return
    words = words.partition(CRASHED)[0]
    first = ERROR.search(words)
    complaint = first[0][:200] if first else f"exit {code}"
    print(
        "\n".join(map(printable, words[first.start() if first else 0 :][:WORDS_MAX].rstrip().splitlines())),
        file=sys.stderr,
    )
    hint = (
        f"; it sees the folder of the source, bpf/ and {HEADERS}: copy what it needs beside the source"
        if compiler == "clang" and ELSEWHERE.search(words)
        else "; BPF has no signed division: make both sides unsigned"
        if SIGNED.search(words)
        else ""
    )
    raise LabError(f"{source}: {compiler} does not compile it: {complaint}{hint}")


@cache
def _machine() -> str:
    return sh("uname", "-m").strip()


@cache
def _of_this_machine() -> str:
    if not RUNNING.exists():
        raise LabError(f"{RUNNING}: this machine's kernel has no BTF to compile a source with; compile it elsewhere")
    return sh("bpftool", "btf", "dump", "file", RUNNING, "format", "c")
