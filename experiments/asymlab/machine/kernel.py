# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kernels: those of the distribution's packages, fetched as an ordinary user, and the user's own."""

from __future__ import annotations

import fcntl
import lzma
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..paths import BUILD
from .shell import sh

DEBIAN_SUITES = ("trixie", "bookworm", "bookworm-backports", "trixie-backports", "forky", "sid")
COMPRESSIONS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4", b"\xfd7zXZ": "xz", b"\x1f\x8b": "gzip"}


@dataclass
class Kernel:
    release: str  # as uname -r
    version: str  # of the package, or "user"
    vmlinuz: Path
    modules: Path  # the folder that holds kernel/


@dataclass
class AptSource:
    """The distribution that this machine installs from."""

    origin: str  # Debian or Ubuntu
    site: str  # its mirror, as configured
    codename: str

    @property
    def keyring(self) -> Path:
        return Path(f"/usr/share/keyrings/{self.origin.lower()}-archive-keyring.gpg")


def apt_source(cache: Path) -> AptSource:
    """What this machine's apt installs from. Where it has no lists (never updated, or cleared), cache gets some."""
    fields = "$(ORIGIN)|$(SITE)|$(CODENAME)|$(COMPONENT)"
    ours, words = own_state(cache / "machine"), "none is configured"
    for options in ((), ours):
        try:
            if options:
                sh("apt-get", *options, "update")
        except LabError as e:
            words = str(e)  # of a source that may not matter here
        for line in sh("apt-get", *options, "indextargets", "--format", fields, "Identifier: Packages").splitlines():
            origin, site, codename, component = line.split("|")
            if origin in ("Debian", "Ubuntu") and component == "main":
                return AptSource(origin, site, codename.split("-")[0])
    raise LabError(f"no Debian or Ubuntu package source ({words}); or give --kernel VMLINUZ --modules DIR")


def own_state(state: Path) -> list[str]:
    """Options that make apt write only under state, as an ordinary user."""
    for sub in ("lists/partial", "archives/partial"):
        (state / sub).mkdir(parents=True, exist_ok=True)
    settings = (
        f"Dir::State::Lists={state}/lists",
        f"Dir::Cache={state}",
        "APT::Sandbox::User=",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
    )
    return [word for setting in settings for word in ("-o", setting)]


def apt_options(source: AptSource, suite: str, cache: Path) -> list[str]:
    """Options that make apt read one suite of the machine's mirror, and write only under cache."""
    state = cache / suite
    own = own_state(state)
    sources = state / "suite.sources"
    sources.write_text(
        f"Types: deb\nURIs: {source.site}\nSuites: {suite}\nComponents: main\nSigned-By: {source.keyring}\n"
    )
    return [*own, "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"]


def suites(cache: Path, what: str, say) -> Iterator[tuple[str, str, list[str]]]:
    """Those that the machine's mirror carries: name, package that depends on its newest kernel, options for apt."""
    source = apt_source(cache)
    debian = source.origin == "Debian"
    for suite in DEBIAN_SUITES if debian else (source.codename, f"{source.codename}-updates"):
        options = apt_options(source, suite, cache)
        say(f"looking for {what} in {suite}")
        try:
            sh("apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update")
        except LabError as e:
            if re.search(r"Release file|404|Not Found", str(e)):
                continue
            raise
        yield suite, "linux-image-cloud-amd64" if debian else "linux-image-virtual", options


def show(options: list[str], package: str) -> str | None:
    """The newest version of a package, as apt tells of it; None if there is none."""
    try:
        return sh("apt-cache", *options, "show", "--no-all-versions", package)
    except LabError as e:
        if "No packages found" in str(e):
            return None
        raise


def dependency(text: str) -> str:
    return re.search(r"linux-image-[0-9][^ ,)]*", text)[0]


def newest(say) -> tuple[str, str]:
    """The newest of the kernels that the configured mirror's suites have: package and suite."""
    found = []
    for suite, meta, options in suites(BUILD / "apt", "kernels", say):
        if text := show(options, meta):
            package = dependency(text)
            found.append((tuple(map(int, re.findall(r"\d+", package.split("+")[0]))), package, suite))
    if not found:
        raise LabError("no kernel in the package source")
    return max(found)[1:]


