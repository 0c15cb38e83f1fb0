# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The law of `asymcc uplink` before a fluid: is the rate found, the queue short, and noise no queue?"""

import random
import subprocess
from typing import NamedTuple

import pytest

from tests.shared import REPO

RATE = 20e6
FULL = ["0 capacity 20e6", "0 demand 1e9"]


class Tick(NamedTuple):
    s: float
    rate: float
    queue_ms: float
    sent: float  # bits, by the modem
    none_ms: float


def fluid(tmp_path_factory, name):
    """The law before the fluid of that file of host/: what changes and the fluid's words give its ticks."""
    program = tmp_path_factory.mktemp("law") / name
    source = REPO / "tests" / "algorithms" / "host" / f"{name}.c"
    folders = [f"-I{REPO / folder}" for folder in ("loader", "bpf")]
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-O2", *folders, source, "-o", program, "-lm"], check=True)

    def run(changes, *words):
        told = subprocess.run(
            [program, *map(str, words)], input="\n".join(changes), capture_output=True, text=True, check=True
        )
        return [Tick(*map(float, line.split())) for line in told.stdout.splitlines()]

    return run


@pytest.fixture(scope="module")
def law(tmp_path_factory):
    run = fluid(tmp_path_factory, "uplink")
    return lambda changes, seconds=40, rtt_ms=100, room_ms=250, rate=0, least=1e5: run(
        changes, seconds, rtt_ms, room_ms, rate, least
    )


def between(ticks, begin, end):
    return [tick for tick in ticks if begin <= tick.s < end]


def used(ticks, begin, end, rate=RATE):
    of = between(ticks, begin, end)
    return (of[-1].sent - of[0].sent) / (of[-1].s - of[0].s) / rate


def p95(ticks, begin, end):
    queues = sorted(tick.queue_ms for tick in between(ticks, begin, end))
    return queues[int(0.95 * len(queues))]


@pytest.mark.parametrize("rtt_ms", [20, 50, 100, 300])
def test_a_rate_is_found_within_two_seconds_and_kept(law, rtt_ms):
    ticks = law(FULL, rtt_ms=rtt_ms)
    assert all(0.6 * RATE < tick.rate < 1.35 * RATE for tick in between(ticks, 2, 40))
    assert used(ticks, 3, 40) > 0.95 and p95(ticks, 3, 40) < 20


@pytest.mark.parametrize("rate", [1e6, 2e6, 5e6, 100e6])
def test_slow_and_fast_modems(law, rate):
    ticks = law([f"0 capacity {rate}", f"0 demand {50 * rate}"], room_ms=500)
    packet_ms = 12e6 / rate
    assert used(ticks, 5, 40, rate) > 0.95 and p95(ticks, 5, 40) < 15 + 4 * packet_ms


def test_half_the_rate_is_followed_at_once_and_twice_in_seconds(law):
    ticks = law([*FULL, "20 capacity 10e6", "40 capacity 20e6"], 60)
    assert min(tick.s for tick in between(ticks, 20, 60) if tick.rate < 10.5e6) < 20.7
    assert max(tick.queue_ms for tick in between(ticks, 21.5, 40)) < 40 and used(ticks, 21, 40, 10e6) > 0.9
    assert min(tick.s for tick in between(ticks, 40, 60) if tick.rate > 18e6) < 44
    assert min(tick.rate for tick in between(ticks, 44, 50)) > 0.8 * RATE  # the first new queue tells no old capacity


def moving(seconds, seed):
    """A full radio: each 20 ms its capacity moves, by two fifths of the mean in a second."""
    chance, share = random.Random(seed), 1.0
    yield from FULL
    for k in range(1, 50 * seconds):
        share = min(max(share + 0.4 * chance.gauss() / 50**0.5, 0.25), 2)
        yield f"{k / 50} capacity {share * RATE}"


@pytest.mark.parametrize("seed", range(5))
def test_a_capacity_that_moves_has_a_short_queue(law, seed):
    changes = list(moving(60, seed))
    ticks = law(changes, 60, rtt_ms=50)
    capacities = [float(line.split()[2]) for line in changes[-2500:]]
    assert p95(ticks, 10, 60) < 50 and used(ticks, 10, 60, sum(capacities) / 2500) > 0.6


def test_a_line_that_moved_is_used_again_when_it_is_steady(law):
    ticks = law([*moving(20, 1), "20 capacity 20e6"], 100)
    assert used(ticks, 80, 100) > 0.95


def test_a_queue_lowers_a_rate_that_is_far_too_high_and_not_in_use(law):
    ticks = law(["0 capacity 20e6", "0 demand 18e6", "5 demand 20.5e6", "5.5 demand 18e6"], 10, rate=80e6)
    assert min(tick.rate for tick in between(ticks, 0, 5)) >= 0.8 * 80e6 and ticks[-1].rate < 1.3 * RATE


