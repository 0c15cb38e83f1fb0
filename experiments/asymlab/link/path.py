# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From a link in a user's words to the scenario that tries controllers on it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .. import LabError
from ..controllers import LINUX
from ..plan import objects, opportunities
from ..plan.opportunities import Opportunities
from ..plan.quantities import Rate, Share, Time
from ..plan.scenario import BIN_MS

MTU = 1500
THIN, PRESET = "+thin", ":"  # NAME[:PRESET][+thin]
DEFAULT = ("cubic", "bbr", "bbr3", "fast", "fusion", "taichung", "pseudorate", "formosa", "cubic" + THIN)
OTHERS = "cubic"  # whose flows share most links
# Behind a name in the title of a run. The first to come may win, so each begins with CUBIC, and after it.
BESIDE, AFTER = f" beside {OTHERS}", f" after {OTHERS}"
UPLOAD, FOUR, REPLIES = " with an upload", f" four beside four of {OTHERS}", " in replies"
FOUR_FLOWS = 4
WIRE_BPS, WIRE_PACKETS = 10**9, 1000  # between a router and its modem
UPLOAD_LONGER = 2  # an upload's queue is seconds long on a slow uplink, and drains once in a while
# A page's objects, but no more than the link carries in half of a second, each over a window that has begun anew: after
# a pause longer than its timer Linux starts as a new connection does.
REPLY, REPLY_S, REPLY_ROUNDS = 100_000, 0.5, 4
# A modem asks for its turn and waits for it. DOCSIS gives turns each 2 ms, and LTE lets a handset ask each 5 or 10 ms,
# so a packet waits for some 0 to 4 ms more, without any queue. A path without such noise flatters what measures delay.
# On a short path the noise is a tenth of the RTT.
NOISE_US, NOISE_ROUNDS = 2000, 0.1
RADIO = {"fusion": "fusion:radio"}  # on links that lose packets at random

# How long a run is. It depends on the link alone: another machine, or one more controller, changes no result.
PACKETS = 36_000  # of a run where they are enough: by QEMU 24 runs take some two minutes of two quiet cores
USUAL_S, USUAL_ROUNDS = 60, 100  # the longer of the two is enough where packets are few
ROUNDS = 60  # round trips that a run has, but for
STRETCH = 4  # times PACKETS; then as many as these allow
LEAST_S, LEAST_ROUNDS, LEAST = 3, 20, 300  # seconds, round trips, packets of any run
LATER = 8  # of a run this part has passed when the flow after CUBIC's begins
# A longer run tells whether the advised one still shares the link: at 100 Mbit/s and 40 ms BBRv3 leaves
# CUBIC 33 Mbit/s in 4 s, and 13 in 240.
LASTS_S, LASTS_PACKETS, LASTS_MORE = 120, 1_000_000, 2

QUEUE_MIN = 10  # packets of the default queue
FLOWS_MAX = 200  # the scenario's count
SMALL = 2_500_000  # bytes in flight for which Linux's default buffers have room


def parsed(option: str, kind: Any, text: str) -> Any:
    try:
        return TypeAdapter(kind).validate_python(text)
    except ValidationError as e:
        raise LabError(f"--{option} {text}: {e.errors()[0]['msg'].removeprefix('Value error, ')}") from None


