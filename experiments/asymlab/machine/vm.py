# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One experiment in one virtual machine, in virtual time.

QEMU counts guest instructions: one is one nanosecond, and when the guest idles the clock jumps to
its next timer. Nothing of the host's time enters: no disk, no network, no console input, fixed
clock, fixed CPU, no entropy but the job's seed. The same image, job and QEMU give the same bytes.

An image holds a machine that has booted and waits for its job (`boot`), stopped at one certain
instruction: each run begins as a copy of it, its memory mapped copy-on-write.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from functools import cache
from pathlib import Path

from .. import LabError
from ..guest.protocol import HEADER, JOB, RESULTS, STOP
from ..paths import BUILD
from ..plan.topology import job_objects
from ..results.store import FILES, TABLES_HASH
from .image import Image, open_image, sha256
from .image import run as sh

QEMU = "qemu-system-x86_64"
MEMORY_MB = 512
SHARED_MB = (
    1024  # memory that the job comes in by, and the results go out; a sparse file, as large as what is written to it
)
SANDBOX = ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]  # shapes no result
WALL_LIMIT_S = 1800
BOOT_LIMIT_S = 300
CONSOLE_MAX = 1 << 20  # characters; a run says a few lines
WORDS_MAX = 1000  # characters of a guest's complaint that are repeated
READY = "ready"  # what the state at STOP is called
APPEND = (
    "console=ttyS0 quiet loglevel=3 panic=-1 oops=panic nokaslr norandmaps random.trust_cpu=off "
    "random.trust_bootloader=off mitigations=off tsc=reliable no_timer_check nowatchdog "
    "audit=0 PYTHONHASHSEED=0 rdinit=/init "
    # No security module but this, which does nothing here. `apparmor=0` alone lets SELinux in, where the
    # kernel knows no `selinux=0`: its hooks see each packet at each node, 7 % of a packet's work.
    "lsm=lockdown "
    # Clearing all memory that is handed out and checking each copy from and to users: 2 % of it.
    "init_on_alloc=0 hardened_usercopy=off "
    # Self-tests, key rings and names for trace formats that no run uses: half of the boot.
    "cryptomgr.notests=1 initcall_blacklist=jent_mod_init,load_system_certificate_list,init_encrypted,"
    "crypto_kdf108_init,trace_eval_init"
)


@cache
def qemu() -> dict[str, str]:
    """What QEMU says of itself, and hashes of it and of the firmware that runs before the kernel."""
    if not (binary := shutil.which(QEMU)):
        raise LabError(f"{QEMU}: not installed; `make deps` installs what is missing")
    files = [
        Path(binary),
        *(
            p
            for name in ("seabios/bios-256k.bin", "qemu/pvh.bin", "qemu/kvmvapic.bin")
            if (p := Path("/usr/share", name)).exists()
        ),
    ]
    return {"version": sh(QEMU, "--version").splitlines()[0], **{p.name: sha256(p) for p in files}}


# While the guest computes, QEMU's main loop may look whether it idles, see it halt a moment before
# its instructions are counted, and jump the clock too far: by host timing, more often on a loaded
# machine. Recording (to nowhere) makes the two take turns.
ICOUNT = "shift=0,sleep=off,rr=record,rrfile=/dev/null"
NEEDS_CX16 = 6, 18


def cpu(kernel: str) -> str:
    """The guest's. QEMU 7.2 restores wrong flags when an interrupt comes at a cmpxchg16b, which the kernel's allocator uses
    where it can: so it cannot. But from 6.18 on there is kmalloc_nolock(), which works with it only, and later BPF's storage
    of sockets needs that.
    """
    found = re.match(r"(\d+)\.(\d+)", kernel)
    new = found and (int(found[1]), int(found[2])) >= NEEDS_CX16
    return f"qemu64,-rdrand,-rdseed,{'+' if new else '-'}cx16"


