# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The files of a wheel of the lab beside its Python: the parts of this tree that the lab opens, and what `make` built.

They lie in asymlab/tree (experiments/asymlab/paths.py). The same tree and compilers give a wheel of the same bytes.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

TREE = Path(__file__).resolve().parent
BUILD = Path(os.path.relpath(os.environ.get("ASYMLAB_BUILD") or TREE / "build", TREE))  # make takes no odd names
FOLDERS = (
    TREE / "bpf",
    *(f for f in (TREE / "experiments").iterdir() if f.is_dir() and not f.name.startswith("asymlab")),
)
IMAGE = "image/6.12-uml"  # of the fast engine, where it is made
NEVER = shutil.ignore_patterns("__pycache__", ".*")


def lay_out(to: Path) -> None:
    """The tree of an installation."""
    if not shutil.which("make"):
        sys.exit("asymlab: make: not installed; run: sudo apt-get install -y --no-install-recommends make")
    if subprocess.run(["make", "--no-print-directory", f"B={BUILD}", "static"], cwd=TREE).returncode:
        sys.exit("asymlab: `make static` failed: its last line says why")
    for folder in FOLDERS:
        shutil.copytree(folder, to / folder.relative_to(TREE), ignore=NEVER)
    shutil.copy(TREE / "CITATION.cff", to)
    (to / "build").mkdir()
    objects = sorted(BUILD / f"{file.name.removesuffix('.c')}.o" for file in TREE.glob("bpf/*/*.bpf.c"))
    for file in (*objects, BUILD / "static/asymcc"):
        shutil.copy(file, to / "build")
    if (BUILD / IMAGE / "manifest.json").exists():
        image = to / "build" / IMAGE
        shutil.copytree(BUILD / IMAGE, image, ignore=NEVER)
        initramfs = image / "root.cpio"  # more than half of it: each guest's is unpacked as it starts
        initramfs.with_name("root.cpio.gz").write_bytes(gzip.compress(initramfs.read_bytes(), mtime=0))
        initramfs.unlink()


def same_modes(folder: Path) -> None:
    """Whatever the umask of a checkout."""
    for file in folder.rglob("*"):
        file.chmod(0o755 if file.is_dir() or file.name in ("asymcc", "linux") else 0o644)


class Package(build_py):
    """The package, and its tree. An editable one has this tree."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "asymlab")
        lay_out(package / "tree")
        same_modes(package)


class Machines(Distribution):
    """For one kind of machine: its loader is a program."""

    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    """For any Python: that program needs no library."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        super().egg2dist(egginfo_path, distinfo_path)
        same_modes(Path(distinfo_path))

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", f"linux_{os.uname().machine}"


os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600")  # 2026-01-01, the times in a wheel
setup(
    cmdclass={"build_py": Package, "bdist_wheel": Wheel},
    distclass=Machines,
    options={"build": {"build_base": str(BUILD / "wheel")}},
)
