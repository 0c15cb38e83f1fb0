# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The kernel check judges a run: made-up ones of a controller whose law has a live parameter."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asymlab import LabError
from asymlab.conformance.kernels import properties
from asymlab.conformance.kernels.outcome import Column, Result
from asymlab.conformance.kernels.setup import CHANGE, END, PAUSE, RATE, RESUME, Facts, Setup
from asymlab.conformance.kernels.view import RunView
from asymlab.controller import Controller, Law, cuts_to
from asymlab.controllers import REGISTER
from asymlab.paths import BUILD, STORE
from tests.ktap import told
from tests.shared import some_job

LAW = "law: a loss leaves 7/8"
SHARE, PER_S = 0.948, RATE / 8000  # packets of 1000 bytes
ACK = [(n, t) for n, t in zip("t cwnd ssthresh ca_state delivered".split(), ["f8", "u4", "u4", "u1", "u4"])]


@pytest.fixture(autouse=True)
def record(monkeypatch):
    law = Law("a loss leaves 7/8", cuts_to(lambda ack, _: ack["cwnd"] * 7 / 8))
    monkeypatch.setitem(REGISTER, "own", Controller("own", law=law))


def flow(
    number: int, cuts: dict[float, int], silent: tuple[float, float] = (END, END)
) -> tuple[np.ndarray, np.ndarray]:
    """ACKs and goodput at the full rate, windows of 152, to which a loss leaves so much at each time."""
    t = np.arange(0.05, END, 1 / PER_S)
    t = t[(t < silent[0]) | (t >= silent[1])]
    acks = np.zeros(len(t), [("flow", "u2"), *ACK])
    acks["flow"], acks["t"], acks["cwnd"], acks["delivered"] = number, t, 152, np.arange(len(t))
    for at, cwnd in cuts.items():
        k = np.searchsorted(t, at)
        acks["ca_state"][k : k + 40] = 3
        acks["ssthresh"][k : k + 40] = cwnd
    goodput = np.zeros(10 * END, [("flow", "u2"), ("t", "f8"), ("bytes", "u8")])
    goodput["flow"], goodput["t"] = number, np.arange(10 * END) / 10
    goodput["bytes"] = np.histogram(t, 10 * END, (0, END))[0] * round(1000 * SHARE)
    return acks, goodput


def view(cuts: dict[float, int], change: bool = True, hole: bool = False) -> RunView:
    """A run with a flow for each role. `hole`: a packet lost 0.3 s before the end, what comes behind it waits."""
    flows = [flow(0, {}, (PAUSE, RESUME)), flow(1, cuts), flow(2, cuts)]
    if hole:
        flows[1][1]["bytes"][-3:] = 0
    shown = {
        "programs": [{"name": "own_init", "verified_insns": 9}],
        "registered": True,
        "counters": [{"name": "flows", "value": 1}],
        "parameters": [{"name": "beta", "value": 10}],
        "state": [],
    }
    run = SimpleNamespace(
        job=some_job(payload_share=SHARE),
        record={"agent": {"controllers": {"own": shown, "own_2": shown}}, "where": "lab"},
        acks=np.concatenate([acks for acks, _ in flows]),
        goodput=np.concatenate([goodput for _, goodput in flows]),
        self_check=[],
        folder=STORE / ("ab" * 16),
    )
    return RunView("own", Setup(("own",), change=change), run, Facts({"beta": 10}, False))


BEFORE, AFTER = {1.0: 133, 2.0: 133, 3.0: 133}, {CHANGE + 0.5: 128, CHANGE + 2.0: 128}


def test_a_cut_is_judged_by_the_value_that_held():
    """After the change an eighth is 10/64: 128 of 152."""
    outcomes = properties.judge(view(BEFORE | AFTER), {}).outcomes
    assert outcomes[LAW] is None and outcomes["live parameters change"] is None


def test_a_cut_before_the_change_must_keep_the_law():
    assert properties.judge(view(BEFORE | {4.0: 128}), {}).outcomes[LAW] == "from 152 to 128, not 133"


def test_where_nothing_changes_all_cuts_are_judged():
    assert properties.judge(view(BEFORE | AFTER, change=False), {}).outcomes[LAW] == "from 152 to 128, not 133"


def test_a_loss_just_before_the_end_is_no_failure():
    v = view(BEFORE, hole=True)
    arrived = v.run.goodput[(v.run.goodput["flow"] == 1) & (v.run.goodput["t"] >= 8)]["bytes"].sum() * 8 / 2
    assert arrived < 0.9 * v.full  # it waits behind the hole
    assert properties.judge(v, {}).outcomes["live parameters change"] is None


def test_a_flow_that_is_slow_after_the_change_fails():
    v = view(BEFORE)
    v.run.acks["delivered"][v.run.acks["t"] > 9] = 0
    v.run.acks["delivered"] = np.maximum.accumulate(v.run.acks["delivered"])
    assert "Mbit/s afterwards" in properties.judge(v, {}).outcomes["live parameters change"]


def test_the_rate_is_that_of_its_time():
    v = view({})
    assert v.rate("clean", 2, 4) == pytest.approx(v.full, rel=0.01) and v.rate("bare", 4, 6) == 0


@pytest.mark.parametrize("ca_state, holds", [(0, False), (1, False), (3, True)])
def test_a_window_that_a_recovery_brings_down_is_the_stacks(ca_state, holds):
    """Formosa's cut is done at once, the stack's takes an ACK for each packet."""
    acks, state = (
        np.zeros(40, ACK),
        np.zeros(40, [(n, "u4") for n in ("cwnd", "w", "w_part", "w_last", "peer_signals")]),
    )
    state["w"], state["w_last"], state["cwnd"] = 49, 49, 90
    state["cwnd"][20:25], acks["ca_state"][20:25] = 104, ca_state
    for k in (5, 10, 15):  # a signal takes an eighth: 42.875 of 49
        state["w"][k], state["w_part"][k], state["peer_signals"][k:] = 42, 0.875 * 2**16, k
    drops = {"forward": {"drops": 0}}
    seen = SimpleNamespace(states=lambda role: state, acks=lambda role: acks, hop=lambda role: drops)
    if holds:
        return REGISTER["formosa"].law.holds(seen)
    with pytest.raises(LabError, match="more than the last two rounds"):
        REGISTER["formosa"].law.holds(seen)


def test_a_failed_check_names_its_scenario_and_its_run(monkeypatch, tmp_path):
    monkeypatch.chdir(BUILD)
    result = properties.judge(view(BEFORE | {4.0: 128}), {})
    where = f"scenario kernels/own.toml, run {STORE.relative_to(BUILD) if STORE.is_relative_to(BUILD) else STORE}/"
    assert result.where == where + "ab" * 16
    _, _, lines = told([Column("6.1", "6.1.0", results={"own": result})])
    assert any(
        line.strip() == f"# {result.failed} of {len(result.outcomes) + 1} failed: {result.where}" for line in lines
    )
    monkeypatch.chdir(tmp_path)
    assert view({}).where.startswith(f"scenario {BUILD}/kernels/own.toml, run {STORE}/")


def test_a_run_that_is_not_there_has_a_scenario():
    result = properties.broken("own", "no end after 1 s", Setup(("own",), bare=False))
    assert result.where.endswith("kernels/own-loader.toml") and "run" not in result.where
    assert Result({}).where == "" and Path(result.where.removeprefix("scenario ")).suffix == ".toml"


def test_a_counter_that_its_source_does_not_declare_is_told():
    assert view({}).count("flows") == 1
    with pytest.raises(LabError, match=r"its source declares no COUNTER\(losses, ...\)"):
        view({}).count("losses")
