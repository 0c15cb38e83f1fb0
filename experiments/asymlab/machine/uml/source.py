# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel's source: of the distribution's package linux-source-X.Y, fetched and unpacked as an ordinary user."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ... import LabError
from ...paths import BUILD
from ...shell import sh
from ..arch import NATIVE
from ..kernel import alone, show, suites

TREES = BUILD / "uml"
NEWEST = "newest"


@dataclass(frozen=True)
class Source:
    tree: Path
    version: str  # of the package, or "user"


def fetch(wanted: str, say) -> Source:
    """The source of a series (6.12), or of the newest that is packaged. LabError if there is none."""
    with alone(NATIVE):
        package, version, options = _find(wanted, say)
        tree = TREES / f"{package}_{version.replace('~', '-')}"
        if not (tree / ".unpacked").exists():
            _unpack(package, version, options, tree, say)
    return Source(tree, version)


def _find(wanted: str, say) -> tuple[str, str, list[str]]:
    """The package, its version, and apt's options for the suite that has it."""
    seen: dict[str, tuple[str, list[str]]] = {}
    for _, _, options in suites(NATIVE, f"the source of Linux {wanted}", say):
        name = f"linux-source-{wanted}"
        if wanted == NEWEST:
            depends = re.search(r"^Depends: .*\b(linux-source-\d[\d.]*\d)", show(options, "linux-source") or "", re.M)
            name = depends[1] if depends else ""
        for package in filter(None, (name, name and f"{name}.0")):  # Ubuntu's have three numbers
            found = re.search(r"^Version: (\S+)", show(options, package) or "", re.M)
            if found and wanted != NEWEST:
                return package, found[1], options
            if found:
                seen[package] = found[1], options
    if not seen:
        raise LabError(f"kernel {wanted}: no linux-source-{wanted} in the package source; or give --tree FOLDER")
    package = max(seen, key=lambda p: tuple(map(int, re.findall(r"\d+", p))))
    return package, *seen[package]


def _unpack(package: str, version: str, options: list[str], tree: Path, say) -> None:
    """Into its folder: whole, or not at all."""
    part = tree.with_name(f".{tree.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        say(f"downloading {package} {version} (150 MB)")
        sh("apt-get", *options, "download", f"{package}={version}", cwd=part)
        (deb,) = part.glob("*.deb")
        say(f"unpacking it into {tree} (1.7 GB; with what is built, 3 GB)")
        archive = next(line.split()[-1] for line in sh("dpkg-deb", "-c", deb).splitlines() if ".tar." in line)
        # One pipe: the archive in the package is not kept.
        with (
            subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as outer,
            subprocess.Popen(["tar", "-xO", archive], stdin=outer.stdout, stdout=subprocess.PIPE) as inner,
        ):
            sh("tar", "-xJ", "--strip-components=1", "-C", part, stdin=inner.stdout)
        deb.unlink()
        (part / ".unpacked").touch()
        shutil.rmtree(tree, ignore_errors=True)
        part.rename(tree)
    except StopIteration:
        raise LabError(f"{package} {version}: holds no source") from None
    except OSError as e:
        raise LabError(f"{tree}: {e.strerror}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def of_user(tree: Path) -> Source:
    if not (tree / "arch/um/Makefile").is_file():
        raise LabError(f"--tree {tree}: no source of a kernel with arch/um")
    return Source(tree.resolve(), "user")
