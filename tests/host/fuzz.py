# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Random streams of the driver's commands for any controller, and what holds after each command.

    python -m host.fuzz [--seconds N] [--seed N] [CONTROLLER ...]    every controller in turn
    python -m host.fuzz --replay build/host/NAME.fail                one stream again

A stream that fails is made as short as it can be and written to build/host/NAME.fail.
"""

import argparse
import itertools
import os
import re
import sys
import time
from pathlib import Path
from random import Random

from .driver import OUT, TOP, Driver, build, controllers, line

ALL = 2**32 - 1
CWR, RECOVERY, LOSS = 2, 3, 4  # enum tcp_ca_state
HELLO = bytes.fromhex("fd04f0a0")
PARSE, WRITE = 1 << 5, 1 << 6  # BPF_SOCK_OPS_..._HDR_OPT_CB_FLAG
ANSWER = bytes.fromhex("fd08f0a200000000")
MANY = 300  # packets in flight at most when each is written
START = 3  # lines that set up the connection: reset, set, new


# --- streams ------------------------------------------------------------------------------


def number(rnd, low, high):
    """The bounds often; else any order of magnitude is as likely as another."""
    if rnd.random() < 0.2:
        return rnd.choice((low, high))
    return min(high, low + rnd.getrandbits(rnd.randint(0, (high - low).bit_length())))


def new(rnd, now):
    mss = rnd.choice((0, 1, 536, 1448, 65535))
    seq = rnd.choice((1, 2**31 - 5000, 2**32 - 5000, rnd.getrandbits(32)))
    return line(
        "new", now=now, snd_una=seq, snd_nxt=seq, mss_cache=mss, seg=max(mss, 1),
        snd_cwnd=number(rnd, 1, rnd.choice((20, 2**20, 2**31))), snd_cwnd_clamp=rnd.choice((1, 2, 3, 50, 2**20, ALL, ALL, ALL)),
        srtt_us=rnd.choice((0, 0, number(rnd, 1, ALL))), data_segs_out=rnd.randint(0, 1), app=rnd.choice((1, 50, ALL, ALL, ALL)),
        delivered=rnd.choice((0, 2**32 - 100)), tx_start=rnd.randint(0, 1), timestamps=rnd.randint(0, 1),
    )  # fmt: skip


def commands(rnd, length, now):
    """A path with an RTT and a size of ACKs, and all that may happen on it."""
    base = number(rnd, 1, 2**26)
    size = number(rnd, 1, rnd.choice((2, 64, 2**20)))
    trouble = rnd.choice((0, 0.02, 0.1, 0.5))  # how often anything but an ACK
    for _ in range(length):
        now += rnd.choice((0, 1, base // 100, base // 100, base, number(rnd, 0, 2**34 if rnd.random() < 0.1 else 2**21)))
        if rnd.random() >= trouble:
            n = rnd.choice((size, 1, number(rnd, 0, 2 * size), *([ALL] * (rnd.random() < 0.2))))
            rtt = rnd.choice((base, base + number(rnd, 0, base), number(rnd, -1, 2 * base), rnd.choice((-1, 0, 1, 2**31 - 1))))
            yield line("ack", n=n, sack=rnd.choice((0, 0, number(rnd, 0, size))), rtt=rtt, ece=rnd.random() < 0.05, now=now)
            continue
        what = rnd.choice(("loss", "cwr", "rto", "undo", "idle", "send", "event", "stack"))
        if what == "loss":
            yield line("loss", n=number(rnd, 1, size), sack=number(rnd, 0, size), now=now)
        elif what == "idle":  # restart happens to an empty network only
            yield line("ack", n=ALL, app=0, rtt=base, now=now)
            now += number(rnd, 0, 2**32)
            if rnd.random() < 0.5:
                yield line("restart", cwnd=rnd.choice((1, 2, 10)), now=now)
            yield line("send", app=ALL, now=now)
        elif what == "send":
            yield line("send", app=rnd.choice((0, 1, number(rnd, 1, 200), ALL, ALL)), now=now)
        elif what == "event":
            yield line("event", id=rnd.randint(0, 5), now=now)
        elif what == "stack":  # sets a window, or the limit of one
            window = number(rnd, 1, 2**20)
            yield line("poke", snd_cwnd=window, stack_cwnd=window, now=now)
            if rnd.random() < 0.3:
                yield line("poke", snd_cwnd_clamp=rnd.choice((1, 2, window, ALL)), now=now)
        else:
            yield line(what, now=now)


# The application keeps one packet in flight. After so many of these nothing may grow further.
CALM, CALM_AT_LAST = 48, 8


def calm(now):
    return [line("ack", n=ALL, app=1, rtt=40000, now=now + i * 20_000_000) for i in range(CALM)]


def answered(lines):
    """Every second ACK turned into the options of the next."""
    return [line("read", options=ANSWER) if i % 2 else one for i, one in enumerate(lines)]


# --- streams of a controller with TCP options of its own ----------------------------------

def option(rnd):
    """Right, nearly right, or nothing of the kind."""
    raw = rnd.choice(("fd0cf0a1", "fd0cf0a1", "fd08f0a2", "fd08f0a2", "fd04f0a0", rnd.randbytes(4).hex()))
    raw = bytearray.fromhex(raw) + bytes([rnd.choice((0, 0x40, 0x80, 0x11)), rnd.randint(0, 3)]) + rnd.randbytes(10)
    if rnd.random() < 0.1:
        raw[rnd.choice((1, 1, rnd.randrange(8)))] = rnd.choice((rnd.randint(4, 14), rnd.randint(0, 255)))
    return bytes(raw[: raw[1] or 8])


def packet(rnd, ack):
    """An ACK with or without SACK blocks, or anything."""
    tcp = rnd.randbytes(8) + (ack % 2**32).to_bytes(4, "big") + bytes([rnd.choice((0x50, 0x80, 0xF0)), 16]) + bytes(46)
    tcp = tcp[: (tcp[12] >> 4) * 4 + rnd.choice((0, 0, 0, 1))]
    whole = rnd.choice((b"\x45" + bytes(8) + b"\x06" + bytes(10), b"\x60" + bytes(5) + b"\x06" + bytes(33))) + tcp
    return rnd.choice((whole, whole, whole, whole[: rnd.randint(0, len(whole))], rnd.randbytes(rnd.randint(0, 99))))


def from_the_peer(rnd, near):
    """What comes from the peer or goes to it, `near` the next of its bytes that is expected."""
    raw = b"".join(option(rnd) for _ in range(rnd.choice((0, 1, 1, 1, 2))))[:40]
    seq = (near + rnd.choice((0, 0, 0, 960, 1920, number(rnd, 0, 2**31), -960))) % 2**32
    what = rnd.choice(("read", "read", "read", "read", "egress", "egress", "ack", "write", "poke", "stamp"))
    if what == "read":
        yield line("read", options=raw, len=rnd.choice((0, 1, 960, 960, 65535)), seq=seq, cut=rnd.choice((*([0] * 9), 1, 60)),
                   flags=rnd.choice((16, 16, 24, 17, 0)), **rnd.choice(({}, {}, {"ack": rnd.getrandbits(32)})))  # fmt: skip
        if rnd.random() < 0.8:
            yield line("ack", n=0)
    elif what == "egress":
        yield line("egress", packet=packet(rnd, seq), owned=rnd.random() < 0.9)
    elif what == "ack":
        yield line("ack", n=0)
    elif what == "write":
        yield line("write", room=rnd.choice((40, 28, 20, 8, 0)), len=rnd.choice((0, 960)), flags=rnd.choice((16, 2, 18)),
                   mode=rnd.randint(0, 2), full=rnd.randint(0, 1), syn=rnd.choice((b"", HELLO, raw)))  # fmt: skip
    elif what == "poke":
        yield line("poke", rcv_nxt=near, rcv_wup=near, rcv_wnd=rnd.choice((0, 960, 65535)), pending=0)
    else:
        yield line("poke", rcv_tsval=rnd.getrandbits(32), rcv_tsecr=rnd.getrandbits(rnd.choice((0, 32))), saw_tstamp=1)


def on_the_wire(rnd, lines):
    """The same stream with segments and ACKs of a peer among its commands."""
    near, signals, answers = rnd.getrandbits(32), 0, rnd.choice((0, 0.9, 1))
    for command in lines:
        if command.startswith("ack") and rnd.random() < answers:
            signals += rnd.random() < 0.05
            yield line("read", options=ANSWER[:4] + bytes([signals % 16]) + ANSWER[5:])
        yield command
        if rnd.random() < 0.4:
            near += rnd.choice((0, 0, 960))
            yield from from_the_peer(rnd, near % 2**32)


def wired(rnd, lines):
    """A peer that says hello, or none; each packet written, or windows of any size."""
    start, new = lines[: START - 1], lines[START - 1]
    peer = rnd.choice(({}, {"synack": HELLO}, {"syn": HELLO}, {"synack": HELLO, "fails": 1}, {"syn": HELLO, "other": 1}))
    rest = list(on_the_wire(rnd, lines[START:])) if peer else lines[START:]
    if peer and rnd.random() < 0.5:
        return [*start, f"{new} {line('', **peer)}", line("poke", cb_flags=PARSE), *rest]
    if peer:  # the last of a key counts
        few = [re.sub(r"app=\d+", lambda m: f"app={min(int(m[0][4:]), MANY)}", one) for one in (new, *rest)]
        return [*start, f"{few[0]} {line('', **peer)}", *few[1:]]
    return lines


def stream(rnd, bounds, wire=False, length=160):
    """`bounds` as Driver.params() has them; `wire`: the controller has options of its own."""
    now = rnd.choice((0, 10**6, 2**32, 2**45))
    given = {
        name: initial if rnd.random() < 0.5 else number(rnd, low, high)
        for name, (_, initial, low, high) in bounds.items()
    }
    lines = ["reset", line("set", **given), new(rnd, now), *commands(rnd, length, now)]
    if wire:
        return [*wired(rnd, lines), *rnd.choice((calm(2**46), answered(calm(2**46))))]
    return [*lines, *calm(2**46)]


# --- what holds ---------------------------------------------------------------------------


def window(state):
    """What the law governs. With cong_control it is W; cwnd is what W leaves room for at the moment."""
    return state["ca"]["w"] if state["cong_control"] else state["tp"]["snd_cwnd"]


# What a law is about: with Westwood+ a timeout leaves more than a small window, if the path carried more, and the end of
# a recovery (here at any time) sets the window.
LAWFUL = {"bpf_westwood": {("rto", "a loss raises ssthresh"), ("event", "changed during recovery")}}


def rules(command, old, new):
    """The connection before and after one command. Before `new` there is none."""
    after = new["tp"]
    cwnd, stack, ssthresh = after["snd_cwnd"], after["stack_cwnd"], after["snd_ssthresh"]
    assert cwnd >= 1, "no window"
    assert ssthresh >= 2, "ssthresh below 2"
    if not old:
        assert cwnd <= after["snd_cwnd_clamp"], "above the clamp"
        return
    before = old["tp"]
    last = before["snd_cwnd"]
    assert cwnd <= max(last, after["snd_cwnd_clamp"]) or cwnd == stack, "above the clamp"
    if after["state"] in (CWR, RECOVERY) and not new["cong_control"]:
        assert cwnd in (last, stack), "changed during recovery"
    if command in ("loss", "cwr", "rto") and before["state"] < CWR <= after["state"]:
        assert ssthresh <= max(window(old), 2), "a loss raises ssthresh"
    if command == "undo":
        prior = before["prior_cwnd"] if before["undo_marker"] and before["prior_ssthresh"] else 0
        assert cwnd >= max(last, prior), "undo lowers"
        assert window(new) >= window(old), "undo lowers"
    if command in ("read", "write", "egress"):
        assert old["ca"] == new["ca"] or before["other"], "the wire changes the law"
        assert {**before, "other": 0} == {**after, "other": 0} or before["other"], "the wire changes the socket"
    if new["cong_control"]:
        rules_of_w(command, old, new)


def rules_of_w(command, old, new):
    """Nobody but the controller sets the window in recovery, and the window is not what it governs."""
    before, after, w, last = old["tp"], new["tp"], window(new), window(old)
    counted = {name: count - old["counters"][name] for name, count in new["counters"].items()}
    if CWR <= before["state"] < LOSS and CWR <= after["state"] < LOSS and not counted.get("idle_restarts"):
        assert w in (last, after["snd_cwnd_clamp"]), "changed during recovery"
    if command == "ack":
        assert w >= min(last, 2, after["snd_cwnd_clamp"]), "W below 2"
    if "rounds" in counted and not before["other"]:
        carried = (after["delivered"] - old["ca"]["delivered_round"]) % 2**32
        assert command == "undo" or w <= last + max(carried, 1), "grows by more than was delivered"
        assert counted["signals"] <= counted["rounds"] <= 1, "two cuts in a round"
        if command == "ack" and new["wire"]["peer"] and not new["wire"]["silent"] and not after["lost_out"]:
            flight = after["packets_out"] - after["sacked_out"] - after["lost_out"] + after["retrans_out"]
            bound = max(w + new["ca"]["w_last"], flight + 1)  # a round's first packet always goes out
            assert after["snd_cwnd"] in (before["snd_cwnd"], after["stack_cwnd"]) or after["snd_cwnd"] <= bound, "beyond W and W_last"


def check(driver, lines):
    """Raises an AssertionError that names the rule, or what the sanitizers found."""
    answers = driver.batch([both for command in lines for both in (command, "state")])
    answers, states, before = answers[::2], answers[1::2], None
    for command, state in list(zip(lines, states))[START - 1 :]:
        what = command.split()[0]
        try:
            rules(what, before, state)
        except AssertionError as broken:
            if (what, str(broken)) in LAWFUL.get(driver.binary.name, ()):
                before = state
                continue
            raise AssertionError(f"{broken}: {command}\n before {before}\n after {state}") from None
        before = state
    last = [window(state) for state in states[-CALM_AT_LAST:]]
    assert all(b <= max(a, 2) for a, b in itertools.pairwise(last)), f"grows while the application limits: {last}"
    again = driver.batch([*lines, "state"])  # `reset` still tells of the connection before
    assert again[1:] == [*answers[1:], states[-1]], "the same stream twice, two outcomes"


def failure(driver, lines):
    try:
        check(driver, lines)
    except AssertionError as broken:
        return str(broken)
    return None


def shortest(driver, lines, patience=300):
    """Leaves out what the failure does not need, long parts first."""
    middle = lines[START:-CALM]
    part = len(middle)
    while part and patience:
        at = 0
        while at < len(middle) and patience:
            fewer = middle[:at] + middle[at + part :]
            patience -= 1
            if failure(driver, [*lines[:START], *fewer, *lines[-CALM:]]):
                middle = fewer
            else:
                at += part
        part //= 2
    return [*lines[:START], *middle, *lines[-CALM:]]


def hunt(driver, name, seed, bounds=None):
    """One stream. If it fails: what broke, and how to see it again."""
    lines = stream(Random(seed), bounds or driver.params(), bool(driver.state()["wire"]))
    if not failure(driver, lines):
        return None
    lines = shortest(driver, lines)
    path = OUT / f"{name}.fail"
    path.write_text("\n".join(lines) + "\n")
    return f"{failure(driver, lines)}\n{name}, seed {seed}; again: make fuzz REPLAY={path.relative_to(TOP)}"


# --- the command --------------------------------------------------------------------------


def search(name, seconds, seed):
    driver, began, told = Driver(build(name)), time.monotonic(), 0
    for count in itertools.count(1):
        broken = hunt(driver, name, f"{seed}.{count}")
        spent = time.monotonic() - began
        if broken or spent >= seconds or spent >= told + 10:
            told = spent
            print(f"{name:12} {spent:4.0f} s {count:6} streams{'  FAILED' if broken else ''}", flush=True)
        if broken:
            print(broken)
        if broken or spent >= seconds:
            driver.close()
            return not broken


def replay(path):
    broken = failure(Driver(build(path.stem)), path.read_text().splitlines())
    print(broken or "holds")
    return not broken


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("controllers", nargs="*", metavar="CONTROLLER", default=[*controllers()])
    words.add_argument("--seconds", type=float, default=300, help="for all controllers together")
    words.add_argument("--seed", default=str(int.from_bytes(os.urandom(4), "big")))
    words.add_argument("--replay", type=Path, metavar="FILE")
    args = words.parse_args()
    if args.replay:
        return replay(args.replay)
    print(f"seed {args.seed}")
    return all([search(name, args.seconds / len(args.controllers), args.seed) for name in args.controllers])


if __name__ == "__main__":
    sys.exit(not main())
