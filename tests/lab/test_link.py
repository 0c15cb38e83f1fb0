# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab link`: a user's words become a scenario, the best is that of the rule, and the answer is whole."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymlab import LabError
from asymlab.guest.job import Node
from asymlab.guest.wire import dump
from asymlab.link import answer, path, picture, real
from asymlab.link.path import Link
from asymlab.link.row import Beside, Row
from asymlab.plan import scenario, synthetic
from asymlab.plan.toml import toml
from asymlab.results.store import Run
from asymlab.run import cost
from tests.ktap import built
from tests.shared import BUILD, LAB, REPO, asymlab, compile_job, one_line, some_hop, some_job

# --- from words to a scenario ---------------------------------------------------------------


def cases(link, *controllers, folder):
    file = folder / "link.toml"
    file.write_text(toml(path.tree(link, path.points(link, path.names(list(controllers), link)))))
    return scenario.load(file)


@built
def test_the_scenario_is_the_link(tmp_path):
    link = Link("50mbit", "81ms", "2mbit", 200, "0.1%", 5)
    every = {c.scenario.title: c.scenario for c in cases(link, folder=tmp_path)}
    chosen = {title: s for title, s in every.items() if title in (*path.DEFAULT, "fusion:radio")}
    assert [name.removesuffix(":radio") for name in chosen] == list(path.DEFAULT)
    for name, s in chosen.items():
        there, back = s.path.forward, s.path.reverse
        assert (there.rate, back.rate, there.queue, back.queue) == (50_000_000, 2_000_000, 200, 200)
        assert there.delay + back.delay == 81_000 and (there.loss, back.loss) == (0.001, 0)
        assert [(f.controller, f.count, f.ack) for f in s.flows] == [(path.split(name)[0], 5, "delayed")]
        assert s.thin == ({"reverse_kbit": 2000} if name.endswith("+thin") else None)
        special = {"fast": {"fast": {"alpha": 20}}, "fusion:radio": {"fusion": {"dmin_winc_us": 4000}}}
        assert s.controllers == special.get(name, {})
        assert s.run.start_jitter == s.run.duration // 4
        assert s.run.measure_from / 1e6 == pytest.approx(link.duration_s - link.measured_s)
    for case in cases(link, folder=tmp_path):
        compile_job(case, 1)


@built
def test_each_sender_is_asked_what_users_do_unless_nothing_else_is_there(tmp_path):
    """Alone, with CUBIC's upload, beside CUBIC in both orders, four beside four, and in replies. The receiver's thinned
    ACKs meet the upload alone."""
    link = Link("50mbit", "81ms", "2mbit", 200, "0.1%", 2)
    every = {c.scenario.title: c.scenario for c in cases(link, folder=tmp_path)}
    alone = [c.scenario.title for c in cases(replace(link, alone=True), folder=tmp_path)]
    senders = [name for name in alone if not name.endswith("+thin")]
    asked = {
        name + where for name in senders for where in (path.UPLOAD, path.BESIDE, path.AFTER, path.FOUR, path.REPLIES)
    }
    assert set(every) == {*alone, *asked, "cubic+thin with an upload"} - {"cubic after cubic"}
    late = round(link.duration_s / path.LATER * 1e6)
    for name in senders:
        base = path.split(name)[0]

        def flows(where):
            s = every[name + where]
            assert (s.path, s.controllers, s.thin) == (every[name].path, every[name].controllers, None)
            return [(f.controller, f.count, f.direction, f.start) for f in s.flows]

        cubic = ("cubic", 2, "forward", 0)
        assert flows("") == [(base, 2, "forward", 0)]
        assert flows(path.BESIDE) == [(base, 2, "forward", 0), cubic]
        assert name == "cubic" or flows(path.AFTER) == [(base, 2, "forward", late), cubic]
        assert flows(path.UPLOAD) == [(base, 2, "forward", 0), ("cubic", 1, "reverse", late)]
        assert flows(path.FOUR) == [(base, 4, "forward", 0), ("cubic", 4, "forward", 0)]
        (reply,) = every[name + path.REPLIES].flows
        assert (reply.reply, reply.every) == (100_000, 500_000)
    five = [c.scenario.title for c in cases(replace(link, flows=5), folder=tmp_path)]
    assert not [title for title in five if title.endswith(path.FOUR)]


