# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes the guest: a stock distribution kernel and an initramfs, as an ordinary user.

An image is a folder build/image/NAME with
    memory          of a guest that has booted and waits for its job
    devices         the state of all else in it
    manifest.json   name, version and sha256 of every part: of the kernel (vmlinux), of the initramfs (base.cpio: modules,
                    tools, loader, tracer, agent) and of what the initramfs holds

The controllers are not in it: each run brings those it needs (see vm.py), so that adding one
changes no other run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import lzma
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..paths import BUILD, GUEST, IMAGES

DEFAULT_KERNEL = "6.12"
DEBIAN_SUITES = ("trixie", "bookworm", "bookworm-backports", "trixie-backports", "forky", "sid")
GUEST_TOOLS = ("ip", "tc", "nft", "iperf3", "modprobe", "bpftool")
GUEST_MODULES = re.compile(
    r"kernel/(net/ipv4/tcp_[a-z]+|net/sched/(sch|act|cls|em)_\w+|net/netfilter/nf_tables|drivers/net/(veth|ifb|dummy))\.ko"
)
# The first process is a script: the kernel starts no module of a package.
INIT = b"#!/usr/bin/python3 -sSB\nfrom guest import init\n\ninit.main()\n"
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


# --- small tools ---------------------------------------------------------------------------


def run(*argv: str | Path, **kw) -> str:
    """Output of a command; LabError with its last words if it fails."""
    try:
        p = subprocess.run(list(map(str, argv)), capture_output=True, text=True, **kw)
    except FileNotFoundError:
        raise LabError(f"{argv[0]}: not installed; `make deps` installs what is missing") from None
    if p.returncode:
        words = (p.stderr or p.stdout).strip().splitlines()
        raise LabError(f"{argv[0]} failed: {words[-1] if words else f'exit {p.returncode}'}")
    return p.stdout


