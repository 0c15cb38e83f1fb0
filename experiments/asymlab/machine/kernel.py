# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kernels: those of the distribution's packages, fetched as an ordinary user, and the user's own."""

from __future__ import annotations

import contextlib
import fcntl
import lzma
import os
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
from ..needs import how
from ..paths import BUILD, ELSEWHERE
from ..reading import read
from ..shell import sh
from .arch import NATIVE, Arch

DEBIAN_SUITES = ("trixie", "bookworm", "bookworm-backports", "trixie-backports", "forky", "sid")
RELEASE = re.compile(r"\d+\.\d+[\w.+~-]*", re.ASCII)
KERNEL_MAX = 2 << 30  # bytes; with debug information some have more than one
ACCURATE_ECN = (7, 0)  # the first that has all of AccECN
DUALPI2 = (6, 17)  # the first that has this queue
COMPRESSIONS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4", b"\xfd7zXZ": "xz", b"\x1f\x8b": "gzip"}


@dataclass
class Kernel:
    release: str  # as uname -r
    version: str  # of the package, or "user"
    vmlinuz: Path
    modules: Path  # the folder that holds kernel/
    config: bytes = b""  # what it was built with; b"": not known


@dataclass
class AptSource:
    """The distribution that this machine installs from."""

    origin: str  # Debian or Ubuntu
    site: str  # its mirror, as configured
    codename: str

    @property
    def keyring(self) -> Path:
        return Path(f"/usr/share/keyrings/{self.origin.lower()}-archive-keyring.gpg")


MISSING = re.compile("Release file|404|Not Found")  # in apt's words: an archive has no such suite


def series(release: str) -> tuple[int, ...]:
    """(6, 12) of 6.12.9-amd64."""
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def lists(arch: Arch) -> Path:
    """The folder of what apt keeps of packages for it."""
    return BUILD / "apt" if arch is NATIVE else BUILD / "apt" / arch.name


def apt_source(cache: Path) -> AptSource:
    """The source that this machine's apt installs from. Without lists (never updated, or cleared), cache gets some."""
    fields = "$(ORIGIN)|$(SITE)|$(CODENAME)|$(COMPONENT)"
    ours, words = own_state(cache / "machine"), "none is configured"
    for options in ((), ours):
        try:
            if options:
                _room(cache)  # apt-get update does not fail without
                sh("apt-get", *options, "update")
        except LabError as e:
            words = str(e)  # of a source that may not matter here
        for line in sh("apt-get", *options, "indextargets", "--format", fields, "Identifier: Packages").splitlines():
            origin, site, codename, component = line.split("|")
            if origin in ("Debian", "Ubuntu") and component == "main":
                return AptSource(origin, site, codename.split("-")[0])
    raise LabError(f"no Debian or Ubuntu package source ({words}); or give --kernel VMLINUZ --modules DIR")


def _room(folder: Path) -> None:
    """OSError if not even a small file has room there."""
    with tempfile.TemporaryFile(dir=folder) as small:
        os.posix_fallocate(small.fileno(), 0, 1 << 20)


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


def apt_options(source: AptSource, suite: str, arch: Arch, kind: str = "deb") -> list[str]:
    """Options that make apt read one suite of the machine's mirror, and write only under its lists."""
    state = lists(arch) / (suite if kind == "deb" else f"{suite}-sources")
    own = own_state(state)
    sources = state / "suite.sources"
    sources.write_text(
        f"Types: {kind}\nURIs: {source.site}\nSuites: {suite}\nComponents: main\nSigned-By: {source.keyring}\n"
    )
    options = [*own, "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"]
    if arch is NATIVE:
        return options
    # Nothing of another architecture is installed.
    (state / "status").touch()
    foreign = (
        f"APT::Architecture={arch.name}",
        f"APT::Architectures={arch.name}",
        f"Dir::State::status={state}/status",
    )
    return [*options, *(word for setting in foreign for word in ("-o", setting))]


def suites(arch: Arch, what: str, say) -> Iterator[tuple[str, str, list[str]]]:
    """Those that the machine's mirror carries: name, package that depends on its newest kernel, options for apt."""
    source = apt_source(BUILD / "apt")
    debian = source.origin == "Debian"
    for suite in DEBIAN_SUITES if debian else (source.codename, f"{source.codename}-updates"):
        options = apt_options(source, suite, arch)
        say(f"looking for {what} in {suite}")
        try:
            update(options)
        except LabError as e:
            if MISSING.search(str(e)):
                continue
            raise
        yield suite, arch.kernels[source.origin], options


