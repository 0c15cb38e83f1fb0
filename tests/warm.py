# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Commands of `asymlab`, each a process: the copy of one that has its modules. Python's own start takes most of the
time of a command that only refuses.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
MOST = 1 << 16  # bytes of a command's words


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}


class Warm:
    """The process, and what it is asked to do. Its modules have looked at the environment that it began with."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env=environment,
                cwd=REPO,
            )

    def run(self, argv: list[str], timeout: float) -> subprocess.CompletedProcess:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            socket.send_fds(self.socket, ["\0".join(argv).encode()], [out.fileno(), err.fileno()])
            self.socket.settimeout(timeout)
            pid = int(self.socket.recv(MOST))
            try:
                code = int(self.socket.recv(MOST))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self.socket.settimeout(None)
                self.socket.recv(MOST)
                raise subprocess.TimeoutExpired(argv, timeout) from None
            lines = []
            for file in (out, err):
                file.seek(0)
                lines.append(file.read().decode())
        return subprocess.CompletedProcess(argv, code, *lines)


def serve(asks: socket.socket) -> list[str] | None:
    """For each command a copy, in which this returns the command's words. Without anybody who asks it returns None."""
    while True:
        words, fds, *_ = socket.recv_fds(asks, MOST, 2)
        if not words:
            return None
        if not (pid := os.fork()):
            for number, fd in enumerate(fds, 1):
                os.dup2(fd, number)
            asks.close()
            return words.decode().split("\0")
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(BrokenPipeError):
            asks.send(str(pid).encode())
            asks.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


if __name__ == "__main__":
    from asymlab import cli

    for name in cli.COMMANDS:
        cli.command(name)
    gc.freeze()  # else each copy looks through all that it has, and makes the pages its own

    if words := serve(socket.socket(fileno=int(sys.argv[1]))):
        sys.argv = [str(Path(cli.__file__).with_name("__main__.py")), *words]
        cli.main()