def test_cubic_is_there_to_measure_by(tmp_path):
    titles = [c.scenario.title for c in cases(Link("50mbit", "30ms"), "reno", folder=tmp_path)]
    assert [title for title in titles if title.startswith("cubic")] == [
        "cubic" + where for where in ("", path.UPLOAD, path.BESIDE, path.FOUR, path.REPLIES)
    ]
    assert len(titles) == 5 + 6


@pytest.mark.parametrize(
    ("link", "jitter_us"),
    [
        (Link("50mbit", "30ms"), 2000),
        (Link("50mbit", "8ms"), 800),
        (Link("50mbit", "30ms", jitter="0s"), 0),
        (Link("50mbit", "30ms", jitter="5ms"), 5000),
    ],
)
def test_a_path_has_noise(tmp_path, link, jitter_us):
    (case, *_) = cases(link, "reno", folder=tmp_path)
    assert case.scenario.path.forward.jitter == case.scenario.path.reverse.jitter == jitter_us
    assert ("--jitter" in answer.not_looked_at(link, True)) == (link.jitter != "5ms")


def test_what_is_not_said_is_derived(tmp_path):
    link = Link("50mbit", "30ms", alone=True)
    (case,) = cases(link, "reno", folder=tmp_path)
    s = case.scenario
    assert (s.path.reverse.rate, s.path.forward.queue, s.path.forward.loss) == (50_000_000, 125, 0)
    assert "(one bandwidth-delay product)" in link.said()
    assert Link("1mbit", "10ms").packets == 10 and "(the least)" in Link("1mbit", "10ms").said()


@pytest.mark.parametrize(
    ("rate", "queue", "flows", "alpha"),
    [
        ("9mbit", 100, 1, 8),
        ("50mbit", 100, 1, 20),
        ("200mbit", 1000, 1, 200),
        ("50mbit", 100, 5, 10),
        ("50mbit", 2, 5, 1),
        ("100kbit", 999, 1, 8),
    ],
)
def test_fast_keeps_half_of_the_queue_free(rate, queue, flows, alpha):
    link = Link(rate, "20ms", queue=queue, flows=flows)
    assert path.parameters(link, "fast") == {"alpha": alpha} and path.parameters(link, "cubic") == {}


def test_fast_keeps_a_tenth_of_a_long_path():
    assert path.parameters(Link("20mbit", "600ms"), "fast") == {"alpha": 100}
    assert path.parameters(Link("20mbit", "600ms", flows=4), "fast") == {"alpha": 25}


def test_thinned_runs_have_one_beside_them_and_come_last():
    assert path.names(["bbr+thin", "fast", "bbr+thin"], LINK) == ["bbr", "fast", "bbr+thin"]
    assert path.names([], LINK) == list(path.DEFAULT)


@built
def test_presets():
    """One beside the plain controller; what it does not set depends on the path as ever."""
    wanted = ["fusion", "fast:thinned", "fast:upload+thin"]
    assert path.names(wanted, LINK) == ["fusion", "fast:thinned", "fast:upload", "fast:upload+thin"]
    assert path.parameters(LINK, "fast:thinned") == {"alpha": 20, "pacing": 1}
    assert answer.at_sender(LINK, "fast:thinned") == [
        "asymcc load fast --preset thinned --set alpha=20 && asymcc use fast --default"
    ]
    (line,) = answer.at_sender(LINK, "fusion:radio")
    assert line == "asymcc load fusion --preset radio && asymcc use fusion --default"
    lossy = path.names([], Link("10mbit", "40ms", loss="1%"))
    assert "fusion:radio" in lossy and "fusion" not in lossy and len(lossy) == len(path.DEFAULT)


@built
def test_the_words_of_a_command_are_quoted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(BUILD / "fast.bpf.o", "a;touch b;.bpf.o")
    assert answer.at_sender(LINK, "./a;touch b;.bpf.o") == [
        "asymcc load './a;touch b;.bpf.o' && asymcc use fast --default"
    ]


def test_a_file_is_named_by_the_link():
    names = {
        Link("50mbit", "80ms").name,
        Link("50 mbit", "80ms", "2mbit").name,
        Link("50mbit", "80ms", "2mbit", 9).name,
        Link("50mbit", "80ms", "2mbit", 9, "1 %").name,
        Link("50mbit", "80ms", "2mbit", 9, "1%", 3).name,
    }
    assert len(names) == 5 and all(re.fullmatch("[a-z0-9.-]+", name) for name in names)


