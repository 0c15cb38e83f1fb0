# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One experiment on the kernel it stands on: the guest's, or a live host's.

Builds the network in namespaces of its own, checks it, sends traffic, traces, takes everything down again. The
output folder has then:

    agent.json   self-check, counters, sysctls, the clock that the trace's times count from
    trace.bin    records of `asymcc trace`
    forward.pcap, reverse.pcap   where the job asks for a capture: headers of what left the first hop's queues; of hop 2
                                 forward-2.pcap, and so on
    uplink.txt   the log of `asymcc uplink` or its rival, where one runs
"""

import contextlib
import fcntl
import json
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from .audit import Audit
from .autorate import Autorate
from .capture import Capture
from .check import NO_NETEM, carried, check_slots, missing, qdiscs_missing, self_check
from .controllers import Cgroup, Controllers, Record, in_cgroup
from .counters import Loads, memory_check, netstat, snapshot
from .delayer import Delayer, check_delays, delay
from .job import Autorate as FromPings
from .job import ChangePath, Command, Job, SetParameters
from .net import Namespaces, add_nodes, build_network, change_path, coalesce, send_ect1
from .player import Player, play
from .policer import police
from .protocol import BRANCH, SHARED, Fault
from .subflows import allow
from .system import SIGNALS, Failure, sh
from .tracer import Tracer
from .traffic import Background, Traffic
from .uplink import LOG, Uplink

SETTLE_S = 0.5  # between the last set-up step and time zero: servers listen, the tracer runs


def run(job: Job, out: str, objects: str, prefix: str, record: Record) -> None:
    """One experiment, all of it; raises Failure. Leaves nothing but the output folder."""
    phases: dict[str, float] = {}  # seconds of this kernel's clock at the end of each
    reached = partial(_reached, phases)
    reached("agent started")
    with contextlib.ExitStack() as cleanup:  # each step of it runs, whatever the others do
        ns = Namespaces(prefix)
        cleanup.callback(ns.close)
        if lacks := missing(job, ns, objects):
            raise _cannot_run(lacks)
        reached("requirements checked")
        cgroup, for_cgroup = _cgroup(job, objects, f"{prefix}run", cleanup)
        audit = Audit() if job.audit else None
        controllers = Controllers(objects, cgroup, for_cgroup, record)
        cleanup.callback(controllers.close)
        cleanup.callback(ns.remove, "probe")  # asymcc looks into each namespace, by 180 system calls
        controllers.load(job.controllers)
        if job.thin is not None and not job.thin_on:
            controllers.thin(job.thin)
        if audit:
            audit.look()
        reached("controllers loaded")
        try:
            sysctls = add_nodes(job, ns)
            if relay := record.relay(job, ns):
                cleanup.callback(relay.close)
            build_network(job, ns, relay.devices if relay else ())
            allow(job, ns)
            send_ect1(job, ns, objects)
            if job.thin is not None and job.thin_on:
                with ns.enter(job.node_of(job.thin_on)):
                    controllers.thin(job.thin, job.thin_on)
            players, delayers = play(job, ns, objects), delay(job, ns, objects)
        except Failure:
            if lacks := [lack for lack in qdiscs_missing(job, ns) if not (record.lasts and lack == NO_NETEM)]:
                raise _cannot_run(lacks) from None
            raise
        played: tuple[Player | Delayer, ...] = (*players, *delayers)
        for way in played:
            cleanup.callback(way.close)
        reached("network built")
        print("first packet", flush=True)
        checks = [*self_check(job, ns, players, relay.devices if relay else ()), *police(job, ns)]
        coalesce(job, ns)
        checks += [*check_slots(job, ns), *check_delays(job, ns, delayers)]
        reached("self-check made")
        running = _start(job, ns, controllers, audit, played, out, cleanup, relay)
        reached("tracing")
        zero, marks = _play(running)
        if running.capture:
            running.capture.finish()
        reached("flows ended")
        checks += [memory_check(job, ns), *carried(players, zero, marks)]
        result = _result(running, zero, marks) | {"phases": phases, "self_check": checks, "sysctls": sysctls}
        if not (audit or record.lasts):
            cleanup.pop_all()  # some 100 million instructions
    if audit:
        result |= audit.finish()
    with open(f"{out}/agent.json", "w") as f:
        json.dump(result, f)


def _cannot_run(lacks: list[str]) -> Failure:
    return Failure("cannot run here: " + "; ".join(lacks))


def _reached(phases: dict[str, float], phase: str) -> None:
    phases[phase] = time.monotonic()


def _cgroup(job: Job, objects: str, name: str, cleanup: contextlib.ExitStack) -> tuple[str | None, list[str]]:
    """The path of the run's own cgroup, if a controller or a command needs one; and the controllers that do."""
    for_cgroup = in_cgroup(job, objects)
    used = any(isinstance(change, Command) and change.command in ("use", "unuse") for change in job.changes)
    if not for_cgroup and not used and (job.thin is None or job.thin_on):
        return None, []
    cgroup = Cgroup(name)
    cleanup.callback(cgroup.close)
    return cgroup.path, for_cgroup


