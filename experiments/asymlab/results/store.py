# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finished runs, each in a folder named by the hash of all that determines it.

    build/store/KEY/run.json                metrics, self-check, provenance, the command that repeats it, the hash of
                    each table (tables) and of run.json's own rest (record_sha256)
    build/store/KEY/{acks,goodput,links}.npz, and state-CONTROLLER.npz where run.trace_state is set,
                    packets.npz and the words of programs,
                    forward.pcap and reverse.pcap where run.capture is; forward-2.pcap of the second hop, ...

A folder appears whole or not at all; one that is there is never computed again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from .. import LabError, printable
from ..guest import wire
from ..guest.capture import SIDES, name_of
from ..guest.job import Command, Job
from ..guest.programs import OUTPUT_MAX, WithPrograms, kind_of
from ..guest.programs.connections import FILE as CONNECTIONS
from ..guest.programs.connections import MAX as CONNECTIONS_RECORDS
from ..guest.programs.connections import RECORD_BYTES
from ..guest.protocol import Check
from ..guest.system import Failure
from ..guest.uplink import LOG as UPLINK
from ..paths import STORE
from ..plan.groups import HOPS_MAX
from ..plan.quantities import TIME_MAX
from ..reading import read
from . import capture, connections, metrics, programs, tables, trace
from .record import Agent, Record, Row

KEY = re.compile("[0-9a-f]{32}")
# The files that an agent may leave, and their greatest sizes. They come from a guest or a worker: no other is taken,
# and none tells where it goes.
FILES = {"agent.json": 16 << 20, "trace.bin": 1 << 30, UPLINK: 16 << 20} | {
    name_of(side, hop): 1 << 30 for hop in range(1, HOPS_MAX + 1) for side in SIDES
}
UPLINK_ROW = [("t", "f8"), ("rate", "f8"), ("capacity", "f8"), ("queue", "f8"), ("cause", "U8")]
PROGRAMS = "programs.json"
CONNECTIONS_MAX = CONNECTIONS_RECORDS * RECORD_BYTES  # bytes of connections.bin
RECORD_MAX = 64 << 20  # bytes of run.json
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)  # in a result
SERIES_MAX = 5 * 10**7  # bins of the goodput of all flows
CPU_LIMIT = 0.7  # share of guest CPU above which a run measures the CPU, not the network
LATE_US = 1000  # by the lab's own links a round trip may be longer, and one packet in a hundred later
TRAIN_OFF = 0.1  # live a train's rate may be wrong by this share: a train of 12 ms that ends 1 ms late


def key_of(identity: dict) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


TABLES_HASH = hashlib.sha256(Path(trace.__file__).read_bytes()).hexdigest()[:16]  # the raw trace is not kept
METRICS_HASH = hashlib.sha256(Path(metrics.__file__).read_bytes()).hexdigest()[:16]


@lru_cache(maxsize=12)
def table(folder: Path, name: str, digest: str | None, result: str) -> np.ndarray:
    """A table of a result, kept for a while: those of a whole suite would not fit into memory."""
    return tables.read(folder, name, digest)


