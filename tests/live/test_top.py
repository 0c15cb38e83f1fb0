# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc top: what it says of real connections, against ss; the screen it draws, through a terminal made here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.live.harness import (  # noqa: F401
    ASYMCC,
    NOBODY,
    STATE,
    asymcc,
    endpoint,
    expect,
    kernel_has,
    open_to_all,
    program,
    pytestmark,
    refused,
    run,
    saying,
)
from tests.live.pairs import listening

SO_NETNS_COOKIE = 71


@pytest.mark.parametrize("function", ["realloc", "calloc"])
def test_short_memory_hides_no_row(trip, function):
    """The row is of an uplink whose process is gone."""
    with socket.socket() as s:
        (cookie,) = struct.unpack("Q", s.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8))
    state = STATE / f"uplink-{cookie}-{socket.if_nametoindex('lo')}"
    STATE.mkdir(exist_ok=True)
    try:
        state.write_text(f"{2**22} 1 1\nlo\n")
        for call in range(1, 60):
            done = run(ASYMCC, "top", "--once", "--interval", 0, check=False, env=trip(function, call, errno.ENOMEM))
            whole = "uplink lo: `asymcc uplink` was killed" in done.stdout
            assert whole if done.returncode == 0 else done.stderr.startswith("asymcc: "), (call, done)
    finally:
        state.unlink()


@contextlib.contextmanager
def flows(sink_ns: str, source_ns: str, *ends: str, sink_cc: str = "", greeting: str = ""):
    """Connections, each as ADDRESS/PORT/CONTROLLER/BYTES, that are idle once all their bytes are acknowledged."""
    listen = dict.fromkeys(e.rsplit("/", 2)[0] for e in ends)
    sink = endpoint("take_all", sink_ns, ends=",".join(listen), cc=sink_cc, greeting=greeting)
    with saying("ready", *sink):
        with saying("idle", *endpoint("give_all", source_ns, ends=",".join(ends))) as source:
            yield source


def top(*argv, ns: str | None = None, interval: int = 0) -> list[dict]:
    """All flows, each with its controller's name."""
    enter = ("ip", "netns", "exec", ns) if ns else ()
    report = json.loads(run(*enter, ASYMCC, "top", "--json", "--interval", interval, *argv).stdout)
    assert report["all_namespaces"] is True
    names = [c["name"] for c in report["controllers"]]
    assert names == sorted(set(names))
    for c in report["controllers"]:
        rates = [f["goodput_bps"] for f in c["flows"]]
        known = [r for r in rates if r is not None]
        assert known == sorted(known, reverse=True) and rates == known + [None] * (len(rates) - len(known))
        assert interval or not known
        assert c["goodput_bps"] == (pytest.approx(sum(known), abs=len(known)) if known else None)
        assert c["retransmits"] == sum(f["retransmits"] for f in c["flows"])
        jain = sum(known) ** 2 / sum(r * r for r in known) if any(known) else 0
        assert c["jain_index"] is None if not jain else round(jain / c["jain_index"], 2) % 1 == 0  # of whole flows
    return [f | {"cc": c["name"]} for c in report["controllers"] for f in c["flows"]]


def of_netns(rows: list[dict], *names: str) -> dict[tuple, dict]:
    return {(f["netns"], f["local"], f["peer"]): f for f in rows if f["netns"] in {f"netns {n}" for n in names}}


STATES = {
    "ESTAB": "ESTABLISHED",
    "CLOSE-WAIT": "CLOSE_WAIT",
    "FIN-WAIT-1": "FIN_WAIT1",
    "LAST-ACK": "LAST_ACK",
    "CLOSING": "CLOSING",
}


