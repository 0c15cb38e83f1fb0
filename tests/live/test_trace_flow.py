# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc trace --flow: the connections that have one of the ends, and no other; how a trace ends when it must."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.live.harness import ASYMCC, asymcc, endpoint, program, pytestmark, refused, run, saying  # noqa: F401
from tests.live.pairs import transfer
from tests.live.traces import BIN_MS, Trace, read_trace, tracing

SIZE = 30_000


def ports(trace: Trace) -> set[tuple[int, int]]:
    """The connections in the trace: the lower port and the higher of each."""
    return {tuple(sorted(r[1:3])) for r in trace.acks + trace.goodput}


def only(trace: Trace, *wanted: int) -> None:
    """Both ends of the transfers to these server ports, whole; nothing else."""
    assert {low for low, _ in ports(trace)} == set(wanted)
    for port in wanted:
        assert any(r[2] == port for r in trace.acks), "the sender"
        assert sum(r[5] for r in trace.goodput if r[1] == port) == SIZE
    assert len(trace.states) in (0, len(trace.acks))


TRANSFERS = [("10.9.0.2", 7301), ("10.9.0.2", 7302), ("fd09::2", 7303), ("fd09::2", 7304)]


@pytest.mark.parametrize(
    "argv, wanted",
    [
        (["--flow", "10.9.0.2:7301"], [7301]),
        (["--flow", "10.9.0.2:7302", "--state"], [7302]),
        (["--flow", "[fd09::2]:7303"], [7303]),
        (["--flow", "[fd09:0:0:0::2]:7304", "--flow", "10.9.0.2:7301", "--flow", "10.9.0.2:7304"], [7301, 7304]),
        (["--flow", "10.9.0.2:7301", "--flow", "10.9.0.2:7302", "--ports", "7302-7400"], [7302]),
        (["--flow", "10.9.0.1:7301", "--flow", "[fd09::1]:7303", "--flow", "0.0.0.0:7302", "--flow", "[::]:7303"], []),
    ],
)
def test_just_those(argv, wanted, pair, tmp_path):
    with tracing(tmp_path / "t", *argv) as result:
        for address, port in TRANSFERS:
            transfer(pair, address, port, SIZE, "reno")
    only(result[0], *wanted)
    assert bool(result[0].states) == ("--state" in argv)


@pytest.mark.parametrize("end", ["10.9.0.1:7401", "[::ffff:10.9.0.1]:7401"])
def test_the_clients_end(end, pair, tmp_path):
    """One of several connections to a server, which has all in sockets of IPv6."""
    with saying("ready", *endpoint("dual_server", pair.server, port=7305, n=SIZE)):
        with tracing(tmp_path / "t", "--flow", end) as result:
            for address, port in (("10.9.0.2", 7400), ("10.9.0.2", 7401), ("10.9.0.2", 7402), ("fd09::2", 7401)):
                pair.sh(pair.client, *endpoint("ask_from", address=address, port=7305, own=port, n=SIZE))
    assert ports(result[0]) == {(7305, 7401)}
    only(result[0], 7305)


@pytest.mark.parametrize(
    "end, seen", [("10.9.0.2:7306", {7500, 7501}), ("[::ffff:a09:2]:7306", {7500, 7501}), ("[fd09::2]:7306", {7502})]
)
def test_a_servers_end_takes_all_its_connections(end, seen, pair, tmp_path):
    with saying("ready", *endpoint("dual_server", pair.server, port=7306, n=SIZE)):
        with tracing(tmp_path / "t", "--flow", end) as result:
            for address, port in (("10.9.0.2", 7500), ("10.9.0.2", 7501), ("fd09::2", 7502)):
                pair.sh(pair.client, *endpoint("ask_from", address=address, port=7306, own=port, n=SIZE))
    assert ports(result[0]) == {(7306, p) for p in seen}
    assert sum(r[5] for r in result[0].goodput if r[1] == 7306) == len(seen) * SIZE


def test_many_ends(pair, tmp_path):
    many = [word for i in range(300) for word in ("--flow", f"10.8.{i % 250}.{i // 250}:{1 + i}")]
    with tracing(tmp_path / "t", *many, "--flow", "10.9.0.2:7307", "--flow", "10.9.0.2:7307") as result:
        for port in (7307, 7308):
            transfer(pair, "10.9.0.2", port, SIZE, "reno")
    only(result[0], 7307)


def test_links_are_counted_whole(pair, tmp_path):
    with tracing(tmp_path / "t", "--flow", "10.9.0.2:7309", "--link", pair.dev_c) as result:
        for port in (7309, 7310):
            transfer(pair, "10.9.0.2", port, SIZE, "reno")
    only(result[0], 7309)
    assert sum(r[5] for r in result[0].link(pair.dev_c)) > 2 * SIZE