def sha256(path: Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


class Cpio:
    """A newc archive with fixed times and owners: the same content gives the same bytes."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, bytes, tuple[int, int]]] = {}

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        self._parents(name)
        self.entries[name.lstrip("/")] = (0o100000 | mode, data, (0, 0))

    def link(self, name: str, target: str) -> None:
        self._parents(name)
        self.entries[name.lstrip("/")] = (0o120777, target.encode(), (0, 0))

    def dir(self, name: str) -> None:
        self._parents(name)
        self.entries.setdefault(name.strip("/"), (0o040755, b"", (0, 0)))

    def device(self, name: str, major: int, minor: int) -> None:
        self._parents(name)
        self.entries[name.lstrip("/")] = (0o020600, b"", (major, minor))

    def _parents(self, name: str) -> None:
        for parent in reversed(Path(name.strip("/")).parents):
            if str(parent) != ".":
                self.entries.setdefault(str(parent), (0o040755, b"", (0, 0)))

    def pack(self) -> bytes:
        out = bytearray()
        entries = sorted(self.entries.items())
        for ino, (name, (mode, data, (major, minor))) in enumerate(
            entries + [("TRAILER!!!", (0, b"", (0, 0)))], start=1
        ):
            raw = name.encode() + b"\0"
            fields = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(raw), 0)
            out += b"070701" + b"".join(b"%08X" % f for f in fields) + raw
            out += b"\0" * (-len(out) % 4) + data
            out += b"\0" * (-len(out) % 4)
        return bytes(out)


# --- the kernel ----------------------------------------------------------------------------


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
    """What this machine's apt installs from; where it has no lists (never updated, or cleared), ours are made under cache."""
    ours, words = own_state(cache / "machine"), "none is configured"
    for options in ((), ours):
        try:
            if options:
                run("apt-get", *options, "update")
        except LabError as e:
            words = str(e)  # of a source that may not matter here
        for line in run(
            "apt-get",
            *options,
            "indextargets",
            "--format",
            "$(ORIGIN)|$(SITE)|$(CODENAME)|$(COMPONENT)",
            "Identifier: Packages",
        ).splitlines():
            origin, site, codename, component = line.split("|")
            if origin in ("Debian", "Ubuntu") and component == "main":
                return AptSource(origin, site, codename.split("-")[0])
    raise LabError(f"no Debian or Ubuntu package source ({words}); or give --kernel VMLINUZ --modules DIR")


def own_state(state: Path) -> list[str]:
    """Options that make apt write only under state, as an ordinary user."""
    for sub in ("lists/partial", "archives/partial"):
        (state / sub).mkdir(parents=True, exist_ok=True)
    return [
        "-o",
        f"Dir::State::Lists={state}/lists",
        "-o",
        f"Dir::Cache={state}",
        "-o",
        "APT::Sandbox::User=",
        "-o",
        "Acquire::Languages=none",
        "-o",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
    ]


def apt_options(source: AptSource, suite: str, cache: Path) -> list[str]:
    """Options that make apt read one suite of the machine's mirror, and write only under cache."""
    state = cache / suite
    own = own_state(state)
    sources = state / "suite.sources"
    sources.write_text(
        f"Types: deb\nURIs: {source.site}\nSuites: {suite}\nComponents: main\nSigned-By: {source.keyring}\n"
    )
    return [*own, "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"]


def find_kernel_package(wanted: str, cache: Path, say) -> tuple[list[str], list[str], str]:
    """(apt options, packages, version) of the kernel series or package `wanted`."""
    source = apt_source(cache)
    debian = source.origin == "Debian"
    suites = list(DEBIAN_SUITES) if debian else [source.codename, f"{source.codename}-updates"]
    meta = "linux-image-cloud-amd64" if debian else "linux-image-virtual"
    seen = []
    for suite in suites:
        options = apt_options(source, suite, cache)
        say(f"looking for kernel {wanted} in {suite}")
        try:
            run("apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update")
        except LabError as e:
            if re.search(r"Release file|404|Not Found", str(e)):
                continue  # the mirror does not carry this suite
            raise
        name = wanted if wanted.startswith("linux-image-") else meta
        try:
            text = run("apt-cache", *options, "show", "--no-all-versions", name)
        except LabError:
            continue
        version = re.search(r"^Version: (\S+)", text, re.M)[1]
        seen.append(f"{version} ({suite})")
        if name == meta:
            if not version.startswith(wanted + ".") and version != wanted:
                continue
            name = re.search(r"linux-image-[0-9][^ ,)]*", text)[0]
            text = run("apt-cache", *options, "show", "--no-all-versions", name)
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
        return _fetch_kernel(wanted, cache, say)


def _fetch_kernel(wanted: str, cache: Path, say) -> Kernel:
    options, packages, version = find_kernel_package(wanted, cache, say)
    tree = cache / "unpacked" / f"{packages[0]}_{version}"
    if not (tree / ".done").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=cache) as tmp:
            say(f"downloading {packages[0]} {version}")
            run("apt-get", *options, "download", *packages, cwd=tmp)
            for deb in sorted(Path(tmp).glob("*.deb")):
                run("dpkg-deb", "-x", deb, tree)
        (tree / ".done").touch()
    release = packages[0].removeprefix("linux-image-").removeprefix("unsigned-")
    modules = next((m for top in ("lib", "usr/lib") if (m := tree / top / "modules" / release).is_dir()), None)
    if not modules:
        raise LabError(f"{packages[0]}: the package holds no modules for {release}")
    vmlinuz = next((f for f in (tree / "boot" / f"vmlinuz-{release}", modules / "vmlinuz") if f.exists()), None)
    if not vmlinuz:
        raise LabError(f"{packages[0]}: the package holds no kernel image")
    return Kernel(release, version, vmlinuz, modules)


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
    for magic, tool in (
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x02\x21\x4c\x18", "lz4"),
        (b"\xfd7zXZ", "xz"),
        (b"\x1f\x8b", "gzip"),
    ):
        if data.startswith(magic):
            break
    else:
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
            run("depmod", "-b", full, kernel.release)
            dep = full / top / "modules.dep"
        needed: set[str] = set()
        for line in dep.read_text().splitlines():
            name, _, deps = line.partition(":")
            if GUEST_MODULES.match(name):
                needed |= {name, *deps.split()}
        if not any("/veth.ko" in n for n in needed):
            builtin = (kernel.modules / "modules.builtin").read_text()
            if "/veth.ko" not in builtin:
                raise LabError(f"kernel {kernel.release}: no veth module in {kernel.modules}")
        for name in sorted(needed):
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
        run("depmod", "-b", some, kernel.release)
        for f in sorted((some / top).rglob("*")):
            if f.is_file():
                cpio.file(f"{top}/{f.relative_to(some / top)}", f.read_bytes())


