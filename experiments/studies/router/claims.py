# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ACK thinning on a router (`asymcc thin --dev`): no paper claims anything of it. All is a check."""

from asymlab.report import papers
from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, goodput, goodput_of, jain_index, ratio_by_seed

TITLE = "ACK thinning on a router"
SUBJECT = "A router that drops ACKs which senders do not need: six hosts, beside CAKE, links of the world, latency."
OURS = "ours"

FLOWS = (4, 4, 3, 3, 3, 3)  # downloads of each host
RATES = {"": 500, ", 200 kbit/s": 200}  # how a title of hosts ends, and the rate
STOCK = ("cubic", "reno", "bbr")
TOLD = "thinned, rate told"
FAIR = 0.95
NO_LESS = 0.98
NO_LATER = 1.02
NEAR_HOST = 0.9
LEAST_HOST = 0.5  # of the mean of all hosts, by download


def least_host(run) -> float:
    """The worst host's mean download over the mean of all downloads."""
    began, means = 0, []
    for n in FLOWS:
        means.append(sum(goodput_of(run, flow) for flow in range(began, began + n)) / n)
        began += n
    return min(means) / (goodput(run) / sum(FLOWS))


def reply_every_s(flow: int):
    """Of requests one after another: time from one to the next. One that is not answered counts, too."""

    def measure(run) -> float:
        agent = run.record["agent"]
        began, ended = (agent["marks"][mark]["t_ns"] for mark in ("measure", "end"))
        answered = [asked for asked, _ in agent["replies"][str(flow)] if asked >= began - agent["zero_ns"]]
        return (ended - began) / 1e9 / max(len(answered), 1)

    return measure


def fin_s(run) -> float:
    """From the close to the ACK of the last data and the FIN."""
    _, took_ns = run.record["agent"]["closed"]["0"]
    return took_ns / 1e9


def whole_s(run) -> float:
    """From the SYN to that ACK."""
    return sum(run.record["agent"]["closed"]["0"]) / 1e9


def claims():
    yield from hosts()
    yield from links()
    yield from beside_cake()
    yield from latency()


def hosts():
    for end, kbit in RATES.items():
        for c in STOCK:
            all_acks, thinned, told = (
                Runs("RT-HOSTS", title=title + end, flows__controller=c) for title in ("all ACKs", "thinned", TOLD)
            )
            where = f"six hosts, 20 downloads, {kbit} kbit/s, {c}"
            if c != "bbr":  # twenty of its flows are not fair with all ACKs either
                says = f"{where}, rate told: Jain index {{bound}}"
                yield Check(f"RT-1a {c} {kbit}", OURS, says, each(told, jain_index), at_least=FAIR)
            for name, runs in (("told", told), ("untold", thinned)):
                says = f"{where}, rate {name}: Jain index no less with thinning: ratio {{bound}}"
                value = ratio_by_seed(runs, all_acks, jain_index)
                yield Check(f"RT-1b {c} {kbit} {name}", OURS, says, value, at_least=NO_LESS)
                says = f"{where}, rate {name}: all have no less with thinning: ratio {{bound}}"
                value = ratio_by_seed(runs, all_acks, goodput)
                yield Check(f"RT-1d {c} {kbit} {name}", OURS, says, value, at_least=NO_LESS)
            says = f"{where}, rate told: the worst host's downloads have {{bound}} of the mean"
            yield Check(f"RT-1c {c} {kbit}", OURS, says, each(told, least_host), at_least=LEAST_HOST)


def links():
    titles = [at["title"] for at in papers.points("router", "told") if at["thin__at"] == "router"]
    for title in dict.fromkeys(titles):
        for c in ("cubic", "bbr"):
            point = {"title": title, "flows__controller": c}
            without = Runs("RT-LINK", thin__at="router", thin__thins=0, **point)
            for name, id, more in (("untold", "RT-LINK", {"thin__thins": 1}), ("told", "RT-TOLD", {})):
                host, router = (Runs(id, thin__at=at, **more, **point) for at in ("host", "router"))
                says = f"{title}, {c}, rate {name}: the router brings what the host does: ratio {{bound}}"
                value = ratio_by_seed(router, host, goodput)
                yield Check(f"RT-2a {title} {c} {name}", OURS, says, value, at_least=NEAR_HOST)
                says = f"{title}, {c}, rate {name}: no less with thinning: ratio {{bound}}"
                value = ratio_by_seed(router, without, goodput)
                yield Check(f"RT-2b {title} {c} {name}", OURS, says, value, at_least=NO_LESS)


def beside_cake():
    for file, id, where in (
        ("cake", "RT-CAKE", "the router owns the bottleneck"),
        ("modem", "RT-MODEM", "a modem has the queue"),
    ):
        titles = dict.fromkeys(at["title"] for at in papers.points("router", file))
        for title in titles:
            before, found, how = title.rpartition("thinned, rate told" if title.endswith("told") else "thinned")
            if not found:
                continue
            without, told = before.removesuffix(", ") or "all ACKs", "told" if title.endswith("told") else "untold"
            for c in ("cubic", "bbr"):
                base, ours = (Runs(id, title=t, flows__controller=c) for t in (without, title))
                says = f"{where} ({without}), {c}, rate {told}: no less with thinning: ratio {{bound}}"
                value = ratio_by_seed(ours, base, goodput)
                yield Check(f"RT-3 {id} {title} {c}", OURS, says, value, at_least=NO_LESS)


def latency():
    for id, key, sizes in (
        ("RT-REPLY", "flows__reply", (100, 14000, 100000)),
        ("RT-BESIDE", "flows__1__reply", (100, 14000)),
    ):
        flow, where = (0, "alone") if id == "RT-REPLY" else (1, "beside a download")
        for size in sizes:
            for kbit, name in ((0, "untold"), (40, "told")):
                point = {key: size, "thin__reverse_kbit": kbit}
                base, ours = (Runs(id, thin__thins=thins, **point) for thins in (0, 1))
                says = f"a request of 100 bytes and its reply of {size} {where}, rate {name}: no later: ratio {{bound}}"
                value = ratio_by_seed(ours, base, reply_every_s(flow))
                yield Check(f"RT-4 {id} {size} {name}", OURS, says, value, at_most=NO_LATER)
    for at in papers.points("router", "ends"):
        if at.pop("thin__thins") == 0:
            continue
        base, ours = (Runs("RT-END", thin__thins=thins, **at) for thins in (0, 1))
        size, kbit, c = at["flows__size"], at["thin__reverse_kbit"], at["flows__controller"]
        name = "told" if kbit else "untold"
        for part, what, measure in (("a", "its FIN is acknowledged", fin_s), ("b", "all of it is there", whole_s)):
            says = f"a download of {size} bytes, {c}, rate {name}: {what} no later: ratio {{bound}}"
            value = ratio_by_seed(ours, base, measure)
            yield Check(f"RT-5{part} {size} {c} {name}", OURS, says, value, at_most=NO_LATER)
