# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymcc set`: parameters changed while flows run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.live.harness import asymcc, pytestmark, refused, unique, values  # noqa: F401
from tests.live.pairs import steady


def make_cgroup(name: str) -> Path:
    mount = next(
        line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"
    )
    path = Path(mount, name)
    path.mkdir()
    return path


def remove_cgroup(name: str) -> None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2" and (path := Path(line.split()[1], name)).exists():
            path.rmdir()


def test_set_reaches_flows_under_way(loaded, pair):
    """FAST with alpha 1 barely moves its window; with alpha 300, set while it runs, its queue grows to that."""
    name = loaded("fast", "--set", "alpha=1")
    with steady(pair, name) as send:
        send(200_000)
        assert (
            asymcc("set", name, "alpha=30", "gamma_q8=200")
            == f"{name}: alpha=30 packets (was 1)\n{name}: gamma_q8=200 1/256 (was 128)\n"
        )
        assert values(name)["alpha"] == 30 and values(name)["gamma_q8"] == 200
        send(6_000_000)
        info = pair.sh(pair.client, "ss", "-tinH", "dport = :7401").stdout
        assert int(info.split("cwnd:")[1].split()[0]) > 20, info


def test_set_changes_all_or_nothing(loaded):
    name = loaded("fast", "--set", "alpha=50")
    for words, what in (
        (["alpha=60", "gamma_q8=0"], "out of range"),
        (["alpha=60", "nosuch=1"], "no parameter nosuch"),
        (["alpha=60", "pacing=1"], "constant of the loaded program"),
        (["alpha=x"], "not an integer"),
        (["alpha"], "param=value"),
    ):
        assert what in refused("set", name, *words)
    assert values(name)["alpha"] == 50
    assert f"asymcc load fast --as {name} --replace --set pacing=1 --set alpha=50" in refused("set", name, "pacing=1")
    assert "not registered" in refused("set", "nosuch", "alpha=1")
    refused("set", name, code=2)


def test_what_is_live_is_what_show_says():
    """Each live parameter of each controller takes a new value while it is loaded; no other does."""
    for row in json.loads(asymcc("list", "--json")):
        if not row["built"] or row["name"] != row["object"]:
            continue
        name = unique("v")
        asymcc(
            "load",
            row["object"],
            "--as",
            name,
            *(
                ("--cgroup", make_cgroup(name))
                if json.loads(asymcc("show", row["object"], "--json"))["cgroup_programs"]
                else ()
            ),
        )
        try:
            for p in json.loads(asymcc("show", name, "--json"))["parameters"]:
                new = p["min"] if p["value"] != p["min"] else p["min"] + 1
                if p["live"]:
                    asymcc("set", name, f"{p['name']}={new}")
                    assert values(name)[p["name"]] == new
                else:
                    assert "--replace" in refused("set", name, f"{p['name']}={new}")
        finally:
            asymcc("unload", name)
            remove_cgroup(name)
