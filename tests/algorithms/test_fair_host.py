# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""bpf/fair.bpf.h in the controllers that have it: whose queue is it, and what follows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.host.driver import line
from tests.algorithms.host.formosa import at_w, end_round
from tests.algorithms.host.streams import MS, any_stream

BASE = 40 * MS
PACKET_US = 1000  # 12 Mbit/s: a path of 40 packets


class Path:
    """Round trips of one flow: what it has beyond a path's own packets waits, and so do others' packets."""

    def __init__(self, driver, **params):
        self.driver, self.now = driver, 0
        driver.start({"fair": 1} | params, now=0, tx_start=0, snd_cwnd_clamp=300)

    def rounds(self, count, others=lambda i: 0, rate=1.0, jitter=lambda i: 0):
        """`others`: their queue in us, by the round; `rate`: the share of the link that the flow has."""
        for i in range(count):
            flight = self.state()["packets_out"]
            own = max(flight - rate * BASE / PACKET_US, 0) * PACKET_US if rate == 1.0 else 0
            rtt = round(BASE + others(i) + own)
            self.now += rtt
            self.driver.batch([
                line("ack", rtt=rtt + jitter(j), now=self.now + j) for j in range(flight)
            ])  # fmt: skip

    def state(self):
        return self.driver.state()["tp"]

    def window(self):
        return self.state()["snd_cwnd"]

    def counts(self):
        counters = self.driver.state()["counters"]
        return [counters[name] for name in ("contests", "truces")]

    def loss(self):
        before = self.window()
        self.driver.loss(n=1, sack=3)
        self.driver.ack(n=self.state()["packets_out"], now=self.now)
        return before, self.window()


class Rounds(Path):
    """The same for Formosa: a round tells of the queue, and of a signal when more packets of its own wait."""

    def __init__(self, driver, packets=5, **params):
        self.driver, self.now, self.signal, self.packets = driver, 0, 0, packets
        at_w(driver, 40, {"fair": 1} | params, snd_cwnd_clamp=300)

    def window(self):
        return self.driver.state()["ca"]["w"]

    def rounds(self, count, others=lambda i: 0, rate=1.0, jitter=lambda i: 0, signal=False):
        for i in range(count):
            own = max(self.window() * PACKET_US - BASE, 0) if rate == 1.0 else 0
            self.signal += own > self.packets * PACKET_US or signal
            queue = round(others(i) + own + jitter(i))
            end_round(self.driver, self.signal, rtt=BASE + queue, queue_us=queue)
        self.now = self.state()["now"]


OF = {"fast": Path, "pseudorate": Path, "formosa": Rounds}
NAMES = tuple(OF)
BY_ACKS = ("fast", "pseudorate")


