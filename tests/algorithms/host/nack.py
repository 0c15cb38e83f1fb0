# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
A NACK of TCP Formosa names gaps, an ACK with SACK blocks what lies between them: the one is the other's
complement. Sequence numbers wrap; a gap and a block are pairs (first byte, byte behind the last).
"""

SPACE = 1 << 32


def _behind(ack):
    """Order of blocks or gaps: by their distance from the cumulative ACK."""
    return lambda pair: (pair[0] - ack) % SPACE


def gaps_of(ack, blocks):
    """The loss blocks of an ACK, one for each SACK block and in their order: what is missing before it."""
    begins = {}
    end = ack
    for block in sorted(blocks, key=_behind(ack)):
        begins[block] = end
        end = block[1]
    return [(begins[block], block[0]) for block in blocks]


def blocks_of(gaps, end):
    """Cumulative ACK and SACK blocks of a NACK, `end` behind all that arrived: what came after each gap."""
    if not gaps:
        return end, []
    ack = min(gaps, key=lambda gap: (gap[0] - end) % SPACE)[0]  # farthest before the end
    ordered = sorted(gaps, key=_behind(ack))
    ends = {gap: after[0] for gap, after in zip(ordered, [*ordered[1:], (end, end)])}
    return ack, [(gap[1], ends[gap]) for gap in gaps]
