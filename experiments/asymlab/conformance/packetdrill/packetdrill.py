# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's own TCP tests in virtual time: packetdrill scripts, each in a machine of its own.

A script runs under IPv4, under IPv4 in sockets of IPv6, and under IPv6, as the kernel's ksft_runner.sh has it; one that
names its --ip_version runs under that alone, and one whose name ends with v4 or v6 under that. It brings along the
files beside it that it names, such as defaults.sh.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.progress import track
from rich.table import Table
from rich.text import Text

from ... import LabError, reading
from ...console import console
from ...guest.drill import PACKETDRILL, Script
from ...guest.job import Controller
from ...machine.image import Image, current_image, is_made, label_of
from ...paths import BUILT, COMMAND
from ...plan import objects
from ...run import local
from .. import source
from . import guest

LABEL = "newest-packetdrill"
MAKE = f"{COMMAND} image --engine uml --kernel newest --config experiments/kernels/packetdrill.config"
SELFTESTS = "tools/testing/selftests/net/packetdrill"  # of the kernel's source
BINARY = "ASYMLAB_PACKETDRILL"
LIMIT_S = 60  # of wall time, for a script
VIRTUAL_S = 3600
TRIES = 40  # of tolerances
TOLERANCE_MAX_US = 1_000_000
SCRIPT_MAX = 1 << 20  # bytes, of a script or a file that it names
V4 = "--local_ip=192.168.0.1 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1"
V4 += " -D CODE=host_unreachable -D TFO_COOKIE=3021b9d889017eeb -D TFO_COOKIE_ZERO=b7c12350a90dc8f5"
V6 = "--mtu=1520 --local_ip=fd3d:0a0b:17d6::1 --gateway_ip=fd3d:0a0b:17d6:8888::1 --remote_ip=fd3d:fa7b:d17d::1"
V6 += " -D TFO_COOKIE=c1d1e9742a47a9bc -D TFO_COOKIE_ZERO=82af1a8f9a205c34"
ERRORS4 = "-D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR"
ERRORS6 = "-D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR"
# ksft_runner.sh gives packetdrill these, and packetdrill's own run_all.py gives it CODE. The cookies are those of
# the key that defaults.sh sets, for these addresses.
MODES = {"ipv4": f"{V4} {ERRORS4}", "ipv4-mapped-ipv6": f"{V4} {ERRORS6}", "ipv6": f"{V6} {ERRORS6}"}
VERSION = re.compile(r"^--ip_version=(\S+)", re.M)
NAMED = re.compile(r"(?<![\w/.])\.{1,2}/[\w./-]+")  # files beside it
TIMES = re.compile(
    r"timing error: expected .*? (?:at (?P<at>[+-]?[\d.]+) sec|range (?P<from>[+-]?[\d.]+)~(?P<to>[+-]?[\d.]+) sec) "
    r"but happened at (?P<was>[+-]?[\d.]+) sec"
)
STYLES = {"pass": "green", "fail": "bold red", "differs": "bold red", "error": "bold red", "-": "dim"}


@dataclass(frozen=True, eq=False)
class Drill:
    """A script."""

    name: str  # as it is called in tables
    folder: str  # in the guest
    file: str
    text: str
    files: dict[str, bytes]  # it, and what it names: by the place in the guest

    @property
    def modes(self) -> list[str]:
        if named := VERSION.findall(self.text):
            return [mode for mode in MODES if mode in named]
        six = {"v4.pkt": False, "v6.pkt": True}.get(self.file[-6:])
        return [mode for mode in MODES if six in (None, mode == "ipv6")]


@dataclass(frozen=True)
class Case:
    """A script in a mode."""

    drill: Drill
    mode: str
    tolerance_us: int


@dataclass
class Outcome:
    verdict: str  # pass, fail, differs, error
    reason: str = ""
    needs_us: int | None = None  # the tolerance that it passes with
    sha256: str = ""
    runs: int = 0
    outputs: list[dict[str, bytes]] = field(default_factory=list)  # one, or all that differ


# --- scripts -------------------------------------------------------------------------------


def drills(paths: Iterable[Path]) -> list[Drill]:
    """The scripts of files, and of folders all that lie in them. LabError where there is none."""
    found = []
    for path in paths:
        scripts = sorted(path.rglob("*.pkt")) if path.is_dir() else [path]
        if not scripts:
            raise LabError(f"{path}: no packetdrill script (*.pkt) in this folder")
        given = path if path.is_dir() else path.parent
        found += [read(script, given) for script in scripts]
    return found


