# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Real programs of a scenario: what is put into the guest (`[packs]`), where it runs (`[hosts]`), and what is run."""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from ..paths import BUILT, EXPERIMENTS
from .crossing import Ack, check_sysctls
from .groups import Wrong
from .quantities import TIME_MAX, TIME_UNITS, Name, Sysctl, Time, file_name, quantity, short
from .queues import Model
from .reasons import explained

ALONG = EXPERIMENTS / "programs" / "packs.toml"  # the packs that each scenario may name
BEFORE, BEFORE_US = "before", -400_000  # in the time in which servers of the lab's own begin to listen
PACKAGE = r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]"  # as Debian's policy has it
WORD = re.compile(r"[^\0]{0,4000}")
PLACE = re.compile(r"/[!-~]{1,200}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
NO_HOST = re.compile(r"localhost|\d+|0x[\da-f]*")  # a resolver has an address for these: 1 is 0.0.0.1
HOSTS_MAX, PROGRAMS_MAX = 20, 40
SIZE_MAX = 256 << 20  # bytes of all files that are made


def _start(value: Any) -> int:
    return BEFORE_US if value == BEFORE else quantity(value, TIME_UNITS, "20ms", BEFORE)


def _place(value: Any) -> int | str:
    if value in ("left", "right") or type(value) is int and value >= 1:
        return value
    raise ValueError(f"{short(value)} is neither 'left', 'right' nor the number of a switch")


def _ends(value: Any) -> int | str:
    if value in ("running", "any") or type(value) is int and 0 <= value <= 255:
        return value
    raise ValueError(f"{short(value)} is neither an exit status from 0 to 255, 'running' nor 'any'")


def _package(value: Any) -> str:
    if isinstance(value, str) and len(value) <= 100 and re.fullmatch(PACKAGE, value):
        return value
    raise ValueError(f"{short(value)} is not the name of a Debian package, such as 'iperf3'")


def _either(schema: dict[str, Any], *words: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [schema, *({"const": word} for word in words)]})


NUMBER = {"type": "integer"}
Start = Annotated[
    int, BeforeValidator(_start), Field(le=TIME_MAX), _either({"type": "string", "format": "time"}, BEFORE)
]
Place = Annotated[int | str, BeforeValidator(_place), _either(NUMBER, "left", "right")]
Ends = Annotated[int | str, BeforeValidator(_ends), _either(NUMBER, "running", "any")]
Package = Annotated[str, BeforeValidator(_package), WithJsonSchema({"type": "string"})]
Suite = Annotated[str, Field(pattern="^[a-z][a-z-]{1,39}$")]


