# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes an image, as an ordinary user: a stock distribution kernel, an initramfs, the machine that booted them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .. import LabError
from ..paths import BUILD, GUEST, IMAGES
from . import boot, qemu
from .cpio import Cpio
from .files import sha256, write_sparse
from .image import DEFAULT_KERNEL, GUEST_OBJECTS, guest_modules
from .kernel import Kernel, decompress, extract_vmlinux, fetch_kernel, user_kernel
from .shell import sh

GUEST_TOOLS = ("ip", "tc", "nft", "iperf3", "modprobe", "bpftool")
GUEST_MODULES = re.compile(
    r"kernel/(net/ipv4/tcp_[a-z]+|net/sched/(sch|act|cls|em)_\w+|net/netfilter/nf_tables|drivers/net/(veth|ifb|dummy))\.ko"
)
# The first process is a script: the kernel starts no module of a package.
INIT = b"#!/usr/bin/python3 -sSB\nfrom guest import init\n\ninit.main()\n"
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


def add_modules(cpio: Cpio, kernel: Kernel) -> None:
    """The modules a run may ask for and what they depend on, uncompressed, with a fresh index."""
    top = f"lib/modules/{kernel.release}"
    with tempfile.TemporaryDirectory() as tmp:
        full, some = Path(tmp, "full"), Path(tmp, "some")
        (full / "lib/modules").mkdir(parents=True)
        (full / top).symlink_to(kernel.modules.resolve())
        dep = kernel.modules / "modules.dep"
        if not dep.exists():
            (full / top).unlink()
            shutil.copytree(kernel.modules, full / top, symlinks=True)
            sh("depmod", "-b", full, kernel.release)
            dep = full / top / "modules.dep"
        for name in needed_modules(kernel, dep):
            data = (kernel.modules / name).read_bytes()
            plain = re.sub(r"\.(xz|zst|gz)$", "", name)
            target = some / top / plain
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data if plain == name else decompress(data, Path(name)))
        for index in kernel.modules.glob("modules.builtin*"):
            if index.name != "modules.builtin.bin":
                shutil.copy(index, some / top)
        if (kernel.modules / "modules.order").exists():
            shutil.copy(kernel.modules / "modules.order", some / top)
        sh("depmod", "-b", some, kernel.release)
        for f in sorted((some / top).rglob("*")):
            if f.is_file():
                cpio.file(f"{top}/{f.relative_to(some / top)}", f.read_bytes())


def needed_modules(kernel: Kernel, dep: Path) -> list[str]:
    """The files to take, by modules.dep."""
    needed: set[str] = set()
    for line in dep.read_text().splitlines():
        name, _, deps = line.partition(":")
        if GUEST_MODULES.match(name):
            needed |= {name, *deps.split()}
    if not any("/veth.ko" in n for n in needed):
        if "/veth.ko" not in (kernel.modules / "modules.builtin").read_text():
            raise LabError(f"kernel {kernel.release}: no veth module in {kernel.modules}")
    return sorted(needed)


def package_version(path: Path) -> str:
    """Version of the Debian package that owns a file, '-' if none does."""
    for p in (path, Path(str(path).removeprefix("/usr"))):
        q = subprocess.run(["dpkg", "-S", str(p)], capture_output=True, text=True)
        if q.returncode == 0:
            name = q.stdout.split(": ")[0].split(",")[0]
            return sh("dpkg-query", "-W", "-f", "${Package} ${Version}", name)
    return "-"


def libraries(binary: Path) -> list[Path]:
    """The shared libraries a binary needs, the dynamic linker among them."""
    out = subprocess.run(["ldd", str(binary)], capture_output=True, text=True).stdout
    if missing := re.search(r"(\S+) => not found", out):
        raise LabError(f"{binary}: its library {missing[1]} is missing")
    return [Path(p) for p in re.findall(r"(/\S+) \(0x", out)]


def find_tool(name: str) -> Path:
    found = shutil.which(name)
    if not found:
        raise LabError(f"{name}: not installed; `make deps` installs what is missing")
    return Path(found)


# Run by the guest's interpreter: the standard library modules that a package's modules reach, compiled
# with hashes for times, as "guest path <tab> file" lines.
PYTHON_CLOSURE = """
import modulefinder, os, py_compile, sys
out, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
finder = modulefinder.ModuleFinder([folder, *sys.path], excludes=[
    'tkinter', 'unittest', 'pydoc', 'doctest', 'pdb', 'test', 'ssl', 'asyncio', 'multiprocessing', 'lzma', 'bz2'])
for name in names:
    finder.import_hook(name)
found = finder.modules
for name in ('encodings', 'encodings.utf_8', 'encodings.ascii', 'encodings.latin_1', 'encodings.aliases',
             'encodings.idna', 'codecs', 'io', 'abc', 'linecache', 'traceback'):
    __import__(name); found[name] = sys.modules[name]
version = 'python%d.%d' % sys.version_info[:2]
stdlib = os.path.dirname(os.__file__)
for name, module in sorted(found.items()):
    file = getattr(module, '__file__', None)
    if not file or not file.startswith(stdlib):
        continue
    path = 'usr/lib/%s/%s' % (version, os.path.relpath(file, stdlib))
    if file.endswith('.py'):
        target = os.path.join(out, name + '.pyc')
        py_compile.compile(file, target, dfile='/' + path, doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        file, path = target, path + 'c'
    print(path, file, sep='\\t')
"""


