# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs on this machine: one virtual machine per core."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from .. import LabError
from ..machine import vm
from ..machine.image import Image
from ..results import store
from .tasks import Started, Task

Booted = Callable[[subprocess.Popen], None]
T = TypeVar("T")
R = TypeVar("R")


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def places(jobs: int | None = None) -> int:
    """Virtual machines at a time on this machine."""
    return jobs or len(cores())


@contextlib.contextmanager
def own_core() -> Iterator[int]:
    """A core to pin a virtual machine to: one that no other of any lab on this machine has, else one that few have."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mark:
        for machines, core in ((m, c) for m in itertools.count() for c in cores()):
            try:
                mark.bind(f"\0asymlab-core-{core}-{machines}")  # no file: the kernel frees the name with its holder
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
                continue
            yield core
            return


def runs(
    left: list[Task],
    image: Image,
    jobs: int | None,
    started: Started,
    limit_s: float = vm.WALL_LIMIT_S,
    go_on: bool = False,
) -> Generator[tuple[Task, store.Run | LabError]]:
    """The runs as they end. LabError after the first failure, or with `go_on` in place of each run that failed;
    whoever closes this stops what is under way."""

    def make(task: Task, core: int, booted: Booted) -> store.Run:
        started(task)
        files, took = vm.run(image, task.job, task.objects, core=core, limit_s=limit_s, started=booted)
        return store.save(task.key, task.identity, task.made("lab") | took, files)

    with contextlib.closing(each(left, jobs, make)) as under_way:
        for task, result in under_way:
            if isinstance(result, LabError) and not go_on:
                raise LabError(f"{task.name}: {result}", result.kind) from None
            yield task, result


def each(left: list[T], jobs: int | None, make: Callable[[T, int, Booted], R]) -> Generator[tuple[T, R | LabError]]:
    """The results of `make` for each, in machines on cores of their own, as it ends. `make` tells of each machine
    that it starts; whoever closes this stops them."""
    todo: queue.SimpleQueue[T] = queue.SimpleQueue()
    for t in left:
        todo.put(t)
    ended: queue.SimpleQueue[tuple[T, R | Exception]] = queue.SimpleQueue()
    running: set[subprocess.Popen] = set()
    stopping = threading.Event()

    def booted(p: subprocess.Popen) -> None:
        running.add(p)
        if stopping.is_set():
            p.kill()

    def worker() -> None:
        while not stopping.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                with own_core() as core:
                    ended.put((task, make(task, core, booted)))
            except Exception as e:  # reported and re-raised by the main thread
                ended.put((task, e))

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(places(jobs), len(left)))]
    try:
        for thread in threads:
            thread.start()
        for _ in left:
            task, result = ended.get()
            if isinstance(result, Exception) and not isinstance(result, LabError):
                raise result
            yield task, result
    finally:
        stopping.set()
        for p in list(running):
            if p.poll() is None:
                p.kill()
        for thread in threads:
            if thread.is_alive():
                thread.join(timeout=30)