@dataclass(frozen=True)
class Run:
    """One finished run."""

    folder: Path
    record: dict

    def __repr__(self) -> str:
        valid = "valid" if self.valid else "INVALID"
        return printable(
            f"<Run {self.record['name']}: {valid}, goodput {self.metrics['goodput_bps'] / 1e6:.3f} Mbit/s, "
            f"key {self.record['key']}>"
        ).replace("\n", " ")

    @property
    def key(self) -> str:
        """It names files and pages."""
        if not KEY.fullmatch(self.record["key"]):
            raise LabError(f"{self.folder}: {self.record['key'][:40]!r} is no key of a run")
        return self.record["key"]

    @property
    def metrics(self) -> dict:
        return self.record["metrics"]

    @property
    def programs(self) -> dict[str, dict]:
        """By their names: host, run, start_s, end_s, exit, result. One that still ran has neither end_s nor exit."""
        return self.record["programs"] if isinstance(self.job, WithPrograms) else {}

    @property
    def connections(self) -> list[dict]:
        """Each direction of its programs' connections (connections.py)."""
        return self.record.get("connections", []) if isinstance(self.job, WithPrograms) else []

    @property
    def packets(self) -> np.ndarray:
        """Their packets at the queues."""
        return self._table("packets")

    @cached_property
    def job(self) -> Job:
        return _job(self.record["identity"])

    @property
    def valid(self) -> bool:
        return not self.record["invalid"]

    @property
    def self_check(self) -> list[Row]:
        return [Row.model_validate(row) for row in self.record["agent"]["self_check"]]

    def _table(self, name: str) -> np.ndarray:
        return table(self.folder, name, self.record.get("tables", {}).get(name), self.record["result_sha256"])

    @property
    def acks(self) -> np.ndarray:
        return self._table("acks")

    @property
    def goodput(self) -> np.ndarray:
        return self._table("goodput")

    @property
    def links(self) -> np.ndarray:
        return self._table("links")

    def capture(self, side: str, hop: int = 1) -> np.ndarray:
        """The packets that left a hop's queue of a side, "forward" or "reverse" (capture.py)."""
        file = self.folder / name_of(side, hop)
        if not file.exists():
            raise LabError(f"{self.folder}: no {file.name}: it takes run.capture")
        return capture.read(file, self.record["agent"]["zero_unix_ns"])

    @property
    def uplink(self) -> np.ndarray:
        """Each tick of `asymcc uplink`: t in s, rate and capacity in bit/s, queue in ms, cause."""
        file = self.folder / UPLINK
        try:
            rows = np.loadtxt(file, UPLINK_ROW, ndmin=1)
        except FileNotFoundError:
            raise LabError(f"{self.folder}: no {UPLINK}: it takes [uplink]") from None
        except ValueError as e:
            raise LabError(f"{file}: damaged ({e})") from None
        rows["t"] -= self.record["agent"]["zero_ns"] / 1e9
        return rows

    def state(self, flow: int) -> np.ndarray:
        """The private state of a flow's controller as each ACK arrived: flow, t, and its members (trace.py)."""
        name = f"state-{next(f.controller for f in self.job.flows if f.id == flow)}"
        if not (self.folder / f"{name}.npz").exists():
            raise LabError(
                f"{self.folder}: no state of flow {flow}: it takes run.trace_state and a controller with STATE()"
            )
        rows = self._table(name)
        return rows[rows["flow"] == flow]


def files_of(job: object) -> dict[str, int]:
    """FILES, and those of a job's programs."""
    if not isinstance(job, WithPrograms):
        return FILES
    words = {f"{program.name}.{end}": OUTPUT_MAX for program in job.programs for end in ("out", "err")}
    return FILES | words | {PROGRAMS: 1 << 20, CONNECTIONS: CONNECTIONS_MAX}


def _job(identity: dict) -> Job:
    try:
        return wire.read(kind_of(identity["job"]), identity["job"], "job")
    except Failure as e:
        raise LabError(str(e)) from None


def find(key: str) -> Run:
    """The finished run of that key, which is its folder's name."""
    if run := KEY.fullmatch(key) and held(key):
        return run
    raise LabError(f"{key[:40]}: no run of this key in {STORE}; asymlab.runs() gives those that are there")


def runs() -> Iterator[Run]:
    """The finished runs, the newest first; each is read when it is asked for."""

    def age(folder: Path) -> int:
        try:
            return (folder / "acks.npz").stat().st_mtime_ns  # run.json is written anew with the metrics
        except OSError:
            return 0  # held() tells why, or it is gone since

    folders = [f for f in STORE.iterdir() if KEY.fullmatch(f.name)] if STORE.is_dir() else []
    for folder in sorted(folders, key=age, reverse=True):
        if run := held(folder.name):
            yield run


def held(key: str) -> Run | None:
    """A finished run, if there is one."""
    folder = STORE / key
    if not folder.exists():
        return None
    run = opened(folder)
    if run.record["key"] != key:
        raise LabError(f"{folder}: is of another run; remove it, the run will be repeated")
    return run