def test_a_drain_lasts_till_its_answers_have_come(law):
    """A queue of five ms stands, and each ten seconds the law asks whether it is one."""
    ticks = law(FULL, 80, rtt_ms=600, room_ms=800)
    assert not any(tick.none_ms for tick in ticks) and used(ticks, 20, 80) > 0.95


def test_a_rate_whose_queue_shows_late_grows_slowly(law):
    ticks = law(FULL, 60, rtt_ms=600, room_ms=800)
    assert max(tick.queue_ms for tick in between(ticks, 10, 60)) < 35 and used(ticks, 10, 60) > 0.95


@pytest.mark.parametrize("jitter", [1, 5, 10])
def test_jitter_is_no_queue(law, jitter):
    ticks = law([*FULL, f"0 jitter {jitter}"])
    assert used(ticks, 5, 40) > 0.95 and p95(ticks, 5, 40) < 25


@pytest.mark.parametrize("share", [0.01, 0.03, 0.08])
def test_losses_of_a_radio_are_no_congestion(law, share):
    ticks = law([*FULL, f"0 random {share}"])
    assert used(ticks, 15, 40) > 0.85 and p95(ticks, 15, 40) < 25


def test_bytes_that_a_full_queue_drops_are_no_capacity(law):
    """It is 5 ms long: delay hardly tells of it."""
    ticks = law(["0 capacity 20e6", "0 demand 35e6"], room_ms=5)
    mean = sum(tick.rate for tick in between(ticks, 5, 40)) / len(between(ticks, 5, 40))
    assert 0.9 * RATE < mean < 1.1 * RATE and used(ticks, 5, 40) > 0.9


@pytest.mark.parametrize("longer_ms", [5, 20])
def test_a_longer_path_is_no_queue(law, longer_ms):
    ticks = law([*FULL, f"20 path {longer_ms}"], 60)
    assert any(0.8 * longer_ms <= tick.none_ms <= 1.3 * longer_ms for tick in between(ticks, 20, 40))
    assert used(ticks, 35, 60) > 0.95


@pytest.mark.parametrize("longer_ms", [10, 12, 14, 16])
def test_a_path_that_is_little_longer_costs_little(law, longer_ms):
    """A queue near the target lowers the rate slowly. It is known for a path in a second, and not only after ten."""
    assert used(law([*FULL, f"20 path {longer_ms}"], rtt_ms=50), 20, 26) > 0.85


def test_a_modem_that_is_silent_finds_its_rate_again(law):
    ticks = law([*FULL, "20 answers 0", "21 answers 1"])
    assert min(tick.rate for tick in between(ticks, 20.5, 21.2)) < 0.3 * RATE
    assert min(tick.s for tick in between(ticks, 21, 40) if tick.rate > 0.9 * RATE) < 25


@pytest.mark.parametrize("after", [0, 0.07, 0.15, 0.3])
def test_a_silence_in_a_drain_moves_no_base(law, after):
    """Until the drain of a full uplink all that is measured is queue."""
    begins = min(tick.s for tick in law(FULL) if tick.s > 10.5 and tick.rate < 0.97 * RATE)
    ticks = law([*FULL, f"{begins + after} answers 0", f"{begins + 0.75} answers 1"])
    assert not any(tick.none_ms for tick in ticks)
    assert max(tick.rate for tick in between(ticks, begins + 0.55, begins + 0.75)) < 0.7 * RATE


def test_no_answers_to_little_data_lower_nothing(law):
    ticks = law(["0 capacity 20e6", "0 demand 1e9", "20 demand 1e5", "20 answers 0"])
    before = between(ticks, 19.9, 20)[0].rate
    assert between(ticks, 39, 40)[0].rate > 0.5 * before


def test_a_light_load_tells_no_rate(law):
    assert all(tick.rate == 1e10 for tick in law(["0 capacity 20e6", "0 demand 1e6"]))


def test_losses_of_a_light_load_tell_no_rate(law):
    """A far end that has gone, while nobody else sends."""
    ticks = law(["0 capacity 20e6", "0 demand 8e5", "0 random 0.3"])
    assert all(tick.rate == 1e10 for tick in ticks)


def test_the_user_bounds_it(law):
    assert all(tick.rate >= 12e6 for tick in law(["0 capacity 10e6", "0 demand 1e9"], least=12e6, rate=15e6))


@pytest.mark.parametrize("rate", [0, 5e6])
def test_jitter_on_a_line_that_nearly_idles_is_no_low_capacity(law, rate):
    """Its few packets all wait by chance, and what they carried is less than the modem can have: no rate follows."""
    ticks = law(["0 capacity 20e6", "0 demand 3e5", "0 jitter 200"], rate=rate, least=1e6)
    assert all(tick.rate == (rate or 1e10) for tick in ticks)