@given(rate=st.integers(1, 2_000_000), rtt=st.integers(0, 5000))
def test_a_run_is_long_enough_and_no_longer(rate, rtt):
    link = Link(f"{rate}kbit", f"{rtt}ms")
    seconds, packets, rounds = link.duration_s, link.duration_s * rate / 12, link.duration_s / max(rtt / 1e3, 1e-9)
    assert round(seconds * 10, 6).is_integer()
    least = max(path.LEAST_S, path.LEAST_ROUNDS * rtt / 1e3, path.LEAST * 12 / rate)
    assert seconds >= least - 1e-6
    assert seconds <= max(least + 1, path.STRETCH * path.PACKETS * 12 / rate + 0.1)
    if packets > path.PACKETS + 0.1 * rate / 12 and seconds > least + 1:  # a tenth is what rounding may add
        assert rounds <= path.ROUNDS + 1


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (("10mbit", "40ms"), 43),
        (("5mbit", "40ms"), 60),
        (("50mbit", "30ms", "1mbit"), 8.6),
        (("100mbit", "600ms", "3mbit"), 17),  # GEO: four times the packets, half of the round trips
        (("900mbit", "10ms"), 3),
        (("2gbit", "5ms"), 3),
        (("1gbit", "600ms"), 12),
        (("1kbit", "40ms"), 3600),
    ],
)
def test_any_link_has_a_length(words, seconds):
    assert Link(*words).duration_s == seconds


def test_the_length_is_the_links_alone_unless_it_is_given():
    usual = Link("10mbit", "40ms").duration_s
    assert Link("10mbit", "40ms", "1mbit", 7, "2%", 4, alone=True).duration_s == usual == 43
    assert Link("1gbit", "100ms", duration="2.5s").duration_s == 2.5


def test_the_usual_runs_take_some_minutes_of_two_quiet_cores():
    """By QEMU, at 150 million instructions a second of each; a BPF controller takes 140 million to load. All have the
    link for themselves and beside an upload, CUBIC and two others are asked the rest."""
    runs = 2 * len(path.DEFAULT) + 3 * 4 - 1
    whole = (runs + len(path.DEFAULT)) * (cost.QEMU.expected(path.PACKETS) + 140e6)
    assert 60 < whole / (2 * 150e6) < 240 - runs * cost.QEMU.start_s / 2


def test_a_run_too_short_for_what_it_should_show_is_told():
    assert not Link("10mbit", "40ms").notes()
    (line,) = Link("10mbit", "40ms", loss="1%", duration="1s").notes()
    assert line.startswith("only 12 round trips are measured") and line.endswith("--duration 3s shows more")
    (line,) = Link("100mbit", "20ms").notes()
    assert re.match(r"CUBIC takes some 6 s .* --duration 13s shows it whole", line)
    few, _ = Link("100mbit", "600ms", "3mbit").notes()
    assert few.startswith("only 14 round trips are measured") and few.endswith("--duration 36s shows more")


@built
@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("--rate 50mbps --rtt 80ms", ("--rate 50mbps", "'10mbit'")),
        ("--rate 50mbit --rtt 80", ("--rtt 80", "'20ms'")),
        ("--rate 50mbit --rtt 80ms --reverse 0kbit", ("--reverse 0kbit", "1000")),
        ("--rate 50mbit --rtt 80ms --loss 1", ("--loss 1", "'0.1%'")),
        ("--rate 50mbit --rtt 80ms --loss 100%", ("--loss 100%", "less than 1")),
        ("--rate 50mbit --rtt 80ms --flows 201", ("--flows 201", "200 or less")),
        ("--rate 50mbit --rtt 80ms --duration 0.9s", ("--duration 0.9s", "at least 1s")),
        ("--rate 50mbit --rtt 80ms --duration 2.25s", ("--duration 2.25s", "tenths")),
        ("--rate 50mbit --rtt 80ms hugo", ("no controller 'hugo'", "there are", "cubic")),
        ("--rate 50mbit --rtt 80ms hugo+thin", ("no controller 'hugo'",)),
        ("--rate 50mbit --rtt 80ms fusion:hugo", ("no preset 'hugo'", "radio, fat")),
        ("--rate 50mbit --rtt 80ms cubic:", ("no preset ''", "cubic has none")),
        ("--rate 10gbit --rtt 10ms", ("--rate 10gbit", "carries 2.4 Gbit/s")),
        ("--rtt 80ms", ("--rate or --trace is missing", "--like")),
        ("--rate 50mbit", ("--rtt is missing", "--like")),
        ("--like leo-9", ("--like leo-9: not known", "--like list")),
        ("--like leo --rate 50mbps", ("--rate 50mbps", "'10mbit'")),
        ("--like leo --jitter 23ms", ("--jitter 23ms", "half of the RTT, 45ms")),
        ("--rate 50mbit --rtt 80ms --upload", ("--upload: goes with --like",)),
        ("--trace no.trace --rtt 80ms", ("no.trace: No such file",)),
        ("--trace no.trace --rate 50mbit --rtt 80ms", ("a link has one of both",)),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, lines):
    one_line(asymlab("link", *words.split()), *lines)


