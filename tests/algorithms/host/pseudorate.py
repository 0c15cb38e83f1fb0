# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pseudo-rate TCP under way, for its tests."""

from .streams import W_MAX

Q4 = 16
N_QUEUE = 3
NONE = W_MAX * Q4  # Bound before the first cycle
PAPER = {"init_cwnd": 1}


def sending(pr, window, params=None, offset=1, bound=None, **keys):
    """A connection under way with this window, full flight, unlimited data; a cycle ends with the next ACK."""
    new = {"now": 0, "seg": 1, "mss_cache": 1, "tx_start": 0, "data_segs_out": 1, "snd_ssthresh": 2, "snd_cwnd": window}
    pr.start(
        params, **new | {key: keys.pop(key) for key in [*keys] if key in {*new, "snd_cwnd_clamp", "seg", "mss_cache"}}
    )
    state = {"ca__base": window - offset, "ca__offset": offset, "ca__bound_q4": bound * Q4 if bound else NONE}
    pr.poke(**state | keys)


def split(pr):
    ca = pr.state()["ca"]
    return ca["base"], ca["offset"]


def bound(pr):
    return pr.state()["ca"]["bound_q4"] / Q4


def end_of_cycle(pr, n, t, period, window, shortest=None, params=None, **keys):
    """One ACK ends a cycle in which n packets were acknowledged within `period` us. State thereafter."""
    measured = {"ca__rtt_min": t, "ca__cycle_rtt": shortest or period, "ca__delivered": (1 - n) % 2**32}
    sending(pr, window, params, **measured | keys)
    pr.ack(now=period)
    return pr.state()