def opened(folder: Path) -> Run:
    """The run of a folder; its metrics are computed anew if their definitions have changed since.

    The new ones are kept. In a store that another user has written they may stay unkept."""
    try:
        record = json.loads(read(folder / "run.json", RECORD_MAX))
        if record["key"] != key_of(record["identity"]):
            raise ValueError("not the key of its identity")
        if record.get("record_sha256", digest := record_digest(record)) != digest:
            raise ValueError("changed after it was stored")
        job = record["identity"]["job"]
        check_length(job["duration_s"], job["measure_from_s"], job["bin_ms"], len(job["flows"]))
        run = Run(folder, record)
        stale = record["metrics_hash"] != METRICS_HASH
        if stale:
            record["metrics"] = metrics.of_run(run.job, record["agent"], run.acks, run.goodput, run.links)
            record["metrics_hash"] = METRICS_HASH
            record["record_sha256"] = record_digest(record)
        Record.model_validate(record)
        json.dumps(record, ensure_ascii=False).encode()  # half a character is none
    except (OSError, MemoryError, *DAMAGE) as e:
        reason = "damaged" if isinstance(e, ValidationError | KeyError) else str(e)[:100]
        raise LabError(
            f"{folder / 'run.json'}: cannot be read ({type(e).__name__}: {reason}); "
            "remove its folder, the run will be repeated"
        ) from None
    if stale:
        with contextlib.suppress(OSError):
            replace_record(folder, record)
    return run


def check_length(duration_s: float, measure_from_s: float, bin_ms: int, flows: int) -> None:
    """ValueError unless its series fit into memory, and are gone through in a second."""
    if not (0 <= measure_from_s < duration_s <= TIME_MAX / 1e6 and bin_ms >= 1):
        raise ValueError(f"a job that measures from {measure_from_s:g} to {duration_s:g} s in bins of {bin_ms:g} ms")
    if (bins := max(flows, 1) * duration_s * 1e3 / bin_ms) > SERIES_MAX:
        raise ValueError(f"a job of {bins:g} bins, more than the {SERIES_MAX} that are read")


def record_digest(record: dict) -> str:
    """Against accidents: who writes the store may write this as well."""
    sealed = {name: value for name, value in record.items() if name != "record_sha256"}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def replace_record(folder: Path, record: dict) -> None:
    """Others may do the same in a shared store."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".run.json.", delete=False) as part:
        try:
            part.write(json.dumps(record))
            part.flush()
            os.chmod(part.name, 0o644)
            os.replace(part.name, folder / "run.json")
        except OSError:
            os.unlink(part.name)
            raise


def result_hash(files: dict[str, bytes]) -> str:
    """The hash of all that the agent left: runs of the same identity have the same."""
    result = hashlib.sha256()
    for name in sorted(files):
        result.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    return result.hexdigest()


def check_files(files: dict[str, bytes], job: Job) -> None:
    most = files_of(job)
    for name, data in files.items():
        if len(data) > most.get(name, -1):
            raise LabError(f"results: a file {name[:40]!r} of {len(data)} bytes is none that an agent leaves")


def understand(files: dict[str, bytes], job: Job) -> tuple[dict, dict[str, np.ndarray], dict, dict, list[str]]:
    """The agent's words, its tables, the metrics; of its programs what the record has, and what is wrong with them.

    LabError if it is not what an agent leaves after such a job."""
    check_files(files, job)
    try:
        agent = json.loads(files["agent.json"])
        Agent.model_validate(agent)
        check_length(job.duration_s, job.measure_from_s, job.bin_ms, len(job.flows))
        loaded = {c.name for c in job.controllers if c.object and c.loader != "insmod"}
        gone = {
            c.controller for c in job.changes if isinstance(c, Command) and c.command in ("unload", "drain")
        }  # unless loaded again
        if not loaded - gone <= agent["controllers"].keys() <= loaded:
            raise ValueError("of other controllers")
        arrays = trace.parse(files["trace.bin"], agent["zero_ns"])
        state = arrays.pop("state")
        if job.trace_state:
            arrays |= trace.decode(
                state, wire.dump(job.flows), agent["controllers"]
            )  # as JSON: trace.py is a part of each key
        of_programs: dict[str, Any] = {}
        wrong: list[str] = []
        if isinstance(job, WithPrograms):
            zero_ns = agent["zero_ns"]
            ends, wrong = programs.of_run(job, zero_ns, files, PROGRAMS)
            of_connections = connections.of_run(job, files[CONNECTIONS], files["trace.bin"], zero_ns, arrays)
            of_programs = {"programs": ends, "connections": of_connections}
        of_run = metrics.of_run(job, agent, arrays["acks"], arrays["goodput"], arrays["links"])
        return agent, arrays, of_run, of_programs, wrong
    except DAMAGE as e:
        reason = f"{e.error_count()} members" if isinstance(e, ValidationError) else str(e)[:100]
        raise LabError(f"results: damaged ({type(e).__name__}: {reason})") from None


def engine(identity: dict) -> str:
    """The engine of a run, in its own words."""
    return (identity.get("qemu") or identity["uml"])["version"]


def busy(executed: int, identity: dict) -> float:
    """Share of the guest's CPU that the instructions of a run take, those of its set-up included.

    The agent has the share while it measures, by its kernel's idle time. Linux 7.1 and later count some of it twice.
    """
    return executed / (1e9 * identity["clock_factor"] * identity["job"]["duration_s"])


def objections(told: Agent) -> list[str]:
    """The objections of the self-check, and of the lab's own links, to a run."""
    wrong = [row.wrong for row in told.self_check if row.wrong and not (told.late and as_live(row))]
    if told.late and told.late.p99_us > LATE_US:
        wrong.append(f"one packet in a hundred late by {told.late.p99_us / 1e3:g} ms or more: this machine was busy")
    return wrong