def arguments(kernel: str, seed: int, memory: str, share: bool, devices: str, console: str) -> list[str]:
    """QEMU's arguments. All of them shape the result, but not where the files are. It waits for `cont`.

    memory: the guest's, written to if `share`; devices: where the state of all else is kept (qcow2).
    """
    return [
        "-M",
        "pc,memory-backend=ram",
        "-nodefaults",
        "-no-user-config",
        "-nic",
        "none",
        "-display",
        "none",
        "-no-reboot",
        "-accel",
        "tcg,thread=single,tb-size=128",
        "-icount",
        ICOUNT,
        "-smp",
        "1",
        "-m",
        str(MEMORY_MB),
        "-cpu",
        cpu(kernel),
        "-rtc",
        "base=2026-01-01,clock=vm",
        "-seed",
        str(seed),
        "-object",
        f"memory-backend-file,id=ram,size={MEMORY_MB}M,mem-path={memory},share={'on' if share else 'off'}",
        "-drive",
        f"if=none,id=state,file={devices}",
        "-serial",
        f"file:{console}",
        "-S",
        "-qmp",
        "stdio",
    ]


class Machine:
    """A QEMU process and the monitor on its standard input. It dies with us, even by SIGKILL, and with `close`."""

    def __init__(self, argv: list[str], folder: Path, core: int | None = None, started=None, pass_fds=()):
        # One core for both of QEMU's threads: they alternate. As a batch job, so that the one that is woken
        # waits until the other has let go of the lock it needs: a third of the context switches, a fifth less CPU.
        argv = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            *(["taskset", "--cpu-list", str(core)] if core is not None else []),
            "prlimit",
            f"--fsize={SHARED_MB << 20}",
            "--core=0",
            "chrt",
            "--batch",
            "0",
            QEMU,
            *SANDBOX,
            *argv,
        ]
        self.folder = folder
        with open(folder / "errors", "wb") as errors:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        try:
            if started:
                started(self.process)
            self._answer()
            self.do("qmp_capabilities")
            # The memory is kept as the file that it is.
            self.do("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])
        except BaseException:
            self.close()
            raise

    def _answer(self) -> dict:
        """The monitor's next word, events aside."""
        for line in self.process.stdout:
            message = json.loads(line)
            if "event" not in message:
                return message
        self.process.wait()
        raise LabError(self.last_words())

    def do(self, command: str, **arguments):
        try:
            print(json.dumps({"execute": command, "arguments": arguments}), file=self.process.stdin, flush=True)
        except OSError:
            pass  # it has ended: the answer says how
        answer = self._answer()
        if "error" in answer:
            raise LabError(f"{QEMU}: {command}: {answer['error']['desc']}")
        return answer["return"]

    def human(self, command: str) -> None:
        """What only the monitor for humans can do; it answers with its errors."""
        if words := self.do("human-monitor-command", **{"command-line": command}):
            raise LabError(f"{QEMU}: {command}: {words.strip().splitlines()[-1]}")

    def console(self) -> str:
        try:
            with open(self.folder / "console", errors="replace") as f:
                return f.read(CONSOLE_MAX)
        except FileNotFoundError:
            return ""

    def wait(self, limit_s: float, look=lambda: None) -> None:
        """For its end; meanwhile `look` every now and then."""
        until = time.monotonic() + limit_s
        while self.process.poll() is None:
            time.sleep(0.05)
            look()
            said = self.console()
            if len(said) == CONSOLE_MAX:
                raise LabError(f"virtual machine: talks without end: {said[-200:].splitlines()[-1]}")
            if time.monotonic() > until:
                raise LabError(
                    f"virtual machine: no end after {limit_s:.0f} s of wall time ({self.complaint()}); a shorter duration or a lower rate helps"
                )
        if self.process.returncode:
            raise LabError(self.last_words())

    def complaint(self) -> str:
        """What its console says of a machine that ended without results."""
        lines = self.console().strip().splitlines()
        said = next((line for line in lines if re.search(r"Error|panic|BUG|Out of memory", line)), None)
        return (said or (lines[-1] if lines else "no word on its console"))[:WORDS_MAX]

    def last_words(self) -> str:
        """Of a process that has ended."""
        if self.process.returncode == -signal.SIGBUS:
            return f"{self.folder.parent}: No space left on device for a run's results; free some and start again"
        words = (self.folder / "errors").read_text(errors="replace").strip().splitlines()
        return f"{QEMU} failed: {words[-1] if words else f'exit {self.process.returncode}'}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Debugger:
    """As much of GDB's remote protocol as a machine takes to stop at an instruction."""

    def __init__(self) -> None:
        self.socket, self.theirs = socket.socketpair()
        self.socket.settimeout(BOOT_LIMIT_S)
        self.heard = b""

    def arguments(self) -> list[str]:
        return ["-chardev", f"socket,id=gdb,fd={self.theirs.fileno()}", "-gdb", "chardev:gdb"]

    def say(self, packet: bytes) -> bytes:
        self.socket.sendall(b"$%s#%02x" % (packet, sum(packet) & 255))
        while not (found := re.search(rb"\$([^#]*)#..", self.heard)):
            try:
                more = self.socket.recv(4096)
            except TimeoutError:
                more = b""
            if not more:
                raise LabError(f"virtual machine: ended, or not ready for a job after {BOOT_LIMIT_S} s")
            self.heard += more
        self.heard = self.heard[found.end() :]
        self.socket.sendall(b"+")
        return found[1]

    def stop_at(self, address: int) -> None:
        """Let the machine run up to there, and no breakpoint behind."""
        for packet, answer in ((b"Z1,%x,1", b"OK"), (b"c", b"T05"), (b"z1,%x,1", b"OK")):
            if not (said := self.say(packet % address if b"%" in packet else packet)).startswith(answer):
                raise LabError(f"{QEMU}: debugger: {said.decode(errors='replace')!r} to {packet.decode()}")

    def close(self) -> None:
        self.socket.close()
        self.theirs.close()


def booted_by(kernel: str) -> str:
    """A hash of what shapes the booted machine besides its image: command line and arguments."""
    return hashlib.sha256(json.dumps([APPEND, arguments(kernel, 0, "", True, "", "")]).encode()).hexdigest()


def boot(vmlinux: bytes, base: bytes, kernel: str) -> dict[str, bytes]:
    """Boot up to where the guest waits for a job: its memory, and as "devices" the state of all else."""
    with scratch("boot-") as tmp:
        (tmp / "vmlinux").write_bytes(vmlinux)
        (tmp / "base.cpio").write_bytes(base)
        argv = [
            *arguments(kernel, 0, f"{tmp}/memory", True, f"{tmp}/devices", f"{tmp}/console"),
            "-kernel",
            f"{tmp}/vmlinux",
            "-initrd",
            f"{tmp}/base.cpio",
            "-append",
            APPEND,
        ]
        sh("qemu-img", "create", "-q", "-f", "qcow2", tmp / "devices", "1M")
        # A first time to learn where: a packaged kernel has no symbols, and the guest prints the address.
        with contextlib.closing(Machine(argv, tmp)) as machine:
            machine.do("cont")
            machine.wait(BOOT_LIMIT_S)
            found = re.search(rf"^([0-9a-f]+) \S+ {STOP}$", machine.console(), re.M)
            if not found:
                raise LabError(f"virtual machine: not ready for a job: {machine.complaint()}")
        (tmp / "memory").unlink()
        with contextlib.closing(Debugger()) as debugger:
            with contextlib.closing(
                Machine(argv + debugger.arguments(), tmp, pass_fds=[debugger.theirs.fileno()])
            ) as machine:
                debugger.theirs.close()  # so that its end is heard of
                debugger.stop_at(int(found[1], 16))
                machine.human(f"savevm {READY}")
                machine.do("quit")
                machine.wait(BOOT_LIMIT_S)
        return {name: (tmp / name).read_bytes() for name in ("memory", "devices")}


def read_objects(job: dict) -> dict[str, bytes]:
    """The BPF objects that a job brings along, read once: what is hashed is what is run."""
    return {p.name: p.read_bytes() for p in job_objects(job)}


def identity(image: Image, job: dict, objects: dict[str, bytes]) -> dict:
    """All that determines a run's result, as hashes."""
    return {
        "image": image.hash,
        "kernel": image.kernel,
        "qemu": qemu(),
        "arguments": arguments(image.kernel, job["seed"], "", False, "", ""),
        "tables": TABLES_HASH,
        "objects": {name: hashlib.sha256(data).hexdigest() for name, data in objects.items()},
        "job": job,
    }


@contextlib.contextmanager
def scratch(prefix: str):
    """A folder for one run's files, gone afterwards; those of runs that were killed go with the next one's."""
    folder = BUILD / "tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".lock", "w") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            for old in folder.glob(f"{prefix}*"):
                with contextlib.suppress(OSError), open(old / ".lock") as theirs:  # who lives holds it
                    fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(old, ignore_errors=True)
            tmp = tempfile.TemporaryDirectory(dir=folder, prefix=prefix)
            mine = open(Path(tmp.name, ".lock"), "w")
            fcntl.flock(mine, fcntl.LOCK_EX)
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}") from None
    with mine, tmp as name:
        yield Path(name)


