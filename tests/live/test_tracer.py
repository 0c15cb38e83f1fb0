# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc trace`: of real transfers, each sum against what both ends and both devices counted."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.live.harness import ASYMCC, asymcc, endpoint, expect, program, pytestmark, refused, run  # noqa: F401
from tests.live.pairs import held_open, listening, transfer
from tests.live.traces import BIN_MS, PAYLOAD, Trace, read_trace, tracing

# Exact or not: the namespaces now and then send a packet of their own, and there are machines whose kernel runs no BPF
# in interrupts over certain of its tasks.
TRIES = 10


class Unseen(Exception):
    """The trace lacks events, or has some that are not the transfer's."""


def sums_agree(trace: Trace, port: int, size: int, links: dict[str, tuple[dict, dict]]) -> None:
    """Bytes and packets against what was sent and what the kernel counted itself."""
    acked = sum(r[11] for r in trace.acks if r[2] == port)
    received = sum(r[5] for r in trace.goodput if r[1] == port)
    assert 0.9 * size < acked <= size and 0.9 * size < received <= size
    if (acked, received) != (size, size):
        raise Unseen(f"{acked} bytes acknowledged and {received} received, of {size}")
    for dev, (a, b) in links.items():
        link = trace.link(dev)
        seen = sum(r[2] for r in link), sum(r[5] for r in link)
        counted = b["packets"] - a["packets"], b["bytes"] - a["bytes"]
        assert 0.9 * counted[0] < seen[0] < 1.1 * counted[0]
        if seen != counted:
            raise Unseen(f"{dev}: {seen} packets and bytes, the kernel counted {counted}")


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_trace_of_a_transfer(address, alias, pair, tmp_path):
    name, size, port = alias(), 600_000, 7001
    asymcc("load", "fast", "--as", name, "--set", "alpha=12")
    transfer(pair, address, port, 1000, name)  # neighbours are known from here on

    unseen = []
    for _ in range(TRIES):
        with tracing(
            tmp_path / "t", "--link", pair.dev_c, "--link", pair.dev_s, "--ports", f"{port}-{port}", "--drain-ms", "200"
        ) as result:
            before = pair.qdisc(pair.client, pair.dev_c), pair.qdisc(pair.server, pair.dev_s)
            transfer(pair, address, port, size, name)
            after = pair.qdisc(pair.client, pair.dev_c), pair.qdisc(pair.server, pair.dev_s)
        trace = result[0]
        try:
            sums_agree(trace, port, size, {pair.dev_c: (before[0], after[0]), pair.dev_s: (before[1], after[1])})
            break
        except Unseen as e:
            unseen.append(str(e))
    else:
        pytest.fail(f"no trace of {TRIES} is exact:\n" + "\n".join(unseen))

    assert not trace.states
    sender = [r for r in trace.acks if r[2] == port]
    assert [r[5] for r in sender] == sorted(r[5] for r in sender)
    for r in sender:
        (
            _,
            lport,
            rport,
            ca_state,
            flags,
            t,
            cwnd,
            ssthresh,
            srtt,
            rtt,
            in_flight,
            acked,
            pacing,
            retrans,
            delivered,
            lost,
            mss,
        ) = r
        assert 1 <= cwnd <= 2000 and ca_state <= 4 and in_flight <= 2 * cwnd and 500 < mss < 1500
        assert pacing > 0 and lport not in (0, port) and rport == port
    assert max(r[6] for r in sender) > 5 and max(r[10] for r in sender) > 5
    assert 300 < sender[-1][8] < 1_000_000 and 300 < sender[-1][9] < 1_000_000, "RTTs of a loaded 20 Mbit/s link"
    assert abs(sender[-1][14] - size / sender[-1][16]) < 15, "segments delivered"

    to_server = [r for r in trace.goodput if r[1] == port]
    assert len({r[8] for r in to_server}) == 1 and len(to_server) > 5
    assert sum(r[6] - r[7] for r in to_server) <= sum(r[6] for r in to_server) <= 1.2 * size / 500
    rates = [r[5] * 8 / (BIN_MS * 1000) for r in to_server[2:-1]]
    assert 12 < sum(rates) / len(rates) < 21, "Mbit/s, of 20 less headers"
    assert sum(r[5] for r in trace.goodput if r[2] == port) == 32, "the digest"

    for dev, b in ((pair.dev_c, after[0]), (pair.dev_s, after[1])):
        link = trace.link(dev)
        assert link[-1][9] == b["drops"] and sum(r[10] for r in link) == 0
        for r in link:
            assert r[7] >= 1 and r[8] <= r[2] * (r[7] - 1) and r[6] <= r[2]
    assert max(r[7] for r in trace.link(pair.dev_c)) > 3, "a queue stands before the bottleneck"
    acks_back = sum(r[6] for r in trace.link(pair.dev_s))
    pure = sum(1 for r in sender if not r[4] & PAYLOAD)
    assert pure > 30 and 0 <= acks_back - pure <= 3, "ACKs that left the server are those the client saw"
    assert 1 <= sum(r[6] for r in trace.link(pair.dev_c)) <= 10


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_trace_of_the_private_state(address, alias, pair, tmp_path):
    """Each ACK with what FAST remembers before it: the window that it wrote is the one that TCP has."""
    name, port = alias(), 7012
    asymcc("load", "fast", "--as", name, "--set", "alpha=12")
    members = {
        m["name"]: slice(m["offset"], m["offset"] + m["bytes"])
        for m in json.loads(asymcc("show", name, "--json"))["state"]
    }
    with tracing(tmp_path / "t", "--state", "--ports", f"{port}-{port}") as result:
        transfer(pair, address, port, 600_000, name)
    rows = [
        (ack, {m: int.from_bytes(state[where], "little") for m, where in members.items()})
        for ack, state in zip(result[0].acks, result[0].states)
        if ack[2] == port
    ]
    assert len(rows) > 50 and max(ack[6] for ack, _ in rows) > 5
    assert sum(ack[6] == s["cwnd"] for ack, s in rows) > 0.9 * len(rows)
    assert sum(ack[6] == s["w_q8"] >> 8 for ack, s in rows) > 0.9 * len(rows)
    assert 0 < rows[-1][1]["rtt_min"] <= rows[-1][1]["rtt_last"] < 1_000_000