def growing(i):
    """A CUBIC flow fills a queue of 40 ms so."""
    return min(10 * MS + i * MS // 2, 40 * MS)


def own_queue(name, packets):
    """Parameters with which the law keeps a queue of so many packets."""
    return {"fast": {"alpha": packets}, "pseudorate": {"n_queue": packets}, "formosa": {"packets": packets}}[name]


def contest(of, name):
    path = OF[name](of(name))
    path.rounds(30)
    path.rounds(60, growing, rate=0.1)
    assert path.counts() == [1, 0]
    return path


@pytest.mark.parametrize("name", NAMES)
def test_its_own_queue_is_no_reason(of, name):
    path = OF[name](of(name), **own_queue(name, 20))
    path.rounds(120)
    assert of(name).state()["counters"]["looks"] > 5 and path.counts() == [0, 0]


@pytest.mark.parametrize("others, jitter", [
    (lambda i: 0, lambda j: j * 7919 % 4000),  # jitter of 4 ms
    (lambda i: 20 * MS, lambda j: 0),  # a route that is longer for good
    (lambda i: i % 40 * MS // 4, lambda j: j * 7919 % 12000),  # noise above a queue of others
])  # fmt: skip
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_contest(of, name, others, jitter):
    path = OF[name](of(name))
    path.rounds(30)
    path.rounds(100, others, rate=0.1, jitter=jitter)
    assert path.counts() == [0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_with_its_part_of_a_growing_queue_does_not_compete(of, name):
    """A second flow with the same law makes the queue grow so."""
    path = OF[name](of(name), **own_queue(name, 30))
    path.rounds(30)
    path.rounds(100, lambda i: min(4 * MS + i * MS // 4, 20 * MS))
    assert path.counts() == [0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_a_queue_that_others_fill_begins_a_contest_with_renos_growth(of, name):
    path = contest(of, name)
    path.rounds(4, lambda i: 40 * MS, rate=0.1)
    window = path.window()
    path.rounds(10, lambda i: 40 * MS, rate=0.1)
    assert window + 9 <= path.window() <= window + 11


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_in_a_contest_leaves_six_tenths(of, name):
    path = contest(of, name)
    path.rounds(20, lambda i: 40 * MS, rate=0.1)
    before, after = path.loss()
    assert after - before * 6 // 10 in (0, 1)  # its end grows it again


@pytest.mark.parametrize("name", NAMES)
def test_the_law_is_back_when_the_queue_is_its_own(of, name):
    path = contest(of, name)
    path.rounds(100, lambda i: 40 * MS, rate=0.1)
    assert path.counts() == [1, 0]
    path.rounds(260)
    assert path.counts() == [1, 1]
    path.rounds(20)
    assert path.window() < 40 + 20


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_in_a_look_cuts_the_window_before_it(of, name):
    """A look takes three sevenths of the window here: half of the rest would be less than a third."""
    path = OF[name](of(name), **own_queue(name, 30))
    looks, before = 0, 0
    for _ in range(80):
        before = path.window()
        path.rounds(1)
        if of(name).state()["counters"]["looks"] > looks and path.window() < 0.8 * before:
            break
        looks = of(name).state()["counters"]["looks"]
    else:
        pytest.fail("no look")
    of(name).loss(n=1, sack=3)
    assert path.state()["snd_ssthresh"] >= before // 2


@pytest.mark.parametrize("name", BY_ACKS)
def test_a_timeout_in_a_contest_begins_with_slow_start(of, name):
    path = contest(of, name)
    path.rounds(60, lambda i: 40 * MS, rate=0.1)
    of(name).rto(now=path.now + 10**6)
    ssthresh = path.state()["snd_ssthresh"]
    path.now += 10**6
    of(name).ack(n=path.state()["packets_out"], now=path.now)
    path.rounds(5, lambda i: 40 * MS, rate=0.1)
    assert ssthresh - 1 <= path.window() <= ssthresh + 6


@pytest.mark.parametrize("name", BY_ACKS)
def test_without_memory_it_is_the_law(of, name):
    of(name).start({"fair": 1}, now=0, fails=1)
    path = Path.__new__(Path)
    path.driver, path.now = of(name), 0
    path.rounds(30)
    path.rounds(60, growing, rate=0.1)
    assert path.counts() == [0, 0]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_off_is_off(of, name, data):
    params, _, _ = any_stream(data, of(name))
    if not params["fair"]:
        state = of(name).state()
        assert [state["counters"][c] for c in ("looks", "contests", "truces")] == [0, 0, 0]
        assert name != "pseudorate" or not state["tp"]["exists"]


def test_formosas_signals_are_believed_but_in_a_contest_and_where_a_look_made_them(of):
    path = contest(of, "formosa")
    path.rounds(2, lambda i: 40 * MS, rate=0.1)
    window = path.window()
    path.rounds(4, lambda i: 40 * MS, rate=0.1, signal=True)
    assert path.window() == window + 4  # not in a contest

    def counted(what):
        return of("formosa").state()["counters"][what]

    path = Rounds(of("formosa"))
    while not counted("looks"):  # a queue that stays
        path.rounds(1, lambda i: 10 * MS, rate=0.1)
    path.rounds(1, lambda i: 10 * MS, rate=0.1)
    window = path.window()
    path.rounds(1, lambda i: 10 * MS, rate=0.1, signal=True)  # the look is over
    assert path.window() > window
    path.rounds(2, lambda i: 10 * MS, rate=0.1, signal=True)
    assert counted("signals") == 0
    path.rounds(1, lambda i: 10 * MS, rate=0.1, signal=True)
    assert counted("signals") == 1
