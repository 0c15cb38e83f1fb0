# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Why claims of "TCP-Taichung" fail, and the checks with the cause turned off or shown to leave no room."""

from itertools import pairwise

from asymlab.report.claim import Cause, Off
from asymlab.report.measures import Runs, each, extreme, jain_index, ratio_by_seed

from .measures import MOST, OTHERS, SENDERS, WITH, busy, fig7, goodput_at_first, over, table1, table3

HALVES = "own_q 1, and a loss leaves half"
BETTER = "the better of NewReno's and Westwood+'s"


def one(controller: str) -> Runs:
    return table1("linux", 1, controller)


# --- slow start's losses -------------------------------------------------------------------

SLOWLY = (
    "Linux's NewReno sends one retransmission a round trip and restarts its timer with each (RFC 6582, "
    "slow-but-steady): slow start's losses cost it and Westwood+ the whole run, unless a timeout ends it. The paper's "
    "impatient variant times out and starts anew"
)
SLOW_REPAIR = Cause(
    SLOWLY,
    Off(
        "TC-C repair",
        "Linux's defaults, whose SACK repairs slow start's losses: goodput of the first 10 s {bound} of Reno's",
        ratio_by_seed(one("taichung"), one("reno"), goodput_at_first),
        at_most=MOST,
    ),
    published="slow start loses 409 packets",
)
SLOW_REPAIR_UDP = Cause(SLOWLY, "TC-T3 1 linux")
SACK_REPAIRS = Cause(
    "SACK repairs what Reno's slow start lost within two round trips while the queue keeps the link busy: there is "
    "nothing left to win",
    Off(
        "TC-C busy",
        "Linux's defaults, one Reno sender: the link is busy {bound} of the time after its first second",
        each(one("reno"), busy),
        at_least=0.98,
    ),
)
ONE_REPAIRS = Cause(
    "without SACK one flow repairs a packet a round trip, and spends its whole run on that unless a timeout ends it: "
    "two flows then have more than it has",
    *(f"TC-C falls {controller}" for controller in OTHERS),
)

# --- random losses -------------------------------------------------------------------------

LOST_ACKS = Cause(
    "lost ACKs cost NewReno and Westwood+ timeouts, and Taichung hardly any",
    "TC-F7c westwood",
    published="their connections have five timeouts each in 20 s, Taichung's 0.7",
)
AGAIN = (
    "windows lose several packets at a time; without SACK one is repaired a round trip until the timer fires, and then "
    "the whole window is sent again"
)
TIMER = Cause(AGAIN, "TC-F7c westwood")
TIMER_SHARES = Cause(
    f"{AGAIN}; the shares are left to how long each waits",
    "TC-F7c reno",
    published="windows of thirty packets lose three at a time: 14,400 retransmissions and 16 timeouts a connection in "
    "30 s",
)
ALL_FILL = {
    p: Cause(
        "all three fill the link: there is nothing to win",
        Off(
            f"TC-C busy {p}",
            "{loss} of data lost, whoever sends: the link is busy {bound} of the time after a second: the least",
            extreme([each(fig7(p, c), busy) for c in ("taichung", *OTHERS)], min),
            at_least=0.98,
        ),
    )
    for p in ("0.1%", "1%")
}

# --- a flow's window crosses the queue in one piece: the same cause, with what each shows -----

PIECE = "a flow's window crosses the queue in one piece"
IN_ONE_PIECE = Cause(
    f"{PIECE}: its ACKs come in a clump, at the link's pace, and the filter of Fig. 2 rejects the gap up to the next "
    "one. So each flow takes the whole link for its own, and ssthresh_net, half the BDP with the queue full, stays "
    "above its window: slow start goes on"
)
GOES_ON = f"{PIECE} (claim TC-X): each flow takes the whole link for its own, and slow start goes on"
CUTS = (
    f"{PIECE} (claim TC-X), so each flow takes the whole link for its own; and a loss cuts by what is queued only, and "
    "slow start goes on from there"
)


def half(title: str) -> Runs:
    return Runs("TC-C-HALF", title=title)


HALF_1 = Cause(
    f"{CUTS}; without SACK a flow then repairs a packet a round trip",
    Off(
        "TC-C half 1%",
        f"without SACK, {{loss}} of data lost, twenty flows ({HALVES}): goodput >= Westwood+'s",
        over(half("Fig. 7, without SACK, 1 % lost"), fig7("1%", "westwood", "TC-F7-NEWRENO")),
        at_least=1,
    ),
)


def beside_udp(id: str, how: str):
    return Off(
        f"TC-C {id} udp",
        f"without SACK, ten senders {how} beside {{load}} of UDP: goodput in {{bound}} of {BETTER}",
        over(Runs(f"TC-C-{id.upper()}-UDP"), [table3("newreno", 10, c) for c in OTHERS]),
        within=(0.995, MOST),
    )