def test_trace_loses_nothing_of_what_stays_open(loaded, pair, tmp_path):
    """Bins that no later segment closes are written at the end."""
    name = loaded("fast")
    with tracing(tmp_path / "t") as result:
        with held_open(pair, name):
            pass
    got = {(r[1] == 7100): 0 for r in result[0].goodput}
    for r in result[0].goodput:
        if 7100 in (r[1], r[2]):
            got[r[1] == 7100] += r[5]
    assert got == {True: 1000, False: 32}


def test_trace_of_losses(alias, pair, tmp_path):
    pair.sh(pair.client, *f"tc qdisc replace dev {pair.dev_c} root tbf rate 20mbit burst 3000 limit 15000".split())
    with tracing(tmp_path / "t", "--link", pair.dev_c) as result:
        transfer(pair, "10.9.0.2", 7002, 1_000_000, "reno")
        drops = pair.qdisc(pair.client, pair.dev_c)["drops"]
    sender = [r for r in result[0].acks if r[2] == 7002]
    assert {0, 3} <= {r[3] for r in sender}, "Open and Recovery"
    assert any(r[11] == 0 and not r[4] & PAYLOAD for r in sender), "duplicate ACKs"
    assert sender[-1][13] > 0 and sender[-1][15] > 0, "segments retransmitted, and lost"
    assert 0 < drops == result[0].link(pair.dev_c)[-1][9]
    assert sum(r[7] for r in result[0].goodput if r[1] == 7002) > 0, "segments behind a gap"
    assert sum(r[5] for r in result[0].goodput if r[1] == 7002) == 1_000_000


def small_segments_and_a_close(pair, address: str, out: Path) -> Trace:
    with tracing(out, "--link", pair.dev_c, "--link", pair.dev_s) as result:
        with listening(pair, address, port=7003, role="pong") as pong:
            pair.sh(pair.client, *endpoint("ping", address=address, port=7003))
            expect(pong, "100000")
    return result[0]


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_trace_of_small_segments_and_a_close(address, pair, tmp_path):
    """Small segments are no pure ACKs; what comes with the FIN counts, even if it closes the last gap."""
    unseen = []
    for _ in range(TRIES):
        trace = small_segments_and_a_close(pair, address, tmp_path / "t")
        got = [sum(r[5] for r in trace.goodput if r[end] == 7003) for end in (1, 2)]
        # A FIN that was not seen, and waited behind a gap, counts as a byte.
        if got == [200 * 4 + 100_000, 200 * 4]:
            break
        unseen.append(str(got))
    else:
        pytest.fail(f"no trace of {TRIES} is exact:\n" + "\n".join(unseen))
    assert sum(r[2] for r in trace.link(pair.dev_c)) >= 260
    assert sum(r[6] for r in trace.link(pair.dev_c)) < 30
    assert sum(r[6] for r in trace.link(pair.dev_s)) < sum(r[2] for r in trace.link(pair.dev_s)) - 195


def test_trace_ports(alias, pair, tmp_path):
    with tracing(tmp_path / "t", "--ports", "7005-7010") as result:
        for port in (7004, 7005, 7010, 7011):
            transfer(pair, "10.9.0.2", port, 30_000, "reno")
    trace = result[0]
    ports = {r[2] for r in trace.acks} | {r[1] for r in trace.goodput}
    assert {7005, 7010} <= ports and not {7004, 7011} & ports
    assert sum(r[5] for r in trace.goodput if r[1] == 7010) == 30_000
    assert not trace.links


