# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A controller at rest and at work, whichever it is."""

from hypothesis import strategies as st

from .streams import W_MAX, recover

ONE = 1 << 20  # a packet, in the units of the windows
EVER = 2**32 - 1  # data without end
FAR = 2**30  # a sequence number that no round of these tests reaches
windows = st.integers(2 * ONE, W_MAX * ONE) | st.integers(2 * ONE, 40 * ONE)


def at_rest(driver, w, params=None, flight=1, ssthresh=2, **own):
    """A connection with this window (packets << 20), amid a round, its window filled, no data left."""
    driver.start(params, tx_start=0, **{k: own.pop(k) for k in [*own] if k in ("mss_cache", "snd_cwnd_clamp")})
    state = {
        "app": 0, "snd_ssthresh": ssthresh, "snd_cwnd": w >> 20, "ca__cwnd": w >> 20, "ca__round_end": FAR,
        "ca__round_stamp": 0, "ca__ack_stamp": 0, "now": 0, "packets_out": flight, "snd_nxt": 1 + flight * 960,
    }  # fmt: skip
    driver.poke(**state | own)


def sending(driver, w, params=None, **own):
    """The same with full flight and unlimited data; the next ACK but those in flight ends a round."""
    at_rest(driver, w, params, **own)
    go_on(driver)


def go_on(driver):
    """From rest."""
    driver.poke(packets_out=0, snd_nxt=1)
    driver.send(app=EVER)
    driver.poke(ca__round_end=driver.state()["tp"]["snd_nxt"])


def repaired(driver, **keys):
    """Ends a recovery with an ACK of the lost packet alone; the rest was acknowledged selectively, and none sent
    since."""
    driver.ack(n=0, sack=EVER, rtt=-1, app=0, **keys)
    recover(driver, rtt=-1, **keys)


def own(driver):
    return driver.state()["ca"]


def tp(driver):
    return driver.state()["tp"]


def count(driver, name):
    return driver.state()["counters"][name]
