# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs on the workers of a Dask scheduler: docs/experiments.md tells how to set them up.

A worker brings QEMU and this package; what else a run needs comes with it. Each of its threads is a place for one
virtual machine. It gets runs once it has made of a short one, the canary, what this machine makes of it: with the
same image and QEMU, by their hashes, the same bytes. Dask carries calls and results; which run goes where is decided
here: so a run is on one worker at a time, the longest go first, and a worker that comes late has to prove itself, too.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from .. import LabError
from ..console import console
from ..guest.wire import dump
from ..machine.image import Image
from ..needs import check_extra
from ..paths import EXPERIMENTS
from ..plan import scenario
from ..results import store
from .tasks import Started, Task, plan_runs
from .worker import NoImage, compute, pack_image, take_image

if TYPE_CHECKING:
    import distributed  # only who asks for workers pays for Dask

CANARY = EXPERIMENTS / "bench" / "cases.toml:canary"
PATIENCE_S = 30  # without a worker that is fit
LOOK_S = 0.5  # between looks for workers that came or went


@dataclass(eq=False)
class Worker:
    address: str
    threads: int
    fit: bool | None = None  # None: it is being looked at
    busy: int = 0
    sent: bool = False  # an image


def difference(theirs: dict, ours: dict) -> str:
    """Why results of a worker would not be those of this machine."""
    for part, own in ours.items():
        if isinstance(own, dict) and isinstance(theirs.get(part), dict):
            if theirs[part] != own:
                return f"{part}: {difference(theirs[part], own)}"
        elif theirs.get(part) != own:
            short = [str(v)[:60] for v in (theirs.get(part), own)]
            return f"its {part} is {short[0]}, here {short[1]}" if short[0] != short[1] else f"it has another {part}"
    return "it has more parts"


class Took(BaseModel):
    """The costs that vm.run() tells."""

    model_config = ConfigDict(strict=True, extra="forbid")
    executed: int | None = None  # None: of an engine that counts none
    wall_s: float
    boot_s: float | None


class Got(BaseModel):
    """A worker's answer. The store looks into the files."""

    model_config = ConfigDict(strict=True)
    files: dict[str, bytes]
    took: Took
    identity: dict
    host: Annotated[str, Field(max_length=253)]


class Unstored(LabError):
    """This machine cannot keep a result: no worker's fault."""