def as_live(row: Row) -> bool:
    """Whether a self-check in real time is as near as that can be."""
    if not (isinstance(row.expected, int | float) and isinstance(row.measured, int | float)):
        return False
    more = row.measured - row.expected
    if row.kind == Check.BASE_RTT:
        return 0 <= more <= LATE_US
    return row.kind in (Check.FORWARD_RATE, Check.REVERSE_RATE) and abs(more) <= TRAIN_OFF * row.expected


def save(key: str, identity: dict, about: dict, files: dict[str, bytes]) -> Run:
    """Store what the agent left. `about`: title, name, seed, command, host times. Atomic."""
    if not KEY.fullmatch(key):
        raise LabError(f"{key[:40]!r}: no key of a run")
    agent, arrays, of_run, of_programs, wrong = understand(files, _job(identity))
    told = Agent.model_validate(agent)
    invalid = objections(told) + wrong
    if "executed" in about:
        agent["cpu_busy"] = max(agent["cpu_busy"], busy(about["executed"], identity))
    if "programs" in identity["job"] and "uml" in identity:
        agent["cpu_busy"] = 0.0  # no time goes by while they compute; a kernel that idles for long counts it late
    if not told.late and agent["cpu_busy"] > CPU_LIMIT:  # else it may be other programs', which cost this run nothing
        invalid.append(f"guest CPU {100 * agent['cpu_busy']:.0f} % busy: the CPU was measured, not the network")
    record = {
        **about,
        "key": key,
        "invalid": invalid,
        "result_sha256": result_hash(files),
        "metrics_hash": METRICS_HASH,
        "metrics": of_run,
        **of_programs,
        "agent": agent,
        "identity": identity,
    }
    try:
        STORE.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=STORE, prefix=".part-"))
        try:
            tables.write(arrays, part)
            for name in files.keys() - {"agent.json", "trace.bin"}:  # kept as they are
                (part / name).write_bytes(files[name])
            record["tables"] = tables.digests(part)
            record["record_sha256"] = record_digest(record)
            (part / "run.json").write_text(json.dumps(record))
            part.chmod(0o755)
            if (STORE / key).exists():  # repeated on demand: the old one stays until the new one is there
                (STORE / key).rename(part / "old")
            try:
                part.rename(STORE / key)
            except OSError as e:
                if e.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                return Run(STORE / key, record)  # another has just stored the same
            shutil.rmtree(STORE / key / "old", ignore_errors=True)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as e:
        raise LabError(f"{STORE}: {e.strerror}; the run is lost, those finished before are kept") from None
    return Run(STORE / key, record)
