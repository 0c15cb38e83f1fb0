# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every number the lab reports, with its definition.

All are taken over the window [measure_from, duration) of a run unless the name says otherwise.
Rates are bit/s, times seconds, queues packets. Bytes on a link are IP bytes (without Ethernet).
"""

from __future__ import annotations

import numpy as np

from ..guest.job import Bottleneck, ChangePath, Flow, Hop, Job, NewShape, Watched
from ..guest.protocol import ip_udp
from ..plan.opportunities import BYTES, Opportunities, kept

ETHERNET = 14  # bytes


def jain(x) -> float:
    """Jain's index (sum x)^2 / (n sum x^2), in [1/n, 1]; 1 for an all-zero vector. Jain et al. 1984."""
    x = np.asarray(x, float)
    square = (x * x).sum()
    return float(x.sum() ** 2 / (len(x) * square)) if square > 0 else 1.0


def goodput_bins(goodput, flow: int, duration_s: float, bin_s: float) -> np.ndarray:
    """Payload bit/s of a flow in order at its receiver, one value per bin from time zero.

    Data behind a gap count when the gap closes: a bin may then exceed the link's rate.
    """
    n = round(duration_s / bin_s)
    rows = goodput[(goodput["flow"] == flow) & (goodput["t"] >= -1e-9) & (goodput["t"] < duration_s - 1e-9)]
    index = np.round(rows["t"] / bin_s).astype(int)
    return np.bincount(index, rows["bytes"], minlength=n)[:n] * 8 / bin_s


def link_window(links, dev: str, start: float, end: float):
    return links[(links["dev"] == dev) & (links["t"] >= start - 1e-9) & (links["t"] < end - 1e-9)]


def link_metrics(rows, rate_bps: float, span_s: float, saved_bytes: int = 0) -> dict:
    """One bottleneck direction: utilisation, packets, ACKs, queue and its delay.

    A packet counts whole as it leaves, and a bucket lets leave at once what it has saved. So more may leave in the span
    than the rate has time for: the link has spent time before the span on up to `saved_bytes` of it.
    """
    packets, ip_bytes = int(rows["packets"].sum()), float((rows["bytes"] - ETHERNET * rows["packets"]).sum())
    queue = float(rows["qlen_sum"].sum() / packets) if packets else 0.0
    size = ip_bytes / packets if packets else 0.0
    before = min(max(ip_bytes - rate_bps * span_s / 8, 0.0), saved_bytes)
    return {
        "utilisation": (ip_bytes - before) * 8 / (rate_bps * span_s),
        "packets": packets,
        "pure_acks": int(rows["pure_acks"].sum()),
        "packet_bytes": size,  # mean size of an IP packet
        "queue_mean": queue,  # mean length seen at departures
        "queue_max": int(rows["qlen_max"].max()) if len(rows) else 0,
        "queue_delay_mean_s": queue * size * 8 / rate_bps,  # that queue at the link's rate
    }


Rates = list[tuple[float, float]]  # a direction's: since when, s, and bit/s


def rates_of(watched: Watched, job: Job) -> Rates:
    """The rate that it begins with (of a trace its mean while the run measures), and those that changes give it."""
    shapes = [end.shape for end in job.ends if end.dev == watched.dev]
    rates = [(0.0, float(watched.rate_bps))]
    for change in job.changes:
        for new in change.path if isinstance(change, ChangePath) else ():
            if isinstance(new, NewShape) and new.dev == watched.dev:
                shapes.append(new.shape)
                first, now = (s.rate_bps for s in (shapes[0], shapes[-1]) if isinstance(s, Bottleneck))
                rates.append((change.at_s, watched.rate_bps * now / first))
    return rates


def saved_bytes(watched: Watched, job: Job) -> int:
    """The most that a direction has saved: its bucket as the measurement begins, and again with each new rate."""
    bursts = [end.shape.burst_bytes for end in job.ends if end.dev == watched.dev and isinstance(end.shape, Bottleneck)]
    for change in job.changes:
        for new in change.path if isinstance(change, ChangePath) else ():
            if isinstance(new, NewShape) and new.dev == watched.dev and isinstance(new.shape, Bottleneck):
                bursts = [*(bursts if change.at_s >= job.measure_from_s else []), new.shape.burst_bytes]
    return sum(bursts)


def mean_rate(rates: Rates, start: float, end: float) -> float:
    """Over a time, whose borders are exact."""
    if len(rates) == 1:
        return rates[0][1]
    ends = [since for since, _ in rates[1:]] + [max(end, rates[-1][0])]
    parts = ((rate, min(until, end) - max(since, start)) for (since, rate), until in zip(rates, ends))
    return sum(rate * span for rate, span in parts if span > 0) / (end - start)