@built
def test_links_of_real_life(tmp_path):
    """Each is a scenario that can be planned, and says where its numbers are from."""
    assert len(real.LINKS) >= 20
    for name, one in real.LINKS.items():
        assert one.sources and set(one.sources) <= set(real.SOURCES)
        for upload in (False, True):
            link = one.link(upload, {"alone": True})
            (case,) = cases(link, "cubic", folder=tmp_path)
            compile_job(case, 1)
            rates = [link.rate_bps, link.reverse_bps]
            assert rates == sorted(rates, reverse=not upload), name
            assert link.rtt_us == case.scenario.path.forward.delay + case.scenario.path.reverse.delay
    p = asymlab("link", "--like", "list")
    assert p.returncode == 0 and all(f"\n {name} " in p.stderr for name in real.LINKS)


@built
def test_the_queue_of_a_modem(tmp_path):
    """250 ms toward the net: there the data wait with --upload, else the ACKs. An option counts more."""
    up, down, plain = (
        cases(real.find(name).link(upload, {"alone": True, **own}), "cubic", folder=tmp_path)[0].scenario.path
        for name, upload, own in (("docsis-3.0", True, {}), ("docsis-3.1", False, {}), ("leo", False, {"queue": 50}))
    )
    packets = round(18.88e6 * 0.25 / 8 / 1500)
    assert (up.forward.rate, up.forward.queue, up.forward.pie) == (18_880_000, packets, None)
    assert down.reverse.queue == packets and down.reverse.pie and not down.forward.pie
    assert down.forward.queue == round(184.08e6 / 12000 * 0.014)
    assert plain.forward.queue == plain.reverse.queue == 50


@built
def test_a_link_with_a_trace_and_jitter(tmp_path):
    """The trace is played once, and then measured once, if it is short enough."""
    file = tmp_path / "lte.trace"
    file.write_text("".join(f"{line}\n" for line in synthetic.of_kind("lte", 10**7, 3000, 1).lines()))
    link = Link("", "50ms", "2mbit", 300, alone=True, trace=str(file), jitter="4ms")
    (case,) = cases(link, "cubic", folder=tmp_path)
    there, back = case.scenario.path.forward, case.scenario.path.reverse
    assert there.trace.period_ms == 3000 and there.jitter == back.jitter == 4000 and back.rate == 2_000_000
    assert (case.scenario.run.duration, case.scenario.run.measure_from) == (6_000_000, 3_000_000)
    assert "lte.trace (" in link.said() and "jitter of 4 ms each way" in link.said() and "lte.trace-2mbit" in link.name
    long = replace(link, duration="4s")
    assert long.notes()[0].startswith("of the trace's 3 s the runs measure 2 s")
    left_out = answer.not_looked_at(link, True)
    assert "--trace" not in left_out and "--jitter" not in left_out and "--loss" in left_out
    assert "the traffic of others" in left_out


# --- the rule -------------------------------------------------------------------------------


ACKS = [("flow", "i4"), ("t", "f8"), ("cwnd", "i4"), ("in_flight", "i4"), ("acked", "i4")]


class Made(Run):
    acks = None  # given, where a run's are read from its files


def row(
    name,
    goodput,
    rtt,
    jain=1.0,
    invalid=(),
    way_back=0.9,
    retransmits=99,
    use=1.0,
    growth=0.0,
    met=None,
    later=None,
    acks=(),
    buffer=1,
):
    """On a link of 10 Mbit/s."""
    flow = {"rtt_s": {"mean": rtt} if rtt else {}, "retransmits": retransmits, "goodput_trend": growth}
    metrics = {"goodput_bps": goodput * 1e6, "jain": jain, "flows": [flow], "acks_per_data_packet": 0.5}
    record = {"metrics": metrics | {"utilisation": use, "reverse_utilisation": way_back}, "invalid": list(invalid)}
    nodes = [Node("src0", {f"net.ipv4.tcp_{way}mem": f"4096 16384 {buffer}" for way in "rw"})]
    job = some_job(watch=[some_hop(10e6)], nodes=nodes)
    r = Made(Path("/nowhere"), record | {"identity": {"job": dump(job)}})
    object.__setattr__(r, "acks", np.array(list(acks), ACKS))
    return Row(name, r, beside=met, later=later)


