# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cgroups of the tests' own: what is attached there, and connections in them."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from tests.live.harness import CGROUP2, asymcc, endpoint, expect, listed, program, run, saying, unique

# The cgroup that this process has begun in.
HOME = Path(
    *CGROUP2[:1], *(line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
)


class Cgroup:
    """A cgroup of this test's own, or one in it."""

    def __init__(self, path: Path):
        self.path = path
        path.mkdir()

    def child(self) -> Cgroup:
        return Cgroup(self.path / unique("c"))

    def programs(self) -> list[dict]:
        """The programs that are attached here, as bpftool sees them."""
        out = run("bpftool", "-j", "cgroup", "show", self.path, check=False).stdout
        return json.loads(out) if out.strip() else []

    def names(self) -> list[str]:
        return sorted(p["name"] for p in self.programs())

    def sh(self, script: str) -> list[str]:
        """The command for a shell that is in the cgroup."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && {script}"]


def within(path: Path | str) -> tuple[str, ...]:
    """The command that another goes behind: then it is in the cgroup."""
    return "sh", "-c", f'echo $$ >{path}/cgroup.procs && exec "$@"', "sh"


def remove_cgroup(path: Path) -> None:
    for child in path.iterdir():
        if child.is_dir():
            remove_cgroup(child)
    for _ in range(100):  # who was killed in it may be leaving still
        with contextlib.suppress(OSError):
            return path.rmdir()
        time.sleep(0.05)
    path.rmdir()


def shown(name: str) -> tuple[list[str], list[str]]:
    it = json.loads(asymcc("show", name, "--json"))
    row = listed(name)
    assert row is None or row["cgroups"] == it["cgroups"]
    return it["cgroups"], it["cgroup_programs"]


def written_name(cg: Cgroup) -> str:
    """asymcc_name as the programs in the cgroup have it."""
    prog = json.loads(run("bpftool", "-j", "prog", "show", "id", cg.programs()[0]["id"]).stdout)
    maps = [json.loads(run("bpftool", "-j", "map", "show", "id", i).stdout) for i in prog["map_ids"]]
    rodata = next(m for m in maps if m["name"].endswith(".rodata"))
    dump = json.loads(run("bpftool", "-j", "map", "dump", "id", rodata["id"]).stdout)
    return next(v["asymcc_name"] for v in dump[0]["formatted"]["value"][".rodata"] if "asymcc_name" in v)


@contextlib.contextmanager
def talking(cg: Cgroup, cc: str):
    """A connection of two processes in the cgroup; what it yields sends bytes there and back."""
    echo = endpoint("echo", address="127.0.0.1", port=0)
    with program(*within(cg.path), *echo) as srv:
        port = srv.stdout.readline().strip()
        with saying("open", *within(cg.path), *endpoint("talk", address="127.0.0.1", port=port, cc=cc)) as c:

            def say(size: int) -> None:
                expect(c, "echoed", str(size))

            yield say
