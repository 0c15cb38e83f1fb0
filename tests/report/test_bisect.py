# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`asymlab bisect`: which of two kernels another one is like."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from asymlab import LabError
from asymlab.report import bisect
from tests.shared import asymlab, some_flow, some_hop, some_job


def runs(
    *goodputs: float, case: str = "A", rtt: float = 0.04, invalid: tuple = (), programs: dict | None = None
) -> list[SimpleNamespace]:
    """A run for each seed, in bit/s."""
    return [
        SimpleNamespace(
            valid=not invalid,
            job=some_job(flows=[some_flow(0, "cubic")], watch=[some_hop(1e7)]),
            programs=programs or {},
            record={
                **{"name": f"{case} seed {seed}", "seed": seed, "key": "k", "command": "c", "invalid": list(invalid)},
                **{
                    "result_sha256": "0",
                    "identity": {"kernel": "k", "image": "i", "objects": {}, "qemu": {"version": "q"}},
                },
            },
            metrics={
                **{"goodput_bps": goodput, "utilisation": 1.0, "jain": 1.0, "acks_per_data_packet": 1.0, "timeouts": 0},
                "reverse_utilisation": 0.1,
                "flows": [{"flow": 0, "rtt_s": {"p50": rtt, "p95": rtt}, "retransmits": 0}],
            },
        )
        for seed, goodput in enumerate(goodputs, 1)
    ]


def test_the_metric_decides_that_tells_both_kernels_best_apart():
    good = runs(9e6, 9.2e6) + runs(5e6, 5.1e6, case="B", rtt=0.04)
    bad = runs(8e6, 8.1e6) + runs(4.9e6, 5.2e6, case="B", rtt=0.09)
    by = bisect.measure(good, bad, None)
    assert (by.case, by.metric) == ("B", "rtt_p50_s") and by.apart == pytest.approx(0.05 / 0.09)
    by = bisect.measure(good, bad, "goodput_bps")
    assert (by.case, by.metric) == ("A", "goodput_bps") and by.apart == pytest.approx((9 - 8.1) / 9.1)


def test_a_programs_time_decides_and_its_numbers_if_they_are_named():
    def page(took: float, port: int) -> list[SimpleNamespace]:
        one = {"start_s": 0.0, "end_s": took, "exit": 0, "result": {"port": port}}
        return runs(9e6, programs={"page": one})

    good, bad = page(1.0, 10), page(2.0, 90)
    assert bisect.measure(good, bad, None).metric == "program page.took"
    assert bisect.measure(good, bad, "program page.result.port").good == [10]
    with pytest.raises(LabError, match="--by program pag.took: no such metric; there are goodput_bps, .*page.took"):
        bisect.measure(good, bad, "program pag.took")


@pytest.mark.parametrize(
    "value, code, words", [(9e6, 0, "good"), (8.6e6, 0, "good"), (8.4e6, 1, "bad"), (1e6, 1, "bad")]
)
def test_another_is_like_the_nearer_one(value, code, words, capsys):
    by = bisect.measure(runs(9e6, 9e6), runs(8e6, 8e6), None)
    assert bisect.judge(by, runs(value, value)) == code
    said = capsys.readouterr().err
    assert f"like the {words} one" in said and f"{value / 1e6:.4g} {value / 1e6:.4g}" in said


def test_what_cannot_be_told(capsys):
    by = bisect.measure(runs(9e6), runs(8e6), None)
    assert bisect.judge(by, runs(8e6, invalid=("the queue is another",))) == 125
    assert "A seed 1 is invalid: the queue is another" in capsys.readouterr().err


def test_a_kernel_that_lacks_the_metric_is_not_to_be_told(capsys):
    one = {"start_s": 0.0, "end_s": 1.0, "exit": 0}
    good, bad, now = (runs(9e6, programs={"p": one | {"result": result}}) for result in ({"x": 1}, {"x": 2}, {"y": 1}))
    assert bisect.judge(bisect.measure(good, bad, "program p.result.x"), now) == 125
    assert capsys.readouterr().err == "not to be told: A: this kernel's runs have no program p.result.x\n"


@pytest.mark.parametrize(
    "good, bad, words",
    [
        (runs(9e6, 8e6), runs(8.9e6, 7e6), "the same on both kernels, to a hundredth, or overlaps"),
        (runs(9e6), runs(8.95e6), "the same on both kernels, to a hundredth, or overlaps"),
        (runs(9e6), runs(8e6, invalid=("x",)), "A seed 1 is invalid: x"),
    ],
)
def test_two_kernels_that_tell_nothing(good, bad, words):
    with pytest.raises(LabError, match=words):
        bisect.measure(good, bad, None)


def test_an_error_ends_the_search_of_git(scenario_file):
    """By any other exit code than these git would go on."""
    p = asymlab("bisect", scenario_file(), "c", "--good", "a", "--bad", "b")
    assert p.returncode == 255 and "image a: not made" in p.stderr and len(p.stderr.splitlines()) == 1
    assert asymlab("bisect", scenario_file(), "--good", "a").returncode == 255


@pytest.mark.parametrize(
    "breaks, words, code",
    [
        ("asymlab.commands.comparison.cases_of = None", ("bisect", "FILE", "c", "--good", "a", "--bad", "b"), 255),
        ("asymlab.commands.comparison.cases_of = None", ("compare", "FILE", "--image", "a", "--image", "b"), 2),
        ("sys.modules['asymlab.report.bisect'] = None", ("bisect", "FILE", "c", "--good", "a", "--bad", "b"), 255),
    ],
)
def test_an_error_in_the_lab_itself_is_no_answer(scenario_file, breaks, words, code):
    """Python's own exit code of a traceback is 1: bad, and different."""
    file = str(scenario_file())
    imports = "" if "modules" in breaks else ", asymlab.commands.comparison"
    program = f"import sys, asymlab.cli{imports}; {breaks}; asymlab.cli.main()"
    words = [file if word == "FILE" else word for word in words]
    p = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert p.returncode == code and "Traceback" in p.stderr


@pytest.mark.lab
def test_two_real_kernels(scenario_file):
    """From 6.1 to 6.12 a receiver whose packets come in groups sends more ACKs."""
    groups = {"profile": "linux", "offloads": True, "coalesce": "3ms"}
    file = scenario_file(groups, flow={"controller": "cubic", "ack": "delayed"})
    words = ("--good", "6.1", "--bad", "6.12", "--engine", "qemu", "--repeat", "1", "--by", "acks_per_data_packet")
    for kernel, code in (("6.1", 0), ("6.12", 1)):
        p = asymlab("bisect", file, kernel, *words)
        assert p.returncode == code and "ACKs per packet" in p.stderr, p.stderr
