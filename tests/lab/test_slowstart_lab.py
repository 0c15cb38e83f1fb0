# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""docs/options.md: its sweeps are sound and named there; and the two starts on real kernels, with a deep queue."""

from __future__ import annotations

import importlib.util

import pytest

from asymlab.plan import base, scenario
from tests.ktap import built
from tests.scenarios import write
from tests.shared import LAB_KERNELS, REPO, compile_job, counters, run

HERE = REPO / "experiments" / "slowstart"
PAGE = (REPO / "docs" / "options.md").read_text()

spec = importlib.util.spec_from_file_location("slowstart_table", HERE / "table.py")
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)

SENDERS = ("fusion", "fusion_hypp", "fusion_search", "taichung_hypp", "taichung_search", "fast_hypp", "fast_search")


@built
@pytest.mark.parametrize("name", table.NAMES)
def test_a_sweep_is_sound_and_on_the_page(name):
    cases = scenario.load(HERE / f"cases.toml:{name}")
    assert len({case.name for case in cases}) == len(cases)
    assert {case.scenario.flows[0].controller for case in cases} > set(SENDERS)
    for case in cases:
        compile_job(case, 1)
    assert f"experiments/slowstart/table.py {name}\n" in PAGE


def test_all_cases_are_sweeps():
    assert set(base.cases(HERE / "cases.toml")) == {*table.NAMES, "set-up"}


@built
def test_a_wrong_name_is_one_line():
    with pytest.raises(SystemExit, match="hugo: there are queues, acks, jitter, leo, figure"):
        table.main(["hugo"])


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """20 Mbit/s, 40 ms, a queue of six BDPs; each sender on a hop of its own. Runs by kernel."""
    side = {"rate": "20mbit", "delay": "20ms", "queue": 400}
    variants = [sender.partition("_") for sender in SENDERS if "_" in sender]
    file = write(
        tmp_path_factory.mktemp("deep"),
        ack=None,
        profile=None,
        mtu=None,
        hops=[{"count": len(SENDERS), "forward": side, "reverse": side}],
        flow={"controller": [*SENDERS], "hop": "each"},
        controllers={
            f"{object}_{option}": {"object": object, "slow_start": 1 + (option == "search")}
            for object, _, option in variants
        },
        run={"duration": "1200ms", "measure_from": "0s"},
    )
    return lambda kernel: run(file, kernel)


@pytest.mark.lab
@pytest.mark.parametrize("kernel", LAB_KERNELS)
def test_a_deep_queue_is_seen(deep, kernel):
    """Without another start the queue overflows. SEARCH ends before that; with HyStart++ growth is slow by then."""
    r = deep(kernel)
    drops = {sender: hop["forward"]["drops"] for sender, hop in zip(SENDERS, r.metrics["hops"])}
    assert drops["fusion"] > 100
    for flow, sender in enumerate(SENDERS[1:], 1):
        name, _, option = sender.partition("_")
        assert drops[sender] < drops["fusion"] / 2, drops
        n, acks = counters(r, sender), r.acks[r.acks["flow"] == flow]
        if option == "hypp":
            assert n["starts_slowed"] == 1 + n["starts_resumed"]
            continue
        assert (drops[sender], n["starts_left"]) == (0, 1), drops
        assert 67 < acks["cwnd"][acks["ssthresh"] <= table.ENDLESS][0] < 400
