# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Downloads beside uploads on an asymmetric line. All is a check.

Zhang, Shenker and Clark (SIGCOMM 1991) saw that two-way traffic leaves links idle, as queues compress ACKs. RFC 3449,
section 3.3, tells why it is worse on a slow uplink: ACKs wait there behind full packets. Heusse, Merritt, Brown and
Duda (Two-way TCP connections, CCR 2011) have another cause, the data pendulum: data fill one of both queues at a time.
Their rates are of other stacks and of windows that are limited, so no number of theirs is compared.
"""

from math import prod

from asymlab.report.claim import Cause, Check
from asymlab.report.measures import LEAST, Runs, goodput_of, ratio_by_seed, together

TITLE = "Downloads beside uploads"
SUBJECT = "Which controllers keep a download while the same line uploads, and what thinning and CAKE bring."

OURS = "ours"
RATES = {"2mbit": 10, "0.4mbit": 50, "0.2mbit": 100}  # of the uplink, and how many times as much the downlink has
QUEUES = (10, 40)
OTHERS = ("bbr", "bbr3", "fast", "fusion", "taichung", "pseudorate", "formosa")
DELAY = ("fast", "pseudorate", "formosa")  # laws whose aim is a short queue
UPLOADS = (1, 4)
THINNED = {"nothing": "nothing told", "tenth": "a tenth of the uplink told", "whole": "the uplink's rate told"}

KEEPS = 0.8  # of what CUBIC has beside the same uploads
LEAVES = 0.97  # of what CUBIC leaves the uploads
NO_LESS = 0.95

BEHIND = Cause("its ACKs wait behind the uploads' packets, and it takes this for a queue of its own")
CLUMPS = Cause("its ACKs come in clumps behind the uploads' packets, and each clump sends a burst")


def download(run) -> float:
    return goodput_of(run, 0)


def upload(run) -> float:
    """All uploads, Mbit/s."""
    return sum(goodput_of(run, flow) for flow in range(1, len(run.metrics["flows"])))


def queue_s(run) -> float:
    """The mean time in the downlink's queue."""
    return run.metrics["forward"]["queue_delay_mean_s"]


def at(controller: str, uploads: int, rate: str, queue: int) -> Runs:
    point = {"path__reverse__rate": rate, "path__reverse__queue": queue, "flows__1__count": uploads}
    return Runs("TW-MAP", **point, flows__0__controller=controller)


def over_paths(controller: str, uploads: int, measure):
    """A controller's over CUBIC's, the geometric mean over ratios and uplink queues."""
    paths = [(rate, queue) for rate in RATES for queue in QUEUES]
    lists = [at(name, uploads, *path) for path in paths for name in (controller, "cubic")]

    def mean(runs) -> float:
        pairs = zip(runs[::2], runs[1::2], strict=True)
        return prod(max(measure(own), LEAST) / max(measure(cubic), LEAST) for own, cubic in pairs) ** (1 / len(paths))

    return together(lists, mean)


def claims():
    yield from of_cubic()
    yield from of_others()
    yield from behind_cake()
    yield from thinned()


def of_cubic():
    """The papers describe it: an upload costs a download much, and the more the slower the uplink is."""
    for rate, times in RATES.items():
        alone = Runs("TW-ALONE", path__reverse__rate=rate, flows__0__controller="cubic")
        for uploads in UPLOADS:
            says = f"{times} times slower uplink: beside {uploads} CUBIC has {{bound}} of what it has alone"
            value = ratio_by_seed(at("cubic", uploads, rate, 40), alone, download)
            yield Check(f"TW-1 {times} {uploads}", OURS, says, value, at_most=0.9)


def of_others():
    for controller in OTHERS:
        cause = CLUMPS if controller in ("taichung", "bbr", "bbr3") else BEHIND
        for uploads in UPLOADS:
            beside = f"beside {uploads} upload{'s' * (uploads > 1)}"
            says = f"{beside} {controller} has {{bound}} of CUBIC's download"
            value = over_paths(controller, uploads, download)
            yield Check(f"TW-2 {controller} {uploads}", OURS, says, value, at_least=KEEPS, cause=cause)
            says = f"{beside} {controller} leaves the uploads {{bound}} of what CUBIC leaves"
            value = over_paths(controller, uploads, upload)
            yield Check(f"TW-3 {controller} {uploads}", OURS, says, value, at_least=LEAVES)
            if controller in DELAY:
                says = f"{beside} {controller} has {{bound}} of CUBIC's queue in the downlink"
                value = over_paths(controller, uploads, queue_s)
                yield Check(f"TW-4 {controller} {uploads}", OURS, says, value, at_most=0.5)


def behind_cake():
    for controller in ("cubic", *OTHERS):
        alone = Runs("TW-ALONE", path__reverse__rate="0.4mbit", flows__0__controller=controller)
        for title in ("CAKE", "CAKE, ack-filter"):
            both = Runs("TW-CAKE", title=title, flows__0__controller=controller)
            says = f"{title} at the uplink: beside an upload {controller} has {{bound}} of what it has alone"
            value = ratio_by_seed(both, alone, download)
            yield Check(f"TW-5 {title} {controller}", OURS, says, value, at_least=NO_LESS)


def thinned():
    for rate, times in RATES.items():
        for word, kbit in (("nothing", 0), ("tenth", 2000 // times), ("whole", 20_000 // times)):
            title = f"{rate}, told {f'{kbit} kbit/s' if kbit else 'nothing'}"
            own, plain = Runs("TW-THIN", title=title), at("cubic", 1, rate, 40)
            for name, measure in (("download", download), ("upload", upload)):
                what = f"{times} times slower uplink, {THINNED[word]}"
                says = f"{what}: the {name} has {{bound}} of that without thinning"
                value = ratio_by_seed(own, plain, measure)
                yield Check(f"TW-6 {name} {times} {word}", OURS, says, value, at_least=NO_LESS)
