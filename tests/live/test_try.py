# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc try: a use for a time; whatever becomes of the command, all is as it was."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time

import pytest

from tests.live.harness import ASYMCC, STATE, asymcc, endpoint, expect, kernel_has, program, pytestmark, run, saying  # noqa: F401
from tests.live.pairs import (
    PLAIN,
    controller_of,
    default,
    enter,
    inside,
    listening,
    refused_inside,
    routes,
    set_default,
    steady,
)


def state(*names: str) -> dict[str, str]:
    """The notes about these controllers' uses. One may go meanwhile."""
    found = {}
    for f in STATE.glob("*-*"):
        with contextlib.suppress(FileNotFoundError):
            found[f.name] = f.read_text()
    return {
        name: text
        for name, text in found.items()
        if not name.startswith("loaded-") and set(names) & {*text.split(), name.rpartition("-")[2]}
    }


@pytest.fixture
def world(alias, pair, cgroup):
    """A default, a route and a cgroup that have another controller by `use`, and how all that looks."""
    old, new = alias(), alias()
    for name in (old, new):
        asymcc("load", "fast", "--as", name)
    set_default(pair, PLAIN)
    inside(pair, "use", old, "--default", "--route", "10.9.0.0/24", "--cgroup", cgroup.path)
    places = "--default", "--route", "10.9.0.0/24", "--route", "10.9.0.128/25", "--cgroup", str(cgroup.path)

    def look() -> tuple:
        uses = [
            {k: row[k] for k in ("name", "by", "where")}
            for row in json.loads(asymcc("status", "--json"))["used"]
            if row["name"] in (old, new) and row["by"] != "connections"
        ]
        remembered = {name: text.split()[:2] for name, text in state(old, new).items()}
        return default(pair), routes(pair), cgroup.names(), uses, remembered

    return old, new, places, look


def has_it(pair, new: str) -> bool:
    return default(pair) == new and sum(f"congctl {new}" in r for r in routes(pair)) == 2


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def trial(pair, *argv, **keys):
    return program(*enter(pair.client), ASYMCC, "try", *argv, **keys)


def test_it_is_given_for_the_time_and_all_is_as_it_was(world, pair):
    old, new, places, look = world
    before = look()
    with listening(pair), trial(pair, new, *places, "--seconds", "3", "--before", "1", "--json") as p:
        wait_for(lambda: has_it(pair, new))
        assert controller_of(pair) == new
        seen = json.loads(asymcc("status", "--json"))
        assert [row["text"] for row in seen["trials"] if row["name"] == new]
        assert {row["by"] for row in seen["used"] if row["name"] == new} >= {"default", "route", "cgroup"}
        out, err = p.communicate(timeout=30)
    report = json.loads(out)
    assert p.returncode == 0 and err == "" and report["as_before"] and report["guard"] in ("process", "systemd")
    lengths = [(row["phase"], round(row["seconds"])) for row in report["phases"]]
    assert lengths == [("before", 1), ("during", 3), ("after", 1)]
    assert look() == before


def resent_share(pair, port):
    """The share of retransmissions in the data segments of the client's connection to this port, as `ss` tells."""
    line = run("ip", "netns", "exec", pair.client, "ss", "-tinH", "dport", "=", f":{port}").stdout
    again = re.search(r"\bretrans:\d+/(\d+)", line)
    return int(again[1]) / int(re.search(r"data_segs_out:(\d+)", line)[1]) if again else 0


def test_what_connections_did_is_told(loaded, pair):
    """One connection existed, and one began; both are told to the byte."""
    name = loaded("fast")
    argv = [name, "--route", "10.9.0.0/24", "--seconds", "4", "--before", "0", "--json"]
    with steady(pair) as send, trial(pair, *argv) as p:
        wait_for(lambda: any(f"congctl {name}" in r for r in routes(pair)))
        assert send(1000000) != name
        argv = endpoint("steady", pair.client, address="10.9.0.2", port=7402)
        with listening(pair, port=7402, role="drain"), saying("open", *argv) as sender:
            expect(sender, name, "500000")
            out, _ = p.communicate(timeout=30)
            shares = {"existed": resent_share(pair, 7401), "began": resent_share(pair, 7402)}
    (during,) = json.loads(out)["phases"]
    for age, sent in (("existed", 1000000), ("began", 500000)):
        row = during[age]
        assert row["connections"] == 1 and abs(row["goodput_bps"] * during["seconds"] / 8 - sent) < 10, during
        assert 0 < row["srtt_s"] < 1, during
        assert row["retransmitted_share"] == pytest.approx(shares[age], abs=1e-6), during