def add_userland(cpio: Cpio, parts: dict[str, dict]) -> None:
    python = Path("/usr/bin/python3").resolve()
    if not python.exists():
        raise LabError("/usr/bin/python3: not installed; `make deps` installs what is missing")
    asymcc = BUILD / "asymcc"
    for f in (asymcc, *GUEST_OBJECTS):
        if not f.exists():
            raise LabError(f"{f}: not built; run `make build`")
    binaries = {f"usr/bin/{t}": find_tool(t) for t in GUEST_TOOLS}
    binaries |= {"usr/bin/python3": python, "usr/bin/asymcc": asymcc}
    libs: dict[str, Path] = {}
    for guest, host in binaries.items():
        cpio.file(guest, host.resolve().read_bytes(), 0o755)
        ours = host in (asymcc, python)
        parts[Path(guest).name] = {
            "version": "this tree" if host == asymcc else package_version(host.resolve() if ours else host),
            "sha256": sha256(host.resolve()),
        }
        libs |= {str(p).lstrip("/"): p for p in libraries(host.resolve())}
    with tempfile.TemporaryDirectory() as tmp:
        names = [f"{GUEST.name}.{f.stem}" for f in guest_modules()]
        closure = sh(python, "-I", "-c", PYTHON_CLOSURE, tmp, GUEST.parent, *names)
        digest = hashlib.sha256()
        for line in closure.splitlines():
            guest, file = line.split("\t")
            data = Path(file).read_bytes()
            digest.update(data)
            cpio.file(guest, data)
            if file.endswith(".so"):
                libs |= {str(p).lstrip("/"): p for p in libraries(Path(file))}
        parts["python-stdlib"] = {"version": package_version(python), "sha256": digest.hexdigest()}
    for guest, host in sorted(libs.items()):
        cpio.file(guest, host.resolve().read_bytes(), 0o755)
        parts[host.name] = {"version": package_version(host.resolve()), "sha256": sha256(host.resolve())}
    cpio.link("sbin", "usr/bin")
    if not any(k == "bin" or k.startswith("bin/") for k in cpio.entries):
        cpio.link("bin", "usr/bin")
    own = {f"lab/{GUEST.name}/{f.name}": f for f in guest_modules()} | {f"lab/{f.name}": f for f in GUEST_OBJECTS}
    for guest, f in own.items():
        cpio.file(guest, f.read_bytes())
        parts[f.name] = {"version": "this tree", "sha256": sha256(f)}
    cpio.file("lab/init", INIT, 0o755)
    cpio.link("init", "lab/init")
    cpio.device("dev/console", 5, 1)
    cpio.device("dev/urandom", 1, 9)  # Python asks for it before anything is mounted
    for d in ("proc", "sys", "tmp", "run", "dev", "etc"):
        cpio.dir(d)


def build_image(
    kernel: str = DEFAULT_KERNEL, modules: Path | None = None, label: str | None = None, say=print, faster: bool = True
) -> Path:
    """Make (or renew) an image; returns its folder. `kernel`: a series ("6.12"), a package name, or a file.

    faster: with the clock of boot.py, if the kernel takes it.
    """
    is_file = "/" in kernel or Path(kernel).is_file()
    label = label or (Path(kernel).name if is_file else kernel)
    if not LABEL.fullmatch(label):
        raise LabError(f"--name {label}: letters, digits and . + _ - only")
    folder = IMAGES / label
    k = user_kernel(Path(kernel), modules) if is_file else fetch_kernel(kernel, say)
    say(f"making image {label}: kernel {k.release}")
    vmlinux = extract_vmlinux(k.vmlinuz)
    base, parts = initramfs(k)
    parts["vmlinux"] = {"version": f"{k.release} {k.version}", "sha256": hashlib.sha256(vmlinux).hexdigest()}
    parts["base.cpio"] = {"version": "this tree", "sha256": hashlib.sha256(base).hexdigest()}
    say(f"booting image {label}")
    try:
        booted = boot.boot(vmlinux, base, k.release, faster)
        parts["memory"] = {"version": "booted", "sha256": hashlib.sha256(booted.memory).hexdigest()}
        manifest = {
            "kernel": k.release,
            "qemu": qemu.version(),
            "clock_factor": booted.clock_factor,
            "booted_by": boot.booted_by(k.release, booted.clock_factor),
            "devices": hashlib.sha256(booted.devices).hexdigest(),
            "parts": dict(sorted(parts.items())),
        }
        files = {"memory": booted.memory, "devices": booted.devices}
        keep(folder, files | {"manifest.json": json.dumps(manifest, indent=1).encode()})
        size = sum(f.stat().st_blocks * 512 for f in folder.iterdir())
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}") from None
    if booted.why:
        say(f"image {label}: 10^9 instructions a second, not more: {booted.why}")
    say(f"image {label}: {size / 1e6:.0f} MB in {folder}, clock factor {booted.clock_factor}")
    return folder


def initramfs(kernel: Kernel) -> tuple[bytes, dict[str, dict]]:
    """The archive, and the parts that it is made of."""
    cpio, parts = Cpio(), {}
    add_modules(cpio, kernel)
    parts["modules"] = {"version": kernel.release, "sha256": hashlib.sha256(cpio.pack()).hexdigest()}
    add_userland(cpio, parts)
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