TABLE_1 = {  # senders and stack -> cause
    (1, "newreno"): SLOW_REPAIR,
    (2, "newreno"): Cause(SLOWLY, "TC-T1 2 linux"),
    (10, "newreno"): Cause(
        f"{GOES_ON}; without SACK ten flows are in recovery most of the time", "TC-C own goodput newreno"
    ),
    (10, "linux"): Cause(f"{GOES_ON}; the link carries what is then sent again", "TC-C own goodput linux"),
}
APART = "the windows, set apart by the first overflow, move by a packet a round trip"
TABLE_2 = {
    (2, "newreno"): Cause(
        "without SACK slow start's losses cost a flow a round trip each, and the other flow takes the link: twenty "
        "seconds are too short to make up for it",
        "TC-C later two Reno, without SACK",
    ),
    (2, "linux"): Cause(
        APART, "TC-C later two Reno", published="NewReno's by a packet each 0.17 s; Taichung's index is 0.996"
    ),
    (10, "newreno"): Cause(
        f"{GOES_ON}; without SACK a flow then repairs a packet a round trip, and twenty seconds are too short to even "
        "that out",
        "TC-C long ten, without SACK",
        published="own_q alone gives 0.90 in twenty seconds",
    ),
    (10, "linux"): Cause(
        f"{GOES_ON} until losses end it",
        "TC-C later ten, Linux's defaults",
        published="ten flows send 9,700 packets again, NewReno's 575; with own_q they send 850 again, and the index is "
        "0.86, as NewReno's",
    ),
}
TABLE_3 = {
    (1, "newreno"): SLOW_REPAIR_UDP,
    (2, "newreno"): Cause(SLOWLY),
    (10, "newreno"): Cause(
        f"{CUTS}; without SACK ten flows are in recovery most of the time", beside_udp("half", f"({HALVES})")
    ),
}
TABLE_4 = {  # by the id of the claim
    "TC-T4": Cause(
        f"{CUTS}; and the time is too short to even out what the first overflow sets apart",
        Off(
            "TC-C half twenty",
            f"no loss, twenty flows ({HALVES}), two minutes: Jain index {{bound}}",
            each(half("Table 4, two minutes"), jain_index),
            at_least=0.97,
        ),
    ),
    "TC-T4 reno": Cause(f"{APART}: fifteen seconds are too short", "TC-C long twenty Reno"),
    "TC-T4-NEWRENO": TIMER_SHARES,
    "TC-T4-NEWRENO reno": Cause(
        "without SACK slow start's losses and the random ones cost a round trip each: the time is too short to even "
        "out what they set apart",
        "TC-C long twenty Reno, without SACK, 1 % lost",
    ),
}


# --- checks that show more than one cause, or that none ----------------------------------------


def checks():
    for profile, how in WITH.items():
        own = Runs("TC-C-OWN", title=f"Table 1, {how}")
        says = f"{how}, ten senders with own_q: goodput in {{bound}} of {BETTER}"
        value = over(own, [table1(profile, 10, c) for c in OTHERS])
        yield Off(f"TC-C own goodput {profile}", says, value, within=(0.995, MOST))
        says = f"{how}, ten senders with own_q: Jain index {{bound}}"
        yield Off(f"TC-C own Jain {profile}", says, each(own, jain_index), at_least=0.98)
    says = "no loss, twenty flows with own_q: Jain index {bound}"
    yield Off("TC-C own twenty", says, each(Runs("TC-C-OWN", title="Table 4, no loss"), jain_index), at_least=0.97)
    yield beside_udp("own", "with own_q")
    lossy = Runs("TC-C-OWN", title="Fig. 7, without SACK, 1 % lost")
    says = "without SACK, {loss} of data lost, twenty flows with own_q: goodput >= Westwood+'s"
    yield Off("TC-C own 1%", says, over(lossy, fig7("1%", "westwood", "TC-F7-NEWRENO")), at_least=1)
    yield from falls()
    yield from longer()


def falls():
    """Table 3's rivals with SACK: a connection's goodput falls with the number of senders."""
    for controller, name in zip(OTHERS, ("NewReno", "Westwood+")):
        by_n = [
            table3("linux", 1, controller),
            *(Runs("TC-C-FALLS", flows__count=n, flows__controller=controller) for n in SENDERS[1:]),
        ]
        says = (
            f"Linux's defaults, beside {{load}} of UDP: {name}'s goodput of a connection falls with the number of "
            "senders: larger one of the ratios 2 to 1 and 10 to 2 {bound}"
        )
        value = extreme([over(more, fewer) for fewer, more in pairwise(by_n)], max)
        yield Off(f"TC-C falls {controller}", says, value, below=1)


def longer():
    """Shares over two minutes, and a minute after the flows began."""
    long, later = "two minutes", "from 60 to 120 s"
    for when, title, index in (
        (long, "ten, without SACK", 0.98),
        (long, "ten, Linux's defaults", 0.98),
        (long, "twenty", 0.97),
        (long, "twenty Reno", 0.98),
        (long, "twenty Reno, without SACK, 1 % lost", 0.98),
        (long, "two Reno, without SACK", 0.99),
        (later, "two Reno", 0.99),
        (later, "two Reno, without SACK", 0.99),
        (later, "ten, Linux's defaults", 0.98),
    ):
        name = "long" if when == long else "later"
        says = f"{title}{'' if 'Reno' in title else ', with own_q'}, {when}: Jain index {{bound}}"
        value = each(Runs(f"TC-C-{name.upper()}", title=title), jain_index)
        yield Off(f"TC-C {name} {title}", says, value, at_least=index)
