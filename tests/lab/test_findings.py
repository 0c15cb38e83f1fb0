# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/findings.md: each scenario is sound and has its place on the page, and seven still show what the page says."""

from __future__ import annotations

import re

import pytest

from asymlab.machine.image import DEFAULT_KERNEL
from asymlab.plan import base, scenario
from tests.shared import LAB, REPO, compile_job, runs

FILE = REPO / "experiments" / "findings" / "cases.toml"
PAGE = REPO / "docs" / "findings.md"
PICTURE_MAX = 60_000  # bytes


def of_page(name: str, image: str = DEFAULT_KERNEL, **point) -> list:
    return runs(FILE.with_name(f"{FILE.name}:{name}"), image, **point)


def counted(run, name: str) -> int:
    return run.record["agent"]["marks"]["end"]["tcp"]["src0"][name]


@pytest.mark.parametrize("name", base.cases(FILE))
def test_a_finding_has_a_scenario_a_command_and_a_picture(name):
    for case in scenario.load(FILE.with_name(f"{FILE.name}:{name}")):
        compile_job(case, 1)
    text = PAGE.read_text()
    assert f"\n    build/venv/bin/asymlab run {FILE.relative_to(REPO)}:{name}" in text
    assert f"](findings/{name}.png)" in text
    assert 1000 < (PAGE.parent / "findings" / f"{name}.png").stat().st_size < PICTURE_MAX


def test_the_page_names_nothing_else():
    text = PAGE.read_text()
    names = set(base.cases(FILE))
    assert len(names) > 5
    assert set(re.findall(r"asymlab run experiments/findings/cases\.toml:(\S+)", text)) == names
    assert set(re.findall(r"\]\(findings/(\S+?)\.png\)", text)) == names
    assert len(re.findall(r"^## \d", text, re.M)) == len(names)


@pytest.mark.lab
def test_a_gred_queue_shuts():
    """The first drop after a pause ends the idle time: with a small weight the average stays where it is."""
    weight = "path.forward.red.weight"
    shut = [of_page("gred-shut", seed=seed, **{weight: 0.002})[0].metrics for seed in (1, 2, 3)]
    assert any(metrics["goodput_bps"] == 0 < metrics["forward"]["drops"] for metrics in shut)  # chance decides
    (light,) = of_page("gred-shut", **{weight: 0.05})
    assert light.metrics["utilisation"] > 0.9


@pytest.mark.lab
def test_recovery_doubles_what_is_in_flight():
    lost, clean = of_page("prr")
    recovery = lost.acks[lost.acks["ca_state"] == 3]["in_flight"]
    assert recovery.max() > 1.8 * recovery[0] > 20
    later = (clean.acks["t"] > 0.6) & (clean.acks["t"] < 0.7)
    assert clean.acks["in_flight"][later].max() == 1


@pytest.mark.lab
def test_growth_by_acks_ends_where_acks_are_thinned():
    every, delayed, thinned = of_page("stretch-acks", LAB, **{"flows.controller": "highspeed"})
    acks = [r.metrics["acks_per_data_packet"] for r in (every, delayed, thinned)]
    assert acks[0] > 0.99 and 0.4 < acks[1] < 0.6 and acks[2] < 0.2
    grown = []
    for run in (every, delayed, thinned):
        windows = run.acks["cwnd"][(run.acks["ca_state"] == 0) & (run.acks["t"] > 3)].astype(int)
        grown.append(windows[-1] - windows[0])
    assert grown[0] > 2 * grown[1] > 6 * grown[2] > 0


@pytest.mark.lab
def test_f_rto_undoes_a_timeout_for_a_packet_that_was_lost():
    with_frto, without = of_page("frto")
    for run, spurious in ((with_frto, 1), (without, 0)):
        assert counted(run, "TcpExtTCPTimeouts") == 1
        assert counted(run, "TcpExtTCPSpuriousRTOs") == spurious
        assert counted(run, "TcpExtTCPDSACKRecv") == 0  # nothing that arrived was sent again
    before, after = (
        {round(run.acks["cwnd"][run.acks["t"].searchsorted(t)]) for run in (with_frto, without)} for t in (2, 2.65)
    )
    assert len(before) == 1 and max(after) >= max(before) and min(after) < 0.8 * max(before)


@pytest.mark.lab
def test_an_rtt_is_as_long_as_the_connection_is_old():
    after, as_well, nowhere = of_page("stripped", LAB)
    srtt_s = [r.acks["srtt_us"].max() / 1e6 for r in (after, as_well, nowhere)]
    assert srtt_s[0] > 5 and max(srtt_s[1:]) < 0.1
    assert (
        after.metrics["goodput_bps"] < 1e4 and min(as_well.metrics["goodput_bps"], nowhere.metrics["goodput_bps"]) > 9e6
    )


@pytest.mark.lab
def test_an_old_timeout_undoes_a_fall_of_the_mtu():
    """One timeout, long before; and then no more is in flight than before, whatever the stack counts."""
    with_frto, without = of_page("mtu", LAB)
    grown = []
    for run, spurious in ((with_frto, 1), (without, 0)):
        assert run.acks["t"][run.acks["ca_state"] == 4][0] < 1 and counted(run, "TcpExtTCPSpuriousRTOs") == spurious
        before, after = (run.acks["cwnd"][run.acks["t"].searchsorted(t)] for t in (18.9, 19.9))
        grown.append(after / before)
    assert grown[0] > 2 and grown[1] < 1


@pytest.mark.lab
def test_wireguard_passes_what_gre_drops():
    passed, dropped = of_page("wireguard")
    lost = [r.metrics["flows"][0]["retransmits"] / r.metrics["forward"]["packets"] for r in (passed, dropped)]
    assert lost[0] < 0.001 and lost[1] == pytest.approx(0.01, abs=0.001)
    assert passed.metrics["goodput_bps"] > 3 * dropped.metrics["goodput_bps"]


@pytest.mark.lab
def test_sack_compression_forgets_acks():
    """With it a third of all segments have no ACK of their own, nor are they counted."""
    compressed, every = of_page("sack", LAB)
    for run, least, most in ((compressed, 0.3, 0.5), (every, -0.001, 0.03)):  # some come in order, two to an ACK
        told, segments = run.record["agent"]["receivers"]["dst0"], run.goodput["segments"].sum()
        assert run.goodput["not_next"].sum() > 0.95 * segments
        assert least < 1 - (told["TcpOutSegs"] + told["TcpExtTCPAckCompressed"]) / segments < most
