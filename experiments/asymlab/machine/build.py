# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes an image, as an ordinary user: a stock distribution kernel, an initramfs, the machine that booted them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from .. import LabError
from ..needs import GUEST_TOOLS, IMAGE, UML_KERNEL, building, check
from ..paths import ELSEWHERE, GUEST, IMAGES
from ..shell import sh
from . import boot, ldcache, qemu
from .arch import NATIVE, Arch
from .cpio import Cpio
from .files import sha256, write_sparse
from .image import (
    DEFAULT_KERNEL,
    HEADER,
    LABEL,
    TRACER,
    UML,
    folder_of,
    guest_modules,
    is_brought,
    label_of,
    making,
    making_uml,
)
from .kernel import Kernel, extract_vmlinux, fetch_kernel, is_elf, raw_btf, user_kernel
from .modules import add_modules
from .root import Here, root
from .uml import coverage, kept, make, source

# The first process is a script: the kernel starts no module of a package. Its modules come from one file: each from a
# file of its own takes ten system calls. Its pages come with their mapping, and not each by a fault (MCL_CURRENT |
# MCL_FUTURE). Threads share one heap (M_ARENA_MAX): each of its own would be all there.
BUNDLE = b"""#!/usr/bin/python3 -sSB
import marshal
import sys
from _frozen_importlib import ModuleSpec


class Bundle:
    with open("/lab/modules", "rb") as file:
        modules = marshal.load(file)

    def find_spec(self, name, path=None, target=None):
        if name in self.modules:
            return ModuleSpec(name, self, is_package=self.modules[name][0])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(marshal.loads(self.modules[module.__name__][1]), module.__dict__)


sys.meta_path.insert(2, Bundle())  # after what the interpreter has built in
"""
START = b"""import ctypes

libc = ctypes.CDLL(None)
libc.mallopt(-8, 1)
libc.mlockall(3)

"""
INIT = BUNDLE + START + b"from guest import init\n\ninit.main()\n"


# Run by the guest's interpreter: a package's modules and those of the standard library that they reach. All of them go
# into one file, compiled with hashes for times; marshalled without references, which would tell of this process.
# Printed are the files that the guest has besides, as "guest path <tab> file" lines: libraries, and what comes before
# any script.
PYTHON_CLOSURE = """
import marshal, modulefinder, os, py_compile, sys
out, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
finder = modulefinder.ModuleFinder([folder, *sys.path], excludes=[
    'tkinter', 'unittest', 'pydoc', 'doctest', 'pdb', 'test', 'ssl', 'asyncio', 'multiprocessing', 'lzma', 'bz2',
    'zipfile', 'email', 'argparse', 'decimal', '_decimal', '_pydecimal', '_pyio', '_strptime', 'optparse', 'getopt',
    'tempfile', 'random', 'hashlib', 'urllib', 'pkgutil', 'runpy', 'calendar', 'datetime', '_datetime', 'gettext',
    'zipimport', 'pickle', 'pathlib', 'gzip', 'importlib.metadata', 'importlib.resources', 'csv', 'ntpath',
    'tracemalloc', 'pprint', 'importlib._bootstrap', 'importlib._bootstrap_external', '_py_abc', '_threading_local'])
for name in names:
    finder.import_hook(name)
found = finder.modules
for name in ('encodings', 'encodings.utf_8', 'encodings.ascii', 'encodings.latin_1', 'encodings.aliases',
             'encodings.idna', 'codecs', 'io', 'abc', 'linecache', 'traceback'):
    __import__(name); found[name] = sys.modules[name]
version = 'python%d.%d' % sys.version_info[:2]
stdlib = os.path.dirname(os.__file__)
bundle = {}
for name, module in sorted(found.items()):
    file = getattr(module, '__file__', None)
    if not file or not file.startswith((stdlib, folder)):
        continue
    path = 'lab/' + os.path.relpath(file, folder)
    if file.startswith(stdlib):
        path = 'usr/lib/%s/%s' % (version, os.path.relpath(file, stdlib))
    if not file.endswith('.py'):
        print(path, file, sep='\t')
        continue
    target = os.path.join(out, name + '.pyc')
    py_compile.compile(file, target, dfile='/' + path, doraise=True,
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    if name == 'os' or name.startswith('encodings'):  # by os.pyc it finds its folder
        print(path + 'c', target, sep='\t')
    else:
        with open(target, 'rb') as f:
            bundle[name] = file.endswith('/__init__.py'), f.read()[16:]
with open(os.path.join(out, 'modules'), 'wb') as f:
    marshal.dump(bundle, f, 2)
"""


