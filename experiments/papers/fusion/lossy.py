# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Figs. 4 to 6 of TCP-Fusion: under random loss, alone and beside a Reno flow.

"The most" is judged against that rival whose mean is the largest, and "the best of a run" is not taken: the best of
several noisy values is too large.
"""

from asymlab.report.claim import Cause, Check, Claim, Off
from asymlab.report.judged import Ratio
from asymlab.report.measures import Runs, each, extreme, goodput_of, ratio, ratio_by_seed, share

from .beside import COUNTING, COUNTS_ACKS, GROWS, OLD, YEARS, fair_share
from .measures import FRIENDLY, GREEDY, NAMES, OFTEN, RARE, VARIANTS, alone, carried, lossy

MOST = 0.97  # of the largest: as good as the most
FAIR = 48.3  # Mbit/s


def claims():
    yield from fig_4()
    yield from fig_5()
    yield from fig_6()


def fig_4():
    for loss in RARE:
        for c in VARIANTS:
            says = f"{GROWS}: {NAMES[c]} alone uses {{bound}} of the link"
            value = each(alone(c, loss), lambda r: carried(r, 100))
            yield Check(f"FU-4a {c} {loss}", "Fig. 4", says, value, at_least=0.9)
    for loss in (RARE[-1], *OFTEN):
        rivals = [ratio_by_seed(alone("fusion", loss), alone(c, loss), goodput_of) for c in VARIANTS if c != "fusion"]
        says = f"{GROWS}: Fusion's goodput {{bound}} of the best of the others"
        yield Claim(f"FU-4b {loss}", "Fig. 4", says, extreme(rivals, min), at_least=MOST)
    value = extreme([ratio_by_seed(alone("fusion", p), alone("areno", p), goodput_of) for p in OFTEN], max)
    says = "Fusion's goodput over ARENO's, the largest over the loss rates, in {bound}"
    yield Claim("FU-4c", "Fig. 4", says, value, paper=1.4, within=(1.1, 1.7), cause=clock(says))
    for loss in OFTEN[1:]:
        fine = ratio_by_seed(alone("fusion", loss), Runs("FU-4-TICK", path__forward__loss=loss), goodput_of)
        says = f"{GROWS}: Fusion's goodput {{bound}} of ARENO's with a clock of microseconds"
        yield Check(f"FU-4d {loss}", "Fig. 4", says, fine, at_least=MOST)


def clock(says: str) -> Cause:
    """By a coarser clock ARENO sees less of the queue, and backs off less."""
    over = [ratio_by_seed(alone("fusion", p), Runs("FU-C-TICK", path__forward__loss=p), goodput_of) for p in OFTEN]
    off = Off("FU-C tick", f"with a clock of 10 ms: {says}", extreme(over, max), within=(1.1, 1.7))
    return Cause("the clock of the paper's machine, which is lost: by a coarser one ARENO sees less queue", off)


def fig_5():
    rare = RARE[-1]
    says = f"{GROWS}: CTCP without a low window has more than its Reno flow: ratio {{bound}}"
    small = Cause(
        "windows are below CTCP's low window here, up to which its law is Reno's",
        Off("FU-C CTCP", says, each(Runs("FU-C-CTCP"), Ratio(ratio)), above=1),
    )
    for c in FRIENDLY:
        says = f"{GROWS}: {NAMES[c]}'s and Reno's goodputs differ by {{bound}} of their sum"
        value = each(lossy(c, rare), lambda r: abs(2 * share(r) - 1))
        yield Claim(f"FU-5a {c}", "Fig. 5", says, value, at_most=0.25)
        for loss in OFTEN:
            says = f"{GROWS}: {NAMES[c]} has more than its Reno flow: ratio {{bound}}"
            cause = small if (c, loss) == ("ctcp", "1%") else None
            yield Claim(f"FU-5b {c} {loss}", "Fig. 5", says, each(lossy(c, loss), Ratio(ratio)), above=1, cause=cause)
            says = f"{GROWS}: Reno beside {NAMES[c]} has {{bound}} of what it has alone"
            yield Claim(f"FU-5c {c} {loss}", "Fig. 5", says, renos(c, loss), at_least=0.8)
        says = f"{GROWS}: {NAMES[c]} beside Reno has {{bound}} Mbit/s, half of what two flows get"
        yield Claim(f"FU-5b {c} fair", "Fig. 5", says, each(lossy(c, OFTEN[0]), goodput_of), above=FAIR)
    for loss in OFTEN:
        rivals = [ratio_by_seed(lossy("fusion", loss), lossy(c, loss), goodput_of) for c in FRIENDLY[1:]]
        says = f"{GROWS}: Fusion beside Reno has {{bound}} of the better of ARENO and CTCP there"
        yield Claim(f"FU-5d {loss}", "Fig. 5", says, extreme(rivals, min), at_least=MOST)


def renos(controller: str, loss: str):
    """What the Reno flow beside a controller has, over what Reno has alone."""
    return ratio_by_seed(lossy(controller, loss), alone("reno", loss), lambda r: goodput_of(r, 1), goodput_of)


def fig_6():
    says = f"{GROWS}: an ACK for each packet: a Reno flow beside HSTCP has {{bound}} of the fair share"
    every = Off("FU-C ACKs loss", says, each(Runs("FU-C-ACKS-LOSS"), lambda r: 2 * share(r, 1, 0)), at_most=0.6)
    says = f"{GROWS}: {COUNTING} {OLD} has {{bound}} of the fair share"
    old = Off("FU-C 2006 loss counts", says, fair_share("nreno"), at_most=0.6)
    causes = {"highspeed": Cause(COUNTS_ACKS, every), "cubic": Cause(YEARS, old)}
    for c in GREEDY:
        says = f"{GROWS}: a Reno flow beside {NAMES[c]} has {{bound}} of the fair share"
        value = each(lossy(c, RARE[-1]), lambda r: 2 * share(r, 1, 0))
        yield Claim(f"FU-6a {c}", "Fig. 6", says, value, at_most=0.6, cause=causes.get(c))
        says = f"{GROWS}: where random loss decides, Reno beside {NAMES[c]} has {{bound}} of what it has alone"
        yield Check(f"FU-6b {c}", "Fig. 6", says, renos(c, "1%"), at_least=0.8)
