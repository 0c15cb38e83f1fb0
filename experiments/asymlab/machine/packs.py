# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Packs: the files that real programs find in a guest, as an archive that is joined to its initramfs.

Debian's packages are fetched as an ordinary user and unpacked as data: none is installed, and none of their programs
or scripts runs here. A pack is made once and kept:

    build/packs/SHA256.cpio   an archive, by its hash
    build/packs/made/HASH     the hash of an archive, by the hash of what it is made of
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from .. import LabError, syscalls
from ..cage import WORDS, Cage, confined, kind
from ..console import console
from ..guest.programs import NAMES, PACKS, SUFFIX, USER
from ..paths import BUILD, BUILT, ELSEWHERE, GUEST
from ..plan.programs import Content, Contents
from ..reading import read
from ..shell import sh
from . import elf, ldcache
from .arch import NATIVE
from .cpio import Cpio
from .kernel import MISSING, alone, apt_options, apt_source, show, update

FOLDER = BUILD / "packs"
MODULES = GUEST / "programs"
DPKG_DEB = "/usr/bin/dpkg-deb"
FORMAT = 1  # of what a pack has: a new one is another pack
PACK_MAX, FILE_MAX = 600 << 20, 256 << 20  # bytes
ENTRIES_MAX = 100_000
# Packages that others need for their installation alone. apt takes them for installed.
HOST_ONLY = (
    *"adduser cron debconf dpkg init-system-helpers install-info lsb-base passwd perl perl-base".split(),
    *"procps sensible-utils systemd sysvinit-utils tar ucf udev x11-utils xdg-utils".split(),
)
LEFT_OUT = re.compile(  # of packages: what no program needs
    r"usr/share/(?:doc|man|info|locale|lintian|bug|bash-completion|i18n|zsh|fish)(?:/|$)"
    r"|usr/lib/systemd(?:/|$)|etc/(?:init\.d|systemd|cron\.\w+|logrotate\.d)(?:/|$)|.*/(?:glibc-hwcaps|gconv)(?:/|$)"
)
MERGED = re.compile(r"^(bin|sbin|lib|lib32|lib64)(?=/|$)")  # as Debian has them: links into usr
LIBRARY = re.compile(r"usr/lib(?:64)?/(?:[\w-]+-linux-gnu/)?[^/]+\.so[^/]*")
USERS = f"root:x:0:0:root:/root:/bin/sh\nnobody:x:{USER}:{USER}:nobody:/tmp:/bin/false\n".encode()
GROUPS = f"root:x:0:\nnogroup:x:{USER}:\n".encode()
NAME_SERVICE = b"passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"
FIXED = {
    "etc/passwd": USERS,
    "etc/group": GROUPS,
    "etc/nsswitch.conf": NAME_SERVICE,
    NAMES: b"",
    "etc/resolv.conf": b"",
}
FOLDERS = ("proc", "dev", "tmp", "run", "root", "var/tmp", "var/log", "var/cache")

READ: dict[str, bytes] = {}  # archives, by their definitions: many runs bring the same
Own = dict[str, Content | bytes]  # files of one's own: each is read once, so that its hash is that of what is kept
Tree = dict[str, tuple[int, bytes | str]]  # by their places: mode and bytes of files; 0 and the target of links


def archives(packs: Iterable[Contents]) -> dict[str, bytes]:
    """The files that a job with programs brings along: an archive of each pack, and the guest's modules for them."""
    modules = {f"brought/programs/{file.name}": file.read_bytes() for file in sorted(MODULES.glob("*.py"))}
    return {f"{pack.name}{SUFFIX}": _archive(pack) for pack in packs} | modules


def _archive(pack: Contents) -> bytes:
    try:
        for place, file in pack.files.items():
            if isinstance(file, Path) and file.is_relative_to(BUILT) and not file.exists():
                hint = f"`make {file.parent.name}` builds it"
                raise LabError(f"packs.{pack.name}.files.{place}: {file} is not there; {hint}")
        own = {place: file if isinstance(file, Content) else read(file, FILE_MAX) for place, file in pack.files.items()}
        definition = _definition(pack, own)
        if definition not in READ:
            READ[definition] = _of(definition, pack, own)
        return READ[definition]
    except OSError as e:
        raise LabError(f"{e.filename or FOLDER}: {e.strerror}{ELSEWHERE}") from None


