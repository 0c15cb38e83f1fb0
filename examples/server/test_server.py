# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Our promises about server.py: a run of some seconds on a real kernel, which repeats to the byte."""

from pathlib import Path

SCENARIO = Path(__file__).with_name("server.toml")


def test_all_requests_take_one_connection(lab):
    run = lab.run(SCENARIO)
    assert run.program("client.result.sum.num_connects") == 1
    assert run.program("client.result.min.http_code") == run.program("client.result.max.http_code") == 200


def test_an_answer_takes_its_bytes_and_two_round_trips(lab):
    run = lab.run(SCENARIO)
    assert run.program("client.result.p50.time_total") < 100_000 * 8 / 20e6 + 2 * 0.040
