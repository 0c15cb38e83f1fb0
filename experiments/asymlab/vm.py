# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One experiment in one virtual machine, in virtual time.

QEMU counts guest instructions: one is one nanosecond, and when the guest idles the clock jumps to
its next timer. Nothing of the host's time enters: no disk, no network, no console input, fixed
clock, fixed CPU, no entropy but the job's seed. The same image, job and QEMU give the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import tempfile
import time
from functools import cache
from pathlib import Path

from . import LabError
from .image import Cpio, Image, open_image, run as sh, sha256
from .paths import BUILD
from .store import TABLES_HASH
from .topology import job_objects

QEMU = "qemu-system-x86_64"
MEMORY_MB = 512
OUT_MB = 1024  # shared memory for results; a sparse file, as large as what is written to it
WALL_LIMIT_S = 1800
APPEND = ("console=ttyS0 quiet loglevel=3 panic=-1 oops=panic nokaslr norandmaps random.trust_cpu=off "
          "random.trust_bootloader=off mitigations=off tsc=reliable no_timer_check nowatchdog "
          "audit=0 selinux=0 apparmor=0 PYTHONHASHSEED=0 rdinit=/init "
          # The HPET ticks: calibrating the local APIC's timer is a loop of 100 ms that QEMU leaves at
          # each turn, half of the boot's wall time.
          "nolapic_timer "
          # Self-tests and key rings that no run uses: half of the boot.
          "cryptomgr.notests=1 initcall_blacklist=jent_mod_init,load_system_certificate_list,init_encrypted")


@cache
def qemu() -> dict[str, str]:
    """What QEMU says of itself, and hashes of it and of the firmware that runs before the kernel."""
    if not (binary := shutil.which(QEMU)):
        raise LabError(f"{QEMU}: not installed; `make deps` installs what is missing")
    files = [Path(binary), *(p for name in ("seabios/bios-256k.bin", "qemu/pvh.bin", "qemu/kvmvapic.bin")
                             if (p := Path("/usr/share", name)).exists())]
    return {"version": sh(QEMU, "--version").splitlines()[0], **{p.name: sha256(p) for p in files}}


# While the guest computes, QEMU's main loop may look whether it idles, see it halt a moment before
# its instructions are counted, and jump the clock too far: by host timing, more often on a loaded
# machine. Recording (to nowhere) makes the two take turns.
ICOUNT = "shift=0,sleep=off,rr=record,rrfile=/dev/null"
# QEMU 7.2 restores wrong flags when an interrupt comes at a cmpxchg16b, which the kernel's
# allocator uses where it can.
CPU = "qemu64,-rdrand,-rdseed,-cx16"


def arguments(seed: int, kernel: str, initrd: str, console: str, out: str) -> list[str]:
    """QEMU's arguments. All of them shape the result, but not where the files are."""
    return ["-M", "pc", "-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-no-reboot",
            "-accel", "tcg,thread=single,tb-size=128", "-icount", ICOUNT, "-smp", "1",
            "-m", str(MEMORY_MB), "-cpu", CPU, "-rtc", "base=2026-01-01,clock=vm",
            "-seed", str(seed), "-append", APPEND, "-kernel", kernel, "-initrd", initrd, "-serial", f"file:{console}",
            "-object", f"memory-backend-file,id=out,size={OUT_MB}M,mem-path={out},share=on",
            "-device", "ivshmem-plain,memdev=out"]


def read_objects(job: dict) -> dict[str, bytes]:
    """The BPF objects that a job brings along, read once: what is hashed is what is run."""
    return {p.name: p.read_bytes() for p in job_objects(job)}


def identity(image: Image, job: dict, objects: dict[str, bytes]) -> dict:
    """All that determines a run's result, as hashes."""
    return {
        "image": image.hash,
        "kernel": image.kernel,
        "qemu": qemu(),
        "arguments": arguments(job["seed"], "", "", "", ""),
        "tables": TABLES_HASH,
        "objects": {name: hashlib.sha256(data).hexdigest() for name, data in objects.items()},
        "job": job,
    }


