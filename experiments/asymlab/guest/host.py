# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The changes that a run on a live host makes for the whole machine, and how they are taken back."""

import contextlib
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator

from .check import NO_NETEM, qdiscs_missing
from .controllers import Record, cgroup_mount, parameter_file, remove_cgroup
from .job import Job, NewMtu, NewShape, Propagation, Shape
from .net import FOLDER, Namespaces, remove_namespace
from .system import Failure, die_with_us, sh

ENDED = "the program of the lab's own links has ended"


class HostRecord(Record):
    """Written down before each change, so that it is taken back even if the run is killed."""

    lasts = True
    FOLDER = "/run/asymlab"

    def __init__(self, program: list[str]) -> None:
        """Lock out other runs. `program`: the one of a Relay."""
        self.program = program
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.FOLDER, 0o700)
        self.folder = os.open(self.FOLDER, os.O_DIRECTORY | os.O_NOFOLLOW)
        of = os.fstat(self.folder)
        if of.st_uid or of.st_mode & 0o77:
            raise Failure(f"{self.FOLDER}: is not root's alone; remove it")
        self.lock = self._open("lock", os.O_WRONLY | os.O_CREAT)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two at once would trace each other's flows

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=self.folder)

    def relay(self, job: Job, ns: Namespaces) -> "Relay | None":
        return Relay(self.program, job, ns) if NO_NETEM in qdiscs_missing(job, ns) else None

    def begin(self, prefix: str) -> None:
        self.prefix = prefix
        self.parameters: list[tuple[str, str, str]] = []  # controller, key, the file's text as it was
        self.loaded: dict[str, int | None] = {}  # name: id, as far as it is known
        self._write()

    def _write(self) -> None:
        with open(self._open("part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as f:
            json.dump({"prefix": self.prefix, "parameters": self.parameters, "loaded": self.loaded}, f)
        os.rename("part", "record", src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def changing(self, controller: str, key: str) -> None:
        with open(parameter_file(controller, key)) as f:
            self.parameters.append((controller, key, f.read()))
        self._write()

    @staticmethod
    def registered() -> dict[str, int]:
        """Name -> id of the controllers that the kernel has from BPF."""
        argv = ("asymcc", "list", "--json")
        told = sh(*argv, check=False) or sh(*argv)  # with an exit code of 1, too, where a namespace cannot be read
        return {c["name"]: c["map_id"] for c in json.loads(told) if c["map_id"] is not None}

    @contextlib.contextmanager
    def loading(self, name: str) -> Iterator[None]:
        """One of this name that is there already is another's, and the kernel takes no second."""
        if name not in self.registered():
            self.loaded[name] = None
            self._write()
        yield
        self.loaded[name] = self.registered().get(name)
        self._write()

    def take_back(self) -> None:
        """All that the last run has left, if any: those that end by themselves have left parameters only."""
        try:
            with open(self._open("record", os.O_RDONLY)) as f:
                left = json.load(f)
        except FileNotFoundError:
            return
        for controller, key, old in left["parameters"]:
            _set_back(controller, key, old)
        there = self.registered() if left["loaded"] else {}
        for name, number in left["loaded"].items():
            if name in there and number in (None, there[name]):
                sh("asymcc", "unload", "--force", name)
        if mount := cgroup_mount():
            remove_cgroup(f"{mount}/{left['prefix']}run")
        for name in os.listdir(FOLDER) if os.path.isdir(FOLDER) else ():
            if name.startswith(left["prefix"]):
                remove_namespace(name)
        os.unlink("record", dir_fd=self.folder)


class Relay:
    """The links with a delay, where the kernel has no netem: a program of the lab's makes and feeds their devices."""

    def __init__(self, program: list[str], job: Job, ns: Namespaces) -> None:
        shapes = [(dev, shape) for dev, shape in job.shapes if isinstance(shape, Propagation)]
        if any(s.reorder or s.duplicate or s.loss_burst or s.disorder or s.slot_us for _, s in shapes):
            alone = (
                "the lab's own links have delay, jitter and loss alone: no bursts, reordering, duplicates or coalescing"
            )
            raise Failure(f"cannot run here: {NO_NETEM}, and {alone}, not by a change either")
        slow = {dev for dev, shape in shapes if shape.delay_us or shape.loss}
        delayed = [(link, end) for link in job.links if slow & {end.dev for end in link.ends} for end in link.ends]
        self.devices = [end.dev for _, end in delayed]
        self.process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, preexec_fn=die_with_us
        )
        assert self.process.stdin and self.process.stdout
        self.commands, self.answers = self.process.stdin, self.process.stdout
        ends = [(ns.path(end.node), end.dev, end.mac, link.mtu) for link, end in delayed]
        with contextlib.suppress(BrokenPipeError):  # it has ended, perhaps with a word
            self.commands.write(f"{json.dumps(ends)}\n".encode())
        if (word := self.answers.readline().decode().strip()) != "ready":
            self.close()
            raise Failure(f"cannot run here: {NO_NETEM}; {word or ENDED}")
        for _, end in delayed:
            self._tell(end.dev, end.shape)

    def take(self, path: list[NewShape | NewMtu]) -> list[NewShape | NewMtu]:
        """Makes the changes that are of delays. Returns the others."""
        return [new for new in path if isinstance(new, NewMtu) or not self._tell(new.dev, new.shape)]

    def _tell(self, dev: str, shape: Shape) -> bool:
        if not isinstance(shape, Propagation):
            return False
        if dev in self.devices:  # the others never have a delay
            try:
                words = (self.devices.index(dev), shape.delay_us, shape.jitter_us, shape.loss)
                self.commands.write(f"{' '.join(map(str, words))}\n".encode())
            except BrokenPipeError:
                raise Failure(ENDED) from None
        return True

    def late(self) -> dict[str, int]:
        """How late packets were since it was asked last."""
        try:
            self.commands.write(b"late\n")
            return json.loads(self.answers.readline())
        except (BrokenPipeError, ValueError):
            raise Failure(ENDED) from None

    def check(self) -> None:
        if self.process.poll() is not None:
            raise Failure(ENDED)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _set_back(controller: str, key: str, old: str) -> None:
    try:
        with open(parameter_file(controller, key), "r+") as f:
            f.write(old)
    except FileNotFoundError:
        pass  # with its module
    except OSError as e:
        raise Failure(f"controller {controller}: parameter {key}={old.strip()}, as it was: {e.strerror}") from None
