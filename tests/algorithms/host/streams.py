# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests of several controllers send these to the driver: round trips, and everything at random, the same each time."""

from hypothesis import settings
from hypothesis import strategies as st

from .driver import line

settings.register_profile("host", derandomize=True, deadline=None, database=None, max_examples=150)
settings.load_profile("host")

MS = 1000
W_MAX = 1 << 20
RTT_MAX = 1 << 26

rtts = st.integers(1, RTT_MAX) | st.integers(1, 1000)
packets = st.integers(1, W_MAX) | st.integers(1, 4)


def one_rtt(flow, now, rtt=40 * MS, stretch=1, sample=None, gap=1):
    """Acknowledges what is in flight, `stretch` packets an ACK, `gap` us apart. The windows after each."""
    tp = flow.state()["tp"]
    flight = tp["packets_out"] - tp["sacked_out"] - tp["lost_out"] + tp["retrans_out"]
    sizes = [stretch] * (flight // stretch) + [flight % stretch] * (flight % stretch > 0)
    lines = [line("ack", n=n, rtt=sample or rtt, now=now + rtt + i * gap) for i, n in enumerate(sizes)]
    return [answer["cwnd"] for answer in flow.batch(lines)]


def many_rtts(flow, count, start=0, rtt=40 * MS, **keys):
    """The window at the end of each round trip."""
    return [one_rtt(flow, start + i * rtt, rtt, **keys)[-1] for i in range(count)]


def recover(flow, **keys):
    """Ends a recovery: all that was in flight is acknowledged."""
    return flow.ack(n=flow.state()["tp"]["packets_out"], **keys)


def bounded(bounds):
    """A value of a parameter, as Driver.params() bounds it."""
    _, initial, low, high = bounds
    return st.sampled_from(sorted({initial, low, high})) | st.integers(low, high)


def steps(sampled=rtts):
    """Commands with the time before each, us; `sampled`: the RTTs that ACKs carry."""
    own = st.integers(30 * MS, 50 * MS) if sampled is rtts else sampled
    or_none = sampled | st.just(-1)
    return st.one_of(
        st.builds(lambda n, rtt, dt: ("ack", {"n": n, "rtt": rtt}, dt), packets, or_none, st.integers(0, 10**6)),
        st.builds(lambda n, rtt, dt: ("ack", {"n": n, "rtt": rtt}, dt), st.integers(1, 64), own, st.integers(0, MS)),
        st.builds(lambda n, rtt: ("ack", {"n": 0, "sack": n, "rtt": rtt, "slow": 1}, 1), st.integers(1, 64), own),
        st.builds(lambda n, dt: ("ack", {"n": n, "rtt": -1, "slow": 1}, dt), st.integers(0, 8), st.integers(0, 10**5)),
        st.builds(lambda n, marked: ("loss", {"n": n, "ece": marked}, 1), st.integers(1, 64), st.integers(0, 1)),
        st.builds(lambda n, ce, dt: ("ack", {"n": n, "rtt": 40 * MS, "ece": 1, "ce": ce}, dt), packets, packets,
                  st.integers(0, 50 * MS)),
        st.sampled_from([("cwr", {}, 1), ("rto", {}, 10**6), ("undo", {}, 1), ("restart", {"cwnd": 10}, 10**6)]),
        st.builds(lambda n: ("send", {"app": n}, 1), st.integers(0, 100) | st.just(2**32 - 1)),
    )  # fmt: skip


# The stack never does these by itself: events out of place, any window.
strange = st.one_of(
    st.builds(lambda e: ("event", {"id": e}, 1), st.integers(0, 5)),
    st.builds(lambda w: ("poke", {"snd_cwnd": w}, 1), packets),
)


def lines_of(commands, clamp=2**32 - 1):
    """The driver's lines, with a clock."""
    now, lines = 0, []
    for name, keys, dt in commands:
        now += dt
        if name == "poke":
            keys = {"snd_cwnd": min(keys["snd_cwnd"], clamp)}
        lines.append(line(name, now=now, **keys))
    return lines


def any_stream(data, driver, clamps=(2, 3, 50, W_MAX, 2**32 - 1)):
    """Plays whatever may come to any parameters, with the windows in their bounds; (parameters, largest window, each
    answer with the state after it). No clamp holds a window that PRR sets: of a poked window of 1 with 50 in flight
    a loss leaves 2."""
    params = {name: data.draw(bounded(bounds)) for name, bounds in driver.params().items()}
    clamp, mss = data.draw(st.sampled_from(clamps)), data.draw(st.sampled_from([0, 1, 536, 1448, 65535]))
    seq, tx_start = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.booleans())
    driver.start(
        params, now=0, snd_cwnd_clamp=clamp, mss_cache=mss, seg=max(mss, 1), tx_start=tx_start, snd_una=seq, snd_nxt=seq
    )
    lines, most = lines_of(data.draw(st.lists(steps() | strange, min_size=1, max_size=80)), clamp), min(clamp, W_MAX)
    answers = driver.batch([words for one in lines for words in (one, "state")])
    played = [*zip(answers[::2], answers[1::2])]
    for answer, state in played:
        of_prr = answer["cwnd"] == state["tp"]["stack_cwnd"]
        assert 1 <= answer["cwnd"] and (answer["cwnd"] <= most or of_prr)
    return params, most, played
