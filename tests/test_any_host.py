# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Every controller of bpf/ against random streams of what a stack may do; `make fuzz` goes on with others."""

import pytest

from host import driver, fuzz

STREAMS = 120


@pytest.fixture(scope="module")
def of():
    """The driver of a controller, one process for all tests."""
    running = {}

    def start(name, source=None):
        if name not in running:
            running[name] = driver.Driver(driver.build(name, source))
        return running[name]

    yield start
    assert not any(process.close() for process in running.values())


@pytest.mark.parametrize("name", fuzz.controllers())
def test_random_streams_break_no_rule(of, name):
    for i in range(STREAMS):
        broken = fuzz.hunt(of(name), name, i)
        assert not broken, broken


@pytest.mark.parametrize("name", fuzz.controllers())
def test_first_packet_ends_no_idle_time(of, name):
    """Long after boot, and after some time of thought: nothing to take over."""
    of(name).start(now=10**9, tx_start=1, app=0)
    of(name).send(now=10**9 + 700_000, app=2**32 - 1)
    of(name).ack(now=10**9 + 740_000, rtt=40_000)
    counters = of(name).state()["counters"]
    assert counters.get("reloads", counters.get("idle_restarts", 0)) == 0


@pytest.mark.parametrize("name", ["fast", "pseudorate"])
def test_taken_up_amid_a_recovery(of, name):
    """ssthresh, to which the stack is reducing, stays; else it is out of the way."""
    for state, ssthresh in ((3, 50), (0, 2)):
        of(name).start(data_segs_out=100, state=state, snd_ssthresh=50)
        assert of(name).state()["tp"]["snd_ssthresh"] == ssthresh


@pytest.mark.parametrize("name", ["fast", "pseudorate"])
def test_half_a_window_in_flight_is_limited_by_the_application(of, name):
    """Whatever ssthresh is: only Reno's slow start lets such a window grow."""
    of(name).start(now=0, tx_start=0, snd_cwnd=20, data_segs_out=1, app=12)
    of(name).send(now=1)
    before = of(name).state()["tp"]["snd_cwnd"]
    for i in range(1, 10):
        got = of(name).ack(n=12, rtt=40_000, now=i * 40_000, snd_ssthresh=1000)
    assert got["cwnd"] <= before


@pytest.mark.parametrize("name", fuzz.controllers())
def test_a_clamp_lowered_under_way_ends_growth(of, name):
    for count in range(1, 40):
        of(name).start(now=0)
        acks = [driver.line("ack", rtt=40000, now=40000 + i) for i in range(count)]
        window = of(name).batch(acks)[-1]["cwnd"]
        assert of(name).ack(rtt=40000, snd_cwnd_clamp=window)["cwnd"] <= window


FAULTS = {
    "grows_unused": "grows while the application limits",
    "no_clamp": "above the clamp",
    "no_window": "no window",
    "shared": "two outcomes",
    "by_zero": "division by zero",
    "beyond": "out of bounds",
    "too_large": "does not fit 64 bits",
    "in_recovery": "changed during recovery",
    "ssthresh_1": "ssthresh below 2",
    "raises": "a loss raises ssthresh",
    "lowers": "undo lowers",
}


@pytest.mark.parametrize("by_w", [0, 1], ids=["cong_avoid", "cong_control"])
@pytest.mark.parametrize("number, words", [*enumerate(["", *FAULTS.values()])], ids=["none", *FAULTS])
def test_faults_are_found(of, number, words, by_w):
    broken = of("broken", driver.HERE / "broken.bpf.c")
    for i in range(STREAMS):
        faults = {"fault": (0, number, number, number), "by_w": (0, by_w, by_w, by_w)}
        found = fuzz.failure(broken, fuzz.stream(fuzz.Random(i), faults))
        if found:
            assert words and words in found
            return
    assert not number


def test_a_failing_stream_is_shortened(of):
    broken = of("broken", driver.HERE / "broken.bpf.c")
    for i in range(STREAMS):
        lines = fuzz.stream(fuzz.Random(i), {"fault": (0, 11, 11, 11)})
        if fuzz.failure(broken, lines):
            few = fuzz.shortest(broken, lines)
            assert "undo lowers" in fuzz.failure(broken, few)
            assert len(few) - fuzz.START - fuzz.CALM <= 6
            return
    raise AssertionError("nothing found")
