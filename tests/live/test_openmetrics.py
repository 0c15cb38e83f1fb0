# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""asymcc metrics: what it tells of real flows and uses, by the rules of OpenMetrics; and the board that shows it."""

from __future__ import annotations

import json
import re

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.live.harness import ROOT, asymcc
from tests.live.harness import pytestmark as pytestmark
from tests.live.pairs import inside, steady

BOARD = ROOT / "packaging" / "grafana.json"


def families(*argv) -> dict:
    return {f.name: f for f in text_string_to_metric_families(asymcc("metrics", *argv))}


def value(found: dict, family: str, **labels) -> float | None:
    samples = [s.value for s in found[family].samples if labels.items() <= s.labels.items()]
    assert len(samples) < 2
    return samples[0] if samples else None


def test_flows_and_uses_of_a_controller(loaded, pair):
    name = loaded("fast")
    inside(pair, "use", name, "--default", "--route", "10.9.0.0/24")
    with steady(pair) as send:
        assert send(100_000) == name
        found = families()
    of = {"controller": name}
    assert value(found, "asymcc_flows", **of) == 1
    assert value(found, "asymcc_goodput_bytes_per_second", **of) == 0  # it is idle
    assert value(found, "asymcc_retransmitted_packets_per_second", **of) == 0
    assert 0 < value(found, "asymcc_rtt_seconds", **of) == value(found, "asymcc_rtt_max_seconds", **of) < 10
    uses = {kind: value(found, "asymcc_uses", kind=kind, **of) for kind in ("default", "route", "cgroup", "socket")}
    assert uses == {"default": 1, "route": 1, "cgroup": 0, "socket": 1}
    assert value(found, "asymcc_events", event="flows", **of) == 1
    # node_exporter reads them as the older text format, which knows no other type
    assert {f.type for f in found.values()} == {"gauge", "counter"}
    asymcc("unload", name, "--drain")


def test_one_look_tells_no_rates():
    assert "asymcc_flows" in families("--interval", 0)
    assert not [name for name in families("--interval", 0) if name.endswith("per_second") and "uplink" not in name]


def test_the_board_asks_for_what_there_is():
    board = json.loads(BOARD.read_text())
    asked = [t["expr"] for p in board["panels"] for t in p["targets"]]
    asked += [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    there = {f"{f.name}_total" if f.type == "counter" else f.name for f in families().values()}
    names = {name for expr in asked for name in re.findall(r"asymcc_\w+", expr)}
    assert names == there