class Sweep:
    """The runs that are left, the workers, and which is where."""

    def __init__(
        self, client: distributed.Client, left: list[Task], guest: Image, canary: Task, expected: str, started: Started
    ):
        self.client, self.guest, self.canary, self.expected, self.started = client, guest, canary, expected, started
        self.todo = deque(left)
        self.missing = len(left)
        self.workers: dict[str, Worker] = {}
        self.out: dict[str, tuple[Worker, Task, distributed.Future]] = {}  # by Dask's key
        self.events: queue.SimpleQueue[tuple[str, dict | store.Run | BaseException | None]] = queue.SimpleQueue()
        self.collecting: list[threading.Thread] = []
        self.failed: set[str] = set()
        self.packed: dict[str, tuple[int, bytes]] = {}
        self.looked = -LOOK_S
        self.fit_at = time.monotonic()  # when there was last a worker that is fit, or may be

    def give(self, worker: Worker, task: Task) -> None:
        # Packed: Dask would look through a job for what it could compute. Not pure: never taken from its memory.
        future = self.client.submit(
            compute, self.guest.hash, json.dumps(dump(task.job)), task.objects, workers=[worker.address], pure=False
        )
        self.out[str(future.key)] = worker, task, future
        worker.busy += 1
        future.add_done_callback(lambda f: self.events.put((str(f.key), None)))

    def collect(self, key: str, task: Task, future: distributed.Future) -> None:
        """Fetch a result and store it."""
        try:
            got = Got.model_validate(future.result()).model_dump()
            if got["identity"] != task.identity:
                raise LabError(difference(got["identity"], task.identity))
            if task is self.canary:
                if (result := store.result_hash(got["files"])) != self.expected:
                    raise LabError(f"its canary run gives {result[:12]}, not {self.expected[:12]}")
                self.events.put((key, got))
            else:
                costs = {k: v for k, v in got["took"].items() if k != "executed" or v is not None}
                about = task.made("lab") | costs | {"worker": got["host"]}
                try:
                    run = store.save(task.key, task.identity, about, got["files"])
                except LabError as e:
                    raise Unstored(str(e)) from None
                self.events.put((key, run))
        except BaseException as e:  # to be judged by the main thread
            self.events.put((key, e))

    def look(self) -> None:
        """For workers that came, and those that are gone: what they had under way goes to others."""
        if time.monotonic() - self.looked < LOOK_S:
            return
        threads = self.client.nthreads()
        self.looked = time.monotonic()
        for address in self.workers.keys() - threads.keys():
            worker = self.workers.pop(address)
            lost = {key: (task, future) for key, (w, task, future) in self.out.items() if w is worker}
            for key, (task, future) in lost.items():
                del self.out[key]
                future.cancel()
                if task is not self.canary:
                    self.todo.appendleft(task)
            if worker.fit:
                console.print(f"worker {address}: lost; its {len(lost)} runs go to others")
        for address in sorted(threads.keys() - self.workers.keys()):
            self.workers[address] = Worker(address, threads[address])
            self.give(self.workers[address], self.canary)
        if any(w.fit is not False for w in self.workers.values()):
            self.fit_at = self.looked
        elif self.looked - self.fit_at > PATIENCE_S:
            assert self.client.scheduler is not None  # it is connected
            raise LabError(
                f"{self.client.scheduler.address}: no worker that is fit, "
                + (f"{len(self.workers)} were refused" if self.workers else "none is there")
                + "; finished runs are kept, the same command goes on from there"
            )

    def refuse(self, worker: Worker, error: BaseException) -> None:
        worker.fit = False
        words = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        console.print(f"worker {worker.address}: gets no runs: {words.partition(chr(10))[0]}")

    def judge(self, worker: Worker, got: dict | BaseException) -> None:
        """The result that a worker has of the canary."""
        if isinstance(got, NoImage) and not worker.sent:
            worker.sent = True
            try:
                self.packed = self.packed or pack_image(self.guest)
                self.client.run(take_image, self.guest.hash, self.packed, workers=[worker.address])
                self.give(worker, self.canary)
            except OSError as e:  # the worker's disk is full, or it is gone
                self.refuse(worker, e)
        elif isinstance(got, BaseException):
            self.refuse(worker, got)
        else:
            worker.fit = True
            console.print(f"worker {worker.address}: {worker.threads} at a time on {got['host']}")

    def fail(self, worker: Worker, task: Task, error: BaseException) -> None:
        """It may be the worker's fault, a full disk say: another one tries. If that fails, too, it is the run's."""
        self.refuse(worker, LabError(f"{task.name}: {error}"))
        if task.key in self.failed or not any(w.fit is not False for w in self.workers.values()):
            raise LabError(f"{task.name}: {error}", error.kind if isinstance(error, LabError) else "") from None
        self.failed.add(task.key)
        self.todo.appendleft(task)

    def runs(self) -> Iterator[tuple[Task, store.Run]]:
        while self.missing:
            self.look()
            for worker in self.workers.values():
                while worker.fit and worker.busy < worker.threads and self.todo:
                    self.started(self.todo[0])
                    self.give(worker, self.todo.popleft())
            try:
                key, result = self.events.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if key not in self.out:  # its worker was lost before
                continue
            worker, task, future = self.out[key]
            if result is None:  # it has ended: the place is free
                worker.busy -= 1
                self.collecting = [t for t in self.collecting if t.is_alive()]
                self.collecting.append(threading.Thread(target=self.collect, args=(key, task, future), daemon=True))
                self.collecting[-1].start()
                continue
            del self.out[key]
            if isinstance(result, (CancelledError, Unstored)):  # the former not by us
                raise result
            if isinstance(result, store.Run):
                self.missing -= 1
                yield task, result
            elif task is self.canary:
                self.judge(worker, result)
            elif isinstance(result, BaseException):
                self.fail(worker, task, result)

    def close(self) -> None:
        """Give up what is under way: the workers end those machines; what has come back is stored."""
        with contextlib.suppress(Exception):  # there may be no scheduler any more
            self.client.cancel([future for _, _, future in self.out.values()])
        for t in self.collecting:
            t.join(timeout=30)


def canary(guest: Image) -> Task:
    (task,) = plan_runs(scenario.load(CANARY), guest)
    return task


def connect(address: str) -> distributed.Client:
    check_extra("cluster")
    import distributed
    from distributed.comm import parse_address
    from distributed.comm.registry import get_backend

    logging.disable()  # what Dask has to say comes with Python's traces; what matters is said here
    try:
        get_backend(parse_address(address)[0])  # a client that is given nonsense takes long to end
        return distributed.Client(address, timeout=5, set_as_default=False, name="asymlab")
    except (OSError, ValueError) as e:
        raise LabError(f"--scheduler {address}: {str(e).partition(chr(10))[0]}; `dask scheduler` starts one") from None


def runs(
    left: list[Task], guest: Image, address: str, canary: Task, expected: str, started: Started
) -> Generator[tuple[Task, store.Run]]:
    """The runs as they end; like local.runs(), but on the workers. `expected`: the canary's result."""
    with connect(address) as client:
        console.print(f"scheduler {address}: workers must come to canary {expected}")
        sweep = Sweep(client, left, guest, canary, expected, started)
        try:
            yield from sweep.runs()
        except (OSError, CancelledError):
            raise LabError(
                f"scheduler {address}: lost; finished runs are kept, the same command goes on from there"
            ) from None
        finally:
            sweep.close()