def text_of(*answers: list[str]) -> str:
    return "---\n".join("".join(f"{line}\n" for line in lines) for lines in answers)


@built
@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([row("cubic", 9.0, 0.05), row("fusion", 9.3, 0.2)], "fusion"),  # goodput counts first
        ([row("cubic", 9.0, 0.2), row("fusion", 9.1, 0.05)], "fusion"),
        ([row("cubic", 9.1, 0.2), row("fusion", 9.0, 0.05)], "fusion"),  # alike to 2 %: the RTT
        ([row("fusion", 9.1, 0.0500), row("cubic", 9.0, 0.0505)], "cubic"),  # alike in both: Linux's own
        ([row("formosa", 9.1, 0.05), row("fusion", 9.0, 0.05)], "fusion"),  # one end before both
        ([row("fast", 9.1, 0.05), row("fusion", 9.0, 0.05)], "fast"),  # the first
        ([row("fusion", 9.4, 0.05, jain=0.5), row("cubic", 5.0, 0.2)], "cubic"),  # unfair
        ([row("fusion", 9.4, 0.05, jain=0.5), row("cubic", 5.0, 0.2, jain=0.6)], "fusion"),  # none is fair
        ([row("cubic", 0.0, None), row("fusion", 0.1, None)], "fusion"),  # no RTT at all
    ],
)
def test_the_best_is_that_of_the_rule(rows, name):
    assert answer.best(rows).name == name
    assert answer.best(rows[::-1]).name == name or {r.name for r in rows} == {"fast", "fusion"}


def beside(*pairs, usual=4.8, flows=1, invalid=()):
    """A flow's Mbit/s, its own and CUBIC's, of each run."""

    def run(*rates, invalid=()):
        flows = [{"goodput_bps": rate * 1e6} for rate in rates]
        return Run(Path("/nowhere"), {"metrics": {"flows": flows}, "invalid": list(invalid)})

    runs = [run(*[own] * flows, *[theirs] * flows, invalid=invalid) for own, theirs in pairs]
    return Beside(tuple(runs), run(*[1.5 * usual, 0.5 * usual] * flows))


@pytest.mark.parametrize(
    ("met", "shares"),
    [
        (beside((4.8, 4.8), (4.8, 4.8)), True),
        (beside((2.5, 7.1), (7.1, 2.5)), True),
        (beside((2.3, 7.3), (4.8, 4.8)), False),  # half of 4.8 are 2.4
        (beside((4.8, 4.8), (2.3, 7.3)), False),
        (beside((7.3, 2.3), (4.8, 4.8)), False),
        (beside((1.3, 3.5), (1.3, 3.5), usual=2.4, flows=2), True),  # of two flows a fair share is a quarter
        (beside((1.1, 3.7), (1.3, 3.5), usual=2.4, flows=2), False),
        (beside((4.8, 4.8), (4.8, 4.8), invalid=["CPU 90 % busy"]), False),
    ],
)
def test_who_may_meet_cubic(met, shares):
    assert row("fast", 9.6, 0.05, met=met).serves == shares


def test_a_fair_share_is_no_more_than_what_it_has_alone():
    """One that loses half of its window at each random loss fills no link, alone or beside others."""
    slow = row("fast", 3.0, 0.05, met=beside((2.0, 3.0), usual=3.0))
    assert slow.gets(slow.beside) == pytest.approx(2 / 3) and slow.beside.leaves == 1 and slow.serves
    assert not row("fast", 3.0, 0.05, met=beside((1.4, 3.0), usual=3.0)).serves


@pytest.mark.parametrize("usual", [4.8, 2.0])
def test_cubic_meets_cubic(usual):
    """Which of the two has more is chance: each has the mean. It is what the others are measured by."""
    cubic = row("cubic", 9.6, 0.05, met=beside(usual=usual))
    assert cubic.beside.own == cubic.beside.left == cubic.beside.usual == pytest.approx(usual * 1e6)
    assert cubic.serves


@built
def test_what_starves_beside_others_is_advised_only_alone(snapshot):
    """With one that shares the link, without such a one, and on a link that nobody shares."""
    bad = [
        row("pseudorate", 9.6, 0.041, met=beside((0.3, 9.3))),
        row("fast", 9.6, 0.042, met=beside((9.5, 0.1))),
        row("fusion", 9.6, 0.043, met=beside((9, 9), invalid=["CPU 90 % busy"])),
    ]
    rows = [*bad, row("taichung", 9.6, 0.060, met=beside((5.0, 4.6)))]
    alone = answer.words(replace(LINK, alone=True), [replace(r, beside=None) for r in rows])
    snapshot(text_of(answer.words(LINK, rows), answer.words(LINK, bad), alone))