def read(script: Path, given: Path) -> Drill:
    """A script, with the files that it or one of them names by a path from its folder. LabError if one of them lies
    outside the given folder: a script of a stranger's reads no other file of the user's."""
    at = Path(os.path.abspath(script))  # links keep their places: a script names them
    if not at.resolve().is_relative_to(given.resolve()):
        raise LabError(f"{script}: a link to a file outside of {given}: give the folder that has it")
    folder, texts = at.parent, {at: content(at)}
    left = [at]
    while left:
        for word in NAMED.findall(texts[left.pop()].decode(errors="replace")):
            file = Path(os.path.normpath(folder / word))
            if file not in texts and file.is_file():
                if not file.resolve().is_relative_to(given.resolve()):
                    raise LabError(f"{script}: names {word}, which is outside of {given}: give a folder that has both")
                texts[file] = content(file)
                left.append(file)
    top = os.path.commonpath([file.parent for file in texts])
    files = {f"scripts/{file.relative_to(top)}": text for file, text in texts.items()}
    return Drill(
        str(script.relative_to(given)), str(folder.relative_to(top)), at.name, texts[at].decode(errors="replace"), files
    )


def content(file: Path) -> bytes:
    try:
        return reading.read(file, SCRIPT_MAX)
    except OSError as e:
        raise LabError(f"{file}: {e.strerror}") from None


# --- a case --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """The settings that are the same for all cases."""

    image: Image
    name: str  # of the image
    brought: dict[str, bytes]  # objects
    controllers: list[Controller]
    limit_s: float
    repeat: int
    needs: bool

    def once(self, case: Case, core: int, booted) -> dict[str, bytes]:
        drill = case.drill
        argv = [PACKETDRILL, f"--ip_version={case.mode}", *MODES[case.mode].split(), "--verbose"]
        argv += [f"--tolerance_usecs={case.tolerance_us}", drill.file]
        job = Script(1, drill.folder, argv, VIRTUAL_S, self.controllers)
        return guest.run(self.image, job, drill.files | self.brought, core, self.limit_s, booted)

    def outcome(self, case: Case, core: int, booted) -> Outcome:
        seen: dict[str, dict[str, bytes]] = {}
        for _ in range(self.repeat):
            try:
                files = self.once(case, core, booted)
            except LabError as e:
                if not e.kind:  # of no test: of all
                    raise LabError(f"image {self.name}: {e}") from None
                return Outcome("error", str(e))
            seen[digest(files)] = files
        first = next(iter(seen.values()))
        made = Outcome("pass" if first["code"] == b"0" else "fail", reason(first), None, next(iter(seen)), self.repeat)
        made.outputs = list(seen.values())
        if len(seen) > 1:
            made.verdict, made.reason = "differs", f"{len(seen)} different outputs in {self.repeat} runs"
        elif made.verdict == "fail" and self.needs:
            made.needs_us = self.needed(case, made.reason, core, booted)
        return made

    def needed(self, case: Case, said: str, core: int, booted) -> int | None:
        """The tolerance with which it passes: of each failure by a time what that lacks. None: it fails by more."""
        us = case.tolerance_us
        for _ in range(TRIES):
            lacks = gap_us(said)
            if lacks is None or lacks > TOLERANCE_MAX_US:
                return None
            us = max(us + 1, lacks)
            files = self.once(replace(case, tolerance_us=us), core, booted)
            if files["code"] == b"0":
                return us
            said = reason(files)
        return None


def digest(files: dict[str, bytes]) -> str:
    return hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()


def reason(files: dict[str, bytes]) -> str:
    """The first line of what it says of its failure."""
    if files["code"] == b"0":
        return ""
    said = files["stderr"].decode(errors="replace").strip().splitlines()
    return said[0].strip() if said else f"exit {files['code'].decode()}, without a word"


def gap_us(said: str) -> int | None:
    """By how much it was early or late. None: this is no failure by a time."""
    if not (found := TIMES.search(said)):
        return None
    low, high = (float(found[x] or found["at"]) for x in ("from", "to"))
    was = float(found["was"])
    return round(max(low - was, was - high) * 1e6)


# --- all of them ---------------------------------------------------------------------------


def image(label: str | None) -> Image:
    """LabError, with the command that makes it, if it is not there."""
    name = label_of(label or LABEL, "uml")
    if not label and not is_made(name):
        raise LabError(f"image {name}: not made; `{MAKE}` makes it")
    return current_image(name)