def _definition(pack: Contents, own: Own) -> str:
    """All that a pack is made of, but for the versions of its packages."""
    files = {
        place: file.model_dump() if isinstance(file, Content) else hashlib.sha256(file).hexdigest()
        for place, file in own.items()
    }
    return json.dumps([FORMAT, pack.name, pack.debian, pack.suite, files, pack.programs], sort_keys=True)


def _of(definition: str, pack: Contents, own: Own) -> bytes:
    note = FOLDER / "made" / hashlib.sha256(definition.encode()).hexdigest()
    if kept := _kept(note):
        return kept
    tree, versions = _debian(pack.debian, pack.suite, f"packs.{pack.name}") if pack.debian else ({}, [])
    tree |= dict(_placed(own))
    _check(tree, pack)
    data = _packed(tree, versions, pack.name)
    digest = hashlib.sha256(data).hexdigest()
    note.parent.mkdir(parents=True, exist_ok=True)
    for file, content in ((FOLDER / f"{digest}{SUFFIX}", data), (note, digest.encode())):
        with tempfile.NamedTemporaryFile(dir=FOLDER, delete=False) as part:
            part.write(content)
        Path(part.name).replace(file)
    return data


def _kept(note: Path) -> bytes | None:
    """None: none is kept, or it is damaged."""
    try:
        digest = note.read_text()
        data = (FOLDER / f"{digest}{SUFFIX}").read_bytes() if re.fullmatch("[0-9a-f]{64}", digest) else b""
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


def _packed(tree: Tree, versions: list[str], name: str) -> bytes:
    root, cpio = f"{PACKS[1:]}/{name}", Cpio()
    for place, (mode, content) in tree.items():
        if isinstance(content, str):
            cpio.link(f"{root}/{place}", content)
        else:
            cpio.file(f"{root}/{place}", content, mode)
    for place, content in FIXED.items():
        if place not in tree:
            cpio.file(f"{root}/{place}", content)
    for place in FOLDERS:
        cpio.dir(f"{root}/{place}")
    for link in ("bin", "sbin", "lib", "lib64"):
        cpio.dir(f"{root}/usr/{link}")
        cpio.link(f"{root}/{link}", f"usr/{link}")
    cpio.file(f"{root}/{ldcache.PLACE}", ldcache.pack(sorted(filter(LIBRARY.fullmatch, tree)), NATIVE))
    cpio.file(f"{root}.json", json.dumps({"packages": versions}).encode())
    return cpio.pack()


# --- Debian's packages ---------------------------------------------------------------------


def _debian(packages: tuple[str, ...], suite: str | None, key: str) -> tuple[Tree, list[str]]:
    """Their files, with those of all that they depend on; and their names and versions. None: this machine's suite."""
    with alone(NATIVE) as cache:
        source = apt_source(BUILD / "apt")
        suite = suite or source.codename
        options = apt_options(source, suite, NATIVE)
        console.print(f"{key}.debian: fetching {', '.join(packages)} of {suite}")
        try:
            update(options)
        except LabError as e:
            if MISSING.search(str(e)):
                raise LabError(f"{key}.suite: {source.site} has no suite {suite!r}") from None
            raise
        for package in packages:
            if not show(options, package):
                like = get_close_matches(package, sh("apt-cache", *options, "pkgnames").split(), 1)
                hint = f"; did you mean {like[0]}?" if like else ""
                raise LabError(f"{key}.debian: no package {package!r} in {suite}{hint}")
        with tempfile.TemporaryDirectory(dir=cache) as tmp:
            status = Path(tmp, "status")
            status.write_text("".join(map(_installed, sorted({*HOST_ONLY} - {*packages}))))
            own = ("-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={tmp}/archives")
            Path(tmp, "archives", "partial").mkdir(parents=True)
            words = ("-y", "--no-install-recommends", "--download-only", "install", "--", *packages)
            sh("apt-get", *options, *own, *words)
            tree: Tree = {}
            files = sorted(Path(tmp, "archives").glob("*.deb"))
            for deb in files:
                tree |= _unpacked(deb)
            return tree, [deb.name.removesuffix(".deb") for deb in files]


def _installed(package: str) -> str:
    return (
        f"Package: {package}\nStatus: install ok installed\nArchitecture: {NATIVE.name}\nMulti-Arch: allowed\n"
        f"Version: 9999\nMaintainer: none\nDescription: none\n\n"
    )