def queue_delay(rows, rates: Rates, bin_s: float) -> float:
    """The queue that departures saw, at the rate of their bin; mean of all packets."""
    packets = np.maximum(rows["packets"], 1)
    ip_bytes = rows["bytes"] - ETHERNET * rows["packets"].astype(float)
    rate = np.array([mean_rate(rates, t, t + bin_s) for t in rows["t"]])
    total = rows["packets"].sum()
    return float((rows["qlen_sum"] * (ip_bytes / packets) * 8 / rate).sum() / total) if total else 0.0


def trace_of(job: Job, dev: str) -> Opportunities | None:
    """The trace that a link plays; None: it has a rate. LookupError: the trace is not on this machine."""
    shape = next((end.shape for end in job.ends if end.dev == dev), None)
    if not isinstance(shape, Bottleneck) or not shape.trace:
        return None
    if trace := kept(shape.trace.file.rpartition("/")[2]):
        return trace
    raise LookupError(f"{shape.trace.file} is not on this machine")


def queue_delay_by_trace(rows, trace: Opportunities, bin_s: float) -> float:
    """The time that the trace takes to carry the queue that departures saw; mean of all packets.

    It is counted from the middle opportunity of their bin.
    """
    total = 0.0
    for row in rows[rows["packets"] > 0]:
        packets, begin = int(row["packets"]), round(row["t"] * 1e3)
        first, last = (trace.until(ms - 1) for ms in (begin, begin + round(bin_s * 1e3)))
        middle = (first + 1 + last) / 2
        queue_bytes = row["qlen_sum"] / packets * (row["bytes"] / packets - ETHERNET)
        total += packets * (trace.time_ms(middle + queue_bytes / BYTES) - trace.time_ms(middle)) / 1e3
    packets = int(rows["packets"].sum())
    return total / packets if packets else 0.0


def percentiles(times_us) -> dict:
    """Percentiles of times, in seconds: RTT samples that the sender took, one an ACK at most, or replies."""
    if not len(times_us):
        return {}
    names = ("min", "p5", "p50", "p95", "p99", "max")
    values = np.percentile(times_us, [0, 5, 50, 95, 99, 100]) / 1e6
    return {**dict(zip(names, map(float, values))), "mean": float(np.mean(times_us) / 1e6)}


def trend(series) -> float:
    """Change of a series from its first to its last value by a straight-line fit, over its mean."""
    y = np.asarray(series, float)
    if len(y) < 3 or y.mean() == 0:
        return 0.0
    slope = np.polyfit(np.arange(len(y)), y, 1)[0]
    return float(slope * (len(y) - 1) / y.mean())


def jain_over_time(bins_by_flow: np.ndarray, bin_s: float, step_s: float = 1.0) -> np.ndarray:
    """Jain index of the flows' goodput in consecutive steps. bins_by_flow: flows x bins."""
    per = max(round(step_s / bin_s), 1)
    n = bins_by_flow.shape[1] // per
    steps = bins_by_flow[:, : n * per].reshape(len(bins_by_flow), n, per).sum(axis=2)
    return np.array([jain(steps[:, i]) for i in range(n)])


def reply_times(flow: Flow, job: Job, replies: list, since_s: float = 0.0) -> list[int]:
    """How long each reply took that was asked for from then on, ns. One that is under way at the end counts if it takes
    longer than all others."""
    asked, took = replies[-1] if replies else (round(flow.start_s * 1e9), 0)
    due = max(asked + took, asked + round((flow.every_s or 0) * 1e9) if replies else asked)
    waited = round(job.duration_s * 1e9) - due
    longest = max((took for _, took in replies), default=0)
    return [took for asked, took in replies if asked >= since_s * 1e9] + ([waited] if waited > longest else [])


def of_flow(flow: Flow, job: Job, acks, bins: np.ndarray, replies: list, closed: list | None) -> dict:
    """One flow's metrics; bins: its goodput from time zero."""
    start, end = job.measure_from_s, job.duration_s
    mine = acks[acks["flow"] == flow.id]
    inside = mine[(mine["t"] >= start) & (mine["t"] < end)]
    before = mine["retrans"][mine["t"] < start]
    rate = bins[round(start / (job.bin_ms / 1e3)) :]
    done: dict = {"done_s": done_s(flow, closed)} if flow.size_bytes else {}
    if flow.reply_bytes:
        done = {"reply_s": percentiles(np.array(reply_times(flow, job, replies, start)) / 1e3)}
    retransmits = int(inside["retrans"].max() - (before.max() if len(before) else 0)) if len(inside) else 0
    return {
        "flow": flow.id,
        "controller": flow.controller,
        "goodput_bps": float(rate.mean()),
        "throughput_bps": float(rate.mean() / job.payload_share),
        "goodput_cv": float(rate.std() / rate.mean()) if rate.mean() > 0 else 0.0,
        "goodput_trend": trend(rate),
        "rtt_s": percentiles(inside["rtt_us"][inside["rtt_us"] > 0]),
        "cwnd_mean": float(inside["cwnd"].mean()) if len(inside) else 0.0,
        "retransmits": retransmits,
        "retransmits_whole_run": int(mine["retrans"].max()) if len(mine) else 0,
        **done,
    }


