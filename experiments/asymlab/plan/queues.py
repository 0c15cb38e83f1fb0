# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A link's queue, the trace that it plays, and what is behind it: keys of `forward` and `reverse`."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from .delays import Delays
from .opportunities import LENGTH_MAX, Opportunities
from .quantities import Rate, Share, Time, short
from .synthetic import Kind

COUNTED_OFF = 0.002  # of a time: as guest/check.py has it
POLICER_FULL_S = 100  # that an empty bucket may take


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)  # true, "50" and 50.0 are no whole numbers


def _trace(value: Any) -> Opportunities | None:
    """scenario.py has read its file."""
    if isinstance(value, Opportunities):
        return value
    raise ValueError(f"{short(value)} is not the name of a file")


def _delays(value: Any) -> Delays | None:
    if isinstance(value, Delays):
        return value
    raise ValueError(f"{short(value)} is not the name of a file")


Trace = Annotated[Any, BeforeValidator(_trace), WithJsonSchema({"type": "string"})]  # Opportunities | None
DelayTrace = Annotated[Any, BeforeValidator(_delays), WithJsonSchema({"type": "string"})]  # Delays | None


def or_word(word: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """For a value that is true, false, or this word."""

    def read(value: Any) -> bool | str:
        if isinstance(value, bool) or value == word:
            return value
        raise ValueError(f"{short(value)} is neither true, false nor {word!r}")

    return BeforeValidator(read), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": word}]})


AckFilter = Annotated[bool | Literal["aggressive"], *or_word("aggressive")]


Isolation = Literal[
    "triple-isolate", "dual-srchost", "dual-dsthost", "flows", "hosts", "srchost", "dsthost", "flowblind"
]
ISOLATIONS: tuple[Isolation, ...] = get_args(Isolation)


class Synthetic(Model):
    """In place of a file's name, a trace that is made: random, and the same from the same seed on any machine."""

    kind: Kind = Field(description="The [model](#a-link-that-changes-all-the-time).")
    rate: Rate = Field(description="Mean of the trace.")
    length: Time = Field(
        ge=10**6, le=LENGTH_MAX * 1000, multiple_of=1000, description="From then on the trace begins anew. In whole ms."
    )
    seed: int = Field(1, ge=0, lt=2**63, description="Another one makes another trace.")
    delay: bool = Field(
        False,
        description="For `leo`, in place of `delay_trace`: with each rate comes another delay, 0 to 30 ms, and 5 % of "
        "packets are lost for 200 ms.",
    )

    @model_validator(mode="after")
    def _beams(self) -> Self:
        if self.delay and self.kind != "leo":
            raise ValueError(f"delay: {self.kind} has none, only leo")
        return self


class Red(Model):
    """Random early detection.

    Such a queue counts bytes, and so does its limit. A packet stands for `mtu` bytes in a direction that carries data,
    and for the bytes of a pure ACK in one that does not.
    """

    min: int = Field(ge=2, description="Average length in packets from which on some packets are dropped, or marked.")
    max: int = Field(ge=3, description="Average length from which on all packets are. At most the direction's `queue`.")
    probability: Share = Field(gt=0, description="Share of packets that are dropped or marked just below `max`.")
    ecn: bool = Field(False, description="Packets that can carry a mark are marked, not dropped.")
    weight: float = Field(
        0.002,
        ge=1e-4,
        le=0.5,
        description="Weight of the newest length in the average. The kernel takes the nearest power of two.",
    )

    @property
    def weight_log(self) -> int:
        """n of the nearest weight 2^-n: the kernel has no others."""
        return round(-math.log2(self.weight))

    def in_kernel(self, packet_bytes: int) -> float:
        """The probability that the kernel keeps (red_set_parms()): whole 2^-32 for each byte from min to max."""
        between = (self.max - self.min) * packet_bytes
        return int(self.probability * 2**32) // between * between / 2**32

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.min >= self.max:
            raise ValueError("min must be less than max")
        return self


class Cake(Model):
    """CAKE in place of the queue: it shapes to `rate`, gives each flow a queue, and drops what waits too long.
    Its own limit holds, not `queue`."""

    ack_filter: AckFilter = Field(
        False, description="It drops ACKs that a later one in the queue replaces. `aggressive` keeps fewer."
    )
    overhead: int = Field(
        0, ge=0, le=256, description="Bytes that each packet takes of the rate, beside those of its IP packet."
    )
    mpu: int = Field(0, ge=0, le=256, description="The least bytes that a packet takes, with `overhead`.")
    framing: Literal["plain", "atm", "ptm"] = Field(
        "plain",
        description="`atm`: packets are cut into cells of 53 bytes that hold 48. `ptm`: each 64 bytes take one more.",
    )
    isolation: Isolation = Field(
        "triple-isolate",
        description="Equal shares are for flows, hosts, or hosts first and then the flows of each. Each entry of "
        "`flows` has hosts of its own. There is no NAT in the lab, so no key for it.",
    )


def counted(us: int, unit_log: int) -> int:
    """Time as the kernel tells it after it has counted it in units of 2^unit_log ns."""
    return (us * 1000 >> unit_log << unit_log) // 1000


def countable(unit_log: int) -> AfterValidator:
    """For times: the kernel keeps them as they are, but for what the self-check allows."""

    def check(us: int) -> int:
        if us - counted(us, unit_log) > COUNTED_OFF * us:
            least = next(t for t in range(us, us + 10**6) if t - counted(t, unit_log) <= COUNTED_OFF * t)
            raise ValueError(f"{us}us become {counted(us, unit_log)}us in the kernel, which keeps {least}us")
        return us

    return AfterValidator(check)


CodelTime = Annotated[Time, countable(10), Field(ge=1, le=10**9)]
PieTime = Annotated[Time, countable(6), Field(ge=1, le=4 * 10**6)]


class Codel(Model):
    """CoDel (RFC 8289): it drops packets once all of an `interval` have waited longer than `target`."""

    target: CodelTime = Field(5000, description="Time that packets may wait.")
    interval: CodelTime = Field(100_000, description="For so long they may wait longer.")
    ecn: bool = Field(False, description="Packets that can carry a mark are marked, not dropped.")


class FqCodel(Codel):
    """A queue for each flow, with CoDel in each (RFC 8290). Flows take turns; `queue` is the limit of all together."""

    flows: int = Field(1024, ge=1, le=65536, description="Queues that flows are spread over by their hash.")
    ecn: bool = Field(True, description="Packets that can carry a mark are marked, not dropped.")


class Pie(Model):
    """PIE (RFC 8033) in the queue: it drops at random, the more the longer packets wait."""

    target: PieTime = Field(15_000, description="Time that packets shall wait.")
    tupdate: Time = Field(
        16_000,
        ge=4000,
        multiple_of=4000,
        description="Time between two updates of the share that it drops: whole ticks of the kernel, 4 ms each.",
    )
    ecn: bool = Field(
        False, description="Packets that can carry a mark are marked, not dropped, up to a tenth of them."
    )


class Fq(Model):
    """A queue for each flow, and flows take turns; `queue` is the limit of all together. The kernel's `fq`."""

    flow_limit: int = Field(100, ge=1, le=1_000_000, description="Limit of each flow's queue, in packets.")


class DualPi2(Model):
    """DualPI2 (RFC 9332), in Linux from 6.17 on: L4S beside the rest. Packets with ECT(1) have a queue of their own,
    whose delay is that of a step; the other queue has PI2. `queue` is the limit of both together.
    A packet that both the step and PI2 mark counts twice.

    Debian's kernels are built without it: it takes the engine `uml` and an image of Linux 7.3.
    """

    target: Time = Field(15_000, ge=1, description="Time that packets of the classic queue shall wait.")
    tupdate: Time = Field(16_000, ge=1, description="Time between two updates of the share that PI2 drops or marks.")
    step: Time = Field(1000, ge=1, description="A packet of the L4S queue that has waited longer is marked.")
    coupling: int = Field(
        2, ge=1, le=255, description="The classic queue's share, unsquared, times this is the least share of L4S."
    )


class Policer(Model):
    """A policer behind the queue and before the middleboxes: a token bucket without a queue.

    It drops each packet that its bucket has too few bytes for. `burst` is what an idle bucket passes at the link's
    rate; in the long run it passes `rate`. It counts IP packets.
    """

    rate: Rate = Field(description="Its rate in the long run.")
    burst: int = Field(ge=200, le=1 << 26, description="Size of its bucket in bytes, at least the path's `mtu`.")

    @model_validator(mode="after")
    def _fills(self) -> Self:
        if self.burst * 8 > POLICER_FULL_S * self.rate:
            raise ValueError(f"burst: {self.burst} bytes take longer than {POLICER_FULL_S} s at the rate")
        return self


class Strip(Model):
    """A middlebox that takes TCP options away: it writes NOPs over them."""

    kinds: list[Annotated[int, Field(ge=2, le=255)]] = Field(
        min_length=1, description="Option kinds to take away. Kinds 0 and 1 are padding."
    )
    syn: bool = Field(description="Whether SYN segments lose them as well.")


class Rewrite(Model):
    """A middlebox that writes 16 bits into a TCP option of every segment that has it.

    It writes an MSS (kind 2, offset 2) only where the new one is smaller.
    """

    kind: int = Field(ge=2, le=255, description="Option kind.")
    offset: int = Field(ge=2, le=38, description="Place of the write, in bytes from the option's first byte.")
    value: int = Field(ge=0, le=0xFFFF, description="The 16 bits.")


class Uplink(Model):
    """`asymcc uplink`, or a rival, ahead of a modem, which is the queue behind its device."""

    law: Literal["asymcc", "autorate", "autorate-rtt"] = Field(
        "asymcc",
        description="`autorate`: cake-autorate's law sets the rate of the last hop's CAKE, by ICMP's timestamps; "
        "`autorate-rtt`: by half of the RTT.",
    )
    at: Literal["router", "host"] = Field(
        "router",
        description="`router`: in place of the last hop's `reverse` queue. `host`: the first entry's right host.",
    )
    rate: Rate | None = Field(None, description="Its first rate.", json_schema_extra={"without": "it searches"})
    least: Rate | None = Field(
        None, description="It never shapes to less.", json_schema_extra={"without": '`"100kbit"`'}
    )
    most: Rate | None = Field(None, description="It never shapes to more.", json_schema_extra={"without": '`"10gbit"`'})

    down: bool = Field(False, description="It shapes what arrives as well, by an ifb.")

    probe: bool = Field(False, description="It asks the first entry's left host for ICMP's timestamps if no TCP tells.")

    def check_rival(self, has_cake: bool) -> None:
        """`has_cake`: the path has one for it, and IPv4."""
        if self.at == "host" or not has_cake:
            raise ValueError(
                f"uplink.law: {self.law} sets the rate of a router's CAKE, by pings of IPv4: give the last hop's "
                "`reverse` a `cake`"
            )
        if self.rate or self.down or self.probe or not (self.least and self.most):
            raise ValueError(
                f"uplink: {self.law} needs `least` and `most`, and no more: its base is that of the last "
                "hop's `reverse`"
            )


ANYWHERE: tuple[Literal["codel", "fq_codel", "pie", "fq"], ...] = ("codel", "fq_codel", "pie", "fq")  # on any kernel
DISCIPLINES: tuple[Literal["codel", "fq_codel", "pie", "fq", "dualpi2"], ...] = (*ANYWHERE, "dualpi2")
RULES = ("red", "cake", *DISCIPLINES)  # of which a queue has one at most