@pytest.mark.parametrize(
    "link, seconds",
    [
        (Link("10mbit", "50ms"), 120),
        (Link("100mbit", "40ms"), 120),
        (Link("1gbit", "10ms"), 12),  # a million packets
        (Link("10gbit", "10ms"), None),  # as long as the others
        (Link("100kbit", "5s"), None),
        (Link("10mbit", "50ms", alone=True), None),
        (Link("10mbit", "50ms", duration="9s"), None),
    ],
)
def test_how_long_what_would_be_advised_must_share(link, seconds):
    assert (link.lasting and link.lasting.duration_s) == seconds


@built
def test_what_wins_slowly_is_not_advised(snapshot):
    """It shares the link in short runs, and starves CUBIC in longer ones. The next best shares it in both."""
    even = beside((4.8, 4.8))
    rows = [
        row("bbr3", 9.6, 0.041, met=even, later=beside((8.5, 1.1))),
        row("fast", 9.6, 0.042, met=even, later=beside((0.9, 8.7))),
        row("fusion", 9.6, 0.043, met=even, later=beside((9, 9), invalid=["CPU 90 % busy"])),
        row("taichung", 9.6, 0.060, met=even, later=beside((5.1, 4.5))),
        row("pseudorate", 9.6, 0.080, met=even),
    ]
    assert [r.serves for r in rows] == [False, False, False, True, True] and answer.advised(rows) is rows[3]
    link = replace(LINK, duration="")
    snapshot(text_of(answer.words(link, rows), answer.words(link, rows[4:])))


@built
def test_where_another_run_may_decide_otherwise_is_said():
    rows = [row(name, 9.6, 0.05, met=beside(met)) for name, met in (
        ("pseudorate", (0.3, 9.3)), ("fusion", (2.2, 7.3)), ("taichung", (6.5, 3.1)), ("fast", (4.6, 5.0))
    )]  # fmt: skip
    (line,) = [line for line in answer.words(LINK, rows) if line.startswith("Near")]
    assert line == "Near the limit, 50%, so chance decides: fusion (46%), taichung (65%). --duration 172s tells more."
    assert LINK.duration_s == 172 / 4


def test_what_waited_behind_a_gap_is_no_goodput_of_the_measured_time():
    assert row("cubic", 9.9, 0.1).goodput == row("cubic", 9.9, 0.1, use=1.001).goodput == pytest.approx(9.6e6)
    assert row("cubic", 9.5, 0.1, use=0.9).goodput == pytest.approx(8.64e6)
    assert row("cubic", 9.5, 0.1).goodput == pytest.approx(9.5e6)


LINK = Link("10mbit", "40ms", "1500kbit", 100)


@built
def test_an_invalid_run_is_told_and_not_ranked():
    rows = [row("cubic", 5, 0.1), row("fusion", 9, 0.05, invalid=["CPU 90 % busy"])]
    text = answer.words(LINK, rows)
    assert text[0] == "fusion: not ranked, invalid: CPU 90 % busy"
    assert not [line for line in text[1:] if "fusion" in line] and [
        line for line in text if "keep CUBIC, 5 Mbit" in line
    ]
    with pytest.raises(LabError, match="no run is valid: fusion: not ranked, invalid: CPU"):
        answer.words(LINK, rows[1:])


@built
def test_the_receiver_is_told_to_thin_only_where_it_gains(snapshot):
    """Thinning gains, it does not, all ACKs have room, and it was not tried."""
    better = [row("cubic", 5, 0.1), row("cubic+thin", 9, 0.05)]
    worse = [row("cubic", 5, 0.1), row("cubic+thin", 4, 0.1)]
    chance = [row("cubic", 5, 0.1, way_back=0.3), row("cubic+thin", 9, 0.05)]
    snapshot(text_of(*(answer.receiving(LINK, rows) for rows in (better, worse, chance, better[:1]))))
    assert answer.thin_line(Link("10mbit", "40ms", "2mbit")) == "asymcc thin --reverse 2mbit"


def held(goodput, in_flight, cwnd, buffer=4 << 20):
    """So many packets in flight under a window of so many."""
    acks = [(0, 0.5, 9, 9, 9), *[(0, 2.0, cwnd, in_flight - 2, 2896)] * 9]
    return row("cubic", goodput, 0.6, acks=acks, buffer=buffer)