def ss(ns: str) -> dict[tuple, dict]:
    rows = {}
    for line in run("ip", "netns", "exec", ns, "ss", "-tinOH").stdout.splitlines():
        words = line.split()
        if words[0] not in STATES:
            continue
        info = dict(w.split(":", 1) for w in words[6:] if ":" in w)
        rate = {
            k: int(v.removesuffix("bps")) for k, v in zip(words, words[1:]) if k in ("pacing_rate", "delivery_rate")
        }
        n = {
            k: int(info.get(k, 0))
            for k in ("segs_in", "data_segs_in", "data_segs_out", "bytes_acked", "bytes_received", "lost")
        }
        sent = n["data_segs_out"]
        rows[f"netns {ns}", words[3], words[4]] = {
            "netns": f"netns {ns}",
            "local": words[3],
            "peer": words[4],
            "state": STATES[words[0]],
            "cc": words[5],
            "cwnd_packets": int(info["cwnd"]),
            "ssthresh_packets": int(info["ssthresh"]) if "ssthresh" in info else None,
            "srtt_s": pytest.approx(float(info["rtt"].split("/")[0]) / 1000, rel=1e-4, abs=1e-6),
            "pacing_bps": pytest.approx(rate["pacing_rate"], abs=8),
            "goodput_bps": None,  # of one look
            "delivery_bps": pytest.approx(rate["delivery_rate"], abs=8) if sent else None,
            "acks_per_data_packet": pytest.approx((n["segs_in"] - n["data_segs_in"]) / sent, abs=1e-6)
            if sent
            else None,
            "retransmits": int(info["retrans"].split("/")[1]) if "retrans" in info else 0,
            "lost": n["lost"],
            "bytes_acked": n["bytes_acked"],
            "bytes_received": n["bytes_received"],
        }
    return rows


def test_numbers_are_those_of_ss(pair):
    """A flow that overran the queue, one over IPv6, one that sent nothing: both ends of each, in two namespaces."""
    ends = "10.9.0.2/7101/reno/2000000", "fd09::2/7102/cubic/100000", "10.9.0.2/7103/reno/0"
    with flows(pair.server, pair.client, *ends, greeting="hello"):
        deadline = time.monotonic() + 20
        while True:  # the greeting may wait for its acknowledgement for a moment
            rows, theirs = of_netns(top(), pair.client, pair.server), ss(pair.client) | ss(pair.server)
            if rows == theirs or time.monotonic() > deadline:
                break
    assert len(rows) == 6 and rows == theirs
    sender = {
        int(peer.rsplit(":", 1)[1]): f for (_, _, peer), f in rows.items() if f["netns"] == f"netns {pair.client}"
    }
    lossy, v6, silent = sender[7101], sender[7102], sender[7103]
    assert lossy["retransmits"] > 0 and lossy["ssthresh_packets"] > 1 and lossy["bytes_acked"] > 2_000_000
    assert lossy["delivery_bps"] > 1e6 and 0.3 < lossy["acks_per_data_packet"] <= 1.1
    assert v6["peer"] == "[fd09::2]:7102" and v6["local"].startswith("[fd09::1]:") and v6["cc"] == "cubic"
    assert (
        silent["delivery_bps"] is None and silent["acks_per_data_packet"] is None and silent["ssthresh_packets"] is None
    )


def test_rates_are_of_what_flows_now(loaded, pair):
    """One flow fills the link, three have sent and are idle: these add nothing, neither to the sum nor to Jain."""
    name = loaded("fast")
    with flows(pair.server, pair.client, *[f"10.9.0.2/7120/{name}/200000"] * 3):
        with (
            listening(pair, port=7121, role="drain"),
            saying("open", *endpoint("flood", pair.client, address="10.9.0.2", port=7121, cc=name)),
        ):
            rows = top(name, interval=1)
            text = asymcc("top", name, "--once").splitlines()
    rates = [f["goodput_bps"] for f in rows]
    assert 0 < rates[0] < 20e6 * 1.05 and rates[1:] == [0, 0, 0]
    assert sum(f["delivery_bps"] for f in rows) > 40e6  # the kernel's last measurements, which never expire
    assert re.match(rf"{name}: 4 flows, [\d.]+Mbit/s, Jain index 1.000, ", text[1])