@contextlib.contextmanager
def scratch(prefix: str):
    """A folder for one run's files, gone afterwards."""
    folder = BUILD / "tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tmp = tempfile.TemporaryDirectory(dir=folder, prefix=prefix)
    except OSError as e:
        raise LabError(f"{folder}: {e.strerror}") from None
    with tmp as name:
        yield Path(name)


def run(image: Image, job: dict, objects: dict[str, bytes], core: int | None = None,
        limit_s: float = WALL_LIMIT_S, started=None) -> tuple[dict[str, bytes], dict[str, float]]:
    """Boot, run the job, power off. Returns the files the agent left, and what it took of the host:
    wall_s in all, boot_s up to the first packet. `started` gets the process.

    Raises LabError: with the agent's message, or with the reason why the machine did not make it.
    """
    bring = Cpio()
    bring.file("lab/job.json", json.dumps(job, sort_keys=True).encode())
    for name, data in objects.items():
        bring.file(f"lab/{name}", data)
    with scratch("vm-") as tmp:
        try:
            with open(tmp / "initrd", "wb") as f:
                with open(image.base, "rb") as base:
                    shutil.copyfileobj(base, f, 1 << 20)
                f.write(b"\0" * (-f.tell() % 4) + bring.pack())
            with open(tmp / "out", "wb") as f:
                f.truncate(OUT_MB << 20)
        except OSError as e:
            raise LabError(f"{tmp}: {e.strerror}") from None
        argv = [QEMU, *arguments(job["seed"], str(image.vmlinux), f"{tmp}/initrd", f"{tmp}/console", f"{tmp}/out")]
        # One core for both of QEMU's threads: they alternate. It dies with us, even by SIGKILL.
        argv = ["setpriv", "--pdeathsig", "KILL", *(["taskset", "--cpu-list", str(core)] if core is not None else []), *argv]
        with open(tmp / "errors", "wb") as errors:
            p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        if started:
            started(p)
        boot_s = None
        began = time.monotonic()
        try:
            while p.poll() is None:
                time.sleep(0.05)
                if boot_s is None and (tmp / "console").exists() and "first packet" in (tmp / "console").read_text(errors="replace"):
                    boot_s = time.monotonic() - began
                if time.monotonic() - began > limit_s:
                    raise LabError(f"virtual machine: no end after {limit_s:.0f} s of wall time; "
                                   "a shorter duration or a lower rate helps")
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
        if p.returncode == -signal.SIGBUS:
            raise LabError(f"{tmp.parent}: No space left on device for a run's results; free some and start again")
        if p.returncode:
            words = (tmp / "errors").read_text(errors="replace").strip().splitlines()
            raise LabError(f"{QEMU} failed: {words[-1] if words else f'exit {p.returncode}'}")
        if open_image(image.folder.name).hash != image.hash:
            raise LabError(f"image {image.folder.name}: made anew while a run used it; start again")
        return _results(tmp), {"wall_s": round(time.monotonic() - began, 2), "boot_s": boot_s and round(boot_s, 2)}


def _results(tmp: Path) -> dict[str, bytes]:
    with open(tmp / "out", "rb") as f:
        magic, length = struct.unpack("<8sQ", f.read(16))
        if magic != b"ASYMLAB1":
            console = (tmp / "console").read_text(errors="replace").strip().splitlines()
            said = next((line for line in console if re.search(r"Error|panic|BUG|Out of memory", line)), None)
            raise LabError(f"virtual machine: ended without results: {said or (console[-1] if console else 'no word on its console')}")
        with tarfile.open(fileobj=io.BytesIO(f.read(length))) as tar:
            files = {m.name: tar.extractfile(m).read() for m in tar}
    status = json.loads(files.pop("status.json"))
    if not status["ok"]:
        raise LabError(status["error"].strip())
    return files
