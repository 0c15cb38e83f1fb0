# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files for xplot: what is drawn is what the run's trace has, and the run stays as it is."""

import numpy as np
import pytest

from asymlab import LabError
from asymlab.results import store, xplot
from tests.shared import asymlab, run

ACKS = np.dtype([("t", "f8"), ("acked", "u4"), ("in_flight", "u4"), ("cwnd", "u4"), ("retrans", "u4")])
SEGMENT = 1000


def drawn(text: str) -> dict[str, list[tuple]]:
    """By colour the lines and the letters, as xplot reads them."""
    lines = iter(text.splitlines())
    assert next(lines) == "timeval double"
    by_colour: dict[str, list[tuple]] = {}
    colour = ""
    for line in lines:
        word, *numbers = line.split()
        if line in ("title", "xlabel", "ylabel"):
            assert next(lines)
        elif word in ("line", "rtext"):
            letter = (next(lines),) if word == "rtext" else ()
            by_colour[colour].append((*map(float, numbers), *letter))
        elif line == "go":
            assert next(lines, None) is None
            return by_colour
        else:
            assert line in xplot.COLOURS
            by_colour[colour := line] = []
    raise AssertionError("no go")


def test_levels_and_letters():
    acks = np.array([(1.0, 1000, 3, 5, 0), (1.5, 2000, 4, 6, 0), (2.0, 0, 2, 3, 2), (2.25, 1000, 2, 3, 2)], ACKS)
    drawing = drawn(xplot.text_of("X", acks, SEGMENT))
    assert drawing["green"][:2] == [(1, 1000, 1.5, 1000), (1.5, 1000, 1.5, 3000)]
    assert [line[1::2] for line in drawing["white"]] == [(3000, 3000), (3000, 5000), (5000, 5000), *[(5000, 5000)] * 3]
    assert [line[3] for line in drawing["yellow"][1::2]] == [7000, 6000, 6000]
    assert drawing["red"] == [(2.0, 3000.0, "R")]


def test_a_flow_without_an_ack_has_a_file():
    assert drawn(xplot.text_of("X", np.array([], ACKS), SEGMENT)) == {colour: [] for colour in xplot.COLOURS}


@pytest.mark.lab
def test_what_a_run_acknowledged_and_sent_again(scenario_file, tmp_path):
    """By the trace of a queue that is full, and by the receiver's count of bytes."""
    file = scenario_file(forward={"queue": 10})
    plain = run(file)
    p = asymlab("run", file, "--engine", "uml", "--xplot", tmp_path)
    assert p.returncode == 0 and "1 files for xplot in" in p.stderr, p.stderr
    assert store.find(plain.record["key"]).record["result_sha256"] == plain.record["result_sha256"]
    (name,) = tmp_path.glob("*.xpl")
    by_colour, acks = drawn(name.read_text()), plain.acks
    assert len(by_colour["green"]) == 2 * (len(acks) - 1) and by_colour["green"][-1][3] == acks["acked"].sum()
    received = plain.goodput["bytes"].sum()
    assert received - 100 * xplot.mss(plain.job) < by_colour["green"][-1][3] <= received
    assert 0 < len(by_colour["red"]) <= acks["retrans"].max()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=r"file/x: Not a directory$"):
        xplot.write(None, tmp_path / "file" / "x")