def run(
    image: Image,
    job: dict,
    objects: dict[str, bytes],
    core: int | None = None,
    limit_s: float = WALL_LIMIT_S,
    started=None,
) -> tuple[dict[str, bytes], dict[str, float]]:
    """Go on from the booted machine, run the job, power off. Returns the files the agent left, and what it took of the host:
    wall_s in all, boot_s up to the first packet. `started` gets the process.

    Raises LabError: with the agent's message, or with the reason why the machine did not make it.
    """
    bring = io.BytesIO()
    with tarfile.open(fileobj=bring, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in {"job.json": json.dumps(job, sort_keys=True).encode(), **objects}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with scratch("vm-") as tmp:
        try:
            shutil.copyfile(image.devices, tmp / "devices")  # QEMU would have it for itself
            if sha256(tmp / "devices") != image.devices_sha256:
                raise LabError(f"{image.devices}: not what its manifest says; `asymlab image` makes it anew")
            with open(tmp / "shared", "wb") as f:
                f.write(HEADER.pack(JOB, bring.tell()) + bring.getvalue())
                f.truncate(SHARED_MB << 20)
        except OSError as e:
            raise LabError(f"{tmp}: {e.strerror}") from None
        argv = arguments(image.kernel, job["seed"], str(image.memory), False, f"{tmp}/devices", f"{tmp}/console")
        boot_s = None
        began = time.monotonic()

        def look() -> None:
            nonlocal boot_s
            if boot_s is None and "first packet" in machine.console():
                boot_s = time.monotonic() - began

        with contextlib.closing(Machine(argv, tmp, core, started)) as machine:
            machine.human(f"loadvm {READY}")
            # Plugged in only now: a machine that is kept with it would bring all of its memory along.
            machine.do(
                "object-add",
                **{
                    "qom-type": "memory-backend-file",
                    "id": "shared",
                    "size": SHARED_MB << 20,
                    "mem-path": f"{tmp}/shared",
                    "share": True,
                },
            )
            machine.do("device_add", driver="ivshmem-plain", memdev="shared", bus="pci.0", addr="05.0")
            machine.do("cont")
            machine.wait(limit_s, look)
            if open_image(image.folder.name).hash != image.hash:
                raise LabError(f"image {image.folder.name}: made anew while a run used it; start again")
            return _results(machine), {
                "wall_s": round(time.monotonic() - began, 2),
                "boot_s": boot_s and round(boot_s, 2),
            }


def _results(machine: Machine) -> dict[str, bytes]:
    """What the guest hands out, as far as it is the agent's."""
    with open(machine.folder / "shared", "rb") as f:
        magic, length = HEADER.unpack(f.read(HEADER.size))
        if magic != RESULTS or length > SHARED_MB << 20:
            raise LabError(f"virtual machine: ended without results: {machine.complaint()}")
        try:
            files = unpack(f.read(length))
            status = json.loads(files.pop("status.json"))
            good, said = status["ok"], status.get("error", "")
        except (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
            raise LabError(f"virtual machine: its results are damaged ({type(e).__name__})") from None
    if good is not True:
        raise LabError(" ".join(str(said).split())[:WORDS_MAX])
    return files


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of the agent in a plain tar, each once, of their own names and of sizes that can be; LabError for any other."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for m in tar:
            if (
                m.name in files
                or m.size > {"status.json": 1 << 20, **FILES}.get(m.name, -1)
                or m.type not in (tarfile.REGTYPE, tarfile.AREGTYPE)
                or m.issparse()
            ):
                raise LabError(
                    f"virtual machine: {m.name[:40]!r} of {m.size} bytes, type {m.type!r}, is no result of an agent"
                )
            files[m.name] = tar.extractfile(m).read()
    return files