def loaded(names: list[str], made: Image) -> tuple[list[Controller], dict[str, bytes]]:
    """Controllers of a command line, as a job has them, and their objects."""
    controllers, brought = [], {}
    for name, whole in objects.called(names).items():
        file = whole if objects.is_file(whole) else str(BUILT / f"{whole}{objects.SUFFIX}")
        controllers.append(Controller(name, name, {}, "asymcc"))
        brought[f"{name}{objects.SUFFIX}"] = objects.data(objects.file_of(file, Path()), made.types)
    return controllers, brought


def run(cases: list[Case], bench: Bench, jobs: int | None) -> dict[Case, Outcome]:
    done: dict[Case, Outcome] = {}
    with closing(local.each(cases, jobs, bench.outcome)) as under_way:
        for case, made in track(under_way, "tests", len(cases), console=console, disable=not console.is_terminal):
            if isinstance(made, LabError):
                raise made
            done[case] = made
    return {case: done[case] for case in cases}


# --- what is told --------------------------------------------------------------------------


def table(done: dict[Case, Outcome]) -> Table:
    """A row a script; the reason is that of the first mode in which it fails."""
    shown = Table(box=None, header_style="bold", padding=(0, 1))
    needs = any(made.needs_us is not None for made in done.values())
    for column in ("script", *MODES, *(["needs, us"] if needs else []), "reason"):
        shown.add_column(column, overflow="fold", justify="right" if column == "needs, us" else "left")
    for drill in dict.fromkeys(case.drill for case in done):
        mine = {case.mode: made for case, made in done.items() if case.drill is drill}
        words = [mine[mode].verdict if mode in mine else "-" for mode in MODES]
        most = max((made.needs_us for made in mine.values() if made.needs_us is not None), default=None)
        why = next((made.reason for made in mine.values() if made.reason), "")
        told = ["" if most is None else str(most)] if needs else []
        shown.add_row(drill.name, *(Text(word, style=STYLES[word]) for word in words), *told, Text(why))
    return shown


def line(done: dict[Case, Outcome], tolerance_us: int) -> str:
    counts = Counter(made.verdict for made in done.values())
    told = ", ".join(f"{counts[word]} {word}" for word in STYLES if counts[word])
    repeats = max(made.runs for made in done.values())
    same = f"; {repeats} runs of each" if repeats > 1 else ""
    return f"{len(done)} tests at a tolerance of {tolerance_us} us: {told}{same}"


def write_json(done: dict[Case, Outcome], bench: Bench, binary: Path, file: Path) -> None:
    rows = [
        {
            "script": case.drill.name,
            "mode": case.mode,
            "tolerance_us": case.tolerance_us,
            "verdict": made.verdict,
            "reason": made.reason,
            "needs_us": made.needs_us,
            "runs": made.runs,
            "output_sha256": made.sha256,
        }
        for case, made in done.items()
    ]
    about = {
        "kernel": bench.image.kernel,
        "image": bench.image.hash,
        "packetdrill_sha256": hashlib.sha256(binary.read_bytes()).hexdigest(),
    }
    file.write_text(json.dumps(about | {"tests": rows}, indent=1) + "\n")


def write_outputs(done: dict[Case, Outcome], folder: Path) -> None:
    """Writes packetdrill's words of each run, with all packets and their times; of runs that differ, each."""
    for case, made in done.items():
        for number, files in enumerate(made.outputs):
            place = folder / f"{case.drill.name}.{case.mode}{f'.{number + 1}' if number else ''}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(files["stdout"] + files["stderr"])


def program(given: Path | None) -> Path:
    """LabError if there is none."""
    found = given or os.environ.get(BINARY) or shutil.which("packetdrill")
    if not found:
        raise LabError(
            f"packetdrill: not found; give --packetdrill FILE ({BINARY}); docs/testing.md tells how to build it"
        )
    guest.check_program(Path(found))
    return Path(found)


def drill(args) -> bool:
    """All that the command line asks for. True if all pass."""
    scripts, binary = drills(args.scripts) if args.scripts else None, program(args.packetdrill)
    made = image(args.image)
    scripts = scripts or drills([source.of_release(made.kernel) / SELFTESTS])
    controllers, brought = loaded(args.controller, made)
    cases = [Case(one, mode, args.tolerance) for one in scripts for mode in one.modes]
    with guest.guest(made, binary) as ready:
        bench = Bench(ready, made.folder.name, brought, controllers, args.limit, args.repeat, args.needs)
        done = run(cases, bench, args.jobs)
    console.print(table(done))
    console.print(line(done, args.tolerance))
    if args.json:
        write_json(done, bench, binary, args.json)
    if args.keep:
        write_outputs(done, args.keep)
    return all(made.verdict == "pass" for made in done.values())