def update(options: list[str]) -> None:
    sh("apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update")


def show(options: list[str], package: str) -> str | None:
    """The newest version of a package, as apt tells of it; None if there is none.

    In a name that it does not know apt takes a dot for any character: linux-source-6.1 is 6.12's where 6.1 is not."""
    try:
        stanza = sh("apt-cache", *options, "show", "--no-all-versions", "--", package)
        return stanza if re.search(rf"^Package: {re.escape(package)}$", stanza, re.M) else None
    except LabError as e:
        if "No packages found" in str(e):
            return None
        raise


def dependency(text: str) -> str:
    if not (name := re.search(r"linux-image-[0-9][^ ,)]*", text)):
        raise LabError("package source: a kernel's package without a kernel")
    return name[0]


def newest(arch: Arch, say) -> tuple[str, str]:
    """The newest of the kernels that the configured mirror's suites have: package and suite."""
    candidates = []
    for suite, meta, options in suites(arch, "kernels", say):
        if text := show(options, meta):
            package = dependency(text)
            candidates.append((tuple(map(int, re.findall(r"\d+", package.split("+")[0]))), package, suite))
    if not candidates:
        raise LabError("no kernel in the package source")
    return max(candidates)[1:]


def find_kernel_package(wanted: str, arch: Arch, say) -> tuple[list[str], list[str], str]:
    """(apt options, packages, version) of the kernel series or package `wanted`."""
    candidates = []
    for suite, meta, options in suites(arch, f"kernel {wanted}", say):
        name = wanted if wanted.startswith("linux-image-") else meta
        if not (text := show(options, name)):
            continue
        if not (versions := re.search(r"^Version: (\S+)", text, re.M)):
            continue
        version = versions[1]
        candidates.append(f"{version} ({suite})")
        if name == meta:
            if not version.startswith(wanted + ".") and version != wanted:
                continue
            name = dependency(text)
            text = show(options, name) or ""
        packages = [name] + re.findall(r"linux-(?:modules|binary)-[0-9][^ ,)]*", text)  # one package, or several
        return options, packages, version
    raise LabError(
        f"kernel {wanted}: not in the package source; there are: "
        f"{', '.join(candidates) or 'none'}; or give --kernel VMLINUZ --modules DIR"
    )


@contextlib.contextmanager
def alone(arch: Arch) -> Iterator[Path]:
    """apt's lists, for us alone: `make -j` makes two images at once."""
    cache = lists(arch)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield cache
    except OSError as e:
        raise LabError(f"{e.filename or cache}: {e.strerror}{ELSEWHERE}") from None


def fetch_kernel(wanted: str, arch: Arch, say) -> Kernel:
    """Download the packaged kernel and unpack it (nothing is installed)."""
    with alone(arch) as cache:
        options, packages, version = find_kernel_package(wanted, arch, say)
        tree = cache / "unpacked" / f"{packages[0]}_{version}"
        unpack(packages, version, options, tree, say)
    release = packages[0].removeprefix("linux-image-").removeprefix("unsigned-")
    modules = next((m for top in ("lib", "usr/lib") if (m := tree / top / "modules" / release).is_dir()), None)
    if not modules:
        raise LabError(f"{packages[0]}: the package holds no modules for {release}")
    vmlinuz = next((f for f in (tree / "boot" / f"vmlinuz-{release}", modules / "vmlinuz") if f.exists()), None)
    if not vmlinuz:
        raise LabError(f"{packages[0]}: the package holds no kernel image")
    return Kernel(release, version, vmlinuz, modules, config_beside(vmlinuz, release))


def config_beside(vmlinuz: Path, release: str) -> bytes:
    """The settings that a kernel was built with. Packages have them beside the kernel. Empty if there is none."""
    file = vmlinuz.parent / f"config-{release}"
    return file.read_bytes() if file.is_file() else b""


def unpack(packages: list[str], version: str, options: list[str], tree: Path, say) -> None:
    """The packages' files into tree, once."""
    if (tree / ".done").exists():
        return
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as tmp:
        say(f"downloading {packages[0]} {version}")
        sh("apt-get", *options, "download", "--", *packages, cwd=tmp)
        for deb in sorted(Path(tmp).glob("*.deb")):
            sh("dpkg-deb", "-x", deb, tree)
    (tree / ".done").touch()


