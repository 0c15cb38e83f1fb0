# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's source: of the distribution's package linux-source-X.Y, fetched and unpacked as an ordinary user."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from ... import LabError
from ...paths import BUILD
from ...shell import sh
from ..arch import NATIVE
from ..kernel import alone, show, suites

TREES = (BUILD / "uml").resolve()  # the compiler is told the place: a link to a tree builds nothing anew
NEWEST = "newest"
# Three files of four, which a kernel without buses and devices does not need. Each folder keeps what make and kconfig
# read there. tools/testing is for `asymlab selftests`, which unpacks a source of its own.
NOT_COMPILED = (
    "Documentation/*.*",
    "Documentation/ABI/*",
    "arch/[!ux]*/*.*",
    "drivers/[!bcnpt]*/*.[chS]",  # base, char, net and tty stay
    "drivers/p[!c]*/*.[chS]",  # pci stays: Linux 7.3 compiles a file of it without a bus, too
    "drivers/net/*/*.[chS]",
    "samples/*.[chS]",
    "sound/*.[chS]",
    "tools/[!abils]*/*",
)


@dataclass(frozen=True)
class Source:
    tree: Path
    version: str  # of the package, or "user"
    package: str = ""
    sha256: str = ""  # of the package's file
    options: tuple[str, ...] = ()  # apt's, for the suite that has it
    settings: str = ""  # of the user, besides the lab's
    whole: bool = False  # all files of the package, for settings of the user and for the kernel's tests

    @property
    def there(self) -> bool:
        return (self.tree / ".unpacked").exists()

    def called(self, name: str) -> Source:
        """Whole, in a folder of its own, if there is a name: with other settings all would be built anew each time."""
        return replace(self, tree=self.tree.with_name(f"{self.tree.name}-{name}"), whole=True) if name else self


def find(wanted: str, say) -> Source:
    """The source of a series (6.12), or of the newest that is packaged. LabError if there is none."""
    seen: list[Source] = []
    with alone(NATIVE):
        for _, _, options in suites(NATIVE, f"the source of Linux {wanted}", say):
            name = f"linux-source-{wanted}"
            if wanted == NEWEST:
                record = show(options, "linux-source") or ""
                depends = re.search(r"^Depends: .*\b(linux-source-\d[\d.]*\d)", record, re.M)
                name = depends[1] if depends else ""
            for package in filter(None, (name, name and f"{name}.0")):  # Ubuntu's have three numbers
                fields = dict(re.findall(r"^(Version|SHA256): (\S+)", show(options, package) or "", re.M))
                if len(fields) == 2:
                    version = fields["Version"]
                    tree = TREES / f"{package}_{version.replace('~', '-')}"
                    seen.append(Source(tree, version, package, fields["SHA256"], tuple(options)))
            if seen and wanted != NEWEST:
                return seen[0]
    if not seen:
        raise LabError(f"kernel {wanted}: no linux-source-{wanted} in the package source; or give --tree FOLDER")
    return max(seen, key=lambda source: tuple(map(int, re.findall(r"\d+", source.package))))


def unpack(source: Source, say) -> None:
    """Into its folder: whole, or not at all."""
    tree, named = source.tree, f"{source.package} {source.version}"
    part = tree.with_name(f".{tree.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        say(f"downloading {named} (150 MB)")
        with alone(NATIVE):
            sh("apt-get", *source.options, "download", "--", named.replace(" ", "="), cwd=part)
        (deb,) = part.glob("*.deb")
        say(f"unpacking it into {tree} ({'1.7' if source.whole else '0.4'} GB; with what is built, 0.6 GB more)")
        archive = next(line.split()[-1] for line in sh("dpkg-deb", "-c", deb).splitlines() if ".tar." in line)
        # One pipe: the archive in the package is not kept.
        with (
            subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as outer,
            subprocess.Popen(["tar", "-xO", "--", archive], stdin=outer.stdout, stdout=subprocess.PIPE) as inner,
        ):
            top = Path(archive).name.partition(".tar.")[0]
            without = [] if source.whole else [f"--exclude={top}/{pattern}" for pattern in NOT_COMPILED]
            sh("tar", "-xJ", "--strip-components=1", "--anchored", *without, "-C", part, stdin=inner.stdout)
        deb.unlink()
        (part / ".unpacked").touch()
        shutil.rmtree(tree, ignore_errors=True)
        part.rename(tree)
    except StopIteration:
        raise LabError(f"{named}: holds no source") from None
    except OSError as e:
        raise LabError(f"{tree}: {e.strerror}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def of_user(tree: Path) -> Source:
    if not (tree / "arch/um/Makefile").is_file():
        raise LabError(f"--tree {tree}: no source of a kernel with arch/um")
    return Source(tree.resolve(), "user")
