# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Formosa's own measure of the forward delay's noise (noise_rounds), against the same law in Python."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.host.formosa import SECOND, SEG, data
from tests.algorithms.host.streams import MS
from tests.algorithms.test_formosa_receiver_host import deliveries, measure

OURS = 3


def noise_of(samples, states, forget):
    """(fall, fall of the round before, noise, rounds that are ours) after each sample, by the states' sftt."""
    top = fall = then = noise = gap = ours = 0
    last, number, signals = None, None, 0
    for (now, d, this), state in zip(samples, states):
        sftt = state["in.sftt_q16"]
        if last is None or now - last > SECOND:
            top = (d - samples[0][1]) << 16
        since = max(now - last, 1) if last is not None else gap or None
        gap = min(gap or since, since) if since else state["in.gap_us"]
        top = max(top, sftt)
        fall = max(fall, top - sftt)
        last = now
        if this != number:
            fall = max(fall - (gap << 17), 0)
            if ours:
                ours -= 1
            else:
                noise -= noise // forget
                noise, then = max(noise, min(fall, then)), fall
            top, fall, number = sftt, 0, this
            if state["signal"] != signals:
                signals, ours = state["signal"], ours or OURS
        yield fall, then, noise, ours


@given(samples=deliveries(), forget=st.integers(1, 65535), cathresh=st.sampled_from([1, 2, 1024]))
def test_noise_is_the_smaller_of_two_falls(formosa, samples, forget, cathresh):
    states = measure(formosa, samples, {"noise_rounds": forget, "cathresh": cathresh})
    for state, wanted in zip(states, noise_of(samples, states, forget)):
        assert tuple(state[f"in.{key}"] for key in ("fall_q16", "then_q16", "noise_q16", "ours")) == wanted


def rounds(delay, count=40, packets=50, rtt=40 * MS):
    """(time, forward delay, round): packets evenly over each round, and delay(round) of each."""
    step = rtt // packets
    return [((n * packets + i) * step, delay(n), n + 1) for n in range(count) for i in range(packets)]


def signals(driver, samples, forget):
    return measure(driver, samples, {"noise_rounds": forget}, offset=10**6)[-1]["signal"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_jitter_makes_no_signal(formosa, seed):
    """Each packet is delayed by up to 10 ms more. The paper's law takes each rise for a queue."""
    chance = random.Random(seed)
    samples = rounds(lambda _: chance.randint(0, 10 * MS))
    assert signals(formosa, samples, 0) > 5
    assert signals(formosa, samples, 256) <= 3  # before two rounds have told


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_queue_above_the_noise_does(formosa, seed):
    """From the 20th round on the delay grows by 5 ms in each."""
    chance = random.Random(seed)
    jittery = rounds(lambda n: chance.randint(0, 10 * MS) + max(n - 20, 0) * 5 * MS)
    assert signals(formosa, jittery, 256) > signals(formosa, jittery[: 20 * 50], 256)


def test_a_loss_is_ours(formosa):
    """Our packets that are lost leave the queue shorter: three rounds tell nothing."""
    measure(formosa, rounds(lambda n: 0, 4), {"noise_rounds": 256})
    assert formosa.state()["wire"]["in.ours"] == 0
    formosa.read(now=SECOND, rcv_nxt=1 + 200 * SEG, seq=1 + 202 * SEG, len=SEG, options=data(4, stamp=SECOND))
    assert formosa.state()["wire"]["in.ours"] == OURS