@pytest.mark.parametrize(
    ("r", "by_buffers"),
    [
        (held(5, 2000, 3000), True),
        (held(5, 2000, 2010), False),  # the window
        (held(9.5, 2000, 3000), False),  # the link
        (held(5, 200, 3000), False),  # something else: a pacing rate, say
        (held(5, 2000, 3000, buffer=64 << 20), False),
    ],
)
def test_where_buffers_are_the_limit_it_is_told(r, by_buffers):
    assert r.held_by_buffers == by_buffers
    lines = [line for line in answer.words(replace(LINK, alone=True), [r]) if "socket buffers" in line]
    assert bool(lines) == by_buffers and all("limit cubic: " in line for line in lines)


@pytest.mark.parametrize(
    ("link", "profile"),
    [
        (Link("100mbit", "600ms", "3mbit"), "linux"),  # 15 MB in flight
        (Link("100mbit", "600ms", "3mbit", flows=10), "tuned"),
        (Link("100mbit", "20ms", queue=5000), "linux"),
        (Link("100mbit", "600ms", "3mbit", tuned=True), "tuned"),
        (Link("50mbit", "30ms", "1mbit"), "tuned"),
    ],
)
def test_hosts_are_as_they_come_where_their_buffers_may_be_the_limit(tmp_path, link, profile):
    (case, *_) = cases(link, "reno", folder=tmp_path)
    assert case.scenario.profile == profile
    rmem = {n["sysctls"]["net.ipv4.tcp_rmem"] for n in compile_job(case, 1)["nodes"] if "src" in n["name"]}
    assert all(value.endswith(" 6291456") == (profile == "linux") for value in rmem)


@built
def test_few_losses_and_a_flow_that_still_grows_are_told(snapshot):
    """Random losses that are few, a queue's losses, and a flow that has not arrived."""
    few = [row("cubic", 5, 0.1, retransmits=29), row("bbr", 5, 0.1, retransmits=30)]
    growing = [row("cubic", 5, 0.1), row("fast", 5, 0.1, growth=0.3)]
    lossy = Link("10mbit", "40ms", loss="0.1%")
    snapshot(text_of(answer.words(lossy, few), answer.words(LINK, few), answer.words(LINK, growing)))


def asymcc(*words):
    return subprocess.run([BUILD / "asymcc", *words], capture_output=True, text=True, check=True).stdout


@built
@pytest.mark.parametrize("name", [*path.DEFAULT, *path.RADIO.values()])
def test_the_commands_are_ones_that_asymcc_has(name):
    thinned = name.endswith("+thin")
    lines = [answer.thin_line(LINK)] if thinned else answer.sending(LINK, [row(name, 9, 0.05)])
    commands = re.findall(r"asymcc (\w+)((?: [^&\n]+)?)", "\n".join(lines))
    assert commands
    for command, words in commands:
        options = re.findall(r"--\w+", words)
        assert set(options) <= set(re.findall(r"--\w+", asymcc(command, "--help"))), words
        for key in re.findall(r"--set (\w+)=", words):
            assert re.search(rf"^  {key} ", asymcc("show", path.split(name)[0]), re.M)
    assert ("both ends" in lines[0]) == (name == "formosa")


# --- real runs ------------------------------------------------------------------------------

WORDS = ["--image", LAB, *"--rate 2mbit --reverse 30kbit --rtt 40ms --queue 30 --duration 12s".split()]


def numbers(text):
    """The columns of the table, by controller."""
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    return {f[0]: f[1:] for f in rows if len(f) > 5 and f[0] != "controller"}