def add_userland(
    cpio: Cpio,
    parts: dict[str, dict],
    arch: Arch,
    tools: Iterable[str] = GUEST_TOOLS,
    more: Iterable[str] = (),
    init: bytes = INIT,
) -> None:
    """Programs with their libraries, Python with the agent and `more` modules, and the first process."""
    place, asymcc = root(arch), arch.built / "asymcc"
    for f in (asymcc, TRACER):
        if not f.exists():
            raise LabError(f"{f}: not built; {building(arch.option)}")
    python = place.python()
    binaries = {f"usr/bin/{Path(t).name}": place.tool(t) for t in tools}
    binaries |= {"usr/bin/python3": python, "usr/bin/asymcc": asymcc}
    libs: dict[str, Path] = {}
    for guest, host in binaries.items():
        file = place.resolved(host)
        cpio.file(guest, file.read_bytes(), 0o755)
        parts[Path(guest).name] = {
            "version": "this tree" if host == asymcc else place.package(host),
            "sha256": sha256(file),
        }
        libs |= place.libraries(file)
    with tempfile.TemporaryDirectory() as tmp:
        names = [*(f"{GUEST.name}.{f.stem}" for f in guest_modules()), *more]
        closure = sh(Here().python(), "-I", "-c", PYTHON_CLOSURE, tmp, GUEST.parent, *names)
        digest = hashlib.sha256()
        for line in closure.splitlines():
            guest, name = line.split("\t")
            file = place.twin(Path(name)) if name.endswith(".so") else Path(name)
            data = file.read_bytes()
            digest.update(data)
            cpio.file(guest.replace(NATIVE.triplet, arch.triplet), data)
            if file.suffix == ".so":
                libs |= place.libraries(file)
        modules = Path(tmp, "modules").read_bytes()
        digest.update(modules)
        cpio.file("lab/modules", modules)
        parts["python-stdlib"] = {"version": place.package(python), "sha256": digest.hexdigest()}
    for guest, host in sorted(libs.items()):
        file = place.resolved(host)
        cpio.file(guest, file.read_bytes(), 0o755)
        parts[host.name] = {"version": place.package(file), "sha256": sha256(file)}
    cpio.file(ldcache.PLACE, ldcache.pack(libs, arch))
    cpio.link("usr/bin/insmod", "modprobe")  # kmod is both
    cpio.link("sbin", "usr/bin")
    if not any(k == "bin" or k.startswith("bin/") for k in cpio.entries):
        cpio.link("bin", "usr/bin")
    cpio.file(f"lab/{TRACER.name}", TRACER.read_bytes())
    for f in (*guest_modules(), TRACER):
        parts[f.name] = {"version": "this tree", "sha256": sha256(f)}
    cpio.file("lab/init", init, 0o755)
    cpio.link("init", "lab/init")
    cpio.device("dev/console", 5, 1)
    cpio.device("dev/urandom", 1, 9)  # Python asks for it before anything is mounted
    for d in ("proc", "sys", "tmp", "run", "dev", "etc"):
        cpio.dir(d)


def build_image(
    kernel: str = DEFAULT_KERNEL,
    modules: Path | None = None,
    label: str | None = None,
    say=print,
    faster: bool = True,
    arch: Arch = NATIVE,
) -> Path:
    """Make (or renew) an image; returns its folder. `kernel`: a series ("6.12"), a package name, or a file.

    faster: with the clock of boot.py, if the kernel takes it.
    """
    made_by = making(kernel, modules, label, faster, arch)
    is_file = "/" in kernel or Path(kernel).is_file()
    label = label or arch.label(Path(kernel).name if is_file else kernel)
    if not LABEL.fullmatch(label):
        raise LabError(f"--name {label}: letters, digits and . + _ - only")
    check((arch.qemu, "qemu-img", *(IMAGE if arch is NATIVE else ())), arch.option)
    folder = IMAGES / label
    k = user_kernel(Path(kernel), modules) if is_file else fetch_kernel(kernel, arch, say)
    say(f"making image {label}: kernel {k.release}")
    vmlinux = extract_vmlinux(k.vmlinuz)
    base, parts = initramfs(arch, k.release, k.config, k)
    parts["vmlinux"] = {"version": f"{k.release} {k.version}", "sha256": hashlib.sha256(vmlinux).hexdigest()}
    parts["base.cpio"] = {"version": "this tree", "sha256": hashlib.sha256(base).hexdigest()}
    say(f"booting image {label}")
    try:
        booted = boot.boot(arch, vmlinux, base, k.release, faster)
        parts["memory"] = {"version": "booted", "sha256": hashlib.sha256(booted.memory).hexdigest()}
        manifest = {
            "arch": arch.name,
            "kernel": k.release,
            "made_by": made_by,
            "qemu": qemu.version(arch),
            "clock_factor": booted.clock_factor,
            "booted_by": boot.booted_by(arch, k.release, booted.clock_factor),
            "devices": hashlib.sha256(booted.devices).hexdigest(),
            "parts": dict(sorted(parts.items())),
        }
        files = {"memory": booted.memory, "devices": booted.devices, HEADER: headers(vmlinux)}
        keep(folder, files | {"manifest.json": json.dumps(manifest, indent=1).encode()})
        size = sum(f.stat().st_blocks * 512 for f in folder.iterdir())
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}{ELSEWHERE}") from None
    if booted.why:
        say(f"image {label}: 10^9 instructions a second, not more: {booted.why}")
    say(f"image {label}: {size / 1e6:.0f} MB in {folder}, clock factor {booted.clock_factor}")
    return folder


