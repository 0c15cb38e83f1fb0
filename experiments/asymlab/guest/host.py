# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a run on a live host changes for the whole machine, and how it is taken back."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator

from .controllers import Record, cgroup_mount, parameter_file, remove_cgroup
from .net import FOLDER, remove_namespace
from .system import Failure, sh


class HostRecord(Record):
    """Written down before each change, so that it is taken back even if the run is killed."""

    lasts = True
    FOLDER = "/run/asymlab"

    def __init__(self) -> None:
        """Lock out other runs."""
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


def _set_back(controller: str, key: str, old: str) -> None:
    try:
        with open(parameter_file(controller, key), "r+") as f:
            f.write(old)
    except FileNotFoundError:
        pass  # with its module
    except OSError as e:
        raise Failure(f"controller {controller}: parameter {key}={old.strip()}, as it was: {e.strerror}") from None
