# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pseudo-rate TCP's own measure of the RTT's noise (noise_cycles), against the same law in Python."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.algorithms.conftest import running
from tests.algorithms.host.driver import line
from tests.algorithms.host.pseudorate import Q4, end_of_cycle, sending
from tests.algorithms.host.streams import MS, RTT_MAX, W_MAX, packets, rtts

ON = {"noise_cycles": 256}


@pytest.fixture(scope="session", name="pr")
def pseudorate():
    yield from running("pseudorate")


def noise(state):
    """(us << 5) of the last fall and of the noise."""
    return state["ca"]["fall_q5"], state["ca"]["noise_q5"]


def calm(pr, fall, then=0, known=0, window=100, moved=0, params=ON, **keys):
    """The end of a cycle of 40 ms whose RTT fell by so much, while the window rested."""
    told = {"ca__cycle_fall": fall, "ca__fall_q5": then, "ca__noise_q5": known}
    told |= {"ca__window_then": window, "ca__moved_then": moved}
    return end_of_cycle(pr, window, 40 * MS, 40 * MS, window, params=params, **told | keys)


@given(st.lists(rtts, min_size=1, max_size=60))
@example([5, 9, 3, 4, 9, 1])
@example([RTT_MAX, 1])
def test_a_fall_is_from_any_rtt_to_a_later_one(pr, sampled):
    sending(pr, 1000, ON, ca__round_end=2**30)
    pr.batch([line("ack", n=1, rtt=rtt, now=1) for rtt in sampled])  # none of them ends the cycle
    ca = pr.state()["ca"]
    assert ca["cycle_top"] == max(sampled) and ca["cycle_rtt"] == min(sampled)
    assert ca["cycle_fall"] == max(max(sampled[: i + 1]) - rtt for i, rtt in enumerate(sampled))


@given(window=packets, was=packets, moved=packets | st.just(0), fall=rtts, least=rtts, then=st.integers(0, 2**31),
       known=st.integers(0, 2**31), n_queue=st.integers(1, 1024), forget=st.integers(1, 65535))  # fmt: skip
@example(window=W_MAX, was=1, moved=W_MAX, fall=RTT_MAX, least=RTT_MAX, then=2**31, known=2**31, n_queue=1, forget=1)
@example(window=100, was=100, moved=0, fall=801, least=40 * MS, then=64, known=0, n_queue=3, forget=256)
@example(window=100, was=100, moved=0, fall=800, least=40 * MS, then=64, known=999, n_queue=3, forget=256)
def test_noise_is_what_no_packets_of_ours_explain(pr, window, was, moved, fall, least, then, known, n_queue, forget):
    told = {"ca__cycle_fall": fall, "ca__window_then": was, "ca__moved_then": moved}
    told |= {"ca__fall_q5": then, "ca__noise_q5": known}
    params = {"noise_cycles": forget, "n_queue": n_queue}
    state = end_of_cycle(pr, window, least, least, window, params=params, **told)
    now_moved = abs(window - was)
    left = max(fall - (now_moved + moved + 2) * least // window, 0)
    if left or now_moved + moved <= n_queue:
        known -= known // forget
        known, then = max(known, min(left << 5, then)), left << 5
    assert noise(state) == (then, known)
    assert state["ca"]["moved_then"] == now_moved


def test_a_cycle_without_use_or_in_recovery_tells_nothing(pr):
    state = calm(pr, 30 * MS, then=64, known=32, ca__spoilt=1)
    assert noise(state) == (64, 32)
    assert state["ca"]["moved_then"] == W_MAX, "nor does the next one, whose RTTs these packets make"


def test_one_fall_alone_is_no_noise(pr):
    """As when another flow stops, and its queue goes."""
    assert noise(calm(pr, 30 * MS)) == ((30 * MS - 800) << 5, 0)
    assert noise(calm(pr, 0, then=30 * MS << 5)) == (0, 0)


def test_noise_is_no_queue(pr):
    """30 of 40 ms, twice the 5 ms by which the RTT falls in each cycle: a queue of one packet in 100 begins beyond."""
    for above, doubles in ((10_000, 1), (10_300, 1), (10_500, 0)):
        state = calm(pr, 5800, then=5000 << 5, ca__rtt_min=40 * MS - above)
        assert noise(state)[1] == 5000 << 5
        assert state["counters"]["doublings"] == doubles
    bound = calm(pr, 5800, then=5000 << 5, ca__rtt_min=25 * MS)["ca"]["bound_q4"]
    assert bound == 100 * Q4 * 35 // 40 + 3 * Q4


def test_off_by_default(pr):
    state = calm(pr, 30 * MS, then=20 * MS << 5, params={})
    assert noise(state) == (20 * MS << 5, 0) and state["ca"]["moved_then"] == 0
