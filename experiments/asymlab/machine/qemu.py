# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The virtual machine: QEMU in virtual time.

QEMU counts guest instructions: one is one nanosecond of QEMU's clock, and when the guest idles that clock jumps to
its next timer. The guest may take ten of QEMU's nanoseconds for one (boot.py). Nothing of the host's time enters: no
disk, no network, no console input, fixed date, fixed CPU, no entropy but the job's seed. The same image, job and
QEMU give the same bytes.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from functools import cache
from pathlib import Path

from .. import LabError
from ..needs import check
from ..shell import sh
from .arch import Arch
from .files import sha256
from .watched import Watched

MEMORY_MB = 512
SHARED_MB = 1024  # the job comes in by this memory, the results go out by it; a sparse file
SANDBOX = ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]  # shapes no result
SHARED_SLOT = "05.0"
READY = "ready"  # what the state that is kept is called


@cache
def version(arch: Arch) -> dict[str, str]:
    """QEMU's words about itself, and hashes of it and of the firmware that runs before the kernel."""
    check([arch.qemu], arch.option)
    binary = shutil.which(arch.qemu) or arch.qemu
    firmware = [Path("/usr/share", f) for f in arch.firmware]
    files = [Path(binary), *(f for f in firmware if f.exists())]
    return {"version": sh(arch.qemu, "--version").splitlines()[0], **{p.name: sha256(p) for p in files}}


# While the guest computes, QEMU's main loop may look whether it idles, see it halt a moment before
# its instructions are counted, and jump the clock too far: by host timing, more often on a loaded
# machine. Recording (to nowhere) makes the two take turns.
ICOUNT = "shift=0,sleep=off,rr=record,rrfile=/dev/null"


def arguments(
    arch: Arch, kernel: str, seed: int, memory: str, share: bool, devices: str, console: str, shared: str
) -> list[str]:
    """QEMU's arguments. All of them shape the result, but not where the files are. It waits for `cont`.

    memory: the guest's, written to if `share`; devices: where the state of all else is kept (qcow2); shared: with the
    job, if it is there from the start.
    """
    memory, devices = plain(memory), plain(devices)
    return [
        *f"-M {arch.machine},memory-backend=ram -nodefaults -no-user-config".split(),
        *"-nic none -display none -no-reboot".split(),
        *f"-accel tcg,thread=single,tb-size=128 -icount {ICOUNT} -smp 1".split(),
        *f"-m {MEMORY_MB} -cpu {arch.cpu(kernel)}".split(),
        *f"-rtc base=2026-01-01,clock=vm -seed {seed}".split(),
        "-object",
        f"memory-backend-file,id=ram,size={MEMORY_MB}M,mem-path={memory},share={'on' if share else 'off'}",
        *("-drive", f"if=none,id=state,file={devices}"),
        *([] if arch.plugs else with_shared(shared)),
        *("-serial", f"file:{console}"),
        *"-S -qmp stdio".split(),
    ]


def plain(file: str) -> str:
    """In an option's list of values: a comma would end it."""
    return file.replace(",", ",,")


def with_shared(file: str) -> list[str]:
    """The job's memory from the start. Shared memory is not kept with the machine."""
    return [
        *("-object", f"memory-backend-file,id=shared,size={SHARED_MB}M,mem-path={plain(file)},share=on"),
        *("-device", f"ivshmem-plain,memdev=shared,master=on,addr={SHARED_SLOT}"),
    ]


class Machine(Watched):
    """A QEMU process and the monitor on its standard input. It dies with us, even by SIGKILL, and with `close`."""

    def __init__(self, argv: list[str], folder: Path, core: int | None = None, started=None, pass_fds=()):
        self.qemu = argv[0]
        # One core for both of QEMU's threads: they alternate. In a batch job the one that is woken waits
        # until the other has let go of the lock it needs: a third of the context switches, a fifth less CPU.
        argv = [
            *"setpriv --pdeathsig KILL".split(),
            *(f"taskset --cpu-list {core}".split() if core is not None else []),
            *f"prlimit --fsize={SHARED_MB << 20} --core=0".split(),
            *"chrt --batch 0".split(),
            argv[0],
            *SANDBOX,
            *argv[1:],
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
        for line in self.process.stdout or ():
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
            raise LabError(f"{self.qemu}: {command}: {answer['error']['desc']}")
        return answer["return"]

    def human(self, command: str) -> None:
        """A command that only the monitor for humans knows; its answer is its errors."""
        if words := self.do("human-monitor-command", **{"command-line": command}):
            raise LabError(f"{self.qemu}: {command}: {words.strip().splitlines()[-1]}")

    def wait(self, limit_s: float) -> None:
        """For its end."""
        until = time.monotonic() + limit_s
        while self.process.poll() is None:
            time.sleep(0.05)
            self.check_patience(until, limit_s)
        if self.process.returncode:
            raise LabError(self.last_words())

    def executed(self) -> int:
        """Instructions so far: the same on each repeat where the machine stands at an exact one."""
        return self.do("query-replay")["icount"]

    def await_shutdown(self, limit_s: float, look=lambda: None) -> None:
        """For the guest's end, after which a machine with `-no-shutdown` stands; meanwhile `look` every now and then.

        QEMU says when: nothing asks it meanwhile.
        """
        events, until = b"", time.monotonic() + limit_s
        assert self.process.stdout
        while b'"SHUTDOWN"' not in events or not events.endswith(b"\n"):
            if select.select([self.process.stdout], [], [], 0.05)[0]:
                said = os.read(self.process.stdout.fileno(), 1 << 16)
                if not said:
                    self.process.wait()
                    raise LabError(self.last_words())
                events += said
            look()
            self.check_patience(until, limit_s)

    def last_words(self) -> str:
        """The last line of a process that has ended."""
        if self.process.returncode == -signal.SIGBUS:
            return f"{self.folder.parent}: No space left on device for a run's results; free some and start again"
        words = (self.folder / "errors").read_text(errors="replace").strip().splitlines()
        return f"{self.qemu} failed: {words[-1] if words else f'exit {self.process.returncode}'}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            pipe.close()
