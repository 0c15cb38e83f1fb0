# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Fig. 9 of TCP-Fusion: two flows of a kind with different RTTs, and why claims about them fail."""

from asymlab.report.claim import Cause, Claim, Off
from asymlab.report.measures import Runs, each, ratio, ratio_by_seed
from asymlab.report.verdicts import Ratio

from .measures import FRIENDLY, GREEDY, NAMES, RTTS, VARIANTS, rtt_ratio

HALF = (0.7, 1.3)  # as Reno's
BOTH = {60: "{rtt[0]} and {rtt[1]} ms", 120: "{rtt[2]} and {rtt[3]} ms"}  # of FU-9's pairs
ALONE = "{rate}, {rtt[0]} and {rtt[1]} ms"  # where one pair runs


def of(controller: str, id: str = "FU-9") -> Runs:
    return Runs(id, flows__controller=controller)


def at_120(run) -> float:
    return rtt_ratio(run, 120)


def claims():
    full = "a full queue adds so much to both RTTs that they differ little"
    for c in VARIANTS:
        short = (
            by_rtt(Off, c, "FU-C-SHORT", "FU-C short", "{rate}, a queue of {queue} packets, ") if c in GREEDY else ()
        )
        causes = [Cause(full, check) for check in short] or (None, None)
        yield from by_rtt(Claim, c, "FU-9", "FU-9b", "{rate}, ", causes)
    yield from friendly()
    yield from extremes()


def by_rtt(kind, c: str, id: str, name: str, where: str, causes=(None, None)):
    """The flow of the short RTT has more, and the more, the longer the other's is."""
    source = () if kind is Off else ("Fig. 9",)
    says = f"{where}{NAMES[c]}: the flow of {{rtt[0]}} ms has more than that of {{rtt[1]}} ms: ratio {{bound}}"
    value = each(of(c, id), Ratio(lambda r: rtt_ratio(r, 60)))
    yield kind(f"{name} {c} 60", *source, says, value, above=1, cause=causes[0])
    says = f"{where}{NAMES[c]}: the ratio grows with the RTT: beside {{rtt[3]}} ms over beside {{rtt[1]}} ms {{bound}}"
    value = each(of(c, id), Ratio(lambda r: rtt_ratio(r, 120) / rtt_ratio(r, 60)))
    yield kind(f"{name} {c} 120", *source, says, value, above=1, cause=causes[1])


def marked(controller: str, ack: str) -> Runs:
    return Runs("FU-C-MARKS", title=f"{controller}, ACKs: {ack}")


MARKS = f"{ALONE}, marks instead of losses"


def friendly():
    def over_reno(controller: str):
        return ratio_by_seed(marked(controller, "delayed"), marked("reno", "delayed"), ratio)

    causes = {
        "fusion": Cause(
            "the losses: where the full queue marks instead of drops, Fusion's ratio is Reno's",
            Off(
                "FU-C marks fusion",
                f"{MARKS}, which halve the window: Fusion's ratio over Reno's in {{bound}}",
                over_reno("fusion"),
                within=HALF,
            ),
        ),
        "ctcp": Cause(
            "CTCP's delay window lets the flow of the long RTT grow faster than Reno's",
            Off(
                "FU-C RTTs ctcp",
                f"{ALONE}: without its delay window CTCP's ratio over Reno's in {{bound}}",
                ratio_by_seed(of("no_delay_window", "FU-C-RTTS"), of("reno"), ratio, at_120),
                within=HALF,
            ),
        ),
    }
    for c in FRIENDLY:
        for ms in RTTS:
            says = f"{{rate}}, {BOTH[ms]}: {NAMES[c]}'s ratio over Reno's in {{bound}}"
            value = ratio_by_seed(of(c), of("reno"), lambda r, ms=ms: rtt_ratio(r, ms))
            cause = causes.get(c) if ms == 120 else None
            yield Claim(f"FU-9c {c} {ms}", "Fig. 9", says, value, within=HALF, cause=cause)
    says = f"{MARKS}, with equation (5) for a mark as well: Fusion's ratio over Reno's {{bound}}"
    yield Off("FU-C marks paper", says, over_reno("fusion_paper"), below=1)


def extremes():
    """Whose ratio is the largest, and whose the smallest."""
    others = {c: [of(other) for other in VARIANTS if other != c] for c in ("highspeed", "cubic")}
    counts = Cause(
        "Linux's HSTCP counts ACKs, not packets: delayed ACKs halve its growth, and not Reno's",
        Off(
            "FU-C RTTs highspeed",
            f"{ALONE}, an ACK for each packet: HSTCP's ratio over Reno's {{bound}}",
            ratio_by_seed(of("highspeed", "FU-C-RTTS"), of("reno", "FU-C-RTTS"), ratio),
            at_least=1,
        ),
    )
    says = f"{{rate}}, {BOTH[120]}: HSTCP's ratio is the largest: over the next {{bound}}"
    value = ratio_by_seed(of("highspeed"), others["highspeed"], at_120)
    yield Claim("FU-9d highspeed", "Fig. 9", says, value, at_least=1, cause=counts)
    says = f"{{rate}}, {BOTH[120]}: CUBIC's ratio is the smallest: over the next {{bound}}"
    value = ratio_by_seed(of("cubic"), others["cubic"], at_120, best=min)
    yield Claim("FU-9d cubic", "Fig. 9", says, value, at_most=1)
    says = f"{ALONE}: without its Reno-friendly region CUBIC's ratio is the smallest: over the next {{bound}}"
    value = ratio_by_seed(of("cubic", "FU-C-RTTS"), others["cubic"], ratio, at_120, best=min)
    yield Off("FU-C RTTs cubic", says, value, at_most=1)
    says = f"{MARKS}, an ACK for each packet: HSTCP's ratio is the largest: over the next {{bound}}"
    value = ratio_by_seed(
        marked("highspeed", "every"), [marked(c, "every") for c in VARIANTS if c != "highspeed"], ratio
    )
    yield Off("FU-C marks highspeed", says, value, at_least=1)
    says = f"{MARKS}, delayed ACKs: HSTCP's ratio over BIC's {{bound}}"
    value = ratio_by_seed(marked("highspeed", "delayed"), marked("bic", "delayed"), ratio)
    yield Off("FU-C marks delayed", says, value, below=1)