@pytest.mark.lab
def test_the_answer_is_whole_and_comes_from_the_store_the_second_time(tmp_path):
    env = {"ASYMLAB_STORE": str(tmp_path)}
    first = asymlab("link", *WORDS, "cubic", "fast", "cubic+thin", env=env)
    assert first.returncode == 0 and "3/3" in first.stderr, first
    shown = numbers(first.stderr)
    assert list(shown) == ["cubic", "fast (alpha 8)", "cubic+thin"]
    for cells in shown.values():
        assert 0 < float(cells[0]) <= 2 * (1 - 52 / 1500) + 0.0005
        assert float(cells[1]) >= 40 and float(cells[1]) == pytest.approx(40 + float(cells[2]), abs=0.11)
    # 83 ACKs a second for 167 packets would take 35 kbit/s: the ACKs are the bottleneck until they are thinned.
    assert float(shown["cubic+thin"][4].rstrip("%")) <= float(shown["cubic"][4].rstrip("%"))
    assert "Beside an upload: " in first.stderr and "Reason" in first.stderr
    image, file = (
        REPO / Path(re.search(rf"^{what}: (.*)$", first.stderr, re.M)[1]) for what in ("picture", "scenario")
    )
    assert image.read_bytes().startswith(b"\x89PNG") and len(tomllib.loads(file.read_text())["sweep"]["points"]) == 13

    again = asymlab("link", *WORDS, "cubic", "fast", "cubic+thin", env=env)
    assert "left" not in again.stderr and "1/3" not in again.stderr and numbers(again.stderr) == shown
    more = asymlab("link", *WORDS, "reno", "cubic", "--dry-run", env=env)
    assert "11 runs, " in more.stderr and "1/" not in more.stderr
    alone = asymlab("link", *WORDS, "cubic", "fast", "cubic+thin", "--alone", env=env)
    assert "left" not in alone.stderr and {n: c[:5] for n, c in numbers(alone.stderr).items()} == {
        n: c[:5] for n, c in shown.items()
    }
    assert "    asymcc thin --reverse 30kbit\n" in alone.stderr
    repeated = asymlab("run", file, "--dry-run", "--image", LAB, env=env)
    assert repeated.returncode == 0 and "11 runs, " in repeated.stderr


@pytest.mark.lab
def test_what_would_be_advised_shares_the_link_for_longer(tmp_path):
    """One after the other, until one shares it. CUBIC needs no run: the others are measured by it."""
    env = {"ASYMLAB_STORE": str(tmp_path)}
    words = f"link --image {LAB} --rate 2mbit --rtt 20ms --queue 40 fast bbr cubic".split()
    text = asymlab(*words, env=env).stderr
    asked = re.findall(r"^whether (.*) shares the link in a run of 120 s:$", text, re.M)
    chosen = advised(text)
    assert chosen == "cubic" or chosen == asked[-1] and re.search(rf"^In runs of 120 s {chosen} has ", text, re.M)
    assert all(re.search(rf"CUBIC beside it for long .*\b{name} ", text) for name in asked if name != chosen)
    again = asymlab(*words, env=env).stderr
    assert " left" not in again and numbers(again) == numbers(text)


def advised(text):
    line = re.search(r"sends the data .*: (.*)", text)[1]
    return "cubic" if "keep CUBIC" in line else line.split()[0].rstrip(",")


@pytest.mark.lab
def test_what_is_advised_survives_an_upload(tmp_path):
    """A cable line of 50 and 1 Mbit/s, on which all that is alike alone is not beside an upload."""
    words = f"link --image {LAB} --rate 50mbit --reverse 1mbit --rtt 30ms cubic taichung fast".split()
    text = asymlab(*words, env={"ASYMLAB_STORE": str(tmp_path)}).stderr
    uploads = {name.split()[0]: float(cells[5].split(" / ")[0]) for name, cells in numbers(text).items()}
    assert uploads[advised(text)] >= answer.HALF * uploads["cubic"], text
    decided = text.partition("Reasons")[2].splitlines()[0]
    assert all(name in decided for name in {"cubic", "taichung", "fast"} - {advised(text), "cubic"})


@pytest.mark.lab
def test_several_flows_have_a_jain_index():
    p = asymlab(*f"link --image {LAB} --rate 2mbit --rtt 20ms --duration 8s --flows 3 --alone reno".split())
    (cells,) = numbers(p.stderr).values()
    assert p.returncode == 0 and 1 / 3 <= float(cells[-1]) <= 1 and "Jain index of 0.9" in p.stderr
    assert "That was not tried" in p.stderr and "Not looked at: a rate that changes (--trace)" in p.stderr


@built
def test_a_picture_has_a_mark_for_each_controller():
    rows = [row("cubic", 9, 0.05), row("fast", 8, 0.045), row("cubic+thin", 9.2, 0.041)]
    all_of_them, fewer = picture.picture(LINK, rows), picture.picture(LINK, rows[:2])
    assert all_of_them.startswith(b"\x89PNG") and all_of_them != fewer
    met = [replace(rows[0], beside=beside(usual=4.8)), replace(rows[1], beside=beside((0.4, 9.2)))]
    pictures = {picture.picture(LINK, [*shown, rows[2]]) for shown in (met, met[:1], [met[0], rows[1]], rows[:2])}
    assert len(pictures) == 4
