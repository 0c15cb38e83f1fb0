# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of worst paths: it is what its data say, an interruption loses no search, and a row can be made again."""

from __future__ import annotations

import json
import statistics
from types import SimpleNamespace

import pytest

from asymlab import LabError
from asymlab.dossier import board
from asymlab.machine import image
from asymlab.plan import scenario
from asymlab.plan.toml import toml
from asymlab.report import jsonl
from asymlab.run.cost import survey
from asymlab.worst import box, table, worst
from asymlab.worst.aims import AIMS
from tests.shared import LAB, REPO, asymlab, one_line

PUBLISHED = REPO / "docs" / "results"
TINY = 'rate = ["2mbit", "2mbit"]\nrtt = ["10ms", "20ms"]\n'
NEUTRAL = {name: known.neutral for name, known in box.OF_NAME.items()}


def row(**changes) -> table.Row:
    about = {"controller": "reno", "aim": "goodput", "seed": 1, "paths": 11, "search": "a", "kernel": "6.12"}
    about |= {"image": "b"}
    return table.Row(**{**about, "value": 0.5, "path": {"rate": 2000.0, "rtt": 20.0}, "runs": ["f" * 12], **changes})


def cells(text: str, name: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| `{name}`"))
    return line.strip("| ").split(" | ")


def test_the_published_page_is_what_its_data_say():
    rows = table.read(PUBLISHED)
    assert table.text(rows) == (PUBLISHED / table.PAGE).read_text()
    of_board = {one["controller"] for one in board.read(PUBLISHED / "board.jsonl")}
    aims = {one: {row.aim for row in rows if row.controller == one} for one in of_board}
    assert {one for one, there in aims.items() if len(there) == 3} == of_board - {"accel_cubic"}  # a file of others
    assert all(row.series for row in rows)
    for aim in table.OF_ALL:
        assert f"]({table.picture_of(aim)})" in table.text(rows) and (PUBLISHED / table.picture_of(aim)).exists()


def test_each_published_path_is_a_scenario(tmp_path):
    for one in table.read(PUBLISHED):
        of = worst.question(one.controller, one.aim, None, one.paths, one.seed, None)
        (tmp_path / "a.toml").write_text(toml(of.tree(one.whole)))
        assert len(scenario.load(tmp_path / "a.toml")) == (2 if AIMS[one.aim].compares else 1)


def test_a_path_in_words():
    path = NEUTRAL | {"rate": 2570.0, "rtt": 44.4}
    assert table.words(path) == "2.57 Mbit/s, 44.4 ms, queue 1 BDP"
    odd = {"ratio": 3.0, "back_queue": 22, "loss": 0.5, "burst": 3.0, "jitter": 2.0, "reorder": 1.0, "uploads": 2}
    assert table.words(path | odd | {"change": 0.25, "ack": "every", "aqm": "codel"}).endswith(
        ", ACKs have 1/3, their queue 22, 0.5 % lost in bursts of 3, 2 ms of jitter, 2 uploads, rate x 0.25 half-way, "
        "an ACK a packet, codel"
    )
    assert table.words(path | {"reorder": 0.1, "burst": 8.0}).endswith("BDP, 0.1 % overtake")


def test_what_the_queue_dropped_was_sent():
    """100 of 400 packets were dropped, and 100 sent again."""
    way = {"packets": 300, "drops": 100}
    run = SimpleNamespace(metrics={"flows": [{"retransmits": 100}], "forward": way})
    assert AIMS["loss"].value([run], 1) == 0.75


def test_a_picture_shows_the_seed_whose_value_is_told():
    question = SimpleNamespace(of=SimpleNamespace(value=lambda runs, flows: runs[0]), flows=4)
    assert table.middle(question, [[0.9], [0.2], [0.3]]) == [0.3]


def test_values_are_told_as_bad_as_they_are():
    loss = AIMS["loss"]
    assert loss.shown(0.75) == 0.25 and AIMS["queue"].shown(0.25) == 4
    assert loss.near(0.74, 0.75, 0.1) and not loss.near(0.78, 0.75, 0.1)


def test_a_plainer_path_keeps_what_is_sent_again(monkeypatch):
    """A tenth of what is sent again may go, not of what is sent once: with 5 % any path would do."""

    class Lab:
        question = worst.question("reno", "loss", None, 1, 1, None)

        def values(self, paths):
            return [0.95 if paths[0]["aqm"] == "pie" else 1.0]

    odd = NEUTRAL | {"rate": 2000.0, "rtt": 20.0, "aqm": "pie", "ack": "every"}
    path, value = worst.plain(odd, 0.95, Lab())
    assert (path["aqm"], path["ack"], value) == ("pie", "delayed", 0.95)


def test_worse_ones_stand_first_and_second_searches_beside_them():
    rows = [row(), row(controller="vegas", value=0.1), row(seed=2, value=0.54), row(controller="vegas", seed=2)]
    text = table.text(rows)
    assert text.index("`vegas`") < text.index("`reno`")
    assert cells(text, "reno") == ["`reno`", "0.5", "0.54", "2 Mbit/s, 20 ms, queue 1 BDP", "f" * 12]
    assert "2 times: 1 come to within a tenth of the first search (goodput 1 of 2).\nSo the landscape is rugged" in text
    smooth = table.text([one.model_copy(update={"value": 0.3}) for one in rows])
    assert "2 come to within a tenth" in smooth and "rugged" not in smooth
    assert "Another seed" not in table.text(rows[:2])


@pytest.mark.parametrize(
    "changes, wrong",
    [({"aim": "x"}, "aim: "), ({"path": {"rate": 1.0}}, "path: "), ({"value": "x"}, "value: "), ({"more": 1}, "more")],
)
def test_a_line_that_is_no_search(tmp_path, changes, wrong):
    lines = [json.dumps(row().model_dump() | one) + "\n" for one in ({}, changes)]
    (tmp_path / table.DATA).write_text("".join(lines))
    with pytest.raises(LabError, match="worst.jsonl: line 2 is no search") as e:
        table.read(tmp_path)
    assert wrong in str(e.value) and "\n" not in str(e.value)


def test_each_controller_has_three_aims_and_each_third_another_seed():
    guest = image.open_image(LAB)
    asked = table.asked([], guest, 11, 1, None)
    first = [one for one in asked if one.seed == 1]
    names = list(dict.fromkeys(one.called for one in first))
    assert len(first) == 3 * len(names) and {"fast", "bbr3", "bbr", "cdg"} < set(names)
    assert [one.aim for one in first if one.called == "cubic"] == ["queue", "loss", "share"]
    second = [(one.called, one.aim) for one in asked if one.seed == 2]
    assert asked[: len(first)] == first and len(second) == len(names[::3]) * 3


@pytest.mark.lab
def test_a_table_goes_on_where_it_was_and_a_row_is_made_again(tmp_path, monkeypatch):
    guest = image.open_image(LAB)
    (tmp_path / "box.toml").write_text(TINY)
    questions = table.asked(["reno"], guest, 1, 1, tmp_path / "box.toml")[:2]
    searched = []

    def cut_short(lab):
        searched.append(lab.question.aim)
        if len(searched) == 2:
            raise KeyboardInterrupt
        return worst.find(lab)

    monkeypatch.setattr(table, "find", cut_short)
    with pytest.raises(KeyboardInterrupt):
        table.search_all(questions, guest, 1, tmp_path)
    assert [one.aim for one in table.read(tmp_path)] == ["goodput"]
    table.search_all(questions, guest, 1, tmp_path)
    table.search_all(questions, guest, 1, tmp_path)
    assert searched == ["goodput", "loss", "loss"] and (tmp_path / table.PAGE).read_text().count("`reno`") == 2
    table.search_all(table.asked(["reno"], guest, 2, 1, tmp_path / "box.toml")[:1], guest, 1, tmp_path)
    assert searched[3:] == ["goodput"] and [one.paths for one in table.read(tmp_path)] == [2]

    fresh = []
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    monkeypatch.setattr(worst, "survey", lambda tasks, anew: fresh.append(anew) or survey(tasks, anew))
    assert table.again("reno", "goodput", guest, 1) and fresh == [True]
    there = table.read(tmp_path)
    jsonl.write(tmp_path / table.DATA, [there[0].model_copy(update={"runs": ["0" * 12] * len(there[0].runs)})])
    assert not table.again("reno", "goodput", guest, 1)

    assert not table.all_again(guest, 1, tmp_path) and table.read(tmp_path)[0].runs[0] == "0" * 12
    jsonl.write(tmp_path / table.DATA, [one.model_copy(update={"series": {}, "image": "x"}) for one in there])
    assert table.all_again(guest, 1, tmp_path) and table.read(tmp_path) == there
    assert (tmp_path / table.picture_of("goodput")).read_bytes().startswith(b"\x89PNG")
    assert list(there[0].series) == ["reno", "cubic"] and 0 < statistics.mean(there[0].series["reno"]) <= 2
    jsonl.write(tmp_path / table.DATA, [one.model_copy(update={"kernel": "6.1"}) for one in there])
    assert table.all_again(guest, 1, tmp_path) and table.read(tmp_path)[0].kernel == "6.1"
    with pytest.raises(LabError, match="no search of reno for loss"):
        table.again("reno", "loss", guest, 1)


def test_what_is_asked_wrong():
    one_line(asymlab("worst", "reno", "cubic", "--image", LAB), "worst: one CONTROLLER; --table DIR takes many")