@dataclass(frozen=True)
class Link:
    """A path with one bottleneck each way. Texts are as the user has them, with their units."""

    rate: str  # toward the receiver of the data
    rtt: str  # while the queues are empty
    reverse: str = ""  # of the ACKs; the same if not given
    queue: int = 0  # packets, each way; 0: one bandwidth-delay product
    loss: str = "0%"  # of the data
    flows: int = 1
    duration: str = ""  # of a run; derived if not given
    alone: bool = False  # nobody else uses it
    tuned: bool = False  # the hosts' socket buffers limit nobody
    jitter: str = ""  # of the delay, each way; derived if not given
    trace: str = ""  # in place of the rate: a file
    back_queue: int = 0  # packets of the ACKs' queue, if it is another
    pie: str = ""  # the direction whose queue has PIE
    like: str = ""  # the name it has in real.py

    def __post_init__(self) -> None:
        _ = self.rate_bps, self.reverse_bps, self.rtt_us, self.loss_share, self.duration_s
        if self.jitter_us > self.rtt_us // 2:
            raise LabError(f"--jitter {self.jitter}: must be at most half of the RTT, {self.rtt}")
        if self.flows > FLOWS_MAX:
            raise LabError(f"--flows {self.flows}: must be {FLOWS_MAX} or less")

    @cached_property
    def played(self) -> Opportunities | None:
        return opportunities.read(Path(self.trace).absolute()) if self.trace else None

    @cached_property
    def rate_bps(self) -> int:
        """The rate; a trace has its mean."""
        return self.played.rate_bps if self.played else parsed("rate", Rate, self.rate)

    @cached_property
    def reverse_bps(self) -> int:
        return parsed("reverse", Rate, self.reverse) if self.reverse else self.rate_bps

    @cached_property
    def jitter_us(self) -> int:
        return parsed("jitter", Time, self.jitter) if self.jitter else min(NOISE_US, int(self.rtt_us * NOISE_ROUNDS))

    @cached_property
    def rtt_us(self) -> int:
        return parsed("rtt", Time, self.rtt)

    @cached_property
    def loss_share(self) -> float:
        return parsed("loss", Share, self.loss)

    @property
    def bdp(self) -> float:
        """Packets that the path holds."""
        return self.pps * self.rtt_us / 1e6

    @property
    def pps(self) -> float:
        return self.rate_bps / 8 / MTU

    @property
    def packets(self) -> int:
        """The length of a queue."""
        return self.queue or max(round(self.bdp), QUEUE_MIN)

    @property
    def profile(self) -> str:
        """Hosts as they come, if a flow may have more in flight than they buffer. If not, larger buffers give the same
        in half of the time: a receiver that never runs out need not read each packet at once."""
        large = (self.bdp + self.packets) / self.flows * MTU > SMALL
        return "linux" if large and not self.tuned else "tuned"

    @cached_property
    def duration_s(self) -> float:
        """The time of a run. Its second half is measured."""
        if self.duration:
            given = parsed("duration", Time, self.duration)
            if given < 10**6 or given % (BIN_MS * 1000):
                raise LabError(f"--duration {self.duration}: must be at least 1s, and whole tenths of a second")
            return given / 1e6
        usual = max(USUAL_S, USUAL_ROUNDS * self.rtt_us / 1e6)
        if self.played and self.played.period_ms / 500 * self.pps <= STRETCH * PACKETS:
            # It is played once, and then measured once.
            return max(math.ceil(self.played.period_ms / 50) / 10, LEAST_S)
        # On a long path more than PACKETS, rather than too few round trips.
        enough = max(PACKETS, min(ROUNDS * self.bdp, STRETCH * PACKETS)) / self.pps
        least = max(LEAST_S, LEAST_ROUNDS * self.rtt_us / 1e6, LEAST / self.pps)
        tenths = round(10 * max(min(usual, enough), least))
        unit = 10 if tenths >= 100 else 2
        whole = tenths // unit * unit
        return (whole if whole >= 10 * least else whole + unit) / 10

    @cached_property
    def lasting(self) -> Link | None:
        """The same link in longer runs; None: they would not be LASTS_MORE times as long, or nobody asks."""
        seconds = min(LASTS_S, round(LASTS_PACKETS / self.pps))
        if self.alone or self.duration or seconds < LASTS_MORE * self.duration_s:
            return None
        return replace(self, duration=f"{seconds}s")

    @property
    def measured_s(self) -> float:
        """The lab measures whole tenths."""
        return self.duration_s - self.duration_s * 10 // 2 / 10

    def notes(self) -> list[str]:
        """The reasons why the numbers are less certain than they look."""
        found, rtt_s = [], self.rtt_us / 1e6
        if self.played and self.played.period_ms > 1e3 * self.measured_s:
            found.append(
                f"of the trace's {self.played.period_ms / 1e3:g} s the runs measure {self.measured_s:g} s: "
                f"--duration {math.ceil(self.played.period_ms / 500)}s measures as long as it is"
            )
        rounds = self.measured_s / rtt_s if rtt_s else float("inf")
        if rounds < ROUNDS / 2:
            found.append(
                f"only {rounds:.0f} round trips are measured, and controllers may still be on their way: "
                f"--duration {math.ceil(ROUNDS * rtt_s)}s shows more"
            )
        # RFC 9438: from a loss to the window before it, K = cbrt(W (1 - beta) / C), beta 0.7, C 0.4.
        cycle = ((self.bdp + self.packets) / self.flows * 0.3 / 0.4) ** (1 / 3)
        if not self.loss_share and cycle > self.measured_s:
            found.append(
                f"CUBIC takes some {cycle:.0f} s from one loss to the next here, and a part of that is measured: "
                f"--duration {math.ceil(2 * cycle)}s shows it whole"
            )
        return found

    def said(self) -> str:
        """The link in words."""
        queue = f"{self.packets} packets" + ("" if self.queue else " (one bandwidth-delay product)")
        if not self.queue and self.packets == QUEUE_MIN:
            queue = f"{QUEUE_MIN} packets (the least)"
        if self.back_queue:
            queue += f", {self.back_queue} for the ACKs"
        if self.pie:
            queue += f", with PIE in that of the {'ACKs' if self.pie == 'reverse' else 'data'}"
        flows = f", {self.flows} flows" if self.flows > 1 else ""
        lost = f", {self.loss} of the data lost" if self.loss_share else ""
        jitter = f", jitter of {self.jitter_us / 1e3:g} ms each way" if self.jitter_us else ""
        mean = f"{self.rate_bps / 1e6:.3g}mbit"
        there = f"{Path(self.trace).name} ({mean} on average)" if self.trace else self.rate
        back = self.reverse or (mean if self.trace else self.rate)
        return f"{there} toward the receiver, {back} back, RTT {self.rtt}{jitter}, queues of {queue}{lost}{flows}"

    @property
    def name(self) -> str:
        """The begin of its files' names."""
        loss = f"-{self.loss.strip().removesuffix('%').strip()}pc" if self.loss_share else ""
        flows = f"-{self.flows}flows" if self.flows > 1 else ""
        more = ("-alone" if self.alone else "") + ("-tuned" if self.tuned else "")
        rate = re.sub(r"[^\w.-]", "_", Path(self.trace).name) if self.trace else self.rate
        jitter = f"-jitter{self.jitter}" if self.jitter else ""
        queue = f"{self.packets}{f'-{self.back_queue}' if self.back_queue else ''}{'-pie' if self.pie else ''}"
        words = f"{rate}-{self.reverse or rate}-{self.rtt}{jitter}-{queue}{loss}{flows}{more}"
        return words.replace(" ", "")