@dataclass(frozen=True)
class Running:
    """All that runs while the flows do."""

    job: Job
    ns: Namespaces
    controllers: Controllers
    audit: Audit | None
    players: tuple[Player | Delayer, ...]
    traffic: Traffic
    background: Background
    tracer: Tracer
    capture: Capture | None
    loads: Loads
    relay: Any = None  # of links (host.py)
    uplink: Uplink | Autorate | None = None

    def check(self) -> None:
        self.traffic.check()
        self.background.check()
        self.tracer.check()
        if self.relay:
            self.relay.check()
        if self.uplink:
            self.uplink.check()

    def apply(self, change: SetParameters | Command | ChangePath) -> None:
        if isinstance(change, ChangePath):
            change_path(self.job, self.ns, self.relay.take(change.path) if self.relay else change.path)
        elif isinstance(change, SetParameters):
            values = [f"{k}={v}" for k, v in sorted(change.set.items())]
            sh("asymcc", "set", change.controller, *values, kind=Fault.SET)
        else:
            (c,) = (c for c in self.job.controllers if c.name == change.controller)
            self.controllers.command(c, change)
            if self.audit:
                self.audit.look()


def _start(
    job: Job,
    ns: Namespaces,
    controllers: Controllers,
    audit: Audit | None,
    players: tuple[Player | Delayer, ...],
    out: str,
    cleanup: contextlib.ExitStack,
    relay: Any,
) -> Running:
    """Receivers listen, senders wait, the tracer is attached."""
    traffic = Traffic(job, ns)
    cleanup.callback(traffic.close)
    traffic.serve()
    background = Background(job, ns)
    cleanup.callback(background.close)
    uplink = _uplink(job, ns, controllers.objects, f"{out}/{LOG}")
    if uplink:
        cleanup.callback(uplink.close)
    tracer = Tracer(job, controllers.objects, f"{out}/trace.bin")
    cleanup.callback(tracer.close)
    tracer.wait_until_attached()
    capture = None
    if job.capture:
        capture = Capture(job, ns, out)
        cleanup.callback(capture.close)
    loads = Loads(job, ns)
    cleanup.callback(loads.close)
    return Running(job, ns, controllers, audit, players, traffic, background, tracer, capture, loads, relay, uplink)


def _uplink(job: Job, ns: Namespaces, objects: str, log: str) -> Uplink | Autorate | None:
    spec = job.uplink
    if isinstance(spec, FromPings):
        return Autorate(job, ns, spec, log)
    return Uplink(job, ns, objects, spec, log) if spec else None


# --- the schedule --------------------------------------------------------------------------


class Rank(IntEnum):
    """The order of what happens at the same time."""

    CHANGE = 0  # first what there is changes or stops: what begins then finds the new
    BEGIN = 1
    MEASURE = 2  # from here on all that has begun counts
    END = 3


class Event(NamedTuple):
    at_s: float  # from time zero
    rank: Rank
    act: Callable[[], None]