def done_s(flow: Flow, closed: list | None) -> float | None:
    """The time of a flow with a size, from its start until its last byte was acknowledged; None: it has not ended.

    `closed`: when its sender sent the FIN behind the last bytes, and how long all of them took, ns. The trace has none
    of these ACKs.
    """
    return sum(closed) / 1e9 - flow.start_s if closed else None


def of_hop(watched: Hop, job: Job, marks: dict, links) -> dict:
    """Both directions of one hop; drops and marks are those of the queue, and what is policed is dropped
    behind it, all as tc counts them."""
    start, end = job.measure_from_s, job.duration_s
    hop: dict = {"name": watched.name}
    for side, way in (("forward", watched.forward), ("reverse", watched.reverse)):
        rates, rows = rates_of(way, job), link_window(links, way.dev, start, end)
        before, after = (marks[mark]["qdisc"][way.dev] for mark in ("measure", "end"))
        hop[side] = {
            **link_metrics(rows, mean_rate(rates, start, end), end - start, saved_bytes(way, job)),
            **{k: after[k] - before[k] for k in ("drops", "marks", "policed") if k in after},
        }
        if trace := trace_of(job, way.dev):
            hop[side]["queue_delay_mean_s"] = queue_delay_by_trace(rows, trace, job.bin_ms / 1e3)
        elif len(rates) > 1:
            hop[side]["queue_delay_mean_s"] = queue_delay(rows, rates, job.bin_ms / 1e3)
    return hop


def _udp_left(job: Job, marks: dict, hop: str) -> int | None:
    """Packets of UDP that left a hop's queues; None in a run without a load, or of an earlier version."""
    if "udp_left" not in marks["end"]:
        return None
    ways = next((watched.forward, watched.reverse) for watched in job.watch if watched.name == hop)
    return sum(marks["end"]["udp_left"][way.dev] - marks["measure"]["udp_left"][way.dev] for way in ways)


def of_run(job: Job, agent: dict, acks, goodput, links) -> dict:
    """All metrics of a run. acks, goodput, links: structured arrays of trace.py.

    throughput counts whole IP packets, goodput their payload once nothing before it is missing: a hole that fills in
    the measured time may lift it above the link's rate. background_bps is the part of each UDP load that arrived, as IP
    packets. utilisation, reverse_utilisation, acks_per_data_packet, forward and reverse are those of one of the `hops`:
    the busiest, which has the highest forward utilisation.
    """
    end, bin_s = job.duration_s, job.bin_ms / 1e3
    span = end - job.measure_from_s
    series = np.zeros((0, round(end / bin_s)))
    if job.flows:
        series = np.array([goodput_bins(goodput, f.id, end, bin_s) for f in job.flows])
    replies, closed = agent.get("replies", {}), agent.get("closed", {})
    flows = [of_flow(f, job, acks, series[f.id], replies.get(str(f.id), []), closed.get(str(f.id))) for f in job.flows]
    hops = [of_hop(watched, job, agent["marks"], links) for watched in job.watch]
    busiest = max(hops, key=lambda hop: hop["forward"]["utilisation"])
    sides = [busiest["forward"], busiest["reverse"]]
    acks_sent = sum(side["pure_acks"] for side in sides)
    arrived = {
        host: sum(counters[c] - agent["marks"]["measure"]["udp"][host][c] for c in ("UdpInDatagrams", "UdpInErrors"))
        for host, counters in agent["marks"]["end"].get("udp", {}).items()
    }
    alien = _udp_left(job, agent["marks"], busiest["name"])
    if alien is None:
        alien = sum(arrived[load.dst] for load in job.background if busiest["name"] in load.hops)
    data = sum(side["packets"] for side in sides) - acks_sent - alien
    rtos = {
        h: c["TcpExtTCPTimeouts"] - agent["marks"]["measure"]["tcp"][h]["TcpExtTCPTimeouts"]
        for h, c in agent["marks"]["end"]["tcp"].items()
    }
    goodputs = [f["goodput_bps"] for f in flows]
    return {
        "goodput_bps": float(sum(goodputs)),
        "throughput_bps": float(sum(f["throughput_bps"] for f in flows)),
        "utilisation": busiest["forward"]["utilisation"],
        "reverse_utilisation": busiest["reverse"]["utilisation"],
        "jain": jain(goodputs),
        "jain_over_time": [round(v, 6) for v in jain_over_time(series, bin_s)],
        "acks_per_data_packet": acks_sent / data if data else 0.0,  # of both directions, as they left the queues
        "timeouts": sum(rtos.values()),
        "background_bps": [
            arrived[load.dst] * (load.payload_bytes + ip_udp(load.dst_addr)) * 8 / span for load in job.background
        ],
        "busiest": busiest["name"],
        "forward": busiest["forward"],
        "reverse": busiest["reverse"],
        "hops": hops,
        "flows": flows,
    }
