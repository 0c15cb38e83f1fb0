# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The system as every part of the agent takes it: commands, failures, the C library, signals."""

import ctypes
import os
import signal
import subprocess

from .protocol import Fault

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
SO_TIMESTAMPNS = 35
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failure(Exception):
    """The experiment cannot run; the message says why, in one line."""

    def __init__(self, words: str, kind: Fault = Fault.NONE):
        super().__init__(words)
        self.kind = kind

    @property
    def status(self) -> dict[str, object]:
        """The failure as the host reads it."""
        return {"ok": False, "error": str(self), "kind": self.kind}


def completed(argv: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command that has run. Python asks in its process for the handler of each signal that is not blocked: 63 system
    calls. SIGCHLD is not: while one waits for the agent, chance after it is another."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    try:
        return subprocess.run(argv, input=text, capture_output=True, text=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sh(*argv: str, text: str | None = None, check: bool = True, kind: Fault = Fault.NONE) -> str:
    """Run a command; returns its output. Failure with the command's own words."""
    p = completed([*argv], text)
    if check and p.returncode:
        words = (p.stderr or p.stdout).strip().replace("\n", "; ")
        raise Failure(f"{' '.join(argv)}: {words or f'exit {p.returncode}'}", kind)
    return p.stdout


def mount(what: str, target: str, kind: str = "none", flags: int = 0) -> None:
    if LIBC.mount(what.encode(), target.encode(), kind.encode(), flags, b"") != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{os.strerror(error)}: mount {what} on {target}")


def die_with_us() -> None:
    """In a child: a killed run leaves no process."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
