# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""BBRv3 where rows of other papers and suites have BBR, which is version 1. No paper has it: all is a check, with the
bounds that those rows have for BBR. Where they have none it is that version 3 has no less than version 1."""

from asymlab.report import papers
from asymlab.report.claim import Cause, Check, Off
from asymlab.report.measures import Runs, each, goodput, ratio_by_seed, together

TITLE = "BBRv3 beside BBR"
SUBJECT = "BBRv3 where the rows of Formosa, of Theorem 1, of Table 1 and of ACK thinning have BBR of version 1."

formosa = papers.module("formosa", "measures")
theorem = papers.module("theorem", "claims")
table1 = papers.module("table1", "claims")
thin = papers.module("thin", "claims")

BOTH = {"bbr": "BBR", "bbr3": "BBRv3"}
BESIDE = [c for c in table1.ALL if c != "bbr"]
AS_MUCH = 0.98
ADDED = "added"  # BBRv3 with budget_added


def claims():
    yield from fig2()
    yield from theorem1()
    yield from table()
    yield from thinning()


def fig2():
    """Formosa's Fig. 2 has no bound for BBR."""
    for rate in formosa.RATES:
        old, new = (Runs("B3-FO", path__reverse__rate=rate, flows__controller=c) for c in BOTH)
        says = f"r = {formosa.r(rate):.3g}: BBRv3's goodput {{bound}} of BBR's"
        off = ratio_by_seed(Runs("B3-FO", path__reverse__rate=rate, flows__controller=ADDED), old, goodput)
        cause = Cause(
            "the draft's window has room for three bursts at least, and that of the first BBR has it besides",
            Off(f"B3 added {rate}", f"with room for bursts besides: {says}", off, at_least=AS_MUCH),
        )
        value = ratio_by_seed(new, old, goodput)
        yield Check(f"B3 Fig. 2 {rate}", "Formosa's FO-2", says, value, at_least=AS_MUCH, cause=cause)


def acks(controller: str, m: int, rate: str) -> Runs:
    if m == 1:
        return Runs("B3-TM1", path__reverse__rate=rate, flows__controller=controller)
    return Runs("B3-TM", path__reverse__rate=rate, thin__max_packets=m, flows__controller=controller)


def theorem1():
    for c, name in BOTH.items():
        for m in theorem.M:
            lists = [acks(c, m, rate) for rate in theorem.K_F]
            expected = [theorem.law(k, m) for k in theorem.K_F.values()]

            def farthest(runs, expected=expected) -> float:
                return max(abs(x - 1) for x in theorem.over_law(runs, expected))

            says = f"{name}, m = {m}, k_f = 0.4 to 40: farthest from the law {{bound}}"
            limit = theorem.MODEL["bbr"]
            yield Check(f"B3 law {c} {m}", "Theorem 1, TM", says, together(lists, farthest), at_most=limit)


def beside(controller: str, bbr: str) -> Runs:
    return Runs("B3-T26", flows__0__controller=controller, flows__1__controller=bbr)


def share(run) -> float:
    """The first flow's, of what both have."""
    mine, theirs = (flow["goodput_bps"] for flow in run.metrics["flows"])
    return mine / (mine + theirs)


def table():
    for bbr, name in BOTH.items():
        for c in BESIDE:
            says = f"{table1.NAMES[c]} beside {name} has {{bound}} of what both have"
            yield Check(f"B3 {bbr} {c}", "Table 1, T26", says, each(beside(c, bbr), share), within=table1.FAIR)
    for c in ("reno", "cubic"):
        says = f"{table1.NAMES[c]} beside BBRv3 with room for bursts besides: over what it has beside BBRv3 {{bound}}"
        value = ratio_by_seed(beside(c, ADDED), beside(c, "bbr3"), share)
        yield Check(f"B3 added {c}", "Table 1, T26", says, value, at_least=AS_MUCH)


def thinning():
    for c, name in BOTH.items():
        bare, thinned = (Runs("B3-TH", thin__thins=n, flows__controller=c) for n in (0, 1))
        says = f"r = 20: {name} has {{bound}} of {{rate}} with thinning"
        yield Check(f"B3 thinned {c}", "ACK thinning, TH-2a", says, each(thinned, goodput), at_least=3.5)
        says = f"r = 20: {name} has no less with thinning than without: ratio {{bound}}"
        value = ratio_by_seed(thinned, bare, goodput)
        yield Check(f"B3 over all ACKs {c}", "ACK thinning, TH-2b", says, value, at_least=thin.NO_SLOWER)