def schedule(running: Running, mark: Callable[[str], None]) -> list[Event]:
    """All that happens, in its order; `mark` takes the counters."""
    job = running.job
    events = [
        Event(job.measure_from_s, Rank.MEASURE, partial(mark, "measure")),
        Event(job.duration_s, Rank.END, partial(mark, "end")),
        *_of_flows(job, running.traffic),
        *(Event(change.at_s, Rank.CHANGE, partial(running.apply, change)) for change in job.changes),
        *_of_background(job, running.background),
    ]
    return sorted(events, key=lambda event: (event.at_s, event.rank))


def _of_flows(job: Job, traffic: Traffic) -> Iterator[Event]:
    for flow in job.flows:
        if flow.subflow:
            continue
        yield Event(flow.start_s, Rank.BEGIN, partial(traffic.start, flow))
        if flow.stop_s is not None:
            yield Event(flow.stop_s, Rank.CHANGE, partial(traffic.stop, flow))
        if flow.resume_s is not None:
            yield Event(flow.resume_s, Rank.CHANGE, partial(traffic.resume, flow))


def _of_background(job: Job, background: Background) -> Iterator[Event]:
    for load in job.background:
        yield Event(load.start_s, Rank.BEGIN, partial(background.start, load))
        if load.stop_s is not None:
            yield Event(load.stop_s, Rank.CHANGE, partial(background.stop, load))


def sleep_until(t_ns: int) -> None:
    """The one place where a signal may come in: everything else ends what it has begun."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        while (left := t_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _play(running: Running) -> tuple[int, dict[str, dict]]:
    """The experiment proper. Returns time zero, and the counters at measure_from and at the end."""
    bin_ns = running.job.bin_ms * 10**6
    zero = (time.monotonic_ns() + int(SETTLE_S * 1e9)) // bin_ns * bin_ns + bin_ns
    marks: dict[str, dict] = {}
    for player in running.players:
        player.begin(zero)
    if branch := running.job.branch:
        with open(SHARED, "rb", buffering=0) as lab:
            fcntl.ioctl(lab, BRANCH, struct.pack("QQ", zero + round(branch.at_s * 1e9), branch.draw))

    def mark(name: str) -> None:
        marks[name] = snapshot(running.job, running.ns, running.loads)
        if running.relay:
            marks[name]["late"] = running.relay.late()

    for event in schedule(running, mark):
        sleep_until(zero + int(event.at_s * 1e9))
        running.check()
        event.act()
    return zero, marks


def _thin(running: Running) -> dict:
    where = running.controllers.thins
    if not running.job.thin_on:
        return running.controllers.shown("thin")
    with running.ns.enter(running.job.node_of(running.job.thin_on)):
        return running.controllers.shown("thin", *where)


# --- the result ----------------------------------------------------------------------------


def _result(running: Running, zero: int, marks: dict[str, dict]) -> dict:
    traced = running.tracer.finish()
    a, b = marks["measure"], marks["end"]
    result = {
        "kernel": os.uname().release,
        "zero_ns": zero,
        "bin_ms": running.job.bin_ms,
        "zero_unix_ns": zero + time.time_ns() - time.monotonic_ns(),
        "cpu_busy": 1 - (b["cpu_idle_s"] - a["cpu_idle_s"]) / ((b["t_ns"] - a["t_ns"]) / 1e9),
        "marks": marks,
        "controllers": running.controllers.show(),
        "traced": traced,
    }
    if running.audit:
        result["receivers"] = {h: netstat(running.ns, h) for h in sorted({f.dst for f in running.job.flows})}
    if running.job.thin is not None:
        result["thin"] = _thin(running)
    if replies := running.traffic.replies:
        result["replies"] = {
            number: [(asked - zero, took) for asked, took in of] for number, of in sorted(replies.items())
        }
    if endings := running.traffic.endings:
        result["closed"] = {
            number: (told[0] - zero, told[1]) for number, of in sorted(endings.items()) if (told := of.told())
        }
    if running.relay:
        result["relay"] = running.relay.devices
    if running.job.verify:
        result["verified"] = {number: tally.told() for number, tally in sorted(running.traffic.tallies.items())}
    return result