class Content(Model):
    """A file of a pack that is made and not copied: of `size` bytes, or with a `text`."""

    size: int | None = Field(
        None, ge=0, le=SIZE_MAX, description="So many bytes, which look random and are the same for the same name."
    )
    count: int = Field(
        1, ge=1, le=1000, description="With `size`: so many files, in a folder of the name, called 1, 2 and so on."
    )
    text: str | None = Field(None, max_length=1 << 20, description="The file's text.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.size is None) == (self.text is None):
            raise ValueError("must have either size or text")
        if self.count > 1 and self.size is None:
            raise ValueError("count: needs size")
        return self


def _file(value: Any) -> str | Content:
    """The name of a file, or the table of one that is made."""
    if not isinstance(value, dict):
        return file_name(value)
    try:
        return Content.model_validate(value)
    except ValidationError as e:
        raise ValueError(": ".join(filter(None, explained(e, Content)))) from None


OneFile = Annotated[Any, BeforeValidator(_file), WithJsonSchema({"type": "string"})]  # str | Content


class Pack(Model):
    """The files that programs find in the guest. They are in the run's identity by their hash.

    Others [come along](programs.md#a-scenario): a program names them without a table.
    """

    debian: list[Package] = Field(
        [], max_length=40, description="Packages, fetched with what they depend on, and unpacked. None is installed."
    )
    suite: Suite | None = Field(
        None, description='Their suite, such as `"trixie"`.', json_schema_extra={"without": "this machine's own"}
    )
    files: dict[str, OneFile] = Field(
        {},
        description="More files, by their places in the guest: the name of a file in the folder of the scenario, or "
        "a table [`files`](#files). One that begins as a program does is executable.",
    )

    @model_validator(mode="after")
    def _something_in_plain_places(self) -> Self:
        if not self.debian and not self.files:
            raise ValueError("must have debian or files")
        if self.suite and not self.debian:
            raise ValueError("suite: needs debian")
        for place in self.files:
            if not PLACE.fullmatch(place) or posixpath.normpath(place) != place:
                raise ValueError(f"files.{short(place)}: must be a whole path in the guest, such as '/usr/bin/mine'")
        tables = [file for file in self.files.values() if isinstance(file, Content)]
        if (total := sum((file.size or 0) * file.count for file in tables)) > SIZE_MAX:
            raise ValueError(f"files: {total >> 20} MB are made, more than the {SIZE_MAX >> 20} that a guest holds")
        return self


class Host(Model):
    """A host of programs. Its name is known to all of them."""

    at: Place = Field(description="The end of the path, or the number of a switch on a chain, from 1 at the left.")
    controller: Name | None = Field(
        None,
        description="The controller of its TCP connections, accepted ones too, by a name as flows have it.",
        json_schema_extra={"without": "the kernel's own"},
    )
    ack: Ack | None = Field(
        None,
        description="When it sends ACKs, in place of the scenario's `ack`.",
        json_schema_extra={"without": "the scenario's `ack`"},
    )
    extra_delay: Time = Field(0, description="Delay of its own access link, for what comes to it.")
    sysctls: dict[str, Sysctl] = Field({}, description="Its settings, over those of all hosts.")
    flows: int | None = Field(
        None,
        ge=0,
        description="The entry of `flows`, from 0 on, whose source or sink it is.",
        json_schema_extra={"without": "a host of its own"},
    )

    @model_validator(mode="after")
    def _sysctls_are_a_namespaces(self) -> Self:
        check_sysctls("sysctls", self.sysctls)
        return self


class Program(Model):
    """A program on a host. It is an ordinary user in a world of its own, with the files of its pack."""

    name: Name = Field(max_length=30, description="Its name in results. NAME.out and NAME.err have its words.")
    host: Name = Field(description="The host that it runs on.")
    pack: Name | None = Field(
        None,
        description="The pack that it finds: one of `[packs]`, or one that comes along.",
        json_schema_extra={"without": "the only one of `[packs]`"},
    )
    run: list[str] = Field(
        min_length=1,
        max_length=200,
        description="The program and its words. No shell reads them. A host is named as in `[hosts]`.",
    )
    env: dict[str, str] = Field({}, description="Variables of its environment.")
    start: Start = Field(
        0,
        description='When it starts. `"before"`: 0.4 s before time zero, as a server does.',
        json_schema_extra={"without": '`"0s"`'},
    )
    stop: Time | None = Field(
        None,
        description="When it is told to end (SIGTERM; a second later SIGKILL).",
        json_schema_extra={"without": "the end"},
    )
    ends: Ends = Field(
        0,
        description="How it must end: with this exit status, or not at all (`running`). With another end the run is "
        "invalid.",
    )
    result: Literal["none", "json", "lines"] = Field(
        "none",
        description="Form of its standard output. The numbers of a JSON object are measures. With `lines` each line is "
        "one object.",
    )

    @model_validator(mode="after")
    def _words_of_a_program(self) -> Self:
        if wrong := [word for word in self.run if not WORD.fullmatch(word)]:
            raise ValueError(f"run: {short(wrong[0])} is no word of a program")
        for name, value in self.env.items():
            if not VARIABLE.fullmatch(name) or not WORD.fullmatch(value):
                raise ValueError(f"env.{short(name)}: is no variable of an environment")
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("stop must come after start")
        return self


# --- what must fit together ----------------------------------------------------------------


def check(s: Any) -> None:
    """ValueError: its key, and the reason. `s`: a Scenario (model.py), which needs this module."""
    if not s.flows and not s.programs:
        raise ValueError("flows: must have at least one, or programs")
    for table in ("hosts", "packs"):
        if getattr(s, table) and not s.programs:
            raise ValueError(f"{table}: need programs")
    if not s.programs:
        return
    last = len(s.path.chain) + 1
    for name, host in s.hosts.items():
        if NO_HOST.fullmatch(name):
            raise ValueError(f"hosts.{name}: programs take this for an address of another host; choose another name")
        if not 1 <= switch_of(host, last) <= last:
            raise ValueError(f"hosts.{name}.at: no switch {host.at}; there are 1 to {last}")
        _check_flows(name, host, s, last)
        if host.controller and host.controller in {c.controller for c in s.changes if c.command}:
            raise ValueError(f"hosts.{name}.controller: {host.controller} changes while programs run")
    if len({switch_of(host, last) for host in s.hosts.values()}) < 2:
        raise ValueError("hosts: must be at two places at least, one to the left of the other")
    for i, program in enumerate(s.programs):
        if program.host not in s.hosts:
            raise ValueError(f"programs.{i}.host: no host {program.host!r}; {_there(program.host, s.hosts)}")
        pack_of(i, program, s)
        if max(program.start, program.stop or 0) >= s.run.duration:
            raise ValueError(f"programs.{i}: starts or stops after run.duration")
        if program.name in {earlier.name for earlier in s.programs[:i]}:
            raise ValueError(f"programs.{i}.name: an earlier program is called {program.name!r}, too")
    used = {pack_of(i, program, s) for i, program in enumerate(s.programs)}
    if unused := sorted(s.packs.keys() - used):
        raise ValueError(f"packs.{unused[0]}: no program uses it")


def _check_flows(name: str, host: Host, s: Any, last: int) -> None:
    if host.flows is None:
        return
    entry = s.flows[host.flows] if host.flows < len(s.flows) else None
    if not entry or entry.hosts_of is not None or sorted(s.switches(entry)) != [1, last]:
        raise ValueError(
            f"hosts.{name}.flows: {host.flows} must be an entry with hosts of its own, which crosses the whole path"
        )
    at = switch_of(host, last)
    if at not in (1, last):
        raise ValueError(f"hosts.{name}.at: must be 'left' or 'right', with flows")
    sends = at == s.switches(entry)[0] or any(other.hosts_of == host.flows for other in s.flows)
    for key in ("ack", "extra_delay", "sysctls", *(["controller"] if sends else [])):
        if getattr(host, key):
            raise ValueError(f"hosts.{name}.{key}: is that of the flows")
    same = [other for other, h in s.hosts.items() if h.flows == host.flows and switch_of(h, last) == at]
    if same[0] != name:
        raise ValueError(f"hosts.{name}: is the same host as {same[0]}")


def _there(name: str, names: dict[str, Any]) -> str:
    like = get_close_matches(name, list(names), 1)
    return f"did you mean {like[0]}?" if like else f"there are {', '.join(names) or 'none'}"


def switch_of(host: Host, last: int) -> int:
    return host.at if isinstance(host.at, int) else {"left": 1, "right": last}[host.at]


def pack_of(number: int, program: Program, s: Any) -> str:
    """ValueError if there is none of its name, or none is meant."""
    if program.pack is None:
        if len(s.packs) != 1:
            raise ValueError(f"programs.{number}.pack: is missing; {_there('', {**s.packs, **along()})}")
        return next(iter(s.packs))
    if program.pack not in s.packs and program.pack not in along():
        raise ValueError(
            f"programs.{number}.pack: no pack {program.pack!r}; {_there(program.pack, {**s.packs, **along()})}"
        )
    return program.pack


# --- the packs of a case -------------------------------------------------------------------


@dataclass(frozen=True)
class Contents:
    """A pack, with whole names of files, and the programs that it must have."""

    name: str
    debian: tuple[str, ...]
    suite: str | None
    files: dict[str, Path | Content]
    programs: tuple[tuple[str, str], ...]  # the key that names one, and its name


@cache
def along() -> dict[str, Pack]:
    """The packs that come along."""
    return {name: Pack.model_validate(pack) for name, pack in tomllib.loads(ALONG.read_text())["packs"].items()}


def contents(s: Any, folder: Callable[[str], Path]) -> Iterator[Contents]:
    """The packs that programs use. `folder`: where a key's value is written."""
    used: dict[str, list[tuple[str, str]]] = {}
    for i, program in enumerate(s.programs):
        used.setdefault(pack_of(i, program, s), []).append((f"programs.{i}.run", program.run[0]))
    for name, programs in sorted(used.items()):
        own = s.packs.get(name)
        pack = own or along()[name]
        files: dict[str, Path | Content] = {}
        for place, file in pack.files.items():
            key = f"packs.{name}.files.{place}"
            files[place] = file if isinstance(file, Content) else _in(folder(key), file, key) if own else _along(file)
        yield Contents(name, tuple(pack.debian), pack.suite, files, tuple(programs))


def _along(file: str) -> Path:
    """A file of a pack that comes along, or one that `make` builds."""
    at = ALONG.parent / file
    return at if at.is_file() else BUILT / file


def _in(folder: Path, file: str, key: str) -> Path:
    """A stranger's scenario brings no file of this machine into results."""
    at = folder / file
    if not at.is_file():
        raise Wrong(key, f"no such file: {at}")
    if not at.resolve().is_relative_to(folder.resolve()):
        raise Wrong(key, f"is outside of the scenario's folder: {at}; copy it there")
    return at