@pytest.mark.parametrize(
    "end",
    [
        *"10.9.0.2 10.9.0.2: 10.9.0.2:0 10.9.0.2:65536 10.9.0.2:-1 10.9.0.2:80x 10.9.0:80 :80 ::1:80 [::1]".split(),
        *"[::1]80 [::1:80 []:80 [10.9.0.2]:80 [fe80::1%lo]:80 localhost:80".split(),
        "[" + 50 * "1" + "]:80",
    ],
)
def test_what_is_no_end(end, tmp_path):
    line = refused("trace", "-o", tmp_path / "t", "--flow", "10.9.0.2:80", "--flow", end)
    assert f"--flow {end}: " in line and "[ADDRESS]:PORT" in line and not (tmp_path / "t").exists()


def test_without_flow_the_filter_is_not_in_the_program(tmp_path):
    """The verifier takes it out: not even a branch is left."""
    with (
        program(ASYMCC, "trace", "-o", tmp_path / "a") as plain,
        program(ASYMCC, "trace", "-o", tmp_path / "b", "--flow", "10.9.0.2:1") as some,
    ):
        for p, calls in ((plain, 0), (some, 2)):
            assert p.stdout.readline() == "tracing\n", p.stderr.read()
            code = [run("bpftool", "prog", "dump", "xlated", "id", n).stdout for n in held(p.pid, "prog")]
            assert len(code) == 2, "on_segment and its stand-in"
            for text in code:
                assert len(re.findall(r"call bpf_probe_read_kernel#", text)) == calls


# --- ends


def held(pid: int, what: str) -> set[int]:
    """Ids of the BPF programs, or links, that a process has open."""
    files = [f.read_text() for f in Path(f"/proc/{pid}/fdinfo").iterdir()]
    return {
        int(n)
        for text in files
        for n in re.findall(rf"^{what}_id:\s*(\d+)$", text, re.M)
        if what == "prog" or "link_type" in text
    }


def gone(ids: set[int]) -> bool:
    """Programs are freed a moment after the last that held them."""
    deadline = time.monotonic() + 20
    while any(run("bpftool", "prog", "show", "id", n, check=False).returncode == 0 for n in ids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_zero_seconds_stop_at_once(tmp_path):
    out = asymcc("trace", "--seconds", "0", "--bin-ms", BIN_MS, "-o", tmp_path / "t").split("\n")
    assert out[0] == "tracing"
    read_trace(tmp_path / "t", out[1] + "\n")


def test_a_trace_of_nothing_says_so(tmp_path, pair):
    """A port mistyped is no quiet success."""
    line = "no connection of these ends or ports was active: `asymcc top` shows those that are there"
    for options in (["--flow", "10.9.0.2:9"], ["--ports", "9-9"]):
        out = asymcc("trace", "--seconds", "0", *options, "-o", tmp_path / "t").splitlines()
        assert out == ["tracing", "acks 0, goodput bins 0, link bins 0, lost 0", line]


def test_without_seconds_it_goes_on(tmp_path):
    with tracing(tmp_path / "t", "--drain-ms", "10") as result:
        time.sleep(0.5)
    assert result[0].end[1] - int.from_bytes((tmp_path / "t").read_bytes()[24:32], "little") >= 0.5e9


def test_a_killed_trace_leaves_nothing_attached(tmp_path):
    with program(ASYMCC, "trace", "-o", tmp_path / "t") as p:
        assert p.stdout.readline() == "tracing\n", p.stderr.read()
        programs = held(p.pid, "prog")
        assert len(programs) == 2 and not any(
            run("bpftool", "prog", "show", "id", n, check=False).returncode for n in programs
        )
        p.send_signal(signal.SIGKILL)
        p.wait(timeout=20)
        assert gone(programs)


def test_a_disk_that_fills_up(tmp_path):
    """It says so and ends by itself, with nothing left attached."""
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=128k", "none", disk)
    try:
        with program(ASYMCC, "trace", "--state", "--drain-ms", "10", "--flow", "127.0.0.1:7300", "-o", disk / "t") as p:
            assert p.stdout.readline() == "tracing\n", p.stderr.read()
            programs = held(p.pid, "prog")
            up = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
            with program(*up, *endpoint("chatter", port=7300)):
                assert p.wait(timeout=50) == 1
            err = p.stderr.read()
        assert err.count("\n") == 1 and "No space left" in err and "not complete" in err and str(disk / "t") in err
        assert gone(programs) and os.path.getsize(disk / "t") <= 128 << 10
    finally:
        run("umount", disk)
