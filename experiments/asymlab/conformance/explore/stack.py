# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rules that RFCs, and the kernel itself, have for its own TCP, whatever the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ...controllers import REGISTER
from ...guest import job as planned
from ...guest.protocol import FLOW_PORT
from ...plan import topology
from ...plan.scenario import Flow
from .silence import TIMESTAMPS, echoes_syn, leaves
from .view import View

OWN = {"accsa", "bbr", "bbr3", "formosa", "prague"}  # with cong_control: window and pacing rate are theirs
WESTWOOD = {"westwood", "bpf_westwood"}
PACING = OWN | {"fast", "fusion", "pseudorate", "taichung"}  # what leaves may wait for its turn
OPEN, DISORDER, RECOVERY = 0, 1, 3  # the kernel's states; nothing is taken for lost in the first two
ROUNDED = 1.125  # a timer of the kernel's ends later by an eighth at most
TICK_S = 0.004
DUPACKS = 3
MSS_OPTION, STAMPS = 2, 12  # its kind; bytes of a segment that timestamps take
SEARCH = 2  # as slow_start
UNTOLD = 536  # without that option (RFC 9293, 3.7.1)


def others(v: View, without: set[str]) -> Iterator[tuple[planned.Flow, Flow]]:
    """The flows of controllers that have a record, but those. `use` gives new connections another one."""
    if any(c.command == "use" for c in v.scenario.changes):
        return
    for job, flow in v.flows():
        if v.law(job) in REGISTER.keys() - without:
            yield job, flow


def mtu_changes(v: View) -> bool:
    """After that, old packets are too large, and a receiver may wait for as many bytes as before."""
    return any(c.mtu for c in v.scenario.changes)


def handshake_lacks(v: View, kind: int) -> bool:
    """Whether a middlebox takes options of that kind from SYNs."""
    strips = [d.strip for phases in v.phases.values() for _, d in phases if d.strip]
    return any(strip.syn and kind in strip.kinds for strip in strips)


def segment(v: View) -> int:
    """The least payload of a full segment, bytes: after a change of the MTU, or of the option that tells it."""
    mtus = [v.scenario.path.mtu, *(c.mtu for c in v.scenario.changes if c.mtu)]
    told = [r.value for phases in v.phases.values() for _, d in phases for r in d.rewrite if r.kind == MSS_OPTION]
    told += [UNTOLD] if handshake_lacks(v, MSS_OPTION) else []
    return min(min(mtus) - topology.header_bytes(v.scenario), *(mss - STAMPS for mss in told), 1 << 16)


def pace(v: View) -> Iterator[tuple[str, str]]:
    """The stack paces by 1.2 windows a round trip or more (net.ipv4.tcp_pacing_ca_ratio).

    A command that replaces a route leaves a connection an MSS of 36 for a while; a receiver's short buffer a short one.
    """
    until = min((c.at / 1e6 for c in v.scenario.changes if c.command), default=v.end)
    for job, flow in others(v, OWN):
        if flow.sink_sysctls:
            continue
        acks = v.acks(job)[1:]  # the first may find the rate from before any RTT
        acks = acks[(acks["srtt_us"] > 0) & (acks["t"] < until)]
        least = 1.2 * segment(v) * acks["cwnd"].astype("f8") / (acks["srtt_us"] + 1.0) * 1e6 - 1
        for k in np.flatnonzero(acks["pacing"] < least)[:1]:
            words = f"paces by {acks['pacing'][k]} bytes/s, not {least[k]:.0f}, at {acks['t'][k]:.3f} s"
            yield job.controller, f"flow {job.id}: {words}"


def same_segments(v: View) -> int:
    """The payload of a full segment where all have one at most; 0 where they do not."""
    if v.scenario.offloads or mtu_changes(v) or handshake_lacks(v, TIMESTAMPS):
        return 0
    return v.scenario.path.mtu - topology.header_bytes(v.scenario)


def waits_us(acks: np.ndarray, most: int) -> np.ndarray:
    """Beside each ACK, how long ago the first packet without one left, at most; endless if nobody knows.

    It left no sooner than the last ACK came by which all that had left, in segments of `most` bytes, was before it.
    """
    behind = np.cumsum(acks["acked"].astype("i8")) - acks["acked"]  # bytes that were acknowledged before
    calm = np.flatnonzero(acks["ca_state"] == OPEN)
    left = np.maximum.accumulate((behind + acks["in_flight"].astype("i8") * most)[calm])
    last = np.searchsorted(left, behind, side="right")
    since = np.concatenate([[-np.inf], acks["t"][calm]])[last]
    return 1e6 * (acks["t"] - np.minimum(since, acks["t"]))