def number(text: str) -> float | None:
    """`19.2Mbit` and the like, in SI units."""
    m = re.fullmatch(r"([0-9.]+)(?:([KMGT]?)bit|(ms))?", text)
    return (
        None
        if text == "-"
        else float(m[1]) * {None: 1, "": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[m[2]] * (1e-3 if m[3] else 1)
    )


def test_the_text_says_the_same(loaded, pair):
    name = loaded("fast", "--set", "alpha=12")
    with flows(pair.server, pair.client, f"10.9.0.2/7104/{name}/400000", f"fd09::2/7105/{name}/0", sink_cc=name):
        found = of_netns(top(name, ns=pair.client, interval=1), pair.client, pair.server)
        look = ("ip", "netns", "exec", pair.client, ASYMCC, "top", name)
        head, summary, *rows = run(*look).stdout.splitlines()
        assert "rates not known before a second look, Jain index -" in run(*look, "--interval", 0).stdout
    rows, others = rows[:4], rows[4:]
    assert head.split() == "LOCAL PEER NETNS GOODPUT CWND SRTT ACKS/PKT RETRANS LOST SSTHRESH PACING".split()
    assert len(found) == len(rows) == 4
    totals = re.fullmatch(rf"{name}: 4 flows, 0bit/s, Jain index -, (\d+) retransmitted", summary)
    assert totals and int(totals[1]) == sum(f["retransmits"] for f in found.values())
    assert others[0] == f"2 sockets have {name} in another state:"
    here = rf"  python[.\d]* \(pid \d+\): \S+, LISTEN, netns {pair.server}"
    assert len(others) == 3 and all(re.fullmatch(here, line) for line in others[1:])
    keys = "goodput_bps cwnd_packets srtt_s acks_per_data_packet retransmits lost ssthresh_packets pacing_bps".split()
    for row in rows:
        local, peer, netns, *texts = row.replace("netns ", "netns_").split()
        own = netns == "-"
        flow = found[f"netns {pair.client if own else pair.server}", local, peer]
        assert own or netns == f"netns_{pair.server}"
        for key, text in zip(keys, texts, strict=True):
            expected = flow[key]
            if expected is not None:
                expected = pytest.approx(expected, rel=0.006, abs=6e-6 if key == "srtt_s" else 6e-4)
            assert number(text) == expected, (key, row)
        assert own == local.startswith(("10.9.0.1:", "[fd09::1]:"))


def test_one_controller_only(loaded, pair):
    used, unused = loaded("fast"), loaded("fast")
    with flows(pair.server, pair.client, f"10.9.0.2/7106/{used}/1000", "10.9.0.2/7106/reno/1000"):
        assert [f["peer"] for f in top(used)] == ["10.9.0.2:7106"]
        assert {used, "reno"} <= {f["cc"] for f in top()}
        assert top(unused) == [] and asymcc("top", unused) == f"no established connections of {unused}\n"
        # connections keep a controller that is unloaded: it is still worth a look
        asymcc("unload", "--force", used)
        assert not kernel_has(used) and [f["cc"] for f in top(used)] == [used]
    line = refused("top", used)
    assert used in line


@pytest.mark.parametrize("argv", [["nosuch"], ["nosuch", "--json"], ["nosuch", "--once"]])
def test_nobody_knows_it(argv):
    assert f"no congestion control {argv[0]}" in refused("top", *argv)


def test_states(loaded, pair):
    """Half-closed connections are still there; what waits for the other side alone (FIN_WAIT2) is not."""
    name = loaded("fast")
    with flows(pair.server, pair.client, f"10.9.0.2/7107/{name}/1000", sink_cc=name) as source:
        assert sorted(f["state"] for f in top(name)) == ["ESTABLISHED", "ESTABLISHED"]
        expect(source, "closed", "0")
        deadline = time.monotonic() + 20
        while [f["state"] for f in top(name)] != ["CLOSE_WAIT"] and time.monotonic() < deadline:
            time.sleep(0.05)
        (flow,) = top(name)
        assert flow["state"] == "CLOSE_WAIT" and flow["local"] == "10.9.0.2:7107" and flow["bytes_received"] == 1001, (
            "with the FIN"
        )
        talker = endpoint("flood", pair.client, address="10.9.0.2", port=7108, cc=name, patience=1)
        with listening(pair, port=7108, role="idle"):
            with saying("open", *talker) as flood:
                expect(flood, "closed")
                assert {f["state"] for f in top(name) if f["peer"] == "10.9.0.2:7108"} == {"FIN_WAIT1"}


def test_not_root(loaded, pair, tmp_path):
    """Sees the flows of its own namespace, and says that these are not all."""
    name = loaded("fast")
    open_to_all(tmp_path, ASYMCC)
    nobody = ("ip", "netns", "exec", pair.client, *NOBODY, tmp_path / "asymcc", "top", name)
    with flows(pair.server, pair.client, f"10.9.0.2/7109/{name}/1000", sink_cc=name):
        report, text = json.loads(run(*nobody, "--json").stdout), run(*nobody).stdout.splitlines()
    assert report["all_namespaces"] is False
    assert [(f["netns"], f["peer"]) for f in report["controllers"][0]["flows"]] == [(None, "10.9.0.2:7109")]
    assert "this network namespace only" in text[0] and len(text) == 4 and text[2].startswith(f"{name}: 1 flow, ")


def test_a_thousand_flows(alias, pair):
    name, n = alias(), 1000
    asymcc("load", "fast", "--as", name)
    with flows(pair.server, pair.server, *[f"10.9.0.2/7110/{name}/100"] * n, sink_cc=name):
        rows = of_netns(top(name), pair.server)
        lines = asymcc("top", name, "--interval", 0).splitlines()
    lines, others = lines[: 2 + 2 * n], lines[2 + 2 * n :]
    assert re.fullmatch(r"1 socket has .* in another state:", others[0]) and ":7110, LISTEN" in others[1]
    assert len(rows) == 2 * n == len({key[1:] for key in rows}) and {f["cc"] for f in rows.values()} == {name}
    assert (
        sum(f["bytes_acked"] == 101 for f in rows.values())
        == sum(f["bytes_received"] == 100 for f in rows.values())
        == n
    )
    assert len(lines) == 2 + 2 * n and lines[1].startswith(f"{name}: {2 * n} flows, ")


# --- on a terminal


class Screen:
    """A terminal: it takes just the sequences that top may send, in strict order; all else is an error."""

    def __init__(self, rows: int, cols: int):
        self.rows, self.cols = rows, cols
        self.main = self.lines = ["$ asymcc top"] + [""] * (rows - 1)
        self.alternate = self.hidden = False
        self.at, self.frames, self.rest = (0, 0), 0, ""
        self.whole = self.lines[:]  # at the last time that the cursor went home: no half-drawn one

    def feed(self, text: str) -> None:
        text = self.rest + text
        self.rest = ""
        for m in re.finditer(r"\x1b\[(\??\d*[A-Za-z])|\x1b.{0,8}$|([^\x1b])", text, re.S):
            y, x = self.at
            if m[2] is None and m[1] is None:
                self.rest = m[0]
            elif m[1] in ("?1049h", "?1049l"):
                assert self.alternate != (m[1][-1] == "h")
                self.alternate = not self.alternate
                self.lines = [""] * self.rows if self.alternate else self.main
                self.whole = self.lines[:]
            elif m[1] in ("?25h", "?25l"):
                self.hidden = m[1][-1] == "l"
            elif m[1] == "H":
                self.at, self.frames, self.whole = (0, 0), self.frames + 1, self.lines[:]
            elif m[1] == "K":
                assert x < self.cols, "would erase the last character"
                self.lines[y] = self.lines[y][:x]
            elif m[1] == "J":
                assert x == 0
                self.lines[y:] = [""] * (self.rows - y)
            elif m[2] == "\r":
                self.at = y, 0
            elif m[2] == "\n":
                assert y + 1 < self.rows, "scrolls"
                self.at = y + 1, x
            else:
                assert m[2] and " " <= m[2] <= "~" and self.alternate, repr(m[0])
                assert x < self.cols, "longer than the screen is wide"
                self.lines[y] = self.lines[y][:x].ljust(x) + m[2] + self.lines[y][x + 1 :]
                self.at = y, x + 1

    def resize(self, rows: int, cols: int) -> None:
        self.rows, self.cols = rows, cols
        self.lines = ["".ljust(cols, "#")] * rows  # to be drawn over


class Terminal:
    def __init__(self, rows: int, cols: int, *argv):
        self.master, self.slave = pty.openpty()
        self.size(rows, cols)
        self.modes = termios.tcgetattr(self.slave)
        self.screen = Screen(rows, cols)
        self.process = subprocess.Popen(
            [str(ASYMCC), "top", *argv],
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )

    def size(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, seconds: float = 0.05) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.screen.feed(os.read(self.master, 65536).decode())
        return True

    def until(self, wanted) -> None:
        """Reads until `wanted(lines)`; top redraws each second."""
        deadline = time.monotonic() + 20
        while not wanted([line.rstrip() for line in self.screen.whole]):
            assert time.monotonic() < deadline and self.process.poll() is None, "\n".join(self.screen.whole) + str(
                self.process.poll()
            )
            self.read()

    def ended(self) -> None:
        """Left by itself, with the screen and the terminal as they were."""
        assert self.process.wait(timeout=20) == 0 and self.process.stderr.read() == ""
        while self.read():
            pass
        s = self.screen
        assert not s.alternate and not s.hidden and s.frames and s.main == ["$ asymcc top"] + [""] * (len(s.main) - 1)
        assert termios.tcgetattr(self.slave) == self.modes


@contextlib.contextmanager
def terminal(*argv):
    t = Terminal(*argv)
    try:
        yield t
    finally:
        t.process.kill()
        t.process.communicate()
        os.close(t.master)
        os.close(t.slave)


def lines_of(lines: list[str], name: str) -> tuple[int, int, int]:
    """Flows, those not shown, and those shown."""
    at = next((i for i, line in enumerate(lines) if line.startswith(f"{name}: ")), None)
    if at is None:
        return -1, -1, -1
    m = re.match(r"\S+: (\d+) flows?(?: \((\d+) not shown\))?", lines[at])
    rows = re.findall(r"^(?:\d+\.\d+\.\d+\.\d+:\d+ )", "\n".join(lines[at + 1 :]), re.M)
    return int(m[1]), int(m[2] or 0), len(rows)


def test_screen(loaded, pair):
    name = loaded("fast")
    with flows(pair.server, pair.client, *[f"10.9.0.2/7111/{name}/100"] * 30) as source, terminal(12, 60, name) as t:
        t.until(lambda lines: lines_of(lines, name) == (30, 20, 10))
        assert t.screen.alternate and t.screen.hidden
        assert t.screen.whole[0].startswith("LOCAL") and all(
            len(line) == 60 for line in t.screen.whole if line[0].isdigit()
        )
        # another size
        t.screen.resize(40, 150)
        t.size(40, 150)
        t.until(lambda lines: lines_of(lines, name) == (30, 0, 30) and not any("#" in line for line in lines))
        assert t.screen.whole[0].endswith(" PACING") and t.screen.whole[32:] == [""] * 8
        t.screen.resize(1, 5)
        t.size(1, 5)
        t.until(lambda lines: lines == ["LOCAL"])
        t.screen.resize(12, 60)
        t.size(12, 60)
        # what is typed now shows at the top: at the end of the last line it would scroll
        t.until(lambda lines: lines_of(lines, name) == (30, 20, 10))
        while t.read():
            pass
        assert t.screen.at == (0, 0)
        # what changes
        for i in range(25):
            source.stdin.write(f"{i}\n")
        source.stdin.flush()
        t.until(lambda lines: lines_of(lines, name) == (5, 0, 5) and lines[7:] == [""] * 5)
        # aside, and back
        os.write(t.master, b"\x1a")
        t.until(lambda lines: not t.screen.alternate and not t.screen.hidden)
        deadline = time.monotonic() + 20
        while Path(f"/proc/{t.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            assert time.monotonic() < deadline
        t.process.send_signal(signal.SIGCONT)
        t.until(lambda lines: t.screen.alternate and lines_of(lines, name)[0] == 5)
        t.screen.main = t.screen.main[:1] + [""] * 11
        os.write(t.master, b"\x03")
        t.ended()


def test_screen_of_two_controllers(alias, pair):
    """The lines are shared: a controller with few flows is not pushed out by one with many."""
    many, few = sorted(alias() for _ in range(2))
    for name in (many, few):
        asymcc("load", "fast", "--as", name)
    ends = [f"10.9.0.2/7112/{many}/100"] * 30 + [f"10.9.0.2/7112/{few}/100"] * 3
    with flows(pair.server, pair.client, *ends, sink_cc="reno"), terminal(24, 80) as t:
        t.until(lambda lines: lines_of(lines, few)[0] == 3)
        lines = t.screen.whole
        cut = next(i for i, line in enumerate(lines) if line.startswith(f"{few}: "))
        total, hidden, shown = lines_of(lines[:cut], many)
        assert total == 30 and hidden > 0 and hidden + shown == 30 and shown >= 3
        assert "not shown" not in lines[cut] and all(line.startswith("10.9.0.1:") for line in lines[cut + 1 : cut + 4])


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None])
def test_screen_is_left(stop, loaded):
    name = loaded("fast")
    with terminal(24, 80, name, *(() if stop else ("--seconds", "1"))) as t:
        t.until(lambda lines: lines[0] == f"no established connections of {name}")
        if stop:
            t.process.send_signal(stop)
        t.ended()


@pytest.mark.parametrize("argv", [["--once"], ["--json"]])
def test_one_look_on_a_terminal(argv, loaded):
    name = loaded("fast")
    master, slave = pty.openpty()
    assert subprocess.run([ASYMCC, "top", name, *argv], stdout=slave, timeout=60).returncode == 0
    output = os.read(master, 65536).decode()
    os.close(master)
    os.close(slave)
    assert "\x1b" not in output and (name in output or json.loads(output)["controllers"] == [])


def test_output_that_is_full():
    with open("/dev/full", "w") as full:
        done = subprocess.run([ASYMCC, "top"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left" in done.stderr