def user_kernel(vmlinuz: Path, modules: Path | None) -> Kernel:
    """A kernel of the user's own: vmlinuz (or vmlinux) and the folder of its modules."""
    if modules is None or not (modules / "kernel").is_dir():
        raise LabError(f"--modules: give the folder that holds kernel/ of {vmlinuz} (usually /lib/modules/RELEASE)")
    if not RELEASE.fullmatch(modules.resolve().name):
        raise LabError(f"--modules {modules}: the folder must have the kernel's release for its name, as 6.12.1-mine")
    release = modules.resolve().name
    return Kernel(release, "user", vmlinuz, modules, config_beside(vmlinuz, release))


def extract_vmlinux(vmlinuz: Path) -> bytes:
    """The kernel that is in a file, uncompressed: an ELF (amd64) or an Image (arm64)."""
    try:
        data = read(vmlinuz, KERNEL_MAX)
    except OSError as e:
        raise LabError(f"kernel image {vmlinuz}: {e.strerror}") from None
    data = payload(data, vmlinuz)
    if not is_elf(data) and not is_arm64(data):
        raise LabError(f"kernel image {vmlinuz}: its payload is neither an ELF nor an Image for arm64")
    # An Image has no names of sections: of one with BTF the header is there, magic, version, flags and length.
    if not re.search(rb"\.BTF\0" if is_elf(data) else rb"\x9f\xeb\x01\0[^\0]\0\0\0", data):
        raise LabError(
            f"kernel image {vmlinuz}: built without BTF (CONFIG_DEBUG_INFO_BTF); "
            "struct_ops needs it, take another kernel"
        )
    return data


def payload(data: bytes, what: Path) -> bytes:
    """Out of a bzImage (boot protocol: payload_offset, payload_length), of an EFI zboot image, or of a gzip."""
    if is_elf(data) or is_arm64(data):
        return data
    if data[4:8] == b"zimg" and len(data) >= 16:
        offset, length = struct.unpack_from("<II", data, 8)
        return decompress(data[offset:][:length], what)
    if data.startswith(b"\x1f\x8b"):
        return decompress(data, what)
    if len(data) < 0x250 or data[0x202:0x206] != b"HdrS":
        raise LabError(f"kernel image {what}: neither a bzImage nor an ELF, nor an Image for arm64")
    setup = (data[0x1F1] or 4) + 1
    offset, length = struct.unpack_from("<II", data, 0x248)
    return decompress(data[setup * 512 + offset :][:length], what)


def raw_btf(image: bytes) -> bytes:
    """Out of a kernel that is no ELF: the BTF header tells how long it is."""
    at = re.search(rb"\x9f\xeb\x01\0[^\0]\0\0\0", image)
    if not at:
        raise LabError("kernel image: no BTF in it")
    header, _, _, strings, length = struct.unpack_from("<IIIII", image, at.start() + 4)
    return image[at.start() :][: header + strings + length]


def is_elf(data: bytes) -> bool:
    return data.startswith(b"\x7fELF")


def is_arm64(data: bytes) -> bool:
    return data[56:60] == b"ARM\x64"


def decompress(data: bytes, what: Path, most: int = KERNEL_MAX) -> bytes:
    """No more than so many bytes: a small file may be made to give any number."""
    tool = next((tool for magic, tool in COMPRESSIONS.items() if data.startswith(magic)), None)
    if not tool:
        raise LabError(f"{what}: unknown compression (first bytes {data[:4].hex()})")
    try:
        if tool == "xz":
            plain = lzma.LZMADecompressor().decompress(data, most + 1)
        elif tool == "gzip":
            plain = zlib.decompressobj(31).decompress(data, most + 1)
        else:
            plain = _by_tool(tool, data, most + 1)
    except FileNotFoundError:
        raise LabError(f"{tool}: not installed; {how([tool])}") from None
    except (lzma.LZMAError, zlib.error) as e:
        raise LabError(f"{what}: damaged: {e}") from None
    if len(plain) > most:
        raise LabError(f"{what}: more than {most} bytes, uncompressed")
    return plain


def _by_tool(tool: str, data: bytes, most: int) -> bytes:
    """Trailing bytes (the uncompressed size) make a tool complain after it has done its work."""
    with tempfile.TemporaryFile() as packed:
        packed.write(data)
        packed.seek(0)
        with subprocess.Popen([tool, "-dc"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            assert p.stdout
            plain = p.stdout.read(most)
            p.kill()
    return plain
