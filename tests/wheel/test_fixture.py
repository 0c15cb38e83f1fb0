# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The fixture `lab` in a pytest of its own: what it gives, and what it says where something is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.ktap import built
from tests.scenarios import SCENARIO, build, toml
from tests.shared import LAB, REPO

EXAMPLE = REPO / "examples" / "controller"
RUNS = """
import asymlab

TEXT = '''{text}'''
TREE = {{"title": "t", "id": "T", "path": {{"mtu": 1000, "forward": {{"rate": "10mbit", "delay": "20ms", "queue": 100}},
        "reverse": {{"rate": "10mbit", "delay": "20ms", "queue": 100}}}}, "profile": "ns2",
        "flows": [{{"controller": "./mine.bpf.c"}}, {{"controller": "reno", "count": 2}}], "run": {{"duration": "3s"}}}}


def test_numbers(lab):
    (one,) = asymlab.run_scenario(TEXT, seeds=[1], engine=lab.engine)
    run = lab.run(TEXT)
    assert run.run.key == one.key and run.sha256 == one.record["result_sha256"]
    assert run.goodput_mbps * 1e6 == one.metrics["goodput_bps"] == run.flows[0].goodput_mbps * 1e6
    assert 8 < run.goodput_mbps < run.throughput_mbps < 10.5 and 0.8 < run.utilisation <= 1 == run.jain
    inside = one.acks["t"] >= 1
    assert abs(run.srtt_ms - one.acks["srtt_us"][inside].mean() / 1e3) < 1e-9 and 40 < run.srtt_ms < 130
    assert run.flows[0].rtt_ms["min"] <= run.flows[0].rtt_ms["p50"] and 0 <= run.queue_ms < 100
    assert run.flows[0].cwnd == one.metrics["flows"][0]["cwnd_mean"]
    assert run.timeouts == 0 and run.retransmits == run.flows[0].retransmits and run.drops >= 0
    assert 0 < run.reverse_utilisation < 0.2


def test_files_begin_at_the_tests_folder(lab):
    run = lab.run(TREE)
    assert [flow.controller for flow in run.flows] == ["mine", "reno", "reno"] == [f.controller for f in run.flows]
    assert run.of("mine") == run.flows[:1] and run.of("reno") == run.flows[1:]
    assert lab.run("mine.toml").flows[0].controller == "mine"


def test_a_sweep(lab):
    runs = lab.runs(TEXT + '[sweep]\\n"path.reverse.rate" = ["10mbit", "1mbit"]\\n', seeds=[1, 2])
    assert [(r.run.record["point"]["path.reverse.rate"], r.run.record["seed"]) for r in runs] == [
        ("10mbit", 1), ("10mbit", 2), ("1mbit", 1), ("1mbit", 2)]
"""
WRONG = """
TEXT = '''{text}'''


def test_a_key(lab):
    lab.run(TEXT.replace("mtu = 1000", "mtu = 'much'"))


def test_a_sweep(lab):
    lab.run(TEXT + '[sweep]\\n"path.reverse.rate" = ["10mbit", "1mbit"]\\n')


def test_a_name(lab):
    lab.run(TEXT).of("nobody")


def test_no_file(lab):
    lab.run("none.toml")


def test_no_toml(lab):
    lab.run({{"title": None}})


def test_no_controller(lab):
    lab.run(TEXT.replace('"reno"', '"./nobody.bpf.c"'))
"""


@pytest.fixture
def tried(tmp_path):
    """Runs pytest on a test file, with the fixture and nothing of these tests; its words."""

    def run(text: str, *options, python=(sys.executable, "-P"), **env) -> str:
        (tmp_path / "test_it.py").write_text(text.format(text=SCENARIO))
        shutil.copy(EXAMPLE / "mine.bpf.c", tmp_path)
        (tmp_path / "mine.toml").write_text(toml(build(flow={"controller": "mine.bpf.c"})))
        command = [*python, "-m", "pytest", "-p", "asymlab.testing", "-p", "no:cacheprovider", "-rs", *options]
        own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400"} | env
        p = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True, timeout=300
        )
        assert p.returncode in (0, 1), p.stdout + p.stderr
        return p.stdout

    return run


@pytest.mark.lab
def test_what_it_gives(tried):
    engine = "uml" if LAB.endswith("uml") else "qemu"
    output = tried(RUNS, "--lab-engine", engine)
    assert "3 passed" in output, output


@pytest.mark.lab
def test_what_is_wrong_is_one_line(tried):
    engine = "uml" if LAB.endswith("uml") else "qemu"
    output = tried(WRONG, "--lab-engine", engine, "--tb=line")
    assert "6 failed" in output and "During handling" not in output, output
    for words in (
        r"\.toml: path\.mtu: must be",
        r"the scenario has a sweep of 2 cases: lab\.runs\(\) gives them all",
        r"no flow has the controller 'nobody'; there are reno",
        r"asymlab: none\.toml: No such file or directory",
        r"asymlab: scenario: no tree of TOML: None",
        r"no such file: .*/nobody\.bpf\.c",
    ):
        assert re.search(words, output), (words, output)


@built
def test_without_an_image_tests_are_skipped_with_the_reason(tried):
    reason = "image 9.9: not made"
    output = tried(RUNS, "--lab-image", "9.9", "--lab-engine", "qemu")
    assert "3 skipped" in output and reason in output and "`asymlab image --kernel 9.9` makes it" in output
    output = tried(RUNS, "--lab-image", "9.9", "--lab-engine", "qemu", "--lab-required")
    assert "3 errors" in output and reason in output


@built
def test_without_qemu_tests_are_skipped_with_the_reason(tried, tmp_path):
    (tmp_path / "bin").mkdir()
    code = "import os, sys, asymlab, pytest; os.environ['PATH'] = '{}'; sys.exit(pytest.main(sys.argv[4:]))"
    python = (sys.executable, "-P", "-c", code.format(tmp_path / "bin"))
    output = tried(RUNS, "--lab-engine", "qemu", python=(*python, "--"))
    assert "3 skipped" in output and "qemu-system-x86_64: not installed" in output, output


@built
def test_an_engine_that_is_none(tried):
    output = tried(RUNS, ASYMLAB_ENGINE="bochs")
    assert "3 skipped" in output and "--lab-engine bochs: there are qemu and uml" in output
