# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rules for the kernel's own TCP: a sound run keeps all, and each finds what breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from asymlab.conformance.explore import explore, invariants, stack
from asymlab.plan.model import Change
from tests.lab.test_explore import attempt, edited, tree_of, way

RULES = {rule.__name__ for rule in stack.RULES}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Losses, then all is lost for four seconds, then a delay that is longer than a timeout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explore, "FOLDER", tmp_path_factory.mktemp("explore"))
        changes = [
            {"at": f"{at}s", "direction": "forward"} | new
            for at, new in ((4, {"loss": "99.99%"}), (8, {"loss": "0%"}), (12, {"delay": "900ms"}))
        ]
        path = {"mtu": 1500, "forward": way("2mbit", loss="0.5%"), "reverse": way("2mbit")}
        run = {"duration": "16s", "capture": True}
        return attempt(tree_of("stack", path, {"controller": "reno"}, run=run, changes=changes))


def broken(sound, **tables) -> set[str]:
    case, r = sound
    return {one.invariant for one in invariants.judge(case, edited(r, **tables) if tables else r)}


def of(sound, column: str, value, where) -> set[str]:
    """The rules that the run breaks with other ACKs."""
    table = sound[1].acks.copy()
    table[column][where] = value
    return broken(sound, acks=table) & RULES


@pytest.mark.lab
def test_a_sound_run_keeps_all(sound):
    case, r = sound
    assert r.valid and invariants.judge(case, r) == []


def entries(r) -> np.ndarray:
    """The ACKs by which a recovery begins."""
    return np.flatnonzero((r.acks["ca_state"][:-1] <= stack.DISORDER) & (r.acks["ca_state"][1:] == stack.RECOVERY))


@pytest.mark.lab
def test_a_pacing_rate_below_the_windows_is_found(sound):
    paced = sound[1].acks["pacing"]
    assert of(sound, "pacing", paced[300] // 2, 300) == {"pace"} and of(sound, "pacing", 2 * paced[300], 300) == set()


@pytest.mark.lab
def test_a_recovery_without_retransmission_is_found(sound):
    k = entries(sound[1])[0]
    assert of(sound, "retrans", sound[1].acks["retrans"][k], k + 1) == {"repair"}


@pytest.mark.lab
def test_a_packet_that_is_lost_too_early_is_found(sound):
    """Two recoveries begin with two packets behind: RACK waits 10 ms more than a round trip, less the ms of a stamp."""
    acks = sound[1].acks
    first, second, third = entries(sound[1])
    assert stack.delivered_behind(acks, third) == 3 and of(sound, "rtt_us", 1 << 20, third + 1) == set()
    for k in (first, second):
        waited = int(stack.waits_us(acks, 1448)[k + 1])
        assert stack.delivered_behind(acks, k) == 2 and acks["rtt_us"][k + 1] + 9_750 <= waited
        assert of(sound, "rtt_us", waited - 9_700, k + 1) == {"early"}
        assert of(sound, "rtt_us", waited - 9_800, k + 1) == set()


@pytest.mark.lab
def test_a_window_that_stays_small_when_a_timeout_was_spurious_is_found(sound):
    [k] = np.flatnonzero(np.diff(sound[1].acks["ssthresh"].astype("i8")) > 0)[-1:]
    assert sound[1].acks["ca_state"][k] == 4 and sound[1].acks["cwnd"][k] == 1
    assert of(sound, "cwnd", 26, k + 1) == {"undo"} and of(sound, "cwnd", 27, k + 1) == set()


@pytest.mark.lab
def test_a_window_after_two_reductions_or_a_pause_is_its_laws_own(sound):
    case, r = sound
    [k] = np.flatnonzero(np.diff(r.acks["ssthresh"].astype("i8")) > 0)[-1:]
    acks = r.acks.copy()
    acks["cwnd"][k + 1] = 1
    assert "undo" in broken(sound, acks=acks)
    twice = acks.copy()
    twice["ca_state"][k - 1], twice["ssthresh"][k - 1] = 4, acks["ssthresh"][k] + 1
    paused = edited(r, acks=acks)
    object.__setattr__(paused.job.flows[0], "resume_s", float(acks["t"][k]))  # its own copy of the job
    for one in (edited(r, acks=twice), paused):
        assert "undo" not in {b.invariant for b in invariants.judge(case, one)}


@pytest.mark.lab
@pytest.mark.parametrize(
    "change, left",
    [
        ({"controller": "reno", "command": "use"}, {"acks"}),  # whose law the flow has is not told
        ({"direction": "forward", "mtu": 1000}, {"pace"}),  # a receiver waits for two segments as large as before
    ],
)
def test_rules_that_a_change_under_way_takes_out(sound, change, left):
    case, r = sound
    acks = r.acks.copy()
    acks["pacing"][300] //= 2
    told = r.record["agent"]["receivers"]["dst0"] | {"TcpOutSegs": 1}
    bad = edited(r, acks=acks, agent={"receivers": {"dst0": told}})
    assert broken((case, bad)) == {"pace", "acks"}
    changes = [*case.scenario.changes, Change.model_validate({"at": "15s"} | change)]
    other = replace(case, scenario=case.scenario.model_copy(update={"changes": changes}))
    assert broken((other, bad)) == left


@pytest.mark.lab
def test_a_sample_that_is_older_than_its_packet_is_found(sound):
    """300 packets on, of a hundred in flight: an eighth of a sample moves the smoothed RTT."""
    acks = sound[1].acks
    smooth, waited = int(acks["srtt_us"][300]), int(stack.waits_us(acks, 1448)[300])
    for older, found in ((10_000, {"sample"}), (-10_000, set())):
        assert of(sound, "srtt_us", smooth + (waited + older - smooth) // 8, 301) == found


@pytest.mark.lab
@pytest.mark.parametrize("longer, found", [(0.2, {"backoff"}), (-0.2, {"backoff"}), (0.004, set())])
def test_a_timeout_that_is_not_twice_the_one_before_is_found(sound, monkeypatch, longer, found):
    """The second of four, at 5.5 s: steps of 0.7, 1.5 and 2.9 s."""
    case, r = sound
    packets = r.capture("forward")
    packets["t"][np.flatnonzero((packets["t"] > 5.4) & (packets["t"] < 5.5))] += longer
    monkeypatch.setattr(type(r), "capture", lambda *_: packets)
    assert {one.invariant for one in invariants.judge(case, r)} == found


@pytest.mark.lab
@pytest.mark.parametrize("profile, strays_an_ack", [("linux", 2), ("ns2", 1)])  # ns2's hosts compress no SACKs
def test_a_receiver_that_is_too_silent_is_found(sound, profile, strays_an_ack):
    case, r = sound
    told = r.record["agent"]["receivers"]["dst0"]
    strays, segments = (int(r.goodput[of].sum()) for of in ("not_next", "segments"))
    assert strays > 20
    least = strays // strays_an_ack + (segments - strays) // 2 - 1
    assert least < told["TcpOutSegs"]
    other = replace(case, scenario=case.scenario.model_copy(update={"profile": profile}))
    for sent, found in ((least, False), (least - 1, True)):
        assert ("acks" in broken((other, r), agent={"receivers": {"dst0": told | {"TcpOutSegs": sent}}})) == found
