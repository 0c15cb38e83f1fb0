# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""run.json as it is read back: each value that is used is of its kind.

`identity` needs no such look: the run's key is its hash.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..guest.protocol import Check


class Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


class Row(Part):
    """A row of the self-check."""

    what: str
    expected: int | float | str | list | dict
    measured: int | float | str | list | dict | None
    ok: bool

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if isinstance(self.measured, int | float) and not isinstance(self.expected, int | float):
            raise ValueError("a number is measured where none is expected")
        if self.kind == Check.OFFLOADS and not (
            isinstance(self.measured, list) and all(isinstance(name, str) for name in self.measured)
        ):
            raise ValueError("offloads have names")
        return self

    @property
    def kind(self) -> Check:
        return Check.read(self.what)[0]

    @property
    def of(self) -> str:
        return Check.read(self.what)[1]

    @property
    def wrong(self) -> str:
        return "" if self.ok else f"{self.what}: expected {self.expected}, measured {self.measured}"


class Late(Part):
    """How late packets left the lab's own links while the run measured, us."""

    packets: int
    mean_us: int
    p99_us: int
    max_us: int


def lateness(marks: dict) -> Late | None:
    """None: the lab's own links were not used."""
    late = marks.get("end", {}).get("late")
    return None if late is None else Late.model_validate(late)


class Agent(Part):
    """agent.json, as far as it is read."""

    kernel: str
    cpu_busy: float
    zero_ns: int
    zero_unix_ns: int
    self_check: list[Row]
    controllers: dict[str, dict]
    marks: dict[str, dict]
    replies: dict[str, list[Pair]] = {}  # of each flow: when it asked, and how long the reply took, ns
    closed: dict[str, Pair] = {}  # of a flow with a size: when it sent its FIN, and until the ACK of that, ns
    relay: list[str] = []  # devices of links that were the lab's own, on a host without netem

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self.late
        return self

    @property
    def late(self) -> Late | None:
        return lateness(self.marks)


class Link(Part):
    utilisation: float
    packets: int
    pure_acks: int
    packet_bytes: float
    queue_mean: float
    queue_max: int
    queue_delay_mean_s: float


class Hop(Part):
    name: str
    forward: Link
    reverse: Link


class Flow(Part):
    flow: int
    controller: str
    goodput_bps: float
    throughput_bps: float
    goodput_cv: float
    goodput_trend: float
    rtt_s: dict[str, float]
    cwnd_mean: float
    retransmits: int
    retransmits_whole_run: int
    done_s: float | None = None  # of a flow with a size
    reply_s: dict[str, float] = {}  # of one with replies


class Metrics(Part):
    """The metrics that metrics.of_run() gives."""

    goodput_bps: float
    throughput_bps: float
    utilisation: float
    reverse_utilisation: float
    jain: float
    jain_over_time: list[float]
    acks_per_data_packet: float
    timeouts: int
    background_bps: list[float]
    busiest: str
    forward: Link
    reverse: Link
    hops: list[Hop]
    flows: list[Flow]


class Program(Part):
    host: str
    run: list[str]
    start_s: float
    end_s: float | None
    exit: int | None


class Connection(Part):
    flow: int
    protocol: str
    src: str
    src_port: int
    dst: str
    dst_port: int
    start_s: float
    end_s: float
    bytes: int
    goodput_bps: float
    packets: int
    queue_delay_mean_s: float
    queue_delay_max_s: float
    rtt_s: dict[str, float] = {}  # of TCP, as the two below
    cwnd_mean: float | None = None
    retransmits: int | None = None


class Record(Part):
    key: str
    id: str
    title: str
    name: str
    point: dict[str, bool | int | float | str | list | dict | None]
    seed: int
    where: str
    command: str
    invalid: list[str]
    result_sha256: str
    metrics_hash: str
    metrics: Metrics
    programs: dict[str, Program] = {}
    connections: list[Connection] = []
    agent: Agent
    identity: dict
    tables: dict[str, str] = {}  # the SHA-256 of each; a run that an earlier version stored has none
    record_sha256: str = ""