def split(name: str) -> tuple[str, str]:
    """Controller and preset ("": none) of NAME[:PRESET][+thin]. Behind a path the colon chooses a controller in it."""
    name = name.removesuffix(THIN)
    base, _, preset = (name, "", "") if objects.is_file(name) else name.partition(PRESET)
    return base, preset


def presets(base: str) -> dict[str, dict[str, int]]:
    """Values of each preset of a controller, as `asymcc load --preset` sets them."""
    found = objects.shown(base)["presets"] if base not in LINUX else []
    values = ((p["name"], (pair.partition("=") for pair in p["values"].split())) for p in found)
    return {name: {key: int(value) for key, _, value in pairs} for name, pairs in values}


def names(asked: list[str], link: Link) -> list[str]:
    """The runs, each once. A controller has its preset for random loss if none are asked for. NAME+thin is beside
    NAME, and comes after all others."""
    wanted = list(asked or [RADIO.get(name, name) if link.loss_share else name for name in DEFAULT])
    for name in wanted:
        base, preset = split(name)
        whole = objects.absolute(base, LINUX)
        if objects.is_file(whole) and objects.parsed(whole).module:
            raise LabError(f"{whole}: link asks what an object has, and a module does not tell: run a scenario")
        if not objects.is_file(base) and PRESET in name and preset not in (its := presets(base)):
            has = f"there are {', '.join(its)}" if its else f"{base} has none"
            raise LabError(f"{name[:60]}: no preset {preset[:40]!r}; {has}")
    wanted = [name.removesuffix(THIN) for name in wanted] + [name for name in wanted if name.endswith(THIN)]
    return list(dict.fromkeys(wanted))


