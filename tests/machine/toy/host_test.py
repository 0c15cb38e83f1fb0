# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The laws of toy, on its own source compiled for the host."""

import pytest

from tests.algorithms.host import driver


@pytest.fixture(scope="module")
def toy():
    process = driver.Driver(driver.build("toy"))
    yield process
    assert not process.close()


@pytest.mark.parametrize("step, after", [(1, 11), (4, 13)])
def test_a_window_of_acks_gives_the_increase(toy, step, after):
    """(1): a step of one exactly. Within a larger one the window grows, and the shares of later ACKs fall."""
    toy.start({"step": step}, now=0, snd_cwnd=10, snd_ssthresh=10)
    for i in range(10):
        got = toy.ack(rtt=40_000, now=40_000 + i)
    assert got["cwnd"] == after


def test_a_loss_halves(toy):
    """(2)"""
    toy.start(now=0, snd_cwnd=20, snd_ssthresh=20)
    toy.loss()
    assert toy.state()["tp"]["snd_ssthresh"] == 10
