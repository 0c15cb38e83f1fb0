# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The claims of "TCP-Fusion" (Kaneko, Fujikawa, Su, Katto 2007), and ours beside them; measures.py tells how they are
measured. lossy.py has Figs. 4 to 6, beside.py Table 1 and Figs. 8 to 10, simulated.py Figs. 11 and 13."""

from asymlab.report.claim import Check
from asymlab.report.measures import Runs, each, together

from . import beside, lossy, simulated
from .measures import BUFFERS, CUT, PHASES, above_reno, cut_error, falls, phase_share, smallest_cut, stretched

TITLE = "TCP-Fusion"
SUBJECT = "Takes what Reno leaves of a long path with random loss, and not more than its share beside Reno."


def claims():
    yield from fig_1()
    yield from fig_2()
    yield from lossy.claims()
    yield from beside.claims()
    yield from simulated.claims()


def fig_1():
    def span(runs) -> float:
        """The largest RTT over RTTmin at a loss, over the smallest."""
        found = [float(x) for run in runs for x in stretched(run)]
        return max(found) / min(found)

    says = "a loss leaves floor(cwnd max(RTTmin/RTT, 1/2)): largest error {bound} packet"
    yield Check("FU-1a", "Fig. 1, eq. 1", says, each(Runs("FU-1"), cut_error), at_most=1, worst=True)
    says = "losses at RTTs of 1 to 4 RTTmin: the largest ratio over the smallest {bound}"
    value = together([Runs("FU-1", path__forward__queue=packets) for packets in BUFFERS], span)
    yield Check("FU-1b", "Fig. 1", says, value, at_least=3)


def fig_2():
    runs = Runs("FU-2")
    says = f"{{rate}}, buffer 0.5 BDP: no loss cuts Fusion's window below RTTmin/RTT = {CUT}"
    yield Check("FU-2a", "Fig. 2, eq. 1", says, each(runs, smallest_cut), at_least=CUT, worst=True)
    says = "cwnd >= its own reno_cwnd at every ACK: share of ACKs is 1"
    yield Check("FU-2b", "Fig. 2", says, each(runs, above_reno), at_least=1, worst=True)
    for phase in PHASES:
        says = f"the {phase} phase is visited: share of ACKs {{bound}}"
        value = each(runs, lambda r, phase=phase: phase_share(r, phase))
        yield Check(f"FU-2c {phase}", "section II.B", says, value, above=0)
    says = "where reno_cwnd does not hold it, each ACK of the decrease phase lowers the window: share {bound}"
    yield Check("FU-2d", "section II.B", says, each(runs, falls), at_least=0.95)