def repair(v: View) -> Iterator[tuple[str, str]]:
    """A recovery begins with a retransmission (RFC 5681, 3.2; PRR forces it, RFC 9937).

    Linux sends none where one of an undone timeout is still under way: it stops when as many are as are lost. So the
    first packet without ACK must have left since the last recovery.
    """
    most = same_segments(v)
    for job, _ in others(v, PACING) if most else ():
        acks = v.acks(job)
        calm, waits_s = acks["ca_state"] <= DISORDER, waits_us(acks, most)[1:] / 1e6
        before = np.maximum.accumulate(np.where(calm, -np.inf, acks["t"]))[:-1]
        begins = calm[:-1] & (acks["ca_state"][1:] == RECOVERY) & (acks["t"][1:] - waits_s > before)
        if len(wrong := acks[:-1][begins & (acks["retrans"][1:] == acks["retrans"][:-1])]):
            yield job.controller, f"flow {job.id}: the recovery of {wrong['t'][0]:.3f} s begins with no retransmission"


def delivered_behind(acks: np.ndarray, k: int) -> int:
    """How many packets were, when the ACK behind k came, behind the first one without ACK; many if nobody knows."""
    new = np.flatnonzero(acks["acked"][: k + 1] > 0)[-1:].max(initial=-1)
    calm = np.flatnonzero(acks["ca_state"][: k + 1] == OPEN)[-1:].max(initial=-1)
    return int(acks["delivered"][k + 1]) - int(acks["delivered"][calm]) if calm > new else DUPACKS


def early(v: View) -> Iterator[tuple[str, str]]:
    """Unless three packets behind it are delivered, none is lost before RACK's window, a quarter of the least RTT.

    So its recovery begins that much later than the round trip of what was delivered last (RFC 8985, 6.2).
    """
    if not (most := same_segments(v)):
        return
    for job, flow in v.flows():
        acks, base = v.acks(job), v.base_us(flow)
        waits = waits_us(acks, most)
        for k in map(int, np.flatnonzero((acks["ca_state"][:-1] <= DISORDER) & (acks["ca_state"][1:] == RECOVERY))):
            waited, rtt = waits[k + 1], int(acks["rtt_us"][k + 1])
            if delivered_behind(acks, k) < DUPACKS and waited < rtt + (base - 1000) / 4:
                yield (
                    job.controller,
                    f"flow {job.id}: a packet is lost {waited / 1e3:.1f} ms after it left, at {acks['t'][k]:.3f} s; "
                    f"a later one took {rtt / 1e3:.1f} ms, and the path takes {base / 1e3:.1f}",
                )
                break


def sample(v: View) -> Iterator[tuple[str, str]]:
    """No sample of an RTT is older than what it is of (RFC 6298, 3).

    All are where ACKs echo the SYN's timestamp (docs/findings.md, 10).
    """
    most = same_segments(v)
    for job, flow in v.flows() if most else ():
        if echoes_syn(v, flow):
            continue
        acks = v.acks(job)
        smooth = acks["srtt_us"].astype("i8")
        taken = smooth[:-1] + 8 * (np.diff(smooth) - 1)  # an eighth of it moved the smoothed one, which is rounded
        wrong = (smooth[:-1] > 0) & (np.diff(smooth) > 0) & (taken > waits_us(acks, most)[:-1] + 1e6 * TICK_S)
        for k in np.flatnonzero(wrong)[:1]:
            words = f"an RTT of {taken[k] / 1e3:.0f} ms, of what left {waits_us(acks, most)[k] / 1e3:.0f} ms ago"
            yield job.controller, f"flow {job.id}: {words}, at {acks['t'][k]:.3f} s"


