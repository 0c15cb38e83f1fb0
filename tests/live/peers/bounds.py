# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How far a peer that misbehaves may bring a controller (attacks.py)."""

from __future__ import annotations

from collections.abc import Iterator

WARNINGS = r"WARNING|BUG|Oops|cut here|Call Trace|refcount|general protection"  # of a kernel
W_MAX = 1 << 20
FACTOR, SMALL = 3, 25  # of Reno's largest window in the second half, or of this one: first windows and a round's growth

# These laws allow more themselves: about what an honest peer gets, or a packet for each that was delivered.
HONEST, DELIVERED = "thrice what the peer's window lets out", "one packet for each delivered"
BY_LAW = {
    ("taichung", "spoofed_plainly"): (HONEST, "(11) cuts what was queued, and nothing is while the RTT is flat"),
    ("formosa", "spoofed_plainly"): (
        HONEST,
        "it paces: the ACK comes before the repair is out, and the stack takes the reduction back",
    ),
    ("formosa", "undone"): (HONEST, "the same"),
    ("prague", "spoofed_plainly"): (
        HONEST,
        "the same: of five reductions, two repairs were out, and three were undone",
    ),
    ("nreno", "spoofed_plainly"): (
        HONEST,
        "they meet a window below three: the stack takes them for reordering then, not so with tcp_max_reordering=3",
    ),
    ("bpf_bic", "spoofed_plainly"): (HONEST, "BIC keeps four fifths and seeks the last maximum"),
    ("bpf_bic", "anything"): (HONEST, "the same"),
    ("bpf_bic", "undone"): (
        HONEST,
        "the same: where slow start, Reno's too, passed the first losses and came to 196, BIC ends at 103, Reno at 12",
    ),
    ("bbr3", "reneging"): (HONEST, "its window is twice what the path holds by rate and RTT, losses below 2 % or none"),
    ("bbr3", "undone"): (HONEST, "the same"),
    ("bbr3", "anything"): (HONEST, "the same"),
    ("bpf_vegas", "flood"): (DELIVERED, "Linux's Vegas, in slow start, does not ask whether the window is used"),
    ("nreno", "flood"): (DELIVERED, "[N] counts ACKs"),
    ("nreno", "anything"): (DELIVERED, "floods are among it"),
}


def beyond(name: str, attack: str, f: dict, reno: int, rounds: int) -> Iterator[str]:
    """Each fault of a controller's flow; `reno`: Reno's largest window."""
    what = f"{name} {f}"
    if not (f["right"] and 1 <= f["low"] and f["most"] <= W_MAX):
        yield f"bytes, window: {what}"
    if f["beside"]:
        if not f["open"] or f["arrived"] < rounds * f["flight"] * 100:
            yield f"the honest one beside it: {what}"
        return
    law, _ = BY_LAW.get((name, attack), ("", ""))
    more = {"": 0, HONEST: 3 * f["flight"], DELIVERED: f["segments"] + SMALL}[law]
    bound = max(FACTOR * max(reno, SMALL), more)
    if f["late"] > bound:
        yield f"beyond {bound} (Reno {reno}): {what}"


def line(f: dict) -> str:
    cwnd = f"cwnd {f['low']}-{f['most']}, at the end {f['late']}"
    return f"IPv{f['family']} {cwnd}; {f['segments']} segments, {f['retransmits']} again"