def of_path(link: Link, base: str) -> dict[str, int]:
    """Parameters that depend on the path."""
    if base == "fast":
        # Its authors' alpha by rate, as its default; on a long path more: a flow grows by half of it a round trip. The
        # flows together leave half of the queue free.
        usual = next(alpha for limit, alpha in ((10e6, 8), (100e6, 20), (float("inf"), 200)) if link.rate_bps < limit)
        wanted = max(usual, round(link.bdp / 10 / link.flows))
        return {"alpha": max(min(wanted, link.packets // 2 // link.flows), 1)}
    return {}


def parameters(link: Link, name: str) -> dict[str, int]:
    """Those of the path; a preset's win."""
    base, preset = split(name)
    return of_path(link, base) | (presets(base)[preset] if preset else {})


def flow(link: Link, controller: str) -> dict:
    return {"controller": controller, "ack": "delayed"} | ({"count": link.flows} if link.flows > 1 else {})


def point(link: Link, name: str, where: str = "") -> dict:
    """The keys that are special about one run; its title names it."""
    base = objects.absolute(split(name)[0], LINUX)
    found: dict[str, Any] = {"title": name + where, "flows": flows(link, base, where)}
    if where == FOUR:
        found["run.start_jitter"] = start_jitter(link)
    if where == UPLOAD:
        found["run.duration"] = f"{UPLOAD_LONGER * link.duration_s:g}s"
    if given := parameters(link, name):
        found[f"controllers.{base}"] = given
    if name.endswith(THIN):
        found["thin"] = {"reverse_kbit": reverse_kbit(link)}
    return found


def flows(link: Link, controller: str, where: str) -> list[dict]:
    late = {"start": f"{round(link.duration_s / LATER * 1e6)}us"}
    own, others = flow(link, controller), flow(link, OTHERS)
    four = {"count": max(link.flows, FOUR_FLOWS)}
    size = max(min(REPLY, round(link.rate_bps / 8 * REPLY_S)), MTU)
    every = max(round(REPLY_S * 1e6), REPLY_ROUNDS * link.rtt_us)
    return {
        "": [own],
        BESIDE: [own, others],
        AFTER: [own | late, others],
        UPLOAD: [own, {"controller": OTHERS, "ack": "delayed", "direction": "reverse"} | late],
        FOUR: [own | four, others | four],
        REPLIES: [own | {"reply": size, "every": f"{every}us"}],
    }[where]


def shaped(link: Link) -> dict:
    """The scenario of CUBIC with an upload, and `asymcc uplink` on a router, to which a second hop leads."""
    whole = tree(link, [point(link, OTHERS, UPLOAD) | {"uplink": {"at": "router"}}])
    modem = {way: whole["path"].pop(way) for way in ("forward", "reverse")}
    wire = {"rate": f"{max(link.rate_bps, link.reverse_bps, WIRE_BPS)}bit", "delay": "0us", "queue": WIRE_PACKETS}
    whole["path"]["hops"] = [modem, {"forward": wire, "reverse": wire}]
    return whole


def start_jitter(link: Link) -> str:
    """Real flows begin at moments of their own."""
    return f"{round(link.duration_s / 4 * 1e6)}us"


def points(link: Link, controllers: list[str]) -> list[dict]:
    """All that may be asked of each: alone first, and with CUBIC, by which the others are measured."""
    if link.alone:
        return [point(link, name) for name in controllers]
    if OTHERS not in controllers:
        controllers = [*controllers, OTHERS]
    asked = ("", UPLOAD, BESIDE, AFTER, *([FOUR] if link.flows < FOUR_FLOWS else []), REPLIES)
    return [point(link, name, where) for where in asked for name in controllers if fits(name, where)]


def fits(name: str, where: str) -> bool:
    """Whether this is asked of it. Thinned ACKs are for the receiver, who has no say in what its sender shares."""
    return where in ("", UPLOAD) if name.endswith(THIN) else name + where != OTHERS + AFTER


def reverse_kbit(link: Link) -> int:
    """The reverse rate in the unit of `asymcc thin --reverse`."""
    return min(link.reverse_bps // 1000, 10**7)


def tree(link: Link, points: list[dict]) -> dict:
    """The scenario: a case for each point."""
    there, back = link.rtt_us // 2, link.rtt_us - link.rtt_us // 2
    jitter = {"jitter": f"{link.jitter_us}us"} if link.jitter_us else {}
    rate = {"trace": str(Path(link.trace).absolute())} if link.trace else {"rate": link.rate}
    reverse = f"{link.reverse_bps}bit"
    forward: dict[str, Any] = {**rate, "delay": f"{there}us", "queue": link.packets, "loss": link.loss, **jitter}
    backward: dict[str, Any] = {"rate": link.reverse or link.rate or reverse, "delay": f"{back}us"}
    backward |= {"queue": link.back_queue or link.packets, **jitter}
    if link.pie:
        (forward if link.pie == "forward" else backward)["pie"] = {}
    run = {"duration": f"{link.duration_s:g}s", "traffic": "plain"}
    if link.flows > 1:
        run["start_jitter"] = start_jitter(link)
    return {
        "title": "one link",
        "id": "LINK",
        "profile": link.profile,
        "path": {"mtu": MTU, "forward": forward, "reverse": backward},
        "flows": [flow(link, OTHERS)],
        "run": run,
        "sweep": {"points": points},
    }