# --- the tools -----------------------------------------------------------------------------


def package_version(path: Path) -> str:
    """Version of the Debian package that owns a file, '-' if none does."""
    for p in (path, Path(str(path).removeprefix("/usr"))):
        q = subprocess.run(["dpkg", "-S", str(p)], capture_output=True, text=True)
        if q.returncode == 0:
            name = q.stdout.split(": ")[0].split(",")[0]
            return run("dpkg-query", "-W", "-f", "${Package} ${Version}", name)
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
for name in ('encodings', 'encodings.utf_8', 'encodings.ascii', 'encodings.latin_1', 'encodings.aliases', 'encodings.idna',
             'codecs', 'io', 'abc', 'linecache', 'traceback'):
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
    asymcc, tracer = BUILD / "asymcc", BUILD / "trace.bpf.o"
    for f in (asymcc, tracer):
        if not f.exists():
            raise LabError(f"{f}: not built; run `make build`")
    binaries = {f"usr/bin/{t}": find_tool(t) for t in GUEST_TOOLS}
    binaries |= {"usr/bin/python3": python, "usr/bin/asymcc": asymcc}
    libs: dict[str, Path] = {}
    for guest, host in binaries.items():
        cpio.file(guest, host.resolve().read_bytes(), 0o755)
        own = host in (asymcc, python)
        parts[Path(guest).name] = {
            "version": "this tree" if host == asymcc else package_version(host.resolve() if own else host),
            "sha256": sha256(host.resolve()),
        }
        libs |= {str(p).lstrip("/"): p for p in libraries(host.resolve())}
    with tempfile.TemporaryDirectory() as tmp:
        names = [f"{GUEST.name}.{f.stem}" for f in guest_modules()]
        closure = run(python, "-I", "-c", PYTHON_CLOSURE, tmp, GUEST.parent, *names)
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
    for f in guest_modules():
        cpio.file(f"lab/{GUEST.name}/{f.name}", f.read_bytes())
        parts[f.name] = {"version": "this tree", "sha256": sha256(f)}
    cpio.file("lab/trace.bpf.o", tracer.read_bytes())
    parts["trace.bpf.o"] = {"version": "this tree", "sha256": sha256(tracer)}
    cpio.file("lab/init", INIT, 0o755)
    cpio.link("init", "lab/init")
    cpio.device("dev/console", 5, 1)
    cpio.device("dev/urandom", 1, 9)  # Python asks for it before anything is mounted
    for d in ("proc", "sys", "tmp", "run", "dev", "etc"):
        cpio.dir(d)


def write_sparse(file: Path, data: bytes, block: int = 1 << 16) -> None:
    """With holes for blocks of zeros, most of a booted machine's memory."""
    with open(file, "wb") as f:
        for at in range(0, len(data), block):
            part = data[at : at + block]
            if part.count(0) == len(part):
                f.seek(at + len(part))
            else:
                f.write(part)
        f.truncate(len(data))