def test_trace_keeps_one_ack_of_each_interval(pair, tmp_path):
    """The next record has what the others acknowledged. Nothing tells what comes behind the last one."""
    size, every = 2_000_000, 20
    with tracing(tmp_path / "t", "--every-ms", str(every), "--ports", "7040-7041") as result:
        for port in (7040, 7041):
            transfer(pair, "10.9.0.2", port, size, "reno")
    trace = result[0]
    for port in (7040, 7041):
        acks = [r for r in trace.acks if r[2] == port]
        times = [r[5] // (every * 1_000_000) for r in acks]
        assert len(acks) > 5 and times == sorted(set(times))
        assert sum(r[11] for r in acks) == pytest.approx(size, rel=0.1) and max(r[11] for r in acks) > 20 * PAYLOAD
        assert sum(r[5] for r in trace.goodput if r[1] == port) == size
    assert "--every-ms 1001" in refused("trace", "--every-ms", "1001", "-o", tmp_path / "t", code=2)


def test_trace_seconds(tmp_path):
    out = asymcc("trace", "--seconds", "1", "--bin-ms", BIN_MS, "-o", tmp_path / "t").split("\n")
    assert out[0] == "tracing"
    read_trace(tmp_path / "t", out[1] + "\n")


def test_trace_with_a_ring_that_is_too_small(loaded, pair, tmp_path):
    """With room for 56 records, and nobody who collects them, most are lost; and the trace says so."""
    name = loaded("fast", "--set", "alpha=12")
    argv = ("--ring-kb", "4", "--drain-ms", "60000", "--ports", "7030-7030", "-o", tmp_path / "t")
    with program(ASYMCC, "trace", *argv) as p:
        assert p.stdout.readline() == "tracing\n"
        transfer(pair, "10.9.0.2", 7030, 1_000_000, name)
        p.send_signal(signal.SIGINT)
        counts = dict(re.findall(r"(acks|lost) (\d+)", p.communicate(timeout=20)[0]))
    assert 1 < int(counts["acks"]) < 57 and int(counts["lost"]) > 100
    assert "--ring-kb 3" in refused("trace", "--ring-kb", "3", "-o", tmp_path / "t", code=2)


def test_trace_with_the_types_that_it_uses_alone(tmp_path):
    file = tmp_path / "types"
    run("bpftool", "gen", "min_core_btf", "/sys/kernel/btf/vmlinux", file, ASYMCC.with_name("trace.bpf.o"))
    assert asymcc("trace", "--seconds", "0", "--btf", file, "-o", tmp_path / "t").split("\n")[0] == "tracing"
    for wrong in (tmp_path / "no", "/etc/passwd"):
        assert f"--btf {wrong}: " in refused("trace", "--seconds", "0", "--btf", wrong, "-o", tmp_path / "t")


def test_trace_wrong_files(tmp_path):
    assert "-o" in refused("trace")
    assert "No such file" in refused("trace", "-o", tmp_path / "no" / "t")
    full = (
        f"mount -t tmpfs -o size=4k none {tmp_path} && head -c 4096 /dev/zero > {tmp_path}/zeros; "
        f"exec {ASYMCC} trace --seconds 1 -o {tmp_path}/t"
    )
    done = run("unshare", "-m", "sh", "-c", full, check=False)
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.parametrize("read", [False, True])
def test_a_trace_into_what_can_block_is_refused(read, tmp_path):
    """Whether somebody reads from the other end or not; a signal would wait for ever."""
    os.mkfifo(tmp_path / "t")
    reader = os.open(tmp_path / "t", os.O_RDONLY | os.O_NONBLOCK) if read else None
    try:
        line = refused("trace", "--seconds", "1", "-o", tmp_path / "t")
        assert str(tmp_path / "t") in line and (not read or "not a regular file" in line)
    finally:
        if reader is not None:
            os.close(reader)
    assert "not a regular file" in refused("trace", "--seconds", "1", "-o", "/dev/null")


@pytest.mark.parametrize("closed", ["<&- >&-", "<&- >&- 2>&-", ">&-"])
def test_no_message_goes_into_a_file_that_took_the_place_of_stdout(closed, tmp_path):
    done = run("sh", "-c", f"exec {ASYMCC} trace --seconds 1 -o {tmp_path / 't'} {closed}", check=False)
    data = (tmp_path / "t").read_bytes()
    assert data[:8] == b"ASYMCCT1" and len(data) % 64 == 0 and done.returncode == 1
    assert done.stderr == ("" if "2>" in closed else "asymcc: cannot write the output: Bad file descriptor\n")