def _unpacked(deb: Path) -> Tree:
    """A package's files. No file of it is written here."""
    cage = kind("a package", "a pack of files alone needs none")
    words, place, calls = [], str(deb), syscalls.filter_file(syscalls.compiler_program())
    if cage is Cage.BUBBLEWRAP:
        place = "/package"
        words = [*WORDS, *"--ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 --ro-bind".split()]
        words += [str(deb), place]
    elif cage is Cage.LANDLOCK:
        words = confined([deb], [Path("/usr")], [Path("/dev/null")], calls)
    p = subprocess.run([*words, DPKG_DEB, "--fsys-tarfile", place], capture_output=True, pass_fds=[calls])
    os.close(calls)
    if p.returncode:
        raise LabError(f"{deb.name}: {p.stderr.decode(errors='replace').strip() or 'dpkg-deb fails'}")
    with tarfile.open(fileobj=io.BytesIO(p.stdout)) as tar:
        return dict(_members(tar, deb.name))


def _members(tar: tarfile.TarFile, name: str) -> Iterator[tuple[str, tuple[int, bytes | str]]]:
    for count, member in enumerate(tar):
        place = plain(member.name)
        if count == ENTRIES_MAX:
            raise LabError(f"{name}: more than {ENTRIES_MAX} files")
        if member.isdir() or LEFT_OUT.match(place):
            continue
        if member.issym():
            yield place, (0, member.linkname)
        elif member.islnk():
            yield place, (0, "/" + plain(member.linkname))
        elif content := tar.extractfile(member):
            yield place, (0o755 if member.mode & 0o111 else 0o644, content.read())


def plain(name: str) -> str:
    """A place in a pack: below its root, and with folders that are links as they are called in usr. LabError if it
    leads out."""
    path = PurePosixPath(name.lstrip("/"))
    if ".." in path.parts:
        raise LabError(f"{name!r:.80}: leads out of its pack")
    return MERGED.sub(lambda found: f"usr/{found[1]}", str(path), count=1)


# --- files of one's own --------------------------------------------------------------------


def _placed(own: Own) -> Iterator[tuple[str, tuple[int, bytes | str]]]:
    for place, file in own.items():
        if isinstance(file, bytes):
            yield plain(place), (0o755 if file.startswith((b"\x7fELF", b"#!")) else 0o644, file)
        elif file.text is not None:
            yield plain(place), (0o755 if file.text.startswith("#!") else 0o644, file.text.encode())
        else:
            for name in [place] if file.count == 1 else [f"{place}/{n}" for n in range(1, file.count + 1)]:
                yield plain(name), (0o644, hashlib.shake_128(name.encode()).digest(file.size or 0))


def _check(tree: Tree, pack: Contents) -> None:
    """LabError for what a program will not find: itself, or a library."""
    if (size := sum(len(content) for _, content in tree.values())) > PACK_MAX:
        raise LabError(f"packs.{pack.name}: {size >> 20} MB, more than the {PACK_MAX >> 20} that a pack may have")
    files = FIXED.keys() | {place for place, (_, content) in tree.items() if isinstance(content, bytes)}
    for place in (*tree, *(f"{folder}/*" for folder in FOLDERS)):
        if between := [str(parent) for parent in PurePosixPath(place).parents if str(parent) in files]:
            raise LabError(f"packs.{pack.name}: /{between[0]} is a file, so that there can be no /{place}")
    libraries = {place.rpartition("/")[2] for place in tree}
    for place in map(plain, pack.files):
        mode, content = tree.get(place, (0, ""))
        try:
            needs = elf.needs(content) if isinstance(content, bytes) else None
        except ValueError as e:
            raise LabError(f"packs.{pack.name}.files./{place}: {e}") from None
        for name in (*needs.libraries, *filter(None, [needs.interpreter.rpartition("/")[2]])) if needs else ():
            if name not in libraries:
                hint = "; its package (debian) or its file (files) is missing"
                raise LabError(f"packs.{pack.name}: /{place} needs {name}, which is in none of its packages{hint}")
    for key, name in pack.programs:
        folders = [""] if "/" in name else ["usr/bin/", "usr/sbin/"]
        if not any(plain(f"{folder}{name}") in tree for folder in folders):
            there = [place.rpartition("/")[2] for place in tree if re.match(r"usr/s?bin/", place)]
            like = [other for other in there if other.startswith(f"{name}.")] or get_close_matches(name, there, 1)
            hint = f"; did you mean {like[0]}?" if like else ""
            raise LabError(f"{key}: pack {pack.name} has no program {name!r}{hint}")
