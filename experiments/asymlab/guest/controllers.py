# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The job's controllers: BPF objects through the loader, kernel modules with their parameters, a cgroup for the run."""

import contextlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from typing import Any

from .job import Command, Controller, Job, Parameters
from .net import Namespaces
from .protocol import Fault
from .system import Failure, sh


class Record:
    """Told of what a run changes for the whole machine, before it does. A guest forgets all of it with its end."""

    lasts = False  # the machine, and so what is not taken down

    def changing(self, controller: str, key: str) -> None:
        """A module's parameter."""

    def loading(self, name: str) -> AbstractContextManager[None]:
        """A controller from BPF."""
        return contextlib.nullcontext()

    def relay(self, job: Job, ns: Namespaces) -> Any:
        """A program that makes links with a delay if the kernel cannot."""
        return None


# --- a cgroup ------------------------------------------------------------------------------


def cgroup_mount() -> str | None:
    """The place at which the cgroup2 hierarchy is mounted."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split() for line in f]
    return next((m[1] for m in mounts if m[2] == "cgroup2"), None)


@cache
def _has_cgroup_programs(controller: str, objects: str) -> bool:
    return bool(json.loads(sh("asymcc", "--objects", objects, "show", controller, "--json")).get("cgroup_programs"))


def in_cgroup(job: Job, objects: str) -> list[str]:
    """Names of the controllers that have programs for a cgroup."""
    return [
        c.name for c in job.controllers if c.object and c.loader == "asymcc" and _has_cgroup_programs(c.object, objects)
    ]


def remove_cgroup(path: str) -> None:
    """If it is there. Processes that were killed leave it in their own time."""
    for last in [False] * 50 + [True]:
        try:
            return os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as e:
            if last:
                raise Failure(f"cgroup {path}: {e.strerror}") from None
            time.sleep(0.1)


class Cgroup:
    """A cgroup of the run's own, for this process and all that it starts; with `close` it is back and that gone."""

    def __init__(self, name: str):
        root = cgroup_mount()
        with open("/proc/self/cgroup") as f:
            home = next(line[len("0::") :].rstrip("\n") for line in f if line.startswith("0::"))
        self.home, self.path = f"{root}{home}", f"{root}/{name}"
        try:
            os.mkdir(self.path)
            self._enter(self.path)
        except OSError as e:
            raise Failure(f"cgroup {self.path}: {e.strerror}") from None

    @staticmethod
    def _enter(path: str) -> None:
        with open(f"{path}/cgroup.procs", "w") as f:
            f.write("0")

    def close(self) -> None:
        self._enter(self.home)
        remove_cgroup(self.path)


# --- controllers ---------------------------------------------------------------------------


def parameter_file(controller: str, key: str) -> str:
    return f"/sys/module/tcp_{controller}/parameters/{key}"


class Controllers:
    """Those that are loaded go with `close`."""

    def __init__(self, objects: str, cgroup: str | None, for_cgroup: Sequence[str], record: Record):
        self.objects = objects
        self.cgroup, self.for_cgroup = cgroup, for_cgroup  # its path; names of those that have programs for it
        self.record = record
        self.loaded: list[str] = []
        self.thins: list[str] = []  # what tells `asymcc thin` where

    def load(self, controllers: list[Controller]) -> None:
        for c in controllers:
            if c.loader == "insmod":
                self._insert(c)
            elif c.object:
                with self.record.loading(c.name):
                    self._register(c)
                self.loaded.append(c.name)
            else:
                self._set_module(c)

    def thin(self, parameters: Parameters, dev: str | None = None) -> None:
        """ACKs of the run's own cgroup, until `close`; or those that leave by a device of this namespace, as long as it
        is there."""
        sets = [x for k, v in sorted(parameters.items()) for x in ("--set", f"{k}={v}")]
        where = ["--dev", dev] if dev else ["--cgroup", str(self.cgroup)]
        self._asymcc("thin", *where, *sets)
        self.thins = where

    def _set_module(self, c: Controller) -> None:
        for key, value in c.set.items():
            try:
                self.record.changing(c.name, key)
                with open(parameter_file(c.name, key), "r+") as f:
                    f.write(str(value))
            except OSError as e:
                raise Failure(f"controller {c.name}: parameter {key}={value}: {e.strerror}") from None

    def _insert(self, c: Controller) -> None:
        """A module, into a kernel that ends with the run. It registers by a name of its own."""
        values = [f"{k}={v}" for k, v in sorted(c.set.items())]
        sh("insmod", f"{self.objects}/{c.object}.ko", *values, kind=Fault.REGISTER)
        with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as f:
            there = f.read().split()
        if c.name not in there:
            raise Failure(f"{c.object}.ko: after it the kernel has {', '.join(there)}, and no {c.name}")

    def _register(self, c: Controller, *options: str) -> None:
        if c.loader == "bpftool":  # as a user without asymcc would
            file = str(c.object).partition(":")[0]
            sh("bpftool", "struct_ops", "register", f"{self.objects}/{file}.bpf.o", kind=Fault.REGISTER)
            return
        sets = [x for k, v in sorted(c.set.items()) for x in ("--set", f"{k}={v}")]
        where = ["--cgroup", str(self.cgroup)] if c.name in self.for_cgroup else []
        self._asymcc("load", str(c.object), "--as", c.name, *options, *where, *sets)

    def _asymcc(self, *argv: str) -> str:
        return sh("asymcc", "--objects", self.objects, *argv, kind=Fault.COMMAND)

    def command(self, c: Controller, change: Command) -> None:
        """A command that a user may type while flows run."""
        c = replace(c, set=change.set)
        if change.command == "load":
            self.load([c])
        elif change.command == "replace":
            with self.record.loading(c.name):
                self._register(c, "--replace")
        elif change.command in ("unload", "drain"):
            how = ["--drain", "--seconds", "0"] if change.command == "drain" else ["--force"]
            self._asymcc("unload", c.name, *how)
            self.loaded.remove(c.name)
        else:
            self._asymcc(change.command, c.name, "--cgroup", str(self.cgroup))

    def show(self) -> dict[str, dict]:
        return {name: self.shown(name) for name in self.loaded}

    def shown(self, name: str, *where: str) -> dict:
        return json.loads(self._asymcc("show", name, *where, "--json"))

    def close(self) -> None:
        if "--cgroup" in self.thins:
            sh("asymcc", "thin", "--off", *self.thins, kind=Fault.COMMAND)
        self.thins = []
        while self.loaded:  # the namespaces that give them to connections go after them
            sh("asymcc", "unload", "--force", self.loaded.pop(), kind=Fault.COMMAND)