def find_kernel_package(wanted: str, cache: Path, say) -> tuple[list[str], list[str], str]:
    """(apt options, packages, version) of the kernel series or package `wanted`."""
    seen = []
    for suite, meta, options in suites(cache, f"kernel {wanted}", say):
        name = wanted if wanted.startswith("linux-image-") else meta
        if not (text := show(options, name)):
            continue
        version = re.search(r"^Version: (\S+)", text, re.M)[1]
        seen.append(f"{version} ({suite})")
        if name == meta:
            if not version.startswith(wanted + ".") and version != wanted:
                continue
            name = dependency(text)
            text = show(options, name) or ""
        packages = [name] + re.findall(r"linux-(?:modules|binary)-[0-9][^ ,)]*", text)  # one package, or several
        return options, packages, version
    raise LabError(
        f"kernel {wanted}: not in the package source; there are: "
        f"{', '.join(seen) or 'none'}; or give --kernel VMLINUZ --modules DIR"
    )


def fetch_kernel(wanted: str, say) -> Kernel:
    """Download the packaged kernel and unpack it (nothing is installed)."""
    cache = BUILD / "apt"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w") as lock:  # `make -j` makes two images at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        options, packages, version = find_kernel_package(wanted, cache, say)
        tree = cache / "unpacked" / f"{packages[0]}_{version}"
        unpack(packages, version, options, tree, say)
    release = packages[0].removeprefix("linux-image-").removeprefix("unsigned-")
    modules = next((m for top in ("lib", "usr/lib") if (m := tree / top / "modules" / release).is_dir()), None)
    if not modules:
        raise LabError(f"{packages[0]}: the package holds no modules for {release}")
    vmlinuz = next((f for f in (tree / "boot" / f"vmlinuz-{release}", modules / "vmlinuz") if f.exists()), None)
    if not vmlinuz:
        raise LabError(f"{packages[0]}: the package holds no kernel image")
    return Kernel(release, version, vmlinuz, modules)


def unpack(packages: list[str], version: str, options: list[str], tree: Path, say) -> None:
    """The packages' files into tree, once."""
    if (tree / ".done").exists():
        return
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as tmp:
        say(f"downloading {packages[0]} {version}")
        sh("apt-get", *options, "download", *packages, cwd=tmp)
        for deb in sorted(Path(tmp).glob("*.deb")):
            sh("dpkg-deb", "-x", deb, tree)
    (tree / ".done").touch()


def user_kernel(vmlinuz: Path, modules: Path | None) -> Kernel:
    """A kernel of the user's own: vmlinuz (or vmlinux) and the folder of its modules."""
    if modules is None or not (modules / "kernel").is_dir():
        raise LabError(f"--modules: give the folder that holds kernel/ of {vmlinuz} (usually /lib/modules/RELEASE)")
    return Kernel(modules.resolve().name, "user", vmlinuz, modules)


def extract_vmlinux(vmlinuz: Path) -> bytes:
    """The ELF inside a bzImage (boot protocol: payload_offset, payload_length), or the ELF given."""
    try:
        data = vmlinuz.read_bytes()
    except OSError as e:
        raise LabError(f"kernel image {vmlinuz}: {e.strerror}") from None
    if data[:4] != b"\x7fELF":
        if len(data) < 0x250 or data[0x202:0x206] != b"HdrS":
            raise LabError(f"kernel image {vmlinuz}: neither a bzImage nor an ELF")
        setup = (data[0x1F1] or 4) + 1
        offset, length = struct.unpack_from("<II", data, 0x248)
        data = decompress(data[setup * 512 + offset :][:length], vmlinuz)
    if data[:4] != b"\x7fELF":
        raise LabError(f"kernel image {vmlinuz}: its payload is not an ELF kernel")
    if b".BTF\0" not in data:
        raise LabError(
            f"kernel image {vmlinuz}: built without BTF (CONFIG_DEBUG_INFO_BTF); "
            "struct_ops needs it, take another kernel"
        )
    return data


def decompress(data: bytes, what: Path) -> bytes:
    tool = next((tool for magic, tool in COMPRESSIONS.items() if data.startswith(magic)), None)
    if not tool:
        raise LabError(f"{what}: unknown compression (first bytes {data[:4].hex()})")
    try:
        if tool == "xz":
            return lzma.LZMADecompressor().decompress(data)
        if tool == "gzip":
            return zlib.decompressobj(31).decompress(data)
        # Trailing bytes (the uncompressed size) make the tool complain after it has done its work.
        return subprocess.run([tool, "-dc"], input=data, capture_output=True).stdout
    except FileNotFoundError:
        raise LabError(f"{tool}: not installed; `make deps` installs what is missing") from None
    except (lzma.LZMAError, zlib.error) as e:
        raise LabError(f"{what}: damaged: {e}") from None
