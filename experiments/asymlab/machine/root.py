# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The sources of a guest's programs: this machine, or Debian packages of another architecture.

Those are of this machine's own suite. They are unpacked and not installed. `python3 -m asymlab.machine.root ARCH root`
fetches them, and with `sources` in place of `root` what a static asymcc is linked with.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from .. import LabError
from ..needs import check, how
from ..paths import BUILD
from ..shell import sh
from .arch import NATIVE, Arch, named
from .kernel import alone, apt_options, apt_source, update

PYTHON = "python3"
# To build with, for guests, and for small ones.
PACKAGES = (*("libbpf-dev", "musl-dev"), *("python3", "iproute2", "nftables", "kmod", "bpftool"), *("busybox-static",))
SOURCES = ("libbpf", "elfutils", "zlib")


class Here:
    """This machine."""

    folder = Path("/")
    admin = Path("/var/lib/dpkg")

    def tool(self, name: str) -> Path:
        found = shutil.which(name)
        if not found:
            raise LabError(f"{name}: not installed; {how([name])}")
        return Path(found)

    def python(self) -> Path:
        python = Path("/usr/bin", PYTHON)
        check([str(python)])
        return python.resolve()

    def libraries(self, binary: Path) -> dict[str, Path]:
        """The shared libraries a binary needs, the dynamic linker among them: by their places in a guest."""
        out = subprocess.run(["ldd", str(binary)], capture_output=True, text=True).stdout
        if missing := re.search(r"(\S+) => not found", out):
            raise LabError(f"{binary}: its library {missing[1]} is missing")
        return {path.lstrip("/"): Path(path) for path in re.findall(r"(/\S+) \(0x", out)}

    def resolved(self, file: Path) -> Path:
        return file.resolve()

    def package(self, file: Path) -> str:
        """The Debian package that owns a file, with its version; '-' if none does."""
        path = f"/{file.relative_to(self.folder)}"
        return self.owners.get(path) or self.owners.get(path.removeprefix("/usr"), "-")

    @functools.cached_property
    def owners(self) -> dict[str, str]:
        """The package of each file. All at once: dpkg reads its whole database for a single one, too."""
        form = "${Package} ${Version}\\n${db-fsys:Files}\\n"
        packages: dict[str, str] = {}
        package = ""
        for line in sh("dpkg-query", f"--admindir={self.admin}", "-W", "-f", form).splitlines():
            if line.startswith(" "):
                packages.setdefault(line.strip(), package)
            elif line:
                package = line
        return packages

    def twin(self, file: Path) -> Path:
        """The other architecture's file for one of this machine's Python."""
        return file


class Unpacked(Here):
    """Packages of another architecture, in a folder."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.folder = arch.built / "root"
        self.admin = self.folder / "var/lib/dpkg"

    def tool(self, name: str) -> Path:
        places = (self.folder / place / name for place in ("usr/bin", "usr/sbin", "bin", "sbin"))
        found = next((file for file in places if file.is_symlink() or file.exists()), None)
        if not found:
            raise LabError(f"{name}: in no package of {self.folder}; `make build{self.arch.option}` fetches them")
        return found

    def python(self) -> Path:
        return self.resolved(self.tool(PYTHON))

    def resolved(self, file: Path) -> Path:
        while file.is_symlink():
            file = self.folder / str(file.parent.relative_to(self.folder) / file.readlink()).lstrip("/")
        return file

    def libraries(self, binary: Path) -> dict[str, Path]:
        files: dict[str, Path] = {}
        binaries = [binary]
        while binaries:
            sections = sh("readelf", "-dlW", binaries.pop())
            for name in re.findall(r"(?:\(NEEDED\)\s+Shared library: \[|program interpreter: /lib/)(\S+)\]", sections):
                place, file = self.library(name)
                if place not in files:
                    files[place] = file
                    binaries.append(self.resolved(file))
        return files

    def library(self, name: str) -> tuple[str, Path]:
        for folder in ("lib", "usr/lib", f"lib/{self.arch.triplet}", f"usr/lib/{self.arch.triplet}"):
            if (file := self.folder / folder / name).is_symlink() or file.exists():
                return f"{folder}/{name}", file
        raise LabError(f"{name}: in no package of {self.folder}")

    def twin(self, file: Path) -> Path:
        place = str(file).replace(NATIVE.triplet, self.arch.triplet)
        return self.folder / place.lstrip("/")


def root(arch: Arch) -> Here:
    return Here() if arch is NATIVE else Unpacked(arch)


def fetch(arch: Arch, say) -> None:
    """Download the packages with all that they depend on, and unpack them into the root of that architecture."""
    place = Unpacked(arch)
    with alone(arch):
        source = apt_source(BUILD / "apt")
        options = apt_options(source, source.codename, arch)
        say(f"downloading {', '.join(PACKAGES)} for {arch.name}")
        update(options)
        sh("apt-get", *options, "clean")
        sh("apt-get", *options, "-y", "--no-install-recommends", "--download-only", "install", *PACKAGES)
        shutil.rmtree(place.folder, ignore_errors=True)
        (place.admin / "info").mkdir(parents=True)
        (place.admin / "info/format").write_text("1\n")
        archives = BUILD / "apt" / arch.name / source.codename / "archives"
        stanzas = [unpack(deb, place) for deb in sorted(archives.glob("*.deb"))]
        (place.admin / "status").write_text("\n".join(stanzas))


def unpack(deb: Path, made: Unpacked) -> str:
    """A package, and what dpkg would note of it; its entry in the list of packages."""
    sh("dpkg-deb", "-x", deb, made.folder)
    fields = dict(re.findall(r"^([\w-]+): (.*)$", control := sh("dpkg-deb", "-f", deb), re.M))
    name = fields["Package"]
    if fields.get("Multi-Arch") == "same":
        name += f":{fields['Architecture']}"
    notes = made.admin / "info" / name
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as p:
        with tarfile.open(fileobj=p.stdout, mode="r|") as tar:
            files = [member.name.removeprefix(".") for member in tar]
    Path(f"{notes}.list").write_text("".join(f"{file or '/.'}\n" for file in files))
    for what in ("symbols", "shlibs"):  # for dpkg-shlibdeps
        notice = subprocess.run(["dpkg-deb", "-I", deb, what], capture_output=True)
        if not notice.returncode:
            Path(f"{notes}.{what}").write_bytes(notice.stdout)
    return control.replace("\n", "\nStatus: install ok installed\n", 1)


def fetch_sources(arch: Arch, say) -> None:
    """Download the sources, with Debian's patches."""
    folder = arch.built / "sources"
    with alone(arch):
        source = apt_source(BUILD / "apt")
        options = apt_options(source, source.codename, arch, "deb-src")
        say(f"downloading the sources of {', '.join(SOURCES)}")
        update(options)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        sh("apt-get", *options, "source", *SOURCES, cwd=folder)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        {"root": fetch, "sources": fetch_sources}[sys.argv[2]](named(sys.argv[1]), print)
    except LabError as e:
        sys.exit(f"asymlab: {e}")
