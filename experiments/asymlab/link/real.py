# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Links of real life, as somebody has published them: `asymlab link --like NAME`.

All numbers are a source's. Its RTT is the one to its own server; most sources name no queue, and then it is one
bandwidth-delay product, as without a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from .. import LabError
from ..plan.quantities import Rate
from ..table import left, right, terminal
from .path import MTU, Link, parsed

OOKLA_2021 = (
    "Ookla: How Starlink's Satellite Internet Stacks Up Against HughesNet and Viasat around the Globe, 2021 (medians)"
)
OOKLA_2022 = "Telecompetitor: Cox Nears 200 Mbps Download in June Ookla Speedtest Results, 2022 (medians of the USA)"
OOKLA_2024 = "RCR Wireless: T-Mobile US first in 5G mobile, AT&T in home internet: Ookla, 2024 (medians of the USA)"
COMCAST = "Flickinger et al.: Improving Latency with Active Queue Management (AQM) During COVID-19, 2021"
FIRST_HOP = "kralo: Expect the following latencies to the first hop, gist.github.com, 2023 (one line each)"
STARLINK = "Michel et al.: A First Look at Starlink Performance, IMC 2022, and in APNIC's blog, 28 November 2022"
WEBPAGETEST = "WebPageTest: connectivity.ini.sample, at commit a7cf6a7 (presets, read 2026)"
MOZILLA = "Mozilla: Firefox, Network monitor, Throttling (a preset, read 2026)"
SOURCES = (OOKLA_2021, OOKLA_2022, OOKLA_2024, COMCAST, FIRST_HOP, STARLINK, WEBPAGETEST, MOZILLA)


@dataclass(frozen=True)
class Real:
    name: str
    about: str
    rate: str  # toward the home
    reverse: str
    rtt: str
    sources: tuple[str, ...]
    up_ms: int = 0  # of a full queue toward the net; 0: no source tells
    up_pie: bool = False  # that queue has PIE

    def link(self, upload: bool, given: dict[str, Any]) -> Link:
        """Its data go toward the home, or with `upload` toward the net. A value that is given counts more."""
        up_packets = round(parsed("like", Rate, self.reverse) * self.up_ms / 8e3 / MTU)
        rates = {"rate": self.reverse, "reverse": self.rate} if upload else {"rate": self.rate, "reverse": self.reverse}
        queue = {"queue" if upload else "back_queue": up_packets}
        pie = {"pie": "forward" if upload else "reverse"} if self.up_pie else {}
        return Link(**{**rates, "rtt": self.rtt, **queue, **pie, "like": self.name, **given})


LINKS = {
    real.name: real
    for real in (
        Real(
            "docsis-3.0",
            "cable, a queue of 250 ms toward the net",
            "184.08mbit",
            "18.88mbit",
            "14ms",
            (OOKLA_2022, COMCAST),
            up_ms=250,
        ),
        Real(
            "docsis-3.1",
            "cable, AQM toward the net",
            "184.08mbit",
            "18.88mbit",
            "14ms",
            (OOKLA_2022, COMCAST),
            up_ms=250,
            up_pie=True,
        ),
        Real("cable-cox", "cable, Cox", "196.73mbit", "10.6mbit", "11ms", (OOKLA_2022,)),
        Real("cable-spectrum", "cable, Spectrum", "183.74mbit", "11.7mbit", "16ms", (OOKLA_2022,)),
        Real("cable-5", "cable of 5 Mbit/s", "5mbit", "1mbit", "28ms", (WEBPAGETEST,)),
        Real("gpon", "fibre to the home, Verizon", "171.01mbit", "112.36mbit", "8ms", (OOKLA_2022,)),
        Real("vdsl2", "VDSL2 17a with vectoring, 50 and 10 Mbit/s", "50mbit", "10mbit", "10.8ms", (FIRST_HOP,)),
        Real("adsl2+", "ADSL2+ Annex J, interleaved", "5mbit", "1.4mbit", "21.3ms", (FIRST_HOP,)),
        Real("dsl-centurylink", "DSL, CenturyLink", "41.29mbit", "12.02mbit", "15ms", (OOKLA_2022,)),
        Real("dsl", "DSL of 1.5 Mbit/s", "1.5mbit", "384kbit", "50ms", (WEBPAGETEST,)),
        Real("fixed-usa", "fixed lines of the USA, all", "153.8mbit", "21.6mbit", "14ms", (OOKLA_2022,)),
        Real("lte", "LTE", "12mbit", "12mbit", "70ms", (WEBPAGETEST,)),
        Real("4g", "4G", "9mbit", "9mbit", "170ms", (WEBPAGETEST,)),
        Real("mobile-att", "mobile, AT&T", "54.64mbit", "7mbit", "34ms", (OOKLA_2022,)),
        Real("mobile-verizon", "mobile, Verizon", "59.67mbit", "9.14mbit", "32ms", (OOKLA_2022,)),
        Real("mobile-tmobile", "mobile, T-Mobile", "116.54mbit", "11.72mbit", "31ms", (OOKLA_2022,)),
        Real("5g", "5G, T-Mobile", "265.8mbit", "14.56mbit", "47ms", (OOKLA_2024,)),
        Real("3g", "3G", "1.6mbit", "768kbit", "300ms", (WEBPAGETEST,)),
        Real("edge", "2G, EDGE", "240kbit", "200kbit", "840ms", (WEBPAGETEST,)),
        Real("leo", "a near satellite, Starlink", "97.23mbit", "13.89mbit", "45ms", (OOKLA_2021,)),
        Real("geo-hughesnet", "a far satellite, HughesNet", "19.73mbit", "2.43mbit", "724ms", (OOKLA_2021,)),
        Real("geo-viasat", "a far satellite, Viasat", "18.13mbit", "3.38mbit", "630ms", (OOKLA_2021,)),
        Real("geo-100", "a far satellite, sold as 100 and 10 Mbit/s", "100mbit", "10mbit", "600ms", (STARLINK,)),
        Real("wifi", "Wi-Fi", "30mbit", "15mbit", "2ms", (MOZILLA,)),
        Real("dialup", "a telephone line and its modem", "49kbit", "30kbit", "120ms", (WEBPAGETEST,)),
    )
}


def find(name: str) -> Real:
    if name not in LINKS:
        raise LabError(
            f"--like {name[:40]}: not known; `--like list` tells {len(LINKS)} links, such as docsis-3.1 or leo"
        )
    return LINKS[name]


def table() -> Table:
    whole = {"no_wrap": True}
    columns = left("name", "link", **whole) + right("down", "up", "RTT", **whole) + left("source", **whole)
    rows = []
    for real in LINKS.values():
        numbers = ", ".join(str(SOURCES.index(source) + 1) for source in real.sources)
        rows.append((real.name, real.about, real.rate, real.reverse, real.rtt, numbers))
    return terminal(columns, rows)


def sources() -> list[str]:
    return [f"{number}: {source}" for number, source in enumerate(SOURCES, 1)]