def build_image(kernel: str = DEFAULT_KERNEL, modules: Path | None = None, label: str | None = None, say=print) -> Path:
    """Make (or renew) an image; returns its folder. `kernel`: a series ("6.12"), a package name, or a file."""
    is_file = "/" in kernel or Path(kernel).is_file()
    from . import vm  # which needs this module

    label = label or (Path(kernel).name if is_file else kernel)
    if not LABEL.fullmatch(label):
        raise LabError(f"--name {label}: letters, digits and . + _ - only")
    folder = IMAGES / label
    k = user_kernel(Path(kernel), modules) if is_file else fetch_kernel(kernel, say)
    say(f"making image {label}: kernel {k.release}")
    vmlinux = extract_vmlinux(k.vmlinuz)
    cpio, parts = Cpio(), {}
    add_modules(cpio, k)
    parts["modules"] = {"version": k.release, "sha256": hashlib.sha256(cpio.pack()).hexdigest()}
    add_userland(cpio, parts)
    base = cpio.pack()
    parts["vmlinux"] = {"version": f"{k.release} {k.version}", "sha256": hashlib.sha256(vmlinux).hexdigest()}
    parts["base.cpio"] = {"version": "this tree", "sha256": hashlib.sha256(base).hexdigest()}
    say(f"booting image {label}")
    files: dict[str, bytes] = {}
    try:
        files = vm.boot(vmlinux, base, k.release)
        parts["memory"] = {"version": "booted", "sha256": hashlib.sha256(files["memory"]).hexdigest()}
        manifest = {
            "kernel": k.release,
            "qemu": vm.qemu(),
            "booted_by": vm.booted_by(k.release),
            "devices": hashlib.sha256(files["devices"]).hexdigest(),
            "parts": dict(sorted(parts.items())),
        }
        files["manifest.json"] = json.dumps(manifest, indent=1).encode()
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_sparse(folder / f".{name}.part", data)
        (folder / "manifest.json").unlink(missing_ok=True)  # without it there is no image: never a half new one
        for name in files:
            (folder / f".{name}.part").replace(folder / name)
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}") from None
    finally:
        for name in files:
            (folder / f".{name}.part").unlink(missing_ok=True)
    size = sum((folder / name).stat().st_blocks * 512 for name in files)
    say(f"image {label}: {size / 1e6:.0f} MB in {folder}")
    return folder


@dataclass(frozen=True)
class Image:
    """An image that is ready to boot."""

    folder: Path
    kernel: str
    hash: str  # over vmlinux, base.cpio and the memory of the booted machine: what the guest is made of
    devices_sha256: str  # not among them: the file has the time of its making

    @property
    def memory(self) -> Path:
        return self.folder / "memory"

    @property
    def devices(self) -> Path:
        return self.folder / "devices"


def guest_modules() -> list[Path]:
    return sorted(GUEST.glob("*.py"))


def of_this_tree() -> dict[str, Path]:
    """The parts of an image that are built from this tree."""
    return {f.name: f for f in (BUILD / "asymcc", BUILD / "trace.bpf.o", *guest_modules())}


def check_current(label: str) -> None:
    """LabError if the tree has changed since the image was made: its runs would be of the old code."""
    from . import vm  # which needs this module

    manifest = json.loads((IMAGES / label / "manifest.json").read_text())
    if manifest["qemu"] != vm.qemu():
        raise LabError(
            f"image {label}: booted by another QEMU than this machine's; `asymlab image --kernel {label}` renews it"
        )
    if manifest["booted_by"] != vm.booted_by(manifest["kernel"]):
        raise LabError(
            f"image {label}: booted with another command line than this tree's; `asymlab image --kernel {label}` renews it"
        )
    parts = manifest["parts"]
    for name, file in of_this_tree().items():
        if not file.exists() or parts.get(name, {}).get("sha256") != sha256(file):
            raise LabError(
                f"image {label}: made with another {name} than this tree's; "
                f"`make build` and `asymlab image --kernel {label}` renew it"
            )


def open_image(label: str = DEFAULT_KERNEL) -> Image:
    folder = IMAGES / label
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        parts = manifest["parts"]
        digest = hashlib.sha256("".join(parts[name]["sha256"] for name in ("vmlinux", "base.cpio", "memory")).encode())
        return Image(folder, manifest["kernel"], digest.hexdigest(), manifest["devices"])
    except (OSError, ValueError, KeyError):
        made = sorted(p.parent.name for p in IMAGES.glob("*/manifest.json"))
        raise LabError(
            f"image {label}: not made ({'there are: ' + ', '.join(made) if made else 'none yet'}); "
            f"`asymlab image --kernel {label}` makes it"
        ) from None
