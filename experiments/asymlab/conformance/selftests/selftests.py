# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's own tests of BPF congestion control in virtual time, each in a machine of its own.

Such a test is tools/testing/selftests/bpf/prog_tests/NAME.c: it loads the programs of progs/ that it names, sends data
over the loopback, and says what must be so. Test, programs and libbpf are those of the kernel's source, as they stand.
Its test_progs.c alone has another in its place (runner.c).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from ... import LabError
from ...guest.drill import Script
from ...machine.image import Image, current_image, label_of
from ...needs import LIBELF, STDIO, TYPES, check
from ...paths import BUILD, ELSEWHERE
from ...plan.compiler import check_compiled
from ...run import local
from ...shell import sh
from .. import source
from ..kernels.ktap import Test, tell
from ..kernels.outcome import Skip
from ..packetdrill import guest
from ..packetdrill.packetdrill import VIRTUAL_S, digest

TESTS = ("bpf_tcp_ca",)
LABEL = "newest"
FOLDER = "tools/testing/selftests/bpf"
RUNNER = Path(__file__).with_name("runner.c")
NEEDS = ("gcc", "make", "clang", "bwrap", STDIO, LIBELF, TYPES)
SKELETON = re.compile(r'^#include "(\w+)\.skel\.h"', re.M)
ENDED = re.compile(r"^(ok|not ok) \d+ (\S+)( # SKIP)?$")
PLAN = re.compile(r"^1\.\.\d+$", re.M)
UP = "ip link set lo up && exec selftest"


@dataclass(frozen=True)
class Case:
    name: str
    image: Image  # which has its program
    limit_s: float


# --- programs ------------------------------------------------------------------------------