def build_uml_image(
    kernel: str = DEFAULT_KERNEL,
    tree: Path | None = None,
    label: str | None = None,
    say=print,
    fresh: bool = False,
    config: Path | None = None,
) -> Path:
    """Make (or renew) an image of the engine uml; returns its folder. The kernel is built from the packaged source of
    a series, or of the newest, or from a tree of the user's. fresh: it is none that the user has built before.
    config: settings of the user's, besides the lab's."""
    if NATIVE.name != "amd64":
        raise LabError(f"--engine uml: runs on amd64, and this machine is {NATIVE.name}; --engine qemu runs here")
    own = config.stem if config else ""
    label = label_of(label or "-".join(filter(None, (tree.resolve().name if tree else kernel, own))), "uml")
    if not LABEL.fullmatch(label):
        raise LabError(f"--name {label}: letters, digits and . + _ - only")
    if is_brought(label):
        say(f"image {label}: the package brings it")
        return folder_of(label)
    settings = config.read_text() if config else ""
    made_by = making_uml(kernel, tree, label.removesuffix(UML) if tree or config else None, config)
    check((*UML_KERNEL, *IMAGE), " ENGINE=uml", "The engine qemu needs no compiler")
    folder = IMAGES / label
    origin = source.of_user(tree) if tree else source.find(kernel, say).called(own)
    origin = replace(origin, settings=settings)
    built = make.build(origin, say) if tree else kept.kernel(origin, say, fresh)
    base, parts = initramfs(NATIVE, built.release, built.config, linux=built.linux)
    parts["vmlinux"] = {
        "version": f"{built.release} {origin.version}",
        "sha256": hashlib.sha256(built.linux).hexdigest(),
    }
    parts["base.cpio"] = {"version": "this tree", "sha256": hashlib.sha256(base).hexdigest()}
    manifest = {
        "engine": "uml",
        "arch": NATIVE.name,
        "kernel": built.release,
        "made_by": made_by,
        "clock_factor": boot.CLOCK_FACTOR,
        "built_by": make.made_of(),
        "words": built.words,
        "time_at": built.time_at,
        "covers": coverage.SETTING in built.config,
        "parts": dict(sorted(parts.items())),
    }
    try:
        files = {"linux": built.linux, "root.cpio": base, HEADER: headers(built.linux)}
        keep(folder, files | {"manifest.json": json.dumps(manifest, indent=1).encode()})
        (folder / "linux").chmod(0o755)
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}{ELSEWHERE}") from None
    say(f"image {label}: {(len(built.linux) + len(base)) / 1e6:.0f} MB in {folder}")
    return folder


def tracer_types(linux: bytes) -> bytes:
    """The kernel's types that the tracer uses (`asymcc trace --btf`)."""
    with tempfile.TemporaryDirectory() as tmp:
        kernel, types = Path(tmp, "linux"), Path(tmp, "types")
        kernel.write_bytes(linux)
        sh("bpftool", "gen", "min_core_btf", kernel, types, TRACER)
        return types.read_bytes()


def headers(vmlinux: bytes) -> bytes:
    """The kernel's types as C has them (vmlinux.h): sources of controllers include them."""
    with tempfile.TemporaryDirectory() as tmp:
        file = Path(tmp, "kernel")
        file.write_bytes(vmlinux if is_elf(vmlinux) else raw_btf(vmlinux))
        return sh("bpftool", "btf", "dump", "file", file, "format", "c").encode()


def initramfs(
    arch: Arch, release: str, config: bytes, kernel: Kernel | None = None, linux: bytes | None = None
) -> tuple[bytes, dict[str, dict]]:
    """The archive, and the parts that it is made of. No kernel: no modules. `linux`: a kernel whose guests are kept
    nowhere, so that each would search it for the tracer's types. `config` lies where libbpf looks for it."""
    cpio, parts = Cpio(), {}
    if linux:
        cpio.file("lab/types.btf", tracer_types(linux))
    if kernel:
        add_modules(cpio, kernel)
        parts["modules"] = {"version": kernel.release, "sha256": hashlib.sha256(cpio.pack()).hexdigest()}
    if config:
        cpio.file(f"boot/config-{release}", config)
        parts["config"] = {"version": release, "sha256": hashlib.sha256(config).hexdigest()}
    add_userland(cpio, parts, arch)
    return cpio.pack(), parts


def keep(folder: Path, files: dict[str, bytes]) -> None:
    """Write an image: whole, or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_sparse(folder / f".{name}.part", data)
        (folder / "manifest.json").unlink(missing_ok=True)  # without it there is no image: never a half new one
        for name in files:
            (folder / f".{name}.part").replace(folder / name)
    finally:
        for name in files:
            (folder / f".{name}.part").unlink(missing_ok=True)


if __name__ == "__main__":  # by make, beside the making of the Python environment that `asymlab image` needs
    os.umask(0o022)
    try:
        build_uml_image(sys.argv[1], fresh="--fresh" in sys.argv)
    except LabError as e:
        sys.exit(f"asymlab: {e}")
    except KeyboardInterrupt:
        sys.exit("asymlab: interrupted; the same command goes on from there")