def points(pair, argv: list, log) -> list[tuple[str, int]]:
    """Some calls of the command, from its guard's start to its end: name, and which of that name."""
    run(*enter(pair.client), "strace", "-qq", "-o", log, ASYMCC, *argv)
    names = [m[1] for line in log.read_text().splitlines() if (m := re.match(r"(\w+)\(", line))]
    first = max(i for i, name in enumerate(names) if name in ("clone", "clone3", "fork", "vfork"))
    calls = [(name, names[: i + 1].count(name)) for i, name in enumerate(names) if i > first + 3]
    renames = [call for call in calls if call[0] == "renameat"]
    return [*calls[:: len(calls) // 8], *renames]


def test_killed_at_any_call_all_is_as_it_was(world, pair, tmp_path):
    """Its guard is not killed with it."""
    old, new, places, look = world
    before = look()
    argv = ["try", new, *places, "--seconds", "1", "--before", "0"]
    killed = 0
    for name, nth in points(pair, argv, tmp_path / "log"):
        inject = ["-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={nth}"]
        with program(*enter(pair.client), "strace", "-qq", "-o", "/dev/null", *inject, ASYMCC, *argv) as p:
            p.communicate(timeout=30)
        killed += p.returncode == -9  # how often it calls depends on the processes that there are
        wait_for(lambda: look() == before and not state(new))
    assert killed >= 6


@pytest.mark.parametrize("sig", [signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_lost_terminal_ends_it(sig, world, pair):
    old, new, places, look = world
    before = look()
    with trial(pair, new, *places, "--seconds", "60", "--before", "0", start_new_session=True) as p:
        wait_for(lambda: has_it(pair, new))
        os.killpg(p.pid, sig)
        _, err = p.communicate(timeout=30)
    killed = sig == signal.SIGKILL
    assert p.returncode == (-9 if killed else 1) and ("stopped by signal" in err) != killed
    wait_for(lambda: look() == before)


def test_what_others_change_meanwhile_stays_and_is_named(world, loaded, pair, cgroup):
    old, new, places, look = world
    third = loaded("fast")
    with trial(pair, new, *places, "--seconds", "3", "--before", "0") as p:
        wait_for(lambda: has_it(pair, new))
        set_default(pair, third)
        same = f"10.9.0.0/24 dev {pair.dev_c} proto kernel scope link src 10.9.0.1 congctl reno"
        pair.sh(pair.client, "ip", "route", "change", *same.split())
        out, err = p.communicate(timeout=30)
    ns = f"netns {pair.client}"
    assert f"the default of {ns} is {third} by now: it stays" in err
    assert f"route 10.9.0.0/24 in {ns} has reno by now: it stays" in err and "2 places were changed by others" in out
    assert default(pair) == third and not any("10.9.0.128" in r for r in routes(pair))
    assert any("congctl reno" in r for r in routes(pair)) and cgroup.names() == ["asymcc_use"] and not has_it(pair, new)


def test_use_meanwhile_keeps_it(world, pair):
    old, new, places, look = world
    with trial(pair, new, *places, "--seconds", "3", "--before", "0") as p:
        wait_for(lambda: has_it(pair, new))
        inside(pair, "use", new, *places)
        p.communicate(timeout=30)
    assert p.returncode == 0 and has_it(pair, new) and not [f for f in state(new) if f.startswith("try-")]
    inside(pair, "unuse", new)
    assert default(pair) == PLAIN and not any("congctl" in r for r in routes(pair))


def test_unload_ends_it(world, pair, cgroup):
    old, new, places, look = world
    with trial(pair, new, *places, "--seconds", "3", "--before", "0") as p:
        wait_for(lambda: has_it(pair, new))
        asymcc("unload", new, "--drain", "--seconds", "0")
        assert not kernel_has(new) and not state(new)
        _, err = p.communicate(timeout=30)
    assert p.returncode == 0 and err == "" and cgroup.names() == [] and default(pair) == PLAIN


def test_what_cannot_be_tried_is_refused_and_changes_nothing(world, pair, cgroup):
    old, new, places, look = world
    before = look()
    for argv, words in (
        ([old, "--default"], "is the default already"),
        ([old, "--route", "10.9.0.0/24"], "route 10.9.0.0/24 has it already"),
        ([old, "--cgroup", cgroup.path], "has it already"),
        (["nosuch", "--default"], "nosuch is not loaded"),
        ([new], "for which connections?"),
        ([new, "--cgroup", "/a", "--cgroup", "/b"], "try takes one cgroup"),
        ([new, "--default", "--end"], "--end takes no other option"),
        ([new, "--default", "--route", "nonsense"], "--route nonsense"),
        ([new, "--default", "--before", "0", "--route", "255.0.0.0/8"], "--route 255.0.0.0/8"),
    ):
        assert words in refused_inside(pair, "try", *argv)
        assert look() == before and not state(new)
    assert inside(pair, "try", new, "--end") == f"no trial of {new} is under way\n"
    with trial(pair, new, "--default", "--seconds", "60", "--before", "0") as p:
        wait_for(lambda: default(pair) == new)
        assert "is under way" in refused_inside(pair, "try", new, "--route", "10.9.0.0/24")
        assert asymcc("try", new, "--end") == f"{new} is taken back: all is as it was\n" and default(pair) == old
        p.send_signal(signal.SIGTERM)
        p.wait(30)
    assert look() == before


def test_a_trial_ends_only_itself(world, pair):
    """Another had ended it, and began the next one; then its command and its guard come to their end."""
    old, new, places, look = world
    before = look()
    argv = [new, *places, "--seconds", "60", "--before", "0"]
    with trial(pair, *argv) as first:
        wait_for(lambda: has_it(pair, new))
        inside(pair, "try", new, "--end")
        with trial(pair, *argv) as second:
            wait_for(lambda: has_it(pair, new))
            first.kill()
            first.wait(30)
            time.sleep(2)
            assert has_it(pair, new)
            second.send_signal(signal.SIGTERM)
            second.wait(30)
    assert look() == before


def test_two_at_once_are_refused(world, pair):
    """Also while the first measures what is before; which may be ended then."""
    old, new, places, look = world
    before = look()
    with trial(pair, new, *places, "--seconds", "60") as first:
        wait_for(lambda: state(new))
        assert "is under way" in refused_inside(pair, "try", new, "--default")
        assert look()[:4] == before[:4]
        inside(pair, "try", new, "--end")
        assert not state(new)
        first.kill()
    with trial(pair, new, *places, "--seconds", "60", "--before", "2") as first:
        wait_for(lambda: state(new))
        inside(pair, "try", new, "--end")
        _, err = first.communicate(timeout=30)
    assert first.returncode == 1 and err == f"asymcc: try {new}: the trial was ended meanwhile\n"
    assert look() == before