def undo(v: View) -> Iterator[tuple[str, str]]:
    """A reduction that is taken back leaves a window as large as before: so says undo_cwnd of all controllers.

    Then ssthresh is what it was, or three quarters of that window. Westwood sets it by itself when a recovery ends.
    After a pause a window begins anew, and of two reductions one alone may be taken back. FAST, and SEARCH at its end,
    set a window as they like.
    """
    given: list[Mapping[str, object]] = [*v.scenario.controllers.values(), *(c.set or {} for c in v.scenario.changes)]
    if any(parameters.get("slow_start") == SEARCH for parameters in given):
        return
    for job, _ in others(v, OWN | WESTWOOD | {"fast"}):
        acks = v.acks(job)
        acks = acks[acks["t"] < (v.end if job.resume_s is None else job.resume_s)]
        calm, ssthresh = acks["ca_state"] <= DISORDER, acks["ssthresh"].astype("i8")
        for k in np.flatnonzero(~calm[:-1] & calm[1:] & (np.diff(ssthresh) > 0)):
            for j in np.flatnonzero(calm[:k])[-1:]:
                before, back = int(acks["cwnd"][j]), int(acks["cwnd"][k + 1])
                if np.ptp(ssthresh[j + 1 : k + 1]):
                    continue
                if ssthresh[k + 1] >= max(ssthresh[j], before // 2 + before // 4) and back < before:
                    words = f"a window of {before} packets is {back} when its reduction is taken back"
                    yield job.controller, f"flow {job.id}: {words}, at {acks['t'][k]:.3f} s"


def backoff(v: View) -> Iterator[tuple[str, str]]:
    """Each timeout is twice the one before, until an ACK comes (RFC 6298, 5.5).

    They show by what the first queue sends again of one segment, if it drops nothing; others may be before it.
    ACKs after close() have no record, and of a large segment a part may come.
    """
    for job, flow in v.flows() if v.scenario.run.capture and not (mtu_changes(v) or v.scenario.offloads) else ():
        if job.size_bytes is not None:
            continue
        hops = v.crossed(flow)
        place = (hops[0] if flow.direction == "forward" else hops[-1], str(flow.direction))
        packets = v.run.capture(place[1], place[0])
        packets = packets[(packets["sport"] == FLOW_PORT + job.id) & (packets["payload"] > 0)]
        packets = np.delete(packets, np.unique(packets["seq"], return_index=True)[1])  # the first time is no timeout's
        edges = [0.0, *v.acks(job)["t"], v.end]
        for since, until in zip(edges, edges[1:]):
            silent = packets[(packets["t"] > since) & (packets["t"] < until)]
            for seq in np.unique(silent["seq"]) if len(silent) > 2 else ():
                if words := wrong_steps(v, place, silent["t"][silent["seq"] == seq]):
                    yield job.controller, f"flow {job.id}: {words}"


def wrong_steps(v: View, place: tuple[int, str], times: np.ndarray) -> str:
    """The first timeout that is not twice the one before; "" if there is none."""
    rows = v.links(place)
    bin_s = v.run.job.bin_ms / 1e3
    if np.any((v.drops(place) > times[0] - bin_s) & (v.drops(place) <= times[-1])):
        return ""
    then = rows["qlen_max"][(rows["t"] > times[0] - bin_s) & (rows["t"] <= times[-1])]
    slack = TICK_S + leaves(v, place, int(then.max(initial=0)), v.packet(place))
    for first, second in zip(steps := np.diff(times), steps[1:]):
        if not 2 * (first - slack) / ROUNDED - slack <= second <= 2 * (first + slack) * ROUNDED + slack:
            return f"timeouts of {first:.2f} and {second:.2f} s, from {times[0]:.2f} s on"
    return ""


def acks(v: View) -> Iterator[tuple[str, str]]:
    """A receiver acknowledges each second segment in order, and each that is not (RFC 5681, 4.2).

    Linux holds back some of the latter for a ms, and counts these; but for each of them it may forget one besides
    (finding 13). The last segment may wait for its ACK. To what comes at once, as a trace delivers it, or as one large
    segment, there may be one answer.
    """
    if v.scenario.offloads or mtu_changes(v) or any(d.trace for phases in v.phases.values() for _, d in phases):
        return
    told = v.run.record["agent"]["receivers"]
    compresses = topology.PROFILES[v.scenario.profile].get("net.ipv4.tcp_comp_sack_nr") != 0
    for host in sorted(told.keys() - {job.src for job, _ in v.flows()}):
        flows = [job for job, _ in v.flows() if job.dst == host]
        rows = v.run.goodput[np.isin(v.run.goodput["flow"], [job.id for job in flows])]
        strays = int(rows["not_next"].sum())
        least = strays // (1 + compresses) + (int(rows["segments"].sum()) - strays) // 2 - len(flows)
        sent = told[host]["TcpOutSegs"] + told[host]["TcpExtTCPAckCompressed"]
        if sent < least:
            yield flows[0].controller, f"{host}: {sent} ACKs of {rows['segments'].sum()} segments, at least {least}"


RULES = (pace, repair, early, sample, undo, backoff, acks)
