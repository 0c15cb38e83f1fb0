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

T = TypeVar("T")
R = TypeVar("R")
Booted = Callable[[subprocess.Popen], None]
Place = Callable[[int, Booted], contextlib.AbstractContextManager[Callable[[T], R]]]


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

    @contextlib.contextmanager
    def place(core: int, booted: Booted) -> Iterator[Callable[[Task], store.Run]]:
        with contextlib.closing(vm.Place(image, core, booted, len(left) > places(jobs))) as machines:

            def make(task: Task) -> store.Run:
                started(task)
                files, took = machines.run(task.job, task.objects, limit_s)
                return store.save(task.key, task.identity, task.made("lab") | took, files)

            yield make

    with contextlib.closing(at_places(left, jobs, place)) as under_way:
        for task, result in under_way:
            if isinstance(result, LabError) and not go_on:
                raise LabError(f"{task.name}: {result}", result.kind) from None
            yield task, result


def each(left: list[T], jobs: int | None, make: Callable[[T, int, Booted], R]) -> Generator[tuple[T, R | LabError]]:
    """The results of `make` for each, which starts a machine for it."""
    return at_places(left, jobs, lambda core, booted: contextlib.nullcontext(lambda t: make(t, core, booted)))


def at_places(left: list[T], jobs: int | None, place: Place[T, R]) -> Generator[tuple[T, R | LabError]]:
    """The results for each, as they end. `place` gives what makes them, one after the other, on a core of its own. It
    tells of each machine that it starts; whoever closes this stops them."""
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

    def work(make: Callable[[T], R]) -> None:
        while not stopping.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put((task, make(task)))
            except Exception as e:  # reported and re-raised by the main thread
                ended.put((task, e))

    def worker() -> None:
        try:
            with own_core() as core, place(core, booted) as make:
                work(make)
        except Exception as e:
            ended.put((left[0], e))

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
