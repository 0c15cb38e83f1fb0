# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Flows and loads of a scenario: keys of `[[flows]]` and `[[background]]`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ..guest.protocol import SYSCTL
from .quantities import Name, Rate, Sysctl, Time, short
from .queues import Model

TIMESTAMPS = "net.ipv4.tcp_timestamps"
Ack = Literal["delayed", "every"]


def _hop(value: Any) -> int:
    if type(value) is int and value >= 1:
        return value
    raise ValueError(f"{short(value)} is neither a hop's number nor 'each'")


class Crossing(Model):
    """The keys that flows and loads share: their direction, their places on a chain, and when they send."""

    direction: Literal["forward", "reverse"] = Field("forward", description="Direction of the data.")
    hop: Annotated[int, BeforeValidator(_hop), WithJsonSchema({"type": "string", "format": "hop"})] | None = Field(
        None,
        description='The one hop that it crosses, from 1 at the left. `"each"` stands for one on each hop.',
        json_schema_extra={"without": "all hops"},
    )
    enter: int | None = Field(
        None,
        description="In place of `hop`: the switch of its source.",
        json_schema_extra={"without": "the first on its way"},
    )
    leave: int | None = Field(
        None,
        description="In place of `hop`: the switch of its sink.",
        json_schema_extra={"without": "the last on its way"},
    )
    start: Time = Field(0, description="When it begins to send.")
    stop: Time | None = Field(
        None, description="From then on it sends no new data.", json_schema_extra={"without": "the end"}
    )

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("stop must come after start")
        return self

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.hop is not None and (self.enter is not None or self.leave is not None):
            raise ValueError("must have either hop, or enter and leave")
        return self


def check_sysctls(of: str, sysctls: dict[str, Any]) -> None:
    for key in sysctls:
        if not re.fullmatch(SYSCTL, key):
            raise ValueError(f"{of}.{key}: not a key such as 'net.ipv4.tcp_early_retrans'")


class Flow(Crossing):
    """Equal flows from one source host to one sink host. Each entry has hosts of its own, but for `hosts_of`.

    Any value may be a list: then the entry stands for as many entries, and each takes one value. Neighbours
    with the same list of places become one entry each at the first place, then one each at the next.
    """

    controller: Name = Field(
        max_length=15,
        description="Congestion control of the sender: a controller of `bpf/`, one of Linux's own (`reno`, `cubic`, "
        "...), a name from `[controllers]`, or the path of anyone's object or source (`./mine.bpf.o`, `./mine.bpf.c`).",
    )
    count: int = Field(1, ge=1, le=1000, description="Number of equal flows.")
    start_within: Time | None = Field(
        None,
        description="Each of them starts at a random time in so long from `start` on, in place of `run.start_jitter`: "
        "many are a Poisson process.",
        json_schema_extra={"without": "`run.start_jitter`"},
    )
    resume: Time | None = Field(None, description="When it sends again, after `stop`.")
    ack: Ack | None = Field(
        None,
        description="When its receiver sends ACKs, in place of the scenario's `ack`.",
        json_schema_extra={"without": "the scenario's `ack`"},
    )
    extra_delay: Time = Field(0, description="Delay of its own access links, added in each direction.")
    hosts_of: int | None = Field(
        None,
        ge=0,
        description="The number of an earlier entry, from 0 on: this one runs between its hosts, in the other "
        "direction.",
        json_schema_extra={"without": "hosts of its own"},
    )
    reply: int | None = Field(
        None,
        ge=1,
        le=1 << 30,
        description="Requests and replies: the receiver asks with 100 bytes, and again when so many have come.",
        json_schema_extra={"without": "data without end"},
    )
    every: Time | None = Field(
        None,
        ge=1000,
        description="With `reply`: the receiver asks once in so long, as a player does whose buffer is full. A reply "
        "that takes longer has it ask at once, until it is in time again.",
        json_schema_extra={"without": "it asks at once"},
    )
    size: int | None = Field(
        None,
        ge=1,
        le=1 << 40,
        description="Bytes that the sender sends before it closes the connection. The record has when, and how long it "
        "took until all data and the FIN were acknowledged.",
        json_schema_extra={"without": "data without end"},
    )
    app_rate: Rate | None = Field(
        None,
        ge=8000,
        description="The application writes so much, a part each 10 ms, and later nothing that it missed.",
        json_schema_extra={"without": "without a limit"},
    )
    subflows: int = Field(
        1,
        ge=1,
        le=2,
        description="With 2 it is MPTCP. Both take the same path, and the record has each as a flow. Engine `qemu`.",
    )
    second_hop: int | None = Field(
        None,
        ge=1,
        description="With two subflows and `hop`: the second one's hop.",
        json_schema_extra={"without": "the same"},
    )
    source_sysctls: dict[str, Sysctl] = Field(
        {}, description='Settings of its source host, over those of all hosts: `{ "net.ipv4.tcp_sack" = 0 }`.'
    )
    sink_sysctls: dict[str, Sysctl] = Field({}, description="The same of its sink host.")

    @property
    def own_sysctls(self) -> set[str]:
        return {*self.source_sysctls, *self.sink_sysctls}

    @model_validator(mode="after")
    def _sysctls_of_its_own_hosts(self) -> Self:
        for of, sysctls in (("source_sysctls", self.source_sysctls), ("sink_sysctls", self.sink_sysctls)):
            check_sysctls(of, sysctls)
            if sysctls and self.hosts_of is not None:
                raise ValueError(f"{of}: is for hosts of its own, not for hosts_of")
            if TIMESTAMPS in sysctls:
                raise ValueError(f"{of}.{TIMESTAMPS}: one size of packets is planned for all; set it in sysctls")
        return self

    @model_validator(mode="after")
    def _asks_for_replies(self) -> Self:
        if self.every and not self.reply:
            raise ValueError("every: needs reply")
        return self

    @model_validator(mode="after")
    def _subflows_of_one(self) -> Self:
        others = ("reply", "size", "app_rate", "stop", "hosts_of")
        if self.subflows > 1 and (self.count > 1 or any(getattr(self, key) is not None for key in others)):
            raise ValueError(f"subflows: cannot be with count, {', '.join(others[:-1])} or {others[-1]}")
        if self.second_hop and (self.subflows == 1 or self.hop in (None, self.second_hop)):
            raise ValueError("second_hop: takes two subflows and another hop")
        return self

    @model_validator(mode="after")
    def _resumes_after_stop(self) -> Self:
        if self.resume is not None and (self.stop is None or self.resume <= self.stop):
            raise ValueError("resume must come after stop")
        return self


class Background(Crossing):
    """A load of UDP datagrams at a constant rate, from one host of its own to another.

    `direction`, `hop`, `enter`, `leave`, `start` and `stop` are as with flows, and so are lists.
    """

    rate: Rate = Field(description="Rate in bits of IP packets per second.")
    packet: int = Field(ge=64, le=9000, description="Size of an IP packet in bytes, at most the path's `mtu`.")