def built(tree: Path, names: list[str], types: Path) -> dict[str, Path]:
    """Each test's program. `types`: the folder of the kernel's vmlinux.h."""
    if not (tree / FOLDER / "prog_tests").is_dir():
        raise LabError(f"{tree}: no source of a kernel with {FOLDER}")
    tests = {name: tree / FOLDER / "prog_tests" / f"{name}.c" for name in names}
    if lacking := [name for name, file in tests.items() if not file.is_file()]:
        raise LabError(f"--test {lacking[0]}: there is no {tests[lacking[0]]}")
    check(NEEDS)
    folder = BUILD / "selftests" / hashlib.sha256(str(tree.resolve()).encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tools = bpftool(tree.resolve(), folder)
        return {name: program(tree.resolve(), name, tools, types, folder) for name in names}
    except OSError as e:
        raise LabError(f"{e.filename or folder}: {e.strerror}{ELSEWHERE}") from None


def bpftool(tree: Path, folder: Path) -> Path:
    """Builds the tree's own, for its skeletons, without signing. Returns the folder that has it and libbpf."""
    make = ["make", "-s", "-C", str(tree / "tools/bpf/bpftool"), f"OUTPUT={folder}/", "SKIP_CRYPTO=1", "bootstrap"]
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    _build(tree / "tools/bpf/bpftool", make, env=env)
    return folder / "bootstrap"


def program(tree: Path, name: str, tools: Path, types: Path, folder: Path) -> Path:
    test = f"prog_tests/{name}.c"
    text = (tree / FOLDER / test).read_text()
    function = re.search(rf"^void ((?:serial_)?test_{name})\(void\)", text, re.M)
    if not function:
        raise LabError(f"{tree / FOLDER / test}: has no function test_{name}()")
    include = [f"-I{place}" for place in (".", tools / "libbpf/include", *(tree / "tools" / p for p in INCLUDED))]
    for skeleton in SKELETON.findall(text):
        one = folder / f"{skeleton}.o"
        argv = ["clang", *BPF, *include, f"-I{types}", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]
        compiled(tree, f"progs/{skeleton}.c", [*argv, "-c", f"progs/{skeleton}.c", "-o", str(one)])
        sh(tools / "bpftool", "gen", "object", folder / f"{skeleton}.bpf.o", one)
        made = sh(tools / "bpftool", "gen", "skeleton", folder / f"{skeleton}.bpf.o", "name", skeleton)
        (folder / f"{skeleton}.skel.h").write_text(made)
    out = folder / name
    argv = ["gcc", *HOST, *include, f"-I{folder}", f"-DTEST={function[1]}", "-o", str(out)]
    argv += [str(RUNNER), test, "network_helpers.c", str(tools / "libbpf/libbpf.a"), "-lelf", "-lz", "-lpthread"]
    compiled(tree, test, argv)
    return out


BPF = "--target=bpfel -mcpu=v3 -g -O2 -std=gnu11 -fms-extensions -fno-strict-aliasing -w".split()
BPF += "-D__TARGET_ARCH_x86 -DENABLE_ATOMICS_TESTS".split()
HOST = "-O1 -std=gnu11 -w -D_GNU_SOURCE -ffunction-sections -fdata-sections -Wl,--gc-sections".split()
INCLUDED = ("lib", "include", "arch/x86/include", "include/uapi")


def compiled(tree: Path, what: str, argv: list[str]) -> None:
    """In the tests' folder: messages name a file from there, wherever the tree lies."""
    _build(tree / FOLDER / what, argv, cwd=tree / FOLDER)


def _build(what: Path, argv: list[str], **kw) -> None:
    p = subprocess.run(argv, capture_output=True, text=True, **kw)
    check_compiled(what, argv[0], p.returncode, p.stderr)


# --- runs ----------------------------------------------------------------------------------


def run(case: Case, core: int, booted) -> dict[str, bytes]:
    job = Script(1, ".", ["sh", "-c", UP], VIRTUAL_S, [])
    return guest.run(case.image, job, {}, core, case.limit_s, booted)


def judged(name: str, runs: list[dict[str, bytes]]) -> Test:
    """A test with its subtests, as the first run has them; all must be as that one."""
    said = runs[0]["stdout"].decode(errors="replace")
    inner, notes = [], []
    for line in said.splitlines():
        if not (ended := ENDED.match(line)):
            notes.append(line)
            continue
        wrong = "; ".join(note for note in notes if ":FAIL:" in note) or "it does not say why"
        skipped = Skip(notes[-1] if notes else "") if ended[3] else None
        inner.append(Test(ended[2], wrong if ended[1] == "not ok" else skipped))
        notes = []
    code = runs[0]["code"].decode()
    if not PLAN.search(said):
        last = (runs[0]["stderr"].decode(errors="replace").strip().splitlines() or ["without a word"])[-1]
        inner.append(Test("comes to its end", f"exit {code}: {last}"))
    different = len({digest(files) for files in runs})
    if len(runs) > 1:
        same = f"{different} different outputs" if different > 1 else None
        inner.append(Test(f"{len(runs)} runs say the same", same, notes=[f"sha256 {digest(runs[0])}"]))
    failed = sum(isinstance(test.outcome, str) for test in inner)
    return Test(name, f"{failed} of {len(inner)} failed" if failed else None, inner)


def selftests(args) -> bool:
    """All that the command line asks for. True if all pass."""
    made = current_image(label_of(args.image, "uml"))
    tree = args.tree or source.of_release(made.kernel)
    names = args.test or list(TESTS)
    programs = built(tree, names, made.types)
    runs: dict[str, list[dict[str, bytes]]] = {name: [] for name in names}
    with ExitStack() as guests:
        images = {name: guests.enter_context(guest.guest(made, programs[name], "selftest")) for name in names}
        cases = [Case(name, images[name], args.limit) for name in names for _ in range(args.repeat)]
        under_way = guests.enter_context(closing(local.each(cases, args.jobs, run)))
        for case, files in under_way:
            if isinstance(files, LabError):
                raise LabError(f"{case.name}: {files}")
            runs[case.name].append(files)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                place = args.keep / f"{case.name}.{len(runs[case.name])}"
                place.write_bytes(files["stdout"] + files["stderr"])
    tests = [judged(name, runs[name]) for name in names]
    tell(tests, print)
    return not any(isinstance(test.outcome, str) for test in tests)
