# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How a guest boots, how it learns its clock, and where it stops to be kept.

QEMU's clock is one nanosecond an instruction. A guest that knows no better takes it for its own: 10^9 instructions
a second. We tell the guest that its counters run CLOCK_FACTOR times faster than they do. Then its second has so many
times more instructions. This costs no host time: a guest that idles executes none.

On amd64 three clocks must agree. The TSC's frequency is a kernel parameter. The timer's (local APIC) is a variable that
the kernel takes for measured if it is not 0: we write it before the kernel looks. No third clock that tells the truth
is let in. On arm64 one counter is clock and timer, and the device tree says its frequency.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import LabError
from ..shell import sh
from . import qemu
from .arch import Arch
from .files import scratch
from .qemu import Machine, arguments

BOOT_LIMIT_S = 300
CLOCK_FACTOR = 10
QEMU_HZ = 10**9  # TSC and APIC timer of QEMU's clock
APPEND = (
    "console={console} quiet loglevel=3 panic=-1 oops=panic nokaslr norandmaps random.trust_cpu=off "
    "random.trust_bootloader=off mitigations=off {words}nowatchdog "
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


class Debugger:
    """GDB's remote protocol: the part that stops a machine at an instruction."""

    def __init__(self) -> None:
        self.socket, self.theirs = socket.socketpair()
        self.socket.settimeout(BOOT_LIMIT_S)
        self.heard = b""

    def arguments(self) -> list[str]:
        return ["-chardev", f"socket,id=gdb,fd={self.theirs.fileno()}", "-gdb", "chardev:gdb"]

    def say(self, packet: bytes) -> bytes:
        self.socket.sendall(b"$%s#%02x" % (packet, sum(packet) & 255))
        while not (reply := re.search(rb"\$([^#]*)#..", self.heard)):
            try:
                more = self.socket.recv(4096)
            except TimeoutError:
                more = b""
            if not more:
                raise LabError(f"virtual machine: ended, or not ready for a job after {BOOT_LIMIT_S} s")
            self.heard += more
        self.heard = self.heard[reply.end() :]
        self.socket.sendall(b"+")
        return reply[1]

    def stop_at(self, address: int) -> None:
        """Let the machine run up to there, and no breakpoint behind."""
        for packet, answer in ((b"Z1,%x,1", b"OK"), (b"c", b"T05"), (b"z1,%x,1", b"OK")):
            self.ask(packet % address if b"%" in packet else packet, answer)

    def write(self, address: int, data: bytes) -> None:
        self.ask(b"M%x,%x:%s" % (address, len(data), data.hex().encode()), b"OK")

    def ask(self, packet: bytes, answer: bytes) -> None:
        if not (reply := self.say(packet)).startswith(answer):
            raise LabError(f"QEMU's debugger: {reply.decode(errors='replace')!r} to {packet.decode()}")

    def close(self) -> None:
        self.socket.close()
        self.theirs.close()


@dataclass(frozen=True)
class Booted:
    """A machine that waits for its job."""

    memory: bytes
    devices: bytes  # the state of all else
    clock_factor: int  # instructions a nanosecond of the guest
    why: str  # it is not CLOCK_FACTOR; else empty


@dataclass(frozen=True)
class Told:
    """The guest's words before it stops: addresses of its kernel's symbols, and how its clock runs."""

    symbols: dict[str, int]
    tick_us: int
    looks: int  # at the clock in 2 ms
    slept_us: int  # in a sleep of 10 ms

    @staticmethod
    def read(machine: Machine, stop: str) -> Told:
        console = machine.console()
        symbols = {name: int(at, 16) for at, name in re.findall(r"^([0-9a-f]{16}) \S (\w+)\s*$", console, re.M)}
        clock = re.search(r"^clock \S+ tick_us (\d+) looks (\d+) slept_us (\d+)\s*$", console, re.M)
        if stop not in symbols or not clock:
            raise LabError(f"virtual machine: not ready for a job: {machine.complaint()}")
        return Told(symbols, *map(int, clock.groups()))


def append(arch: Arch) -> str:
    """The kernel's command line."""
    return APPEND.format(console=arch.console, words=f"{arch.words} " if arch.words else "")


def told_faster(arch: Arch, factor: int) -> list:
    """The parts of a hash that say so, if the guest's clock is so many times faster."""
    faster = [arch.faster, factor] if factor > 1 else []
    return faster + ([arch.tree, arch.counter_hz, factor] if arch.tree else [])


def booted_by(arch: Arch, kernel: str, clock_factor: int) -> str:
    """A hash of what shapes the booted machine besides its image: command line, arguments and clock."""
    words = [append(arch), arguments(arch, kernel, 0, "", True, "", "", ""), *told_faster(arch, clock_factor)]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def boot(arch: Arch, vmlinux: bytes, base: bytes, kernel: str, faster: bool = True) -> Booted:
    """Boot up to where the guest waits for a job, with the faster clock if the kernel takes it."""
    with scratch("boot-") as tmp:
        (tmp / "vmlinux").write_bytes(vmlinux)
        (tmp / "base.cpio").write_bytes(base)
        with open(tmp / "shared", "wb") as f:
            f.truncate(qemu.SHARED_MB << 20)
        booting = Booting(arch, kernel, tmp)
        # A first time to learn where: a packaged kernel has no symbols, and the guest prints the addresses.
        plain = booting.learn()
        factor, why = CLOCK_FACTOR, booting.refusal(plain) if faster else "the slower clock was asked for"
        if why:
            factor = 1
            booting.to_stop(plain, factor)
        return Booted((tmp / "memory").read_bytes(), (tmp / "devices").read_bytes(), factor, why)


@dataclass(frozen=True)
class Booting:
    """A kernel and its initramfs in a folder, in which the booted machine is left."""

    arch: Arch
    kernel: str
    tmp: Path

    def learn(self) -> Told:
        with contextlib.closing(self.machine(1)) as machine:
            machine.do("cont")
            machine.wait(BOOT_LIMIT_S)
            return Told.read(machine, self.arch.stop)

    def refusal(self, plain: Told) -> str:
        """Boot with the faster clock. Why it cannot be kept so; empty if it can."""
        if lacks := set(self.arch.timer) - plain.symbols.keys():
            return f"it has no {' and no '.join(sorted(lacks))}"
        try:
            now = self.to_stop(plain, CLOCK_FACTOR)
        except LabError as e:
            return str(e)
        if not 0.9 * CLOCK_FACTOR < now.looks / plain.looks < 1.1 * CLOCK_FACTOR:
            return f"its second has {now.looks / plain.looks:.1f} times the instructions"
        if not 10_000 <= now.slept_us < 10_500:
            return f"its timer runs at another speed than its clock: a sleep of 10 ms took {now.slept_us / 1000:.1f} ms"
        return ""

    def to_stop(self, plain: Told, factor: int) -> Told:
        """Boot, tell the guest its clock if that is faster, and keep memory and devices as they are where it waits."""
        with contextlib.closing(Debugger()) as debugger:
            theirs = debugger.theirs.fileno()
            with contextlib.closing(self.machine(factor, debugger.arguments(), [theirs])) as machine:
                debugger.theirs.close()  # so that its end is heard of
                if factor > 1 and self.arch.timer:  # a u32: the timer's clocks in a tick
                    set_up, variable = self.arch.timer
                    debugger.stop_at(plain.symbols[set_up])
                    period = factor * QEMU_HZ // 10**6 * plain.tick_us
                    debugger.write(plain.symbols[variable], period.to_bytes(4, "little"))
                debugger.stop_at(plain.symbols[self.arch.stop])
                now = Told.read(machine, self.arch.stop)
                machine.human(f"savevm {qemu.READY}")
                machine.do("quit")
                machine.wait(BOOT_LIMIT_S)
                return now

    def machine(self, factor: int, options: Sequence[str] = (), pass_fds: Sequence[int] = ()) -> Machine:
        """One that boots from nothing."""
        arch, tmp = self.arch, self.tmp
        (tmp / "memory").unlink(missing_ok=True)
        sh("qemu-img", "create", "-q", "-f", "qcow2", tmp / "devices", "1M")
        faster = arch.faster.format(khz=factor * QEMU_HZ // 1000) if factor > 1 else ""
        files = (f"{tmp}/memory", True, f"{tmp}/devices", f"{tmp}/console", f"{tmp}/shared")
        argv = [arch.qemu, *arguments(arch, self.kernel, 0, *files)]
        argv += ["-kernel", f"{tmp}/vmlinux", "-initrd", f"{tmp}/base.cpio"]
        argv += ["-append", f"{append(arch)} {faster}".strip(), *self.tree(factor), *options]
        return Machine(argv, tmp, pass_fds=pass_fds)

    def tree(self, factor: int) -> list[str]:
        """QEMU's options for the device tree: its own, and what the architecture has besides."""
        if not self.arch.tree:
            return []
        blob, source, whole = (self.tmp / f"tree.{kind}" for kind in ("dtb", "dts", "whole"))
        dump = ["-M", f"{self.arch.machine},dumpdtb={blob}", "-m", str(qemu.MEMORY_MB), "-smp", "1"]
        sh(self.arch.qemu, *dump, "-cpu", self.arch.cpu(self.kernel), "-display", "none")
        ours = self.arch.tree.format(hz=factor * self.arch.counter_hz)
        source.write_text(sh("dtc", "-q", "-I", "dtb", "-O", "dts", blob) + ours)
        sh("dtc", "-q", "-I", "dts", "-O", "dtb", "-o", whole, source)
        return ["-dtb", str(whole)]
